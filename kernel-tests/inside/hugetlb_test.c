/*
 * Memory of MAP_HUGETLB: a huge page is armed and written as a whole, and one that is
 * read for the first time is a new page, as there is no huge page of zeroes. Needs huge
 * pages set aside, which a boot of kernel-tests/boots has by vm.nr_hugepages.
 */
#include "../../libwprof/tests/kid.h"

#define AT     0x200000000L
#define HUGE   (2 * MIB)
#define N_HUGE 8L
#define PER    ((long)(HUGE / PAGE))

static void start(struct kid *k, const struct wprof_opts *opts)
{
	kid_start(k);
	kid_mmap_at(k, AT, N_HUGE * HUGE, PROT_READ | PROT_WRITE,
		    KID_ANON | MAP_FIXED | MAP_HUGETLB);
	kid_pages(k, KID_WRITE, AT, N_HUGE / 2, PER);
	kid_profile(k, opts);
}

/* Huge pages of the next interval */
static long written(struct kid *k)
{
	uint64_t n;

	kid_sample(k);
	kid_invariants(k);
	n = kid_written(k, AT, N_HUGE * HUGE);
	ATF_CHECK_EQ(0, n % (uint64_t)PER);
	return (long)n / PER;
}

CASE_WITHIN("60", written__as_a_whole, "A write is found with the huge page it is in, once")
{
	struct kid k;

	(void)tc;
	start(&k, NULL);
	ATF_CHECK_EQ(0, written(&k));
	kid_pages(&k, KID_WRITE, AT + PAGES(5), 2, PER);
	ATF_CHECK_EQ(2, written(&k));
	kid_pages(&k, KID_READ, AT, N_HUGE / 2, PER);
	ATF_CHECK_EQ(0, written(&k));
	kid_pages(&k, KID_READ, AT, N_HUGE, PER);
	ATF_CHECK_EQ(N_HUGE / 2, written(&k));
	kid_write(&k, AT, N_HUGE * PER);
	ATF_CHECK_EQ(N_HUGE, written(&k));
	ATF_CHECK_EQ(0, written(&k));
	ATF_CHECK_EQ(WPROF_ANONYMOUS, kid_vma(&k, AT)->type);
	ATF_CHECK_EQ((uint64_t)(N_HUGE * PER), kid_vma(&k, AT)->populated_pages);
	kid_end(&k);
}

CASE_WITHIN("60", sampled__stays_exact, "With sampled arming hot huge pages are counted each time")
{
	static const struct wprof_opts sampled = {
		.size = sizeof(sampled),
		.arming = WPROF_SAMPLE,
		.granularity_bytes = WPROF_CHUNK,
	};
	struct kid k;

	(void)tc;
	start(&k, &sampled);
	for (int i = 0; i < 40; i++) {
		kid_write(&k, AT, N_HUGE * PER);
		ATF_CHECK_EQ(N_HUGE, written(&k));
		for (size_t j = 0; j < k.iv->n_unmeasured; j++)
			ATF_CHECK(k.iv->unmeasured[j].start < AT ||
				  k.iv->unmeasured[j].start >= AT + N_HUGE * HUGE);
	}
	ATF_CHECK_EQ(0, written(&k));
	kid_end(&k);
}

CASE_WITHIN("60", unmapped__and_mapped_anew, "Huge pages mapped where others were are new")
{
	struct kid k;

	(void)tc;
	start(&k, NULL);
	ATF_CHECK_EQ(0, written(&k));
	ATF_REQUIRE_EQ(0, kid_call(&k, munmap, AT, N_HUGE * (long)HUGE));
	kid_mmap_at(&k, AT, N_HUGE * HUGE, PROT_READ | PROT_WRITE,
		    KID_ANON | MAP_FIXED | MAP_HUGETLB);
	kid_pages(&k, KID_WRITE, AT, 3, PER);
	ATF_CHECK_EQ(3, written(&k));
	kid_pages(&k, KID_WRITE, AT, 1, PER);
	ATF_CHECK_EQ(1, written(&k));
	ATF_REQUIRE_EQ(0, wprof_pause(k.w));
	kid_write(&k, AT, N_HUGE * PER);
	kid_end(&k);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, written__as_a_whole);
	ATF_TP_ADD_TC(tp, sampled__stays_exact);
	ATF_TP_ADD_TC(tp, unmapped__and_mapped_anew);
	return atf_no_error();
}
