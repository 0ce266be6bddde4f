#ifdef __linux__

#include "arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sys.h"

#define ARENA_CHUNK ((size_t)256 * 1024)
#define ARENA_ALIGN _Alignof(max_align_t)

struct arena_chunk {
	struct arena_chunk *older;
	size_t len;
	_Alignas(max_align_t) char data[];
};

void arena_init(struct arena *a)
{
	a->next = a->first;
	a->left = sizeof(a->first);
	a->chunks = NULL;
}

static bool arena_grow(struct arena *a, size_t len)
{
	struct arena_chunk *c;
	size_t whole = sizeof(*c) + len;

	if (whole < ARENA_CHUNK)
		whole = ARENA_CHUNK;
	c = sys_map(whole, -1);
	if (!c)
		return false;
	c->older = a->chunks;
	c->len = whole;
	a->chunks = c;
	a->next = c->data;
	a->left = whole - sizeof(*c);
	return true;
}

void *arena_alloc(struct arena *a, size_t len)
{
	char *p;

	if (len > SIZE_MAX / 2)
		return NULL;
	len = (len + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
	if (len > a->left && !arena_grow(a, len))
		return NULL;
	p = a->next;
	a->next += len;
	a->left -= len;
	return memset(p, 0, len);
}

void arena_free(struct arena *a)
{
	while (a->chunks) {
		struct arena_chunk *c = a->chunks;

		a->chunks = c->older;
		munmap(c, c->len);
	}
}

#endif /* __linux__ */
