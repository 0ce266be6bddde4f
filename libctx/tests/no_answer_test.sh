# Processes whose memory does not answer: whoever reads it waits until it is killed,
# so the programs give it up. A userfaultfd stands in for a file system that hangs.
# Exclusive, as every look at all processes meets these.
bin=$(atf_get_srcdir)/../../bin

# Start one that withholds its $1; its PID is in the file pid.$1.
withhold()
{
	mkfifo "input.$1"
	"$(atf_get_srcdir)/helpers/no_answer" "$1" < "input.$1" > "output.$1" 8>&- 9>&- &
	echo $! > "pid.$1"
	# the test's end is its end: it lives until nobody can write to it
	case $1 in
	payload) exec 8> "input.$1" ;;
	header) exec 9> "input.$1" ;;
	esac
	until grep -q ready "output.$1"; do
		kill -0 "$(cat "pid.$1")" || atf_fail "it ended"
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
	"$bin/memwrite" --service "$1" --size 1M --rate 1M --duration 60 > /dev/null 8>&- 9>&- &
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
	give_up "A payload or a header that does not answer is given up with one line, exit code 1"
}
read__given_up_body()
{
	for part in payload header; do
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

atf_test_case service__found cleanup
service__found_head()
{
	give_up "wprof --service finds its process beside one that does not answer, or says so"
}
service__found_body()
{
	withhold payload
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
	atf_add_test_case watch__goes_on
	atf_add_test_case service__found
}
