# scripts/demo-agent, what `make demo-agent' runs: as it should go, and when a
# part of it is missing or dies. It ends at once then and leaves nothing behind.
tools() { . "$(atf_config_get top)/agent/tests/agent.sh"; }

# a build with other programs in place of some
mixed()
{
	mkdir -p mixed/bin
	ln -s "$(realpath "$bin")"/* mixed/bin/
	ln -s "$(realpath "$bin/../libexec")" "$(realpath "$bin/../lib")" mixed/
}

instead() # PROGRAM LINE
{
	rm mixed/bin/$1
	printf '#!/bin/sh\n%s\n' "$2" > mixed/bin/$1
	chmod 755 mixed/bin/$1
}

demo() # what atf_check takes, but for the command
{
	mkdir -p tmp
	atf_check "$@" env TMPDIR="$PWD/tmp" "$top/scripts/demo-agent" "$PWD/mixed"
	[ -z "$(ls tmp)" ] || atf_fail "$(ls tmp) stayed"
	! pgrep -f "wprof-agent --listen unix:$PWD" || atf_fail 'the agent stayed'
}

atf_test_case whole
whole_head()
{
	atf_set descr 'The demo profiles memwrite through the agent, and ends both'
	atf_set timeout 60
	atf_set require.user root
}
whole_body()
{
	tools
	mixed
	demo -o save:shown
	service=$(sed -n 's/^+ memwrite --service \(.*\) &/\1/p' shown)
	grep -q "service.name .*\"$service\"" shown || atf_fail "$(cat shown)"
	grep -q '[0-9a-f]  *64.0 MiB  *[0-9.]*%' shown || atf_fail "not found hot: $(cat shown)"
	tail -n 1 shown | jq -e '.bytes_written > 0' || atf_fail "$(tail -n 1 shown)"
}

atf_test_case parts_missing
parts_missing_head()
{
	atf_set descr 'Without the agent or its target the demo says so and ends'
	atf_set timeout 60
	atf_set require.user root
}
parts_missing_body()
{
	tools
	mixed
	instead memwrite 'echo memwrite: no luck >&2; exit 1'
	demo -s exit:1 -o ignore -e match:'memwrite ended before' -e match:'no luck'
	# it dies while it is profiled, and the agent has noticed
	instead memwrite "echo \$\$ > '$PWD/target'; exec '$bin/memwrite' \"\$@\""
	instead wprof-ctl "ctl='$bin/wprof-ctl'
		[ \$1 != volume ] || { kill -KILL \$(cat '$PWD/target')
			while \$ctl hot --connect \$3 > /dev/null 2>&1; do sleep 0.02; done; }
		exec \$ctl \"\$@\""
	demo -s exit:3 -o ignore -e match:'process [0-9]+ exited'
	rm mixed/bin/wprof-agent
	demo -s exit:1 -o ignore -e match:'the agent ended before' -e match:'not found'
}

atf_init_test_cases()
{
	atf_add_test_case parts_missing
	atf_add_test_case whole
}
