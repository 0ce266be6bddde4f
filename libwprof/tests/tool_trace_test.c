/*
 * The trace: what is written is read back, and whatever else a file may be is
 * refused or taken as far as it goes. Run under ASan the damaged files show more.
 */
#include <atf-c.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/json.h"
#include "tool/trace.h"

#define BASE_NS 1000000u

static const struct wprof_vma vmas[] = {
	{ .start = 0x10000,
	  .end = 0x20000,
	  .type = WPROF_HEAP,
	  .written_pages = 3,
	  .populated_pages = 16,
	  .name = "[heap]" },
	{ .start = 0x20000, .end = 0x30000, .type = WPROF_ANONYMOUS, .name = "" },
	{ .start = 0x7ffffffde000,
	  .end = 0x7ffffffff000,
	  .type = WPROF_DATA,
	  .flags = WPROF_VMA_NEW,
	  .name = "/a b\xff/\"c\"" },
};
static const struct wprof_run runs[] = { { 0x10000, 1 }, { 0x14000, 2 } };
static const struct wprof_region hot = {
	.start = 0x10000,
	.end = 0x20000,
	.written_ratio = 0.25,
	.window_ratio = 0.5,
	.consecutive = 3,
	.type = WPROF_HEAP,
	.name = "[heap]",
	.populated_bytes = 0x3000,
};

static const struct wprof_interval interval = {
	.number = 1,
	.start_ns = BASE_NS + 500,
	.length_ns = 2000000000,
	.page_bytes = 4096,
	.written_pages = 3,
	.armed_pages = 16,
	.vmas = vmas,
	.n_vmas = 3,
	.runs = runs,
	.n_runs = 2,
	.unmeasured = runs + 1,
	.n_unmeasured = 1,
	.cost = { 1, 2, 3, 4 },
};

static bool put_header(FILE *f)
{
	const struct trace_header h = {
		.pid = 42,
		.command = "one\xff",
		.started_at_ns = 7,
		.page_bytes = 4096,
		.rule = { 1000, true, WPROF_CHUNK, 0.3, 3, 10 },
	};

	return trace_put_header(f, &h);
}

/* A whole trace of @intervals. */
static void write_trace(const char *path, int intervals)
{
	const struct trace_end end = { "duration", (uint64_t)intervals, 9, 27, { 1, 2, 3, 4, 5 } };
	struct wprof_interval iv = interval;
	FILE *f = fopen(path, "w");

	ATF_REQUIRE(f && put_header(f));
	ATF_REQUIRE(trace_put_layout(f, 42, &iv));
	for (int i = 0; i < intervals; i++) {
		ATF_REQUIRE(trace_put_interval(f, 42, BASE_NS, &iv, &hot, 1, false));
		iv.number++;
	}
	ATF_REQUIRE(trace_put_end(f, &end));
	ATF_REQUIRE_EQ(fclose(f), 0);
}

/* A file of a good header and @line. Return: what trace_next() says of it. */
static int next_of(const char *line, char *why, size_t bytes)
{
	struct trace_reader *r;
	struct trace_line got;
	FILE *f = fopen("file", "w");
	int rc;

	ATF_REQUIRE(f && put_header(f));
	fprintf(f, "%s\n", line);
	ATF_REQUIRE_EQ(fclose(f), 0);
	r = trace_open("file", why, bytes);
	ATF_REQUIRE(r != NULL);
	rc = trace_next(r, &got);
	snprintf(why, bytes, "%s", trace_why(r));
	trace_close(r);
	return rc;
}

ATF_TC(open__refuses_what_is_no_trace);
ATF_TC_HEAD(open__refuses_what_is_no_trace, tc)
{
	atf_tc_set_md_var(tc, "descr", "Missing, empty, foreign and endless files are refused");
}
ATF_TC_BODY(open__refuses_what_is_no_trace, tc)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "", "empty" },
		{ "\n", "not a trace" },
		{ "{}\n", "not a trace" },
		{ "[1]\n", "not a trace" },
		{ "hello\n", "not a trace" },
		{ "{\"format\":\"wprof.hot\",\"version\":1}\n", "not a trace" },
		{ "{\"format\":\"wprof.trace\",\"version\":1", "not a trace" },
		{ "{\"format\":\"wprof.trace\"}\n", "without version" },
		{ "{\"format\":\"wprof.trace\",\"version\":2}\n", "version 2" },
		{ "{\"format\":\"wprof.trace\",\"version\":1}\n", "lacks a field" },
	};
	char why[240];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		atf_utils_create_file("file", "%s", bad[i].text);
		ATF_CHECK(!trace_open("file", why, sizeof(why)));
		ATF_CHECK_MSG(strstr(why, bad[i].why), "%s: %s", bad[i].text, why);
	}
	ATF_CHECK(!trace_open("none", why, sizeof(why)));
	ATF_CHECK_STREQ(why, "No such file or directory");
	ATF_CHECK(!trace_open("/dev/zero", why, sizeof(why)));
	ATF_CHECK_STREQ(why, "not a trace");
	ATF_CHECK(!trace_open(".", why, sizeof(why)));
	ATF_CHECK_MSG(strstr(why, "Is a directory"), "%s", why);
}

ATF_TC(next__names_the_damaged_line);
ATF_TC_HEAD(next__names_the_damaged_line, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Fields missing, of another kind or out of range are damage");
}
ATF_TC_BODY(next__names_the_damaged_line, tc)
{
#define GOOD                                                                            \
	"{\"type\":\"interval\",\"pid\":1,\"number\":1,\"start_ns\":0,\"length_ns\":1," \
	"\"written_pages\":1,\"total_vmas\":1,\"hot_vmas\":0,"
	static const char *const bad[] = {
		"x",
		"[]",
		"{}",
		"{\"type\":7}",
		"{\"type\":\"interval\"}",
		"{\"type\":\"interval\",\"pid\":-1}",
		"{\"type\":\"layout\",\"pid\":1}",
		"{\"type\":\"layout\",\"pid\":1,\"vmas\":[7]}",
		"{\"type\":\"end\"}",
		"{\"type\":\"end\",\"type\":\"end\"}",
		GOOD "\"vmas\":[],\"hot\":[]}",
		GOOD "\"vmas\":{},\"hot\":[],\"runs\":[]}",
		GOOD "\"vmas\":[],\"hot\":[],\"runs\":[[\"0x1000\",0]]}",
		GOOD "\"vmas\":[],\"hot\":[],\"runs\":[[\"0x1001\",1]]}",
		GOOD "\"vmas\":[],\"hot\":[],\"runs\":[[\"4096\",1]]}",
		GOOD "\"vmas\":[],\"hot\":[],\"runs\":[[\"0x1000\",-1]]}",
		GOOD "\"vmas\":[],\"hot\":[],\"runs\":[[\"0x1000\",9223372036854775807]]}",
		GOOD "\"vmas\":[],\"hot\":[],\"runs\":[[\"0xfffffffffffff000\",2]]}",
		GOOD "\"vmas\":[],\"hot\":[],\"runs\":[],\"unmeasured_runs\":{}}",
		GOOD "\"vmas\":[],\"hot\":[],\"runs\":[],\"unmeasured_runs\":[[\"0x1000\",0]]}",
		GOOD "\"vmas\":[],\"hot\":[],\"runs\":[[\"0x5000\",1],[\"0x1000\",1]]}",
		GOOD "\"vmas\":[{\"start\":\"0x2000\",\"end\":\"0x1000\",\"type\":\"heap\","
		     "\"name\":\"\"}],\"hot\":[],\"runs\":[]}",
		GOOD "\"vmas\":[],\"hot\":[{\"start\":\"0x1000\",\"end\":\"0x2000\"}],\"runs\":[]}",
	};
	char why[240];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ATF_CHECK_EQ_MSG(next_of(bad[i], why, sizeof(why)), -1, "%s", bad[i]);
		ATF_CHECK_MSG(!strncmp(why, "line 2: ", 8), "%s: %s", bad[i], why);
	}
	ATF_CHECK_EQ(next_of(GOOD "\"vmas\":[],\"hot\":[],\"runs\":[]}", why, sizeof(why)), 1);
	ATF_CHECK_EQ(next_of("{\"type\":\"of the future\"}", why, sizeof(why)), 0);
}

/* Read @path to its end. Return: the intervals seen, -1: damaged. */
static int count_intervals(const char *path)
{
	struct trace_line line;
	struct trace_reader *r;
	char why[240];
	int n = 0, rc;

	r = trace_open(path, why, sizeof(why));
	if (!r)
		return 0;
	while ((rc = trace_next(r, &line)) > 0)
		n += line.type == TRACE_INTERVAL;
	trace_close(r);
	return rc < 0 ? -1 : n;
}

ATF_TC(next__a_cut_file_is_read_as_far_as_it_goes);
ATF_TC_HEAD(next__a_cut_file_is_read_as_far_as_it_goes, tc)
{
	atf_tc_set_md_var(tc, "descr", "Cut at any byte: the whole lines are read, never damage");
}
ATF_TC_BODY(next__a_cut_file_is_read_as_far_as_it_goes, tc)
{
	int last = 0;
	long size;
	FILE *f;

	write_trace("file", 3);
	f = fopen("file", "r");
	ATF_REQUIRE(f && !fseek(f, 0, SEEK_END));
	size = ftell(f);
	fclose(f);
	ATF_REQUIRE_EQ(count_intervals("file"), 3);
	for (long cut = size - 1; cut >= 0; cut--) {
		int n;

		ATF_REQUIRE_EQ(truncate("file", cut), 0);
		n = count_intervals("file");
		ATF_REQUIRE_MSG(n >= 0 && n <= 3, "cut at %ld: %d", cut, n);
		ATF_REQUIRE_MSG(cut == size - 1 || n <= last, "cut at %ld: %d", cut, n);
		last = n;
	}
	ATF_CHECK_EQ(last, 0);
}

ATF_TC(next__survives_damaged_bytes);
ATF_TC_HEAD(next__survives_damaged_bytes, tc)
{
	atf_tc_set_md_var(tc, "descr", "Bytes changed at random: read or refused, never a crash");
}
ATF_TC_BODY(next__survives_damaged_bytes, tc)
{
	unsigned int seed = (unsigned int)getpid();
	char bytes[8192], why[240];
	size_t size;
	FILE *f;

	printf("seed %u\n", seed);
	srand(seed);
	write_trace("good", 2);
	f = fopen("good", "r");
	ATF_REQUIRE(f != NULL);
	size = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	ATF_REQUIRE(size > 1000 && size < sizeof(bytes));
	for (int i = 0; i < 2000; i++) {
		size_t at = (size_t)rand() % size;
		char old = bytes[at];

		bytes[at] = (char)rand();
		f = fopen("file", "w");
		ATF_REQUIRE(f && fwrite(bytes, 1, size, f) == size && !fclose(f));
		ATF_REQUIRE(count_intervals("file") <= 2);
		bytes[at] = old;
	}
	ATF_CHECK(!trace_open("none", why, sizeof(why)));
}

ATF_TC(interval__is_read_as_it_was_written);
ATF_TC_HEAD(interval__is_read_as_it_was_written, tc)
{
	atf_tc_set_md_var(tc, "descr", "Header, layout, interval and end survive the round trip");
}
ATF_TC_BODY(interval__is_read_as_it_was_written, tc)
{
	const struct trace_header *h;
	struct trace_reader *r;
	struct trace_line l;
	char why[240];

	write_trace("file", 1);
	r = trace_open("file", why, sizeof(why));
	ATF_REQUIRE_MSG(r, "%s", why);
	h = trace_header(r);
	ATF_CHECK(h->pid == 42 && h->page_bytes == 4096 && h->started_at_ns == 7 && !h->tree);
	ATF_CHECK(h->rule.sample && h->rule.interval_ms == 1000 && h->rule.hot_threshold == 0.3);
	ATF_CHECK_STREQ(h->command, "one\xef\xbf\xbd");
	ATF_REQUIRE_EQ(trace_next(r, &l), 1);
	ATF_CHECK(l.type == TRACE_LAYOUT && l.n_vmas == 3);
	ATF_REQUIRE_EQ(trace_next(r, &l), 1);
	ATF_CHECK(l.type == TRACE_INTERVAL && l.pid == 42 && l.number == 1 && l.start_ns == 500);
	ATF_CHECK(l.length_ns == 2000000000 && l.written_pages == 3 && l.hot_vmas == 1);
	/* the second VMA was neither written nor changed */
	ATF_REQUIRE(l.n_vmas == 2 && l.n_runs == 2 && l.n_hot == 1);
	ATF_CHECK(l.vmas[0].type == WPROF_HEAP && l.vmas[0].written_pages == 3);
	ATF_CHECK(l.vmas[1].type == WPROF_DATA && l.vmas[1].end == 0x7ffffffff000);
	ATF_CHECK_STREQ(l.vmas[1].name, "/a b\xef\xbf\xbd/\"c\"");
	ATF_CHECK(l.runs[1].start == 0x14000 && l.runs[1].n_pages == 2);
	ATF_REQUIRE_EQ(l.n_unmeasured, 1);
	ATF_CHECK(l.unmeasured[0].start == 0x14000 && l.unmeasured[0].n_pages == 2);
	ATF_CHECK(l.hot[0].written_ratio == 0.25 && l.hot[0].consecutive == 3);
	ATF_CHECK_EQ(l.hot[0].populated_bytes, 0x3000);
	ATF_REQUIRE_EQ(trace_next(r, &l), 1);
	ATF_CHECK(l.type == TRACE_END && l.end.cost.cpu_ns == 5 && l.end.intervals == 1);
	ATF_CHECK_STREQ(l.end.reason, "duration");
	ATF_CHECK_EQ(trace_next(r, &l), 0);
	trace_close(r);
}

ATF_TC(layout_hash__sees_every_change);
ATF_TC_HEAD(layout_hash__sees_every_change, tc)
{
	atf_tc_set_md_var(tc, "descr", "Start, end, type, name or number of VMAs: another hash");
}
ATF_TC_BODY(layout_hash__sees_every_change, tc)
{
	uint64_t was = trace_layout_hash(&interval);
	struct wprof_vma changed[3];
	struct wprof_interval iv = interval;

	iv.vmas = changed;
	memcpy(changed, vmas, sizeof(vmas));
	changed[0].written_pages = 0;
	ATF_CHECK_EQ(trace_layout_hash(&iv), was);
	changed[0].end += 0x1000;
	ATF_CHECK(trace_layout_hash(&iv) != was);
	memcpy(changed, vmas, sizeof(vmas));
	changed[1].type = WPROF_STACK;
	ATF_CHECK(trace_layout_hash(&iv) != was);
	memcpy(changed, vmas, sizeof(vmas));
	changed[2].name = "/other";
	ATF_CHECK(trace_layout_hash(&iv) != was);
	memcpy(changed, vmas, sizeof(vmas));
	iv.n_vmas = 2;
	ATF_CHECK(trace_layout_hash(&iv) != was);
}

ATF_TC(put__says_when_the_output_fails);
ATF_TC_HEAD(put__says_when_the_output_fails, tc)
{
	atf_tc_set_md_var(tc, "descr", "A full device is noticed, at the latest when flushed");
}
ATF_TC_BODY(put__says_when_the_output_fails, tc)
{
	FILE *f = fopen("/dev/full", "w");

	ATF_REQUIRE(f != NULL);
	setvbuf(f, NULL, _IONBF, 0);
	ATF_CHECK(!put_header(f));
	ATF_CHECK(!trace_put_interval(f, 42, BASE_NS, &interval, &hot, 1, false));
	fclose(f);
}

/* ---- the largest ---------------------------------------------------------------------- */

#define N_RUNS (2 * TRACE_RUNS_MAX + 5)
#define N_VMAS (TRACE_VMAS_MAX + 7)
#define N_HOT  (TRACE_HOT_MAX + 3)

/* As many mappings and runs as no line has room for, each name longer than one may be */
static struct wprof_interval huge_interval(const char *name)
{
	struct wprof_vma *v = calloc(N_VMAS, sizeof(*v));
	struct wprof_run *r = calloc(N_RUNS, sizeof(*r));
	struct wprof_interval iv = interval;

	ATF_REQUIRE(v && r);
	for (size_t i = 0; i < N_VMAS; i++)
		v[i] = (struct wprof_vma){ .start = (i + 1) << 20,
					   .end = (i + 2) << 20,
					   .type = WPROF_DATA,
					   .written_pages = 2,
					   .populated_pages = 256,
					   .flags = WPROF_VMA_NEW | WPROF_VMA_CHANGED |
						    WPROF_VMA_BUSY,
					   .name = i % 64 ? "short" : name };
	for (size_t i = 0; i < N_RUNS; i++)
		r[i] = (struct wprof_run){ (1ull << 20) + i * 0x80000, 1 };
	iv.vmas = v;
	iv.n_vmas = N_VMAS;
	iv.runs = iv.unmeasured = iv.soft_dirty_runs = r;
	iv.n_runs = iv.n_unmeasured = iv.n_soft_dirty_runs = N_RUNS;
	return iv;
}

ATF_TC(interval__huge);
ATF_TC_HEAD(interval__huge, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "An interval too large for a line is read back: runs whole, mappings as "
			  "far as there is room");
	atf_tc_set_md_var(tc, "timeout", "120");
}
ATF_TC_BODY(interval__huge, tc)
{
	static char name[16384], why[240];
	struct wprof_interval iv;
	struct trace_reader *r;
	struct trace_line line;
	struct wprof_region *regions = calloc(N_HOT, sizeof(*regions));
	uint64_t next = 1ull << 20, left = 0, hot_left = 0, n = 0, n_unmeasured = 0;
	FILE *f = fopen("file", "w");

	ATF_REQUIRE(regions != NULL);
	for (size_t i = 0; i < N_HOT; i++) {
		regions[i] = hot;
		regions[i].start = (2 * i + 1) << 20;
		regions[i].end = (2 * i + 2) << 20;
	}
	memset(name, 'n', sizeof(name) - 1);
	memcpy(name + sizeof(name) - 5, ".so", 4);
	iv = huge_interval(name);
	ATF_REQUIRE(f && put_header(f) && trace_put_layout(f, 42, &iv));
	ATF_REQUIRE(trace_put_interval(f, 42, BASE_NS, &iv, regions, N_HOT, true));
	ATF_REQUIRE_EQ(0, fclose(f));
	r = trace_open("file", why, sizeof(why));
	ATF_REQUIRE(r && trace_next(r, &line) == 1 && line.type == TRACE_LAYOUT);
	ATF_CHECK_EQ(TRACE_VMAS_MAX, line.n_vmas);
	ATF_CHECK(strlen(line.vmas[64].name) <= TRACE_NAME_MAX);
	ATF_CHECK(strstr(line.vmas[64].name, "nn..nn") && strstr(line.vmas[64].name, ".so"));
	while (trace_next(r, &line) == 1) {
		if (line.type == TRACE_INTERVAL) {
			ATF_CHECK_EQ(TRACE_VMAS_MAX, line.n_vmas);
			ATF_CHECK(json_get_u64(line.json, "vmas_left_out", &left));
			ATF_CHECK_EQ(TRACE_HOT_MAX, line.n_hot);
			ATF_CHECK(json_get_u64(line.json, "hot_left_out", &hot_left));
		}
		n_unmeasured += line.n_unmeasured;
		ATF_CHECK(line.n_runs <= TRACE_RUNS_MAX);
		for (size_t i = 0; i < line.n_runs; i++, n++, next += 0x80000)
			ATF_REQUIRE_EQ(next, line.runs[i].start);
	}
	ATF_CHECK_STREQ("", trace_why(r));
	ATF_CHECK_EQ(N_VMAS - TRACE_VMAS_MAX, left);
	ATF_CHECK_EQ(N_HOT - TRACE_HOT_MAX, hot_left);
	ATF_CHECK_EQ(N_RUNS, n);
	ATF_CHECK_EQ(N_RUNS, n_unmeasured);
	trace_close(r);
	free(regions);
	free((void *)(uintptr_t)iv.vmas);
	free((void *)(uintptr_t)iv.runs);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, open__refuses_what_is_no_trace);
	ATF_TP_ADD_TC(tp, next__names_the_damaged_line);
	ATF_TP_ADD_TC(tp, put__says_when_the_output_fails);
	ATF_TP_ADD_TC(tp, next__a_cut_file_is_read_as_far_as_it_goes);
	ATF_TP_ADD_TC(tp, next__survives_damaged_bytes);
	ATF_TP_ADD_TC(tp, interval__is_read_as_it_was_written);
	ATF_TP_ADD_TC(tp, interval__huge);
	ATF_TP_ADD_TC(tp, layout_hash__sees_every_change);
	return atf_no_error();
}
