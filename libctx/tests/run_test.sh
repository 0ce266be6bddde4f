# pctx run and the shim it preloads
bin=$(atf_get_srcdir)/../../bin
shim=$(atf_get_srcdir)/../../lib/procscope/libpctx-preload.so
target=$(atf_get_srcdir)/shim_target
# what is preloaded comes before a sanitizer's runtime, which does not like that
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"

# A process that is waited for by its end of input: read its context, end it.
# $1: where the JSON goes; the rest: what to run. Sets $pid and $exe, which sh it is.
context_of()
{
	out=$1; shift
	mkfifo input ready
	"$@" sh -c 'echo $$ > ready; read -r line' < input &
	exec 3> input
	read -r pid < ready
	"$bin/pctx" read "$pid" --json > "$out" 2> err
	rc=$?
	exe=$(readlink "/proc/$pid/exe")
	exec 3>&-
	wait $!
	rm -f input ready
	return $rc
}

# the resource of the JSON in $1 as KEY=VALUE lines
resource()
{
	jq -r '.context.resource.attributes[] | .key + "=" + (.value | .stringValue // .intValue)' "$1"
}

one_line() { [ "$(wc -l < "$1")" = 1 ] || atf_fail "not one line: $(cat "$1")"; }

refuses()
{
	why=$1; shift
	atf_check -s exit:1 -o empty -e save:err "$bin/pctx" run -- "$@"
	one_line err
	atf_check -o ignore grep -- "$why" err
}

atf_test_case usage__refused
usage__refused_head()
{
	atf_set "descr" "Garbage on the command line is wrong usage: exit code 2"
}
usage__refused_body()
{
	atf_check -s exit:2 -e match:'no command' "$bin/pctx" run
	atf_check -s exit:2 -e match:'no command' "$bin/pctx" run --attr a=b --
	atf_check -s exit:2 -e match:'KEY=VALUE' "$bin/pctx" run --attr a true
	atf_check -s exit:2 -e match:'KEY=VALUE' "$bin/pctx" run --attr =a true
	atf_check -s exit:2 -e match:'UTF-8' "$bin/pctx" run --attr "a=$(printf '\377')" true
	atf_check -s exit:2 -e ignore "$bin/pctx" run --nonsense true
}

atf_test_case program__missing
program__missing_head()
{
	atf_set "descr" "A program that is not there, or is none, is one line and exit code 1"
}
program__missing_body()
{
	refuses "no such program" no-such-program
	refuses "no such program" ./no/such
	refuses "no such program" /
	touch plain
	refuses "no such program" ./plain
	chmod 755 plain
	printf '#!/no/such/interpreter\n' > plain
	refuses "No such file" ./plain
}

atf_test_case program__static
program__static_head()
{
	atf_set "descr" "A static program, and a script for one, is refused with the reason"
	atf_set "require.progs" "gcc"
}
program__static_body()
{
	echo 'int main(void) { return 0; }' > main.c
	atf_check gcc -static -o static main.c
	atf_check gcc -static-pie -o static_pie main.c
	refuses "statically linked" ./static
	refuses "statically linked" ./static_pie
	printf '#! %s -x\n' "$PWD/static" > script
	chmod 755 script
	refuses "statically linked" ./script
	PATH=$PWD:$PATH refuses "$PWD/static .*statically linked" static
}

atf_test_case program__loader
program__loader_head()
{
	atf_set "descr" "The dynamic loader run by hand preloads into the program that it is given"
	atf_set "require.progs" "readelf"
}
program__loader_body()
{
	loader=$(readelf -l "$bin/pctx" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
	# shellcheck disable=SC2016 # for the shell inside
	atf_check -o match:'service.name  *"by hand"' "$bin/pctx" run --attr "service.name=by hand" -- \
		"$loader" "$(command -v sh)" -c '"$0" read $$; exit $?' "$bin/pctx"
}

atf_test_case program__setuid
program__setuid_head()
{
	atf_set "descr" "A program that changes its user, group or capabilities is refused with the reason"
	atf_set "require.user" "root"
	atf_set "require.progs" "setpriv setcap"
}
program__setuid_body()
{
	cp /bin/true prog
	chown nobody prog
	chmod 4755 prog
	refuses "setuid" ./prog
	# to the one it belongs to it is a program like others
	chmod 755 .
	chown 0:0 prog
	chmod 4755 prog
	atf_check "$bin/pctx" run ./prog
	chgrp nogroup prog
	chmod 2755 prog
	refuses "setgid" ./prog
	chgrp 0 prog
	chmod 755 prog
	atf_check setcap cap_net_raw+ep prog
	atf_check "$bin/pctx" run ./prog
	cp "$bin/pctx" "$shim" .
	mkdir -p bin lib/procscope
	cp "$bin/pctx" bin/ && cp "$shim" lib/procscope/
	atf_check -s exit:1 -e match:'capabilities' setpriv --reuid=65534 --clear-groups \
		./bin/pctx run ./prog
}

atf_test_case program__other_machine
program__other_machine_head()
{
	atf_set "descr" "A program of another machine type or C library is refused with the reason"
	atf_set "require.progs" "musl-gcc"
}
program__other_machine_body()
{
	cp /bin/true prog
	printf '\001' | dd of=prog bs=1 seek=4 conv=notrunc 2> /dev/null	# ELFCLASS32
	refuses "machine type" ./prog
	cp /bin/true prog
	printf '\267' | dd of=prog bs=1 seek=18 conv=notrunc 2> /dev/null	# EM_AARCH64
	[ "$(uname -m)" = aarch64 ] || refuses "machine type" ./prog
	echo 'int main(void) { return 0; }' > main.c
	atf_check musl-gcc -o musl main.c
	refuses "another C library" ./musl
}

atf_test_case shim__missing
shim__missing_head()
{
	atf_set "descr" "Without the shim nothing is run, and the places are named where it was looked for"
}
shim__missing_body()
{
	mkdir bin
	cp "$bin/pctx" bin/
	atf_check -s exit:1 -o empty -e save:err ./bin/pctx run echo hello
	one_line err
	atf_check -o ignore grep "cannot find libpctx-preload.so" err
	mkdir -p lib/procscope
	cp "$shim" lib/procscope/
	atf_check -o inline:'hello\n' ./bin/pctx run echo hello
	mkdir "a b"
	mv bin lib "a b"
	atf_check -s exit:1 -e match:'blank or colon' "./a b/bin/pctx" run true
}

atf_test_case run__transparent
run__transparent_head()
{
	atf_set "descr" "Arguments, input, output, exit code and errno are as without pctx run"
}
run__transparent_body()
{
	atf_check -s exit:42 -o inline:'a  b|--attr|$x\nin\n' -e inline:'err\n' \
		sh -c "echo in | '$bin/pctx' run -- sh -c '
			printf \"%s|%s|%s\n\" \"\$@\"; cat; echo err >&2; exit 42' x 'a  b' --attr '\$x'"
	atf_check -o inline:'0\n' "$bin/pctx" run "$target" errno
	# a script without an interpreter line is the shell's, as for any shell
	echo 'echo script' > script
	chmod 755 script
	atf_check -o inline:'script\n' "$bin/pctx" run ./script
	atf_check -s signal:term -o ignore -e ignore sh -c "exec '$bin/pctx' run sh -c 'kill -TERM \$\$'"
}

atf_test_case run__preload_kept
run__preload_kept_head()
{
	atf_set "descr" "What is preloaded already stays and comes first; the shim is added once"
}
run__preload_kept_body()
{
	unset LD_PRELOAD
	"$bin/pctx" run sh -c 'echo "$LD_PRELOAD"' > alone
	atf_check -o inline:'1\n' grep -c 'libpctx-preload.so$' alone
	LD_PRELOAD=$(atf_get_srcdir)/fake_clock.so "$bin/pctx" run sh -c 'echo "$LD_PRELOAD"' > both
	atf_check -o inline:"$(atf_get_srcdir)/fake_clock.so:$(cat alone)\n" cat both
	atf_check -o inline:"$(cat alone)\n" "$bin/pctx" run "$bin/pctx" run sh -c 'echo "$LD_PRELOAD"'
}

atf_test_case attributes__sources
attributes__sources_head()
{
	atf_set "descr" "--attr counts before OTEL_SERVICE_NAME, that before OTEL_RESOURCE_ATTRIBUTES"
	atf_set "require.progs" "jq"
}
attributes__sources_body()
{
	context_of json env OTEL_SERVICE_NAME=name "OTEL_RESOURCE_ATTRIBUTES=service.name=other,a=1,b=2%2C3" \
		"$bin/pctx" run --attr a=4 --attr 'c d=, =%"'"'"'ü
' --attr c=1 -a c=2 || atf_fail "no context"
	resource json > attributes
	cat attributes
	for line in service.name=name a=4 b=2,3 c=2 telemetry.sdk.name=procscope \
		process.executable.name="${exe##*/}" "process.pid=$pid"; do
		atf_check -o ignore grep -qxF "$line" attributes
	done
	atf_check -o inline:', =%"'"'"'ü\n\n' jq -r \
		'.context.resource.attributes[] | select(.key == "c d") | .value.stringValue' json
	grep -E '^service.instance.id=[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' \
		attributes || atf_fail "no random UUID"

	context_of json env -u OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES=service.name=other \
		"$bin/pctx" run || atf_fail "no context"
	resource json > attributes
	atf_check -o match:'^service.name=other$' cat attributes
	context_of json env -u OTEL_SERVICE_NAME -u OTEL_RESOURCE_ATTRIBUTES "$bin/pctx" run \
		--attr service.name=cli || atf_fail "no context"
	resource json > attributes
	atf_check -o match:'^service.name=cli$' cat attributes
}

atf_test_case attributes__wrong
attributes__wrong_head()
{
	atf_set "descr" "A spoilt or too large OTEL_RESOURCE_ATTRIBUTES is left out, the rest is published"
	atf_set "require.progs" "jq"
}
attributes__wrong_body()
{
	context_of json env OTEL_SERVICE_NAME= "OTEL_RESOURCE_ATTRIBUTES=a=1,b=%f" \
		"$bin/pctx" run || atf_fail "no context"
	resource json > attributes
	atf_check -o ignore grep -qxF "service.name=unknown_service:${exe##*/}" attributes
	atf_check -s exit:1 grep -q '^a=' attributes
	context_of json env OTEL_SERVICE_NAME=name \
		"OTEL_RESOURCE_ATTRIBUTES=a=$(head -c 70000 /dev/zero | tr '\0' x)" \
		"$bin/pctx" run || atf_fail "no context"
	resource json > attributes
	atf_check -o ignore grep -qx service.name=name attributes
	atf_check -s exit:1 grep -q '^a=' attributes
}

atf_test_case instance__given
instance__given_head()
{
	atf_set "descr" "A given service.instance.id is the command's alone, its children have their own"
}
instance__given_body()
{
	id=11111111-2222-4333-8444-555555555555
	"$bin/pctx" run --attr service.instance.id=$id "$target" fork > out || atf_fail "failed"
	cat out
	atf_check -o inline:'1\n' grep -c " $id$" out
	atf_check -o inline:'2\n' sh -c "sort -u out | wc -l"
	atf_check -s exit:1 grep none out
	# a child that executes another program is not the command either
	"$bin/pctx" run --attr service.instance.id=$id sh -c "'$target' fork; true" > out
	cat out
	atf_check -s exit:1 grep -E "$id|none" out
	atf_check -o inline:'2\n' sh -c "cut -d' ' -f2 out | sort -u | wc -l"
}

atf_test_case forks__followed
forks__followed_head()
{
	atf_set "descr" "A forked child publishes with an instance id of its own, unless told not to follow"
}
forks__followed_body()
{
	"$bin/pctx" run "$target" fork > out || atf_fail "failed"
	cat out
	atf_check -s exit:1 grep none out
	atf_check -o inline:'2\n' sh -c "cut -d' ' -f2 out | sort -u | wc -l"

	"$bin/pctx" run --no-follow-forks "$target" fork > out || atf_fail "failed"
	cat out
	atf_check -o inline:'1\n' grep -c none out
	"$bin/pctx" run --no-follow-forks sh -c "'$target' fork; true" > out
	cat out
	atf_check -o inline:'2\n' grep -c none out
}

atf_test_case shim__contained
shim__contained_head()
{
	atf_set "descr" "The shim exports nothing and needs nothing but the C library"
	atf_set "require.progs" "nm readelf"
}
shim__contained_body()
{
	atf_check -o empty nm -D --defined-only "$shim"
	atf_check -o inline:'libc.so.6\n' sh -c \
		"readelf -d '$shim' | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^ld-linux'"
}

atf_test_case shim__no_malloc
shim__no_malloc_head()
{
	atf_set "descr" "The shim never calls the program's allocator, at start or in a forked child"
}
shim__no_malloc_body()
{
	atf_check -o save:without "$target" malloc
	atf_check -o save:with "$bin/pctx" run --attr a=b --attr c=d "$target" malloc
	atf_check diff -u without with
}

atf_test_case shim__seccomp
shim__seccomp_head()
{
	atf_set "descr" "A child of a program that filters its system calls is not made to do any that kill"
}
shim__seccomp_body()
{
	atf_check -o inline:'7\n' "$target" filter
	atf_check -o inline:'7\n' "$bin/pctx" run "$target" filter
}

atf_test_case shim__small_stack
shim__small_stack_head()
{
	atf_set "descr" "A fork on the smallest stack of a thread is survived"
}
shim__small_stack_body()
{
	atf_check -o inline:'5\n' "$bin/pctx" run "$target" stack
}

atf_test_case shim__cannot_publish
shim__cannot_publish_head()
{
	atf_set "descr" "Where nothing can be published the program runs all the same, without a word"
	atf_set "require.progs" "strace"
}
shim__cannot_publish_body()
{
	for calls in memfd_create,prctl ftruncate madvise getrandom readlinkat; do
		# strace in between: a sanitizer in pctx needs these calls
		atf_check -o inline:'hello\n' "$bin/pctx" run strace -qq -o trace \
			-e "inject=$calls:error=EPERM" echo hello
	done
	# the kernel would send a signal that kills
	"$bin/pctx" run sh -c 'ulimit -f 0; exec env echo hello' | cat > out
	atf_check -o inline:'hello\n' cat out
}

atf_test_case shim__with_publisher
shim__with_publisher_head()
{
	atf_set "descr" "A program that wants to publish itself is told that the shim was first"
}
shim__with_publisher_body()
{
	publisher=$(atf_get_srcdir)/publisher
	atf_check -o match:'^publish: -17$' -o match:'^unpublish: -61$' -o match:'^sound: 0$' \
		"$bin/pctx" run "$publisher" publish own unpublish sound
}

atf_init_test_cases()
{
	for c in usage__refused program__missing program__static program__loader program__setuid \
		program__other_machine shim__missing run__transparent run__preload_kept \
		attributes__sources attributes__wrong instance__given forks__followed \
		shim__contained shim__no_malloc shim__seccomp shim__small_stack \
		shim__cannot_publish shim__with_publisher; do
		atf_add_test_case $c
	done
}
