/*
 * sample.c - re-arming hot memory in turns instead of always.
 *
 * Theory of operation
 *
 * The first write to an armed page costs the target a fault. Memory that is
 * written all the time pays it once a page and interval, and tells us nothing
 * new. So hot memory is divided into aligned units of 2 MiB, each armed at one
 * interval in SAMPLE_TURNS, by its address: whole units, as scattered pages
 * cost several times as much, and each one in its turn, as then none is
 * forgotten. Everything else is armed always, and exact; so is memory of MAP_HUGETLB,
 * where one fault a huge page leaves nothing to save, and a page of 1 GiB cannot be
 * armed in parts.
 *
 *	armed		read at the next scan, without arming it: a measurement
 *	not armed	not scanned: counts as in its last measurement
 *	cooled		no longer hot, but not armed: armed by the next scan, which
 *			reports the last measurement once more
 *
 * Memory that becomes hot was armed by the scan that made it so, and is measured
 * once more by the next one. Every estimate is a count that was measured at most
 * SAMPLE_TURNS intervals ago; memory that stops being written is noticed no
 * later. Runs hold measured pages only. Memory that an interval does not meet is
 * forgotten: what is mapped there later is new, and read like all that is new.
 */
#include <errno.h>
#include <stdlib.h>

#include "sample.h"
#include "track.h"

struct unit {
	uint64_t start, end;
	uint64_t written;  /* when measured last */
	uint64_t measured; /* in this interval */
	bool armed, was_armed;
	bool cooled;
	bool seen; /* in this interval: there is memory */
	bool gone; /* replaced by other memory */
};

struct units {
	struct unit *v;
	size_t n, cap;
};

struct sample {
	struct units now, next;
	struct heat_estimate *estimates;
	size_t n_estimates, cap;
};

int sample_open(struct sample **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void sample_close(struct sample *s)
{
	if (!s)
		return;
	free(s->now.v);
	free(s->next.v);
	free(s->estimates);
	free(s);
}

void sample_reset(struct sample *s)
{
	if (s)
		s->now.n = s->n_estimates = 0;
}

/* The first unit that ends after addr */
static size_t sample_find(const struct sample *s, uint64_t addr)
{
	size_t low = 0, high = s->now.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->now.v[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool sample_has(const struct sample *s, const struct area *a)
{
	size_t i;

	if (!s || !s->now.n || a->perms & MAPS_HUGETLB)
		return false;
	i = sample_find(s, a->start);
	return i < s->now.n && s->now.v[i].start < a->end;
}

/* ---- the scan ------------------------------------------------------------------ */

static uint64_t share(uint64_t count, uint64_t part, uint64_t whole)
{
	return (uint64_t)((double)count * (double)part / (double)whole + 0.5);
}

/* Arm without reporting: what was written is estimated. */
static int unit_arm(struct track *t, uint64_t start, uint64_t end)
{
	uint64_t ignored = 0;

	return scan_filter(&t->scan, SCAN_POPULATED, true, &start, end, NULL, &ignored);
}

static int unit_measure(struct track *t, struct area *a, struct unit *u, uint64_t start,
			uint64_t end)
{
	uint64_t n = 0;
	int rc = track_filter(t, a, start, end, u->armed, &n);

	u->measured += n;
	a->written += n;
	return rc;
}

/* There is room for the usual; beyond it the last estimate takes more in. */
static void sample_estimate(struct sample *s, uint64_t start, uint64_t end, uint64_t n)
{
	if (s->n_estimates < s->cap) {
		s->estimates[s->n_estimates++] = (struct heat_estimate){ start, end, n };
		return;
	}
	s->estimates[s->n_estimates - 1].end = end;
	s->estimates[s->n_estimates - 1].written += n;
}

/* The part [start, end) of a unit */
static int unit_scan(struct sample *s, struct track *t, struct area *a, struct unit *u,
		     uint64_t start, uint64_t end)
{
	uint64_t n = share(u->written, end - start, u->end - u->start);

	u->seen = true;
	u->armed = u->cooled || (u->start / SAMPLE_UNIT + t->number) % SAMPLE_TURNS == 0;
	if (u->was_armed)
		return unit_measure(t, a, u, start, end);
	sample_estimate(s, start, end, n);
	a->written += n;
	return u->armed ? unit_arm(t, start, end) : 0;
}

/* Other memory now, read as new: none of it is hot */
static void sample_replaced(struct sample *s, const struct area *a)
{
	for (size_t i = sample_find(s, a->start); i < s->now.n && s->now.v[i].start < a->end; i++)
		s->now.v[i].gone = true;
}

int sample_scan(struct sample *s, struct track *t, struct area *a)
{
	uint64_t pos = a->start;
	int rc = track_check(t, a);

	if (rc < 0)
		return rc;
	if (!rc) {
		sample_replaced(s, a);
		return 0;
	}
	for (size_t i = sample_find(s, pos); i < s->now.n && s->now.v[i].start < a->end; i++) {
		struct unit *u = &s->now.v[i];
		uint64_t start = u->start > a->start ? u->start : a->start;
		uint64_t end = u->end < a->end ? u->end : a->end;

		rc = track_part(t, a, pos, start);
		if (rc >= 0)
			rc = unit_scan(s, t, a, u, start, end);
		if (rc < 0)
			return rc;
		pos = end;
	}
	return track_part(t, a, pos, a->end);
}

/* ---- the plan ------------------------------------------------------------------- */

static int sample_add(struct units *units, const struct unit *u)
{
	if (units->n == units->cap) {
		size_t cap = units->cap ? 2 * units->cap : 64;
		struct unit *v = realloc(units->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		units->v = v;
		units->cap = cap;
	}
	units->v[units->n++] = *u;
	return 0;
}

/* Written pages of the runs in [start, end); *k: the first run that may matter */
static uint64_t sample_runs(const struct runs *runs, size_t *k, uint64_t start, uint64_t end,
			    uint64_t page_bytes)
{
	uint64_t n = 0;

	while (*k < runs->n && runs->v[*k].start + runs->v[*k].n_pages * page_bytes <= start)
		++*k;
	for (size_t i = *k; i < runs->n && runs->v[i].start < end; i++) {
		uint64_t a = runs->v[i].start, b = a + runs->v[i].n_pages * page_bytes;

		n += ((b < end ? b : end) - (a > start ? a : start)) / page_bytes;
	}
	return n;
}

/* A unit that was not met lost its memory: what comes there later is other memory. */
static void unit_settle(struct unit *u)
{
	u->gone |= !u->seen;
	u->seen = false;
	if (u->was_armed)
		u->written = u->measured;
	u->measured = 0;
	u->was_armed = u->armed;
}

/* Units that are not hot any more, up to addr: the next scan has to arm them. */
static int sample_cool(struct sample *s, size_t *old, uint64_t addr)
{
	for (; *old < s->now.n && s->now.v[*old].start < addr; ++*old) {
		struct unit u = s->now.v[*old];

		if (u.gone || u.armed)
			continue;
		u.cooled = true;
		if (s->next.n && u.start < s->next.v[s->next.n - 1].end)
			u.start = s->next.v[s->next.n - 1].end;
		if (u.end > addr)
			u.end = addr;
		if (u.start < u.end && sample_add(&s->next, &u))
			return -ENOMEM;
	}
	return 0;
}

/* One unit of hot memory, known before or not */
static int sample_keep(struct sample *s, struct unit *u, size_t *old, const struct runs *runs,
		       size_t *run, uint64_t page_bytes)
{
	const struct unit *o;
	int rc = sample_cool(s, old, u->start);

	if (rc)
		return rc;
	o = *old < s->now.n ? &s->now.v[*old] : NULL;
	if (o && o->start < u->end && !o->gone) {
		u->was_armed = o->armed;
		u->written = share(o->written, u->end - u->start, o->end - o->start);
	} else {
		u->was_armed = true;
		u->written = sample_runs(runs, run, u->start, u->end, page_bytes);
	}
	u->armed = u->was_armed;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): v is there where n is not 0 */
	while (*old < s->now.n && s->now.v[*old].end <= u->end)
		++*old;
	return sample_add(&s->next, u);
}

static int sample_room(struct sample *s)
{
	/* a unit may lie in two areas by the next scan, or in a few more */
	size_t cap = 4 * s->now.n + 64;
	struct heat_estimate *v;

	if (s->cap >= 2 * s->now.n + 32)
		return 0;
	v = realloc(s->estimates, cap * sizeof(*v));
	if (!v)
		return -ENOMEM;
	s->estimates = v;
	s->cap = cap;
	return 0;
}

int sample_plan(struct sample *s, const struct heat *heat, const struct runs *runs,
		uint64_t page_bytes)
{
	size_t n, old = 0, run = 0;
	const struct heat_cell *c = heat_cells(heat, &n);
	struct units spare;
	int rc = 0;

	for (size_t i = 0; i < s->now.n; i++)
		unit_settle(&s->now.v[i]);
	s->next.n = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		uint64_t start = c[i].start, end = c[i].end;

		if (!c[i].hot)
			continue;
		while (i + 1 < n && c[i + 1].hot && c[i + 1].start == end)
			end = c[++i].end;
		while (start < end && !rc) {
			uint64_t stop = (start / SAMPLE_UNIT + 1) * SAMPLE_UNIT;
			struct unit u = { .start = start, .end = stop < end ? stop : end };

			start = u.end;
			rc = sample_keep(s, &u, &old, runs, &run, page_bytes);
		}
	}
	rc = rc ?: sample_cool(s, &old, UINT64_MAX);
	if (rc)
		return rc;
	spare = s->now;
	s->now = s->next;
	s->next = spare;
	s->n_estimates = 0;
	return sample_room(s);
}

const struct heat_estimate *sample_estimates(const struct sample *s, size_t *n)
{
	*n = s ? s->n_estimates : 0;
	return s ? s->estimates : NULL;
}

uint64_t sample_unarmed(const struct sample *s)
{
	uint64_t n = 0;

	for (size_t i = 0; s && i < s->now.n; i++)
		n += s->now.v[i].armed ? 0 : s->now.v[i].written;
	return n;
}
