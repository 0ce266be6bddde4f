# The tables of the kernel tests agree with each other and with docs/KERNELS.md.

atf_test_case table__is_in_the_document
table__is_in_the_document_head()
{
	atf_set "descr" "docs/KERNELS.md holds the table that kernel-tests/table makes"
}
table__is_in_the_document_body()
{
	top=$(atf_config_get top)
	"$top/kernel-tests/table" > made
	awk '/<!-- end of the table -->/ { on = 0 } on { print }
		/<!-- table: make kernels-table -->/ { on = 1 }' "$top/docs/KERNELS.md" > held
	[ "$(grep -c 'pass\|refuse' made)" -gt 20 ] || atf_fail "no table is made"
	diff -u held made || atf_fail "docs/KERNELS.md is not up to date: make kernels-table"
}

atf_test_case boots__can_be
boots__can_be_head()
{
	atf_set "descr" "Each boot names a kernel, options and test programs that there are"
}
# has_case PROGRAM CASE: as a word, or as one of a CRIU that case_of makes
has_case()
{
	grep -qw "$2" "$1".* ||
		{ grep -q "case_of ${2%%__*} " "$1.sh" && grep -qw "${2#*__}" "$1.sh"; }
}

boots__can_be_body()
{
	kt=$(atf_config_get top)/kernel-tests
	set -eu
	. "$kt/lib/all.sh"
	cd "$kt/.."
	for name in $(boot_names all); do
		kernel_must_exist "$(boot_kernel "$name")"
		line=$(table_line boots "$name")
		# shellcheck disable=SC2046,SC2086 # words
		set -- $(echo "$line" | sed 's/ -- .*//; s/^[^ ]* *[^ ]* *[^ ]* *//')
		while [ $# -gt 0 ]; do guest_option "$1" "$2"; shift 2; done
		for t in ${line#* -- }; do
			program=${t%%:*} case=${t#"${t%%:*}"}
			[ -f "$program.c" ] || [ -f "$program.sh" ] || atf_fail "$name: no $t"
			[ -z "$case" ] || has_case "$program" "${case#:}" || atf_fail "$name: no $t"
		done
	done
	[ "$(boot_names check | wc -l)" -ge 5 ] || atf_fail "too few boots"
	[ "$(boot_names all | wc -l)" -gt "$(boot_names check | wc -l)" ] || atf_fail "none is for check-kernels alone"
	bad=$(table boots | awk '$3 != "check" && $3 != "more"')
	[ -z "$bad" ] || atf_fail "neither check nor more: $bad"
}

atf_test_case boot__is_not_as_asked
boot__is_not_as_asked_head()
{
	atf_set "descr" "A guest without what the options ask for is a failure that says so"
}
boot__is_not_as_asked_body()
{
	as_asked=$(sed -n '/^as_asked()/,/^}/p' "$(atf_config_get top)/kernel-tests/check")
	eval "$as_asked"
	printf '%s\n' 'cpus 2' 'thp always' 'swap 262' 'la57 on' > facts
	cpus=2 thp='' la57='' swap_mb=0
	atf_check_equal "$(as_asked facts)" passed
	cpus=2 thp=always la57=on swap_mb=256
	atf_check_equal "$(as_asked facts)" passed
	for wrong in cpus=4 thp=never la57=off swap_mb=300; do
		cpus=2 thp=always la57=on swap_mb=256
		eval "$wrong"
		as_asked facts > said
		atf_check -o match:"^failed .* not ${wrong#*=}" cat said
	done
	: > facts
	atf_check_equal 1 "$(as_asked facts | grep -c '^failed')"
}

atf_test_case boot__limit_of_the_command_line
boot__limit_of_the_command_line_head()
{
	atf_set "descr" "A time limit on the command line, as of make soak, counts before a boot's own"
}
boot__limit_of_the_command_line_body()
{
	kt=$(atf_config_get top)/kernel-tests
	set -eu
	. "$kt/lib/all.sh"
	eval "$(sed -n '/^boot_options()/,/^}/p' "$kt/check")"
	own=$(table_line boots 6.12-criu | sed 's/.*--timeout \([0-9]*\).*/\1/')
	boot_options 6.12-criu
	atf_check_equal "$own" "$limit_s"
	limit_given=$((own * 4))
	boot_options 6.12-criu
	atf_check_equal "$limit_given" "$limit_s"
}

atf_init_test_cases()
{
	atf_add_test_case table__is_in_the_document
	atf_add_test_case boots__can_be
	atf_add_test_case boot__is_not_as_asked
	atf_add_test_case boot__limit_of_the_command_line
}
