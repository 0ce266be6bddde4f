# The runner when things go wrong: no qemu, no room, no archive, and guests that
# hang, panic or vanish. A script in the place of QEMU plays those guests, so
# this cannot show what QEMU itself does; kernel-tests/check shows that.

# functions of the kernel tests, with a cache of our own
load()
{
	kt=$(atf_config_get top)/kernel-tests
	XDG_CACHE_HOME=$PWD/cache
	PATH=$PWD/bin:$PATH
	export XDG_CACHE_HOME PATH
	set -eu
	. "$kt/lib/all.sh"
}

# qemu_plays: stdin is a script that runs as QEMU, with $console to write to
qemu_plays()
{
	mkdir -p bin guest
	{
		echo '#!/bin/sh'
		echo 'for a; do case $a in file:*) console=${a#file:} ;; esac; done'
		cat
	} > bin/qemu-system-x86_64
	chmod +x bin/qemu-system-x86_64
	: > guest/initrd
}

boots()
{
	accel=tcg
	guest_boot 6.12 "$PWD/guest" > output
	echo "status=$guest_status died=$guest_died" > verdict
}

atf_test_case run__without_qemu
run__without_qemu_head()
{
	atf_set "descr" "Without QEMU the error names the package"
	atf_set "timeout" "30"
}
run__without_qemu_body()
{
	mkdir bin
	ln -s /usr/sbin/* bin/
	ln -sf /usr/bin/* bin/
	rm -f bin/qemu-system-*
	atf_check -s exit:1 -e match:'qemu-system-x86_64 is not there: install the package' \
		env PATH="$PWD/bin" "$(atf_config_get top)/kernel-tests/run" 6.12 -- true
}

atf_test_case run__wrong_usage
run__wrong_usage_head()
{
	atf_set "descr" "An unknown kernel or option, or no command, is usage and status 2"
}
run__wrong_usage_body()
{
	run=$(atf_config_get top)/kernel-tests/run
	atf_check -s exit:2 -e match:"no kernel '7.99'" "$run" 7.99 -- true
	atf_check -s exit:2 -e match:"unknown option '--bogus'" "$run" 6.12 --bogus x -- true
	atf_check -s exit:2 -e match:"--memory takes a number" "$run" 6.12 --memory lots -- true
	atf_check -s exit:2 -e match:"--sysctl takes NAME=VALUE" "$run" 6.12 --sysctl "a=1; reboot" -- true
	atf_check -s exit:2 -e match:"--sysctl takes NAME=VALUE" "$run" 6.12 --sysctl vm.x -- true
	atf_check -s exit:2 -e match:"--cpus takes a number from 1" "$run" 6.12 --cpus 0 -- true
	atf_check -s exit:2 -e match:"--timeout takes a number from 1" "$run" 6.12 --timeout 08 -- true
	atf_check -s exit:2 -e match:"no module 'nosuch'" "$run" 6.12 --modules nosuch -- true
	atf_check -s exit:2 -e match:"no directory .*/nothere" "$run" 6.12 --build nothere -- true
	atf_check -s exit:2 -e match:"no command after --" "$run" 6.12
	atf_check -s exit:2 -e match:"which kernel" "$run" -- true
	atf_check -o match:'^run KERNEL' -o match:'--la57 off' "$run" --help
}

atf_test_case fetch__unreachable_suite
fetch__unreachable_suite_head()
{
	atf_set "descr" "A suite that cannot be reached is a failure that names it"
}
fetch__unreachable_suite_body()
{
	mkdir cache
	atf_check -s exit:1 -e match:'suite bookworm cannot be reached at http://127.0.0.1:1' \
		env XDG_CACHE_HOME="$PWD/cache" DEBIAN_MIRROR=http://127.0.0.1:1/debian \
		"$(atf_config_get top)/kernel-tests/fetch" 6.1
	atf_check -s exit:1 -e match:'kernel 6.1 is not in .* KERNELS_OFFLINE is set' \
		env XDG_CACHE_HOME="$PWD/cache" KERNELS_OFFLINE=1 \
		"$(atf_config_get top)/kernel-tests/fetch" 6.1
	atf_check -o empty find cache/procscope -name vmlinuz -o -name SHA256SUMS
}

atf_test_case fetch__one_suite_for_many
fetch__one_suite_for_many_head()
{
	atf_set "descr" "Kernels of one suite fetch its lists once, and none is refused for the other"
	atf_set "timeout" "30"
}
fetch__one_suite_for_many_body()
{
	mkdir bin cache
	printf '%s\n' '#!/bin/sh' 'mkdir "$LISTS/lock" || exit 100' 'echo updated >> "$LISTS/calls"' \
		'cat "$LISTS/all-begun"' 'rmdir "$LISTS/lock"' > bin/apt-get
	chmod +x bin/apt-get
	mkdir lists
	mkfifo lists/all-begun
	export LISTS="$PWD/lists" DEBIAN_MIRROR=http://127.0.0.1:1/debian
	load
	pids=
	for i in 1 2 3 4; do (apt_update trixie) & pids="$pids $!"; done
	: > lists/all-begun
	for p in $pids; do wait "$p" || atf_fail "one of the updates failed"; done
	atf_check -o inline:'updated\n' cat lists/calls
}

atf_test_case fetch__no_room
fetch__no_room_head()
{
	atf_set "descr" "A cache without room is refused before anything is downloaded"
	atf_set "require.user" "root"
	atf_set "require.progs" "unshare"
}
fetch__no_room_body()
{
	mkdir cache
	atf_check -s exit:1 -e match:'needs 300 MB, there are .* free .* set XDG_CACHE_HOME' \
		env XDG_CACHE_HOME="$PWD/cache" DEBIAN_MIRROR=http://127.0.0.1:1/debian \
		unshare -m sh -c 'mount -t tmpfs -o size=4m none "$XDG_CACHE_HOME" && exec "$0" 6.1' \
		"$(atf_config_get top)/kernel-tests/fetch"
}

atf_test_case cache__damage_is_noticed
cache__damage_is_noticed_head()
{
	atf_set "descr" "An entry whose checksum is wrong is removed, a good one is kept"
}
cache__damage_is_noticed_body()
{
	load
	dir=$(entry_new)
	echo kernel > "$dir/vmlinuz"
	entry_keep "$dir" kernels/x
	entry_good kernels/x || atf_fail "a whole entry is not good"
	echo more >> "$cache/kernels/x/vmlinuz"
	! entry_good kernels/x 2> said || atf_fail "a damaged entry is good"
	atf_check -o match:'kernels/x is damaged .checksum.' cat said
	[ ! -e "$cache/kernels/x" ] || atf_fail "the damaged entry is still there"
}

atf_test_case cache__interrupted_leaves_nothing
cache__interrupted_leaves_nothing_head()
{
	atf_set "descr" "A run that is killed while it makes an entry leaves none and no lock"
}
cache__interrupted_leaves_nothing_body()
{
	load
	slow()
	{
		d=$(entry_new)
		echo half > "$d/vmlinuz"
		echo begun > begun.fifo
		exec sleep 60
	}
	mkfifo begun.fifo
	locked one slow &
	read -r _ < begun.fifo
	pkill -KILL -P $! || kill -KILL $!
	wait $! || :
	! entry_good kernels/x || atf_fail "half an entry looks whole"
	atf_check -o inline:'next\n' -x ". '$kt/lib/common.sh'; locked one echo next"
}

atf_test_case boot__status_of_the_job
boot__status_of_the_job_head()
{
	atf_set "descr" "The job's output and exit status come back"
}
boot__status_of_the_job_body()
{
	load
	qemu_plays <<-'X'
		echo 'procscope-guest: up' > "$console"
		echo hello
		printf 'procscope-guest: exit 3\r\n' >> "$console"
	X
	boots
	atf_check -o inline:'status=3 died=\n' cat verdict
	atf_check -o inline:'hello\n' cat output
}

atf_test_case boot__hang_is_ended
boot__hang_is_ended_head()
{
	atf_set "descr" "A guest that never reaches /init is ended, with the console's last lines"
	atf_set "timeout" "30"
}
boot__hang_is_ended_body()
{
	load
	qemu_plays <<-'X'
		echo 'Freeing unused kernel image' > "$console"
		exec sleep 60
	X
	boot_limit_s=1
	boots
	atf_check -o match:'status= died=hung at boot: no /init after 1 s' cat verdict
	last_lines guest > last
	atf_check -o match:'Freeing unused kernel image' cat last
}

atf_test_case boot__time_limit
boot__time_limit_head()
{
	atf_set "descr" "A job that runs longer than its limit is ended"
	atf_set "timeout" "30"
}
boot__time_limit_body()
{
	load
	qemu_plays <<-'X'
		echo 'procscope-guest: up' > "$console"
		exec sleep 60
	X
	limit_s=1
	boots
	atf_check -o match:'died=still running after 1 s' cat verdict
}

atf_test_case boot__refused
boot__refused_head()
{
	atf_set "descr" "An option that the guest cannot have is told, and the job's status is not its"
	atf_set "timeout" "30"
}
boot__refused_body()
{
	qemu_plays <<- 'EOF'
		echo 'procscope-guest: up' > "$console"
		echo 'procscope-guest: refused: cannot set no.such=1 (--sysctl)' >> "$console"
	EOF
	load
	boots
	atf_check -o inline:'status= died=cannot set no.such=1 (--sysctl)\n' cat verdict
}

atf_test_case boot__interrupted
boot__interrupted_head()
{
	atf_set "descr" "An interrupt ends a guest, one that does not want to end as well"
	atf_set "timeout" "60"
}
boot__interrupted_body()
{
	qemu_plays <<- 'EOF'
		trap '' TERM INT
		echo 'procscope-guest: up' > "$console"
		while :; do sleep 0.1; done
	EOF
	cat > boots <<- EOF
		kt=$(atf_config_get top)/kernel-tests
		. "\$kt/lib/all.sh"
		accel=tcg
		guest_boot 6.12 "$PWD/guest"
	EOF
	PATH=$PWD/bin:$PATH sh boots > output &
	shell=$!
	until grep -q up guest/console 2> /dev/null; do kill -0 $shell || atf_fail 'it ended'; done
	qemu=$(cat guest/pid)
	kill -TERM $shell
	wait $shell
	atf_check_equal 130 $?
	! kill -0 "$qemu" 2> /dev/null || atf_fail 'the guest lives on'
}

atf_test_case check__one_at_a_time
check__one_at_a_time_head()
{
	atf_set "descr" "A second check in the same build directory is refused, in one line"
	atf_set "timeout" "30"
}
check__one_at_a_time_body()
{
	mkdir -p build/kernel-tests
	exec 7> build/kernel-tests/lock
	flock 7
	atf_check -s exit:1 -e inline:"check: another check runs in $PWD/build: wait for its end, \
or take another build directory (B=)
" "$(atf_config_get top)/kernel-tests/check" "$PWD/build" 6.12 -- libctx/tests/stores_test
}

atf_test_case boot__panic
boot__panic_head()
{
	atf_set "descr" "A panic is told with its reason, also after the job has begun"
}
boot__panic_body()
{
	load
	qemu_plays <<-'X'
		{ echo 'procscope-guest: up'
		  echo '[    3.1] Kernel panic - not syncing: sysrq triggered crash'; } > "$console"
	X
	boots
	atf_check -o match:'status= died=kernel panic: sysrq triggered crash' cat verdict
}

atf_test_case boot__kvm_is_tried
boot__kvm_is_tried_head()
{
	atf_set "descr" "A short boot tells whether KVM works; many who ask at once boot once"
	atf_set "timeout" "60"
}
boot__kvm_is_tried_body()
{
	qemu_plays <<- 'end'
		echo "$*" >> asked
		sleep 0.5
		[ ! -f works ] || echo 'procscope-guest: exit 0' >> "$console"
	end
	load
	root_ready() { root=$PWD; }
	: > skeleton.cpio
	for _ in 1 2 3; do locked kvm kvm_ask 6.12 2> /dev/null & done
	wait
	atf_check -o match:'^[^ ]+ no$' cat cache/procscope/kvm-probe
	atf_check -o inline:'1\n' grep -c -e '-accel kvm' asked
	rm cache/procscope/kvm-probe
	: > works
	kvm_ask 6.12
	atf_check -o match:'^[^ ]+ yes$' cat cache/procscope/kvm-probe
}

atf_test_case boot__again_where_emulation_failed
boot__again_where_emulation_failed_head()
{
	atf_set "descr" "A breakpoint that is no more, at boot, is the emulator's: another try, three at most"
}
boot__again_where_emulation_failed_body()
{
	load
	export TRIES="$PWD/tries" FAIL=1
	qemu_plays <<-'X'
		echo try >> "$TRIES"
		[ "$(wc -l < "$TRIES")" -gt "$FAIL" ] || {
			printf '%s\n' 'Oops: int3: 0000' 'Kernel panic - not syncing: Fatal exception' > "$console"
			exit 0
		}
		printf 'procscope-guest: up\nprocscope-guest: exit 0\n' > "$console"
	X
	boots
	atf_check -o inline:'status=0 died=\n' cat verdict
	atf_check -o inline:'try\ntry\n' cat tries
	FAIL=9
	boots
	atf_check -o match:'status= died=kernel panic: Fatal exception' cat verdict
	atf_check -o inline:'5\n' sh -c 'wc -l < tries'
}

atf_test_case boot__job_ends_the_guest
boot__job_ends_the_guest_head()
{
	atf_set "descr" "A guest that is gone without a result line has failed"
}
boot__job_ends_the_guest_body()
{
	load
	echo 'echo "procscope-guest: up" > "$console"' | qemu_plays
	boots
	atf_check -o match:'status= died=ended in the middle of the job' cat verdict
	echo ':' | qemu_plays
	boots
	atf_check -o match:'status= died=ended before /init' cat verdict
}

atf_test_case boot__qemu_fails
boot__qemu_fails_head()
{
	atf_set "descr" "An error of QEMU is told in its own words"
}
boot__qemu_fails_body()
{
	load
	echo 'echo "cannot set up guest memory" >&2; exit 1' | qemu_plays
	boots
	atf_check -o match:'died=QEMU ended with status .*: cannot set up guest memory' cat verdict
}

atf_test_case messages__faults_of_the_kernel
messages__faults_of_the_kernel_head()
{
	atf_set "descr" "BUG, WARNING, Oops and panic are faults; what programs do is not"
}
messages__faults_of_the_kernel_body()
{
	load
	printf '%s\n' '[ 1.0] x[12]: segfault at 0 ip 00 sp 00 error 4' \
		'[ 1.1] traps: y[13] general protection fault ip:0 sp:0 error:0' \
		'[ 1.2] Warning: unable to open an initial console.' > quiet
	atf_check_equal '' "$(kernel_faults quiet)"
	for m in 'WARNING: CPU: 0 PID: 1 at mm/x.c:1 f+0x1/0x2' 'BUG: kernel NULL pointer dereference' \
		'kernel BUG at mm/x.c:1!' 'Oops: 0000 [#1] SMP' 'Kernel panic - not syncing: x'; do
		echo "[    2.3] $m" | cat quiet - > loud
		atf_check_equal "$m" "$(kernel_faults loud)"
	done
}

# judge EXPECTATION... : kernel 5.10 and the cases a to d, of which c skipped
# itself and d has no result
judge()
{
	printf '%s\n' "$@" > expectations
	printf 'p:%s\n' a b c d > cases
	printf 'p:a\tpassed\t\t\np:b\tfailed\tcheck failed\tlacks PAGEMAP_SCAN here\np:c\tskipped\tno cc\t\n' > raw
	awk -v boot=5.10 -v kernel=5.10 -v died="$died" -f "$(atf_config_get top)/kernel-tests/lib/judge.awk" \
		expectations cases raw
}

atf_test_case judge__everything_must_pass
judge__everything_must_pass_head()
{
	atf_set "descr" "Without a line, a failure, a skip and a missing result have failed"
}
judge__everything_must_pass_body()
{
	died=''
	judge '6.12 *:* skipped no cc' > out
	atf_check -o inline:'guest 5.10 p:a passed\n' sed -n 1p out
	atf_check -o match:'^guest 5.10 p:b failed check failed$' sed -n 2p out
	atf_check -o match:'^guest 5.10 p:c failed skipped, which .* no cc$' sed -n 3p out
	atf_check -o match:'^guest 5.10 p:d failed no result' sed -n 4p out
}

atf_test_case judge__expected_refusals_and_skips
judge__expected_refusals_and_skips_head()
{
	atf_set "descr" "A refusal counts as passed when its output holds the text, and only then"
}
judge__expected_refusals_and_skips_body()
{
	died=''
	judge '5.10,6.1 p:* passed-or-refused PAGEMAP_SCAN' '* p:c skipped no cc' > out
	atf_check -o match:'p:a passed$' sed -n 1p out
	atf_check -o match:'p:b passed refused as expected' sed -n 2p out
	atf_check -o match:'p:c skipped no cc$' sed -n 3p out
	judge '5.10 p:[ab] refused PAGEMAP_SCAN' > out
	judge '5.10 p:a refused PAGEMAP_SCAN' '5.10 p:b refused soft-dirty' > out
	atf_check -o match:'p:a failed not refused' sed -n 1p out
	atf_check -o match:'p:b failed not refused' sed -n 2p out
	# the last line of a case is the one that counts
	judge '5.10 p:* passed-or-refused PAGEMAP_SCAN' '5.10 p:b passed it can' > out
	atf_check -o match:'p:b failed check failed' sed -n 2p out
	judge '5.10 p:* passed-or-refused PAGEMAP_SCAN' '5.10 p:a refused PAGEMAP_SCAN' > out
	atf_check -o match:'p:a failed not refused' sed -n 1p out
	atf_check -o match:'p:b passed refused as expected' sed -n 2p out
}

atf_test_case judge__dead_guest
judge__dead_guest_head()
{
	atf_set "descr" "When the guest dies, the running case and those after it have failed"
}
judge__dead_guest_body()
{
	died='kernel panic: x'
	judge '# none' > out
	atf_check -o match:'p:d failed no result: kernel panic: x' sed -n 4p out
	printf 'p:d\n' > extra
	cat raw extra > raw2
	awk -v boot=5.10 -v kernel=5.10 -v died="$died" -f "$(atf_config_get top)/kernel-tests/lib/judge.awk" \
		expectations cases raw2 > out
	atf_check -o match:'p:d failed the guest ended in this case: kernel panic: x' sed -n 4p out
}

atf_test_case judge__expectation_not_understood
judge__expectation_not_understood_head()
{
	atf_set "descr" "A line of the expectations that is no expectation is an error"
}
judge__expectation_not_understood_body()
{
	died=''
	atf_check -s exit:1 -o ignore -e match:'expectations:1: not understood' \
		awk -v boot=5.10 -v kernel=5.10 -v died= -f "$(atf_config_get top)/kernel-tests/lib/judge.awk" - /dev/null /dev/null <<-X
		5.10 p:a pased
	X
}

atf_init_test_cases()
{
	atf_add_test_case run__without_qemu
	atf_add_test_case run__wrong_usage
	atf_add_test_case fetch__unreachable_suite
	atf_add_test_case fetch__one_suite_for_many
	atf_add_test_case fetch__no_room
	atf_add_test_case cache__damage_is_noticed
	atf_add_test_case cache__interrupted_leaves_nothing
	atf_add_test_case boot__status_of_the_job
	atf_add_test_case boot__hang_is_ended
	atf_add_test_case boot__time_limit
	atf_add_test_case boot__refused
	atf_add_test_case boot__interrupted
	atf_add_test_case check__one_at_a_time
	atf_add_test_case boot__panic
	atf_add_test_case boot__kvm_is_tried
	atf_add_test_case boot__again_where_emulation_failed
	atf_add_test_case boot__job_ends_the_guest
	atf_add_test_case boot__qemu_fails
	atf_add_test_case messages__faults_of_the_kernel
	atf_add_test_case judge__everything_must_pass
	atf_add_test_case judge__expected_refusals_and_skips
	atf_add_test_case judge__dead_guest
	atf_add_test_case judge__expectation_not_understood
}
