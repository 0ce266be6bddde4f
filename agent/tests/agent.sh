# agent.sh: what the tests of the agent share. Sourced in a body.
bin=$(atf_get_srcdir)/../../bin
top=$(atf_config_get top)
PATH=$bin:$PATH
address=unix:$PWD/a.sock

# start NAME COMMAND...: run it in the background, remember it for stop_all
start()
{
	name=$1; shift
	: > "$name.err" # now: what an earlier one said must not be taken for its word
	"$@" > "$name.out" 2> "$name.err" &
	pid=$!
	echo $pid >> pids
}

# await COMMAND...: try it again until it succeeds; fail after 10 seconds
await()
{
	tries=0
	until "$@" > /dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 500 ] || { cat ./*.err; atf_fail "in vain: $*"; }
		sleep 0.02
	done
}

# agent_start [OPTION...]: an agent in $agent, once it serves
agent_start()
{
	# the time is so long that only what hangs exceeds it, on a busy machine too
	start agent wprof-agent --listen "$address" --stop-timeout 20000 "$@"
	agent=$pid
	await grep -q 'msg="ready"' agent.err
}

# agent_stop: it ends by SIGTERM, in good order, and leaves no socket
agent_stop()
{
	kill -TERM $agent
	wait $agent || { rc=$?; cat agent.err; atf_fail "the agent ended with $rc"; }
	grep -q 'msg="ended"' agent.err || { cat agent.err; atf_fail 'the agent did not end well'; }
	[ ! -e a.sock ] || atf_fail 'the socket stayed'
}

# memwrite_start [OPTION...]: in $target, once its context is there
memwrite_start()
{
	service=agent-$$
	start target memwrite --service "$service" -s 16M -d 60 "$@"
	target=$pid
	await grep -q OTEL_CTX "/proc/$target/maps"
}

ctl() # COMMAND...: the client, connected to the agent of this test
{
	command=$1; shift
	wprof-ctl "$command" --connect "$address" "$@"
}

js() # SCENARIO [ARGUMENT...]: the independent client
{
	[ -d "$(atf_get_srcdir)/node_modules/@grpc" ] ||
		atf_fail "no independent client: $(cat "$(atf_get_srcdir)/node_modules.why" 2>&1)"
	atf_check -o ignore env NODE_NO_WARNINGS=1 NODE_PATH="$(atf_get_srcdir)/node_modules" \
		node "$top/agent/tests/node/client.js" "$top" "$address" "$@"
}

# standin: ./criu, in CRIU's place. It lays down images: as many pages as the next
# line of the file pages says (up to 127), else none. Its final dump ends the process.
# While the file fail is there it fails, at the pages when that is not empty. The files
# at.pre-dump, at.dump and at.dump-running are scripts for the end of such a dump.
standin()
{
	mkdir images
	cat > criu <<- 'END'
		#!/bin/sh
		[ "$1" != --help ] || exit 0
		how=$1
		echo "$@" >> criu.args
		while [ $# -gt 0 ]; do
			case $1 in -t) t=$2 ;; -D) d=$2 ;; --prev-images-dir) p=$2 ;; -o) o=$2 ;;
			--leave-running) how=$how-running ;; esac; shift
		done
		echo "(00.1) Error (criu/x.c:1): no luck" > "$o"
		[ ! -e hold ] || { : > held; read -r line < hold; }
		[ ! -s fail ] || : > "$d/pages-1.img"
		[ ! -e fail ] || exit 1
		n=$(head -n 1 pages 2> /dev/null) || n=
		[ -z "$n" ] || { sed 1d pages > rest; mv rest pages; }
		printf '\26\61\61\130\4\0\0\0\10\1\100\1' > "$d/inventory.img"
		printf '\31\103\126\124\45\100\10\126\2\0\0\0\10\1' > "$d/pagemap-$t.img"
		: > "$d/pages-1.img"
		if [ "${n:-0}" -gt 0 ]; then
			printf '\10\0\0\0\10\200\200\4\20'"\\$(printf %o "$n")"'\40\4' >> "$d/pagemap-$t.img"
			head -c $((n * 4096)) /dev/urandom > "$d/pages-1.img"
		fi
		[ $how = pre-dump ] || : > "$d/pstree.img"
		[ -z "$p" ] || ln -s "$p" "$d/parent"
		[ ! -e at.$how ] || . ./at.$how
		[ $how != dump ] || kill -KILL "$t"
	END
	chmod 755 criu
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
