/* context.h - a context in the reader's hands: immutable, counted. */
#ifndef PCTX_CONTEXT_H
#define PCTX_CONTEXT_H

#include <stdatomic.h>
#include <stdint.h>

#include "pctx.h"
#include "pool.h"

/** struct pctx_context - all that it points to lies in its own pool */
struct pctx_context {
	atomic_uint n_refs;
	struct pool pool;
	uint64_t published_at_ns;
	bool detected;
	const struct pctx_attr *resource;
	size_t n_resource;
	const struct pctx_attr *attributes;
	size_t n_attributes;
};

/** context_new() - an empty one whose pool has @budget bytes; NULL: no memory */
struct pctx_context *context_new(size_t budget);

/** context_ref() - one more owner; each calls pctx_context_free() */
struct pctx_context *context_ref(struct pctx_context *context);

#endif /* PCTX_CONTEXT_H */
