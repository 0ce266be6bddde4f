/*
 * pctx watch: publications, updates and withdrawals as they happen.
 *
 * Theory of operation
 *
 * The table has one entry for each process that has a context, with a reader on
 * it. Every interval each entry is polled, at one system call while nothing
 * changed: that finds updates, withdrawals and exits. Processes without a context
 * are looked through again every interval, unless the kernel tells of
 * publications (notify.h): then only after lost events. An event of the kernel
 * also polls the process at once, so updates are seen as they happen too.
 *
 * A process that was given keeps its entry, published or not, until it is gone:
 * its number may be another process's by the time we look again.
 *
 * A process that does not let itself be read is not read again: its entry has no
 * reader any more, and stays until the process's directory in /proc is gone. All
 * those that a scan meets cost one deadline together (bounded.h).
 *
 * What is published and withdrawn within an interval may be missed; of updates
 * in quick succession the last is seen.
 */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bounded.h"
#include "cli.h"
#include "commands.h"
#include "notify.h"
#include "outcome.h"
#include "record.h"
#include "show.h"
#include "source.h"

#define INTERVAL_MS 1000u

struct entry {
	pid_t pid;
	struct pctx_reader *reader;
	int state; /* 0: published; else the error told last */
	bool told; /* something was told of it */
	char comm[64];
};

struct watch {
	struct pctx_reader_opts opts;
	struct bounded_pass pass;
	bool json;
	bool poll; /* no events from the kernel */
	uint64_t interval_ms;
	uint64_t n_left; /* events to tell */
	pid_t *pids;	 /* given; NULL: all */
	size_t n_pids;
	struct entry *entries;
	size_t n_entries;
	size_t room;
	int exit_code;
	bool rescan;	 /* look through all processes once more */
	bool complained; /* said that it cannot look at all of them */
	bool over;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

/* ---- telling ------------------------------------------------------------------ */

static int64_t now_unix_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int tell_json(const struct entry *e, const char *event, const struct pctx_context *context)
{
	json_t *record = json_pack("{s:s, s:I, s:i, s:o}", "event", event, "at_unix_ms",
				   (json_int_t)now_unix_ms(), "pid", (int)e->pid, "command",
				   record_text(e->comm));
	bool ok = record != NULL;

	if (ok && context)
		ok = record_context(record, context);
	if (ok && !context && e->state)
		ok = json_object_set_new(record, "error",
					 json_string(outcome_of(e->state)->word)) == 0;
	if (!ok) {
		json_decref(record);
		record = NULL;
	}
	return record_print(record);
}

static int tell_text(const struct entry *e, const char *event, const struct pctx_context *context)
{
	const struct pctx_attr *name;
	char clock[16];
	time_t now = time(NULL);
	struct tm local;

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &local));
	printf("%s  %-8s  %7d  ", clock, event, (int)e->pid);
	show_text(stdout, e->comm, strlen(e->comm), false);
	name = context ? pctx_context_find(context, "service.name") : NULL;
	if (name) {
		fputs("  ", stdout);
		show_value(stdout, &name->value);
	}
	if (!context && e->state)
		printf("  (%s)", outcome_of(e->state)->word);
	putchar('\n');
	return CLI_DONE;
}

static void tell(struct watch *w, struct entry *e, const char *event,
		 const struct pctx_context *context)
{
	int rc;

	if (w->over)
		return;
	if (context || !e->comm[0])
		comm_read(w->opts.procfs, e->pid, e->comm, sizeof(e->comm));
	rc = w->json ? tell_json(e, event, context) : tell_text(e, event, context);
	e->told = true;
	if (rc || fflush(stdout)) {
		w->exit_code = CLI_FAILED;
		w->over = true;
	}
	if (--w->n_left == 0)
		w->over = true;
}

/* ---- entries -------------------------------------------------------------------- */

static struct entry *entry_find(struct watch *w, pid_t pid)
{
	for (size_t i = 0; i < w->n_entries; i++) {
		if (w->entries[i].pid == pid)
			return &w->entries[i];
	}
	return NULL;
}

static struct entry *entry_add(struct watch *w, pid_t pid, struct pctx_reader *reader)
{
	if (w->n_entries == w->room) {
		size_t room = w->room ? 2 * w->room : 64;
		struct entry *grown = realloc(w->entries, room * sizeof(*grown));

		if (!grown)
			return NULL;
		w->entries = grown;
		w->room = room;
	}
	w->entries[w->n_entries] = (struct entry){ .pid = pid, .reader = reader };
	return &w->entries[w->n_entries++];
}

static void entry_drop(struct watch *w, struct entry *e)
{
	pctx_reader_close(e->reader);
	*e = w->entries[--w->n_entries];
}

/* Something changed: read it and tell. */
static int entry_read(struct watch *w, struct entry *e)
{
	struct pctx_context *context;
	int rc = bounded_reader_read(e->pid, &w->opts, &e->reader, &context);
	bool first = !e->told || e->state;

	if (rc)
		return rc;
	e->state = 0;
	tell(w, e, first ? "publish" : "update", context);
	pctx_context_free(context);
	return 0;
}

/* What is gone is not looked for under its number again. */
static void given_forget(struct watch *w, pid_t pid)
{
	for (size_t i = 0; w->pids && i < w->n_pids; i++) {
		if (w->pids[i] == pid)
			w->pids[i--] = w->pids[--w->n_pids];
	}
}

/* Is it an error of ours and not of the process? That is said once. */
static bool own_error(struct watch *w, pid_t pid, int rc)
{
	if (rc != -ENOMEM && rc != -EMFILE && rc != -ENFILE)
		return false;
	if (!w->complained)
		cli_error("cannot watch process %d and perhaps others: %s", (int)pid,
			  outcome_of(rc)->why);
	w->complained = true;
	return true;
}

/* Has the process ended that did not let itself be read? */
static bool given_up_gone(const struct watch *w, pid_t pid)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%d", w->opts.procfs ? w->opts.procfs : "/proc", (int)pid);
	return access(path, F_OK) != 0;
}

/* Without a reader it was given up: nothing changes but that it ends. */
static int entry_poll(struct watch *w, struct entry *e, bool *changed)
{
	if (e->reader)
		return bounded_reader_poll(e->pid, &w->opts, &e->reader, changed);
	return given_up_gone(w, e->pid) ? -ESRCH : -ETIMEDOUT;
}

/* One look at an entry; false when it is of no more use. */
static bool entry_look(struct watch *w, struct entry *e)
{
	bool published = e->told && !e->state, changed = false;
	int rc = entry_poll(w, e, &changed);

	if (rc == 0 && changed)
		rc = entry_read(w, e);
	if (rc == 0 || rc == -EAGAIN)
		return true;
	if (rc == -ENODATA || rc == -ESRCH) {
		e->state = 0;
		if (published)
			tell(w, e, rc == -ESRCH ? "exit" : "withdraw", NULL);
		e->told = false;
		if (rc == -ESRCH)
			given_forget(w, e->pid);
		return rc != -ESRCH && w->pids;
	}
	if (own_error(w, e->pid, rc))
		return published || w->pids;
	/* of what may not be looked into only the change is told */
	if (rc != e->state && (rc != -EPERM || published)) {
		e->state = rc;
		tell(w, e, "error", NULL);
	}
	return rc != -EPERM || w->pids;
}

static void entries_look(struct watch *w)
{
	w->pass = (struct bounded_pass){ 0 };
	for (size_t i = 0; i < w->n_entries;) {
		if (entry_look(w, &w->entries[i]))
			i++;
		else
			entry_drop(w, &w->entries[i]);
	}
}

/* A process without an entry: give it one if it has a context. */
static int process_look(struct watch *w, pid_t pid)
{
	struct pctx_reader *reader;
	struct entry *e;
	int rc = pctx_reader_open(pid, &w->opts, &reader);

	own_error(w, pid, rc);
	if (rc)
		return rc;
	e = entry_add(w, pid, reader);
	if (!e) {
		pctx_reader_close(reader);
		own_error(w, pid, -ENOMEM);
		return -ENOMEM;
	}
	if (!entry_look(w, e))
		entry_drop(w, e);
	return 0;
}

/* ---- which processes --------------------------------------------------------------- */

static bool is_watched(const struct watch *w, pid_t pid)
{
	if (!w->pids)
		return true;
	for (size_t i = 0; i < w->n_pids; i++) {
		if (w->pids[i] == pid)
			return true;
	}
	return false;
}

/* The given ones; those that are gone are forgotten, and the last one ends it. */
static void scan_given(struct watch *w)
{
	for (size_t i = 0; i < w->n_pids;) {
		pid_t pid = w->pids[i];

		if (!entry_find(w, pid) && process_look(w, pid) == -ESRCH)
			w->pids[i] = w->pids[--w->n_pids];
		else
			i++;
	}
	if (!w->n_pids)
		w->over = true;
}

static void scan_all(struct watch *w)
{
	DIR *dir = opendir(w->opts.procfs ? w->opts.procfs : "/proc");
	struct dirent *entry;
	bool any = false;
	pid_t pid;

	if (!dir) {
		cli_error("cannot list the processes: %m");
		w->exit_code = CLI_FAILED;
		w->over = true;
		return;
	}
	while (!w->over && (entry = readdir(dir))) {
		if (!cli_pid(entry->d_name, &pid))
			continue;
		any = true;
		if (!entry_find(w, pid))
			process_look(w, pid);
	}
	closedir(dir);
	if (!any) {
		cli_error("cannot list the processes: %s", outcome_of(-EINVAL)->why);
		w->exit_code = outcome_of(-EINVAL)->exit_code;
		w->over = true;
	}
}

static void scan(struct watch *w)
{
	w->pass = (struct bounded_pass){ 0 };
	if (w->pids)
		scan_given(w);
	else
		scan_all(w);
}

static bool on_publication(pid_t pid, void *arg)
{
	struct watch *w = arg;
	struct entry *e = entry_find(w, pid);
	bool gone = e && !entry_look(w, e);

	if (gone)
		entry_drop(w, e);
	/* its number may be another's already, who is the one that published */
	if (!pid)
		w->rescan = true;
	else if ((!e || (gone && !w->pids)) && is_watched(w, pid))
		process_look(w, pid);
	return !w->over && !stopped;
}

/* ---- the loop ------------------------------------------------------------------------ */

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void wait_until(struct notify *notify, uint64_t due_ms)
{
	uint64_t now = now_ms(), ms = due_ms > now ? due_ms - now : 0;
	struct timespec pause = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	if (notify)
		notify_wait(notify, (unsigned int)ms);
	else
		nanosleep(&pause, NULL);
}

/* An event is about one process; all are looked at when an interval is over. */
static void loop(struct watch *w, struct notify *notify)
{
	uint64_t due_ms = 0;

	while (!w->over && !stopped) {
		if (now_ms() >= due_ms) {
			due_ms = now_ms() + w->interval_ms;
			entries_look(w);
		}
		/* given ones are few: their exit is noticed by looking */
		if (!w->over && (!notify || w->rescan || w->pids)) {
			w->rescan = false;
			scan(w);
		}
		if (!w->over && !stopped)
			wait_until(notify, due_ms);
	}
}

/* A reader is a descriptor, and there may be thousands of them. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static bool given_exist(struct watch *w)
{
	for (size_t i = 0; i < w->n_pids; i++) {
		struct pctx_reader *reader;
		int rc = pctx_reader_open(w->pids[i], &w->opts, &reader);
		struct pctx_context *context;

		if (rc == 0) {
			rc = bounded_reader_read(w->pids[i], &w->opts, &reader, &context);
			if (rc == 0)
				pctx_context_free(context);
			pctx_reader_close(reader);
		}
		if (rc == -ESRCH || rc == -EPERM || rc == -EINVAL) {
			cli_error("cannot watch process %d: %s", (int)w->pids[i],
				  outcome_of(rc)->why);
			w->exit_code = outcome_of(rc)->exit_code;
			return false;
		}
	}
	return true;
}

static void run(struct watch *w)
{
	/* the second one ends it also in a read that a process keeps from returning */
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
	const char *why = NULL;
	struct notify *notify = NULL;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	raise_descriptors();
	if (!w->poll)
		notify = notify_open(w->opts.procfs != NULL, on_publication, w, &why);
	if (why)
		cli_error("looking every %u ms: %s", (unsigned int)w->interval_ms, why);
	w->rescan = true;
	if (w->json)
		w->exit_code =
			record_print(json_pack("{s:s, s:i, s:s}", "format", "pctx.watch", "version",
					       1, "source", notify ? "ebpf" : "poll"));
	fflush(stdout);
	if (!w->exit_code)
		loop(w, notify);
	notify_close(notify);
	while (w->n_entries)
		entry_drop(w, &w->entries[0]);
	free(w->entries);
}

/* ---- options -------------------------------------------------------------------------- */

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "JSON, an object a line", 1 },
	{ "interval", 'i', "MS", 0, "look every so many milliseconds (default 1000)", 1 },
	{ "count", 'n', "N", 0, "end after N events", 1 },
	{ "poll", 'p', NULL, 0, "do not ask the kernel for events", 1 },
	{ 0 }
};

static error_t parse_pid(struct watch *w, const char *arg, struct argp_state *state)
{
	pid_t *grown = realloc(w->pids, (w->n_pids + 1) * sizeof(*grown));

	if (!grown)
		return ENOMEM;
	w->pids = grown;
	if (!cli_pid(arg, &w->pids[w->n_pids++]))
		argp_error(state, "'%s' is not a PID", arg);
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct watch *w = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &w->opts;
		return 0;
	case 'j':
		w->json = true;
		return 0;
	case 'p':
		w->poll = true;
		return 0;
	case 'i':
		if (!cli_number(arg, 1, 3600000, &w->interval_ms))
			argp_error(state, "--interval '%s' is not 1 to 3600000", arg);
		return 0;
	case 'n':
		if (!cli_number(arg, 1, UINT64_MAX, &w->n_left))
			argp_error(state, "--count '%s' is not a number from 1", arg);
		return 0;
	case ARGP_KEY_ARG:
		return parse_pid(w, arg, state);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int watch_main(int argc, char **argv)
{
	static const struct argp_child children[] = { { &source_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		options,
		parse,
		"[PID...]",
		"Show publications, updates and withdrawals of contexts as they happen, of the "
		"processes given or of all.",
		children,
		NULL,
		NULL
	};
	struct watch w = { .interval_ms = INTERVAL_MS };

	source_init(&w.opts);
	w.opts.read_arg = &w.pass;
	argp_parse(&argp, argc, argv, 0, NULL, &w);
	if (given_exist(&w))
		run(&w);
	free(w.pids);
	return w.exit_code;
}
