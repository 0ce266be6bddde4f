#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "tool/json.h"
#include "tool/human.h"
#include "tool/session.h"

uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

int session_exit_code(enum wprof_reason reason)
{
	return reason == WPROF_NO_KERNEL || reason == WPROF_NO_ARCH ? CLI_UNAVAILABLE : CLI_FAILED;
}

void session_profile_opts(const struct options *o, struct wprof_opts *opts)
{
	*opts = (struct wprof_opts){
		.size = sizeof(*opts),
		.arming = o->rule.sample ? WPROF_SAMPLE : WPROF_EXACT,
		.flags = (o->collapse ? WPROF_F_COLLAPSE : 0) |
			 (o->soft_dirty ? WPROF_F_SOFT_DIRTY : 0) |
			 (o->clear_soft_dirty ? WPROF_F_CLEAR_SOFT_DIRTY : 0),
		.granularity_bytes = o->rule.granularity_bytes,
		.hot_threshold = o->rule.hot_threshold,
		.hot_consecutive = (uint32_t)o->rule.hot_consecutive,
		.window = (uint32_t)o->rule.window,
	};
}

int session_open_profile(const struct options *o, const struct target *t, struct wprof **w)
{
	struct wprof_why why = { 0 };
	struct wprof_opts opts;
	int rc;

	session_profile_opts(o, &opts);
	/* a wrapper may execute what it wraps just now */
	for (int tries = 0; tries < 5; tries++) {
		rc = wprof_open(t->pid, &opts, w, &why);
		if (!rc || why.reason != WPROF_EXECED)
			break;
	}
	if (!rc)
		return 0;
	if (why.reason == WPROF_ENDED || (t->started && why.reason == WPROF_NO_PROCESS))
		return -1;
	cli_error("%s", why.text[0] ? why.text : strerror(-rc));
	return session_exit_code(why.reason);
}

static void show_progress(const struct session *s, uint64_t wanted)
{
	char text[400];

	if (!isatty(STDERR_FILENO))
		return;
	snprintf(text, sizeof(text), "profiling %s: interval %llu of %llu", s->target.command,
		 (unsigned long long)s->intervals + 1, (unsigned long long)wanted);
	human_progress(text);
}

static void clear_progress(void)
{
	if (isatty(STDERR_FILENO))
		human_progress("");
}

/* Return: 0, or the exit code. */
static int take_sample(struct session *s)
{
	int rc = wprof_sample(s->w, &s->last);

	if (rc) {
		clear_progress();
		cli_error("profiling process %d: %s", s->target.pid, strerror(-rc));
		return CLI_FAILED;
	}
	s->intervals++;
	s->ended |= s->last->ended;
	trace_add_cost(&s->cost, &s->last->cost);
	return 0;
}

static int take_samples(struct session *s, const struct options *o)
{
	uint64_t wanted = o->rule.hot_consecutive + 1;
	enum pace_event event = PACE_TICK;
	int rc = 0;

	pace_start(&s->pace, o->rule.interval_ms * 1000000, 0);
	while (!rc && !s->ended && event != PACE_SIGNAL && s->intervals < wanted) {
		show_progress(s, wanted);
		do
			event = pace_wait(&s->pace, wprof_pidfd(s->w), -1);
		while (event == PACE_RESIZED);
		rc = take_sample(s);
	}
	clear_progress();
	if (!rc && wprof_hot(s->w, &s->hot, &s->n_hot)) {
		cli_error("profiling process %d: out of memory", s->target.pid);
		rc = CLI_FAILED;
	}
	s->cost.cpu_ns = cpu_ns();
	return rc;
}

int session_find(const struct options *o, struct session *s)
{
	int rc;

	memset(s, 0, sizeof(*s));
	rc = pace_open(&s->pace);
	if (rc) {
		cli_error("signalfd: %s", strerror(-rc));
		return CLI_FAILED;
	}
	return target_find(o, &s->pace, &s->target);
}

int session_profile(const struct options *o, struct session *s)
{
	int rc = session_find(o, s);

	if (!rc)
		rc = session_open_profile(o, &s->target, &s->w);
	if (rc < 0) {
		s->ended = true;
		return 0;
	}
	return rc ? rc : take_samples(s, o);
}

void session_close(struct session *s)
{
	if (s->w)
		wprof_close(s->w);
	if (s->target.pid)
		target_close(&s->target);
	pace_close(&s->pace);
}

json_t *session_json(const struct session *s, const char *format)
{
	json_t *context = s->target.context;

	return json_pack("{s:s, s:i, s:i, s:o, s:o}", "format", format, "version", 1, "pid",
			 (int)s->target.pid, "command", json_text(s->target.command), "context",
			 context ? json_incref(context) : json_null());
}
