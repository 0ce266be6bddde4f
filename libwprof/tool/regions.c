/* regions.c - what a recording wrote, by mapping, and its rows in a picture. */
#include <stdlib.h>
#include <string.h>

#include "tool/heatmap.h"

/* The first region that ends behind @start, in the order of the table. */
static size_t find_region(const struct region_table *t, int pid, uint64_t start)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct region_sum *r = &t->list[mid];

		if (r->pid < pid || (r->pid == pid && r->end <= start))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool same_memory(const struct region_sum *r, int pid, const struct wprof_vma *v)
{
	return r->pid == pid && r->start < v->end && v->start < r->end && r->type == v->type &&
	       !strcmp(r->name, v->name);
}

static struct region_sum *insert_region(struct region_table *t, size_t at, int pid,
					const struct wprof_vma *v)
{
	struct region_sum *list;
	size_t room = t->room ? 2 * t->room : 64;
	char *name = strdup(v->name);

	if (name && t->n == t->room) {
		list = reallocarray(t->list, room, sizeof(*list));
		if (!list) {
			free(name);
			return NULL;
		}
		t->list = list;
		t->room = room;
	}
	if (!name)
		return NULL;
	memmove(&t->list[at + 1], &t->list[at], (t->n - at) * sizeof(*t->list));
	t->n++;
	t->list[at] = (struct region_sum){ .pid = pid,
					   .start = v->start,
					   .end = v->end,
					   .low = UINT64_MAX,
					   .type = v->type,
					   .name = name };
	return &t->list[at];
}

static void absorb(struct region_sum *into, const struct region_sum *r)
{
	into->end = r->end > into->end ? r->end : into->end;
	into->low = r->low < into->low ? r->low : into->low;
	into->high = r->high > into->high ? r->high : into->high;
	into->written_pages += r->written_pages;
	into->ratio_sum += r->ratio_sum;
	if (r->intervals_written > into->intervals_written)
		into->intervals_written = r->intervals_written;
	if (r->intervals_hot > into->intervals_hot)
		into->intervals_hot = r->intervals_hot;
}

/*
 * Find what is known of this memory: a mapping grows, shrinks, merges. Those it
 * covers now become one. Where another kind of memory was mapped at the address
 * before, the old one keeps its place and the new one stands beside it.
 */
static struct region_sum *region_for(struct region_table *t, int pid, const struct wprof_vma *v)
{
	size_t at = find_region(t, pid, v->start), next;

	while (at < t->n && t->list[at].pid == pid && t->list[at].start < v->end &&
	       !same_memory(&t->list[at], pid, v))
		at++;
	if (at == t->n || !same_memory(&t->list[at], pid, v))
		return insert_region(t, find_region(t, pid, v->start), pid, v);
	for (next = at + 1; next < t->n && same_memory(&t->list[next], pid, v); next++) {
		absorb(&t->list[at], &t->list[next]);
		free(t->list[next].name);
	}
	memmove(&t->list[at + 1], &t->list[next], (t->n - next) * sizeof(*t->list));
	t->n -= next - at - 1;
	if (v->start < t->list[at].start)
		t->list[at].start = v->start;
	if (v->end > t->list[at].end)
		t->list[at].end = v->end;
	return &t->list[at];
}

bool region_add(struct region_table *t, int pid, const struct wprof_vma *v, uint64_t page_bytes,
		bool hot)
{
	struct region_sum *r = region_for(t, pid, v);
	uint64_t pages = v->populated_pages;

	if (!r)
		return false;
	if (pages < v->written_pages)
		pages = (v->end - v->start) / page_bytes;
	r->written_pages += v->written_pages;
	r->intervals_written++;
	r->intervals_hot += hot;
	r->ratio_sum += (double)v->written_pages / (double)pages;
	return true;
}

void region_runs(struct region_table *t, int pid, const struct wprof_run *runs, size_t n,
		 uint64_t page_bytes)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t end = runs[i].start + runs[i].n_pages * page_bytes;
		size_t at = find_region(t, pid, runs[i].start);

		if (at == t->n || t->list[at].pid != pid || t->list[at].start >= end)
			continue;
		if (runs[i].start < t->list[at].low)
			t->list[at].low = runs[i].start;
		if (end > t->list[at].high)
			t->list[at].high = end;
	}
}

void region_table_free(struct region_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->list[i].name);
	free(t->list);
	memset(t, 0, sizeof(*t));
}

/* ---- rows ------------------------------------------------------------------------ */

struct place {
	const struct region_sum *region;
	uint64_t start, end; /* the written part, whole chunks, within the region */
	size_t rows;
};

static int by_written(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->region->written_pages < y->region->written_pages) -
	       (x->region->written_pages > y->region->written_pages);
}

static int by_address(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static size_t take_places(const struct region_table *t, int pid, uint64_t chunk,
			  struct place *places)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct region_sum *r = &t->list[i];
		struct place p = { .region = r };

		if (r->pid != pid || r->low >= r->high)
			continue;
		p.start = r->low / chunk * chunk;
		p.end = (r->high - 1) / chunk * chunk + chunk;
		if (p.start < r->start)
			p.start = r->start;
		if (p.end > r->end || p.end < p.start)
			p.end = r->end;
		places[n++] = p;
	}
	return n;
}

/* Whole chunks that a place can be cut into. */
static size_t place_chunks(const struct place *p, uint64_t chunk)
{
	return (size_t)((p->end - 1) / chunk - p->start / chunk + 1);
}

/* @least rows each, the rest by size: none more than it has chunks. */
static void share_rows(struct place *places, size_t n, uint64_t chunk, size_t max, size_t least)
{
	size_t spare = max - n * least;
	double bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += (double)(places[i].end - places[i].start);
	for (size_t i = 0; i < n; i++) {
		struct place *p = &places[i];
		size_t extra = (size_t)((double)spare * (double)(p->end - p->start) / bytes);
		size_t chunks = place_chunks(p, chunk);

		p->rows = least + extra;
		if (p->rows > chunks)
			p->rows = chunks > least ? chunks : least;
	}
}

/* Cut @p into its rows, at borders of chunks where there are enough of them. */
static size_t cut_place(const struct place *p, uint64_t chunk, struct map_row *rows)
{
	size_t chunks = place_chunks(p, chunk);
	uint64_t base = p->start / chunk;

	if (chunks < p->rows) {
		/* a small region has room for its label: the same memory in each row */
		for (size_t i = 0; i < p->rows; i++)
			rows[i] = (struct map_row){ p->region, p->start, p->end, i == 0 };
		return p->rows;
	}
	for (size_t i = 0; i < p->rows; i++) {
		uint64_t from = (base + i * chunks / p->rows) * chunk;
		uint64_t to = (base + (i + 1) * chunks / p->rows) * chunk;

		rows[i].region = p->region;
		rows[i].start = i ? from : p->start;
		rows[i].end = i + 1 < p->rows ? to : p->end;
		rows[i].first = i == 0;
	}
	return p->rows;
}

size_t map_rows(const struct region_table *t, int pid, uint64_t chunk_bytes, size_t max,
		size_t least, struct map_row *rows, size_t *hidden)
{
	struct place *places = calloc(t->n + 1, sizeof(*places));
	size_t n, shown, n_rows = 0;

	*hidden = 0;
	if (!places)
		return 0;
	n = take_places(t, pid, chunk_bytes, places);
	shown = n < max / least ? n : max / least;
	*hidden = n - shown;
	qsort(places, n, sizeof(*places), by_written);
	qsort(places, shown, sizeof(*places), by_address);
	if (shown)
		share_rows(places, shown, chunk_bytes, max, least);
	for (size_t i = 0; i < shown; i++)
		n_rows += cut_place(&places[i], chunk_bytes, rows + n_rows);
	free(places);
	return n_rows;
}
