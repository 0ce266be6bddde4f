/* Soft-dirty read beside, and huge pages given back. */
#include "kid.h"

static bool soft_dirty_here(void)
{
	struct wprof_fact facts[40];
	size_t n = sizeof(facts) / sizeof(*facts);

	ATF_REQUIRE_EQ(0, wprof_check(0, facts, &n));
	for (size_t i = 0; i < n; i++)
		if (!strcmp(facts[i].name, "soft_dirty"))
			return facts[i].state == 1;
	return false;
}

/* Where the kernel has none, the refusal and its reason are what is tested. */
static bool profile_soft(struct kid *k, uint32_t flags)
{
	struct wprof_opts o = { .size = sizeof(o), .flags = flags };
	struct wprof_why why = { 0 };
	int rc;

	if (soft_dirty_here()) {
		kid_profile(k, &o);
		return true;
	}
	rc = profile_attach(k->pid, k->uffd, &o, &k->w, &why);
	ATF_CHECK_EQ(-EOPNOTSUPP, rc);
	ATF_CHECK_EQ(WPROF_NO_KERNEL, why.reason);
	ATF_CHECK_MSG(strstr(why.text, "CONFIG_MEM_SOFT_DIRTY") != NULL, "%s", why.text);
	k->w = NULL;
	return false;
}

static uint64_t soft_pages(const struct kid *k, long start, size_t len)
{
	uint64_t n = 0;

	for (size_t i = 0; i < k->iv->n_soft_dirty_runs; i++)
		for (uint64_t p = 0; p < k->iv->soft_dirty_runs[i].n_pages; p++) {
			uint64_t at = k->iv->soft_dirty_runs[i].start + p * PAGE;

			n += at >= (uint64_t)start && at < (uint64_t)start + len;
		}
	return n;
}

CASE(soft_dirty__read_not_cleared, "Soft-dirty pages are told beside, and stay so: CRIU needs them")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 20);
	if (profile_soft(&k, WPROF_F_SOFT_DIRTY)) {
		for (int i = 0; i < 3; i++) {
			kid_sample(&k);
			ATF_CHECK_EQ(0, kid_written(&k, p, 64 * PAGE));
			ATF_CHECK_EQ(20, soft_pages(&k, p, 64 * PAGE));
			ATF_CHECK(k.iv->soft_dirty_pages >= 20);
		}
	}
	kid_end(&k);
}

CASE(soft_dirty__cleared_on_request, "With the flag to clear it both bits tell the same")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	if (profile_soft(&k, WPROF_F_SOFT_DIRTY | WPROF_F_CLEAR_SOFT_DIRTY)) {
		kid_sample(&k);
		for (int i = 1; i < 5; i++) {
			kid_write(&k, p + i * (long)PAGE, i);
			kid_sample(&k);
			ATF_CHECK_EQ((uint64_t)i, kid_written(&k, p, 64 * PAGE));
			ATF_CHECK_EQ((uint64_t)i, soft_pages(&k, p, 64 * PAGE));
		}
	}
	kid_end(&k);
}

CASE(soft_dirty__none_without_the_flag, "Without the flag nothing of it is reported")
{
	struct kid k;

	kid_start(&k);
	kid_profile(&k, NULL);
	kid_sample(&k);
	ATF_CHECK_EQ(0, k.iv->n_soft_dirty_runs);
	ATF_CHECK_EQ(0, k.iv->soft_dirty_pages);
	kid_end(&k);
}

/* kB of huge pages in the VMA that starts at p */
static long huge_kb(const struct kid *k, long p)
{
	char line[256], head[32];
	bool here = false;
	long kb = -1;
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/smaps", (int)k->pid);
	snprintf(head, sizeof(head), "%lx-", p);
	f = fopen(line, "r");
	ATF_REQUIRE(f != NULL);
	while (kb < 0 && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, head, strlen(head)))
			here = true;
		if (here && sscanf(line, "AnonHugePages: %ld", &kb) != 1)
			kb = -1;
	}
	fclose(f);
	return kb;
}

/*
 * kB of huge pages at three moments: all written, split by writes while armed,
 * and closed. How many there are at first is the kernel's choice: where huge
 * pages are off, or none is free, it gives small ones.
 */
struct huge_kbs {
	long whole, split, closed;
};

static struct huge_kbs split_and_close(uint32_t flags)
{
	struct wprof_opts o = { .size = sizeof(o), .flags = flags };
	struct huge_kbs kb;
	struct kid k;
	long p = 0x280000000000L;

	kid_start(&k);
	kid_mmap_at(&k, p, 8 * MIB, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	ATF_REQUIRE_EQ(0, kid_call(&k, madvise, p, 8 * (long)MIB, MADV_HUGEPAGE));
	kid_write(&k, p, 1024);
	kid_profile(&k, &o);
	kid_write(&k, p + 1024 * (long)PAGE, 1024); /* two more, made while profiled */
	kb.whole = huge_kb(&k, p);
	kid_sample(&k);
	kid_pages(&k, KID_WRITE, p, 4, 512);
	kid_sample(&k);
	ATF_CHECK_EQ(4, kid_written(&k, p, 8 * MIB));
	kb.split = huge_kb(&k, p);
	wprof_close(k.w);
	k.w = NULL;
	kb.closed = huge_kb(&k, p);
	kid_end(&k);
	printf("huge: whole %ld kB, split %ld kB, closed %ld kB\n", kb.whole, kb.split, kb.closed);
	return kb;
}

CASE(collapse__not_unless_asked, "Huge pages that were split stay so when nobody asked")
{
	struct huge_kbs kb = split_and_close(0);

	ATF_CHECK_EQ(0, kb.split);
	if (kb.whole)
		ATF_CHECK_MSG(kb.closed < kb.whole, "%ld kB again", kb.closed);
}

CASE(collapse__given_back, "Huge pages split by profiling are whole again after closing")
{
	struct huge_kbs kb = split_and_close(WPROF_F_COLLAPSE);

	ATF_CHECK_EQ(0, kb.split);
	/* khugepaged may have made more of small ones by now */
	ATF_CHECK_MSG(kb.closed >= kb.whole, "%ld of %ld kB", kb.closed, kb.whole);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, soft_dirty__none_without_the_flag);
	ATF_TP_ADD_TC(tp, soft_dirty__read_not_cleared);
	ATF_TP_ADD_TC(tp, soft_dirty__cleared_on_request);
	ATF_TP_ADD_TC(tp, collapse__not_unless_asked);
	ATF_TP_ADD_TC(tp, collapse__given_back);
	return atf_no_error();
}
