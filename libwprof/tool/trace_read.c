/*
 * trace_read.c - a trace, line by line, from a file that may be anything.
 *
 * Theory of operation
 *
 * The file may be cut, foreign, endless or hostile. So a line is read into a
 * buffer that grows to a limit and no further, and every field that is used is
 * checked for its kind and range before anything is computed from it: ranges are
 * not empty, ascending and page aligned, runs lie within the address space.
 * Memory is bounded by one line, whatever the length of the file; and as a JSON value
 * of three bytes takes a hundred in memory, these are counted before they are made.
 *
 * A line without line end is the place where writing was cut off; it counts as
 * the end of the file. Any other bad line is damage and ends the reading.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool/json.h"
#include "tool/trace.h"

struct trace_reader {
	FILE *f;
	char *buf;
	size_t room, len;
	uint64_t line; /* number of the one in buf */
	json_t *header_json, *json;
	struct trace_header header;
	void *vmas, *hot, *runs, *unmeasured; /* of the current line */
	char why[240];
};

static int damaged(struct trace_reader *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int damaged(struct trace_reader *r, const char *format, ...)
{
	int n = snprintf(r->why, sizeof(r->why), "line %llu: ", (unsigned long long)r->line);
	va_list args;

	va_start(args, format);
	vsnprintf(r->why + n, sizeof(r->why) - (size_t)n, format, args);
	va_end(args);
	return -1;
}

static bool buffer_grow(struct trace_reader *r, size_t max)
{
	size_t room = r->room ? 2 * r->room : 4096;
	char *buf;

	if (r->len < r->room)
		return true;
	buf = r->room < max ? realloc(r->buf, room) : NULL;
	if (!buf)
		return false;
	r->buf = buf;
	r->room = room;
	return true;
}

/* Return: 1, a line of at most @max bytes is in buf; 0: no whole line left. */
static int read_line(struct trace_reader *r, size_t max)
{
	bool in_text = false, escaped = false;
	size_t n_values = 0;
	int c;

	r->line++;
	r->len = 0;
	while ((c = getc_unlocked(r->f)) != EOF && c != '\n') {
		if (r->len == max || !buffer_grow(r, max))
			return damaged(r, "longer than %zu bytes", r->len);
		in_text ^= c == '"' && !escaped;
		escaped = in_text && c == '\\' && !escaped;
		n_values += !in_text && (c == ',' || c == '[' || c == '{');
		if (n_values > TRACE_VALUES_MAX)
			return damaged(r, "more than %u values", TRACE_VALUES_MAX);
		r->buf[r->len++] = (char)c;
	}
	if (ferror(r->f))
		return damaged(r, "cannot be read: %s", strerror(errno));
	return c == '\n';
}

static int parse_line(struct trace_reader *r)
{
	json_error_t error;

	json_decref(r->json);
	r->json = json_loadb(r->buf ? r->buf : "", r->len, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(r->json))
		return damaged(r, "not a JSON object");
	return 0;
}

/* ---- header ------------------------------------------------------------------ */

static bool read_rule(const json_t *j, struct trace_rule *rule)
{
	const char *arming;

	if (!json_get_u64(j, "interval_ms", &rule->interval_ms) ||
	    !json_get_text(j, "arming", &arming) ||
	    !json_get_u64(j, "granularity_bytes", &rule->granularity_bytes) ||
	    !json_get_number(j, "hot_threshold", &rule->hot_threshold) ||
	    !json_get_u64(j, "hot_consecutive", &rule->hot_consecutive) ||
	    !json_get_u64(j, "window", &rule->window))
		return false;
	rule->sample = !strcmp(arming, "sample");
	return rule->interval_ms > 0;
}

static bool is_page_size(uint64_t n)
{
	return n >= 4096 && n <= 1 << 20 && !(n & (n - 1));
}

static int read_header(struct trace_reader *r)
{
	struct trace_header *h = &r->header;
	const json_t *j = r->header_json;
	uint64_t version, pid;

	if (!json_get_u64(j, "version", &version))
		return damaged(r, "a trace without version");
	if (version != 1)
		return damaged(r, "a trace of version %llu, only 1 is known here",
			       (unsigned long long)version);
	if (!json_get_u64(j, "pid", &pid) || pid > INT32_MAX ||
	    !json_get_text(j, "command", &h->command) ||
	    !json_get_u64(j, "started_at_ns", &h->started_at_ns) ||
	    !json_get_u64(j, "page_bytes", &h->page_bytes) || !is_page_size(h->page_bytes) ||
	    !read_rule(j, &h->rule))
		return damaged(r, "the header of a trace lacks a field");
	h->pid = (pid_t)pid;
	h->tree = json_is_flag(j, "tree");
	h->context = json_object_get(j, "context");
	return 0;
}

static int open_header(struct trace_reader *r)
{
	const char *format = NULL;
	int rc = read_line(r, TRACE_HEADER_MAX);

	if (ferror(r->f))
		return rc;
	/* a file cut within its header has shown nothing of a trace yet */
	if (rc <= 0 || parse_line(r) || !json_get_text(r->json, "format", &format) ||
	    strcmp(format, "wprof.trace")) {
		snprintf(r->why, sizeof(r->why), "%s",
			 rc == 0 && r->len == 0 ? "empty, so no trace" : "not a trace");
		return -1;
	}
	r->header_json = r->json;
	r->json = NULL;
	return read_header(r);
}

struct trace_reader *trace_open(const char *path, char *why, size_t why_bytes)
{
	struct trace_reader *r = calloc(1, sizeof(*r));

	if (!r) {
		snprintf(why, why_bytes, "%s", strerror(ENOMEM));
		return NULL;
	}
	r->f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	if (!r->f) {
		snprintf(why, why_bytes, "%s", strerror(errno));
		free(r);
		return NULL;
	}
	if (open_header(r)) {
		snprintf(why, why_bytes, "%s", r->why);
		trace_close(r);
		return NULL;
	}
	return r;
}

/* ---- the parts of a line ------------------------------------------------------- */

static enum wprof_vma_type type_of(const char *name)
{
	for (int t = WPROF_HEAP; t <= WPROF_VDSO; t++)
		if (!strcmp(name, wprof_vma_type_name((enum wprof_vma_type)t)))
			return (enum wprof_vma_type)t;
	return WPROF_ANONYMOUS;
}

static bool read_range(const struct trace_reader *r, const json_t *j, uint64_t *start,
		       uint64_t *end)
{
	return json_get_address(j, "start", start) && json_get_address(j, "end", end) &&
	       *start < *end && !((*start | *end) & (r->header.page_bytes - 1));
}

static bool read_vma(const struct trace_reader *r, const json_t *j, struct wprof_vma *v)
{
	const char *type;

	if (!read_range(r, j, &v->start, &v->end) || !json_get_text(j, "type", &type) ||
	    !json_get_text(j, "name", &v->name))
		return false;
	v->type = type_of(type);
	json_get_u64(j, "written_pages", &v->written_pages);
	json_get_u64(j, "populated_pages", &v->populated_pages);
	return v->written_pages <= (v->end - v->start) / r->header.page_bytes;
}

static int read_vmas(struct trace_reader *r, struct trace_line *line)
{
	const json_t *list = json_object_get(r->json, "vmas");
	uint64_t last = 0;

	line->n_vmas = json_array_size(list);
	free(r->vmas);
	r->vmas = line->vmas = calloc(line->n_vmas + 1, sizeof(*line->vmas));
	if (!r->vmas)
		return damaged(r, "%s", strerror(ENOMEM));
	for (size_t i = 0; i < line->n_vmas; i++) {
		struct wprof_vma *v = &line->vmas[i];

		if (!read_vma(r, json_array_get(list, i), v) || v->start < last)
			return damaged(r, "entry %zu of vmas is no VMA", i);
		last = v->end;
	}
	return json_is_array(list) ? 0 : damaged(r, "no vmas");
}

static bool read_region(const struct trace_reader *r, const json_t *j, struct wprof_region *g)
{
	uint64_t consecutive;
	const char *type;

	if (!read_range(r, j, &g->start, &g->end) || !json_get_text(j, "type", &type) ||
	    !json_get_text(j, "name", &g->name) ||
	    !json_get_number(j, "written_ratio", &g->written_ratio) ||
	    !json_get_number(j, "window_ratio", &g->window_ratio) ||
	    !json_get_u64(j, "consecutive", &consecutive) || consecutive > UINT32_MAX)
		return false;
	g->type = type_of(type);
	g->consecutive = (uint32_t)consecutive;
	/* a field that came later */
	if (!json_get_u64(j, "populated_bytes", &g->populated_bytes))
		g->populated_bytes = g->end - g->start;
	return true;
}

static int read_hot(struct trace_reader *r, struct trace_line *line)
{
	const json_t *list = json_object_get(r->json, "hot");

	line->n_hot = json_array_size(list);
	free(r->hot);
	r->hot = line->hot = calloc(line->n_hot + 1, sizeof(*line->hot));
	if (!r->hot)
		return damaged(r, "%s", strerror(ENOMEM));
	for (size_t i = 0; i < line->n_hot; i++)
		if (!read_region(r, json_array_get(list, i), &line->hot[i]))
			return damaged(r, "entry %zu of hot is no region", i);
	return json_is_array(list) ? 0 : damaged(r, "no hot");
}

/* [address, pages], behind the end of the run before, within 64 bits */
static bool read_run(const struct trace_reader *r, const json_t *pair, uint64_t last,
		     struct wprof_run *run)
{
	const json_t *n = json_array_get(pair, 1);
	uint64_t bytes;

	if (json_array_size(pair) != 2 || !json_to_address(json_array_get(pair, 0), &run->start) ||
	    !json_is_integer(n) || json_integer_value(n) <= 0)
		return false;
	run->n_pages = (uint64_t)json_integer_value(n);
	return run->start >= last && !(run->start & (r->header.page_bytes - 1)) &&
	       !__builtin_mul_overflow(run->n_pages, r->header.page_bytes, &bytes) &&
	       run->start <= UINT64_MAX - bytes;
}

static int read_list(struct trace_reader *r, const char *name, const json_t *list,
		     struct wprof_run *runs)
{
	uint64_t last = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		if (!read_run(r, json_array_get(list, i), last, &runs[i]))
			return damaged(r, "entry %zu of %s is no run of pages", i, name);
		last = runs[i].start + runs[i].n_pages * r->header.page_bytes;
	}
	return 0;
}

/* Of an interval, and on a line of their own: any of them may be missing there. */
static int read_runs(struct trace_reader *r, struct trace_line *line)
{
	const json_t *list = json_object_get(r->json, "runs");
	bool needed = line->type == TRACE_INTERVAL;
	/* a field that came later, and is only there where there are some */
	const json_t *unmeasured = json_object_get(r->json, "unmeasured_runs");

	free(r->runs);
	free(r->unmeasured);
	line->n_runs = json_array_size(list);
	line->n_unmeasured = json_array_size(unmeasured);
	r->runs = line->runs = calloc(line->n_runs + 1, sizeof(*line->runs));
	r->unmeasured = line->unmeasured =
		calloc(line->n_unmeasured + 1, sizeof(*line->unmeasured));
	if (!r->runs || !r->unmeasured)
		return damaged(r, "%s", strerror(ENOMEM));
	if (((needed || list) && !json_is_array(list)) ||
	    (unmeasured && !json_is_array(unmeasured)))
		return damaged(r, "no runs");
	return read_list(r, "runs", list, line->runs) ||
			       read_list(r, "unmeasured_runs", unmeasured, line->unmeasured)
		       ? -1
		       : 0;
}

static int read_interval(struct trace_reader *r, struct trace_line *line)
{
	const json_t *j = r->json;

	if (!json_get_u64(j, "number", &line->number) || line->number == 0 ||
	    !json_get_u64(j, "start_ns", &line->start_ns) ||
	    !json_get_u64(j, "length_ns", &line->length_ns) ||
	    !json_get_u64(j, "written_pages", &line->written_pages) ||
	    !json_get_u64(j, "total_vmas", &line->total_vmas) ||
	    !json_get_u64(j, "hot_vmas", &line->hot_vmas))
		return damaged(r, "the interval lacks a field");
	if (line->written_pages > UINT64_MAX / r->header.page_bytes ||
	    line->start_ns > INT64_MAX / 2 || line->length_ns > INT64_MAX / 2)
		return damaged(r, "a figure is out of range");
	line->estimated = json_is_flag(j, "estimated");
	return read_vmas(r, line) || read_hot(r, line) || read_runs(r, line) ? -1 : 0;
}

static int read_end(struct trace_reader *r, struct trace_line *line)
{
	const json_t *cost = json_object_get(r->json, "cost");
	struct trace_end *e = &line->end;

	if (!json_get_text(r->json, "reason", &e->reason) ||
	    !json_get_u64(r->json, "intervals", &e->intervals) ||
	    !json_get_u64(r->json, "elapsed_ns", &e->elapsed_ns) ||
	    !json_get_u64(r->json, "written_pages", &e->written_pages) ||
	    !json_get_u64(cost, "scan_ns", &e->cost.scan_ns) ||
	    !json_get_u64(cost, "total_ns", &e->cost.total_ns) ||
	    !json_get_u64(cost, "n_scans", &e->cost.n_scans) ||
	    !json_get_u64(cost, "faults", &e->cost.faults) ||
	    !json_get_u64(cost, "cpu_ns", &e->cost.cpu_ns))
		return damaged(r, "the end lacks a field");
	return 0;
}

/* ---- lines ---------------------------------------------------------------------- */

static int type_number(const char *name)
{
	static const char *const names[] = { "layout",	"interval", "context",
					     "process", "end",	    "runs" };

	for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

/* Return: 1: of a known type and read; 0: of another; -1. */
static int read_typed(struct trace_reader *r, struct trace_line *line)
{
	const char *name;
	uint64_t pid = 0;
	int type, rc = 0;

	if (!json_get_text(r->json, "type", &name))
		return damaged(r, "no type");
	type = type_number(name);
	if (type < 0)
		return 0;
	memset(line, 0, sizeof(*line));
	line->type = (enum trace_type)type;
	line->json = r->json;
	if (line->type != TRACE_END && (!json_get_u64(r->json, "pid", &pid) || pid > INT32_MAX))
		return damaged(r, "no pid");
	line->pid = (pid_t)pid;
	if (line->type == TRACE_LAYOUT)
		rc = read_vmas(r, line);
	else if (line->type == TRACE_INTERVAL)
		rc = read_interval(r, line);
	else if (line->type == TRACE_RUNS)
		rc = read_runs(r, line);
	else if (line->type == TRACE_END)
		rc = read_end(r, line);
	return rc ? rc : 1;
}

int trace_next(struct trace_reader *r, struct trace_line *line)
{
	int rc;

	do {
		rc = read_line(r, TRACE_LINE_MAX);
		if (rc <= 0)
			return rc;
		if (parse_line(r))
			return -1;
		rc = read_typed(r, line);
	} while (rc == 0);
	return rc;
}

const struct trace_header *trace_header(const struct trace_reader *r)
{
	return &r->header;
}

json_t *trace_header_json(const struct trace_reader *r)
{
	return r->header_json;
}

const char *trace_why(const struct trace_reader *r)
{
	return r->why;
}

void trace_close(struct trace_reader *r)
{
	if (!r)
		return;
	if (r->f && r->f != stdin)
		fclose(r->f);
	json_decref(r->header_json);
	json_decref(r->json);
	free(r->vmas);
	free(r->hot);
	free(r->runs);
	free(r->unmeasured);
	free(r->buf);
	free(r);
}
