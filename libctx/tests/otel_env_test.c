/* Reading OTEL_RESOURCE_ATTRIBUTES and what is written like it */
#include <errno.h>
#include <string.h>

#include "otel_env.h"
#include "pub_util.h"

static struct arena arena;
static struct attr_list list;

static int parse(const char *text)
{
	arena_init(&arena);
	memset(&list, 0, sizeof(list));
	return otel_env_attributes(&arena, text, &list);
}

static bool is(const char *key, const char *value)
{
	const struct pctx_attr *a = attr_list_find(&list, key);

	return a && a->value.kind == PCTX_STRING && a->value.u.string.len == strlen(value) &&
	       !strcmp(a->value.u.string.data, value);
}

CASE(parse__spoilt, "One error spoils the whole variable")
{
	static const struct {
		const char *text;
		int rc;
	} table[] = {
		{ "a", -EINVAL },	{ "a=1,b", -EINVAL },	  { "=1", -EINVAL },
		{ "a=1, =2", -EINVAL }, { "a=%", -EINVAL },	  { "a=%4", -EINVAL },
		{ "a=%zz", -EINVAL },	{ "a=%4z,b=1", -EINVAL }, { "b=1,a=%4", -EINVAL },
		{ "a=%00", -EILSEQ },	{ "a=%ff", -EILSEQ },	  { "a%00b=1", -EILSEQ },
		{ "a=\xff", -EILSEQ },	{ "a=%4,2=", -EINVAL },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		ATF_CHECK_MSG(parse(table[i].text) == table[i].rc, "%s", table[i].text);
		ATF_CHECK_EQ(list.n, 0);
		arena_free(&arena);
	}
}

CASE(parse__decodes, "Blanks do not count, %XX stands for a byte, in keys too")
{
	ATF_REQUIRE_EQ(parse(" a = b c\t,%2Cx%3d=%2c%3D%25, \xc3\xa4=%C3%A4,e=,f=x=y;z"), 0);
	ATF_CHECK_EQ(list.n, 5);
	ATF_CHECK(is("a", "b c"));
	ATF_CHECK(is(",x=", ",=%"));
	ATF_CHECK(is("\xc3\xa4", "\xc3\xa4"));
	ATF_CHECK(is("e", ""));
	ATF_CHECK(is("f", "x=y;z"));
	arena_free(&arena);
}

CASE(parse__empty_members, "Empty members are passed over")
{
	ATF_CHECK_EQ(parse(""), 0);
	ATF_CHECK_EQ(list.n, 0);
	ATF_CHECK_EQ(parse(" "), 0);
	ATF_CHECK_EQ(list.n, 0);
	ATF_CHECK_EQ(parse(",, a=1 , ,"), 0);
	ATF_CHECK_EQ(list.n, 1);
	ATF_CHECK(is("a", "1"));
	arena_free(&arena);
}

CASE(parse__later_counts, "Of two members with one key the later counts")
{
	ATF_REQUIRE_EQ(parse("a=1,b=2,a=3"), 0);
	ATF_CHECK_EQ(list.n, 2);
	ATF_CHECK(is("a", "3"));
	ATF_REQUIRE_EQ(otel_env_attributes(&arena, "b=4,c=5", &list), 0);
	ATF_CHECK_EQ(list.n, 3);
	ATF_CHECK(is("b", "4"));
	ATF_CHECK_EQ(otel_env_attributes(&arena, "b=6,c", &list), -EINVAL);
	ATF_CHECK(is("b", "4"));
	arena_free(&arena);
}

CASE(parse__many, "Thousands of members are read")
{
	static char text[200000];
	size_t at = 0;

	for (int i = 0; i < 5000; i++)
		at += (size_t)sprintf(text + at, "key.%d=%%41%d,", i, i);
	ATF_REQUIRE_EQ(parse(text), 0);
	ATF_CHECK_EQ(list.n, 5000);
	ATF_CHECK(is("key.4999", "A4999"));
	arena_free(&arena);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, parse__spoilt);
	ATF_TP_ADD_TC(tp, parse__decodes);
	ATF_TP_ADD_TC(tp, parse__empty_members);
	ATF_TP_ADD_TC(tp, parse__later_counts);
	ATF_TP_ADD_TC(tp, parse__many);
	return atf_no_error();
}
