/*
 * settle.c - wait until no fork of the target is half done.
 *
 * Theory of operation
 *
 * A fork copies the table of descriptors first and the memory afterwards; the
 * child can be seen in /proc only at its end, which with much memory is tens of
 * milliseconds later. So a look at all processes right after close() may miss a
 * child that holds a copy. A thread that has been seen asleep (or stopped, or
 * gone) after the close() is in no such fork: any fork it does from then on
 * copies a table without the descriptor. A few looks, a fraction of a
 * millisecond apart, clear the threads of most services. What is left runs all
 * the time; each of these is stopped once and let go at once: a thread that
 * reaches its stop has left the kernel.
 *
 * Limit: a thread in state D all the time is given up after these looks. It is
 * most likely the parent of a vfork, whose child can be seen already, and it
 * could not be stopped anyway.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "inject/clock.h"
#include "inject/facts.h"
#include "inject/take.h"

#define BUSY_MAX  4096
#define VISIT_MAX 128 /* stopped at a time */
#define VISIT_NS  NS_PER_S
#define LOOKS	  6
#define LOOK_NS	  (250 * NS_PER_US)

static bool settle_is_busy(pid_t pid, pid_t tid, struct facts *facts)
{
	return !facts_read(pid, tid, facts) && (facts->state == 'R' || facts->state == 'D');
}

/* all threads but @skip */
static size_t settle_list(pid_t pid, pid_t skip, pid_t *tids, size_t max)
{
	struct dirent *entry;
	char path[64];
	size_t n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && n < max && (entry = readdir(dir))) {
		if (isdigit((unsigned char)*entry->d_name) && atoi(entry->d_name) != skip)
			tids[n++] = atoi(entry->d_name);
	}
	if (dir)
		closedir(dir);
	return n;
}

static size_t settle_filter(pid_t pid, pid_t *tids, size_t n)
{
	struct facts facts;
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		if (settle_is_busy(pid, tids[i], &facts))
			tids[left++] = tids[i];
	return left;
}

static bool visit_ask(pid_t pid, pid_t tid, uint64_t insn, struct tracee *t)
{
	struct facts facts;

	if (!settle_is_busy(pid, tid, &facts) || facts.state != 'R')
		return false;
	memset(t, 0, sizeof(*t));
	t->pid = pid;
	t->tid = tid;
	t->insn = insn;
	return !tracee_ask(t);
}

/* Each goes on as soon as it has stopped, whatever the others do. */
static size_t visit_poll(struct tracee *tracees, size_t n, uint64_t *longest_ns)
{
	struct tracee *t;
	size_t left = 0;
	int ret;

	for (size_t i = 0; i < n; i++) {
		t = &tracees[i];
		ret = tracee_poll(t);
		if (ret > 0) {
			tracee_let_go(t);
			if (t->let_go_ns - t->stop_ns > *longest_ns)
				*longest_ns = t->let_go_ns - t->stop_ns;
		} else if (!ret) {
			tracees[left++] = *t;
		}
	}
	return left;
}

/*
 * What has not stopped by the deadline cannot be detached. It is let go by the kernel
 * when this program ends, which has but a look at the processes left to do.
 */
static void visit(pid_t pid, const pid_t *tids, size_t n, uint64_t insn, struct inject_stats *stats)
{
	static struct tracee tracees[VISIT_MAX];
	const struct timespec pause = { 0, 20 * NS_PER_US };
	const uint64_t deadline_ns = clock_ns() + VISIT_NS;
	size_t asked = 0;

	for (size_t i = 0; i < n; i++)
		asked += visit_ask(pid, tids[i], insn, &tracees[asked]);
	stats->n_visited += (uint32_t)asked;
	while (asked && clock_ns() < deadline_ns) {
		asked = visit_poll(tracees, asked, &stats->visited_ns);
		if (asked)
			nanosleep(&pause, NULL);
	}
}

void settle(pid_t pid, pid_t skip, uint64_t deadline_ns, struct inject_stats *stats)
{
	static pid_t tids[BUSY_MAX];
	const struct timespec pause = { 0, LOOK_NS };
	uint64_t insn;
	size_t n;

	n = settle_list(pid, skip, tids, BUSY_MAX);
	n = settle_filter(pid, tids, n);
	for (int i = 1; n && i < LOOKS; i++) {
		nanosleep(&pause, NULL);
		n = settle_filter(pid, tids, n);
	}
	if (!n || facts_insn(tids[0], &insn))
		return;
	for (size_t i = 0; i < n && clock_ns() < deadline_ns; i += VISIT_MAX)
		visit(pid, tids + i, n - i < VISIT_MAX ? n - i : VISIT_MAX, insn, stats);
}
