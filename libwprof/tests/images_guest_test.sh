# Chains of real CRIUs: dumped in a guest, for this machine's kernel may lack
# soft-dirty; shipped without hot pages, completed, restored from what was shipped
# alone, memory equal byte for byte. libwprof/tests/images_guest does it; the random
# runs are shared out among the CRIUs, more of them by `make soak`.

# in_guest EXTRA SEED...: one boot; everything of images_guest with this CRIU
in_guest()
{
	extra=$1; shift
	build=$(cd "$(atf_get_srcdir)/../.." && pwd)
	top=$(atf_config_get top)
	! grep -q '__[at]san_init' "$build/bin/wprof" || atf_skip "built with a sanitizer"
	# kyua gives each case a home of its own, the guests' files lie in the real one
	XDG_CACHE_HOME=${XDG_CACHE_HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)/.cache}
	export XDG_CACHE_HOME
	runs="memwrite redis tree"
	for seed; do runs="$runs random:$seed"; done
	"$top/kernel-tests/run" 6.12 --build "${build#"$top"/}" --with "$extra" --cpus 1 --memory 2000 \
		--timeout 1500 -- sh -c 'for run in $3; do
			libwprof/tests/images_guest "$1" "$2" $(echo $run | tr : " ") || exit 1
		done' sh "${build#"$top"/}" "$extra" "$runs" > out 2>&1 < /dev/null
	rc=$?
	cat out
	[ $rc = 0 ] || atf_fail "the guest ended with $rc: $(grep -m 1 -e ^failed: -e 'kernel ' out)"
	for run in $runs; do
		grep -q "^ok $extra ${run%:*} .*pages equal" out || atf_fail "no result of $run"
	done
}

criu_case()
{
	atf_test_case "$1"
	eval "${1}_head()
	{
		atf_set descr 'Chains of CRIU $2 ship, complete and restore byte for byte'
		atf_set require.progs 'qemu-system-x86_64'
		atf_set timeout 1600
	}
	${1}_body()
	{
		in_guest $3
	}"
}

criu_case criu_3_17 3.17 'criu-bookworm 1 4 7 10'
criu_case criu_4_1 4.1 'criu-trixie 2 5 8'
criu_case criu_4_2 4.2 'criu-sid 3 6 9'

atf_init_test_cases()
{
	atf_add_test_case criu_3_17
	atf_add_test_case criu_4_1
	atf_add_test_case criu_4_2
}
