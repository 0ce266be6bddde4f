/*
 * facts.h - what /proc says about a target and its threads, and why not.
 */
#ifndef WPROF_INJECT_FACTS_H
#define WPROF_INJECT_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wprof.h"

/** struct facts - of one thread, from its status file */
struct facts {
	char state; /* R, S, D, T, t, Z, X */
	pid_t tgid;
	pid_t tracer;	/* 0: nobody */
	int seccomp;	/* 0 none, 1 strict, 2 filter */
	bool trap_busy; /* SIGTRAP is ignored, blocked or pending */
	bool has_memory;
};

/** struct thread - a candidate; a lower rank is tried first */
struct thread {
	pid_t tid;
	int rank;
	char state;
	int seccomp;
	bool trap_busy;
};

/**
 * facts_read() - of thread @tid of process @pid
 *
 * Return: 0, -ESRCH when there is none, or -errno of reading it.
 */
int facts_read(pid_t pid, pid_t tid, struct facts *facts);

/**
 * facts_refuse() - can @pid be a target at all?
 *
 * Return: 0, or the errno of @why's reason.
 */
int facts_refuse(pid_t pid, struct wprof_why *why);

/** facts_traced() - refuse for @tracer, which may be gone by now. Return: -EBUSY. */
int facts_traced(pid_t pid, pid_t tracer, struct wprof_why *why);

/**
 * facts_denied() - say why the kernel answered EPERM or EACCES
 * @tid:	the thread that was asked for
 *
 * Return: the errno of @why's reason: -EBUSY for a tracer, else -EPERM.
 */
int facts_denied(pid_t pid, pid_t tid, struct wprof_why *why);

/**
 * facts_threads() - threads of @pid in the order of preference
 * @threads:	room for @max of them
 *
 * Looks no further once it has found one that is sure not to notice.
 * Return: their number, or -errno.
 */
int facts_threads(pid_t pid, struct thread *threads, size_t max);

/**
 * facts_processor() - where a thread of an ordinary scheduling policy runs
 *
 * Return: the number of the processor; -1: none to wait beside.
 */
int facts_processor(pid_t pid, pid_t tid);

/**
 * facts_insn() - an address in @tid's memory that holds arch_insn
 * @tid:	a thread that lives: a leader that has ended has no memory
 *
 * Return: 0, -ENOENT when there is none, -EPERM when it may not be read, or
 * another -errno.
 */
int facts_insn(pid_t tid, uint64_t *insn);

#endif /* WPROF_INJECT_FACTS_H */
