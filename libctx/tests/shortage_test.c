/*
 * Readers that run out of descriptors, files or memory: each function says which, and
 * works when there is enough again. In forked children, as limits and filters last.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "scene.h"

static pid_t published; /* a process with a context */

static int count(pid_t pid, int error, const struct pctx_context *context, void *arg)
{
	(void)pid;
	(void)error;
	(void)context;
	++*(int *)arg;
	return 0;
}

/* Whatever begins with a PID is -@error, and hands nothing out. */
static void all_fail_with(int error)
{
	struct pctx_reader *reader = NULL;
	struct pctx_context *c = NULL;
	size_t n_found = 0;
	int n = 0;

	CHILD_REQUIRE(pctx_reader_open(published, NULL, &reader) == -error && !reader);
	CHILD_REQUIRE(pctx_read(published, NULL, &c) == -error && !c);
	CHILD_REQUIRE(pctx_detect(published, NULL, &c) == -error && !c);
	CHILD_REQUIRE(pctx_each(NULL, count, &n) == -error && n == 0);
	CHILD_REQUIRE(pctx_find_service("hand", NULL, NULL, &n_found) == -error);
}

static void in_child(void (*test)(void))
{
	struct scene s = scene_begin(publish_by_hand, NULL);
	pid_t child = fork();
	int status;

	ATF_REQUIRE(child >= 0);
	published = s.pid;
	if (child == 0) {
		test();
		_exit(0);
	}
	ATF_REQUIRE_EQ(child, waitpid(child, &status, 0));
	ATF_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	scene_end(&s);
}

/* ---- descriptors ------------------------------------------------------------------- */

static void allow_descriptors(rlim_t n)
{
	struct rlimit limit;

	CHILD_REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = n;
	CHILD_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void without_descriptors(void)
{
	struct rlimit before;

	CHILD_REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
	allow_descriptors(0);
	all_fail_with(EMFILE);
	allow_descriptors(before.rlim_cur);
	CHILD_REQUIRE(read_service(published, NULL, "hand") == 0);
}

TEST_CASE(open__no_descriptor, "Without a descriptor left everything that opens is -EMFILE")
{
	in_child(without_descriptors);
}

static void reader_without_descriptors(void)
{
	struct pctx_reader *reader;
	struct pctx_context *c;
	struct rlimit before;
	bool changed = false;

	CHILD_REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
	CHILD_REQUIRE(pctx_reader_open(published, NULL, &reader) == 0);
	allow_descriptors(0);
	CHILD_REQUIRE(pctx_reader_read(reader, &c) == -EMFILE);
	CHILD_REQUIRE(pctx_reader_poll(reader, &changed) == -EMFILE && !changed);
	allow_descriptors(before.rlim_cur);
	CHILD_REQUIRE(pctx_reader_poll(reader, &changed) == 0 && changed);
	CHILD_REQUIRE(pctx_reader_read(reader, &c) == 0);
	pctx_context_free(c);
	/* what is known is read without opening anything */
	allow_descriptors(0);
	CHILD_REQUIRE(pctx_reader_read(reader, &c) == 0);
	pctx_context_free(c);
	pctx_reader_close(reader);
}

TEST_CASE(reader__no_descriptor,
	  "A reader that cannot look for the context says so, and goes on later")
{
	in_child(reader_without_descriptors);
}

/* From now on system call @number is refused. */
static void refuse(unsigned int number, unsigned int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	CHILD_REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
		      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void without_files(void)
{
	refuse(SYS_openat, ENFILE);
	all_fail_with(ENFILE);
}

TEST_CASE(open__no_file, "When the host has no file left that is -ENFILE")
{
	in_child(without_files);
}

/* ---- memory ------------------------------------------------------------------------ */

/* Sanitizers end a program that has no memory. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void without_memory(void)
{
	const struct rlimit none = { 0, 0 };
	struct pctx_reader *reader;
	struct pctx_context *c = NULL;

	CHILD_REQUIRE(pctx_reader_open(published, NULL, &reader) == 0);
	/* no more of the heap, and no private memory that can be written */
	CHILD_REQUIRE(setrlimit(RLIMIT_DATA, &none) == 0);
	for (size_t bytes = 1 << 20; bytes; bytes /= 2) {
		/* cppcheck-suppress leakNoVarFunctionCall */
		while (malloc(bytes))
			;
	}
	CHILD_REQUIRE(pctx_reader_read(reader, &c) == -ENOMEM && !c);
	all_fail_with(ENOMEM);
	pctx_reader_close(reader);
}

TEST_CASE(read__no_memory, "Without memory left everything that needs some is -ENOMEM")
{
	in_child(without_memory);
}
#endif

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, open__no_descriptor);
	ATF_TP_ADD_TC(tp, reader__no_descriptor);
	ATF_TP_ADD_TC(tp, open__no_file);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	ATF_TP_ADD_TC(tp, read__no_memory);
#endif
	return atf_no_error();
}
