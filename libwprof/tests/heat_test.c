/*
 * The rules of heat on made-up traces: no process is profiled here, so this
 * cannot show that the counts which reach the rules are right.
 */
#include <errno.h>
#include <string.h>

#include "case.h"
#include "heat.h"

#define PAGE 4096ul
#define MIB  (1ul << 20)
#define BASE (1ul << 30)

static const struct heat_params vma_params = {
	.granularity = WPROF_VMA,
	.threshold = 0.3,
	.consecutive = 3,
	.window = 10,
	.page_shift = 12,
};
static const struct heat_params chunk_params = {
	.granularity = WPROF_CHUNK,
	.threshold = 0.3,
	.consecutive = 3,
	.window = 10,
	.page_shift = 12,
};

static uint64_t number;
static int64_t populated = 512;
static unsigned int n_counts;

static int64_t count(void *arg, uint64_t start, uint64_t end)
{
	(void)arg;
	(void)start;
	(void)end;
	n_counts++;
	return populated;
}

/* One interval: up to two VMAs and two runs; n 0: there is none */
static void feed(struct heat *h, const struct area *areas, size_t n_areas,
		 const struct wprof_run *v, size_t n)
{
	struct runs runs = { .v = (struct wprof_run *)(uintptr_t)v, .n = n };
	struct heat_input in = {
		.number = ++number,
		.areas = areas,
		.n_areas = n_areas,
		.runs = &runs,
		.count = count,
	};

	ATF_REQUIRE_EQ(0, heat_interval(h, &in));
}

static size_t hot(struct heat *h, const struct area *areas, const struct wprof_region **r)
{
	const size_t *area_of;
	size_t n;

	ATF_REQUIRE_EQ(0, heat_hot(h, areas, r, &area_of, &n));
	return n;
}

static struct heat *start(const struct heat_params *params)
{
	struct heat *h;

	number = 0;
	n_counts = 0;
	populated = 512;
	ATF_REQUIRE_EQ(0, heat_open(params, NULL, &h));
	return h;
}

static const struct area one = { .start = BASE, .end = BASE + 100 * PAGE };

CASE(vma__hot_after_three, "Hot in the third interval in a row above the threshold, not before")
{
	struct heat *h = start(&vma_params);
	struct wprof_run run = { BASE, 31 };
	const struct wprof_region *r;

	for (int i = 1; i <= 4; i++) {
		feed(h, &one, 1, &run, 1);
		ATF_CHECK_EQ(i >= 3, hot(h, &one, &r));
	}
	ATF_CHECK_EQ(BASE, r->start);
	ATF_CHECK_EQ(BASE + 100 * PAGE, r->end);
	ATF_CHECK_EQ(4, r->consecutive);
	ATF_CHECK(r->written_ratio > 0.309 && r->written_ratio < 0.311);
	heat_close(h);
}

CASE(vma__at_the_threshold_is_not_above, "A ratio equal to the threshold does not count")
{
	struct heat *h = start(&vma_params);
	struct wprof_run run = { BASE, 30 };
	const struct wprof_region *r;

	for (int i = 0; i < 5; i++)
		feed(h, &one, 1, &run, 1);
	ATF_CHECK_EQ(0, hot(h, &one, &r));
	heat_close(h);
}

CASE(vma__one_cold_interval_cools, "One interval below cools at once and starts the count again")
{
	struct heat *h = start(&vma_params);
	struct wprof_run run = { BASE, 90 };
	const struct wprof_region *r;

	for (int i = 0; i < 5; i++)
		feed(h, &one, 1, &run, 1);
	ATF_CHECK_EQ(1, hot(h, &one, &r));
	feed(h, &one, 1, NULL, 0);
	ATF_CHECK_EQ(0, hot(h, &one, &r));
	feed(h, &one, 1, &run, 1);
	feed(h, &one, 1, &run, 1);
	ATF_CHECK_EQ(0, hot(h, &one, &r));
	feed(h, &one, 1, &run, 1);
	ATF_CHECK_EQ(1, hot(h, &one, &r));
	heat_close(h);
}

CASE(vma__window_mean, "The window's mean is of the last ten intervals, the ratio of the last one")
{
	struct heat *h = start(&vma_params);
	struct wprof_run run = { BASE, 100 };
	const struct heat_cell *c;
	size_t n;

	for (int i = 0; i < 10; i++)
		feed(h, &one, 1, i % 2 ? &run : NULL, i % 2);
	c = heat_cells(h, &n);
	ATF_REQUIRE_EQ(1, n);
	ATF_CHECK_EQ(1, c->ratio);
	ATF_CHECK(heat_window_ratio(h, c) == 0.5);
	for (int i = 0; i < 10; i++)
		feed(h, &one, 1, NULL, 0);
	c = heat_cells(h, &n);
	ATF_CHECK(heat_window_ratio(h, c) == 0);
	heat_close(h);
}

CASE(vma__growth_keeps_history, "A heap that grows each interval becomes hot, and stays so")
{
	struct heat *h = start(&vma_params);
	struct area a = one;
	const struct wprof_region *r;

	for (int i = 1; i <= 6; i++) {
		struct wprof_run run = { a.start, 60 + 20 * (uint64_t)i };

		a.end += 20 * PAGE;
		feed(h, &a, 1, &run, 1);
		ATF_CHECK_EQ(i >= 3, hot(h, &a, &r));
	}
	heat_close(h);
}

CASE(vma__split_and_merge_keep_history,
     "Both halves of a hot VMA are hot, and so is the whole again")
{
	struct heat *h = start(&vma_params);
	struct area halves[2] = {
		{ .start = BASE, .end = BASE + 50 * PAGE },
		{ .start = BASE + 50 * PAGE, .end = BASE + 100 * PAGE },
	};
	struct wprof_run run = { BASE, 100 }, runs[2] = { { BASE, 50 }, { BASE + 50 * PAGE, 50 } };
	const struct wprof_region *r;

	for (int i = 0; i < 3; i++)
		feed(h, &one, 1, &run, 1);
	feed(h, halves, 2, runs, 2);
	ATF_REQUIRE_EQ(2, hot(h, halves, &r));
	ATF_CHECK_EQ(4, r[0].consecutive);
	ATF_CHECK_EQ(4, r[1].consecutive);
	feed(h, &one, 1, &run, 1);
	ATF_REQUIRE_EQ(1, hot(h, &one, &r));
	ATF_CHECK_EQ(5, r->consecutive);
	heat_close(h);
}

CASE(vma__unmapped_is_forgotten, "Memory that was gone, or replaced, starts from nothing")
{
	struct heat *h = start(&vma_params);
	struct wprof_run run = { BASE, 100 };
	struct area replaced = one;
	const struct wprof_region *r;

	for (int i = 0; i < 3; i++)
		feed(h, &one, 1, &run, 1);
	feed(h, NULL, 0, NULL, 0);
	feed(h, &one, 1, &run, 1);
	ATF_CHECK_EQ(0, hot(h, &one, &r));
	feed(h, &one, 1, &run, 1);
	feed(h, &one, 1, &run, 1);
	ATF_CHECK_EQ(1, hot(h, &one, &r));
	replaced.state = AREA_REPLACED;
	feed(h, &replaced, 1, &run, 1);
	ATF_CHECK_EQ(0, hot(h, &replaced, &r));
	heat_close(h);
}

CASE(chunk__hot_corner_of_a_large_heap, "A hot corner of 1 GiB is found; the seed's ratio has none")
{
	struct heat *h = start(&chunk_params), *v = start(&vma_params);
	struct area a = { .start = BASE, .end = BASE + 1024 * MIB };
	struct wprof_run run = { BASE + 100 * MIB, 2048 };
	const struct wprof_region *r;

	for (int i = 0; i < 3; i++) {
		feed(h, &a, 1, &run, 1);
		feed(v, &a, 1, &run, 1);
	}
	ATF_REQUIRE_EQ(1, hot(h, &a, &r));
	ATF_CHECK_EQ(BASE + 100 * MIB, r->start);
	ATF_CHECK_EQ(BASE + 108 * MIB, r->end);
	ATF_CHECK_EQ(0, hot(v, &a, &r));
	heat_close(h);
	heat_close(v);
}

CASE(chunk__ratio_over_populated, "A reserved arena does not dilute: pages that exist count")
{
	struct heat *h = start(&chunk_params);
	struct area a = { .start = BASE, .end = BASE + 64 * MIB };
	struct wprof_run run = { BASE, 10 };
	const struct wprof_region *r;

	populated = 20;
	for (int i = 0; i < 3; i++)
		feed(h, &a, 1, &run, 1);
	ATF_REQUIRE_EQ(1, hot(h, &a, &r));
	ATF_CHECK(r->written_ratio == 0.5);
	heat_close(h);
}

CASE(chunk__populated_bytes, "A hot region says how much of it exists, not how far it reaches")
{
	struct heat *h = start(&chunk_params);
	struct area a = { .start = BASE, .end = BASE + 64 * MIB, .populated = 9999 };
	struct wprof_run runs[] = { { BASE, 2 }, { BASE + 10 * MIB, 512 }, { BASE + 12 * MIB, 2 } };
	const struct wprof_region *r;

	populated = 2;
	for (int i = 0; i < 3; i++)
		feed(h, &a, 1, runs, 3);
	ATF_REQUIRE_EQ(2, hot(h, &a, &r));
	ATF_CHECK_EQ(BASE + 2 * MIB, r[0].end);
	ATF_CHECK_EQ(2 * PAGE, r[0].populated_bytes);
	ATF_CHECK_EQ(BASE + 14 * MIB, r[1].end);
	ATF_CHECK_EQ(2 * MIB + 2 * PAGE, r[1].populated_bytes);
	heat_close(h);
}

CASE(vma__populated_bytes, "A hot VMA holds what was counted of it, and no more than it is large")
{
	struct heat *h = start(&vma_params);
	struct wprof_run run = { BASE, 40 };
	struct area a = one;
	const struct wprof_region *r;

	for (int i = 0; i < 3; i++)
		feed(h, &a, 1, &run, 1);
	ATF_REQUIRE_EQ(1, hot(h, &a, &r));
	ATF_CHECK_EQ(40 * PAGE, r->populated_bytes);
	a.populated = 60;
	ATF_REQUIRE_EQ(1, hot(h, &a, &r));
	ATF_CHECK_EQ(60 * PAGE, r->populated_bytes);
	a.populated = 1000;
	ATF_REQUIRE_EQ(1, hot(h, &a, &r));
	ATF_CHECK_EQ(100 * PAGE, r->populated_bytes);
	heat_close(h);
}

CASE(chunk__counted_every_ten, "Populated pages are counted at first and then every ten intervals")
{
	struct heat *h = start(&chunk_params);
	struct area a = { .start = BASE, .end = BASE + 64 * MIB };
	struct wprof_run run = { BASE, 10 };

	for (int i = 0; i < 40; i++)
		feed(h, &a, 1, &run, 1);
	ATF_CHECK_MSG(n_counts >= 4 && n_counts <= 5, "%u counts", n_counts);
	heat_close(h);
}

CASE(chunk__forgotten_when_cold, "A chunk not written in a whole window takes no memory any more")
{
	struct heat *h = start(&chunk_params);
	struct area a = { .start = BASE, .end = BASE + 64 * MIB };
	struct wprof_run run = { BASE, 1024 };
	size_t n;

	feed(h, &a, 1, &run, 1);
	heat_cells(h, &n);
	ATF_CHECK_EQ(2, n);
	for (int i = 0; i < 10; i++)
		feed(h, &a, 1, NULL, 0);
	heat_cells(h, &n);
	ATF_CHECK_EQ(0, n);
	heat_close(h);
}

CASE(chunk__cut_at_vma_borders, "Two VMAs in one chunk are two cells, merged into no region")
{
	struct heat *h = start(&chunk_params);
	struct area a[2] = {
		{ .start = BASE + PAGE, .end = BASE + 9 * PAGE },
		{ .start = BASE + 9 * PAGE, .end = BASE + 17 * PAGE },
	};
	struct wprof_run run[2] = { { BASE + PAGE, 8 }, { BASE + 9 * PAGE, 8 } };
	const struct wprof_region *r;

	populated = 8;
	for (int i = 0; i < 3; i++)
		feed(h, a, 2, run, 2);
	ATF_REQUIRE_EQ(2, hot(h, a, &r));
	ATF_CHECK_EQ(BASE + PAGE, r[0].start);
	ATF_CHECK_EQ(BASE + 9 * PAGE, r[0].end);
	heat_close(h);
}

CASE(merge__weighted_by_size, "Of merged regions the ratio is weighted, the count is the least")
{
	struct heat *h = start(&chunk_params);
	struct area a = { .start = BASE, .end = BASE + 3 * MIB };
	struct wprof_run both = { BASE, 768 }, first = { BASE, 512 };
	struct wprof_run uneven[2] = { { BASE, 256 }, { BASE + 2 * MIB, 256 } };
	const struct wprof_region *r;

	feed(h, &a, 1, &first, 1);
	for (int i = 0; i < 3; i++)
		feed(h, &a, 1, &both, 1);
	populated = 512;
	feed(h, &a, 1, uneven, 2);
	ATF_REQUIRE_EQ(1, hot(h, &a, &r));
	ATF_CHECK_EQ(BASE + 3 * MIB, r->end);
	ATF_CHECK_EQ(4, r->consecutive);
	ATF_CHECK_MSG(r->written_ratio > 0.49 && r->written_ratio < 0.51, "%f", r->written_ratio);
	heat_close(h);
}

CASE(estimate__divided_over_cells, "An estimate over two cells is divided by their shares")
{
	struct heat *h = start(&chunk_params);
	struct area a = { .start = BASE, .end = BASE + 4 * MIB };
	struct runs runs = { 0 };
	struct heat_estimate e = { BASE + 1 * MIB, BASE + 3 * MIB, 300 };
	struct heat_input in = {
		.number = ++number,
		.areas = &a,
		.n_areas = 1,
		.runs = &runs,
		.estimates = &e,
		.n_estimates = 1,
		.count = count,
	};
	const struct heat_cell *c;
	size_t n;

	ATF_REQUIRE_EQ(0, heat_interval(h, &in));
	c = heat_cells(h, &n);
	ATF_REQUIRE_EQ(2, n);
	ATF_CHECK_EQ(150, c[0].written);
	ATF_CHECK_EQ(150, c[1].written);
	heat_close(h);
}

static void last_judge(struct heat_cell *c, const double *window, const struct heat_params *p)
{
	c->hot = window[c->n - 1] > p->threshold;
}

CASE(rule__another_one, "A rule of one's own decides what is hot")
{
	const struct heat_rule rule = { "last", false, heat_rule_vma.ratio, last_judge };
	struct wprof_run run = { BASE, 60 };
	const struct wprof_region *r;
	struct heat *h;

	ATF_REQUIRE_EQ(0, heat_open(&vma_params, &rule, &h));
	feed(h, &one, 1, &run, 1);
	ATF_CHECK_EQ(1, hot(h, &one, &r));
	heat_close(h);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, vma__hot_after_three);
	ATF_TP_ADD_TC(tp, vma__at_the_threshold_is_not_above);
	ATF_TP_ADD_TC(tp, vma__one_cold_interval_cools);
	ATF_TP_ADD_TC(tp, vma__window_mean);
	ATF_TP_ADD_TC(tp, vma__growth_keeps_history);
	ATF_TP_ADD_TC(tp, vma__split_and_merge_keep_history);
	ATF_TP_ADD_TC(tp, vma__unmapped_is_forgotten);
	ATF_TP_ADD_TC(tp, chunk__hot_corner_of_a_large_heap);
	ATF_TP_ADD_TC(tp, chunk__ratio_over_populated);
	ATF_TP_ADD_TC(tp, chunk__populated_bytes);
	ATF_TP_ADD_TC(tp, vma__populated_bytes);
	ATF_TP_ADD_TC(tp, chunk__counted_every_ten);
	ATF_TP_ADD_TC(tp, chunk__forgotten_when_cold);
	ATF_TP_ADD_TC(tp, chunk__cut_at_vma_borders);
	ATF_TP_ADD_TC(tp, merge__weighted_by_size);
	ATF_TP_ADD_TC(tp, estimate__divided_over_cells);
	ATF_TP_ADD_TC(tp, rule__another_one);
	return atf_no_error();
}
