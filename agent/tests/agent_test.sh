# wprof-agent and wprof-ctl together, and the agent with systemd's ways.
tools() { . "$(atf_config_get top)/agent/tests/agent.sh"; }

case_of() # NAME DESCR: declare a case that starts programs
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$2'; atf_set timeout 60; atf_set require.user root; }"
	eval "$1_cleanup() { tools; stop_all; }"
}

atf_test_case usage
usage_head()
{
	atf_set descr 'Wrong usage of both programs is exit code 2 and names what is wrong'
	atf_set timeout 60
}
usage_body()
{
	tools
	bad() { text=$1; shift; atf_check -s exit:2 -o empty -e match:"$text" "$@"; }
	bad 'neither unix:PATH nor HOST:PORT' wprof-agent --listen nonsense
	bad 'needs --tls-cert' wprof-agent --listen 127.0.0.1:1234
	bad 'no loopback address' wprof-agent --insecure --listen 192.0.2.1:1234
	bad 'go together' wprof-agent --tls-cert x
	bad 'exclude each other' wprof-agent --target-pid 1 --target-comm x
	bad 'no process id' wprof-agent --target-pid 0
	bad 'user' wprof-agent --allow-uid root
	bad 'log-level' wprof-agent --log-level loud
	bad 'unexpected argument' wprof-agent x
	bad 'Usage: wprof-ctl' wprof-ctl
	bad "no command 'x'" wprof-ctl x
	bad 'no process id' wprof-ctl start 1x
	bad 'ID is missing' wprof-ctl dump
	bad 'has no option' wprof-ctl hot --interval 100
	bad 'interval' wprof-ctl watch --interval 1
	bad 'granularity' wprof-ctl start --granularity 3M 1
	bad 'threshold' wprof-ctl start --threshold 1 1
	bad 'unexpected argument' wprof-ctl stop 1
	bad 'go together' wprof-ctl stop --tls-ca x
	atf_check -o match:'^wprof-agent [0-9.]+$' wprof-agent --version
	atf_check -o match:'^wprof-ctl [0-9.]+$' wprof-ctl --version
	atf_check -o match:'pre-dump' wprof-ctl --help
}

case_of no_agent 'Without an agent the client fails and says where it looked'
no_agent_body()
{
	tools
	atf_check -s exit:1 -e match:"no agent answers at $address" \
		wprof-ctl hot --connect "$address" --timeout 5
}

case_of commands 'Every command of the client, for people and as JSON'
commands_body()
{
	tools
	memwrite_start
	agent_start
	atf_check -s exit:3 -e match:'nothing is being profiled' wprof-ctl hot --connect $address
	atf_check -o match:"profiling process $target: [0-9]+ VMAs" \
		wprof-ctl start --connect $address --service $service --interval 50
	atf_check -s exit:1 -e match:'already being profiled' wprof-ctl start --connect $address $target
	atf_check -o save:table wprof-ctl watch --connect $address --count 4
	[ $(wc -l < table) = 5 ] || atf_fail "$(cat table)"
	atf_check -o save:lines wprof-ctl watch --connect $address --count 3 --json
	jq -se 'length == 4 and .[0].format == "wprof-ctl.watch" and .[3].dirty_bytes >= 0' lines ||
		atf_fail "$(cat lines)"
	hot() { ctl hot --json > hot && jq -e '[.regions[] | select(.written_ratio > 0.3)] != []' hot; }
	await hot
	jq -e ".format == \"wprof-ctl.hot\" and .regions[0].pid == $target" hot || atf_fail "$(cat hot)"
	atf_check -o match:'hot regions in' wprof-ctl hot --connect $address
	atf_check -o match:'since start' wprof-ctl volume --connect $address
	atf_check -o match:'"cumulative_dirty_bytes"' wprof-ctl volume --connect $address --json
	atf_check -o match:"$service" wprof-ctl context --connect $address
	atf_check -o save:mine wprof-ctl context --connect $address --json $target
	atf_check -o save:theirs pctx read --json $target
	[ "$(jq -c .context mine)" = "$(jq -c .context theirs)" ] || atf_fail "$(cat mine theirs)"
	atf_check -s exit:1 -e match:'dump one failed: this agent takes no dumps' \
		wprof-ctl pre-dump --connect $address one
	atf_check -s exit:2 -e match:'parent_dump_id:' \
		wprof-ctl dump --connect $address one --parent ../x
	atf_check -o match:'nothing is being profiled now' wprof-ctl stop --connect $address
	atf_check -o inline:'serving\n' wprof-ctl health --connect $address
	agent_stop
}

case_of watch_live 'On a terminal watch draws in place, and leaves out what a narrow one cannot show'
watch_live_body()
{
	tools
	memwrite_start
	agent_start
	ctl start $target --interval 50 || atf_fail 'not started'
	on_terminal() # COLUMNS TERM
	{
		script -qec "stty cols $1 rows 6; TERM=$2 '$bin/wprof-ctl' watch --connect $address --count 5" \
			/dev/null < /dev/null > screen || atf_fail "$(cat screen)"
	}
	home=$(printf '\033\\[H')
	on_terminal 80 xterm
	[ $(grep -c "$home" screen) = 5 ] || atf_fail "not drawn in place: $(cat -v screen)"
	grep -q 'TIME.*RATE.*WRITTEN.*SINCE START' screen || atf_fail "$(cat -v screen)"
	on_terminal 20 xterm
	! grep -q WRITTEN screen || atf_fail "wider than the terminal: $(cat -v screen)"
	sed 's/\x1b\[[0-9]*[A-Z]//g; s/\r//g' screen | grep -q '.\{21\}' &&
		atf_fail "wider than the terminal: $(cat -v screen)"
	on_terminal 80 dumb
	! grep -q "$home" screen || atf_fail "$(cat -v screen)"
	[ $(wc -l < screen) = 6 ] || atf_fail "$(cat -v screen)"
	agent_stop
}

case_of target_choice 'The only process with a context, --target-comm, several: one or a list'
target_choice_body()
{
	tools
	cp "$(command -v sleep)" agent_tgt$$
	start one ./agent_tgt$$ 60
	one=$pid
	await grep -q agent_tgt /proc/$one/comm
	agent_start --target-comm agent_tgt$$
	atf_check -o match:"process $one:" wprof-ctl start --connect $address
	atf_check -o ignore wprof-ctl stop --connect $address
	start two ./agent_tgt$$ 60
	await grep -q agent_tgt /proc/$pid/comm
	atf_check -s exit:1 -e match:"2 processes named agent_tgt$$; name one by pid: .*$one" \
		wprof-ctl start --connect $address
	atf_check -s exit:1 -e match:'no process published the service name none-' \
		wprof-ctl start --connect $address --service none-$$
	agent_stop
}

case_of container_pid 'A number that only a container has means the process in there'
container_pid_body()
{
	tools
	agent_start
	# the number of the second process of a PID namespace, far above those here
	n=$(($(cat /proc/sys/kernel/pid_max) - 300))
	while [ -d /proc/$n ]; do n=$((n - 1)); done
	start box unshare --pid --fork --mount-proc sh -c \
		"echo $((n - 1)) > /proc/sys/kernel/ns_last_pid && { sleep 61 & wait; }"
	find_inner() { inner=$(grep -ls "^NSpid:.*[[:space:]]$n$" /proc/[0-9]*/status); }
	await find_inner
	inner=${inner#/proc/} inner=${inner%/status}
	echo $inner >> pids
	atf_check -o match:"process $inner:" wprof-ctl start --connect $address $n
	agent_stop
}

case_of target_gone 'A target that exits, execs or is killed ends the profiling with the reason'
target_gone_body()
{
	tools
	agent_start
	memwrite_start
	ctl start $target --interval 3600000 || atf_fail 'not started'
	# no interval has passed: what was written while arming is no rate
	ctl volume --json | jq -e '.dirty_rate_bytes_per_sec == 0' || atf_fail 'a rate of no time'
	kill -KILL $target
	ended() { ctl hot 2>&1 | grep -q "process $target exited"; }
	await ended
	# its memory goes first: looked at in between it is no other program's
	for i in 1 2 3; do
		memwrite_start
		ctl start $target --interval 10 || atf_fail 'not started'
		kill -INT $target
		await ended
	done
	mkfifo fifo
	start shell sh -c 'read line < fifo; exec sleep 60'
	ctl start $pid --interval 50 || atf_fail 'not started'
	target=$pid
	echo > fifo
	replaced() { ctl volume 2>&1 | grep -q "process $target runs another program now"; }
	await replaced
	# stopped: it can be profiled all the same
	memwrite_start
	kill -STOP $target
	ctl start $target --interval 50 || atf_fail 'a stopped process was refused'
	atf_check -o ignore wprof-ctl watch --connect $address --count 3
	kill -CONT $target
	agent_stop
}

case_of tree 'With tree the children are followed, those born later included'
tree_body()
{
	tools
	agent_start
	mkfifo fifo
	start parent sh -c "read line < fifo; '$bin/memwrite' -s 16M -d 60 --service agent-$$ & wait"
	ctl start $pid --tree --interval 50 || atf_fail 'not started'
	parent=$pid
	echo > fifo
	child_hot() { ctl hot --json > hot && jq -e "[.regions[] | select(.pid != $parent)] != []" hot; }
	await child_hot
	jq -r '.regions[].pid' hot >> pids
	agent_stop
}

case_of one_socket 'A second daemon is refused; a killed one leaves no obstacle, and no armed target'
one_socket_body()
{
	tools
	memwrite_start
	agent_start
	[ "$(stat -c %a a.sock)" = 600 ] || atf_fail "mode $(stat -c %a a.sock)"
	atf_check -s exit:1 -e match:'another daemon listens on' wprof-agent --listen $address
	atf_check -o inline:'serving\n' wprof-ctl health --connect $address
	ctl start $target || atf_fail 'not started'
	kill -KILL $agent
	wait $agent
	[ -S a.sock ] || atf_fail 'the socket is gone: nothing was tested'
	# nobody else has it: it can be profiled at once, from here
	atf_check -o ignore wprof hot $target --interval 20
	agent_start
	atf_check -o inline:'serving\n' wprof-ctl health --connect $address
	agent_stop
	echo keep > a.sock
	atf_check -s exit:1 -e match:'is no socket' wprof-agent --listen $address
	atf_check -o inline:'keep\n' cat a.sock
	# nor is a socket taken that somebody serves without our lock, as systemd does
	rm a.sock
	start foreign python3 -c 'import socket, time
s = socket.socket(socket.AF_UNIX); s.bind("a.sock"); s.listen(0); time.sleep(60)'
	listens() { grep -q "00010000 .* $PWD/a.sock\|00010000 .* a.sock" /proc/net/unix; }
	await listens
	for i in 1 2 3; do # the queue of those not accepted fills up
		atf_check -s exit:1 -e match:'another program listens on' wprof-agent --listen $address
	done
	[ -S a.sock ] || atf_fail 'it was removed'
}

case_of peer_uid 'Other users are turned away unless they are on the list'
peer_uid_body()
{
	tools
	chmod 755 .
	agent_start --allow-uid 12345
	[ "$(stat -c %a a.sock)" = 666 ] || atf_fail "mode $(stat -c %a a.sock)"
	as='setpriv --clear-groups --inh-caps=-all --reuid'
	# their own copy: they may not be let into the build tree
	cp "$bin/wprof-ctl" .
	atf_check -o inline:'serving\n' $as 12345 ./wprof-ctl health --connect $address
	atf_check -s exit:1 -e match:'no agent answers' \
		$as 12346 ./wprof-ctl health --connect $address --timeout 3
	grep -q 'connection refused.*peer_uid=12346' agent.err || { cat agent.err; atf_fail 'not in the log'; }
	agent_stop
}

case_of rights 'The agent says which capability is missing for what, and cannot gain any'
rights_body()
{
	tools
	chmod 755 .
	mkdir -m 777 box
	cp "$bin/wprof-agent" .
	address=unix:$PWD/box/a.sock
	start agent setpriv --reuid 12345 --clear-groups --inh-caps=-all \
		./wprof-agent --listen $address --stop-timeout 20000
	agent=$pid
	await grep -q 'msg="ready"' agent.err
	grep -q 'name=CAP_SYS_PTRACE' agent.err || { cat agent.err; atf_fail 'not in the log'; }
	grep -q 'NoNewPrivs:[[:space:]]*1' /proc/$agent/status || atf_fail 'it may gain privileges'
	memwrite_start
	atf_check -s exit:1 -e match:'profiling cannot begin' \
		wprof-ctl start --connect $address $target
	agent_stop
}

case_of least 'A user of its own with two capabilities profiles processes of every user'
least_body()
{
	tools
	chmod 755 .
	mkdir -m 777 box
	mkdir -p own/bin own/libexec
	cp "$bin/wprof-agent" "$bin/memwrite" own/bin/
	cp "$bin/../libexec/wprof-inject" own/libexec/
	address=unix:$PWD/box/a.sock
	start other setpriv --reuid 12346 --clear-groups --inh-caps=-all own/bin/memwrite \
		--service other-$$ -s 16M -d 60
	other=$pid
	await grep -q OTEL_CTX /proc/$other/maps
	memwrite_start
	agent_of() # CAPABILITY...: with those and no others
	{
		caps=-all$(printf ',+%s' "$@")
		start agent setpriv --reuid 12345 --clear-groups --inh-caps=$caps --ambient-caps=$caps \
			--bounding-set=$caps own/bin/wprof-agent --listen $address --stop-timeout 20000
		agent=$pid
		await grep -q 'msg="ready"' agent.err
	}
	both_are_profiled()
	{
		for t in $other $target; do
			ctl start $t --interval 50 || atf_fail "process $t: not started"
			hot() { ctl hot --json > hot && jq -e '.regions != []' hot; }
			await hot
			ctl context --json $t > who && jq -e '.fallback == false' who || atf_fail "$(cat who)"
			ctl stop || atf_fail 'not stopped'
		done
	}
	agent_of sys_ptrace
	grep -q 'name=CAP_DAC_READ_SEARCH' agent.err || atf_fail "$(cat agent.err)"
	atf_check -s exit:1 -e match:'CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH' \
		wprof-ctl start --connect $address $other
	agent_stop
	agent_of sys_ptrace dac_read_search
	! grep -q 'name=CAP_[^A]*_[^A]* ' agent.err || atf_fail "$(cat agent.err)"
	both_are_profiled
	agent_stop
	# the same from the program's file
	setcap cap_sys_ptrace,cap_dac_read_search+ep own/bin/wprof-agent || atf_fail 'setcap'
	start agent setpriv --reuid 12345 --clear-groups --inh-caps=-all own/bin/wprof-agent \
		--listen $address --stop-timeout 20000
	agent=$pid
	await grep -q 'msg="ready"' agent.err
	both_are_profiled
	agent_stop
}

case_of crowded 'Connections without end are refused; profiling, its clients and metrics go on'
crowded_body()
{
	tools
	memwrite_start
	start agent sh -c 'ulimit -n 100; exec wprof-agent "$@"' - --listen $address \
		--metrics unix:$PWD/m.sock --stop-timeout 20000
	agent=$pid
	await grep -q 'msg="ready"' agent.err
	ctl start $target --interval 50 || atf_fail 'not started'
	start watch wprof-ctl watch --connect $address --json
	n=1
	more() { [ $(wc -l < watch.out) -gt $n ]; }
	await more
	cat > hold.py <<- END
		import socket, sys, time
		held = []
		for i in range(300):
		    s = socket.socket(socket.AF_UNIX)
		    s.connect("a.sock")
		    held.append(s)
		print("full", flush=True)
		time.sleep(60)
	END
	start hold python3 hold.py
	holder=$pid
	await grep -q full hold.out
	await grep -q 'why=too_many_connections' agent.err
	# as many as there were before, and one more
	n=$(($(wc -l < watch.out) + 1))
	await more
	atf_check -o match:'wprof_agent_profiled_processes 1' python3 -c 'import socket
s = socket.socket(socket.AF_UNIX); s.connect("m.sock"); s.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
print(b"".join(iter(lambda: s.recv(65536), b"")).decode())'
	atf_check -s exit:1 -e match:'no agent answers' wprof-ctl health --connect $address --timeout 3
	kill $holder
	await ctl health
	agent_stop
}

case_of systemd 'It takes sockets by descriptor and says when it is ready and when it stops'
systemd_body()
{
	tools
	cat > activate.py <<- END
		import os, socket, sys
		s = socket.socket(socket.AF_UNIX); s.bind("a.sock"); s.listen()
		n = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); n.bind("notify.sock")
		n.settimeout(20)
		pid = os.fork()
		if pid == 0:
		    os.dup2(s.fileno(), 3)
		    os.set_inheritable(3, True)
		    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()),
		                      NOTIFY_SOCKET=os.path.abspath("notify.sock"))
		    os.execvp("wprof-agent", ["wprof-agent"])
		said = n.recv(100)
		assert said == b"READY=1", said
		assert os.system("wprof-ctl health --connect unix:a.sock") == 0
		os.kill(pid, 15)
		said = n.recv(100)
		assert said == b"STOPPING=1", said
		assert os.waitpid(pid, 0)[1] == 0
		assert os.path.exists("a.sock"), "the socket is systemd's to remove"
	END
	atf_check -o inline:'serving\n' -e ignore python3 activate.py
}

case_of metrics 'The metrics are OpenMetrics, count the calls, and answer nothing else'
metrics_body()
{
	tools
	memwrite_start
	atf_check -s exit:1 -e match:'loopback' wprof-agent --listen $address --metrics 192.0.2.1:9
	agent_start --metrics unix:$PWD/m.sock
	ctl start $target --interval 50 || atf_fail 'not started'
	cat > get.py <<- END
		import socket
		from prometheus_client.openmetrics.parser import text_string_to_metric_families
		def get(request):
		    s = socket.socket(socket.AF_UNIX); s.connect("m.sock"); s.sendall(request)
		    s.shutdown(socket.SHUT_WR)
		    return b"".join(iter(lambda: s.recv(65536), b"")).decode()
		for bad, code in ((b"GET / HTTP/1.1\r\n\r\n", "404"), (b"x", "400"), (b"", "400"),
		                  (b"GET /metricsx HTTP/1.1\r\n\r\n", "404"), (b"a" * 9000, "400"),
		                  (b"POST /metrics HTTP/1.1\r\n\r\n", "404")):
		    try: assert get(bad).startswith("HTTP/1.1 " + code), bad[:20]
		    except (ConnectionResetError, BrokenPipeError): assert len(bad) > 4096
		head, text = get(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").split("\r\n\r\n", 1)
		assert "application/openmetrics-text" in head and head.startswith("HTTP/1.1 200")
		assert f"Content-Length: {len(text)}" in head
		families = {f.name: f for f in text_string_to_metric_families(text)}
		kinds = {name: f.type for name, f in families.items()}
		assert len(kinds) == 9 and set(kinds.values()) == {"gauge", "counter", "info"}, kinds
		value = {(s.name, *s.labels.values()): s.value for f in families.values() for s in f.samples}
		assert value["wprof_agent_rpcs_total", "StartProfiling", "ok"] == 1
		assert value["wprof_agent_profiled_processes",] == 1
		assert value["wprof_agent_tracked_vmas",] > 3
	END
	atf_check /usr/bin/python3 get.py
	agent_stop
}

case_of dumps 'Dumps: refusals with the reason, answers meanwhile, the count begins anew'
dumps_body()
{
	tools
	standin
	memwrite_start
	atf_check -s exit:2 -e match:'hot-mode' wprof-agent --hot-mode x
	agent_start --images-dir images --criu ./criu --target-pid $target
	atf_check -s exit:2 -e match:'dump_id:' wprof-ctl pre-dump --connect $address a.b
	atf_check -s exit:1 -e match:'the parent dump x is not there' \
		wprof-ctl pre-dump --connect $address one --parent x
	: > fail
	atf_check -s exit:1 -e match:'criu ended with 1: Error \(criu/x.c:1\): no luck' \
		wprof-ctl pre-dump --connect $address one
	rm fail
	ctl start $target --interval 20 || atf_fail 'not started'
	written() { ctl volume --json > v && jq -e '.bytes_since_last_dump > 0' v; }
	await written
	kill -STOP $target
	quiet() { ctl volume --json > v && jq -e '.dirty_bytes == 0 and .bytes_since_last_dump > 0' v; }
	await quiet
	atf_check -o match:'^one: .* to send: .*/images/one/ship' \
		wprof-ctl pre-dump --connect $address one
	[ "$(ctl volume --json | jq .bytes_since_last_dump)" = 0 ] || atf_fail 'not counted anew'
	kill -CONT $target
	atf_check -s exit:1 -e match:'was used before' wprof-ctl pre-dump --connect $address one
	mkfifo hold
	start dump wprof-ctl pre-dump --connect $address two --parent one
	dumping=$pid
	await test -e held
	atf_check -s exit:1 -e match:'dump two is being made' \
		wprof-ctl pre-dump --connect $address three
	atf_check -o inline:'serving\n' wprof-ctl health --connect $address
	atf_check -o match:'since start' wprof-ctl volume --connect $address
	echo > hold
	wait $dumping || atf_fail "$(cat dump.err)"
	rm hold
	# an agent that starts anew goes on with the chain
	agent_stop
	agent_start --images-dir images --criu ./criu
	ctl start $target || atf_fail 'not started'
	atf_check -o save:last wprof-ctl dump --connect $address last --parent two --leave-running --json
	jq -e '.hot_mode == "withhold" and (.images_dir | endswith("/images/last/ship"))' last ||
		atf_fail "$(cat last)"
	[ "$(readlink images/last/ship/parent)" = ../../two/ship ] || atf_fail 'another parent'
	agent_stop
}

atf_init_test_cases()
{
	for c in usage no_agent commands watch_live target_choice container_pid target_gone tree one_socket \
		peer_uid rights least crowded systemd metrics dumps; do
		atf_add_test_case $c
	done
}
