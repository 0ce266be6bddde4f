/*
 * profiler.c - one thread that holds the sessions of libwprof.
 *
 * Theory of operation
 *
 * A session of libwprof is for one thread, and beginning or ending one takes
 * its time, so all of that is done here and orders come through a list with an
 * eventfd. The thread sleeps in poll() until an order comes, the target exits
 * (its pidfd) or the interval is over: an idle agent has nothing to wake for.
 *
 * What can be asked for is a snapshot, replaced after each interval: built
 * unlocked, swapped under snap_lock, which readers hold for as long as it takes
 * to pack an answer. So an answer never waits for a scan.
 *
 * Order of locks: snap_lock before the one of the streams. `active` turns false
 * under snap_lock before the streams are ended, and a stream begins under
 * snap_lock while it is true: none is left behind.
 *
 * A target that is gone ends the profiling, with the reason in the snapshot;
 * the next start is as the first. If the agent is killed, its descriptors go
 * with it and the kernel disarms the target.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "members.h"
#include "profiler.h"

#define NS_PER_MS   1000000u
#define RATE_MIN_NS (5 * NS_PER_MS) /* half of the least interval */

static struct profiler_calls calls;
static const char *injector;
static pthread_t thread;
static int wake_fd = -1;

static pthread_mutex_t orders_lock = PTHREAD_MUTEX_INITIALIZER;
static struct order *orders_first, **orders_last = &orders_first;
static bool orders_over;

static pthread_mutex_t snap_lock = PTHREAD_MUTEX_INITIALIZER;
static struct snapshot snap = { .idle = "nothing is being profiled" };
static bool dumped; /* under snap_lock: the thread has yet to hear of it */

/* of the thread */
static struct members members;
static struct rule rule;
static struct volume volume;
static uint64_t next_ns;

static uint64_t profiler_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int64_t profiler_unix_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- the snapshot ----------------------------------------------------------------- */

const struct snapshot *profiler_lock(void)
{
	pthread_mutex_lock(&snap_lock);
	return &snap;
}

void profiler_unlock(void)
{
	pthread_mutex_unlock(&snap_lock);
}

void profiler_dumped(pid_t pid)
{
	pthread_mutex_lock(&snap_lock);
	if (snap.active && snap.pid == pid) {
		snap.volume.since_dump_bytes = 0;
		dumped = true;
	}
	pthread_mutex_unlock(&snap_lock);
}

static bool take_dumped(void)
{
	bool was;

	pthread_mutex_lock(&snap_lock);
	was = dumped;
	dumped = false;
	pthread_mutex_unlock(&snap_lock);
	return was;
}

static void volume_add(const struct wprof_interval *iv)
{
	double s = (double)iv->length_ns / 1e9;

	volume.dirty_pages += iv->written_pages;
	volume.dirty_bytes += iv->written_pages * iv->page_bytes;
	volume.estimated |= iv->estimated;
	for (size_t i = 0; i < iv->n_vmas; i++)
		volume.populated_bytes += iv->vmas[i].populated_pages * iv->page_bytes;
	/* what the first one, begun and ended at once, met is no rate */
	if (iv->length_ns >= RATE_MIN_NS) {
		volume.pages_per_s += (double)iv->written_pages / s;
		volume.bytes_per_s += (double)(iv->written_pages * iv->page_bytes) / s;
	}
}

static void volume_take(uint64_t began_ns)
{
	volume.dirty_pages = volume.dirty_bytes = volume.populated_bytes = 0;
	volume.pages_per_s = volume.bytes_per_s = 0;
	volume.estimated = false;
	for (size_t i = 0; i < members.n; i++)
		if (members.list[i].interval)
			volume_add(members.list[i].interval);
	volume.total_bytes += volume.dirty_bytes;
	if (take_dumped())
		volume.since_dump_bytes = 0;
	volume.since_dump_bytes += volume.dirty_bytes;
	volume.total_s = (double)(profiler_now_ns() - began_ns) / 1e9;
	volume.at_unix_ms = profiler_unix_ms();
}

/* VMAs with a hot part; both lists ascend. */
static uint32_t count_hot_vmas(const struct member *m)
{
	const struct wprof_interval *iv = m->interval;
	uint32_t n = 0;
	size_t h = 0;

	for (size_t v = 0; v < iv->n_vmas; v++) {
		while (h < m->n_hot && m->hot[h].end <= iv->vmas[v].start)
			h++;
		if (h < m->n_hot && m->hot[h].start < iv->vmas[v].end)
			n++;
	}
	return n;
}

static void snapshot_add(struct snapshot *s, const struct member *m)
{
	s->n_processes++;
	if (!m->interval)
		return;
	s->n_vmas += (uint32_t)m->interval->n_vmas;
	s->n_hot_vmas += count_hot_vmas(m);
	s->scan_ns += m->interval->cost.scan_ns;
	for (size_t i = 0; s->hot && i < m->n_hot; i++) {
		s->hot[s->n_hot++] = (struct hot){
			.start = m->hot[i].start,
			.end = m->hot[i].end,
			.written_ratio = m->hot[i].written_ratio,
			.consecutive = m->hot[i].consecutive,
			.pid = m->pid,
		};
		s->hot_bytes += m->hot[i].end - m->hot[i].start;
	}
}

static void snapshot_swap(const struct snapshot *fresh)
{
	struct hot *old;

	pthread_mutex_lock(&snap_lock);
	old = snap.hot;
	snap = *fresh;
	pthread_mutex_unlock(&snap_lock);
	free(old);
}

static void snapshot_take(pid_t pid)
{
	struct snapshot fresh = { .active = true, .pid = pid, .interval_ms = rule.interval_ms };
	size_t n_hot = 0;

	for (size_t i = 0; i < members.n; i++)
		n_hot += members.list[i].n_hot;
	fresh.hot = n_hot ? calloc(n_hot, sizeof(*fresh.hot)) : NULL;
	if (n_hot && !fresh.hot)
		log_error("out of memory: no hot regions are known", NULL);
	fresh.volume = volume;
	for (size_t i = 0; i < members.n; i++)
		snapshot_add(&fresh, &members.list[i]);
	snapshot_swap(&fresh);
}

/* ---- orders ----------------------------------------------------------------------- */

static uint64_t began_ns;
static pid_t root;

static void profiler_end(const char *why)
{
	struct snapshot fresh = { .active = false };
	struct log_text text;

	members_close(&members);
	root = 0;
	snprintf(fresh.idle, sizeof(fresh.idle), "nothing is being profiled: %s", why);
	snapshot_swap(&fresh);
	log_info("profiling ended", "why=%s", log_quote(why, &text));
	calls.ended(fresh.idle);
}

/* Return: false when nobody is left. */
static bool profiler_sample(void)
{
	uint32_t interval_ms = rule.interval_ms;

	members_sample(&members);
	volume_take(began_ns);
	snapshot_take(root);
	calls.sampled(&volume, interval_ms);
	if (members_follow(&members))
		return true;
	profiler_end(members.ended);
	return false;
}

static int begin(const struct order *o, struct wprof_why *why)
{
	int rc;

	members.opts = (struct wprof_opts){
		.size = sizeof(members.opts),
		.arming = WPROF_SAMPLE,
		.granularity_bytes = o->rule.granularity_bytes,
		.hot_threshold = o->rule.hot_threshold,
		.hot_consecutive = o->rule.hot_consecutive,
		.injector = injector,
	};
	members.tree = o->rule.tree;
	rc = members_open(&members, o->pid, why);
	if (rc)
		return rc;
	rule = o->rule;
	root = o->pid;
	memset(&volume, 0, sizeof(volume));
	began_ns = profiler_now_ns();
	next_ns = began_ns + (uint64_t)rule.interval_ms * NS_PER_MS;
	return 0;
}

/* A first, empty interval tells how many VMAs there are. */
static void order_start(const struct order *o)
{
	struct wprof_why why = { 0 };
	char text[300];
	int rc;

	if (root) {
		snprintf(text, sizeof(text),
			 "process %d is already being profiled; stop that first", (int)root);
		calls.done(o, 0, 0, text);
		return;
	}
	rc = begin(o, &why);
	if (rc) {
		calls.done(o, 0, 0, why.text[0] ? why.text : strerror(-rc));
		return;
	}
	if (members.tree)
		members_follow(&members);
	if (!profiler_sample()) {
		calls.done(o, 0, 0, snap.idle);
		return;
	}
	log_info("profiling began", "pid=%d interval_ms=%u vmas=%u tree=%d", (int)root,
		 rule.interval_ms, snap.n_vmas, rule.tree);
	calls.done(o, root, snap.n_vmas, NULL); /* only this thread writes snap */
}

static void order_run(struct order *o)
{
	if (rpc_expired(o->job.rpc)) {
		calls.done(o, 0, 0, "the deadline was over when its turn came");
	} else if (o->kind == ORDER_START) {
		order_start(o);
	} else {
		if (root)
			profiler_end("it was stopped");
		calls.done(o, 0, 0, NULL);
	}
	free(o);
}

static struct order *orders_take(bool *over)
{
	struct order *first;

	pthread_mutex_lock(&orders_lock);
	first = orders_first;
	orders_first = NULL;
	orders_last = &orders_first;
	*over = orders_over;
	pthread_mutex_unlock(&orders_lock);
	return first;
}

static void orders_wake(void)
{
	uint64_t one = 1;

	if (write(wake_fd, &one, sizeof(one)) < 0)
		log_error("the profiler cannot be woken", "error=\"%m\"");
}

void profiler_order(struct order *order)
{
	order->next = NULL;
	pthread_mutex_lock(&orders_lock);
	*orders_last = order;
	orders_last = &order->next;
	pthread_mutex_unlock(&orders_lock);
	orders_wake();
}

/* ---- the thread -------------------------------------------------------------------- */

/* Return: is an interval over? With one process its exit ends it early. */
static bool profiler_wait(void)
{
	struct pollfd fds[2] = { { .fd = wake_fd, .events = POLLIN }, { .fd = -1 } };
	uint64_t now = profiler_now_ns(), left = next_ns > now ? next_ns - now : 0, ignored;
	struct timespec ts = { .tv_sec = (time_t)(left / 1000000000u),
			       .tv_nsec = (long)(left % 1000000000u) };

	if (members.n == 1) {
		fds[1].fd = wprof_pidfd(members.list[0].w);
		fds[1].events = POLLIN;
	}
	if (ppoll(fds, 2, root ? &ts : NULL, NULL) < 0)
		return false;
	if (fds[0].revents && read(wake_fd, &ignored, sizeof(ignored)) < 0)
		return false;
	return root && (fds[1].revents || profiler_now_ns() >= next_ns);
}

/* A late sample does not bring the next one forward in a rush. */
static void profiler_tick(void)
{
	uint64_t step = (uint64_t)rule.interval_ms * NS_PER_MS, now;

	profiler_sample();
	now = profiler_now_ns();
	next_ns += step;
	if (next_ns <= now)
		next_ns = now + step;
}

static void *profiler_main(void *arg)
{
	bool over = false;

	while (!over) {
		bool tick = profiler_wait();
		struct order *o = orders_take(&over);

		if (tick)
			profiler_tick();
		while (o) {
			struct order *next = o->next;

			order_run(o);
			o = next;
		}
	}
	if (root)
		profiler_end("the agent is shutting down");
	return arg;
}

int profiler_open(const struct profiler_calls *callbacks, const char *injector_path)
{
	int error;

	calls = *callbacks;
	injector = injector_path;
	wake_fd = eventfd(0, EFD_CLOEXEC);
	if (wake_fd < 0)
		return -errno;
	error = pthread_create(&thread, NULL, profiler_main, NULL);
	return -error;
}

void profiler_close(void)
{
	pthread_mutex_lock(&orders_lock);
	orders_over = true;
	pthread_mutex_unlock(&orders_lock);
	orders_wake();
	pthread_join(thread, NULL);
	close(wake_fd);
	free(snap.hot);
	snap.hot = NULL;
}
