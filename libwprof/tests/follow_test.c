/*
 * Following the memory of a process: each event that changes its mappings, one
 * case each. The target acts only between two intervals, so every count is
 * exact; writers that race the scan are exact_test's.
 */

#include <pthread.h>

#include "kid.h"

#define CASE(name, text)                                \
	ATF_TC(name);                                   \
	ATF_TC_HEAD(name, tc)                           \
	{                                               \
		atf_tc_set_md_var(tc, "descr", text);   \
		atf_tc_set_md_var(tc, "timeout", "60"); \
	}                                               \
	ATF_TC_BODY(name, tc)

/* Bits of the target's pagemap entry */
static uint64_t pagemap_entry(const struct kid *k, long addr)
{
	char path[48];
	uint64_t entry = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)k->pid);
	fd = open(path, O_RDONLY);
	ATF_REQUIRE(fd >= 0);
	ATF_REQUIRE_EQ((ssize_t)sizeof(entry),
		       pread(fd, &entry, sizeof(entry), addr / (long)PAGE * 8));
	close(fd);
	return entry;
}

#define ENTRY_MARKED (UAPI_PM_UFFD_WP | UAPI_PM_SWAP)

CASE(written__each_page_once, "A written page is reported in its interval and in no other")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	kid_profile(&k, NULL);
	kid_sample(&k);
	ATF_CHECK_EQ(0, kid_written(&k, p, 64 * PAGE));
	kid_pages(&k, KID_WRITE, p, 16, 4);
	kid_sample(&k);
	kid_invariants(&k);
	ATF_CHECK_EQ(16, kid_written(&k, p, 64 * PAGE));
	kid_sample(&k);
	ATF_CHECK_EQ(0, kid_written(&k, p, 64 * PAGE));
	kid_end(&k);
}

CASE(read__is_no_write, "Pages that are read, mapped or not, are not reported")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 32);
	kid_profile(&k, NULL);
	kid_pages(&k, KID_READ, p, 64, 1);
	kid_sample(&k);
	ATF_CHECK_EQ(0, kid_written(&k, p, 64 * PAGE));
	kid_end(&k);
}

CASE(untouched__never_armed, "Pages that do not exist are not armed: no marker for CRIU to dump")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * MIB);
	kid_call(&k, madvise, p, 64 * (long)MIB, MADV_NOHUGEPAGE);
	kid_write(&k, p, 256);
	kid_profile(&k, NULL);
	for (int i = 0; i < 4; i++) {
		kid_write(&k, p + 1024 * (long)PAGE, 8);
		kid_sample(&k);
	}
	ATF_CHECK(pagemap_entry(&k, p) & UAPI_PM_UFFD_WP);
	for (long i = 256; i < 64 * (long)MIB / (long)PAGE; i++)
		if (i < 1024 || i >= 1032)
			ATF_REQUIRE_EQ(0, pagemap_entry(&k, p + i * (long)PAGE) & ENTRY_MARKED);
	kid_end(&k);
}

CASE(mmap__new_memory_is_reported, "Memory mapped after the start is found with all written to it")
{
	struct kid k;
	long p;

	kid_start(&k);
	kid_profile(&k, NULL);
	p = kid_mmap(&k, 128 * PAGE);
	kid_write(&k, p, 100);
	kid_sample(&k);
	kid_invariants(&k);
	ATF_CHECK_EQ(100, kid_written(&k, p, 128 * PAGE));
	kid_write(&k, p + 5 * (long)PAGE, 1);
	kid_sample(&k);
	ATF_CHECK_EQ(1, kid_written(&k, p, 128 * PAGE));
	kid_end(&k);
}

CASE(mmap__flags_new_vma, "A VMA is marked new in its first interval and in no later one")
{
	struct kid k;
	long p;

	kid_start(&k);
	kid_mmap_at(&k, 0x10000000, 4 * PAGE, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_profile(&k, NULL);
	p = kid_mmap_at(&k, 0x20000000, 16 * PAGE, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_sample(&k);
	ATF_REQUIRE(kid_vma(&k, p) != NULL);
	ATF_CHECK_EQ(WPROF_VMA_NEW, kid_vma(&k, p)->flags);
	ATF_CHECK_EQ(0, kid_vma(&k, 0x10000000)->flags);
	kid_sample(&k);
	ATF_CHECK_EQ(0, kid_vma(&k, p)->flags);
	kid_end(&k);
}

CASE(munmap__leaves_the_list, "Unmapped memory is gone from the list, its rest is followed")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	kid_profile(&k, NULL);
	kid_write(&k, p, 64);
	ATF_REQUIRE_EQ(0, kid_call(&k, munmap, p + 16 * (long)PAGE, 32 * (long)PAGE));
	kid_sample(&k);
	kid_invariants(&k);
	ATF_CHECK(kid_vma(&k, p + 20 * (long)PAGE) == NULL);
	ATF_CHECK_EQ(32, kid_written(&k, p, 64 * PAGE));
	ATF_CHECK(kid_vma(&k, p)->flags & WPROF_VMA_CHANGED);
	kid_end(&k);
}

CASE(munmap__replaced_memory_is_reported,
     "Memory mapped anew at the same place and size within one interval is not missed")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	kid_profile(&k, NULL);
	for (int i = 0; i < 3; i++) {
		ATF_REQUIRE_EQ(0, kid_call(&k, munmap, p, 64 * (long)PAGE));
		kid_mmap_at(&k, p, 64 * PAGE, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
		kid_write(&k, p, 10);
		kid_sample(&k);
		kid_invariants(&k);
		ATF_CHECK_EQ(10, kid_written(&k, p, 64 * PAGE));
	}
	kid_write(&k, p + 3 * (long)PAGE, 2);
	kid_sample(&k);
	ATF_CHECK_EQ(2, kid_written(&k, p, 64 * PAGE));
	kid_end(&k);
}

CASE(mprotect__read_only_now, "What was written before the memory became read-only is reported")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	kid_profile(&k, NULL);
	kid_write(&k, p + 20 * (long)PAGE, 8);
	ATF_REQUIRE_EQ(0, kid_call(&k, mprotect, p + 16 * (long)PAGE, 32 * (long)PAGE, PROT_READ));
	kid_sample(&k);
	kid_invariants(&k);
	ATF_CHECK_EQ(8, kid_written(&k, p, 64 * PAGE));
	ATF_REQUIRE_EQ(0, kid_call(&k, mprotect, p, 64 * (long)PAGE, PROT_READ | PROT_WRITE));
	kid_write(&k, p + 30 * (long)PAGE, 4);
	kid_sample(&k);
	kid_invariants(&k);
	ATF_CHECK_EQ(4, kid_written(&k, p, 64 * PAGE));
	kid_end(&k);
}

CASE(mprotect__new_and_read_only, "New memory that was written and is read-only by now is reported")
{
	struct kid k;
	long p;

	kid_start(&k);
	kid_profile(&k, NULL);
	p = kid_mmap_at(&k, 0x30000000, 32 * PAGE, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_write(&k, p, 12);
	ATF_REQUIRE_EQ(0, kid_call(&k, mprotect, p, 32 * (long)PAGE, PROT_READ));
	kid_sample(&k);
	ATF_CHECK_EQ(12, kid_written(&k, p, 32 * PAGE));
	kid_end(&k);
}

CASE(mremap__moved, "Moved memory is found at its new place, with all it holds")
{
	struct kid k;
	long p, q;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	q = 0x40000000;
	kid_write(&k, p, 40);
	kid_profile(&k, NULL);
	q = kid_call(&k, mremap, p, 64 * (long)PAGE, 64 * (long)PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		     q);
	ATF_REQUIRE_EQ(0x40000000, q);
	kid_sample(&k);
	kid_invariants(&k);
	ATF_CHECK(kid_vma(&k, p) == NULL);
	ATF_CHECK_EQ(40, kid_written(&k, q, 64 * PAGE));
	kid_write(&k, q + 8 * (long)PAGE, 3);
	kid_sample(&k);
	ATF_CHECK_EQ(3, kid_written(&k, q, 64 * PAGE));
	kid_end(&k);
}

CASE(mremap__grown_in_place, "Memory grown in place keeps what was armed and shows what is new")
{
	struct kid k;
	long p = 0x50000000;

	kid_start(&k);
	kid_mmap_at(&k, p, 32 * PAGE, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_write(&k, p, 32);
	kid_profile(&k, NULL);
	ATF_REQUIRE_EQ(p, kid_call(&k, mremap, p, 32 * (long)PAGE, 64 * (long)PAGE, 0));
	kid_write(&k, p + 30 * (long)PAGE, 8);
	kid_sample(&k);
	kid_invariants(&k);
	ATF_CHECK_EQ(8, kid_written(&k, p, 64 * PAGE));
	ATF_CHECK_EQ(WPROF_VMA_CHANGED, kid_vma(&k, p)->flags);
	ATF_REQUIRE_EQ(p, kid_call(&k, mremap, p, 64 * (long)PAGE, 16 * (long)PAGE, 0));
	kid_write(&k, p, 2);
	kid_sample(&k);
	ATF_CHECK_EQ(2, kid_written(&k, p, 64 * PAGE));
	ATF_CHECK_EQ((uint64_t)p + 16 * PAGE, kid_vma(&k, p)->end);
	kid_end(&k);
}

CASE(mremap__untouched_beside_registered,
     "Untouched memory moved beside other memory takes no write of that one with it")
{
	struct kid k;
	long p = 0x70000000, q = 0x78000000;

	kid_start(&k);
	kid_mmap_at(&k, p, 32 * PAGE, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_mmap_at(&k, q, 32 * PAGE, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_write(&k, p, 32);
	kid_profile(&k, NULL);
	kid_sample(&k);
	ATF_REQUIRE_EQ(p + 32 * (long)PAGE,
		       kid_call(&k, mremap, q, 32 * (long)PAGE, 32 * (long)PAGE,
				MREMAP_MAYMOVE | MREMAP_FIXED, p + 32 * (long)PAGE));
	kid_write(&k, p + 4 * (long)PAGE, 16);
	kid_sample(&k);
	kid_invariants(&k);
	/* the kernel may have lost track of the others: then they count too */
	ATF_CHECK_EQ(16, kid_written(&k, p + 4 * (long)PAGE, 16 * PAGE));
	ATF_CHECK(kid_written(&k, p, 32 * PAGE) == 16 || kid_vma(&k, p)->flags & WPROF_VMA_NEW);
	for (int i = 0; i < 3; i++) {
		kid_write(&k, p + 5 * (long)PAGE, 1);
		kid_sample(&k);
		ATF_CHECK_EQ(1, kid_written(&k, p, 64 * PAGE));
	}
	kid_end(&k);
}

CASE(brk__growth_is_read_first, "A heap that grows is read before it is armed, and stays one VMA")
{
	struct kid k;
	long heap;

	kid_start(&k);
	heap = kid_call(&k, brk, 0);
	ATF_REQUIRE_EQ(heap + 64 * (long)PAGE, kid_call(&k, brk, heap + 64 * (long)PAGE));
	kid_write(&k, heap, 64);
	kid_profile(&k, NULL);
	for (long i = 1; i <= 5; i++) {
		const struct wprof_vma *vma;
		size_t n_heaps = 0;

		kid_call(&k, brk, heap + (64 + 16 * i) * (long)PAGE);
		kid_write(&k, heap + (64 + 16 * (i - 1)) * (long)PAGE, 16);
		kid_sample(&k);
		kid_invariants(&k);
		ATF_CHECK_EQ(16, kid_written(&k, heap, 1024 * PAGE));
		vma = kid_vma(&k, heap);
		ATF_REQUIRE(vma != NULL);
		ATF_CHECK_EQ(WPROF_HEAP, vma->type);
		ATF_CHECK_EQ(WPROF_VMA_CHANGED, vma->flags);
		for (size_t v = 0; v < k.iv->n_vmas; v++)
			n_heaps += k.iv->vmas[v].start >= (uint64_t)heap &&
				   k.iv->vmas[v].type == WPROF_HEAP;
		ATF_CHECK_EQ(1, n_heaps);
	}
	kid_end(&k);
}

CASE(stack__growth, "A stack that grows is followed, its new pages are reported")
{
	struct kid k;
	uint64_t start = 0, grown = 0;

	kid_start(&k);
	kid_profile(&k, NULL);
	kid_sample(&k);
	for (size_t i = 0; i < k.iv->n_vmas; i++)
		if (k.iv->vmas[i].type == WPROF_STACK)
			start = k.iv->vmas[i].start;
	ATF_REQUIRE_EQ(0, kid_order(&k, KID_STACK, 0, 1000));
	kid_sample(&k);
	kid_invariants(&k);
	for (size_t i = 0; i < k.iv->n_vmas; i++)
		if (k.iv->vmas[i].type == WPROF_STACK)
			grown = k.iv->vmas[i].start;
	ATF_REQUIRE(grown < start);
	ATF_CHECK(kid_written(&k, (long)grown, start - grown) >= (start - grown) / PAGE / 2);
	kid_end(&k);
}

CASE(dontneed__dropped_pages_are_not_populated, "Pages written and dropped are not reported")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	kid_profile(&k, NULL);
	kid_write(&k, p, 20);
	ATF_REQUIRE_EQ(0, kid_call(&k, madvise, p, 8 * (long)PAGE, MADV_DONTNEED));
	kid_sample(&k);
	ATF_CHECK_EQ(12, kid_written(&k, p, 64 * PAGE));
	kid_write(&k, p, 8);
	kid_sample(&k);
	ATF_CHECK_EQ(8, kid_written(&k, p, 64 * PAGE));
	kid_end(&k);
}

CASE(free__written_again, "Memory given up by MADV_FREE and written again is reported")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	kid_profile(&k, NULL);
	ATF_REQUIRE_EQ(0, kid_call(&k, madvise, p, 64 * (long)PAGE, MADV_FREE));
	kid_sample(&k);
	ATF_CHECK_EQ(0, kid_written(&k, p, 64 * PAGE));
	kid_write(&k, p, 16);
	kid_sample(&k);
	ATF_CHECK_EQ(16, kid_written(&k, p, 64 * PAGE));
	kid_end(&k);
}

CASE(fork__parent_stays_armed, "After a fork the writes of the parent are counted, the child's not")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	kid_profile(&k, NULL);
	ATF_REQUIRE_EQ(0, kid_order(&k, KID_FORK, 0, p, 64, 1));
	kid_sample(&k);
	ATF_CHECK_EQ(0, kid_written(&k, p, 64 * PAGE));
	kid_write(&k, p + 7 * (long)PAGE, 9);
	kid_sample(&k);
	ATF_CHECK_EQ(9, kid_written(&k, p, 64 * PAGE));
	kid_end(&k);
}

static void exec_kid(struct kid *k)
{
	static const char prog[] = "/bin/sleep", arg[] = "30";
	long p = kid_mmap(k, PAGE);
	char *args[3] = { (char *)p, (char *)p + 32, NULL };
	struct kid_order o = { .op = KID_CALL, .nr = SYS_execve, .a = { p, p + 64, 0 } };
	char path[48], page[64 + sizeof(args)] = "";
	int fd;

	memcpy(page, prog, sizeof(prog));
	memcpy(page + 32, arg, sizeof(arg));
	memcpy(page + 64, args, sizeof(args));
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)k->pid);
	fd = open(path, O_RDWR);
	ATF_REQUIRE(fd >= 0);
	ATF_REQUIRE_EQ((ssize_t)sizeof(page), pwrite(fd, page, sizeof(page), p));
	close(fd);
	ATF_REQUIRE_EQ((ssize_t)sizeof(o), write(k->sock, &o, sizeof(o)));
	/* the socket is closed by the exec */
	ATF_REQUIRE_EQ(0, read(k->sock, path, 1));
}

CASE(exec__is_noticed, "A target that runs another program has ended, and says why afterwards")
{
	struct kid k;

	kid_start(&k);
	kid_profile(&k, NULL);
	kid_sample(&k);
	ATF_CHECK(!k.iv->ended);
	exec_kid(&k);
	kid_sample(&k);
	ATF_CHECK(k.iv->ended);
	ATF_CHECK_EQ(0, k.iv->n_vmas);
	ATF_CHECK_EQ(-ESTALE, wprof_sample(k.w, &k.iv));
	ATF_CHECK_EQ(-ESTALE, wprof_pause(k.w));
	kid_end(&k);
}

CASE(exit__is_noticed, "A target that exits has ended: once told, then an error")
{
	struct kid k;

	kid_start(&k);
	kid_profile(&k, NULL);
	kid_sample(&k);
	kill(k.pid, SIGKILL);
	ATF_REQUIRE_EQ(k.pid, waitpid(k.pid, NULL, 0));
	kid_sample(&k);
	ATF_CHECK(k.iv->ended);
	ATF_CHECK_EQ(0, k.iv->written_pages);
	ATF_CHECK_EQ(-ESRCH, wprof_sample(k.w, &k.iv));
	kid_end(&k);
}

CASE(thp__split_by_the_first_write, "Of a huge page only what was written is reported")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 8 * MIB);
	p = (p + 2 * (long)MIB - 1) & -2 * (long)MIB;
	ATF_REQUIRE_EQ(0, kid_call(&k, madvise, p, 4 * (long)MIB, MADV_HUGEPAGE));
	kid_write(&k, p, 1024);
	kid_profile(&k, NULL);
	kid_write(&k, p + 100 * (long)PAGE, 5);
	kid_sample(&k);
	ATF_CHECK_EQ(5, kid_written(&k, p, 4 * MIB));
	kid_end(&k);
}

CASE(thp__new_one_counts_whole, "A huge page made by one write is populated, and reported, whole")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 8 * MIB);
	p = (p + 2 * (long)MIB - 1) & -2 * (long)MIB;
	ATF_REQUIRE_EQ(0, kid_call(&k, madvise, p, 4 * (long)MIB, MADV_HUGEPAGE));
	kid_profile(&k, NULL);
	kid_write(&k, p, 1);
	kid_sample(&k);
	/* where no huge page was free it is the one page */
	ATF_CHECK(kid_written(&k, p, 4 * MIB) == 512 || kid_written(&k, p, 4 * MIB) == 1);
	kid_end(&k);
}

CASE(guard__regions, "Guard regions within memory are not reported, what is around them is")
{
	struct kid k;
	long p, rc;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	kid_profile(&k, NULL);
	rc = kid_call(&k, madvise, p + 8 * (long)PAGE, 4 * (long)PAGE, MADV_GUARD_INSTALL);
	if (rc == -EINVAL) {
		kid_end(&k);
		atf_tc_skip("this kernel has no guard regions (6.13)");
	}
	kid_write(&k, p, 8);
	kid_write(&k, p + 12 * (long)PAGE, 2);
	kid_sample(&k);
	kid_invariants(&k);
	ATF_CHECK_EQ(10, kid_written(&k, p, 8 * PAGE) +
				 kid_written(&k, p + 12 * (long)PAGE, 52 * PAGE));
	kid_sample(&k);
	ATF_CHECK_EQ(0, kid_written(&k, p, 8 * PAGE) +
				kid_written(&k, p + 12 * (long)PAGE, 52 * PAGE));
	kid_end(&k);
}

static int file_of(size_t pages)
{
	char page[PAGE];
	int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);

	memset(page, 7, sizeof(page));
	ATF_REQUIRE(fd >= 0);
	for (size_t i = 0; i < pages; i++)
		ATF_REQUIRE_EQ((ssize_t)PAGE, write(fd, page, PAGE));
	return fd;
}

CASE(file__private_pages_only, "Of a private file mapping the written copies are reported")
{
	struct kid k;
	int fd = file_of(32);
	long p;

	kid_start(&k);
	p = kid_call(&k, mmap, 0, 32 * (long)PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	ATF_REQUIRE_MSG(p > 0, "mmap: %s", strerror((int)-p));
	kid_profile(&k, NULL);
	kid_pages(&k, KID_READ, p, 32, 1);
	kid_write(&k, p + 4 * (long)PAGE, 6);
	kid_sample(&k);
	kid_invariants(&k);
	ATF_CHECK_EQ(6, kid_written(&k, p, 32 * PAGE));
	ATF_CHECK_EQ(WPROF_DATA, kid_vma(&k, p)->type);
	ATF_CHECK(strstr(kid_vma(&k, p)->name, "/file") != NULL);
	kid_write(&k, p + 5 * (long)PAGE, 1);
	kid_sample(&k);
	ATF_CHECK_EQ(1, kid_written(&k, p, 32 * PAGE));
	kid_end(&k);
	close(fd);
}

CASE(shared__counted_untracked, "Shared memory is not tracked, its size is told")
{
	struct kid k;
	uint64_t before;
	long p;

	kid_start(&k);
	kid_profile(&k, NULL);
	before = kid_sample(&k)->untracked_shared_bytes;
	p = kid_mmap_at(&k, 0, 48 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
	kid_write(&k, p, 48);
	kid_sample(&k);
	ATF_CHECK_EQ(before + 48 * PAGE, k.iv->untracked_shared_bytes);
	ATF_CHECK(kid_vma(&k, p) == NULL);
	ATF_CHECK_EQ(0, kid_written(&k, p, 48 * PAGE));
	kid_end(&k);
}

CASE(busy__skipped_and_told, "Memory of another userfaultfd is skipped and told, until it is free")
{
	struct kid k;
	long p = 0x60000000, fd;

	kid_start(&k);
	kid_mmap_at(&k, p, 48 * PAGE, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_write(&k, p, 48);
	fd = kid_order(&k, KID_UFFD, 0, p + 16 * (long)PAGE, 16 * (long)PAGE);
	ATF_REQUIRE_MSG(fd >= 0, "%s", strerror((int)-fd));
	kid_profile(&k, NULL);
	for (int i = 0; i < 3; i++) {
		kid_write(&k, p, 48);
		kid_sample(&k);
		kid_invariants(&k);
		ATF_CHECK_EQ(32, kid_written(&k, p, 48 * PAGE));
		ATF_CHECK_EQ(16 * PAGE, k.iv->untracked_busy_bytes);
		ATF_CHECK_EQ(WPROF_VMA_BUSY, kid_vma(&k, p + 20 * (long)PAGE)->flags);
	}
	ATF_REQUIRE_EQ(0, kid_call(&k, close, fd));
	kid_sample(&k);
	ATF_CHECK_EQ(0, k.iv->untracked_busy_bytes);
	kid_write(&k, p, 48);
	kid_sample(&k);
	ATF_CHECK_EQ(48, kid_written(&k, p, 48 * PAGE));
	kid_end(&k);
}

static void *stack_thread(void *arg)
{
	char c;

	/* asleep in a system call, with a stack of its own */
	return (void *)(uintptr_t)read(*(int *)arg, &c, 1);
}

CASE(thread__stack_is_named, "The stack of a thread has its type and the thread's number")
{
	char name[32];
	struct wprof *w;
	struct wprof_why why;
	const struct wprof_interval *iv;
	int fds[2], up[2], found = 0;
	pthread_t thread;
	long fd;
	pid_t pid;

	ATF_REQUIRE_EQ(0, pipe(fds));
	ATF_REQUIRE_EQ(0, pipe(up));
	pid = fork();
	if (!pid) {
		fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
		if (pthread_create(&thread, NULL, stack_thread, &fds[0]) ||
		    write(up[1], &fd, sizeof(fd)) != sizeof(fd))
			_exit(1);
		pthread_join(thread, NULL);
		_exit(0);
	}
	ATF_REQUIRE_EQ((ssize_t)sizeof(fd), read(up[0], &fd, sizeof(fd)));
	fd = syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, pid, 0), fd, 0);
	ATF_REQUIRE_EQ_MSG(0, profile_attach(pid, (int)fd, NULL, &w, &why), "%s", why.text);
	for (int i = 0; i < 100 && !found; i++) {
		ATF_REQUIRE_EQ(0, wprof_sample(w, &iv));
		for (size_t v = 0; v < iv->n_vmas; v++) {
			int tid;

			if (sscanf(iv->vmas[v].name, "[stack:%d]", &tid) != 1)
				continue;
			ATF_CHECK_EQ(WPROF_STACK, iv->vmas[v].type);
			snprintf(name, sizeof(name), "/proc/%d/task/%d", (int)pid, tid);
			ATF_CHECK_EQ(0, access(name, F_OK));
			found = tid;
		}
	}
	ATF_CHECK(found && found != pid);
	wprof_close(w);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

CASE(limit__new_memory_left_alone, "Of a target short of VMAs new memory is left alone, and told")
{
	struct kid k;
	long p;

	kid_start(&k);
	kid_profile(&k, NULL);
	k.w->track.max_maps = 8;
	p = kid_mmap_at(&k, 0x20000000, 16 * PAGE, PROT_READ | PROT_WRITE, KID_ANON | MAP_FIXED);
	kid_write(&k, p, 16);
	kid_sample(&k);
	ATF_CHECK_EQ(0, kid_written(&k, p, 16 * PAGE));
	ATF_CHECK_EQ(16 * PAGE, k.iv->untracked_limit_bytes);
	kid_sample(&k);
	ATF_CHECK_EQ(16 * PAGE, k.iv->untracked_limit_bytes);
	k.w->track.max_maps = 65530;
	for (int i = 0; i < 10; i++)
		kid_sample(&k);
	kid_write(&k, p, 5);
	kid_sample(&k);
	ATF_CHECK_EQ(0, k.iv->untracked_limit_bytes);
	ATF_CHECK_EQ(5, kid_written(&k, p, 16 * PAGE));
	kid_end(&k);
}

CASE(many__ten_thousand_vmas, "10,000 VMAs are followed, each write found")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 20000 * PAGE);
	for (long i = 1; i < 20000; i += 2)
		ATF_REQUIRE_EQ(0,
			       kid_call(&k, mprotect, p + i * (long)PAGE, (long)PAGE, PROT_NONE));
	kid_pages(&k, KID_WRITE, p, 10000, 2);
	kid_profile(&k, NULL);
	ATF_CHECK(kid_sample(&k)->n_vmas >= 10000);
	kid_pages(&k, KID_WRITE, p, 1000, 20);
	kid_sample(&k);
	kid_invariants(&k);
	ATF_CHECK_EQ(1000, kid_written(&k, p, 20000 * PAGE));
	kid_end(&k);
}

CASE(arena__hundred_gib_reserved, "A reserved arena of 100 GiB is tracked, not populated")
{
	struct kid k;
	size_t len = 100ul << 30;
	long p;

	kid_start(&k);
	p = kid_mmap_at(&k, 0, len, PROT_READ | PROT_WRITE, KID_ANON | MAP_NORESERVE);
	kid_call(&k, madvise, p, (long)len, MADV_NOHUGEPAGE);
	kid_pages(&k, KID_WRITE, p, 50, (2l << 30) / (long)PAGE);
	kid_profile(&k, NULL);
	kid_pages(&k, KID_WRITE, p + (long)PAGE, 40, (2l << 30) / (long)PAGE);
	kid_sample(&k);
	kid_invariants(&k);
	ATF_CHECK_EQ(40, kid_written(&k, p, len));
	ATF_CHECK_EQ(90, kid_vma(&k, p)->populated_pages);
	kid_sample(&k);
	ATF_CHECK_EQ(0, kid_written(&k, p, len));
	kid_end(&k);
}

CASE(close__nothing_stays_registered, "After closing no page is armed and no VMA registered")
{
	struct kid k;
	char line[256];
	FILE *f;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	kid_profile(&k, NULL);
	kid_sample(&k);
	ATF_CHECK(pagemap_entry(&k, p) & UAPI_PM_UFFD_WP);
	wprof_close(k.w);
	k.w = NULL;
	ATF_CHECK(!(pagemap_entry(&k, p) & UAPI_PM_UFFD_WP));
	snprintf(line, sizeof(line), "/proc/%d/smaps", (int)k.pid);
	f = fopen(line, "r");
	ATF_REQUIRE(f != NULL);
	while (fgets(line, sizeof(line), f))
		ATF_CHECK(strncmp(line, "VmFlags:", 8) || !strstr(line, " uw"));
	fclose(f);
	kid_end(&k);
}

CASE(pause__undone_by_resume, "While paused nothing is armed; after resume all is exact again")
{
	struct kid k;
	long p;

	kid_start(&k);
	p = kid_mmap(&k, 64 * PAGE);
	kid_write(&k, p, 64);
	kid_profile(&k, NULL);
	kid_sample(&k);
	ATF_REQUIRE_EQ(0, wprof_pause(k.w));
	ATF_CHECK_EQ(0, wprof_pause(k.w));
	ATF_CHECK(!(pagemap_entry(&k, p) & UAPI_PM_UFFD_WP));
	ATF_CHECK_EQ(-ENOTCONN, wprof_sample(k.w, &k.iv));
	kid_write(&k, p, 64);
	ATF_REQUIRE_EQ(0, wprof_resume(k.w));
	kid_write(&k, p, 3);
	kid_sample(&k);
	ATF_CHECK_EQ(3, kid_written(&k, p, 64 * PAGE));
	kid_end(&k);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, exit__is_noticed);
	ATF_TP_ADD_TC(tp, exec__is_noticed);
	ATF_TP_ADD_TC(tp, busy__skipped_and_told);
	ATF_TP_ADD_TC(tp, shared__counted_untracked);
	ATF_TP_ADD_TC(tp, untouched__never_armed);
	ATF_TP_ADD_TC(tp, read__is_no_write);
	ATF_TP_ADD_TC(tp, written__each_page_once);
	ATF_TP_ADD_TC(tp, mmap__new_memory_is_reported);
	ATF_TP_ADD_TC(tp, mmap__flags_new_vma);
	ATF_TP_ADD_TC(tp, munmap__leaves_the_list);
	ATF_TP_ADD_TC(tp, munmap__replaced_memory_is_reported);
	ATF_TP_ADD_TC(tp, mprotect__read_only_now);
	ATF_TP_ADD_TC(tp, mprotect__new_and_read_only);
	ATF_TP_ADD_TC(tp, mremap__moved);
	ATF_TP_ADD_TC(tp, mremap__grown_in_place);
	ATF_TP_ADD_TC(tp, mremap__untouched_beside_registered);
	ATF_TP_ADD_TC(tp, brk__growth_is_read_first);
	ATF_TP_ADD_TC(tp, stack__growth);
	ATF_TP_ADD_TC(tp, dontneed__dropped_pages_are_not_populated);
	ATF_TP_ADD_TC(tp, free__written_again);
	ATF_TP_ADD_TC(tp, fork__parent_stays_armed);
	ATF_TP_ADD_TC(tp, thp__split_by_the_first_write);
	ATF_TP_ADD_TC(tp, thp__new_one_counts_whole);
	ATF_TP_ADD_TC(tp, guard__regions);
	ATF_TP_ADD_TC(tp, file__private_pages_only);
	ATF_TP_ADD_TC(tp, thread__stack_is_named);
	ATF_TP_ADD_TC(tp, limit__new_memory_left_alone);
	ATF_TP_ADD_TC(tp, many__ten_thousand_vmas);
	ATF_TP_ADD_TC(tp, arena__hundred_gib_reserved);
	ATF_TP_ADD_TC(tp, close__nothing_stays_registered);
	ATF_TP_ADD_TC(tp, pause__undone_by_resume);
	return atf_no_error();
}
