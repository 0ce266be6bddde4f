# wprof hot and criu-args against memwrite; the CRIU in these tests is a script
# that says what options it has. The real one is tested with the agent.
tools() { . "$(atf_config_get top)/libwprof/tests/targets.sh"; }

case_with_targets() # NAME DESCR
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$2'; atf_set timeout 60; atf_set require.user root; }"
	eval "$1_cleanup() { tools; stop_all; }"
}

fake_criu() # NAME TEXT: a program whose --help prints TEXT
{
	printf '#!/bin/sh\ncat << END\n%s\nEND\n' "$2" > "$1"
	chmod +x "$1"
}

case_with_targets target_ended 'A command that is over before: nothing hot, exit 0'
target_ended_body()
{
	tools
	atf_check -o match:'nothing is hot' -o match:'has ended' wprof hot --interval 50 -- true
	atf_check -o save:doc wprof hot --interval 50 --json -- true
	jq -e '.ended and .regions == [] and .total_vmas >= 0' doc > /dev/null ||
		atf_fail "$(cat doc)"
}

case_with_targets nothing_hot 'A target that sleeps: nothing is hot, exit 0'
nothing_hot_body()
{
	tools
	start sleep 60
	await grep -q sleep /proc/$pid/comm
	atf_check -o match:'nothing is hot' wprof hot $pid --interval 50
	atf_check -o inline:'\n' -e match:'nothing to leave out' \
		wprof criu-args $pid --interval 50
	atf_check -o save:doc wprof criu-args $pid --interval 50 --json
	jq -e '.args == [] and .exclude == [] and .no_parent == []' doc > /dev/null ||
		atf_fail "$(cat doc)"
}

case_with_targets buffer 'The hot regions hold the buffer and little else'
buffer_body()
{
	tools
	memwrite_start hot-$$ -s 16M --thp never
	# a starved writer has nothing hot: on a busy machine it may take some tries
	for try in 1 2 3 4 5; do
		atf_check -o save:doc wprof hot --service hot-$$ --interval 300 --json
		jq -e '.hot_bytes >= 16777216' doc > /dev/null && break
	done
	jq -e '.format == "wprof.hot" and .intervals == 4 and
		.hot_bytes >= 16777216 and .hot_bytes < 17500000 and .hot_vmas >= 1 and
		.hot_bytes == ([.regions[].populated_bytes] | add) and
		([.regions[] | select(.written_ratio > 0.3 and .consecutive >= 3)] | length) >= 1' \
		doc > /dev/null || atf_fail "$(jq -c .regions doc)"
	kill -INT $pid
	await grep -q '"ranges"\|"start"' out.*
	# the ground truth, range by range, lies in the hot regions
	jq -r '.. | objects | select(has("start") and has("end")) | "\(.start) \(.end)"' out.* > truth
	jq -r '.regions[] | "\(.start) \(.end)"' doc > found
	python3 - <<'PY' || atf_fail 'the buffer is not in the hot regions'
def ranges(name):
    return [[int(x, 0) for x in line.split()] for line in open(name)]
truth, found = ranges('truth'), ranges('found')
assert truth
for start, end in truth:
    for s, e in sorted(found):
        if s <= start < e:
            start = max(start, e)
    assert start >= end, (start, end)
PY
}

case_with_targets table_narrow 'The table fits 20 columns'
table_narrow_body()
{
	tools
	memwrite_start narrow-$$ -s 1M
	COLUMNS=20; export COLUMNS
	atf_check -o save:table wprof hot $pid --interval 200
	grep -q '^7f' table || grep -q 'nothing is hot' table || atf_fail 'no region'
	sed '1d; /own cost/d; /hot[:;]/d; /not tracked/d' table | awk 'length($0) > 20 { exit 1 }' ||
		atf_fail 'too wide'
}

case_with_targets args_bad_previous 'A previous file that is none: exit 1, the line is named'
args_bad_previous_body()
{
	tools
	memwrite_start previous-$$ -s 1M
	printf '1000 2000\nnonsense\n' > previous
	atf_check -s exit:1 -e match:'previous: line 2 is no range' \
		wprof criu-args $pid --previous previous
	atf_check -s exit:1 -e match:'missing: No such file' \
		wprof criu-args $pid --previous missing
	atf_check -s exit:1 -e match:'No such file' \
		wprof criu-args $pid --interval 20 --exclude-file no/such/place
}

case_with_targets args_whole_mappings 'The excluded ranges are whole mappings, and the buffer'
args_whole_mappings_body()
{
	tools
	memwrite_start args-$$ -s 2M
	atf_check -o save:doc wprof criu-args $pid --interval 300 --json
	jq -r '.exclude[] | .start, .end' doc | sed 's/^0x//' | while read -r a; do
		grep -q "^0*$a-\|-0*$a " /proc/$pid/maps || atf_fail "$a is no border of a mapping"
	done
	jq -e '.whole_vmas and (.args | length) == 2 * (.exclude | length) and
		all(.args[range(0; .args | length; 2)]; . == "--exclude-range")' doc > /dev/null ||
		atf_fail "$(cut -c1-800 doc)"
	atf_check -o match:'^((^| )--exclude-range [0-9a-f]+:[0-9a-f]+)*$' \
		-e ignore wprof criu-args $pid --interval 300 --page-exact
}

# covered PREVIOUS DOC: what PREVIOUS left out is in DOC left out again or without
# parent, never both, and only where something is mapped
covered()
{
	python3 - "$@" <<'PY'
import json, sys
previous = [[int(x, 16) for x in line.split()] for line in open(sys.argv[1])]
doc = json.load(open(sys.argv[2]))
sets = {k: [(int(r['start'], 0), int(r['end'], 0)) for r in doc[k]] for k in ('exclude', 'no_parent')}
pages = {k: {p for s, e in v for p in range(s, e, 4096)} for k, v in sets.items()}
assert not pages['exclude'] & pages['no_parent']
for start, end in previous:
    for page in range(start, end, 4096):
        known = page in pages['exclude'] or page in pages['no_parent']
        assert known == (start != 0x10000), hex(page)
PY
}

case_with_targets args_hot_to_cold 'What was left out before and is cold now has no parent'
args_hot_to_cold_body()
{
	tools
	memwrite_start cold-$$ -s 1M
	stack=$(sed -n 's/^\([0-9a-f]*\)-\([0-9a-f]*\) .*\[stack\]$/\1 \2/p' /proc/$pid/maps)
	# the stack is mapped, the other range is not
	printf '%s\n10000 20000\n' "$stack" > previous
	atf_check -o save:doc wprof criu-args $pid --interval 200 --json \
		--previous previous --exclude-file now
	covered previous doc || atf_fail 'a page is missing, or too much'
	# that dump has succeeded: its set is the next one's previous
	atf_check -o save:doc wprof criu-args $pid --interval 200 --json --previous now
	covered now doc || atf_fail 'a page is missing'
	# the last dump takes all of it, without profiling
	atf_check -o save:args -e ignore wprof criu-args $pid --previous previous --final
	atf_check -o inline:"--no-parent-range $(echo $stack | tr ' ' ':')\n" cat args
	atf_check -s exit:1 -e match:'999999' wprof criu-args 999999 --previous previous --final
}

case_with_targets criu_is_probed 'A CRIU without the options is told; a named one is exit 3'
criu_is_probed_body()
{
	tools
	memwrite_start probe-$$ -s 1M
	mkdir old new
	fake_criu old/criu 'dump, pre-dump, --track-mem'
	fake_criu new/criu '--exclude-range --exclude-file --no-parent-range'
	PATH=$PWD/old:$PATH atf_check -o ignore -e match:'old/criu does not know' \
		wprof criu-args $pid --interval 50
	PATH=$PWD/new:$PATH atf_check -o ignore -e not-match:'know|no CRIU' \
		wprof criu-args $pid --interval 50
	atf_check -s exit:3 -e match:'has no --exclude-range' \
		wprof criu-args $pid --interval 50 --criu ./old/criu
	atf_check -s exit:1 -e match:'no such program' \
		wprof criu-args $pid --interval 50 --criu ./none
	atf_check -o save:doc wprof criu-args $pid --interval 50 --criu ./new/criu --json
	jq -e '.criu.supported and .criu.path == "./new/criu"' doc > /dev/null ||
		atf_fail "$(cut -c1-400 doc)"
}

case_with_targets check_answers 'check: facts, and the exit code of the first that hinders'
check_answers_body()
{
	tools
	memwrite_start check-$$ -s 1M
	atf_check -o match:'^pagemap_scan +yes' wprof check
	atf_check -o match:'can be profiled' wprof check $pid
	atf_check -o match:'can be profiled' wprof check --service check-$$
	atf_check -s exit:3 -e match:'service name' wprof check --service none-such
	atf_check -o save:doc wprof check $pid --json
	jq -e --arg pid $pid '.format == "wprof.check" and .possible and
		.pid == ($pid | tonumber) and
		all(.facts[]; .state | IN("yes", "no", "unknown"))' doc > /dev/null ||
		atf_fail "$(cut -c1-400 doc)"
	kill -KILL $pid; wait $pid
	atf_check -s exit:1 -o match:'^target +no' wprof check $pid
}

atf_init_test_cases()
{
	for c in target_ended nothing_hot buffer table_narrow args_bad_previous \
		args_whole_mappings args_hot_to_cold criu_is_probed check_answers; do
		atf_add_test_case $c
	done
}
