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
	atf_set descr 'The unit gives up what it can, and its drop-ins what stands in their way'
	atf_set timeout 30
}
unit_body()
{
	unit=$(atf_config_get top)/deploy/wprof-agent.service
	for line in Type=notify NoNewPrivileges=yes ProtectSystem=strict DynamicUser=yes \
		'CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_SYS_PTRACE'; do
		grep -qx "$line" "$unit" || atf_fail "no $line"
	done
	systemd-analyze security --offline=true --threshold=25 "$unit" > exposure ||
		atf_fail "$(tail -n 1 exposure)"
	# a filter excludes suspending the target's: whatever sets one is taken back
	grep -oE '^(PrivateDevices|Protect(Clock|Hostname|Kernel[A-Z][a-z]*)|Restrict[A-Za-z]*|LockPersonality|MemoryDeny[A-Za-z]*|SystemCall(Architectures|Filter))=' \
		"$unit" | sort -u > filters
	[ $(wc -l < filters) = 14 ] || atf_fail "$(tr '\n' ' ' < filters)"
	for drop_in in filtered dumps; do
		while read -r setting; do
			grep -qxE "$setting(no)?" "${unit%.service}-$drop_in.conf" ||
				atf_fail "$drop_in keeps $setting"
		done < filters
	done
}

atf_test_case installed
installed_head()
{
	atf_set descr 'make install brings the .proto with its imports, and units that systemd takes'
	atf_set timeout 60
}
installed_body()
{
	atf_check -o ignore env -u MAKEFLAGS -u MAKELEVEL make -C "$(atf_config_get top)" install-data \
		DESTDIR="$PWD/root" PREFIX=/opt/p
	atf_check protoc -I root/opt/p/share/procscope --descriptor_set_out=set agent.proto
	[ -s set ] || atf_fail 'no descriptors'
	units=root/opt/p/lib/systemd/system
	for unit in $units/wprof-agent.service $units/wprof-agent.socket; do
		[ "$(stat -c %a $unit)" = 644 ] || atf_fail "$unit: mode $(stat -c %a $unit)"
	done
	for exec in $units/wprof-agent.service root/opt/p/share/procscope/wprof-agent-dumps.conf; do
		grep -q '^ExecStart=/opt/p/sbin/wprof-agent' $exec || atf_fail "$(cat $exec)"
		[ $(grep -c . $exec) = $(grep -c . "$(atf_config_get top)/deploy/${exec##*/}") ] ||
			atf_fail "$exec was cut"
	done
	# systemd knows all that is in them; the program is looked for, so it must be there
	sed -i "s|^ExecStart=.*/wprof-agent|ExecStart=$(command -v true)|" $units/wprof-agent.service
	atf_check -o empty -e empty systemd-analyze verify --man=no $PWD/$units/wprof-agent.service \
		$PWD/$units/wprof-agent.socket
	for drop_in in filtered dumps; do
		mkdir -p $drop_in/wprof-agent.service.d
		cp $units/wprof-agent.s* $drop_in/
		sed "s|/opt/p/sbin/wprof-agent|$(command -v true)|" \
			root/opt/p/share/procscope/wprof-agent-$drop_in.conf \
			> $drop_in/wprof-agent.service.d/$drop_in.conf
		atf_check -o empty -e empty systemd-analyze verify --man=no \
			$PWD/$drop_in/wprof-agent.service $PWD/$drop_in/wprof-agent.socket
	done
}

atf_init_test_cases()
{
	atf_add_test_case installed
	atf_add_test_case sidecar
	atf_add_test_case unit
}
