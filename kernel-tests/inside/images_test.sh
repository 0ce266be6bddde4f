# Chains of real CRIUs: dumped, shipped without hot pages, completed, restored from
# what was shipped alone, memory equal byte for byte. libwprof/tests/images_guest does
# it. The ten random runs are shared out among the CRIUs; `make soak` makes 200.

# images CRIU WHAT [SEED]...
images()
{
	build=$(cd "$(atf_get_srcdir)/../.." && pwd)
	cd "$(atf_config_get top)" || atf_fail "no source tree"
	criu=$1 what=$2; shift 2
	[ $# -gt 0 ] || set -- 1
	for seed; do
		libwprof/tests/images_guest "${build#"$PWD"/}" "$criu" "$what" "$seed" > "$HOME/out" 2>&1 ||
			{ cat "$HOME/out"; atf_fail "$(grep -m 1 ^failed: "$HOME/out")"; }
		cat "$HOME/out"
		grep -q "^ok $criu $what $seed: .*pages equal" "$HOME/out" || atf_fail "no result of $what $seed"
	done
}

# images_case VERSION CRIU WHAT [SEED...]
images_case()
{
	version=$1; shift
	atf_test_case "$2__$version"
	eval "$2__${version}_head()
		{
			atf_set descr 'A chain of $2 ships, completes and restores byte for byte'
			atf_set require.user root
			atf_set timeout 600
		}
		$2__${version}_body() { images $*; }"
	cases="${cases-} $2__$version"
}

for v in 3_17:criu-bookworm 4_1:criu-trixie 4_2:criu-sid; do
	for what in memwrite redis tree; do images_case "${v%:*}" "${v#*:}" $what; done
done
images_case 3_17 criu-bookworm random 1 4 7 10
images_case 4_1 criu-trixie random 2 5 8
images_case 4_2 criu-sid random 3 6 9

atf_init_test_cases()
{
	for c in $cases; do atf_add_test_case "$c"; done
}
