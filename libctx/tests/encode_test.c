/*
 * What may be published, and the bytes it becomes. Here protobuf-c decodes what
 * protobuf-c encoded; an independent decoder is asked in oracle_test.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "encode.h"
#include "pub_util.h"
#include "utf8.h"

static struct pctx_attr attr(const char *key, enum pctx_kind kind)
{
	struct pctx_attr a = { .key = key };

	a.value.kind = kind;
	return a;
}

static struct pctx_attr text(const char *key, const char *data, size_t len)
{
	struct pctx_attr a = attr(key, PCTX_STRING);

	a.value.u.string.data = data;
	a.value.u.string.len = len;
	return a;
}

static int publish_attrs(const struct pctx_attr *attrs, size_t n)
{
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .attributes = attrs,
					  .n_attributes = n };

	return pctx_publish(&opts);
}

static int publish_attr(struct pctx_attr a)
{
	struct pctx_publish_opts opts = { .size = sizeof(opts), .resource = &a, .n_resource = 1 };
	int in_resource = pctx_publish(&opts), in_attributes = publish_attrs(&a, 1);

	ATF_CHECK_EQ(in_resource, in_attributes);
	return in_attributes;
}

CASE(key__missing, "A key that is NULL or empty is -ENOKEY")
{
	ATF_CHECK_EQ(publish_attr(attr(NULL, PCTX_EMPTY)), -ENOKEY);
	ATF_CHECK_EQ(publish_attr(attr("", PCTX_EMPTY)), -ENOKEY);
}

CASE(key__twice, "A key that occurs twice in one list is -ENOTUNIQ, in two lists it is fine")
{
	struct pctx_attr twice[] = { attr("a", PCTX_EMPTY), attr("b", PCTX_EMPTY),
				     attr("a", PCTX_BOOL) };
	struct pctx_attr list = attr("list", PCTX_KVLIST);
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .resource = twice,
					  .n_resource = 2,
					  .attributes = twice,
					  .n_attributes = 2 };

	ATF_CHECK_EQ(publish_attrs(twice, 3), -ENOTUNIQ);
	list.value.u.kvlist.attrs = twice;
	list.value.u.kvlist.n = 3;
	ATF_CHECK_EQ(publish_attr(list), -ENOTUNIQ);
	ATF_CHECK_EQ(pctx_publish(&opts), 0);
}

CASE(key__twice_among_many, "A key that occurs twice is found among thousands")
{
	static char keys[4000][16];
	static struct pctx_attr many[4000];

	for (int i = 0; i < 4000; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%d", i);
		many[i] = attr(keys[i], PCTX_EMPTY);
	}
	ATF_CHECK_EQ(publish_attrs(many, 4000), 0);
	strcpy(keys[3999], "k7");
	ATF_CHECK_EQ(publish_attrs(many, 4000), -ENOTUNIQ);
}

CASE(text__not_utf8, "Keys and strings that are not UTF-8 are -EILSEQ, bytes may be anything")
{
	struct pctx_attr bytes = attr("a", PCTX_BYTES);

	ATF_CHECK_EQ(publish_attr(attr("k\xc3", PCTX_EMPTY)), -EILSEQ);
	ATF_CHECK_EQ(publish_attr(text("a", "\xed\xa0\x80", 3)), -EILSEQ);
	bytes.value.u.bytes.data = (const uint8_t *)"\xff\0\xfe";
	bytes.value.u.bytes.len = 3;
	ATF_CHECK_EQ(publish_attr(bytes), 0);
}

CASE(text__nul, "A string with a NUL byte is -EDOM")
{
	ATF_CHECK_EQ(publish_attr(text("a", "b\0c", 3)), -EDOM);
	ATF_CHECK_EQ(publish_attr(text("a", "\0", 1)), -EDOM);
	ATF_CHECK_EQ(publish_attr(text("a", "b\0c", 1)), 0);
}

CASE(value__bad, "An unknown kind, or a NULL pointer with a count, is -EINVAL")
{
	struct pctx_attr a = attr("a", (enum pctx_kind)99);

	ATF_CHECK_EQ(publish_attr(a), -EINVAL);
	ATF_CHECK_EQ(publish_attr(text("a", NULL, 1)), -EINVAL);
	a = attr("a", PCTX_BYTES);
	a.value.u.bytes.len = 1;
	ATF_CHECK_EQ(publish_attr(a), -EINVAL);
	a = attr("a", PCTX_ARRAY);
	a.value.u.array.n = 1;
	ATF_CHECK_EQ(publish_attr(a), -EINVAL);
	a = attr("a", PCTX_KVLIST);
	a.value.u.kvlist.n = 1;
	ATF_CHECK_EQ(publish_attr(a), -EINVAL);
}

/* Publish @depth arrays (or key-value lists) in each other. */
static int publish_nested(int depth, enum pctx_kind kind)
{
	struct pctx_attr chain[PCTX_NESTING_MAX + 2];

	for (int i = depth; i >= 0; i--) {
		chain[i] = attr("a", i == depth ? PCTX_INT : kind);
		if (i == depth)
			chain[i].value.u.integer = 1;
		else if (kind == PCTX_ARRAY)
			chain[i].value.u.array.values = &chain[i + 1].value;
		else
			chain[i].value.u.kvlist.attrs = &chain[i + 1];
		if (i < depth && kind == PCTX_ARRAY)
			chain[i].value.u.array.n = 1;
		else if (i < depth)
			chain[i].value.u.kvlist.n = 1;
	}
	return publish_attr(chain[0]);
}

CASE(nesting__too_deep, "Values may lie 32 deep in each other, deeper is -ELOOP")
{
	ATF_CHECK_EQ(publish_nested(PCTX_NESTING_MAX, PCTX_ARRAY), 0);
	ATF_CHECK_EQ(publish_nested(PCTX_NESTING_MAX, PCTX_KVLIST), 0);
	ATF_CHECK_EQ(publish_nested(PCTX_NESTING_MAX + 1, PCTX_ARRAY), -ELOOP);
	ATF_CHECK_EQ(publish_nested(PCTX_NESTING_MAX + 1, PCTX_KVLIST), -ELOOP);
}

CASE(nesting__in_itself, "An array that contains itself is refused, however wide it is")
{
	struct pctx_value self[8];
	struct pctx_attr a = attr("a", PCTX_ARRAY);

	a.value.u.array.values = self;
	a.value.u.array.n = 1;
	self[0] = a.value;
	ATF_CHECK_EQ(publish_attr(a), -ELOOP);
	a.value.u.array.n = 8;
	for (int i = 0; i < 8; i++)
		self[i] = a.value;
	/* depth first, so the depth is found out before the width */
	ATF_CHECK_EQ(publish_attr(a), -ELOOP);
	for (int i = 0; i < 7; i++)
		self[i].kind = PCTX_EMPTY;
	ATF_CHECK_EQ(publish_attr(a), -ELOOP);
}

CASE(nesting__too_many, "A small tree of views that stands for a huge one is -EMSGSIZE, at once")
{
	struct pctx_value levels[PCTX_NESTING_MAX][2];
	struct pctx_attr a = attr("a", PCTX_ARRAY);

	memset(levels, 0, sizeof(levels));
	for (int i = 0; i + 1 < PCTX_NESTING_MAX; i++) {
		levels[i][0].kind = PCTX_ARRAY;
		levels[i][0].u.array.values = levels[i + 1];
		levels[i][0].u.array.n = 2;
		levels[i][1] = levels[i][0];
	}
	a.value.u.array.values = levels[0];
	a.value.u.array.n = 2;
	ATF_CHECK_EQ(publish_attr(a), -EMSGSIZE);
}

CASE(size__limit, "64 KiB may be published, one byte more is -EMSGSIZE")
{
	static uint8_t data[PCTX_PAYLOAD_MAX + 1];
	struct pctx_attr a = attr("a", PCTX_BYTES);
	/* KeyValue 1+3, key 3, AnyValue 1+3, bytes 1+3 */
	size_t most = PCTX_PAYLOAD_MAX - 15;

	a.value.u.bytes.data = data;
	a.value.u.bytes.len = most;
	ATF_CHECK_EQ(publish_attrs(&a, 1), 0);
	ATF_CHECK_EQ(pub_header()->payload_size, PCTX_PAYLOAD_MAX);
	a.value.u.bytes.len = most + 1;
	ATF_CHECK_EQ(publish_attrs(&a, 1), -EMSGSIZE);
	a.value.u.bytes.len = SIZE_MAX;
	ATF_CHECK_EQ(publish_attrs(&a, 1), -EMSGSIZE);
	a.value.u.bytes.len = UINT32_MAX;
	ATF_CHECK_EQ(publish_attrs(&a, 1), -EMSGSIZE);
	ATF_CHECK_EQ(publish_attrs(&a, SIZE_MAX / 64), -EMSGSIZE);
}

CASE(size__many_values,
     "As many values as fit are published, more are -EMSGSIZE before they are built")
{
	static struct pctx_value values[PCTX_PAYLOAD_MAX];
	struct pctx_attr a = attr("a", PCTX_ARRAY);

	a.value.u.array.values = values;
	a.value.u.array.n = 32000;
	ATF_CHECK_EQ(publish_attrs(&a, 1), 0);
	a.value.u.array.n = PCTX_PAYLOAD_MAX;
	ATF_CHECK_EQ(publish_attrs(&a, 1), -EMSGSIZE);
	a.value.u.array.n = SIZE_MAX;
	ATF_CHECK_EQ(publish_attrs(&a, 1), -EMSGSIZE);
}

CASE(value__kinds, "Every kind of value comes out as what went in, empty and zero ones too")
{
	const struct pctx_value two[] = { { .kind = PCTX_BOOL, .u.boolean = false },
					  { .kind = PCTX_EMPTY } };
	struct pctx_attr a[] = { text("string", "", 0),	      attr("bool", PCTX_BOOL),
				 pctx_int("int", INT64_MIN),  attr("double", PCTX_DOUBLE),
				 attr("bytes", PCTX_BYTES),   attr("array", PCTX_ARRAY),
				 attr("kvlist", PCTX_KVLIST), attr("empty", PCTX_EMPTY) };
	static const int cases[] = {
		PB_ANY(STRING_VALUE), PB_ANY(BOOL_VALUE),  PB_ANY(INT_VALUE),
		PB_ANY(DOUBLE_VALUE), PB_ANY(BYTES_VALUE), PB_ANY(ARRAY_VALUE),
		PB_ANY(KVLIST_VALUE), PB_ANY(_NOT_SET),
	};
	pb_context *c;

	a[3].value.u.number = NAN;
	a[5].value.u.array.values = two;
	a[5].value.u.array.n = 2;
	ATF_REQUIRE_EQ(publish_attrs(a, 8), 0);
	c = pub_context();
	ATF_REQUIRE(c && c->n_attributes == 8);
	for (int i = 0; i < 8; i++) {
		ATF_CHECK_STREQ(c->attributes[i]->key, a[i].key);
		ATF_REQUIRE(c->attributes[i]->value != NULL);
		ATF_CHECK_EQ((int)c->attributes[i]->value->value_case, cases[i]);
	}
	ATF_CHECK_EQ(c->attributes[2]->value->int_value, INT64_MIN);
	ATF_CHECK(isnan(c->attributes[3]->value->double_value));
	ATF_REQUIRE_EQ(c->attributes[5]->value->array_value->n_values, 2);
	ATF_CHECK_EQ((int)c->attributes[5]->value->array_value->values[0]->value_case,
		     PB_ANY(BOOL_VALUE));
	pb_context_free(c, NULL);
}

CASE(instrumentations__list,
     "otel.instrumentations, an array of lists, goes with an empty resource")
{
	struct pctx_attr scope[] = { text("otel.scope.name", "lib", 3),
				     text("otel.scope.version", "1", 1) };
	struct pctx_value list = { .kind = PCTX_KVLIST };
	struct pctx_attr a = attr("otel.instrumentations", PCTX_ARRAY);
	struct pctx_publish_opts opts = {
		.size = sizeof(opts), .resource = &a, .attributes = &a, .n_attributes = 1
	};
	pb_context *c;

	list.u.kvlist.attrs = scope;
	list.u.kvlist.n = 2;
	a.value.u.array.values = &list;
	a.value.u.array.n = 1;
	ATF_REQUIRE_EQ(pctx_publish(&opts), 0);
	c = pub_context();
	ATF_REQUIRE(c && c->resource && c->resource->n_attributes == 0 && c->n_attributes == 1);
	ATF_CHECK_EQ(c->attributes[0]->value->array_value->values[0]->kvlist_value->n_values, 2);
	pb_context_free(c, NULL);
}

CASE(utf8__table, "UTF-8 is judged right at every border")
{
	static const struct {
		const char *bytes;
		bool valid;
	} table[] = {
		{ "", true },
		{ "a", true },
		{ "\x7f", true },
		{ "\x80", false },
		{ "\xc1\xbf", false },
		{ "\xc2\x80", true },
		{ "\xdf\xbf", true },
		{ "\xc2", false },
		{ "\xc2\x7f", false },
		{ "\xc2\xc0", false },
		{ "\xe0\x9f\xbf", false },
		{ "\xe0\xa0\x80", true },
		{ "\xed\x9f\xbf", true },
		{ "\xed\xa0\x80", false },
		{ "\xee\x80\x80", true },
		{ "\xef\xbf\xbf", true },
		{ "\xe2\x82", false },
		{ "\xe2\x82\x41", false },
		{ "\xf0\x8f\xbf\xbf", false },
		{ "\xf0\x90\x80\x80", true },
		{ "\xf4\x8f\xbf\xbf", true },
		{ "\xf4\x90\x80\x80", false },
		{ "\xf5\x80\x80\x80", false },
		{ "\xf0\x90\x80", false },
		{ "\xf0\x90\x80\x41", false },
		{ "\xff", false },
		{ "a\xc3\xa4z", true },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		ATF_CHECK_MSG(utf8_valid(table[i].bytes, strlen(table[i].bytes)) == table[i].valid,
			      "row %zu", i);
	ATF_CHECK(utf8_valid("a\0b", 3));
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, key__missing);
	ATF_TP_ADD_TC(tp, key__twice);
	ATF_TP_ADD_TC(tp, key__twice_among_many);
	ATF_TP_ADD_TC(tp, text__not_utf8);
	ATF_TP_ADD_TC(tp, text__nul);
	ATF_TP_ADD_TC(tp, value__bad);
	ATF_TP_ADD_TC(tp, nesting__too_deep);
	ATF_TP_ADD_TC(tp, nesting__in_itself);
	ATF_TP_ADD_TC(tp, nesting__too_many);
	ATF_TP_ADD_TC(tp, size__limit);
	ATF_TP_ADD_TC(tp, size__many_values);
	ATF_TP_ADD_TC(tp, value__kinds);
	ATF_TP_ADD_TC(tp, instrumentations__list);
	ATF_TP_ADD_TC(tp, utf8__table);
	return atf_no_error();
}
