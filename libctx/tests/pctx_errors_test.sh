# What pctx makes of contexts that cannot be read: words, lines, exit codes.
bin=$(atf_get_srcdir)/../../bin

# Start a process that publishes wrongly, in the way $* names; its PID is in the file
# pid. It lives until nobody can write to its input.
publish()
{
	if [ ! -e input ]; then
		mkfifo input
		sleep 0 < input & # who opens a fifo waits for the other side
		exec 9> input
	fi
	"$(atf_get_srcdir)/helpers/wrong" "$@" < input > said 9>&- &
	echo $! > pid
	echo $! >> pids
	until grep -q ready said; do kill -0 $! || atf_fail "it ended"; done
}

stop_all()
{
	[ ! -f pids ] || while read -r p; do kill "$p" 2> /dev/null; done < pids
	:
}

error_case()
{
	atf_set "descr" "$1"
	atf_set "require.progs" "jq $2"
	atf_set "timeout" "30"
}

# pctx read $4... of the process ends with code $1, and all it says is this line: it
# names the process, and $2 is why and what can be done. JSON has $3 for it.
check_read()
{
	code=$1 why=$2 word=$3
	shift 3
	pid=$(cat pid)
	line="pctx: cannot read the context of process $pid: $why"
	atf_check -s exit:"$code" -e inline:"$line\n" "$bin/pctx" read "$@" "$pid"
	atf_check -s exit:"$code" -e inline:"$line\n" "$bin/pctx" read --json "$@" "$pid"
	check_fallback "$word" "$@"
	check_documented "$why" "$code"
}

# With --fallback it is described, and $1 is said to be why.
check_fallback()
{
	word=$1
	shift
	atf_check -o save:text "$bin/pctx" read --fallback "$@" "$(cat pid)"
	atf_check -o inline:"process $(cat pid) (wrong), detected, not published: $word\n" \
		head -n 1 text
	atf_check -o match:'service.name +"unknown_service:wrong"' cat text
	atf_check -o save:json "$bin/pctx" read --fallback --json "$@" "$(cat pid)"
	atf_check -o inline:"[true,\"$word\",null]\n" jq -c \
		'[.fallback, .fallback_reason, .published_at_ns]' json
	atf_check -o ignore grep -F "\`\"$word\"\`" "$(atf_config_get top)/docs/formats.md"
}

# docs/errors.md has the beginning of the line and the exit code, pctx(1) the line.
check_documented()
{
	awk -F'|' -v why="$1" -v code="($2)" '/^\| E/ {
		text = $5
		gsub(/^ | $/, "", text)
		if (sub(/ \([0-9]\)$/, "", text) && index(why, text) && index($5, code))
			found = 1
	} END { exit !found }' "$(atf_config_get top)/docs/errors.md" ||
		atf_fail "docs/errors.md lacks: $1 ($2)"
	atf_check -o ignore grep -F "It \"cannot read the context of process N: ${1%%;*}\"" \
		"$(atf_config_get top)/man/pctx.1"
}

atf_test_case read__malformed cleanup
read__malformed_head()
{
	error_case "A payload cut short, too long or not mapped is malformed: exit code 1"
}
read__malformed_body()
{
	for how in malformed size address; do
		publish $how
		check_read 1 "what it published is malformed; --fallback describes it without" malformed
	done
}
read__malformed_cleanup() { stop_all; }

atf_test_case read__being_updated cleanup
read__being_updated_head()
{
	error_case "A timestamp that stays 0 is an update that does not end: exit code 3"
}
read__being_updated_body()
{
	publish updating
	check_read 3 "it is being updated all the time; try again" being_updated
}
read__being_updated_cleanup() { stop_all; }

atf_test_case read__unsupported_version cleanup
read__unsupported_version_head()
{
	error_case "Another version is exit code 3; that of development is read with --version-1"
}
read__unsupported_version_body()
{
	why="it has a version this program does not read; a newer one may"
	publish version 3
	check_read 3 "$why" unsupported_version
	check_read 3 "$why" unsupported_version --version-1
	publish version 1
	check_read 3 "$why" unsupported_version
	atf_check -o match:'"by-hand"' "$bin/pctx" read --version-1 "$(cat pid)"
	atf_check -o match:'"by-hand"' "$bin/pctx" read --version-1 --fallback "$(cat pid)"
}
read__unsupported_version_cleanup() { stop_all; }

atf_test_case read__scan_limit cleanup
read__scan_limit_head()
{
	error_case "No context among as many mappings as are allowed is exit code 3, not none at all"
}
read__scan_limit_body()
{
	publish right
	# so many lie before it
	before=$(awk '/OTEL_CTX/ { print NR - 1; exit }' "/proc/$(cat pid)/maps")
	[ "$before" -ge 1 ] || atf_fail "it lies first"
	check_read 3 "none among the mappings allowed; raise --mappings-max" scan_limit \
		--mappings-max "$before"
	atf_check -o match:'"by-hand"' "$bin/pctx" read --mappings-max $((before + 1)) "$(cat pid)"
}
read__scan_limit_cleanup() { stop_all; }

# The programs where any user may run them, and how that is done.
other_user()
{
	mkdir -p bin
	cp "$bin/pctx" bin/
	chmod 755 . bin
	user="setpriv --reuid=65534 --regid=65534 --clear-groups"
}

atf_test_case read__not_permitted cleanup
read__not_permitted_head()
{
	error_case "Another user's process is exit code 1, with --fallback too: it is not described" \
		setpriv
	atf_set "require.user" "root"
}
read__not_permitted_body()
{
	other_user
	publish right
	pid=$(cat pid)
	why="not permitted; run as its user or as root"
	for option in "" --json --fallback "--fallback --json"; do
		# shellcheck disable=SC2086 # lists of words
		atf_check -s exit:1 \
			-e inline:"pctx: cannot read the context of process $pid: $why\n" \
			$user ./bin/pctx read $option "$pid"
	done
	check_documented "$why" 1
}
read__not_permitted_cleanup() { stop_all; }

atf_test_case read__gone
read__gone_head()
{
	error_case "A process that is not there is exit code 1, with --fallback too"
}
read__gone_body()
{
	true & wait $!
	why="no such process; \`pctx list' shows those that published one"
	for option in "" --json --fallback "--fallback --json"; do
		# shellcheck disable=SC2086 # none, or several words
		atf_check -s exit:1 \
			-e inline:"pctx: cannot read the context of process $!: $why\n" \
			"$bin/pctx" read $option $!
	done
	check_documented "$why" 1
}

atf_test_case list__says_why cleanup
list__says_why_head()
{
	error_case "list has a line for each context that cannot be read, and the word for why"
}
list__says_why_body()
{
	for how in malformed updating "version 3"; do
		# shellcheck disable=SC2086 # the version is a word of its own
		publish $how
	done
	atf_check -o save:text -e ignore "$bin/pctx" list
	atf_check -o save:json -e ignore "$bin/pctx" list --json
	for word in malformed being_updated unsupported_version; do
		read -r pid
		atf_check -o match:"^ *$pid  wrong  +-  \($word\)$" grep "^ *$pid " text
		atf_check -o inline:"[\"wrong\",\"$word\",null]\n" jq -c \
			"select(.pid == $pid) | [.command, .error, .context]" json
	done < pids
}
list__says_why_cleanup() { stop_all; }

atf_test_case list__not_permitted
list__not_permitted_head()
{
	error_case "list counts the processes that it may not look into, and is done all the same" \
		"setpriv unshare"
	atf_set "require.user" "root"
}
list__not_permitted_body()
{
	other_user
	# this shell and $1 processes more are root's, and there are no others
	cat > list <<END
for i in \$(seq \$1); do sleep 60 & done
shift
$user ./bin/pctx list "\$@"
exit \$?
END
	for n in 0 2; do
		what=$([ $n = 0 ] && echo "1 process" || echo "3 processes")
		beside="unshare --pid --fork --kill-child --mount-proc sh list $n"
		# shellcheck disable=SC2086 # a list of words
		atf_check -e inline:"pctx: not permitted to look into $what; as root there may be more\n" \
			$beside
		# shellcheck disable=SC2086 # a list of words
		atf_check -o save:json $beside --json
		atf_check -o inline:"{\"not_permitted\":${what%% *}}\n" \
			jq -c 'select(.not_permitted)' json
	done
}

atf_test_case read__hidden cleanup
read__hidden_head()
{
	error_case "What hidepid hides is not permitted, what is not there is not there" \
		"setpriv unshare"
	atf_set "require.user" "root"
}
read__hidden_body()
{
	other_user
	publish right
	true & wait $!
	cat > script <<- EOF
		mount -t proc -o "hidepid=\$1" proc /proc || exit 77
		$user cat /proc/$(cat pid)/stat > /dev/null 2>&1 && exit 78
		$user ./bin/pctx read $(cat pid)
		echo \$?
		$user ./bin/pctx read $!
		echo \$?
		./bin/pctx read $(cat pid) > /dev/null
		echo \$?
	EOF
	# there is a directory that cannot be entered, one with nothing in it, and none
	for hidepid in noaccess invisible ptraceable; do
		atf_check -o inline:'1\n1\n0\n' -e save:error unshare --mount sh script $hidepid
		atf_check -o inline:"pctx: cannot read the context of process $(cat pid): \
not permitted; run as its user or as root
pctx: cannot read the context of process $!: \
no such process; \`pctx list' shows those that published one
" cat error
	done
}
read__hidden_cleanup() { stop_all; }

atf_init_test_cases()
{
	atf_add_test_case read__malformed
	atf_add_test_case read__being_updated
	atf_add_test_case read__unsupported_version
	atf_add_test_case read__scan_limit
	atf_add_test_case read__not_permitted
	atf_add_test_case read__gone
	atf_add_test_case read__hidden
	atf_add_test_case list__says_why
	atf_add_test_case list__not_permitted
}
