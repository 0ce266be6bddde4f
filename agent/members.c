#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "members.h"

/* A program that executes another just now is asked again. */
#define EXEC_TRIES 5

static int member_open(struct members *ms, pid_t pid, struct wprof_why *why)
{
	struct member *m = &ms->list[ms->n];
	int rc = -ESTALE;

	memset(m, 0, sizeof(*m));
	for (int i = 0; i < EXEC_TRIES && rc == -ESTALE; i++)
		rc = wprof_open(pid, &ms->opts, &m->w, why);
	if (rc)
		return rc;
	m->pid = pid;
	ms->n++;
	return 0;
}

int members_open(struct members *ms, pid_t pid, struct wprof_why *why)
{
	ms->n = 0;
	ms->ended[0] = '\0';
	return member_open(ms, pid, why);
}

static bool has_exited(const struct member *m)
{
	struct pollfd fd = { .fd = wprof_pidfd(m->w), .events = POLLIN };

	return poll(&fd, 1, 0) != 0;
}

void members_sample(struct members *ms)
{
	for (size_t i = 0; i < ms->n; i++) {
		struct member *m = &ms->list[i];
		int rc = wprof_sample(m->w, &m->interval);

		m->n_hot = 0;
		if (!rc)
			rc = wprof_hot(m->w, &m->hot, &m->n_hot);
		if (rc) {
			m->interval = NULL;
			log_warn("no sample", "pid=%d error=\"%s\"", (int)m->pid, strerror(-rc));
		}
	}
}

static void member_bury(struct members *ms, size_t i)
{
	struct member *m = &ms->list[i];
	const struct wprof_interval *none;
	/* why it ended is told afterwards; the pidfd of one that exits may not know yet */
	bool execed = wprof_sample(m->w, &none) == -ESTALE;

	snprintf(ms->ended, sizeof(ms->ended), "process %d %s", (int)m->pid,
		 execed ? "runs another program now" : "exited");
	wprof_close(m->w);
	*m = ms->list[--ms->n];
}

/* ---- children ------------------------------------------------------------------- */

static bool is_member(const struct members *ms, pid_t pid)
{
	for (size_t i = 0; i < ms->n; i++)
		if (ms->list[i].pid == pid)
			return true;
	return false;
}

static void take_in(struct members *ms, pid_t pid)
{
	struct wprof_why why = { 0 };
	struct log_text text;

	if (is_member(ms, pid))
		return;
	if (ms->n == MEMBERS_MAX) {
		log_warn("too many processes in the tree", "not_followed=%d", (int)pid);
		return;
	}
	if (!member_open(ms, pid, &why))
		log_info("child followed", "pid=%d", (int)pid);
	else if (why.reason != WPROF_ENDED && why.reason != WPROF_NO_PROCESS)
		log_warn("child not followed", "pid=%d why=%s", (int)pid,
			 log_quote(why.text, &text));
}

static void take_in_children(struct members *ms, pid_t pid, const char *task)
{
	char path[320];
	FILE *f;
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid, task);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fscanf(f, "%d", &child) == 1)
		take_in(ms, child);
	fclose(f);
}

/* Each thread has its own children. Those found are looked at too: @ms grows. */
static void follow_children(struct members *ms)
{
	for (size_t i = 0; i < ms->n; i++) {
		const struct dirent *e;
		char path[40];
		DIR *tasks;

		snprintf(path, sizeof(path), "/proc/%d/task", (int)ms->list[i].pid);
		tasks = opendir(path);
		if (!tasks)
			continue;
		while ((e = readdir(tasks)))
			if (e->d_name[0] != '.')
				take_in_children(ms, ms->list[i].pid, e->d_name);
		closedir(tasks);
	}
}

bool members_follow(struct members *ms)
{
	for (size_t i = 0; i < ms->n;) {
		const struct member *m = &ms->list[i];

		/* without an interval it goes on unless it is gone */
		if (m->interval ? m->interval->ended : has_exited(m))
			member_bury(ms, i);
		else
			i++;
	}
	if (ms->tree)
		follow_children(ms);
	return ms->n > 0;
}

void members_close(struct members *ms)
{
	while (ms->n)
		wprof_close(ms->list[--ms->n].w);
}
