# The line that tells of progress, on a terminal that python3 makes (a pty).
tools() { . "$(atf_config_get top)/libwprof/tests/targets.sh"; }

progress_case() # NAME DESCR
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$2'; atf_set timeout 60; atf_set require.user root
		atf_set require.progs python3; }"
	eval "$1_cleanup() { tools; stop_all; }"
}

# on_terminal COLUMNS ARGUMENT...: run wprof with a terminal for its standard error
# alone. Goes to files: what was drawn (raw), each drawing of the line (drawn), the
# exit code (code), standard output (out).
on_terminal()
{
	cat > terminal.py <<'PY'
import fcntl, os, pty, select, struct, subprocess, sys, termios
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, int(sys.argv[1]), 0, 0))
child = subprocess.Popen(['wprof'] + sys.argv[2:], stdin=slave, stdout=open('out', 'w'), stderr=slave)
data = b''
while True:
    if select.select([master], [], [], 0.1)[0]:
        data += os.read(master, 65536)
    elif child.poll() is not None:
        while select.select([master], [], [], 0)[0]:
            data += os.read(master, 65536)
        break
open('code', 'w').write('%d\n' % child.returncode)
open('raw', 'wb').write(data)
with open('drawn', 'w') as f:
    f.writelines(part + '\n' for part in data.decode().split('\r\x1b[K')[1:])
PY
	python3 terminal.py "$@" || atf_fail 'no terminal'
	atf_check -o inline:'0\n' cat code
}

# redrawn COLUMNS TIMES TEXT: it was drawn so often, each time in one line that fits and
# has the text, and is gone in the end
redrawn()
{
	sed '$d' drawn > lines
	atf_check -o inline:'\n' tail -n 1 drawn
	[ "$(wc -l < lines)" -ge "$2" ] || atf_fail "drawn $(wc -l < lines) times: $(cat raw)"
	awk -v columns="$1" -v text="$3" 'length($0) >= columns || index($0, text) != 1' lines > bad
	atf_check -o empty cat bad
	atf_check -o inline:'0\n' sh -c "tr -d '\r' < raw | wc -l"
}

progress_case recording 'record draws one line anew at each interval, and takes it away'
recording_body()
{
	tools
	memwrite_start progress-$$ -s 1M
	on_terminal 80 record $pid --interval 100 --duration 1 -o file
	redrawn 80 3 'memwrite'
	atf_check -o match:'of 1' tail -n 1 lines
	atf_check -o match:'intervals, .* written' tail -n 1 lines
	on_terminal 20 record $pid --interval 100 --duration 1 -o file
	redrawn 20 3 'memwr'
}

progress_case without_end 'A recording without an end says how it is ended'
without_end_body()
{
	tools
	start memwrite -s 1M -d 1.5
	on_terminal 80 record $pid --interval 100 -o file
	redrawn 80 3 'memwrite'
	atf_check -o match:'ctrl-C ends$' head -n 1 lines
}

progress_case hot 'hot draws which interval it is, at 20 columns too'
hot_body()
{
	tools
	memwrite_start progress-$$ -s 1M
	for columns in 80 20; do
		on_terminal $columns hot $pid --interval 100 --consecutive 5
		redrawn $columns 6 'profi'
		atf_check -o match:'6 of 6$' tail -n 1 lines
	done
}

progress_case no_terminal 'Where standard error is no terminal, nothing is drawn'
no_terminal_body()
{
	tools
	memwrite_start progress-$$ -s 1M
	for command in "record --duration 0.5 -o file" "hot --consecutive 2" "criu-args --consecutive 2"; do
		# shellcheck disable=SC2086 # words
		atf_check -o ignore -e save:error wprof $command --interval 100 $pid
		atf_check -s exit:1 grep -q "$(printf '\033')" error
	done
}

atf_init_test_cases()
{
	for c in recording without_end hot no_terminal; do
		atf_add_test_case $c
	done
}
