/*
 * Withholding and completing against a model: memory as arrays, chains made from it
 * by the rules of CRIU, read back by code of the test's own. The chains are
 * synthetic; those of real CRIUs are the business of the guest tests.
 */
#include <atf-c.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/imgkit.h"
#include "wprof.h"

#define BASE   0x7f0000000000u
#define PAGES  96
#define TASKS  2
#define LEVELS 6

static uint64_t address(size_t page)
{
	return BASE + page * (uint64_t)KIT_PAGE;
}

/* ---- small pieces ---------------------------------------------------------------- */

static struct wprof_ranges *one_range(size_t from, size_t to)
{
	struct wprof_range r = { address(from), address(to) };
	struct wprof_ranges *set;

	ATF_REQUIRE_EQ(wprof_ranges_new(&r, to > from, &set), 0);
	return set;
}

static void fill(uint8_t *page, uint64_t what)
{
	for (size_t i = 0; i < KIT_PAGE; i += sizeof(what))
		memcpy(page + i, &what, sizeof(what));
}

/* A level with one process whose pages @from to @to are present, or holes. */
static void simple_level(const char *dir, const char *parent, unsigned int flags, uint64_t what)
{
	static uint8_t data[8 * KIT_PAGE];
	struct kit_map map;

	kit_level(dir, parent, what);
	for (size_t i = 0; i < 8; i++)
		fill(data + i * KIT_PAGE, what + i);
	kit_map_begin(&map, dir, "pagemap-10.img", 1, 1);
	kit_map_add(&map, address(0), 8, flags, data);
	kit_map_end(&map);
}

static int withhold(const char *full, const char *ship, const struct wprof_ranges *hot,
		    struct wprof_images_shipped *shipped, struct wprof_why *why)
{
	struct wprof_images_hot one = { .ranges = hot };
	struct wprof_images_ship opts = {
		.size = sizeof(opts),
		.full = full,
		.ship = ship,
		.hot = &one,
		.n_hot = 1,
	};

	return wprof_images_withhold(&opts, shipped, why);
}

static int complete(const char *full, const char *ship, struct wprof_images_shipped *shipped,
		    struct wprof_why *why)
{
	struct wprof_images_ship opts = { .size = sizeof(opts), .full = full, .ship = ship };

	return wprof_images_complete(&opts, shipped, why);
}

static void require_nothing_left(const char *ship)
{
	char partial[128];

	snprintf(partial, sizeof(partial), "%s.partial", ship);
	ATF_REQUIRE_MSG(access(ship, F_OK) && errno == ENOENT, "%s is there", ship);
	ATF_REQUIRE_MSG(access(partial, F_OK) && errno == ENOENT, "%s is there", partial);
}

#define REQUIRE_REFUSED(call, code, reason_, word)                                       \
	do {                                                                             \
		int rc_ = (call);                                                        \
		ATF_REQUIRE_EQ_MSG(rc_, code, "%d: %s", rc_, why.text);                  \
		ATF_REQUIRE_EQ_MSG(why.reason, reason_, "%d: %s", why.reason, why.text); \
		ATF_REQUIRE_MSG(strstr(why.text, word), "%s", why.text);                 \
	} while (0)

/* Two full levels, "1" and "2", the second of holes only. */
static void two_levels(void)
{
	simple_level("1", NULL, KIT_PRESENT, 100);
	simple_level("2", "../1", KIT_PARENT, 200);
}

/* ---- refusals ---------------------------------------------------------------------- */

ATF_TC(withhold__refuses_options);
ATF_TC_HEAD(withhold__refuses_options, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Missing directories, unknown flags and options are refused");
}
ATF_TC_BODY(withhold__refuses_options, tc)
{
	struct wprof_images_ship o = { .size = sizeof(o), .full = "1", .ship = "s" };
	struct {
		struct wprof_images_ship o;
		long more;
	} newer = { .o = o, .more = 1 };
	struct wprof_images_hot hot = { 0 };
	struct wprof_why why;

	simple_level("1", NULL, KIT_PRESENT, 1);
	ATF_REQUIRE_EQ(wprof_images_withhold(NULL, NULL, &why), -EINVAL);
	newer.o.size = sizeof(newer);
	ATF_REQUIRE_EQ(wprof_images_withhold(&newer.o, NULL, &why), -E2BIG);
	o.flags = 1u << 31;
	ATF_REQUIRE_EQ(wprof_images_withhold(&o, NULL, &why), -EINVAL);
	o.flags = 0;
	o.hot = &hot;
	o.n_hot = 1;
	ATF_REQUIRE_EQ(wprof_images_withhold(&o, NULL, &why), -EINVAL);
	ATF_REQUIRE_EQ(wprof_images_complete(&o, NULL, &why), -EINVAL);
	o.n_hot = 0;
	o.ship = "..";
	ATF_REQUIRE_EQ(wprof_images_withhold(&o, NULL, &why), -EINVAL);
	o.ship = "none/s";
	ATF_REQUIRE_EQ(wprof_images_withhold(&o, NULL, &why), -ENOENT);
	o.ship = "s";
	o.full = "none";
	ATF_REQUIRE_EQ(wprof_images_withhold(&o, NULL, &why), -ENOENT);
	require_nothing_left("s");
}

ATF_TC(withhold__refuses_what_is_in_the_way);
ATF_TC_HEAD(withhold__refuses_what_is_in_the_way, tc)
{
	atf_tc_set_md_var(tc, "descr", "What stands in the way and is not ours is left alone");
}
ATF_TC_BODY(withhold__refuses_what_is_in_the_way, tc)
{
	struct wprof_ranges *hot = one_range(0, 2);
	struct wprof_why why;

	simple_level("1", NULL, KIT_PRESENT, 1);
	ATF_REQUIRE_EQ(mkdir("s", 0755), 0);
	kit_put("s", "mine", "x", 1);
	REQUIRE_REFUSED(withhold("1", "s", hot, NULL, &why), -EEXIST, WPROF_SYSTEM, "s");
	ATF_REQUIRE_EQ(access("s/mine", F_OK), 0);
	ATF_REQUIRE(access("s.partial", F_OK));
	ATF_REQUIRE_EQ(mkdir("t.partial", 0755), 0);
	kit_put("t.partial", "mine", "x", 1);
	REQUIRE_REFUSED(withhold("1", "t", hot, NULL, &why), -EEXIST, WPROF_SYSTEM, "not ours");
	ATF_REQUIRE_EQ(access("t.partial/mine", F_OK), 0);
	kit_put(".", "u", "x", 1);
	REQUIRE_REFUSED(withhold("1", "u", hot, NULL, &why), -ENOTDIR, WPROF_SYSTEM, "u");
	wprof_ranges_free(hot);
}

ATF_TC(withhold__refuses_a_second_run);
ATF_TC_HEAD(withhold__refuses_a_second_run, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "A level that another run is making right now is left to it");
}
ATF_TC_BODY(withhold__refuses_a_second_run, tc)
{
	struct wprof_why why;
	int fd;

	simple_level("1", NULL, KIT_PRESENT, 1);
	ATF_REQUIRE_EQ(mkdir("s.partial", 0755), 0);
	fd = open("s.partial", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ATF_REQUIRE_EQ(flock(fd, LOCK_EX), 0);
	REQUIRE_REFUSED(complete("1", "s", NULL, &why), -EBUSY, WPROF_SYSTEM, "another run");
	ATF_REQUIRE_EQ(access("s.partial", F_OK), 0);
	close(fd);
	ATF_REQUIRE_EQ(complete("1", "s", NULL, &why), 0);
	ATF_REQUIRE(access("s.partial", F_OK));
}

ATF_TC(complete__refuses_lazy_pages);
ATF_TC_HEAD(complete__refuses_lazy_pages, tc)
{
	atf_tc_set_md_var(
		tc, "descr",
		"Pages that stayed with a lazy-pages server are in no file: said at once");
}
ATF_TC_BODY(complete__refuses_lazy_pages, tc)
{
	struct wprof_why why;

	simple_level("1", NULL, KIT_LAZY, 1);
	REQUIRE_REFUSED(complete("1", "s", NULL, &why), -EBADMSG, WPROF_BAD_IMAGE,
			"without --lazy-pages");
	ATF_REQUIRE(access("s", F_OK));
}

ATF_TC(withhold__refuses_another_chain);
ATF_TC_HEAD(withhold__refuses_another_chain, tc)
{
	atf_tc_set_md_var(tc, "descr", "A shipped parent that was made of another dump is refused");
}
ATF_TC_BODY(withhold__refuses_another_chain, tc)
{
	struct wprof_images_ship o = { .size = sizeof(o), .full = "2", .ship = "s2" };
	struct wprof_ranges *hot = one_range(0, 2);
	struct wprof_why why;

	two_levels();
	simple_level("other", NULL, KIT_PRESENT, 7);
	ATF_REQUIRE_EQ(withhold("other", "s-other", hot, NULL, &why), 0);
	o.parent = "../s-other";
	REQUIRE_REFUSED(wprof_images_withhold(&o, NULL, &why), -ESTALE, WPROF_OTHER_CHAIN,
			"not made from");
	o.parent = "../other";
	REQUIRE_REFUSED(wprof_images_withhold(&o, NULL, &why), -ESTALE, WPROF_OTHER_CHAIN,
			"not made from");
	o.parent = "../none";
	ATF_REQUIRE_EQ(wprof_images_withhold(&o, NULL, &why), -ENOENT);
	o.parent = "/tmp";
	REQUIRE_REFUSED(wprof_images_withhold(&o, NULL, &why), -EXDEV, WPROF_OUTSIDE,
			"not relative");
	o.parent = "../../../1";
	REQUIRE_REFUSED(wprof_images_withhold(&o, NULL, &why), -EXDEV, WPROF_OUTSIDE, "leads out");
	require_nothing_left("s2");
	o.full = "1";
	o.parent = "../1";
	REQUIRE_REFUSED(wprof_images_withhold(&o, NULL, &why), -EINVAL, WPROF_SYSTEM, "no parent");
	wprof_ranges_free(hot);
}

ATF_TC(withhold__refuses_a_shipped_level);
ATF_TC_HEAD(withhold__refuses_a_shipped_level, tc)
{
	atf_tc_set_md_var(tc, "descr", "What was withheld from once is no full dump to start from");
}
ATF_TC_BODY(withhold__refuses_a_shipped_level, tc)
{
	struct wprof_ranges *hot = one_range(0, 2);
	struct wprof_why why;

	simple_level("1", NULL, KIT_PRESENT, 1);
	ATF_REQUIRE_EQ(withhold("1", "s1", hot, NULL, &why), 0);
	REQUIRE_REFUSED(withhold("s1", "t1", hot, NULL, &why), -EINVAL, WPROF_SYSTEM, "itself");
	require_nothing_left("t1");
	wprof_ranges_free(hot);
}

ATF_TC(withhold__refuses_auto_dedup);
ATF_TC_HEAD(withhold__refuses_auto_dedup, tc)
{
	atf_tc_set_md_var(tc, "descr", "A chain whose older pages were punched out is refused");
}
ATF_TC_BODY(withhold__refuses_auto_dedup, tc)
{
	struct wprof_images_ship o = {
		.size = sizeof(o), .full = "2", .ship = "s2", .parent = "../1"
	};
	struct wprof_why why;
	int fd;

	two_levels();
	fd = open("1/pages-1.img", O_RDWR | O_CLOEXEC);
	ATF_REQUIRE(fd >= 0);
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, KIT_PAGE, 2 * KIT_PAGE))
		atf_tc_skip("this file system cannot punch holes");
	close(fd);
	REQUIRE_REFUSED(wprof_images_withhold(&o, NULL, &why), -EOPNOTSUPP, WPROF_PUNCHED,
			"--auto-dedup");
	o.full = "1";
	o.parent = NULL;
	REQUIRE_REFUSED(wprof_images_withhold(&o, NULL, &why), -EOPNOTSUPP, WPROF_PUNCHED,
			"1/pages-1.img");
	require_nothing_left("s2");
	o.flags = WPROF_IMAGES_SPARSE;
	ATF_REQUIRE_EQ(wprof_images_withhold(&o, NULL, &why), 0);
}

ATF_TC(withhold__refuses_pages_named_twice);
ATF_TC_HEAD(withhold__refuses_pages_named_twice, tc)
{
	atf_tc_set_md_var(tc, "descr", "Two pagemaps that name one pages file are refused");
}
ATF_TC_BODY(withhold__refuses_pages_named_twice, tc)
{
	struct wprof_ranges *hot = one_range(0, 2);
	uint8_t data[8 * KIT_PAGE] = { 1 };
	struct wprof_why why;
	struct kit_map map;

	simple_level("1", NULL, KIT_PRESENT, 1);
	kit_map_begin(&map, "1", "pagemap-11.img", 1, 1);
	kit_map_add(&map, address(0), 8, KIT_PRESENT, data);
	kit_map_end(&map);
	REQUIRE_REFUSED(withhold("1", "s", hot, NULL, &why), -EBADMSG, WPROF_BAD_IMAGE,
			"two pagemaps");
	require_nothing_left("s");
	wprof_ranges_free(hot);
}

ATF_TC(complete__refuses_what_does_not_resolve);
ATF_TC_HEAD(complete__refuses_what_does_not_resolve, tc)
{
	atf_tc_set_md_var(tc, "descr", "A page that even the full chain lacks is named");
}
ATF_TC_BODY(complete__refuses_what_does_not_resolve, tc)
{
	struct wprof_why why;

	kit_level("1", NULL, 1);
	simple_level("2", "../1", KIT_PARENT, 200);
	ATF_REQUIRE_EQ(complete("1", "s1", NULL, &why), 0);
	REQUIRE_REFUSED(({
				struct wprof_images_ship o = { .size = sizeof(o),
							       .full = "2",
							       .ship = "s2",
							       .parent = "../s1" };
				wprof_images_complete(&o, NULL, &why);
			}),
			-EBADMSG, WPROF_BAD_IMAGE, "0x7f0000000000 does not resolve in 1");
	require_nothing_left("s2");
	/* the level below has an entry, and it leads nowhere */
	simple_level("b", NULL, KIT_PARENT, 100);
	simple_level("c", "../b", KIT_PARENT, 200);
	REQUIRE_REFUSED(({
				struct wprof_images_ship o = { .size = sizeof(o),
							       .full = "c",
							       .ship = "sc",
							       .parent = "../b" };
				wprof_images_complete(&o, NULL, &why);
			}),
			-EBADMSG, WPROF_BAD_IMAGE, "0x7f0000000000 does not resolve in b");
	require_nothing_left("sc");
}

/* ---- what it is for ------------------------------------------------------------------ */

ATF_TC(withhold__drops_hot_pages_and_what_refers_to_them);
ATF_TC_HEAD(withhold__drops_hot_pages_and_what_refers_to_them, tc)
{
	atf_tc_set_md_var(tc, "descr", "Hot pages and holes over withheld pages have no entry");
}
ATF_TC_BODY(withhold__drops_hot_pages_and_what_refers_to_them, tc)
{
	struct wprof_images_ship o = {
		.size = sizeof(o), .full = "2", .ship = "s2", .parent = "../s1"
	};
	struct wprof_ranges *hot = one_range(2, 5);
	struct wprof_images_shipped got;
	struct wprof_why why;
	struct stat st;

	two_levels();
	ATF_REQUIRE_EQ(withhold("1", "s1", hot, &got, &why), 0);
	ATF_REQUIRE_EQ(got.present_pages, 5);
	ATF_REQUIRE_EQ(got.withheld_pages, 3);
	ATF_REQUIRE_EQ(stat("s1/pages-1.img", &st), 0);
	ATF_REQUIRE_EQ(st.st_size, 5 * KIT_PAGE);
	ATF_REQUIRE_EQ_MSG(wprof_images_withhold(&o, &got, &why), 0, "%s", why.text);
	ATF_REQUIRE_EQ(got.parent_pages, 5);
	ATF_REQUIRE_EQ(got.withheld_pages, 3);
	for (size_t i = 0; i < 8; i++)
		ATF_REQUIRE_EQ(kit_entry("s2", "pagemap-10.img", address(i)),
			       i >= 2 && i < 5 ? 0 : KIT_PARENT);
	kit_forget();
	wprof_ranges_free(hot);
}

ATF_TC(complete__fills_from_the_full_chain);
ATF_TC_HEAD(complete__fills_from_the_full_chain, tc)
{
	atf_tc_set_md_var(tc, "descr", "A completed chain gives every page without the full one");
}
ATF_TC_BODY(complete__fills_from_the_full_chain, tc)
{
	struct wprof_images_ship o = {
		.size = sizeof(o), .full = "2", .ship = "s2", .parent = "../s1"
	};
	struct wprof_ranges *hot = one_range(2, 5);
	struct wprof_images_shipped got;
	uint8_t page[KIT_PAGE], want[KIT_PAGE];
	struct wprof_why why;

	two_levels();
	ATF_REQUIRE_EQ(withhold("1", "s1", hot, NULL, &why), 0);
	ATF_REQUIRE_EQ_MSG(wprof_images_complete(&o, &got, &why), 0, "%s", why.text);
	ATF_REQUIRE_EQ(got.filled_pages, 3);
	ATF_REQUIRE_EQ(got.parent_pages, 5);
	ATF_REQUIRE_EQ(rename("1", "gone-1"), 0);
	ATF_REQUIRE_EQ(rename("2", "gone-2"), 0);
	for (size_t i = 0; i < 8; i++) {
		fill(want, 100 + i);
		ATF_REQUIRE(kit_page("s2", "pagemap-10.img", address(i), page));
		ATF_REQUIRE(!memcmp(page, want, KIT_PAGE));
	}
	kit_forget();
	wprof_ranges_free(hot);
}

ATF_TC(complete__replaces_the_withheld_level);
ATF_TC_HEAD(complete__replaces_the_withheld_level, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "A last level that was withheld from is replaced in one step");
}
ATF_TC_BODY(complete__replaces_the_withheld_level, tc)
{
	struct wprof_ranges *hot = one_range(0, 8);
	struct wprof_images_shipped got;
	struct wprof_why why;

	simple_level("1", NULL, KIT_PRESENT, 1);
	simple_level("2", NULL, KIT_PRESENT, 2);
	ATF_REQUIRE_EQ(withhold("1", "s1", hot, &got, &why), 0);
	ATF_REQUIRE_EQ(got.withheld_pages, 8);
	REQUIRE_REFUSED(complete("2", "s1", NULL, &why), -EEXIST, WPROF_SYSTEM, "s1");
	ATF_REQUIRE_EQ_MSG(complete("1", "s1", &got, &why), 0, "%s", why.text);
	ATF_REQUIRE_EQ(got.present_pages, 8);
	ATF_REQUIRE_EQ(kit_entry("s1", "pagemap-10.img", address(3)), KIT_PRESENT);
	ATF_REQUIRE(access("s1.partial", F_OK));
	kit_forget();
	wprof_ranges_free(hot);
}

ATF_TC(withhold__keeps_other_files);
ATF_TC_HEAD(withhold__keeps_other_files, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Shared memory and every other image are copied as they are");
}
ATF_TC_BODY(withhold__keeps_other_files, tc)
{
	struct wprof_ranges *hot = one_range(0, 8);
	static uint8_t data[8 * KIT_PAGE];
	struct wprof_why why;
	struct kit_map map;
	struct stat st;

	simple_level("1", NULL, KIT_PRESENT, 1);
	kit_map_begin(&map, "1", "pagemap-shmem-77.img", 2, 2);
	kit_map_add(&map, address(0), 8, KIT_PRESENT, data);
	kit_map_end(&map);
	kit_put("1", "core-10.img", "core", 4);
	ATF_REQUIRE_EQ(chmod("1/core-10.img", 0640), 0);
	ATF_REQUIRE_EQ(mkdir("1/sub", 0755), 0);
	ATF_REQUIRE_EQ(withhold("1", "s1", hot, NULL, &why), 0);
	ATF_REQUIRE_EQ(system("cmp 1/core-10.img s1/core-10.img && cmp 1/inventory.img "
			      "s1/inventory.img && cmp 1/pagemap-shmem-77.img "
			      "s1/pagemap-shmem-77.img && cmp 1/pages-2.img s1/pages-2.img"),
		       0);
	ATF_REQUIRE_EQ(stat("s1/core-10.img", &st), 0);
	ATF_REQUIRE_EQ(st.st_mode & 0777, 0640);
	ATF_REQUIRE(access("s1/sub", F_OK));
	ATF_REQUIRE(access("s1/unfinished.wprof", F_OK));
	wprof_ranges_free(hot);
}

ATF_TC(withhold__clears_what_a_dead_run_left);
ATF_TC_HEAD(withhold__clears_what_a_dead_run_left, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "A half-made level is refused by readers and redone by a run");
}
ATF_TC_BODY(withhold__clears_what_a_dead_run_left, tc)
{
	struct wprof_ranges *hot = one_range(0, 2);
	struct wprof_images *images;
	struct wprof_why why;

	simple_level("1", NULL, KIT_PRESENT, 1);
	simple_level("s1.partial", NULL, KIT_PRESENT, 5);
	kit_put("s1.partial", "unfinished.wprof", "", 0);
	REQUIRE_REFUSED(wprof_images_open("s1.partial", NULL, &images, &why), -ENODATA,
			WPROF_HALF_MADE, "half made");
	REQUIRE_REFUSED(withhold("s1.partial", "x", hot, NULL, &why), -ENODATA, WPROF_HALF_MADE,
			"half made");
	ATF_REQUIRE_EQ_MSG(withhold("1", "s1", hot, NULL, &why), 0, "%s", why.text);
	ATF_REQUIRE(access("s1.partial", F_OK));
	ATF_REQUIRE_EQ(kit_entry("s1", "pagemap-10.img", address(0)), 0);
	ATF_REQUIRE_EQ(kit_entry("s1", "pagemap-10.img", address(2)), KIT_PRESENT);
	kit_forget();
	wprof_ranges_free(hot);
}

ATF_TC(withhold__derives_the_parent_link);
ATF_TC_HEAD(withhold__derives_the_parent_link, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "In a layout ID/full, ID/ship the link names the shipped level");
}
ATF_TC_BODY(withhold__derives_the_parent_link, tc)
{
	struct wprof_ranges *hot = one_range(0, 2);
	struct wprof_why why;
	char link[64];
	ssize_t len;

	ATF_REQUIRE_EQ(mkdir("a", 0755), 0);
	ATF_REQUIRE_EQ(mkdir("b", 0755), 0);
	simple_level("a/full", NULL, KIT_PRESENT, 1);
	simple_level("b/full", "../../a/full", KIT_PARENT, 2);
	ATF_REQUIRE_EQ(withhold("a/full", "a/ship", hot, NULL, &why), 0);
	ATF_REQUIRE_EQ_MSG(withhold("b/full/", "b/ship", hot, NULL, &why), 0, "%s", why.text);
	len = readlink("b/ship/parent", link, sizeof(link));
	ATF_REQUIRE_EQ(len, (ssize_t)strlen("../../a/ship"));
	ATF_REQUIRE(!memcmp(link, "../../a/ship", (size_t)len));
	wprof_ranges_free(hot);
}

/* ---- random chains against the model -------------------------------------------------- */

struct task {
	uint64_t version[PAGES]; /* content; 0: no page */
	bool dirty[PAGES];
	bool in_level[PAGES]; /* the last level has an entry */
};

struct history {
	uint64_t version[LEVELS][TASKS][PAGES];
	bool hot[LEVELS][TASKS][PAGES];
};

static struct task tasks[TASKS];
static struct history history;
static uint64_t next_version;

static size_t upto(size_t n)
{
	return (size_t)rand() % (n + 1);
}

/* Regions appear, vanish, move and are written between two dumps. */
static void live(struct task *t)
{
	for (size_t step = upto(6); step--;) {
		size_t from = upto(PAGES - 1), n = 1 + upto(24), what = upto(3);
		size_t to = upto(PAGES - 1);

		for (size_t i = 0; i < n && from + i < PAGES && to + i < PAGES; i++) {
			uint64_t *v = &t->version[from + i];

			if (what == 0) {
				*v = 0;
			} else if (what == 1) {
				t->version[to + i] = *v;
				t->dirty[to + i] = true;
				*v = 0;
			} else if (what == 2 || *v) {
				*v = ++next_version;
				t->dirty[from + i] = true;
			}
		}
	}
}

static unsigned int page_flags(const struct task *t, size_t i, bool parent)
{
	if (!t->version[i])
		return 0;
	return t->dirty[i] || !parent || !t->in_level[i] ? KIT_PRESENT : KIT_PARENT;
}

/* Dump a process as CRIU does: runs of one kind, cut now and then as by VMAs. */
static void dump_task(struct task *t, const char *dir, const char *name, unsigned int pages_id,
		      int layout, bool parent)
{
	static uint8_t data[PAGES * KIT_PAGE];
	struct kit_map map;
	size_t n;

	kit_map_begin(&map, dir, name, pages_id, layout);
	for (size_t i = 0; i < PAGES; i += n) {
		unsigned int flags = page_flags(t, i, parent);

		for (n = 0; i + n < PAGES && page_flags(t, i + n, parent) == flags; n++) {
			if (n && !upto(15))
				break;
			fill(data + n * KIT_PAGE, t->version[i + n]);
		}
		if (flags)
			kit_map_add(&map, address(i), n, flags, data);
	}
	kit_map_end(&map);
	for (size_t i = 0; i < PAGES; i++) {
		t->in_level[i] = t->version[i] != 0;
		t->dirty[i] = false;
	}
}

static struct wprof_ranges *random_hot(bool hot[PAGES])
{
	struct wprof_ranges *set = one_range(0, 0), *more;

	for (size_t n = upto(3); n--;) {
		size_t from = upto(PAGES - 1), to = from + 1 + upto(20);

		more = one_range(from, to);
		ATF_REQUIRE_EQ(wprof_ranges_unite(set, more), 0);
		wprof_ranges_free(more);
		for (size_t i = from; i < to && i < PAGES; i++)
			hot[i] = true;
	}
	return set;
}

static void ship_level(size_t k, bool last, const char *root)
{
	char full[64], ship[64];
	struct wprof_images_hot hot[TASKS];
	struct wprof_images_ship o = {
		.size = sizeof(o),
		.flags = WPROF_IMAGES_NO_SYNC,
		.full = full,
		.ship = ship,
		.hot = hot,
		.n_hot = last ? 0 : TASKS,
	};
	struct wprof_why why;
	int rc;

	snprintf(full, sizeof(full), "%s/full/%zu", root, k);
	snprintf(ship, sizeof(ship), "%s/ship/%zu", root, k);
	for (size_t t = 0; t < TASKS; t++) {
		hot[t].id = 10 + t;
		hot[t].ranges = random_hot(history.hot[k][t]);
	}
	rc = last ? wprof_images_complete(&o, NULL, &why) : wprof_images_withhold(&o, NULL, &why);
	ATF_REQUIRE_EQ_MSG(rc, 0, "level %zu: %s", k, why.text);
	for (size_t t = 0; t < TASKS; t++)
		wprof_ranges_free((struct wprof_ranges *)hot[t].ranges);
}

static void dump_level(size_t k, int layout, const char *root)
{
	char dir[64], parent[32], name[32];

	snprintf(dir, sizeof(dir), "%s/full/%zu", root, k);
	snprintf(parent, sizeof(parent), "../%zu", k - 1);
	kit_level(dir, k ? parent : NULL, 1000 + k);
	for (size_t t = 0; t < TASKS; t++) {
		live(&tasks[t]);
		memcpy(history.version[k][t], tasks[t].version, sizeof(tasks[t].version));
		snprintf(name, sizeof(name), "pagemap-%zu.img", 10 + t);
		dump_task(&tasks[t], dir, name, (unsigned int)t + 1, layout, k > 0);
	}
	kit_put(dir, "pstree.img", "", 0);
}

/* Every page of a shipped level is right or absent, and absent only by the rules. */
static void check_level(size_t k, size_t t, bool last, const char *root)
{
	uint8_t page[KIT_PAGE], want[KIT_PAGE];
	char dir[64], full[64], name[32];

	snprintf(dir, sizeof(dir), "%s/ship/%zu", root, k);
	snprintf(full, sizeof(full), "%s/full/%zu", root, k);
	snprintf(name, sizeof(name), "pagemap-%zu.img", 10 + t);
	for (size_t i = 0; i < PAGES; i++) {
		uint64_t version = history.version[k][t][i];
		unsigned int here = kit_entry(dir, name, address(i));
		unsigned int was = kit_entry(full, name, address(i));

		if (here) {
			fill(want, version);
			ATF_REQUIRE_MSG(version && kit_page(dir, name, address(i), page) &&
						!memcmp(page, want, KIT_PAGE),
					"%s %s page %zu", dir, name, i);
		}
		if (last)
			ATF_REQUIRE_EQ_MSG(!here, !version, "%s %s page %zu", dir, name, i);
		else if (history.hot[k][t][i])
			ATF_REQUIRE_EQ_MSG(here, 0, "%s %s hot page %zu", dir, name, i);
		else if (was & KIT_PRESENT)
			ATF_REQUIRE_EQ_MSG(here, KIT_PRESENT, "%s %s page %zu", dir, name, i);
	}
}

/* The shipped chain is moved elsewhere before it is judged, the full one is out of reach. */
static void check_alone(size_t levels, const char *root)
{
	struct wprof_images_verdict verdict;
	struct wprof_images *images;
	struct wprof_why why;
	char from[64], dir[64];

	snprintf(from, sizeof(from), "%s/ship", root);
	snprintf(dir, sizeof(dir), "%s-moved", root);
	ATF_REQUIRE_EQ(rename(from, dir), 0);
	snprintf(from, sizeof(from), "%s-moved/%zu", root, levels - 1);
	ATF_REQUIRE_EQ_MSG(wprof_images_open(from, NULL, &images, &why), 0, "%s", why.text);
	ATF_REQUIRE_EQ(wprof_images_verify(images, NULL, NULL, &verdict, &why), 0);
	ATF_REQUIRE(verdict.restores);
	wprof_images_close(images);
}

static void random_chain(unsigned int seed)
{
	size_t levels;
	char root[32], path[64];

	srand(seed);
	memset(tasks, 0, sizeof(tasks));
	memset(&history, 0, sizeof(history));
	snprintf(root, sizeof(root), "chain-%u", seed);
	ATF_REQUIRE_EQ(mkdir(root, 0755), 0);
	snprintf(path, sizeof(path), "%s/full", root);
	ATF_REQUIRE_EQ(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/ship", root);
	ATF_REQUIRE_EQ(mkdir(path, 0755), 0);
	levels = 2 + upto(LEVELS - 2);
	for (size_t k = 0; k < levels; k++) {
		/* a CRIU may be replaced by a newer one within a chain */
		dump_level(k, 1 + (int)upto(1), root);
		ship_level(k, k == levels - 1, root);
	}
	for (size_t k = 0; k < levels; k++)
		for (size_t t = 0; t < TASKS; t++)
			check_level(k, t, k == levels - 1, root);
	kit_forget();
	check_alone(levels, root);
}

ATF_TC(ship__random_chains);
ATF_TC_HEAD(ship__random_chains, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Random memory, hot sets and chains are shipped and completed "
			  "without a wrong page");
	atf_tc_set_md_var(tc, "timeout", "120");
}
ATF_TC_BODY(ship__random_chains, tc)
{
	long n = atf_tc_get_config_var_as_long_wd(tc, "chains", 60);

	for (unsigned int seed = 1; seed <= (unsigned int)n; seed++)
		random_chain(seed);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, withhold__refuses_options);
	ATF_TP_ADD_TC(tp, withhold__refuses_what_is_in_the_way);
	ATF_TP_ADD_TC(tp, withhold__refuses_a_second_run);
	ATF_TP_ADD_TC(tp, complete__refuses_lazy_pages);
	ATF_TP_ADD_TC(tp, withhold__refuses_another_chain);
	ATF_TP_ADD_TC(tp, withhold__refuses_a_shipped_level);
	ATF_TP_ADD_TC(tp, withhold__refuses_auto_dedup);
	ATF_TP_ADD_TC(tp, withhold__refuses_pages_named_twice);
	ATF_TP_ADD_TC(tp, complete__refuses_what_does_not_resolve);
	ATF_TP_ADD_TC(tp, withhold__drops_hot_pages_and_what_refers_to_them);
	ATF_TP_ADD_TC(tp, complete__fills_from_the_full_chain);
	ATF_TP_ADD_TC(tp, complete__replaces_the_withheld_level);
	ATF_TP_ADD_TC(tp, withhold__keeps_other_files);
	ATF_TP_ADD_TC(tp, withhold__clears_what_a_dead_run_left);
	ATF_TP_ADD_TC(tp, withhold__derives_the_parent_link);
	ATF_TP_ADD_TC(tp, ship__random_chains);
	return atf_no_error();
}
