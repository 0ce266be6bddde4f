# wprof top, printed and on a terminal that python3 makes (a pty); and --tree.
tools() { . "$(atf_config_get top)/libwprof/tests/targets.sh"; }

case_with_targets() # NAME DESCR
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$2'; atf_set timeout 60; atf_set require.user root; }"
	eval "$1_cleanup() { tools; stop_all; }"
}

# on_terminal COLUMNS LINES KEYS ARGUMENT...: run wprof top there; each key of KEYS
# is pressed after another frame has come. Its frames go to frames, its exit code
# to code. Fails when the terminal is not given back as it was.
on_terminal()
{
	cat > terminal.py <<'PY'
import fcntl, os, pty, re, select, struct, sys, termios
columns, lines, keys, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', lines, columns, 0, 0))
before = termios.tcgetattr(slave)
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(slave, fd)
    os.close(master)
    os.close(slave)
    os.environ['TERM'] = os.environ.get('WANT_TERM', 'xterm-256color')
    os.execvp('wprof', ['wprof', 'top'] + argv)
data, seen = b'', 0
while True:
    ready = select.select([master], [], [], 0.1)[0]
    if ready:
        data += os.read(master, 65536)
    elif os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        break
    frames = data.count(b'\x1b[H')
    if frames > seen and keys:
        seen = frames
        if keys[0] == 'R':
            columns -= 20
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', lines, columns, 0, 0))
        else:
            os.write(master, keys[0].encode())
        keys = keys[1:]
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert termios.tcgetattr(slave) == before, 'the terminal is not as it was'
text = data.decode()
open('raw', 'w').write(text)
open('code', 'w').write('%d\n' % code)
with open('frames', 'w') as f:
    for frame in text.split('\x1b[H')[1:]:
        frame = frame.split('\x1b[J')[0]
        f.write(re.sub(r'\x1b\[[0-9;?]*[a-zA-Z]|\x1b\(B|\x0f', '', frame).replace('\r', '') + '\f\n')
PY
	python3 terminal.py "$@" || atf_fail 'the terminal was not given back'
}

case_with_targets printed 'Not on a terminal a table is printed for each interval'
printed_body()
{
	tools
	memwrite_start top-$$ -s 1M
	atf_check -o save:out wprof top --service top-$$ --interval 200 --duration 0.6 --lines 3
	atf_check -o match:'^START +SIZE +RATE +SHARE' cat out
	atf_check -o match:'own cost' tail -n 1 out
	atf_check -s exit:1 grep -q "$(printf '\033')" out
	awk '/^START/ { n = 0; tables++ } /^0x/ { if (++n > 3) exit 1 }
		END { exit tables < 3 }' out || atf_fail 'not three tables of three rows'
	wprof top $pid --interval 50 | head -n 1 > out
	atf_check -o match:'memwrite' cat out
}

case_with_targets bad_usage 'An unknown sort key or a line count out of range: exit 2'
bad_usage_body()
{
	tools
	atf_check -s exit:2 -e match:"not 'x'" wprof top 1 --sort x
	atf_check -s exit:2 -e match:'1 to 100000' wprof top 1 --lines 0
	atf_check -s exit:1 -e match:'999999' wprof top 999999
}

case_with_targets target_ends 'The target exits: the table ends, exit 0'
target_ends_body()
{
	tools
	atf_check -o match:'the target has ended' -e ignore \
		wprof top --interval 50 -- memwrite -s 1M -d 0.3
	on_terminal 80 24 '' --interval 50 -- memwrite -s 1M -d 0.3
	atf_check -o inline:'0\n' cat code
	atf_check -o match:'the target has ended' cat raw
}

case_with_targets keys 'On a terminal keys sort and quit, and it is given back'
keys_body()
{
	tools
	memwrite_start keys-$$ -s 1M
	on_terminal 90 12 'mhsanrxq' $pid --interval 300
	atf_check -o inline:'0\n' cat code
	for by in rate mean hot size address name; do
		grep -q "^by $by; sort: " frames || atf_fail "not by $by"
	done
	# the other screen is entered and left, the cursor comes back
	for s in '\033[?1049h' '\033[?1049l' '\033[?25l'; do
		grep -qF "$(printf "$s")" raw || atf_fail "no $s"
	done
	# a frame fits: never more lines than the terminal has
	awk 'BEGIN { RS = "\f\n"; FS = "\n" } NF > 12 { exit 1 }' frames || atf_fail 'too high'
}

case_with_targets narrow 'Terminals of 20 columns and of 2 lines are kept to'
narrow_body()
{
	tools
	memwrite_start narrow-$$ -s 1M
	for size in '20 8' '20 2' '33 5' '60 3' '78 6'; do
		set -- $size
		on_terminal $1 $2 'naq' $pid --interval 100
		atf_check -o inline:'0\n' cat code
		tr -d '\f' < frames | awk -v w=$1 'length($0) > w { print; exit 1 }' > wide ||
			atf_fail "$size: $(head -n 1 wide)"
		awk -v h=$2 'BEGIN { RS = "\f\n"; FS = "\n" } NF > h { exit 1 }' frames ||
			atf_fail "$size: too high"
	done
}

case_with_targets resized 'A terminal that changes its size is drawn anew at once'
resized_body()
{
	tools
	memwrite_start resize-$$ -s 1M
	# the interval is longer than the test: only the change can make it draw
	on_terminal 80 8 'RRq' $pid --interval 3600000
	atf_check -o inline:'0\n' cat code
	awk 'BEGIN { RS = "\f\n"; FS = "\n" } END { exit NR < 3 }' frames || atf_fail 'not drawn'
	tail -n 2 frames | tr -d '\f' | awk 'length($0) > 40 { exit 1 }' || atf_fail 'too wide'
}

case_with_targets dumb_terminal 'A terminal that cannot be redrawn gets printed tables'
dumb_terminal_body()
{
	tools
	memwrite_start dumb-$$ -s 1M
	WANT_TERM=dumb; export WANT_TERM
	on_terminal 80 24 '' $pid --interval 100 --duration 0.3
	atf_check -o inline:'0\n' cat code
	atf_check -o match:'START' cat raw
	atf_check -s exit:1 grep -q "$(printf '\033')" raw
}

case_with_targets tree_rows 'With --tree a row for each process, children included'
tree_rows_body()
{
	tools
	memwrite_start tree-$$ -s 1M --fork 2
	atf_check -o save:out wprof top $pid --tree --interval 300 --duration 1.5
	awk '/^PID/ { n = 0 } /^[0-9]+ .*iB.* memwrite tree/ { if (++n > most) most = n }
		END { exit most != 3 }' out || atf_fail 'not three processes'
}

case_with_targets tree_recorded 'record --tree: children are announced and profiled'
tree_recorded_body()
{
	tools
	memwrite_start tree-$$ -s 1M --fork 2
	atf_check -o ignore wprof record $pid --tree --interval 200 --duration 2 -o file
	jq -e -s --arg pid $pid '
		[.[] | select(.type == "process")] as $p |
		.[0].tree and ($p | length) == 2 and
		all($p[]; .parent_pid == ($pid | tonumber) and .command == "memwrite") and
		([.[] | select(.type == "interval" and .written_pages >= 256) | .pid] | unique |
			length) == 3' file > /dev/null || atf_fail "$(tail -n 1 file)"
	atf_check -o match:'^processes  3$' wprof report file
}

case_with_targets tree_bounded 'A process with many children: no more than --tree-max'
tree_bounded_body()
{
	tools
	start sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 60 & echo $! >> pids; done; echo > ready; wait'
	await test -e ready
	atf_check -o save:out wprof record $pid --tree-max 4 --interval 100 --duration 0.5 -o file
	atf_check -o match:'times a process was not followed: more processes than --tree-max' cat out
	jq -e -s '[.[] | select(.type == "interval") | .pid] | unique | length == 4' file \
		> /dev/null || atf_fail 'not four processes'
}

case_with_targets tree_refused 'A child that is traced is told once, and followed when it is free'
tree_refused_body()
{
	tools
	start sh -c 'while :; do sleep 1; done & echo $! > child; wait'
	await test -s child
	child=$(cat child) parent=$pid
	start strace -f -o /dev/null -p "$child"
	await grep -q "^TracerPid:.$pid" "/proc/$child/status"
	tracer=$pid
	atf_check -o save:out wprof record $parent --tree --interval 50 --duration 1 -o file
	atf_check -o match:"^a process was not followed: process $child is already traced" cat out
	# it is free again in the middle of this one; at most 64 intervals later it is tried
	start wprof record $parent --tree --interval 20 --duration 25 -o file
	recorder=$pid
	await grep -q '"interval"' file
	kill "$tracer"
	await grep -q "\"process\".*\"pid\":$child\b" file
	kill -INT $recorder
	wait $recorder || atf_fail "record: $?"
}

case_with_targets tree_bomb 'Children that fork on and on: bounded in number and memory, and unharmed'
tree_bomb_body()
{
	tools
	# 84 at a time, three deep, eight times; each of the last ones leaves a line
	cat > bomb <<- 'EOF'
		burst() {
			[ "$1" -gt 0 ] || { sleep 0.1; echo leaf >> leaves; return; }
			for _ in 1 2 3 4; do burst $(($1 - 1)) & done
			wait
		}
		echo > ready
		until [ -e go ]; do sleep 0.01; done
		for _ in 1 2 3 4 5 6 7 8; do burst 3; done
	EOF
	start sh bomb
	await test -e ready
	(ulimit -v 300000; exec wprof record $pid --tree --tree-max 16 --interval 50 -o file) > out &
	recorder=$!
	await grep -q '"interval"' file
	echo > go
	wait $recorder || atf_fail "record: $?"
	wait $pid || atf_fail "the bomb: $?"
	atf_check -o inline:'512\n' grep -c leaf leaves
	atf_check -o match:'times a process was not followed: more processes than --tree-max' cat out
	# a round begins with the first process, which lives longest
	jq -r 'select(.type == "interval").pid' file | awk -v first="$(jq -r -n 'input.pid' file)" '
		$1 == first { n = 0 } ++n > most { most = n } END { print most }' > most
	[ "$(cat most)" -le 16 ] || atf_fail "$(cat most) at a time"
	jq -e -s '[.[] | select(.type == "interval") | .pid] | unique | length > 1' file \
		> /dev/null || atf_fail 'no child'
}

atf_init_test_cases()
{
	for c in bad_usage printed target_ends keys narrow resized dumb_terminal tree_rows \
		tree_recorded tree_bounded tree_refused tree_bomb; do
		atf_add_test_case $c
	done
}
