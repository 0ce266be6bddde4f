/* group.h - the processes that are recorded: one, or a tree of them. */
#ifndef WPROF_TOOL_GROUP_H
#define WPROF_TOOL_GROUP_H

#include "tool/session.h"

/** struct member - one process */
struct member {
	struct target target;
	pid_t parent;
	struct wprof *w; /* NULL: it has ended */
	uint64_t layout; /* hash of the VMAs last written down */
	bool announced;
	int again; /* its pidfd while it is to be opened anew, having executed; or -1 */
	/* of the last interval */
	const struct wprof_interval *iv;
	const struct wprof_region *hot;
	size_t n_hot;
};

/** struct refused - a process that could not be opened: when it is tried again */
struct refused {
	pid_t pid;
	int pidfd;	    /* so that the number means no other */
	uint64_t due, wait; /* intervals: the number of one, and how many */
};

/** struct group - them */
struct group {
	const struct options *o;
	struct member *list;
	size_t n, n_live;
	struct refused *waiting; /* tree_max of them at most */
	size_t n_waiting;
	uint64_t number;   /* of the interval */
	bool execed;	   /* the last one to go runs another program */
	uint64_t refused;  /* processes not followed; each time where there was no room */
	char refusal[240]; /* why, of the first */
};

/**
 * group_open() - begin with @target, which is moved into the group
 *
 * Return: 0, or the exit code: an error has been printed; -1: it has ended.
 */
int group_open(struct group *g, const struct options *o, struct target *target);

/**
 * group_sample() - take an interval of member @i
 *
 * Return: 1: m->iv, m->hot are of this interval; 0: it had ended before; or
 * -errno. When it ends with this interval, m->w is still there: see group_bury().
 */
int group_sample(struct group *g, size_t i);

/** group_bury() - give members up whose last interval has been taken */
void group_bury(struct group *g);

/** group_follow() - with --tree: take children in that were born, or run anew */
void group_follow(struct group *g);

/** group_over() - is there nothing left to profile, now or at the next interval? */
bool group_over(const struct group *g);

/** group_pidfd() - of the only live member; -1 when there are several */
int group_pidfd(const struct group *g);

/** group_print_refused() - say how often a process was not followed, and why, if any */
void group_print_refused(const struct group *g, FILE *f);

void group_close(struct group *g);

#endif /* WPROF_TOOL_GROUP_H */
