/*
 * inject.h - get a userfaultfd of another process (library side).
 */
#ifndef WPROF_INJECT_H
#define WPROF_INJECT_H

#include <stdint.h>
#include <sys/types.h>

#include "wprof.h"

/** struct inject_stats - what an injection did to its target */
struct inject_stats {
	pid_t tid;	     /* the thread that was stopped */
	uint64_t stopped_ns; /* from the request to stop until it was let go */
	uint64_t changed_ns; /* of it, with registers that are not its own */
	uint32_t rewound;    /* 1: a call that never restarts was restarted */
	uint32_t by_syscall; /* 1: stops at system calls, not single steps */
	uint64_t visited_ns; /* the longest that one of n_visited was stopped, as stopped_ns */
	uint32_t n_visited;  /* busy threads stopped once: in a fork? */
	uint32_t n_children; /* children the descriptor was closed in */
};

/**
 * inject_uffd() - a userfaultfd that watches the memory of @pid
 * @pid:	the process; its number as the caller's /proc shows it
 * @injector:	path of wprof-inject; NULL: the environment's
 *		PROCSCOPE_LIBEXEC, the build tree, or where it was installed
 * @uffd_out:	the descriptor, O_CLOEXEC | O_NONBLOCK, the caller's to close.
 *		UFFDIO_API has not been called on it.
 * @stats:	may be NULL
 * @why:	may be NULL; the reason in words
 *
 * Starts libexec/wprof-inject, which stops one thread of @pid and has it run
 * userfaultfd() and close(). Afterwards nobody but the caller holds the
 * descriptor. The caller may be killed at any moment without harm to @pid.
 *
 * MT-Safe, not AS-Safe. Survives fork(): the descriptor is inherited.
 *
 * Return: 0, or the errno that wprof.h lists for @why's reason, or another
 * errno of the system (WPROF_SYSTEM): -EMFILE where the caller or the target
 * has no free descriptor, -ENOMEM, -ETIMEDOUT where no answer came.
 */
WPROF_CHECKED int inject_uffd(pid_t pid, const char *injector, int *uffd_out,
			      struct inject_stats *stats, struct wprof_why *why);

#endif /* WPROF_INJECT_H */
