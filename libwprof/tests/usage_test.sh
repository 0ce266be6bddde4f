# Wrong usage: exit code 2, one line that names what is wrong, nothing touched.

refused() # TEXT ARGUMENT...: exit 2 and TEXT on standard error
{
	text=$1; shift
	atf_check -s exit:2 -o empty -e match:"$text" \
		"$(atf_get_srcdir)/../../bin/wprof" "$@"
}

atf_test_case unknown_command
unknown_command_head()
{
	atf_set descr "No command, an unknown one and an unknown option are exit code 2"
}
unknown_command_body()
{
	refused 'Usage: wprof COMMAND'
	refused 'no such command: hott' hott
	refused 'unrecognized option' hot --frobnicate 1
	refused 'invalid option' record -Z 1
}

atf_test_case no_target
no_target_head()
{
	atf_set descr "A missing, doubled or garbage process is exit code 2"
}
no_target_body()
{
	for c in hot record criu-args top; do
		refused 'which process' $c
		refused 'not a process id: foo' $c foo
		refused 'not a process id: 0' $c 0
		refused 'not a process id: 12x' $c 12x
		refused 'not a process id: 99999999999' $c 99999999999
		refused 'one process id is enough' $c 1 2
		refused 'name the process once' $c 1 --service x
		refused 'a name is needed' $c --service ''
	done
	refused 'name the process once' record 1 -- true
	refused 'no command can be given' criu-args -- true
	refused 'a command follows --' record sleep
	refused 'which trace' report
	refused 'one trace is enough' report a b
}

atf_test_case out_of_range
out_of_range_head()
{
	atf_set descr "Every option outside its range is exit code 2 and says the range"
}
out_of_range_body()
{
	for v in 0 9 3600001 -5 x '' 1e3 10.5 99999999999999999999; do
		refused '10 to 3600000' hot 1 --interval="$v"
	done
	for v in 0 1 1.5 -0.3 nan inf x '' 0.3x; do
		refused 'above 0 and below 1' hot 1 --threshold="$v"
	done
	for v in 0 11 -1 x; do refused '1 to 10' hot 1 --consecutive="$v"; done
	for v in 0 65 x; do refused '1 to 64' hot 1 --window="$v"; done
	for v in 0 4096 63K 3M 2G vmas 2MB -2M; do
		refused "'vma' or a power of two" hot 1 --granularity="$v"
	done
	for v in Exact on ''; do refused "'exact' or 'sample'" hot 1 --arming="$v"; done
	for v in 0 -1 x 1e9 0.001; do refused 'seconds from' record 1 --duration="$v"; done
	for v in 0 1025; do refused '1 to 1024' record 1 --tree-max="$v"; done
	refused 'not both' record 1 --json --csv
	refused '1 to 1000000' report x --regions 0
	refused 'a process id' report x --process 0
}

atf_test_case help
help_head()
{
	atf_set descr "--help and --version work everywhere, exit code 0"
}
help_body()
{
	atf_check -o match:'criu-args' "$(atf_get_srcdir)/../../bin/wprof" --help
	atf_check -o match:'^wprof [0-9.]+$' "$(atf_get_srcdir)/../../bin/wprof" --version
	for c in record report hot criu-args top check images; do
		atf_check -o match:"Usage: wprof $c" "$(atf_get_srcdir)/../../bin/wprof" $c --help
		atf_check -o match:'^wprof ' "$(atf_get_srcdir)/../../bin/wprof" $c --version
	done
}

atf_test_case output_fails
output_fails_head()
{
	atf_set descr "A full standard output is exit code 1, said once"
}
output_fails_body()
{
	"$(atf_get_srcdir)/../../bin/wprof" --help > /dev/full 2> err
	atf_check_equal 1 $?
	atf_check -o inline:'wprof: standard output: No space left on device\n' cat err
}

atf_test_case help_fails
help_fails_head()
{
	atf_set descr "Each program's help and version on a full device is exit code 1, said once"
}
help_fails_body()
{
	bin=$(atf_get_srcdir)/../../bin
	for c in "$bin/wprof" "$bin/pctx" "$bin/wprof-ctl" "$bin/wprof-agent" "$bin/memwrite" \
		 "$bin/memory-alloc" "$bin/matmul" \
		 "$bin/wprof record" "$bin/wprof report" "$bin/wprof hot" "$bin/wprof criu-args" \
		 "$bin/wprof top" "$bin/wprof check" "$bin/wprof images" \
		 "$bin/pctx read" "$bin/pctx list" "$bin/pctx watch" "$bin/pctx run" \
		 "$bin/wprof-ctl watch"
	do
		for o in --help --version; do
			$c $o > /dev/full 2> err
			atf_check_equal "$c $o 1" "$c $o $?"
			atf_check_equal "$c $o 1" "$c $o $(grep -c 'No space left' err)"
			atf_check_equal "$c $o 1" "$c $o $(wc -l < err)"
			atf_check -o not-empty $c $o
		done
	done
	"$bin/../libexec/wprof-inject" --version > /dev/full 2> err
	atf_check_equal 1 $?
}

atf_init_test_cases()
{
	atf_add_test_case unknown_command
	atf_add_test_case no_target
	atf_add_test_case out_of_range
	atf_add_test_case help
	atf_add_test_case output_fails
	atf_add_test_case help_fails
}
