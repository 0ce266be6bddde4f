# Yama (kernel.yama.ptrace_scope), which Debian's kernels have: who may profile whom.
scope=/proc/sys/kernel/yama/ptrace_scope

case_of() # NAME DESCR
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$2'; atf_set timeout 60; atf_set require.user root; }"
	eval "$1_cleanup() { echo 0 > $scope; [ ! -e pid ] || kill -KILL \$(cat pid) 2> /dev/null || :; }"
}

# begin SCOPE: a target of the user nobody, in $pid, while that scope holds
begin()
{
	PATH=$(atf_get_srcdir)/../../bin:$PATH
	[ -e $scope ] || atf_fail 'this kernel has no Yama'
	echo "$1" > $scope
	as_nobody='setpriv --reuid nobody --regid nogroup --clear-groups'
	$as_nobody memwrite --size 1M --duration 50 > /dev/null 2>&1 &
	pid=$!
	echo $pid > pid
	until grep -q OTEL_CTX /proc/$pid/maps; do sleep 0.1; done
}

refused()
{
	atf_check -s exit:1 -o ignore -e save:err $as_nobody wprof record $pid --interval 50 --duration 0.2
	grep -q "ptrace_scope = $1" err || atf_fail "$(cat err)"
	[ "$(wc -l < err)" = 1 ] || atf_fail "more than a line: $(cat err)"
	kill -0 $pid || atf_fail 'the target is gone'
	grep -q '^TracerPid:.0$' /proc/$pid/status || atf_fail 'the target is traced'
	atf_check -s exit:0 -o match:'intervals|MiB' -e ignore wprof record $pid --interval 50 --duration 0.2
}

case_of scope__0 'Without restriction a user may profile what is theirs'
scope__0_body()
{
	begin 0
	atf_check -o match:MiB -e ignore $as_nobody wprof record $pid --interval 50 --duration 0.2
}

case_of scope__1 'Where only ancestors may trace, a user is refused by name of the setting; root is not'
scope__1_body() { begin 1; refused 1; }

case_of scope__2 'Where only CAP_SYS_PTRACE may trace, a user is refused by name of the setting; root is not'
scope__2_body() { begin 2; refused 2; }

atf_init_test_cases()
{
	atf_add_test_case scope__0
	atf_add_test_case scope__1
	atf_add_test_case scope__2
}
