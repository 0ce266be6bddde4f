/* What a session costs its owner: descriptors, calls, counts of pages. */
#include <dirent.h>

#include "kid.h"

static int n_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	ATF_REQUIRE(dir != NULL);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

CASE(descriptors__constant, "Intervals open no descriptor, and closing leaves none behind")
{
	struct kid k;
	int before, during;

	kid_start(&k);
	before = n_descriptors();
	kid_profile(&k, NULL);
	kid_sample(&k);
	during = n_descriptors();
	/* a pidfd, the mappings and the pages; the userfaultfd was there before */
	ATF_CHECK_EQ(before + 3, during);
	for (int i = 0; i < 30; i++)
		kid_sample(&k);
	ATF_CHECK_EQ(during, n_descriptors());
	wprof_close(k.w);
	k.w = NULL;
	ATF_CHECK_EQ(before - 1, n_descriptors());
	kid_end(&k);
}

CASE(scans__few_when_nothing_is_written, "Neighbouring memory that is clean takes a call in common")
{
	struct kid k;
	uint64_t before;
	long p = 0x20000000;

	kid_start(&k);
	kid_profile(&k, NULL);
	kid_sample(&k);
	kid_sample(&k);
	before = k.iv->cost.n_scans;
	kid_mmap_at(&k, p, 2000 * PAGE, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	for (long i = 1; i < 2000; i += 2)
		ATF_REQUIRE_EQ(0,
			       kid_call(&k, mprotect, p + i * (long)PAGE, (long)PAGE, PROT_NONE));
	kid_sample(&k);
	kid_sample(&k);
	ATF_CHECK_MSG(k.iv->cost.n_scans < before + 20, "%lu calls, %lu before",
		      (unsigned long)k.iv->cost.n_scans, (unsigned long)before);
	kid_end(&k);
}

static void populated(bool holes_written)
{
	struct kid k;
	long p = 0x20000000;

	kid_start(&k);
	kid_mmap_at(&k, p, 64 * MIB, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_call(&k, madvise, p, 64 * (long)MIB, MADV_NOHUGEPAGE);
	kid_write(&k, p, 1000);
	kid_profile(&k, NULL);
	k.w->track.holes_written &= holes_written;
	kid_sample(&k);
	ATF_CHECK_EQ(1000, kid_vma(&k, p)->populated_pages);
	kid_write(&k, p + 5000 * (long)PAGE, 200);
	ATF_REQUIRE_EQ(0, kid_call(&k, madvise, p, 300 * (long)PAGE, MADV_DONTNEED));
	for (int i = 0; i < 10; i++) {
		kid_write(&k, p + 5000 * (long)PAGE, 1);
		kid_sample(&k);
	}
	ATF_CHECK_EQ(900, kid_vma(&k, p)->populated_pages);
	kid_end(&k);
}

CASE(populated__told_by_the_scan, "Populated pages follow from the scan, where the kernel tells")
{
	populated(true);
}

CASE(populated__counted_now_and_then, "Otherwise they are counted, at most ten intervals ago")
{
	populated(false);
}

CASE(cost__is_reported, "An interval says what it took, and how many faults it may have caused")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	kid_profile(&k, NULL);
	kid_sample(&k);
	kid_write(&k, p, 40);
	kid_sample(&k);
	ATF_CHECK(k.iv->cost.scan_ns > 0 && k.iv->cost.scan_ns <= k.iv->cost.total_ns);
	ATF_CHECK(k.iv->cost.n_scans > 0);
	ATF_CHECK(k.iv->cost.faults >= 40 && k.iv->cost.faults <= k.iv->written_pages);
	ATF_CHECK(k.iv->armed_pages >= 64);
	ATF_CHECK_EQ(2, k.iv->number);
	ATF_CHECK(k.iv->length_ns > 0);
	kid_end(&k);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, descriptors__constant);
	ATF_TP_ADD_TC(tp, scans__few_when_nothing_is_written);
	ATF_TP_ADD_TC(tp, populated__told_by_the_scan);
	ATF_TP_ADD_TC(tp, populated__counted_now_and_then);
	ATF_TP_ADD_TC(tp, cost__is_reported);
	return atf_no_error();
}
