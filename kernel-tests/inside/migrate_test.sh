# Migrations by the agent with real CRIUs (the boots named ...-migrate... of
# kernel-tests/boots; `make check` runs some, `make check-kernels` all): into a directory that got only what
# was to be sent, restored with the source removed, memory equal byte for byte to what
# it was when frozen. Each prints a row of the table of docs/MIGRATION.md: `make
# migration-table`.

# case_of NAME VERSION TIMEOUT DESCRIPTION: a case whose body is the function NAME
case_of()
{
	atf_test_case "$1__$2" cleanup
	eval "$1__$2_head() { atf_set descr '$4'; atf_set timeout $3; atf_set require.user root; }
		$1__$2_body() { here=\$(atf_config_get top)/kernel-tests/inside
			. \"\$here/criu.sh\"; . \"\$here/migrate.sh\"; setup $2; $1; }
		$1__$2_cleanup() { . \"\$(atf_config_get top)/kernel-tests/inside/criu.sh\"; finish; }"
	cases="${cases-} $1__$2"
}

# ---- one program after the other ----------------------------------------------------

memwrite() # MODE
{
	agent_start "$1"
	start memwrite --service moved --size 8M --rate 16M
	await grep -q OTEL_CTX "/proc/$pid/maps"
	profile
	migrate memwrite 3
	pctx read "$pid" | grep -q moved || atf_fail "no process context after the restore"
}

# another PROGRAM MODE [ARG...]
another()
{
	agent_start "$2"
	program=$1; shift 2
	start "$program" --service moved "$@"
	await grep -q OTEL_CTX "/proc/$pid/maps"
	profile
	migrate "$program" 3
}

# with two children, each of which writes a buffer of its own
several()
{
	agent_start "$1"
	start memwrite --size 2M --rate 4M --fork 2
	await children 2
	profile --tree
	migrate "memwrite --fork 2" 3
	children 2 || atf_fail "not three processes after the restore"
	[ "$(cut -d' ' -f1 before | sort -u | wc -l)" = 3 ] || atf_fail "not three processes compared"
}
children() { [ "$(tree_pids "$pid" | wc -l)" = $(($1 + 1)) ]; }

# under load through the pre-dumps; a connection that is open is not what is tested here
redis() # MODE
{
	agent_start "$1"
	start redis-server --port 0 --unixsocket "$PWD/redis.sock" --save '' --daemonize no \
		--dir "$PWD" --io-threads 1
	await test -S redis.sock
	# a heap, and some keys that are written again and again
	redis-benchmark -s redis.sock -q -t set -n 4000 -r 4000 -d 512 > /dev/null || atf_fail "no redis"
	while redis-benchmark -s redis.sock -q -t set -n 300 -r 100 -d 512; do sleep 0.1; done > /dev/null 2>&1 &
	load=$!
	echo $load >> pids
	profile
	before_last=no_load
	migrate redis 3
	await redis-cli -s redis.sock ping
	[ "$(redis-cli -s redis.sock dbsize)" = "$keys" ] || atf_fail "not as many keys as before"
}
no_load()
{
	kill $load
	wait $load 2> /dev/null
	await sh -c '! pgrep -x redis-benchmark'
	keys=$(redis-cli -s redis.sock dbsize)
}

memwrite_off() { memwrite off; }
memwrite_withhold() { memwrite withhold; }
memory_alloc_off() { another memory-alloc off --size 1M --period 500; }
memory_alloc_withhold() { another memory-alloc withhold --size 1M --period 500; }
matmul_off() { another matmul off --size 2M --rate 4M; }
matmul_withhold() { another matmul withhold --size 2M --rate 4M; }
redis_off() { redis off; }
redis_withhold() { redis withhold; }
several_off() { several off; }
several_withhold() { several withhold; }

# native: no released CRIU can; the stand-in says it can, keeps what it is told, and
# leaves out nothing
memwrite_native()
{
	cat > criu-native <<- END
		#!/bin/sh
		[ "\$1" != --help ] || { echo '--exclude-range --exclude-file --no-parent-range'; exit 0; }
		echo "\$*" >> $PWD/arguments
		n=\$#
		while [ \$n -gt 0 ]; do
			case \$1 in
			--exclude-range|--exclude-file|--no-parent-range) shift 2; n=\$((n - 2)) ;;
			*) set -- "\$@" "\$1"; shift; n=\$((n - 1)) ;;
			esac
		done
		exec $criu "\$@"
	END
	chmod +x criu-native
	stock=$criu criu=$PWD/criu-native
	agent_start native
	criu=$stock
	start memwrite --service moved --size 8M --rate 16M
	await grep -q OTEL_CTX "/proc/$pid/maps"
	profile
	migrate memwrite 3
	cat arguments
	told_in_native
}

# ranges OPTION: of the dump whose arguments are on stdin
ranges() { tr ' ' '\n' | grep -A 1 -x -e "$1" | grep :; }

# holds_buffer: do the ranges on stdin hold it?
holds_buffer()
{
	while IFS=: read -r from to; do
		[ $((0x$from)) -gt $((0x$buffer)) ] || [ $((0x$to)) -lt $((0x$buffer + (8 << 20))) ] || return 0
	done
	return 1
}

# the pre-dumps leave out the buffer; the last dump looks for none of it in its parent
told_in_native()
{
	# the largest mapping without a file
	buffer=$(awk '$5 == 0 && !$6 { split($1, a, "-"); print a[1], a[2] }' maps |
		while read -r a b; do echo $((0x$b - 0x$a)) "$a"; done | sort -n | sed -n '$s/.* //p')
	[ "$(wc -l < arguments)" = 4 ] || atf_fail "not four calls of CRIU"
	for level in 1 2 3; do
		sed -n ${level}p arguments | ranges --exclude-range | holds_buffer ||
			atf_fail "pre-dump $level: not told to leave out $buffer"
	done
	sed -n 4p arguments | ranges --no-parent-range | holds_buffer || atf_fail "no-parent: not told of $buffer"
	! sed -n 4p arguments | grep -q -- --exclude || atf_fail "something left out of the last dump"
}

case_of memwrite_withhold 4_1 300 "memwrite, hot memory withheld: migrated, equal, runs on"
case_of memwrite_off 4_1 300 "memwrite, stock CRIU alone: migrated, equal, runs on"
case_of memwrite_native 4_1 300 "memwrite, native: CRIU is told what to leave out; equal, runs on"
case_of memory_alloc_withhold 4_1 300 "memory-alloc, withheld: migrated, equal, runs on"
case_of memory_alloc_off 4_1 300 "memory-alloc, stock CRIU alone: migrated, equal, runs on"
case_of matmul_withhold 4_1 300 "matmul, withheld: migrated, equal, runs on"
case_of matmul_off 4_1 300 "matmul, stock CRIU alone: migrated, equal, runs on"
case_of redis_withhold 4_1 300 "redis under load, withheld: migrated, equal, runs on"
case_of redis_off 4_1 300 "redis under load, stock CRIU alone: migrated, equal, runs on"
case_of several_withhold 4_1 300 "Three processes, withheld: migrated, equal, run on"
case_of several_off 4_1 300 "Three processes, stock CRIU alone: migrated, equal, run on"
for v in 3_17 4_2; do
	case_of memwrite_withhold $v 300 "memwrite, hot memory withheld: migrated, equal, runs on"
	case_of memwrite_off $v 300 "memwrite, stock CRIU alone: migrated, equal, runs on"
done

# ---- all of it by one command --------------------------------------------------------

# wprof-ctl migrate, when its rule says that it is time for the last dump
by_command()
{
	agent_start withhold
	start memwrite --service moved --size 4M --rate 8M
	await grep -q OTEL_CTX "/proc/$pid/maps"
	wprof-ctl migrate --connect "$address" --interval 500 --granularity 64K --max-pre-dumps 3 \
		--name moved --to "$PWD/target" "$pid" > said 2>&1 || { cat said; atf_fail "migrate failed"; }
	cat said
	wait "$pid" 2> /dev/null
	await test ! -e "/proc/$pid"
	rm -rf source
	wprof images --verify target/moved-final/ship | grep 'restores alone' || atf_fail "it does not restore alone"
	restore_from target/moved-final/ship
	snap_tree after
	await goes_on
	pctx read "$pid" | grep -q moved || atf_fail "no process context after the restore"
}

case_of by_command 4_1 300 "wprof-ctl migrate: pre-dumps, the last dump, all sent; it runs on"

# ---- random ones ---------------------------------------------------------------------

# random MOST: 0 to MOST - 1 in $drawn, the same for the same $state. The high bits: the
# low ones of neighbouring seeds are much the same.
random()
{
	state=$(((state * 1103515245 + 12345) & 0x7fffffff))
	drawn=$(((state >> 12) % $1))
}

# pre_dump LEVEL: a process that ends just then makes one fail, which another mends
pre_dump()
{
	for try in a b c d; do
		level=p$1$try
		if take pre-dump "$level" "$parent"; then
			send "$level"
			parent=$level
			return
		fi
		grep -q 'without a parent' "$level.err" && parent=''
	done
	atf_fail "pre-dump $1: $(cat "$level.err")"
}

# restart: the agent ends, by TERM or KILL, and another goes on
restart()
{
	random 2
	if [ $drawn = 0 ]; then agent_stop; else kill -KILL $agent; wait $agent 2> /dev/null; fi
	agent_start "$mode"
	ctl start "$pid" --interval 100 --granularity 64K --tree > said 2>&1 || atf_fail "$(cat said)"
}

# at_random SEED: processes, mode, depth, thresholds and restarts by the seed
at_random()
{
	state=$1
	random 2
	random 3; processes=$((drawn + 1))
	random 2; [ $drawn = 0 ] && mode=off || mode=withhold
	random 3; levels=$drawn
	random 4; ratio=0.$((1 + drawn * 2))
	agent_start $mode
	start images_target live "$1" $processes
	await children $processes
	ctl start "$pid" --interval 100 --granularity 64K --tree --threshold $ratio --consecutive 1 > said 2>&1 ||
		atf_fail "$(cat said)"
	parent='' n=0
	while [ $n -lt $levels ]; do
		sleep 0.3
		pre_dump $n
		n=$((n + 1))
		random 3; [ $drawn != 0 ] || restart
	done
	last_step "$parent"
	arrive
	agent_stop
	for p in $(tree_pids "$pid"); do kill -KILL "$p"; done
	await test ! -e "/proc/$pid"
	rm -rf target ./*.json
	echo "random $1: $processes processes, $levels pre-dumps, $mode, threshold $ratio"
}

# all from one seed, which is printed
randoms()
{
	seed=$(atf_config_get seed "$(($(date +%s) % 100000 + 1))")
	echo "seed $seed (-v test_suites.procscope.seed=$seed)"
	count=5
	[ "$(atf_config_get soak false)" != true ] || count=100
	for i in $(seq $count); do at_random $((seed + i)); done
}

# 6 s each, emulated; 100 of them in `make soak`
case_of randoms 4_1 2400 "Random migrations, each equal byte for byte"
case_of randoms 4_2 2400 "Random migrations, each equal byte for byte"

atf_init_test_cases()
{
	for c in $cases; do atf_add_test_case "$c"; done
}
