# Peers that say nothing: their connections are closed, and nobody else's.
tools() { . "$(atf_config_get top)/agent/tests/agent.sh"; }

atf_test_case silent_peers cleanup
silent_peers_head()
{
	atf_set descr 'A peer that says nothing, or nothing more, is closed within half a minute'
	atf_set timeout 120
	atf_set require.user root
	atf_set require.progs python3
}
silent_peers_body()
{
	tools
	memwrite_start
	agent_start
	atf_check -o ignore wprof-ctl start --connect "$address" --interval 100 "$target"
	# one that waits and answers is kept
	start watch wprof-ctl watch --connect "$address" --interval 1000 --json
	watch=$pid
	atf_check -o save:closed python3 "$top/agent/tests/silent_peers.py" "$PWD/a.sock"
	cat closed
	# gRPC's pings come a little later than asked for, and each wait has its own clock
	awk '$1 == "never" { ok += $2 > 15 && $2 < 35 }
		$1 == "no_more" { ok += $2 > 25 && $2 < 45 && $3 >= 1 }
		END { exit ok != 2 }' closed || atf_fail 'not closed as said'
	lines=$(wc -l < watch.out)
	[ "$lines" -gt 10 ] || { cat watch.err; atf_fail "the one that listens had $lines lines"; }
	kill -0 $watch || atf_fail 'the one that listens was closed too'
	atf_check -o match:serving wprof-ctl health --connect "$address"
	agent_stop
}
silent_peers_cleanup() { tools; stop_all; }

atf_init_test_cases() { atf_add_test_case silent_peers; }
