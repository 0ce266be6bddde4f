/*
 * dump.c - take a dump.
 *
 * Theory of operation
 *
 * A dump is made in ID.partial and renamed to ID, so ID is there whole or not at
 * all; the levels are as deep in both, so parent links hold. One dump at a time
 * runs in a directory: its descriptor is locked, and CRIU inherits the lock. An
 * agent that is killed leaves CRIU running, and a new one refuses dumps until its
 * end. Was it a final dump, and the process ended with it, then the same request
 * takes what CRIU left if that is whole, and else keeps it aside as ID.lost.
 *
 * CRIU tells written pages by the kernel's soft-dirty bits and clears them with
 * each dump. So a dump may only build on the very last dump of its process:
 * a page that was written between an older one and the last reads clean, and
 * would be taken from the older one: wrong, and nobody would notice. PID.chain
 * names the last one. It is emptied before CRIU starts and set when all is well;
 * a dump that failed before CRIU came to any page puts the old one back.
 *
 * With DUMP_WITHHOLD the copy to send is made after the rename: a final dump takes
 * its process with it, and then ID/full is all there is of it. If making the copy
 * fails, or the agent is killed, the same request does what is left. Of a process
 * that is alive such a dump is removed instead, and its chain has ended.
 *
 * Nothing that CRIU wrote of a process that is gone is ever removed.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "criu/dump.h"
#include "why.h"

#define EXCLUDED     "excluded-"
#define ALIVE_ROUNDS 20	  /* of 10 ms: then it lives on */
#define DYING_ROUNDS 1000 /* exiting may take long where memory is large */

/** struct plan - what is left out of one process */
struct plan {
	pid_t pid;
	struct wprof_ranges *exclude, *no_parent;
};

/** struct dump - one being taken */
struct dump {
	const struct dump_opts *o;
	struct store store;
	struct store_entry entry;
	struct task task;
	char partial[PATH_MAX], done[PATH_MAX];
	char last[DUMP_ID_MAX + 1]; /* what the chain ended with before */
	struct plan *plans;
	size_t n_plans;
	struct dump_result *result;
};

bool dump_id_valid(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	return n && n <= DUMP_ID_MAX && !id[n] && id[0] != '-';
}

static const char *const mode_names[] = { "off", "withhold", "native", "auto" };

const char *dump_mode_name(enum dump_mode mode)
{
	return mode_names[mode];
}

bool dump_mode_of(const char *name, enum dump_mode *mode)
{
	for (size_t i = 0; i < sizeof(mode_names) / sizeof(mode_names[0]); i++) {
		if (!strcmp(name, mode_names[i])) {
			*mode = (enum dump_mode)i;
			return true;
		}
	}
	return false;
}

static bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

static bool entry_is_gone(const struct store_entry *e)
{
	struct task now;

	return task_read(e->pid, &now) || now.start_ticks != e->start_ticks;
}

/* ---- may it be taken? -------------------------------------------------------------- */

static int check_parent(struct dump *d, struct wprof_why *why)
{
	const char *parent = d->entry.parent;
	struct store_entry e;
	int rc = store_read(d->store.path, parent, &e);

	if (rc)
		return why_system(why, rc, "the parent dump %s is not there, or not whole", parent);
	if (e.pid != d->entry.pid || e.start_ticks != d->entry.start_ticks)
		return why_system(why, -EINVAL, "the parent %s is a dump of another process",
				  parent);
	if (dump_pending(d->store.path, parent))
		return why_system(why, -ENODATA, "the parent %s has no ship yet: ask for it again",
				  parent);
	if (strcmp(d->last, parent))
		return why_system(why, -ESTALE,
				  "%s is not the last dump of process %d, or one failed after "
				  "it: begin again without a parent",
				  parent, (int)e.pid);
	if (d->o->mode == DUMP_AUTO)
		d->entry.mode = e.mode;
	if (e.mode != d->entry.mode)
		return why_system(why, -EINVAL, "the parent %s was dumped with hot mode %s", parent,
				  dump_mode_name(e.mode));
	return 0;
}

static int check_native(struct dump *d, struct wprof_why *why)
{
	bool automatic = d->entry.mode == DUMP_AUTO, tree = task_has_children(d->task.pid);
	char scratch[PATH_MAX];
	int rc;

	store_path(&d->store, d->o->id, ".help", scratch);
	rc = run_has_native(d->o->criu, scratch);
	if (rc < 0)
		return why_system(why, rc, "%s cannot be run", d->o->criu);
	if (automatic)
		d->entry.mode = rc && !tree ? DUMP_NATIVE : DUMP_WITHHOLD;
	else if (!rc)
		return why_system(why, -EOPNOTSUPP,
				  "hot mode native: %s has no --exclude-range, --exclude-file and "
				  "--no-parent-range",
				  d->o->criu);
	else if (tree)
		return why_system(why, -EOPNOTSUPP,
				  "hot mode native: process %d has children, and CRIU would leave "
				  "the same addresses out of them",
				  (int)d->task.pid);
	return 0;
}

bool dump_used(const char *images, const char *id)
{
	char done[PATH_MAX], lost[PATH_MAX];
	int saved = errno;
	bool used;

	if (!dump_id_valid(id))
		return false;
	snprintf(done, sizeof(done), "%s/%s", images, id);
	snprintf(lost, sizeof(lost), "%s/%s.lost", images, id);
	used = exists(done) || exists(lost);
	errno = saved;
	return used;
}

/* The id must be free; what stands there is never touched. */
static int check_id(struct dump *d, struct wprof_why *why)
{
	struct store_entry e;

	if (!dump_used(d->store.path, d->o->id))
		return 0;
	if (!store_read(d->store.path, d->o->id, &e) && e.final)
		return why_system(why, -EEXIST,
				  "the dump id %s was used before: it is a whole final dump of "
				  "process %d; take another",
				  d->o->id, (int)e.pid);
	return why_system(why, -EEXIST, "the dump id %s was used before; take another", d->o->id);
}

static int check(struct dump *d, struct wprof_why *why)
{
	int rc = check_id(d, why);

	if (rc)
		return rc;
	rc = task_read(d->o->pid, &d->task);
	if (rc)
		return why_system(why, rc, "process %d", (int)d->o->pid);
	d->entry.pid = d->task.pid;
	d->entry.start_ticks = d->task.start_ticks;
	d->entry.shell_job = d->task.terminal || d->task.session != d->task.pid;
	store_last(&d->store, &d->entry, d->last);
	if (d->entry.parent[0])
		rc = check_parent(d, why);
	if (!rc && (d->entry.mode == DUMP_NATIVE || d->entry.mode == DUMP_AUTO))
		rc = check_native(d, why);
	return rc;
}

/* ---- what is left out --------------------------------------------------------------- */

static struct plan *plan_of(struct dump *d, pid_t pid)
{
	struct plan *more;

	for (size_t i = 0; i < d->n_plans; i++)
		if (d->plans[i].pid == pid)
			return &d->plans[i];
	more = reallocarray(d->plans, d->n_plans + 1, sizeof(*more));
	if (!more)
		return NULL;
	d->plans = more;
	more[d->n_plans] = (struct plan){ .pid = pid };
	return &more[d->n_plans++];
}

static void plans_free(struct dump *d)
{
	for (size_t i = 0; i < d->n_plans; i++) {
		wprof_ranges_free(d->plans[i].exclude);
		wprof_ranges_free(d->plans[i].no_parent);
	}
	free(d->plans);
	d->plans = NULL;
	d->n_plans = 0;
}

/* A plan for each process that dump @id left something out of. */
static int plans_of_dump(struct dump *d, const char *id)
{
	const struct dirent *e;
	char path[PATH_MAX];
	int rc = 0;
	DIR *dir;

	store_path(&d->store, id, "", path);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (!rc && (e = readdir(dir)))
		if (!strncmp(e->d_name, EXCLUDED, strlen(EXCLUDED)) &&
		    !plan_of(d, atoi(e->d_name + strlen(EXCLUDED))))
			rc = -ENOMEM;
	closedir(dir);
	return rc;
}

static int load_excluded(struct dump *d, const char *id, pid_t pid, struct wprof_ranges **out)
{
	char path[PATH_MAX], tail[40];
	int rc;

	snprintf(tail, sizeof(tail), "/" EXCLUDED "%d", (int)pid);
	store_path(&d->store, id, tail, path);
	rc = wprof_ranges_load(path, out, NULL);
	return rc == -ENOENT ? wprof_ranges_new(NULL, 0, out) : rc;
}

/* The last dump is all that is left of a process: it leaves nothing out. */
static const struct wprof_ranges *hot_of(const struct dump *d, pid_t pid)
{
	if (d->entry.final)
		return NULL;
	for (size_t i = 0; i < d->o->n_hot; i++)
		if (d->o->hot[i].id == (uint64_t)pid)
			return d->o->hot[i].ranges;
	return NULL;
}

static int plan_sets(struct dump *d, struct plan *plan)
{
	struct wprof_criu_opts opts = { .size = sizeof(opts), .hot = hot_of(d, plan->pid) };
	struct wprof_ranges *previous = NULL;
	struct wprof_range *vmas = NULL;
	int rc = 0;

	if (d->entry.parent[0])
		rc = load_excluded(d, d->entry.parent, plan->pid, &previous);
	if (!rc && d->entry.mode == DUMP_NATIVE)
		rc = task_vmas(plan->pid, &vmas, &opts.n_vmas);
	opts.previous = previous;
	opts.vmas = vmas;
	if (!rc)
		rc = wprof_criu_sets(&opts, &plan->exclude, &plan->no_parent);
	wprof_ranges_free(previous);
	free(vmas);
	return rc;
}

/* The excluded set stands beside the images: a new agent goes on with it. */
static int plan_save(struct dump *d, const struct plan *plan)
{
	char path[PATH_MAX + 40];
	size_t n;

	wprof_ranges_list(plan->no_parent, &n);
	d->result->n_no_parent += n;
	wprof_ranges_list(plan->exclude, &n);
	d->result->n_exclude += n;
	if (!n)
		return 0;
	snprintf(path, sizeof(path), "%s/" EXCLUDED "%d", d->partial, (int)plan->pid);
	return wprof_ranges_save(plan->exclude, path);
}

static int make_plans(struct dump *d, struct wprof_why *why)
{
	bool hot = !d->entry.final && d->entry.mode != DUMP_OFF;
	int rc = 0;

	for (size_t i = 0; !rc && hot && i < d->o->n_hot; i++)
		if (!plan_of(d, (pid_t)d->o->hot[i].id))
			rc = -ENOMEM;
	/* CRIU would take the ranges for those of every process it dumps */
	if (hot && d->entry.mode == DUMP_NATIVE && d->n_plans > 1)
		return why_system(why, -EOPNOTSUPP, "hot mode native: for one process only");
	if (!rc && d->entry.parent[0])
		rc = plans_of_dump(d, d->entry.parent);
	for (size_t i = 0; !rc && i < d->n_plans; i++) {
		rc = plan_sets(d, &d->plans[i]);
		if (!rc)
			rc = plan_save(d, &d->plans[i]);
	}
	return rc ? why_system(why, rc, "what to leave out of dump %s", d->o->id) : 0;
}

/* ---- CRIU ---------------------------------------------------------------------------- */

#define FIXED_ARGS 16

/** struct command - CRIU's arguments, and the text of those that have any */
struct command {
	char **argv;
	size_t n;
	char pid[16], images[PATH_MAX + 8], log[PATH_MAX + 16], out[PATH_MAX + 16],
		exclude[PATH_MAX + 16], prev[DUMP_ID_MAX + 16];
};

static void push(struct command *c, const char *text)
{
	c->argv[c->n++] = (char *)text;
}

static void fixed_args(const struct dump *d, struct command *c)
{
	const struct store_entry *e = &d->entry;
	bool stays = !e->final || e->leave_running;

	push(c, d->o->criu);
	push(c, e->final ? "dump" : "pre-dump");
	push(c, "-t");
	push(c, c->pid);
	push(c, "-D");
	push(c, c->images);
	push(c, "-o");
	push(c, c->log);
	/* only the first and last of all needs no soft-dirty bits of the kernel */
	if (stays || e->parent[0])
		push(c, "--track-mem");
	if (e->parent[0]) {
		push(c, "--prev-images-dir");
		push(c, c->prev);
	}
	if (e->final && e->leave_running)
		push(c, "--leave-running");
	if (e->shell_job)
		push(c, "--shell-job");
}

static void command_texts(const struct dump *d, struct command *c)
{
	snprintf(c->pid, sizeof(c->pid), "%d", (int)d->task.pid);
	snprintf(c->images, sizeof(c->images), "%s/full", d->partial);
	snprintf(c->log, sizeof(c->log), "%s/dump.log", d->partial);
	snprintf(c->out, sizeof(c->out), "%s/dump.out", d->partial);
	snprintf(c->exclude, sizeof(c->exclude), "%s/exclude", d->partial);
	snprintf(c->prev, sizeof(c->prev), "../../%s/full", d->entry.parent);
}

static int run_command(struct dump *d, struct command *c, char **ranges, int *status)
{
	size_t n = 0;
	int rc;

	while (ranges && ranges[n])
		n++;
	c->argv = calloc(FIXED_ARGS + n + 1, sizeof(*c->argv));
	if (!c->argv)
		return -ENOMEM;
	fixed_args(d, c);
	for (size_t i = 0; i < n; i++)
		push(c, ranges[i]);
	rc = run_child(c->argv, c->out, d->store.fd, status);
	free(c->argv);
	return rc;
}

/* CRIU's own message of that may not have fitted on the disk. */
static const char *disk_full(const struct dump *d)
{
	struct statvfs fs;

	return !fstatvfs(d->store.fd, &fs) && fs.f_bavail * fs.f_frsize < 64 << 10
		       ? "; the disk is full"
		       : "";
}

/* The log stays where the next attempt does not clear it away. */
static int criu_failed(struct dump *d, const struct command *c, int status, struct wprof_why *why)
{
	char kept[PATH_MAX], error[240], how[40];
	bool has_log;

	run_last_error(c->log, c->out, error, sizeof(error));
	store_path(&d->store, d->o->id, ".failed.log", kept);
	has_log = !rename(exists(c->log) ? c->log : c->out, kept);
	if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(status));
	else
		snprintf(how, sizeof(how), "ended with %d", WEXITSTATUS(status));
	if (why) {
		why->reason = WPROF_SYSTEM;
		snprintf(why->text, sizeof(why->text), "criu %s%s%.100s%s; log: %s%s", how,
			 *error ? ": " : "", error, disk_full(d), has_log ? d->o->id : "none",
			 has_log ? ".failed.log" : "");
	}
	return -ECHILD;
}

static int run_criu(struct dump *d, struct wprof_why *why)
{
	const struct plan *plan = d->n_plans ? &d->plans[0] : NULL;
	struct command c = { .argv = NULL };
	char **ranges = NULL;
	int rc = 0, status = 0;

	command_texts(d, &c);
	if (mkdir(c.images, 0700))
		return why_system(why, -errno, "%s", c.images);
	if (plan && d->entry.mode == DUMP_NATIVE)
		rc = wprof_criu_args(plan->exclude, plan->no_parent, c.exclude, &ranges);
	if (!rc)
		rc = run_command(d, &c, ranges, &status);
	wprof_criu_args_free(ranges);
	if (rc)
		return why_system(why, rc, "%s cannot be run", d->o->criu);
	if (status)
		return criu_failed(d, &c, status, why);
	if (exists(c.out))
		unlink(c.out);
	return 0;
}

/* Did CRIU come to any page? Before that it has cleared no soft-dirty bit. */
static bool pages_begun(const struct dump *d)
{
	char path[PATH_MAX + 8];
	const struct dirent *e;
	bool begun = false;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/full", d->partial);
	dir = opendir(path);
	while (dir && !begun && (e = readdir(dir)))
		begun = !strncmp(e->d_name, "pages-", 6) || !strncmp(e->d_name, "pagemap-", 8);
	if (dir)
		closedir(dir);
	return begun;
}

/* ---- after it -------------------------------------------------------------------------- */

static int read_stats(struct dump *d, const char *dir, struct wprof_why *why)
{
	const struct wprof_images_level *level;
	struct wprof_images *images;
	char path[PATH_MAX + 8];
	size_t n;
	int rc;

	snprintf(path, sizeof(path), "%s/full", dir);
	rc = wprof_images_open(path, NULL, &images, why);
	if (rc)
		return rc;
	level = wprof_images_levels(images, &n);
	d->result->pages_written = level->written_pages;
	d->result->pages_skipped = level->skipped_pages;
	d->result->frozen_us = level->frozen_us;
	d->result->bytes_written = level->pages_bytes + level->other_bytes;
	wprof_images_close(images);
	return 0;
}

/* CRIU's images have the numbers that processes have in their namespace. */
static struct wprof_images_hot *withheld_list(const struct dump *d)
{
	struct wprof_images_hot *list = calloc(d->n_plans + 1, sizeof(*list));

	for (size_t i = 0; list && i < d->n_plans; i++)
		list[i] = (struct wprof_images_hot){ task_inner_pid(d->plans[i].pid),
						     d->plans[i].exclude };
	return list;
}

static int make_ship(struct dump *d, struct wprof_why *why)
{
	char full[PATH_MAX], ship[PATH_MAX], parent[DUMP_ID_MAX + 16];
	struct wprof_images_hot *hot = withheld_list(d);
	struct wprof_images_shipped shipped;
	struct wprof_images_ship o = {
		.size = sizeof(o),
		.flags = d->o->flags,
		.full = full,
		.ship = ship,
		.parent = d->entry.parent[0] ? parent : NULL,
		.hot = hot,
		.n_hot = d->entry.final ? 0 : d->n_plans,
	};
	int rc;

	store_path(&d->store, d->o->id, "/full", full);
	store_path(&d->store, d->o->id, "/ship", ship);
	snprintf(parent, sizeof(parent), "../../%s/ship", d->entry.parent);
	if (!hot)
		return why_system(why, -ENOMEM, "%s", ship);
	rc = d->entry.final ? wprof_images_complete(&o, &shipped, why)
			    : wprof_images_withhold(&o, &shipped, why);
	free(hot);
	if (rc)
		return rc;
	d->result->bytes_written = shipped.written_bytes;
	d->result->bytes_withheld = shipped.withheld_pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

/* From the renamed directory on; @why has room for what to do about it. */
static int finish(struct dump *d, struct wprof_why *why)
{
	bool ship = d->entry.mode == DUMP_WITHHOLD;
	int rc = ship ? make_ship(d, why) : 0;

	if (!rc)
		rc = store_set_last(&d->store, &d->entry, d->o->id);
	if (!rc) {
		store_path(&d->store, d->o->id, ship ? "/ship" : "/full", d->result->dir);
		d->result->mode = d->entry.mode;
		d->result->shell_job = d->entry.shell_job;
		return 0;
	}
	/* CRIU was told to end it: it may be about to go */
	if ((d->entry.final && !d->entry.leave_running) || entry_is_gone(&d->entry)) {
		size_t n = why ? strlen(why->text) : 0;

		if (why)
			snprintf(why->text + n, sizeof(why->text) - n,
				 "; the dump itself is kept: ask for it again");
		return rc;
	}
	(void)!store_remove(d->done);
	return rc;
}

/* Part of a dump is all there is of its process: no later dump may clear it away. */
static void keep_lost(struct dump *d, struct wprof_why *why)
{
	size_t n = why ? strlen(why->text) : 0;
	char lost[PATH_MAX];

	store_path(&d->store, d->o->id, ".lost", lost);
	(void)!rename(d->partial, lost);
	if (why)
		snprintf(why->text + n, sizeof(why->text) - n,
			 "; the process is gone, what was written is in %s", lost);
}

/*
 * CRIU failed, but may have killed the process before, and whoever is killed is
 * there for a moment yet: exiting takes time, and between the signal and the exit
 * nothing tells of it. What was written of it may be all that is left.
 */
static bool entry_is_going(const struct store_entry *e)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	struct task now;

	for (int i = 0; !task_read(e->pid, &now) && now.start_ticks == e->start_ticks; i++) {
		if (i >= (now.is_dying ? DYING_ROUNDS : ALIVE_ROUNDS))
			return now.is_dying;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* A dump that came to nothing. */
static void give_up(struct dump *d, struct wprof_why *why)
{
	size_t n = why ? strlen(why->text) : 0;

	if (!pages_begun(d)) {
		(void)!store_set_last(&d->store, &d->entry, d->last);
	} else if (d->entry.final && entry_is_going(&d->entry)) {
		keep_lost(d, why);
		return;
	} else if (why) {
		snprintf(why->text + n, sizeof(why->text) - n, "; the next dump: without a parent");
	}
	(void)!store_remove(d->partial);
}

static int begin(struct dump *d, struct wprof_why *why)
{
	int rc = store_remove(d->partial); /* of an agent that was killed */

	if (!rc && mkdir(d->partial, 0700))
		rc = -errno;
	if (rc)
		return why_system(why, rc, "%s", d->partial);
	rc = make_plans(d, why);
	if (!rc) {
		rc = store_write(d->partial, &d->entry);
		if (rc)
			why_system(why, rc, "%s", d->partial);
	}
	if (!rc) {
		rc = store_set_last(&d->store, &d->entry, NULL);
		if (rc)
			why_system(why, rc, "%s", d->store.path);
	}
	if (!rc)
		return 0;
	(void)!store_remove(d->partial);
	return rc;
}

/* CRIU is done: the dump gets its name. */
static int settle(struct dump *d, struct wprof_why *why)
{
	int rc = read_stats(d, d->partial, why);

	if (rc)
		return rc;
	if (d->entry.final && syncfs(d->store.fd))
		rc = -errno;
	if (!rc && rename(d->partial, d->done))
		rc = -errno;
	return rc ? why_system(why, rc, "%s", d->partial) : 0;
}

static int take(struct dump *d, struct wprof_why *why)
{
	int rc = check(d, why);

	if (!rc)
		rc = begin(d, why);
	if (rc)
		return rc;
	rc = run_criu(d, why);
	if (!rc)
		rc = settle(d, why);
	if (rc) {
		give_up(d, why);
		return rc;
	}
	return finish(d, why);
}

/* ---- a dump that an agent before us, or a full disk, left unfinished ----------------------- */

/* Taken, but there is no copy to send. */
static bool entry_unshipped(const char *images, const char *id, struct store_entry *e)
{
	char ship[PATH_MAX];

	if (!dump_id_valid(id) || store_read(images, id, e) || e->mode != DUMP_WITHHOLD)
		return false;
	return (size_t)snprintf(ship, sizeof(ship), "%s/%s/ship", images, id) < sizeof(ship) &&
	       !exists(ship);
}

/* A final dump whose process ended with it, and the agent before CRIU did. */
static bool entry_orphan(const char *images, const char *id, struct store_entry *e)
{
	char partial[DUMP_ID_MAX + 16];

	snprintf(partial, sizeof(partial), "%s.partial", id);
	return dump_id_valid(id) && !store_read(images, partial, e) && e->final &&
	       !e->leave_running && entry_is_gone(e);
}

bool dump_pending(const char *images, const char *id)
{
	struct store_entry e;
	int saved = errno;
	bool pending = entry_unshipped(images, id, &e) || entry_orphan(images, id, &e);

	errno = saved;
	return pending;
}

/* Nobody else's dump is taken for the one asked for. */
static int check_resumed(const struct dump *d, const struct store_entry *e, struct wprof_why *why)
{
	struct task task;

	if (e->final == d->o->final && !strcmp(e->parent, d->entry.parent) &&
	    (task_read(d->o->pid, &task) ||
	     (task.pid == e->pid && task.start_ticks == e->start_ticks)))
		return 0;
	return why_system(why, -EEXIST,
			  "the dump id %s was used before: it is an unfinished %s of process %d "
			  "with %s%s; take another",
			  d->o->id, e->final ? "final dump" : "pre-dump", (int)e->pid,
			  e->parent[0] ? "parent " : "no parent", e->parent);
}

/* CRIU writes its statistics last, when all else went well. */
static int adopt(struct dump *d, struct wprof_why *why)
{
	char stats[PATH_MAX + 24];
	int rc = -ECHILD;

	snprintf(stats, sizeof(stats), "%s/full/stats-dump", d->partial);
	if (exists(stats)) {
		rc = settle(d, why);
	} else if (why) {
		why->reason = WPROF_SYSTEM;
		snprintf(why->text, sizeof(why->text), "CRIU did not finish dump %s", d->o->id);
	}
	if (rc)
		keep_lost(d, why);
	return rc;
}

static int resume(struct dump *d, const struct store_entry *e, bool orphan, struct wprof_why *why)
{
	int rc = check_resumed(d, e, why);

	if (rc)
		return rc;
	d->entry = *e;
	if (orphan)
		rc = adopt(d, why);
	if (rc)
		return rc;
	rc = plans_of_dump(d, d->o->id);
	for (size_t i = 0; !rc && i < d->n_plans; i++)
		rc = load_excluded(d, d->o->id, d->plans[i].pid, &d->plans[i].exclude);
	if (rc)
		return why_system(why, rc, "what dump %s left out", d->o->id);
	rc = read_stats(d, d->done, why);
	return rc ? rc : finish(d, why);
}

static int take_or_resume(struct dump *d, struct wprof_why *why)
{
	struct store_entry e;

	if (entry_unshipped(d->store.path, d->o->id, &e))
		return resume(d, &e, false, why);
	if (!exists(d->done) && entry_orphan(d->store.path, d->o->id, &e))
		return resume(d, &e, true, why);
	return take(d, why);
}

int dump_take(const struct dump_opts *opts, struct dump_result *result, struct wprof_why *why)
{
	const char *parent = opts->parent ? opts->parent : "";
	struct dump d = { .o = opts, .result = result };
	int saved = errno, rc;

	memset(result, 0, sizeof(*result));
	why_clear(why);
	if (!dump_id_valid(opts->id) || (*parent && !dump_id_valid(parent)) ||
	    !strcmp(opts->id, parent))
		return why_system(why, -EINVAL, "no dump id, or its own parent");
	memcpy(d.entry.parent, parent, strlen(parent) + 1);
	d.entry.mode = opts->mode;
	d.entry.final = opts->final;
	d.entry.leave_running = opts->final && opts->leave_running;
	rc = store_open(&d.store, opts->images, why);
	if (!rc) {
		store_path(&d.store, opts->id, ".partial", d.partial);
		store_path(&d.store, opts->id, "", d.done);
		rc = take_or_resume(&d, why);
		store_close(&d.store);
	}
	plans_free(&d);
	errno = saved;
	return rc;
}
