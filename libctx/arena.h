/*
 * arena.h - memory for one call, given back at once.
 *
 * It never calls malloc: a first part lies where the arena does (the stack),
 * more comes from mmap. So the publisher works in a fork handler of a program
 * whose allocator still holds its locks.
 */
#ifndef PCTX_ARENA_H
#define PCTX_ARENA_H

#include <stddef.h>

struct arena_chunk;

struct arena {
	char *next; /* free memory of the newest chunk */
	size_t left;
	struct arena_chunk *chunks; /* of mmap, newest first */
	_Alignas(max_align_t) char first[4096];
};

void arena_init(struct arena *a);

/** arena_alloc() - @len bytes, zeroed and aligned for anything; NULL: no memory */
void *arena_alloc(struct arena *a, size_t len);

void arena_free(struct arena *a);

#endif /* PCTX_ARENA_H */
