# The other workloads and a real program, profiled through pre-dump, pre-dump, dump and
# restore: with one CRIU, in one kernel (kernel-tests/boots).

# case_of NAME VERSION TIMEOUT DESCRIPTION: a case whose body is the function NAME
case_of()
{
	atf_test_case "$1__$2" cleanup
	eval "$1__$2_head() { atf_set descr '$4'; atf_set timeout $3; atf_set require.user root; }
		$1__$2_body() { . \"\$(atf_config_get top)/kernel-tests/inside/criu.sh\"; setup $2; $1; }
		$1__$2_cleanup() { . \"\$(atf_config_get top)/kernel-tests/inside/criu.sh\"; finish; }"
	cases="${cases-} $1__$2"
}

record_memory_alloc() { record_program memory-alloc --size 16M --period 50; }
record_matmul() { record_program matmul --size 4M; }
record_redis()
{
	start redis-server --port 0 --unixsocket "$PWD/sock" --save '' --daemonize no --dir "$PWD" --io-threads 1
	await test -S sock
	(while redis-benchmark -s sock -q -t set -n 2000 -r 500 -d 512; do :; done) > /dev/null 2>&1 &
	load=$!
	wprof record "$pid" --interval 250 --duration 300 -o trace > said 2>&1 &
	recorder=$!
	printf '%s\n' $recorder $load >> pids
	seen=3 await more_intervals
	# connections are not what is tested here
	kill $load; wait $load 2> /dev/null
	await sh -c "! pgrep -x redis-benchmark"
	dump_ok pre-dump 1; another_interval
	redis-benchmark -s sock -q -t set -n 500 -r 500 -d 512 > /dev/null
	dump_ok pre-dump 2; another_interval
	kill -STOP "$pid"; await stopped
	snap before
	dump_ok dump 3
	wait $recorder || atf_fail "wprof record: $(cat said)"
	rm -f sock
	restore_ok 3
	snap after
	same_memory
	trace_is_whole
	kill -CONT "$pid"
	await redis-cli -s sock ping
}

case_of record_memory_alloc 4_1 200 "memory-alloc: wprof record goes on, and restore is equal"
case_of record_matmul 4_1 200 "matmul: wprof record goes on, and restore is equal"
case_of record_redis 4_1 300 "redis with clients: wprof record goes on, and restore is equal"

atf_init_test_cases()
{
	for c in $cases; do atf_add_test_case "$c"; done
}
