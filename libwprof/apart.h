/* apart.h - a program of its own session: what is sent to the caller's group or
 * terminal misses it. */
#ifndef WPROF_APART_H
#define WPROF_APART_H

#include <signal.h>
#include <spawn.h>

/**
 * apart_attr() - attributes of a program in its own session, all signals by default
 * @blocked: the signals it starts with blocked
 *
 * Return: 0, or the error number of posix_spawnattr_*().
 */
static inline int apart_attr(posix_spawnattr_t *attr, const sigset_t *blocked)
{
	sigset_t all;
	int err;

	sigfillset(&all);
	err = posix_spawnattr_setsigmask(attr, blocked);
	if (!err)
		err = posix_spawnattr_setsigdefault(attr, &all);
	if (!err)
		err = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
							     POSIX_SPAWN_SETSIGDEF);
	return err;
}

#endif /* WPROF_APART_H */
