/* Payloads as bytes: which are taken, which refused, and what comes out. */
#include <math.h>

#include "decode.h"
#include "scene.h"
#include "wire.h"

static int decode(const struct bytes *b, struct pctx_context **out)
{
	return decode_context(b->data, b->len, out);
}

/* Whether it is taken at all. */
static int verdict(const struct bytes *b)
{
	struct pctx_context *c;
	int rc = decode(b, &c);

	if (rc == 0)
		pctx_context_free(c);
	return rc;
}

/* One resource attribute "k" whose AnyValue is in @b. */
static void as_value(struct bytes *b)
{
	static struct bytes any;

	any = *b;
	b->len = 0;
	put_field(b, 1, "k", 1);
	put_field(b, 2, any.data, any.len);
	wrap(b, 1);
	wrap(b, 1);
}

static const struct pctx_value *value_of(struct bytes *b, struct pctx_context **c)
{
	size_t n;
	const struct pctx_attr *attrs;

	as_value(b);
	ATF_REQUIRE_EQ(0, decode(b, c));
	attrs = pctx_context_resource(*c, &n);
	ATF_REQUIRE_EQ(1, n);
	ATF_CHECK_STREQ("k", attrs[0].key);
	return &attrs[0].value;
}

/* ---- refused ---------------------------------------------------------------- */

/* @n arrays, each in the one before, with an empty value innermost. */
static void put_nested(struct bytes *b, unsigned int n)
{
	b->len = 0;
	for (unsigned int i = 0; i < n; i++) {
		wrap(b, 1); /* a value of the array */
		wrap(b, 5); /* the array of a value */
	}
	as_value(b);
}

TEST_CASE(wire__depth,
	  "99 levels in a message are taken, 101 refused, 16,000 refused without a crash")
{
	static struct bytes b;

	/* resource, key-value, value; two levels for each array: 99 and 101 */
	put_nested(&b, 48);
	ATF_CHECK_EQ(0, verdict(&b));
	put_nested(&b, 49);
	ATF_CHECK_EQ(-EBADMSG, verdict(&b));
	put_nested(&b, 8000);
	ATF_REQUIRE(b.len < sizeof(b.data));
	ATF_CHECK_EQ(-EBADMSG, verdict(&b));
}

TEST_CASE(wire__utf8,
	  "Invalid UTF-8 in a key or a string refuses the message; bytes may be anything")
{
	static const char *const bad[] = { "\x80",  "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80",
					   "a\xff", "\xe2\x82" };
	static struct bytes b;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		payload_string(&b, bad[i], "v");
		ATF_CHECK_EQ(-EBADMSG, verdict(&b));
		payload_string(&b, "k", bad[i]);
		ATF_CHECK_EQ(-EBADMSG, verdict(&b));
		b.len = 0;
		put_field(&b, 7, bad[i], strlen(bad[i]));
		as_value(&b);
		ATF_CHECK_EQ(0, verdict(&b));
	}
	payload_string(&b, "schl\xc3\xbcssel", "\xe2\x82\xac \xf0\x9f\x90\x9f");
	ATF_CHECK_EQ(0, verdict(&b));
}

TEST_CASE(wire__nul, "A NUL in a key or string refuses the message: no key passes for another")
{
	static struct bytes b;

	b.len = 0;
	put_field(&b, 1, "service.name\0x", 14);
	wrap(&b, 1);
	wrap(&b, 1);
	ATF_CHECK_EQ(-EBADMSG, verdict(&b));
	b.len = 0;
	put_field(&b, 1, "a\0b", 3);
	as_value(&b);
	ATF_CHECK_EQ(-EBADMSG, verdict(&b));
}

TEST_CASE(wire__truncated, "Every proper prefix of a message is refused or is a message by itself")
{
	static struct bytes b, prefix;
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
	static struct bytes b;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		b.len = 0;
		put(&b, bad[i].data, bad[i].len);
		ATF_CHECK_EQ_MSG(-EBADMSG, verdict(&b), "vector %zu", i);
	}
}

TEST_CASE(wire__merges, "A resource given in 64 parts is merged, more parts are refused")
{
	static struct bytes b;
	struct pctx_context *c;
	size_t n;

	b.len = 0;
	for (unsigned int i = 0; i < 64; i++)
		put(&b, "\x0a\x05\x0a\x03\x0a\x01k", 7);
	ATF_REQUIRE_EQ(0, decode(&b, &c));
	pctx_context_resource(c, &n);
	ATF_CHECK_EQ(64, n);
	pctx_context_free(c);
	put(&b, "\x0a\x05\x0a\x03\x0a\x01k", 7);
	ATF_CHECK_EQ(-EBADMSG, verdict(&b));
}

/* ---- taken though protobuf-c alone would not ----------------------------------- */

TEST_CASE(wire__groups, "Unknown groups of any length are passed over")
{
	static struct bytes b;
	struct pctx_context *c;

	for (size_t len = 0; len < 40000; len = len < 300 ? len + 1 : len * 2) {
		payload_string(&b, "service.name", "x");
		put(&b, "\x1b", 1);		/* group 3 */
		put(&b, "\xa3\x01\xa4\x01", 4); /* an empty group 20 within */
		put_varint(&b, 5 << 3 | 2);
		put_varint(&b, len);
		memset(b.data + b.len, 0xff, len);
		b.len += len;
		put(&b, "\x1c", 1);
		put(&b, "\xa3\x01\x20\x07\xa4\x01", 6); /* group 20 with a varint */
		put(&b, "\x0b\x0c", 2);			/* the resource's number as a group */
		ATF_REQUIRE_EQ_MSG(0, decode(&b, &c), "length %zu", len);
		ATF_CHECK(has_string(c, "service.name", "x"));
		pctx_context_free(c);
	}
}

TEST_CASE(wire__foreign_type, "A known number of another wire type counts as unknown")
{
	static struct bytes b;
	struct pctx_context *c;

	payload_string(&b, "service.name", "x");
	put(&b, "\x08\x05\x15\x01\x02\x03\x04\x11\x01\x02\x03\x04\x05\x06\x07\x08", 16);
	put(&b, "\x88\x00\x05", 3); /* the tag longer than it needs */
	ATF_REQUIRE_EQ(0, decode(&b, &c));
	ATF_CHECK(has_string(c, "service.name", "x"));
	pctx_context_free(c);
	/* a string where a value's int should be, and an int where its string */
	b.len = 0;
	put(&b, "\x1a\x01z\x08\x05", 5);
	ATF_CHECK_EQ(PCTX_EMPTY, value_of(&b, &c)->kind);
	pctx_context_free(c);
}

TEST_CASE(wire__unknown_fields, "Unknown fields of every wire type are passed over")
{
	static struct bytes b;
	struct pctx_context *c;

	payload_string(&b, "service.name", "x");
	put(&b, "\x78\x01\x79\x01\x02\x03\x04\x05\x06\x07\x08\x7a\x02\xff\x00\x7d\x01\x02\x03\x04",
	    20);
	put(&b, "\xfa\xff\xff\xff\x0f\x00", 6); /* the greatest number there is */
	ATF_REQUIRE_EQ(0, decode(&b, &c));
	ATF_CHECK(has_string(c, "service.name", "x"));
	pctx_context_free(c);
}

/* ---- what comes out ---------------------------------------------------------------- */

TEST_CASE(decode__empty, "An empty message and empty messages within are taken")
{
	static struct bytes b;
	struct pctx_context *c;
	const struct pctx_attr *attrs;
	size_t n;

	b.len = 0;
	ATF_REQUIRE_EQ(0, decode(&b, &c));
	pctx_context_resource(c, &n);
	ATF_CHECK_EQ(0, n);
	pctx_context_free(c);
	put(&b, "\x0a\x02\x0a\x00\x12\x00", 6);
	ATF_REQUIRE_EQ(0, decode(&b, &c));
	attrs = pctx_context_resource(c, &n);
	ATF_REQUIRE_EQ(1, n);
	ATF_CHECK_STREQ("", attrs[0].key);
	ATF_CHECK_EQ(PCTX_EMPTY, attrs[0].value.kind);
	pctx_context_attributes(c, &n);
	ATF_CHECK_EQ(1, n);
	pctx_context_free(c);
}

TEST_CASE(decode__numbers, "Least int, NaN, infinity and both bools come out as they went in")
{
	static struct bytes b;
	struct pctx_context *c;
	double doubles[] = { NAN, INFINITY, -INFINITY, -0.0, 5e-324 };

	b.len = 0;
	put(&b, "\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11);
	ATF_CHECK_EQ(INT64_MIN, value_of(&b, &c)->u.integer);
	pctx_context_free(c);
	for (size_t i = 0; i < 5; i++) {
		b.len = 0;
		put(&b, "\x21", 1);
		put(&b, &doubles[i], 8);
		ATF_CHECK_EQ(0, memcmp(&value_of(&b, &c)->u.number, &doubles[i], 8));
		pctx_context_free(c);
	}
	for (uint8_t i = 0; i < 2; i++) {
		b.len = 0;
		put(&b, "\x10", 1);
		put(&b, &i, 1);
		ATF_CHECK_EQ(i, value_of(&b, &c)->u.boolean);
		pctx_context_free(c);
	}
}

TEST_CASE(decode__last_wins, "Of a value given twice the last kind counts")
{
	static struct bytes b;
	struct pctx_context *c;

	b.len = 0;
	put(&b, "\x0a\x01z\x18\x07", 5);
	ATF_CHECK_EQ(7, value_of(&b, &c)->u.integer);
	pctx_context_free(c);
	b.len = 0;
	put(&b, "\x18\x07\x2a\x00", 4);
	ATF_CHECK_EQ(PCTX_ARRAY, value_of(&b, &c)->kind);
	pctx_context_free(c);
}

TEST_CASE(decode__strindex, "Indexes into a string table that is not there are empty values")
{
	static struct bytes b;
	struct pctx_context *c;
	const struct pctx_attr *attrs;
	size_t n;

	b.len = 0;
	put(&b, "\x40\x05", 2);
	ATF_CHECK_EQ(PCTX_EMPTY, value_of(&b, &c)->kind);
	pctx_context_free(c);
	b.len = 0;
	put(&b, "\x0a\x04\x0a\x02\x18\x09", 6); /* key_strindex alone */
	ATF_REQUIRE_EQ(0, decode(&b, &c));
	attrs = pctx_context_resource(c, &n);
	ATF_REQUIRE_EQ(1, n);
	ATF_CHECK_STREQ("", attrs[0].key);
	pctx_context_free(c);
}

TEST_CASE(decode__resource_rest, "dropped_attributes_count and entity_refs are taken and not shown")
{
	static struct bytes b;
	struct pctx_context *c;
	size_t n;

	b.len = 0;
	put(&b, "\x10\x07", 2);
	put_field(&b, 3, "\x0a\x01s\x12\x01t\x1a\x01i\x1a\x01j\x22\x01w", 15);
	wrap(&b, 1);
	ATF_REQUIRE_EQ(0, decode(&b, &c));
	pctx_context_resource(c, &n);
	ATF_CHECK_EQ(0, n);
	pctx_context_free(c);
}

TEST_CASE(decode__keys_twice, "Keys that are there twice stay, in their order")
{
	static struct bytes b;
	struct pctx_context *c;
	const struct pctx_attr *attrs;
	size_t n;

	b.len = 0;
	for (uint8_t i = '1'; i <= (uint8_t)'3'; i++) {
		uint8_t kv[] = { 0x12, 0x08, 0x0a, 0x01, 'k', 0x12, 0x03, 0x0a, 0x01, i };

		put(&b, kv, sizeof(kv));
	}
	ATF_REQUIRE_EQ(0, decode(&b, &c));
	attrs = pctx_context_attributes(c, &n);
	ATF_REQUIRE_EQ(3, n);
	for (size_t i = 0; i < n; i++)
		ATF_CHECK_EQ((char)('1' + i), attrs[i].value.u.string.data[0]);
	ATF_CHECK_EQ(&attrs[0], pctx_context_find(c, "k"));
	pctx_context_free(c);
}

TEST_CASE(decode__instrumentations, "An array of maps beside an empty resource comes out whole")
{
	static struct bytes b;
	struct pctx_context *c;
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
	ATF_REQUIRE_EQ(0, decode(&b, &c));
	v = &pctx_context_find(c, "i")->value;
	ATF_REQUIRE(v->kind == PCTX_ARRAY && v->u.array.n == 1);
	v = &v->u.array.values[0];
	ATF_REQUIRE(v->kind == PCTX_KVLIST && v->u.kvlist.n == 1);
	ATF_CHECK_STREQ("n", v->u.kvlist.attrs[0].key);
	ATF_CHECK_EQ('x', v->u.kvlist.attrs[0].value.u.string.data[0]);
	pctx_context_free(c);
}

TEST_CASE(decode__memory, "32768 empty attributes in 64 KiB are taken within the memory allowed")
{
	static struct bytes b;
	struct pctx_context *c;
	size_t n;

	b.len = 0;
	for (unsigned int i = 0; i < 32768; i++)
		put(&b, "\x12\x00", 2);
	ATF_REQUIRE_EQ(0, decode(&b, &c));
	pctx_context_attributes(c, &n);
	ATF_CHECK_EQ(32768, n);
	pctx_context_free(c);
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
	return atf_no_error();
}
