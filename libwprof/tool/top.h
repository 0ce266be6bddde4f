/* top.h - the table of `wprof top`: its rows, and how they are drawn. */
#ifndef WPROF_TOOL_TOP_H
#define WPROF_TOOL_TOP_H

#include <stdio.h>

#include "tool/group.h"

/** TOP_HISTORY - intervals of the mean; a row not written for so long goes */
#define TOP_HISTORY 10

enum top_sort { TOP_BY_RATE, TOP_BY_MEAN, TOP_BY_HOT, TOP_BY_SIZE, TOP_BY_ADDRESS, TOP_BY_NAME };

/** struct top_row - a mapping; with --tree a process (then start is its pid) */
struct top_row {
	uint64_t start, bytes;
	char *name;
	double rate, mean; /* bytes a second, last interval, mean */
	double share;	   /* of its populated pages, last interval */
	uint64_t hot_bytes;
	double history[TOP_HISTORY]; /* rates, newest first */
	size_t n_history;
	bool seen; /* in the last interval */
};

/** struct top_table - all of them */
struct top_table {
	struct top_row *list;
	size_t n, room;
	/* of the last interval, all processes */
	double rate;
	uint64_t hot_bytes, n_vmas, shared_bytes;
	bool estimated;
	struct trace_cost cost;
	uint64_t length_ns, n_intervals;
};

/** top_update() - take in what the group measured. Return: false: no memory */
bool top_update(struct top_table *t, const struct group *g);

void top_free(struct top_table *t);

/** struct top_frame - how to draw */
struct top_frame {
	const char *label; /* the target */
	enum top_sort sort;
	bool tree, keys; /* keys: show what can be pressed */
	bool marks;	 /* '\001' before lines to show in reverse */
	size_t width, height;
	uint64_t elapsed_ns;
	bool sample;
	uint64_t interval_ms;
};

/** top_draw() - at most frame->height lines of at most frame->width columns */
void top_draw(FILE *f, struct top_table *t, const struct top_frame *frame);

#endif /* WPROF_TOOL_TOP_H */
