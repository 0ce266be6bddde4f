# Properties of the library that its objects show.
atf_test_case scan_allocates_nothing
scan_allocates_nothing_head()
{
	atf_set "descr" "Nothing on the path of a scan can allocate memory"
	atf_set "require.progs" "nm"
}
scan_allocates_nothing_body()
{
	atf_check -o match:ioctl nm -u "$(atf_get_srcdir)/../scan.o"
	atf_check -s exit:1 -o empty sh -c \
		"nm -u '$(atf_get_srcdir)/../scan.o' | grep -E ' (malloc|calloc|realloc|free|mmap|brk)(@|$)'"
}

atf_init_test_cases()
{
	atf_add_test_case scan_allocates_nothing
}
