/* record.c - `wprof record`: write down, interval by interval, what is written. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "tool/commands.h"
#include "tool/human.h"
#include "tool/sink.h"

/** struct recording - one run of `wprof record` */
struct recording {
	struct options o;
	struct pace pace;
	struct group group;
	const struct sink *sink;
	FILE *out;
	const char *out_name;
	off_t whole_bytes; /* of the output file; -1: it is none */
	uint64_t base_ns;
	bool estimated;
	struct wprof_interval last; /* of the target itself; figures only */
	struct trace_end end;
	char label[200];
};

static int output_failed(const struct recording *r)
{
	cli_error("%s: %s", r->out_name, strerror(errno));
	return CLI_FAILED;
}

/* Hand on what was put together; a file ends with a whole line at any time. */
static bool output_flush(struct recording *r)
{
	if (fflush(r->out))
		return false;
	r->whole_bytes = r->o.output ? ftello(r->out) : -1;
	return true;
}

/* A full disk or a limit cut a line short: take it back. */
static void output_mend(struct recording *r)
{
	__fpurge(r->out);
	if (r->whole_bytes < 0 || ftruncate(fileno(r->out), r->whole_bytes))
		return;
	fseeko(r->out, r->whole_bytes, SEEK_SET);
}

static int open_output(struct recording *r)
{
	int fd;

	r->sink = r->o.csv ? &sink_csv : r->o.json || r->o.output ? &sink_trace : &sink_table;
	r->out = stdout;
	r->out_name = r->o.output ? r->o.output : "standard output";
	if (!r->o.output)
		return 0;
	/* what is there stays until there is something to write */
	fd = open(r->o.output, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
	r->out = fd < 0 ? NULL : fdopen(fd, "w");
	return r->out ? 0 : output_failed(r);
}

static bool put_header(struct recording *r)
{
	const struct target *t = &r->group.list[0].target;
	struct timespec ts;
	struct trace_header h = {
		.pid = t->pid,
		.command = t->command,
		.tree = r->o.tree,
		.context = t->context,
		.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
		.rule = r->o.rule,
	};

	clock_gettime(CLOCK_REALTIME, &ts);
	h.started_at_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	if (r->o.output && ftruncate(fileno(r->out), 0) && errno != EINVAL)
		return false;
	return r->sink->begin(r->out, &h) && output_flush(r);
}

/* ---- progress, on a terminal, when the lines go elsewhere ------------------------------- */

static bool shows_progress(const struct recording *r)
{
	return r->sink != &sink_table && isatty(STDERR_FILENO) && !isatty(fileno(r->out));
}

static void show_progress(const struct recording *r)
{
	char text[400];
	struct human now = human_time(pace_now_ns() - r->base_ns), all = { "" };

	if (!shows_progress(r))
		return;
	if (r->o.duration_ns)
		all = human_time(r->o.duration_ns);
	snprintf(text, sizeof(text), "%s: %s%s%s, %llu intervals, %s written%s", r->label, now.text,
		 r->o.duration_ns ? " of " : "", all.text, (unsigned long long)r->end.intervals,
		 human_bytes((double)r->end.written_pages * (double)sysconf(_SC_PAGESIZE)).text,
		 r->o.duration_ns ? "" : "; ctrl-C ends");
	human_progress(text);
}

static void clear_progress(const struct recording *r)
{
	if (shows_progress(r))
		human_progress("");
}

/* ---- intervals ---------------------------------------------------------------------------- */

static bool put_interval(struct recording *r, struct member *m)
{
	uint64_t now = m->iv->start_ns;

	if (!m->announced && !r->sink->member(r->out, m, now > r->base_ns ? now - r->base_ns : 0))
		return false;
	m->announced = true;
	if (!r->sink->interval(r->out, m, r->base_ns, &r->o))
		return false;
	r->end.intervals++;
	r->end.written_pages += m->iv->written_pages;
	r->estimated |= m->iv->estimated;
	if (m == r->group.list && !m->iv->ended)
		r->last = *m->iv;
	trace_add_cost(&r->end.cost, &m->iv->cost);
	return !target_changed(&m->target) || r->sink->context(r->out, m);
}

static int record_interval(struct recording *r)
{
	for (size_t i = 0; i < r->group.n; i++) {
		struct member *m = &r->group.list[i];
		int rc = group_sample(&r->group, i);

		if (rc < 0) {
			clear_progress(r);
			cli_error("profiling process %d: %s", m->target.pid, strerror(-rc));
			return CLI_FAILED;
		}
		if (rc && !put_interval(r, m))
			return output_failed(r);
	}
	return output_flush(r) ? 0 : output_failed(r);
}

/* Is this the last interval? Then why: else NULL. */
static const char *end_reason(const struct recording *r, enum pace_event event)
{
	if (group_over(&r->group))
		return r->group.execed ? "execed" : "ended";
	if (event == PACE_SIGNAL)
		return "interrupted";
	return event == PACE_DONE ? "duration" : NULL;
}

static int record_intervals(struct recording *r)
{
	enum pace_event event;
	int rc = 0;

	pace_start(&r->pace, r->o.rule.interval_ms * 1000000, r->o.duration_ns);
	while (!rc && !r->end.reason) {
		show_progress(r);
		do
			event = pace_wait(&r->pace, group_pidfd(&r->group), -1);
		while (event == PACE_RESIZED);
		rc = record_interval(r);
		group_bury(&r->group);
		if (!rc && event != PACE_SIGNAL && event != PACE_DONE)
			group_follow(&r->group);
		r->end.reason = end_reason(r, event);
	}
	clear_progress(r);
	return rc;
}

/* ---- the end ------------------------------------------------------------------------------- */

static void print_summary(const struct recording *r, FILE *f)
{
	const struct trace_end *e = &r->end;
	double seconds = (double)e->elapsed_ns / 1e9;
	double bytes = (double)e->written_pages * (double)sysconf(_SC_PAGESIZE);

	fprintf(f, "%s: %llu intervals in %s, %s written%s, %s%s\n", r->label,
		(unsigned long long)e->intervals, human_time(e->elapsed_ns).text,
		human_bytes(bytes).text, r->estimated ? " (estimated)" : "",
		human_rate(seconds > 0 ? bytes / seconds : 0).text,
		!strcmp(e->reason, "ended")    ? "; the target has ended"
		: !strcmp(e->reason, "execed") ? "; the target runs another program now"
					       : "");
	fprintf(f,
		"own cost: %s scanning in %llu calls, %s of processor; at most %llu faults in "
		"the target\n",
		human_time(e->cost.scan_ns).text, (unsigned long long)e->cost.n_scans,
		human_time(e->cost.cpu_ns).text, (unsigned long long)e->cost.faults);
	if (!r->o.tree)
		human_untracked(f, &r->last);
	group_print_refused(&r->group, f);
}

/* Also after a failure: the file is whole as far as it goes. */
static int finish(struct recording *r, int rc)
{
	if (rc) {
		output_mend(r);
		r->end.reason = "failed";
	}
	r->end.elapsed_ns = pace_now_ns() - r->base_ns;
	r->end.cost.cpu_ns = cpu_ns();
	if (!r->sink->end(r->out, &r->end) || !output_flush(r)) {
		rc = rc ? rc : output_failed(r);
		output_mend(r);
		return rc;
	}
	if (!rc && (r->sink != &sink_trace || r->o.output))
		print_summary(r, r->sink == &sink_table || r->o.output ? stdout : stderr);
	return rc;
}

static int record_target(struct recording *r)
{
	struct target target;
	int rc = open_output(r);

	if (!rc)
		rc = target_find(&r->o, &r->pace, &target);
	if (rc)
		return rc;
	target_label(&target, r->label, sizeof(r->label));
	rc = group_open(&r->group, &r->o, &target);
	if (rc > 0)
		return rc;
	r->base_ns = pace_now_ns();
	if (!put_header(r))
		return output_failed(r);
	if (rc < 0)
		r->end.reason = "ended";
	return finish(r, rc < 0 ? 0 : record_intervals(r));
}

enum { KEY_SOFT_DIRTY = 0x200, KEY_CLEAR_SOFT_DIRTY };

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'o':
		o->output = arg;
		return 0;
	case 'c':
		o->csv = true;
		return 0;
	case KEY_SOFT_DIRTY:
		o->soft_dirty = true;
		return 0;
	case KEY_CLEAR_SOFT_DIRTY:
		o->soft_dirty = o->clear_soft_dirty = true;
		return 0;
	case ARGP_KEY_END:
		if (o->csv && o->json)
			argp_error(state, "--json or --csv, not both");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int record_main(int argc, char **argv)
{
	static const struct argp_option own[] = {
		{ "output", 'o', "FILE", 0, "Write a trace, for `wprof report`", 3 },
		{ "csv", 'c', NULL, 0, "A row for each interval and written mapping", 3 },
		{ "soft-dirty", KEY_SOFT_DIRTY, NULL, 0,
		  "Read the kernel's soft-dirty state beside, into the trace", 2 },
		{ "clear-soft-dirty", KEY_CLEAR_SOFT_DIRTY, NULL, 0,
		  "... and clear it in each interval: CRIU then loses pages", 2 },
		{ 0 }
	};
	struct recording r = { .o = OPTIONS_DEFAULT };
	const struct options_command command = {
		.usage = "PID\n--service NAME\n-- CMD [ARG...]",
		.about = "Record where a process writes, interval by interval.\v"
			 "A command that is given is asked to end (SIGTERM) when the recording "
			 "is over; what it prints goes to standard error, unless -o is given.",
		.children = { &options_target, &options_rule, &options_record, &options_json },
		.own = own,
		.parser = parse,
		.input = &r.o,
	};
	int rc;

	r.o.takes_command = true;
	options_parse(argc, argv, &command, &r.o);
	if (r.o.clear_soft_dirty)
		cli_error("soft-dirty state is cleared: a chain of CRIU pre-dumps of this process "
			  "loses pages, begin a new one afterwards");
	rc = pace_open(&r.pace);
	if (rc) {
		cli_error("signalfd: %s", strerror(-rc));
		return CLI_FAILED;
	}
	rc = record_target(&r);
	group_close(&r.group);
	if (r.out && r.out != stdout && fclose(r.out) && !rc)
		rc = output_failed(&r);
	pace_close(&r.pace);
	return rc;
}
