/*
 * arch.h - the header of the architecture this is compiled for.
 *
 * Everything the injection needs to know about a processor is in one header,
 * with the same names in each:
 *
 *	ARCH_SUPPORTED			1, or 0: injection is refused by ARCH_NAME
 *	ARCH_NAME
 *	arch_insn[]			the instruction that enters the kernel
 *	struct arch_regs		registers of a stopped thread
 *	arch_regs_get(), arch_regs_set()
 *	arch_call()			registers that make a system call at insn
 *	arch_called()			has that instruction run?
 *	arch_result()			and what did the kernel answer?
 *	arch_ip(), arch_set_ip()
 *	arch_in_call()			did the thread come from a system call?
 *	arch_may_restart()		EINTR that nothing but our stop caused
 *	arch_call_rank()		how well a sleeping call bears a stop
 */
#ifndef WPROF_ARCH_H
#define WPROF_ARCH_H

#if defined(__x86_64__) && !defined(__ILP32__)
#include "arch/x86_64.h"
#else
#include "arch/none.h"
#endif

#endif /* WPROF_ARCH_H */
