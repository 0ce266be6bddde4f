/*
 * One reader and a process that lives on: what changes under it, and where it
 * can be read at all. That nothing is ever torn is shown by storm_test, as far as
 * trying shows it; each outcome by outcome_test.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "scene.h"

/* ---- what changes ------------------------------------------------------------------ */

/* Steps: 0 publish, 1 update by another payload, 2 withdraw, 3 publish elsewhere */
static void publish_life(int step, void *arg)
{
	static struct ctx_header *h;
	static struct bytes b[4];

	(void)arg;
	payload_string(&b[step], "service.name",
		       step == 0   ? "first"
		       : step == 1 ? "second"
				   : "third");
	if (step == 2) {
		CHILD_REQUIRE(h);
		h->published_at_ns = 0;
		CHILD_REQUIRE(munmap(h, PAGE) == 0);
		return;
	}
	if (step != 1)
		h = craft_mapping(PAGE * (1 + (size_t)step));
	craft_header(h, b[step].data, (uint32_t)b[step].len, 1000 + (uint64_t)step);
}

static void expect_service(struct pctx_reader *reader, const char *name)
{
	struct pctx_context *c;
	bool changed = false;

	ATF_CHECK_EQ(0, pctx_reader_poll(reader, &changed));
	ATF_CHECK(changed);
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
	ATF_CHECK(has_string(c, "service.name", name));
	pctx_context_free(c);
	ATF_CHECK_EQ(0, pctx_reader_poll(reader, &changed));
	ATF_CHECK(!changed);
}

TEST_CASE(reader__whole_life, "One reader sees publish, update, withdrawal, publish and exit")
{
	struct scene life = scene_begin(publish_life, NULL);
	struct pctx_reader *reader;
	struct pctx_context *c;
	bool changed = true;

	ATF_REQUIRE_EQ(0, pctx_reader_open(life.pid, NULL, &reader));
	expect_service(reader, "first");
	scene_step(&life, 1);
	expect_service(reader, "second");
	scene_step(&life, 2);
	ATF_CHECK_EQ(-ENODATA, pctx_reader_poll(reader, &changed));
	ATF_CHECK_EQ(-ENODATA, pctx_reader_read(reader, &c));
	scene_step(&life, 3);
	expect_service(reader, "third");
	scene_end(&life);
	ATF_CHECK_EQ(-ESRCH, pctx_reader_poll(reader, &changed));
	ATF_CHECK_EQ(-ESRCH, pctx_reader_read(reader, &c));
	pctx_reader_close(reader);
}

/* To free this much takes a while, in which the process is no zombie yet. */
static void publish_with_memory(int step, void *arg)
{
	size_t len = *(size_t *)arg;
	char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHILD_REQUIRE(memory != MAP_FAILED);
	madvise(memory, len, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < len; i += PAGE)
		memory[i] = 1;
	publish_by_hand(step, NULL);
}

/* Read or poll on while the process dies: the first error. */
static int first_error(struct pctx_reader *reader, bool by_poll)
{
	struct pctx_context *c;
	bool changed;
	int rc;

	do {
		rc = by_poll ? pctx_reader_poll(reader, &changed) : pctx_reader_read(reader, &c);
		if (!rc && !by_poll)
			pctx_context_free(c);
	} while (!rc);
	return rc;
}

TEST_CASE(reader__killed, "A process that is killed while it is read is gone, and never withdrew")
{
	/* an emulated processor, that of the kernel tests, takes as long for a part of it */
	size_t len = (size_t)(*atf_tc_get_config_var_wd(tc, "kernel", "") ? 16 : 128) << 20;

	for (int i = 0; i < 6; i++) {
		struct scene s = scene_begin(publish_with_memory, &len);
		struct pctx_reader *reader;
		struct pctx_context *c;

		ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, NULL, &reader));
		ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
		pctx_context_free(c);
		ATF_REQUIRE_EQ(0, kill(s.pid, SIGKILL));
		ATF_CHECK_EQ(-ESRCH, first_error(reader, i % 2));
		pctx_reader_close(reader);
		scene_end(&s);
	}
}

/* A child with this very number, which must be free; -1 where that is not allowed. */
static pid_t fork_as(pid_t pid)
{
	pid_t number = pid;
	struct clone_args args = { .exit_signal = SIGCHLD,
				   .set_tid = (uintptr_t)&number,
				   .set_tid_size = 1 };

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

ATF_TC(reader__number_used_again);
ATF_TC_HEAD(reader__number_used_again, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "A reader never takes the next process of a number for its own");
	atf_tc_set_md_var(tc, "require.user", "root");
	atf_tc_set_md_var(tc, "timeout", "30");
}
ATF_TC_BODY(reader__number_used_again, tc)
{
	struct scene s = scene_begin(publish_by_hand, NULL);
	struct pctx_reader *reader, *unread;
	struct pctx_context *c;
	bool changed = false;
	int ready[2];
	char byte;
	pid_t next;

	ATF_REQUIRE_EQ(0, pipe(ready));
	ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, NULL, &reader));
	ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, NULL, &unread));
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
	pctx_context_free(c);
	scene_end(&s);
	next = fork_as(s.pid);
	ATF_REQUIRE_MSG(next >= 0, "clone3: %s", strerror(errno));
	if (next == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		publish_by_hand(1, NULL);
		CHILD_REQUIRE(write(ready[1], "x", 1) == 1);
		for (;;)
			pause();
	}
	ATF_REQUIRE_EQ(s.pid, next);
	ATF_REQUIRE_EQ(1, read(ready[0], &byte, 1));
	/* it lies where the other one did, and is readable */
	ATF_CHECK_EQ(0, read_service(next, NULL, "hand"));
	ATF_CHECK_EQ(-ESRCH, pctx_reader_poll(reader, &changed));
	ATF_CHECK_EQ(-ESRCH, pctx_reader_read(reader, &c));
	ATF_CHECK_EQ(-ESRCH, pctx_reader_poll(unread, &changed));
	ATF_CHECK_EQ(-ESRCH, pctx_reader_read(unread, &c));
	ATF_CHECK(!changed);
	pctx_reader_close(reader);
	pctx_reader_close(unread);
	kill(next, SIGKILL);
	ATF_REQUIRE_EQ(next, waitpid(next, NULL, 0));
}

static void publish_late(int step, void *arg)
{
	if (step)
		publish_by_hand(step, arg);
}

TEST_CASE(reader__late_publication, "A reader opened before the publication sees it by polling")
{
	struct scene s = scene_begin(publish_late, NULL);
	struct pctx_reader *reader;
	bool changed = false;

	ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, NULL, &reader));
	ATF_CHECK_EQ(-ENODATA, pctx_reader_poll(reader, &changed));
	ATF_CHECK_EQ(-ENODATA, pctx_reader_poll(reader, &changed));
	scene_step(&s, 1);
	expect_service(reader, "hand");
	pctx_reader_close(reader);
	scene_end(&s);
}

TEST_CASE(reader__same_context, "What did not change is handed out again, the same object")
{
	struct scene s = scene_begin(publish_by_hand, NULL);
	struct pctx_context *a, *b;
	struct pctx_reader *reader;

	ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, NULL, &reader));
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &a));
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &b));
	ATF_CHECK_EQ(a, b);
	pctx_context_free(b);
	scene_step(&s, 1);
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &b));
	ATF_CHECK(a != b);
	ATF_CHECK_EQ(1000, pctx_context_published_at_ns(a));
	ATF_CHECK_EQ(1001, pctx_context_published_at_ns(b));
	pctx_reader_close(reader);
	/* contexts outlive their reader */
	ATF_CHECK(has_string(a, "service.name", "hand"));
	pctx_context_free(a);
	pctx_context_free(b);
	scene_end(&s);
}

/* A publisher that gives a timestamp twice, and changes its payload in place. */
static void publish_same_time(int step, void *arg)
{
	(void)arg;
	publish_as(step ? "two" : "one", 1000);
}

TEST_CASE(reader__timestamp_twice, "A read notices another payload under the same timestamp")
{
	struct scene s = scene_begin(publish_same_time, NULL);
	struct pctx_reader *reader;
	struct pctx_context *c;

	ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, NULL, &reader));
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
	pctx_context_free(c);
	scene_step(&s, 1);
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
	ATF_CHECK(has_string(c, "service.name", "two"));
	pctx_context_free(c);
	pctx_reader_close(reader);
	scene_end(&s);
}

/* ---- exec, threads, stopped -------------------------------------------------------- */

static void publish_and_exec(int step, void *arg)
{
	if (step == 0) {
		publish_by_hand(step, arg);
		return;
	}
	/* the pipes are inherited: `cat` answers the step and goes on living */
	CHILD_REQUIRE(dup2(((int *)arg)[0], 0) == 0 && dup2(((int *)arg)[1], 1) == 1);
	execlp("cat", "cat", (char *)NULL);
	CHILD_REQUIRE(!"exec");
}

TEST_CASE(reader__exec, "After an exec the old context is none, and the reader stays usable")
{
	struct pctx_reader *reader;
	struct pctx_context *c;
	int in[2], out[2], fds[2];
	unsigned char byte = 1;
	struct scene s;

	ATF_REQUIRE(pipe(in) == 0 && pipe(out) == 0);
	fds[0] = in[0];
	fds[1] = out[1];
	s = scene_begin(publish_and_exec, fds);
	ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, NULL, &reader));
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
	pctx_context_free(c);
	ATF_REQUIRE_EQ(1, write(s.order, &byte, 1));
	/* cat sends back what it gets: then it runs */
	ATF_REQUIRE_EQ(1, write(in[1], "x", 1));
	ATF_REQUIRE_EQ(1, read(out[0], &byte, 1));
	ATF_CHECK_EQ(-ENODATA, pctx_reader_read(reader, &c));
	pctx_reader_close(reader);
	scene_end(&s);
}

static void *wait_for_ever(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void *leader_gone(void *arg)
{
	int *fds = arg;
	char path[64], state = 0, text[512];
	unsigned char byte;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	while (state != 'Z') {
		int fd = open(path, O_RDONLY);
		ssize_t n = read(fd, text, sizeof(text) - 1);

		close(fd);
		text[n > 0 ? n : 0] = '\0';
		state = strrchr(text, ')') ? strrchr(text, ')')[2] : 0;
	}
	CHILD_REQUIRE(write(fds[1], "x", 1) == 1);
	CHILD_REQUIRE(read(fds[0], &byte, 1) >= 0);
	_exit(0);
}

TEST_CASE(read__first_thread_ended, "A process whose first thread ended is read by another one")
{
	struct pctx_reader *reader;
	struct pctx_context *c;
	int order[2], answer[2], fds[2];
	unsigned char byte;
	pid_t pid;

	ATF_REQUIRE(pipe(order) == 0 && pipe(answer) == 0);
	fds[0] = order[0];
	fds[1] = answer[1];
	pid = fork();
	ATF_REQUIRE(pid >= 0);
	if (pid == 0) {
		pthread_t a, b;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		publish_by_hand(0, NULL);
		CHILD_REQUIRE(write(answer[1], "x", 1) == 1 && read(order[0], &byte, 1) == 1);
		CHILD_REQUIRE(pthread_create(&a, NULL, wait_for_ever, NULL) == 0);
		CHILD_REQUIRE(pthread_create(&b, NULL, leader_gone, fds) == 0);
		syscall(SYS_exit, 0);
	}
	ATF_REQUIRE_EQ(1, read(answer[0], &byte, 1));
	ATF_REQUIRE_EQ(0, pctx_reader_open(pid, NULL, &reader));
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
	pctx_context_free(c);
	ATF_REQUIRE_EQ(1, write(order[1], "x", 1));
	ATF_REQUIRE_EQ(1, read(answer[0], &byte, 1));
	ATF_CHECK_EQ(0, read_service(pid, NULL, "hand"));
	/* a reader opened before goes over to a living thread */
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
	pctx_context_free(c);
	pctx_reader_close(reader);
	kill(pid, SIGKILL);
	ATF_REQUIRE_EQ(pid, waitpid(pid, NULL, 0));
}

TEST_CASE(read__stopped, "The context of a stopped process is readable")
{
	struct scene s = scene_begin(publish_by_hand, NULL);
	int status;

	ATF_REQUIRE_EQ(0, kill(s.pid, SIGSTOP));
	ATF_REQUIRE_EQ(s.pid, waitpid(s.pid, &status, WUNTRACED));
	ATF_REQUIRE(WIFSTOPPED(status));
	ATF_CHECK_EQ(0, read_service(s.pid, NULL, "hand"));
	scene_end(&s);
}

/* ---- sandboxes and namespaces -------------------------------------------------------- */

/* From here on process_vm_readv is refused. */
static void deny_vm_readv(unsigned int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };

	CHILD_REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
		      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Read twice and poll in between, as a child that may not call process_vm_readv. */
static void read_by_files(pid_t pid, unsigned int error)
{
	struct pctx_reader *reader;
	struct pctx_context *c;
	bool changed = true;

	deny_vm_readv(error);
	CHILD_REQUIRE(pctx_reader_open(pid, NULL, &reader) == 0);
	CHILD_REQUIRE(pctx_reader_read(reader, &c) == 0);
	CHILD_REQUIRE(has_string(c, "service.name", "hand"));
	pctx_context_free(c);
	CHILD_REQUIRE(pctx_reader_poll(reader, &changed) == 0 && !changed);
	CHILD_REQUIRE(pctx_reader_read(reader, &c) == 0);
	pctx_context_free(c);
	pctx_reader_close(reader);
	_exit(0);
}

TEST_CASE(read__without_vm_readv,
	  "Where process_vm_readv is forbidden, by any error, the memory file is read")
{
	static const unsigned int errors[] = { EPERM, EACCES, ENOSYS, EINVAL };
	struct scene s = scene_begin(publish_by_hand, NULL);

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		pid_t child = fork();
		int status;

		ATF_REQUIRE(child >= 0);
		if (child == 0)
			read_by_files(s.pid, errors[i]);
		ATF_REQUIRE_EQ(child, waitpid(child, &status, 0));
		ATF_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	scene_end(&s);
}

static void publish_in_namespaces(int step, void *arg)
{
	static pid_t inner;
	int ready[2];
	char byte;

	(void)step;
	CHILD_REQUIRE(pipe(ready) == 0);
	/* not unshare(): that is refused where a sanitizer runs a thread of its own */
	inner = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	CHILD_REQUIRE(inner >= 0);
	if (inner == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		CHILD_REQUIRE(getpid() == 1);
		publish_by_hand(0, NULL);
		CHILD_REQUIRE(write(ready[1], "x", 1) == 1);
		for (;;)
			pause();
	}
	CHILD_REQUIRE(read(ready[0], &byte, 1) == 1);
	*(pid_t *)arg = inner;
}

ATF_TC(read__namespaces);
ATF_TC_HEAD(read__namespaces, tc)
{
	atf_tc_set_md_var(
		tc, "descr",
		"A process in user and PID namespaces of its own is read by its PID here");
	atf_tc_set_md_var(tc, "require.user", "root");
	atf_tc_set_md_var(tc, "timeout", "30");
}
ATF_TC_BODY(read__namespaces, tc)
{
	pid_t *inner = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct scene s;

	ATF_REQUIRE(inner != MAP_FAILED);
	s = scene_begin(publish_in_namespaces, inner);
	ATF_CHECK_EQ(0, read_service(*inner, NULL, "hand"));
	scene_end(&s);
}

TEST_CASE(read__oneself, "A process can read its own context, with attributes of all kinds")
{
	const struct pctx_value inner[] = {
		{ .kind = PCTX_EMPTY },
		{ .kind = PCTX_BOOL, .u.boolean = true },
	};
	struct pctx_attr attrs[] = {
		pctx_string("service.name", "self"),
		pctx_int("least", INT64_MIN),
		{ "array", { .kind = PCTX_ARRAY, .u.array = { inner, 2 } } },
		{ "bytes", { .kind = PCTX_BYTES, .u.bytes = { (const uint8_t *)"a\0b", 3 } } },
	};
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .resource = attrs,
					  .n_resource = 4 };
	const struct pctx_attr *found;
	struct pctx_context *c;

	ATF_REQUIRE_EQ(0, pctx_publish(&opts));
	ATF_REQUIRE_EQ(0, pctx_read(getpid(), NULL, &c));
	ATF_CHECK(has_string(c, "service.name", "self"));
	found = pctx_context_find(c, "least");
	ATF_CHECK(found && found->value.u.integer == INT64_MIN);
	found = pctx_context_find(c, "array");
	ATF_REQUIRE(found && found->value.kind == PCTX_ARRAY && found->value.u.array.n == 2);
	ATF_CHECK_EQ(PCTX_EMPTY, found->value.u.array.values[0].kind);
	ATF_CHECK_EQ(PCTX_BOOL, found->value.u.array.values[1].kind);
	found = pctx_context_find(c, "bytes");
	ATF_REQUIRE(found && found->value.u.bytes.len == 3);
	ATF_CHECK(memcmp(found->value.u.bytes.data, "a\0b", 3) == 0);
	ATF_CHECK(!pctx_context_find(c, "absent"));
	ATF_CHECK(!pctx_context_detected(c));
	pctx_context_free(c);
	ATF_REQUIRE_EQ(0, pctx_unpublish());
	ATF_CHECK_EQ(-ENODATA, pctx_read(getpid(), NULL, &c));
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, reader__whole_life);
	ATF_TP_ADD_TC(tp, reader__killed);
	ATF_TP_ADD_TC(tp, reader__number_used_again);
	ATF_TP_ADD_TC(tp, reader__late_publication);
	ATF_TP_ADD_TC(tp, reader__same_context);
	ATF_TP_ADD_TC(tp, reader__timestamp_twice);
	ATF_TP_ADD_TC(tp, reader__exec);
	ATF_TP_ADD_TC(tp, read__first_thread_ended);
	ATF_TP_ADD_TC(tp, read__stopped);
	ATF_TP_ADD_TC(tp, read__without_vm_readv);
	ATF_TP_ADD_TC(tp, read__namespaces);
	ATF_TP_ADD_TC(tp, read__oneself);
	return atf_no_error();
}
