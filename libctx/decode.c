#ifdef __linux__

#include <errno.h>
#include <string.h>

#include "decode.h"
#include "pb.h"
#include "wire.h"

/*
 * Two bytes can be an empty KeyValue: a struct and a pointer of protobuf-c's, a
 * slot of its list of members, a struct pctx_attr. Measured: 44 bytes for one.
 */
#define BUDGET_FACTOR 256
#define BUDGET_BASE   65536

static void *unpack_alloc(void *pool, size_t len)
{
	return pool_alloc(pool, len);
}

static void unpack_free(void *pool, void *data)
{
	/* all at once, with the context */
	(void)pool;
	(void)data;
}

/* All recursion here is as deep as wire_prepare() let the payload be. */
static bool attrs_convert(struct pool *p, pb_kv *const *from, size_t n,
			  const struct pctx_attr **out);

static bool values_convert(struct pool *p, pb_any *const *from, size_t n,
			   const struct pctx_value **out);

static bool array_convert(struct pool *p, const pb_array *from, struct pctx_value *to)
{
	to->kind = PCTX_ARRAY;
	to->u.array.n = from ? from->n_values : 0;
	return values_convert(p, from ? from->values : NULL, to->u.array.n, &to->u.array.values);
}

static bool kvlist_convert(struct pool *p, const pb_kvlist *from, struct pctx_value *to)
{
	to->kind = PCTX_KVLIST;
	to->u.kvlist.n = from ? from->n_values : 0;
	return attrs_convert(p, from ? from->values : NULL, to->u.kvlist.n, &to->u.kvlist.attrs);
}

static bool value_convert(struct pool *p, const pb_any *from, struct pctx_value *to)
{
	to->kind = PCTX_EMPTY;
	switch (from ? from->value_case : PB_ANY(_NOT_SET)) {
	case PB_ANY(STRING_VALUE):
		to->kind = PCTX_STRING;
		to->u.string.data = from->string_value;
		to->u.string.len = strlen(from->string_value);
		return true;
	case PB_ANY(BOOL_VALUE):
		to->kind = PCTX_BOOL;
		to->u.boolean = from->bool_value;
		return true;
	case PB_ANY(INT_VALUE):
		to->kind = PCTX_INT;
		to->u.integer = from->int_value;
		return true;
	case PB_ANY(DOUBLE_VALUE):
		to->kind = PCTX_DOUBLE;
		to->u.number = from->double_value;
		return true;
	case PB_ANY(BYTES_VALUE):
		to->kind = PCTX_BYTES;
		to->u.bytes.data = from->bytes_value.data;
		to->u.bytes.len = from->bytes_value.len;
		return true;
	case PB_ANY(ARRAY_VALUE):
		return array_convert(p, from->array_value, to);
	case PB_ANY(KVLIST_VALUE):
		return kvlist_convert(p, from->kvlist_value, to);
	default:
		return true; /* none, or an index into a table there is not */
	}
}

static bool values_convert(struct pool *p, pb_any *const *from, size_t n,
			   const struct pctx_value **out)
{
	struct pctx_value *values = n ? pool_alloc(p, n * sizeof(*values)) : NULL;

	if (n && !values)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!value_convert(p, from[i], &values[i]))
			return false;
	}
	*out = values;
	return true;
}

static bool attrs_convert(struct pool *p, pb_kv *const *from, size_t n,
			  const struct pctx_attr **out)
{
	struct pctx_attr *attrs = n ? pool_alloc(p, n * sizeof(*attrs)) : NULL;

	if (n && !attrs)
		return false;
	for (size_t i = 0; i < n; i++) {
		attrs[i].key = from[i]->key;
		if (!value_convert(p, from[i]->value, &attrs[i].value))
			return false;
	}
	*out = attrs;
	return true;
}

static bool context_convert(struct pctx_context *c, const pb_context *from)
{
	const pb_resource *resource = from->resource;

	if (resource)
		c->n_resource = resource->n_attributes;
	if (resource && !attrs_convert(&c->pool, resource->attributes, c->n_resource, &c->resource))
		return false;
	c->n_attributes = from->n_attributes;
	return attrs_convert(&c->pool, from->attributes, c->n_attributes, &c->attributes);
}

static int unpack(struct pctx_context *c, const void *payload, size_t len)
{
	ProtobufCAllocator allocator = { unpack_alloc, unpack_free, &c->pool };
	uint8_t *copy = (uint8_t *)pool_text(&c->pool, payload, len);
	pb_context *message;
	int rc;

	if (!copy)
		return -ENOMEM;
	rc = wire_prepare(copy, len);
	if (rc)
		return rc;
	message = pb_context_unpack(&allocator, len, copy);
	if (message && context_convert(c, message))
		return 0;
	return c->pool.no_memory ? -ENOMEM : -EBADMSG;
}

int decode_context(const void *payload, size_t len, struct pctx_context **out)
{
	struct pctx_context *c = context_new(BUDGET_BASE + len * BUDGET_FACTOR);
	int rc;

	if (!c)
		return -ENOMEM;
	rc = unpack(c, payload, len);
	if (rc)
		pctx_context_free(c);
	else
		*out = c;
	return rc;
}

#endif /* __linux__ */
