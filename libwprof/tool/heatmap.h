/* heatmap.h - written pages over address and time, in bounded memory. */
#ifndef WPROF_TOOL_HEATMAP_H
#define WPROF_TOOL_HEATMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wprof.h"

/** bounds of a map: columns of time, chunks of memory */
#define HEATMAP_COLUMNS 256
#define HEATMAP_CHUNKS	16384
/** HEATMAP_CHUNK - the finest chunk */
#define HEATMAP_CHUNK	(64u << 10)

/** what a cell of a row can be beside a share */
#define HEATMAP_NONE	   (-1.0) /* there was no interval */
#define HEATMAP_UNMEASURED (-2.0) /* hot, and sampling had not armed any of it */

struct heatmap;

struct heatmap *heatmap_new(uint64_t page_bytes);
void heatmap_free(struct heatmap *map);

/**
 * heatmap_add() - take interval @number with its @runs
 *
 * Return: false when memory ran out.
 */
bool heatmap_add(struct heatmap *map, uint64_t number, uint64_t start_ns, uint64_t length_ns,
		 const struct wprof_run *runs, size_t n_runs);

/**
 * heatmap_more() - @runs belong to interval @number, too, which was added
 *
 * Return: false when memory ran out.
 */
bool heatmap_more(struct heatmap *map, uint64_t number, const struct wprof_run *runs,
		  size_t n_runs);

/**
 * heatmap_skip() - @runs were not measured in interval @number, which was added
 *
 * Return: false when memory ran out.
 */
bool heatmap_skip(struct heatmap *map, uint64_t number, const struct wprof_run *runs,
		  size_t n_runs);

/** heatmap_has_gaps() - was any memory not measured? */
bool heatmap_has_gaps(const struct heatmap *map);

/** heatmap_chunk_bytes() - what the map can tell apart by now */
uint64_t heatmap_chunk_bytes(const struct heatmap *map);

/** heatmap_columns() - columns used so far; 0: nothing was added */
size_t heatmap_columns(const struct heatmap *map);

/** heatmap_time_ns() - when the last interval ended */
uint64_t heatmap_end_ns(const struct heatmap *map);

/**
 * heatmap_row() - one row of a picture: the memory from @start to @end
 * @cells: @n of them, for equal shares of the columns: the share of the pages
 *	that was written, mean over what was measured of the intervals; or one of
 *	the values above
 */
void heatmap_row(const struct heatmap *map, uint64_t start, uint64_t end, double *cells, size_t n);

/* ---- what was written, by region ---------------------------------------------- */

/** struct region_sum - a mapping that was written, over the whole recording */
struct region_sum {
	int pid;
	uint64_t start, end; /* all of it, however it grew */
	uint64_t low, high;  /* the written part of it */
	enum wprof_vma_type type;
	char *name;
	uint64_t written_pages, intervals_written, intervals_hot;
	double ratio_sum;
};

/** struct region_table - ordered by process and address */
struct region_table {
	struct region_sum *list;
	size_t n, room;
};

/** region_add() - VMA @v was written in an interval. Return: false: no memory */
bool region_add(struct region_table *t, int pid, const struct wprof_vma *v, uint64_t page_bytes,
		bool hot);

/** region_runs() - narrow the written parts down: call after region_add() */
void region_runs(struct region_table *t, int pid, const struct wprof_run *runs, size_t n,
		 uint64_t page_bytes);

void region_table_free(struct region_table *t);

/* ---- rows of a picture ---------------------------------------------------------- */

/** struct map_row - one row: a part of one region */
struct map_row {
	const struct region_sum *region;
	uint64_t start, end;
	bool first; /* the region's first row: its lowest addresses */
};

/**
 * map_rows() - share out at most @max rows among the regions of a process
 * @least: rows every region gets at least
 * @rows: @max of them
 * @hidden: set to the number of regions that found no place, the least written
 *
 * Return: the number of rows.
 */
size_t map_rows(const struct region_table *t, int pid, uint64_t chunk_bytes, size_t max,
		size_t least, struct map_row *rows, size_t *hidden);

#endif /* WPROF_TOOL_HEATMAP_H */
