# What is in deploy/ is well formed and says what docs/DEPLOY.md promises. It
# cannot show that a cluster takes it: fields are compared with a schema here.
atf_test_case sidecar
sidecar_head()
{
	atf_set descr 'The pod has the fields of a pod, their types, and least privilege'
	atf_set timeout 30
}
sidecar_body()
{
	cat > schema.py <<- END
		import sys, yaml
		S, I, B = str, int, bool
		STRINGS = [S]
		MOUNT = {"name": S, "mountPath": S, "readOnly": B}
		SECURITY = {"runAsUser": I, "allowPrivilegeEscalation": B, "readOnlyRootFilesystem": B,
		            "capabilities": {"drop": STRINGS, "add": STRINGS}}
		PROBE = {"exec": {"command": STRINGS}, "periodSeconds": I, "timeoutSeconds": I}
		AMOUNT = {"cpu": S, "memory": S}
		CONTAINER = {"name": S, "image": S, "command": STRINGS, "args": STRINGS,
		             "volumeMounts": [MOUNT], "securityContext": SECURITY,
		             "readinessProbe": PROBE,
		             "resources": {"requests": AMOUNT, "limits": AMOUNT}}
		POD = {"apiVersion": S, "kind": S, "metadata": {"name": S},
		       "spec": {"shareProcessNamespace": B,
		                "volumes": [{"name": S, "emptyDir": {"medium": S, "sizeLimit": S}}],
		                "containers": [CONTAINER]}}
		def check(value, schema, at):
		    if isinstance(schema, dict):
		        assert isinstance(value, dict), at
		        for k, v in value.items():
		            assert k in schema, f"{at}.{k}: no such field"
		            check(v, schema[k], f"{at}.{k}")
		    elif isinstance(schema, list):
		        assert isinstance(value, list) and value, at
		        for i, v in enumerate(value): check(v, schema[0], f"{at}[{i}]")
		    else:
		        assert type(value) is schema, f"{at}: {value!r}"
		pod = yaml.safe_load(open(sys.argv[1]))
		check(pod, POD, "pod")
		assert pod["apiVersion"] == "v1" and pod["kind"] == "Pod"
		assert pod["spec"]["shareProcessNamespace"]
		agent = [c for c in pod["spec"]["containers"] if c["name"] == "wprof-agent"][0]
		s = agent["securityContext"]
		assert s["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
		assert s["readOnlyRootFilesystem"] and not s["allowPrivilegeEscalation"]
		volumes = {v["name"] for v in pod["spec"]["volumes"]}
		for c in pod["spec"]["containers"]:
		    assert all(m["name"] in volumes for m in c.get("volumeMounts", []))
		print(*agent["command"], *agent["args"])
	END
	atf_check -o save:command python3 schema.py "$(atf_config_get top)/deploy/sidecar.yaml"
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
