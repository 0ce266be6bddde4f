/*
 * The sets and arguments for CRIU. The chain of dumps is a model of CRIU's rules
 * (skip what is excluded, take no parent's page where none is), not CRIU itself.
 */
#include <atf-c.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wprof.h"

#define PAGES 40
#define BASE  0x7f1234000000u

static uint64_t address(size_t page)
{
	return BASE + page * (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct wprof_ranges *set_of(const struct wprof_range *list, size_t n)
{
	struct wprof_ranges *set;

	ATF_REQUIRE_EQ(wprof_ranges_new(list, n, &set), 0);
	return set;
}

static bool covers(const struct wprof_ranges *set, size_t page)
{
	const struct wprof_range *r;
	size_t n;

	r = wprof_ranges_list(set, &n);
	for (size_t i = 0; i < n; i++)
		if (r[i].start <= address(page) && address(page) < r[i].end)
			return true;
	return false;
}

/* @n separate ranges of 1 MiB */
static struct wprof_ranges *spread(size_t n)
{
	struct wprof_range list[64];

	for (size_t i = 0; i < n; i++) {
		list[i].start = BASE + (2 * i << 20);
		list[i].end = list[i].start + (1 << 20);
	}
	return set_of(list, n);
}

ATF_TC(sets__refuses_bad_options);
ATF_TC_HEAD(sets__refuses_bad_options, tc)
{
	atf_tc_set_md_var(tc, "descr", "No size, unknown options and bad VMAs have their errno");
}
ATF_TC_BODY(sets__refuses_bad_options, tc)
{
	const struct wprof_range down[] = { { 0x5000, 0x6000 }, { 0x1000, 0x2000 } };
	struct {
		struct wprof_criu_opts known;
		char unknown[8];
	} opts = { .known.size = sizeof(opts) };
	struct wprof_ranges *e = NULL, *n = NULL;

	ATF_CHECK_EQ(wprof_criu_sets(NULL, &e, &n), -EINVAL);
	ATF_CHECK_EQ(wprof_criu_sets(&(struct wprof_criu_opts){ 0 }, &e, &n), -EINVAL);
	ATF_CHECK_EQ(wprof_criu_sets(&opts.known, NULL, &n), -EINVAL);
	opts.unknown[0] = 1;
	ATF_CHECK_EQ(wprof_criu_sets(&opts.known, &e, &n), -E2BIG);
	opts.unknown[0] = 0;
	opts.known.vmas = down;
	opts.known.n_vmas = 2;
	ATF_CHECK_EQ(wprof_criu_sets(&opts.known, &e, &n), -EINVAL);
	ATF_CHECK(!e && !n);
}

ATF_TC(args__many_ranges_need_a_file);
ATF_TC_HEAD(args__many_ranges_need_a_file, tc)
{
	atf_tc_set_md_var(tc, "descr", "Eleven ranges without a file, or with a bad one, fail");
}
ATF_TC_BODY(args__many_ranges_need_a_file, tc)
{
	struct wprof_ranges *set = spread(WPROF_CRIU_INLINE + 1);
	char **args = NULL;

	ATF_CHECK_EQ(wprof_criu_args(set, NULL, NULL, &args), -ENAMETOOLONG);
	ATF_CHECK_EQ(wprof_criu_args(set, NULL, "no/place", &args), -ENOENT);
	ATF_CHECK_EQ(wprof_criu_args(set, NULL, "file", NULL), -EINVAL);
	ATF_CHECK_EQ(args, NULL);
	wprof_criu_args_free(NULL);
	wprof_ranges_free(set);
}

ATF_TC(args__up_to_ten_ranges_are_arguments);
ATF_TC_HEAD(args__up_to_ten_ranges_are_arguments, tc)
{
	atf_tc_set_md_var(tc, "descr", "Ten ranges are --exclude-range START:END, no file written");
}
ATF_TC_BODY(args__up_to_ten_ranges_are_arguments, tc)
{
	struct wprof_ranges *set = spread(WPROF_CRIU_INLINE);
	char **args;
	size_t n = 0;

	ATF_REQUIRE_EQ(wprof_criu_args(set, NULL, "file", &args), 0);
	ATF_CHECK_STREQ(args[0], "--exclude-range");
	ATF_CHECK_STREQ(args[1], "7f1234000000:7f1234100000");
	ATF_CHECK_STREQ(args[3], "7f1234200000:7f1234300000");
	while (args[n])
		n++;
	ATF_CHECK_EQ(n, 2 * WPROF_CRIU_INLINE);
	ATF_CHECK(access("file", F_OK) < 0);
	wprof_criu_args_free(args);
	wprof_ranges_free(set);
}

ATF_TC(args__eleven_ranges_go_to_the_file);
ATF_TC_HEAD(args__eleven_ranges_go_to_the_file, tc)
{
	atf_tc_set_md_var(tc, "descr", "Eleven are in the file; no-parent ranges stay arguments");
}
ATF_TC_BODY(args__eleven_ranges_go_to_the_file, tc)
{
	struct wprof_ranges *set = spread(WPROF_CRIU_INLINE + 1), *two = spread(2);
	char **args;

	ATF_REQUIRE_EQ(wprof_criu_args(set, two, "file", &args), 0);
	ATF_CHECK_STREQ(args[0], "--exclude-file");
	ATF_CHECK_STREQ(args[1], "file");
	ATF_CHECK_STREQ(args[2], "--no-parent-range");
	ATF_CHECK_STREQ(args[3], "7f1234000000:7f1234100000");
	ATF_CHECK_STREQ(args[4], "--no-parent-range");
	ATF_CHECK_STREQ(args[5], "7f1234200000:7f1234300000");
	ATF_CHECK_EQ(args[6], NULL);
	ATF_CHECK(atf_utils_grep_file("^7f1235400000 7f1235500000$", "file"));
	wprof_criu_args_free(args);
	wprof_ranges_free(set);
	wprof_ranges_free(two);
}

ATF_TC(args__nothing_hot_is_nothing);
ATF_TC_HEAD(args__nothing_hot_is_nothing, tc)
{
	atf_tc_set_md_var(tc, "descr", "Empty or missing sets give no argument");
}
ATF_TC_BODY(args__nothing_hot_is_nothing, tc)
{
	char **args;

	ATF_REQUIRE_EQ(wprof_criu_args(NULL, NULL, NULL, &args), 0);
	ATF_CHECK_EQ(args[0], NULL);
	wprof_criu_args_free(args);
}

ATF_TC(sets__page_exact_when_a_range_shrinks);
ATF_TC_HEAD(sets__page_exact_when_a_range_shrinks, tc)
{
	atf_tc_set_md_var(
		tc, "descr",
		"A range that starts where it did and shrank leaves its tail without parent");
}
ATF_TC_BODY(sets__page_exact_when_a_range_shrinks, tc)
{
	const struct wprof_range was = { 0x10000, 0x20000 }, is = { 0x10000, 0x14000 };
	struct wprof_criu_opts opts = { .size = sizeof(opts) };
	struct wprof_ranges *e, *none, *hot = set_of(&is, 1), *previous = set_of(&was, 1);
	const struct wprof_range *r;
	size_t n;

	opts.hot = hot;
	opts.previous = previous;
	ATF_REQUIRE_EQ(wprof_criu_sets(&opts, &e, &none), 0);
	r = wprof_ranges_list(none, &n);
	ATF_REQUIRE_EQ(n, 1);
	ATF_CHECK(r[0].start == 0x14000 && r[0].end == 0x20000);
	ATF_CHECK_EQ(wprof_ranges_bytes(e), 0x4000);
	wprof_ranges_free(e);
	wprof_ranges_free(none);
	wprof_ranges_free(hot);
	wprof_ranges_free(previous);
}

ATF_TC(sets__final_dump_takes_the_parents_set);
ATF_TC_HEAD(sets__final_dump_takes_the_parents_set, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Nothing hot: no-parent is all the parent left out; no parent: nothing");
}
ATF_TC_BODY(sets__final_dump_takes_the_parents_set, tc)
{
	struct wprof_criu_opts opts = { .size = sizeof(opts) };
	struct wprof_ranges *e, *none, *previous = spread(3);

	opts.previous = previous;
	ATF_REQUIRE_EQ(wprof_criu_sets(&opts, &e, &none), 0);
	ATF_CHECK_EQ(wprof_ranges_bytes(e), 0);
	ATF_CHECK_EQ(wprof_ranges_bytes(none), 3 << 20);
	wprof_ranges_free(e);
	wprof_ranges_free(none);
	opts.hot = previous;
	opts.previous = NULL;
	ATF_REQUIRE_EQ(wprof_criu_sets(&opts, &e, &none), 0);
	ATF_CHECK_EQ(wprof_ranges_bytes(e), 3 << 20);
	ATF_CHECK_EQ(wprof_ranges_bytes(none), 0);
	wprof_ranges_free(e);
	wprof_ranges_free(none);
	wprof_ranges_free(previous);
}

/* ---- a chain of dumps, modelled ------------------------------------------- */

struct chain {
	bool in_images[PAGES];	       /* some image of the chain has the page */
	struct wprof_ranges *previous; /* what the last dump left out */
	struct wprof_range vmas[PAGES];
	size_t n_vmas;
};

/* New VMAs for the same pages: some merge, some split. All pages are mapped. */
static void cut_vmas(struct chain *c)
{
	c->n_vmas = 0;
	for (size_t p = 0; p < PAGES;) {
		size_t to = p + 1 + (size_t)rand() % 8;

		to = to > PAGES ? PAGES : to;
		c->vmas[c->n_vmas++] = (struct wprof_range){ address(p), address(to) };
		p = to;
	}
}

/* CRIU skips a VMA that overlaps; an exact one would skip only the page. */
static bool is_touched(const struct chain *c, const struct wprof_ranges *set, size_t page,
		       bool whole)
{
	if (!whole)
		return covers(set, page);
	for (size_t v = 0; v < c->n_vmas; v++) {
		if (address(page) < c->vmas[v].start || address(page) >= c->vmas[v].end)
			continue;
		for (uint64_t a = c->vmas[v].start; a < c->vmas[v].end; a += address(1) - BASE)
			if (covers(set, (a - BASE) / (address(1) - BASE)))
				return true;
	}
	return false;
}

/* The rules of a dump: every page taken from a parent must be in the chain. */
static void dump_pages(struct chain *c, const struct wprof_ranges *e,
		       const struct wprof_ranges *none, bool whole)
{
	for (size_t p = 0; p < PAGES; p++) {
		bool dirty = rand() % 4 == 0;

		if (is_touched(c, e, p, whole))
			c->in_images[p] = false;
		else if (dirty || !c->previous || is_touched(c, none, p, whole))
			c->in_images[p] = true;
		ATF_REQUIRE_MSG(is_touched(c, e, p, whole) || c->in_images[p],
				"page %zu: missing in parent", p);
	}
}

static struct wprof_ranges *random_hot(void)
{
	struct wprof_range list[4];
	size_t n = (size_t)rand() % 5;

	for (size_t i = 0; i < n; i++) {
		size_t from = (size_t)rand() % PAGES;
		size_t to = from + 1 + (size_t)rand() % 6;

		list[i].start = address(from);
		list[i].end = address(to > PAGES ? PAGES : to);
	}
	return set_of(list, n);
}

static void one_dump(struct chain *c, bool final, bool whole)
{
	struct wprof_criu_opts opts = { .size = sizeof(opts), .previous = c->previous };
	struct wprof_ranges *hot = random_hot(), *e, *none;

	cut_vmas(c);
	opts.hot = final ? NULL : hot;
	opts.vmas = whole ? c->vmas : NULL;
	opts.n_vmas = whole ? c->n_vmas : 0;
	ATF_REQUIRE_EQ(wprof_criu_sets(&opts, &e, &none), 0);
	dump_pages(c, e, none, whole);
	wprof_ranges_free(c->previous);
	wprof_ranges_free(hot);
	wprof_ranges_free(none);
	c->previous = e;
}

static void check_chains(bool whole)
{
	unsigned int s = (unsigned int)getpid();

	printf("seed %u\n", s);
	srand(s);
	for (int i = 0; i < 500; i++) {
		struct chain c = { 0 };
		int dumps = 1 + rand() % 6;

		for (int d = 0; d < dumps; d++)
			one_dump(&c, false, whole);
		one_dump(&c, true, whole);
		for (size_t p = 0; p < PAGES; p++)
			ATF_REQUIRE_MSG(c.in_images[p], "page %zu is in no image", p);
		wprof_ranges_free(c.previous);
	}
}

ATF_TC(sets__no_page_is_missing_in_a_chain);
ATF_TC_HEAD(sets__no_page_is_missing_in_a_chain, tc)
{
	atf_tc_set_md_var(
		tc, "descr",
		"Random chains of dumps whose heat and VMAs change never refer to a missing page");
}
ATF_TC_BODY(sets__no_page_is_missing_in_a_chain, tc)
{
	check_chains(false);
}

ATF_TC(sets__no_page_is_missing_when_whole_vmas_are_skipped);
ATF_TC_HEAD(sets__no_page_is_missing_when_whole_vmas_are_skipped, tc)
{
	atf_tc_set_md_var(tc, "descr", "The same for a CRIU that skips every VMA that overlaps");
}
ATF_TC_BODY(sets__no_page_is_missing_when_whole_vmas_are_skipped, tc)
{
	check_chains(true);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, sets__refuses_bad_options);
	ATF_TP_ADD_TC(tp, args__many_ranges_need_a_file);
	ATF_TP_ADD_TC(tp, args__up_to_ten_ranges_are_arguments);
	ATF_TP_ADD_TC(tp, args__eleven_ranges_go_to_the_file);
	ATF_TP_ADD_TC(tp, args__nothing_hot_is_nothing);
	ATF_TP_ADD_TC(tp, sets__page_exact_when_a_range_shrinks);
	ATF_TP_ADD_TC(tp, sets__final_dump_takes_the_parents_set);
	ATF_TP_ADD_TC(tp, sets__no_page_is_missing_in_a_chain);
	ATF_TP_ADD_TC(tp, sets__no_page_is_missing_when_whole_vmas_are_skipped);
	return atf_no_error();
}
