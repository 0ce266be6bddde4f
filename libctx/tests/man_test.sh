# The manual pages and the completion say all that there is.
bin=$(atf_get_srcdir)/../../bin

atf_test_case pctx__options
pctx__options_head()
{
	atf_set "descr" "Every option of every pctx command is in pctx(1) and in the completion"
	atf_set "timeout" "20"
}
pctx__options_body()
{
	top=$(atf_config_get top)
	for command in read list watch run; do
		"$bin/pctx" $command --help | grep -o -- '--[a-z0-9][a-z0-9-]*' | sort -u > options
		atf_check -o not-empty cat options
		while read -r option; do
			grep -q "Fl Fl ${option#--}" "$top/man/pctx.1" ||
				atf_fail "pctx(1) lacks $option of $command"
			grep -q -e "$option" "$top/scripts/completion/pctx" ||
				atf_fail "the completion lacks $option of $command"
		done < options
	done
}

atf_test_case functions__all
functions__all_head()
{
	atf_set "descr" "Every exported function is in the manual page that it belongs to"
	atf_set "timeout" "20"
}
functions__all_body()
{
	top=$(atf_config_get top)
	sed -n 's/^[[:space:]]*\(pctx_[a-z_]*\);.*/\1/p' "$top/libctx/libctx.map" > names
	[ "$(wc -l < names)" -ge 15 ] || atf_fail "hardly any name: $(cat names)"
	while read -r name; do
		case $name in
		pctx_publish|pctx_key_map_append|pctx_unpublish) page=pctx_publish.3 ;;
		pctx_version) page=libctx.3 ;;
		*) page=pctx_reader.3 ;;
		esac
		grep -q "^\.Fn $name " "$top/man/$page" || atf_fail "no $name in $page"
	done < names
}

# errors FILE: the names of errors in it
errors() { grep -oE '\bE[A-Z0-9]{3,}\b' "$1" | grep -vxE 'ERRORS|EXIT|END|ENDS|EXAMPLES?|EVERY' | sort -u; }

atf_test_case errors__both
errors__both_head()
{
	atf_set "descr" "The manual pages and the header name the same errors, publishing and reading"
	atf_set "timeout" "20"
}
errors__both_body()
{
	top=$(atf_config_get top)
	header=$top/libctx/include/pctx.h
	sed -n '1,/^\/\* ---- reader /p' "$header" | grep -E -- '-E[A-Z0-9]{3,}' > publisher.h
	sed -n '/^\/\* ---- reader /,$p' "$header" | grep -E -- '-E[A-Z0-9]{3,}' > reader.h
	for part in publisher:pctx_publish.3 reader:pctx_reader.3; do
		errors "${part%:*}.h" > in_header
		grep -E '^\.(It Bq )?Er ' "$top/man/${part#*:}" > lines
		errors lines > in_page
		[ "$(wc -l < in_header)" -ge 10 ] || atf_fail "hardly any error: $(cat in_header)"
		atf_check -o empty comm -23 in_header in_page
		atf_check -o empty comm -13 in_header in_page
	done
}

atf_init_test_cases()
{
	atf_add_test_case pctx__options
	atf_add_test_case functions__all
	atf_add_test_case errors__both
}
