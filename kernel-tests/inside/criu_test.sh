# Profiling beside CRIU: with real CRIUs, in guests that have them (the boots named
# ...-criu of kernel-tests/boots). Each case is there for every CRIU; programs_test has
# the other workloads.

# seconds N: the time a case may take; `make soak` makes fifty times as many steps
seconds() { if [ "$(atf_config_get soak false)" = true ]; then echo 3000; else echo "$1"; fi; }

# case_of NAME VERSION TIMEOUT DESCRIPTION: a case whose body is the function NAME
case_of()
{
	atf_test_case "$1__$2" cleanup
	eval "$1__$2_head() { atf_set descr '$4'; atf_set timeout \$(seconds $3); atf_set require.user root; }
		$1__$2_body() { . \"\$(atf_config_get top)/kernel-tests/inside/criu.sh\"; setup $2; $1 $2; }
		$1__$2_cleanup() { . \"\$(atf_config_get top)/kernel-tests/inside/criu.sh\"; finish; }"
	cases="${cases-} $1__$2"
}

# ---- bits 55 and 57 ------------------------------------------------------------

independence()
{
	steps=400 dumps=3
	[ "$1" != 4_1 ] || dumps=6
	[ "$(atf_config_get soak false)" != true ] || { steps=20000; dumps=60; }
	independence_program "$steps" "$dumps" || atf_fail "deviations, or it could not run"
	cat table
	grep -q "^$((256 * steps)) page-steps, 0 deviations" table || atf_fail "too few page-steps"
	# each way to change a bit was there: the comparison was of something
	awk '/^write by|^clear_refs|^PAGEMAP_SCAN that|^UFFDIO_UNREG|^CRIU/ {
		n++; sum = 0; for (i = NF - 5; i <= NF; i++) sum += $i; if (!sum) bad = 1 }
		END { exit bad || n != 7 }' table || atf_fail "an operation changed nothing"
}

independence_program()
{
	seed=$(atf_config_get seed "$(($(date +%s) % 100000 + 1))")
	"$build/bench/independence" -c "$criu" -s "$seed" -n "$1" -d "$2" > table 2> err ||
		{ cat table err; grep -h Error /tmp/independence.*/log | head -n 5; return 1; }
}

# ---- a profiler through pre-dump, pre-dump, dump, restore ------------------------

record_memwrite() { record_program memwrite --size 8M --pattern zipf --rate 16M; }

# ---- a large sparse mapping: as many pages with the profiler as without ------------

named() { [ "$(cat "/proc/$pid/comm")" = "$1" ]; }
round() { kill -USR1 "$pid"; n_rounds=$((n_rounds + 1)); await named "round $n_rounds"; }

# ask COMMAND: the session's answer, in $said
ask()
{
	said=''
	[ -n "$session" ] || return 0
	echo "$1" >&3
	read -r said <&4
	echo "$said"
}

# sparse_dumps WHERE [SESSION]: two pre-dumps and a dump, after the same rounds
sparse_dumps()
{
	n_rounds=0 session=${2-}
	start target sparse
	await named "round 0"
	if [ -n "$session" ]; then
		session "$pid" < in > out & echo $! >> pids
		exec 3> in 4< out
		ask open
	fi
	for level in 1 2 3; do
		round; ask sample > "sample$((level * 2 - 1))"
		round; ask sample > "sample$((level * 2))"
		[ $level = 3 ] || dump_ok pre-dump $level
	done
	dump_ok dump 3 --leave-running
	snap before
	ask sample > sample7
	end_it "$pid"
	ask sample > sample8
	for level in 1 2 3; do
		wprof images --json images/$level | jq -r '.levels[0] | "\(.stats.written_pages) \(.pages_bytes)"'
	done > "$1"
}

sparse()
{
	mkfifo in out
	sparse_dumps without
	rm -rf images; mkdir images
	sparse_dumps with session
	echo "pages and bytes that CRIU wrote, without and with the profiler:"
	paste without with
	[ "$(grep -c '^[1-9]' without)" = 3 ] || atf_fail "no figures"
	cmp without with || atf_fail "CRIU wrote another number of pages"
	[ "$(sed -n '1s/ .*//p' with)" -lt 1024 ] || atf_fail "empty pages in the image"
	cat sample*
	heat_is_kept
	restore_ok 3
	snap after
	same_memory
}

# 64 pages in each interval, and the count of hot intervals goes on through dumps
heat_is_kept()
{
	for i in 1 2 3 4 5 6; do
		grep -q "^interval $i written 64 in .* consecutive $i\$" sample$i || atf_fail "sample $i: $(cat sample$i)"
	done
	grep -q '^interval 7 written 0 ' sample7 || atf_fail "a dump counted as writes: $(cat sample7)"
	grep -q ' ended' sample8 || atf_fail "the end was not noticed: $(cat sample8)"
}

# ---- the process context -------------------------------------------------------------

# mapped: where the context is, and its name
mapped() { awk '/OTEL_CTX/ { print $1, $2, $6, $7 }' "/proc/$pid/maps"; }

context()
{
	start memwrite --service moved --hold --size 1M
	await grep -q OTEL_CTX "/proc/$pid/maps"
	pctx read --json "$pid" > read-before || atf_fail "not readable before"
	mapped > name-before
	dump_ok pre-dump 1
	dump_ok dump 2
	wait "$pid" 2> /dev/null
	await test ! -e "/proc/$pid"
	restore_ok 2
	pctx read --json "$pid" > read-after || atf_fail "not readable after"
	mapped > name-after
	jq -e 'tostring | contains("moved")' read-after > /dev/null || atf_fail "not its context"
	diff read-before read-after || atf_fail "another context"
	cat name-after
	grep -q OTEL_CTX name-after && cmp name-before name-after || atf_fail "another name or place"
	pctx list | grep -q moved || atf_fail "not in the list"
}

# ---- arguments for a CRIU that does not know them ----------------------------------------

# Named, that is exit code 3; found in the path, it is said beside the arguments.
arguments_refused()
{
	start memwrite --size 1M
	await grep -q OTEL_CTX "/proc/$pid/maps"
	rc=0
	wprof criu-args "$pid" --interval 50 --criu "$criu" > args 2> said || rc=$?
	[ "$rc" = 3 ] && [ ! -s args ] && [ "$(wc -l < said)" = 1 ] || atf_fail "exit $rc: $(cat args said)"
	grep -q "^wprof: .*$criu has no --exclude-range" said || atf_fail "$(cat said)"
	mkdir path
	printf '#!/bin/sh\nexec "%s" "$@"\n' "$criu" > path/criu
	chmod +x path/criu
	PATH=$PWD/path:$PATH wprof criu-args "$pid" --interval 50 > args 2> said || atf_fail "exit $?"
	grep -q -- '--exclude-range' args || atf_fail "no arguments: $(cat args)"
	grep -q 'path/criu does not know these options (no released CRIU does)' said || atf_fail "$(cat said)"
}

# ---- the other way: the descriptor left open -------------------------------------------

descriptor_open()
{
	start target descriptor
	await named "round 0"
	dump_ok pre-dump 1
	! dump dump 2 || atf_fail "a dump with an open userfaultfd: CRIU can do that now?"
	grep "Can't dump file.*anon_inode:\[userfaultfd\]" images/2/log ||
		{ grep Error images/2/log; atf_fail "failed with another message"; }
	await named "round 0"
}

for v in 3_17 4_1 4_2; do
	case_of independence $v 300 "Bits 55 and 57 are as the model says after each of 400 operations"
	case_of record_memwrite $v 200 "wprof record goes on through two pre-dumps, a dump, and restore is equal"
	case_of sparse $v 200 "CRIU writes as many pages of a sparse mapping as without profiler; heat is kept"
	case_of context $v 120 "A process context is named, readable and equal after a restore"
	case_of arguments_refused $v 60 "wprof criu-args says that no released CRIU knows its arguments: exit 3 when named"
	case_of descriptor_open $v 120 "With a userfaultfd left open in the target the final dump fails"
done

atf_init_test_cases()
{
	for c in $cases; do atf_add_test_case "$c"; done
}
