/*
 * trace.h - the trace: JSON lines, as docs/formats.md says. Written by record,
 * read by report.
 */
#ifndef WPROF_TOOL_TRACE_H
#define WPROF_TOOL_TRACE_H

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

#include "wprof.h"

/*
 * What a line may hold at most, so that what it costs to read is bounded: bytes, of the
 * header too, and JSON values, each of which takes up to 180 bytes of memory. What is
 * written keeps below: of each kind of runs those beyond TRACE_RUNS_MAX go on lines of
 * their own, mappings beyond TRACE_VMAS_MAX (four times what a process may usually have)
 * and hot regions beyond TRACE_HOT_MAX are left out and counted, names are clipped to
 * TRACE_NAME_MAX bytes of JSON. With up to 10 values a mapping or region and 3 a run that
 * is less than 7 million values and 250 MB.
 */
#define TRACE_LINE_MAX	 (256u << 20)
#define TRACE_HEADER_MAX (1u << 20)
#define TRACE_VALUES_MAX (8u << 20)
#define TRACE_RUNS_MAX	 (256u << 10)
#define TRACE_VMAS_MAX	 (256u << 10)
#define TRACE_HOT_MAX	 (128u << 10)
#define TRACE_NAME_MAX	 256u

/** struct trace_rule - how is profiled; in a header and in the document of hot */
struct trace_rule {
	uint64_t interval_ms;
	bool sample; /* arming */
	uint64_t granularity_bytes;
	double hot_threshold;
	uint64_t hot_consecutive;
	uint64_t window;
};

/** struct trace_header - the first line */
struct trace_header {
	pid_t pid;
	const char *command;
	bool tree;
	json_t *context; /* borrowed; NULL: none */
	uint64_t started_at_ns;
	uint64_t page_bytes;
	struct trace_rule rule;
};

/** struct trace_cost - a sum of struct wprof_cost */
struct trace_cost {
	uint64_t scan_ns, total_ns, n_scans, faults, cpu_ns;
};

/** struct trace_end - the last line */
struct trace_end {
	const char *reason;
	uint64_t intervals, elapsed_ns, written_pages;
	struct trace_cost cost;
};

/* ---- writing: each prints one line and says whether that went well ---------- */

bool trace_put_header(FILE *f, const struct trace_header *h);
bool trace_put_layout(FILE *f, pid_t pid, const struct wprof_interval *iv);
bool trace_put_context(FILE *f, pid_t pid, json_t *context);
bool trace_put_process(FILE *f, pid_t pid, pid_t parent, const char *command, uint64_t start_ns,
		       json_t *context);
bool trace_put_end(FILE *f, const struct trace_end *end);

/**
 * trace_put_interval() - one interval
 * @base_ns: when recording began, CLOCK_MONOTONIC
 * @hot: what is hot at its end, @n_hot regions
 * @soft_dirty: that state was read too: write it down
 */
bool trace_put_interval(FILE *f, pid_t pid, uint64_t base_ns, const struct wprof_interval *iv,
			const struct wprof_region *hot, size_t n_hot, bool soft_dirty);

/** trace_layout_hash() - differs when the tracked VMAs differ */
uint64_t trace_layout_hash(const struct wprof_interval *iv);

/** trace_hot_vmas() - how many VMAs have a hot part */
size_t trace_hot_vmas(const struct wprof_interval *iv, const struct wprof_region *hot,
		      size_t n_hot);

/** trace_hot_bytes() - how much memory hot regions hold, not how far they reach */
uint64_t trace_hot_bytes(const struct wprof_region *hot, size_t n_hot);

/** trace_dirty_rate() - bytes written in a second of this interval */
double trace_dirty_rate(const struct wprof_interval *iv);

/** trace_add_cost() - add what an interval cost */
void trace_add_cost(struct trace_cost *sum, const struct wprof_cost *cost);

/* parts of other documents */
int trace_add_rule(json_t *object, const struct trace_rule *rule);
json_t *trace_regions_json(const struct wprof_region *regions, size_t n);
json_t *trace_cost_json(const struct trace_cost *cost);

/* ---- reading ---------------------------------------------------------------- */

enum trace_type {
	TRACE_LAYOUT,
	TRACE_INTERVAL,
	TRACE_CONTEXT,
	TRACE_PROCESS,
	TRACE_END,
	TRACE_RUNS /* more of them, of the last interval of the process */
};

/** struct trace_line - a line behind the header; all of it lives until the next */
struct trace_line {
	enum trace_type type;
	pid_t pid;
	json_t *json;
	/* TRACE_INTERVAL; vmas of TRACE_LAYOUT and runs of TRACE_RUNS too */
	uint64_t number, start_ns, length_ns, written_pages, total_vmas, hot_vmas;
	bool estimated;
	struct wprof_vma *vmas;
	struct wprof_region *hot;
	struct wprof_run *runs, *unmeasured;
	size_t n_vmas, n_hot, n_runs, n_unmeasured;
	/* TRACE_END */
	struct trace_end end;
};

struct trace_reader;

/**
 * trace_open() - open a trace and read its header
 * @path: "-" is standard input
 * @why: set to what is wrong when that fails, at most @why_bytes
 *
 * Return: the reader, or NULL.
 */
struct trace_reader *trace_open(const char *path, char *why, size_t why_bytes);

/**
 * trace_next() - the next line of a known type
 * @line: set; what it points to belongs to the reader
 *
 * Return: 1; 0 at the end of the file; -1 when a line is damaged (see
 * trace_why()). A last line without line end is a cut, not damage: 0.
 */
int trace_next(struct trace_reader *r, struct trace_line *line);

const struct trace_header *trace_header(const struct trace_reader *r);
json_t *trace_header_json(const struct trace_reader *r);
const char *trace_why(const struct trace_reader *r);
void trace_close(struct trace_reader *r);

#endif /* WPROF_TOOL_TRACE_H */
