# `wprof images`: what it prints and says, and that whatever stops it, disk full or
# kill, leaves the shipped level whole or not there.

use_wprof()
{
	PATH=$(atf_get_srcdir)/../../bin:$PATH
	export PATH
}
mkimages() { python3 "$(atf_config_get top)/libwprof/tests/mkimages.py" "$@" || atf_fail "mkimages.py"; }

# two dumps of two processes: full/1 and full/2, and the hot pages of process 10
chain()
{
	use_wprof
	mkdir full ship
	mkimages full/1 - 100 pagemap-10:1 0x400000:8:4 0x500000:4:4 pagemap-20:1 0x400000:2:4
	mkimages full/2 ../1 200 dump pagemap-10:1 0x400000:4:1 0x404000:2:4 0x500000:4:1 \
		pagemap-20:1 0x400000:2:1
	echo '402000 405000' > hot
}

atf_test_case usage
usage_head()
{
	atf_set "descr" "Wrong usage exits with 2 and one line that helps"
}
usage_body()
{
	use_wprof
	for args in '' 'a b' '--complete a' '--withhold hot a' '--complete --withhold hot a b' \
		'--verify --complete a b' '--parent x a' '--no-sync a' 'a b c --complete' '--bad a'; do
		echo '1000 2000' > hot
		# shellcheck disable=SC2086 # words
		atf_check -s exit:2 -e not-empty -o empty wprof images $args
	done
}

atf_test_case refusals
refusals_head()
{
	atf_set "descr" "What cannot be done exits with 1 and one line with the reason"
	atf_set "require.progs" "python3"
}
refusals_body()
{
	chain
	atf_check -s exit:1 -e inline:'wprof: none: No such file or directory\n' wprof images none
	atf_check -s exit:1 -e match:'did not finish' wprof images full
	echo '402000 401000' > bad
	atf_check -s exit:1 -e match:'bad, line 1' wprof images --withhold bad full/1 ship/1
	atf_check -s exit:1 -e match:'none: No such' wprof images --withhold 10:none full/1 ship/1
	atf_check -s exit:1 -e match:'parent link ../1' wprof images --complete full/2 ship/2
	truncate -s -1 full/1/pages-1.img
	atf_check -s exit:1 -e match:'full/1/pages-1.img: 49151 bytes.*truncated' \
		wprof images --withhold hot full/1 ship/1
	atf_check -o empty ls -A ship
}

atf_test_case show
show_head()
{
	atf_set "descr" "Levels, processes, pages, holes and withheld ranges are shown"
	atf_set "require.progs" "python3 jq"
}
show_body()
{
	chain
	atf_check -o match:'ship/1: 45064 bytes|ship/1: 4.* written; pages: 11 copied' \
		wprof images --withhold 10:hot full/1 ship/1
	atf_check -o save:ship.json wprof images --json --withhold 10:hot full/2 ship/2
	atf_check -o inline:'wprof.images.ship 1 1 8 3\n' jq -r \
		'"\(.format) \(.version) \(.present_pages) \(.parent_pages) \(.withheld_pages)"' ship.json
	atf_check -o match:'^    0  ship/2: dump to ship, hot pages withheld' \
		-o match:'^    1  ship/1: pre-dump to ship' \
		-o match:'process 10 +1 +6 +3' -o match:'withheld 402000-405000  12.0 KiB' \
		wprof images ship/2
	atf_check -o save:show.json wprof images --json ship/2
	atf_check -o inline:'["wprof.images",1,2,"../1","withheld",10,3,"0x402000","0x405000"]\n' \
		jq -c '[.format, .version, (.levels | length), .levels[0].parent, .levels[0].state,
		.levels[0].processes[0].pid, .levels[0].processes[0].withheld_pages,
		.levels[0].processes[0].withheld[0].start, .levels[0].processes[0].withheld[0].end]' show.json
	atf_check -o inline:'[12,2,null,"pre-dump"]\n' jq -c \
		'[.levels[1].processes[0].present_pages + 3, .levels[1].processes[1].present_pages,
		.levels[1].stats, .levels[1].kind]' show.json
}

atf_test_case verify
verify_head()
{
	atf_set "descr" "A withheld chain does not restore, a completed one does, without the full"
	atf_set "require.progs" "python3 jq"
}
verify_body()
{
	chain
	atf_check -o match:'all 10 holes resolve' wprof images --verify full/2
	atf_check -s exit:1 -o match:'a pre-dump; all its pages' wprof images --verify full/1
	atf_check -o ignore wprof images --withhold hot full/1 ship/1
	atf_check -o ignore wprof images --withhold hot full/2 ship/2
	atf_check -s exit:1 -o match:'lost: process 10, 402000-405000: level 0, withheld' \
		-o match:'does not restore: 3 pages' wprof images --verify ship/2
	atf_check -o match:'2 filled in' wprof images --complete full/2 ship/2
	rm -r full
	atf_check -o match:'restores alone: all 8 holes resolve' wprof images --verify ship/2
	atf_check -o save:v.json wprof images --verify --json ship/2
	atf_check -o inline:'{"restores":true,"resolved_pages":8,"lost_pages":0,"lost":[]}\n' \
		jq -c .verify v.json
	rm -r ship/1
	mkimages ship/1 - 100 pagemap-10:1 0x400000:1:4
	atf_check -s exit:1 -o save:v.json wprof images --verify --json ship/2
	atf_check -o inline:'["0x401000","0x402000",1,"no entry there"]\n' jq -c \
		'.verify.lost[0] | [.start, .end, .level, .reason]' v.json
}

# ---- whatever stops it ------------------------------------------------------------

# every call by which something is written, named or made sure
writing='write copy_file_range fsync mkdirat symlinkat renameat renameat2'

# stop_at CALL N HOW ARGS...: run wprof images, stopped at the Nth such call;
# false once there are not so many
stop_at()
{
	call=$1 n=$2 how=$3; shift 3
	# traced, a sanitizer cannot look for leaks
	ASAN_OPTIONS=detect_leaks=0 strace -f -o trace.out -e "trace=$call" -e signal=none -e "inject=$call:$how:when=$n" \
		wprof images "$@" > out 2> err &
	wait $! 2> /dev/null
	grep -q INJECTED trace.out || ! tail -n 1 trace.out | grep -q 'exited with'
}

require_whole()
{
	for f in inventory.img pagemap-10.img pages-1.img pages-2.img; do
		cmp "$1/$f" "$2/$f" || atf_fail "$3: $1/$f is not whole"
	done
}

atf_test_case disk_full
disk_full_head()
{
	atf_set "descr" "The disk full at any write leaves nothing, and one line with the reason"
	atf_set "require.progs" "python3 strace"
}
disk_full_body()
{
	chain
	atf_check -o ignore wprof images --withhold hot full/1 want
	failed=0
	for call in $writing openat; do
		n=1
		while rm -rf ship/*; stop_at $call $n error=ENOSPC --withhold hot full/1 ship/1; do
			n=$((n + 1))
			# loading the program, or printing what was done
			grep -q '^wprof: ' err && ! grep -q 'standard output' err || continue
			failed=$((failed + 1))
			[ "$(wc -l < err)" = 1 ] && grep -q 'No space left on device' err ||
				atf_fail "$call $n: $(cat err)"
			# after the rename only the sync of the directories is left to fail
			if grep -q 'the directory of 1' err; then
				require_whole ship/1 want "$call $n"
			else
				[ -z "$(ls -A ship)" ] || atf_fail "$call $n: $(ls -A ship) is left"
			fi
		done
	done
	[ $failed -gt 25 ] || atf_fail "only $failed calls failed"
}

atf_test_case killed
killed_head()
{
	atf_set "descr" "Killed at any call, the level is whole or not there, and the next run succeeds"
	atf_set "require.progs" "python3 strace"
}
killed_body()
{
	chain
	atf_check -o ignore wprof images --withhold hot full/1 want
	marked=0 whole=0
	for call in $writing unlinkat; do
		n=1
		while rm -rf ship/*; stop_at $call $n signal=KILL --withhold hot full/1 ship/1; do
			if [ -e ship/1.partial/unfinished.wprof ]; then
				marked=$((marked + 1))
				atf_check -s exit:1 -e match:'half made' wprof images ship/1.partial
			fi
			if [ -d ship/1 ]; then
				whole=$((whole + 1))
			else
				atf_check -o ignore wprof images --withhold hot full/1 ship/1
			fi
			require_whole ship/1 want "killed at $call $n"
			[ "$(ls -A ship)" = 1 ] || atf_fail "$call $n: $(ls -A ship)"
			n=$((n + 1))
		done
	done
	[ $marked -ge 10 ] || atf_fail "only $marked half-made levels"
	[ $whole -ge 1 ] || atf_fail "never killed at the end"
}

atf_test_case killed_replacing
killed_replacing_head()
{
	atf_set "descr" "Killed while a withheld level is replaced, the old or the new one stands"
	atf_set "require.progs" "python3 strace"
}
killed_replacing_body()
{
	chain
	atf_check -o ignore wprof images --withhold hot full/1 old
	atf_check -o ignore wprof images --complete full/1 new
	old=0 new=0
	for call in fsync renameat2 unlinkat; do
		n=1
		while rm -rf ship/*; cp -a old ship/1; stop_at $call $n signal=KILL --complete full/1 ship/1; do
			n=$((n + 1))
			if cmp -s ship/1/pages-1.img new/pages-1.img; then
				new=$((new + 1))
				require_whole ship/1 new "killed at $call $n"
				# what is left of the old one is in nobody's way
				rm -rf ship/1
			else
				old=$((old + 1))
				require_whole ship/1 old "killed at $call $n"
			fi
			atf_check -o ignore wprof images --complete full/1 ship/1
			require_whole ship/1 new "after $call $n"
			[ "$(ls -A ship)" = 1 ] || atf_fail "after $call $n: $(ls -A ship)"
		done
	done
	[ $old -ge 5 ] && [ $new -ge 5 ] || atf_fail "stood: $old old ones, $new new ones"
}

atf_test_case file_size_limit
file_size_limit_head()
{
	atf_set "descr" "A limit on file sizes is an error like a full disk, not a death"
	atf_set "require.progs" "python3"
}
file_size_limit_body()
{
	chain
	atf_check -s exit:1 -e match:'1.partial/pages-1.img: File too large' sh -c \
		'ulimit -f 16; exec "$@"' sh wprof images --withhold hot full/1 ship/1
	atf_check -o empty ls -A ship
}

atf_test_case small_disk
small_disk_head()
{
	atf_set "descr" "A small file system that fills up ends empty again"
	atf_set "require.user" "root"
	atf_set "require.progs" "python3 unshare"
}
small_disk_body()
{
	chain
	cat > full.sh <<-'SCRIPT'
		mount -t tmpfs -o size=32k none ship || exit 99
		"$@"
		rc=$?
		[ -z "$(ls -A ship)" ] || exit 98
		exit $rc
	SCRIPT
	atf_check -s exit:1 -e match:'1.partial.*No space left on device' unshare -m sh full.sh \
		wprof images --withhold hot full/1 ship/1
}

atf_init_test_cases()
{
	atf_add_test_case usage
	atf_add_test_case refusals
	atf_add_test_case show
	atf_add_test_case verify
	atf_add_test_case disk_full
	atf_add_test_case killed
	atf_add_test_case killed_replacing
	atf_add_test_case file_size_limit
	atf_add_test_case small_disk
}
