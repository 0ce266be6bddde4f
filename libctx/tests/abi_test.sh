atf_test_case exported_names
exported_names_head()
{
	atf_set "descr" "The shared library exports exactly the functions its header declares"
	atf_set "require.progs" "nm"
}
exported_names_body()
{
	nm -D --defined-only "$(atf_get_srcdir)/../../lib/libctx.so" |
		awk '$2 ~ /[TDBRVW]/ { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort > exported
	sed -n 's/^PCTX_API [^(]*[ *]\(pctx_[a-z0-9_]*\)(.*/\1/p' \
		"$(atf_config_get top)/libctx/include/pctx.h" | LC_ALL=C sort > declared
	atf_check -o not-empty cat declared
	atf_check -o empty diff -u declared exported
}

atf_init_test_cases()
{
	atf_add_test_case exported_names
}
