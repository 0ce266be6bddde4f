#! /usr/bin/env atf-sh
# what `make demo` runs, beside somebody else's memwrite

atf_test_case demo__finds_its_own cleanup
demo__finds_its_own_head()
{
	atf_set descr "The demo finds its own memwrite beside another of that name"
	atf_set timeout 120
}
demo__finds_its_own_body()
{
	build=$(cd "$(atf_get_srcdir)/../.." && pwd)
	"$build/bin/memwrite" --hold > /dev/null &
	echo $! > other
	# shellcheck disable=SC2016 # the inner shell's
	atf_check -o save:demo -e ignore sh -c 'cd "$1" && ./scripts/demo "$2"' demo \
		"$(atf_config_get top)" "$build"
	atf_check -o match:'^process [0-9]+ \(memwrite\), published' cat demo
	atf_check -o match:'^memwrite \(pid [0-9]+, service memwrite-[0-9]+\): ' cat demo
	atf_check -o match:'"written_pages":16384' cat demo
}
demo__finds_its_own_cleanup()
{
	kill "$(cat other)" || :
}

atf_init_test_cases()
{
	atf_add_test_case demo__finds_its_own
}
