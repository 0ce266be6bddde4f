#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "otlp_json.h"

json_t *otlp_json_text(const char *text, size_t len)
{
	json_t *string = json_stringn(text, len);
	char *copy;
	size_t n = 0;

	if (string)
		return string;
	copy = malloc(3 * len + 1);
	if (!copy)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		bool ascii = (unsigned char)text[i] < 0x80;

		memcpy(copy + n, ascii ? &text[i] : "\xef\xbf\xbd", ascii ? 1 : 3);
		n += ascii ? 1 : 3;
	}
	string = json_stringn(copy, n);
	free(copy);
	return string;
}

static json_t *base64(const uint8_t *data, size_t len)
{
	static const char set[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((len + 2) / 3 * 4 + 1);
	json_t *string;
	size_t n = 0;

	if (!text)
		return NULL;
	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		uint32_t three = (uint32_t)data[i] << 16 |
				 (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
				 (left > 2 ? data[i + 2] : 0);

		text[n++] = set[three >> 18];
		text[n++] = set[three >> 12 & 63];
		text[n++] = left > 1 ? set[three >> 6 & 63] : '=';
		text[n++] = left > 2 ? set[three & 63] : '=';
	}
	string = json_stringn(text, n);
	free(text);
	return string;
}

static json_t *number(double d)
{
	if (isnan(d))
		return json_string("NaN");
	if (isinf(d))
		return json_string(d < 0 ? "-Infinity" : "Infinity");
	return json_real(d);
}

static json_t *integer(int64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, n);
	return json_string(text);
}

static json_t *attrs_json(const struct pctx_attr *attrs, size_t n);
static json_t *value_json(const struct pctx_value *value);

static json_t *values_json(const struct pctx_value *values, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++) {
		/* takes the reference, and fails on NULL */
		if (json_array_append_new(array, value_json(&values[i]))) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static json_t *value_json(const struct pctx_value *v)
{
	switch (v->kind) {
	case PCTX_STRING:
		return json_pack("{s:o}", "stringValue",
				 otlp_json_text(v->u.string.data, v->u.string.len));
	case PCTX_BOOL:
		return json_pack("{s:b}", "boolValue", v->u.boolean);
	case PCTX_INT:
		return json_pack("{s:o}", "intValue", integer(v->u.integer));
	case PCTX_DOUBLE:
		return json_pack("{s:o}", "doubleValue", number(v->u.number));
	case PCTX_BYTES:
		return json_pack("{s:o}", "bytesValue", base64(v->u.bytes.data, v->u.bytes.len));
	case PCTX_ARRAY:
		return json_pack("{s:{s:o}}", "arrayValue", "values",
				 values_json(v->u.array.values, v->u.array.n));
	case PCTX_KVLIST:
		return json_pack("{s:{s:o}}", "kvlistValue", "values",
				 attrs_json(v->u.kvlist.attrs, v->u.kvlist.n));
	default:
		return json_object();
	}
}

static json_t *attrs_json(const struct pctx_attr *attrs, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *attr = json_pack("{s:o, s:o}", "key",
					 otlp_json_text(attrs[i].key, strlen(attrs[i].key)),
					 "value", value_json(&attrs[i].value));

		if (json_array_append_new(array, attr)) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

json_t *otlp_json_context(const struct pctx_context *context)
{
	const struct pctx_attr *resource, *attributes;
	size_t n_resource, n_attributes;

	resource = pctx_context_resource(context, &n_resource);
	attributes = pctx_context_attributes(context, &n_attributes);
	return json_pack("{s:{s:o}, s:o}", "resource", "attributes",
			 attrs_json(resource, n_resource), "attributes",
			 attrs_json(attributes, n_attributes));
}
