/*
 * take.c - choose a thread, have it do the two calls, and say why not.
 *
 * Theory of operation
 *
 *	look	   can it be a target at all, its threads in order of preference,
 *		   an instruction to run (facts.c); nothing is touched yet
 *	stop	   one thread after the other until one stops (tracee.c)
 *	userfaultfd, pidfd_getfd, close
 *	let go
 *
 * A target changes while it is looked at. What was found is therefore checked again
 * with the thread stopped: whose thread it is, and that the instruction is still
 * there. Where it is not (-ESTALE), where threads have ended (-ESRCH), all begins
 * anew until the deadline; where a thread did not stop in time, the next is tried.
 *
 * Invariants
 *
 * - Between userfaultfd() and close() nothing gives up: no deadline, no error but
 *   the end of the thread leaves the descriptor in the target.
 * - close() is done only when kcmp() says that the number is still that descriptor;
 *   otherwise another thread has closed it and opened something of its own.
 * - A refusal says what was true when it was refused: a tracer that was seen is
 *   named, one that is gone by the time we look is no reason (two injections into
 *   one target meet like this).
 *
 * When this program dies: see tracee.c. The target has then the descriptor at worst,
 * and dies with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/clock.h"
#include "inject/facts.h"
#include "inject/take.h"
#include "why.h"

#define THREADS_MAX 64		   /* that many are looked at */
#define INSN_NS	    (2 * NS_PER_S) /* for an exec to come to its end */
#define STOP_TRIES  3
#define THREAD_NS   (2 * NS_PER_S) /* for one to stop, or to get to run */

static uint64_t soonest(uint64_t deadline_ns)
{
	uint64_t limit = clock_ns() + THREAD_NS;

	return limit < deadline_ns ? limit : deadline_ns;
}

/* ---- a thread ------------------------------------------------------------------- */

/* Is the tracer itself under a filter? Then it may not suspend another's. */
static bool take_filtered(void)
{
	struct facts facts;

	return !facts_read(getpid(), getpid(), &facts) && facts.seccomp;
}

static int take_seccomp(pid_t pid, const struct thread *thread, struct wprof_why *why)
{
	const char *kind =
		thread->seccomp == 1 ? "is in seccomp's strict mode" : "has a seccomp filter";
	const char *cure =
		take_filtered() ? "this process has a filter itself; run it outside of its "
				  "container or unit"
				: "suspending it takes CAP_SYS_ADMIN (run as root on the host) and "
				  "a kernel with "
				  "CONFIG_CHECKPOINT_RESTORE";

	return why_set(why, WPROF_SECCOMP, "process %d %s: %s", pid, kind, cure);
}

/* A stop failed in a way that no other thread would change. */
static int take_failed(pid_t pid, const struct thread *thread, int err, struct wprof_why *why)
{
	switch (err) {
	case -ENOSYS:
		return why_set(why, WPROF_NO_ARCH,
			       "process %d runs 32-bit code; only " ARCH_NAME " is supported", pid);
	case -EPERM:
	case -EACCES:
		if (thread->seccomp)
			return take_seccomp(pid, thread, why);
		return facts_denied(pid, thread->tid, why);
	case -EINVAL:
		if (thread->seccomp)
			return take_seccomp(pid, thread, why);
	}
	return why_system(why, err, "stopping thread %d of process %d", thread->tid, pid);
}

static int take_none(pid_t pid, int n, char state, struct wprof_why *why)
{
	if (state == 'D')
		return why_set(
			why, WPROF_NO_THREAD,
			"no thread of process %d could be stopped: in uninterruptible sleep "
			"(state D), for I/O, a vfork child or a frozen cgroup; try again later",
			pid);
	return why_set(why, WPROF_NO_THREAD,
		       "none of %d threads of process %d could be stopped in time; is its cgroup "
		       "frozen, or the machine overloaded?",
		       n, pid);
}

/* An exiting thread answers EPERM or ESRCH: that one, not the process. */
static bool take_is_over(pid_t pid, pid_t tid)
{
	struct facts facts;

	return facts_read(pid, tid, &facts) || facts.state == 'Z' || facts.state == 'X';
}

/*
 * A pidfd of the thread rather than of its process, where the kernel has it: a
 * leader that has exited has no descriptors any more, its threads do.
 */
static int take_pidfd(pid_t pid, pid_t tid)
{
	int fd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);

	if (fd < 0 && errno == EINVAL)
		fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return fd < 0 ? -errno : fd;
}

/*
 * EPERM is also the answer where the thread has a tracer: -EBUSY with its number.
 * One that is gone when we look for it, as another injection may be, stands in
 * nobody's way: ask again.
 */
static int take_stop(struct tracee *t, uint64_t deadline_ns, pid_t *tracer)
{
	struct facts facts;
	int err = tracee_stop(t, soonest(deadline_ns));

	for (int i = 1; i < STOP_TRIES && err == -EPERM; i++) {
		if (facts_read(t->pid, t->tid, &facts))
			break;
		*tracer = facts.tracer;
		if (facts.tracer)
			return -EBUSY;
		err = tracee_stop(t, soonest(deadline_ns));
	}
	return err;
}

/* 0, -ESRCH: none of these are left, -EAGAIN or a refusal in @why */
static int take_one_of(pid_t pid, const struct thread *threads, int n, uint64_t insn,
		       struct tracee *t, uint64_t deadline_ns, struct wprof_why *why)
{
	pid_t tracer = 0;
	int slow = 0;
	int err;

	for (int i = 0; i < n && clock_ns() < deadline_ns; i++) {
		memset(t, 0, sizeof(*t));
		t->pid = pid;
		t->tid = threads[i].tid;
		t->insn = insn;
		t->suspend_seccomp = threads[i].seccomp != 0;
		t->by_syscall = threads[i].trap_busy;
		t->processor = threads[i].state == 'R' ? facts_processor(pid, t->tid) : -1;
		t->pidfd = take_pidfd(pid, t->tid);
		err = take_stop(t, deadline_ns, &tracer);
		if (!err)
			return 0;
		tracee_forget(t);
		if (err == -ETIMEDOUT)
			slow++;
		else if (err == -EBUSY)
			return facts_traced(pid, tracer, why);
		else if (err == -ESTALE)
			return -ESRCH;
		else if (!take_is_over(pid, t->tid))
			return take_failed(pid, &threads[i], err, why);
	}
	return slow ? take_none(pid, n, threads[0].state, why) : -ESRCH;
}

/* Without one, look again: it may be changing its program. */
static int take_insn(pid_t pid, pid_t tid, bool again, uint64_t *insn, struct wprof_why *why)
{
	int err = facts_insn(tid, insn);

	if (err == -ENOENT && again)
		return -ESRCH;
	switch (err) {
	case 0:
	case -ESRCH:
		return err;
	case -EPERM:
		return facts_denied(pid, tid, why);
	case -ENOENT:
		return why_set(
			why, WPROF_NO_ARCH,
			"no memory of process %d holds a system call instruction of " ARCH_NAME,
			pid);
	}
	return why_system(why, err, "reading the code of process %d", pid);
}

/* Threads end and programs change while we look: then look again. */
int take_thread(pid_t pid, struct tracee *t, uint64_t deadline_ns, struct wprof_why *why)
{
	const uint64_t patience_ns = clock_ns() + INSN_NS;
	struct thread threads[THREADS_MAX];
	uint64_t insn = 0;
	int err;
	int n;

	do {
		err = facts_refuse(pid, why);
		if (err)
			return err;
		n = facts_threads(pid, threads, THREADS_MAX);
		err = n <= 0 ? -ESRCH
			     : take_insn(pid, threads[0].tid, clock_ns() < patience_ns, &insn, why);
		if (!err)
			err = take_one_of(pid, threads, n, insn, t, deadline_ns, why);
		if (err != -ESRCH)
			return err;
	} while (clock_ns() < deadline_ns);
	return why_set(why, WPROF_NO_THREAD,
		       "the threads of process %d come and go too fast to stop one; try again",
		       pid);
}

/* ---- the two calls ---------------------------------------------------------------- */

/* Another thread may have closed it and opened something else meanwhile. */
static bool take_is_same(pid_t pid, int number, int fd)
{
	long ret = syscall(SYS_kcmp, getpid(), pid, KCMP_FILE, fd, number);

	return ret == 0 || (ret < 0 && errno != EBADF);
}

static int take_create(struct tracee *t, uint64_t deadline_ns, long *number)
{
	const long flags = O_CLOEXEC | O_NONBLOCK;
	int err;

	err = tracee_call(t, SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY, deadline_ns, number);
	if (err || *number != -EINVAL)
		return err;
	return tracee_call(t, SYS_userfaultfd, flags, deadline_ns, number);
}

/* ours from here on; no deadline: with the descriptor there, it must go again */
static int take_copy(struct tracee *t, int number, int *uffd)
{
	long ret;
	int err;

	*uffd = (int)syscall(SYS_pidfd_getfd, t->pidfd, number, 0);
	err = *uffd < 0 ? -errno : 0;
	if (!err && !take_is_same(t->tid, number, *uffd))
		return 0;
	if (tracee_call(t, SYS_close, number, 0, &ret))
		return -ESRCH;
	return err;
}

static int take_refused(pid_t pid, int err, struct wprof_why *why)
{
	switch (err) {
	case -ENOSYS:
		return why_set(why, WPROF_NO_KERNEL,
			       "this kernel has no userfaultfd (CONFIG_USERFAULTFD); use another");
	case -EPERM:
		return why_set(why, WPROF_NOT_PERMITTED,
			       "process %d may not create a userfaultfd: a security module, or "
			       "vm.unprivileged_userfaultfd = 0 on a kernel before 5.11",
			       pid);
	case -EMFILE:
		return why_system(why, err,
				  "creating a userfaultfd in process %d, which has used "
				  "all of its descriptors (RLIMIT_NOFILE)",
				  pid);
	}
	return why_system(why, err, "creating a userfaultfd in process %d", pid);
}

static int take_not_copied(pid_t pid, int err, struct wprof_why *why)
{
	if (err == -EPERM)
		return why_set(why, WPROF_NOT_PERMITTED,
			       "pidfd_getfd on process %d is not permitted: a container's seccomp "
			       "filter on this process; run from the host",
			       pid);
	if (err == -ENOSYS)
		return why_set(why, WPROF_NO_KERNEL, "this kernel has no pidfd_getfd (Linux 5.6)");
	return why_system(why, err, "taking the userfaultfd of process %d", pid);
}

static int take_ended(pid_t pid, struct wprof_why *why)
{
	if (facts_refuse(pid, why))
		return why_set(why, WPROF_ENDED, "process %d ended meanwhile", pid);
	return why_set(why, WPROF_EXECED,
		       "process %d ended the thread in use, by exec or exit; try "
		       "again",
		       pid);
}

/* with the thread stopped; *uffd >= 0 on success only */
static int take_stopped(struct tracee *t, int *uffd, int *number, uint64_t deadline_ns,
			struct wprof_why *why)
{
	long ret = 0;
	int err;

	if (t->pidfd < 0)
		return take_not_copied(t->pid, t->pidfd, why);
	err = take_create(t, soonest(deadline_ns), &ret);
	if (err == -ETIMEDOUT)
		return why_set(why, WPROF_NO_THREAD,
			       "thread %d of process %d does not get to run; is its cgroup frozen?",
			       t->tid, t->pid);
	if (err)
		return err == -ESRCH
			       ? err
			       : why_system(why, err, "thread %d of process %d", t->tid, t->pid);
	if (ret < 0)
		return take_refused(t->pid, (int)ret, why);
	*number = (int)ret;
	err = take_copy(t, *number, uffd);
	return err && err != -ESRCH ? take_not_copied(t->pid, err, why) : err;
}

static void take_stats(const struct tracee *t, struct inject_stats *stats)
{
	stats->tid = t->tid;
	stats->stopped_ns = t->let_go_ns - t->stop_ns;
	stats->changed_ns = t->changed ? t->restore_ns - t->change_ns : 0;
	stats->rewound = t->rewound;
	stats->by_syscall = t->by_syscall;
}

int take_uffd(pid_t pid, int *uffd, int *number, uint64_t deadline_ns, struct inject_stats *stats,
	      struct wprof_why *why)
{
	struct tracee t = { .pidfd = -1 };
	int gone;
	int err;

	*uffd = -1;
	err = take_thread(pid, &t, deadline_ns, why);
	if (err)
		return err;
	err = take_stopped(&t, uffd, number, deadline_ns, why);
	gone = tracee_let_go(&t);
	take_stats(&t, stats);
	if (err == -ESRCH || (!err && gone))
		err = take_ended(pid, why);
	if (err && *uffd >= 0) {
		close(*uffd);
		*uffd = -1;
	}
	return err;
}
