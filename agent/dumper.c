/*
 * dumper.c - a request for a dump becomes libwprof's.
 *
 * It blocks a thread of jobs.c for as long as CRIU takes, and never more than
 * one: a second dump is refused. The profiling goes on meanwhile. An agent that
 * ends does not wait for CRIU, which is in a session of its own.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.pb-c.h"
#include "dumper.h"
#include "log.h"
#include "members.h"
#include "profiler.h"
#include "target.h"

static const char *criu_program, *images_dir;
static enum dump_mode hot_mode;

static pthread_mutex_t busy_lock = PTHREAD_MUTEX_INITIALIZER;
static char busy_id[DUMP_ID_MAX + 1]; /* "": none is being made */

/** struct hot_sets - what is hot now, a set for each process */
struct hot_sets {
	pid_t pid; /* of the profiling; 0: nothing is profiled */
	struct wprof_images_hot list[MEMBERS_MAX];
	size_t n;
};

void dumper_open(const char *criu, const char *images, enum dump_mode mode)
{
	criu_program = criu;
	images_dir = images;
	hot_mode = mode;
}

const char *dumper_mode(void)
{
	return images_dir ? dump_mode_name(hot_mode) : "";
}

/* ---- one at a time ------------------------------------------------------------------ */

static bool busy_take(const char *id, char *why, size_t room)
{
	bool free_now;

	pthread_mutex_lock(&busy_lock);
	free_now = !busy_id[0];
	if (free_now)
		memcpy(busy_id, id, strlen(id) + 1);
	else
		snprintf(why, room, "dump %s is being made; wait for its end", busy_id);
	pthread_mutex_unlock(&busy_lock);
	return free_now;
}

static void busy_give(void)
{
	pthread_mutex_lock(&busy_lock);
	busy_id[0] = '\0';
	pthread_mutex_unlock(&busy_lock);
}

/* ---- what is hot ---------------------------------------------------------------------- */

/* The regions of one process, which stand together. */
static size_t take_process(struct hot_sets *sets, const struct hot *hot, size_t n)
{
	struct wprof_ranges *set = NULL;
	struct wprof_range *list;
	size_t same = 0;

	list = calloc(n, sizeof(*list));
	for (; same < n && hot[same].pid == hot[0].pid; same++)
		if (list)
			list[same] = (struct wprof_range){ hot[same].start, hot[same].end };
	if (list && sets->n < MEMBERS_MAX && !wprof_ranges_new(list, same, &set))
		sets->list[sets->n++] = (struct wprof_images_hot){ (uint64_t)hot[0].pid, set };
	else
		log_warn("hot regions are dumped and sent as all else", "pid=%d", (int)hot[0].pid);
	free(list);
	return same;
}

static void take_hot(struct hot_sets *sets)
{
	const struct snapshot *s = profiler_lock();

	sets->n = 0;
	sets->pid = s->active ? s->pid : 0;
	for (size_t i = 0; s->active && i < s->n_hot;)
		i += take_process(sets, &s->hot[i], s->n_hot - i);
	profiler_unlock();
}

static void free_hot(struct hot_sets *sets)
{
	for (size_t i = 0; i < sets->n; i++)
		wprof_ranges_free((struct wprof_ranges *)sets->list[i].ranges);
}

/* ---- the dump --------------------------------------------------------------------------- */

/* Return: NULL, or why not, in @why. */
static const char *dump_do(const struct dump_request *q, struct dump_result *result,
			   struct wprof_why *why)
{
	static const struct target_query any = { 0 };
	struct hot_sets sets;
	struct dump_opts o = {
		.criu = criu_program,
		.images = images_dir,
		.id = q->id,
		.parent = q->parent[0] ? q->parent : NULL,
		.mode = hot_mode,
		.final = q->final,
		.leave_running = q->leave_running,
	};
	int rc = 0;

	take_hot(&sets);
	o.pid = sets.pid;
	o.hot = sets.list;
	o.n_hot = sets.n;
	/* a final dump that was made has ended its process: its id is what there is to tell */
	if (!o.pid && !dump_pending(images_dir, q->id) && !dump_used(images_dir, q->id))
		rc = target_find(&any, &o.pid, why->text, sizeof(why->text));
	if (!rc)
		rc = dump_take(&o, result, why);
	if (!rc)
		profiler_dumped(o.pid);
	free_hot(&sets);
	return rc ? why->text : NULL;
}

static void dump_log(const struct dump_request *q, const struct dump_result *r, const char *error)
{
	struct log_text text;

	if (error)
		log_warn("dump failed", "id=%s why=%s", q->id, log_quote(error, &text));
	else
		log_info("dumped", "id=%s mode=%s bytes=%llu withheld=%llu frozen_us=%llu", q->id,
			 dump_mode_name(r->mode), (unsigned long long)r->bytes_written,
			 (unsigned long long)r->bytes_withheld, (unsigned long long)r->frozen_us);
}

static void dump_reply(const struct dump_request *q, struct dump_result *r, const char *error)
{
	Criu__Agent__V1__DumpResponse out = CRIU__AGENT__V1__DUMP_RESPONSE__INIT;

	dump_log(q, r, error);
	out.dump_id = (char *)q->id;
	if (error) {
		out.error = (char *)error;
	} else {
		out.success = true;
		out.images_dir = r->dir;
		out.pages_written = (int64_t)r->pages_written;
		out.pages_skipped_parent = (int64_t)r->pages_skipped;
		out.bytes_written = (int64_t)r->bytes_written;
		out.bytes_withheld = (int64_t)r->bytes_withheld;
		out.frozen_time_us = (int64_t)r->frozen_us;
		out.exclude_ranges = (int32_t)r->n_exclude;
		out.no_parent_ranges = (int32_t)r->n_no_parent;
		out.hot_mode = (char *)dump_mode_name(r->mode);
		out.shell_job = r->shell_job;
	}
	rpc_reply(q->job.rpc, &out.base);
}

void dumper_run(struct job *job)
{
	struct dump_request *q = (struct dump_request *)job;
	struct wprof_why why = { 0 };
	struct dump_result result = { 0 };
	const char *error;

	if (!images_dir) {
		dump_reply(q, &result,
			   "this agent takes no dumps: it was started without --images-dir");
	} else if (!busy_take(q->id, why.text, sizeof(why.text))) {
		dump_reply(q, &result, why.text);
	} else {
		error = dump_do(q, &result, &why);
		busy_give(); /* first: who has the answer may ask for the next one */
		dump_reply(q, &result, error);
	}
	free(q);
}
