# The manual page and the completion know every option that a command's --help
# prints. Whether what they say of it is true is not shown here.
commands='top record report hot criu-args images check'

options_of() # COMMAND: its long options, a line each
{
	"$(atf_get_srcdir)/../../bin/wprof" "$1" --help |
		sed -n 's/^ \{2,6\}\(-., \)\{0,1\}\(--[a-z][a-z-]*\).*/\2/p' | grep -vx -e --usage | LC_ALL=C sort -u
}

# complete WORD...: what bash offers for the last WORD, a line each
complete_words()
{
	bash -c '. "$1"; shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _wprof
		printf "%s\n" "${COMPREPLY[@]}"' bash \
		"$(atf_config_get top)/scripts/completion/wprof" "$@"
}

offers() # "WORD ..." ARGUMENT...: exactly these are offered for the last one
{
	want=$1; shift
	atf_check_equal "$want" "$(complete_words wprof "$@" | tr '\n' ' ')"
}

atf_test_case manual_names_every_option
manual_names_every_option_head()
{
	atf_set descr "Every option of every command stands in wprof(1)"
}
manual_names_every_option_body()
{
	page=$(atf_config_get top)/man/wprof.1
	for c in $commands; do
		grep -q "^\.It Cm $c$" "$page" || atf_fail "no command $c"
		for o in $(options_of $c); do
			grep -q -e "Fl \(. , \)\?-\?${o#-}\( \|$\)" "$page" || atf_fail "$c: no $o"
		done
	done
}

atf_test_case completion_offers_every_option
completion_offers_every_option_head()
{
	atf_set descr "bash completes every option of every command, and nothing else"
	atf_set require.progs bash
}
completion_offers_every_option_body()
{
	for c in $commands; do
		complete_words wprof $c -- | LC_ALL=C sort -u > offered
		options_of $c > known
		atf_check -o empty diff -u known offered
	done
	complete_words wprof '' > offered
	for c in $commands; do
		grep -qx -e $c offered || atf_fail "no command $c"
	done
}

atf_test_case completion_offers_values
completion_offers_values_head()
{
	atf_set descr "Values of options, process ids and files are completed"
	atf_set require.progs bash
}
completion_offers_values_body()
{
	: > some.trace
	offers 'exact sample ' hot --arming ''
	offers 'vma ' hot --granularity v
	offers 'mean ' top -s m
	offers 'some.trace ' report some
	offers 'some.trace ' record -o some
	complete_words wprof record "$$" > offered
	grep -qx $$ offered || atf_fail 'not our own process'
	complete_words wprof record -- tru > offered
	grep -qx true offered || atf_fail 'not a command'
}

atf_init_test_cases()
{
	atf_add_test_case manual_names_every_option
	atf_add_test_case completion_offers_every_option
	atf_add_test_case completion_offers_values
}
