# wprof-ctl migrate: with the real agent, the real rsync, and a stand-in for CRIU. That
# what arrives restores is the business of the guest tests; here it is what is asked for,
# in which order, what is sent, and what is left behind by each fault.
tools() { . "$(atf_config_get top)/agent/tests/agent.sh"; }

case_of() # NAME DESCR
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$2'; atf_set timeout 60; atf_set require.user root;
		atf_set require.progs rsync; }"
	eval "$1_body() { tools; $1; }"
	eval "$1_cleanup() { tools; stop_all; }"
	cases="${cases-} $1"
}

# a target that dies with the final dump, an agent that knows it
setup()
{
	standin
	start target sleep 300
	target=$pid
	agent_begin
}

agent_begin()
{
	agent_start --images-dir images --criu ./criu --target-pid "$target" "$@"
}

alive() { grep -q '^State:[[:space:]]*S' "/proc/$target/status"; }

migrate() # ARGUMENT...: to ./there, as the migration m
{
	wprof-ctl migrate --connect "$address" --to "$PWD/there" "$@"
}

# fails TEXT ARGUMENT...: with one line on standard error
fails()
{
	text=$1; shift
	atf_check -s exit:1 -o save:out -e save:err wprof-ctl migrate --connect "$address" --to "$PWD/there" "$@"
	grep -q -- "$text" err || atf_fail "no '$text' in: $(cat err)"
	[ "$(wc -l < err)" = 1 ] || atf_fail "more than a line: $(cat err)"
}

# the command that the last error names, as a shell would run it
resume()
{
	sed -n 's/.*go on with: //p' err > command
	grep -q 'wprof-ctl migrate .*--resume' command || atf_fail "no command in: $(cat err)"
	sh ./command > out 2> err || { cat command err; atf_fail 'it did not go on'; }
}

# arrived ID...: those dumps are at the destination as they were shipped, no other file is
arrived()
{
	for id in "$@"; do
		diff -r --no-dereference "images/$id/ship" "there/$id/ship" || atf_fail "$id differs"
		parent=there/$id/ship/parent
		[ ! -L "$parent" ] || [ -e "$parent/inventory.img" ] || atf_fail "$parent leads nowhere"
	done
	(cd there && find . -mindepth 1 -maxdepth 2 | sort) > found
	for id in "$@"; do echo "./$id"; echo "./$id/ship"; done | sort > wanted
	cmp found wanted || { diff wanted found; atf_fail 'other files arrived'; }
}

no_final() { [ ! -e images/m-final ] || atf_fail 'a final dump was made'; alive || atf_fail 'the process is gone'; }

# rsync_does N COMMAND: an rsync that executes the command at its Nth call (the first
# call of all is a trial), else it is the real one
rsync_does()
{
	mkdir -p bin
	real=$(command -v rsync)
	echo "$2" > bin/does
	echo 0 > bin/calls
	cat > bin/rsync <<- END
		#!/bin/sh
		n=\$((\$(cat '$PWD/bin/calls') + 1)); echo \$n > '$PWD/bin/calls'
		[ \$n != $1 ] || . '$PWD/bin/does'
		exec '$real' "\$@"
	END
	chmod 755 bin/rsync
	PATH=$PWD/bin:$PATH
}

broken='echo "rsync: [sender] the line broke (5)" >&2; echo "rsync error: (code 12)" >&2; exit 12'

atf_test_case usage
usage_head()
{
	atf_set descr 'Wrong usage is exit code 2 and names what is wrong'
	atf_set timeout 30
}
usage_body()
{
	tools
	bad() { text=$1; shift; atf_check -s exit:2 -e match:"$text" wprof-ctl "$@"; }
	bad 'a name of 1 to 58' migrate --name a.b
	bad 'no / in a name' migrate --name a/b
	bad 'a name of 1 to 58' migrate --resume images/
	bad 'exclude each other' migrate --name a --resume b
	bad 'no directory' migrate --to ''
	bad 'no directory' migrate --to=-x
	bad 'min-shrink' migrate --min-shrink 2
	bad 'max-pre-dumps' migrate --max-pre-dumps 100
	bad 'enough' migrate --enough x
	bad 'downtime' migrate --downtime 0
	bad 'no process id' migrate x
	bad 'has no option' dump --to x y
}

case_of whole 'Pre-dumps until they no longer shrink, then the final one; only what is shipped is sent'
whole()
{
	setup
	printf '%s\n' 100 40 20 19 18 > pages
	atf_check -o save:out wprof-ctl migrate --connect $address --to there/ --name m
	grep -q 'the dirty volume no longer shrinks: the final dump' out || { cat out; atf_fail 'another outcome'; }
	grep -q 'criu restore -D there/m-final/ship ' out || { cat out; atf_fail 'another outcome'; }
	arrived m-1 m-2 m-3 m-4 m-final
	! alive || atf_fail 'no final dump'
	[ $(grep -c '^pre-dump' criu.args) = 4 ] || { cat criu.args; atf_fail 'another outcome'; }
	tail -n 1 criu.args | grep -q '^dump.* --prev-images-dir ../../m-4/full' || { cat criu.args; atf_fail 'another outcome'; }
	# who did not hear the answer asks another agent: not for the process, which is gone
	agent_stop
	agent_begin
	atf_check -s exit:1 -o ignore -e match:'m-final was used before: it is a whole final dump of process' \
		wprof-ctl dump m-final --parent m-4 --connect $address
	agent_stop
}

case_of json 'As JSON a header, a line for each step and an end, with the command for the restore'
json()
{
	setup
	mkdir here
	printf '%s\n' 100 40 20 > pages
	atf_check -o save:out wprof-ctl migrate --connect $address --to 'here/a b' --name m \
		--max-pre-dumps 2 --json
	jq -se '.[0] == {format: "wprof-ctl.migrate", version: 1, name: "m", to: "here/a b"} and
		[.[].type] == [null, "step", "step", "step", "end"] and
		[.[1:4][].dump_id] == ["m-1", "m-2", "m-final"] and
		[.[1:4][].parent_dump_id] == [null, "m-1", "m-2"] and
		[.[1:4][].kind] == ["pre-dump", "pre-dump", "dump"] and
		[.[1:4][].stop] == [null, "max_pre_dumps", null] and
		[.[1:4][] | .bytes_written > 40960 and .dump_ms > 0 and .send_ms > 0] == [true, true, true] and
		.[1].predicted_bytes == null and .[3].predicted_bytes == .[2].bytes_written and
		.[1].sent_bytes > 409600 and .[3].sent_bytes < 409600 and .[1].hot_mode == "withhold" and
		.[4].host == "" and .[4].restore[0:4] == ["criu", "restore", "-D", "here/a b/m-final/ship"]' \
		out > /dev/null || { cat out; atf_fail 'another outcome'; }
	agent_stop
}

case_of limits 'No pre-dump at all, one that is enough, and a process that is left running'
limits()
{
	setup
	printf '%s\n' 100 1 > pages
	atf_check -o save:out wprof-ctl migrate --connect $address --name n --enough 1M --leave-running
	grep -q 'expected to be small enough: the final dump' out || { cat out; atf_fail 'another outcome'; }
	grep -q "criu restore -D $PWD/images/n-final/ship" out || { cat out; atf_fail 'another outcome'; }
	[ $(wc -l < criu.args) = 2 ] || { cat criu.args; atf_fail 'another outcome'; }
	tail -n 1 criu.args | grep -q ' --leave-running' || { cat criu.args; atf_fail 'another outcome'; }
	atf_check -o save:out wprof-ctl migrate --connect $address --name o --downtime 60000 --leave-running
	grep -q 'expected to be short enough: the final dump' out || { cat out; atf_fail 'another outcome'; }
	alive || atf_fail 'it was not left running'
	rm criu.args
	migrate --name m --max-pre-dumps 0 || atf_fail 'not migrated'
	[ $(wc -l < criu.args) = 1 ] || { cat criu.args; atf_fail 'another outcome'; }
	arrived m-final
	agent_stop
}

case_of remote 'HOST:DIR goes through the program that RSYNC_RSH names'
remote()
{
	setup
	mkdir home
	printf '#!/bin/sh\necho "$1" >> %s/hosts\nshift\ncd %s/home && exec sh -c "$*"\n' "$PWD" "$PWD" > ssh
	chmod 755 ssh
	export RSYNC_RSH=$PWD/ssh
	printf '%s\n' 100 3 > pages
	atf_check -o save:out wprof-ctl migrate --connect $address --to far:srv --name m --max-pre-dumps 1
	[ "$(sort -u hosts)" = far ] || atf_fail "$(cat hosts)"
	grep -A 1 '^restore on far:' out | grep -q 'criu restore -D srv/m-final/ship' || { cat out; atf_fail 'another outcome'; }
	mv home/srv there
	arrived m-1 m-final
	agent_stop
}

case_of profiled 'With a PID it profiles first, until memory can be hot; a second profiling is refused'
profiled()
{
	standin
	memwrite_start
	agent_begin
	atf_check -o save:out wprof-ctl migrate --connect $address --name m --interval 100 --leave-running \
		--json $target
	jq -se '.[1].dump_id == "m-1" and .[1].predicted_ms == null and .[2].predicted_bytes != null and
		.[1].predicted_bytes != null' out > /dev/null || { cat out; atf_fail 'other lines'; }
	hot() { ctl hot --json | jq -e '.regions != []'; }
	await hot
	atf_check -s exit:1 -e match:'profiling cannot begin: .*; nothing was dumped' \
		wprof-ctl migrate --connect $address $target
	agent_stop
}

# ---- faults -------------------------------------------------------------------------

case_of rsync_missing 'Without rsync, or where it cannot write, nothing is dumped'
rsync_missing()
{
	setup
	mkdir bin
	ln -s "$bin/wprof-ctl" bin/
	atf_check -s exit:1 -e match:'rsync cannot be started: .*; install it; nothing was dumped' \
		env PATH="$PWD/bin" wprof-ctl migrate --connect $address --to there
	atf_check -s exit:1 -e match:'rsync to no/where ended with .*No such file' \
		wprof-ctl migrate --connect $address --to no/where
	[ ! -e criu.args ] || { cat criu.args; atf_fail 'another outcome'; }
	agent_stop
}

case_of rsync_fails 'When rsync fails midway no final dump is made, and the named command goes on'
rsync_fails()
{
	setup
	printf '%s\n' 100 40 20 19 18 > pages
	rsync_does 3 "$broken"
	fails 'rsync to .*/there ended with 12: .sender. the line broke (5); no final dump was made' --name m
	no_final
	resume
	arrived m-1 m-2 m-3 m-4 m-final
	tail -n 1 criu.args | grep -q -- '--prev-images-dir ../../m-4/full' || { cat criu.args; atf_fail 'another outcome'; }
	agent_stop
}

case_of destination_full 'A destination without room ends it, and more room lets it go on'
destination_full()
{
	setup
	mkdir there
	printf '%s\n' 100 40 39 > pages
	cat > filled.sh <<- 'END'
		mount -t tmpfs -o size=64k none there || exit 99
		wprof-ctl migrate --connect "$1" --to "$PWD/there" --name m > out 2> err
		rc=$?
		! grep -q 'No space left on device' err || [ ! -e images/m-final ] || exit 98
		mount -o remount,size=4m there || exit 97
		sed -n 's/.*go on with: //p' err > command
		sh ./command > out2 2> err2 || exit 96
		cp -a there arrived
		exit $rc
	END
	atf_check -s exit:1 -o ignore -e ignore unshare -m sh ./filled.sh $address
	grep -q 'No space left on device.*; no final dump was made; go on with' err || atf_fail "$(cat err)"
	rmdir there; mv arrived there
	arrived m-1 m-2 m-3 m-final
	agent_stop
}

case_of final_not_sent 'A final dump that was not sent is sent by the named command, without an agent'
final_not_sent()
{
	setup
	printf '%s\n' 100 3 > pages
	rsync_does 3 "$broken"
	fails 'the final dump is whole in .*/images/m-final, not sent' --name m --max-pre-dumps 1
	! alive || atf_fail 'no final dump'
	agent_stop
	resume
	grep -q "criu restore -D $PWD/there/m-final/ship" out || { cat out; atf_fail 'another outcome'; }
	arrived m-1 m-final
}

case_of agent_gone 'An agent that is killed between two steps leaves the process, and another one goes on'
agent_gone()
{
	setup
	printf '%s\n' 100 40 39 > pages
	rsync_does 2 "kill -KILL $agent; while kill -0 $agent 2> /dev/null; do sleep 0.01; done"
	start migrate wprof-ctl migrate --connect $address --to "$PWD/there" --name m --timeout 30
	migrating=$pid
	wait $agent
	! wait $migrating || atf_fail 'it ended well'
	mv migrate.err err
	grep -q "no agent answers at $address.*; no final dump was made; go on with: " err || atf_fail "$(cat err)"
	no_final
	agent_begin
	resume
	arrived m-1 m-2 m-3 m-final
	agent_stop
}

case_of target_exits 'A process that exits between two steps is said to be gone'
target_exits()
{
	setup
	printf '%s\n' 100 40 > pages
	rsync_does 2 "kill -KILL $target; while kill -0 $target 2> /dev/null; do sleep 0.01; done"
	start migrate wprof-ctl migrate --connect $address --to "$PWD/there" --name m
	migrating=$pid
	wait $target
	! wait $migrating || atf_fail 'it ended well'
	grep -q "dump m-2 failed: .*process.*; no final dump was made" migrate.err || atf_fail "$(cat migrate.err)"
	[ ! -e images/m-2 ] || atf_fail 'a dump of what?'
	agent_stop
}

case_of criu_fails 'When CRIU fails the process is left, and a new chain follows where the old one is cut off'
criu_fails()
{
	setup
	printf '%s\n' 100 40 39 38 > pages
	rsync_does 2 'echo at the pages > fail'
	fails 'dump m-2 failed: criu ended with 1.*without a parent; no final dump was made' --name m
	no_final
	rm fail
	resume
	grep -q 'not the last dump.*; without a parent, then' out || { cat out; atf_fail 'another outcome'; }
	rm -r there/m-1 # what is left of the old chain
	arrived m-2 m-3 m-final
	! grep -q 'm-1' there/m-2/ship/withheld.wprof || atf_fail 'it refers to the old chain'
	[ ! -e there/m-2/ship/parent ] || atf_fail 'it has a parent'
	agent_stop
}

case_of another_process 'A new chain of another process than before is refused, and ends in no final dump'
another_process()
{
	setup
	printf '%s\n' 100 40 39 38 > pages
	rsync_does 2 'echo at the pages > fail'
	fails 'dump m-2 failed' --name m
	rm fail
	agent_stop
	start other sleep 300
	other=$pid
	agent_start --images-dir images --criu ./criu --target-pid $other
	sed -n 's/.*go on with: //p' err > command
	atf_check -s exit:1 -o ignore -e match:"process $target, which was being migrated, is no longer" sh ./command
	kill -0 $other || atf_fail 'it was dumped'
	no_final
	[ ! -e images/m-2 ] || atf_fail 'the dump of the other process is in the chain'
	agent_stop
	agent_begin
	sh ./command > out || atf_fail 'the next attempt failed'
	agent_stop
}

case_of interrupted 'Ctrl-C ends it between two steps, says how it goes on, and leaves no rsync'
interrupted()
{
	setup
	printf '%s\n' 100 40 39 > pages
	rsync_does 2 'kill -INT $PPID; echo $$ > rsync.pid; exec sleep 60'
	fails 'rsync to .* was interrupted; no final dump was made; go on with:' --name m
	! kill -0 "$(cat rsync.pid)" 2> /dev/null || atf_fail 'rsync runs on'
	no_final
	resume
	arrived m-1 m-2 m-3 m-final
	agent_stop
}

case_of interrupted_dump 'Ctrl-C while CRIU runs waits for its end and makes no further dump'
interrupted_dump()
{
	setup
	mkfifo hold
	start migrate wprof-ctl migrate --connect $address --to "$PWD/there" --name m
	migrating=$pid
	await test -e held
	kill -INT $migrating
	await grep -q 'interrupted: the dump under way is waited for' migrate.err
	echo > hold
	! wait $migrating || atf_fail 'it ended well'
	grep -q 'interrupted; no final dump was made' migrate.err || atf_fail "$(cat migrate.err)"
	no_final
	[ -e images/m-1 ] && [ ! -e images/m-2 ] || atf_fail "$(ls images)"
	agent_stop
}

case_of unfinished 'A final dump that the agent could not make ready is finished by the named command'
unfinished()
{
	setup
	printf '%s\n' 100 3 > pages
	echo 'mv images/m-1/ship images/m-1/away' > at.dump
	fails 'dump m-final failed: .*the dump itself is kept.*; the final dump was asked for; go on with:' \
		--name m --max-pre-dumps 1
	! alive || atf_fail 'no final dump'
	mv images/m-1/away images/m-1/ship
	resume
	arrived m-1 m-final
	agent_stop
}

case_of agent_killed_in_final 'A final dump that CRIU ends after its agent was killed is taken up by the named command'
agent_killed_in_final()
{
	setup
	printf '%s\n' 100 3 > pages
	mkfifo hold-final
	cat > at.dump <<- 'END'
		: > held
		read -r line < hold-final
		printf '\100\131\20\125\6\63\11\127\0\0\0\0' > "$d/stats-dump"
	END
	start migrate wprof-ctl migrate --connect $address --to "$PWD/there" --name m --max-pre-dumps 1
	migrating=$pid
	await test -e held
	kill -KILL $agent
	wait $agent
	! wait $migrating || atf_fail 'it ended well'
	mv migrate.err err
	grep -q 'no agent answers at .*; the final dump was asked for; go on with' err || atf_fail "$(cat err)"
	agent_begin
	# CRIU still runs: no harm is done meanwhile
	sed -n 's/.*go on with: //p' err > command
	atf_check -s exit:1 -o ignore -e match:'another dump into .* is being made' sh ./command
	echo > hold-final
	gone() { ! alive; }
	await gone
	taken() { sh ./command > out 2> err; }
	await taken
	grep -q "criu restore -D $PWD/there/m-final/ship" out || { cat out; atf_fail 'another outcome'; }
	arrived m-1 m-final
	agent_stop
}

case_of lost 'A process that was lost in the final dump is named as such'
lost()
{
	setup
	printf '%s\n' 100 3 > pages
	echo 'kill -KILL $t; exit 1' > at.dump
	fails "dump m-final failed: .*the process is gone, what was written is in .*m-final.lost" \
		--name m --max-pre-dumps 1
	sed -n 's/.*go on with: //p' err > command
	atf_check -s exit:1 -e match:"the process was lost in the final dump.*m-final.lost" sh ./command
	agent_stop
}

case_of nothing_to_resume 'Resuming what was never begun, or whose directory is gone, says so'
nothing_to_resume()
{
	setup
	atf_check -s exit:1 -e match:'no dump of a migration x in .*/images' \
		wprof-ctl migrate --connect $address --resume images/x
	atf_check -s exit:1 -e match:'nowhere/: No such file' \
		wprof-ctl migrate --connect $address --resume nowhere/x
	agent_stop
}

atf_init_test_cases()
{
	for c in usage $cases; do
		atf_add_test_case $c
	done
}
