# The library and its header under other compilers, languages and C libraries

setup()
{
	top=$(atf_config_get top)
	include="-I$top/libctx/include"
	generated=$(atf_get_srcdir)/../proto
	reader_sources="reader discover target service detect decode context pool"
	sources="arena encode foreign keymap otel_env publish state utf8"
}

atf_test_case header__alone
header__alone_head()
{
	atf_set "descr" "pctx.h compiles alone and without a warning, as C11 and C++, with gcc and clang"
	atf_set "require.progs" "gcc g++ clang"
}
header__alone_body()
{
	setup
	warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror -fsyntax-only"
	printf '#include "pctx.h"\nint f(void);\nint f(void) { return pctx_string("a", "b").key[0] + (int)pctx_int("a", 1).value.u.integer; }\n' > use.c
	cp use.c use.cc
	for cc in gcc clang; do
		# shellcheck disable=SC2086 # lists of words
		atf_check $cc -std=c11 $warn -Wstrict-prototypes -Wmissing-prototypes $include use.c
	done
	for std in c++98 c++11 c++20; do
		long_long=
		[ $std = c++98 ] && long_long=-Wno-long-long
		for cc in g++ "clang -x c++"; do
			# shellcheck disable=SC2086
			atf_check $cc -std=$std $warn $long_long $include use.cc
		done
	done
}

atf_test_case build__not_linux
build__not_linux_head()
{
	atf_set "descr" "Elsewhere than on Linux publisher and reader build without a header of Linux, and say -ENOSYS"
	atf_set "require.progs" "gcc"
}
build__not_linux_body()
{
	setup
	cat > main.c <<'END'
#include <errno.h>
#include "pctx.h"
int main(void)
{
	struct pctx_publish_opts opts = { .size = sizeof(opts) };
	struct pctx_reader *reader = NULL;
	struct pctx_context *context = NULL;
	uint8_t index;
	bool changed;
	size_t n = 0;

	pctx_reader_close(reader);
	pctx_context_free(context);
	return pctx_publish(&opts) != -ENOSYS || pctx_unpublish() != -ENOSYS ||
	       pctx_key_map_append("k", &index) != -ENOSYS ||
	       pctx_reader_open(1, NULL, &reader) != -ENOSYS ||
	       pctx_reader_read(reader, &context) != -ENOSYS ||
	       pctx_reader_poll(reader, &changed) != -ENOSYS ||
	       pctx_read(1, NULL, &context) != -ENOSYS ||
	       pctx_detect(1, NULL, &context) != -ENOSYS ||
	       pctx_each(NULL, NULL, NULL) != -ENOSYS ||
	       pctx_find_service("a", NULL, NULL, &n) != -ENOSYS || reader || context;
}
END
	objects=
	for s in $sources $reader_sources; do
		# shellcheck disable=SC2086
		atf_check gcc -std=c11 -Wall -Wextra -Werror -U__linux__ -U__linux -Ulinux $include \
			"-I$top/libctx" -MMD -MF $s.d -c -o $s.o "$top/libctx/$s.c"
		objects="$objects $s.o"
	done
	# errno.h of glibc has one for the numbers; nothing else may
	atf_check -s exit:1 grep -hoE '[^ ]*/(linux/|sys/(mman|prctl|syscall|uio)\.h|protobuf-c)[^ ]*' \
		arena.d foreign.d keymap.d state.d \
		reader.d discover.d target.d service.d detect.d decode.d context.d pool.d
	atf_check -s exit:1 grep -hoE '[^ ]*/(sys/(mman|prctl|syscall|uio)\.h|protobuf-c)[^ ]*' publish.d
	# shellcheck disable=SC2086
	atf_check gcc -std=c11 $include -o main main.c $objects
	atf_check ./main
}

atf_test_case build__musl
build__musl_head()
{
	atf_set "descr" "The publisher builds with another C library, and publishes"
	atf_set "require.progs" "musl-gcc"
}
build__musl_body()
{
	setup
	# protobuf-c's header is where musl-gcc does not look
	mkdir -p inc/protobuf-c
	cp "$(pkg-config --variable=includedir libprotobuf-c)/protobuf-c/protobuf-c.h" inc/protobuf-c/
	for s in $sources; do
		# shellcheck disable=SC2086
		atf_check musl-gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror $include \
			"-I$top/libctx" "-I$generated" -Iinc -idirafter /usr/include \
			-idirafter "/usr/include/$(gcc -dumpmachine)" -c -o $s.o "$top/libctx/$s.c"
	done
	for message in $(find "$generated" -name '*.pb-c.c'); do
		atf_check musl-gcc -w "-I$generated" -Iinc -c -o "$(basename "$message").o" "$message"
	done
	cat > main.c <<'END'
#include <stdio.h>
#include "pctx.h"
int main(void)
{
	struct pctx_attr a = pctx_string("service.name", "musl");
	struct pctx_publish_opts opts = { .size = sizeof(opts), .resource = &a, .n_resource = 1 };

	printf("%d\n", pctx_publish(&opts));
	fflush(stdout);
	return getchar() != 'x';
}
END
	# shellcheck disable=SC2086 # libprotobuf-c asks nothing of its C library that musl lacks
	atf_check musl-gcc -static $include -o main main.c ./*.o \
		"$(pkg-config --variable=libdir libprotobuf-c)/libprotobuf-c.a"
	mkfifo input
	./main < input > out &
	exec 3> input
	until [ -s out ]; do kill -0 $! || atf_fail "it ended"; done
	atf_check -o inline:'0\n' cat out
	atf_check -o match:'service.name  "musl"' "$(atf_get_srcdir)/../../bin/pctx" read $!
	echo x >&3
	wait $! || atf_fail "it failed"
}

atf_test_case build__old_constants
build__old_constants_head()
{
	atf_set "descr" "With headers that know none of the newer constants and calls the publisher builds"
	atf_set "require.progs" "gcc"
}
build__old_constants_body()
{
	setup
	# headers as they were: read the present ones, then forget
	cat > old.h <<'END'
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#undef CLOCK_BOOTTIME
#undef MFD_CLOEXEC
#undef MFD_ALLOW_SEALING
#undef MFD_NOEXEC_SEAL
#undef MADV_DONTFORK
#undef MADV_WIPEONFORK
#undef PR_SET_VMA
#undef PR_SET_VMA_ANON_NAME
#undef SYS_memfd_create
END
	for s in $sources; do
		# shellcheck disable=SC2086
		atf_check gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -include old.h $include \
			"-I$top/libctx" "-I$generated" -c -o $s.o "$top/libctx/$s.c"
	done
	# the numbers in their place are the same: the objects are those of the build
	atf_check gcc -std=c11 -D_GNU_SOURCE -include old.h "-I$top/libctx" -E -dM \
		-x c "$top/libctx/sys.h" -o defines
	for d in 'MADV_WIPEONFORK 18' 'MFD_NOEXEC_SEAL 0x0008u' 'PR_SET_VMA 0x53564d41'; do
		atf_check -o ignore grep -F "#define $d" defines
	done
}

atf_test_case build__static_library
build__static_library_head()
{
	atf_set "descr" "A program links libctx.a beside protobuf-c messages of the same names"
	atf_set "require.progs" "gcc pkg-config"
}
build__static_library_body()
{
	setup
	lib=$(atf_get_srcdir)/../../lib
	! nm "$lib/libctx.a" | grep -qE '__(asan|tsan)_' || atf_skip "a sanitizer is in the library"
	cat > main.c <<'END'
#include "pctx.h"
int opentelemetry__proto__common__v1__any_value__init(void);
int opentelemetry__proto__common__v1__any_value__init(void) { return 0; }
int utf8_valid(void);
int utf8_valid(void) { return 0; }
int main(void)
{
	struct pctx_attr a = pctx_string("service.name", "static");
	struct pctx_publish_opts opts = { .size = sizeof(opts), .resource = &a, .n_resource = 1 };

	return pctx_publish(&opts) || opentelemetry__proto__common__v1__any_value__init();
}
END
	# shellcheck disable=SC2046,SC2086
	atf_check gcc -std=c11 $include -o main main.c "$lib/libctx.a" \
		$(pkg-config --libs libprotobuf-c) -lpthread
	atf_check ./main
}

valgrind="valgrind -q --leak-check=full --show-leak-kinds=definite,indirect,possible --error-exitcode=9"
needs_plain_build()
{
	! nm "$(atf_get_srcdir)/publisher" | grep -qE '__(asan|tsan)_' ||
		atf_skip "valgrind and sanitizers exclude each other"
}

atf_test_case memory__valgrind
memory__valgrind_head()
{
	atf_set "descr" "valgrind finds no bad access and no leak, in a forked child either"
	atf_set "require.progs" "valgrind"
	atf_set "timeout" "120"
}
memory__valgrind_body()
{
	needs_plain_build
	# shellcheck disable=SC2086
	atf_check -o ignore $valgrind "$(atf_get_srcdir)/publisher" unpublish publish a header kinds \
		sound bytes 60000 sound append k append l bytes 70000 deep sound unpublish publish b sound
	# shellcheck disable=SC2086
	atf_check -o ignore $valgrind --trace-children=yes "$(atf_get_srcdir)/fork_test" \
		-r result child__not_inherited
}

atf_test_case memory__reader_valgrind cleanup
memory__reader_valgrind_head()
{
	atf_set "descr" "valgrind finds no bad access and no leak in discovery, reading and decoding"
	atf_set "require.progs" "valgrind"
	atf_set "timeout" "120"
}
memory__reader_valgrind_body()
{
	needs_plain_build
	helpers=$(atf_get_srcdir)/helpers bin=$(atf_get_srcdir)/../../bin
	mkfifo input
	for how in right malformed updating; do
		"$helpers/wrong" $how < input > said &
		echo $! > pid
		exec 8> input
		until grep -q ready said; do kill -0 $! || atf_fail "$how: it ended"; done
		expected=0
		[ $how != malformed ] || expected=1
		[ $how != updating ] || expected=3
		# shellcheck disable=SC2086
		atf_check -s exit:$expected -o ignore -e not-match:== \
			$valgrind --trace-children=yes "$bin/pctx" read --json $!
		# shellcheck disable=SC2086
		atf_check -o ignore -e not-match:== $valgrind --trace-children=yes "$bin/pctx" read --fallback $!
		kill $!
		exec 8>&-
	done
	atf_check -o ignore "$(atf_get_srcdir)/publisher" kinds append k dump payload
	for n in 100000 1 2 30 100 150; do
		head -c $n payload > part
		# shellcheck disable=SC2086
		$valgrind "$helpers/decode" < part > json 2> err
		rc=$?
		[ $rc -le 1 ] && [ ! -s err ] || atf_fail "$n bytes: exit $rc, $(cat err)"
	done
	# the fuzz target's corpus: payloads, maps, whole procfs made of files
	# shellcheck disable=SC2086
	atf_check -o save:names $valgrind "$(atf_get_srcdir)/corpus_test" \
		-v top="$(atf_config_get top)" -r result corpus__runs
	[ "$(wc -l < names)" -ge 100 ] || atf_fail "$(wc -l < names) inputs"
}
memory__reader_valgrind_cleanup() { [ ! -f pid ] || kill "$(cat pid)" 2> /dev/null || true; }

atf_init_test_cases()
{
	atf_add_test_case header__alone
	atf_add_test_case build__not_linux
	atf_add_test_case build__musl
	atf_add_test_case build__old_constants
	atf_add_test_case build__static_library
	atf_add_test_case memory__valgrind
	atf_add_test_case memory__reader_valgrind
}
