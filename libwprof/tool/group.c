/*
 * group.c - one process, or a tree of them, profiled side by side.
 *
 * Theory of operation
 *
 * A child born by fork() shares nothing of its parent's profile: its memory is
 * armed apart, by an injection of its own. So after each interval the children of
 * every member are looked up and those not known yet are opened. What a child
 * wrote before that is not seen; one that lives shorter than an interval may not
 * be seen at all. A member that executes another program has new memory: it is
 * given up and taken in anew.
 *
 * A fork bomb must not take the profiler with it: never more than tree_max live
 * members, and those beyond are counted, not followed. Ended ones stay in the
 * list (their numbers may come again as other processes, so what is compared is
 * the live ones only), which is compacted when it is full.
 *
 * A child that cannot be opened, as one that is being debugged or frozen, is tried again
 * after 1, 2, 4 ... WAIT_MOST intervals: each trial stops it, or waits seconds for it.
 */
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"
#include "tool/group.h"

#define WAIT_MOST 64 /* intervals */

int group_open(struct group *g, const struct options *o, struct target *target)
{
	int rc;

	memset(g, 0, sizeof(*g));
	g->o = o;
	g->list = calloc(o->tree_max, sizeof(*g->list));
	g->waiting = calloc(o->tree_max, sizeof(*g->waiting));
	if (!g->list || !g->waiting) {
		cli_error("out of memory");
		return CLI_FAILED;
	}
	g->list[0].target = *target;
	memset(target, 0, sizeof(*target));
	g->list[0].announced = true;
	g->list[0].again = -1;
	g->n = 1;
	rc = session_open_profile(o, &g->list[0].target, &g->list[0].w);
	g->n_live = rc == 0;
	return rc;
}

int group_sample(struct group *g, size_t i)
{
	struct member *m = &g->list[i];
	int rc;

	m->iv = NULL;
	m->n_hot = 0;
	if (!m->w)
		return 0;
	rc = wprof_sample(m->w, &m->iv);
	if (!rc)
		rc = wprof_hot(m->w, &m->hot, &m->n_hot);
	return rc ? rc : 1;
}

static bool has_exited(int pidfd)
{
	struct pollfd fd = { .fd = pidfd, .events = POLLIN };

	return poll(&fd, 1, 0) != 0;
}

/* Not to be opened anew any more */
static void settle(struct member *m)
{
	if (m->again >= 0)
		close(m->again);
	m->again = -1;
}

static void forget(struct member *m)
{
	if (m->w)
		wprof_close(m->w);
	m->w = NULL;
	m->iv = NULL;
}

/* a command that was started may be a wrapper around the one that is meant */
static bool follows_exec(const struct group *g)
{
	return g->o->tree || g->list[0].target.started;
}

void group_bury(struct group *g)
{
	for (size_t i = 0; i < g->n; i++) {
		struct member *m = &g->list[i];
		const struct wprof_interval *none;

		if (!m->w || !m->iv || !m->iv->ended)
			continue;
		/* the session knows how it ended; its pidfd may not tell yet */
		g->execed = wprof_sample(m->w, &none) == -ESTALE;
		if (g->execed && follows_exec(g))
			m->again = fcntl(wprof_pidfd(m->w), F_DUPFD_CLOEXEC, 0);
		forget(m);
		g->n_live--;
	}
}

/* ---- children ---------------------------------------------------------------------- */

static bool is_member(const struct group *g, pid_t pid)
{
	for (size_t i = 0; i < g->n; i++)
		if ((g->list[i].w || g->list[i].again >= 0) && g->list[i].target.pid == pid)
			return true;
	return false;
}

/* The place of an ended member other than the first, or a new one; NULL: full. */
static struct member *free_place(struct group *g)
{
	for (size_t i = 1; i < g->n; i++)
		if (!g->list[i].w && g->list[i].again < 0)
			return &g->list[i];
	return g->n < g->o->tree_max ? &g->list[g->n] : NULL;
}

static int open_quietly(const struct group *g, struct member *m, struct wprof_why *why)
{
	struct wprof_opts opts;

	session_profile_opts(g->o, &opts);
	return wprof_open(m->target.pid, &opts, &m->w, why);
}

static void refuse(struct group *g, const char *why)
{
	if (!g->refused++)
		snprintf(g->refusal, sizeof(g->refusal), "%s", why);
}

/* ---- those that were refused ------------------------------------------------------- */

static void waiting_drop(struct group *g, size_t i)
{
	if (g->waiting[i].pidfd >= 0)
		close(g->waiting[i].pidfd);
	memmove(&g->waiting[i], &g->waiting[i + 1], (--g->n_waiting - i) * sizeof(g->waiting[0]));
}

/* Its place among them, or n_waiting; those that have ended are forgotten. */
static size_t waiting_find(struct group *g, pid_t pid)
{
	size_t i = 0;

	while (i < g->n_waiting && g->waiting[i].pid != pid)
		i++;
	if (i < g->n_waiting && has_exited(g->waiting[i].pidfd)) {
		waiting_drop(g, i);
		return g->n_waiting;
	}
	return i;
}

static void waiting_purge(struct group *g)
{
	for (size_t i = g->n_waiting; i > 0; i--)
		if (has_exited(g->waiting[i - 1].pidfd))
			waiting_drop(g, i - 1);
}

/* It was refused (again): wait longer. One that cannot be held is tried next time. */
static void waiting_add(struct group *g, pid_t pid, const char *why)
{
	size_t i = waiting_find(g, pid);
	struct refused *r;

	if (i == g->n_waiting) {
		r = &g->waiting[g->n_waiting];
		*r = (struct refused){ .pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0) };
		refuse(g, why);
		if (r->pidfd < 0)
			return;
		i = g->n_waiting++;
	}
	r = &g->waiting[i];
	r->wait = !r->wait ? 1 : r->wait < WAIT_MOST ? 2 * r->wait : WAIT_MOST;
	r->due = g->number + r->wait;
}

static void take_in(struct group *g, pid_t parent, pid_t pid)
{
	struct member *m = free_place(g);
	size_t i = waiting_find(g, pid);
	struct wprof_why why = { 0 };

	if (i < g->n_waiting && g->waiting[i].due > g->number)
		return;
	/* as many that could not be followed are remembered, and no more are tried */
	if (!m || (i == g->n_waiting && g->n_waiting == g->o->tree_max)) {
		refuse(g, "more processes than --tree-max");
		return;
	}
	target_close(&m->target);
	memset(m, 0, sizeof(*m));
	m->again = -1;
	target_attach(pid, &m->target);
	m->parent = parent;
	if (open_quietly(g, m, &why)) {
		/* gone, or about to be another program: looked at again next time */
		if (why.reason != WPROF_ENDED && why.reason != WPROF_NO_PROCESS &&
		    why.reason != WPROF_EXECED)
			waiting_add(g, pid, why.text);
		target_close(&m->target);
		return;
	}
	if (i < g->n_waiting)
		waiting_drop(g, i);
	if (m == &g->list[g->n])
		g->n++;
	g->n_live++;
}

/* "12 34 56 ": the children of one thread */
static void follow_file(struct group *g, pid_t parent, const char *path)
{
	FILE *f = fopen(path, "re");
	int pid;

	if (!f)
		return;
	while (fscanf(f, "%d", &pid) == 1)
		if (!is_member(g, pid))
			take_in(g, parent, pid);
	fclose(f);
}

static void follow_children(struct group *g, pid_t parent)
{
	char path[300];
	struct dirent *e;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", parent);
	tasks = opendir(path);
	while (tasks && (e = readdir(tasks))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/children", parent, e->d_name);
		follow_file(g, parent, path);
	}
	if (tasks)
		closedir(tasks);
}

/*
 * Its pidfd, still open, keeps its number from meaning another process. What it
 * executes may execute the next program just now: that is for the next interval.
 */
static void open_again(struct group *g, struct member *m)
{
	struct wprof_why why = { 0 };
	struct target again;
	int rc;

	target_attach(m->target.pid, &again);
	again.started = m->target.started;
	m->target.started = false;
	target_close(&m->target);
	m->target = again;
	m->announced = false;
	m->layout = 0;
	rc = open_quietly(g, m, &why);
	if (rc == -ESTALE || rc == -EAGAIN)
		return;
	if (!rc)
		g->n_live++;
	else if (rc != -ESRCH)
		refuse(g, why.text);
	settle(m);
}

/* A member that runs another program now is a process without profile again. */
static void follow_exec(struct group *g)
{
	for (size_t i = 0; i < g->n; i++) {
		struct member *m = &g->list[i];

		if (m->again < 0)
			continue;
		if (has_exited(m->again)) {
			g->execed = false;
			settle(m);
		} else {
			open_again(g, m);
		}
	}
}

void group_follow(struct group *g)
{
	size_t before = 0;

	g->number++;
	waiting_purge(g);
	follow_exec(g);
	if (!g->o->tree)
		return;
	/* children of children that were found just now, too */
	for (size_t rounds = 0; g->n_live != before && rounds < 16; rounds++) {
		size_t n = g->n;

		before = g->n_live;
		for (size_t i = 0; i < n; i++)
			if (g->list[i].w)
				follow_children(g, g->list[i].target.pid);
	}
}

bool group_over(const struct group *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->list[i].w || g->list[i].again >= 0)
			return false;
	return true;
}

int group_pidfd(const struct group *g)
{
	if (g->o->tree)
		return -1;
	return g->list[0].w ? wprof_pidfd(g->list[0].w) : g->list[0].again;
}

void group_print_refused(const struct group *g, FILE *f)
{
	if (g->refused == 1)
		fprintf(f, "a process was not followed: %s\n", g->refusal);
	else if (g->refused)
		fprintf(f, "%llu times a process was not followed: %s\n",
			(unsigned long long)g->refused, g->refusal);
}

void group_close(struct group *g)
{
	for (size_t i = 0; i < g->n; i++) {
		forget(&g->list[i]);
		settle(&g->list[i]);
		if (g->list[i].target.pid)
			target_close(&g->list[i].target);
	}
	while (g->n_waiting)
		waiting_drop(g, g->n_waiting - 1);
	free(g->waiting);
	free(g->list);
	g->waiting = NULL;
	g->list = NULL;
	g->n = 0;
}
