# The agent seen by an independent gRPC client: another HTTP/2, another gRPC,
# another protobuf, and our .proto as it is. What it cannot show is how long
# anything takes: bench/agent does.
tools() { . "$(atf_config_get top)/agent/tests/agent.sh"; }

case_of() # NAME DESCR: declare a case that starts programs
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$2'; atf_set timeout 60; atf_set require.user root; }"
	eval "$1_cleanup() { tools; stop_all; }"
}

simple() # NAME DESCR: a scenario that needs an agent only
{
	case_of "$1" "$2"
	# a request without a target, as some bytes happen to be, must not mean that of
	# a test that runs at the same time
	eval "$1_body() { tools; start sleeper sleep 60; agent_start --target-pid \$pid; js $1; agent_stop; }"
}

profiled() # NAME DESCR: a scenario that needs a target too
{
	case_of "$1" "$2"
	eval "$1_body() { tools; memwrite_start; agent_start; js $1 \$target; kill -0 \$target; agent_stop; }"
}

simple bad_values 'Values out of range are INVALID_ARGUMENT with the name of the field'
simple malformed 'Bytes that are no message, and too many of them, are refused; the agent goes on'
simple nothing_profiled 'Reads while nothing is profiled are FAILED_PRECONDITION'
simple unknown 'Unknown methods are UNIMPLEMENTED, and the health service answers'
simple deadline 'Deadlines and cancellations in any number leave nothing behind'
profiled profile 'Every RPC on a process that writes'
profiled streams 'WatchDirtyVolume keeps its pace, is cancelled, and ends with the profiling'
profiled slow_reader 'A reader that stops is told how many samples it missed; others are served'

case_of crowd '64 clients at once for two seconds; with the soak variable for a minute'
crowd_head()
{
	atf_set descr '64 clients at once: no error, stable memory; for a minute when soaking'
	atf_set timeout 200
	atf_set require.user root
}
crowd_body()
{
	tools
	clients=64 seconds=2 growth_kb=16384
	[ "$(atf_config_get soak false)" = false ] || seconds=60
	# 14 MB in the minute where 0.8 are without: a sanitizer's own books
	! ldd "$bin/wprof-agent" | grep -q 'lib[at]san' || growth_kb=65536
	memwrite_start -d 190
	# what a sanitizer keeps of freed memory is not the agent's: 256 MiB by default
	export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=4"
	agent_start
	js crowd $clients 1 $target
	before=$(awk '/VmRSS/ { print $2 }' /proc/$agent/status)
	js crowd $clients $seconds $target
	after=$(awk '/VmRSS/ { print $2 }' /proc/$agent/status)
	[ $after -lt $((before + growth_kb)) ] || atf_fail "from $before to $after kB of memory"
	agent_stop
}

case_of drops '1,000 connections dropped at any moment, some half open: no descriptor stays'
drops_body()
{
	tools
	agent_start
	js drops 20
	n=$(ls /proc/$agent/fd | wc -l)
	js drops 1000
	await eval '[ $(ls /proc/$agent/fd | wc -l) -le $((n + 2)) ]'
	agent_stop
}

case_of shutdown 'SIGTERM under load: every call gets an answer, the agent ends well'
shutdown_body()
{
	tools
	memwrite_start
	agent_start
	js shutdown $agent $target
	wait $agent || atf_fail "the agent ended with $?"
	grep -q 'msg="ended"' agent.err || { cat agent.err; atf_fail 'it did not end well'; }
	kill -0 $target || atf_fail 'the target is gone'
}

case_of tls 'TCP takes clients with a certificate of the right authority, and no others'
tls_body()
{
	tools
	for who in ca other; do
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
			-subj "/CN=$who" -keyout $who.key -out $who.pem 2> /dev/null ||
			atf_fail 'openssl req'
	done
	for who in server:ca client:ca stranger:other; do
		name=${who%:*} ca=${who#*:}
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" \
			-keyout $name.key -out $name.csr 2> /dev/null || atf_fail 'openssl req'
		echo 'subjectAltName = DNS:localhost, IP:127.0.0.1' > ext
		openssl x509 -req -in $name.csr -CA $ca.pem -CAkey $ca.key -CAcreateserial -days 2 \
			-extfile ext -out $name.pem 2> /dev/null || atf_fail 'openssl x509'
	done
	address=127.0.0.1:$((20000 + $$ % 12000))
	tls='--tls-cert server.pem --tls-key server.key --tls-ca ca.pem'
	agent_start $tls
	js tls ca.pem client.pem client.key
	js tls ca.pem
	js tls plain
	atf_check -o inline:'serving\n' wprof-ctl health --connect $address \
		--tls-cert client.pem --tls-key client.key --tls-ca ca.pem
	atf_check -s exit:1 -e match:'no agent answers' wprof-ctl health --connect $address \
		--timeout 5 --tls-cert stranger.pem --tls-key stranger.key --tls-ca ca.pem
	# a second daemon does not get half of the connections
	atf_check -s exit:1 -e match:'cannot be listened on' \
		timeout 20 wprof-agent --listen $address $tls
	agent_stop
}

atf_init_test_cases()
{
	for c in bad_values malformed nothing_profiled unknown deadline profile streams \
		slow_reader crowd drops shutdown tls; do
		atf_add_test_case $c
	done
}
