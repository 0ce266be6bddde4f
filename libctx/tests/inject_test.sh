# The publisher's system calls, seen and refused by strace.
publisher=$(atf_get_srcdir)/publisher

# LeakSanitizer does not work under ptrace
strace="env ASAN_OPTIONS=detect_leaks=0 strace -qq"

# the calls between the marks number $1 and $1 + 1 of the trace
between_marks()
{
	awk -v from="$1" '/^getppid/ { n++; next } n == from' trace
}

atf_test_case order__publish_and_update
order__publish_and_update_head()
{
	atf_set "descr" "The steps come in the OTEP's order, naming last, each time"
	atf_set "require.progs" "strace"
}
order__publish_and_update_body()
{
	atf_check -o ignore -e ignore $strace -o trace \
		-e trace=memfd_create,ftruncate,mmap,madvise,prctl,close,getppid,munmap \
		-e signal=none "$publisher" mark publish a mark publish b mark publish c mark
	between_marks 1 > publish
	between_marks 2 > first_update
	between_marks 3 > update
	cat publish first_update update
	# the context's own steps: no descriptor of /proc/self/maps, no page of the state
	grep -E 'OTEL_CTX|ftruncate|MADV_DONTFORK|mmap\(NULL, [0-9]+, PROT_READ\|PROT_WRITE, MAP_PRIVATE, ' \
		publish | sed 's/(.*//' > steps
	printf 'memfd_create\nftruncate\nmmap\nmadvise\nmadvise\nprctl\n' > expected
	atf_check diff -u expected steps
	atf_check -o ignore grep -E \
		'^memfd_create\("OTEL_CTX", MFD_CLOEXEC\|MFD_ALLOW_SEALING\|(0x8|MFD_NOEXEC_SEAL)\)' publish
	# an update is one call once both slots are there
	atf_check -o inline:'1\n' sh -c 'wc -l < update'
	naming='^prctl\(PR_SET_VMA, (0|PR_SET_VMA_ANON_NAME), 0x[0-9a-f]+, 4096, ("OTEL_CTX"|0x[0-9a-f]+)\)'
	for part in publish first_update update; do
		grep -v '^close' $part | tail -n 1 > last
		atf_check -o ignore grep -E "$naming" last
	done
}

atf_test_case order__flags_without_seal
order__flags_without_seal_head()
{
	atf_set "descr" "The second memfd_create drops MFD_NOEXEC_SEAL and keeps the other flags"
	atf_set "require.progs" "strace"
}
order__flags_without_seal_body()
{
	atf_check -o match:'^publish: 0$' -e ignore $strace -o trace -e trace=memfd_create \
		-e inject=memfd_create:error=EINVAL:when=1 "$publisher" publish a
	atf_check -o inline:'2\n' grep -c memfd_create trace
	atf_check -o inline:'1\n' grep -c 'MFD_CLOEXEC|MFD_ALLOW_SEALING) = ' trace
}

# one failure of one call: $1 call, $2 errno, $3 the how many-th, or that and all later
sweep_one()
{
	$strace -o /dev/null -e inject="$1:error=$2:when=$3" "$publisher" mark \
		publish a sound publish b sound bytes 9000 sound append k sound bytes 1 sound \
		unpublish sound publish c sound > out 2> err
	rc=$?
	if [ $rc != 0 ] || [ "$(grep -c '^sound: 0$' out)" != 7 ]; then
		cat out err
		atf_fail "$1 number $3 refused with $2: exit $rc"
	fi
}

# how many calls of $1 there are before the program begins (mark), and in all
count_calls()
{
	$strace -o trace -e trace="$1",getppid "$publisher" mark publish a publish b \
		bytes 9000 append k bytes 1 unpublish publish c > /dev/null
	before=$(awk -v call="$1" '/getppid/ { exit } index($0, call "(") { n++ } END { print n + 0 }' trace)
	all=$(grep -c "$1(" trace)
}

# each call of $1 that publishing makes refused with $2
sweep()
{
	count_calls "$1"
	[ "$all" -gt "$before" ] || atf_fail "no call of $1 seen"
	for n in $(seq $((before + 1)) $((all + 1))); do
		sweep_one "$1" "$2" "$n"
	done
	sweep_one "$1" "$2" $((before + 1))+
}

atf_test_case sweep__one_failure
sweep__one_failure_head()
{
	atf_set "descr" "Whichever system call fails, once or for ever, what is published stays whole"
	atf_set "require.progs" "strace"
	atf_set "timeout" "240"
}
sweep__one_failure_body()
{
	sweep memfd_create EPERM
	sweep ftruncate EIO
	sweep prctl EINVAL
	sweep madvise EAGAIN
	# a sanitizer gives up when its own calls are refused
	nm "$publisher" | grep -qE '__(asan|tsan)_' && return
	sweep munmap EINVAL
	sweep mmap ENOMEM
}

atf_test_case ftruncate__interrupted
ftruncate__interrupted_head()
{
	atf_set "descr" "An interrupted ftruncate is done again"
	atf_set "require.progs" "strace"
}
ftruncate__interrupted_body()
{
	atf_check -o match:'^publish: 0$' -e ignore $strace -o trace -e trace=ftruncate \
		-e inject=ftruncate:error=EINTR:when=1 "$publisher" publish a
	atf_check -o inline:'2\n' grep -c ftruncate trace
}

atf_test_case memfd_noexec__2
memfd_noexec__2_head()
{
	atf_set "descr" "With vm.memfd_noexec 0, 1 and 2 the context is published all the same"
	atf_set "require.user" "root"
	atf_set "require.progs" "unshare"
}
memfd_noexec__2_body()
{
	[ -e /proc/sys/vm/memfd_noexec ] || atf_skip "no vm.memfd_noexec in this kernel"
	for level in 0 1 2; do
		# the setting belongs to a PID namespace and only ever rises
		atf_check -o match:'^publish: 0$' -o match:'^map: rw-p .*OTEL_CTX' \
			-o match:'^sound: 0$' unshare --pid --fork --mount-proc sh -c "
				echo $level > /proc/sys/vm/memfd_noexec || exit 1
				exec '$publisher' publish a maps sound"
	done
}

atf_init_test_cases()
{
	atf_add_test_case order__publish_and_update
	atf_add_test_case order__flags_without_seal
	atf_add_test_case ftruncate__interrupted
	atf_add_test_case sweep__one_failure
	atf_add_test_case memfd_noexec__2
}
