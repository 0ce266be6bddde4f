# The units of deploy/, installed as make install does, run by a real systemd: as
# the first process of namespaces of its own. What each case does is in
# systemd_steps.sh, run by a service there. What it cannot show: CRIU, for which
# something else stands in; other versions of systemd.
tools() { . "$(atf_config_get top)/agent/tests/agent.sh"; }

case_of() # NAME DESCR
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$2'; atf_set timeout 200; atf_set require.user root; }"
	eval "$1_body() { tools; run_steps $1; }"
	eval "$1_cleanup() { remove_cgroup; }"
}

# a unit named $1 with these lines
unit()
{
	name=$1; shift
	printf '%s\n' '[Unit]' DefaultDependencies=no "$@" > units/$name
}

memwrite_of() # NAME LINE...: a service of that name, which it publishes too
{
	name=$1; shift
	unit $name.service '[Service]' "StandardError=file:$PWD/$name.err" \
		"ExecStart=/usr/local/bin/memwrite --service $name -s 16M -d 300" "$@"
}

# Programs and units as make install lays them, in place of the machine's own.
lay_out()
{
	atf_check -o ignore env -u MAKEFLAGS -u MAKELEVEL make -C "$top" install-data \
		DESTDIR="$PWD/root" PREFIX=/usr/local UNITDIR=/units
	mkdir -p root/usr/local/sbin root/usr/local/bin root/usr/local/libexec/procscope
	cp "$bin/wprof-agent" root/usr/local/sbin/
	cp "$bin/wprof-ctl" "$bin/memwrite" root/usr/local/bin/
	cp "$bin/../libexec/wprof-inject" root/usr/local/libexec/procscope/
	chmod -R a+rX root
	mv root/units units
	# no journal here; and what a sanitizer does at its end the unit does not allow
	mkdir units/wprof-agent.service.d
	printf '%s\n' '[Service]' "StandardError=append:$PWD/agent.err" \
		Environment=ASAN_OPTIONS=detect_leaks=0 > units/wprof-agent.service.d/10-test.conf
	for u in sysinit basic sockets shutdown; do
		unit $u.target
	done
	memwrite_of roots
	memwrite_of nobodys User=nobody
	memwrite_of filtered SystemCallFilter=~userfaultfd
	unit all.target 'Wants=roots.service nobodys.service filtered.service steps.service' \
		Wants=wprof-agent.socket
}

# All that systemd touches is private to it.
lay_first()
{
	cat > first <<- END
		set -eu
		mount --make-rprivate /
		mount -t tmpfs none /run
		mount -t tmpfs none /var/lib
		mount --bind "$PWD/root/usr/local" /usr/local
		umount -R /sys/fs/cgroup
		mount -t cgroup2 none /sys/fs/cgroup
		exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin container=other \
			SYSTEMD_UNIT_PATH="$PWD/units" /lib/systemd/systemd --system --unit=all.target \
			--log-target=console --show-status=no
	END
}

run_steps() # CASE
{
	cgroup=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)/procscope-$$
	echo "$cgroup" > cgroup
	mkdir "$cgroup" || atf_skip 'no control group can be made: systemd cannot run'
	lay_out
	lay_first
	unit steps.service SuccessAction=exit-force FailureAction=exit-force \
		'After=wprof-agent.socket roots.service nobodys.service filtered.service' \
		'[Service]' Type=oneshot "WorkingDirectory=$PWD" \
		"ExecStart=/bin/sh $top/agent/tests/systemd_steps.sh $top $1" \
		"StandardOutput=file:$PWD/steps.out" "StandardError=file:$PWD/steps.err"
	sh -c 'echo $$ > "$0/cgroup.procs" && exec timeout -s KILL 150 unshare --mount --pid --fork --cgroup \
		--uts --ipc --net --mount-proc --kill-child sh first' "$cgroup" > log 2>&1 ||
		{ cat log steps.out steps.err agent.err; atf_fail 'the steps failed'; }
	[ "$(tail -n 1 steps.out)" = 'all done' ] || { cat log; atf_fail 'the steps were not run'; }
}

remove_cgroup()
{
	[ -e cgroup ] || return 0
	read -r group < cgroup
	tries=0
	until [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2> /dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 200 ] || return 0
		sleep 0.02
	done
}

case_of hardened 'The unit starts with its first client, may do little, profiles processes of all'
case_of filtered 'With its drop-in targets under a seccomp filter are profiled'
case_of dumps 'With its drop-in dumps are made, and one outlives the agent that is stopped'

atf_init_test_cases()
{
	atf_add_test_case dumps
	atf_add_test_case filtered
	atf_add_test_case hardened
}
