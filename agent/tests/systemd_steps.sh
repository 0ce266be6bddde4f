# systemd_steps.sh TOP CASE: what systemd_test.sh has a service do
set -eu
top=$1
atf_get_srcdir() { echo /usr/local/bin; }
atf_config_get() { echo "$top"; }
atf_fail() { echo "$*" >&2; exit 1; }
. "$top/agent/tests/agent.sh"
PATH=/usr/local/sbin:/usr/local/bin:$PATH
address=unix:/run/wprof-agent/agent.sock
set -x

of_agent() # PROPERTY
{
	systemctl show -P "$1" wprof-agent.service
}

is() # VALUE COMMAND...
{
	wanted=$1; shift
	[ "$("$@")" = "$wanted" ] || atf_fail "$*: not $wanted but $("$@")"
}

refused() # COMMAND...: what it says goes to the file refused
{
	if "$@" 2> refused; then
		atf_fail "not refused: $*"
	fi
}

status_of_agent() # KEY
{
	sed -n "s/^$1:[[:space:]]*//p" "/proc/$(of_agent MainPID)/status"
}

profile() # SERVICE
{
	ctl start --service "$1" --interval 50
	hot() { ctl hot --json > hot && jq -e '.regions != []' hot; }
	await hot
	ctl stop
}

# the drop-in NAME as an operator installs it
drop_in()
{
	cp "$PWD/root/usr/local/share/procscope/wprof-agent-$1.conf" units/wprof-agent.service.d/
	systemctl daemon-reload
}

hardened()
{
	is inactive of_agent ActiveState
	is '600 root' stat -c '%a %U' /run/wprof-agent/agent.sock
	ctl health
	is active of_agent ActiveState
	# CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE, of a user of its own
	is 0000000000080004 status_of_agent CapEff
	is 0000000000080004 status_of_agent CapBnd
	is 1 status_of_agent NoNewPrivs
	[ "$(stat -c %u "/proc/$(of_agent MainPID)")" -gt 1000 ]
	profile roots
	profile nobodys
	refused ctl start --service filtered
	grep 'has a seccomp filter' refused
	# the socket is not the agent's: restarts do not close it
	before=$(stat -c %i /run/wprof-agent/agent.sock)
	first=$(of_agent MainPID)
	systemctl restart wprof-agent.service
	profile roots
	kill -KILL "$(of_agent MainPID)"
	ctl health
	profile nobodys
	[ "$(of_agent MainPID)" != "$first" ]
	is "$before" stat -c %i /run/wprof-agent/agent.sock
	systemctl stop wprof-agent.service
	is success of_agent Result
	ctl health
	systemctl stop wprof-agent.socket wprof-agent.service
	refused ctl health --timeout 3
}

filtered()
{
	drop_in filtered
	profile filtered
	profile nobodys
	is 0 status_of_agent Seccomp
	is 0000000000280004 status_of_agent CapEff
}

dumps()
{
	standin
	mv criu root/usr/local/bin/
	# the stand-in looks for its orders where it was started
	printf '%s\n' '[Service]' "WorkingDirectory=$PWD" > units/wprof-agent.service.d/20-test.conf
	drop_in dumps
	ctl start --service nobodys
	ctl pre-dump one > dumped
	grep '/var/lib/wprof-agent/one/ship' dumped
	is 700 stat -c %a /var/lib/wprof-agent
	mkfifo hold
	ctl pre-dump two --parent one > two.out 2>&1 &
	await test -e held
	systemctl stop wprof-agent.service
	is success of_agent Result
	refused wait $!
	rm held
	await pgrep -f 'criu pre-dump'
	echo > hold
	rm hold
	gone() { ! pgrep -f 'criu pre-dump'; }
	await gone
	# nobody saw its end: the next agent knows that, and begins a chain of its own
	ctl start --service nobodys
	refused ctl pre-dump two --parent one
	grep 'begin again without a parent' refused
	ctl pre-dump two
}

"$2"
echo 'all done'
