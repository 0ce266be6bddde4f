# PostgreSQL as Debian packages it, a cluster of our own under pgbench: its
# processes are followed from the postmaster on. Its buffers are shared memory,
# which a write profile does not see; the report has to say so.
pg_bin() { printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1; }
as_user()
{
	if [ "$(id -u)" = 0 ]; then
		set -- setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
	fi
	"$@"
}

sql() { psql -h "$dir" -U postgres -Atqc "$1" postgres; }

atf_test_case postgres__under_pgbench cleanup
postgres__under_pgbench_head()
{
	atf_set "descr" "PostgreSQL's books balance while and after its processes are profiled"
	atf_set "require.progs" "pgbench psql setpriv jq"
	atf_set "timeout" "240"
}
postgres__under_pgbench_body()
{
	. "$(atf_config_get top)/libwprof/tests/real/real.sh"
	own_directory postgres
	as_user "$(pg_bin)/initdb" -D "$dir/data" -U postgres -A trust --no-sync > initdb.log 2>&1 ||
		atf_fail "initdb: $(tail -n 3 initdb.log)"
	started postgres as_user "$(pg_bin)/postgres" -D "$dir/data" -k "$dir" -c fsync=off \
		-c listen_addresses= -c shared_buffers=128MB
	await sql 'SELECT 1'
	atf_check -o ignore -e ignore pgbench -h "$dir" -U postgres -i -q -s 2 postgres
	started load pgbench -h "$dir" -U postgres -c 3 -T 60 -P 1 postgres
	await grep -q '^progress: 2' load.log

	# setpriv and the postmaster are one process
	profiled postgres "$(head -n 1 "$dir/data/postmaster.pid")" --tree

	kill -INT "$(pid_of load)"
	wait "$(pid_of load)"
	rm load.pid
	atf_check -s exit:1 grep -iE 'error|abort' load.log
	# what was booked in the history is what the three kinds of accounts hold
	atf_check -o inline:'t|t|t|t\n' psql -h "$dir" -U postgres -Atqc "
		WITH h AS (SELECT sum(delta) AS s, count(*) AS n FROM pgbench_history)
		SELECT h.n > 100, h.s = (SELECT sum(abalance) FROM pgbench_accounts),
			h.s = (SELECT sum(tbalance) FROM pgbench_tellers),
			h.s = (SELECT sum(bbalance) FROM pgbench_branches) FROM h" postgres

	# the postmaster, its helpers and three clients' servers; shared buffers told
	atf_check -o ignore jq -e '.processes >= 8' report.json
	atf_check -o ignore jq -es 'map(select(.type == "interval")) |
		any(.untracked_shared_bytes > 128 * 1048576)' trace.jsonl
	kill -INT "$(head -n 1 "$dir/data/postmaster.pid")"
	ended postgres
	atf_check -o match:'database system is shut down' grep 'shut down' postgres.log
	# but for those who asked before it was ready
	grep -v 'system is starting up' postgres.log > said
	atf_check -s exit:1 grep -E 'PANIC|FATAL|terminated by signal' said
}
postgres__under_pgbench_cleanup()
{
	. "$(atf_config_get top)/libwprof/tests/real/real.sh"
	[ ! -e directory ] || {
		dir=$(cat directory)
		[ ! -e "$dir/data/postmaster.pid" ] ||
			kill -QUIT "$(head -n 1 "$dir/data/postmaster.pid")" 2> /dev/null
	}
	stop_all
}

atf_init_test_cases() { atf_add_test_case postgres__under_pgbench; }
