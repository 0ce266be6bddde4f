#include <stdlib.h>
#include <string.h>

#include "pool.h"

#define POOL_CHUNK ((size_t)4096)
#define POOL_ALIGN _Alignof(max_align_t)

struct pool_chunk {
	struct pool_chunk *older;
	size_t len;
	_Alignas(max_align_t) char data[];
};

void pool_init(struct pool *p, size_t budget)
{
	memset(p, 0, sizeof(*p));
	p->budget = budget;
}

static bool pool_grow(struct pool *p, size_t len)
{
	struct pool_chunk *c;

	if (len < POOL_CHUNK - sizeof(*c))
		len = POOL_CHUNK - sizeof(*c);
	c = malloc(sizeof(*c) + len);
	if (!c) {
		p->no_memory = true;
		return false;
	}
	c->older = p->chunks;
	c->len = len;
	p->chunks = c;
	p->left = len;
	return true;
}

void *pool_alloc(struct pool *p, size_t len)
{
	char *data;

	len = len ? len : 1;
	if (len > p->budget)
		return NULL;
	p->budget -= len;
	len = (len + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
	if (len > p->left && !pool_grow(p, len))
		return NULL;
	data = p->chunks->data + p->chunks->len - p->left;
	p->left -= len;
	return memset(data, 0, len);
}

char *pool_text(struct pool *p, const char *text, size_t len)
{
	char *copy = pool_alloc(p, len + 1);

	return copy ? memcpy(copy, text, len) : NULL;
}

void pool_free(struct pool *p)
{
	while (p->chunks) {
		struct pool_chunk *c = p->chunks;

		p->chunks = c->older;
		free(c);
	}
}
