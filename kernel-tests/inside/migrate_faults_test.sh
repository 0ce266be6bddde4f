# Migrations that go wrong, with a real CRIU: what the agent says, that the process
# lives wherever CRIU left it alive, that the next attempt works, and that what is
# restored in the end is equal. strace ends programs, or slows them down, at a system
# call, so that no case depends on luck. What a stand-in for CRIU can show is in
# libwprof/tests/dump_test.
#
# As a round takes minutes under emulation, it is in `make check-kernels` alone: the
# boot 6.12-faults.

# case_of NAME TIMEOUT DESCRIPTION: a case whose body is the function NAME
case_of()
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$3'; atf_set timeout $2; atf_set require.user root
			atf_set require.progs 'strace rsync'; }
		$1_body() { here=\$(atf_config_get top)/kernel-tests/inside
			. \"\$here/criu.sh\"; . \"\$here/migrate.sh\"; setup 4_1; breakable; $1; }
		$1_cleanup() { . \"\$(atf_config_get top)/kernel-tests/inside/criu.sh\"; finish
			umount source target 2> /dev/null || :; }"
	cases="${cases-} $1"
}
# CRIU as the file `how` says, if there is one
breakable()
{
	cat > criu-breakable <<- END
		#!/bin/sh
		[ "\$1" != --help ] && [ -e $PWD/how ] && exec \$(cat $PWD/how) $criu "\$@"
		exec $criu "\$@"
	END
	chmod +x criu-breakable
	stock=$criu criu=$PWD/criu-breakable
}
# at_call CALL DEED [ARG...]: strace does that at CRIU's first such call
at_call()
{
	call=$1 deed=$2; shift 2
	echo "strace -o $PWD/strace.out $* -e trace=$call -e inject=$call:$deed:when=1" > how
}
# the file of the pages is made when the first pages are about to be written
at_pages() { at_call openat "$1" -P pages-1.img; }

# begin [MODE]: an agent that profiles a memwrite
begin()
{
	agent_start "${1-withhold}"
	start memwrite --size 8M --rate 32M
	await children 0
	await grep -q OTEL_CTX "/proc/$pid/maps"
	profile
}
children() { [ "$(tree_pids "$pid" | wc -l)" = $(($1 + 1)) ]; }

# fails REGEX HOW ID [PARENT...]: the dump fails, and says so; its process lives on
fails()
{
	regex=$1; shift
	! take "$@" || atf_fail "$1 $2: did not fail: $(cat "$2.json")"
	cat "$2.err"
	grep -Eq "$regex" "$2.err" || atf_fail "$1 $2 failed with another reason: $(cat "$2.err")"
	[ ! -e "source/$2" ] || atf_fail "source/$2 is there"
}
lives()
{
	snap_tree was
	await changes
}
changes() { snap_tree is && ! cmp -s was is; }

# end_well [PARENT]: the migration is brought to its end, with the stock CRIU
end_well()
{
	rm -f how
	last_step "${1-}"
	criu=$stock
	arrive
}

# What is left of a CRIU that was killed, or whose agent was, is waited for.
not_busy() { ! grep -Eq 'is being made' "$1.err"; }
retry() { take "$@" || not_busy "$2"; }

# ---- CRIU ----------------------------------------------------------------------------

criu_killed()
{
	begin
	step pre-dump p1
	# before it touched the process: the chain holds
	at_call ptrace signal=KILL
	fails 'killed by signal 9' pre-dump p2 p1
	lives
	rm how
	await retry pre-dump p3 p1
	send p3 || atf_fail "$(cat p3.err)"
	# while it wrote pages: it does not
	at_pages signal=KILL
	fails 'killed by signal 9.*without a parent' pre-dump p4 p3
	lives
	rm how
	await retry pre-dump p5 p3
	grep 'begin again without a parent' p5.err || atf_fail "p5: $(cat p5.err)"
	step pre-dump p6
	end_well p6
}

target_exits()
{
	begin
	step pre-dump p1
	at_pages delay_exit=3000000
	take pre-dump p2 p1 &
	taking=$!
	await test -e source/p2.partial/full/pages-1.img
	kill -KILL "$pid"
	wait "$pid" 2> /dev/null
	wait $taking && echo "the pre-dump was whole" || cat p2.err
	rm how
	fails 'process' dump last p2
	ctl health | grep -q serving || atf_fail "the agent is not well"
	# and the next process is served
	start memwrite --size 4M --rate 16M
	await grep -q OTEL_CTX "/proc/$pid/maps"
	kill $watch; wait $watch 2> /dev/null
	profile
	fails 'another process|is not there' pre-dump q1 p1
	step pre-dump q2
	end_well q2
}

# ---- the disk ------------------------------------------------------------------------

disk_full()
{
	mkdir source
	mount -t tmpfs -o size=4m none source
	begin
	fails 'criu ended with .*disk is full|No space left' pre-dump p1
	lives
	mount -o remount,size=200m source
	step pre-dump p2
	intervals 2
	# room for the dump, but not for the copy that is to be sent
	used=$(du -sk source | cut -f1)
	mount -o remount,size=$((used + 13000))k source
	freeze
	snap_tree before
	! take dump last p2 || atf_fail "the dump did not fail"
	cat last.err
	grep -q 'No space left.*ask for it again' last.err || atf_fail "$(cat last.err)"
	wait "$pid" 2> /dev/null
	await test ! -e "/proc/$pid"
	mount -o remount,size=200m source
	step dump last p2
	criu=$stock
	arrive
}

images_gone()
{
	begin
	step pre-dump p1
	mv source elsewhere
	fails 'images directory' pre-dump p2 p1
	lives
	mv elsewhere source
	step pre-dump p2 p1
	# while CRIU runs
	at_pages delay_exit=3000000
	take pre-dump p3 p2 &
	taking=$!
	await test -e source/p3.partial/full/pages-1.img
	mv source elsewhere
	! wait $taking || atf_fail "no failure: $(cat p3.json)"
	cat p3.err
	lives
	mv elsewhere source
	rm how
	fails 'begin again without a parent' pre-dump p4 p2
	step pre-dump p5
	end_well p5
}

# ---- the agent -----------------------------------------------------------------------

# dying CALL N: the agent will be killed at its Nth such call; CRIU itself is not traced
dying()
{
	strace -f -b execve -q -p $agent -o strace.out -e trace="$1" \
		-e inject="$1:signal=KILL:when=$2" > /dev/null 2> strace.err &
	tracer=$!
	echo $tracer >> pids
	await attached
}
attached() { grep -q "^TracerPid:.$tracer\$" /proc/$agent/status; }

another_agent()
{
	wait $agent 2> /dev/null
	wait $tracer 2> /dev/null
	agent_start withhold --target-pid "$pid"
}

killed_in_pre_dump()
{
	begin
	parent='' n=0
	# dump.wprof written; the chain emptied; the dump named; the copy named; the chain set
	for at in 'rename 1' 'rename 2' 'rename 3' 'renameat 1' 'rename 4'; do
		n=$((n + 1))
		# shellcheck disable=SC2086 # words
		dying $at
		! take pre-dump "p$n" "$parent" || atf_fail "$at: the agent lives"
		another_agent
		ctl start "$pid" --interval 250 --granularity 64K > said || atf_fail "$(cat said)"
		lives
		await retry pre-dump "p$n" "$parent"
		if [ ! -s "p$n.json" ]; then
			cat "p$n.err"
			grep -q 'without a parent' "p$n.err" || atf_fail "$at: $(cat "p$n.err")"
			[ "$at" != 'rename 1' ] || atf_fail "the chain is lost, and nothing was begun"
			step pre-dump "p$n"
		else
			send "p$n"
		fi
		parent=p$n
		echo "killed at $at: then well"
	done
	end_well "$parent"
}

killed_in_final_dump()
{
	begin
	step pre-dump p1
	parent=p1 n=0
	for at in 'rename 2' 'rename 3' 'syncfs 1' 'renameat 1' 'rename 4'; do
		n=$((n + 1))
		freeze
		snap_tree before
		# shellcheck disable=SC2086 # words
		dying $at
		! take dump last "$parent" || atf_fail "$at: the agent lives"
		another_agent
		await retry dump last "$parent"
		[ -s last.json ] || cat last.err
		if grep -q 'it is a whole final dump' last.err; then
			rsync -aR source/./last/ship target/ || atf_fail "rsync failed"
		elif grep -q 'without a parent' last.err; then
			step dump last
		else
			send last || atf_fail "$at: $(cat last.err)"
		fi
		wait "$pid" 2> /dev/null
		await test ! -e "/proc/$pid"
		criu=$stock
		arrive last/ship
		echo "killed at $at: then well"
		criu=$PWD/criu-breakable
		rm -rf target
		agent_stop
		agent_start withhold
		ctl start "$pid" --interval 250 --granularity 64K > said || atf_fail "$(cat said)"
		parent=q$n
		step pre-dump "$parent"
	done
}

# ---- sending ---------------------------------------------------------------------------

rsync_fails()
{
	mkdir target
	mount -t tmpfs -o size=4m none target
	begin off
	take pre-dump p1 || atf_fail "$(cat p1.err)"
	! rsync -aR source/./p1/full target/ 2> rsync.err || atf_fail "rsync did not fail"
	tail -n 1 rsync.err
	lives
	mount -o remount,size=100m target
	intervals 1
	freeze
	snap_tree before
	take dump last p1 || atf_fail "$(cat last.err)"
	wait "$pid" 2> /dev/null
	await test ! -e "/proc/$pid"
	# room for half of it
	used=$(du -sk target | cut -f1)
	mount -o remount,size=$((used + 4000))k target
	! send last 2> rsync.err || atf_fail "rsync did not fail"
	tail -n 1 rsync.err
	# what has arrived does not restore, and says so
	! wprof images --verify target/last/full > said 2>&1 || atf_fail "half of it is said to restore"
	cat said
	# CRIU may crash there: what it leaves is not to be counted as arrived
	! (ulimit -c 0; exec $stock restore -d -D target/last/full -v4 -o "$PWD/half.log") ||
		atf_fail "half of it restores"
	[ ! -e "/proc/$pid" ] || atf_fail "half of it lives"
	mount -o remount,size=100m target
	send p1
	send last
	criu=$stock
	arrive
}

case_of criu_killed 300 "CRIU killed: the process lives, the chain goes on where it may"
case_of target_exits 300 "The process exits in a pre-dump: it is said, the next is served"
case_of disk_full 300 "The disk is full: the process lives, or its dump is kept; then well"
case_of images_gone 300 "The images directory is gone: the process lives; then well"
case_of killed_in_pre_dump 400 "The agent killed between the steps of a pre-dump"
case_of killed_in_final_dump 400 "The agent killed between the steps of a final dump"
case_of rsync_fails 300 "rsync fails: what is half there does not restore; then well"

atf_init_test_cases()
{
	for c in $cases; do atf_add_test_case "$c"; done
}
