# targets.sh: what the tests of the wprof program share. Sourced in a body.
bin=$(atf_get_srcdir)/../../bin
PATH=$bin:$PATH

# start COMMAND...: run it in the background, remember it for stop_all
start()
{
	"$@" > out.$# 2> err.$# &
	pid=$!
	echo $pid >> pids
}

# await COMMAND...: try it again until it succeeds; fail after 10 seconds
await()
{
	tries=0
	until "$@" > /dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 500 ] || atf_fail "in vain: $*"
		sleep 0.02
	done
}

# memwrite_start SERVICE [OPTION...]: in $pid, once its context is there
memwrite_start()
{
	name=$1; shift
	start memwrite --service "$name" -d 60 "$@"
	await grep -q OTEL_CTX "/proc/$pid/maps"
}

# in a cleanup routine
stop_all()
{
	[ ! -e pids ] || while read -r p; do
		kill -CONT "$p" 2> /dev/null
		kill -KILL "$p" 2> /dev/null
	done < pids
	true
}
