/*
 * The scan on our own memory, which we register ourselves: both phases, full
 * results, and what the design this one follows got wrong (its verification
 * scan, its unregister call, walk_end, unregistered memory).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "case.h"
#include "arm.h"
#include "maps.h"

#define PAGE 4096ul

struct bed {
	int uffd;
	struct scan scan;
	struct runs runs;
	char *p;
	size_t pages;
	struct area area;
};

static void bed_make(struct bed *b, size_t pages)
{
	memset(b, 0, sizeof(*b));
	b->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	ATF_REQUIRE(b->uffd >= 0);
	ATF_REQUIRE_EQ(0, arm_api(b->uffd));
	ATF_REQUIRE_EQ(0, scan_open(getpid(), &b->scan));
	ATF_REQUIRE_EQ(0, runs_grow(&b->runs));
	/* a page of another protection on each side: a VMA of its own */
	b->p = mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ATF_REQUIRE(b->p != MAP_FAILED);
	b->p += PAGE;
	ATF_REQUIRE_EQ(0, mprotect(b->p, pages * PAGE, PROT_READ | PROT_WRITE));
	madvise(b->p, pages * PAGE, MADV_NOHUGEPAGE);
	b->pages = pages;
	b->area = (struct area){
		.start = (uintptr_t)b->p,
		.end = (uintptr_t)b->p + pages * PAGE,
		.state = AREA_FRESH,
	};
}

static void bed_write(struct bed *b, size_t first, size_t n, size_t stride)
{
	for (size_t i = 0; i < n; i++)
		((volatile char *)b->p)[(first + i * stride) * PAGE]++;
}

/* Register and arm all that is populated so far. */
static void bed_arm(struct bed *b)
{
	ATF_REQUIRE_EQ(0, arm_register(b->uffd, &b->area, 1, NULL));
	ATF_REQUIRE(area_tracked(&b->area));
	ATF_REQUIRE_EQ(0, arm_baseline(&b->scan, &b->area, 1));
}

static void bed_scan(struct bed *b)
{
	uint64_t pos = b->area.start;
	int rc;

	b->runs.n = 0;
	b->scan.counted_to = 0;
	b->area.written = b->area.candidates = b->area.walked = b->area.n_groups = 0;
	while ((rc = scan_span(&b->scan, &b->area, 1, &pos, &b->runs)) == SCAN_FULL)
		ATF_REQUIRE_EQ(0, runs_grow(&b->runs));
	ATF_REQUIRE_EQ(0, rc);
}

static uint64_t bed_pages(const struct bed *b)
{
	uint64_t n = 0;

	for (size_t i = 0; i < b->runs.n; i++)
		n += b->runs.v[i].n_pages;
	return n;
}

static uint64_t entry(const struct bed *b, size_t page)
{
	uint64_t e;

	ATF_REQUIRE_EQ((ssize_t)sizeof(e),
		       pread(b->scan.fd, &e, sizeof(e),
			     ((off_t)(uintptr_t)b->p / (off_t)PAGE + (off_t)page) * 8));
	return e;
}

CASE(span__unregistered_fails, "Two phases over memory not registered: EPERM, and nothing armed")
{
	static struct bed b;
	uint64_t pos;

	bed_make(&b, 64);
	bed_write(&b, 0, 64, 1);
	pos = b.area.start;
	ATF_CHECK_EQ(-EPERM, scan_span(&b.scan, &b.area, 1, &pos, &b.runs));
	ATF_CHECK_EQ(b.area.start, pos);
	ATF_CHECK_EQ(0, b.runs.n);
	for (size_t i = 0; i < 64; i++)
		ATF_CHECK(!(entry(&b, i) & UAPI_PM_UFFD_WP));
}

CASE(registered__tells, "Whether memory is registered can be told, and unregistering works")
{
	static struct bed b;

	bed_make(&b, 64);
	ATF_CHECK_EQ(0, scan_registered(&b.scan, b.area.start, b.area.end));
	bed_arm(&b);
	ATF_CHECK_EQ(1, scan_registered(&b.scan, b.area.start, b.area.end));
	ATF_CHECK_EQ(0, scan_registered(&b.scan, b.area.start, b.area.end + PAGE));
	/* the number of the ioctl: _IOR, as _IOW is refused by the kernel */
	ATF_CHECK_EQ(0x8010aa01ul, (unsigned long)UFFDIO_UNREGISTER);
	arm_unregister(b.uffd, b.area.start, b.area.end);
	ATF_CHECK_EQ(0, scan_registered(&b.scan, b.area.start, b.area.end));
}

CASE(verify__unarmed_is_an_error, "When nothing that exists can be armed setting up has failed")
{
	static struct bed b;

	bed_make(&b, 64);
	bed_write(&b, 0, 8, 1);
	b.area.populated = 8;
	ATF_CHECK_EQ(-EIO, arm_verify(&b.scan, &b.area, 1));
	bed_arm(&b);
	ATF_CHECK_EQ(0, arm_verify(&b.scan, &b.area, 1));
	b.area.populated = 0;
	ATF_CHECK_EQ(-EIO, arm_verify(&b.scan, &b.area, 1));
}

CASE(verify__up_to_the_last_vma, "Verifying up to the highest mapping works on every processor")
{
	static struct bed b;
	struct maps *m;
	struct maps_entry e;
	uint64_t end = 0;

	bed_make(&b, 64);
	bed_write(&b, 0, 8, 1);
	bed_arm(&b);
	ATF_REQUIRE_EQ(0, maps_open(getpid(), &m));
	while (maps_next(m, &e) == 1)
		if (e.end < 1ull << 47)
			end = e.end;
	maps_close(m);
	ATF_CHECK_EQ(1, scan_armable(&b.scan, 0, end));
}

CASE(count__bad_range, "A range that is reversed or not aligned is an error, not a count")
{
	static struct bed b;
	int64_t rc;

	bed_make(&b, 1);
	rc = scan_count(&b.scan, SCAN_POPULATED, b.area.end, b.area.start);
	ATF_CHECK(rc == 0 || rc == -EFAULT || rc == -EINVAL);
	ATF_CHECK_EQ(-EINVAL, scan_count(&b.scan, SCAN_POPULATED, b.area.start + 1, b.area.end));
}

CASE(vector__four_regions, "With room for four regions a call, 32 runs are all reported and armed")
{
	static struct bed b;

	bed_make(&b, 256);
	bed_write(&b, 0, 256, 1);
	bed_arm(&b);
	b.scan.vec_len = 4;
	bed_write(&b, 0, 32, 8);
	bed_scan(&b);
	ATF_CHECK_EQ(32, b.runs.n);
	ATF_CHECK_EQ(32, b.area.written);
	for (size_t i = 0; i < 256; i++)
		ATF_CHECK(entry(&b, i) & UAPI_PM_UFFD_WP);
	bed_scan(&b);
	ATF_CHECK_EQ(0, b.runs.n);
}

CASE(runs__full_in_the_middle, "When the runs are full the scan goes on where it was, losing none")
{
	static struct bed b;
	size_t pages = 6 * SCAN_VEC;

	bed_make(&b, 2 * pages);
	bed_write(&b, 0, 2 * pages, 1);
	bed_arm(&b);
	bed_write(&b, 0, pages, 2);
	/* room for a batch and a little */
	b.runs.cap = SCAN_VEC + 10;
	bed_scan(&b);
	ATF_CHECK_EQ(pages, b.runs.n);
	ATF_CHECK_EQ(pages, bed_pages(&b));
	ATF_CHECK_EQ(pages, b.area.candidates);
}

CASE(holes__stay_unarmed, "A scan of memory with holes arms none of them, and counts what exists")
{
	static struct bed b;

	bed_make(&b, 4096);
	bed_write(&b, 0, 100, 1);
	bed_write(&b, 3000, 50, 2);
	bed_arm(&b);
	ATF_CHECK_EQ(150, b.area.populated);
	bed_write(&b, 10, 5, 1);
	bed_scan(&b);
	ATF_CHECK_EQ(5, b.area.written);
	for (size_t i = 100; i < 3000; i++)
		ATF_REQUIRE_EQ(0, entry(&b, i) & (UAPI_PM_UFFD_WP | UAPI_PM_SWAP));
	ATF_CHECK_EQ(150, b.area.end / PAGE - b.area.start / PAGE - b.area.candidates + 5);
}

CASE(zero__pages_are_not_data, "Pages only read are no data: neither reported nor armed")
{
	static struct bed b;
	volatile char c;

	bed_make(&b, 64);
	bed_arm(&b);
	for (size_t i = 0; i < 64; i++)
		c = ((volatile char *)b.p)[i * PAGE];
	(void)c;
	bed_scan(&b);
	ATF_CHECK_EQ(0, b.runs.n);
	for (size_t i = 0; i < 64; i++)
		ATF_CHECK(!(entry(&b, i) & UAPI_PM_UFFD_WP));
}

CASE(gap__merging_changes_nothing, "Near candidates are scanned in one call, with the same result")
{
	static struct bed b;

	bed_make(&b, 4096);
	bed_write(&b, 0, 4096, 1);
	bed_arm(&b);
	bed_write(&b, 0, 128, 32);
	bed_scan(&b);
	ATF_CHECK_EQ(128, b.runs.n);
	ATF_CHECK_EQ(1, b.area.n_groups);
	b.scan.gap_pages = 0;
	bed_write(&b, 0, 128, 32);
	bed_scan(&b);
	ATF_CHECK_EQ(128, b.runs.n);
	ATF_CHECK_EQ(128, b.area.n_groups);
	ATF_CHECK_EQ(128, b.area.walked);
}

CASE(span__splits_at_borders,
     "Over two areas that touch, runs and counts are split where they meet")
{
	static struct bed b;
	struct area halves[2];
	uint64_t pos;

	bed_make(&b, 128);
	bed_write(&b, 0, 128, 1);
	bed_arm(&b);
	halves[0] = halves[1] = b.area;
	halves[0].end = halves[1].start = b.area.start + 64 * PAGE;
	bed_write(&b, 60, 8, 1);
	pos = b.area.start;
	ATF_REQUIRE_EQ(0, scan_span(&b.scan, halves, 2, &pos, &b.runs));
	ATF_REQUIRE_EQ(2, b.runs.n);
	ATF_CHECK_EQ(4, b.runs.v[0].n_pages);
	ATF_CHECK_EQ(4, b.runs.v[1].n_pages);
	ATF_CHECK_EQ(4, halves[0].written);
	ATF_CHECK_EQ(4, halves[1].written);
	ATF_CHECK_EQ(4, halves[0].candidates);
}

CASE(filter__without_rearming, "The filter may read without arming: the same is read again")
{
	static struct bed b;
	uint64_t n = 0, pos;

	bed_make(&b, 64);
	bed_write(&b, 0, 64, 1);
	bed_arm(&b);
	bed_write(&b, 3, 7, 1);
	for (int i = 0; i < 2; i++) {
		pos = b.area.start;
		n = 0;
		ATF_REQUIRE_EQ(0, scan_filter(&b.scan, SCAN_WRITTEN, false, &pos, b.area.end,
					      &b.runs, &n));
		ATF_CHECK_EQ(7, n);
	}
	ATF_CHECK_EQ(64, scan_count(&b.scan, SCAN_POPULATED, b.area.start, b.area.end));
}

CASE(baseline__small_vector, "The first arming goes on behind a full vector too")
{
	static struct bed b;

	bed_make(&b, 256);
	bed_write(&b, 0, 128, 2);
	b.scan.vec_len = 3;
	bed_arm(&b);
	ATF_CHECK_EQ(128, b.area.populated);
	for (size_t i = 0; i < 256; i += 2)
		ATF_CHECK(entry(&b, i) & UAPI_PM_UFFD_WP);
}

CASE(count__more_runs_than_the_kernel_collects,
     "600 and 1,500 runs are counted once each: walk_end is that of the whole walk")
{
	static const size_t n_runs[] = { 511, 512, 513, 600, 1500 };
	static struct bed b;

	bed_make(&b, 4096);
	bed_write(&b, 0, 4096, 1);
	bed_arm(&b);
	for (size_t i = 0; i < sizeof(n_runs) / sizeof(*n_runs); i++) {
		bed_write(&b, 0, n_runs[i], 2);
		ATF_CHECK_EQ((int64_t)n_runs[i],
			     scan_count(&b.scan, SCAN_WRITTEN, b.area.start, b.area.end));
		bed_scan(&b);
		ATF_CHECK_EQ(n_runs[i], b.runs.n);
	}
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, span__unregistered_fails);
	ATF_TP_ADD_TC(tp, registered__tells);
	ATF_TP_ADD_TC(tp, verify__unarmed_is_an_error);
	ATF_TP_ADD_TC(tp, verify__up_to_the_last_vma);
	ATF_TP_ADD_TC(tp, count__bad_range);
	ATF_TP_ADD_TC(tp, vector__four_regions);
	ATF_TP_ADD_TC(tp, runs__full_in_the_middle);
	ATF_TP_ADD_TC(tp, holes__stay_unarmed);
	ATF_TP_ADD_TC(tp, zero__pages_are_not_data);
	ATF_TP_ADD_TC(tp, gap__merging_changes_nothing);
	ATF_TP_ADD_TC(tp, span__splits_at_borders);
	ATF_TP_ADD_TC(tp, filter__without_rearming);
	ATF_TP_ADD_TC(tp, baseline__small_vector);
	ATF_TP_ADD_TC(tp, count__more_runs_than_the_kernel_collects);
	return atf_no_error();
}
