# Debian's redis-server, 2,048 values of 32 KiB rewritten at random.
redis() { redis-cli -s "$PWD/redis.sock" "$@"; }

served() { [ "$(redis ping)" = PONG ]; }
filled() { [ "$(redis dbsize)" -gt 12000 ]; }

atf_test_case redis__under_load cleanup
redis__under_load_head()
{
	atf_set "descr" "redis serves right values while and after it is profiled"
	atf_set "require.progs" "redis-server redis-cli redis-benchmark jq"
	atf_set "timeout" "120"
}
redis__under_load_body()
{
	. "$(atf_config_get top)/libwprof/tests/real/real.sh"
	started redis redis-server --port 0 --unixsocket "$PWD/redis.sock" --save '' \
		--appendonly no --daemonize no --dir "$PWD"
	await served
	seq 10000 | sed 's/.*/SET known:& value-&/' | redis > /dev/null
	seq 10000 | sed 's/.*/value-&/' > expected
	started load redis-benchmark -s "$PWD/redis.sock" -q -t set -d 32768 -r 2048 -n 100000000
	await filled

	profiled redis "$(pid_of redis)"

	seq 10000 | sed 's/.*/GET known:&/' | redis > got
	atf_check cmp expected got
	kill "$(pid_of load)"
	wait "$(pid_of load)"
	atf_check -s exit:1 grep -i error load.log
	redis shutdown nosave
	ended redis
	atf_check -s exit:1 grep -iE 'crash|bug report|assert' redis.log
}
redis__under_load_cleanup()
{
	. "$(atf_config_get top)/libwprof/tests/real/real.sh"
	stop_all
}

atf_init_test_cases() { atf_add_test_case redis__under_load; }
