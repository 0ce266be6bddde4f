/*
 * track.c - following the memory of a process, interval by interval.
 *
 * Theory of operation
 *
 * At each interval the mappings are read again and compared with those of the
 * interval before. What is not known to be registered is registered first, and
 * only then is everything scanned. So memory that is new needs no care of its
 * own: its pages are not armed, read written, and are reported and armed by the
 * same step as all others. Nothing is ever armed unread.
 *
 * Pages of memory that is not registered may be armed nevertheless, and a write
 * does not change that: an mremap of memory never touched comes to it. Where it
 * lands beside a registered VMA the kernel merges the two and then takes the
 * context from the whole (seen on 6.18); older kernels leave the pages of any
 * moved memory armed. Such pages would not be seen written any more. So what is
 * registered is disarmed first, and a VMA that should be registered and is not
 * counts as new, with all it holds.
 *
 *	event			what the kernel does		what we see
 *	mmap, brk, mremap away	a VMA without our context	a range not covered
 *				beside or apart			before: registered
 *	grown stack		the registered VMA grows	range not covered:
 *								registered, no effect
 *	munmap, shrunk		-				gone from the list
 *	mprotect		splits, merges; stays armed	covered before
 *	munmap, then mmap at	a VMA without our context	covered before: the
 *	the same place						scan answers EPERM
 *	fork			the child is not registered	nothing
 *
 * All private memory is followed, also what is read-only now: what was written
 * before it became so, or in a moment in which it was not, must be found. Only
 * of a file mapped read-only this would cost too much. It is tracked when it
 * was tracked before or holds private pages (these were written), otherwise it
 * is remembered as idle and looked at again when it changes and every
 * TRACK_COUNT_AGE intervals. So a page of a file that is made writable, written
 * and made read-only again between two scans may be found that much later.
 *
 * A part that memory has grown by is a VMA of its own until it is registered.
 * The kernel then merges it with its neighbour, unless it was written before:
 * pages of both have their own anon_vma by then, and the VMAs stay two for ever,
 * one more for each interval in which that memory grew. So that a heap that
 * grows is one VMA in our result, we join them here, and keep them joined; and
 * lest the target runs out of VMAs by us, new memory is left alone once it has
 * three quarters of those it may have.
 *
 * Races. The target runs on. A mapping that changes after the list was read is
 * met by the next interval: unregistered memory is skipped by every step that
 * arms, so its pages stay written.
 *
 * When the profiler dies at any point, the kernel closes its descriptor, which
 * unregisters everything.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sample.h"
#include "track.h"

#define TRACK_SINGLE_MIN  1024u /* pages */
#define TRACK_RETRIES_MAX 6u
#define TRACK_STACKS_AGE  3u /* intervals between two looks, at least */

static uint64_t track_now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t area_pages(const struct track *t, const struct area *a)
{
	return (a->end - a->start) >> t->scan.page_shift;
}

/* ---- the list ------------------------------------------------------------- */

static int areas_name(struct areas *areas, const char *name, size_t *at)
{
	size_t len = strlen(name) + 1;

	if (!*name && areas->names_len) {
		*at = 0;
		return 0;
	}
	if (areas->names_cap - areas->names_len < len + 1) {
		size_t cap = 2 * areas->names_cap + len + 4096;
		char *names = realloc(areas->names, cap);

		if (!names)
			return -ENOMEM;
		areas->names = names;
		areas->names_cap = cap;
	}
	if (!areas->names_len)
		areas->names[areas->names_len++] = '\0'; /* offset 0: "" */
	*at = *name ? areas->names_len : 0;
	memcpy(areas->names + areas->names_len, name, len);
	areas->names_len += *name ? len : 0;
	return 0;
}

static int areas_add(struct areas *areas, const struct area *a)
{
	if (areas->n == areas->cap) {
		size_t cap = areas->cap ? 2 * areas->cap : 64;
		struct area *v = realloc(areas->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		areas->v = v;
		areas->cap = cap;
	}
	areas->v[areas->n++] = *a;
	return 0;
}

static void areas_free(struct areas *areas)
{
	free(areas->v);
	free(areas->names);
	memset(areas, 0, sizeof(*areas));
}

/* Read the mappings into now; what was now becomes before. */
static int track_read(struct track *t)
{
	struct areas old = t->before;
	struct maps_entry e;
	bool apart = true;
	int rc;

	t->before = t->now;
	t->now = old;
	t->now.n = t->now.names_len = 0;
	t->shared_bytes = 0;
	t->n_maps = 0;
	rc = maps_rewind(t->maps);
	while (!rc && (rc = maps_next(t->maps, &e)) > 0) {
		struct area a = {
			.start = e.start,
			.end = e.end,
			.perms = e.flags,
			.type = e.type,
			.state = apart ? AREA_APART : 0,
		};

		rc = 0;
		t->n_maps++;
		apart = e.flags & MAPS_SHARED || e.type == WPROF_VDSO;
		if (e.flags & MAPS_SHARED && e.flags & MAPS_WRITE)
			t->shared_bytes += e.end - e.start;
		if (apart)
			continue;
		rc = areas_name(&t->now, e.name, &a.name) ?: areas_add(&t->now, &a);
	}
	return rc ?: t->now.n ? 0 : -ESRCH;
}

/* ---- comparing ------------------------------------------------------------ */

/* What an area knows from the one before that lies in the same memory */
static void area_inherit(struct area *a, const struct area *old, uint64_t shared)
{
	a->state |= old->state & AREA_SINGLE;
	a->old_start = old->start;
	a->old_end = old->end;
	a->populated += (uint64_t)((double)old->populated * (double)shared /
				   (double)(old->end - old->start));
	if (!a->counted_at || old->counted_at < a->counted_at)
		a->counted_at = old->counted_at;
	a->retry_in = old->retry_in;
	a->retries = old->retries;
}

/* A VMA of which a part is known: when it is not registered, all of it is new. */
static void track_covered(struct track *t, struct area *a, bool same, uint64_t covered)
{
	a->flags |= same ? 0 : WPROF_VMA_CHANGED;
	if (covered == a->end - a->start || scan_registered(&t->scan, a->start, a->end) == 1)
		return;
	a->state |= AREA_FRESH | AREA_REPLACED;
	a->flags = WPROF_VMA_NEW;
}

/*
 * New memory. Registering it may keep it from being merged: is there room? What is
 * there from the beginning, or again after a pause, is taken as it is.
 */
static void track_first(struct track *t, struct area *a)
{
	a->flags |= WPROF_VMA_NEW;
	if (t->before.n && t->n_maps > t->max_maps / 4 * 3) {
		a->state |= AREA_REFUSED;
		t->limit_bytes += a->end - a->start;
	}
}

/*
 * Compare a with the areas before that overlap it, from *k on. How much of it
 * was tracked says what it is; a part that was not is new.
 */
static void track_compare(struct track *t, struct area *a, size_t *k)
{
	uint64_t covered = 0;
	bool same = false, idle = false, refused = false, busy = false;

	while (*k < t->before.n && t->before.v[*k].end <= a->start)
		++*k;
	for (size_t i = *k; i < t->before.n && t->before.v[i].start < a->end; i++) {
		const struct area *old = &t->before.v[i];
		uint64_t start = old->start > a->start ? old->start : a->start;
		uint64_t end = old->end < a->end ? old->end : a->end;
		bool equal = old->start == a->start && old->end == a->end;

		same |= equal;
		idle |= equal && old->state & AREA_IDLE && old->perms == a->perms;
		refused |= equal && old->state & AREA_REFUSED;
		busy |= equal && old->flags & WPROF_VMA_BUSY;
		if (area_tracked(old)) {
			covered += end - start;
			area_inherit(a, old, end - start);
		}
	}
	if (covered)
		track_covered(t, a, same, covered);
	else if (refused && t->n_maps <= t->max_maps / 4 * 3 && t->number % TRACK_COUNT_AGE)
		a->state |= AREA_REFUSED;
	else if (idle && t->number % TRACK_COUNT_AGE)
		a->state |= AREA_IDLE;
	else if (!busy)
		track_first(t, a);
	if (!covered && !(a->state & (AREA_IDLE | AREA_REFUSED)))
		a->state |= AREA_FRESH;
}

/* A read-only file mapping never met before: has it pages of its own? */
static void track_look(struct track *t, struct area *a)
{
	if (a->flags & WPROF_VMA_NEW && !(a->perms & MAPS_WRITE) &&
	    (a->type == WPROF_CODE || a->type == WPROF_DATA) &&
	    scan_any(&t->scan, a->start, a->end) == 0) {
		a->flags = 0;
		a->state = (a->state & AREA_APART) | AREA_IDLE;
	}
}

/*
 * Anonymous neighbours that are one area to us: one of them is what the other
 * has grown by, now or at an earlier interval.
 */
static bool track_joins(const struct track *t, const struct area *a, const struct area *b)
{
	if (a->end != b->start || a->perms != b->perms || a->type != b->type ||
	    (a->state | b->state) & (AREA_IDLE | AREA_REFUSED | AREA_REPLACED) ||
	    (a->flags | b->flags) & WPROF_VMA_BUSY)
		return false;
	if (a->type != WPROF_HEAP && a->type != WPROF_ANONYMOUS)
		return false;
	if (!((a->flags ^ b->flags) & WPROF_VMA_NEW) &&
	    !(a->old_end > b->start && a->old_end == b->old_end && a->old_start == b->old_start))
		return false;
	return !strcmp(area_name(&t->now, a), area_name(&t->now, b));
}

static void area_join(struct area *a, const struct area *b)
{
	const struct area *known = a->flags & WPROF_VMA_NEW ? b : a;
	bool grown = (a->flags ^ b->flags) & WPROF_VMA_NEW;
	struct area joined = *known;

	joined.start = a->start;
	joined.end = b->end;
	joined.state |= (a->state & AREA_APART) | AREA_JOINED;
	joined.populated = a->populated + b->populated;
	joined.flags = WPROF_VMA_CHANGED;
	if (!grown && joined.start == joined.old_start && joined.end == joined.old_end)
		joined.flags = 0;
	*a = joined;
}

static void track_compare_all(struct track *t)
{
	size_t k = 0;

	t->limit_bytes = 0;
	for (size_t i = 0; i < t->now.n; i++) {
		struct area *a = &t->now.v[i];

		track_compare(t, a, &k);
		track_look(t, a);
		if (a->state & (AREA_IDLE | AREA_REFUSED) && i + 1 < t->now.n)
			a[1].state |= AREA_APART;
	}
}

/* What is not tracked parts the areas around it; what belongs together is joined. */
static void track_join(struct track *t)
{
	size_t n = 0;

	t->busy_bytes = 0;
	for (size_t i = 0; i < t->now.n; i++) {
		struct area a = t->now.v[i];

		if (a.flags & WPROF_VMA_BUSY)
			t->busy_bytes += a.end - a.start;
		if (!area_tracked(&a) && i + 1 < t->now.n)
			t->now.v[i + 1].state |= AREA_APART;
		if (n && !(a.state & AREA_APART) && track_joins(t, &t->now.v[n - 1], &a))
			area_join(&t->now.v[n - 1], &a);
		else
			t->now.v[n++] = a;
	}
	t->now.n = n;
}

/* The area that holds an address, or NULL */
static struct area *track_find(struct track *t, uint64_t addr)
{
	size_t low = 0, high = t->now.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (t->now.v[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < t->now.n && t->now.v[low].start <= addr ? &t->now.v[low] : NULL;
}

/* Anonymous memory that a thread's stack pointer points to takes its name. */
static int track_stacks(struct track *t)
{
	uint64_t age = t->number - t->threads.looked_at;
	bool fresh = false;
	char name[32];
	int rc = 0;

	for (size_t i = 0; i < t->now.n && age >= TRACK_STACKS_AGE && !fresh; i++)
		fresh = t->now.v[i].flags & WPROF_VMA_NEW && t->now.v[i].type == WPROF_ANONYMOUS;
	if (!t->number || fresh || age >= TRACK_COUNT_AGE)
		threads_look(&t->threads, t->pid, t->number);
	for (size_t i = 0; i < t->threads.n && !rc; i++) {
		struct area *a = track_find(t, t->threads.v[i].sp);

		if (!a || a->type != WPROF_ANONYMOUS || !(a->perms & MAPS_WRITE))
			continue;
		snprintf(name, sizeof(name), "[stack:%d]", (int)t->threads.v[i].tid);
		rc = areas_name(&t->now, name, &a->name);
		a->type = WPROF_STACK;
	}
	return rc;
}

/* @rival: as for arm_register() */
static int track_follow(struct track *t, struct scan *rival)
{
	int rc = track_read(t);

	if (rc)
		return rc;
	track_compare_all(t);
	rc = arm_register(t->uffd, t->now.v, t->now.n, rival);
	track_join(t);
	return rc ?: track_stacks(t);
}

/* ---- scanning -------------------------------------------------------------- */

int track_filter(struct track *t, const struct area *a, uint64_t pos, uint64_t end, bool rearm,
		 uint64_t *n_pages)
{
	int rc;

	t->runs.border = a->start;
	while ((rc = scan_filter(&t->scan, SCAN_WRITTEN, rearm, &pos, end, &t->runs, n_pages)) ==
	       SCAN_FULL)
		if ((rc = runs_grow(&t->runs)))
			break;
	return rc;
}

static int track_new(struct track *t, struct area *a, uint64_t pos)
{
	if (!area_tracked(a))
		return 0;
	return track_filter(t, a, pos > a->start ? pos : a->start, a->end, true, &a->written);
}

/*
 * Several VMAs, one of which is not registered: which one only the mappings
 * tell. What is read of them may be a little newer than the list.
 */
static int track_joined(struct track *t, struct area *a, uint64_t pos)
{
	struct maps_entry e;
	int rc = maps_rewind(t->maps);

	while (!rc && (rc = maps_next(t->maps, &e)) > 0) {
		struct area part = {
			.start = e.start > a->start ? e.start : a->start,
			.end = e.end < a->end ? e.end : a->end,
			.state = AREA_FRESH,
		};

		rc = part.start < part.end ? scan_registered(&t->scan, part.start, part.end) : 1;
		if (!rc)
			rc = arm_register(t->uffd, &part, 1, NULL);
		if (rc < 0)
			return rc;
		rc = 0;
		if (e.start >= a->end)
			break;
	}
	a->flags = WPROF_VMA_CHANGED;
	return rc < 0 ? rc : track_new(t, a, pos);
}

/* The memory at these addresses is not what was registered: do it now. */
static int track_replaced(struct track *t, struct area *a)
{
	int rc;

	if (a->state & AREA_JOINED)
		return 0;
	a->state |= AREA_FRESH | AREA_REPLACED;
	a->flags = WPROF_VMA_NEW;
	rc = arm_register(t->uffd, a, 1, NULL);
	return rc;
}

/* An area that is not, or not all, registered, from pos on */
static int track_again(struct track *t, struct area *a, uint64_t pos)
{
	int rc = track_replaced(t, a);

	if (rc)
		return rc;
	return a->state & AREA_JOINED ? track_joined(t, a, pos) : track_new(t, a, pos);
}

int track_check(struct track *t, struct area *a)
{
	int rc = scan_registered(&t->scan, a->start, a->end);

	if (rc)
		return rc;
	rc = track_again(t, a, a->start);
	return rc;
}

static int track_single(struct track *t, struct area *a)
{
	int rc = track_check(t, a);

	return rc > 0 ? track_filter(t, a, a->start, a->end, true, &a->written) : rc;
}

/* Something between pos and the end is not registered: area by area then */
static int track_rest(struct track *t, struct area *areas, size_t n, uint64_t pos)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc >= 0; i++) {
		struct area *a = &areas[i];

		if (a->end <= pos)
			continue;
		rc = scan_registered(&t->scan, a->start, a->end);
		if (!rc)
			rc = track_again(t, a, pos);
		else if (rc > 0)
			rc = track_new(t, a, pos);
	}
	return rc;
}

/* n areas from pos on, which lies in the first */
static int track_span(struct track *t, struct area *areas, size_t n, uint64_t pos)
{
	int rc;

	while ((rc = scan_span(&t->scan, areas, n, &pos, &t->runs)) == SCAN_FULL)
		if ((rc = runs_grow(&t->runs)))
			return rc;
	return rc == -EPERM ? track_rest(t, areas, n, pos) : rc;
}

int track_part(struct track *t, struct area *a, uint64_t start, uint64_t end)
{
	struct area part = { .start = a->start, .end = end };
	int rc = start < end ? track_span(t, &part, 1, start) : 0;

	a->written += part.written;
	return rc;
}

static bool track_is_new(const struct area *a)
{
	return a->flags & WPROF_VMA_NEW || a->state & AREA_REPLACED;
}

/* How many areas from the first on one span can take. */
static size_t track_span_length(const struct track *t, const struct area *areas, size_t n)
{
	size_t k = 1;

	while (k < n && area_tracked(&areas[k]) && !(areas[k].state & (AREA_SINGLE | AREA_APART)) &&
	       !sample_has(t->sample, &areas[k]))
		k++;
	return k;
}

static void track_forced(struct track *t)
{
	for (size_t i = 0; i < t->now.n; i++) {
		t->now.v[i].state &= ~(uint32_t)AREA_SINGLE;
		t->now.v[i].state |= t->way == TRACK_ONE_FILTER ? AREA_SINGLE : 0;
	}
}

static int track_scan(struct track *t)
{
	size_t k = 1;
	int rc = 0;

	if (t->way != TRACK_CHOOSE)
		track_forced(t);
	for (size_t i = 0; i < t->now.n && !rc; i += k) {
		struct area *a = &t->now.v[i];

		k = 1;
		if (!area_tracked(a))
			continue;
		if (sample_has(t->sample, a)) {
			rc = sample_scan(t->sample, t, a);
		} else if (a->state & AREA_SINGLE) {
			rc = track_single(t, a);
		} else {
			k = track_span_length(t, a, t->now.n - i);
			rc = track_span(t, a, k, a->start);
		}
	}
	return rc;
}

/* ---- after the scan --------------------------------------------------------- */

/*
 * Two phases tell how many pages exist: those that are armed, and the written
 * ones. Where they do not, a count is kept for TRACK_COUNT_AGE intervals.
 */
static int track_populated(struct track *t, struct area *a)
{
	bool two_phases = !(a->state & AREA_SINGLE) && !sample_has(t->sample, a);
	uint64_t pages = area_pages(t, a);
	int64_t n;

	if (track_is_new(a)) {
		a->populated = a->written;
		a->counted_at = t->number;
		return 0;
	}
	if (two_phases && t->holes_written && a->candidates <= pages) {
		a->populated = pages - a->candidates + a->written;
		a->counted_at = t->number;
		return 0;
	}
	if (a->populated < a->written)
		a->populated = a->written;
	if (!a->written || (a->counted_at && t->number - a->counted_at < TRACK_COUNT_AGE))
		return 0;
	n = scan_count(&t->scan, SCAN_POPULATED, a->start, a->end);
	if (n < 0)
		return (int)n;
	a->populated = (uint64_t)n > a->written ? (uint64_t)n : a->written;
	a->counted_at = t->number;
	return 0;
}

/*
 * Is one filter cheaper at the next interval? What phase 2 walks costs the
 * same there, a call as much as gap_pages, and phase 1 a tenth of all pages.
 * Whether two phases would pay again is only known by trying, ever more seldom.
 */
static void track_choose(const struct track *t, struct area *a)
{
	uint64_t pages = area_pages(t, a);

	if (!(a->state & AREA_SINGLE)) {
		uint64_t cost = a->walked + a->n_groups * t->scan.gap_pages;

		if (pages < TRACK_SINGLE_MIN || cost * 10 < pages * 9) {
			a->retries = 0;
			return;
		}
		a->state |= AREA_SINGLE;
		a->retry_in = 1u << a->retries;
		a->retries += a->retries < TRACK_RETRIES_MAX;
	} else if (a->written * 2 < pages && !--a->retry_in) {
		a->state &= ~(uint32_t)AREA_SINGLE;
	} else if (!a->retry_in) {
		a->retry_in = 1;
	}
}

static int track_settle(struct track *t)
{
	int rc = 0;

	t->first_written = 0;
	for (size_t i = 0; i < t->now.n && !rc; i++) {
		struct area *a = &t->now.v[i];

		if (!area_tracked(a))
			continue;
		if (a->flags & WPROF_VMA_NEW)
			t->first_written += a->written;
		rc = track_populated(t, a);
		if (!track_is_new(a) && !sample_has(t->sample, a))
			track_choose(t, a);
	}
	return rc;
}

/* Out of memory: ours, or is there none of the target's left? */
static int track_error(struct track *t, int rc)
{
	struct maps_entry e;

	if (rc != -ENOMEM)
		return rc;
	return maps_rewind(t->maps) || maps_next(t->maps, &e) <= 0 ? -ESRCH : rc;
}

int track_interval(struct track *t)
{
	uint64_t begun, begun_cpu;
	int rc;

	t->number++;
	t->runs.n = 0;
	t->scan.counted_to = 0;
	t->scan.n_calls = 0;
	rc = track_follow(t, NULL);
	begun = track_now_ns(CLOCK_MONOTONIC);
	begun_cpu = track_now_ns(CLOCK_THREAD_CPUTIME_ID);
	if (!rc)
		rc = track_scan(t);
	t->scan_ns = track_now_ns(CLOCK_MONOTONIC) - begun;
	t->scan_cpu_ns = track_now_ns(CLOCK_THREAD_CPUTIME_ID) - begun_cpu;
	t->n_calls = t->scan.n_calls;
	if (!rc)
		rc = track_settle(t);
	return track_error(t, rc);
}

/* ---- begin and end ------------------------------------------------------------ */

static size_t track_max_maps(void)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned long n = 65530;

	if (f) {
		if (fscanf(f, "%lu", &n) != 1)
			n = 65530;
		fclose(f);
	}
	return n;
}

int track_open(struct track *t, pid_t pid)
{
	int rc;

	memset(t, 0, sizeof(*t));
	t->pid = pid;
	t->uffd = -1;
	t->max_maps = track_max_maps();
	rc = scan_open(pid, &t->scan);
	if (rc)
		return rc;
	rc = maps_open(pid, &t->maps);
	if (rc)
		scan_close(&t->scan);
	return rc;
}

void track_close(struct track *t)
{
	scan_close(&t->scan);
	maps_close(t->maps);
	areas_free(&t->now);
	areas_free(&t->before);
	threads_close(&t->threads);
	free(t->runs.v);
	memset(&t->runs, 0, sizeof(t->runs));
	t->maps = NULL;
}

int track_start(struct track *t)
{
	int rc;

	t->now.n = t->before.n = 0;
	rc = t->runs.v ? 0 : runs_grow(&t->runs);
	if (!rc)
		rc = track_follow(t, t->tracks_itself ? NULL : &t->scan);
	if (!rc)
		rc = arm_baseline(&t->scan, t->now.v, t->now.n);
	for (size_t i = 0; i < t->now.n && !rc; i++)
		t->now.v[i].counted_at = t->number;
	if (!rc)
		rc = arm_verify(&t->scan, t->now.v, t->now.n);
	if (rc)
		track_stop(t);
	return track_error(t, rc);
}

static bool area_is_ours(const struct area *a)
{
	return area_tracked(a) && !(a->state & AREA_FRESH);
}

/*
 * Have we registered any of it? As for arm_unregister(): only then it is undone, since
 * older kernels let any userfaultfd unregister the memory of another one.
 */
static bool track_is_ours(const struct track *t, uint64_t start, uint64_t end, size_t *k)
{
	while (*k < t->now.n && t->now.v[*k].end <= start)
		++*k;
	for (size_t i = *k; i < t->now.n && t->now.v[i].start < end; i++)
		if (area_is_ours(&t->now.v[i]))
			return true;
	return false;
}

/*
 * A VMA is registered as a whole, and a stack takes it along as it grows: so what is
 * undone are the mappings of now that hold something of ours, not the areas of the
 * interval before. Where they cannot be read it is these, or the end of the process.
 */
void track_stop(struct track *t)
{
	struct maps_entry e;
	size_t k = 0;
	int rc = maps_rewind(t->maps);

	while (!rc && (rc = maps_next(t->maps, &e)) > 0) {
		rc = 0;
		if (!(e.flags & MAPS_SHARED) && track_is_ours(t, e.start, e.end, &k))
			arm_unregister(t->uffd, e.start, e.end);
	}
	for (k = 0; k < t->now.n && rc; k++)
		if (area_is_ours(&t->now.v[k]))
			arm_unregister(t->uffd, t->now.v[k].start, t->now.v[k].end);
}
