/* report.h - what a trace says, summed up. */
#ifndef WPROF_TOOL_REPORT_H
#define WPROF_TOOL_REPORT_H

#include "tool/heatmap.h"
#include "tool/trace.h"

/** struct report_process - one of a tree */
struct report_process {
	int pid;
	uint64_t tick; /* the last that had an interval of it */
};

/**
 * struct report_tick - the intervals of all processes of a tree that were scanned one
 * after the other; a process has one in each, so its next begins another tick
 */
struct report_tick {
	uint64_t number; /* from 1 */
	uint64_t total_vmas, hot_vmas;
	double bytes_per_sec;
};

/** struct report - the sums over a trace */
struct report {
	const struct trace_header *header;
	bool complete, estimated;
	const char *reason; /* why it ended; NULL: cut short */
	char *reason_text;
	struct report_tick tick; /* the one being read; its number: how many intervals */
	uint64_t written_pages, total_vmas, hot_vmas; /* the VMAs: the most at a time */
	uint64_t elapsed_ns;			      /* end of the last interval */
	double peak_bytes_per_sec;
	struct trace_cost cost;
	struct region_table regions;
	struct heatmap *map;
	int map_pid;			 /* the process the map is of */
	uint64_t map_intervals;		 /* of that process */
	struct report_process first;	 /* the header's */
	struct report_process *children; /* the others */
	size_t n_children;
};

/**
 * report_read() - sum up what is left of @reader
 * @map_pid: make the map of this process; 0: of the one in the header
 *
 * Return: 0; -1 and trace_why() when a line is damaged; -ENOMEM. What came before
 * the damage is summed up.
 */
int report_read(struct trace_reader *reader, int map_pid, struct report *r);

void report_free(struct report *r);

#endif /* WPROF_TOOL_REPORT_H */
