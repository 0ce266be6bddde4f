/*
 * The heat map against a plain grid that never coarsens, and the rows of its
 * picture: whether a picture can be read by people is not shown here.
 */
#include <atf-c.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/heatmap.h"

#define PAGE 4096u

static struct heatmap *new_map(void)
{
	struct heatmap *map = heatmap_new(PAGE);

	ATF_REQUIRE(map != NULL);
	return map;
}

static void seed(void)
{
	unsigned int s = (unsigned int)getpid();

	printf("seed %u\n", s);
	srand(s);
}

static struct wprof_vma vma(uint64_t start, uint64_t end, const char *name, uint64_t written)
{
	return (struct wprof_vma){ .start = start,
				   .end = end,
				   .type = WPROF_ANONYMOUS,
				   .name = name,
				   .written_pages = written };
}

ATF_TC(add__memory_stays_bounded);
ATF_TC_HEAD(add__memory_stays_bounded, tc)
{
	atf_tc_set_md_var(tc, "descr", "Scattered over 47 bits: chunks grow, no page is lost");
}
ATF_TC_BODY(add__memory_stays_bounded, tc)
{
	struct heatmap *map = new_map();
	double cell, pages = 0;

	for (uint64_t i = 0; i < 3 * HEATMAP_CHUNKS; i++) {
		struct wprof_run run = { i << 31, 1 };

		ATF_REQUIRE(heatmap_add(map, 1, 0, 1, &run, 1));
	}
	ATF_CHECK(heatmap_chunk_bytes(map) >= 1u << 31);
	heatmap_row(map, 0, 1ull << 47, &cell, 1);
	/* one column, 3 * HEATMAP_CHUNKS intervals were added to it */
	pages = cell * (double)(1ull << 47) / (double)PAGE * 3 * HEATMAP_CHUNKS;
	ATF_CHECK_MSG(fabs(pages - 3 * HEATMAP_CHUNKS) < 1, "%f", pages);
	heatmap_free(map);
}

ATF_TC(add__takes_one_endless_run);
ATF_TC_HEAD(add__takes_one_endless_run, tc)
{
	atf_tc_set_md_var(tc, "descr", "A run over all of the address space is taken at once");
}
ATF_TC_BODY(add__takes_one_endless_run, tc)
{
	const struct wprof_run run = { 0, (1ull << 52) - 1 };
	struct heatmap *map = new_map();
	double cell;

	ATF_REQUIRE(heatmap_add(map, 1ull << 60, 0, 1, &run, 1));
	ATF_CHECK_EQ(heatmap_columns(map) <= HEATMAP_COLUMNS, true);
	heatmap_row(map, 1ull << 40, 1ull << 41, &cell, 1);
	ATF_CHECK(isfinite(cell));
	heatmap_free(map);
}

ATF_TC(row__equals_plain_grid);
ATF_TC_HEAD(row__equals_plain_grid, tc)
{
	atf_tc_set_md_var(tc, "descr", "Random writes for 2000 intervals: each row's sum is right");
}
ATF_TC_BODY(row__equals_plain_grid, tc)
{
	enum { CHUNKS = 40, INTERVALS = 2000 };
	static uint64_t truth[CHUNKS];
	const uint64_t base = 0x7f0000000000;
	struct heatmap *map = new_map();
	double cells[1];

	seed();
	memset(truth, 0, sizeof(truth));
	for (uint64_t i = 1; i <= INTERVALS; i++) {
		uint64_t c = (uint64_t)rand() % CHUNKS, pages = 1 + (uint64_t)rand() % 16;
		struct wprof_run run = { base + c * HEATMAP_CHUNK, pages };

		truth[c] += pages;
		ATF_REQUIRE(heatmap_add(map, i, i * 10, 10, &run, 1));
	}
	ATF_CHECK_EQ(heatmap_chunk_bytes(map), HEATMAP_CHUNK);
	ATF_CHECK_EQ(heatmap_end_ns(map), 10 * INTERVALS + 10);
	ATF_CHECK(heatmap_columns(map) > HEATMAP_COLUMNS / 2 - 10);
	for (uint64_t c = 0; c < CHUNKS; c++) {
		uint64_t at = base + c * HEATMAP_CHUNK;

		heatmap_row(map, at, at + HEATMAP_CHUNK, cells, 1);
		ATF_CHECK(fabs(cells[0] * 16 * INTERVALS - (double)truth[c]) < 0.01);
	}
	heatmap_free(map);
}

ATF_TC(row__gaps_are_told_from_silence);
ATF_TC_HEAD(row__gaps_are_told_from_silence, tc)
{
	atf_tc_set_md_var(tc, "descr", "An interval without writes is 0, a missing one below 0");
}
ATF_TC_BODY(row__gaps_are_told_from_silence, tc)
{
	const struct wprof_run run = { 0x10000, 16 };
	struct heatmap *map = new_map();
	double cells[4];

	ATF_REQUIRE(heatmap_add(map, 1, 0, 1, &run, 1));
	ATF_REQUIRE(heatmap_add(map, 2, 1, 1, NULL, 0));
	ATF_REQUIRE(heatmap_add(map, 4, 3, 1, &run, 1));
	heatmap_row(map, 0x10000, 0x20000, cells, 4);
	ATF_CHECK_EQ(cells[0], 1);
	ATF_CHECK_EQ(cells[1], 0);
	ATF_CHECK(cells[2] < 0);
	ATF_CHECK_EQ(cells[3], 1);
	heatmap_free(map);
}

ATF_TC(row__unmeasured_is_no_zero);
ATF_TC_HEAD(row__unmeasured_is_no_zero, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "A share is of what was measured; memory not measured is a gap");
}
ATF_TC_BODY(row__unmeasured_is_no_zero, tc)
{
	const struct wprof_run half = { 0x10000, 16 }, all = { 0x10000, 32 };
	struct heatmap *map = new_map();
	double cells[4];

	ATF_REQUIRE(heatmap_add(map, 1, 0, 1, &half, 1));
	ATF_CHECK(!heatmap_has_gaps(map));
	/* 2: nothing is known; 3: the first half is, and was not written; 4: all is */
	ATF_REQUIRE(heatmap_add(map, 2, 1, 1, NULL, 0) && heatmap_skip(map, 2, &all, 1));
	ATF_REQUIRE(heatmap_add(map, 3, 2, 1, NULL, 0));
	ATF_REQUIRE(heatmap_skip(map, 3, &(struct wprof_run){ 0x20000, 16 }, 1));
	ATF_REQUIRE(heatmap_add(map, 4, 3, 1, &all, 1));
	ATF_CHECK(heatmap_has_gaps(map));
	heatmap_row(map, 0x10000, 0x30000, cells, 4);
	ATF_CHECK_EQ(cells[0], 0.5);
	ATF_CHECK_EQ(cells[1], HEATMAP_UNMEASURED);
	ATF_CHECK_EQ(cells[2], 0);
	ATF_CHECK_EQ(cells[3], 1);
	/* 48 pages written of 32 + 0 + 16 + 32 measured */
	heatmap_row(map, 0x10000, 0x30000, cells, 1);
	ATF_CHECK(fabs(cells[0] - 48.0 / 80) < 1e-9);
	heatmap_free(map);
}

ATF_TC(skip__survives_coarsening);
ATF_TC_HEAD(skip__survives_coarsening, tc)
{
	atf_tc_set_md_var(tc, "descr", "Gaps are kept when columns and chunks are joined");
}
ATF_TC_BODY(skip__survives_coarsening, tc)
{
	const struct wprof_run gap = { 0x10000, 16 };
	struct heatmap *map = new_map();
	double cell;

	for (uint64_t i = 1; i <= 4 * HEATMAP_COLUMNS; i++) {
		ATF_REQUIRE(heatmap_add(map, i, i, 1, i % 16 ? NULL : &gap, i % 16 ? 0 : 1));
		ATF_REQUIRE(heatmap_skip(map, i, &gap, i % 16 ? 1 : 0));
	}
	heatmap_row(map, 0x10000, 0x20000, &cell, 1);
	ATF_CHECK_EQ(cell, 1);
	for (uint64_t i = 0; i < 2 * HEATMAP_CHUNKS; i++) {
		struct wprof_run far = { (1ull << 40) + i * HEATMAP_CHUNK, 1 };

		ATF_REQUIRE(heatmap_add(map, 4 * HEATMAP_COLUMNS, 0, 1, &far, 1));
	}
	ATF_REQUIRE(heatmap_chunk_bytes(map) > HEATMAP_CHUNK);
	heatmap_row(map, 0, heatmap_chunk_bytes(map), &cell, 1);
	ATF_CHECK(cell > 0 && cell < 1);
	heatmap_free(map);
}

ATF_TC(region__grows_and_merges);
ATF_TC_HEAD(region__grows_and_merges, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "A mapping that grows or merges with another stays one region");
}
ATF_TC_BODY(region__grows_and_merges, tc)
{
	struct region_table t = { 0 };
	struct wprof_vma a = vma(0x10000, 0x20000, "", 1), b = vma(0x30000, 0x40000, "", 2);
	struct wprof_vma both = vma(0x10000, 0x50000, "", 4);
	struct wprof_vma other = vma(0x10000, 0x20000, "/file", 8);

	ATF_REQUIRE(region_add(&t, 1, &a, PAGE, false) && region_add(&t, 1, &b, PAGE, true));
	ATF_CHECK_EQ(t.n, 2);
	ATF_REQUIRE(region_add(&t, 2, &a, PAGE, false));
	ATF_CHECK_EQ(t.n, 3);
	ATF_REQUIRE(region_add(&t, 1, &both, PAGE, false));
	ATF_REQUIRE_EQ(t.n, 2);
	ATF_CHECK(t.list[0].start == 0x10000 && t.list[0].end == 0x50000);
	ATF_CHECK(t.list[0].written_pages == 7 && t.list[0].intervals_hot == 1);
	ATF_REQUIRE(region_add(&t, 1, &other, PAGE, false));
	ATF_CHECK_EQ(t.n, 3);
	region_table_free(&t);
}

/* A table of @n regions of random size, far apart, written at random. */
static void random_regions(struct region_table *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t start = (i + 1) << 40, pages = 1 + (uint64_t)rand() % 5000;
		struct wprof_vma v = vma(start, start + pages * PAGE, "", 1 + (uint64_t)rand() % 9);
		struct wprof_run run = { start + (uint64_t)rand() % pages * PAGE, 1 };

		ATF_REQUIRE(region_add(t, 7, &v, PAGE, false));
		region_runs(t, 7, &run, 1, PAGE);
		run.start = start + (uint64_t)rand() % pages * PAGE;
		region_runs(t, 7, &run, 1, PAGE);
	}
}

static void check_rows(const struct map_row *rows, size_t n, size_t least)
{
	size_t same = 0;

	for (size_t i = 0; i < n; i++) {
		ATF_REQUIRE(rows[i].start < rows[i].end);
		ATF_REQUIRE(rows[i].start >= rows[i].region->start);
		ATF_REQUIRE(rows[i].end <= rows[i].region->end);
		ATF_REQUIRE_EQ(rows[i].first, !i || rows[i].region != rows[i - 1].region);
		if (rows[i].first) {
			ATF_REQUIRE(!i || same >= least);
			ATF_REQUIRE(rows[i].start <= rows[i].region->low);
			ATF_REQUIRE(!i || rows[i - 1].end >= rows[i - 1].region->high);
			same = 0;
		} else if (rows[i].start != rows[i - 1].start) {
			ATF_REQUIRE_EQ(rows[i].start, rows[i - 1].end);
		}
		same++;
	}
}

ATF_TC(rows__cover_what_was_written);
ATF_TC_HEAD(rows__cover_what_was_written, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Any regions, any height: rows fit, ascend, cover the writes");
}
ATF_TC_BODY(rows__cover_what_was_written, tc)
{
	struct map_row rows[100];

	seed();
	for (int i = 0; i < 300; i++) {
		struct region_table t = { 0 };
		size_t n = (size_t)rand() % 60, least = 1 + (size_t)rand() % 5;
		size_t max = least + (size_t)rand() % (100 - least), hidden, got;

		random_regions(&t, n);
		got = map_rows(&t, 7, HEATMAP_CHUNK, max, least, rows, &hidden);
		ATF_REQUIRE(got <= max);
		ATF_REQUIRE_EQ(hidden, n > max / least ? n - max / least : 0);
		check_rows(rows, got, least);
		ATF_REQUIRE_EQ(map_rows(&t, 8, HEATMAP_CHUNK, max, least, rows, &hidden), 0);
		region_table_free(&t);
	}
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, add__memory_stays_bounded);
	ATF_TP_ADD_TC(tp, add__takes_one_endless_run);
	ATF_TP_ADD_TC(tp, row__equals_plain_grid);
	ATF_TP_ADD_TC(tp, row__gaps_are_told_from_silence);
	ATF_TP_ADD_TC(tp, row__unmeasured_is_no_zero);
	ATF_TP_ADD_TC(tp, skip__survives_coarsening);
	ATF_TP_ADD_TC(tp, region__grows_and_merges);
	ATF_TP_ADD_TC(tp, rows__cover_what_was_written);
	return atf_no_error();
}
