# shellcheck shell=sh
# Booting: QEMU's arguments, the choice between KVM and emulation, watching.

boot_limit_s=120 # until /init runs; TCG needs 3 s, a busy machine more

# qemu_args KERNEL INITRD ACCEL
# Without ERMS: emulation does `rep movsb` byte by byte, and with it library and kernel
# copy and clear that way.
qemu_args()
{
	guest_cpus "$1"
	cpu=max,-erms${la57:+,la57=$la57}
	case $3 in
	kvm) accel=kvm ;;
	*) accel=tcg,tb-size=512,thread=$(kernel_field "$1" 3) ;;
	esac
	printf '%s\n' -accel "$accel" -cpu "$cpu" -smp "$cpus" -m "$memory_mb" \
		-nic none -no-reboot -nodefaults -display none -monitor none \
		-kernel "$cache/kernels/$1/vmlinuz" -initrd "$2"
}

# A soft lockup, a stall or a late timer under emulation says that this machine is
# busy; the last of these would be a panic (IO-APIC + timer doesn't work).
kernel_line='console=ttyS0 panic=-1 mitigations=off tsc=reliable no_timer_check audit=0 rcupdate.rcu_expedited=1 nosoftlockup nmi_watchdog=0 rcupdate.rcu_cpu_stall_suppress=1'

# kvm_works KERNEL: a short boot proves it; the answer is kept until the next
# boot of this machine, for a KVM that hangs would cost the time each run
kvm_works()
{
	[ -w /dev/kvm ] || return 1
	locked kvm kvm_ask "$1"
	grep -q ' yes$' "$cache/kvm-probe" 2> /dev/null
}

# kvm_ask KERNEL: the answer, unless it is known; one asks, others wait for the answer
kvm_ask()
{
	key=$(cat /proc/sys/kernel/random/boot_id 2> /dev/null)
	! grep -q "^$key " "$cache/kvm-probe" 2> /dev/null || return 0
	root_ready
	answer=no
	! kvm_probe "$1" || answer=yes
	echo "$key $answer" > "$cache/kvm-probe"
}

kvm_probe()
{
	dir=$(entry_new) || return 1
	mkdir -p "$dir/root/job"
	cp "$kt/guest/init" "$dir/root/init"
	echo 'exit 0' > "$dir/root/job/run"
	guest_options > "$dir/root/job/options"
	(cd "$dir/root" && find . -mindepth 1 | cpio --quiet -o -H newc -R 0:0) | cat "$root/skeleton.cpio" - > "$dir/initrd"
	qemu_args "$1" "$dir/initrd" kvm > "$dir/args"
	timeout -k 1 15 xargs -d '\n' -a "$dir/args" qemu-system-x86_64 -append "$kernel_line" \
		-serial "file:$dir/console" > /dev/null 2>&1 < /dev/null || :
	rc=1
	! grep -q 'procscope-guest: exit 0' "$dir/console" 2> /dev/null || rc=0
	rm -rf "$dir"
	return "$rc"
}

guest_options()
{
	echo "modules='${modules:-}' sysctls='${sysctls:-}' thp='${thp:-}' swap_mb='${swap_mb:-0}' tty_mode='${tty_mode:-}'"
}

# ---- options of a boot, the same for run, shell and check
cpus='' memory_mb=1536 la57='' thp='' swap_mb=0 sysctls='' modules='' extras='' limit_s=1800 accel=auto tty_mode=''

guest_options_help='
  --cpus N        processors (1 or 2)     --memory MB      memory (1536)
  --la57 off      4-level page tables     --thp MODE       always, madvise or never
  --swap MB       compressed swap space   --sysctl K=V     may be given again
  --modules "M"   kernel modules to load  --with EXTRA     of kernel-tests/extras, again
  --timeout S     end the guest (1800)    --accel A        auto, kvm or tcg
  --build DIR     what to take along (build)'

number() { case $2 in ''|0*|*[!0-9]*) usage "$1 takes a number from 1, not '$2'" ;; esac; }

# build_dir: $build, from the top of the tree where it is relative
build_dir() { case $build in /*) echo "$build" ;; *) echo "$top/$build" ;; esac; }

# guest_cpus KERNEL: sets $cpus where no option did
guest_cpus() { [ -n "$cpus" ] || cpus=$(kernel_field "$1" 5); }

# guest_option OPTION VALUE: takes one of those above
guest_option()
{
	case $1 in
	--cpus) number "$@"; cpus=$2 ;;
	--memory) number "$@"; memory_mb=$2 ;;
	--swap) number "$@"; swap_mb=$2 ;;
	--timeout) number "$@"; limit_s=$2 ;;
	--la57) case $2 in on|off) la57=$2 ;; *) usage "--la57 takes on or off, not '$2'" ;; esac ;;
	--thp) case $2 in always|madvise|never) thp=$2 ;; *) usage "--thp takes always, madvise or never, not '$2'" ;; esac ;;
	--accel) case $2 in auto|kvm|tcg) accel=$2 ;; *) usage "--accel takes auto, kvm or tcg, not '$2'" ;; esac ;;
	--sysctl) case $2 in
		*[!A-Za-z0-9._=/-]*) usage "--sysctl takes NAME=VALUE, not '$2'" ;;
		?*=?*) sysctls="$sysctls $2" ;;
		*) usage "--sysctl takes NAME=VALUE, not '$2'" ;;
		esac ;;
	--modules) for m in $2; do
			table modules | grep -qx -- "$m" || usage "no module '$m' in kernel-tests/modules"
		done
		modules="$modules $2" ;;
	--with) table_line extras "$2" > /dev/null || usage "no '$2' in kernel-tests/extras"
		extras="$extras $2" modules="$modules $(extra_modules "$2")" ;;
	--build) build=$2
		[ -d "$(build_dir)" ] || usage "there is no directory $(build_dir) (--build)" ;;
	*) usage "unknown option '$1'" ;;
	esac
}

# guest_prepare KERNEL DIR: the cache is filled; DIR/initrd is ready. The job
# runs DIR/job/run in the guest. $guest_tree is the tree's archive, where guests share it.
guest_prepare()
{
	need_program qemu-system-x86_64 qemu-system-x86
	kernel_ready "$1" || exit 1
	root_ready
	for x in $extras; do extra_ready "$x" || exit 1; done
	guest_options > "$2/job/options"
	cp "$kt/guest/init" "$2/job/init"
	job_make "$top" "$2/job" "$2/job.cpio"
	tree=${guest_tree:-$2/tree.cpio}
	[ -n "${guest_tree:-}" ] || tree_make "$top" "$(build_dir)" "$tree"
	(cd "$cache" && cat "$root/skeleton.cpio" "$root/root.cpio" "kernels/$1/modules.cpio" \
		$(for x in $extras; do echo "extras/$x/root.cpio"; done)) | cat - "$2/job.cpio" "$tree" > "$2/initrd" ||
		die "making the guest's memory image failed: is there room? ($(df -Ph "$2" | awk 'NR == 2 { print $4 " free on " $6 }'))"
	rm -rf "$2/job" "$2/job.skel" "$2/job.cpio" "$2/tree.cpio"
}

# guest_boot KERNEL DIR: boots DIR/initrd. The job's output is on stdout, the
# console in DIR/console. Sets $guest_status to the job's exit status, or to
# nothing with the cause in $guest_died.
guest_boot()
{
	[ "$accel" != auto ] || { accel=tcg; ! kvm_works "$1" || accel=kvm; }
	qemu_args "$1" "$2/initrd" "$accel" > "$2/args"
	for _ in 1 2 3; do
		guest_try "$2"
		emulation_failed "$2" || break
	done
	rm -f "$2/initrd" "$2/pid" "$2/args"
}

# emulation_failed DIR: several emulated processors sometimes meet a breakpoint that the
# kernel has taken away again while it patches itself at boot; no kernel's fault
emulation_failed()
{
	[ "$accel" != kvm ] && grep -q 'Oops: int3' "$1/console" && ! grep -q 'procscope-guest: up' "$1/console"
}

guest_try()
{
	rm -f "$1/rc" "$1/console"
	: > "$1/console"
	{
		rc=0
		timeout --foreground -k 5 $((limit_s + 60)) xargs -d '\n' -a "$1/args" \
			sh -c 'echo $$ > "$0"; exec qemu-system-x86_64 "$@"' "$1/pid" \
			-append "$kernel_line" -serial "file:$1/console" \
			-chardev stdio,id=job,signal=off -serial chardev:job < "${guest_stdin:-/dev/null}" 2> "$1/qemu.err" || rc=$?
		echo "$rc" > "$1/rc.new" && mv "$1/rc.new" "$1/rc"
	} &
	guest_dir=$1
	trap 'guest_kill "$guest_dir"; wait; exit 130' INT TERM HUP
	guest_watch "$1"
	wait
	trap 'exit 130' INT TERM HUP
	guest_verdict "$1"
}

# guest_kill DIR: QEMU is asked to end, and made to after five seconds
guest_kill()
{
	tries=0
	until [ -s "$1/pid" ] || [ -f "$1/rc" ] || [ $tries = 20 ]; do sleep 0.1; tries=$((tries + 1)); done
	kill "$(cat "$1/pid" 2> /dev/null)" 2> /dev/null || return 0
	tries=0
	until [ -f "$1/rc" ] || [ $tries = 25 ]; do sleep 0.2; tries=$((tries + 1)); done
	[ -f "$1/rc" ] || kill -KILL "$(cat "$1/pid")" 2> /dev/null || :
}

# guest_watch DIR: until QEMU is gone, ending it when it takes too long
guest_watch()
{
	begun=$(date +%s) guest_died=''
	until [ -f "$1/rc" ]; do
		sleep 0.2
		took=$(($(date +%s) - begun))
		if [ "$took" -ge "$limit_s" ]; then
			guest_died="still running after $limit_s s"
		elif [ "$took" -ge "$boot_limit_s" ] && ! grep -q 'procscope-guest: up' "$1/console"; then
			guest_died="hung at boot: no /init after $boot_limit_s s"
		else
			continue
		fi
		guest_kill "$1"
		break
	done
}

guest_verdict()
{
	guest_status=$(sed -n 's/.*procscope-guest: exit \([0-9]*\).*/\1/p' "$1/console" | tail -n 1)
	[ -z "$guest_died" ] || { guest_status=; return 0; }
	[ -z "$guest_status" ] || return 0
	if grep -q 'procscope-guest: refused' "$1/console"; then
		guest_died=$(sed -n 's/.*procscope-guest: refused: //p' "$1/console" | tr -d '\r' | head -n 1)
	elif grep -q 'Kernel panic' "$1/console"; then
		guest_died="kernel panic: $(sed -n 's/.*Kernel panic[^:]*: //p' "$1/console" | tr -d '\r' | head -n 1)"
	elif [ "$(cat "$1/rc")" != 0 ]; then
		guest_died="QEMU ended with status $(cat "$1/rc"): $(grep . "$1/qemu.err" | tail -n 1)"
	elif ! grep -q 'procscope-guest: up' "$1/console"; then
		guest_died='ended before /init'
	else
		guest_died='ended in the middle of the job'
	fi
}

# Kernel messages that fail a run, however the tests went. What user programs
# do (segfault, general protection fault without Oops) is not among them.
kernel_faults()
{
	cat "$@" 2> /dev/null | tr -d '\r' |
		grep -E 'WARNING: |BUG: |kernel BUG at|Oops[: -]|Kernel panic|UBSAN: |INFO: task .* blocked for more' |
		sed 's/^\[ *[0-9.]*\] *//' | sort -u | head -n 5
}

# last_lines DIR [KEPT]: the end of the console, for a failure, and where all of it is
last_lines()
{
	echo "--- last lines of the console${2:+ ($2)}:"
	tr -d '\r' < "$1/console" | grep . | tail -n 15
	grep . "$1/qemu.err" | tail -n 3 || :
}
