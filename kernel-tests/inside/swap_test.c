/*
 * Memory that is swapped out: the write protection stays in the swap entry, so what
 * was written is known as before. Needs swap space, which the boots of
 * kernel-tests/boots with --swap have.
 */
#include "../../libwprof/tests/kid.h"

#define AT	0x200000000L
#define LEN	(2 * MIB)
#define N_PAGES ((long)(LEN / PAGE))

static long swapped_pages(const struct kid *k)
{
	static uint64_t entries[LEN / PAGE];
	char path[48];
	long n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)k->pid);
	fd = open(path, O_RDONLY);
	ATF_REQUIRE_EQ((ssize_t)sizeof(entries),
		       pread(fd, entries, sizeof(entries), AT / (long)PAGE * 8));
	close(fd);
	for (long i = 0; i < N_PAGES; i++)
		n += entries[i] >> 62 & 1;
	return n;
}

/* swap_out() - all of it; the kernel may pass over pages that it just looked at */
static void swap_out(const struct kid *k)
{
	for (int i = 0; i < 50 && swapped_pages(k) < N_PAGES; i++)
		ATF_REQUIRE_EQ(0, kid_call(k, madvise, AT, (long)LEN, MADV_PAGEOUT));
	ATF_REQUIRE_EQ_MSG(N_PAGES, swapped_pages(k), "%ld pages swapped", swapped_pages(k));
}

static uint64_t written(struct kid *k)
{
	kid_sample(k);
	kid_invariants(k);
	return kid_written(k, AT, LEN);
}

/* start() - memory that is armed, populated and clean */
static void start(struct kid *k)
{
	kid_start(k);
	kid_mmap_at(k, AT, LEN, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_call(k, madvise, AT, (long)LEN, MADV_NOHUGEPAGE);
	kid_write(k, AT, N_PAGES);
	kid_profile(k, NULL);
	ATF_REQUIRE_EQ(0, written(k));
}

CASE_WITHIN("60", swap__is_no_write, "Pages that are swapped out and read back in were not written")
{
	struct kid k;

	(void)tc;
	start(&k);
	swap_out(&k);
	ATF_CHECK_EQ(0, written(&k));
	kid_pages(&k, KID_READ, AT, N_PAGES, 1);
	ATF_CHECK_EQ(0, swapped_pages(&k));
	ATF_CHECK_EQ(0, written(&k));
	kid_end(&k);
}

CASE_WITHIN("60", swap__armed_pages_stay_armed, "Exactly the writes to swapped pages are seen")
{
	struct kid k;

	(void)tc;
	start(&k);
	swap_out(&k);
	kid_pages(&k, KID_WRITE, AT, 10, 7);
	ATF_CHECK_EQ(10, written(&k));
	kid_write(&k, AT, N_PAGES);
	ATF_CHECK_EQ((uint64_t)N_PAGES, written(&k));
	ATF_CHECK_EQ(0, written(&k));
	kid_end(&k);
}

CASE_WITHIN("60", swap__written_pages_stay_written, "What is written and then swapped out is seen")
{
	struct kid k;

	(void)tc;
	start(&k);
	kid_pages(&k, KID_WRITE, AT, 10, 7);
	swap_out(&k);
	ATF_CHECK_EQ(10, written(&k));
	/* armed by that scan as swap entries: clean until the next write */
	ATF_CHECK_EQ(0, written(&k));
	kid_pages(&k, KID_WRITE, AT, 3, 7);
	ATF_CHECK_EQ(3, written(&k));
	kid_end(&k);
}

CASE_WITHIN("60", swap__new_session, "A session that begins while all is swapped out arms it")
{
	struct kid k;

	(void)tc;
	kid_start(&k);
	kid_mmap_at(&k, AT, LEN, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_call(&k, madvise, AT, (long)LEN, MADV_NOHUGEPAGE);
	kid_write(&k, AT, N_PAGES);
	swap_out(&k);
	kid_profile(&k, NULL);
	ATF_CHECK_EQ(0, written(&k));
	kid_write(&k, AT, 5);
	ATF_CHECK_EQ(5, written(&k));
	kid_end(&k);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, swap__is_no_write);
	ATF_TP_ADD_TC(tp, swap__armed_pages_stay_armed);
	ATF_TP_ADD_TC(tp, swap__written_pages_stay_written);
	ATF_TP_ADD_TC(tp, swap__new_session);
	return atf_no_error();
}
