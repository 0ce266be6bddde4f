# One row of the experiments' table, of a trace or of a workload's truth (-s).
def address: ltrimstr("0x") | explode |
	reduce .[] as $c (0; . * 16 + if $c > 96 then $c - 87 else $c - 48 end);
def median: sort | .[length / 2 | floor];
def rounded($n): . * $n | round | . / $n;
def spread($n): if length == 0 then "-" else
	(median | rounded($n)) as $m | (min | rounded($n)) as $a | (max | rounded($n)) as $b |
	if $a == $b then "\($m)" else "\($m) (\($a) to \($b))" end end;
def rate: if . >= 1e6 then "\(. / 1e6 | rounded(10)) MB/s" else "\(. / 1e3 | round) KB/s" end;
def bytes: (.end | address) - (.start | address);

# size-weighted ratio of the hot regions of an interval
def hot_ratio: (map(bytes) | add) as $all | map(.written_ratio * bytes) | add / $all;

def trace:
	map(select(.type == "interval")) as $all | $all[3:] as $late |
	[($all | map(.total_vmas) | max | tostring),
	 ($late | map(.hot_vmas) | spread(1)),
	 ($late | map(.hot | map(bytes) | add // 0 | . / 1048576) | spread(10)),
	 ($late | map(.hot | select(length > 0) | hot_ratio) | spread(100)),
	 (($all | map(.written_bytes) | add) / ($all | map(.length_ns) | add) * 1e9 | rate)];

# the last line covers less than a second, the first what came before
def truth:
	.[0].page_bytes as $page | .[1:-1] as $lines | .[0] as $first | .[-2] as $last |
	($last.elapsed_ns - $first.elapsed_ns) as $ns |
	["", "", "", "",
	 (($lines | map(.written_pages) | add) * $page / $ns * 1e9 | rate) +
	 " of pages; writes " + (($last.bytes_written - $first.bytes_written) / $ns * 1e9 | rate)];

if .[0].format then trace else truth end | join(" | ")
