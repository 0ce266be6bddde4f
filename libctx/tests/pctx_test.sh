# The pctx program: what it prints, its exit codes, its error lines.
bin=$(atf_get_srcdir)/../../bin

# Start a process that publishes service.name $1; its PID is in the file pid.
publisher_start()
{
	"$bin/memwrite" --service "$1" --size 1M --rate 1M --duration 60 > /dev/null &
	echo $! > pid
	until "$bin/pctx" read "$(cat pid)" > /dev/null 2>&1; do
		kill -0 "$(cat pid)" || atf_fail "the publisher ended"
	done
}

publisher_stop()
{
	[ ! -f pid ] || kill "$(cat pid)" 2> /dev/null || true
}

one_line() { [ "$(wc -l < "$1")" = 1 ] || atf_fail "not one line: $(cat "$1")"; }

atf_test_case usage__refused
usage__refused_head()
{
	atf_set "descr" "Garbage on the command line is wrong usage: exit code 2"
	atf_set "timeout" "20"
}
usage__refused_body()
{
	for args in "" frob "read" "read x" "read 0" "read -1" "read 1 2" "read 4194305" "read 1x" \
		"read --nonsense 1" "list extra" "list --mappings-max 0" \
		"list --mappings-max 12x" "list --procfs" "watch x" "watch --interval 0" \
		"watch --count 0"; do
		# shellcheck disable=SC2086 # several words on purpose
		atf_check -s exit:2 -o empty -e match:pctx "$bin/pctx" $args
	done
}

atf_test_case help__everywhere
help__everywhere_head()
{
	atf_set "descr" "--help and --version are answered by pctx and each of its commands"
	atf_set "timeout" "20"
}
help__everywhere_body()
{
	atf_check -o match:'pctx COMMAND' "$bin/pctx" --help
	atf_check -o match:'^pctx [0-9.]+$' "$bin/pctx" --version
	for command in $("$bin/pctx" --help | awk '/^  [a-z]/ { print $1 }'); do
		atf_check -o match:"Usage: pctx $command" "$bin/pctx" "$command" --help
		atf_check -o match:'^pctx [0-9.]+$' "$bin/pctx" "$command" --version
	done
}

atf_test_case read__no_context
read__no_context_head()
{
	atf_set "descr" "No context is exit code 3, no process and a kernel thread are 1, a line each"
	atf_set "timeout" "20"
}
read__no_context_body()
{
	atf_check -s exit:3 -e save:error "$bin/pctx" read $$
	atf_check -o ignore grep 'published none' error
	one_line error
	true & wait $!
	atf_check -s exit:1 -e save:error "$bin/pctx" read $!
	atf_check -o ignore grep 'no such process' error
	one_line error
	thread=$(ps -e -o pid=,ppid= | awk '$2 == 2 { print $1; exit }')
	if [ -n "$thread" ]; then
		atf_check -s exit:1 -e match:'kernel thread' "$bin/pctx" read "$thread"
	fi
}

atf_test_case read__text cleanup
read__text_head()
{
	atf_set "descr" "read prints who the process is, for people"
	atf_set "timeout" "20"
}
read__text_body()
{
	publisher_start "shop"
	atf_check -o save:text "$bin/pctx" read "$(cat pid)"
	atf_check -o match:"^process $(cat pid) \(memwrite\), published [0-9]+ s ago" head -n 1 text
	atf_check -o match:'^  service.name +"shop"' cat text
}
read__text_cleanup() { publisher_stop; }

atf_test_case read__json cleanup
read__json_head()
{
	atf_set "descr" "read --json prints one document as docs/formats.md has it"
	atf_set "require.progs" "jq"
	atf_set "timeout" "20"
}
read__json_body()
{
	publisher_start "shop"
	atf_check -o save:json "$bin/pctx" read --json "$(cat pid)"
	atf_check -o inline:"[\"pctx.read\",1,$(cat pid),\"memwrite\",false,\"number\"]\n" jq -c \
		'[.format, .version, .pid, .command, .fallback, (.published_at_ns | type)]' json
	atf_check -o inline:'{"stringValue":"shop"}\n' jq -c \
		'.context.resource.attributes[] | select(.key == "service.name").value' json
	atf_check -o inline:"\"$(cat pid)\"\n" jq \
		'.context.resource.attributes[] | select(.key == "process.pid").value.intValue' json
}
read__json_cleanup() { publisher_stop; }

atf_test_case read__fallback cleanup
read__fallback_head()
{
	atf_set "descr" "read --fallback describes a process without a context and says why"
	atf_set "require.progs" "jq"
	atf_set "timeout" "20"
}
read__fallback_body()
{
	OTEL_SERVICE_NAME=till OTEL_RESOURCE_ATTRIBUTES='a=b%20c,service.name=no' sleep 60 &
	echo $! > pid
	until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done
	atf_check -o save:json "$bin/pctx" read --fallback --json "$(cat pid)"
	atf_check -o inline:'[true,"none_published",null]\n' jq -c \
		'[.fallback, .fallback_reason, .published_at_ns]' json
	atf_check -o inline:'till\nb c\n60\n' jq -r '.context.resource.attributes |
		(.[] | select(.key == "service.name" or .key == "a").value.stringValue),
		(.[] | select(.key == "process.command_args").value.arrayValue.values[1].stringValue)' \
		json
}
read__fallback_cleanup() { publisher_stop; }

atf_test_case read__deleted_program cleanup
read__deleted_program_head()
{
	atf_set "descr" "A program whose file was removed keeps its name, published or detected"
	atf_set "require.progs" "jq python3"
	atf_set "timeout" "30"
}
# the name that reading with the arguments gives
executable_name()
{
	"$bin/pctx" read --json "$@" | jq -r '.context.resource.attributes[] |
		select(.key == "process.executable.name").value.stringValue'
}
read__deleted_program_body()
{
	export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
	for name in prog "a (deleted)"; do
		cp /bin/sleep "$name"
		"./$name" 60 &
		echo $! > pid
		until [ "$(readlink "/proc/$!/exe")" = "$PWD/$name" ]; do :; done
		rm "$name"
		executable_name --fallback $! > found
		atf_check -o inline:"$name\n" cat found
		kill $!
	done
	cp /bin/sleep "b (deleted)"
	"./b (deleted)" 60 &
	echo $! > pid
	until [ "$(readlink "/proc/$!/exe")" = "$PWD/b (deleted)" ]; do :; done
	executable_name --fallback $! > found
	atf_check -o inline:"b (deleted)\n" cat found
	kill $!
	"$bin/pctx" run python3 -c 'import os
fd = os.memfd_create("tool", 0)
os.write(fd, open("/bin/sleep", "rb").read())
os.execve(fd, ["tool", "60"], os.environ)' &
	echo $! > pid
	until executable_name $! 2> /dev/null | grep -q memfd; do kill -0 $! || atf_fail "it ended"; done
	executable_name $! > found
	atf_check -o inline:"memfd:tool\n" cat found
}
read__deleted_program_cleanup() { publisher_stop; }

atf_test_case list__finds cleanup
list__finds_head()
{
	atf_set "descr" "list shows the process that published, as text and as JSON lines"
	atf_set "require.progs" "jq"
	atf_set "timeout" "30"
}
list__finds_body()
{
	publisher_start "shop-$$"
	atf_check -o match:"$(cat pid) +memwrite +[0-9]+ s +shop-$$" -e ignore "$bin/pctx" list
	atf_check -o save:lines -e ignore "$bin/pctx" list --json
	atf_check -o inline:'{"format":"pctx.list","version":1}\n' head -n 1 lines
	atf_check -o inline:"$(cat pid)\n" jq "select(.context.resource.attributes[]?.value
		== {\"stringValue\": \"shop-$$\"}).pid" lines
}
list__finds_cleanup() { publisher_stop; }

atf_test_case list__procfs cleanup
list__procfs_head()
{
	atf_set "descr" "--procfs reads through another mount of a procfs"
	atf_set "require.user" "root"
	atf_set "timeout" "30"
}
list__procfs_body()
{
	publisher_start "shop"
	mkdir host
	mount -t proc proc host || atf_fail "mount"
	atf_check -o match:'"shop"' "$bin/pctx" read --procfs host "$(cat pid)"
	atf_check -o match:"$(cat pid) +memwrite" -e ignore "$bin/pctx" list --procfs host
	atf_check -s exit:1 -e match:'procfs' "$bin/pctx" list --procfs nowhere
	atf_check -s exit:1 -e match:'procfs' "$bin/pctx" read --procfs nowhere 1
}
list__procfs_cleanup()
{
	publisher_stop
	umount host 2> /dev/null || true
}

# The helper that does what it is told; its answers are "PID RESULT".
helper_start()
{
	mkfifo orders answers
	"$(atf_get_srcdir)/helpers/publisher" < orders > answers &
	exec 8> orders 9< answers
}

tell()
{
	echo "$*" >&8
	read -r pid result <&9
	[ "$result" = 0 ] || atf_fail "$*: $result"
	echo "$pid" > pid
}

watch__life()
{
	helper_start
	tell publish one
	"$bin/pctx" watch --json --count 5 "$@" "$(cat pid)" > events &
	watcher=$!
	await 2
	tell publish two
	await 3
	tell withdraw
	await 4
	tell publish three
	await 5
	kill "$(cat pid)"
	wait "$watcher" || atf_fail "watch: $?"
	atf_check -o inline:'publish one\nupdate two\nwithdraw \npublish three\nexit \n' jq -r \
		'select(.event) | "\(.event) \(.context.resource.attributes[0].value.stringValue // "")"' \
		events
}

# Until the watcher has written so many lines.
await()
{
	until [ "$(wc -l < events)" -ge "$1" ]; do
		kill -0 "$watcher" || atf_fail "watch ended: $(cat events)"
	done
}

# Until the watcher has told event $1 of the helper.
await_event()
{
	until [ -n "$(jq -r "select(.pid == $(cat pid) and .event == \"$1\").pid" events)" ]; do
		kill -0 "$watcher" || atf_fail "watch ended: $(cat events)"
	done
}

atf_test_case watch__poll cleanup
watch__poll_head()
{
	atf_set "descr" "watch tells publish, update, withdrawal and exit by looking again and again"
	atf_set "require.progs" "jq"
	atf_set "timeout" "30"
}
watch__poll_body()
{
	watch__life --poll --interval 20
	atf_check -o inline:'{"format":"pctx.watch","version":1,"source":"poll"}\n' head -n 1 events
}
watch__poll_cleanup() { publisher_stop; }

atf_test_case watch__ebpf cleanup
watch__ebpf_head()
{
	atf_set "descr" "watch is told of a publication by the kernel, long before it would look"
	atf_set "require.progs" "jq"
	atf_set "require.user" "root"
	atf_set "timeout" "30"
}
watch__ebpf_body()
{
	helper_start
	"$bin/pctx" watch --json --interval 3600000 > events 2> why &
	watcher=$!
	await 1
	if grep -q '"source":"poll"' events; then
		kill "$watcher"
		atf_skip "no eBPF here: $(cat why)"
	fi
	tell publish one
	await_event publish
	tell publish two
	await_event update
	kill -INT "$watcher"
	wait "$watcher" || atf_fail "watch: $?"
}
watch__ebpf_cleanup() { publisher_stop; }

atf_test_case watch__ebpf_storm cleanup
watch__ebpf_storm_head()
{
	atf_set "descr" "Who publishes without pause does not keep watch from its end"
	atf_set "require.user" "root"
	atf_set "timeout" "60"
}
watch__ebpf_storm_body()
{
	for _ in 1 2; do
		"$(atf_get_srcdir)/publisher" loop 2000000000 > out &
		echo $! >> writers
	done
	"$bin/pctx" watch --json --interval 3600000 > events 2> why &
	watcher=$!
	await 100
	if grep -q '"source":"poll"' events; then
		kill "$watcher"
		atf_skip "no eBPF here: $(cat why)"
	fi
	kill -INT "$watcher"
	tries=0
	while kill -0 "$watcher" 2> /dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || atf_fail 'it does not end'
		sleep 0.1
	done
	wait "$watcher" || atf_fail "watch: $?"
	atf_check -o save:some timeout 20 "$bin/pctx" watch --json --interval 3600000 --count 3
	atf_check_equal 4 "$(wc -l < some)" # with the one that says what they are
}
watch__ebpf_storm_cleanup()
{
	while read -r p; do kill -KILL "$p" 2> /dev/null; done < writers
	:
}

atf_test_case watch__ebpf_32_bit cleanup
watch__ebpf_32_bit_head()
{
	atf_set "descr" "watch is told of a publication by a 32-bit program too"
	atf_set "require.progs" "jq gcc"
	atf_set "require.user" "root"
	atf_set "timeout" "30"
}
watch__ebpf_32_bit_body()
{
	cat > main.c <<'END'
/* freestanding: the C library for 32 bits is seldom installed */
static int call(int n, int a, int b, int c, int d, int e)
{
	int result;

	__asm__ volatile("int $0x80" : "=a"(result)
			 : "a"(n), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e) : "memory");
	return result;
}
static const char payload[] = "\n\037\n\035\n\014service.name\022\015\n\013thirty-two!";
void _start(void)
{
	static const unsigned int head[] = { 0x4c45544f, 0x5854435f, 2, sizeof(payload) - 1, 0, 0 };
	int fd = call(356, (int)"OTEL_CTX", 1, 0, 0, 0); /* memfd_create */
	volatile unsigned int *h;
	char c;

	call(93, fd, 4096, 0, 0, 0);			 /* ftruncate */
	call(3, 0, (int)&c, 1, 0, 0);			 /* read: the test says when */
	/* old mmap, of six arguments in memory */
	{
		int args[] = { 0, 4096, 3, 2, fd, 0 };

		h = (void *)call(90, (int)args, 0, 0, 0, 0);
	}
	for (int i = 0; i < 6; i++)
		h[i] = head[i];
	h[6] = (unsigned int)payload;
	h[7] = 0;
	h[4] = 1000;
	call(172, 0x53564d41, 0, (int)h, 4096, (int)"OTEL_CTX"); /* prctl */
	call(3, 0, (int)&c, 1, 0, 0);
	call(1, 0, 0, 0, 0, 0);				 /* exit */
}
END
	atf_check gcc -m32 -Os -ffreestanding -fno-pie -no-pie -fno-stack-protector \
		-nostdlib -static -o publisher32 main.c
	./publisher32 < /dev/null || atf_skip "this kernel runs no 32-bit programs"
	mkfifo orders
	./publisher32 < orders &
	echo $! > pid
	exec 3> orders
	"$bin/pctx" watch --json --interval 3600000 > events 2> why &
	watcher=$!
	await 1
	if grep -q '"source":"poll"' events; then
		kill "$watcher"
		atf_skip "no eBPF here: $(cat why)"
	fi
	echo >&3
	until grep -q "thirty-two!" events; do kill -0 "$watcher" || atf_fail "$(cat why)"; done
	atf_check -o match:publish grep "\"pid\": *$(cat pid)," events
	kill -INT "$watcher"
	wait "$watcher" || atf_fail "watch: $?"
}
watch__ebpf_32_bit_cleanup() { publisher_stop; }

atf_test_case watch__bad_targets cleanup
watch__bad_targets_head()
{
	atf_set "descr" "A process to watch that is not there, or ends, is told and not waited for"
	atf_set "timeout" "20"
}
watch__bad_targets_body()
{
	true & wait $!
	atf_check -s exit:1 -e match:'no such process' "$bin/pctx" watch $!
	sleep 60 &
	echo $! > pid
	"$bin/pctx" watch --json --poll --interval 20 $! > events &
	watcher=$!
	await 1
	kill "$(cat pid)"
	wait "$watcher" || atf_fail "watch: $?"
	atf_check -o match:'pctx.watch' cat events
}
watch__bad_targets_cleanup() { publisher_stop; }

atf_test_case watch__pid_reused
watch__pid_reused_head()
{
	atf_set "descr" "A process given by its PID is that very one, not the next one of its number"
	atf_set "require.user" "root"
	atf_set "require.progs" "unshare"
	atf_set "timeout" "30"
}
watch__pid_reused_body()
{
	# the watcher is stopped while one process goes and the other comes
	cat > swap <<'END'
sleep 60 & old=$!
"$1/pctx" watch --json --poll --interval 20 $old > events & watcher=$!
until [ -s events ]; do :; done
reader=$(pgrep -P $watcher) # it reads in a child
until ls -l /proc/$reader/fd | grep -q "/proc/$old$"; do :; done
kill -STOP $reader
kill $old
wait $old
echo $((old - 1)) > /proc/sys/kernel/ns_last_pid
"$1/pctx" run sleep 60 & new=$!
[ $new = $old ] || exit 9
until "$1/pctx" read $new > /dev/null; do :; done
kill -CONT $reader
wait $watcher
echo $?
END
	atf_check -o inline:'0\n' -e ignore \
		unshare --pid --fork --kill-child --mount-proc sh swap "$bin"
	atf_check -o inline:'1\n' sh -c "wc -l < events"
}

atf_test_case watch__permission_lost cleanup
watch__permission_lost_head()
{
	atf_set "descr" "When a process may not be looked into any more, that is told"
	atf_set "require.user" "root"
	atf_set "require.progs" "jq python3 setpriv"
	atf_set "timeout" "30"
}
watch__permission_lost_body()
{
	mkfifo order
	mkdir -p bin lib/procscope # where that user may read it
	cp "$bin/pctx" bin/
	cp "$bin/../lib/procscope/libpctx-preload.so" lib/procscope/
	chmod 755 .
	atf_check chown 65534 order
	user="setpriv --reuid=65534 --regid=65534 --clear-groups"
	export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
	# PR_SET_DUMPABLE is 4
	$user ./bin/pctx run python3 -c 'import ctypes, time
open("order").read()
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
time.sleep(60)' &
	echo $! > pid
	until "$bin/pctx" read "$(cat pid)" > /dev/null 2>&1; do :; done
	$user ./bin/pctx watch --json --poll --interval 20 --count 2 "$(cat pid)" > events &
	watcher=$!
	await 2
	echo > order
	wait "$watcher" || atf_fail "watch: $?"
	atf_check -o inline:'publish null\nerror not_permitted\n' \
		jq -r 'select(.event) | "\(.event) \(.error)"' events
}
watch__permission_lost_cleanup() { publisher_stop; }

# Nothing on standard input may reach a terminal that acts on it.
tame()
{
	LC_ALL=C tr -d '\n\040-\176' < "$1" > rest
	# what is left is UTF-8 of characters that have a width
	atf_check iconv -f UTF-8 -t UTF-8 -o /dev/null rest
	atf_check -s exit:1 env LC_ALL=C grep -qaE "$(printf '\033|\302[\200-\237]|\342\200[\213-\217\250-\256]')" "$1"
}

atf_test_case output__tame cleanup
output__tame_head()
{
	atf_set "descr" "What a process calls itself and its service cannot command the terminal"
	atf_set "require.progs" "python3 jq"
	atf_set "timeout" "30"
}
output__tame_body()
{
	# escape sequences: plain, behind the start of a character, as one of C1, and a mirror
	export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
	evil=$(printf '\033[2J\302\233[31m\342\200\256gnihton\357\273\277')
	"$bin/pctx" run --attr "service.name=$evil" --attr "$evil=$evil" python3 -c '
import ctypes, time
ctypes.CDLL(None).prctl(15, b"\xc3\x1b[31m\xe2\x1b[2J", 0, 0, 0)
time.sleep(60)' &
	echo $! > pid
	until grep -q '\[2J' "/proc/$!/comm"; do kill -0 $! || atf_fail "it ended"; done
	atf_check -o save:read "$bin/pctx" read $!
	atf_check -o save:fallback "$bin/pctx" read --fallback $!
	atf_check -o save:list -e ignore "$bin/pctx" list
	atf_check -o save:watch "$bin/pctx" watch --poll --count 1 $!
	atf_check -o save:hot -e ignore "$bin/wprof" hot --interval 20 --granularity vma $!
	for output in read fallback list watch hot; do
		[ -s $output ] || atf_fail "no $output"
		tame $output
	done
	atf_check -o match:'u001b\[2J' cat read
}
output__tame_cleanup() { publisher_stop; }

atf_test_case procfs__not_mounted
procfs__not_mounted_head()
{
	atf_set "descr" "Where no procfs is mounted that is the error, and not that there is no process"
	atf_set "require.user" "root"
	atf_set "require.progs" "unshare"
	atf_set "timeout" "20"
}
procfs__not_mounted_body()
{
	for command in "read 1" "read --fallback 1" "list" "list --json" "watch 1" "watch --poll"; do
		atf_check -s exit:1 -o ignore -e match:'no such procfs' unshare --mount sh -c \
			"mount -t tmpfs none /proc && exec '$bin/pctx' $command"
	done
	mkdir empty
	atf_check -s exit:1 -e match:'no such procfs' "$bin/pctx" list --procfs empty
}

atf_test_case read__interrupted cleanup
read__interrupted_head()
{
	atf_set "descr" "An interrupted system call is done again"
	atf_set "require.progs" "strace"
	atf_set "timeout" "20"
}
read__interrupted_body()
{
	publisher_start "shop"
	for call in "process_vm_readv" "read -P /proc/$(cat pid)/maps"; do
		# shellcheck disable=SC2086 # the path is another word
		atf_check -o match:'"shop"' env "ASAN_OPTIONS=detect_leaks=0" strace -f -qq -o trace \
			-e inject=${call%% *}:error=EINTR:when=1 -e trace=$call \
			"$bin/pctx" read "$(cat pid)"
		atf_check -o inline:'1\n' grep -c INJECTED trace
	done
}
read__interrupted_cleanup() { publisher_stop; }

atf_test_case output__full_disk
output__full_disk_head()
{
	atf_set "descr" "Output that could not be written is an error, not a success"
	atf_set "timeout" "20"
}
output__full_disk_body()
{
	atf_check -s exit:1 -e match:'cannot write' sh -c "'$bin/pctx' list --json > /dev/full"
	atf_check -s exit:1 -e match:'cannot write' sh -c "'$bin/pctx' --help > /dev/full"
}

atf_init_test_cases()
{
	atf_add_test_case usage__refused
	atf_add_test_case help__everywhere
	atf_add_test_case read__no_context
	atf_add_test_case read__text
	atf_add_test_case read__json
	atf_add_test_case read__fallback
	atf_add_test_case read__deleted_program
	atf_add_test_case list__finds
	atf_add_test_case list__procfs
	atf_add_test_case watch__poll
	atf_add_test_case watch__ebpf
	atf_add_test_case watch__ebpf_storm
	atf_add_test_case watch__ebpf_32_bit
	atf_add_test_case watch__bad_targets
	atf_add_test_case watch__pid_reused
	atf_add_test_case watch__permission_lost
	atf_add_test_case read__interrupted
	atf_add_test_case procfs__not_mounted
	atf_add_test_case output__tame
	atf_add_test_case output__full_disk
}
