/*
 * scan.c - what a scan costs: ours against the seed's filter, the kernel's fast
 * path alone, and a classic read of /proc/PID/pagemap.
 *
 *	scan [MIB...]		sizes; default 64 and 1024, and 8192 where that fits
 *
 * The last line is what address space costs that is reserved and never touched.
 *
 * Method: a child holds the memory, small pages, all populated, and writes a
 * pattern of it before each scan; then every way to scan is timed from outside,
 * the median of REPS. What changes nothing (fast path, pagemap) is timed before
 * the scan that arms again. Ours is a whole interval's scanning, with the
 * child's other mappings, after some intervals of the same pattern, as it chooses
 * its way by the last ones. Times are processor time of the scanning thread, all
 * of which is the kernel's work for it, so that other load matters less. Ratios
 * are of one run on one machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "track.h"

#define PAGE 4096ul
#define REPS 5
#define WARM 3

#define ARENA_BYTES   (100ul << 30)
#define ARENA_MOST_US 1000
#define LARGE_MIB     8192

struct pattern {
	const char *name;
	double share; /* of the pages that is written */
	size_t run;   /* pages in a row; 0: all in one place */
};

static const struct pattern patterns[] = {
	{ "nothing", 0, 1 },	     { "single pages", 0.001, 1 },
	{ "runs of 4", 0.001, 4 },   { "runs of 64", 0.001, 64 },
	{ "one cluster", 0.001, 0 }, { "single pages", 0.01, 1 },
	{ "runs of 16", 0.01, 16 },  { "single pages", 0.1, 1 },
	{ "runs of 16", 0.1, 16 },   { "every second page", 0.5, 1 },
	{ "runs of 64", 0.5, 64 },   { "one half", 0.5, 0 },
	{ "everything", 1, 0 },
};

struct bench {
	int sock;
	pid_t pid;
	uint64_t start, pages;
	struct track track;
	struct runs runs;
	int pagemap;
	uint64_t registered_ns;
};

static size_t reserved; /* bytes more that the child maps and does not touch */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static _Noreturn void fail(const char *what, int err)
{
	fprintf(stderr, "scan: %s: %s\n", what, strerror(err));
	exit(1);
}

/* ---- the child -------------------------------------------------------------------- */

static void child_write(volatile char *p, size_t pages, const struct pattern *pat)
{
	size_t n = (size_t)((double)pages * pat->share + 0.5);
	size_t run = pat->run ? pat->run : n, step;

	if (!n)
		return;
	step = pages / ((n + run - 1) / run);
	for (size_t at = 0; at + run <= pages; at += step)
		for (size_t i = 0; i < run; i++)
			p[(at + i) * PAGE]++;
}

static _Noreturn void child(int sock, size_t pages)
{
	long hello[2] = { syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1), 0 };
	char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	size_t which;

	if (reserved && mmap(NULL, reserved, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
		_exit(1);
	madvise(p, pages * PAGE, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < pages; i++)
		p[i * PAGE] = 1;
	hello[1] = (long)p;
	if (write(sock, hello, sizeof(hello)) != sizeof(hello))
		_exit(1);
	while (read(sock, &which, sizeof(which)) == sizeof(which)) {
		child_write(p, pages, &patterns[which]);
		if (write(sock, &which, sizeof(which)) != sizeof(which))
			break;
	}
	_exit(0);
}

static void child_start(struct bench *b, size_t pages)
{
	int sv[2], rc;
	long hello[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		fail("socketpair", errno);
	b->pid = fork();
	if (!b->pid) {
		close(sv[0]);
		child(sv[1], pages);
	}
	close(sv[1]);
	b->sock = sv[0];
	b->pages = pages;
	if (read(b->sock, hello, sizeof(hello)) != sizeof(hello))
		fail("the child did not start", ECHILD);
	b->start = (uint64_t)hello[1];
	rc = track_open(&b->track, b->pid);
	if (rc)
		fail("track_open", -rc);
	b->track.uffd =
		(int)syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, b->pid, 0), hello[0], 0);
	rc = arm_api(b->track.uffd);
	b->registered_ns = now_ns();
	rc = rc ? rc : track_start(&b->track);
	b->registered_ns = now_ns() - b->registered_ns;
	if (rc)
		fail("cannot profile the child", -rc);
	while (b->runs.cap < pages && !runs_grow(&b->runs))
		;
	b->pagemap = b->track.scan.fd;
}

static void child_end(struct bench *b)
{
	kill(b->pid, SIGKILL);
	waitpid(b->pid, NULL, 0);
	close(b->sock);
	close(b->track.uffd);
	track_close(&b->track);
	free(b->runs.v);
}

static void child_dirty(struct bench *b, size_t which)
{
	if (write(b->sock, &which, sizeof(which)) != sizeof(which) ||
	    read(b->sock, &which, sizeof(which)) != sizeof(which))
		fail("the child is gone", ECHILD);
}

/* ---- ways to scan -------------------------------------------------------------------- */

static uint64_t by_seed(struct bench *b)
{
	uint64_t begun = now_ns(), pos = b->start, n = 0;

	b->runs.n = 0;
	while (pos < b->start + b->pages * PAGE)
		if (scan_filter(&b->track.scan, SCAN_WRITTEN, true, &pos,
				b->start + b->pages * PAGE, &b->runs, &n) &&
		    runs_grow(&b->runs))
			fail("the filter", ENOMEM);
	return now_ns() - begun;
}

static uint64_t by_fast_path(struct bench *b)
{
	uint64_t begun = now_ns();
	struct uapi_pm_scan_arg arg = {
		.size = sizeof(arg),
		.end = b->start + b->pages * PAGE,
		.vec = (uintptr_t)b->track.scan.cand,
		.vec_len = SCAN_VEC,
		.category_mask = UAPI_PAGE_IS_WRITTEN,
		.return_mask = UAPI_PAGE_IS_WRITTEN,
	};

	for (arg.start = b->start; arg.start < arg.end; arg.start = arg.walk_end)
		if (ioctl(b->pagemap, UAPI_PAGEMAP_SCAN, &arg) < 0)
			fail("the fast path", errno);
	return now_ns() - begun;
}

static uint64_t by_pagemap(struct bench *b)
{
	static uint64_t entries[8192];
	uint64_t begun = now_ns(), written = 0;

	for (uint64_t i = 0; i < b->pages;) {
		ssize_t n = pread(b->pagemap, entries, sizeof(entries),
				  (off_t)((b->start / PAGE + i) * 8));

		if (n <= 0)
			fail("pagemap", errno);
		for (ssize_t k = 0; k < n / 8; k++)
			written += entries[k] & UAPI_PM_PRESENT && !(entries[k] & UAPI_PM_UFFD_WP);
		i += (uint64_t)n / 8;
	}
	return written + 1 ? now_ns() - begun : 0;
}

static uint64_t by_us(struct bench *b)
{
	int rc = track_interval(&b->track);

	if (rc)
		fail("our scan", -rc);
	return b->track.scan_cpu_ns;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double median_us(uint64_t *v)
{
	uint64_t middle_ns;

	qsort(v, REPS, sizeof(*v), compare);
	middle_ns = v[REPS / 2];
	return (double)middle_ns / 1000;
}

/* ---- the table ------------------------------------------------------------------------- */

/* Targets hold for 1 GiB and more: below, system calls weigh too much. */
static int judge(const struct bench *b, const struct pattern *p, double seed, double fast,
		 double ours)
{
	double least = p->run == 1 ? 6 : 10, most = p->run == 1 ? 2.5 : 1.5;
	int missed = 0;

	if (b->pages * PAGE < 1ul << 30)
		return 0;
	if (p->share == 0.001 && seed / ours < least)
		missed |= printf("  MISSED: %.1fx the seed's filter, not %.0fx\n", seed / ours,
				 least);
	if (p->share == 0.001 && ours / fast > most)
		missed |=
			printf("  MISSED: %.2f times the fast path, not %.1f\n", ours / fast, most);
	if (ours / seed > 1.15)
		missed |= printf("  MISSED: %.2f times the seed's filter, not 1.15\n", ours / seed);
	return missed != 0;
}

static int run_pattern(struct bench *b, size_t which)
{
	const struct pattern *p = &patterns[which];
	uint64_t seed[REPS], fast[REPS], map[REPS], ours[REPS];
	double s, f, m, o;

	for (int i = 0; i < WARM; i++) {
		child_dirty(b, which);
		by_us(b);
	}
	for (int i = 0; i < REPS; i++) {
		child_dirty(b, which);
		fast[i] = by_fast_path(b);
		map[i] = by_pagemap(b);
		seed[i] = by_seed(b);
		child_dirty(b, which);
		ours[i] = by_us(b);
	}
	s = median_us(seed);
	f = median_us(fast);
	m = median_us(map);
	o = median_us(ours);
	printf("%6lu %6.1f%% %-18s %10.0f %10.0f %10.0f %10.0f %8.1f %8.2f\n",
	       b->pages * PAGE >> 20, p->share * 100, p->name, o, s, f, m, s / o, o / f);
	fflush(stdout);
	return judge(b, p, s, f, o);
}

/* A small child's registration and scan, with @bytes reserved beside */
static void with_reserve(size_t bytes, double *registered_us, double *scan_us)
{
	struct bench *b = calloc(1, sizeof(*b));
	uint64_t ours[REPS];

	if (!b)
		fail("arena", ENOMEM);
	reserved = bytes;
	child_start(b, 256);
	reserved = 0;
	for (int i = 0; i < WARM + REPS; i++) {
		child_dirty(b, 0);
		ours[i % REPS] = by_us(b);
	}
	*registered_us = (double)b->registered_ns / 1000;
	*scan_us = median_us(ours);
	child_end(b);
	free(b);
}

static int run_arena(void)
{
	double registered[2], scan[2], more;

	with_reserve(0, &registered[0], &scan[0]);
	with_reserve(ARENA_BYTES, &registered[1], &scan[1]);
	more = scan[1] - scan[0];
	printf("%lu GiB reserved beside 1 MiB: registration %.0f us, %.0f without; a scan %.0f us, "
	       "%.0f without; target: at most %d more: %s\n",
	       ARENA_BYTES >> 30, registered[1], registered[0], scan[1], scan[0], ARENA_MOST_US,
	       more <= ARENA_MOST_US ? "met" : "MISSED");
	return more > ARENA_MOST_US;
}

static bool fits(size_t mib)
{
	return sysconf(_SC_AVPHYS_PAGES) / 256 > (long)(mib + mib / 4);
}

static int run_size(size_t mib)
{
	struct bench *b = calloc(1, sizeof(*b));
	int missed = 0;

	if (!b)
		fail("memory", ENOMEM);
	child_start(b, mib * 256);
	for (size_t k = 0; k < sizeof(patterns) / sizeof(*patterns); k++)
		missed |= run_pattern(b, k);
	child_end(b);
	free(b);
	return missed;
}

int main(int argc, char **argv)
{
	int missed = 0;

	printf("us, medians of %d\n", REPS);
	printf("%6s %7s %-18s %10s %10s %10s %10s %8s %8s\n", "MiB", "written", "", "ours",
	       "filter", "fast path", "pagemap", "gain", "/fast");
	for (int i = 1; i < argc; i++) {
		size_t mib = strtoul(argv[i], NULL, 10);

		if (mib < 1 || mib > 1u << 20) {
			fprintf(stderr, "usage: scan [MIB...]\n");
			return 2;
		}
		missed |= run_size(mib);
	}
	if (argc > 1)
		return missed;
	missed |= run_size(64);
	missed |= run_size(1024);
	if (fits(LARGE_MIB))
		missed |= run_size(LARGE_MIB);
	else
		printf("%6d left out: not so much memory is free\n", LARGE_MIB);
	return missed | run_arena();
}
