/* members.h - the processes that are profiled: one, or a tree of them. */
#ifndef AGENT_MEMBERS_H
#define AGENT_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wprof.h"

#define MEMBERS_MAX 64 /* a fork bomb must not take the agent with it */

/** struct member - one of them */
struct member {
	pid_t pid;
	struct wprof *w;
	const struct wprof_interval *interval; /* the last; NULL: failed */
	const struct wprof_region *hot;
	size_t n_hot;
};

/** struct members - all of them; for one thread */
struct members {
	struct wprof_opts opts;
	bool tree;
	struct member list[MEMBERS_MAX];
	size_t n;
	char ended[160]; /* how the last one went */
};

/** members_open() - profile @pid; @members->opts and ->tree are set. 0 or -errno */
int members_open(struct members *members, pid_t pid, struct wprof_why *why);

/**
 * members_sample() - end an interval of each
 *
 * Those that end with it keep their figures until members_follow().
 */
void members_sample(struct members *members);

/** members_follow() - give up those that have ended, take in new children.
 * Return: are there any left? */
bool members_follow(struct members *members);

void members_close(struct members *members);

#endif /* AGENT_MEMBERS_H */
