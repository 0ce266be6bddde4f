/* report_sum.c - sum a trace up, in one pass and in bounded memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/report.h"

static bool is_hot(const struct trace_line *line, const struct wprof_vma *v)
{
	for (size_t i = 0; i < line->n_hot; i++)
		if (line->hot[i].start < v->end && v->start < line->hot[i].end)
			return true;
	return false;
}

static bool add_regions(struct report *r, const struct trace_line *line)
{
	uint64_t page_bytes = r->header->page_bytes;

	for (size_t i = 0; i < line->n_vmas; i++)
		if (line->vmas[i].written_pages &&
		    !region_add(&r->regions, line->pid, &line->vmas[i], page_bytes,
				is_hot(line, &line->vmas[i])))
			return false;
	region_runs(&r->regions, line->pid, line->runs, line->n_runs, page_bytes);
	return true;
}

static struct report_process *process_of(struct report *r, int pid)
{
	for (size_t i = 0; i < r->n_children; i++)
		if (r->children[i].pid == pid)
			return &r->children[i];
	return &r->first;
}

static void add_to_tick(struct report *r, const struct trace_line *line)
{
	struct report_process *process = process_of(r, line->pid);
	struct report_tick *tick = &r->tick;

	if (process->tick == tick->number)
		*tick = (struct report_tick){ .number = tick->number + 1 };
	process->tick = tick->number;
	tick->total_vmas += line->total_vmas;
	tick->hot_vmas += line->hot_vmas;
	if (line->length_ns)
		tick->bytes_per_sec += (double)(line->written_pages * r->header->page_bytes) * 1e9 /
				       (double)line->length_ns;
	if (tick->total_vmas > r->total_vmas)
		r->total_vmas = tick->total_vmas;
	if (tick->hot_vmas > r->hot_vmas)
		r->hot_vmas = tick->hot_vmas;
	if (tick->bytes_per_sec > r->peak_bytes_per_sec)
		r->peak_bytes_per_sec = tick->bytes_per_sec;
}

static int add_interval(struct report *r, const struct trace_line *line)
{
	r->written_pages += line->written_pages;
	r->estimated |= line->estimated;
	if (line->start_ns + line->length_ns > r->elapsed_ns)
		r->elapsed_ns = line->start_ns + line->length_ns;
	add_to_tick(r, line);
	if (!add_regions(r, line))
		return -ENOMEM;
	if (line->pid == r->map_pid &&
	    /* numbers begin again when the process executes another program */
	    (!heatmap_add(r->map, ++r->map_intervals, line->start_ns, line->length_ns, line->runs,
			  line->n_runs) ||
	     !heatmap_skip(r->map, r->map_intervals, line->unmeasured, line->n_unmeasured)))
		return -ENOMEM;
	return 0;
}

/* What the line of its interval had no room for */
static int add_runs(struct report *r, const struct trace_line *line)
{
	region_runs(&r->regions, line->pid, line->runs, line->n_runs, r->header->page_bytes);
	if (line->pid == r->map_pid && r->map_intervals &&
	    (!heatmap_more(r->map, r->map_intervals, line->runs, line->n_runs) ||
	     !heatmap_skip(r->map, r->map_intervals, line->unmeasured, line->n_unmeasured)))
		return -ENOMEM;
	return 0;
}

static int add_process(struct report *r, const struct trace_line *line)
{
	struct report_process *children;

	if (line->pid == r->header->pid || process_of(r, line->pid) != &r->first)
		return 0;
	children = reallocarray(r->children, r->n_children + 1, sizeof(*children));
	if (!children)
		return -ENOMEM;
	r->children = children;
	/* its first interval may come within the tick being read */
	children[r->n_children++] = (struct report_process){ .pid = line->pid, .tick = UINT64_MAX };
	return 0;
}

static int add_end(struct report *r, const struct trace_line *line)
{
	r->complete = true;
	r->reason_text = strdup(line->end.reason);
	r->reason = r->reason_text;
	r->cost = line->end.cost;
	return r->reason ? 0 : -ENOMEM;
}

int report_read(struct trace_reader *reader, int map_pid, struct report *r)
{
	struct trace_line line;
	int rc;

	memset(r, 0, sizeof(*r));
	r->header = trace_header(reader);
	r->first.pid = r->header->pid;
	r->map_pid = map_pid ? map_pid : r->header->pid;
	r->map = heatmap_new(r->header->page_bytes);
	if (!r->map)
		return -ENOMEM;
	while ((rc = trace_next(reader, &line)) > 0 && !r->complete) {
		rc = 0;
		if (line.type == TRACE_INTERVAL)
			rc = add_interval(r, &line);
		else if (line.type == TRACE_RUNS)
			rc = add_runs(r, &line);
		else if (line.type == TRACE_PROCESS)
			rc = add_process(r, &line);
		else if (line.type == TRACE_END)
			rc = add_end(r, &line);
		if (rc)
			break;
	}
	return rc < 0 ? rc : 0;
}

void report_free(struct report *r)
{
	free(r->reason_text);
	free(r->children);
	region_table_free(&r->regions);
	heatmap_free(r->map);
}
