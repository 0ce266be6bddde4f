/*
 * x86_64.h - what injection needs to know about x86-64 (see arch.h).
 */
#ifndef WPROF_ARCH_X86_64_H
#define WPROF_ARCH_X86_64_H

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>

#define ARCH_SUPPORTED 1
#define ARCH_NAME      "x86-64"

/* The kernel's own value for "restart, but EINTR where a handler runs". */
#define ARCH_ERESTARTNOHAND 514

#define ARCH_EFLAGS_TF 0x100u

static const unsigned char arch_insn[] = { 0x0f, 0x05 }; /* syscall */

struct arch_regs {
	struct user_regs_struct user;
};

/*
 * The kernel answers with the registers of the mode the thread runs in: a
 * shorter set means that it runs 32-bit code. Return: 0, -ENOSYS for such a
 * thread, or -errno of ptrace.
 */
static inline int arch_regs_get(pid_t tid, struct arch_regs *regs)
{
	struct iovec iov = { &regs->user, sizeof(regs->user) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov))
		return -errno;
	return iov.iov_len == sizeof(regs->user) ? 0 : -ENOSYS;
}

static inline int arch_regs_set(pid_t tid, const struct arch_regs *regs)
{
	struct iovec iov = { (void *)(uintptr_t)&regs->user, sizeof(regs->user) };

	return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov) ? -errno : 0;
}

/* orig_rax -1: what is being stopped here is no call to restart */
static inline void arch_call(struct arch_regs *regs, uint64_t insn, long nr, long arg)
{
	regs->user.rip = insn;
	regs->user.rax = (unsigned long)nr;
	regs->user.rdi = (unsigned long)arg;
	regs->user.orig_rax = (unsigned long)-1;
	regs->user.eflags &= ~(unsigned long)ARCH_EFLAGS_TF;
}

static inline bool arch_called(const struct arch_regs *regs, uint64_t insn)
{
	return regs->user.rip == insn + sizeof(arch_insn);
}

static inline long arch_result(const struct arch_regs *regs)
{
	return (long)regs->user.rax;
}

static inline uint64_t arch_ip(const struct arch_regs *regs)
{
	return regs->user.rip;
}

static inline void arch_set_ip(struct arch_regs *regs, uint64_t ip)
{
	regs->user.rip = ip;
}

static inline bool arch_in_call(const struct arch_regs *regs)
{
	return (long)regs->user.orig_rax >= 0;
}

/*
 * Calls that answer EINTR to any stop, be it one of ours. Nothing has been
 * consumed when they do, so that running them again is safe; close() is not
 * among them for that reason.
 */
static inline bool arch_answers_eintr(long nr)
{
	switch (nr) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_io_uring_enter:
		return true;
	}
	return false;
}

/*
 * Calls that answer EINTR where their socket has a timeout, and those that do so
 * where the kernel cannot write back the time that is left.
 */
static inline bool arch_may_answer_eintr(long nr)
{
	switch (nr) {
	case SYS_read:
	case SYS_readv:
	case SYS_write:
	case SYS_writev:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
	case SYS_select:
	case SYS_pselect6:
	case SYS_ppoll:
		return true;
	}
	return false;
}

/*
 * Turn an EINTR that only the stop caused into the kernel's request to restart
 * the call. The kernel then decides when the thread goes on: no handler to run,
 * and the call is made again; a handler, and it answers EINTR. That is what
 * the thread would have seen without us, except for a timeout that starts anew.
 */
static inline bool arch_may_restart(struct arch_regs *regs)
{
	long nr = (long)regs->user.orig_rax;

	if (arch_result(regs) != -EINTR)
		return false;
	if (!arch_answers_eintr(nr) && !arch_may_answer_eintr(nr))
		return false;
	regs->user.rax = (unsigned long)-ARCH_ERESTARTNOHAND;
	return true;
}

/* 0: restarts by itself, to its old deadline; 1: most likely; 2: never */
static inline int arch_call_rank(long nr)
{
	switch (nr) {
	case SYS_futex:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_restart_syscall:
		return 0;
	}
	return arch_answers_eintr(nr) ? 2 : 1;
}

#endif /* WPROF_ARCH_X86_64_H */
