# What is in deploy/ is well formed and says what docs/DEPLOY.md promises. It
# cannot show that a cluster runs it: the fields are compared with the description
# of its API that Kubernetes' own Python client carries.
atf_test_case sidecar
sidecar_head()
{
	atf_set descr 'The pod has the fields of the API, their types, and least privilege'
	atf_set timeout 30
}
sidecar_body()
{
	top=$(atf_config_get top)
	# changed so that they must be refused: the check is worth something
	n=0
	for change in s/readOnlyRootFilesystem/readOnlyRootFileSystem/ s/mountPath:/path:/ \
		's/runAsUser: 0/runAsUser: "0"/' '/^  containers:/,$d' 's/memory: 32Mi/memory: 32MB/' \
		's/"SYS_PTRACE"/"SYS_ADMIN"/'; do
		n=$((n + 1))
		sed "$change" "$top/deploy/sidecar.yaml" > $n.yaml
		! cmp -s "$top/deploy/sidecar.yaml" $n.yaml || atf_fail "$change changes nothing"
	done
	atf_check -o save:command /usr/bin/python3 "$top/agent/tests/podschema.py" \
		"$top/deploy/sidecar.yaml" [1-9].yaml
	# its options exist
	bin=$(atf_get_srcdir)/../../bin
	grep -o -- '--[a-z-]*' command | while read -r option; do
		"$bin/wprof-agent" --help | grep -q -e "$option" || atf_fail "no option $option"
	done
}

atf_test_case unit
unit_head()
{
	atf_set descr 'The unit has sections and KEY=VALUE lines only, and gives up what it can'
	atf_set timeout 30
}
unit_body()
{
	unit=$(atf_config_get top)/deploy/wprof-agent.service
	atf_check -s exit:1 grep -vE '^(#.*|\[(Unit|Service|Install)\]|[A-Z][A-Za-z]*=.+|)$' "$unit"
	for line in Type=notify NoNewPrivileges=yes ProtectSystem=strict \
		'CapabilityBoundingSet=CAP_SYS_PTRACE CAP_SYS_ADMIN' RuntimeDirectory=wprof-agent; do
		grep -qx "$line" "$unit" || atf_fail "no $line"
	done
	! grep -q '^SystemCallFilter' "$unit" || atf_fail 'a filter excludes suspending the target'\''s'
}

atf_test_case installed
installed_head()
{
	atf_set descr 'make install brings the .proto with its imports, and a unit with the right path'
	atf_set timeout 60
}
installed_body()
{
	atf_check -o ignore env -u MAKEFLAGS -u MAKELEVEL make -C "$(atf_config_get top)" install-data \
		DESTDIR="$PWD/root" PREFIX=/opt/p
	atf_check protoc -I root/opt/p/share/procscope --descriptor_set_out=set agent.proto
	[ -s set ] || atf_fail 'no descriptors'
	unit=root/opt/p/lib/systemd/system/wprof-agent.service
	[ "$(grep ^Exec $unit)" = ExecStart=/opt/p/sbin/wprof-agent ] || atf_fail "$(cat $unit)"
	[ "$(stat -c %a $unit)" = 644 ] || atf_fail "mode $(stat -c %a $unit)"
	[ "$(grep -cv ^Exec $unit)" = "$(grep -cv ^Exec "$(atf_config_get top)/deploy/wprof-agent.service")" ] ||
		atf_fail 'the unit was cut'
}

atf_init_test_cases()
{
	atf_add_test_case installed
	atf_add_test_case sidecar
	atf_add_test_case unit
}
