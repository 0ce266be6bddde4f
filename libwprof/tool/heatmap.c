/*
 * heatmap.c - written pages over address and time.
 *
 * Theory of operation
 *
 * One pass over a trace of unknown length, unknown addresses. The map is a grid
 * of counters: chunks of memory (only those ever written, a sorted array) by
 * columns of time. When the columns run out, neighbours are joined and a column
 * is twice as long; when the chunks run out, neighbours are joined and a chunk is
 * twice as large. So memory is bounded (HEATMAP_CHUNKS * HEATMAP_COLUMNS
 * counters), and the picture is never coarser than twice what could be shown.
 *
 * What sampling did not measure is counted as the written pages are, in a second set
 * of counters, made when it is needed. A share is of what was measured; memory not
 * measured at all is a gap, never a zero.
 *
 * Columns go by interval numbers, not by time: intervals have slightly different
 * lengths, and columns of equal time would have gaps.
 */
#include <stdlib.h>
#include <string.h>

#include "tool/heatmap.h"

struct chunk {
	uint64_t index;	 /* address / chunk_bytes */
	uint64_t *pages; /* HEATMAP_COLUMNS sums */
	uint64_t *gaps;	 /* the same of what was not measured; NULL: nothing */
};

struct heatmap {
	uint64_t page_bytes, chunk_bytes;
	unsigned int shift; /* 2^shift intervals a column */
	size_t n_columns, n_chunks;
	uint64_t end_ns;
	bool has_gaps;
	uint64_t intervals[HEATMAP_COLUMNS];
	struct chunk chunks[HEATMAP_CHUNKS];
};

struct heatmap *heatmap_new(uint64_t page_bytes)
{
	struct heatmap *map = calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	map->page_bytes = page_bytes;
	map->chunk_bytes = page_bytes > HEATMAP_CHUNK ? page_bytes : HEATMAP_CHUNK;
	return map;
}

void heatmap_free(struct heatmap *map)
{
	if (!map)
		return;
	for (size_t i = 0; i < map->n_chunks; i++) {
		free(map->chunks[i].pages);
		free(map->chunks[i].gaps);
	}
	free(map);
}

static void halve_columns(uint64_t *column)
{
	for (size_t i = 0; i < HEATMAP_COLUMNS / 2; i++)
		column[i] = column[2 * i] + column[2 * i + 1];
	memset(column + HEATMAP_COLUMNS / 2, 0, HEATMAP_COLUMNS / 2 * sizeof(*column));
}

static void coarsen_time(struct heatmap *map)
{
	for (size_t i = 0; i < map->n_chunks; i++) {
		halve_columns(map->chunks[i].pages);
		if (map->chunks[i].gaps)
			halve_columns(map->chunks[i].gaps);
	}
	halve_columns(map->intervals);
	map->n_columns = (map->n_columns + 1) / 2;
	map->shift++;
}

/* Add @from to the counters *@to, either of which may be NULL, and free it. */
static void join_columns(uint64_t **to, uint64_t *from)
{
	for (size_t k = 0; *to && from && k < HEATMAP_COLUMNS; k++)
		(*to)[k] += from[k];
	if (*to)
		free(from);
	else
		*to = from;
}

static void coarsen_memory(struct heatmap *map)
{
	size_t kept = 0;

	for (size_t i = 0; i < map->n_chunks; i++) {
		struct chunk *c = &map->chunks[i];

		c->index /= 2;
		if (kept && map->chunks[kept - 1].index == c->index) {
			join_columns(&map->chunks[kept - 1].pages, c->pages);
			join_columns(&map->chunks[kept - 1].gaps, c->gaps);
		} else {
			map->chunks[kept++] = *c;
		}
	}
	map->n_chunks = kept;
	map->chunk_bytes *= 2;
}

/* The first chunk whose index is not below @index. */
static size_t find_chunk(const struct heatmap *map, uint64_t index)
{
	size_t low = 0, high = map->n_chunks;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (map->chunks[mid].index < index)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The chunk at @address; made when there is none. NULL: no memory */
static struct chunk *chunk_at(struct heatmap *map, uint64_t address)
{
	uint64_t index = address / map->chunk_bytes;
	size_t at = find_chunk(map, index);
	uint64_t *pages;

	if (at < map->n_chunks && map->chunks[at].index == index)
		return &map->chunks[at];
	if (map->n_chunks == HEATMAP_CHUNKS) {
		coarsen_memory(map);
		return chunk_at(map, address);
	}
	pages = calloc(HEATMAP_COLUMNS, sizeof(*pages));
	if (!pages)
		return NULL;
	memmove(&map->chunks[at + 1], &map->chunks[at],
		(map->n_chunks - at) * sizeof(map->chunks[0]));
	map->chunks[at] = (struct chunk){ index, pages, NULL };
	map->n_chunks++;
	/* cppcheck-suppress memleak */
	return &map->chunks[at];
}

static uint64_t *chunk_gaps(struct chunk *c)
{
	if (!c->gaps)
		c->gaps = calloc(HEATMAP_COLUMNS, sizeof(*c->gaps));
	return c->gaps;
}

static bool add_run(struct heatmap *map, size_t column, const struct wprof_run *run, bool gap)
{
	uint64_t address = run->start, end = address + run->n_pages * map->page_bytes;

	while (address < end) {
		struct chunk *c = chunk_at(map, address);
		uint64_t *counters = !c || !gap ? NULL : chunk_gaps(c), stop;

		if (!c || (gap && !counters))
			return false;
		/* chunk_at() may have made chunks larger: ask now */
		stop = (address / map->chunk_bytes + 1) * map->chunk_bytes;
		if (stop > end || stop < address)
			stop = end;
		(gap ? counters : c->pages)[column] += (stop - address) / map->page_bytes;
		address = stop;
	}
	return true;
}

/* A run larger than the map can hold at this fineness would make it in steps. */
static void make_room(struct heatmap *map, const struct wprof_run *run)
{
	while (run->n_pages * map->page_bytes / map->chunk_bytes > HEATMAP_CHUNKS / 2)
		coarsen_memory(map);
}

bool heatmap_more(struct heatmap *map, uint64_t number, const struct wprof_run *runs, size_t n_runs)
{
	for (size_t i = 0; i < n_runs; i++) {
		make_room(map, &runs[i]);
		if (!add_run(map, (size_t)((number - 1) >> map->shift), &runs[i], false))
			return false;
	}
	return true;
}

bool heatmap_add(struct heatmap *map, uint64_t number, uint64_t start_ns, uint64_t length_ns,
		 const struct wprof_run *runs, size_t n_runs)
{
	size_t column;

	while ((number - 1) >> map->shift >= HEATMAP_COLUMNS)
		coarsen_time(map);
	column = (size_t)((number - 1) >> map->shift);
	map->intervals[column]++;
	if (column >= map->n_columns)
		map->n_columns = column + 1;
	if (start_ns + length_ns > map->end_ns)
		map->end_ns = start_ns + length_ns;
	return heatmap_more(map, number, runs, n_runs);
}

bool heatmap_skip(struct heatmap *map, uint64_t number, const struct wprof_run *runs, size_t n_runs)
{
	for (size_t i = 0; i < n_runs; i++) {
		map->has_gaps = true;
		make_room(map, &runs[i]);
		if (!add_run(map, (size_t)((number - 1) >> map->shift), &runs[i], true))
			return false;
	}
	return true;
}

bool heatmap_has_gaps(const struct heatmap *map)
{
	return map->has_gaps;
}

uint64_t heatmap_chunk_bytes(const struct heatmap *map)
{
	return map->chunk_bytes;
}

size_t heatmap_columns(const struct heatmap *map)
{
	return map->n_columns;
}

uint64_t heatmap_end_ns(const struct heatmap *map)
{
	return map->end_ns;
}

/** struct sums - of a part of memory, by column */
struct sums {
	uint64_t written[HEATMAP_COLUMNS], gaps[HEATMAP_COLUMNS];
};

/* Pages from @start to @end, a chunk at the border in full */
static void sum_columns(const struct heatmap *map, uint64_t start, uint64_t end, struct sums *sums)
{
	memset(sums, 0, sizeof(*sums));
	for (size_t i = find_chunk(map, start / map->chunk_bytes);
	     i < map->n_chunks && map->chunks[i].index * map->chunk_bytes < end; i++)
		for (size_t k = 0; k < map->n_columns; k++) {
			const struct chunk *c = &map->chunks[i];

			sums->written[k] += c->pages[k];
			sums->gaps[k] += c->gaps ? c->gaps[k] : 0;
		}
}

/* The share of @pages in columns @from to @to, at least one */
static double cell(const struct heatmap *map, const struct sums *sums, double pages, size_t from,
		   size_t to)
{
	double written = 0, measured = 0, share;
	uint64_t intervals = 0;

	for (size_t k = from; k < to || k == from; k++) {
		double gaps = (double)sums->gaps[k], all = pages * (double)map->intervals[k];

		written += (double)sums->written[k];
		measured += gaps < all ? all - gaps : 0;
		intervals += map->intervals[k];
	}
	if (!intervals)
		return HEATMAP_NONE;
	if (measured < 1)
		return HEATMAP_UNMEASURED;
	share = written / measured;
	return share > 1 ? 1 : share;
}

void heatmap_row(const struct heatmap *map, uint64_t start, uint64_t end, double *cells, size_t n)
{
	double pages = (double)(end - start) / (double)map->page_bytes;
	struct sums sums;

	sum_columns(map, start, end, &sums);
	for (size_t i = 0; i < n; i++)
		cells[i] = cell(map, &sums, pages, i * map->n_columns / n,
				(i + 1) * map->n_columns / n);
}
