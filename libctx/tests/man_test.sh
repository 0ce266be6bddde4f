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

atf_test_case reader__functions
reader__functions_head()
{
	atf_set "descr" "Every exported function of the reader, and each errno, is in pctx_reader(3)"
	atf_set "timeout" "20"
}
reader__functions_body()
{
	top=$(atf_config_get top)
	grep -oE 'pctx_(read|context|detect|each|find)[a-z_]*' "$top/libctx/libctx.map" > names
	atf_check -o not-empty cat names
	while read -r name; do
		grep -q "Fn $name" "$top/man/pctx_reader.3" || atf_fail "no $name in pctx_reader(3)"
	done < names
	for error in ENODATA EAGAIN EBADMSG EPROTONOSUPPORT ERANGE EPERM ESRCH EINVAL E2BIG ENOMEM; do
		grep -q "$error" "$top/man/pctx_reader.3" || atf_fail "no $error in pctx_reader(3)"
	done
}

atf_init_test_cases()
{
	atf_add_test_case pctx__options
	atf_add_test_case reader__functions
}
