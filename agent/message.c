#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

typedef Opentelemetry__Proto__Common__V1__AnyValue otel_value;
typedef Opentelemetry__Proto__Common__V1__ArrayValue otel_array;
typedef Opentelemetry__Proto__Common__V1__KeyValue otel_attr;
typedef Opentelemetry__Proto__Common__V1__KeyValueList otel_list;
typedef Opentelemetry__Proto__Resource__V1__Resource otel_resource;

/* ---- requests ------------------------------------------------------------------ */

/* How many bytes the UTF-8 character at @s has; 0: none, or a NUL. */
static size_t utf8_length(const uint8_t *s, size_t left)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	uint32_t c = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
	static const uint32_t least[] = { 0, 1, 0x80, 0x800, 0x10000 };

	if ((s[0] >= 0x80 && s[0] < 0xc2) || s[0] > 0xf4 || n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	return c >= least[n] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) ? n : 0;
}

static bool is_text(const uint8_t *s, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_length(s + i, len - i);
		if (!n)
			return false;
	}
	return true;
}

static bool take_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
	*out = 0;
	for (unsigned int shift = 0; shift < 64 && *p < end; shift += 7) {
		uint8_t byte = *(*p)++;

		*out |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* The next field; @data, @len: of what is length-delimited, else @len is 0. */
static bool take_field(const uint8_t **p, const uint8_t *end, uint64_t *tag, const uint8_t **data,
		       size_t *len)
{
	uint64_t n = 0;

	*len = 0;
	if (!take_varint(p, end, tag))
		return false;
	switch (*tag & 7) {
	case 0:
		return take_varint(p, end, &n);
	case 1:
		n = 8;
		break;
	case 2:
		if (!take_varint(p, end, &n))
			return false;
		break;
	case 5:
		n = 4;
		break;
	default:
		return false;
	}
	if (n > (size_t)(end - *p))
		return false;
	*data = *p;
	*len = (*tag & 7) == 2 ? (size_t)n : 0;
	*p += n;
	return true;
}

/* Return: the name of a string field that is no text; NULL: all are. */
static const char *bad_string(const ProtobufCMessageDescriptor *type, const uint8_t *data,
			      size_t len)
{
	const uint8_t *end = data + len, *bytes = data;
	uint64_t tag;
	size_t n;

	while (data < end && take_field(&data, end, &tag, &bytes, &n)) {
		const ProtobufCFieldDescriptor *field =
			tag >> 3 > 0xffff ? NULL
					  : protobuf_c_message_descriptor_get_field(
						    type, (unsigned int)(tag >> 3));

		if (field && field->type == PROTOBUF_C_TYPE_STRING && !is_text(bytes, n))
			return field->name;
	}
	return NULL;
}

ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *data,
				 size_t len, const char **why)
{
	static _Thread_local char text[80];
	ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, len, data);
	const char *bad;

	if (!message) {
		snprintf(text, sizeof(text), "no %s", type->short_name);
		*why = text;
		return NULL;
	}
	bad = bad_string(type, data, len);
	if (!bad)
		return message;
	protobuf_c_message_free_unpacked(message, NULL);
	snprintf(text, sizeof(text), "%s: not UTF-8, or a NUL in it", bad);
	*why = text;
	return NULL;
}

/* ---- contexts ------------------------------------------------------------------ */

static otel_value *make_value(const struct pctx_value *v);
static otel_attr **make_attrs(const struct pctx_attr *attrs, size_t n, size_t *done);

static char *make_text(const char *text, size_t len)
{
	char *copy = malloc(len + 1);

	if (copy) {
		memcpy(copy, text, len);
		copy[len] = '\0';
	}
	return copy;
}

static bool fill_bytes(otel_value *out, const struct pctx_value *v)
{
	size_t len = v->u.bytes.len;

	out->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_BYTES_VALUE;
	out->bytes_value.data = malloc(len + 1);
	if (!out->bytes_value.data)
		return false;
	if (len)
		memcpy(out->bytes_value.data, v->u.bytes.data, len);
	out->bytes_value.len = len;
	return true;
}

static bool fill_array(otel_value *out, const struct pctx_value *v)
{
	otel_array *array = malloc(sizeof(*array));

	out->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_ARRAY_VALUE;
	out->array_value = array;
	if (!array)
		return false;
	opentelemetry__proto__common__v1__array_value__init(array);
	array->values = calloc(v->u.array.n + 1, sizeof(otel_value *));
	for (size_t i = 0; array->values && i < v->u.array.n; i++) {
		array->values[i] = make_value(&v->u.array.values[i]);
		if (!array->values[i])
			return false;
		array->n_values++;
	}
	return array->values != NULL;
}

static bool fill_list(otel_value *out, const struct pctx_value *v)
{
	otel_list *list = malloc(sizeof(*list));

	out->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_KVLIST_VALUE;
	out->kvlist_value = list;
	if (!list)
		return false;
	opentelemetry__proto__common__v1__key_value_list__init(list);
	list->values = make_attrs(v->u.kvlist.attrs, v->u.kvlist.n, &list->n_values);
	return list->values && list->n_values == v->u.kvlist.n;
}

static bool fill_value(otel_value *out, const struct pctx_value *v)
{
	switch (v->kind) {
	case PCTX_STRING:
		out->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE;
		out->string_value = make_text(v->u.string.data, v->u.string.len);
		return out->string_value != NULL;
	case PCTX_BOOL:
		out->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_BOOL_VALUE;
		out->bool_value = v->u.boolean;
		return true;
	case PCTX_INT:
		out->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_INT_VALUE;
		out->int_value = v->u.integer;
		return true;
	case PCTX_DOUBLE:
		out->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_DOUBLE_VALUE;
		out->double_value = v->u.number;
		return true;
	case PCTX_BYTES:
		return fill_bytes(out, v);
	case PCTX_ARRAY:
		return fill_array(out, v);
	case PCTX_KVLIST:
		return fill_list(out, v);
	default:
		return true;
	}
}

/* How deep it goes is limited by the reader. */
static otel_value *make_value(const struct pctx_value *v)
{
	otel_value *out = malloc(sizeof(*out));

	if (!out)
		return NULL;
	opentelemetry__proto__common__v1__any_value__init(out);
	if (fill_value(out, v))
		return out;
	opentelemetry__proto__common__v1__any_value__free_unpacked(out, NULL);
	return NULL;
}

static otel_attr *make_attr(const struct pctx_attr *a)
{
	otel_attr *out = malloc(sizeof(*out));

	if (!out)
		return NULL;
	opentelemetry__proto__common__v1__key_value__init(out);
	out->value = make_value(&a->value);
	out->key = make_text(a->key, strlen(a->key));
	if (out->key && out->value)
		return out;
	if (!out->key)
		out->key = (char *)protobuf_c_empty_string;
	opentelemetry__proto__common__v1__key_value__free_unpacked(out, NULL);
	return NULL;
}

/* *@done is less than @n when out of memory. */
static otel_attr **make_attrs(const struct pctx_attr *attrs, size_t n, size_t *done)
{
	otel_attr **out = calloc(n + 1, sizeof(*out));

	for (*done = 0; out && *done < n; ++*done) {
		out[*done] = make_attr(&attrs[*done]);
		if (!out[*done])
			break;
	}
	return out;
}

otel_context *message_context(const struct pctx_context *context)
{
	const struct pctx_attr *resource, *attributes;
	otel_context *out = malloc(sizeof(*out));
	size_t n_resource, n_attributes;

	if (!out)
		return NULL;
	opentelemetry__proto__processcontext__v1development__process_context__init(out);
	out->resource = malloc(sizeof(*out->resource));
	if (!out->resource)
		goto no_memory;
	opentelemetry__proto__resource__v1__resource__init(out->resource);
	resource = pctx_context_resource(context, &n_resource);
	attributes = pctx_context_attributes(context, &n_attributes);
	out->resource->attributes = make_attrs(resource, n_resource, &out->resource->n_attributes);
	out->attributes = make_attrs(attributes, n_attributes, &out->n_attributes);
	if (out->resource->n_attributes == n_resource && out->n_attributes == n_attributes)
		return out;
no_memory:
	opentelemetry__proto__processcontext__v1development__process_context__free_unpacked(out,
											    NULL);
	return NULL;
}
