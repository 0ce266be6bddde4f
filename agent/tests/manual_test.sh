# The manual pages and the completion say all that there is.
atf_test_case options
options_head()
{
	atf_set descr 'Every option of both programs is in its page and its completion'
	atf_set timeout 60
}
options_body()
{
	bin=$(atf_get_srcdir)/../../bin top=$(atf_config_get top)
	for page in wprof-agent.8 wprof-ctl.1; do
		name=${page%.*}
		{ "$bin/$name" --help; [ $name = wprof-agent ] || "$bin/$name" start --help; } |
			grep -o -- '--[a-z][a-z-]*' | sort -u > options
		[ $(wc -l < options) -gt 8 ] || atf_fail "$(cat options)"
		while read -r option; do
			grep -q "Fl -${option#--}" "$top/man/$page" || atf_fail "$page lacks $option"
			grep -q -e "$option" "$top/scripts/completion/$name" ||
				atf_fail "the completion of $name lacks $option"
		done < options
	done
}

atf_test_case commands
commands_head()
{
	atf_set descr 'Every command of wprof-ctl is in its page and its completion'
	atf_set timeout 30
}
commands_body()
{
	bin=$(atf_get_srcdir)/../../bin top=$(atf_config_get top)
	"$bin/wprof-ctl" --help | sed -n 's/^  \([a-z-]*\) .*/\1/p' > commands
	[ $(wc -l < commands) = 10 ] || atf_fail "$(cat commands)"
	while read -r command; do
		grep -q "^\.It Cm.*$command" "$top/man/wprof-ctl.1" || atf_fail "no $command in the page"
		grep -q "[' ]$command[ ']" "$top/scripts/completion/wprof-ctl" ||
			atf_fail "no $command in the completion"
	done < commands
}

atf_test_case formats
formats_head()
{
	atf_set descr 'Every member that wprof-ctl prints and every metric is in docs/formats.md'
	atf_set timeout 30
}
formats_body()
{
	top=$(atf_config_get top)
	cat "$top"/agent/ctl/*.c | tr -d '\n\t' | grep -o 'json_pack([^;]*;' |
		grep -o '"[a-z][a-z_.-]*"' | tr -d '"' | sort -u > members
	[ $(wc -l < members) -gt 30 ] || atf_fail "$(cat members)"
	sed -n 's/.*\(family\|gauge\)(f, "\([a-z_]*\)", .*/wprof_agent_\2/p' "$top/agent/metrics.c" > names
	[ $(wc -l < names) = 9 ] || atf_fail "$(cat names)"
	cat members names | while read -r word; do
		grep -q "\`$word\(_total\|_info\)\?\`" "$top/docs/formats.md" ||
			atf_fail "docs/formats.md lacks $word"
	done
}

atf_init_test_cases()
{
	atf_add_test_case formats
	atf_add_test_case options
	atf_add_test_case commands
}
