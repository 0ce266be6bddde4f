/*
 * scan.c - which pages were written, and arming them again.
 *
 * Theory of operation
 *
 * A page of a registered VMA is armed when its uffd-wp bit is set; the first
 * write clears the bit. PAGE_IS_WRITTEN is the inverse of that bit, so a page
 * that was never armed, and on newer kernels a page that does not exist, reads
 * written too. What we report are data pages that are written: present or
 * swapped, neither the zero page nor a page of a file. The filter that finds
 * them costs about 45 ns a page, written or not. The kernel has a fast path of
 * 3 to 4 ns a page, taken only when all that is asked for is PAGE_IS_WRITTEN.
 *
 *	phase 1  fast path, reads only: runs of candidates
 *	phase 2  the filter with PM_SCAN_WP_MATCHING over the candidates
 *
 * Invariants
 *
 * - Phase 1 never arms. The fast path with PM_SCAN_WP_MATCHING would put
 *   markers on pages that do not exist, and a later CRIU dump would write each
 *   of them as a page of zeros. Every arming scan therefore asks for present
 *   or swapped pages.
 * - A page is armed by the very step that reports it: the kernel does both
 *   under the page table lock. A write after that step sets the page written
 *   again for the next scan, a write before it is in this one, and a page that
 *   becomes written between the phases is no candidate: it stays written and
 *   is found at the next scan. So nothing is lost and nothing is counted twice
 *   without a second write.
 * - What did not fit into the result is not armed. walk_end says where the
 *   kernel stopped, and the scan goes on from there. That holds only up to
 *   SCAN_VEC regions: for more the kernel fills a buffer of its own several
 *   times and reports where it was first full, so that pages would be met
 *   twice (seen on 6.18: 600 regions, walk_end behind the 512th).
 * - Phase 1 asks for PM_SCAN_CHECK_WPASYNC. Memory that is not registered makes
 *   it fail before anything was armed; phase 2 does not ask, as the kernel
 *   would fail midway and forget to tell what it had armed. There,
 *   unregistered memory is skipped and met again at the next interval.
 *
 * Costs. A system call costs as much as about 40 filtered pages, so candidates
 * with smaller gaps between them become one call of phase 2, over the borders
 * of VMAs that touch too. Where most pages are candidates phase 1 is wasted; the
 * caller then uses the filter alone.
 * Nothing on this path allocates: when the runs have no room for another
 * batch, the scan returns SCAN_FULL and is called again from where it stopped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "scan.h"

#define SCAN_GAP_PAGES 40u
/* A group of candidates reaches over so many borders of areas at most. */
#define SCAN_BORDERS   256u
#define NOT_DATA       (UAPI_PAGE_IS_PFNZERO | UAPI_PAGE_IS_FILE)

int scan_open(pid_t pid, struct scan *s)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	s->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0)
		return -errno;
	s->page_shift = (unsigned int)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
	s->vec_len = SCAN_VEC;
	s->gap_pages = SCAN_GAP_PAGES;
	s->n_calls = 0;
	return 0;
}

void scan_close(struct scan *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static void runs_add(struct runs *runs, uint64_t start, uint64_t n_pages, unsigned int page_shift)
{
	struct wprof_run *last = runs->n ? &runs->v[runs->n - 1] : NULL;

	if (last && start != runs->border && last->start + (last->n_pages << page_shift) == start) {
		last->n_pages += n_pages;
		return;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the caller made room */
	runs->v[runs->n++] = (struct wprof_run){ start, n_pages };
}

/* The number of regions in vec; arg->walk_end is set to where it stopped. */
static int scan_call(struct scan *s, struct uapi_pm_scan_arg *arg)
{
	int n;

	arg->size = sizeof(*arg);
	arg->walk_end = 0;
	s->n_calls++;
	n = ioctl(s->fd, UAPI_PAGEMAP_SCAN, arg);
	if (n < 0)
		return -errno;
	/* memory that is gone: an error on some kernels, on others just nothing */
	return arg->walk_end > arg->start || arg->start == arg->end ? n : -ESRCH;
}

static int scan_candidates(struct scan *s, uint64_t start, uint64_t end, uint64_t *walk_end)
{
	struct uapi_pm_scan_arg arg = {
		.flags = UAPI_PM_SCAN_CHECK_WPASYNC,
		.start = start,
		.end = end,
		.vec = (uintptr_t)s->cand,
		.vec_len = s->vec_len,
		.category_mask = UAPI_PAGE_IS_WRITTEN,
		.return_mask = UAPI_PAGE_IS_WRITTEN,
	};
	int n = scan_call(s, &arg);

	*walk_end = arg.walk_end;
	return n;
}

static struct uapi_pm_scan_arg scan_arg(enum scan_what what, bool rearm)
{
	static const uint64_t wanted[] = {
		[SCAN_WRITTEN] = UAPI_PAGE_IS_WRITTEN,
		[SCAN_POPULATED] = 0,
		[SCAN_SOFT_DIRTY] = UAPI_PAGE_IS_SOFT_DIRTY,
		[SCAN_HUGE] = UAPI_PAGE_IS_HUGE,
	};

	return (struct uapi_pm_scan_arg){
		.flags = rearm ? UAPI_PM_SCAN_WP_MATCHING : 0,
		.category_inverted = NOT_DATA,
		.category_mask = NOT_DATA | wanted[what],
		.category_anyof_mask = UAPI_PAGE_IS_PRESENT | UAPI_PAGE_IS_SWAPPED,
	};
}

int scan_filter(struct scan *s, enum scan_what what, bool rearm, uint64_t *pos, uint64_t end,
		struct runs *runs, uint64_t *n_pages)
{
	struct uapi_pm_scan_arg arg = scan_arg(what, rearm);

	arg.end = end;
	arg.vec = (uintptr_t)s->hit;
	arg.vec_len = s->vec_len;
	while (*pos < end) {
		int n;

		if (runs && runs->cap - runs->n < s->vec_len)
			return SCAN_FULL;
		arg.start = *pos;
		n = scan_call(s, &arg);
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			uint64_t pages = (s->hit[i].end - s->hit[i].start) >> s->page_shift;

			*n_pages += pages;
			if (runs)
				runs_add(runs, s->hit[i].start, pages, s->page_shift);
		}
		*pos = arg.walk_end;
	}
	return 0;
}

int64_t scan_count(struct scan *s, enum scan_what what, uint64_t start, uint64_t end)
{
	uint64_t n_pages = 0;
	int rc = scan_filter(s, what, false, &start, end, NULL, &n_pages);

	return rc < 0 ? rc : (int64_t)n_pages;
}

/*
 * Asks for pages that cannot be armed, so the kernel passes over a registered
 * VMA without looking at its pages: the cost is one step a VMA.
 */
int scan_registered(struct scan *s, uint64_t start, uint64_t end)
{
	struct uapi_pm_scan_arg arg = {
		.flags = UAPI_PM_SCAN_CHECK_WPASYNC,
		.start = start,
		.end = end,
		.vec = (uintptr_t)s->hit,
		.vec_len = 1,
		.category_inverted = UAPI_PAGE_IS_WPALLOWED,
		.category_mask = UAPI_PAGE_IS_WPALLOWED,
	};
	int rc = scan_call(s, &arg);

	return rc == -EPERM ? 0 : rc < 0 ? rc : 1;
}

/* VMAs that are not registered cannot match: the kernel passes over them. */
int scan_tracked(struct scan *s, uint64_t start, uint64_t end)
{
	struct uapi_pm_scan_arg arg = {
		.start = start,
		.end = end,
		.vec = (uintptr_t)s->hit,
		.vec_len = 1,
		.max_pages = 1,
		.category_mask = UAPI_PAGE_IS_WPALLOWED,
		.return_mask = UAPI_PAGE_IS_WPALLOWED,
	};

	return scan_call(s, &arg);
}

/* Look for one populated page. */
static struct uapi_pm_scan_arg scan_first(struct scan *s, uint64_t start, uint64_t end)
{
	struct uapi_pm_scan_arg arg = scan_arg(SCAN_POPULATED, false);

	arg.start = start;
	arg.end = end;
	arg.vec = (uintptr_t)s->hit;
	arg.vec_len = 1;
	arg.max_pages = 1;
	return arg;
}

int scan_armable(struct scan *s, uint64_t start, uint64_t end)
{
	struct uapi_pm_scan_arg arg = scan_first(s, start, end);

	arg.category_mask |= UAPI_PAGE_IS_WPALLOWED;
	arg.return_mask = UAPI_PAGE_IS_WPALLOWED;
	return scan_call(s, &arg);
}

int scan_any(struct scan *s, uint64_t start, uint64_t end)
{
	struct uapi_pm_scan_arg arg = scan_first(s, start, end);

	return scan_call(s, &arg);
}

/* The first area from k on that ends after addr */
static size_t scan_area_at(const struct area *areas, size_t n_areas, size_t k, uint64_t addr)
{
	while (k < n_areas && areas[k].end <= addr)
		k++;
	return k;
}

/* A region that phase 2 found, split where areas meet */
static void scan_hit(const struct scan *s, const struct uapi_page_region *hit, struct area *areas,
		     size_t n_areas, size_t *k, struct runs *runs)
{
	uint64_t at = hit->start;

	while (at < hit->end) {
		uint64_t end, pages;

		*k = scan_area_at(areas, n_areas, *k, at);
		if (*k == n_areas)
			return;
		end = hit->end < areas[*k].end ? hit->end : areas[*k].end;
		pages = (end - at) >> s->page_shift;
		runs->border = areas[*k].start;
		runs_add(runs, at, pages, s->page_shift);
		areas[*k].written += pages;
		at = end;
	}
}

static void scan_walked(const struct scan *s, uint64_t start, uint64_t end, struct area *areas,
			size_t n_areas, size_t k)
{
	for (; k < n_areas && areas[k].start < end; k++) {
		uint64_t from = start > areas[k].start ? start : areas[k].start;
		uint64_t to = end < areas[k].end ? end : areas[k].end;

		areas[k].walked += from < to ? (to - from) >> s->page_shift : 0;
	}
}

/* Phase 2 over [*pos, end), which begins in area k and meets few borders. */
static int scan_group(struct scan *s, uint64_t *pos, uint64_t end, struct area *areas,
		      size_t n_areas, size_t k, struct runs *runs)
{
	struct uapi_pm_scan_arg arg = scan_arg(SCAN_WRITTEN, true);

	arg.end = end;
	arg.vec = (uintptr_t)s->hit;
	arg.vec_len = s->vec_len;
	areas[k].n_groups++;
	while (*pos < end) {
		int n;

		if (runs->cap - runs->n < s->vec_len + SCAN_BORDERS)
			return SCAN_FULL;
		k = scan_area_at(areas, n_areas, k, *pos);
		arg.start = *pos;
		n = scan_call(s, &arg);
		if (n < 0)
			return n;
		scan_walked(s, *pos, arg.walk_end, areas, n_areas, k);
		for (int i = 0; i < n; i++)
			scan_hit(s, &s->hit[i], areas, n_areas, &k, runs);
		*pos = arg.walk_end;
	}
	return 0;
}

/*
 * Where the group ends that begins with candidate *i in area k: candidates with
 * small gaps between them, in areas that touch. *i is the first one after it.
 */
static uint64_t scan_group_end(const struct scan *s, int n, int *i, const struct area *areas,
			       size_t n_areas, size_t k)
{
	uint64_t gap = (uint64_t)s->gap_pages << s->page_shift, end = s->cand[*i].end;
	size_t last = k;

	/* what lies in a hole by now is left for the next interval */
	while (last + 1 < n_areas && last < k + SCAN_BORDERS &&
	       areas[last].end == areas[last + 1].start)
		last++;
	while (end < areas[last].end && *i + 1 < n && s->cand[*i + 1].start - end <= gap)
		end = s->cand[++*i].end;
	if (end <= areas[last].end)
		++*i;
	return end < areas[last].end ? end : areas[last].end;
}

/*
 * Count the candidates of each area: what is none is armed, so it exists. A
 * scan that goes on after SCAN_FULL meets some of them again.
 */
static void scan_count_candidates(struct scan *s, int n, struct area *areas, size_t n_areas,
				  size_t k)
{
	for (int i = 0; i < n; i++) {
		uint64_t at = s->cand[i].start > s->counted_to ? s->cand[i].start : s->counted_to;

		while (at < s->cand[i].end) {
			uint64_t end = s->cand[i].end;

			while (k < n_areas && areas[k].end <= at)
				k++;
			if (k == n_areas)
				break;
			if (at < areas[k].start)
				at = areas[k].start;
			if (end > areas[k].end)
				end = areas[k].end;
			if (at < end)
				areas[k].candidates += (end - at) >> s->page_shift;
			at = at < end ? end : s->cand[i].end;
		}
	}
}

/* Phase 2 over the n candidates; *k is the area reached. */
static int scan_groups(struct scan *s, int n, struct area *areas, size_t n_areas, size_t *k,
		       uint64_t *pos, struct runs *runs)
{
	for (int i = 0; i < n;) {
		uint64_t end;
		int rc;

		if (*pos < s->cand[i].start)
			*pos = s->cand[i].start;
		*k = scan_area_at(areas, n_areas, *k, *pos);
		if (*k == n_areas)
			return 0;
		if (*pos < areas[*k].start)
			*pos = areas[*k].start;
		if (*pos >= s->cand[i].end) {
			i++;
			continue;
		}
		end = scan_group_end(s, n, &i, areas, n_areas, *k);
		rc = scan_group(s, pos, end, areas, n_areas, *k, runs);
		if (rc)
			return rc;
	}
	return 0;
}

int scan_span(struct scan *s, struct area *areas, size_t n, uint64_t *pos, struct runs *runs)
{
	uint64_t end = areas[n - 1].end;
	size_t k = 0;

	while (*pos < end) {
		uint64_t walk_end;
		int rc, got;

		if (runs->cap - runs->n < s->vec_len + SCAN_BORDERS)
			return SCAN_FULL;
		got = scan_candidates(s, *pos, end, &walk_end);
		if (got < 0)
			return got;
		scan_count_candidates(s, got, areas, n, k);
		if (s->counted_to < walk_end)
			s->counted_to = walk_end;
		rc = scan_groups(s, got, areas, n, &k, pos, runs);
		if (rc)
			return rc;
		*pos = walk_end;
	}
	return 0;
}
