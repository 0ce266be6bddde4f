/* target.h - which process a request means. */
#ifndef AGENT_TARGET_H
#define AGENT_TARGET_H

#include <stddef.h>
#include <sys/types.h>

#define TARGET_NAME_MAX 1024 /* bytes of a service name that is looked for */

/** struct target_query - the first that is set counts */
struct target_query {
	pid_t pid;
	char service_name[TARGET_NAME_MAX + 1];
};

/** target_default() - what the daemon was told: a pid, or a command name, or none
 * @comm: not copied */
void target_default(pid_t pid, const char *comm);

/**
 * target_find() - the one process that is meant
 * @why: @room bytes; why there is none, on one line
 *
 * A pid counts in the agent's PID namespace; where that has no such process, as
 * the innermost number that a container gave one (NSpid).
 *
 * Return: 0 and *@pid; -ESRCH: none; -EEXIST: several; or what libctx said.
 */
int target_find(const struct target_query *query, pid_t *pid, char *why, size_t room);

#endif /* AGENT_TARGET_H */
