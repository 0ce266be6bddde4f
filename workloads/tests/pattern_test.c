/* Which pages the patterns visit. Cannot show that a workload writes them. */
#include <stdlib.h>

#include <atf-c.h>

#include "pattern.h"

#define PAGES 1000u

/* How often each page came up in @n steps; every one is within range. */
static void visit(enum pattern_kind kind, uint64_t seed, unsigned int n, unsigned int *hits)
{
	struct pattern p;

	ATF_REQUIRE(pattern_init(&p, kind, PAGES, 16, seed));
	for (unsigned int i = 0; i < PAGES; i++)
		hits[i] = 0;
	for (unsigned int i = 0; i < n; i++) {
		uint64_t page = pattern_next(&p);

		ATF_REQUIRE(page < PAGES);
		hits[page]++;
	}
	pattern_free(&p);
}

static unsigned int n_visited(const unsigned int *hits)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < PAGES; i++)
		n += hits[i] > 0;
	return n;
}

ATF_TC(pattern__unknown_name);
ATF_TC_HEAD(pattern__unknown_name, tc)
{
	atf_tc_set_md_var(tc, "descr", "A name that is no pattern is refused");
}
ATF_TC_BODY(pattern__unknown_name, tc)
{
	enum pattern_kind kind = PATTERN_ZIPF;

	ATF_CHECK(!pattern_kind_of("sequentia", &kind));
	ATF_CHECK(!pattern_kind_of("", &kind));
	ATF_CHECK_EQ(PATTERN_ZIPF, kind);
	ATF_REQUIRE(pattern_kind_of("stride", &kind));
	ATF_CHECK_EQ(PATTERN_STRIDE, kind);
}

ATF_TC(pattern__same_seed_same_pages);
ATF_TC_HEAD(pattern__same_seed_same_pages, tc)
{
	atf_tc_set_md_var(tc, "descr", "A seed fixes the sequence, another one changes it");
}
ATF_TC_BODY(pattern__same_seed_same_pages, tc)
{
	struct pattern a, b, c;
	unsigned int same = 0;

	ATF_REQUIRE(pattern_init(&a, PATTERN_UNIFORM, PAGES, 1, 7));
	ATF_REQUIRE(pattern_init(&b, PATTERN_UNIFORM, PAGES, 1, 7));
	ATF_REQUIRE(pattern_init(&c, PATTERN_UNIFORM, PAGES, 1, 8));
	for (int i = 0; i < 1000; i++) {
		uint64_t page = pattern_next(&a);

		ATF_REQUIRE_EQ(page, pattern_next(&b));
		same += page == pattern_next(&c);
	}
	ATF_CHECK(same < 20);
}

ATF_TC(pattern__round_visits_all);
ATF_TC_HEAD(pattern__round_visits_all, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "One round of sequential visits each page once, of "
			  "stride each page at least once");
}
ATF_TC_BODY(pattern__round_visits_all, tc)
{
	unsigned int hits[PAGES];

	visit(PATTERN_SEQUENTIAL, 1, PAGES, hits);
	for (unsigned int i = 0; i < PAGES; i++)
		ATF_REQUIRE_EQ(1, hits[i]);
	/* 16 lanes of 63 steps; a lane past the end begins anew at the front */
	visit(PATTERN_STRIDE, 1, 16 * 63, hits);
	ATF_CHECK_EQ(PAGES, n_visited(hits));
}

ATF_TC(pattern__stride_step);
ATF_TC_HEAD(pattern__stride_step, tc)
{
	atf_tc_set_md_var(tc, "descr", "The stride pattern goes on by its stride");
}
ATF_TC_BODY(pattern__stride_step, tc)
{
	struct pattern p;

	ATF_REQUIRE(pattern_init(&p, PATTERN_STRIDE, PAGES, 16, 1));
	for (uint64_t i = 0; i < 62; i++)
		ATF_REQUIRE_EQ(i * 16, pattern_next(&p));
}

ATF_TC(pattern__zipf_prefers_low_pages);
ATF_TC_HEAD(pattern__zipf_prefers_low_pages, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Zipf gives the first tenth of the pages about two "
			  "thirds of the writes, uniform a tenth");
}
ATF_TC_BODY(pattern__zipf_prefers_low_pages, tc)
{
	unsigned int hits[PAGES], low[2] = { 0 };

	for (int z = 0; z < 2; z++) {
		visit(z ? PATTERN_ZIPF : PATTERN_UNIFORM, 3, 100000, hits);
		for (unsigned int i = 0; i < PAGES / 10; i++)
			low[z] += hits[i];
	}
	/* H(100) / H(1000) = 5.187 / 7.485 = 0.693 */
	ATF_CHECK(low[0] > 9000 && low[0] < 11000);
	ATF_CHECK(low[1] > 67300 && low[1] < 71300);
}

ATF_TC(pattern__phases_move_on);
ATF_TC_HEAD(pattern__phases_move_on, tc)
{
	atf_tc_set_md_var(tc, "descr", "Phases stay in one eighth, then take the next");
}
ATF_TC_BODY(pattern__phases_move_on, tc)
{
	unsigned int hits[PAGES];

	visit(PATTERN_PHASES, 1, 125 * 256, hits);
	ATF_CHECK_EQ(125, n_visited(hits));
	ATF_CHECK_EQ(256, hits[124]);
	visit(PATTERN_PHASES, 1, 125 * 256 + 1, hits);
	ATF_CHECK_EQ(1, hits[125]);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, pattern__unknown_name);
	ATF_TP_ADD_TC(tp, pattern__same_seed_same_pages);
	ATF_TP_ADD_TC(tp, pattern__round_visits_all);
	ATF_TP_ADD_TC(tp, pattern__stride_step);
	ATF_TP_ADD_TC(tp, pattern__zipf_prefers_low_pages);
	ATF_TP_ADD_TC(tp, pattern__phases_move_on);
	return atf_no_error();
}
