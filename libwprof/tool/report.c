/* report.c - `wprof report`: sum a trace up, draw its heat map. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "text.h"
#include "tool/commands.h"
#include "tool/human.h"
#include "tool/json.h"
#include "tool/options.h"
#include "tool/picture.h"
#include "tool/report.h"

struct report_options {
	struct options o;
	const char *file, *svg;
	uint64_t regions, process;
	bool no_map;
};

static double mean_rate(const struct report *r)
{
	double bytes = (double)(r->written_pages * r->header->page_bytes);

	return r->elapsed_ns ? bytes * 1e9 / (double)r->elapsed_ns : 0;
}

static int most_written_first(const void *a, const void *b)
{
	const struct region_sum *x = *(const struct region_sum *const *)a;
	const struct region_sum *y = *(const struct region_sum *const *)b;

	if (x->written_pages != y->written_pages)
		return x->written_pages < y->written_pages ? 1 : -1;
	return (x->start > y->start) - (x->start < y->start);
}

/* The regions, most written first; NULL: no memory. To be freed. */
static const struct region_sum **sorted_regions(const struct report *r)
{
	const struct region_sum **list = calloc(r->regions.n + 1, sizeof(*list));

	for (size_t i = 0; list && i < r->regions.n; i++)
		list[i] = &r->regions.list[i];
	if (list)
		qsort(list, r->regions.n, sizeof(*list), most_written_first);
	return list;
}

static double share_of(const struct report *r, const struct region_sum *g)
{
	return r->written_pages ? (double)g->written_pages / (double)r->written_pages : 0;
}

/* ---- JSON ---------------------------------------------------------------------------- */

static json_t *region_json(const struct report *r, const struct region_sum *g)
{
	return json_pack("{s:i, s:o, s:o, s:s, s:o, s:o, s:f, s:o, s:o, s:f}", "pid", g->pid,
			 "start", json_address(g->start), "end", json_address(g->end), "type",
			 wprof_vma_type_name(g->type), "name", json_text(g->name), "written_pages",
			 json_u64(g->written_pages), "share", share_of(r, g), "intervals_written",
			 json_u64(g->intervals_written), "intervals_hot",
			 json_u64(g->intervals_hot), "written_ratio",
			 g->ratio_sum / (double)g->intervals_written);
}

static bool print_json(json_t *header, const struct report *r, const struct region_sum **list)
{
	json_t *regions = json_array();

	for (size_t i = 0; i < r->regions.n; i++)
		json_array_append_new(regions, region_json(r, list[i]));
	return json_put(stdout,
			json_pack("{s:s, s:i, s:O, s:b, s:s?, s:o, s:o, s:o, s:o, s:f, s:f, s:b, "
				  "s:o, s:o, s:o, s:o,"
				  " s:o}",
				  "format", "wprof.report", "version", 1, "trace", header,
				  "complete", r->complete, "reason", r->reason, "intervals",
				  json_u64(r->tick.number), "elapsed_ns", json_u64(r->elapsed_ns),
				  "written_pages", json_u64(r->written_pages), "written_bytes",
				  json_u64(r->written_pages * r->header->page_bytes),
				  "dirty_rate_bytes_per_sec", mean_rate(r), "peak_bytes_per_sec",
				  r->peak_bytes_per_sec, "estimated", r->estimated, "total_vmas",
				  json_u64(r->total_vmas), "hot_vmas", json_u64(r->hot_vmas),
				  "processes", json_u64(r->n_children + 1), "cost",
				  trace_cost_json(&r->cost), "regions", regions));
}

/* ---- text ------------------------------------------------------------------------------ */

static void describe_target(const struct report *r, char *out, size_t bytes)
{
	const json_t *resource =
		json_object_get(json_object_get(r->header->context, "resource"), "attributes");
	const char *service = NULL;
	const json_t *a;
	size_t i;

	json_array_foreach(resource, i, a)
	{
		const char *key = json_string_value(json_object_get(a, "key"));

		if (key && !strcmp(key, "service.name"))
			service = json_string_value(
				json_object_get(json_object_get(a, "value"), "stringValue"));
	}
	snprintf(out, bytes, "%s (pid %d%s%.60s)", r->header->command, r->header->pid,
		 service ? ", service " : "", service ? service : "");
	text_tame(out);
}

static void describe_run(const struct report *r, char *out, size_t bytes)
{
	const struct trace_rule *rule = &r->header->rule;

	snprintf(out, bytes, "%llu intervals of %llu ms, %s arming, %s written, mean %s%s",
		 (unsigned long long)r->tick.number, (unsigned long long)rule->interval_ms,
		 rule->sample ? "sample" : "exact",
		 human_bytes((double)(r->written_pages * r->header->page_bytes)).text,
		 human_rate(mean_rate(r)).text, r->estimated ? " (estimated)" : "");
}

static const char *reason_text(const struct report *r)
{
	static const char *const texts[][2] = {
		{ "duration", "after the duration asked for" },
		{ "interrupted", "stopped by a signal" },
		{ "ended", "the target exited" },
		{ "execed", "the target ran another program" },
		{ "failed", "profiling failed" },
	};

	for (size_t i = 0; r->reason && i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!strcmp(r->reason, texts[i][0]))
			return texts[i][1];
	return r->reason ? r->reason : "cut short: the file has no end";
}

/* Where a line does not fit, words go to the next; only a word is ever clipped. */
static void print_folded(const char *text, size_t width)
{
	char word[300], clipped[4 * HUMAN_WIDTH_MAX + 1];
	size_t column = 0;

	while (*text) {
		size_t n = strcspn(text, " "), len;

		snprintf(word, sizeof(word), "%.*s", (int)n, text);
		human_clip(word, width, clipped);
		len = n < width ? n : width;
		if (column && column + 1 + len > width) {
			column = 0;
			putchar('\n');
		}
		printf("%s%s", column ? " " : "", clipped);
		column += len + (column > 0);
		text += n + strspn(text + n, " ");
	}
	putchar('\n');
}

static void print_line(const char *label, const char *text, size_t width)
{
	char clipped[4 * HUMAN_WIDTH_MAX + 1];

	if (width >= 40)
		printf("%-10s %s\n", label, human_clip(text, width - 11, clipped));
	else
		print_folded(text, width);
}

static void print_summary(const struct report *r, size_t width)
{
	const struct trace_rule *rule = &r->header->rule;
	char text[300];

	describe_target(r, text, sizeof(text));
	print_line("target", text, width);
	snprintf(text, sizeof(text), "%llu intervals of %llu ms in %s, %s arming",
		 (unsigned long long)r->tick.number, (unsigned long long)rule->interval_ms,
		 human_time(r->elapsed_ns).text, rule->sample ? "sample" : "exact");
	print_line("recorded", text, width);
	print_line("end", reason_text(r), width);
	snprintf(text, sizeof(text), "%s%s; mean %s, peak %s",
		 human_bytes((double)(r->written_pages * r->header->page_bytes)).text,
		 r->estimated ? " (estimated)" : "", human_rate(mean_rate(r)).text,
		 human_rate(r->peak_bytes_per_sec).text);
	print_line("written", text, width);
	snprintf(text, sizeof(text), "%llu tracked, at most %llu with a hot part",
		 (unsigned long long)r->total_vmas, (unsigned long long)r->hot_vmas);
	print_line("mappings", text, width);
	if (r->n_children) {
		snprintf(text, sizeof(text), width < 40 ? "%zu processes" : "%zu",
			 r->n_children + 1);
		print_line("processes", text, width);
	}
	snprintf(text, sizeof(text), "%s scanning, %s of processor, %llu faults at most",
		 human_time(r->cost.scan_ns).text, human_time(r->cost.cpu_ns).text,
		 (unsigned long long)r->cost.faults);
	if (r->complete)
		print_line("own cost", text, width);
}

#define WIDE   76
#define MEDIUM 46

static void print_region(const struct report *r, const struct region_sum *g, size_t columns)
{
	char name[4 * HUMAN_WIDTH_MAX + 1], pid[16] = "", times[48];
	struct human written = human_bytes((double)(g->written_pages * r->header->page_bytes));

	const char *full = human_vma_name(g->type, g->name);
	size_t width = columns;

	if (r->n_children)
		width -= (size_t)snprintf(pid, sizeof(pid), "%d ", g->pid);
	snprintf(times, sizeof(times), "%" PRIu64 "/%" PRIu64, g->intervals_written,
		 g->intervals_hot);
	if (columns >= WIDE)
		printf("0x%-14" PRIx64 " %10s %10s %6s %9s  %s%s\n", g->start,
		       human_bytes((double)(g->end - g->start)).text, written.text,
		       human_percent(share_of(r, g)).text, times, pid,
		       human_clip(full, width - 57, name));
	else if (columns >= MEDIUM)
		printf("0x%-14" PRIx64 " %10s %s%s\n", g->start, written.text, pid,
		       human_clip(full, width - 29, name));
	else
		printf("%9s %s%s\n", written.text, pid, human_clip(full, width - 10, name));
}

static void print_regions(const struct report *r, const struct region_sum **list, size_t max,
			  size_t width)
{
	size_t n = r->regions.n < max ? r->regions.n : max;
	const char *name = r->n_children ? "PID, NAME" : "NAME";

	if (!n)
		return;
	if (width >= WIDE)
		printf("\n%-16s %10s %10s %6s %9s  %s\n", "START", "SIZE", "WRITTEN", "SHARE",
		       "WRIT/HOT", name);
	else if (width >= MEDIUM)
		printf("\n%-16s %10s %s\n", "START", "WRITTEN", name);
	else
		printf("\n%9s %s\n", "WRITTEN", name);
	for (size_t i = 0; i < n; i++)
		print_region(r, list[i], width);
	if (n < r->regions.n)
		printf("(%zu more)\n", r->regions.n - n);
}

static void print_process(const struct report *r, int pid, size_t width)
{
	struct region_sum sum = { .pid = pid };
	char line[120], clipped[4 * HUMAN_WIDTH_MAX + 1];
	struct human written;
	size_t n = 0;

	for (size_t i = 0; i < r->regions.n; i++) {
		if (r->regions.list[i].pid != pid)
			continue;
		sum.written_pages += r->regions.list[i].written_pages;
		n++;
	}
	written = human_bytes((double)(sum.written_pages * r->header->page_bytes));
	if (width < MEDIUM)
		snprintf(line, sizeof(line), "%7d %10s", pid, written.text);
	else
		snprintf(line, sizeof(line), "%7d %10s %6s %7zu%s", pid, written.text,
			 human_percent(share_of(r, &sum)).text, n,
			 pid == r->map_pid ? "  (heat map; --process PID for another)" : "");
	printf("%s\n", human_clip(line, width, clipped));
}

/* Of a tree: what each process has written. */
static void print_processes(const struct report *r, size_t max, size_t width)
{
	size_t n = r->n_children < max ? r->n_children : max;

	if (!n)
		return;
	printf("\nPROCESS    WRITTEN%s\n", width < MEDIUM ? "" : "  SHARE REGIONS");
	print_process(r, r->header->pid, width);
	for (size_t i = 0; i < n; i++)
		print_process(r, r->children[i].pid, width);
	if (n < r->n_children)
		printf("(%zu more)\n", r->n_children - n);
}

/* ---- pictures -------------------------------------------------------------------------- */

static bool has_colour(void)
{
	const char *term = getenv("TERM"), *none = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && term && strstr(term, "256color") && !(none && *none);
}

static int write_svg(const char *path, const struct picture *p)
{
	FILE *f = fopen(path, "we");
	bool good = f && picture_svg(f, p);

	if (f && fclose(f))
		good = false;
	if (!good)
		cli_error("%s: %s", path, strerror(errno));
	return good ? 0 : CLI_FAILED;
}

static int draw(const struct report_options *ro, const struct report *r, size_t width)
{
	char title[200], subtitle[300];
	struct picture p = {
		.map = r->map,
		.regions = &r->regions,
		.pid = r->map_pid,
		.page_bytes = r->header->page_bytes,
		.title = title,
		.subtitle = subtitle,
	};

	describe_target(r, title, sizeof(title));
	describe_run(r, subtitle, sizeof(subtitle));
	if (!ro->o.json && !ro->no_map) {
		if (r->n_children)
			printf("\nprocess %d:", r->map_pid);
		putchar('\n');
		picture_text(&p, width, has_colour());
	}
	return ro->svg ? write_svg(ro->svg, &p) : 0;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static int print_report(const struct report_options *ro, struct trace_reader *reader,
			const struct report *r)
{
	size_t width = human_width(STDOUT_FILENO);
	const struct region_sum **list = sorted_regions(r);
	int rc = 0;

	if (!list) {
		cli_error("%s: out of memory", ro->file);
		return CLI_FAILED;
	}
	if (ro->o.json && !print_json(trace_header_json(reader), r, list))
		rc = CLI_FAILED;
	if (!ro->o.json) {
		print_summary(r, width);
		print_processes(r, ro->regions, width);
		print_regions(r, list, ro->regions, width);
	}
	free(list);
	return rc ? rc : draw(ro, r, width);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct report_options *ro = state->input;

	switch (key) {
	case 's':
		ro->svg = arg;
		return 0;
	case 'n':
		if (!cli_number(arg, 1, 1000000, &ro->regions))
			argp_error(state, "--regions: a number from 1 to 1000000, not '%s'", arg);
		return 0;
	case 'p':
		if (!cli_number(arg, 1, 1u << 22, &ro->process))
			argp_error(state, "--process: a process id, not '%s'", arg);
		return 0;
	case 'm':
		ro->no_map = true;
		return 0;
	case ARGP_KEY_ARG:
		if (ro->file)
			argp_error(state, "one trace is enough: %s", arg);
		ro->file = arg;
		return 0;
	case ARGP_KEY_END:
		if (!ro->file)
			argp_error(state, "which trace? FILE, or - for standard input");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void parse_line(int argc, char **argv, struct report_options *ro)
{
	static const struct argp_option own[] = {
		{ "svg", 's', "FILE", 0, "Draw the heat map there too, as SVG", 1 },
		{ "regions", 'n', "N", 0, "How many regions, and processes of a tree, to list (10)",
		  1 },
		{ "process", 'p', "PID", 0, "Of a tree: the heat map of this process", 1 },
		{ "no-map", 'm', NULL, 0, "No heat map in the terminal", 1 },
		{ 0 }
	};
	const struct options_command command = {
		.usage = "FILE",
		.about = "Sum a trace of `wprof record` up: where was written, how much, with a "
			 "heat map of address and time.\v"
			 "A trace that was cut short is reported as far as it goes.",
		.children = { &options_json },
		.own = own,
		.parser = parse,
		.input = ro,
	};

	options_parse(argc, argv, &command, &ro->o);
}

int report_main(int argc, char **argv)
{
	struct report_options ro = { .o = OPTIONS_DEFAULT, .regions = 10 };
	struct trace_reader *reader;
	struct report r;
	char why[240];
	int rc;

	parse_line(argc, argv, &ro);
	reader = trace_open(ro.file, why, sizeof(why));
	if (!reader) {
		cli_error("%s: %s", ro.file, why);
		return CLI_FAILED;
	}
	rc = report_read(reader, (int)ro.process, &r);
	if (rc) {
		cli_error("%s: %s", ro.file, rc == -ENOMEM ? "out of memory" : trace_why(reader));
		rc = CLI_FAILED;
	} else {
		rc = print_report(&ro, reader, &r);
		if (!r.complete)
			cli_error("%s: cut short after %llu intervals", ro.file,
				  (unsigned long long)r.tick.number);
	}
	report_free(&r);
	trace_close(reader);
	return rc;
}
