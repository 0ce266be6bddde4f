# `wprof check`, and what the other commands say, on a kernel that has what is needed
# and on one that lacks it: the kernels of the kernel tests are told apart by what is
# said of them there (the variable features).
PATH=$(atf_get_srcdir)/../../bin:$PATH

atf_test_case kernel__said_as_it_is
kernel__said_as_it_is_head()
{
	atf_set "descr" "The table and the exit code are those of this kernel; record agrees"
	atf_set "require.user" "root"
	atf_set "timeout" "60"
}
kernel__said_as_it_is_body()
{
	case ,$(atf_config_get features scan), in
	*,scan,*)
		atf_check -o save:table wprof check
		grep -q '^pagemap_scan  *yes  *yes' table && grep -q '^uffd_wp_async  *yes  *yes' table ||
			atf_fail "$(cat table)"
		grep -q '^profiling is possible' table || atf_fail "$(cat table)"
		atf_check -o ignore -e ignore wprof record --duration 0.2 -- sleep 1
		;;
	*)
		atf_check -s exit:3 -o save:table -e ignore wprof check
		grep -q '^pagemap_scan  *no  *yes .*6\.7' table && grep -q '^uffd_wp_async  *no  *yes .*6\.7' table ||
			atf_fail "$(cat table)"
		atf_check -s exit:3 -o ignore -e match:'PAGEMAP_SCAN|UFFD_FEATURE_WP_ASYNC' \
			wprof record --duration 0.2 -- sleep 1
		;;
	esac
}

atf_init_test_cases() { atf_add_test_case kernel__said_as_it_is; }
