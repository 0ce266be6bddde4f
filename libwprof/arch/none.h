/*
 * none.h - an architecture that injection does not know: refused by name.
 */
#ifndef WPROF_ARCH_NONE_H
#define WPROF_ARCH_NONE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ARCH_SUPPORTED 0

#if defined(__aarch64__)
#define ARCH_NAME "arm64"
#elif defined(__riscv)
#define ARCH_NAME "riscv"
#elif defined(__x86_64__)
#define ARCH_NAME "x32"
#elif defined(__i386__)
#define ARCH_NAME "i386"
#else
#define ARCH_NAME "this architecture"
#endif

static const unsigned char arch_insn[] = { 0 };

struct arch_regs {
	uint64_t ip;
};

static inline int arch_regs_get(pid_t tid, struct arch_regs *regs)
{
	(void)tid;
	regs->ip = 0;
	return -ENOSYS;
}

static inline int arch_regs_set(pid_t tid, const struct arch_regs *regs)
{
	(void)tid;
	(void)regs;
	return -ENOSYS;
}

static inline void arch_call(struct arch_regs *regs, uint64_t insn, long nr, long arg)
{
	(void)nr;
	(void)arg;
	regs->ip = insn;
}

static inline bool arch_called(const struct arch_regs *regs, uint64_t insn)
{
	return regs->ip != insn;
}

static inline long arch_result(const struct arch_regs *regs)
{
	(void)regs;
	return -ENOSYS;
}

static inline uint64_t arch_ip(const struct arch_regs *regs)
{
	return regs->ip;
}

static inline void arch_set_ip(struct arch_regs *regs, uint64_t ip)
{
	regs->ip = ip;
}

static inline bool arch_in_call(const struct arch_regs *regs)
{
	(void)regs;
	return false;
}

static inline bool arch_may_restart(struct arch_regs *regs)
{
	(void)regs;
	return false;
}

static inline int arch_call_rank(long nr)
{
	(void)nr;
	return 0;
}

#endif /* WPROF_ARCH_NONE_H */
