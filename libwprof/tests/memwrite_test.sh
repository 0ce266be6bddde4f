# The profile of memwrite against its own ground truth, page for page.
bin=$(atf_get_srcdir)/../../bin

# start_memwrite OPTION...: leaves its PID in memwrite.pid, its truth in truth
start_memwrite()
{
	"$bin/memwrite" "$@" > truth &
	echo $! > memwrite.pid
	until "$bin/pctx" read "$!" > /dev/null 2>&1; do
		kill -0 "$!" || atf_fail "memwrite did not start"
		sleep 0.02
	done
}

end_memwrite()
{
	kill -INT "$(cat memwrite.pid)"
	wait "$(cat memwrite.pid)" || atf_fail "memwrite ended with $?"
}

# An emulated processor writes less: there the buffer is smaller.
size() { [ -z "$(atf_config_get kernel '')" ] && echo 64M || echo 8M; }
n_pages() { [ "$(size)" = 64M ] && echo 16384 || echo 2048; }

kill_all()
{
	for p in memwrite record; do
		[ ! -e $p.pid ] || kill "$(cat $p.pid)" 2> /dev/null || :
	done
}

# The pages of [start, pages] runs on standard input that lie in the buffer.
in_buffer()
{
	jq -r '.buffers[0] | "\(.start) \(.end)"' truth > buffer
	python3 -c '
import json, sys
low, high = (int(x, 16) for x in open("buffer").read().split())
pages = set()
for run in json.load(sys.stdin):
    first = int(run[0], 16)
    pages.update(a for a in range(first, first + 4096 * run[1], 4096) if low <= a < high)
print("\n".join(map(hex, sorted(pages))))'
}

atf_test_case memwrite__each_interval_whole cleanup
memwrite__each_interval_whole_head()
{
	atf_set "descr" "Each interval reports all 16,384 pages of the buffer and nothing " \
			"else of size"
	atf_set "require.progs" "jq python3"
	atf_set "timeout" "60"
}
memwrite__each_interval_whole_body()
{
	start_memwrite --size "$(size)"
	atf_check -o ignore -e ignore "$bin/wprof" record "$(cat memwrite.pid)" \
		--interval 1000 --duration 4 -o trace.jsonl
	end_memwrite
	jq -r '.buffers[0] | "\(.start) \(.end)"' truth > buffer
	atf_check -o match:'^4 ' python3 -c '
import json, sys
n_pages = int(sys.argv[1])
low, high = (int(x, 16) for x in open("buffer").read().split())
intervals = [l for l in map(json.loads, open("trace.jsonl")) if l.get("type") == "interval"]
for i in intervals:
    inside = sum(min(high, int(s, 16) + 4096 * n) - max(low, int(s, 16)) for s, n in i["runs"]
                 if int(s, 16) < high and int(s, 16) + 4096 * n > low) // 4096
    assert inside == n_pages, (i["number"], inside)
    assert i["written_pages"] - inside < 16, (i["number"], i["written_pages"])
print(len(intervals), "intervals")' "$(n_pages)"
}
memwrite__each_interval_whole_cleanup() { kill_all; }

atf_test_case memwrite__page_for_page cleanup
memwrite__page_for_page_head()
{
	atf_set "descr" "What was recorded is what memwrite says it wrote, page for page, " \
			"for each pattern"
	atf_set "require.progs" "jq python3"
	atf_set "timeout" "120"
}
memwrite__page_for_page_body()
{
	for pattern in uniform zipf stride phases; do
		start_memwrite --size "$(size)" --hold --limit $(($(n_pages) * 3 / 2))K --pattern $pattern --seed 5 --threads 2
		"$bin/wprof" record "$(cat memwrite.pid)" --interval 100 --duration 600 \
			-o trace.jsonl > record.log 2>&1 &
		echo $! > record.pid
		until grep -q '"type":"interval"' trace.jsonl 2> /dev/null; do sleep 0.02; done
		kill -USR1 "$(cat memwrite.pid)"
		# all written: the worker threads are gone
		while [ "$(ls "/proc/$(cat memwrite.pid)/task" | wc -l)" -gt 1 ]; do sleep 0.02; done
		intervals=$(grep -c '"type":"interval"' trace.jsonl)
		until [ "$(grep -c '"type":"interval"' trace.jsonl)" -ge $((intervals + 2)) ]; do
			sleep 0.02
		done
		kill -INT "$(cat record.pid)"
		wait "$(cat record.pid)" || atf_fail "record: $(cat record.log)"
		end_memwrite

		jq -c '[.buffers[0].written[] | [.start, .pages]]' truth | in_buffer > wrote
		jq -sc '[.[] | select(.type == "interval") | .runs[]]' trace.jsonl |
			in_buffer > recorded
		atf_check -o not-empty cat wrote
		atf_check -o empty diff wrote recorded
		rm trace.jsonl
	done
}
memwrite__page_for_page_cleanup() { kill_all; }

atf_test_case memwrite__hot_is_the_buffer cleanup
memwrite__hot_is_the_buffer_head()
{
	atf_set "descr" "What is hot in memwrite is its buffer, and so is what CRIU shall leave out"
	atf_set "require.progs" "jq python3"
	atf_set "timeout" "60"
}
memwrite__hot_is_the_buffer_body()
{
	start_memwrite --size "$(size)"
	for granularity in 2M 64K vma; do
		atf_check -e ignore -o save:hot "$bin/wprof" hot "$(cat memwrite.pid)" \
			--interval 500 --granularity $granularity --json
		jq -c '[.regions[] | [.start, .end]]' hot >> regions
	done
	end_memwrite
	jq -r '.buffers[0] | "\(.start) \(.end)"' truth > buffer
	atf_check python3 -c '
import json
low, high = (int(x, 16) for x in open("buffer").read().split())
for line in open("regions"):
    spans = [[int(x, 16) for x in r] for r in json.loads(line)]
    inside = sum(max(0, min(high, e) - max(low, s)) for s, e in spans)
    assert inside == high - low, line
    # beside it at most chunks that hold a page or two of the C library
    assert sum(e - s for s, e in spans) - inside <= 6 << 20, line'
}
memwrite__hot_is_the_buffer_cleanup() { kill_all; }

atf_init_test_cases()
{
	atf_add_test_case memwrite__each_interval_whole
	atf_add_test_case memwrite__page_for_page
	atf_add_test_case memwrite__hot_is_the_buffer
}
