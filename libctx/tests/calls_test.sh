# What reading costs in system calls: all that the reader makes, as strace sees them.
helpers=$(atf_get_srcdir)/helpers

# LeakSanitizer does not work under ptrace
strace="env ASAN_OPTIONS=detect_leaks=0 strace -qq -y -e signal=none"

# A process that publishes as helpers/wrong is told; its PID is in the file pid.
publish()
{
	mkfifo orders answers
	"$helpers/wrong" "$@" < orders > answers &
	echo $! > pid
	exec 8> orders 9< answers
	read -r answer <&9
	[ "$answer" = ready ] || atf_fail "$*: it ended"
}

# Look at it by these words; what was said is in the file said.
look()
{
	# shellcheck disable=SC2086 # a list of words
	atf_check -o save:said $strace -o trace "$helpers/look" "$(cat pid)" "$@" 3>&8 4<&9
}

# the calls between the marks number $1 and $1 + 1 of the trace
between() { awk -v from="$1" '/^getppid/ { n++; next } n == from' trace; }

# Those are calls of these names, in this order, and no others.
check_calls()
{
	between "$1" | sed 's/(.*//; s/^faccessat2$/faccessat/' > names
	shift
	printf '%s\n' "$@" > expected
	atf_check diff -u expected names
}

check_match() { grep -qE -e "$1" || atf_fail "no $1: $(cat trace)"; }

stop() { [ ! -f pid ] || kill "$(cat pid)" 2> /dev/null || true; }

counted()
{
	atf_set "descr" "$1"
	atf_set "require.progs" "strace"
	atf_set "timeout" "30"
}

atf_test_case poll__unchanged cleanup
poll__unchanged_head()
{
	counted "To ask whether a context has changed, when it has not, is one process_vm_readv"
}
poll__unchanged_body()
{
	publish right
	look open read mark poll mark poll mark close
	atf_check -o inline:'read: 0 by-hand\npoll: 0 unchanged\npoll: 0 unchanged\n' cat said
	check_calls 1 process_vm_readv
	check_calls 2 process_vm_readv
	# of the header, and of no more
	between 1 | check_match '\], 1, \[.*\], 1, 0\) = 32$'
}
poll__unchanged_cleanup() { stop; }

atf_test_case read__known cleanup
read__known_head()
{
	counted "To read a context that is known is one process_vm_readv: header, payload, header"
}
read__known_body()
{
	publish right
	look open read mark read mark read mark close
	atf_check -o inline:'read: 0 by-hand\nread: 0 by-hand\nread: 0 by-hand\n' cat said
	check_calls 1 process_vm_readv
	check_calls 2 process_vm_readv
	# three pieces: 32 bytes of a place, the payload, the same 32 bytes again
	address=$(awk '/OTEL_CTX/ { split($1, at, "-"); print at[1]; exit }' "/proc/$(cat pid)/maps")
	piece="\{iov_base=0x0*$address, iov_len=32\}"
	between 1 | check_match "\], 3, \[$piece, \{iov_base=0x[0-9a-f]+, iov_len=29\}, $piece\], 3, 0\) = 93$"
}
read__known_cleanup() { stop; }

atf_test_case read__changed cleanup
read__changed_head()
{
	counted "An update in the same place costs no second copy, but a look whether the process lives"
}
read__changed_body()
{
	publish right
	look open read mark ask mark poll mark read mark read mark close
	atf_check -o inline:'read: 0 by-hand\npoll: 0 changed\nread: 0 by-hand\nread: 0 by-hand\n' \
		cat said
	check_calls 2 process_vm_readv faccessat
	check_calls 3 process_vm_readv faccessat
	check_calls 4 process_vm_readv
}
read__changed_cleanup() { stop; }

atf_test_case procfs__unchanged cleanup
procfs__unchanged_head()
{
	counted "By way of a procfs, a poll is one read of the memory's file, and a read is one a piece"
}
procfs__unchanged_body()
{
	publish right
	look procfs open read mark poll mark read mark close
	atf_check -o inline:'read: 0 by-hand\npoll: 0 unchanged\nread: 0 by-hand\n' cat said
	check_calls 1 pread64
	check_calls 2 pread64 pread64 pread64
	between 1 | check_match "</proc/$(cat pid)/mem>, .*, 32, .* = 32$"
}
procfs__unchanged_cleanup() { stop; }

# Is this kernel so new, at least?
kernel_is() { [ "$(printf '%s\n' "$1" "$(uname -r)" | sort -V | head -n 1)" = "$1" ]; }

# how many bytes of its maps were read, and how many queries were answered
bytes_read()
{
	awk -v of="</proc/$(cat pid)/maps>" '/^read/ && index($0, of) { n += $NF } END { print n + 0 }' \
		trace
}
queries() { grep -cE '^ioctl\(.*/maps>, .* = 0$' trace; }

atf_test_case discovery__queries cleanup
discovery__queries_head()
{
	counted "A context mapped before 20,000 others is asked for, not looked for in all the text"
}
discovery__queries_body()
{
	publish many 20000
	cp "/proc/$(cat pid)/maps" maps
	[ "$(grep -n OTEL_CTX maps | cut -d: -f1)" -gt 20000 ] || atf_fail "it lies too low"
	look open mark read mark close
	atf_check -o inline:'read: 0 by-hand\n' cat said
	all=$(wc -c < maps)
	if ! kernel_is 6.11 && [ "$(queries)" = 0 ]; then # no PROCMAP_QUERY
		atf_check_equal "$all" "$(bytes_read)"
		return
	fi
	# a few halvings of an address space; some hundreds where memory can be named
	n=$(queries)
	if [ "$n" -lt 1 ] || [ "$n" -gt 1000 ]; then atf_fail "$n queries"; fi
	[ "$(bytes_read)" -lt $((all / 8)) ] || atf_fail "$(bytes_read) of $all bytes"
	cut -d'(' -f1 trace | grep -c process_vm_readv > n
	atf_check -o inline:'3\n' cat n
}
discovery__queries_cleanup() { stop; }

atf_test_case discovery__text cleanup
discovery__text_head()
{
	counted "Where the kernel answers no such question all the text is read"
}
discovery__text_body()
{
	publish many 20000
	# as a kernel before 6.11 answers
	# shellcheck disable=SC2086 # a list of words
	atf_check -o inline:'read: 0 by-hand\n' $strace -o trace -e inject=ioctl:error=ENOTTY \
		"$helpers/look" "$(cat pid)" open read close
	atf_check_equal 0 "$(queries)"
	atf_check_equal "$(wc -c < "/proc/$(cat pid)/maps")" "$(bytes_read)"
}
discovery__text_cleanup() { stop; }

atf_init_test_cases()
{
	atf_add_test_case poll__unchanged
	atf_add_test_case read__known
	atf_add_test_case read__changed
	atf_add_test_case procfs__unchanged
	atf_add_test_case discovery__queries
	atf_add_test_case discovery__text
}
