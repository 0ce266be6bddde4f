# real.sh: what the tests with real programs share. Sourced in a body.
#
# Every case does the same: start the program, put it under load, record it for
# 10 s, see that the program's results are right and that it ends as ever, and
# judge the profile by the file bounds. The reports are kept beside the results,
# to be looked at.
src=$(atf_config_get top)/libwprof/tests/real
kept=$(atf_get_srcdir)
PATH=$kept/../../../bin:$PATH

# started NAME COMMAND...: run it in the background, its output in NAME.log
started()
{
	name=$1; shift
	"$@" > "$name.log" 2>&1 < /dev/null &
	echo $! > "$name.pid"
}

pid_of() { cat "$1.pid"; }

# await COMMAND...: until it succeeds; fails after a minute
await()
{
	tries=0
	until "$@" > /dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || atf_fail "in vain: $*; $(tail -n 3 ./*.log)"
		sleep 0.1
	done
}

# ended NAME: it ends by itself now, with 0
ended()
{
	wait "$(pid_of "$1")" || atf_fail "$1 ended with $?: $(tail -n 5 "$1.log")"
	rm "$1.pid"
}

# in a cleanup routine
stop_all()
{
	for f in *.pid; do
		[ ! -e "$f" ] || kill "$(cat "$f")" 2> /dev/null
	done
	[ ! -e directory ] || rm -rf "$(cat directory)"
	true
}

# own_directory USER: $dir, which that user may use too; stop_all removes it
own_directory()
{
	dir=$(mktemp -d "${TMPDIR:-/tmp}/procscope-real.XXXXXX")
	echo "$dir" > directory
	chmod 755 "$dir"
	[ "$(id -u)" != 0 ] || chown "$1" "$dir"
}

# profiled PROGRAM PID [OPTION...]: record it for 10 s, judge, keep the report
profiled()
{
	program=$1 target=$2; shift 2
	atf_check -o ignore -e ignore wprof record "$target" --interval 1000 --duration 10 "$@" \
		-o trace.jsonl
	atf_check -o save:report.json wprof report --json trace.jsonl
	busiest=$(jq '.regions[0].pid' report.json)
	atf_check -o save:"$kept/$program.report" env COLUMNS=100 \
		wprof report --process "$busiest" --svg "$kept/$program.svg" trace.jsonl
	! readlink "/proc/$target/fd/"* | grep -q userfaultfd || atf_fail 'a userfaultfd was left'
	judged
}

jq_words='def median: sort | .[length / 2 | floor] // 0;
	def address: ltrimstr("0x") | explode |
		reduce .[] as $c (0; . * 16 + if $c > 96 then $c - 87 else $c - 48 end);
	def mib: . / 1048576 | floor;'

# figures: most MiB hot, MiB written, intervals, and type of the memory most written
figures()
{
	jq -sr --slurpfile report report.json "$jq_words"'
		.[0].page_bytes as $page | map(select(.type == "interval")) | group_by(.number) |
		[(map([.[].hot[] | (.end | address) - (.start | address)] | add // 0) |
			max | mib),
		 (map(map(.written_pages * $page) | add) | median | mib),
		 length, $report[0].regions[0].type] | map(tostring) | join(" ")' "$@"
}

# judged: the profile is whole, and within the bounds of the program
judged()
{
	atf_check -o ignore jq -e '.complete and .reason == "duration" and .intervals >= 9 and
		.elapsed_ns > 9e9 and .written_pages > 0 and (.regions | length) > 0 and
		([.regions[].share] | add) > 0.99 and ([.regions[].share] | add) < 1.01' report.json
	atf_check -o match:'own cost' -o match:'pages written per interval' cat "$kept/$program.report"
	atf_check -o match:'<svg' cat "$kept/$program.svg"
	figures trace.jsonl > sums || atf_fail 'the trace cannot be summed up'
	read -r hot written _ most_in < sums
	sed 's/#.*//' "$src/bounds" | grep "^$program " > bounds
	read -r _ least most least_written where < bounds
	printf '%-10s %5s MiB hot (%s to %s), %5s MiB written an interval, most in %s\n' "$program" \
		"$hot" "$least" "$most" "$written" "$most_in" > "$kept/$program.figures"
	cat "$kept/$program.figures"
	[ "$hot" -ge "$least" ] && [ "$hot" -le "$most" ] ||
		atf_fail "$hot MiB are hot, not $least to $most"
	[ "$written" -ge "$least_written" ] ||
		atf_fail "$written MiB written an interval, not at least $least_written"
	echo "$most_in" | grep -qxE "$where" || atf_fail "most is written in $most_in, not in $where"
}
