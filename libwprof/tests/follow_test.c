/*
 * Following the memory of a process: each event that changes its mappings, one
 * case each. The target acts only between two intervals, so every count is
 * exact; writers that race the scan are exact_test's.
 */

#include <pthread.h>

#include "kid.h"

#define RW (PROT_READ | PROT_WRITE)

/* A system call of the kid that has to work */
#define DOES(k, name, ...) ATF_REQUIRE_EQ(0, kid_call(k, name, __VA_ARGS__))

/* Memory at a place of the case's choice */
static void place(const struct kid *k, long at, long n_pages)
{
	kid_mmap_at(k, at, (size_t)PAGES(n_pages), RW, KID_ANON | MAP_FIXED);
}

/* Memory of which the first pages were written before it is followed */
static long followed(struct kid *k, long n_pages, long n_written)
{
	long p = kid_mmap(k, (size_t)PAGES(n_pages));

	kid_write(k, p, n_written);
	kid_profile(k, NULL);
	return p;
}

/* Another interval, which reports so many of the pages at p */
#define SHOWS(n, k, p, n_pages)                                             \
	do {                                                                \
		kid_sample(k);                                              \
		kid_invariants(k);                                          \
		ATF_CHECK_EQ(n, kid_written(k, p, (size_t)PAGES(n_pages))); \
	} while (0)

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

KID_CASE(written__each_page_once, "A written page is reported in its interval and in no other")
{
	long p = followed(k, 64, 64);

	SHOWS(0, k, p, 64);
	kid_pages(k, KID_WRITE, p, 16, 4);
	SHOWS(16, k, p, 64);
	SHOWS(0, k, p, 64);
}

KID_CASE(read__is_no_write, "Pages that are read, mapped or not, are not reported")
{
	long p = followed(k, 64, 32);

	kid_pages(k, KID_READ, p, 64, 1);
	SHOWS(0, k, p, 64);
}

KID_CASE(untouched__never_armed,
	 "Pages that do not exist are not armed: no marker for CRIU to dump")
{
	long p = kid_mmap(k, 64 * MIB);

	kid_call(k, madvise, p, 64 * (long)MIB, MADV_NOHUGEPAGE);
	kid_write(k, p, 256);
	kid_profile(k, NULL);
	for (int i = 0; i < 4; i++) {
		kid_write(k, p + PAGES(1024), 8);
		kid_sample(k);
	}
	ATF_CHECK(pagemap_entry(k, p) & UAPI_PM_UFFD_WP);
	for (long i = 256; i < 64 * (long)MIB / (long)PAGE; i++)
		if (i < 1024 || i >= 1032)
			ATF_REQUIRE_EQ(0, pagemap_entry(k, p + PAGES(i)) & ENTRY_MARKED);
}

KID_CASE(mmap__new_memory_is_reported,
	 "Memory mapped after the start is found with all written to it")
{
	long p;

	kid_profile(k, NULL);
	p = kid_mmap(k, 128 * PAGE);
	kid_write(k, p, 100);
	SHOWS(100, k, p, 128);
	kid_write(k, p + PAGES(5), 1);
	SHOWS(1, k, p, 128);
}

KID_CASE(mmap__flags_new_vma, "A VMA is marked new in its first interval and in no later one")
{
	long p = 0x20000000;

	place(k, 0x10000000, 4);
	kid_profile(k, NULL);
	place(k, p, 16);
	kid_sample(k);
	ATF_REQUIRE(kid_vma(k, p) != NULL);
	ATF_CHECK_EQ(WPROF_VMA_NEW, kid_vma(k, p)->flags);
	ATF_CHECK_EQ(0, kid_vma(k, 0x10000000)->flags);
	kid_sample(k);
	ATF_CHECK_EQ(0, kid_vma(k, p)->flags);
}

KID_CASE(munmap__leaves_the_list, "Unmapped memory is gone from the list, its rest is followed")
{
	long p = followed(k, 64, 64);

	kid_write(k, p, 64);
	DOES(k, munmap, p + PAGES(16), PAGES(32));
	SHOWS(32, k, p, 64);
	ATF_CHECK(kid_vma(k, p + PAGES(20)) == NULL);
	ATF_CHECK(kid_vma(k, p)->flags & WPROF_VMA_CHANGED);
}

KID_CASE(munmap__replaced_memory_is_reported,
	 "Memory mapped anew at the same place and size within one interval is not missed")
{
	long p = followed(k, 64, 64);

	for (int i = 0; i < 3; i++) {
		DOES(k, munmap, p, PAGES(64));
		place(k, p, 64);
		kid_write(k, p, 10);
		SHOWS(10, k, p, 64);
	}
	kid_write(k, p + PAGES(3), 2);
	SHOWS(2, k, p, 64);
}

KID_CASE(mprotect__read_only_now, "What was written before the memory became read-only is reported")
{
	long p = followed(k, 64, 64);

	kid_write(k, p + PAGES(20), 8);
	DOES(k, mprotect, p + PAGES(16), PAGES(32), PROT_READ);
	SHOWS(8, k, p, 64);
	DOES(k, mprotect, p, PAGES(64), RW);
	kid_write(k, p + PAGES(30), 4);
	SHOWS(4, k, p, 64);
}

KID_CASE(mprotect__new_and_read_only,
	 "New memory that was written and is read-only by now is reported")
{
	long p = 0x30000000;

	kid_profile(k, NULL);
	place(k, p, 32);
	kid_write(k, p, 12);
	DOES(k, mprotect, p, PAGES(32), PROT_READ);
	SHOWS(12, k, p, 32);
}

KID_CASE(mremap__moved, "Moved memory is found at its new place, with all it holds")
{
	long p = followed(k, 64, 40), q = 0x40000000;

	ATF_REQUIRE_EQ(
		q, kid_call(k, mremap, p, PAGES(64), PAGES(64), MREMAP_MAYMOVE | MREMAP_FIXED, q));
	SHOWS(40, k, q, 64);
	ATF_CHECK(kid_vma(k, p) == NULL);
	kid_write(k, q + PAGES(8), 3);
	SHOWS(3, k, q, 64);
}

KID_CASE(mremap__grown_in_place, "Memory grown in place keeps what was armed and shows what is new")
{
	long p = 0x50000000;

	place(k, p, 32);
	kid_write(k, p, 32);
	kid_profile(k, NULL);
	ATF_REQUIRE_EQ(p, kid_call(k, mremap, p, PAGES(32), PAGES(64), 0));
	kid_write(k, p + PAGES(30), 8);
	SHOWS(8, k, p, 64);
	ATF_CHECK_EQ(WPROF_VMA_CHANGED, kid_vma(k, p)->flags);
	ATF_REQUIRE_EQ(p, kid_call(k, mremap, p, PAGES(64), PAGES(16), 0));
	kid_write(k, p, 2);
	SHOWS(2, k, p, 64);
	ATF_CHECK_EQ((uint64_t)p + 16 * PAGE, kid_vma(k, p)->end);
}

KID_CASE(mremap__untouched_beside_registered,
	 "Untouched memory moved beside other memory takes no write of that one with it")
{
	long p = 0x70000000, q = 0x78000000;

	place(k, p, 32);
	place(k, q, 32);
	kid_write(k, p, 32);
	kid_profile(k, NULL);
	kid_sample(k);
	ATF_REQUIRE_EQ(p + PAGES(32), kid_call(k, mremap, q, PAGES(32), PAGES(32),
					       MREMAP_MAYMOVE | MREMAP_FIXED, p + PAGES(32)));
	kid_write(k, p + PAGES(4), 16);
	SHOWS(16, k, p + PAGES(4), 16);
	/* the kernel may have lost track of the others: then they count too */
	ATF_CHECK(kid_written(k, p, 32 * PAGE) == 16 || kid_vma(k, p)->flags & WPROF_VMA_NEW);
	for (int i = 0; i < 3; i++) {
		kid_write(k, p + PAGES(5), 1);
		SHOWS(1, k, p, 64);
	}
}

KID_CASE(brk__growth_is_read_first,
	 "A heap that grows is read before it is armed, and stays one VMA")
{
	long heap = kid_call(k, brk, 0);

	ATF_REQUIRE_EQ(heap + PAGES(64), kid_call(k, brk, heap + PAGES(64)));
	kid_write(k, heap, 64);
	kid_profile(k, NULL);
	for (long i = 1; i <= 5; i++) {
		const struct wprof_vma *vma;
		size_t n_heaps = 0;

		kid_call(k, brk, heap + PAGES(64 + 16 * i));
		kid_write(k, heap + PAGES(48 + 16 * i), 16);
		SHOWS(16, k, heap, 1024);
		vma = kid_vma(k, heap);
		ATF_REQUIRE(vma != NULL);
		ATF_CHECK_EQ(WPROF_HEAP, vma->type);
		ATF_CHECK_EQ(WPROF_VMA_CHANGED, vma->flags);
		for (size_t v = 0; v < k->iv->n_vmas; v++)
			n_heaps += k->iv->vmas[v].start >= (uint64_t)heap &&
				   k->iv->vmas[v].type == WPROF_HEAP;
		ATF_CHECK_EQ(1, n_heaps);
	}
}

/* Of the next interval */
static uint64_t stack_start(struct kid *k)
{
	uint64_t start = 0;

	kid_sample(k);
	for (size_t i = 0; i < k->iv->n_vmas; i++)
		if (k->iv->vmas[i].type == WPROF_STACK)
			start = k->iv->vmas[i].start;
	return start;
}

KID_CASE(stack__growth, "A stack that grows is followed, its new pages are reported")
{
	uint64_t start, grown;

	kid_profile(k, NULL);
	start = stack_start(k);
	ATF_REQUIRE_EQ(0, kid_order(k, KID_STACK, 0, 1000));
	grown = stack_start(k);
	kid_invariants(k);
	ATF_REQUIRE(grown < start);
	ATF_CHECK(kid_written(k, (long)grown, start - grown) >= (start - grown) / PAGE / 2);
}

KID_CASE(dontneed__dropped_pages_are_not_populated, "Pages written and dropped are not reported")
{
	long p = followed(k, 64, 64);

	kid_write(k, p, 20);
	DOES(k, madvise, p, PAGES(8), MADV_DONTNEED);
	SHOWS(12, k, p, 64);
	kid_write(k, p, 8);
	SHOWS(8, k, p, 64);
}

KID_CASE(free__written_again, "Memory given up by MADV_FREE and written again is reported")
{
	long p = followed(k, 64, 64);

	DOES(k, madvise, p, PAGES(64), MADV_FREE);
	SHOWS(0, k, p, 64);
	kid_write(k, p, 16);
	SHOWS(16, k, p, 64);
}

KID_CASE(fork__parent_stays_armed,
	 "After a fork the writes of the parent are counted, the child's not")
{
	long p = followed(k, 64, 64);

	ATF_REQUIRE_EQ(0, kid_order(k, KID_FORK, 0, p, 64, 1));
	SHOWS(0, k, p, 64);
	kid_write(k, p + PAGES(7), 9);
	SHOWS(9, k, p, 64);
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

KID_CASE(exec__is_noticed, "A target that runs another program has ended, and says why afterwards")
{
	kid_profile(k, NULL);
	kid_sample(k);
	ATF_CHECK(!k->iv->ended);
	exec_kid(k);
	kid_sample(k);
	ATF_CHECK(k->iv->ended);
	ATF_CHECK_EQ(0, k->iv->n_vmas);
	ATF_CHECK_EQ(-ESTALE, wprof_sample(k->w, &k->iv));
	ATF_CHECK_EQ(-ESTALE, wprof_pause(k->w));
}

KID_CASE(exit__is_noticed, "A target that exits has ended: once told, then an error")
{
	kid_profile(k, NULL);
	kid_sample(k);
	kill(k->pid, SIGKILL);
	ATF_REQUIRE_EQ(k->pid, waitpid(k->pid, NULL, 0));
	kid_sample(k);
	ATF_CHECK(k->iv->ended);
	ATF_CHECK_EQ(0, k->iv->written_pages);
	ATF_CHECK_EQ(-ESRCH, wprof_sample(k->w, &k->iv));
}

/* 4 MiB that may be huge pages, none of them there yet */
static long huge(const struct kid *k)
{
	long p = kid_mmap(k, 8 * MIB);

	p = (p + 2 * (long)MIB - 1) & -2 * (long)MIB;
	DOES(k, madvise, p, 4 * (long)MIB, MADV_HUGEPAGE);
	return p;
}

KID_CASE(thp__split_by_the_first_write, "Of a huge page only what was written is reported")
{
	long p = huge(k);

	kid_write(k, p, 1024);
	kid_profile(k, NULL);
	kid_write(k, p + PAGES(100), 5);
	SHOWS(5, k, p, 1024);
}

KID_CASE(thp__new_one_counts_whole,
	 "A huge page made by one write is populated, and reported, whole")
{
	long p = huge(k);

	kid_profile(k, NULL);
	kid_write(k, p, 1);
	kid_sample(k);
	/* where no huge page was free it is the one page */
	ATF_CHECK(kid_written(k, p, 4 * MIB) == 512 || kid_written(k, p, 4 * MIB) == 1);
}

KID_CASE(guard__regions, "Guard regions within memory are not reported, what is around them is")
{
	long p = followed(k, 64, 64);
	long rc = kid_call(k, madvise, p + PAGES(8), PAGES(4), MADV_GUARD_INSTALL);

	if (rc == -EINVAL) {
		kid_end(k);
		atf_tc_skip("this kernel has no guard regions (6.13)");
	}
	kid_write(k, p, 8);
	kid_write(k, p + PAGES(12), 2);
	SHOWS(8, k, p, 8);
	ATF_CHECK_EQ(2, kid_written(k, p + PAGES(12), 52 * PAGE));
	SHOWS(0, k, p, 8);
	ATF_CHECK_EQ(0, kid_written(k, p + PAGES(12), 52 * PAGE));
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

CASE_WITHIN("60", file__private_pages_only,
	    "Of a private file mapping the written copies are reported")
{
	struct kid kid, *k = &kid;
	int fd = file_of(32); /* before the kid, which has it too */
	long p;

	kid_start(k);
	p = kid_call(k, mmap, 0, PAGES(32), RW, MAP_PRIVATE, fd, 0);
	ATF_REQUIRE_MSG(p > 0, "mmap: %s", strerror((int)-p));
	kid_profile(k, NULL);
	kid_pages(k, KID_READ, p, 32, 1);
	kid_write(k, p + PAGES(4), 6);
	SHOWS(6, k, p, 32);
	ATF_CHECK_EQ(WPROF_DATA, kid_vma(k, p)->type);
	ATF_CHECK(strstr(kid_vma(k, p)->name, "/file") != NULL);
	kid_write(k, p + PAGES(5), 1);
	SHOWS(1, k, p, 32);
	kid_end(k);
	close(fd);
}

KID_CASE(shared__counted_untracked, "Shared memory is not tracked, its size is told")
{
	uint64_t before;
	long p;

	kid_profile(k, NULL);
	before = kid_sample(k)->untracked_shared_bytes;
	p = kid_mmap_at(k, 0, 48 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS);
	kid_write(k, p, 48);
	SHOWS(0, k, p, 48);
	ATF_CHECK_EQ(before + 48 * PAGE, k->iv->untracked_shared_bytes);
	ATF_CHECK(kid_vma(k, p) == NULL);
}

KID_CASE(busy__skipped_and_told,
	 "Memory of another userfaultfd is skipped and told, until it is free")
{
	long p = 0x60000000, fd;

	place(k, p, 48);
	kid_write(k, p, 48);
	fd = kid_order(k, KID_UFFD, 0, p + PAGES(16), PAGES(16));
	ATF_REQUIRE_MSG(fd >= 0, "%s", strerror((int)-fd));
	kid_profile(k, NULL);
	for (int i = 0; i < 3; i++) {
		kid_write(k, p, 48);
		SHOWS(32, k, p, 48);
		ATF_CHECK_EQ(16 * PAGE, k->iv->untracked_busy_bytes);
		ATF_CHECK_EQ(WPROF_VMA_BUSY, kid_vma(k, p + PAGES(20))->flags);
	}
	DOES(k, close, fd);
	kid_sample(k);
	ATF_CHECK_EQ(0, k->iv->untracked_busy_bytes);
	kid_write(k, p, 48);
	SHOWS(48, k, p, 48);
}

static bool is_hot(const struct kid *k, long addr)
{
	const struct wprof_region *r;
	size_t n;

	ATF_REQUIRE_EQ(0, wprof_hot(k->w, &r, &n));
	for (size_t i = 0; i < n; i++)
		if (r[i].start <= (uint64_t)addr && (uint64_t)addr < r[i].end)
			return true;
	return false;
}

KID_CASE(pause__heat_is_kept, "What was hot before a pause is hot in the first interval after it")
{
	long p = 0x60000000;

	place(k, p, 64);
	kid_write(k, p, 64);
	kid_profile(k, NULL);
	for (int i = 0; i < 4; i++) {
		ATF_CHECK(!is_hot(k, p) || i > 2);
		kid_write(k, p, 64);
		kid_sample(k);
	}
	ATF_CHECK(is_hot(k, p));
	ATF_REQUIRE_EQ(0, wprof_pause(k->w));
	ATF_REQUIRE_EQ(0, wprof_resume(k->w));
	kid_write(k, p, 64);
	SHOWS(64, k, p, 64);
	ATF_CHECK(is_hot(k, p));
}

/* a second session of the kid, with a userfaultfd of its own */
static int second_profile(struct kid *k, struct wprof **w, struct wprof_why *why)
{
	long fd = kid_call(k, userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
	int pidfd = (int)syscall(SYS_pidfd_open, k->pid, 0);
	int uffd = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	ATF_REQUIRE(fd >= 0 && uffd >= 0);
	DOES(k, close, fd);
	close(pidfd);
	return profile_attach(k->pid, uffd, NULL, w, why);
}

KID_CASE(second__refused_where_some_memory_is_free,
	 "A second profiler that finds memory the first has not seen yet is refused, too")
{
	long p = 0x60000000;
	struct wprof_why why = { 0 };
	struct wprof *w;

	place(k, p, 32);
	kid_write(k, p, 32);
	kid_profile(k, NULL);
	DOES(k, munmap, p, PAGES(32));
	place(k, p, 32);
	kid_write(k, p, 32);
	ATF_REQUIRE_EQ(-EBUSY, second_profile(k, &w, &why));
	ATF_CHECK_EQ(WPROF_TRACED, why.reason);
	SHOWS(32, k, p, 32);
	for (int i = 0; i < 3; i++) {
		kid_write(k, p, 32);
		SHOWS(32, k, p, 32);
		ATF_CHECK_EQ(0, k->iv->untracked_busy_bytes);
	}
}

/*
 * As after a restore whose pages are still with a server: here with one that never
 * answers, so that who touches such a page waits for ever.
 */
KID_CASE(lazy__pages_are_not_awaited,
	 "A target whose pages a lazy-pages server still holds is profiled around them")
{
	long p = 0x60000000, fd;
	struct wprof_why why;

	place(k, p, 48);
	fd = kid_order(k, KID_UFFD, 0, p, PAGES(32));
	ATF_REQUIRE_MSG(fd >= 0, "%s", strerror((int)-fd));
	ATF_REQUIRE_EQ_MSG(0, wprof_open(k->pid, NULL, &k->w, &why), "%s", why.text);
	for (int i = 0; i < 3; i++) {
		kid_write(k, p + PAGES(32), 16);
		SHOWS(16, k, p, 48);
		ATF_CHECK_EQ(32 * PAGE, k->iv->untracked_busy_bytes);
	}
	ATF_REQUIRE_EQ(0, wprof_pause(k->w));
	ATF_REQUIRE_EQ(0, wprof_resume(k->w));
	DOES(k, close, fd);
	kid_sample(k);
	kid_write(k, p, 48);
	SHOWS(48, k, p, 48);
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

KID_CASE(limit__new_memory_left_alone,
	 "Of a target short of VMAs new memory is left alone, and told")
{
	long p = 0x20000000;

	kid_profile(k, NULL);
	k->w->track.max_maps = 8;
	place(k, p, 16);
	kid_write(k, p, 16);
	SHOWS(0, k, p, 16);
	ATF_CHECK_EQ(16 * PAGE, k->iv->untracked_limit_bytes);
	kid_sample(k);
	ATF_CHECK_EQ(16 * PAGE, k->iv->untracked_limit_bytes);
	k->w->track.max_maps = 65530;
	for (int i = 0; i < 10; i++)
		kid_sample(k);
	kid_write(k, p, 5);
	SHOWS(5, k, p, 16);
	ATF_CHECK_EQ(0, k->iv->untracked_limit_bytes);
	/* after a pause all of it is there from the beginning */
	k->w->track.max_maps = 8;
	ATF_REQUIRE_EQ(0, wprof_pause(k->w));
	ATF_REQUIRE_EQ(0, wprof_resume(k->w));
	kid_write(k, p, 7);
	SHOWS(7, k, p, 16);
}

CASE_WITHIN("60", many__ten_thousand_vmas, "10,000 VMAs are followed, each write found")
{
	/* an emulated processor, that of the kernel tests, takes its time for each */
	long n = *atf_tc_get_config_var_wd(tc, "kernel", "") ? 2000 : 20000;
	struct kid kid, *k = &kid;
	long p;

	kid_start(k);
	p = kid_mmap(k, (size_t)n * PAGE);
	for (long i = 1; i < n; i += 2)
		DOES(k, mprotect, p + PAGES(i), PAGES(1), PROT_NONE);
	kid_pages(k, KID_WRITE, p, n / 2, 2);
	kid_profile(k, NULL);
	ATF_CHECK(kid_sample(k)->n_vmas >= (size_t)n / 2);
	kid_pages(k, KID_WRITE, p, n / 20, 20);
	SHOWS((uint64_t)n / 20, k, p, n);
	kid_end(k);
}

KID_CASE(arena__hundred_gib_reserved, "A reserved arena of 100 GiB is tracked, not populated")
{
	size_t len = 100ul << 30;
	long p = kid_mmap_at(k, 0, len, RW, KID_ANON | MAP_NORESERVE);

	kid_call(k, madvise, p, (long)len, MADV_NOHUGEPAGE);
	kid_pages(k, KID_WRITE, p, 50, (2L << 30) / (long)PAGE);
	kid_profile(k, NULL);
	kid_pages(k, KID_WRITE, p + PAGES(1), 40, (2L << 30) / (long)PAGE);
	kid_sample(k);
	kid_invariants(k);
	ATF_CHECK_EQ(40, kid_written(k, p, len));
	ATF_CHECK_EQ(90, kid_vma(k, p)->populated_pages);
	kid_sample(k);
	ATF_CHECK_EQ(0, kid_written(k, p, len));
}

static void nothing_registered(const struct kid *k)
{
	char line[256];
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/smaps", (int)k->pid);
	f = fopen(line, "r");
	ATF_REQUIRE(f != NULL);
	while (fgets(line, sizeof(line), f))
		ATF_CHECK(strncmp(line, "VmFlags:", 8) || !strstr(line, " uw"));
	fclose(f);
}

KID_CASE(close__nothing_stays_registered, "After closing no page is armed and no VMA registered")
{
	long p = followed(k, 64, 64);

	kid_sample(k);
	ATF_CHECK(pagemap_entry(k, p) & UAPI_PM_UFFD_WP);
	wprof_close(k->w);
	k->w = NULL;
	ATF_CHECK(!(pagemap_entry(k, p) & UAPI_PM_UFFD_WP));
	nothing_registered(k);
}

KID_CASE(pause__undone_by_resume, "While paused nothing is armed; after resume all is exact again")
{
	long p = followed(k, 64, 64);

	kid_sample(k);
	ATF_REQUIRE_EQ(0, wprof_pause(k->w));
	ATF_CHECK_EQ(0, wprof_pause(k->w));
	ATF_CHECK(!(pagemap_entry(k, p) & UAPI_PM_UFFD_WP));
	ATF_CHECK_EQ(-ENOTCONN, wprof_sample(k->w, &k->iv));
	kid_write(k, p, 64);
	ATF_REQUIRE_EQ(0, wprof_resume(k->w));
	kid_write(k, p, 3);
	SHOWS(3, k, p, 64);
}

KID_CASE(pause__grown_stack, "While paused a stack that grew after the last interval is not armed")
{
	kid_profile(k, NULL);
	kid_sample(k);
	ATF_REQUIRE_EQ(0, kid_order(k, KID_STACK, 0, 1000));
	ATF_REQUIRE_EQ(0, wprof_pause(k->w));
	nothing_registered(k);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, exit__is_noticed);
	ATF_TP_ADD_TC(tp, exec__is_noticed);
	ATF_TP_ADD_TC(tp, busy__skipped_and_told);
	ATF_TP_ADD_TC(tp, pause__heat_is_kept);
	ATF_TP_ADD_TC(tp, second__refused_where_some_memory_is_free);
	ATF_TP_ADD_TC(tp, lazy__pages_are_not_awaited);
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
	ATF_TP_ADD_TC(tp, pause__grown_stack);
	return atf_no_error();
}
