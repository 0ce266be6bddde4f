/*
 * The formats of CRIU's images, from bytes put together by hand: what is read, and
 * that what is truncated, corrupt or hostile is refused with the reason.
 */
#include <atf-c.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "criu/images.h"
#include "tests/imgkit.h"
#include "wprof.h"

#define HEAD	"19 43 56 54  25 40 08 56  02 00 00 00 08 01  "
/* two pages at 0x400000, the data here: up to CRIU 4.1, and from 4.2 on */
#define ENTRY_1 "09 00 00 00  08 80 80 80 02  10 02  20 04  "
#define ENTRY_2 "0b 00 00 00  08 80 80 80 02  10 00  20 04  28 02  "
/* before there were flags */
#define ENTRY_0 "07 00 00 00  08 80 80 80 02  10 02  "
#define HOLE_0	"09 00 00 00  08 80 80 80 02  10 02  18 01  "

static int open_dir(const char *dir, struct wprof_images **images, struct wprof_why *why)
{
	return wprof_images_open(dir, NULL, images, why);
}

static void make(const char *dir, const char *pagemap, size_t pages)
{
	static uint8_t data[64 * KIT_PAGE];

	kit_level(dir, NULL, 1234567);
	kit_hex(dir, "pagemap-10.img", pagemap);
	kit_put(dir, "pages-1.img", data, pages * KIT_PAGE);
}

/* ---- hostile pagemaps ------------------------------------------------------------------ */

static const struct hostile {
	const char *name, *pagemap;
	size_t pages;
	int code;
	const char *word;
} hostiles[] = {
	{ "empty", "", 0, -EBADMSG, "within its head" },
	{ "half-magic", "19 43 56 54 25", 0, -EBADMSG, "within its head" },
	{ "other-magic", "19 43 56 54 26 40 08 56", 0, -EBADMSG, "not an image of this kind" },
	{ "no-head", "19 43 56 54 25 40 08 56", 0, -EBADMSG, "no head" },
	{ "head-not-protobuf", "19 43 56 54 25 40 08 56  02 00 00 00 ff ff", 0, -EBADMSG,
	  "no head" },
	{ "half-length", HEAD "09 00", 0, -EBADMSG, "within a length" },
	{ "half-entry", HEAD "09 00 00 00 08 80", 0, -EBADMSG, "within a message" },
	{ "huge-message", HEAD "ff ff ff ff 08 80", 0, -EBADMSG, "more than any message" },
	{ "entry-not-protobuf", HEAD "03 00 00 00 08 80 80", 0, -EBADMSG, "not a pagemap entry" },
	{ "no-count", HEAD "07 00 00 00  08 80 80 80 02 20 04", 0, -EBADMSG,
	  "not a pagemap entry" },
	{ "zero-pages", HEAD "09 00 00 00  08 80 80 80 02  10 00  20 04", 0, -EBADMSG, "no pages" },
	{ "two-counts", HEAD "0b 00 00 00  08 80 80 80 02  10 03  20 04  28 02", 2, -EBADMSG,
	  "two counts" },
	{ "two-layouts", HEAD ENTRY_1 "0b 00 00 00  08 80 c0 80 02  10 00  20 04  28 02", 4,
	  -EBADMSG, "two layouts" },
	{ "nowhere", HEAD "09 00 00 00  08 80 80 80 02  10 02  20 00", 0, -EBADMSG, "nowhere" },
	{ "twice", HEAD "09 00 00 00  08 80 80 80 02  10 02  20 05", 2, -EBADMSG, "twice" },
	{ "new-flag", HEAD "09 00 00 00  08 80 80 80 02  10 02  20 0c", 2, -EPROTONOSUPPORT,
	  "flags 12" },
	{ "new-field", HEAD "0b 00 00 00  08 80 80 80 02  10 02  20 04  30 07", 2, -EPROTONOSUPPORT,
	  "field 6" },
	{ "unaligned", HEAD "09 00 00 00  08 81 80 80 02  10 02  20 04", 2, -EBADMSG,
	  "no page boundary" },
	{ "overlap", HEAD ENTRY_1 "09 00 00 00  08 80 a0 80 02  10 02  20 04", 4, -EBADMSG,
	  "0x401000 overlaps" },
	{ "descending", HEAD ENTRY_1 "08 00 00 00  08 80 80 40  10 02  20 04", 4, -EBADMSG,
	  "precedes" },
	{ "beyond", HEAD "0f 00 00 00  08 80 e0 ff ff ff ff ff ff ff 01  10 02  20 04", 2, -EBADMSG,
	  "beyond any memory" },
	{ "count-overflows",
	  HEAD "14 00 00 00  08 80 80 80 02  10 00  20 04  28 ff ff ff ff ff ff ff ff "
	       "ff 01",
	  2, -EBADMSG, "beyond any memory" },
	{ "truncated-pages", HEAD ENTRY_1, 1, -EBADMSG, "truncated" },
	{ "more-pages", HEAD ENTRY_1, 3, -EBADMSG, "12288 bytes where its pagemap has 8192" },
};

ATF_TC(open__refuses_hostile_pagemaps);
ATF_TC_HEAD(open__refuses_hostile_pagemaps, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Truncated, corrupt and hostile pagemaps are refused, each "
			  "with its reason");
}
ATF_TC_BODY(open__refuses_hostile_pagemaps, tc)
{
	for (size_t i = 0; i < sizeof(hostiles) / sizeof(*hostiles); i++) {
		const struct hostile *h = &hostiles[i];
		struct wprof_images *images;
		struct wprof_why why;
		int rc;

		make(h->name, h->pagemap, h->pages);
		rc = open_dir(h->name, &images, &why);
		ATF_CHECK_EQ_MSG(rc, h->code, "%s: %d, %s", h->name, rc, why.text);
		ATF_CHECK_MSG(strstr(why.text, h->word), "%s: %s", h->name, why.text);
		ATF_CHECK_MSG(strstr(why.text, h->name) == why.text, "%s: %s", h->name, why.text);
	}
}

ATF_TC(open__refuses_pagemaps_cut_anywhere);
ATF_TC_HEAD(open__refuses_pagemaps_cut_anywhere, tc)
{
	atf_tc_set_md_var(tc, "descr", "A pagemap cut at any byte is refused");
}
ATF_TC_BODY(open__refuses_pagemaps_cut_anywhere, tc)
{
	static const char hex[] = HEAD ENTRY_2;
	struct wprof_images *images;
	struct wprof_why why;
	uint8_t whole[64];
	struct stat st;
	int fd;

	make("1", hex, 2);
	fd = open("1/pagemap-10.img", O_RDONLY | O_CLOEXEC);
	ATF_REQUIRE(fd >= 0 && !fstat(fd, &st));
	ATF_REQUIRE_EQ(read(fd, whole, sizeof(whole)), st.st_size);
	close(fd);
	for (off_t len = 0; len < st.st_size; len++) {
		kit_put("1", "pagemap-10.img", whole, (size_t)len);
		ATF_CHECK_EQ_MSG(open_dir("1", &images, &why), -EBADMSG, "%lld bytes: %s",
				 (long long)len, why.text);
	}
}

/* ---- hostile directories --------------------------------------------------------------- */

ATF_TC(open__refuses_options);
ATF_TC_HEAD(open__refuses_options, tc)
{
	atf_tc_set_md_var(tc, "descr", "Unknown flags, newer options and no directory are refused");
}
ATF_TC_BODY(open__refuses_options, tc)
{
	struct wprof_images_opts o = { .size = sizeof(o), .flags = 1u << 30 };
	struct {
		struct wprof_images_opts o;
		long more;
	} newer = { .more = 1 };
	struct wprof_images *images;
	struct wprof_why why;

	make("1", HEAD ENTRY_1, 2);
	ATF_REQUIRE_EQ(open_dir(NULL, &images, &why), -EINVAL);
	ATF_REQUIRE_EQ(open_dir("none", &images, &why), -ENOENT);
	ATF_REQUIRE_EQ(open_dir("1/inventory.img", &images, &why), -ENOTDIR);
	ATF_REQUIRE_EQ(wprof_images_open("1", &o, &images, &why), -EINVAL);
	newer.o.size = sizeof(newer);
	ATF_REQUIRE_EQ(wprof_images_open("1", &newer.o, &images, &why), -E2BIG);
	o.flags = 0;
	o.root = "1/inventory.img";
	ATF_REQUIRE_EQ(wprof_images_open("1", &o, &images, &why), -EINVAL);
	ATF_REQUIRE_EQ(mkdir("elsewhere", 0755), 0);
	o.root = "elsewhere";
	ATF_REQUIRE_EQ(wprof_images_open("1", &o, &images, &why), -EINVAL);
}

#define REQUIRE_REFUSED(dir, code, word)                                   \
	do {                                                               \
		struct wprof_images *images_;                              \
		struct wprof_why why_;                                     \
		int rc_ = open_dir(dir, &images_, &why_);                  \
		ATF_REQUIRE_EQ_MSG(rc_, code, "%d: %s", rc_, why_.text);   \
		ATF_REQUIRE_MSG(strstr(why_.text, word), "%s", why_.text); \
	} while (0)

ATF_TC(open__refuses_what_is_no_dump);
ATF_TC_HEAD(open__refuses_what_is_no_dump, tc)
{
	atf_tc_set_md_var(tc, "descr", "A directory without or with a broken inventory is refused");
}
ATF_TC_BODY(open__refuses_what_is_no_dump, tc)
{
	ATF_REQUIRE_EQ(mkdir("1", 0755), 0);
	REQUIRE_REFUSED("1", -ENODATA, "did not finish");
	kit_hex("1", "inventory.img", "16 31 31 58");
	REQUIRE_REFUSED("1", -EBADMSG, "not an inventory");
	kit_hex("1", "inventory.img", "16 31 31 59 02 00 00 00 08 01");
	REQUIRE_REFUSED("1", -EBADMSG, "not an image of this kind");
	kit_hex("1", "inventory.img", "16 31 31 58 02 00 00 00 10 01");
	REQUIRE_REFUSED("1", -EBADMSG, "not an inventory");
	kit_hex("1", "inventory.img", "16 31 31 58 02 00 00 00 08 01");
	kit_hex("1", "stats-dump", "40 59 10 55 06 33 09 57 02 00 00 00 ff ff");
	REQUIRE_REFUSED("1", -EBADMSG, "not statistics");
	kit_hex("1", "stats-dump", "40 59 10 55 06 33 09 57 00 00 00 00");
	kit_put("1", "withheld.wprof", "wprof-withheld 1 withheld 12\n", 29);
	REQUIRE_REFUSED("1", -EBADMSG, "cut short");
	kit_put("1", "withheld.wprof", "wprof-withheld 2 withheld 12\nend\n", 33);
	REQUIRE_REFUSED("1", -EBADMSG, "not a record");
}

ATF_TC(open__refuses_links_out);
ATF_TC_HEAD(open__refuses_links_out, tc)
{
	atf_tc_set_md_var(tc, "descr", "Links that lead out of the images are refused, fifos too");
}
ATF_TC_BODY(open__refuses_links_out, tc)
{
	make("out", HEAD ENTRY_1, 2);
	make("1", HEAD ENTRY_1, 2);
	ATF_REQUIRE_EQ(unlink("1/pages-1.img"), 0);
	ATF_REQUIRE_EQ(symlink("../out/pages-1.img", "1/pages-1.img"), 0);
	REQUIRE_REFUSED("1", -EXDEV, "1/pages-1.img: a symbolic link");
	ATF_REQUIRE_EQ(unlink("1/pages-1.img"), 0);
	ATF_REQUIRE_EQ(mkfifo("1/pages-1.img", 0600), 0);
	REQUIRE_REFUSED("1", -EBADMSG, "not a regular file");
	kit_level("2", "/proc/self/cwd/out", 1);
	REQUIRE_REFUSED("2", -EXDEV, "not relative");
	kit_level("3", "../../../x", 1);
	REQUIRE_REFUSED("3", -EXDEV, "leads out of the images");
	ATF_REQUIRE_EQ(symlink("out", "latest"), 0);
	kit_level("4", "../latest", 1);
	REQUIRE_REFUSED("4", -EXDEV, "latest is no directory itself");
	kit_level("5", "../none", 1);
	REQUIRE_REFUSED("5", -ENOENT, "parent link ../none");
}

ATF_TC(open__refuses_loops);
ATF_TC_HEAD(open__refuses_loops, tc)
{
	atf_tc_set_md_var(tc, "descr", "A chain whose links lead back to itself is refused");
	atf_tc_set_md_var(tc, "timeout", "30");
}
ATF_TC_BODY(open__refuses_loops, tc)
{
	kit_level("1", "../2", 1);
	kit_level("2", "../1", 2);
	kit_level("3", ".", 2);
	REQUIRE_REFUSED("1", -EBADMSG, "lead back");
	REQUIRE_REFUSED("3", -EBADMSG, "lead back");
}

/* ---- what is read ------------------------------------------------------------------------ */

static void require_map(const char *pagemap, size_t pages, uint32_t layout, uint64_t present,
			uint64_t parent)
{
	const struct wprof_images_level *level;
	struct wprof_images *images;
	struct wprof_why why;
	static int number;
	char dir[16];
	size_t n;

	snprintf(dir, sizeof(dir), "map-%d", ++number);
	make(dir, pagemap, pages);
	ATF_REQUIRE_EQ_MSG(open_dir(dir, &images, &why), 0, "%s", why.text);
	level = wprof_images_levels(images, &n);
	ATF_REQUIRE_EQ(n, 1);
	ATF_REQUIRE_EQ(level->n_maps, 1);
	ATF_REQUIRE_EQ(level->maps[0].id, 10);
	ATF_REQUIRE_EQ(level->maps[0].pages_id, 1);
	ATF_REQUIRE_EQ(level->maps[0].layout, layout);
	ATF_REQUIRE_EQ(level->maps[0].present_pages, present);
	ATF_REQUIRE_EQ(level->maps[0].parent_pages, parent);
	ATF_REQUIRE_EQ(level->uptime_us, 1234567);
	wprof_images_close(images);
}

ATF_TC(open__reads_every_layout);
ATF_TC_HEAD(open__reads_every_layout, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Pagemaps without flags, up to 4.1 and from 4.2 read the same");
}
ATF_TC_BODY(open__reads_every_layout, tc)
{
	require_map(HEAD, 0, 0, 0, 0);
	require_map(HEAD ENTRY_0, 2, 1, 2, 0);
	require_map(HEAD HOLE_0, 0, 1, 0, 2);
	require_map(HEAD ENTRY_1, 2, 1, 2, 0);
	require_map(HEAD ENTRY_2, 2, 2, 2, 0);
	/* both counts, as written here for readers up to 4.1 */
	require_map(HEAD "0b 00 00 00  08 80 80 80 02  10 02  20 04  28 02", 2, 2, 2, 0);
	/* a lazy page whose data are here all the same */
	require_map(HEAD "09 00 00 00  08 80 80 80 02  10 02  20 06", 2, 1, 2, 0);
}

static void require_bytes(const char *dir, const char *name, const char *hex)
{
	uint8_t have[256], want[256];
	char path[64];
	FILE *f;
	size_t n;

	kit_hex(".", "want", hex);
	f = fopen("want", "re");
	n = fread(want, 1, sizeof(want), f);
	fclose(f);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	ATF_REQUIRE(f != NULL);
	ATF_REQUIRE_EQ(fread(have, 1, sizeof(have), f), n);
	fclose(f);
	ATF_REQUIRE(!memcmp(have, want, n));
}

ATF_TC(complete__writes_the_layout_it_read);
ATF_TC_HEAD(complete__writes_the_layout_it_read, tc)
{
	atf_tc_set_md_var(tc, "descr", "Written pagemaps have the bytes each CRIU expects");
}
ATF_TC_BODY(complete__writes_the_layout_it_read, tc)
{
	struct wprof_images_ship o = { .size = sizeof(o), .full = "1", .ship = "s1" };
	struct wprof_why why;

	make("1", HEAD ENTRY_1, 2);
	ATF_REQUIRE_EQ_MSG(wprof_images_complete(&o, NULL, &why), 0, "%s", why.text);
	require_bytes("s1", "pagemap-10.img", HEAD ENTRY_1);
	make("2", HEAD ENTRY_2, 2);
	o.full = "2";
	o.ship = "s2";
	ATF_REQUIRE_EQ_MSG(wprof_images_complete(&o, NULL, &why), 0, "%s", why.text);
	require_bytes("s2", "pagemap-10.img",
		      HEAD "0b 00 00 00  08 80 80 80 02  10 02  20 04  28 02");
}

ATF_TC(open__reads_statistics);
ATF_TC_HEAD(open__reads_statistics, tc)
{
	atf_tc_set_md_var(tc, "descr", "CRIU's own figures of a dump are read");
}
ATF_TC_BODY(open__reads_statistics, tc)
{
	const struct wprof_images_level *level;
	struct wprof_images *images;
	struct wprof_why why;
	size_t n;

	make("1", HEAD ENTRY_1, 2);
	kit_put("1", "pstree.img", "", 0);
	/* 2 frozen 300, 5 scanned 7, 6 skipped 4, 7 written 3, 9 lazy, 12 not known here */
	kit_hex("1", "stats-dump",
		"40 59 10 55 06 33 09 57  15 00 00 00 0a 13 08 01 10 ac 02 18 01 "
		"20 01 28 07 30 04 38 03 48 00 60 01");
	ATF_REQUIRE_EQ_MSG(open_dir("1", &images, &why), 0, "%s", why.text);
	level = wprof_images_levels(images, &n);
	ATF_REQUIRE(level->has_stats && !level->pre_dump && !level->parent);
	ATF_REQUIRE_EQ(level->frozen_us, 300);
	ATF_REQUIRE_EQ(level->scanned_pages, 7);
	ATF_REQUIRE_EQ(level->skipped_pages, 4);
	ATF_REQUIRE_EQ(level->written_pages, 3);
	ATF_REQUIRE_EQ(level->pages_bytes, 2 * KIT_PAGE);
	wprof_images_close(images);
}

/* ---- chains -------------------------------------------------------------------------------- */

static void count_lost(const struct wprof_images_lost *lost, void *arg)
{
	uint64_t *pages = arg;

	ATF_REQUIRE(lost->map && lost->reason);
	pages[lost->level] += (lost->range.end - lost->range.start) / KIT_PAGE;
}

ATF_TC(verify__names_what_does_not_resolve);
ATF_TC_HEAD(verify__names_what_does_not_resolve, tc)
{
	atf_tc_set_md_var(tc, "descr", "Each page is followed to where CRIU would stop");
}
ATF_TC_BODY(verify__names_what_does_not_resolve, tc)
{
	static uint8_t data[4 * KIT_PAGE];
	struct wprof_images_verdict v;
	struct wprof_images *images;
	uint64_t lost[3] = { 0 };
	struct wprof_why why;
	struct kit_map map;

	kit_level("1", NULL, 1);
	kit_map_begin(&map, "1", "pagemap-10.img", 1, 1);
	kit_map_add(&map, 0x400000, 4, KIT_PRESENT, data);
	kit_map_end(&map);
	/* no entry for the second page: what level 1 has is older, and not looked at */
	kit_level("2", "../1", 2);
	kit_map_begin(&map, "2", "pagemap-10.img", 1, 1);
	kit_map_add(&map, 0x400000, 1, KIT_PARENT, NULL);
	kit_map_add(&map, 0x402000, 4, KIT_PARENT, NULL);
	kit_map_end(&map);
	kit_level("3", "../2", 3);
	kit_map_begin(&map, "3", "pagemap-10.img", 1, 2);
	kit_map_add(&map, 0x400000, 6, KIT_PARENT, NULL);
	kit_map_end(&map);
	kit_put("3", "pstree.img", "", 0);
	ATF_REQUIRE_EQ_MSG(open_dir("3", &images, &why), 0, "%s", why.text);
	ATF_REQUIRE_EQ(wprof_images_verify(images, count_lost, lost, &v, &why), 0);
	ATF_REQUIRE(!v.restores);
	ATF_REQUIRE_EQ(v.resolved_pages, 3);
	ATF_REQUIRE_EQ(v.lost_pages, 3);
	ATF_REQUIRE_EQ(lost[1], 1);
	ATF_REQUIRE_EQ(lost[2], 2);
	wprof_images_close(images);
}

ATF_TC(verify__knows_a_pre_dump);
ATF_TC_HEAD(verify__knows_a_pre_dump, tc)
{
	atf_tc_set_md_var(tc, "descr", "A pre-dump does not restore, though all its pages resolve");
}
ATF_TC_BODY(verify__knows_a_pre_dump, tc)
{
	struct wprof_images_verdict v;
	struct wprof_images *images;
	struct wprof_why why;

	make("1", HEAD ENTRY_1, 2);
	ATF_REQUIRE_EQ(open_dir("1", &images, &why), 0);
	ATF_REQUIRE_EQ(wprof_images_verify(images, NULL, NULL, &v, &why), 0);
	ATF_REQUIRE(!v.restores && !v.lost_pages);
	wprof_images_close(images);
	kit_put("1", "pstree.img", "", 0);
	ATF_REQUIRE_EQ(open_dir("1", &images, &why), 0);
	ATF_REQUIRE_EQ(wprof_images_verify(images, NULL, NULL, &v, &why), 0);
	ATF_REQUIRE(v.restores);
	wprof_images_close(images);
}

ATF_TC(open__long_chain);
ATF_TC_HEAD(open__long_chain, tc)
{
	atf_tc_set_md_var(tc, "descr", "A chain of 300 levels opens and resolves to its first");
}
ATF_TC_BODY(open__long_chain, tc)
{
	static uint8_t data[KIT_PAGE];
	struct wprof_images_verdict v;
	struct wprof_images *images;
	struct wprof_why why;
	struct kit_map map;
	char dir[16], parent[16];
	size_t n;

	for (int i = 0; i < 300; i++) {
		snprintf(dir, sizeof(dir), "%d", i);
		snprintf(parent, sizeof(parent), "../%d", i - 1);
		kit_level(dir, i ? parent : NULL, 1);
		kit_map_begin(&map, dir, "pagemap-10.img", 1, 1);
		kit_map_add(&map, 0x400000, 1, i ? KIT_PARENT : KIT_PRESENT, data);
		kit_map_end(&map);
	}
	ATF_REQUIRE_EQ_MSG(open_dir("299", &images, &why), 0, "%s", why.text);
	wprof_images_levels(images, &n);
	ATF_REQUIRE_EQ(n, 300);
	ATF_REQUIRE_STREQ(wprof_images_levels(images, &n)[1].dir, "298");
	ATF_REQUIRE_EQ_MSG(wprof_images_verify(images, NULL, NULL, &v, &why), 0, "%s", why.text);
	ATF_REQUIRE_EQ(v.resolved_pages, 1);
	wprof_images_close(images);
}

ATF_TC(withheld__tells_the_ranges);
ATF_TC_HEAD(withheld__tells_the_ranges, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "What was withheld is told by process, and nothing of others");
}
ATF_TC_BODY(withheld__tells_the_ranges, tc)
{
	static const char record[] = "wprof-withheld 1 withheld 12\n10 403000 404000\n"
				     "10 404000 405000\n11 1000 2000\nend\n";
	const struct wprof_range *r;
	struct wprof_images *images;
	struct wprof_ranges *set;
	struct wprof_why why;
	size_t n;

	make("1", HEAD ENTRY_1, 2);
	kit_put("1", "withheld.wprof", record, strlen(record));
	ATF_REQUIRE_EQ_MSG(open_dir("1", &images, &why), 0, "%s", why.text);
	ATF_REQUIRE_EQ(wprof_images_levels(images, &n)->maps[0].withheld_pages, 2);
	ATF_REQUIRE_EQ(wprof_images_withheld(images, 1, 10, &set, &why), -EINVAL);
	ATF_REQUIRE_EQ(wprof_images_withheld(images, 0, 10, &set, &why), 0);
	r = wprof_ranges_list(set, &n);
	ATF_REQUIRE_EQ(n, 1);
	ATF_REQUIRE_EQ(r[0].start, 0x403000);
	ATF_REQUIRE_EQ(r[0].end, 0x405000);
	wprof_ranges_free(set);
	wprof_images_close(images);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, open__refuses_hostile_pagemaps);
	ATF_TP_ADD_TC(tp, open__refuses_pagemaps_cut_anywhere);
	ATF_TP_ADD_TC(tp, open__refuses_options);
	ATF_TP_ADD_TC(tp, open__refuses_what_is_no_dump);
	ATF_TP_ADD_TC(tp, open__refuses_links_out);
	ATF_TP_ADD_TC(tp, open__refuses_loops);
	ATF_TP_ADD_TC(tp, open__reads_every_layout);
	ATF_TP_ADD_TC(tp, complete__writes_the_layout_it_read);
	ATF_TP_ADD_TC(tp, open__reads_statistics);
	ATF_TP_ADD_TC(tp, verify__names_what_does_not_resolve);
	ATF_TP_ADD_TC(tp, verify__knows_a_pre_dump);
	ATF_TP_ADD_TC(tp, open__long_chain);
	ATF_TP_ADD_TC(tp, withheld__tells_the_ranges);
	return atf_no_error();
}
