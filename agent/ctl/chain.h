/* chain.h - what an earlier attempt at a migration left in the directory of dumps. */
#ifndef CTL_CHAIN_H
#define CTL_CHAIN_H

#include "criu/dump.h"

#define CHAIN_MAX 200u /* dumps of a migration */

/** struct chain_dump - one of them */
struct chain_dump {
	char id[DUMP_ID_MAX + 1];
	struct store_entry entry;
};

/** struct chain - dumps that build on each other, the oldest first */
struct chain {
	struct chain_dump *list;
	size_t n;
	unsigned int number; /* of the last pre-dump: NAME-number */
	bool pending;	     /* the last one is not ready to be sent: ask for it again */
};

/** chain_id() - NAME-3, or with @number 0 NAME-final */
void chain_id(char *id, const char *name, unsigned int number);

/** chain_tail() - "ID/ship" or "ID/full": what is sent of a dump */
void chain_tail(char *tail, size_t room, const struct chain_dump *dump);

/**
 * chain_load() - all dumps that the last one of migration @name builds on
 *
 * Return: success; else @why: there is none, one is missing, or the process was lost.
 */
bool chain_load(const char *images, const char *name, struct chain *chain, char *why, size_t room);

void chain_free(struct chain *chain);

#endif /* CTL_CHAIN_H */
