/* state.h - what the publisher remembers, under its lock, one for a process */
#ifndef PCTX_STATE_H
#define PCTX_STATE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "header.h"

/** struct slot - memory of its own mapping for one payload */
struct slot {
	uint8_t *data;
	size_t capacity;
	size_t base_size; /* the payload without the key map */
	size_t size;	  /* all of it */
};

/** struct pub - all zero: nothing has been published by this process */
struct pub {
	uint32_t lock;		   /* see state.c */
	pid_t pid;		   /* whose it is, where fork does not wipe it */
	struct ctx_header *header; /* NULL: nothing is published */
	uint64_t last_ns;	   /* the last timestamp, unpublished or not */
	struct slot slots[2];
	unsigned int current; /* the slot the header points to */
};

/**
 * state_lock() - get this process's state, and its lock
 *
 * In a forked child it is all zero, whatever the parent's threads were doing.
 * Return: 0 with *@out set, or -ENOMEM and no lock held.
 */
int state_lock(struct pub **out);

void state_unlock(struct pub *p);

#endif /* PCTX_STATE_H */
