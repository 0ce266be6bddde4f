/* heat.h - which memory is hot: cells, their history, and rules */
#ifndef WPROF_HEAT_H
#define WPROF_HEAT_H

#include "area.h"

struct heat_params {
	uint64_t granularity; /* WPROF_VMA, or bytes: a power of two */
	double threshold;
	uint32_t consecutive;
	uint32_t window;
	unsigned int page_shift;
};

/** struct heat_cell - a VMA, or what of a VMA lies in one aligned chunk */
struct heat_cell {
	uint64_t start, end;
	size_t area;	      /* index of its VMA */
	uint64_t written;     /* pages, in the last interval */
	uint64_t populated;   /* pages, 0: not counted */
	uint64_t counted_at;  /* number of that interval */
	double ratio;	      /* of the last interval */
	uint32_t consecutive; /* in a row above the threshold */
	uint32_t n;	      /* intervals in the window */
	uint32_t slot;	      /* its row of ratios */
	bool hot;
};

/*
 * struct heat_rule - how counts become a ratio, and ratios become heat
 *
 * A rule keeps no state: all it may look at is the cell and its window, oldest
 * ratio first. So rules can be compared on a recorded trace.
 */
struct heat_rule {
	const char *name;
	bool wants_populated; /* count populated pages for it */
	double (*ratio)(const struct heat_cell *cell, unsigned int page_shift);
	/* sets consecutive and hot from ratio, which is in the window already */
	void (*judge)(struct heat_cell *cell, const double *window,
		      const struct heat_params *params);
};

extern const struct heat_rule heat_rule_vma;   /* written / all pages */
extern const struct heat_rule heat_rule_chunk; /* written / populated pages */

/* Counts the populated pages of a range anew, or -errno */
typedef int64_t heat_count_fn(void *arg, uint64_t start, uint64_t end);

/* Memory whose written pages are estimated: not in the runs */
struct heat_estimate {
	uint64_t start, end;
	uint64_t written;
};

/* What one interval brought */
struct heat_input {
	uint64_t number;
	const struct area *areas;
	size_t n_areas;
	const struct runs *runs;
	const struct heat_estimate *estimates; /* ascending */
	size_t n_estimates;
	heat_count_fn *count; /* NULL: take the written pages for all */
	void *count_arg;
};

struct heat;

/* rule NULL: the one that belongs to the granularity */
WPROF_CHECKED int heat_open(const struct heat_params *params, const struct heat_rule *rule,
			    struct heat **out);
void heat_close(struct heat *h);
WPROF_CHECKED int heat_interval(struct heat *h, const struct heat_input *in);

const struct heat_cell *heat_cells(const struct heat *h, size_t *n);
double heat_window_ratio(const struct heat *h, const struct heat_cell *cell);

/* Hot memory; neighbours are merged. The names are left NULL. */
WPROF_CHECKED int heat_hot(struct heat *h, const struct area *areas,
			   const struct wprof_region **out, const size_t **area_of, size_t *n);

#endif
