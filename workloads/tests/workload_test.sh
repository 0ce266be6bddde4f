# What the workloads say about themselves, and what they refuse. That they write
# what they say is shown by profiling them (libwprof/tests).
bin=$(atf_get_srcdir)/../../bin

atf_test_case options__refused
options__refused_head()
{
	atf_set "descr" "Garbage on the command line is wrong usage: exit code 2"
	atf_set "timeout" "20"
}
options__refused_body()
{
	for args in --nonsense "--size 1" "--size 64X" "--threads 0" "--rate -5" \
		"--duration 1e99" "--pattern wavy" "--thp maybe" "extra" "--size"; do
		# shellcheck disable=SC2086 # several words on purpose
		atf_check -s exit:2 -o empty -e match:memwrite "$bin/memwrite" $args
	done
	# what a program would not heed
	atf_check -s exit:2 -e match:'another workload' "$bin/matmul" --pattern zipf
	atf_check -s exit:2 -e match:'another workload' "$bin/memory-alloc" --stride 4
	atf_check -s exit:2 -e match:'another workload' "$bin/memwrite" --period 10
}

atf_test_case memwrite__truth_of_limit
memwrite__truth_of_limit_head()
{
	atf_set "descr" "memwrite --limit writes exactly so much and says which pages"
	atf_set "require.progs" "jq"
	atf_set "timeout" "20"
}
memwrite__truth_of_limit_body()
{
	atf_check -o save:truth "$bin/memwrite" --size 1M --limit 100K
	atf_check -o inline:'102400 25 25 4096\n' jq -r '"\(.bytes_written) \(.written_pages) " +
		"\(.buffers[0].written[0].pages) \(.page_bytes)"' truth
	atf_check -o inline:'true\n' jq \
		'.buffers[0].written[0].start == .buffers[0].start' truth
}

atf_test_case memwrite__same_seed_same_truth
memwrite__same_seed_same_truth_head()
{
	atf_set "descr" "The same seed writes the same pages, another seed others"
	atf_set "require.progs" "jq"
	atf_set "timeout" "20"
}
memwrite__same_seed_same_truth_body()
{
	for seed in 1 1 2; do
		"$bin/memwrite" --size 4M --limit 400K --pattern uniform --seed $seed |
			jq -c '[.buffers[0].written[].pages]' >> pages || atf_fail "memwrite"
	done
	atf_check -o inline:'2\n' sh -c 'sort -u pages | wc -l'
}

atf_test_case memwrite__usr1_begins_anew
memwrite__usr1_begins_anew_head()
{
	atf_set "descr" "SIGUSR1 prints the truth so far; the next one tells only what is new"
	atf_set "require.progs" "jq"
	atf_set "timeout" "20"
}
memwrite__usr1_begins_anew_body()
{
	mkfifo truth
	# the first report can only show the pages written at 1 MiB a second
	"$bin/memwrite" --size 64M --rate 1M > truth &
	pid=$!
	exec 3< truth
	until [ "$(awk '/^State/ { print $2 }' /proc/$pid/status)" = S ] &&
		grep -q ' OTEL_CTX\|OTEL_CTX' /proc/$pid/maps; do :; done
	for round in 1 2; do
		kill -USR1 $pid
		read -r line <&3
		echo "$line" | jq -e '.written_pages < 16384' > /dev/null ||
			atf_fail "round $round: $line"
	done
	kill -INT $pid
	read -r line <&3
	echo "$line" | jq -e '.workload == "memwrite" and .bytes_written > 0' > /dev/null ||
		atf_fail "last: $line"
	wait $pid || atf_fail "exit code $?"
}

atf_test_case memory_alloc__new_block_each_period
memory_alloc__new_block_each_period_head()
{
	atf_set "descr" "memory-alloc fills a new block each period and keeps eight"
	atf_set "require.progs" "jq"
	atf_set "timeout" "20"
}
memory_alloc__new_block_each_period_body()
{
	atf_check -o save:truth "$bin/memory-alloc" --size 64K --period 1 --limit 1280K
	atf_check -o inline:'8 128 1310720\n' jq -r \
		'"\(.buffers | length) \(.written_pages) \(.bytes_written)"' truth
}

atf_test_case matmul__writes_result
matmul__writes_result_head()
{
	atf_set "descr" "matmul writes its two inputs once and its result each round"
	atf_set "require.progs" "jq"
	atf_set "timeout" "30"
}
matmul__writes_result_body()
{
	# 64 x 64 doubles are 32 KiB; two rounds of results
	for threads in 1 3; do
		atf_check -o save:truth "$bin/matmul" --size 32K --limit 64K --threads $threads
		atf_check -o inline:'3 24 163840\n' jq -r \
			'"\(.buffers | length) \(.written_pages) \(.bytes_written)"' truth
	done
}

atf_test_case workload__publishes
workload__publishes_head()
{
	atf_set "descr" "Each workload, and each child of --fork, publishes its own context"
	atf_set "require.progs" "jq"
	atf_set "timeout" "20"
}
workload__publishes_body()
{
	"$bin/memwrite" --size 1M --rate 1M --fork 1 --service two-of-them > truth &
	pid=$!
	for _ in $(seq 200); do
		"$bin/pctx" list --json > list 2> /dev/null
		grep -c two-of-them list > count
		[ "$(cat count)" -ge 2 ] && break
		sleep 0.05
	done
	kill -INT $pid
	wait $pid || atf_fail "exit code $?"
	atf_check -o inline:'2\n' cat count
}

atf_test_case workload__named_by_pctx_run
workload__named_by_pctx_run_head()
{
	atf_set "descr" "Under pctx run a workload keeps the name that was given there"
	atf_set "timeout" "20"
}
workload__named_by_pctx_run_body()
{
	"$bin/pctx" run --attr service.name=other-name -- "$bin/memwrite" --size 1M --hold \
		> truth &
	pid=$!
	until "$bin/pctx" read $pid > context 2> /dev/null; do
		kill -0 $pid || atf_fail "memwrite ended"
		sleep 0.02
	done
	atf_check -o match:other-name cat context
	# its worker waits and its signals are blocked: it is ready to be ended
	until [ "$(ls /proc/$pid/task | wc -l)" = 2 ]; do sleep 0.02; done
	kill -INT $pid
	wait $pid || atf_fail "exit code $?"
}

atf_init_test_cases()
{
	atf_add_test_case options__refused
	atf_add_test_case memwrite__truth_of_limit
	atf_add_test_case memwrite__same_seed_same_truth
	atf_add_test_case memwrite__usr1_begins_anew
	atf_add_test_case memory_alloc__new_block_each_period
	atf_add_test_case matmul__writes_result
	atf_add_test_case workload__publishes
	atf_add_test_case workload__named_by_pctx_run
}
