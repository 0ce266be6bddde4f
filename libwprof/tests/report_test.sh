# wprof report on traces made here by hand, so that every figure is known.
wprof() { "$(atf_get_srcdir)/../../bin/wprof" "$@"; }

header() # [PID]
{
	printf '{"format":"wprof.trace","version":1,"tool_version":"0","pid":%s,"command":"one",' ${1:-7}
	printf '"tree":false,"context":{"resource":{"attributes":[{"key":"service.name",'
	printf '"value":{"stringValue":"<db>&\\"x\\""}}]},"attributes":[]},"started_at_ns":1,'
	printf '"page_bytes":4096,"interval_ms":1000,"arming":"exact",'
	printf '"granularity_bytes":2097152,"hot_threshold":0.3,"hot_consecutive":3,"window":10}\n'
}

interval() # NUMBER START_PAGE PAGES [PID]: of a heap of 256 pages
{
	start=$(printf '0x%x' $((0x100000 + $2 * 4096)))
	printf '{"type":"interval","pid":%d,"number":%d,"start_ns":%d,"length_ns":1000000000,' \
		${4:-7} "$1" $((($1 - 1) * 1000000000))
	printf '"written_pages":%d,"total_vmas":3,"hot_vmas":1,"vmas":[{"start":"0x100000",' "$3"
	printf '"end":"0x200000","type":"heap","name":"[heap]","written_pages":%d,' "$3"
	printf '"populated_pages":256}],"hot":[],"runs":[["%s",%d]]}\n' "$start" "$3"
}

end()
{
	printf '{"type":"end","reason":"%s","intervals":4,"elapsed_ns":4000000000,' "$1"
	printf '"written_pages":1,"cost":{"scan_ns":1000000,"total_ns":2,"n_scans":3,"faults":4,'
	printf '"cpu_ns":5000000}}\n'
}

trace() { header; interval 1 0 64; interval 2 64 64; interval 3 128 64; interval 4 192 64; }

report_case() # NAME DESCR
{
	atf_test_case "$1"
	eval "$1_head() { atf_set descr '$2'; atf_set timeout 30; }"
}

report_case foreign 'Files that are no trace, or damaged: exit 1, one line'
foreign_body()
{
	tool=$(atf_get_srcdir)/../../bin/wprof
	echo hello > text
	: > empty
	{ trace; echo '{"type":"interval"}'; end duration; } > damaged
	atf_check -s exit:1 -e inline:'wprof: text: not a trace\n' $tool report text
	atf_check -s exit:1 -e inline:'wprof: empty: empty, so no trace\n' $tool report empty
	atf_check -s exit:1 -e inline:'wprof: damaged: line 6: no pid\n' $tool report damaged
	atf_check -s exit:1 -e match:'none: No such file' $tool report none
	atf_check -s exit:1 -e match:'Is a directory' $tool report .
	atf_check -s exit:1 -e match:'not a trace' $tool report /dev/zero
	atf_check -s exit:1 -e match:'not a trace' $tool report $tool
	trace > whole
	atf_check -s exit:1 -o ignore -e match:'no/such: No such file' \
		$tool report whole --svg no/such
	atf_check -s exit:1 -o ignore -e match:'No space left' $tool report whole --svg /dev/full
}

report_case cut_short 'A trace that was cut is reported as far as it goes, and said so'
cut_short_body()
{
	trace | head -c -10 > cut
	atf_check -o match:'cut short' -e match:'cut: cut short after 3 intervals' \
		"$(atf_get_srcdir)/../../bin/wprof" report cut
	wprof report cut --json > doc 2> /dev/null
	jq -e '.complete == false and .reason == null and .intervals == 3' doc > /dev/null ||
		atf_fail "$(cat doc)"
}

report_case figures 'Sums, rates, shares and ends are those of the trace'
figures_body()
{
	{ trace; end interrupted; } > file
	wprof report file --json > doc || atf_fail 'no report'
	jq -e '.complete and .reason == "interrupted" and .intervals == 4 and
		.written_pages == 256 and .written_bytes == 1048576 and
		.elapsed_ns == 4000000000 and .dirty_rate_bytes_per_sec == 262144 and
		.peak_bytes_per_sec == 262144 and .total_vmas == 3 and .processes == 1 and
		(.regions | length) == 1 and .regions[0].share == 1 and
		.regions[0].intervals_written == 4 and .regions[0].written_ratio == 0.25 and
		.trace.command == "one"' doc > /dev/null || atf_fail "$(cat doc)"
}

report_case map_in_terminal 'The map shows what was written where and when'
map_in_terminal_body()
{
	{ trace; end duration; } > file
	COLUMNS=72 wprof report file > out
	grep '|' out > map
	atf_check_equal 16 "$(wc -l < map | tr -d ' ')"
	# each quarter of the heap is written in its own quarter of the time
	awk -F'|' '{ row = int((NR - 1) / 4); for (q = 0; q < 4; q++) {
		c = substr($2, q * 10 + 3, 1); if ((c == "@") != (q == row)) exit 1 } }' map ||
		atf_fail 'not the diagonal'
	wprof report file < /dev/null > again
	wprof report - < file > piped
	atf_check -o file:again cat piped
}

report_case widths 'Every width from 20 columns on is kept, whatever the names'
widths_body()
{
	{ trace; end duration; } | sed 's/\[heap\]/\/a\/very\/long\/path\/name\\u0007of.so/' > file
	for width in 1 20 21 30 39 40 45 46 50 63 64 75 76 80 120 400 9999; do
		COLUMNS=$width wprof report file > out || atf_fail "exit code at $width"
		limit=$width
		[ $limit -ge 20 ] || limit=20
		awk -v w=$limit 'length($0) > w { print; exit 1 }' out > wide ||
			atf_fail "$width columns: $(head -n 1 wide)"
	done
	atf_check -s exit:1 grep -q "$(printf '\007')" out
}

report_case svg 'The SVG is well-formed, escaped, and draws each written part'
svg_body()
{
	{ trace; end duration; } > file
	wprof report file --svg map.svg > /dev/null || atf_fail 'no SVG'
	python3 - <<'PY' || atf_fail 'not the SVG that was expected'
import xml.etree.ElementTree as tree
root = tree.parse('map.svg').getroot()
ns = '{http://www.w3.org/2000/svg}'
assert root.tag == ns + 'svg'
texts = ' '.join(t.text or '' for t in root.iter(ns + 'text'))
assert 'one (pid 7, service <db>&"x")' in texts, texts
assert '[heap]' in texts and '4 s' in texts
group = root.find(ns + 'g')
cells = [r for r in group.iter(ns + 'rect') if r.get('fill')]
# a diagonal: as the rows go down the cells go right
xs = [float(c.get('x')) for c in sorted(cells, key=lambda c: float(c.get('y')))]
assert len(cells) == 16 and xs == sorted(xs) and len(set(xs)) == 4, xs
for r in root.iter(ns + 'rect'):
    if r.get('y'):
        assert float(r.get('y')) + float(r.get('height')) <= float(root.get('height'))
PY
}

report_case not_measured 'What sampling did not measure is a gap in the maps, not a zero'
not_measured_body()
{
	{
		header | sed 's/"exact"/"sample"/'
		for i in $(seq 12); do
			case $i in
			1 | 7) interval $i 0 256 ;;
			*) interval $i 255 1 | sed 's/"runs":.*/"runs":[],"unmeasured_runs":[["0x100000",256]]}/' ;;
			esac
		done
		end duration
	} > file
	COLUMNS=72 wprof report file > out
	# 40 cells for 12 intervals: the first and the seventh are full, none is empty
	grep -Eq '[|]@{3,4}~+@{3,4}~+[|]$' out || atf_fail "$(grep '[|]' out)"
	grep -q '[|].* .*[|]$' out && atf_fail 'a gap looks like nothing written'
	grep -q '; ~ not measured$' out || atf_fail 'no legend'
	COLUMNS=20 wprof report file > out
	grep -qx '~ not measured' out || atf_fail 'no legend at 20 columns'
	awk 'length($0) > 20 { exit 1 }' out || atf_fail 'wider than 20 columns'
	wprof report file --svg map.svg > /dev/null
	grep -q 'fill="url(#gap)"' map.svg || atf_fail 'no gap in the SVG'
	grep -q '>measured<' map.svg || atf_fail 'no legend in the SVG'
	python3 -c 'import xml.etree.ElementTree as t; t.parse("map.svg")' || atf_fail 'no XML'
	trace > file
	wprof report file --svg map.svg > out
	grep -q 'not measured\|#gap' out map.svg && atf_fail 'gaps in an exact trace'
	true
}

report_case nothing_written 'A trace in which nothing was written is reported'
nothing_written_body()
{
	{ header; end ended; } > file
	wprof report file --svg map.svg > out || atf_fail 'no report'
	grep -q 'the target exited' out || atf_fail 'no reason'
	grep -q 'Nothing was written' map.svg || atf_fail 'no word in the SVG'
}

report_case tree 'Of a tree the map is of the process that is named'
tree_body()
{
	{
		header; interval 1 0 64
		echo '{"type":"process","pid":8,"parent_pid":7,"command":"two","start_ns":1,"context":null}'
		interval 1 128 32 8; interval 2 128 64; end duration
	} > file
	wprof report file > out
	grep -q 'processes  2' out || atf_fail 'two processes'
	atf_check -o match:'^ +7 .*512.0 KiB .*heat map' -o match:'^ +8 .*128.0 KiB' cat out
	COLUMNS=20 wprof report file > narrow
	atf_check -o match:'^2 processes$' -o match:'^      8  128.0 KiB$' cat narrow
	atf_check -o empty awk '/process|PROCESS/ && /\.\./' narrow
	wprof report file --process 8 > out
	grep -q '^process 8:' out || atf_fail 'not the map of 8'
	atf_check -o inline:'2\n' jq '.regions | length' <<-END
	$(wprof report file --json)
	END
	# in the first interval 96 pages were written by two processes
	wprof report file --json > json
	atf_check -o inline:'2\ntrue\n' jq '.intervals, (.peak_bytes_per_sec ==
		([inputs | select(.type == "interval") | 96 * 4096e9 / .length_ns] | max))' json file
}

report_case huge 'A long trace takes bounded memory'
huge_body()
{
	{
		header
		interval 1 0 64 | python3 -c '
import sys
line = sys.stdin.read()
for i in range(1, 20001):
    sys.stdout.write(line.replace("number\":1", "number\":%d" % i)
                         .replace("start_ns\":0", "start_ns\":%d000000000" % i)
                         .replace("0x100000\",64", "0x%x\",64" % (0x100000 + i * 65536))) '
		end duration
	} > file
	(ulimit -v 200000; wprof report file > out) || atf_fail 'out of memory'
	grep -q '20000 intervals' out || atf_fail "$(head -n 3 out | tail -n 1)"
}

report_case hostile 'A line of millions of values or without an end is refused in bounded memory'
hostile_body()
{
	{ header; printf '{"type":"interval","pid":1,"runs":['; yes '[],' | head -n 20000000 | tr -d '\n'; } > file
	(ulimit -v 300000; atf_check -s exit:1 -o ignore -e inline:"wprof: file: line 2: \
more than 8388608 values
" "$(atf_get_srcdir)/../../bin/wprof" report file) || atf_fail "$?"
	{ header; printf '{"type":"'; head -c 300000000 /dev/zero | tr '\0' x; } > file
	(ulimit -v 900000; atf_check -s exit:1 -o ignore -e inline:"wprof: file: line 2: \
longer than 268435456 bytes
" "$(atf_get_srcdir)/../../bin/wprof" report file) || atf_fail "$?"
}

report_case more_runs 'Runs on lines of their own are drawn and counted like the others'
more_runs_body()
{
	{ header; interval 1 0 64 | sed 's/\["0x100000",64\]//'
	  echo '{"type":"runs","pid":7,"runs":[["0x100000",64]]}'; end duration; } > split
	{ header; interval 1 0 64; end duration; } > whole
	wprof report split > out.split || atf_fail "$?"
	wprof report whole > out.whole || atf_fail "$?"
	atf_check -o ignore grep -F "@@@@" out.whole
	atf_check diff -u out.whole out.split
}

atf_init_test_cases()
{
	for c in foreign cut_short figures map_in_terminal widths svg not_measured nothing_written tree huge \
		hostile more_runs; do
		atf_add_test_case $c
	done
}
