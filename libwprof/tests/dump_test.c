/*
 * Dumps by a stand-in for CRIU, which records its arguments and lays down images
 * made by hand: the books that are kept, the arguments, what is left when it fails.
 * That a real CRIU takes them is the business of the guest tests; for hot mode
 * native no released one does.
 */
#include <atf-c.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "criu/dump.h"
#include "tests/imgkit.h"

#define BASE	0x7f0000000000u
#define NATIVE	"--exclude-range --exclude-file --no-parent-range"
#define N_AREAS 12
#define MAPNAME "pagemap-%d.img"

/* next/: the images of the next dump; said: its help; code: what it does at the end */
static const char standin[] =
	"#!/bin/sh\n"
	"[ \"$1\" != --help ] || { cat said; exit 0; }\n"
	"echo \"$@\" > args\n"
	"while [ $# -gt 0 ]; do case $1 in\n"
	"-D) dir=$2 ;; -o) log=$2 ;; --prev-images-dir) prev=$2 ;;\n"
	"esac; shift; done\n"
	"echo '(00.1) Error (criu/mem.c:7): it broke' > \"$log\"\n"
	"echo '(00.2) Error (criu/cr-dump.c:9): Dumping FAILED.' >> \"$log\"\n"
	". ./code\n"
	"cp next/* \"$dir\"\n"
	"[ -z \"$prev\" ] || ln -s \"$prev\" \"$dir/parent\"\n"
	". ./after\n";

static pid_t target;
static struct dump_result result;
static struct wprof_why why;

/* A process that sleeps, leader of a session; dies with the test. */
static void target_start(void)
{
	int fds[2];
	char c;

	ATF_REQUIRE_EQ(pipe(fds), 0);
	target = fork();
	ATF_REQUIRE(target >= 0);
	if (!target) {
		alarm(60);
		setsid();
		(void)!write(fds[1], "x", 1);
		for (;;)
			pause();
	}
	ATF_REQUIRE_EQ(read(fds[0], &c, 1), 1);
	close(fds[0]);
	close(fds[1]);
}

static void target_end(void)
{
	kill(target, SIGKILL);
	ATF_REQUIRE_EQ(waitpid(target, NULL, 0), target);
}

static void setup(const char *help)
{
	atf_utils_create_file("criu", "%s", standin);
	ATF_REQUIRE_EQ(chmod("criu", 0755), 0);
	atf_utils_create_file("said", "%s\n", help);
	atf_utils_create_file("code", "true\n");
	atf_utils_create_file("after", "true\n");
	ATF_REQUIRE_EQ(mkdir("images", 0755), 0);
	target_start();
}

/* What CRIU does last: the process is gone, but its parent did not wait for it yet. */
#define KILL_IT "kill -KILL %d; until grep -q '^State:.Z' /proc/%d/status; do sleep 0.01; done\n"

/* The next dump has 8 pages whose data begin with @what; those of @holes are holes. */
static void next_level(uint64_t uptime_us, uint8_t what, unsigned int holes, bool last)
{
	static uint8_t page[KIT_PAGE];
	struct kit_map map;
	char name[32];

	ATF_REQUIRE_EQ(system("rm -rf next"), 0);
	kit_level("next", NULL, uptime_us);
	snprintf(name, sizeof(name), MAPNAME, (int)target);
	kit_map_begin(&map, "next", name, 1, 2);
	for (unsigned int i = 0; i < 8; i++) {
		memset(page, what + (int)i, sizeof(page));
		kit_map_add(&map, BASE + i * KIT_PAGE, 1, holes >> i & 1 ? KIT_PARENT : KIT_PRESENT,
			    page);
	}
	kit_map_end(&map);
	if (last)
		kit_hex("next", "pstree.img", "16 31 31 58 80 45 27 50");
}

static int take_hot(const char *id, const char *parent, enum dump_mode mode, const char *how,
		    struct wprof_ranges *hot)
{
	struct wprof_images_hot one = { (uint64_t)target, hot };
	struct dump_opts o = {
		.criu = "./criu",
		.images = "images",
		.id = id,
		.parent = parent,
		.pid = target,
		.mode = mode,
		.final = strcmp(how, "pre") != 0,
		.leave_running = strcmp(how, "stay") == 0,
		.hot = &one,
		.n_hot = hot != NULL,
		.flags = WPROF_IMAGES_NO_SYNC,
	};
	int rc = dump_take(&o, &result, &why);

	if (rc)
		printf("%s: %d %s\n", id, rc, why.text);
	return rc;
}

static int take(const char *id, const char *parent, enum dump_mode mode, const char *how)
{
	return take_hot(id, parent, mode, how, NULL);
}

static bool there(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

__attribute__((format(printf, 1, 2))) static void args_are(const char *format, ...)
{
	char want[4096], images[PATH_MAX];
	va_list list;

	ATF_REQUIRE(realpath("images", images) != NULL);
	va_start(list, format);
	vsnprintf(want, sizeof(want), format, list);
	va_end(list);
	/* the directory's name for @ */
	for (char *at; (at = strchr(want, '@'));) {
		char tail[4096];

		snprintf(tail, sizeof(tail), "%s", at + 1);
		snprintf(at, sizeof(want) - (size_t)(at - want), "%s%s", images, tail);
	}
	if (!atf_utils_compare_file("args", want)) {
		atf_utils_cat_file("args", "got: ");
		atf_tc_fail("not the arguments wanted: %s", want);
	}
}

ATF_TC(id__checked);
ATF_TC_HEAD(id__checked, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "An id that could lead elsewhere, or is too long, is refused");
}
ATF_TC_BODY(id__checked, tc)
{
	static const char *const bad[] = { "", "..", ".", "a/b", "../a", "a.b", "-a", "a b", "\n" };
	char longest[DUMP_ID_MAX + 2];

	setup("");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ATF_CHECK(!dump_id_valid(bad[i]));
		ATF_CHECK_EQ(take(bad[i], NULL, DUMP_OFF, "pre"), -EINVAL);
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[DUMP_ID_MAX + 1] = '\0';
	ATF_CHECK(!dump_id_valid(longest));
	longest[DUMP_ID_MAX] = '\0';
	ATF_CHECK(dump_id_valid(longest));
	ATF_CHECK(!there("args"));
	target_end();
}

ATF_TC(parent__checked);
ATF_TC_HEAD(parent__checked, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Only the last dump of the same process in the same mode is a parent");
}
ATF_TC_BODY(parent__checked, tc)
{
	pid_t first;

	setup("");
	next_level(1, 1, 0, false);
	ATF_CHECK_EQ(take("a", "none", DUMP_OFF, "pre"), -ENOENT);
	ATF_CHECK_EQ(take("a", "a", DUMP_OFF, "pre"), -EINVAL);
	ATF_REQUIRE_EQ(take("a", NULL, DUMP_OFF, "pre"), 0);
	ATF_CHECK_EQ(take("a", NULL, DUMP_OFF, "pre"), -EEXIST);
	ATF_CHECK_EQ(take("b", "a", DUMP_WITHHOLD, "pre"), -EINVAL);
	ATF_REQUIRE_EQ(take("b", "a", DUMP_OFF, "pre"), 0);
	/* what was written between a and b would be taken from a */
	ATF_CHECK_EQ(take("c", "a", DUMP_OFF, "pre"), -ESTALE);
	first = target;
	target_start();
	ATF_CHECK_EQ(take("c", "b", DUMP_OFF, "pre"), -EINVAL);
	target_end();
	target = first;
	target_end();
	ATF_CHECK_EQ(take("c", "b", DUMP_OFF, "pre"), -ESRCH);
	ATF_CHECK(!there("images/c") && !there("images/c.partial"));
}

ATF_TC(args__off);
ATF_TC_HEAD(args__off, tc)
{
	atf_tc_set_md_var(tc, "descr", "CRIU's arguments for pre-dumps and dumps, word for word");
}
ATF_TC_BODY(args__off, tc)
{
	setup("");
	next_level(1, 1, 0, false);
	ATF_REQUIRE_EQ(take("a", NULL, DUMP_OFF, "pre"), 0);
	args_are("pre-dump -t %d -D @/a.partial/full -o @/a.partial/dump.log --track-mem\n",
		 (int)target);
	ATF_CHECK(strstr(result.dir, "/images/a/full") != NULL);
	ATF_CHECK(there("images/a/full/inventory.img") && there("images/a/dump.log"));
	next_level(2, 1, 0xff, true);
	ATF_REQUIRE_EQ(take("b", "a", DUMP_OFF, "stay"), 0);
	args_are("dump -t %d -D @/b.partial/full -o @/b.partial/dump.log --track-mem "
		 "--prev-images-dir ../../a/full --leave-running\n",
		 (int)target);
	next_level(3, 1, 0, true);
	ATF_REQUIRE_EQ(take("c", NULL, DUMP_OFF, "end"), 0);
	args_are("dump -t %d -D @/c.partial/full -o @/c.partial/dump.log\n", (int)target);
	target_end();
}

/* A page of the target in each of @n of its VMAs that are apart */
static struct wprof_ranges *hot_areas(char *const *areas, size_t n)
{
	struct wprof_range list[N_AREAS];
	struct wprof_ranges *set;

	for (size_t i = 0; i < n; i++) {
		uint64_t at = (uint64_t)(uintptr_t)areas[i];

		list[i] = (struct wprof_range){ at + KIT_PAGE, at + 2 * KIT_PAGE };
	}
	ATF_REQUIRE_EQ(wprof_ranges_new(list, n, &set), 0);
	return set;
}

/* Areas of 4 pages with nothing mapped beside them, before the target is started. */
static void make_areas(char **areas)
{
	char *all =
		mmap(NULL, N_AREAS * 8 * KIT_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ATF_REQUIRE(all != MAP_FAILED);
	for (size_t i = 0; i < N_AREAS; i++) {
		areas[i] = all + i * 8 * KIT_PAGE;
		ATF_REQUIRE_EQ(mprotect(areas[i], 4 * KIT_PAGE, PROT_READ | PROT_WRITE), 0);
	}
}

ATF_TC(args__native);
ATF_TC_HEAD(args__native, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "native: whole VMAs, no-parent is what was left out and no longer is");
}
ATF_TC_BODY(args__native, tc)
{
	char *areas[N_AREAS], *end;
	struct wprof_ranges *hot;

	make_areas(areas);
	setup(NATIVE);
	end = areas[0] + 4 * KIT_PAGE;
	next_level(1, 1, 0, false);
	hot = hot_areas(areas, 1);
	ATF_REQUIRE_EQ(take_hot("a", NULL, DUMP_AUTO, "pre", hot), 0);
	args_are("pre-dump -t %d -D @/a.partial/full -o @/a.partial/dump.log --track-mem "
		 "--exclude-range %" PRIxPTR ":%" PRIxPTR "\n",
		 (int)target, (uintptr_t)areas[0], (uintptr_t)end);
	ATF_CHECK_EQ(result.mode, DUMP_NATIVE);
	ATF_CHECK_EQ(result.n_exclude, 1);
	next_level(2, 1, 0xff, true);
	/* hot still, but nothing is left out of the last one */
	ATF_REQUIRE_EQ(take_hot("b", "a", DUMP_AUTO, "end", hot), 0);
	wprof_ranges_free(hot);
	args_are("dump -t %d -D @/b.partial/full -o @/b.partial/dump.log --track-mem "
		 "--prev-images-dir ../../a/full --no-parent-range %" PRIxPTR ":%" PRIxPTR "\n",
		 (int)target, (uintptr_t)areas[0], (uintptr_t)end);
	ATF_CHECK_EQ(result.n_no_parent, 1);
	target_end();
}

ATF_TC(args__native_file);
ATF_TC_HEAD(args__native_file, tc)
{
	atf_tc_set_md_var(tc, "descr", "native: more than 10 ranges go to a file");
}
ATF_TC_BODY(args__native_file, tc)
{
	char *areas[N_AREAS];
	struct wprof_ranges *hot, *saved;
	size_t n;

	make_areas(areas);
	setup(NATIVE);
	next_level(1, 1, 0, false);
	hot = hot_areas(areas, N_AREAS);
	ATF_REQUIRE_EQ(take_hot("a", NULL, DUMP_NATIVE, "pre", hot), 0);
	args_are("pre-dump -t %d -D @/a.partial/full -o @/a.partial/dump.log --track-mem "
		 "--exclude-file @/a.partial/exclude\n",
		 (int)target);
	ATF_REQUIRE_EQ(wprof_ranges_load("images/a/exclude", &saved, NULL), 0);
	wprof_ranges_list(saved, &n);
	ATF_CHECK_EQ(n, N_AREAS);
	wprof_ranges_free(saved);
	wprof_ranges_free(hot);
	target_end();
}

ATF_TC(native__refused);
ATF_TC_HEAD(native__refused, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "native: refused without the options, and for a tree; auto withholds");
}
ATF_TC_BODY(native__refused, tc)
{
	setup("--exclude-range only");
	next_level(1, 1, 0, false);
	ATF_CHECK_EQ(take("a", NULL, DUMP_NATIVE, "pre"), -EOPNOTSUPP);
	ATF_REQUIRE_EQ(take("a", NULL, DUMP_AUTO, "pre"), 0);
	ATF_CHECK_EQ(result.mode, DUMP_WITHHOLD);
	target_end();
	atf_utils_create_file("said", NATIVE "\n");
	target = getpid(); /* has a child */
	target_start();
	ATF_CHECK_EQ(take("b", NULL, DUMP_NATIVE, "pre"), 0);
	{
		pid_t child = target;

		target = getpid();
		ATF_CHECK_EQ(take("c", NULL, DUMP_NATIVE, "pre"), -EOPNOTSUPP);
		target = child;
	}
	target_end();
}

static void page_is(const char *dir, unsigned int i, int want)
{
	uint8_t page[KIT_PAGE];
	char name[32];

	snprintf(name, sizeof(name), MAPNAME, (int)target);
	ATF_REQUIRE_MSG(kit_page(dir, name, BASE + i * KIT_PAGE, page), "page %u is missing", i);
	ATF_CHECK_MSG(page[0] == want && page[KIT_PAGE - 1] == want, "page %u: %d, not %d", i,
		      page[0], want);
}

static struct wprof_ranges *pages(unsigned int from, unsigned int to)
{
	struct wprof_range r = { BASE + from * KIT_PAGE, BASE + to * KIT_PAGE };
	struct wprof_ranges *set;

	ATF_REQUIRE_EQ(wprof_ranges_new(&r, 1, &set), 0);
	return set;
}

ATF_TC(withhold__chain);
ATF_TC_HEAD(withhold__chain, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "What is sent lacks the hot pages until the last dump, then has all");
}
ATF_TC_BODY(withhold__chain, tc)
{
	struct wprof_ranges *hot, *saved;
	char path[64];

	setup("");
	next_level(1, 10, 0, false);
	hot = pages(2, 6);
	ATF_REQUIRE_EQ(take_hot("a", NULL, DUMP_WITHHOLD, "pre", hot), 0);
	ATF_CHECK_EQ(result.bytes_withheld, 4 * KIT_PAGE);
	ATF_CHECK(strstr(result.dir, "/images/a/ship") != NULL);
	/* on disk, for an agent that starts anew */
	snprintf(path, sizeof(path), "images/a/excluded-%d", (int)target);
	ATF_REQUIRE_EQ(wprof_ranges_load(path, &saved, NULL), 0);
	ATF_CHECK_EQ(wprof_ranges_bytes(saved), 4 * KIT_PAGE);
	wprof_ranges_free(saved);
	wprof_ranges_free(hot);
	next_level(2, 40, 0x0f, false);
	hot = pages(2, 4);
	ATF_REQUIRE_EQ(take_hot("b", "a", DUMP_WITHHOLD, "pre", hot), 0);
	ATF_CHECK_EQ(result.n_exclude, 1);
	ATF_CHECK_EQ(result.n_no_parent, 1);
	wprof_ranges_free(hot);
	next_level(3, 70, 0x7f, true);
	ATF_REQUIRE_EQ(take("c", "b", DUMP_WITHHOLD, "end"), 0);
	ATF_CHECK_EQ(result.n_exclude, 0);
	/* only what was sent */
	ATF_REQUIRE_EQ(system("rm -rf images/[abc]/full"), 0);
	kit_forget();
	for (unsigned int i = 0; i < 4; i++)
		page_is("images/c/ship", i, 10 + (int)i);
	for (unsigned int i = 4; i < 7; i++)
		page_is("images/c/ship", i, 40 + (int)i);
	page_is("images/c/ship", 7, 77);
	target_end();
}

ATF_TC(withhold__resumed);
ATF_TC_HEAD(withhold__resumed, tc)
{
	atf_tc_set_md_var(
		tc, "descr",
		"A dump whose copy is missing is made ready by the same request, without process");
}
ATF_TC_BODY(withhold__resumed, tc)
{
	struct wprof_ranges *hot = pages(2, 6);

	setup("");
	next_level(1, 10, 0, false);
	ATF_REQUIRE_EQ(take_hot("a", NULL, DUMP_WITHHOLD, "pre", hot), 0);
	wprof_ranges_free(hot);
	next_level(2, 40, 0x7f, true);
	ATF_REQUIRE_EQ(take("b", "a", DUMP_WITHHOLD, "end"), 0);
	target_end();
	ATF_REQUIRE_EQ(system("rm -rf images/b/ship args"), 0);
	ATF_CHECK(dump_pending("images", "b"));
	ATF_CHECK(!dump_pending("images", "a"));
	ATF_CHECK_EQ(take("b", NULL, DUMP_WITHHOLD, "end"), -EEXIST);
	ATF_REQUIRE_EQ(take("b", "a", DUMP_WITHHOLD, "end"), 0);
	ATF_CHECK(!there("args")); /* CRIU did not run again */
	ATF_CHECK(!dump_pending("images", "b"));
	kit_forget();
	page_is("images/b/ship", 3, 13);
}

ATF_TC(withhold__process_dies_late);
ATF_TC_HEAD(withhold__process_dies_late, tc)
{
	atf_tc_set_md_var(
		tc, "descr",
		"A final dump without its copy is kept though the process is not yet gone");
}
ATF_TC_BODY(withhold__process_dies_late, tc)
{
	setup("");
	next_level(1, 10, 0, false);
	ATF_REQUIRE_EQ(take("a", NULL, DUMP_WITHHOLD, "pre"), 0);
	atf_utils_create_file("after", "mv images/a/ship away\n");
	next_level(2, 40, 0x7f, true);
	ATF_CHECK(take("b", "a", DUMP_WITHHOLD, "end") != 0);
	ATF_CHECK(strstr(why.text, "the dump itself is kept") != NULL);
	ATF_CHECK(dump_pending("images", "b"));
	ATF_REQUIRE_EQ(system("mv away images/a/ship"), 0);
	ATF_REQUIRE_EQ(take("b", "a", DUMP_WITHHOLD, "end"), 0);
	target_end();
}

ATF_TC(failed__before_pages);
ATF_TC_HEAD(failed__before_pages, tc)
{
	atf_tc_set_md_var(
		tc, "descr",
		"A dump that fails early leaves its log only; the next goes on from the parent");
}
ATF_TC_BODY(failed__before_pages, tc)
{
	setup("");
	next_level(1, 1, 0, false);
	ATF_REQUIRE_EQ(take("a", NULL, DUMP_OFF, "pre"), 0);
	atf_utils_create_file("code", "exit 1\n");
	ATF_CHECK_EQ(take("b", "a", DUMP_OFF, "pre"), -ECHILD);
	ATF_CHECK_STREQ("criu ended with 1: Error (criu/mem.c:7): it broke; log: b.failed.log",
			why.text);
	ATF_CHECK(there("images/b.failed.log"));
	ATF_CHECK(!there("images/b") && !there("images/b.partial"));
	atf_utils_create_file("code", "kill -KILL $$\n");
	ATF_CHECK_EQ(take("b", "a", DUMP_OFF, "pre"), -ECHILD);
	ATF_CHECK_MATCH("was killed by signal 9", why.text);
	ATF_CHECK_EQ(kill(target, 0), 0);
	atf_utils_create_file("code", "true\n");
	ATF_CHECK_EQ(take("b", "a", DUMP_OFF, "pre"), 0);
	target_end();
}

ATF_TC(failed__helpers_left);
ATF_TC_HEAD(failed__helpers_left, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "A CRIU that is killed takes its own children with it: the next goes on");
}
ATF_TC_BODY(failed__helpers_left, tc)
{
	setup("");
	next_level(1, 1, 0, false);
	atf_utils_create_file("code", "sleep 1000 & echo $! > helper\nkill -KILL $$\n");
	ATF_CHECK_EQ(take("a", NULL, DUMP_OFF, "pre"), -ECHILD);
	ATF_CHECK_MATCH("was killed by signal 9", why.text);
	/* killed, and with init to wait for it */
	ATF_CHECK_EQ(system("for i in $(seq 500); do kill -0 $(cat helper) 2> kill.err || exit 0\n"
			    "grep -q '^State:.Z' /proc/$(cat helper)/status && exit 0\n"
			    "sleep 0.01; done; exit 1"),
		     0);
	atf_utils_create_file("code", "true\n");
	ATF_CHECK_EQ_MSG(take("a", NULL, DUMP_OFF, "pre"), 0, "%s", why.text);
	target_end();
}

ATF_TC(failed__after_pages);
ATF_TC_HEAD(failed__after_pages, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "After a dump that failed at the pages, none may go on from its parent");
}
ATF_TC_BODY(failed__after_pages, tc)
{
	setup("");
	next_level(1, 1, 0, false);
	ATF_REQUIRE_EQ(take("a", NULL, DUMP_OFF, "pre"), 0);
	atf_utils_create_file("after", "exit 1\n");
	ATF_CHECK_EQ(take("b", "a", DUMP_OFF, "pre"), -ECHILD);
	ATF_CHECK_MATCH("without a parent", why.text);
	ATF_CHECK(!there("images/b") && !there("images/b.partial"));
	atf_utils_create_file("after", "true\n");
	/* the soft-dirty bits since a are gone */
	ATF_CHECK_EQ(take("b", "a", DUMP_OFF, "pre"), -ESTALE);
	ATF_CHECK_EQ(take("b", NULL, DUMP_OFF, "pre"), 0);
	target_end();
}

ATF_TC(failed__process_gone);
ATF_TC_HEAD(failed__process_gone, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Nothing is removed when the process is gone with a failed dump");
}
ATF_TC_BODY(failed__process_gone, tc)
{
	setup("");
	next_level(1, 1, 0, true);
	/* nobody waits for it: a zombie is gone too, though it has a start time still,
	 * and so is who was killed this moment */
	atf_utils_create_file("after", "kill -KILL %d; exit 1\n", (int)target);
	ATF_CHECK_EQ(take("a", NULL, DUMP_OFF, "end"), -ECHILD);
	ATF_CHECK_MATCH("a.lost", why.text);
	ATF_REQUIRE_EQ(waitpid(target, NULL, 0), target);
	ATF_CHECK(there("images/a.lost/full/inventory.img"));
	target_start();
	ATF_CHECK_EQ(take("a", NULL, DUMP_OFF, "end"), -EEXIST);
	ATF_CHECK(there("images/a.lost/full/inventory.img"));
	target_end();
}

/*
 * As an agent leaves it that is killed while CRIU takes the last dump: the directory
 * has its first name still. @stats: of CRIU, who writes them when all else is done.
 */
static void orphan(const char *mode, bool stats)
{
	next_level(1, 1, 0, true);
	atf_utils_create_file("after", KILL_IT, (int)target, (int)target);
	ATF_REQUIRE_EQ(take("a", NULL, strcmp(mode, "off") ? DUMP_WITHHOLD : DUMP_OFF, "end"), 0);
	ATF_REQUIRE_EQ(waitpid(target, NULL, 0), target);
	ATF_REQUIRE_EQ(system("rm -rf args images/a/ship && mv images/a images/a.partial"), 0);
	if (stats)
		kit_hex("images/a.partial/full", "stats-dump",
			"40 59 10 55 06 33 09 57 00 00 00 00");
	ATF_CHECK(dump_pending("images", "a"));
}

ATF_TC(orphan__adopted);
ATF_TC_HEAD(orphan__adopted, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "The last dump that a killed agent left is taken up by the same request");
}
ATF_TC_BODY(orphan__adopted, tc)
{
	const char *const modes[] = { "off", "withhold" };

	setup("");
	for (size_t i = 0; i < 2; i++) {
		orphan(modes[i], true);
		ATF_CHECK_EQ(take("a", "b", DUMP_OFF, "end"), -EEXIST);
		ATF_CHECK_EQ(take("a", NULL, DUMP_OFF, "pre"), -EEXIST);
		target_start();
		ATF_CHECK_EQ(take("a", NULL, DUMP_OFF, "end"), -EEXIST);
		ATF_CHECK_MATCH("unfinished final dump of process", why.text);
		target_end();
		ATF_CHECK_EQ(take("a", NULL, DUMP_OFF, "end"), 0);
		ATF_CHECK(!there("args")); /* CRIU did not run again */
		ATF_CHECK(!there("images/a.partial") && !dump_pending("images", "a"));
		ATF_CHECK_EQ(there("images/a/ship"), i == 1);
		ATF_REQUIRE_EQ(system("rm -rf images/a"), 0);
		target_start();
	}
	target_end();
}

ATF_TC(orphan__not_whole);
ATF_TC_HEAD(orphan__not_whole, tc)
{
	atf_tc_set_md_var(
		tc, "descr",
		"What a killed agent and a CRIU that failed left is kept, and never taken up");
}
ATF_TC_BODY(orphan__not_whole, tc)
{
	setup("");
	orphan("off", false);
	ATF_CHECK_EQ(take("a", NULL, DUMP_OFF, "end"), -ECHILD);
	ATF_CHECK_MATCH("a.lost", why.text);
	ATF_CHECK(there("images/a.lost/full/pages-1.img") && !there("images/a"));
	ATF_CHECK(!dump_pending("images", "a"));
}

ATF_TC(store__locked);
ATF_TC_HEAD(store__locked, tc)
{
	atf_tc_set_md_var(
		tc, "descr",
		"A second dump is refused; no directory, no CRIU and a killed agent's rest too");
}
ATF_TC_BODY(store__locked, tc)
{
	int fd;

	setup("");
	next_level(1, 1, 0, false);
	fd = open("images", O_RDONLY | O_DIRECTORY);
	ATF_REQUIRE_EQ(flock(fd, LOCK_EX), 0);
	ATF_CHECK_EQ(take("a", NULL, DUMP_OFF, "pre"), -EBUSY);
	close(fd);
	ATF_REQUIRE_EQ(rename("criu", "elsewhere"), 0);
	ATF_CHECK_EQ(take("a", NULL, DUMP_OFF, "pre"), -ENOENT);
	ATF_REQUIRE_EQ(rename("elsewhere", "criu"), 0);
	ATF_CHECK(!there("images/a.partial"));
	ATF_REQUIRE_EQ(system("mkdir -p images/a.partial/full && touch images/a.partial/full/x"),
		       0);
	ATF_CHECK_EQ(take("a", NULL, DUMP_OFF, "pre"), 0);
	ATF_CHECK(!there("images/a/full/x"));
	ATF_REQUIRE_EQ(rename("images", "away"), 0);
	ATF_CHECK_EQ(take("b", NULL, DUMP_OFF, "pre"), -ENOENT);
	ATF_REQUIRE_EQ(rename("away", "images"), 0);
	ATF_CHECK_EQ(take("b", "a", DUMP_OFF, "pre"), 0);
	target_end();
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, id__checked);
	ATF_TP_ADD_TC(tp, parent__checked);
	ATF_TP_ADD_TC(tp, args__off);
	ATF_TP_ADD_TC(tp, args__native);
	ATF_TP_ADD_TC(tp, args__native_file);
	ATF_TP_ADD_TC(tp, native__refused);
	ATF_TP_ADD_TC(tp, withhold__chain);
	ATF_TP_ADD_TC(tp, withhold__resumed);
	ATF_TP_ADD_TC(tp, withhold__process_dies_late);
	ATF_TP_ADD_TC(tp, failed__before_pages);
	ATF_TP_ADD_TC(tp, failed__helpers_left);
	ATF_TP_ADD_TC(tp, failed__after_pages);
	ATF_TP_ADD_TC(tp, failed__process_gone);
	ATF_TP_ADD_TC(tp, orphan__adopted);
	ATF_TP_ADD_TC(tp, orphan__not_whole);
	ATF_TP_ADD_TC(tp, store__locked);
	return atf_no_error();
}
