/*
 * beside.c - what a session does beside tracking writes, when asked to.
 *
 * Soft-dirty is the written bit that CRIU uses. It is read for comparison and
 * not cleared: who clears it makes CRIU miss pages, so that takes a flag of its
 * own. The two bits do not disturb each other.
 *
 * The first write to an armed huge page splits it. Where huge pages were is
 * noted, and MADV_COLLAPSE makes them whole again in the end, in the ranges
 * noted and nowhere else. It needs no injection: process_madvise() takes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "beside.h"
#include "profile.h"

#define HUGE_BYTES     (2ull << 20)
#define COLLAPSE_TRIES 10

/* All of one area, into the runs */
static int beside_filter(struct track *t, enum scan_what what, uint64_t start, uint64_t end,
			 struct runs *runs, uint64_t *n_pages)
{
	int rc;

	runs->border = start;
	while ((rc = scan_filter(&t->scan, what, false, &start, end, runs, n_pages)) == SCAN_FULL)
		if ((rc = runs_grow(runs)))
			break;
	return rc;
}

/* ---- soft-dirty ----------------------------------------------------------------- */

int soft_open(struct soft *s, pid_t pid, uint32_t flags)
{
	char path[48];

	s->clear_fd = -1;
	s->on = flags & (WPROF_F_SOFT_DIRTY | WPROF_F_CLEAR_SOFT_DIRTY);
	if (!s->on)
		return 0;
	if (profile_soft_dirty() != 1)
		return -EOPNOTSUPP;
	if (!(flags & WPROF_F_CLEAR_SOFT_DIRTY))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)pid);
	s->clear_fd = open(path, O_WRONLY | O_CLOEXEC);
	return s->clear_fd < 0 ? -errno : 0;
}

int soft_interval(struct soft *s, struct track *t)
{
	int rc = 0;

	s->runs.n = 0;
	s->pages = 0;
	if (!s->on)
		return 0;
	for (size_t i = 0; i < t->now.n && !rc; i++)
		if (area_tracked(&t->now.v[i]))
			rc = beside_filter(t, SCAN_SOFT_DIRTY, t->now.v[i].start, t->now.v[i].end,
					   &s->runs, &s->pages);
	if (!rc && s->clear_fd >= 0 && pwrite(s->clear_fd, "4", 1, 0) != 1)
		rc = -errno;
	return rc;
}

void soft_close(struct soft *s)
{
	if (s->on && s->clear_fd >= 0)
		close(s->clear_fd);
	free(s->runs.v);
}

/* ---- huge pages ----------------------------------------------------------------------- */

static int huge_add(struct huge *h, unsigned int page_shift)
{
	struct wprof_range *v = malloc((h->runs.n + 1) * sizeof(*v));
	struct wprof_ranges *more = NULL;
	int rc = v ? 0 : -ENOMEM;

	for (size_t i = 0; i < h->runs.n && !rc; i++) {
		v[i].start = h->runs.v[i].start;
		v[i].end = v[i].start + (h->runs.v[i].n_pages << page_shift);
	}
	if (!rc)
		rc = wprof_ranges_new(v, h->runs.n, &more);
	if (!rc && h->seen)
		rc = wprof_ranges_unite(h->seen, more);
	if (!rc && !h->seen) {
		h->seen = more;
		more = NULL;
	}
	wprof_ranges_free(more);
	free(v);
	return rc;
}

int huge_note_all(struct huge *h, struct track *t)
{
	uint64_t n = 0;
	int rc = 0;

	h->runs.n = 0;
	for (size_t i = 0; i < t->now.n && h->on && !rc; i++)
		if (area_tracked(&t->now.v[i]) && t->now.v[i].populated >= 512)
			rc = beside_filter(t, SCAN_HUGE, t->now.v[i].start, t->now.v[i].end,
					   &h->runs, &n);
	return rc || !n ? rc : huge_add(h, t->scan.page_shift);
}

/* A huge page that was just made reads written as a whole. */
int huge_note_written(struct huge *h, struct track *t)
{
	uint64_t n = 0;
	int rc = 0;

	h->runs.n = 0;
	for (size_t i = 0; i < t->runs.n && h->on && !rc; i++) {
		const struct wprof_run *r = &t->runs.v[i];
		uint64_t end = r->start + (r->n_pages << t->scan.page_shift);

		if (end - r->start >= HUGE_BYTES)
			rc = beside_filter(t, SCAN_HUGE, r->start, end, &h->runs, &n);
	}
	return rc || !n ? rc : huge_add(h, t->scan.page_shift);
}

/*
 * One huge page. EAGAIN tells of a page that somebody else holds for the moment
 * (a batch of another processor, khugepaged, reclaim): the kernel asks to try
 * again at once. Whatever else it says stays: the memory may be gone, or no
 * huge page be free, and nothing is lost.
 */
static void collapse(int pidfd, uint64_t at)
{
	struct iovec iov = { (void *)(uintptr_t)at, HUGE_BYTES };

	for (int tries = 0; tries < COLLAPSE_TRIES; tries++)
		if (syscall(SYS_process_madvise, pidfd, &iov, 1ul, MADV_COLLAPSE, 0u) >= 0 ||
		    errno != EAGAIN)
			break;
}

void huge_give_back(struct huge *h, int pidfd)
{
	size_t n;
	const struct wprof_range *r = wprof_ranges_list(h->seen, &n);

	for (size_t i = 0; i < n; i++)
		for (uint64_t at = r[i].start; at < r[i].end; at += HUGE_BYTES)
			collapse(pidfd, at);
}

void huge_close(struct huge *h)
{
	wprof_ranges_free(h->seen);
	free(h->runs.v);
}
