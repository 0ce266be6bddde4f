/*
 * migrate.c - pre-dumps, the final dump, each sent as it is made.
 *
 * Theory of operation
 *
 * The final dump ends the process, so it is asked for only when all that it builds
 * on has arrived: each dump is sent before the next one is made. Whatever fails
 * before, the process runs on; whatever fails after, the final dump lies whole in
 * the agent's directory and only has to be sent. An attempt that ended anywhere,
 * by a fault or ctrl-C, is taken up with --resume: the names on disk say how far
 * it came (chain.c), rsync skips what arrived.
 *
 * A dump that is under way cannot be called back: CRIU is the agent's child.
 * Ctrl-C waits for its answer, another one does not.
 *
 * Where the chain cannot be gone on with (CRIU failed after it had cleared the
 * soft-dirty bits), --resume begins a new one without a parent under the next
 * number. Without a parent an agent dumps whatever its target is by now, so that
 * dump must be found to be of the same process before anything follows on it.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ask.h"
#include "chain.h"
#include "cli.h"
#include "migrate.h"
#include "send.h"
#include "steps.h"

#define SUFFIX_MAX  8u /* of the name: -final, -200 */
#define WHY_ROOM    1200
#define HEAT_MARGIN 2u /* intervals, beside those that make memory hot */

/** enum how_far - what is said when it cannot go on */
enum how_far { NOTHING_YET, NO_FINAL, FINAL_UNKNOWN, FINAL_MADE };

/** struct migration - one, as far as it came */
struct migration {
	const struct ctl *ctl;
	char name[DUMP_ID_MAX + 1], images[PATH_MAX]; /* @images empty: no dump was made */
	char last[DUMP_ID_MAX + 1];		      /* the next one's parent; "": none */
	unsigned int number;			      /* of the last pre-dump */
	struct stop_step steps[CHAIN_MAX];	      /* of the chain, in this attempt */
	size_t n_steps;
	bool withholds;
	struct store_entry who; /* resumed: no dump may be of another process */
	bool refused;		/* the agent said no to the last dump */
	enum how_far how_far;
	char why[WHY_ROOM];
};

static atomic_bool interrupted, dumping;

void migrate_stop(void)
{
	atomic_store(&interrupted, true);
	if (atomic_load(&dumping))
		cli_error("interrupted: the dump under way is waited for; again: it is not");
	send_stop();
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- how it ends early ---------------------------------------------------------- */

static void resume_command(const struct migration *m, char *out, size_t room)
{
	char prefix[PATH_MAX + DUMP_ID_MAX + 2], word[3][PATH_MAX + 400];
	const struct ctl *ctl = m->ctl;

	snprintf(prefix, sizeof(prefix), "%s/%s", m->images, m->name);
	snprintf(out, room, "wprof-ctl migrate --connect %s --resume %s%s%s%s",
		 steps_quote(ctl->call.address, word[0], sizeof(word[0])),
		 steps_quote(prefix, word[1], sizeof(word[1])), ctl->to ? " --to " : "",
		 ctl->to ? steps_quote(ctl->to, word[2], sizeof(word[2])) : "",
		 ctl->leave_running ? " --leave-running" : "");
}

/* Takes @rc along, with m->why and what is to be done about it on one line. */
static int give_up(const struct migration *m, int rc)
{
	char command[4 * PATH_MAX], state[PATH_MAX + 200];

	if (m->how_far == NOTHING_YET || !m->images[0]) {
		cli_error("%s; nothing was dumped", m->why);
		return rc;
	}
	if (m->how_far == FINAL_MADE)
		snprintf(state, sizeof(state), "the final dump is whole in %s/%s-final, not sent",
			 m->images, m->name);
	else if (m->how_far == FINAL_UNKNOWN)
		snprintf(state, sizeof(state), "the final dump was asked for");
	else
		snprintf(state, sizeof(state), "no final dump was made");
	resume_command(m, command, sizeof(command));
	cli_error("%s; %s; go on with: %s", m->why, state, command);
	return rc;
}

static int stop_here(struct migration *m)
{
	snprintf(m->why, sizeof(m->why), "interrupted");
	return CLI_FAILED;
}

/* ---- one dump ---------------------------------------------------------------------- */

static void learn(struct migration *m, struct stop_dirty *d)
{
	ask_volume_response *v;
	ask_hot_response *h;
	struct call_error e;
	double hot = 0, size, hot_size = 0;

	*d = (struct stop_dirty){ 0 };
	v = ask_volume(&e);
	h = v ? ask_hot(&e) : NULL;
	if (h) {
		for (size_t i = 0; i < h->n_regions; i++) {
			size = (double)(h->regions[i]->end_addr - h->regions[i]->start_addr);
			hot_size += size;
			hot += size * h->regions[i]->written_ratio;
		}
		*d = (struct stop_dirty){
			true,	       (uint64_t)v->bytes_since_last_dump, (uint64_t)v->dirty_bytes,
			(uint64_t)hot, (uint64_t)v->populated_bytes,	   (uint64_t)hot_size
		};
		protobuf_c_message_free_unpacked(&h->base, NULL);
	}
	if (v) {
		if (!m->last[0]) /* later the dumps themselves say it */
			m->withholds = strcmp(v->hot_mode, "off") != 0;
		protobuf_c_message_free_unpacked(&v->base, NULL);
	}
}

static void foretell(struct migration *m, bool final, struct stop_forecast *f)
{
	struct stop_dirty dirty;

	learn(m, &dirty);
	*f = stop_forecast(m->steps, m->n_steps, &dirty, final, m->withholds);
}

/* <images>/ID/ship: all but the last two is where the dumps are. */
static bool take_answer(struct migration *m, struct step *s, const ask_dump_response *a)
{
	size_t len = strlen(a->images_dir), tail = strlen(s->id) + strlen("/full") + 1;

	if (len <= tail || len >= sizeof(m->images) ||
	    strncmp(a->images_dir + len - tail + 1, s->id, strlen(s->id)) != 0) {
		snprintf(m->why, sizeof(m->why), "the agent names no directory of dumps");
		return false;
	}
	memcpy(s->dir, a->images_dir, len + 1);
	memcpy(m->images, a->images_dir, len - tail);
	m->images[len - tail] = '\0';
	snprintf(s->mode, sizeof(s->mode), "%s", a->hot_mode);
	s->pages_written = (uint64_t)a->pages_written;
	s->pages_skipped = (uint64_t)a->pages_skipped_parent;
	s->frozen_us = (uint64_t)a->frozen_time_us;
	s->written_bytes = (uint64_t)a->bytes_written;
	s->withheld_bytes = (uint64_t)a->bytes_withheld;
	s->shell_job = a->shell_job;
	m->withholds = strcmp(s->mode, "off") != 0;
	memcpy(m->last, s->id, sizeof(m->last));
	return true;
}

/* Without a parent an agent dumps whatever its target is by now. */
static bool same_process(struct migration *m, const struct step *s)
{
	char path[PATH_MAX + DUMP_ID_MAX + 2];
	struct store_entry now;

	if (!m->who.pid || *s->parent)
		return true;
	if (!store_read(m->images, s->id, &now) && now.pid == m->who.pid &&
	    now.start_ticks == m->who.start_ticks)
		return true;
	snprintf(path, sizeof(path), "%s/%s", m->images, s->id);
	(void)!store_remove(path); /* else it would be the next one's parent */
	snprintf(m->why, sizeof(m->why),
		 "process %d, which was being migrated, is no longer the agent's target: it ended, "
		 "or the agent was told of another",
		 (int)m->who.pid);
	return false;
}

static int make_dump(struct migration *m, struct step *s)
{
	struct ask_dump q = { s->id, *s->parent ? s->parent : NULL, s->final,
			      m->ctl->leave_running };
	double begun = now_ms();
	ask_dump_response *a;
	struct call_error e;
	int rc = CLI_DONE;

	m->refused = false;
	if (s->final)
		m->how_far = FINAL_UNKNOWN;
	atomic_store(&dumping, true);
	a = ask_dump(&q, &e);
	atomic_store(&dumping, false);
	s->dump_ms = now_ms() - begun;
	if (!a)
		return ask_why(m->ctl, &e, m->why, sizeof(m->why));
	if (!a->success) {
		snprintf(m->why, sizeof(m->why), "dump %s failed: %s", s->id, a->error);
		m->refused = true;
		rc = CLI_FAILED;
	} else if (!take_answer(m, s, a) || !same_process(m, s)) {
		rc = CLI_FAILED;
	} else {
		m->how_far = s->final ? FINAL_MADE : NO_FINAL;
	}
	protobuf_c_message_free_unpacked(&a->base, NULL);
	return rc;
}

static int send_dump(struct migration *m, const char *tail, int64_t *sent_bytes)
{
	return send_images(m->images, tail, m->ctl->to, sent_bytes, m->why, sizeof(m->why))
		       ? CLI_DONE
		       : CLI_FAILED;
}

static int send_step(struct migration *m, struct step *s)
{
	double begun = now_ms();
	int rc;

	if (!m->ctl->to)
		return CLI_DONE;
	rc = send_dump(m, s->dir + strlen(m->images) + 1, &s->sent_bytes);
	s->send_ms = now_ms() - begun;
	s->sent = !rc;
	return rc;
}

static void keep_step(struct migration *m, const struct step *s)
{
	if (m->n_steps == CHAIN_MAX) /* the oldest that tell something */
		memmove(m->steps + 1, m->steps + 2, (--m->n_steps - 1) * sizeof(m->steps[0]));
	m->steps[m->n_steps++] =
		(struct stop_step){ s->written_bytes, s->withheld_bytes, s->dump_ms + s->send_ms };
}

/* A dump on top of the last one, made and sent. */
static int take_step(struct migration *m, struct step *s)
{
	int rc;

	if (atomic_load(&interrupted))
		return stop_here(m);
	memcpy(s->parent, m->last, sizeof(s->parent));
	chain_id(s->id, m->name, s->final ? 0 : s->number);
	foretell(m, s->final, &s->predicted);
	rc = make_dump(m, s);
	if (!rc)
		rc = send_step(m, s);
	return rc;
}

/* ---- all of them ----------------------------------------------------------------------- */

static int pre_dump(struct migration *m, enum stop_reason *reason)
{
	const struct ctl *ctl = m->ctl;
	struct stop_limits limits = { ctl->max_pre_dumps, ctl->min_shrink, ctl->enough_bytes,
				      ctl->downtime_ms };
	struct step s = { .number = m->number + 1 };
	struct stop_forecast final;
	int rc = take_step(m, &s);

	if (rc)
		return rc;
	m->number++;
	keep_step(m, &s);
	foretell(m, true, &final);
	*reason = stop_decide(&limits, m->steps, m->n_steps, &final);
	return steps_show(ctl, &s, *reason);
}

static int conclude(const struct migration *m, const char *tail, bool shell_job)
{
	return steps_end(m->ctl, m->images, m->ctl->to, tail, shell_job);
}

static int final_dump(struct migration *m)
{
	struct step s = { .final = true };
	int rc = take_step(m, &s);

	if (!rc)
		rc = steps_show(m->ctl, &s, STOP_NOT);
	return rc ? rc : conclude(m, s.dir + strlen(m->images) + 1, s.shell_job);
}

static int go_on(struct migration *m, enum stop_reason reason)
{
	int rc = CLI_DONE;

	while (!rc && reason == STOP_NOT)
		rc = pre_dump(m, &reason);
	return rc ? rc : final_dump(m);
}

/* ---- an earlier attempt ------------------------------------------------------------------ */

/* "DIR/NAME" of --resume; the name was checked with the options. */
static bool resume_where(struct migration *m)
{
	const char *prefix = m->ctl->resume, *slash = strrchr(prefix, '/');
	char dir[PATH_MAX], real[PATH_MAX];

	snprintf(m->name, sizeof(m->name), "%s", slash ? slash + 1 : prefix);
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - prefix + 1) : 1,
		 slash ? prefix : ".");
	if (!realpath(dir, real)) {
		snprintf(m->why, sizeof(m->why), "%.1000s: %s", dir, strerror(errno));
		return false;
	}
	memcpy(m->images, real, strlen(real) + 1);
	return true;
}

/* All that arrived is skipped by rsync. */
static int send_chain(struct migration *m, const struct chain *chain)
{
	char tail[DUMP_ID_MAX + 8];
	int64_t sent_bytes;
	int rc = CLI_DONE;

	for (size_t i = 0; !rc && m->ctl->to && i < chain->n - chain->pending; i++) {
		chain_tail(tail, sizeof(tail), &chain->list[i]);
		rc = send_dump(m, tail, &sent_bytes);
	}
	return rc;
}

/* A dump that CRIU made and nobody could make ready: asked for again. */
static int finish_pending(struct migration *m, const struct chain_dump *d)
{
	struct step s = { .final = d->entry.final, .number = m->number };
	int rc;

	memcpy(s.id, d->id, sizeof(s.id));
	memcpy(s.parent, d->entry.parent, sizeof(s.parent));
	rc = make_dump(m, &s);
	if (!rc)
		rc = send_step(m, &s);
	return rc ? rc : steps_show(m->ctl, &s, STOP_NOT);
}

/* What was cut off: a new chain, of all memory. */
static int begin_anew(struct migration *m, enum stop_reason *reason)
{
	char text[WHY_ROOM + 60];
	int rc;

	snprintf(text, sizeof(text), "%s; without a parent, then", m->why);
	rc = steps_note(m->ctl, text);
	m->last[0] = '\0';
	m->n_steps = 0;
	return rc ? rc : pre_dump(m, reason);
}

static int resume_dumps(struct migration *m)
{
	enum stop_reason reason = STOP_MAX;
	int rc = CLI_DONE;

	if (m->ctl->max_pre_dumps)
		rc = pre_dump(m, &reason);
	if (rc && m->refused)
		rc = begin_anew(m, &reason);
	return rc ? rc : go_on(m, reason);
}

static int resume_chain(struct migration *m, const struct chain *chain)
{
	const struct chain_dump *last = &chain->list[chain->n - 1];
	char tail[DUMP_ID_MAX + 8];
	int rc;

	m->how_far = last->entry.final ? FINAL_MADE : NO_FINAL;
	m->number = chain->number;
	m->who = last->entry;
	memcpy(m->last, last->id, sizeof(m->last));
	rc = steps_begin(m->ctl, m->name, m->ctl->to);
	if (!rc)
		rc = send_chain(m, chain);
	if (!rc && chain->pending)
		rc = finish_pending(m, last);
	if (rc || !last->entry.final)
		return rc ? rc : resume_dumps(m);
	chain_tail(tail, sizeof(tail), last);
	return conclude(m, tail, last->entry.shell_job);
}

static int resume(struct migration *m)
{
	struct chain chain;
	int rc = CLI_FAILED;

	if (!resume_where(m))
		return rc;
	if (chain_load(m->images, m->name, &chain, m->why, sizeof(m->why)))
		rc = resume_chain(m, &chain);
	chain_free(&chain);
	return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool heat_sample(const ProtobufCMessage *message, void *arg)
{
	uint32_t *left = arg;

	(void)message;
	return --*left && !atomic_load(&interrupted);
}

/* Until memory can be hot: before, nothing would be withheld. */
static int await_heat(struct migration *m)
{
	Criu__Agent__V1__WatchDirtyVolumeRequest q =
		CRIU__AGENT__V1__WATCH_DIRTY_VOLUME_REQUEST__INIT;
	uint32_t n = m->ctl->hot_consecutive, left = (n ? n : 3) + HEAT_MARGIN;
	struct call_error e;

	if (call_stream(SERVICE "WatchDirtyVolume", &q.base,
			&criu__agent__v1__get_dirty_volume_response__descriptor, heat_sample, &left,
			&e))
		return CLI_DONE;
	return ask_why(m->ctl, &e, m->why, sizeof(m->why));
}

static int start_profiling(struct migration *m)
{
	ask_start_response *a;
	struct call_error e;
	bool ok;

	a = ask_start(m->ctl, &e);
	if (!a)
		return ask_why(m->ctl, &e, m->why, sizeof(m->why));
	ok = a->success;
	if (!ok)
		snprintf(m->why, sizeof(m->why), "profiling cannot begin: %s", a->error);
	protobuf_c_message_free_unpacked(&a->base, NULL);
	return ok ? await_heat(m) : CLI_FAILED;
}

static void choose_name(struct migration *m)
{
	time_t now = time(NULL);
	struct tm tm;

	if (m->ctl->name)
		snprintf(m->name, sizeof(m->name), "%s", m->ctl->name);
	else
		strftime(m->name, sizeof(m->name), "mig-%Y%m%d-%H%M%S", localtime_r(&now, &tm));
}

static int begin(struct migration *m)
{
	int rc;

	choose_name(m);
	rc = steps_begin(m->ctl, m->name, m->ctl->to);
	return rc ? rc : go_on(m, m->ctl->max_pre_dumps ? STOP_NOT : STOP_MAX);
}

int run_migrate(const struct ctl *ctl)
{
	struct migration *m = calloc(1, sizeof(*m));
	int rc = CLI_DONE;

	if (!m) {
		cli_error("out of memory");
		return CLI_FAILED;
	}
	m->ctl = ctl;
	/* rather now than after the first dump */
	if (ctl->to && !send_check(ctl->to, m->why, sizeof(m->why)))
		rc = CLI_FAILED;
	if (!rc && (ctl->pid || ctl->service))
		rc = start_profiling(m);
	if (!rc)
		rc = ctl->resume ? resume(m) : begin(m);
	if (rc && m->why[0])
		rc = give_up(m, rc);
	free(m);
	return rc;
}
