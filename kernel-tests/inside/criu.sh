# criu.sh - what criu_test and programs_test share. Sourced in bodies and cleanups.

# criu: the command of this machine's CRIU, by the version in the case's name
criu_of()
{
	case $1 in 3_17) criu=criu-bookworm ;; 4_1) criu=criu-trixie ;; 4_2) criu=criu-sid ;; esac
}

# setup VERSION
setup()
{
	criu_of "$1"
	build=$(cd "$(atf_get_srcdir)/../.." && pwd)
	PATH=$build/bin:$build/bench:$build/kernel-tests/inside:$build/libwprof/tests:$PATH
	mkdir images
}

# await COMMAND...: until it succeeds, a minute at most: guests are slow
await()
{
	tries=0
	until "$@" > /dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || atf_fail "in vain: $*"
		sleep 0.1
	done
}

# start COMMAND...: in $pid, a session of its own as CRIU wants it. The kernel
# itself writes to rseq areas at each return to a program: without them.
start()
{
	GLIBC_TUNABLES=glibc.pthread.rseq=0 setsid "$@" < /dev/null > /dev/null 2> err &
	pid=$!
	echo $pid >> pids
}

end_it()
{
	kill -KILL "$1"
	wait "$1" 2> /dev/null
	await test ! -e "/proc/$1"
}

finish() { [ ! -e pids ] || while read -r p; do kill -KILL "$p" 2> /dev/null; done < pids; true; }

# dump HOW LEVEL [OPTION...]: HOW is pre-dump or dump
dump()
{
	how=$1 level=$2; shift 2
	mkdir "images/$level"
	prev=''
	[ "$level" = 1 ] || prev="--prev-images-dir ../$((level - 1))"
	# shellcheck disable=SC2086 # words
	"$criu" "$how" -t "$pid" -D "images/$level" -v4 -o log --track-mem $prev "$@"
}

dump_ok()
{
	dump "$@" || { grep -h Error "images/$2/log" | head -n 5; atf_fail "$1 $2 failed"; }
}

restore_ok()
{
	"$criu" restore -d -D "images/$1" -v4 -o "$PWD/restore.log" ||
		{ grep -h Error restore.log | head -n 5; atf_fail "restore failed"; }
}

snap() { images_target snap "$pid" > "$1" && [ "$(wc -l < "$1")" -gt 50 ] || atf_fail "no snapshot $1"; }

same_memory()
{
	cmp before after || {
		diff before after | head -n 5
		atf_fail "memory differs in $(diff before after | grep -c '^<') pages"
	}
	echo "$(wc -l < after) pages equal"
}

# ---- a profiler through pre-dump, pre-dump, dump, restore ------------------------

intervals() { grep -c '"type": *"interval"' trace; }
more_intervals() { [ "$(intervals)" -gt "$seen" ]; }
another_interval() { seen=$(intervals); await more_intervals; }

stopped() { grep -q '^State:.T' "/proc/$pid/status"; }

# through_dumps: of $pid, while wprof record runs; stopped for the comparison
through_dumps()
{
	wprof record "$pid" --interval 250 --duration 300 -o trace > said 2>&1 &
	recorder=$!
	echo $recorder >> pids
	seen=1 await more_intervals
	dump_ok pre-dump 1
	another_interval
	dump_ok pre-dump 2
	another_interval
	kill -STOP "$pid"
	await stopped
	snap before
	dump_ok dump 3
	wait $recorder || atf_fail "wprof record: $(cat said)"
	restore_ok 3
	snap after
	same_memory
}

# the trace is whole, no interval is missing, and it goes on after each dump
trace_is_whole()
{
	jq -se '.[-1].type == "end" and .[-1].reason == "ended" and
		([.[] | select(.type == "interval") | .number] | . == [range(1; length + 1)]) and
		([.[] | select(.type == "interval" and .written_pages > 0)] | length >= 4)' trace > /dev/null ||
		{ tail -n 1 trace; atf_fail "the trace is not whole"; }
}

# record_program COMMAND...
record_program()
{
	start "$@"
	await test -d "/proc/$pid"
	sleep 1 # until it writes
	through_dumps
	trace_is_whole
	# and what was restored can be profiled again
	kill -CONT "$pid"
	wprof record "$pid" --interval 250 --duration 1 -o again > said 2>&1 || atf_fail "again: $(cat said)"
	jq -se 'map(select(.type == "interval").written_pages) | add > 0' again > /dev/null ||
		atf_fail "nothing written after the restore"
}

