/*
 * Theory of operation
 *
 * The caller's attributes are a tree of views. One walk checks it and builds
 * the same tree of protobuf-c messages in an arena; packing those afterwards
 * cannot fail, so that a failing publish has touched nothing.
 *
 * protobuf-c knows no limits: it recurses as deep as the messages do, adds
 * sizes without a check and packs what is no UTF-8. The walk therefore bounds
 * depth (PCTX_NESTING_MAX), the number of nodes (each takes two bytes or more)
 * and the bytes of text before it allocates or recurses for them. That bounds
 * memory and time too, even for an array that contains itself.
 *
 * Two messages are packed one behind the other. protobuf defines the
 * concatenation as their merger, so the key map can be replaced without the
 * attributes being encoded again.
 */
#ifdef __linux__

#include "encode.h"

#include <errno.h>
#include <string.h>

#include "utf8.h"

/* an element costs its tag and its length at least */
#define NODE_BYTES_MIN 2

static int enc_value(struct encoding *e, const struct pctx_value *v, int depth, pb_any *out);

static int enc_node(struct encoding *e, size_t n)
{
	if (n > e->nodes_left)
		return -EMSGSIZE;
	e->nodes_left -= n;
	return 0;
}

static int enc_text_size(struct encoding *e, size_t len)
{
	if (len > e->text_left)
		return -EMSGSIZE;
	e->text_left -= len;
	return 0;
}

/* protobuf-c wants its strings NUL-terminated, views are not */
static int enc_text(struct encoding *e, const char *data, size_t len, char **out)
{
	char *copy;
	int rc;

	if (!data && len)
		return -EINVAL;
	rc = enc_text_size(e, len);
	if (rc)
		return rc;
	if (len && memchr(data, 0, len))
		return -EDOM;
	if (!utf8_valid(data, len))
		return -EILSEQ;
	copy = arena_alloc(&e->arena, len + 1);
	if (!copy)
		return -ENOMEM;
	if (len)
		memcpy(copy, data, len);
	*out = copy;
	return 0;
}

int encode_key(const char *key, size_t len)
{
	if (!len)
		return -ENOKEY;
	return utf8_valid(key, len) ? 0 : -EILSEQ;
}

/* FNV-1a */
static uint32_t enc_hash(const char *key)
{
	uint32_t h = 2166136261u;

	for (; *key; key++)
		h = (h ^ (uint8_t)*key) * 16777619u;
	return h;
}

/* Are the keys of the messages different from one another? */
static int enc_unique(struct encoding *e, pb_kv *const *kvs, size_t n)
{
	size_t slots = 4;
	const char **table;

	while (slots < 2 * n)
		slots *= 2;
	table = arena_alloc(&e->arena, slots * sizeof(*table));
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		size_t at = enc_hash(kvs[i]->key) & (slots - 1);

		for (; table[at]; at = (at + 1) & (slots - 1)) {
			if (!strcmp(table[at], kvs[i]->key))
				return -ENOTUNIQ;
		}
		table[at] = kvs[i]->key;
	}
	return 0;
}

static int enc_attr(struct encoding *e, const struct pctx_attr *a, int depth, pb_kv *out)
{
	size_t len = a->key ? strlen(a->key) : 0;
	int rc;

	pb_kv_init(out);
	rc = enc_text_size(e, len);
	if (rc)
		return rc;
	rc = encode_key(a->key, len);
	if (rc)
		return rc;
	out->key = (char *)a->key;
	out->value = arena_alloc(&e->arena, sizeof(*out->value));
	if (!out->value)
		return -ENOMEM;
	return enc_value(e, &a->value, depth, out->value);
}

/* @skip: a key to leave out, whose value goes to @skipped; NULL: none */
static int enc_attrs(struct encoding *e, const struct pctx_attr *attrs, size_t n, int depth,
		     const char *skip, const struct pctx_value **skipped, pb_kv ***out,
		     size_t *n_out)
{
	pb_kv **list, *kvs;
	size_t count = 0;
	int rc;

	if (n && !attrs)
		return -EINVAL;
	rc = enc_node(e, n);
	if (rc)
		return rc;
	list = arena_alloc(&e->arena, n * sizeof(void *));
	kvs = arena_alloc(&e->arena, n * sizeof(*kvs));
	if (!list || !kvs)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (skip && attrs[i].key && !strcmp(attrs[i].key, skip)) {
			if (*skipped)
				return -ENOTUNIQ;
			*skipped = &attrs[i].value;
			continue;
		}
		rc = enc_attr(e, &attrs[i], depth, &kvs[i]);
		if (rc)
			return rc;
		list[count++] = &kvs[i];
	}
	*out = list;
	*n_out = count;
	return enc_unique(e, list, count);
}

static int enc_array(struct encoding *e, const struct pctx_value *v, int depth, pb_any *out)
{
	size_t n = v->u.array.n;
	pb_array *array;
	pb_any *items;
	int rc;

	if (n && !v->u.array.values)
		return -EINVAL;
	rc = enc_node(e, n);
	if (rc)
		return rc;
	array = arena_alloc(&e->arena, sizeof(*array));
	items = arena_alloc(&e->arena, n * sizeof(*items));
	if (!array || !items)
		return -ENOMEM;
	pb_array_init(array);
	array->values = arena_alloc(&e->arena, n * sizeof(void *));
	if (!array->values)
		return -ENOMEM;
	array->n_values = n;
	for (size_t i = 0; i < n; i++) {
		array->values[i] = &items[i];
		rc = enc_value(e, &v->u.array.values[i], depth, &items[i]);
		if (rc)
			return rc;
	}
	out->value_case = PB_ANY(ARRAY_VALUE);
	out->array_value = array;
	return 0;
}

static int enc_kvlist(struct encoding *e, const struct pctx_value *v, int depth, pb_any *out)
{
	pb_kvlist *list = arena_alloc(&e->arena, sizeof(*list));

	if (!list)
		return -ENOMEM;
	pb_kvlist_init(list);
	out->value_case = PB_ANY(KVLIST_VALUE);
	out->kvlist_value = list;
	return enc_attrs(e, v->u.kvlist.attrs, v->u.kvlist.n, depth, NULL, NULL, &list->values,
			 &list->n_values);
}

static int enc_bytes(struct encoding *e, const struct pctx_value *v, pb_any *out)
{
	if (v->u.bytes.len && !v->u.bytes.data)
		return -EINVAL;
	out->value_case = PB_ANY(BYTES_VALUE);
	out->bytes_value.len = v->u.bytes.len;
	out->bytes_value.data = (uint8_t *)v->u.bytes.data;
	return enc_text_size(e, v->u.bytes.len);
}

/* @depth: how many arrays and lists @v lies in */
static int enc_value(struct encoding *e, const struct pctx_value *v, int depth, pb_any *out)
{
	pb_any_init(out);
	switch (v->kind) {
	case PCTX_EMPTY:
		return 0;
	case PCTX_STRING:
		out->value_case = PB_ANY(STRING_VALUE);
		return enc_text(e, v->u.string.data, v->u.string.len, &out->string_value);
	case PCTX_BOOL:
		out->value_case = PB_ANY(BOOL_VALUE);
		out->bool_value = v->u.boolean;
		return 0;
	case PCTX_INT:
		out->value_case = PB_ANY(INT_VALUE);
		out->int_value = v->u.integer;
		return 0;
	case PCTX_DOUBLE:
		out->value_case = PB_ANY(DOUBLE_VALUE);
		out->double_value = v->u.number;
		return 0;
	case PCTX_BYTES:
		return enc_bytes(e, v, out);
	case PCTX_ARRAY:
	case PCTX_KVLIST:
		if (depth >= PCTX_NESTING_MAX)
			return -ELOOP;
		return v->kind == PCTX_ARRAY ? enc_array(e, v, depth + 1, out)
					     : enc_kvlist(e, v, depth + 1, out);
	}
	return -EINVAL;
}

void encode_init(struct encoding *e)
{
	arena_init(&e->arena);
	e->key_map = NULL;
	pb_context_init(&e->base);
	pb_context_init(&e->map);
	e->base_size = 0;
	e->map_size = 0;
	e->nodes_left = PCTX_PAYLOAD_MAX / NODE_BYTES_MIN;
	e->text_left = PCTX_PAYLOAD_MAX;
}

static int enc_resource(struct encoding *e, const struct pctx_publish_opts *opts)
{
	pb_resource *r;

	if (!opts->resource && opts->n_resource)
		return -EINVAL;
	/* a payload of no bytes is an unfinished header to readers: see pctx.h */
	if (!opts->resource && opts->n_attributes)
		return 0;
	r = arena_alloc(&e->arena, sizeof(*r));
	if (!r)
		return -ENOMEM;
	pb_resource_init(r);
	e->base.resource = r;
	return enc_attrs(e, opts->resource, opts->n_resource, 0, NULL, NULL, &r->attributes,
			 &r->n_attributes);
}

int encode_context(struct encoding *e, const struct pctx_publish_opts *opts)
{
	int rc = enc_resource(e, opts);

	if (rc)
		return rc;
	rc = enc_attrs(e, opts->attributes, opts->n_attributes, 0, KEY_MAP_ATTRIBUTE, &e->key_map,
		       &e->base.attributes, &e->base.n_attributes);
	if (rc)
		return rc;
	e->base_size = pb_context_size(&e->base);
	return e->base_size > PCTX_PAYLOAD_MAX ? -EMSGSIZE : 0;
}

static size_t enc_count_keys(const char *keys, size_t used)
{
	size_t n = 0;

	for (size_t at = 0; at < used; at += strlen(keys + at) + 1)
		n++;
	return n;
}

int encode_key_map(struct encoding *e, const char *keys, size_t used)
{
	struct pctx_attr attr = { .key = KEY_MAP_ATTRIBUTE, .value.kind = PCTX_ARRAY };
	size_t n = enc_count_keys(keys, used);
	struct pctx_value *items;
	int rc;

	if (!n)
		return 0;
	items = arena_alloc(&e->arena, n * sizeof(*items));
	if (!items)
		return -ENOMEM;
	for (size_t i = 0, at = 0; i < n; i++) {
		items[i].kind = PCTX_STRING;
		items[i].u.string.data = keys + at;
		items[i].u.string.len = strlen(keys + at);
		at += items[i].u.string.len + 1;
	}
	attr.value.u.array.values = items;
	attr.value.u.array.n = n;
	rc = enc_attrs(e, &attr, 1, 0, NULL, NULL, &e->map.attributes, &e->map.n_attributes);
	if (rc)
		return rc;
	e->map_size = pb_context_size(&e->map);
	return 0;
}

void encode_free(struct encoding *e)
{
	arena_free(&e->arena);
}

#endif /* __linux__ */
