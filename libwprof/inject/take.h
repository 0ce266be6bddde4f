/*
 * take.h - the injection itself: from a pid to a descriptor.
 */
#ifndef WPROF_INJECT_TAKE_H
#define WPROF_INJECT_TAKE_H

#include <stdint.h>
#include <sys/types.h>

#include "inject.h"
#include "inject/tracee.h"

/**
 * take_thread() - stop the most suitable thread of a process
 * @t:		filled; to be let go by tracee_let_go()
 * @deadline_ns: give up then
 * @why:	the reason of a failure
 *
 * Return: 0, or the errno of @why's reason.
 */
int take_thread(pid_t pid, struct tracee *t, uint64_t deadline_ns, struct wprof_why *why);

/**
 * take_uffd() - have @pid create a userfaultfd and take it
 * @uffd:	ours; @pid holds it no longer
 * @number:	the number it had in @pid
 * @stats, @why: filled
 *
 * Return: 0, or the errno of @why's reason.
 */
int take_uffd(pid_t pid, int *uffd, int *number, uint64_t deadline_ns, struct inject_stats *stats,
	      struct wprof_why *why);

/**
 * settle() - wait until no fork of @pid is half done
 * @skip:	a thread that is known not to fork
 * @stats:	n_visited, visited_ns: threads that were stopped for that
 */
void settle(pid_t pid, pid_t skip, uint64_t deadline_ns, struct inject_stats *stats);

/**
 * copies_close() - close what children of the target have inherited
 * @uffd:	our copy
 * @number:	the number it had in the target, and so in its children
 * @n_closed:	how many had one
 *
 * Looks at every process until none has it; settle() comes first. Return: 0, or
 * the errno of @why's reason: then a process that @why names still holds it.
 */
int copies_close(int uffd, int number, uint64_t deadline_ns, uint32_t *n_closed,
		 struct wprof_why *why);

#endif /* WPROF_INJECT_TAKE_H */
