#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

struct pctx_context *context_new(size_t budget)
{
	struct pctx_context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	atomic_init(&context->n_refs, 1);
	pool_init(&context->pool, budget);
	return context;
}

struct pctx_context *context_ref(struct pctx_context *context)
{
	atomic_fetch_add_explicit(&context->n_refs, 1, memory_order_relaxed);
	return context;
}

void pctx_context_free(struct pctx_context *context)
{
	int saved = errno;

	if (!context)
		return;
	if (atomic_fetch_sub_explicit(&context->n_refs, 1, memory_order_acq_rel) == 1) {
		pool_free(&context->pool);
		free(context);
	}
	errno = saved;
}

const struct pctx_attr *pctx_context_resource(const struct pctx_context *context, size_t *n)
{
	*n = context->n_resource;
	return context->resource;
}

const struct pctx_attr *pctx_context_attributes(const struct pctx_context *context, size_t *n)
{
	*n = context->n_attributes;
	return context->attributes;
}

uint64_t pctx_context_published_at_ns(const struct pctx_context *context)
{
	return context->published_at_ns;
}

bool pctx_context_detected(const struct pctx_context *context)
{
	return context->detected;
}

static const struct pctx_attr *find(const struct pctx_attr *attrs, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(attrs[i].key, key) == 0)
			return &attrs[i];
	}
	return NULL;
}

const struct pctx_attr *pctx_context_find(const struct pctx_context *context, const char *key)
{
	const struct pctx_attr *attr = find(context->resource, context->n_resource, key);

	return attr ? attr : find(context->attributes, context->n_attributes, key);
}
