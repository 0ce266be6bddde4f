# Processes whose memory does not answer: whoever reads it waits until it is killed,
# so the programs give it up. A userfaultfd that nobody serves does that, and so does
# a file system (FUSE) that never answers a read.
# Exclusive, as every look at all processes meets these.
bin=$(atf_get_srcdir)/../../bin

# Start one that withholds $1; its PID is in the file pid.$2, or pid.$1. Its end is
# the test's: it lives until nobody can write to its input.
withhold()
{
	name=${2:-$1}
	if [ ! -e input ]; then
		mkfifo input
		sleep 0 < input & # who opens a fifo waits for the other side
		exec 9> input
	fi
	"$(atf_get_srcdir)/helpers/no_answer" "$1" < input > "output.$name" 9>&- &
	echo $! > "pid.$name"
	until grep -q ready "output.$name"; do
		kill -0 "$(cat "pid.$name")" || atf_fail "it ended"
	done
}

# A dozen, one after the other they would keep us for longer than a test may take.
withhold_many()
{
	for i in 1 2 3; do
		for part in payload header file file-sync; do
			withhold $part "$part$i"
		done
	done
}

stop_all()
{
	for f in pid.*; do
		[ ! -f "$f" ] || kill "$(cat "$f")" 2> /dev/null || true
	done
}

publisher_start()
{
	"$bin/memwrite" --service "$1" --size 1M --rate 1M --duration 60 > /dev/null 9>&- &
	echo $! > pid.publisher
	until "$bin/pctx" read "$(cat pid.publisher)" > /dev/null 2>&1; do
		kill -0 "$(cat pid.publisher)" || atf_fail "the publisher ended"
	done
}

give_up()
{
	atf_set "descr" "$1"
	atf_set "require.user" "root"
	atf_set "timeout" "30"
}

atf_test_case read__given_up cleanup
read__given_up_head()
{
	give_up "A payload, a header, a file that does not answer is given up with one line, exit code 1"
}
read__given_up_body()
{
	for part in payload header file file-sync; do
		withhold $part
		pid=$(cat pid.$part)
		atf_check -s exit:1 -e match:"process $pid: its memory does not answer" \
			"$bin/pctx" read "$pid"
	done
	atf_check -o match:"not published: no_answer" -o match:"unknown_service:no_answer" \
		"$bin/pctx" read --fallback "$(cat pid.payload)"
}
read__given_up_cleanup() { stop_all; }

atf_test_case list__goes_on cleanup
list__goes_on_head()
{
	give_up "list names the process that does not answer, and shows those after it"
}
list__goes_on_body()
{
	withhold payload
	publisher_start after
	atf_check -o save:out -e ignore "$bin/pctx" list
	atf_check -o ignore grep "$(cat pid.payload) .*(no_answer)" out
	atf_check -o ignore grep "$(cat pid.publisher) .*after" out
	atf_check -o save:json -e ignore "$bin/pctx" list --json
	atf_check -o ignore grep -E "\"pid\": ?$(cat pid.payload),.*\"error\": ?\"no_answer\"" json
	atf_check -o ignore grep -E "\"pid\": ?$(cat pid.publisher),.*\"after\"" json
}
list__goes_on_cleanup() { stop_all; }

atf_test_case list__many cleanup
list__many_head()
{
	give_up "list does not wait for those that do not answer one after the other"
}
list__many_body()
{
	withhold_many
	publisher_start after
	atf_check -o save:json -e ignore "$bin/pctx" list --json
	for f in pid.*[123]; do
		atf_check -o ignore grep -E "\"pid\": ?$(cat "$f"),.*\"error\": ?\"no_answer\"" json
	done
	atf_check -o ignore grep -E "\"pid\": ?$(cat pid.publisher),.*\"after\"" json
}
list__many_cleanup() { stop_all; }

atf_test_case watch__goes_on cleanup
watch__goes_on_head()
{
	give_up "watch tells of it once, and of those that publish later"
}
watch__goes_on_body()
{
	withhold header
	publisher_start later
	atf_check -o save:out -e ignore "$bin/pctx" watch --poll --interval 50 --count 2 \
		"$(cat pid.header)" "$(cat pid.publisher)"
	atf_check -o match:"error .* $(cat pid.header) .*no_answer" \
		-o match:"publish .* $(cat pid.publisher) .*later" cat out
}
watch__goes_on_cleanup() { stop_all; }

atf_test_case watch__many cleanup
watch__many_head()
{
	give_up "watch tells of each of many once, and of what is published behind them"
}
watch__many_body()
{
	withhold_many
	publisher_start behind
	"$bin/pctx" watch --poll --interval 20 > events 2> /dev/null 9>&- &
	echo $! > pid.watch
	until grep -q "publish .*behind" events; do :; done
	"$bin/memwrite" --service later --size 1M --rate 1M --duration 60 > /dev/null 9>&- &
	echo $! > pid.later
	until grep -q "publish .*later" events; do :; done
	kill -INT "$(cat pid.watch)"
	wait "$(cat pid.watch)" || atf_fail "watch: $?"
	for f in pid.*[123]; do
		atf_check -o inline:'1\n' grep -c " $(cat "$f")  no_answer .*(no_answer)" events
	done
}
watch__many_cleanup() { stop_all; }

atf_test_case service__found cleanup
service__found_head()
{
	give_up "wprof --service finds its process beside many that do not answer, or says so"
}
service__found_body()
{
	withhold_many
	atf_check -s exit:3 -e match:"no process that can be read has published" \
		"$bin/wprof" criu-args --service nobody.has.this
	publisher_start beside
	atf_check -o ignore -e ignore "$bin/wprof" record --service beside --interval 100 \
		--duration 0.3 -o trace
	atf_check -o match:'"pid": ?'"$(cat pid.publisher)" head -n 1 trace
}
service__found_cleanup() { stop_all; }

atf_init_test_cases()
{
	atf_add_test_case read__given_up
	atf_add_test_case list__goes_on
	atf_add_test_case list__many
	atf_add_test_case watch__goes_on
	atf_add_test_case watch__many
	atf_add_test_case service__found
}
