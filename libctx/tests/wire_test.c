/* Payloads as bytes: which are taken, which refused, and what comes out. */
#include <math.h>

#include "decode.h"
#include "scene.h"
#include "pool.h"
#include "wire.h"

/* The message of the case, and what came of the last one: each case is a process. */
static struct bytes b;
static struct pctx_context *context;

/* Whether it is taken at all. */
static int verdict(const struct bytes *message)
{
	pctx_context_free(context);
	context = NULL;
	return decode_context(message->data, message->len, &context);
}

/* What comes of it; good until the next. */
static const struct pctx_context *taken(void)
{
	ATF_REQUIRE_EQ(0, verdict(&b));
	return context;
}

#define REFUSED() ATF_CHECK_EQ(-EBADMSG, verdict(&b))

/* The message anew: these bytes and no others. */
#define SET(literal) (b.len = 0, PUT(literal))
#define PUT(literal) put(&b, literal, sizeof(literal) - 1)

static const struct pctx_attr *resource(size_t n)
{
	size_t n_attrs;
	const struct pctx_attr *attrs = pctx_context_resource(taken(), &n_attrs);

	ATF_REQUIRE_EQ(n, n_attrs);
	return attrs;
}

static const struct pctx_attr *attributes(size_t n)
{
	size_t n_attrs;
	const struct pctx_attr *attrs = pctx_context_attributes(taken(), &n_attrs);

	ATF_REQUIRE_EQ(n, n_attrs);
	return attrs;
}

/* One resource attribute "k" whose AnyValue is the message so far. */
static void as_value(void)
{
	static struct bytes any;

	any = b;
	b.len = 0;
	put_field(&b, 1, "k", 1);
	put_field(&b, 2, any.data, any.len);
	wrap(&b, 1);
	wrap(&b, 1);
}

static const struct pctx_value *value(void)
{
	const struct pctx_attr *attr;

	as_value();
	attr = resource(1);
	ATF_CHECK_STREQ("k", attr->key);
	return &attr->value;
}

/* ---- refused ---------------------------------------------------------------- */

/* @n arrays, each in the one before, with an empty value innermost. */
static void put_nested(unsigned int n)
{
	b.len = 0;
	for (unsigned int i = 0; i < n; i++) {
		wrap(&b, 1); /* a value of the array */
		wrap(&b, 5); /* the array of a value */
	}
	as_value();
}

TEST_CASE(wire__depth,
	  "99 levels in a message are taken, 101 refused, 16,000 refused without a crash")
{
	/* resource, key-value, value; two levels for each array: 99 and 101 */
	put_nested(48);
	ATF_CHECK_EQ(0, verdict(&b));
	put_nested(49);
	REFUSED();
	put_nested(8000);
	ATF_REQUIRE(b.len < sizeof(b.data));
	REFUSED();
}

TEST_CASE(wire__utf8,
	  "Invalid UTF-8 in a key or a string refuses the message; bytes may be anything")
{
	static const char *const bad[] = { "\x80",  "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80",
					   "a\xff", "\xe2\x82" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		payload_string(&b, bad[i], "v");
		REFUSED();
		payload_string(&b, "k", bad[i]);
		REFUSED();
		b.len = 0;
		put_field(&b, 7, bad[i], strlen(bad[i]));
		as_value();
		ATF_CHECK_EQ(0, verdict(&b));
	}
	payload_string(&b, "schl\xc3\xbcssel", "\xe2\x82\xac \xf0\x9f\x90\x9f");
	ATF_CHECK_EQ(0, verdict(&b));
}

TEST_CASE(wire__nul, "A NUL in a key or string refuses the message: no key passes for another")
{
	b.len = 0;
	put_field(&b, 1, "service.name\0x", 14);
	wrap(&b, 1);
	wrap(&b, 1);
	REFUSED();
	b.len = 0;
	put_field(&b, 1, "a\0b", 3);
	as_value();
	REFUSED();
}

TEST_CASE(wire__truncated, "Every proper prefix of a message is refused or is a message by itself")
{
	static struct bytes prefix;
	unsigned int n_taken = 0;

	payload_string(&b, "service.name", "x");
	for (size_t len = 0; len < b.len; len++) {
		prefix = b;
		prefix.len = len;
		n_taken += verdict(&prefix) == 0;
	}
	/* the empty one only: all else is cut inside the one outer field */
	ATF_CHECK_EQ(1, n_taken);
}

TEST_CASE(wire__bad_forms, "Overlong varints, field 0, lengths beyond the end, wire types 6 and 7")
{
	static const struct {
		const char *data;
		size_t len;
	} bad[] = {
		{ "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 }, /* length 2^64 - 1 */
		{ "\x0a\xff\xff\xff\xff\x0f", 6 },			/* length 2^32 - 1 */
		{ "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12 },
		{ "\x18\x80", 2 },		       /* varint cut */
		{ "\x02\x00", 2 },		       /* field 0 */
		{ "\x80\x80\x80\x80\x80\x01\x00", 7 }, /* tag of 6 bytes */
		{ "\x1e", 1 },
		{ "\x1f", 1 },	   /* types 6, 7 */
		{ "\x1c", 1 },	   /* a group ends */
		{ "\x1b", 1 },	   /* none ends */
		{ "\x1b\x24", 2 }, /* another ends */
		{ "\x19\x00\x00", 3 },
		{ "\x1d\x00", 2 },			       /* fixed, cut */
		{ "\x0a\x02\x12\x05\x00\x00\x00\x00\x00", 9 }, /* beyond its parent */
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		b.len = 0;
		put(&b, bad[i].data, bad[i].len);
		ATF_CHECK_EQ_MSG(-EBADMSG, verdict(&b), "vector %zu", i);
	}
}

TEST_CASE(wire__merges, "A resource given in 64 parts is merged, more parts are refused")
{
	for (unsigned int i = 0; i < 64; i++)
		PUT("\x0a\x05\x0a\x03\x0a\x01k");
	resource(64);
	PUT("\x0a\x05\x0a\x03\x0a\x01k");
	REFUSED();
}

/* ---- taken though protobuf-c alone would not ----------------------------------- */

TEST_CASE(wire__groups, "Unknown groups of any length are passed over")
{
	for (size_t len = 0; len < 40000; len = len < 300 ? len + 1 : len * 2) {
		payload_string(&b, "service.name", "x");
		PUT("\x1b");		 /* group 3 */
		PUT("\xa3\x01\xa4\x01"); /* an empty group 20 within */
		put_varint(&b, 5 << 3 | 2);
		put_varint(&b, len);
		memset(b.data + b.len, 0xff, len);
		b.len += len;
		PUT("\x1c");
		PUT("\xa3\x01\x20\x07\xa4\x01"); /* group 20 with a varint */
		PUT("\x0b\x0c");		 /* the resource's number as a group */
		ATF_REQUIRE_EQ_MSG(0, verdict(&b), "length %zu", len);
		ATF_CHECK(has_string(context, "service.name", "x"));
	}
}

TEST_CASE(wire__foreign_type, "A known number of another wire type counts as unknown")
{
	payload_string(&b, "service.name", "x");
	PUT("\x08\x05\x15\x01\x02\x03\x04\x11\x01\x02\x03\x04\x05\x06\x07\x08");
	PUT("\x88\x00\x05"); /* the tag longer than it needs */
	ATF_CHECK(has_string(taken(), "service.name", "x"));
	/* a string where a value's int should be, and an int where its string */
	SET("\x1a\x01z\x08\x05");
	ATF_CHECK_EQ(PCTX_EMPTY, value()->kind);
}

TEST_CASE(wire__unknown_fields, "Unknown fields of every wire type are passed over")
{
	payload_string(&b, "service.name", "x");
	put(&b, "\x78\x01\x79\x01\x02\x03\x04\x05\x06\x07\x08\x7a\x02\xff\x00\x7d\x01\x02\x03\x04",
	    20);
	PUT("\xfa\xff\xff\xff\x0f\x00"); /* the greatest number there is */
	ATF_CHECK(has_string(taken(), "service.name", "x"));
}

/* ---- what comes out ---------------------------------------------------------------- */

TEST_CASE(decode__empty, "An empty message and empty messages within are taken")
{
	const struct pctx_attr *attrs;

	resource(0);
	PUT("\x0a\x02\x0a\x00\x12\x00");
	attrs = resource(1);
	ATF_CHECK_STREQ("", attrs[0].key);
	ATF_CHECK_EQ(PCTX_EMPTY, attrs[0].value.kind);
	attributes(1);
}

/* A NaN is equal to nothing, and -0.0 to 0.0. */
static uint64_t bits(double number)
{
	uint64_t all;

	memcpy(&all, &number, sizeof(all));
	return all;
}

TEST_CASE(decode__numbers, "Least int, NaN, infinity and both bools come out as they went in")
{
	double doubles[] = { NAN, INFINITY, -INFINITY, -0.0, 5e-324 };

	SET("\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01");
	ATF_CHECK_EQ(INT64_MIN, value()->u.integer);
	for (size_t i = 0; i < 5; i++) {
		SET("\x21");
		put(&b, &doubles[i], 8);
		ATF_CHECK_EQ(bits(doubles[i]), bits(value()->u.number));
	}
	for (uint8_t i = 0; i < 2; i++) {
		SET("\x10");
		put(&b, &i, 1);
		ATF_CHECK_EQ(i, value()->u.boolean);
	}
}

TEST_CASE(decode__last_wins, "Of a value given twice the last kind counts")
{
	SET("\x0a\x01z\x18\x07");
	ATF_CHECK_EQ(7, value()->u.integer);
	SET("\x18\x07\x2a\x00");
	ATF_CHECK_EQ(PCTX_ARRAY, value()->kind);
}

TEST_CASE(decode__strindex, "Indexes into a string table that is not there are empty values")
{
	const struct pctx_attr *attrs;

	SET("\x40\x05");
	ATF_CHECK_EQ(PCTX_EMPTY, value()->kind);
	SET("\x0a\x04\x0a\x02\x18\x09"); /* key_strindex alone */
	attrs = resource(1);
	ATF_CHECK_STREQ("", attrs[0].key);
}

TEST_CASE(decode__resource_rest, "dropped_attributes_count and entity_refs are taken and not shown")
{
	SET("\x10\x07");
	put_field(&b, 3, "\x0a\x01s\x12\x01t\x1a\x01i\x1a\x01j\x22\x01w", 15);
	wrap(&b, 1);
	resource(0);
}

TEST_CASE(decode__keys_twice, "Keys that are there twice stay, in their order")
{
	const struct pctx_attr *attrs;

	for (uint8_t i = '1'; i <= (uint8_t)'3'; i++) {
		uint8_t kv[] = { 0x12, 0x08, 0x0a, 0x01, 'k', 0x12, 0x03, 0x0a, 0x01, i };

		put(&b, kv, sizeof(kv));
	}
	attrs = attributes(3);
	for (size_t i = 0; i < 3; i++)
		ATF_CHECK_EQ((char)('1' + i), attrs[i].value.u.string.data[0]);
	ATF_CHECK_EQ(&attrs[0], pctx_context_find(context, "k"));
}

TEST_CASE(decode__instrumentations, "An array of maps beside an empty resource comes out whole")
{
	const struct pctx_value *v;

	/* attributes: "i" = [ { "n": "x" } ] */
	b.len = 0;
	put_field(&b, 1, "n", 1);
	put_field(&b, 2, "\x0a\x01x", 3);
	wrap(&b, 1); /* of the list */
	wrap(&b, 6); /* the list of a value */
	wrap(&b, 1); /* a value of the array */
	wrap(&b, 5); /* the array of a value */
	wrap(&b, 2); /* the value of the attribute */
	put_field(&b, 1, "i", 1);
	wrap(&b, 2);
	put_field(&b, 1, NULL, 0);
	v = &pctx_context_find(taken(), "i")->value;
	ATF_REQUIRE(v->kind == PCTX_ARRAY && v->u.array.n == 1);
	v = &v->u.array.values[0];
	ATF_REQUIRE(v->kind == PCTX_KVLIST && v->u.kvlist.n == 1);
	ATF_CHECK_STREQ("n", v->u.kvlist.attrs[0].key);
	ATF_CHECK_EQ('x', v->u.kvlist.attrs[0].value.u.string.data[0]);
}

TEST_CASE(decode__memory, "32768 empty attributes in 64 KiB are taken within the memory allowed")
{
	for (unsigned int i = 0; i < 32768; i++)
		PUT("\x12\x00");
	attributes(32768);
}

TEST_CASE(pool__budget, "What a context may take in all is refused beyond, as the context's fault")
{
	struct pool p;

	pool_init(&p, 10000);
	ATF_CHECK(pool_alloc(&p, 6000));
	ATF_CHECK(!pool_alloc(&p, 4001));
	ATF_CHECK(!p.no_memory);
	ATF_CHECK(pool_alloc(&p, 3999));
	ATF_CHECK(pool_alloc(&p, 0)); /* is a byte */
	ATF_CHECK(!pool_alloc(&p, 1));
	pool_free(&p);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, wire__depth);
	ATF_TP_ADD_TC(tp, wire__utf8);
	ATF_TP_ADD_TC(tp, wire__nul);
	ATF_TP_ADD_TC(tp, wire__truncated);
	ATF_TP_ADD_TC(tp, wire__bad_forms);
	ATF_TP_ADD_TC(tp, wire__merges);
	ATF_TP_ADD_TC(tp, wire__groups);
	ATF_TP_ADD_TC(tp, wire__foreign_type);
	ATF_TP_ADD_TC(tp, wire__unknown_fields);
	ATF_TP_ADD_TC(tp, decode__empty);
	ATF_TP_ADD_TC(tp, decode__numbers);
	ATF_TP_ADD_TC(tp, decode__last_wins);
	ATF_TP_ADD_TC(tp, decode__strindex);
	ATF_TP_ADD_TC(tp, decode__resource_rest);
	ATF_TP_ADD_TC(tp, decode__keys_twice);
	ATF_TP_ADD_TC(tp, decode__instrumentations);
	ATF_TP_ADD_TC(tp, decode__memory);
	ATF_TP_ADD_TC(tp, pool__budget);
	return atf_no_error();
}
