/*
 * chain.c - find out how far a migration came.
 *
 * There is no journal: the directory of dumps is the truth. A dump bears its name
 * when it is whole, NAME-1, NAME-2 and so on, last NAME-final, and says which one
 * it builds on. So it does not matter where an earlier attempt ended, or whether
 * its agent did.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chain.h"

void chain_id(char *id, const char *name, unsigned int number)
{
	if (number)
		snprintf(id, DUMP_ID_MAX + 1, "%s-%u", name, number);
	else
		snprintf(id, DUMP_ID_MAX + 1, "%s-final", name);
}

void chain_tail(char *tail, size_t room, const struct chain_dump *dump)
{
	snprintf(tail, room, "%s/%s", dump->id,
		 dump->entry.mode == DUMP_WITHHOLD ? "ship" : "full");
}

static bool was_lost(const char *images, const char *name)
{
	char path[PATH_MAX];

	return (size_t)snprintf(path, sizeof(path), "%s/%s-final.lost", images, name) <
		       sizeof(path) &&
	       !access(path, F_OK);
}

/* Also one that CRIU made after its agent was killed: it waits to be taken up. */
static bool find_final(const char *images, const char *name, struct chain_dump *final)
{
	char partial[DUMP_ID_MAX + 16];

	chain_id(final->id, name, 0);
	snprintf(partial, sizeof(partial), "%s.partial", final->id);
	return !store_read(images, final->id, &final->entry) ||
	       (dump_pending(images, final->id) && !store_read(images, partial, &final->entry));
}

/* The newest dump that is whole. A number may be missing: it failed, and was given again. */
static bool find_last(const char *images, const char *name, struct chain *chain,
		      struct chain_dump *last)
{
	struct chain_dump final;
	bool found = false;

	for (unsigned int i = 1; i <= CHAIN_MAX; i++) {
		struct chain_dump d = { .id = "" };

		chain_id(d.id, name, i);
		if (store_read(images, d.id, &d.entry))
			continue;
		*last = d;
		chain->number = i;
		found = true;
	}
	if (find_final(images, name, &final)) {
		*last = final;
		found = true;
	}
	return found;
}

/* From the last one down; the list is the other way round until all are there. */
static bool follow_parents(const char *images, struct chain *chain, char *why, size_t room)
{
	const char *parent = chain->list[0].entry.parent;
	int rc;

	for (chain->n = 1; *parent; chain->n++) {
		struct chain_dump *d = &chain->list[chain->n];

		if (chain->n == CHAIN_MAX) {
			snprintf(why, room, "%s has too many dumps below it", chain->list[0].id);
			return false;
		}
		memcpy(d->id, parent, strlen(parent) + 1);
		rc = store_read(images, d->id, &d->entry);
		if (rc) {
			snprintf(why, room, "dump %s, on which %s builds: %s", d->id,
				 chain->list[chain->n - 1].id, strerror(-rc));
			return false;
		}
		parent = d->entry.parent;
	}
	for (size_t i = 0; i < chain->n / 2; i++) {
		struct chain_dump d = chain->list[i];

		chain->list[i] = chain->list[chain->n - 1 - i];
		chain->list[chain->n - 1 - i] = d;
	}
	return true;
}

bool chain_load(const char *images, const char *name, struct chain *chain, char *why, size_t room)
{
	struct chain_dump last;

	*chain = (struct chain){ .list = calloc(CHAIN_MAX, sizeof(*chain->list)) };
	if (!chain->list) {
		snprintf(why, room, "out of memory");
		return false;
	}
	if (was_lost(images, name)) {
		snprintf(why, room,
			 "the process was lost in the final dump; what CRIU wrote of it is in "
			 "%s/%s-final.lost",
			 images, name);
		return false;
	}
	if (!find_last(images, name, chain, &last)) {
		snprintf(why, room, "no dump of a migration %s in %s", name, images);
		return false;
	}
	chain->list[0] = last;
	chain->pending = dump_pending(images, last.id);
	return follow_parents(images, chain, why, room);
}

void chain_free(struct chain *chain)
{
	free(chain->list);
	*chain = (struct chain){ 0 };
}
