/*
 * tracee.c - stop one thread and have it do a system call.
 *
 * Theory of operation
 *
 * The thread goes through these states:
 *
 *	running --SEIZE, INTERRUPT--> stopped --registers--> changed
 *	changed --single step--> called --...--> called
 *	called --registers, mask--> stopped --DETACH--> running
 *
 * SEIZE sends no signal and its stops are not reported to the target's parent.
 * INTERRUPT makes the thread stop on its way back to user space, where nothing
 * of it lives in the kernel but the wish to restart a system call. That wish is
 * the pair (rax = -ERESTART*, orig_rax = number): written back unchanged, the
 * kernel acts on it when the thread leaves the stop, as if it had never been
 * there.
 *
 * Invariants
 *
 * - Nothing is written to the target's memory. The instruction is one it has.
 * - Between "changed" and "stopped" all its signals are blocked, so that they
 *   stay pending in the kernel and are delivered afterwards, each once and in
 *   their order. SIGSTOP cannot be blocked: it is passed on at once, the thread
 *   takes part in the group's stop and we step it out of that.
 * - A signal that was on its way when we came (a signal-delivery-stop before
 *   our own stop) is passed on. We look at that stop without consuming it
 *   (WNOWAIT): if we died here, the kernel would still deliver it.
 * - A single step ends in a SIGTRAP that the kernel forces on the thread. Forced
 *   on a thread that ignores or blocks SIGTRAP, it would also reset the
 *   disposition. Where SIGTRAP is in use (ignored, blocked, pending), the thread
 *   is stopped at entry and exit of the system call instead, which uses no
 *   signal, and once more by INTERRUPT, because only the stop on the way back to
 *   user space is followed by a restart. This costs two more stops a call.
 * - A SIGTRAP of the target's own that arrives while we step is given back:
 *   passed on to a thread that blocks it by now, the kernel queues it again with
 *   its siginfo. From there on we stop at system calls, too.
 * - A thread inside an rseq critical section is sent to its abort handler, which
 *   is what the kernel does to each one that is switched out. This has to be
 *   done by hand: the kernel, finding the thread at our instruction, would take
 *   the section for finished.
 *
 * When this program dies
 *
 * Before "changed" and after the last "stopped" the kernel lets the thread go
 * and nothing has happened. In between the thread would run on at the wrong
 * place with all signals blocked: it dies. That window is struct tracee's
 * change_ns to restore_ns, kept to two steps and what has to be done between
 * them; docs/injection.md has the figures. When the caller of the library dies,
 * nothing happens at all: this program finishes its work and the descriptor goes
 * with it.
 */
#include <elf.h>
#include <errno.h>
#include <linux/rseq.h>
#include <sched.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject/clock.h"
#include "inject/tracee.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif
#define TRACE_SUSPEND_SECCOMP (1u << 21) /* PTRACE_O_SUSPEND_SECCOMP, 4.3 */

#define SYSCALL_STOP (SIGTRAP | 0x80) /* PTRACE_O_TRACESYSGOOD */

/*
 * Spin that long for a stop, alone, then with sched_yield(), then sleep. A spinning
 * program of real-time priority would keep the thread it waits for from the
 * processor, and is woken at once: it sleeps in the wait itself. Spinning on another
 * processor than the thread's was tried: the two steps took 115 us instead of 66.
 */
#define SPIN_NS	 (50 * NS_PER_US)
#define YIELD_NS (250 * NS_PER_US)
#define TICK_US	 20000 /* such a wait looks at its deadline that often */

static bool realtime;

static void tick(int sig)
{
	(void)sig;
}

/* Without SA_RESTART: the only purpose is to interrupt a wait. */
void tracee_realtime(void)
{
	const struct sigaction act = { .sa_handler = tick };
	const struct itimerval every = { { 0, TICK_US }, { 0, TICK_US } };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	realtime = !sigaction(SIGALRM, &act, NULL) && !setitimer(ITIMER_REAL, &every, NULL) &&
		   !sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/** struct stop - why a thread stopped */
struct stop {
	int sig;
	int event; /* PTRACE_EVENT_STOP, or 0: a signal */
};

static int trace(int request, pid_t tid, uintptr_t addr, uintptr_t data)
{
	return ptrace(request, tid, (void *)addr, (void *)data) ? -errno : 0;
}

/* 1: it stopped; 0: it runs (WNOHANG); -ESRCH: it is gone; -EINTR */
static int stop_look(pid_t tid, int flags, struct stop *stop)
{
	siginfo_t info;

	info.si_pid = 0;
	if (waitid(P_PID, (id_t)tid, &info, WSTOPPED | WEXITED | __WALL | flags))
		return errno == ECHILD ? -ESRCH : -errno;
	if (!info.si_pid)
		return 0;
	if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
		return -ESRCH;
	stop->sig = info.si_status & 0xff;
	stop->event = info.si_status >> 8;
	return 1;
}

/* SIGCHLD is blocked, so that one that came before we sleep still wakes us. */
static void stop_sleep(uint64_t deadline_ns, uint64_t now_ns)
{
	uint64_t left = deadline_ns ? deadline_ns - now_ns : NS_PER_S;
	struct timespec ts = { (time_t)(left / NS_PER_S), (long)(left % NS_PER_S) };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigtimedwait(&set, NULL, &ts);
}

/* between two looks: spin, then yield, then sleep; -ETIMEDOUT (0: never) */
static int stop_backoff(uint64_t start_ns, uint64_t deadline_ns)
{
	uint64_t now = clock_ns();

	if (deadline_ns && now >= deadline_ns)
		return -ETIMEDOUT;
	if (now - start_ns > SPIN_NS + YIELD_NS)
		stop_sleep(deadline_ns, now);
	else if (now - start_ns > SPIN_NS)
		sched_yield();
	return 0;
}

/* One step of the wait: as stop_look() */
static int stop_wait_once(pid_t tid, int flags, uint64_t start_ns, uint64_t deadline_ns,
			  struct stop *stop)
{
	int ret = stop_look(tid, realtime ? flags : flags | WNOHANG, stop);

	if (ret != 0 && ret != -EINTR)
		return ret;
	if (!realtime)
		return stop_backoff(start_ns, deadline_ns);
	return deadline_ns && clock_ns() >= deadline_ns ? -ETIMEDOUT : 0;
}

/* @flags: WNOWAIT or 0. 0, -ESRCH, -ETIMEDOUT */
static int stop_wait(pid_t tid, int flags, uint64_t deadline_ns, struct stop *stop)
{
	uint64_t start = clock_ns();
	int ret;

	do
		ret = stop_wait_once(tid, flags, start, deadline_ns, stop);
	while (!ret);
	return ret < 0 ? ret : 0;
}

static bool stop_is_trap(const struct stop *stop)
{
	return stop->event == PTRACE_EVENT_STOP;
}

/* ---- rseq, user dispatch, mask ------------------------------------------------ */

static int peek(pid_t tid, uint64_t addr, uint64_t *value)
{
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, tid, (void *)(uintptr_t)addr, NULL);
	if (errno)
		return -errno;
	*value = (uint64_t)word;
	return 0;
}

/* Where is the thread to go on that has to leave its critical section? */
static uint64_t rseq_ip(pid_t tid, uint64_t ip)
{
	uint64_t section = 0, start = 0, length = 0, abort_ip = 0;
	struct uapi_ptrace_rseq conf;

	if (ptrace(UAPI_PTRACE_GET_RSEQ, tid, sizeof(conf), &conf) <= 0)
		return ip;
	if (!conf.rseq_abi_pointer)
		return ip;
	if (peek(tid, conf.rseq_abi_pointer + offsetof(struct rseq, rseq_cs), &section) || !section)
		return ip;
	if (peek(tid, section + offsetof(struct rseq_cs, start_ip), &start) ||
	    peek(tid, section + offsetof(struct rseq_cs, post_commit_offset), &length) ||
	    peek(tid, section + offsetof(struct rseq_cs, abort_ip), &abort_ip))
		return ip;
	return ip - start < length ? abort_ip : ip;
}

static void sud_off(struct tracee *t)
{
	struct uapi_ptrace_sud off = { 0 };

	if (ptrace(UAPI_PTRACE_GET_SUD, t->tid, sizeof(t->sud), &t->sud))
		t->sud.mode = 0; /* a kernel that cannot tell */
	if (t->sud.mode)
		ptrace(UAPI_PTRACE_SET_SUD, t->tid, sizeof(off), &off);
}

static void sud_on(struct tracee *t)
{
	if (t->sud.mode)
		ptrace(UAPI_PTRACE_SET_SUD, t->tid, sizeof(t->sud), &t->sud);
}

static int mask_set(pid_t tid, uint64_t mask)
{
	return trace(PTRACE_SETSIGMASK, tid, sizeof(mask), (uintptr_t)&mask);
}

/* ---- stopping ------------------------------------------------------------------ */

/* Is that a thread of the process we looked at, with that memory? */
static int tracee_verify(const struct tracee *t)
{
	unsigned char word[sizeof(uint64_t)];
	uint64_t value;
	int err;

	if (t->foreign)
		return -ESRCH;
	err = peek(t->tid, t->insn, &value);
	if (err)
		return err == -EIO || err == -EFAULT ? -ESTALE : err;
	memcpy(word, &value, sizeof(word));
	return memcmp(word, arch_insn, sizeof(arch_insn)) ? -ESTALE : 0;
}

static int tracee_remember(struct tracee *t)
{
	int err;

	err = arch_regs_get(t->tid, &t->regs);
	if (err)
		return err;
	err = trace(PTRACE_GETSIGMASK, t->tid, sizeof(t->mask), (uintptr_t)&t->mask);
	if (err)
		return err;
	if (!arch_in_call(&t->regs))
		arch_set_ip(&t->regs, rseq_ip(t->tid, arch_ip(&t->regs)));
	else if (!t->group_stopped)
		t->rewound = arch_may_restart(&t->regs);
	return 0;
}

/* 1: that is the stop we asked for; 0: it was a signal, which is passed on */
static int tracee_trapped(struct tracee *t, const struct stop *stop)
{
	if (!stop_is_trap(stop))
		return trace(PTRACE_CONT, t->tid, 0, (uintptr_t)stop->sig);
	t->group_stopped = stop->sig != SIGTRAP;
	return 1;
}

static unsigned int tracee_options(const struct tracee *t)
{
	unsigned int options = PTRACE_O_TRACESYSGOOD;

	if (t->suspend_seccomp)
		options |= TRACE_SUSPEND_SECCOMP;
	return options;
}

/*
 * The number of a seized thread is not given to another one before we have waited
 * for it: whose thread it is can be asked while it still runs. Being refused is an
 * answer too: who may trace need not have CAP_KILL.
 */
int tracee_ask(struct tracee *t)
{
	int err;

	err = trace(PTRACE_SEIZE, t->tid, 0, tracee_options(t));
	if (err)
		return err;
	t->foreign = syscall(SYS_tgkill, t->pid, t->tid, 0) && errno == ESRCH;
	t->stop_ns = clock_ns();
	return trace(PTRACE_INTERRUPT, t->tid, 0, 0);
}

/* It has stopped: for us? 1: yes, and its state is known; 0: go on waiting */
static int tracee_stopped(struct tracee *t, const struct stop *stop)
{
	int ret = tracee_trapped(t, stop);

	if (ret <= 0)
		return ret;
	ret = tracee_verify(t);
	if (!ret)
		ret = tracee_remember(t);
	if (ret)
		trace(PTRACE_DETACH, t->tid, 0, 0);
	return ret ? ret : 1;
}

int tracee_poll(struct tracee *t)
{
	struct stop stop = { 0 };
	int ret = stop_look(t->tid, WNOWAIT | WNOHANG, &stop);

	return ret > 0 ? tracee_stopped(t, &stop) : ret;
}

/*
 * Go to the processor of a running thread. Being ahead of it, this program takes its
 * place there and gives it back by each wait: a stop is a switch between two tasks
 * and needs no interrupt from one processor to another (docs/injection.md has the
 * figures). It stays there unbound, as a task of real-time priority does: so the
 * kernel may move it on when something more urgent comes.
 */
static void tracee_approach(const struct tracee *t)
{
	cpu_set_t all, one;

	if (!realtime || t->processor < 0 || t->processor >= CPU_SETSIZE ||
	    sched_getaffinity(0, sizeof(all), &all) || !CPU_ISSET(t->processor, &all))
		return;
	CPU_ZERO(&one);
	CPU_SET(t->processor, &one);
	if (!sched_setaffinity(0, sizeof(one), &one) && sched_setaffinity(0, sizeof(all), &all))
		errno = 0; /* nothing is lost by it */
}

int tracee_stop(struct tracee *t, uint64_t deadline_ns)
{
	struct stop stop = { 0 };
	int ret;

	tracee_approach(t);
	ret = tracee_ask(t);
	while (!ret) {
		ret = stop_wait(t->tid, WNOWAIT, deadline_ns, &stop);
		if (!ret)
			ret = tracee_stopped(t, &stop);
	}
	return ret < 0 ? ret : 0;
}

/* ---- calling ------------------------------------------------------------------- */

/* all signals but the one that ends a step */
static int tracee_block(const struct tracee *t)
{
	return mask_set(t->tid, t->by_syscall ? ~0ull : ~(1ull << (SIGTRAP - 1)));
}

/* 1: the instruction has run; 0: not yet; -errno */
static int tracee_ran(const struct tracee *t, struct arch_regs *regs)
{
	int err = arch_regs_get(t->tid, regs);

	return err ? err : arch_called(regs, t->insn);
}

static int tracee_resume(struct tracee *t, int request)
{
	int sig = t->sig;

	t->sig = 0;
	t->at_syscall = false;
	return trace(request, t->tid, 0, (uintptr_t)sig);
}

/* A SIGTRAP that is not the kernel's: the step did not cause it. */
static int tracee_own_trap(struct tracee *t)
{
	siginfo_t info;

	if (ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &info))
		return -errno;
	if (info.si_code > 0)
		return 0;
	t->by_syscall = true;
	t->sig = SIGTRAP;
	return tracee_block(t);
}

/*
 * What does this stop of a stepped thread mean? A stop of its group (or the end
 * of one) may come between the instruction and its SIGTRAP: that has to be seen
 * first, or the thread would get it. 1: has run; 0: resume it; -errno.
 */
static int step_stopped(struct tracee *t, const struct stop *stop, struct arch_regs *regs)
{
	int err;

	if (stop_is_trap(stop))
		return 0;
	if (stop->sig != SIGTRAP) {
		t->sig = stop->sig;
		return 0;
	}
	err = tracee_own_trap(t);
	return err ? err : tracee_ran(t, regs);
}

static int step_once(struct tracee *t, uint64_t deadline_ns, struct arch_regs *regs)
{
	struct stop stop = { 0 };
	int err;

	err = tracee_resume(t, PTRACE_SINGLESTEP);
	if (!err)
		err = stop_wait(t->tid, 0, deadline_ns, &stop);
	return err ? err : step_stopped(t, &stop, regs);
}

/*
 * What does this stop of a thread that stops at calls mean? As step_stopped(). The
 * stop at entry has the instruction pointer behind the instruction already; so has
 * the one at exit, which comes second.
 */
static int syscall_stopped(struct tracee *t, const struct stop *stop, int *entered,
			   struct arch_regs *regs)
{
	if (stop_is_trap(stop))
		return 0;
	t->at_syscall = stop->sig == SYSCALL_STOP;
	if (t->at_syscall)
		return (*entered)++ ? tracee_ran(t, regs) : 0;
	t->sig = stop->sig;
	return 0;
}

static int syscall_once(struct tracee *t, int *entered, uint64_t deadline_ns,
			struct arch_regs *regs)
{
	struct stop stop = { 0 };
	int err;

	err = tracee_resume(t, PTRACE_SYSCALL);
	if (!err)
		err = stop_wait(t->tid, 0, *entered ? 0 : deadline_ns, &stop);
	return err ? err : syscall_stopped(t, &stop, entered, regs);
}

/*
 * It did not get to run (a frozen cgroup, a machine without time). Stop it
 * where it is; this works on a frozen thread too. 1: it has run after all;
 * 0: it has run, but its SIGTRAP is still to come; -ETIMEDOUT: it has not.
 */
static int tracee_give_up(struct tracee *t, int *entered, struct arch_regs *regs)
{
	struct stop stop = { 0 };
	int ret;

	ret = trace(PTRACE_INTERRUPT, t->tid, 0, 0);
	if (!ret)
		ret = stop_wait(t->tid, 0, 0, &stop);
	while (!ret && !stop_is_trap(&stop)) {
		ret = t->by_syscall ? syscall_stopped(t, &stop, entered, regs)
				    : step_stopped(t, &stop, regs);
		if (!ret)
			ret = tracee_resume(t, t->by_syscall ? PTRACE_SYSCALL : PTRACE_SINGLESTEP);
		if (!ret)
			ret = stop_wait(t->tid, 0, 0, &stop);
	}
	if (ret)
		return ret;
	ret = tracee_ran(t, regs);
	if (ret < 0)
		return ret;
	return ret ? 0 : -ETIMEDOUT;
}

static int tracee_run(struct tracee *t, uint64_t deadline_ns, struct arch_regs *regs)
{
	int entered = 0;
	int ret;

	do {
		if (t->by_syscall)
			ret = syscall_once(t, &entered, deadline_ns, regs);
		else
			ret = step_once(t, deadline_ns, regs);
		if (ret != -ETIMEDOUT)
			continue;
		ret = tracee_give_up(t, &entered, regs);
		deadline_ns = 0;
	} while (!ret);
	return ret < 0 ? ret : 0;
}

int tracee_call(struct tracee *t, long nr, long arg, uint64_t deadline_ns, long *result)
{
	struct arch_regs regs = t->regs;
	int err;

	if (!t->changed) {
		sud_off(t);
		t->change_ns = clock_ns();
		t->changed = true;
		err = tracee_block(t);
		if (err)
			return err;
	}
	arch_call(&regs, t->insn, nr, arg);
	err = arch_regs_set(t->tid, &regs);
	if (!err)
		err = tracee_run(t, deadline_ns, &regs);
	if (!err)
		*result = arch_result(&regs);
	return err;
}

/* ---- letting go ------------------------------------------------------------------ */

/* Only a stop on the way back to user space is followed by a restart. */
static int tracee_leave_call(struct tracee *t)
{
	struct stop stop = { 0 };
	int err;

	err = trace(PTRACE_INTERRUPT, t->tid, 0, 0);
	do {
		if (!err)
			err = tracee_resume(t, PTRACE_CONT);
		if (!err)
			err = stop_wait(t->tid, 0, 0, &stop);
		if (!err && !stop_is_trap(&stop))
			t->sig = stop.sig;
	} while (!err && !stop_is_trap(&stop));
	return err;
}

static int tracee_restore(struct tracee *t)
{
	int err = 0;

	if (t->at_syscall || t->sig)
		err = tracee_leave_call(t);
	if (!err)
		err = arch_regs_set(t->tid, &t->regs);
	if (!err)
		err = mask_set(t->tid, t->mask);
	t->restore_ns = clock_ns();
	sud_on(t);
	return err;
}

void tracee_forget(struct tracee *t)
{
	if (t->pidfd > 0)
		close(t->pidfd);
	t->pidfd = 0;
}

int tracee_let_go(struct tracee *t)
{
	int err = 0;

	if (t->changed || t->rewound)
		err = tracee_restore(t);
	if (!err)
		err = trace(PTRACE_DETACH, t->tid, 0, 0);
	t->let_go_ns = clock_ns();
	tracee_forget(t);
	return err;
}
