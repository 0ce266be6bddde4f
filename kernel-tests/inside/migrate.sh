# migrate.sh - migrations by the agent, as a controller would do them: profile, dump,
# send by rsync, restore from what arrived. Sourced after criu.sh.
#
# source/ is the agent's images directory, target/ what the other machine has. Before
# the restore source/ is removed.

address=unix:$PWD/agent.sock

# agent_start MODE [OPTION...]
agent_start()
{
	mode=$1; shift
	mkdir -p source target
	rm -f agent.sock agent.log
	wprof-agent --listen "$address" --images-dir source --criu "$criu" --hot-mode "$mode" "$@" \
		> /dev/null 2> agent.log &
	agent=$!
	echo $agent >> pids
	await grep -q 'msg="ready"' agent.log
}

agent_stop()
{
	kill -TERM $agent
	wait $agent || atf_fail "the agent ended with $?: $(tail -n 3 agent.log)"
}

ctl() # COMMAND [ARG...]
{
	command=$1; shift
	wprof-ctl "$command" --connect "$address" "$@"
}

# tree_pids PID: it and all below it
tree_pids()
{
	echo "$1"
	# shellcheck disable=SC2013 # words, not lines
	for child in $(cat /proc/"$1"/task/*/children 2> /dev/null); do tree_pids "$child"; done
}

# ---- profiling --------------------------------------------------------------------

# intervals N: that many have ended, each whole
ended() { [ "$(wc -l < watched)" -gt "$((seen + wanted))" ]; }
intervals()
{
	seen=$(wc -l < watched) wanted=$1
	await ended
}

# profile [OPTION...]: until what is hot is known
profile()
{
	ctl start "$pid" --interval 500 --granularity 64K "$@" > said 2>&1 || atf_fail "$(cat said)"
	: > watched
	wprof-ctl watch --connect "$address" --interval 50 --json > watched 2> watch.err &
	watch=$!
	echo $watch >> pids
	intervals 4
}

# ---- dumps --------------------------------------------------------------------------

# take HOW ID [PARENT] [OPTION]: the answer in ID.json
take()
{
	how=$1 id=$2 parent=${3-}
	[ $# -lt 3 ] || shift; shift 2
	ctl "$how" "$id" ${parent:+--parent "$parent"} --json "$@" > "$id.json" 2> "$id.err"
}

# send ID: what the answer says is to be sent, and nothing else
send()
{
	dir=$(jq -r .images_dir "$1.json")
	rsync -aR "source/./${dir##*/source/}" target/ || return 1
	size=$(find "target/$1" -type f -printf '%s\n' | awk '{ n += $1 } END { print n + 0 }')
	[ "$size" = "$(jq .bytes_written "$1.json")" ] ||
		atf_fail "$1: $(jq .bytes_written "$1.json") bytes written, $size arrived"
}

# step HOW ID [PARENT] [OPTION]
step()
{
	take "$@" || atf_fail "$1 $2: $(cat "$2.err")"
	echo "at $(cut -d' ' -f1 /proc/uptime) s: $1 $2"
	send "$2" || atf_fail "rsync of $2 failed"
}

# or has ended by itself just before, as children of images_target do
is_stopped() { ! grep -qs '^State:.[^TZX]' "/proc/$1/status"; }
freeze()
{
	# twice: a child may have been born meanwhile
	for _ in 1 2; do
		for p in $(tree_pids "$pid"); do kill -STOP "$p"; await is_stopped "$p"; done
	done
}

thaw() { for p in $(tree_pids "$pid"); do kill -CONT "$p"; done; }

# snap_tree FILE: a line for each page of each process
snap_tree()
{
	# shellcheck disable=SC2046 # words
	images_target snap $(tree_pids "$pid") | sort > "$1"
	[ "$(wc -l < "$1")" -gt 50 ] || atf_fail "no snapshot $1"
	echo "at $(cut -d' ' -f1 /proc/uptime) s: snapshot $1"
}

# last_step [PARENT]: the reference copy, and the dump that ends the process
last_step()
{
	${before_last:-:}
	freeze
	cp "/proc/$pid/maps" maps
	snap_tree before
	all=$(tree_pids "$pid")
	step dump last "${1-}"
	wait "$pid" 2> /dev/null
	for p in $all; do await test ! -e "/proc/$p"; done
}

restore_from()
{
	"$criu" restore -d -D "$1" -v4 -o "$PWD/restore.log" ||
		{ grep -h Error restore.log | head -n 5; atf_fail "restore failed"; }
}

# arrive [DIR]: restored, the source and the name of a socket out of the way; equal;
# and it runs on
arrive()
{
	rm -rf source/* redis.sock
	dir=target/${1-"$(jq -r '.images_dir | sub(".*/source/"; "")' last.json)"}
	wprof images --verify "$dir" > verified || atf_fail "it does not restore alone: $(cat verified)"
	restore_from "$dir"
	snap_tree after
	same_memory
	thaw
	await goes_on
}

# goes_on: its memory changes again
goes_on() { snap_tree later && ! cmp -s after later; }

# row WHAT: of the table, from the answers in *.json
row()
{
	# shellcheck disable=SC2046 # names without blanks
	jq -rs --arg what "$1" --arg criu "$2" --arg kernel "$(uname -r)" '
		def mib: . / 1048576 * 100 | round / 100;
		def sum(f): map(f) | add;
		"row", $kernel, $criu, $what, .[0].hot_mode, length - 1, sum(.bytes_written),
		.[-1].bytes_written, sum(.pages_written), sum(.bytes_withheld),
		(sum(.frozen_time_us) / 1000 | round), (.[-1].frozen_time_us / 1000 | round),
		sum(.exclude_ranges), sum(.no_parent_ranges)' \
		$(ls p[0-9]*.json) last.json | paste -sd '|'
}

# migrate WHAT LEVELS: pre-dumps, the last dump, the restore, a row
migrate()
{
	parent='' level=1
	while [ $level -le "$2" ]; do
		step pre-dump p$level $parent
		parent=p$level level=$((level + 1))
		intervals 2
	done
	last_step $parent
	arrive
	row "$1" "$criu"
}
