/* pool.h - memory that is given back all at once, with a limit. */
#ifndef PCTX_POOL_H
#define PCTX_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool_chunk;

struct pool {
	struct pool_chunk *chunks; /* newest first */
	size_t left;		   /* free bytes at the end of the newest */
	size_t budget;		   /* bytes that may still be taken */
	bool no_memory;		   /* an allocation failed, and not for lack of budget */
};

/** pool_init() - a pool that hands out at most @budget bytes */
void pool_init(struct pool *p, size_t budget);

/** pool_alloc() - zeroed and aligned for anything; NULL: budget or memory is used up */
void *pool_alloc(struct pool *p, size_t len);

/** pool_text() - a copy of @len bytes with a NUL behind them */
char *pool_text(struct pool *p, const char *text, size_t len);

void pool_free(struct pool *p);

#endif /* PCTX_POOL_H */
