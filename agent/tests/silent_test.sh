# The agent on a host where processes keep their memory from being read: each look at
# all processes meets them. Exclusive, as the looks of other tests would too.
tools()
{
	. "$(atf_config_get top)/agent/tests/agent.sh"
	# looking for leaks, it stops all threads first: one that is stuck never does
	export ASAN_OPTIONS=detect_leaks=0
}

case_of() # NAME DESCR
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$2'; atf_set timeout 60; atf_set require.user root; }"
	eval "$1_cleanup() { tools; stop_all; }"
}

# Six of them, each of which lives until the test's end closes its input.
silent_start()
{
	mkfifo input
	sleep 0 < input & # who opens a fifo waits for the other side
	exec 9> input
	for n in 1 2; do
		for part in payload header file; do
			"$bin/../libctx/tests/helpers/no_answer" $part < input \
				> "$part$n.out" 9>&- &
			echo $! > "$part$n.pid"
			echo $! >> pids
			await grep -q ready "$part$n.out"
		done
	done
}

threads() { sed -n 's/^Threads:[^0-9]*//p' "/proc/$agent/status"; }

case_of service__found 'Beside them the target is found by its service name, again and again'
service__found_body()
{
	tools
	silent_start
	memwrite_start
	agent_start
	atf_check -o match:"profiling process $target:" wprof-ctl start --connect "$address" \
		--service "$service"
	n=$(threads)
	# were each look to wait for each of them anew, the time of this case would be over
	for i in 1 2 3 4 5 6 7 8; do
		atf_check -o ignore wprof-ctl stop --connect "$address"
		atf_check -o match:"process $target:" wprof-ctl start --connect "$address" \
			--service "$service"
	done
	[ "$(threads)" -le "$n" ] || atf_fail "$n threads became $(threads)"
	agent_stop
}

case_of service__none 'A name that nobody has published: the answer says that not all can be read'
service__none_body()
{
	tools
	silent_start
	agent_start
	atf_check -s exit:1 -e match:'no process that can be read published the service name none' \
		wprof-ctl start --connect "$address" --service none
	agent_stop
}

case_of others__answered 'While eight look for a service, others are answered'
others__answered_body()
{
	tools
	silent_start
	memwrite_start
	agent_start
	for i in 1 2 3 4 5 6 7 8; do
		start "look$i" wprof-ctl start --connect "$address" --service none
		echo "$pid" > "look$i.pid"
	done
	atf_check -o inline:'serving\n' wprof-ctl health --connect "$address"
	atf_check -s exit:3 -e match:'nothing is being profiled' wprof-ctl hot --connect "$address"
	atf_check -o match:"$service" wprof-ctl context --connect "$address" "$target"
	atf_check -o match:"profiling process $target" wprof-ctl start --connect "$address" "$target"
	atf_check -o match:'unknown_service' wprof-ctl context --connect "$address" \
		"$(cat payload1.pid)"
	for i in 1 2 3 4 5 6 7 8; do
		wait "$(cat "look$i.pid")"
		[ $? = 1 ] || atf_fail "look $i: $?, $(cat "look$i.err")"
		grep -q 'no process that can be read' "look$i.err" || atf_fail "$(cat "look$i.err")"
	done
	agent_stop
}

atf_init_test_cases()
{
	atf_add_test_case service__found
	atf_add_test_case service__none
	atf_add_test_case others__answered
}
