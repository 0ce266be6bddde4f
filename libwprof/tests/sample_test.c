/*
 * Sampled arming: what it saves, and how far its estimates are from the truth.
 * The target writes between the intervals only, so the truth is known.
 */
#include "kid.h"

#define HOT	  0x200000000000L
#define HOT_LEN	  (32 * 2 * MIB)
#define HOT_PAGES ((long)(HOT_LEN / PAGE))

static const struct wprof_opts sampled = {
	.size = sizeof(struct wprof_opts),
	.arming = WPROF_SAMPLE,
	.granularity_bytes = WPROF_CHUNK,
};

static void map_hot(const struct kid *k)
{
	kid_mmap_at(k, HOT, HOT_LEN, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_call(k, madvise, HOT, (long)HOT_LEN, MADV_NOHUGEPAGE);
	kid_write(k, HOT, HOT_PAGES);
}

/* n intervals in which every stride-th page is written */
static void intervals(struct kid *k, int n, long stride)
{
	for (int i = 0; i < n; i++) {
		kid_pages(k, KID_WRITE, HOT, HOT_PAGES / stride, stride);
		kid_sample(k);
		kid_invariants(k);
	}
}

static void start_hot(struct kid *k)
{
	kid_start(k);
	map_hot(k);
	kid_profile(k, &sampled);
	intervals(k, 4, 1);
}

static size_t n_hot(const struct kid *k, long start, size_t len)
{
	const struct wprof_region *r;
	size_t n, hot = 0;

	ATF_REQUIRE_EQ(0, wprof_hot(k->w, &r, &n));
	for (size_t i = 0; i < n; i++)
		hot += r[i].start < (uint64_t)start + len && r[i].end > (uint64_t)start;
	return hot;
}

static long armed_pages(const struct kid *k)
{
	static uint64_t entries[HOT_LEN / PAGE];
	char path[48];
	long n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)k->pid);
	fd = open(path, O_RDONLY);
	ATF_REQUIRE(fd >= 0);
	ATF_REQUIRE_EQ((ssize_t)sizeof(entries),
		       pread(fd, entries, sizeof(entries), HOT / (long)PAGE * 8));
	close(fd);
	for (size_t i = 0; i < HOT_LEN / PAGE; i++)
		n += !!(entries[i] & UAPI_PM_UFFD_WP);
	return n;
}

CASE_WITHIN("60", unmapped__hot_memory_that_goes,
	    "Hot memory that is unmapped is estimated no more")
{
	struct kid k;

	start_hot(&k);
	ATF_CHECK_EQ(1, n_hot(&k, HOT, HOT_LEN));
	ATF_REQUIRE_EQ(0, kid_call(&k, munmap, HOT, (long)HOT_LEN));
	kid_sample(&k);
	ATF_CHECK(kid_vma(&k, HOT) == NULL);
	ATF_CHECK_EQ(0, n_hot(&k, HOT, HOT_LEN));
	ATF_CHECK(k.iv->written_pages < 100);
	kid_end(&k);
}

CASE_WITHIN("60", unmapped__mapped_anew_later,
	    "What is mapped where hot memory was, intervals later, is read exactly")
{
	struct kid k;

	start_hot(&k);
	intervals(&k, 2, 1); /* some of it is not armed now */
	ATF_REQUIRE_EQ(0, kid_call(&k, munmap, HOT, (long)HOT_LEN));
	for (int i = 0; i < 3; i++) {
		kid_sample(&k);
		ATF_CHECK(k.iv->cost.faults <= k.iv->written_pages);
	}
	kid_mmap_at(&k, HOT, HOT_LEN, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_call(&k, madvise, HOT, (long)HOT_LEN, MADV_NOHUGEPAGE);
	kid_write(&k, HOT, 700);
	kid_sample(&k);
	ATF_CHECK_EQ(700, kid_written(&k, HOT, HOT_LEN));
	ATF_CHECK_EQ(700, kid_vma(&k, HOT)->written_pages);
	ATF_CHECK(k.iv->cost.faults <= k.iv->written_pages);
	ATF_CHECK_EQ(0, n_hot(&k, HOT, HOT_LEN));
	kid_write(&k, HOT, 300);
	kid_sample(&k);
	ATF_CHECK_EQ(300, kid_vma(&k, HOT)->written_pages);
	kid_end(&k);
}

CASE_WITHIN("60", replaced__hot_memory_mapped_anew,
	    "Hot memory replaced by other memory is read exactly")
{
	struct kid k;

	start_hot(&k);
	ATF_REQUIRE_EQ(0, kid_call(&k, munmap, HOT, (long)HOT_LEN));
	kid_mmap_at(&k, HOT, HOT_LEN, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_call(&k, madvise, HOT, (long)HOT_LEN, MADV_NOHUGEPAGE);
	kid_write(&k, HOT, 700);
	kid_sample(&k);
	ATF_CHECK_EQ(700, kid_written(&k, HOT, HOT_LEN));
	ATF_CHECK_EQ(700, kid_vma(&k, HOT)->written_pages);
	ATF_CHECK_EQ(0, n_hot(&k, HOT, HOT_LEN));
	kid_end(&k);
}

CASE_WITHIN("60", exact__never_estimates,
	    "With exact arming the same memory is armed as a whole each time")
{
	struct wprof_opts exact = sampled;
	struct kid k;

	exact.arming = WPROF_EXACT;
	kid_start(&k);
	map_hot(&k);
	kid_profile(&k, &exact);
	for (int i = 0; i < 6; i++) {
		intervals(&k, 1, 1);
		ATF_CHECK(!k.iv->estimated);
		ATF_CHECK_EQ(HOT_PAGES, armed_pages(&k));
	}
	kid_end(&k);
}

CASE_WITHIN("60", hot__armed_in_turns,
	    "Of hot memory one unit in sixteen is armed, each in its turn")
{
	struct kid k;

	start_hot(&k);
	ATF_CHECK_EQ(1, n_hot(&k, HOT, HOT_LEN));
	intervals(&k, 1, 1);
	for (int i = 0; i < 16; i++) {
		ATF_CHECK_EQ(HOT_PAGES / 16, armed_pages(&k));
		ATF_CHECK(k.iv->estimated);
		intervals(&k, 1, 1);
		ATF_CHECK_EQ(HOT_PAGES / 16, kid_written(&k, HOT, HOT_LEN));
		ATF_CHECK(k.iv->armed_pages < (uint64_t)HOT_PAGES / 4);
		ATF_CHECK(k.iv->cost.faults < (uint64_t)HOT_PAGES / 4);
	}
	kid_end(&k);
}

/* pages of HOT that the last interval says were not measured */
static uint64_t unmeasured(const struct kid *k)
{
	uint64_t n = 0, last = 0;

	for (size_t i = 0; i < k->iv->n_unmeasured; i++) {
		const struct wprof_run *r = &k->iv->unmeasured[i];

		ATF_CHECK(r->n_pages && (!i || r->start > last));
		last = r->start + r->n_pages * PAGE;
		if (r->start >= HOT && last <= HOT + HOT_LEN)
			n += r->n_pages;
	}
	return n;
}

CASE_WITHIN("60", hot__unmeasured_is_told,
	    "Memory that was not armed is told, so that nobody takes it for not written")
{
	struct kid k;

	start_hot(&k);
	ATF_CHECK_EQ(0, k.iv->n_unmeasured);
	intervals(&k, 1, 1);
	for (int i = 0; i < 16; i++) {
		intervals(&k, 1, 2);
		ATF_CHECK_EQ(HOT_PAGES / 16 * 15, unmeasured(&k));
		ATF_CHECK_EQ(HOT_PAGES / 32, kid_written(&k, HOT, HOT_LEN));
	}
	kid_end(&k);
}

CASE_WITHIN("60", hot__steady_writes_are_exact,
	    "Where as much is written each time the estimate is the truth")
{
	struct kid k;

	start_hot(&k);
	for (int i = 0; i < 20; i++) {
		intervals(&k, 1, 2);
		if (i >= 17)
			ATF_CHECK_EQ((uint64_t)HOT_PAGES / 2, kid_vma(&k, HOT)->written_pages);
	}
	ATF_CHECK_EQ(1, n_hot(&k, HOT, HOT_LEN));
	kid_end(&k);
}

CASE_WITHIN("60", cold__exact_beside_hot, "What is not hot is counted page for page beside what is")
{
	struct kid k;
	long p = HOT + (long)HOT_LEN;

	kid_start(&k);
	kid_mmap_at(&k, p, HOT_LEN, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_call(&k, madvise, p, (long)HOT_LEN, MADV_NOHUGEPAGE);
	kid_write(&k, p, HOT_PAGES);
	map_hot(&k);
	kid_profile(&k, &sampled);
	intervals(&k, 5, 1);
	for (int i = 1; i < 20; i++) {
		kid_pages(&k, KID_WRITE, p, i, 7);
		intervals(&k, 1, 1);
		ATF_CHECK_EQ((uint64_t)i, kid_written(&k, p, HOT_LEN));
	}
	kid_end(&k);
}

CASE_WITHIN("60", cooled__noticed_and_exact_again,
	    "Memory that is hot no more is noticed in sixteen intervals")
{
	struct kid k;

	start_hot(&k);
	intervals(&k, 2, 1);
	for (int i = 0; i < 18; i++)
		kid_sample(&k);
	ATF_CHECK_EQ(0, n_hot(&k, HOT, HOT_LEN));
	kid_sample(&k);
	ATF_CHECK_EQ(HOT_PAGES, armed_pages(&k));
	kid_write(&k, HOT + 3 * (long)PAGE, 5);
	kid_sample(&k);
	ATF_CHECK_EQ(5, kid_written(&k, HOT, HOT_LEN));
	ATF_CHECK_EQ(5, kid_vma(&k, HOT)->written_pages);
	kid_end(&k);
}

CASE_WITHIN("60", pause__all_armed_after_resume,
	    "After a pause everything is armed, and becomes sampled again")
{
	struct kid k;

	start_hot(&k);
	intervals(&k, 2, 1);
	ATF_REQUIRE_EQ(0, wprof_pause(k.w));
	ATF_REQUIRE_EQ(0, wprof_resume(k.w));
	ATF_CHECK_EQ(HOT_PAGES, armed_pages(&k));
	intervals(&k, 1, 1);
	ATF_CHECK_EQ((uint64_t)HOT_PAGES, kid_written(&k, HOT, HOT_LEN));
	ATF_CHECK_EQ(1, n_hot(&k, HOT, HOT_LEN));
	intervals(&k, 2, 1);
	ATF_CHECK_EQ(HOT_PAGES / 16, armed_pages(&k));
	kid_end(&k);
}

CASE_WITHIN("60", split__hot_memory_with_borders,
	    "Hot memory cut into many VMAs is estimated as a whole")
{
	struct kid k;

	start_hot(&k);
	for (long i = 0; i < 400; i++)
		ATF_REQUIRE_EQ(0, kid_call(&k, mprotect, HOT + 2 * i * (long)PAGE, (long)PAGE,
					   PROT_READ | PROT_WRITE | PROT_EXEC));
	for (int i = 0; i < 20; i++)
		intervals(&k, 1, 1);
	ATF_CHECK(k.iv->written_pages >= (uint64_t)HOT_PAGES);
	ATF_CHECK(k.iv->written_pages < (uint64_t)HOT_PAGES + 1000);
	kid_end(&k);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, unmapped__hot_memory_that_goes);
	ATF_TP_ADD_TC(tp, unmapped__mapped_anew_later);
	ATF_TP_ADD_TC(tp, replaced__hot_memory_mapped_anew);
	ATF_TP_ADD_TC(tp, exact__never_estimates);
	ATF_TP_ADD_TC(tp, hot__armed_in_turns);
	ATF_TP_ADD_TC(tp, hot__unmeasured_is_told);
	ATF_TP_ADD_TC(tp, hot__steady_writes_are_exact);
	ATF_TP_ADD_TC(tp, cold__exact_beside_hot);
	ATF_TP_ADD_TC(tp, cooled__noticed_and_exact_again);
	ATF_TP_ADD_TC(tp, pause__all_armed_after_resume);
	ATF_TP_ADD_TC(tp, split__hot_memory_with_borders);
	return atf_no_error();
}
