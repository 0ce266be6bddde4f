/* trace_write.c - the lines of a trace, from what libwprof measured. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool/json.h"
#include "tool/trace.h"

static json_t *or_null(json_t *context)
{
	return context ? json_incref(context) : json_null();
}

int trace_add_rule(json_t *object, const struct trace_rule *rule)
{
	json_t *part =
		json_pack("{s:o, s:s, s:o, s:f, s:o, s:o}", "interval_ms",
			  json_u64(rule->interval_ms), "arming", rule->sample ? "sample" : "exact",
			  "granularity_bytes", json_u64(rule->granularity_bytes), "hot_threshold",
			  rule->hot_threshold, "hot_consecutive", json_u64(rule->hot_consecutive),
			  "window", json_u64(rule->window));
	int rc = part ? json_object_update(object, part) : -1;

	json_decref(part);
	return rc;
}

bool trace_put_header(FILE *f, const struct trace_header *h)
{
	json_t *line = json_pack("{s:s, s:i, s:s, s:i, s:o, s:b, s:o, s:o, s:o}", "format",
				 "wprof.trace", "version", 1, "tool_version", wprof_version(),
				 "pid", (int)h->pid, "command", json_text(h->command), "tree",
				 h->tree, "context", or_null(h->context), "started_at_ns",
				 json_u64(h->started_at_ns), "page_bytes", json_u64(h->page_bytes));

	if (!line || trace_add_rule(line, &h->rule)) {
		json_decref(line);
		return false;
	}
	return json_put(f, line);
}

/* Bytes of @n characters in JSON, at most: what is no plain ASCII is written as "\u001f". */
static size_t escaped_len(const char *text, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += text[i] >= ' ' && text[i] < 0x7f && text[i] != '"' && text[i] != '\\' ? 1
											     : 6;
	return len;
}

/* A path may have 16 KiB here; both its ends tell more than its middle. */
static json_t *name_json(const char *name)
{
	size_t len = strlen(name), most = TRACE_NAME_MAX - 2, head = 0, tail = 0;
	char clipped[TRACE_NAME_MAX + 1];

	if (escaped_len(name, len) <= TRACE_NAME_MAX)
		return json_text(name);
	while (escaped_len(name, head + 1) <= most / 2)
		head++;
	while (escaped_len(name + len - tail - 1, tail + 1) <= most / 2)
		tail++;
	snprintf(clipped, sizeof(clipped), "%.*s..%s", (int)head, name, name + len - tail);
	return json_text(clipped);
}

static json_t *vma_json(const struct wprof_vma *v)
{
	return json_pack("{s:o, s:o, s:s, s:o}", "start", json_address(v->start), "end",
			 json_address(v->end), "type", wprof_vma_type_name(v->type), "name",
			 name_json(v->name));
}

/* @line, in which @n of them have no place any more */
static json_t *left_out(json_t *line, const char *what, size_t n)
{
	if (line && n)
		json_object_set_new(line, what, json_u64(n));
	return line;
}

bool trace_put_layout(FILE *f, pid_t pid, const struct wprof_interval *iv)
{
	size_t n = iv->n_vmas < TRACE_VMAS_MAX ? iv->n_vmas : TRACE_VMAS_MAX;
	json_t *vmas = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(vmas, vma_json(&iv->vmas[i]));
	return json_put(f, left_out(json_pack("{s:s, s:i, s:o}", "type", "layout", "pid", (int)pid,
					      "vmas", vmas),
				    "vmas_left_out", iv->n_vmas - n));
}

bool trace_put_context(FILE *f, pid_t pid, json_t *context)
{
	return json_put(f, json_pack("{s:s, s:i, s:o}", "type", "context", "pid", (int)pid,
				     "context", or_null(context)));
}

bool trace_put_process(FILE *f, pid_t pid, pid_t parent, const char *command, uint64_t start_ns,
		       json_t *context)
{
	return json_put(f, json_pack("{s:s, s:i, s:i, s:o, s:o, s:o}", "type", "process", "pid",
				     (int)pid, "parent_pid", (int)parent, "command",
				     json_text(command), "start_ns", json_u64(start_ns), "context",
				     or_null(context)));
}

json_t *trace_cost_json(const struct trace_cost *c)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "scan_ns", json_u64(c->scan_ns), "total_ns",
			 json_u64(c->total_ns), "n_scans", json_u64(c->n_scans), "faults",
			 json_u64(c->faults), "cpu_ns", json_u64(c->cpu_ns));
}

bool trace_put_end(FILE *f, const struct trace_end *end)
{
	return json_put(f, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "type", "end", "reason",
				     end->reason, "intervals", json_u64(end->intervals),
				     "elapsed_ns", json_u64(end->elapsed_ns), "written_pages",
				     json_u64(end->written_pages), "cost",
				     trace_cost_json(&end->cost)));
}

/* Those written or changed; *n_out: without those that there is no room for */
static json_t *written_vmas(const struct wprof_interval *iv, size_t *n_out)
{
	json_t *vmas = json_array();

	for (size_t i = 0; i < iv->n_vmas; i++) {
		const struct wprof_vma *v = &iv->vmas[i];
		json_t *j;

		if (!v->written_pages && !v->flags)
			continue;
		if (json_array_size(vmas) == TRACE_VMAS_MAX) {
			++*n_out;
			continue;
		}
		j = vma_json(v);
		json_object_set_new(j, "written_pages", json_u64(v->written_pages));
		json_object_set_new(j, "populated_pages", json_u64(v->populated_pages));
		if (v->flags & WPROF_VMA_NEW)
			json_object_set_new(j, "new", json_true());
		if (v->flags & WPROF_VMA_CHANGED)
			json_object_set_new(j, "changed", json_true());
		if (v->flags & WPROF_VMA_BUSY)
			json_object_set_new(j, "busy", json_true());
		json_array_append_new(vmas, j);
	}
	return vmas;
}

/* @name: how names are written: whole in a document of their own, clipped in a line */
static json_t *regions_json(const struct wprof_region *r, size_t n,
			    json_t *(*name)(const char *text))
{
	json_t *regions = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(
			regions,
			json_pack("{s:o, s:o, s:o, s:f, s:f, s:i, s:s, s:o}", "start",
				  json_address(r[i].start), "end", json_address(r[i].end),
				  "populated_bytes", json_u64(r[i].populated_bytes),
				  "written_ratio", r[i].written_ratio, "window_ratio",
				  r[i].window_ratio, "consecutive", (int)r[i].consecutive, "type",
				  wprof_vma_type_name(r[i].type), "name", name(r[i].name)));
	return regions;
}

json_t *trace_regions_json(const struct wprof_region *r, size_t n)
{
	return regions_json(r, n, json_text);
}

static json_t *interval_json(pid_t pid, uint64_t base_ns, const struct wprof_interval *iv,
			     const struct wprof_region *hot, size_t n_hot)
{
	uint64_t start_ns = iv->start_ns > base_ns ? iv->start_ns - base_ns : 0;
	size_t n_out = 0;
	size_t n_hot_put = n_hot < TRACE_HOT_MAX ? n_hot : TRACE_HOT_MAX;
	json_t *vmas = written_vmas(iv, &n_out), *line;

	line = json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:f, s:b, s:o, s:o, s:o, s:o, s:o,"
			 " s:o, s:{s:o, s:o, s:o, s:o}, s:o, s:o}",
			 "type", "interval", "pid", (int)pid, "number", json_u64(iv->number),
			 "start_ns", json_u64(start_ns), "length_ns", json_u64(iv->length_ns),
			 "written_pages", json_u64(iv->written_pages), "written_bytes",
			 json_u64(iv->written_pages * iv->page_bytes), "dirty_rate_bytes_per_sec",
			 trace_dirty_rate(iv), "estimated", iv->estimated, "armed_pages",
			 json_u64(iv->armed_pages), "total_vmas", json_u64(iv->n_vmas), "hot_vmas",
			 json_u64(trace_hot_vmas(iv, hot, n_hot)), "untracked_shared_bytes",
			 json_u64(iv->untracked_shared_bytes), "untracked_busy_bytes",
			 json_u64(iv->untracked_busy_bytes), "untracked_limit_bytes",
			 json_u64(iv->untracked_limit_bytes), "cost", "scan_ns",
			 json_u64(iv->cost.scan_ns), "total_ns", json_u64(iv->cost.total_ns),
			 "n_scans", json_u64(iv->cost.n_scans), "faults", json_u64(iv->cost.faults),
			 "vmas", vmas, "hot", regions_json(hot, n_hot_put, name_json));
	line = left_out(line, "vmas_left_out", n_out);
	return left_out(line, "hot_left_out", n_hot - n_hot_put);
}

/* A JSON value for each run would cost 250 bytes of memory: print them at once. */
static void put_runs(FILE *f, const char *name, const struct wprof_run *runs, size_t n)
{
	fprintf(f, ",\"%s\":[", name);
	n = n < TRACE_RUNS_MAX ? n : TRACE_RUNS_MAX;
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s[\"0x%" PRIx64 "\",%" PRIu64 "]", i ? "," : "", runs[i].start,
			runs[i].n_pages);
	putc(']', f);
}

/* Those that the line of the interval has no room for, on lines of their own */
static void put_more_runs(FILE *f, pid_t pid, const char *name, const struct wprof_run *runs,
			  size_t n)
{
	for (size_t i = TRACE_RUNS_MAX; i < n; i += TRACE_RUNS_MAX) {
		fprintf(f, "{\"type\":\"runs\",\"pid\":%d", (int)pid);
		put_runs(f, name, runs + i, n - i);
		fputs("}\n", f);
	}
}

bool trace_put_interval(FILE *f, pid_t pid, uint64_t base_ns, const struct wprof_interval *iv,
			const struct wprof_region *hot, size_t n_hot, bool soft_dirty)
{
	json_t *line = interval_json(pid, base_ns, iv, hot, n_hot);
	char *text;

	if (line && iv->ended)
		json_object_set_new(line, "ended", json_true());
	if (line && soft_dirty)
		json_object_set_new(line, "soft_dirty_pages", json_u64(iv->soft_dirty_pages));
	text = line ? json_dumps(line, JSON_WPROF) : NULL;
	json_decref(line);
	if (!text)
		return false;
	fwrite(text, 1, strlen(text) - 1, f); /* without its last brace */
	free(text);
	put_runs(f, "runs", iv->runs, iv->n_runs);
	if (iv->n_unmeasured)
		put_runs(f, "unmeasured_runs", iv->unmeasured, iv->n_unmeasured);
	if (soft_dirty)
		put_runs(f, "soft_dirty_runs", iv->soft_dirty_runs, iv->n_soft_dirty_runs);
	fputs("}\n", f);
	put_more_runs(f, pid, "runs", iv->runs, iv->n_runs);
	put_more_runs(f, pid, "unmeasured_runs", iv->unmeasured, iv->n_unmeasured);
	if (soft_dirty)
		put_more_runs(f, pid, "soft_dirty_runs", iv->soft_dirty_runs,
			      iv->n_soft_dirty_runs);
	return !ferror(f);
}

static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
	const unsigned char *b = bytes;

	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * 0x100000001b3u;
	return h;
}

uint64_t trace_layout_hash(const struct wprof_interval *iv)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < iv->n_vmas; i++) {
		const struct wprof_vma *v = &iv->vmas[i];

		h = hash_bytes(h, &v->start, sizeof(v->start));
		h = hash_bytes(h, &v->end, sizeof(v->end));
		h = hash_bytes(h, &v->type, sizeof(v->type));
		h = hash_bytes(h, v->name, strlen(v->name) + 1);
	}
	return h;
}

size_t trace_hot_vmas(const struct wprof_interval *iv, const struct wprof_region *hot, size_t n_hot)
{
	size_t count = 0, r = 0;

	for (size_t i = 0; i < iv->n_vmas; i++) {
		while (r < n_hot && hot[r].end <= iv->vmas[i].start)
			r++;
		count += r < n_hot && hot[r].start < iv->vmas[i].end;
	}
	return count;
}

uint64_t trace_hot_bytes(const struct wprof_region *hot, size_t n_hot)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n_hot; i++)
		bytes += hot[i].populated_bytes;
	return bytes;
}

double trace_dirty_rate(const struct wprof_interval *iv)
{
	if (!iv->length_ns)
		return 0;
	return (double)(iv->written_pages * iv->page_bytes) * 1e9 / (double)iv->length_ns;
}

void trace_add_cost(struct trace_cost *sum, const struct wprof_cost *cost)
{
	sum->scan_ns += cost->scan_ns;
	sum->total_ns += cost->total_ns;
	sum->n_scans += cost->n_scans;
	sum->faults += cost->faults;
}
