/*
 * Rights, filters and namespaces: what is refused, with which reason, and what
 * works although it looks forbidden. A refused target runs on.
 *
 * Not shown here: Yama, which this machine's kernel may not have (in a guest:
 * kernel-tests/inside/yama_test), and other security modules, whose text is only read.
 */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/ptrace.h>

#include "tests/inject_common.h"
#include "uapi.h"

/* ---- a tracer that is a child: with other rights, in other namespaces ------------- */

/** struct attempt - what a child saw that tried to inject */
struct attempt {
	int err;
	int uffd;
	struct wprof_why why;
};

/*
 * A user without rights may not reach the build tree: the injector is opened
 * before, and run by its descriptor.
 */
static void attempt_here(pid_t pid, const char *injector, struct attempt *a)
{
	a->uffd = -1;
	a->err = inject_uffd(pid, injector, &a->uffd, NULL, &a->why);
}

static struct attempt *attempt_new(void)
{
	struct attempt *a =
		mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ATF_REQUIRE(a != MAP_FAILED);
	a->err = 12345;
	return a;
}

static const char *injector_open(const atf_tc_t *tc)
{
	static char path[64];
	char file[4096];
	int fd, high;

	snprintf(file, sizeof(file), "%s/../../libexec/wprof-inject",
		 atf_tc_get_config_var(tc, "srcdir"));
	fd = open(file, O_PATH);
	ATF_REQUIRE_MSG(fd >= 0, "%s", file);
	high = fcntl(fd, F_DUPFD, 100);
	ATF_REQUIRE(high >= 0);
	close(fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", high);
	return path;
}

static void become_nobody(void)
{
	struct passwd *pw = getpwnam("nobody");

	CHILD_REQUIRE(pw);
	CHILD_REQUIRE(!setgid(pw->pw_gid) && !setuid(pw->pw_uid));
	CHILD_REQUIRE(!prctl(PR_SET_DUMPABLE, 1));
}

static void attempt_check(const struct attempt *a, int err, enum wprof_reason reason,
			  const char *says)
{
	ATF_CHECK_EQ_MSG(err, a->err, "%d: %s", a->err, a->why.text);
	ATF_CHECK_EQ(reason, a->why.reason);
	ATF_CHECK_MSG(strstr(a->why.text, says), "says: %s", a->why.text);
}

/* @prepare changes the child, which then injects into @pid */
static struct attempt *attempt_in_child(const atf_tc_t *tc, pid_t pid, void (*prepare)(void))
{
	const char *injector = injector_open(tc);
	struct attempt *a = attempt_new();
	int status;
	pid_t child;

	child = fork();
	ATF_REQUIRE(child >= 0);
	if (!child) {
		prepare();
		attempt_here(pid, injector, a);
		_exit(0);
	}
	ATF_REQUIRE_EQ(child, waitpid(child, &status, 0));
	ATF_REQUIRE_EQ(0, status);
	return a;
}

/* A target that does @body is refused to a child that @prepare changed, and runs on */
static void refused_to(const atf_tc_t *tc, void (*prepare)(void), void (*body)(struct shared *),
		       int err, enum wprof_reason reason, const char *says)
{
	struct target t = target_start(body);

	target_wait(&t, 1);
	attempt_check(attempt_in_child(tc, t.pid, prepare), err, reason, says);
	ATF_CHECK_EQ(0, count_uffds(t.pid));
	target_finish(&t);
}

/* A target that does @body is injected into so many times, and ends well */
static void injected_into(void (*body)(struct shared *), int times)
{
	struct target t = target_start(body);

	target_wait(&t, 1);
	for (int i = 0; i < times; i++)
		inject_ok(&t);
	target_finish(&t);
}

/* ---- tracers ------------------------------------------------------------------------ */

INJECT_CASE(traced__named, "A target that is traced already is refused, and its tracer named")
{
	struct target t = target_start(body_spin);
	char says[64];
	int ready[2];
	pid_t tracer;
	char c;

	target_wait(&t, 1);
	ATF_REQUIRE_EQ(0, pipe(ready));
	tracer = fork();
	if (!tracer) {
		CHILD_REQUIRE(!prctl(PR_SET_NAME, "some-debugger"));
		CHILD_REQUIRE(!ptrace(PTRACE_SEIZE, t.pid, 0, 0));
		CHILD_REQUIRE(write(ready[1], "x", 1) == 1);
		for (;;)
			pause();
	}
	ATF_REQUIRE_EQ(1, read(ready[0], &c, 1));
	snprintf(says, sizeof(says), "by process %d (some-debugger)", tracer);
	inject_refused(t.pid, -EBUSY, WPROF_TRACED, says);
	ATF_REQUIRE_EQ(0, kill(tracer, SIGKILL));
	ATF_REQUIRE_EQ(tracer, waitpid(tracer, NULL, 0));
	inject_ok(&t);
	target_finish(&t);
}

static void *idle(void *arg)
{
	struct shared *shared = arg;

	atomic_store(&shared->counts[0], syscall(SYS_gettid));
	while (!atomic_load(&shared->stop))
		pause_ms(5);
	return NULL;
}

static void body_thread(struct shared *shared)
{
	pthread_t thread;

	CHILD_REQUIRE(!pthread_create(&thread, NULL, idle, shared));
	while (!atomic_load(&shared->counts[0]))
		sched_yield();
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(!pthread_join(thread, NULL));
}

INJECT_CASE(thread__named, "The number of a thread is refused, and its process named")
{
	struct target t = target_start(body_thread);
	char says[64];

	target_wait(&t, 1);
	snprintf(says, sizeof(says), "thread of process %d", t.pid);
	inject_refused((pid_t)atomic_load(&t.shared->counts[0]), -ESRCH, WPROF_NO_PROCESS, says);
	target_finish(&t);
}

/* ---- users -------------------------------------------------------------------------- */

INJECT_CASE(user__other, "Without rights, a process of another user is refused")
{
	refused_to(tc, become_nobody, body_spin, -EPERM, WPROF_NOT_PERMITTED, "belongs to user 0");
}

static void body_nobody(struct shared *shared)
{
	become_nobody();
	body_spin(shared);
}

/* vm.unprivileged_userfaultfd = 0 forbids it unless UFFD_USER_MODE_ONLY is given */
INJECT_CASE(user__unprivileged_target, "A target without rights of its own is injected into")
{
	char allowed = '0';
	int fd = open("/proc/sys/vm/unprivileged_userfaultfd", O_RDONLY);

	/* another machine may allow it, and shows less then; those of the kernel tests do not */
	if (*atf_tc_get_config_var_wd(tc, "kernel", ""))
		ATF_CHECK(fd >= 0 && read(fd, &allowed, 1) == 1 && allowed == '0');
	close(fd);
	injected_into(body_nobody, 1);
}

INJECT_CASE(user__same, "Without rights, a process of the same user is injected into")
{
	struct target t = target_start(body_nobody);

	target_wait(&t, 1);
	ATF_CHECK_EQ(0, attempt_in_child(tc, t.pid, become_nobody)->err);
	ATF_CHECK_EQ(0, count_uffds(t.pid));
	target_finish(&t);
}

static void body_undumpable(struct shared *shared)
{
	become_nobody();
	CHILD_REQUIRE(!prctl(PR_SET_DUMPABLE, 0));
	body_spin(shared);
}

INJECT_CASE(user__not_dumpable, "A target that forbids tracing is refused without rights")
{
	struct target t = target_start(body_undumpable);

	target_wait(&t, 1);
	attempt_check(attempt_in_child(tc, t.pid, become_nobody), -EPERM, WPROF_NOT_PERMITTED,
		      "not dumpable");
	inject_ok(&t);
	target_finish(&t);
}

/* ---- seccomp ------------------------------------------------------------------------- */

/* Install @code on this process; needs CAP_SYS_ADMIN or no_new_privs */
#define FILTER(code)                                                    \
	CHILD_REQUIRE(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, \
			       &(struct sock_fprog){ sizeof(code) / sizeof(*(code)), code }))

/* what a container's profile does, only harder: these calls kill */
static void seccomp_kill_ours(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	CHILD_REQUIRE(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	FILTER(code);
}

static void body_filtered(struct shared *shared)
{
	seccomp_kill_ours();
	body_spin(shared);
}

INJECT_CASE(seccomp__suspended, "A filter that kills on our calls is suspended for them")
{
	struct target t = target_start(body_filtered);

	target_wait(&t, 1);
	for (int i = 0; i < 5; i++)
		inject_ok(&t);
	ATF_CHECK_STREQ("2\n", status_of(t.pid, t.pid, "Seccomp"));
	target_finish(&t);
}

static int strict_channel[2];

static void body_strict(struct shared *shared)
{
	char c;

	CHILD_REQUIRE(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
	atomic_store(&shared->ready, 1);
	while (read(strict_channel[0], &c, 1) == 1 && c != 'q')
		;
	syscall(SYS_exit, 0);
}

INJECT_CASE(seccomp__strict, "A target in strict mode is injected into")
{
	struct target t;

	ATF_REQUIRE_EQ(0, pipe(strict_channel));
	t = target_start(body_strict);
	target_wait(&t, 1);
	for (int i = 0; i < 5; i++) {
		inject_ok(&t);
		ATF_REQUIRE_EQ(1, write(strict_channel[1], "x", 1));
	}
	ATF_REQUIRE_EQ(1, write(strict_channel[1], "q", 1));
	target_finish(&t);
}

static void body_filtered_nobody(struct shared *shared)
{
	become_nobody();
	body_filtered(shared);
}

INJECT_CASE(seccomp__no_rights, "Without CAP_SYS_ADMIN, a filtered target is refused")
{
	refused_to(tc, become_nobody, body_filtered_nobody, -EACCES, WPROF_SECCOMP,
		   "CAP_SYS_ADMIN");
}

/* any filter on the tracer will do: this one allows everything */
static void filter_self(void)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };

	FILTER(code);
}

INJECT_CASE(seccomp__filtered_tracer, "A tracer with a filter cannot suspend another's: refused")
{
	refused_to(tc, filter_self, body_filtered, -EACCES, WPROF_SECCOMP, "has a filter itself");
}

/* Docker's default profile: pidfd_getfd answers EPERM */
static void forbid_getfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_getfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	FILTER(code);
}

INJECT_CASE(seccomp__no_getfd, "Without pidfd_getfd the target is left as it was, and it says why")
{
	refused_to(tc, forbid_getfd, body_spin, -EPERM, WPROF_NOT_PERMITTED, "pidfd_getfd");
}

/* ---- namespaces ----------------------------------------------------------------------- */

static struct attempt *ns_attempt;

/* a container of its own, the target and the tracer in it, by the numbers there */
static void body_in_pid_ns(struct shared *shared, bool with_proc)
{
	int status;
	pid_t target;

	target = fork();
	if (!target) {
		CHILD_REQUIRE(!prctl(PR_SET_PDEATHSIG, SIGKILL));
		atomic_store(&shared->ready, 1);
		while (!atomic_load(&shared->counts[0]))
			atomic_fetch_add(&shared->spins, 1);
		_exit(0);
	}
	if (with_proc) {
		CHILD_REQUIRE(!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
		CHILD_REQUIRE(!mount("proc", "/proc", "proc", 0, NULL));
	}
	while (!atomic_load(&shared->ready))
		sched_yield();
	attempt_here(target, NULL, ns_attempt);
	atomic_store(&shared->counts[0], 1);
	CHILD_REQUIRE(waitpid(target, &status, 0) == target && !status);
}

static void body_container(struct shared *shared, bool with_proc)
{
	int status;
	pid_t init;

	CHILD_REQUIRE(!unshare(CLONE_NEWPID | CLONE_NEWNS));
	init = fork();
	if (!init) {
		body_in_pid_ns(shared, with_proc);
		_exit(0);
	}
	CHILD_REQUIRE(waitpid(init, &status, 0) == init && !status);
}

static void body_container_proc(struct shared *shared)
{
	body_container(shared, true);
}

static void body_container_no_proc(struct shared *shared)
{
	body_container(shared, false);
}

INJECT_CASE(pidns__inside, "In a PID namespace with its own /proc, numbers are those of there")
{
	struct target t;

	ns_attempt = attempt_new();
	t = target_start(body_container_proc);
	target_finish(&t);
	ATF_CHECK_EQ_MSG(0, ns_attempt->err, "%s", ns_attempt->why.text);
}

INJECT_CASE(pidns__foreign_proc, "A /proc of another PID namespace is refused, not misread")
{
	struct target t;

	ns_attempt = attempt_new();
	t = target_start(body_container_no_proc);
	target_finish(&t);
	attempt_check(ns_attempt, -EPERM, WPROF_NOT_PERMITTED, "another PID namespace");
}

/* the body runs as process 1 of new namespaces; counts[0]: its number out here */
static void body_init(struct shared *shared)
{
	int status;
	pid_t init;

	CHILD_REQUIRE(!unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS));
	init = fork();
	if (!init) {
		body_spin(shared);
		_exit(0);
	}
	atomic_store(&shared->counts[0], init);
	CHILD_REQUIRE(waitpid(init, &status, 0) == init && !status);
}

INJECT_CASE(userns__from_outside, "A target in user and PID namespaces is reached from the host")
{
	struct target t = target_start(body_init);
	struct target init = t;

	target_wait(&t, 1);
	while (!atomic_load(&t.shared->counts[0]))
		sched_yield();
	init.pid = (pid_t)atomic_load(&t.shared->counts[0]);
	inject_ok(&init);
	target_finish(&t);
}

static void enter_userns(void)
{
	CHILD_REQUIRE(!unshare(CLONE_NEWUSER));
}

INJECT_CASE(userns__from_inside, "From within a user namespace the host's processes are refused")
{
	struct target t = target_start(body_spin);

	target_wait(&t, 1);
	ATF_CHECK_EQ(-EPERM, attempt_in_child(tc, t.pid, enter_userns)->err);
	target_finish(&t);
}

/* ---- what a thread may be doing ---------------------------------------------------------- */

INJECT_CASE(compat__refused, "A 32-bit target is refused by name and runs on")
{
	char path[4096];
	int out[2];
	pid_t pid;
	char c;

	snprintf(path, sizeof(path), "%s/targets/compat", atf_tc_get_config_var(tc, "srcdir"));
	ATF_REQUIRE_EQ(0, pipe(out));
	pid = fork();
	if (!pid) {
		CHILD_REQUIRE(!prctl(PR_SET_PDEATHSIG, SIGKILL));
		CHILD_REQUIRE(dup2(out[1], 1) == 1);
		close(out[1]);
		execl(path, path, (char *)NULL);
		CHILD_REQUIRE(errno == ENOEXEC);
		_exit(98);
	}
	close(out[1]);
	if (read(out[0], &c, 1) != 1)
		atf_tc_skip("this kernel runs no 32-bit programs");
	for (int i = 0; i < 3; i++)
		inject_refused(pid, -ENOSYS, WPROF_NO_ARCH, "32-bit");
	ATF_CHECK_EQ(0, waitpid(pid, NULL, WNOHANG));
	ATF_REQUIRE_EQ(0, kill(pid, SIGKILL));
	ATF_REQUIRE_EQ(pid, waitpid(pid, NULL, 0));
}

/* system call user dispatch: calls from outside a range raise SIGSYS */
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

static volatile char dispatch_selector;
static struct shared *dispatch_shared;

static void on_sys(int sig)
{
	(void)sig;
	dispatch_selector = 0;
	atomic_fetch_add(&dispatch_shared->counts[0], 1);
}

static void body_dispatch(struct shared *shared)
{
	dispatch_shared = shared;
	signal(SIGSYS, on_sys);
	CHILD_REQUIRE(!prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &dispatch_selector));
	dispatch_selector = 1;
	body_spin(shared);
	CHILD_REQUIRE(atomic_load(&shared->counts[0]) == 0);
	CHILD_REQUIRE(dispatch_selector == 1);
	syscall(SYS_getppid); /* still on: raises SIGSYS */
	CHILD_REQUIRE(atomic_load(&shared->counts[0]) == 1);
}

INJECT_CASE(dispatch__kept, "A target with system call user dispatch sees no SIGSYS and keeps it")
{
	injected_into(body_dispatch, 5);
}

/* a restored or hardened process may have no vDSO */
static void body_no_vdso(struct shared *shared)
{
	unsigned long start = 0, end = 0;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");

	CHILD_REQUIRE(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &start, &end) == 2)
			break;
	fclose(f);
	CHILD_REQUIRE(strstr(line, "[vdso]"));
	CHILD_REQUIRE(!munmap((void *)start, end - start));
	body_spin(shared);
}

INJECT_CASE(vdso__unmapped, "Without a vDSO another syscall instruction is found")
{
	injected_into(body_no_vdso, 1);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, traced__named);
	ATF_TP_ADD_TC(tp, thread__named);
	ATF_TP_ADD_TC(tp, user__other);
	ATF_TP_ADD_TC(tp, user__unprivileged_target);
	ATF_TP_ADD_TC(tp, user__same);
	ATF_TP_ADD_TC(tp, user__not_dumpable);
	ATF_TP_ADD_TC(tp, seccomp__suspended);
	ATF_TP_ADD_TC(tp, seccomp__strict);
	ATF_TP_ADD_TC(tp, seccomp__no_rights);
	ATF_TP_ADD_TC(tp, seccomp__filtered_tracer);
	ATF_TP_ADD_TC(tp, seccomp__no_getfd);
	ATF_TP_ADD_TC(tp, pidns__inside);
	ATF_TP_ADD_TC(tp, pidns__foreign_proc);
	ATF_TP_ADD_TC(tp, userns__from_outside);
	ATF_TP_ADD_TC(tp, userns__from_inside);
	ATF_TP_ADD_TC(tp, compat__refused);
	ATF_TP_ADD_TC(tp, dispatch__kept);
	ATF_TP_ADD_TC(tp, vdso__unmapped);
	return atf_no_error();
}
