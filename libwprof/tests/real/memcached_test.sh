# Debian's memcached. The load is a client of our own that reads back what it
# wrote: a value that is not the last one written ends it with an error.
atf_test_case memcached__under_load cleanup
memcached__under_load_head()
{
	atf_set "descr" "memcached returns what was stored while and after it is profiled"
	atf_set "require.progs" "memcached jq /usr/bin/python3"
	atf_set "timeout" "120"
}
memcached__under_load_body()
{
	. "$(atf_config_get top)/libwprof/tests/real/real.sh"
	own_directory nobody
	user='-u nobody'
	[ "$(id -u)" = 0 ] || user=
	# shellcheck disable=SC2086 # two words
	started memcached memcached -s "$dir/socket" $user -m 256 -t 2
	await [ -S "$dir/socket" ]
	started load /usr/bin/python3 "$src/memcached_load.py" "$dir/socket"
	await grep -q filled load.log

	profiled memcached "$(pid_of memcached)"

	touch stop
	ended load
	atf_check -o match:'^[1-9][0-9]* values written, all right$' tail -n 1 load.log
	kill "$(pid_of memcached)"
	ended memcached
}
memcached__under_load_cleanup()
{
	. "$(atf_config_get top)/libwprof/tests/real/real.sh"
	stop_all
}

atf_init_test_cases() { atf_add_test_case memcached__under_load; }
