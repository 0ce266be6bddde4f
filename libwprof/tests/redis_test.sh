# The main job on a real program: Debian's redis-server, started by `pctx run`,
# named, profiled and judged while redis-benchmark keeps it busy. What redis
# stores is compared afterwards: a profiler that lost a write would show here.
bin=$(atf_get_srcdir)/../../bin
redis() { redis-cli -s "$PWD/redis.sock" "$@"; }

start_redis()
{
	"$bin/pctx" run --attr deployment.environment.name=test -- redis-server \
		--port 0 --unixsocket "$PWD/redis.sock" --save '' --appendonly no \
		--daemonize no --dir "$PWD" --logfile "$PWD/redis.log" &
	echo $! > redis.pid
	for _ in $(seq 200); do
		[ "$(redis ping 2> /dev/null)" = PONG ] && return
		sleep 0.05
	done
	atf_fail "redis-server did not start: $(cat redis.log)"
}

stop_redis()
{
	redis shutdown nosave
	wait "$(cat redis.pid)" || atf_fail "redis-server ended with $?"
	atf_check -s exit:1 grep -iE 'crash|bug report|assert|warning.*corrupt' redis.log
}

# 64 MiB of values that are rewritten at random as long as the load runs.
load()
{
	redis-benchmark -s "$PWD/redis.sock" -q -t set -d 4096 -r 16384 -n 100000000 \
		> load.log 2>&1 &
	echo $! > load.pid
	until [ "$(redis dbsize)" -gt 15000 ]; do sleep 0.05; done
}

end_load()
{
	kill "$(cat load.pid)"
	wait "$(cat load.pid)"
	atf_check -s exit:1 grep -i error load.log
}

atf_test_case redis__profiled_under_load cleanup
redis__profiled_under_load_head()
{
	atf_set "descr" "redis is named by its context, recorded for 10 s and found hot, and " \
			"serves on without an error"
	atf_set "require.progs" "redis-server redis-cli redis-benchmark jq"
	atf_set "timeout" "90"
}
redis__profiled_under_load_body()
{
	export OTEL_SERVICE_NAME=redis-under-test
	start_redis
	redis set marker "not to be lost" > /dev/null
	pid=$(cat redis.pid)
	atf_check -o match:'redis-under-test' -o match:'deployment.environment.name' \
		"$bin/pctx" read "$pid"
	load

	atf_check -e ignore -o ignore "$bin/wprof" record --service redis-under-test \
		--interval 500 --duration 10 -o trace.jsonl
	atf_check -o inline:'redis-under-test\n' jq -r 'select(.format) | .context.resource
		.attributes[]? | select(.key == "service.name") | .value.stringValue' trace.jsonl
	# 16,384 values of 4 KiB: much of the memory is written in every interval
	atf_check -o match:'^(1[89]|20) true$' jq -sr 'map(select(.type == "interval")) |
		"\(length) \(map(.written_pages) | sort | .[length / 2 | floor] > 1000)"' trace.jsonl
	atf_check -o save:hot -e ignore "$bin/wprof" hot "$pid" --interval 1000 --json
	atf_check -o ignore jq -e '.hot_bytes > 8388608' hot

	atf_check -o inline:'not to be lost\n' redis-cli -s "$PWD/redis.sock" get marker
	end_load
	[ ! -e "/proc/$pid/fd" ] || ! ls -l "/proc/$pid/fd" | grep -q userfaultfd ||
		atf_fail "a userfaultfd was left in redis"
	stop_redis
}
redis__profiled_under_load_cleanup()
{
	for p in load redis; do
		[ ! -e $p.pid ] || kill "$(cat $p.pid)" 2> /dev/null || :
	done
}

atf_init_test_cases()
{
	atf_add_test_case redis__profiled_under_load
}
