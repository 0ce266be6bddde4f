/*
 * heat.c - which memory is hot.
 *
 * Theory of operation
 *
 * Memory is divided into cells: whole VMAs, or what of a VMA lies in one
 * aligned chunk. Only cells that were written within the window are kept, so a
 * reserved arena costs nothing. At each interval the list is built anew from
 * the VMAs as they are now; a cell takes over the history of the old cell it
 * overlaps most, so history survives growth, splits, merges and whatever is
 * done to the target beside (a pause, a dump). It ends with the memory: when no
 * VMA is there any more, or the VMA was replaced by another. Memory that mremap()
 * moved (a large array that grew, say) is at other addresses, and new there: it is
 * hot again as soon as it was written in enough intervals.
 *
 * Populated pages are counted for cells that were written only, and a count
 * serves HEAT_COUNT_AGE intervals; the first one of a cell serves less, so that
 * not all of them are due together.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"

#define HEAT_COUNT_AGE 10u

struct heat_list {
	struct heat_cell *v;
	size_t n, cap;
};

struct heat {
	struct heat_params params;
	const struct heat_rule *rule;
	struct heat_list now, before;
	bool *taken; /* of before: history went to a cell of now */
	size_t taken_cap;
	double *rows; /* window ratios each, oldest first */
	uint32_t *free_rows;
	size_t n_rows, n_free, cap_rows;
	struct wprof_region *regions;
	size_t *region_areas;
	size_t regions_cap;
};

/* ---- rules ------------------------------------------------------------------ */

static uint64_t cell_pages(const struct heat_cell *c, unsigned int page_shift)
{
	return (c->end - c->start) >> page_shift;
}

static double vma_ratio(const struct heat_cell *c, unsigned int page_shift)
{
	return (double)c->written / (double)cell_pages(c, page_shift);
}

static double chunk_ratio(const struct heat_cell *c, unsigned int page_shift)
{
	(void)page_shift;
	return c->populated ? (double)c->written / (double)c->populated : 0;
}

/* So many intervals in a row above the threshold; one that is not cools. */
static void consecutive_judge(struct heat_cell *c, const double *window,
			      const struct heat_params *params)
{
	(void)window;
	c->consecutive = c->ratio > params->threshold ? c->consecutive + 1 : 0;
	c->hot = c->consecutive >= params->consecutive;
}

const struct heat_rule heat_rule_vma = {
	.name = "vma",
	.ratio = vma_ratio,
	.judge = consecutive_judge,
};

const struct heat_rule heat_rule_chunk = {
	.name = "chunk",
	.wants_populated = true,
	.ratio = chunk_ratio,
	.judge = consecutive_judge,
};

/* ---- storage ------------------------------------------------------------------ */

static double *heat_row(const struct heat *h, const struct heat_cell *c)
{
	return h->rows + (size_t)c->slot * h->params.window;
}

static int heat_new_row(struct heat *h, uint32_t *slot)
{
	if (h->n_free) {
		*slot = h->free_rows[--h->n_free];
		return 0;
	}
	if (h->n_rows == h->cap_rows) {
		size_t cap = h->cap_rows ? 2 * h->cap_rows : 64;
		double *rows = realloc(h->rows, cap * h->params.window * sizeof(*rows));
		uint32_t *free_rows;

		if (!rows)
			return -ENOMEM;
		h->rows = rows;
		free_rows = realloc(h->free_rows, cap * sizeof(*free_rows));
		if (!free_rows)
			return -ENOMEM;
		h->free_rows = free_rows;
		h->cap_rows = cap;
	}
	*slot = (uint32_t)h->n_rows++;
	return 0;
}

static int heat_add(struct heat_list *list, const struct heat_cell *c)
{
	if (list->n == list->cap) {
		size_t cap = list->cap ? 2 * list->cap : 64;
		struct heat_cell *v = realloc(list->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		list->v = v;
		list->cap = cap;
	}
	list->v[list->n++] = *c;
	return 0;
}

/* ---- the cells of an interval --------------------------------------------------- */

/* Where in the three ascending inputs the building is */
struct heat_cursor {
	size_t old, run, est;
};

static uint64_t heat_base(const struct heat *h, uint64_t addr)
{
	return h->params.granularity == WPROF_VMA ? 0 : addr & ~(h->params.granularity - 1);
}

static uint64_t heat_top(const struct heat *h, uint64_t addr)
{
	if (h->params.granularity == WPROF_VMA)
		return UINT64_MAX;
	return heat_base(h, addr) + h->params.granularity;
}

static uint64_t run_end(const struct heat *h, const struct wprof_run *r)
{
	return r->start + (r->n_pages << h->params.page_shift);
}

/* The first address from at on, below end, that a cell is needed for */
static uint64_t heat_next(const struct heat *h, const struct heat_input *in,
			  struct heat_cursor *cur, uint64_t at, uint64_t end)
{
	uint64_t next = end;

	if (h->params.granularity == WPROF_VMA)
		return at;
	while (cur->old < h->before.n && h->before.v[cur->old].end <= at)
		cur->old++;
	while (cur->run < in->runs->n && run_end(h, &in->runs->v[cur->run]) <= at)
		cur->run++;
	while (cur->est < in->n_estimates && in->estimates[cur->est].end <= at)
		cur->est++;
	if (cur->old < h->before.n && h->before.v[cur->old].start < next)
		next = h->before.v[cur->old].start;
	if (cur->run < in->runs->n && in->runs->v[cur->run].start < next)
		next = in->runs->v[cur->run].start;
	if (cur->est < in->n_estimates && in->estimates[cur->est].start < next)
		next = in->estimates[cur->est].start;
	return next > at ? next : at;
}

/* The old cell c overlaps most, from *old on; before.n: none */
static size_t heat_ancestor(const struct heat *h, const struct heat_cell *c, size_t *old)
{
	uint64_t most = 0;
	size_t best = h->before.n;

	while (*old < h->before.n && h->before.v[*old].end <= c->start)
		++*old;
	for (size_t i = *old; i < h->before.n && h->before.v[i].start < c->end; i++) {
		const struct heat_cell *o = &h->before.v[i];
		uint64_t start = o->start > c->start ? o->start : c->start;
		uint64_t end = o->end < c->end ? o->end : c->end;

		if (end - start > most) {
			most = end - start;
			best = i;
		}
	}
	return best;
}

static int heat_inherit(struct heat *h, struct heat_cell *c, size_t ancestor)
{
	const struct heat_cell *o = &h->before.v[ancestor];
	uint32_t slot = o->slot;
	int rc;

	if (h->taken[ancestor]) {
		rc = heat_new_row(h, &slot);
		if (rc)
			return rc;
		memcpy(h->rows + (size_t)slot * h->params.window, heat_row(h, o),
		       o->n * sizeof(double));
	}
	h->taken[ancestor] = true;
	c->slot = slot;
	c->n = o->n;
	c->consecutive = o->consecutive;
	c->hot = o->hot;
	if (o->start == c->start && o->end == c->end) {
		c->populated = o->populated;
		c->counted_at = o->counted_at;
	}
	return 0;
}

static int heat_area(struct heat *h, const struct heat_input *in, size_t k, struct heat_cursor *cur,
		     size_t *old)
{
	const struct area *a = &in->areas[k];
	uint64_t at = a->start;

	while (at < a->end && (at = heat_next(h, in, cur, at, a->end)) < a->end) {
		uint64_t base = heat_base(h, at), top = heat_top(h, at);
		struct heat_cell c = {
			.start = base > a->start ? base : a->start,
			.end = top < a->end ? top : a->end,
			.area = k,
		};
		size_t ancestor = heat_ancestor(h, &c, old);
		int rc;

		if (ancestor < h->before.n && !(a->state & AREA_REPLACED))
			rc = heat_inherit(h, &c, ancestor);
		else
			rc = heat_new_row(h, &c.slot);
		rc = rc ?: heat_add(&h->now, &c);
		if (rc)
			return rc;
		at = c.end;
	}
	return 0;
}

static int heat_build(struct heat *h, const struct heat_input *in)
{
	struct heat_list spare = h->before;
	struct heat_cursor cur = { 0 };
	size_t old = 0;

	h->before = h->now;
	h->now = spare;
	h->now.n = 0;
	if (h->taken_cap < h->before.n) {
		bool *taken = realloc(h->taken, h->before.cap * sizeof(*taken));

		if (!taken)
			return -ENOMEM;
		h->taken = taken;
		h->taken_cap = h->before.cap;
	}
	if (h->before.n)
		memset(h->taken, 0, h->before.n * sizeof(*h->taken));
	for (size_t k = 0; k < in->n_areas; k++) {
		int rc = area_tracked(&in->areas[k]) ? heat_area(h, in, k, &cur, &old) : 0;

		if (rc)
			return rc;
	}
	for (size_t i = 0; i < h->before.n; i++)
		if (!h->taken[i])
			h->free_rows[h->n_free++] = h->before.v[i].slot;
	return 0;
}

/* ---- the counts of an interval ---------------------------------------------------- */

static void heat_add_runs(struct heat *h, const struct heat_input *in)
{
	size_t k = 0;

	for (size_t i = 0; i < in->runs->n; i++) {
		uint64_t at = in->runs->v[i].start, end = run_end(h, &in->runs->v[i]);

		while (at < end) {
			uint64_t stop;

			while (k < h->now.n && h->now.v[k].end <= at)
				k++;
			if (k == h->now.n)
				return;
			stop = end < h->now.v[k].end ? end : h->now.v[k].end;
			if (at < h->now.v[k].start)
				at = h->now.v[k].start;
			if (at < stop)
				h->now.v[k].written += (stop - at) >> h->params.page_shift;
			at = stop > at ? stop : end;
		}
	}
}

/* An estimate over several cells is divided by their shares of it. */
static void heat_add_estimates(struct heat *h, const struct heat_input *in)
{
	size_t k = 0;

	for (size_t i = 0; i < in->n_estimates; i++) {
		const struct heat_estimate *e = &in->estimates[i];

		while (k < h->now.n && h->now.v[k].end <= e->start)
			k++;
		for (size_t j = k; j < h->now.n && h->now.v[j].start < e->end; j++) {
			struct heat_cell *c = &h->now.v[j];
			uint64_t start = c->start > e->start ? c->start : e->start;
			uint64_t end = c->end < e->end ? c->end : e->end;

			c->written += (uint64_t)((double)e->written * (double)(end - start) /
							 (double)(e->end - e->start) +
						 0.5);
		}
	}
}

static int heat_count(struct heat *h, const struct heat_input *in, struct heat_cell *c)
{
	bool due = !c->counted_at || in->number - c->counted_at >= HEAT_COUNT_AGE;
	int64_t n;

	if (h->rule->wants_populated && c->written && due && in->count) {
		uint64_t spread = c->start / (h->params.granularity ?: 1) % HEAT_COUNT_AGE;

		n = in->count(in->count_arg, c->start, c->end);
		if (n < 0)
			return (int)n;
		c->counted_at = in->number;
		if (!c->populated && in->number > spread)
			c->counted_at -= spread;
		c->populated = (uint64_t)n;
	}
	if (c->populated < c->written)
		c->populated = c->written;
	return 0;
}

static void heat_judge(struct heat *h, struct heat_cell *c)
{
	double *row = heat_row(h, c);

	c->ratio = h->rule->ratio(c, h->params.page_shift);
	if (c->ratio > 1)
		c->ratio = 1;
	if (c->n == h->params.window)
		memmove(row, row + 1, --c->n * sizeof(*row));
	row[c->n++] = c->ratio;
	h->rule->judge(c, row, &h->params);
}

/* A chunk not written in the whole window is forgotten. */
static bool heat_forgets(const struct heat *h, const struct heat_cell *c)
{
	const double *row = heat_row(h, c);

	if (h->params.granularity == WPROF_VMA || c->hot)
		return false;
	for (uint32_t i = 0; i < c->n; i++)
		if (row[i] > 0)
			return false;
	return true;
}

int heat_interval(struct heat *h, const struct heat_input *in)
{
	size_t n = 0;
	int rc = heat_build(h, in);

	if (rc)
		return rc;
	heat_add_runs(h, in);
	heat_add_estimates(h, in);
	for (size_t i = 0; i < h->now.n; i++) {
		struct heat_cell *c = &h->now.v[i];

		rc = rc ?: heat_count(h, in, c);
		heat_judge(h, c);
		if (heat_forgets(h, c))
			h->free_rows[h->n_free++] = c->slot;
		else
			h->now.v[n++] = *c;
	}
	h->now.n = n;
	return rc;
}

/* ---- what is asked of it ---------------------------------------------------------- */

const struct heat_cell *heat_cells(const struct heat *h, size_t *n)
{
	*n = h->now.n;
	return h->now.v;
}

double heat_window_ratio(const struct heat *h, const struct heat_cell *c)
{
	const double *row = heat_row(h, c);
	double sum = 0;

	for (uint32_t i = 0; i < c->n; i++)
		sum += row[i];
	return c->n ? sum / c->n : 0;
}

static int heat_room(struct heat *h)
{
	struct wprof_region *regions;
	size_t *areas;

	if (h->regions_cap >= h->now.n && h->regions)
		return 0;
	regions = realloc(h->regions, (h->now.cap ?: 1) * sizeof(*regions));
	if (!regions)
		return -ENOMEM;
	h->regions = regions;
	areas = realloc(h->region_areas, (h->now.cap ?: 1) * sizeof(*areas));
	if (!areas)
		return -ENOMEM;
	h->region_areas = areas;
	h->regions_cap = h->now.cap ?: 1;
	return 0;
}

/* The ratios of a merged region are weighted by size, of the counts the least. */
static void region_extend(struct wprof_region *r, const struct wprof_region *add)
{
	double a = (double)(r->end - r->start), b = (double)(add->end - add->start);

	r->written_ratio = (r->written_ratio * a + add->written_ratio * b) / (a + b);
	r->window_ratio = (r->window_ratio * a + add->window_ratio * b) / (a + b);
	if (add->consecutive < r->consecutive)
		r->consecutive = add->consecutive;
	r->end = add->end;
	r->populated_bytes += add->populated_bytes;
}

/* By the rule of whole VMAs nothing is counted here: its VMA's count it is then. */
static uint64_t cell_populated(const struct heat *h, const struct heat_cell *c,
			       const struct area *a)
{
	uint64_t pages = cell_pages(c, h->params.page_shift), n = c->populated;

	if (!h->rule->wants_populated && n < a->populated)
		n = a->populated;
	return (n < pages ? n : pages) << h->params.page_shift;
}

int heat_hot(struct heat *h, const struct area *areas, const struct wprof_region **out,
	     const size_t **area_of, size_t *n)
{
	size_t m = 0;
	int rc = heat_room(h);

	if (rc)
		return rc;
	for (size_t i = 0; i < h->now.n; i++) {
		const struct heat_cell *c = &h->now.v[i];
		struct wprof_region r = {
			.start = c->start,
			.end = c->end,
			.type = areas[c->area].type,
			.written_ratio = c->ratio,
			.window_ratio = heat_window_ratio(h, c),
			.consecutive = c->consecutive,
			.populated_bytes = cell_populated(h, c, &areas[c->area]),
		};

		if (!c->hot)
			continue;
		if (m && h->regions[m - 1].end == r.start && h->region_areas[m - 1] == c->area) {
			region_extend(&h->regions[m - 1], &r);
			continue;
		}
		h->region_areas[m] = c->area;
		h->regions[m++] = r;
	}
	*out = h->regions;
	*area_of = h->region_areas;
	*n = m;
	return 0;
}

int heat_open(const struct heat_params *params, const struct heat_rule *rule, struct heat **out)
{
	struct heat *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->params = *params;
	h->rule = rule;
	if (!rule)
		h->rule = params->granularity == WPROF_VMA ? &heat_rule_vma : &heat_rule_chunk;
	*out = h;
	return 0;
}

void heat_close(struct heat *h)
{
	if (!h)
		return;
	free(h->now.v);
	free(h->before.v);
	free(h->taken);
	free(h->rows);
	free(h->free_rows);
	free(h->regions);
	free(h->region_areas);
	free(h);
}
