/*
 * tracee.h - one stopped thread that can be made to do a system call.
 */
#ifndef WPROF_INJECT_TRACEE_H
#define WPROF_INJECT_TRACEE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "uapi.h"

/** struct tracee - a thread in our hands; all 0 but @pid to @pidfd */
struct tracee {
	pid_t pid;
	pid_t tid;
	uint64_t insn; /* address of arch_insn in its memory */
	bool suspend_seccomp;
	bool by_syscall; /* stop at system calls: SIGTRAP is in use */
	int processor;	 /* where it runs now; -1: it does not matter */
	int pidfd;	 /* of it, opened before it is stopped; 0: none, or -errno */

	bool foreign;		    /* not a thread of @pid */
	bool rewound;		    /* its call is restarted by hand */
	bool group_stopped;	    /* it was stopped before we came */
	bool changed;		    /* its registers are not its own */
	bool at_syscall;	    /* the last stop was one of a system call */
	int sig;		    /* signal to pass on when it is resumed */
	uint64_t mask;		    /* its own signal mask */
	struct arch_regs regs;	    /* its own registers */
	struct uapi_ptrace_sud sud; /* mode 0: none */
	uint64_t stop_ns;	    /* when it was asked to stop */
	uint64_t change_ns;	    /* when its registers were changed first */
	uint64_t let_go_ns;
	uint64_t restore_ns;
};

/**
 * tracee_realtime() - this program has real-time priority from now on
 *
 * Changes how it waits: it sleeps where it would spin.
 */
void tracee_realtime(void);

/**
 * tracee_stop() - stop it and remember its state
 * @deadline_ns:	give up then
 *
 * Signals that arrive meanwhile reach it. Return: 0; -ESRCH when the thread is
 * gone; -ETIMEDOUT when it did not stop (it is let go when this program ends);
 * -ENOSYS when it runs code of another architecture; -ESTALE when its memory is
 * another one than looked at; -EPERM or another errno of ptrace(2). On error it
 * is not stopped any more, or never was.
 */
int tracee_stop(struct tracee *t, uint64_t deadline_ns);

/**
 * tracee_ask() - the first half of tracee_stop(): do not wait
 *
 * Return: 0 or -errno as tracee_stop().
 */
int tracee_ask(struct tracee *t);

/**
 * tracee_poll() - has it stopped since tracee_ask()?
 *
 * Return: 1 when it has; 0: not yet; -errno as tracee_stop().
 */
int tracee_poll(struct tracee *t);

/**
 * tracee_call() - have it do one system call
 * @deadline_ns:	0: never give up
 *
 * Return: 0 with the kernel's answer in @result; -ESRCH when the thread is
 * gone; -ETIMEDOUT when it did not get to run, in which case the call has not
 * been made.
 */
int tracee_call(struct tracee *t, long nr, long arg, uint64_t deadline_ns, long *result);

/**
 * tracee_forget() - close the pidfd of a thread that is not in our hands
 */
void tracee_forget(struct tracee *t);

/**
 * tracee_let_go() - give it back its state and let it run on
 *
 * Return: 0, or -ESRCH when it is gone.
 */
int tracee_let_go(struct tracee *t);

#endif /* WPROF_INJECT_TRACEE_H */
