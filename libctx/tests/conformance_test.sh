# docs/CONFORMANCE.md names tests and functions: they must exist
page() { cat "$(atf_config_get top)/docs/CONFORMANCE.md"; }

atf_test_case tests__exist
tests__exist_head()
{
	atf_set "descr" "Each test that the conformance page names is a case of a program that is built"
}
tests__exist_body()
{
	# of whatever folder: a name that is wrong in any part is not there
	page | grep -oE '`[a-z0-9_-]+(/[a-z0-9_-]+)+:[a-z0-9_]+`' | tr -d '`' | sort -u > named
	[ "$(wc -l < named)" -ge 30 ] || atf_fail "the page names hardly any test"
	for program in $(cut -d: -f1 named | sort -u); do
		"$(atf_get_srcdir)/../../$program" -l 2> /dev/null |
			sed -n "s|^ident: |$program:|p"
	done | sort -u > there
	atf_check -o empty comm -23 named there
}

atf_test_case functions__exist
functions__exist_head()
{
	atf_set "descr" "Each function that the conformance page names is defined in a library"
}
functions__exist_body()
{
	page | grep -oE '`[a-z_0-9]+\(\)`' | tr -d '`()' | sort -u > named
	[ "$(wc -l < named)" -ge 15 ] || atf_fail "the page names hardly any function"
	while read -r function; do
		grep -rqE "^[a-z].*[ *]$function\(" "$(atf_config_get top)/libctx" \
			"$(atf_config_get top)/libwprof" --include='*.c' ||
			echo "$function"
	done < named > missing
	atf_check -o empty cat missing
}

atf_test_case levels__listed
levels__listed_head()
{
	atf_set "descr" "Every row of both tables has a test, but the one left to the caller"
}
levels__listed_body()
{
	page | awk -F'|' '/^## /{ in_table = /Publisher|Reader/ } /^### /{ in_table = 0 }
		in_table && /^\| (MUST|SHOULD|MAY|step|update)/ && $5 !~ /:/ { print $3 }' > untested
	atf_check -o inline:'1\n' sh -c "wc -l < untested"
	atf_check -o match:'default SDK' cat untested
}

atf_init_test_cases()
{
	atf_add_test_case tests__exist
	atf_add_test_case functions__exist
	atf_add_test_case levels__listed
}
