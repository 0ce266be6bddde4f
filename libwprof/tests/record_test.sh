# wprof record against real targets. How much a target writes in an interval
# depends on the machine's load, so what is compared is what must hold at any
# load: which memory, which lines, which end.
tools() { . "$(atf_config_get top)/libwprof/tests/targets.sh"; }

one_line() # FILE TEXT: FILE is one line that has TEXT
{
	atf_check_equal 1 "$(wc -l < "$1" | tr -d ' ')"
	atf_check -o match:"$2" cat "$1"
}

refused() # CODE TEXT ARGUMENT...
{
	code=$1; text=$2; shift 2
	atf_check -s exit:"$code" -o empty -e save:err wprof "$@"
	one_line err "$text"
}

case_with_targets() # NAME DESCR
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$2'; atf_set timeout 30; atf_set require.user root; }"
	eval "$1_cleanup() { tools; stop_all; }"
}

case_with_targets no_such_process 'A process that does not exist: exit 1, one line'
no_such_process_body()
{
	tools
	start true
	wait $pid
	refused 1 "$pid" record $pid --duration 0.1
	refused 1 "$pid" hot $pid
	refused 1 "$pid" criu-args $pid
}

case_with_targets kernel_thread 'A kernel thread is refused: exit 1, one line'
kernel_thread_body()
{
	tools
	[ "$(cat /proc/2/comm 2> /dev/null)" = kthreadd ] ||
		atf_skip 'no kernel thread to be seen from here'
	refused 1 'kernel thread' record 2 --duration 0.1
}

case_with_targets at_once 'Two profilers begin at the same moment: one has all of the memory, one may be refused'
at_once_body()
{
	tools
	memwrite_start at-once-$$ -s 2M
	for i in 1 2 3 4 5 6; do
		wprof record $pid --interval 20 --duration 0.1 -o one > one.out 2> one.err &
		first=$!
		wprof record $pid --interval 20 --duration 0.1 -o two > two.out 2> two.err
		set -- two:$?
		wait $first
		set -- "$@" one:$?
		case "$*" in
		*:0*) ;;
		*) atf_fail 'both were refused' ;;
		esac
		for r in "$@"; do
			case $r in
			*:0) jq -c 'select(.untracked_busy_bytes > 0)' ${r%:*} > part
				test ! -s part || atf_fail "$r has a part only: $(cat part)" ;;
			*:1) one_line ${r%:*}.err 'another profiler|already traced' ;;
			*) atf_fail "$r" ;;
			esac
		done
	done
	kill -0 $pid || atf_fail 'the target is gone'
}

case_with_targets traced 'A process that another tracer holds: exit 1, it lives on'
traced_body()
{
	tools
	start sleep 60
	target=$pid
	start strace -f -o /dev/null -p $target
	await grep -q "^TracerPid:.$pid" /proc/$target/status
	refused 1 'trace' record $target --duration 0.1
	kill -0 $target || atf_fail 'the target is gone'
}

case_with_targets not_permitted 'The process of another user: exit 1, one line'
not_permitted_body()
{
	tools
	memwrite_start other -s 1M
	atf_check -s exit:1 -o empty -e save:err \
		setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$(readlink -f "$bin/wprof")" record $pid --duration 0.1
	one_line err "$pid"
	kill -0 $pid || atf_fail 'the target is gone'
}

case_with_targets hidden 'A process that /proc hides: exit 1, and not that it has exited'
hidden_body()
{
	tools
	memwrite_start hidden -s 1M
	cat > script <<- EOF
		mount -t proc -o hidepid=\$1 proc /proc || exit 77
		as="setpriv --reuid=65534 --regid=65534 --clear-groups"
		\$as "$(readlink -f "$bin/wprof")" record $pid --duration 0.1
		echo \$?
		\$as "$(readlink -f "$bin/wprof")" check $pid | grep '^target  *no'
	EOF
	for hidepid in invisible ptraceable; do
		unshare --mount sh script $hidepid > out 2> err || atf_fail "$(cat out err)"
		atf_check -o inline:'1\n' head -n 1 out
		atf_check -o ignore grep "hides process $pid" out
		one_line err "hides process $pid"
	done
	kill -0 $pid || atf_fail 'the target is gone'
}

case_with_targets no_such_service 'A service nobody has published: exit 3, one line'
no_such_service_body()
{
	tools
	refused 3 'published the service name nobody-here' \
		record --service nobody-here
}

case_with_targets several_services 'Two processes with one service name: exit 1, both named'
several_services_body()
{
	tools
	memwrite_start twins-$$ -s 1M; first=$pid
	memwrite_start twins-$$ -s 1M; second=$pid
	refused 1 "2 processes .* $first $second" record --service twins-$$
}

case_with_targets bad_output 'An output that cannot be written: exit 1, target untouched'
bad_output_body()
{
	tools
	memwrite_start output-$$ -s 1M
	refused 1 'no/such/file' record $pid -o no/such/file
	refused 1 'No space left' record $pid --duration 1 -o /dev/full
	wprof record $pid --interval 50 --duration 1 --json > /dev/full 2> err
	atf_check_equal 1 $?
	one_line err 'No space left'
	kill -0 $pid || atf_fail 'the target is gone'
}

case_with_targets file_size_limit 'A limit on the size of files: exit 1, one line, whole lines up to there'
file_size_limit_body()
{
	tools
	memwrite_start limit-$$ -s 1M
	(ulimit -f 8 && exec "$bin/wprof" record $pid --interval 20 --duration 20 -o file 2> err)
	atf_check_equal 1 $?
	one_line err 'file: File too large'
	jq -e . file > /dev/null || atf_fail 'a line was cut short'
	test "$(grep -c '"type":"interval"' file)" -gt 1 || atf_fail 'no interval is there'
	atf_check_equal '' "$(tail -c 1 file)"
	atf_check -o match:'intervals' -e ignore wprof report file
	# what is executed has the usual end again
	(ulimit -f 1 && exec "$bin/wprof" record --duration 5 -o /dev/null -- \
		sh -c 'kill -XFSZ $$; touch survived') > /dev/null 2>&1
	test ! -e survived || atf_fail 'the command ignores SIGXFSZ'
	kill -0 $pid || atf_fail 'the target is gone'
}

case_with_targets closed_streams 'Without standard streams nothing but the trace gets into its file'
closed_streams_body()
{
	tools
	memwrite_start closed-$$ -s 1M
	wprof record $pid --interval 50 --duration 0.2 -o file <&- >&- 2>&-
	atf_check_equal 1 $?
	atf_check -o match:'"type":"end"' tail -n 1 file
	jq -e . file > /dev/null || atf_fail 'something else is in the file'
	# of a trace on standard output not even the header can be written
	wprof record $pid --interval 50 --duration 0.2 --json >&- 2> err
	atf_check_equal 1 $?
	one_line err 'Bad file descriptor'
	kill -0 $pid || atf_fail 'the target is gone'
}

case_with_targets second_profiler 'A second profiler of one target is told of the first: exit 1'
second_profiler_body()
{
	tools
	memwrite_start second-$$ -s 1M
	wprof record $pid --interval 50 -o file 2> /dev/null &
	recorder=$!
	await grep -q '"type":"interval"' file
	refused 1 'another profiler' record $pid --duration 0.1
	kill -INT $recorder
	wait $recorder
	atf_check_equal 0 $?
	atf_check -o match:'own cost' wprof record $pid --interval 50 --duration 0.1
}

case_with_targets command_missing 'A command that cannot be run: exit 1, one line'
command_missing_body()
{
	tools
	refused 1 'no-such-command cannot be run' record -- no-such-command
	refused 1 'cannot be run' record -- /
}

case_with_targets buffer_exact 'Each interval holds all 16384 pages and nothing else of size'
buffer_exact_head()
{
	atf_set descr 'Each interval holds all 16384 pages and nothing else of size'
	atf_set timeout 120
	atf_set require.user root
}
buffer_exact_body()
{
	tools
	memwrite_start exact-$$ --thp never
	# A thread's stack may lie in one VMA with the buffer: a few pages more. On a
	# machine under load the writer may not come round in every interval, nor in
	# any: then the intervals are made longer, until it does.
	for interval in 250 500 1000 2000 4000; do
		atf_check -o save:trace wprof record --service exact-$$ --interval $interval \
			--duration $((interval * 3 / 1000 + 1)) --json
		jq -e -s 'any(.[]; .written_pages >= 16384 and .type == "interval")' \
			trace > /dev/null && break
	done
	jq -e -s '
		[.[] | select(.type == "interval")] as $i |
		[$i[] | select(.written_pages >= 16384)] as $full |
		($i | length) >= 2 and ($full | length) >= 1 and
		all($i[]; .written_pages < 16384 + 64) and
		all($full[]; ([.vmas[] | select(.written_pages >= 16384)] | length) == 1) and
		all($full[]; ([.runs[][1]] | max) >= 16384) and
		all($i[]; ([.runs[][1]] | add) == .written_pages) and
		([$i[].number] == [range(1; ($i | length) + 1)])
	' trace > /dev/null || atf_fail "$(tail -n 1 trace)"
}

case_with_targets trace_lines 'Header first with the context, layout before intervals, end last'
trace_lines_body()
{
	tools
	memwrite_start lines-$$ -s 4M
	atf_check -o match:'own cost' wprof record $pid --interval 50 --duration 0.5 -o file
	jq -e -s --arg pid $pid --arg service lines-$$ '
		.[0].format == "wprof.trace" and .[0].version == 1 and
		.[0].pid == ($pid | tonumber) and .[0].command == "memwrite" and
		.[0].interval_ms == 50 and .[0].hot_threshold == 0.3 and
		(.[0].context.resource.attributes | any(.value.stringValue == $service)) and
		.[1].type == "layout" and .[2].type == "interval" and
		.[-1].type == "end" and .[-1].reason == "duration" and
		.[-1].intervals == ([.[] | select(.type == "interval")] | length) and
		.[-1].cost.scan_ns > 0
	' file > /dev/null || atf_fail "$(tail -n 1 file)"
}

case_with_targets interrupted 'SIGINT ends a recording with a whole file and exit 0'
interrupted_body()
{
	tools
	memwrite_start signal-$$ -s 1M
	wprof record $pid --interval 50 -o file 2> /dev/null &
	recorder=$!
	await grep -q '"type":"interval"' file
	kill -INT $recorder
	wait $recorder
	atf_check_equal 0 $?
	atf_check -o match:'"reason":"interrupted"' tail -n 1 file
	kill -0 $pid || atf_fail 'the target is gone'
}

case_with_targets target_exits 'A target that exits meanwhile: marked ended, exit 0'
target_exits_body()
{
	tools
	memwrite_start exits-$$ -s 1M
	wprof record $pid --interval 50 -o file 2> /dev/null &
	recorder=$!
	await grep -q '"type":"interval"' file
	kill -KILL $pid
	wait $recorder
	atf_check_equal 0 $?
	atf_check -o match:'"reason":"ended"' tail -n 1 file
	jq -e -s '[.[] | select(.ended)] | length == 1' file > /dev/null || atf_fail 'not ended'
}

case_with_targets command_recorded 'A command is recorded until it exits, then exit 0'
command_recorded_body()
{
	tools
	atf_check -o save:trace -e ignore wprof record --interval 50 --json -- \
		memwrite -s 1M -d 0.5
	jq -e -s '.[0].command == "memwrite" and .[-1].reason == "ended" and
		([.[] | select(.type == "interval") | .written_pages] | add) >= 256' \
		trace > /dev/null || atf_fail "$(tail -n 1 trace)"
	atf_check -o match:'"reason":"ended"' wprof record --json -- true
}

case_with_targets command_ended 'A command that outlives the recording is asked to end'
command_ended_body()
{
	tools
	atf_check -o save:trace -e ignore \
		wprof record --interval 50 --duration 0.3 --json -- memwrite -s 1M -d 60
	jq -s -r '.[-1].reason, .[0].pid' trace > said
	atf_check -o inline:'duration\n' head -n 1 said
	kill -0 "$(tail -n 1 said)" 2> /dev/null && atf_fail 'it still runs'
	true
}

case_with_targets command_executes 'A command that is a wrapper is followed into what it runs'
command_executes_body()
{
	tools
	mkfifo go
	wprof record --interval 50 -o file -- \
		sh -c 'read -r x < go; exec memwrite -s 1M -d 0.5' > out 2>&1 &
	recorder=$!
	await grep -q '"type":"interval"' file
	echo > go
	wait $recorder
	atf_check_equal 0 $?
	jq -e -s '.[0].command == "sh" and .[-1].reason == "ended" and
		any(.[]; .type == "process" and .parent_pid == 0 and .command == "memwrite") and
		any(.[]; .type == "interval" and .written_pages >= 256)' file > /dev/null ||
		atf_fail "$(tail -n 1 file)"
	atf_check -o match:'^recorded' wprof report file
}

case_with_targets exec_ends 'A target that executes another program: reason execed'
exec_ends_body()
{
	tools
	mkfifo go
	start sh -c 'echo > ready; read -r x < go; exec sleep 60'
	await test -e ready
	wprof record $pid --interval 50 -o file 2> /dev/null &
	recorder=$!
	await grep -q '"type":"interval"' file
	echo > go
	wait $recorder
	atf_check_equal 0 $?
	atf_check -o match:'"reason":"execed"' tail -n 1 file
}

case_with_targets csv 'CSV has a header and a row for each written mapping'
csv_body()
{
	tools
	memwrite_start csv-$$ -s 1M
	atf_check -o save:rows -e match:'own cost' \
		wprof record $pid --interval 200 --duration 1 --csv
	atf_check -o inline:'pid,interval,start_ns,length_ns,start,end,type,name,written_pages,populated_pages,estimated\n' head -n 1 rows
	awk -F, -v pid=$pid 'NR > 1 && (NF != 11 || $1 != pid || $5 !~ /^0x/) { exit 1 }' rows ||
		atf_fail "a row is no row"
	atf_check -o match:',anonymous,,[0-9]+,[0-9]+,false$' cat rows
}

case_with_targets soft_dirty 'Soft-dirty state is read beside; a kernel without it: exit 3'
soft_dirty_body()
{
	tools
	memwrite_start soft-$$ -s 1M
	wprof check --json > facts
	if jq -e '.facts | any(.name == "soft_dirty" and .state == "yes")' facts > /dev/null; then
		atf_check -o save:trace -e match:'loses pages' wprof record $pid \
			--clear-soft-dirty --interval 200 --duration 1 --json
		jq -e -s '[.[] | select(.type == "interval")] | all(.[];
			([.soft_dirty_runs[][1]] | add // 0) == .soft_dirty_pages) and
			any(.[]; .soft_dirty_pages >= 256)' trace > /dev/null ||
			atf_fail "$(tail -n 1 trace)"
	else
		refused 3 '[Ss]oft.*dirty' record $pid --soft-dirty --duration 1
	fi
	atf_check -o save:trace wprof record $pid --interval 50 --duration 0.2 --json
	atf_check -s exit:1 grep -q soft_dirty trace
}

case_with_targets rude_name 'Control characters in the name of a target do not reach the terminal'
rude_name_body()
{
	tools
	mkfifo never
	start sh -c 'printf "\033[31mrude" > /proc/$$/comm; echo > ready; read -r x < never'
	await test -e ready
	atf_check -o save:out wprof record $pid --interval 20 --duration 0.1
	atf_check -o match:'^.\[31mrude.? \(pid' cat out
	wprof hot $pid --interval 20 >> out
	LC_ALL=C grep -q "$(printf '\033')" out && atf_fail 'an escape character is printed'
	true
}

case_with_targets table 'Without a format people get a table, and what it cost'
table_body()
{
	tools
	memwrite_start table-$$ -s 4M
	atf_check -o save:table wprof record $pid --interval 50 --duration 0.3
	atf_check -o match:'TIME +WRITTEN' head -n 1 table
	atf_check -o match:'memwrite \(pid [0-9]+, service table-' cat table
	atf_check -o match:'own cost: .* scanning' cat table
	COLUMNS=20; export COLUMNS
	atf_check -o save:table wprof record $pid --interval 50 --duration 0.3
	sed '/own cost/d; /memwrite/d; /not tracked/d' table | awk 'length($0) > 20 { exit 1 }' ||
		atf_fail "too wide"
}


atf_init_test_cases()
{
	for c in no_such_process kernel_thread traced not_permitted hidden no_such_service \
		several_services bad_output file_size_limit closed_streams \
		second_profiler at_once command_missing buffer_exact trace_lines interrupted \
		target_exits command_recorded command_ended command_executes exec_ends csv soft_dirty rude_name table; do
		atf_add_test_case $c
	done
}
