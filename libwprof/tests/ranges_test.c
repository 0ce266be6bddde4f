/*
 * Range sets against a plain model: one bool a page. The properties are checked
 * on random sets of few pages, where every way in which borders can meet occurs;
 * it cannot show anything about memory running out.
 */
#include <atf-c.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "criu/ranges.h"

#define PAGES  48
#define BASE   0x7f0000000000u
#define ROUNDS 4000

struct model {
	bool in[PAGES];
};

static uint64_t address(size_t page)
{
	return BASE + page * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A set of up to 8 random ranges, overlapping and touching as they like. */
static struct wprof_ranges *random_set(struct model *m)
{
	struct wprof_range list[8];
	struct wprof_ranges *set;
	size_t n = (size_t)rand() % 9;

	memset(m, 0, sizeof(*m));
	for (size_t i = 0; i < n; i++) {
		size_t from = (size_t)rand() % PAGES;
		size_t to = from + 1 + (size_t)rand() % (size_t)(rand() % 4 ? 6 : PAGES);

		to = to > PAGES ? PAGES : to;
		list[i] = (struct wprof_range){ address(from), address(to) };
		memset(m->in + from, true, to - from);
	}
	ATF_REQUIRE_EQ(wprof_ranges_new(list, n, &set), 0);
	return set;
}

/* @set is exactly @m, in the one form a set may have. */
static void require_equal(const struct wprof_ranges *set, const struct model *m)
{
	const struct wprof_range *r;
	struct model got = { 0 };
	uint64_t bytes = 0;
	size_t n;

	r = wprof_ranges_list(set, &n);
	for (size_t i = 0; i < n; i++) {
		ATF_REQUIRE(r[i].start < r[i].end);
		ATF_REQUIRE(i == 0 || r[i - 1].end < r[i].start);
		for (size_t p = 0; p < PAGES; p++)
			got.in[p] |= r[i].start <= address(p) && address(p) < r[i].end;
		bytes += r[i].end - r[i].start;
	}
	ATF_REQUIRE_EQ(memcmp(&got, m, sizeof(got)), 0);
	ATF_REQUIRE_EQ(wprof_ranges_bytes(set), bytes);
}

static void seed(void)
{
	unsigned int s = (unsigned int)getpid();

	printf("seed %u\n", s);
	srand(s);
}

ATF_TC(new__refuses_what_is_no_range);
ATF_TC_HEAD(new__refuses_what_is_no_range, tc)
{
	atf_tc_set_md_var(tc, "descr", "Empty, reversed and unaligned ranges are -EINVAL");
}
ATF_TC_BODY(new__refuses_what_is_no_range, tc)
{
	static const struct wprof_range bad[] = {
		{ 0x2000, 0x2000 },
		{ 0x3000, 0x2000 },
		{ 0x2001, 0x3000 },
		{ 0x2000, 0x3fff },
	};
	struct wprof_ranges *set = NULL;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ATF_CHECK_EQ(wprof_ranges_new(&bad[i], 1, &set), -EINVAL);
	ATF_CHECK_EQ(wprof_ranges_new(NULL, 1, &set), -EINVAL);
	ATF_CHECK_EQ(wprof_ranges_new(bad, 0, NULL), -EINVAL);
	ATF_CHECK_EQ(set, NULL);
}

ATF_TC(operations__refuse_null);
ATF_TC_HEAD(operations__refuse_null, tc)
{
	atf_tc_set_md_var(tc, "descr", "A missing set is -EINVAL, to read it is empty");
}
ATF_TC_BODY(operations__refuse_null, tc)
{
	struct wprof_ranges *set;
	size_t n = 1;

	ATF_REQUIRE_EQ(wprof_ranges_new(NULL, 0, &set), 0);
	ATF_CHECK_EQ(wprof_ranges_unite(NULL, set), -EINVAL);
	ATF_CHECK_EQ(wprof_ranges_subtract(set, NULL), -EINVAL);
	ATF_CHECK_EQ(wprof_ranges_intersect(NULL, NULL), -EINVAL);
	ATF_CHECK_EQ(wprof_ranges_round(NULL, NULL, 0), -EINVAL);
	ATF_CHECK_EQ(wprof_ranges_round(set, NULL, 1), -EINVAL);
	ATF_CHECK_EQ(wprof_ranges_list(NULL, &n), NULL);
	ATF_CHECK_EQ(n, 0);
	ATF_CHECK_EQ(wprof_ranges_bytes(NULL), 0);
	wprof_ranges_free(NULL);
	wprof_ranges_free(set);
}

ATF_TC(round__refuses_unordered_vmas);
ATF_TC_HEAD(round__refuses_unordered_vmas, tc)
{
	atf_tc_set_md_var(tc, "descr", "VMAs that overlap or descend are -EINVAL, the set stays");
}
ATF_TC_BODY(round__refuses_unordered_vmas, tc)
{
	const struct wprof_range overlap[] = { { 0x1000, 0x3000 }, { 0x2000, 0x4000 } };
	const struct wprof_range r = { 0x1000, 0x2000 };
	struct wprof_ranges *set;

	ATF_REQUIRE_EQ(wprof_ranges_new(&r, 1, &set), 0);
	ATF_CHECK_EQ(wprof_ranges_round(set, overlap, 2), -EINVAL);
	ATF_CHECK_EQ(wprof_ranges_bytes(set), 0x1000);
	wprof_ranges_free(set);
}

ATF_TC(new__is_the_union_of_its_list);
ATF_TC_HEAD(new__is_the_union_of_its_list, tc)
{
	atf_tc_set_md_var(tc, "descr", "Random overlapping ranges become the set of their pages");
}
ATF_TC_BODY(new__is_the_union_of_its_list, tc)
{
	seed();
	for (int i = 0; i < ROUNDS; i++) {
		struct model m;
		struct wprof_ranges *set = random_set(&m);

		require_equal(set, &m);
		wprof_ranges_free(set);
	}
}

typedef int operation(struct wprof_ranges *, const struct wprof_ranges *);

/* bit (in a) + 2 * (in b): the truth table of the operation */
static void check_operation(operation *op, unsigned int table)
{
	seed();
	for (int i = 0; i < ROUNDS; i++) {
		struct model a, b, want;
		struct wprof_ranges *x = random_set(&a), *y = random_set(&b);

		for (size_t p = 0; p < PAGES; p++)
			want.in[p] = table >> (a.in[p] + 2 * b.in[p]) & 1;
		ATF_REQUIRE_EQ(op(x, y), 0);
		require_equal(x, &want);
		require_equal(y, &b);
		wprof_ranges_free(x);
		wprof_ranges_free(y);
	}
}

ATF_TC(unite__equals_model);
ATF_TC_HEAD(unite__equals_model, tc)
{
	atf_tc_set_md_var(tc, "descr", "The union of random sets is that of their pages");
}
ATF_TC_BODY(unite__equals_model, tc)
{
	check_operation(wprof_ranges_unite, 0xe);
}

ATF_TC(subtract__equals_model);
ATF_TC_HEAD(subtract__equals_model, tc)
{
	atf_tc_set_md_var(tc, "descr", "The difference of random sets is that of their pages");
}
ATF_TC_BODY(subtract__equals_model, tc)
{
	check_operation(wprof_ranges_subtract, 0x2);
}

ATF_TC(intersect__equals_model);
ATF_TC_HEAD(intersect__equals_model, tc)
{
	atf_tc_set_md_var(tc, "descr", "The intersection of random sets is that of their pages");
}
ATF_TC_BODY(intersect__equals_model, tc)
{
	check_operation(wprof_ranges_intersect, 0x8);
}

ATF_TC(operations__on_itself);
ATF_TC_HEAD(operations__on_itself, tc)
{
	atf_tc_set_md_var(tc, "descr", "A set united with itself stays, less itself is empty");
}
ATF_TC_BODY(operations__on_itself, tc)
{
	const struct wprof_range r[] = { { 0x1000, 0x2000 }, { 0x5000, 0x8000 } };
	struct wprof_ranges *set;

	ATF_REQUIRE_EQ(wprof_ranges_new(r, 2, &set), 0);
	ATF_REQUIRE_EQ(wprof_ranges_unite(set, set), 0);
	ATF_CHECK_EQ(wprof_ranges_bytes(set), 0x4000);
	ATF_REQUIRE_EQ(wprof_ranges_intersect(set, set), 0);
	ATF_CHECK_EQ(wprof_ranges_bytes(set), 0x4000);
	ATF_REQUIRE_EQ(wprof_ranges_subtract(set, set), 0);
	ATF_CHECK_EQ(wprof_ranges_bytes(set), 0);
	wprof_ranges_free(set);
}

/* Cut the pages into VMAs at random, with gaps. Return: how many. */
static size_t random_vmas(struct wprof_range *vmas, size_t *first, size_t *last)
{
	size_t n = 0;

	for (size_t p = (size_t)rand() % 4; p < PAGES;) {
		size_t to = p + 1 + (size_t)rand() % 8;

		to = to > PAGES ? PAGES : to;
		first[n] = p;
		last[n] = to;
		vmas[n++] = (struct wprof_range){ address(p), address(to) };
		p = to + (size_t)rand() % 3;
	}
	return n;
}

ATF_TC(round__takes_every_touched_vma_whole);
ATF_TC_HEAD(round__takes_every_touched_vma_whole, tc)
{
	atf_tc_set_md_var(tc, "descr", "Rounding gives the VMAs that overlap, each whole");
}
ATF_TC_BODY(round__takes_every_touched_vma_whole, tc)
{
	struct wprof_range vmas[PAGES];
	size_t first[PAGES], last[PAGES];

	seed();
	for (int i = 0; i < ROUNDS; i++) {
		struct model m, want = { 0 };
		struct wprof_ranges *set = random_set(&m);
		size_t n = random_vmas(vmas, first, last);

		for (size_t v = 0; v < n; v++)
			if (memchr(m.in + first[v], 1, last[v] - first[v]))
				memset(want.in + first[v], true, last[v] - first[v]);
		ATF_REQUIRE_EQ(wprof_ranges_round(set, vmas, n), 0);
		require_equal(set, &want);
		wprof_ranges_free(set);
	}
}

ATF_TC(parse__names_the_bad_line);
ATF_TC_HEAD(parse__names_the_bad_line, tc)
{
	atf_tc_set_md_var(tc, "descr", "Each kind of bad line is -EBADMSG with its number");
}
ATF_TC_BODY(parse__names_the_bad_line, tc)
{
	static const char *const bad[] = {
		"1000",
		"1000 ",
		"1000-2000",
		"1000:2000",
		"2000 1000",
		"1000 1000",
		"1001 2000",
		"1000 2000 x",
		"1000 2000 3000",
		"g000 h000",
		"0x 2000",
		"-1000 2000",
		"11112222333344440 11112222333355550",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct wprof_ranges *set = NULL;
		char text[80];
		size_t line = 0;

		snprintf(text, sizeof(text), "# one\n4000 5000\n%s", bad[i]);
		ATF_CHECK_EQ_MSG(wprof_ranges_parse(text, strlen(text), &set, &line), -EBADMSG,
				 "%s", bad[i]);
		ATF_CHECK_EQ_MSG(line, 3, "%s: line %zu", bad[i], line);
		ATF_CHECK_EQ(set, NULL);
	}
	ATF_CHECK_EQ(wprof_ranges_parse("1000 2000\0", 10, &(struct wprof_ranges *){ 0 }, NULL),
		     -EBADMSG);
}

ATF_TC(parse__takes_any_order_and_blanks);
ATF_TC_HEAD(parse__takes_any_order_and_blanks, tc)
{
	atf_tc_set_md_var(tc, "descr", "Comments, blanks, 0x, CR and a missing last LF are fine");
}
ATF_TC_BODY(parse__takes_any_order_and_blanks, tc)
{
	static const char text[] =
		"# hot\n\n  0x5000\t0X6000 \r\n2000 3000\n1000 2000\nFfff8000000000 ffff8000001000";
	const struct wprof_range *r;
	struct wprof_ranges *set;
	size_t n;

	ATF_REQUIRE_EQ(wprof_ranges_parse(text, sizeof(text) - 1, &set, NULL), 0);
	r = wprof_ranges_list(set, &n);
	ATF_REQUIRE_EQ(n, 3);
	ATF_CHECK(r[0].start == 0x1000 && r[0].end == 0x3000);
	ATF_CHECK(r[1].start == 0x5000 && r[1].end == 0x6000);
	ATF_CHECK(r[2].start == 0xffff8000000000 && r[2].end == 0xffff8000001000);
	wprof_ranges_free(set);
	ATF_REQUIRE_EQ(wprof_ranges_parse("", 0, &set, NULL), 0);
	ATF_CHECK_EQ(wprof_ranges_bytes(set), 0);
	wprof_ranges_free(set);
}

ATF_TC(load__says_what_the_kernel_said);
ATF_TC_HEAD(load__says_what_the_kernel_said, tc)
{
	atf_tc_set_md_var(tc, "descr", "A missing file, a directory and an endless file fail");
}
ATF_TC_BODY(load__says_what_the_kernel_said, tc)
{
	struct wprof_ranges *set = NULL;
	size_t line;

	errno = 77;
	ATF_CHECK_EQ(wprof_ranges_load("none", &set, &line), -ENOENT);
	ATF_CHECK_EQ(wprof_ranges_load(".", &set, &line), -EISDIR);
	ATF_CHECK_EQ(wprof_ranges_load("/dev/zero", &set, &line), -EFBIG);
	ATF_CHECK_EQ(wprof_ranges_load(NULL, &set, &line), -EINVAL);
	ATF_CHECK_EQ(errno, 77);
	ATF_CHECK_EQ(set, NULL);
}

ATF_TC(save__keeps_the_old_file_when_it_fails);
ATF_TC_HEAD(save__keeps_the_old_file_when_it_fails, tc)
{
	atf_tc_set_md_var(tc, "descr", "An unwritable place fails and leaves no file behind");
}
ATF_TC_BODY(save__keeps_the_old_file_when_it_fails, tc)
{
	const struct wprof_range r = { 0x1000, 0x2000 };
	struct wprof_ranges *set;

	ATF_REQUIRE_EQ(wprof_ranges_new(&r, 1, &set), 0);
	ATF_CHECK_EQ(wprof_ranges_save(set, "no/such/place"), -ENOENT);
	ATF_CHECK_EQ(mkdir("dir", 0777), 0);
	ATF_CHECK_EQ(wprof_ranges_save(set, "dir"), -EISDIR);
	ATF_CHECK_EQ(wprof_ranges_save(NULL, "file"), -EINVAL);
	ATF_CHECK_EQ(rmdir("dir"), 0);
	ATF_CHECK_EQ(system("test -z \"$(ls)\""), 0);
	wprof_ranges_free(set);
}

ATF_TC(save__load_gives_the_same_set);
ATF_TC_HEAD(save__load_gives_the_same_set, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "What is saved over an old file is read back, in its format");
}
ATF_TC_BODY(save__load_gives_the_same_set, tc)
{
	const struct wprof_range r = { 0x7f1234000000, 0x7f1234100000 };
	struct wprof_ranges *set, *back;
	struct model m;

	seed();
	for (int i = 0; i < 20; i++) {
		set = random_set(&m);
		ATF_REQUIRE_EQ(wprof_ranges_save(set, "ranges"), 0);
		ATF_REQUIRE_EQ(wprof_ranges_load("ranges", &back, NULL), 0);
		require_equal(back, &m);
		wprof_ranges_free(set);
		wprof_ranges_free(back);
	}
	ATF_REQUIRE_EQ(wprof_ranges_new(&r, 1, &set), 0);
	ATF_REQUIRE_EQ(wprof_ranges_save(set, "ranges"), 0);
	ATF_CHECK(atf_utils_compare_file("ranges", "7f1234000000 7f1234100000\n"));
	wprof_ranges_free(set);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, new__refuses_what_is_no_range);
	ATF_TP_ADD_TC(tp, operations__refuse_null);
	ATF_TP_ADD_TC(tp, round__refuses_unordered_vmas);
	ATF_TP_ADD_TC(tp, parse__names_the_bad_line);
	ATF_TP_ADD_TC(tp, load__says_what_the_kernel_said);
	ATF_TP_ADD_TC(tp, save__keeps_the_old_file_when_it_fails);
	ATF_TP_ADD_TC(tp, new__is_the_union_of_its_list);
	ATF_TP_ADD_TC(tp, unite__equals_model);
	ATF_TP_ADD_TC(tp, subtract__equals_model);
	ATF_TP_ADD_TC(tp, intersect__equals_model);
	ATF_TP_ADD_TC(tp, operations__on_itself);
	ATF_TP_ADD_TC(tp, round__takes_every_touched_vma_whole);
	ATF_TP_ADD_TC(tp, parse__takes_any_order_and_blanks);
	ATF_TP_ADD_TC(tp, save__load_gives_the_same_set);
	return atf_no_error();
}
