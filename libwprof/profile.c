/*
 * profile.c - a session: one process, from wprof_open() to wprof_close().
 *
 * Theory of operation
 *
 *	options -> pidfd, maps, pagemap -> injection -> registered, armed -> running
 *	running --wprof_sample--> running, or ended (exit, exec): told once
 *	running --pause--> paused --resume--> running
 *	any --close or death of this process--> the target is as it was
 *
 * Invariants
 *
 * - The session owns the userfaultfd of the target. Closing it, also by dying, makes
 *   the kernel undo all there is: nothing of us stays in the target.
 * - maps and pagemap are opened before the injection, and belong to the memory the
 *   target had then, as the userfaultfd does. After an exec all three speak of
 *   memory that is gone, never of the new program's.
 * - The end is taken from the pidfd, not from a scan: that of a dead process is an
 *   error on some kernels and empty on others.
 * - An interval is measured from the end of the scan before; what is written while
 *   a scan runs is in this one or the next, never in neither (scan.c).
 * - What wprof_sample() hands out lives in the session and is built anew each time.
 *
 * Nothing here blocks but the injection, which has a deadline of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "inject.h"
#include "profile.h"
#include "rival.h"
#include "why.h"

static uint64_t profile_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- the result of an interval --------------------------------------------------- */

/* Memory that is read-only and holds nothing is followed, but of no interest. */
static bool profile_lists(const struct area *a)
{
	return !(a->state & (AREA_IDLE | AREA_REFUSED)) &&
	       (a->perms & MAPS_WRITE || a->populated || a->written);
}

static int profile_vmas(struct wprof *w)
{
	const struct areas *areas = &w->track.now;

	w->n_vmas = 0;
	if (w->vmas_cap < areas->n) {
		struct wprof_vma *v = realloc(w->vmas, areas->cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		w->vmas = v;
		w->vmas_cap = areas->cap;
	}
	for (size_t i = 0; i < areas->n; i++) {
		const struct area *a = &areas->v[i];

		if (!profile_lists(a))
			continue;
		w->vmas[w->n_vmas++] = (struct wprof_vma){
			.start = a->start,
			.end = a->end,
			.type = a->type,
			.flags = a->flags,
			.written_pages = a->written,
			.populated_pages = a->populated,
			.name = area_name(areas, a),
		};
	}
	return 0;
}

static int64_t profile_count(void *arg, uint64_t start, uint64_t end)
{
	struct wprof *w = arg;

	return scan_count(&w->track.scan, SCAN_POPULATED, start, end);
}

/* Estimates that touch are one stretch of memory that was not measured. */
static int profile_unmeasured(struct wprof *w, const struct heat_estimate *e, size_t n)
{
	unsigned int shift = w->track.scan.page_shift;

	w->estimated_pages = w->n_unmeasured = 0;
	if (w->unmeasured_cap < n) {
		struct wprof_run *v = realloc(w->unmeasured, 2 * n * sizeof(*v));

		if (!v)
			return -ENOMEM;
		w->unmeasured = v;
		w->unmeasured_cap = 2 * n;
	}
	for (size_t i = 0; i < n; i++) {
		w->estimated_pages += e[i].written;
		if (!i || e[i - 1].end != e[i].start)
			w->unmeasured[w->n_unmeasured++] = (struct wprof_run){ e[i].start, 0 };
		w->unmeasured[w->n_unmeasured - 1].n_pages += (e[i].end - e[i].start) >> shift;
	}
	return 0;
}

static int profile_heat(struct wprof *w)
{
	struct heat_input in = {
		.number = w->track.number,
		.areas = w->track.now.v,
		.n_areas = w->track.now.n,
		.runs = &w->track.runs,
		.count = profile_count,
		.count_arg = w,
	};
	int rc;

	in.estimates = sample_estimates(w->track.sample, &in.n_estimates);
	w->interval.estimated = in.n_estimates > 0;
	rc = profile_unmeasured(w, in.estimates, in.n_estimates);
	rc = rc ?: heat_interval(w->heat, &in);
	if (!rc && w->track.sample)
		rc = sample_plan(w->track.sample, w->heat, &w->track.runs, w->interval.page_bytes);
	return rc;
}

/* The hot regions, with names of their own: they outlive the list of VMAs. */
static int profile_hot(struct wprof *w)
{
	const struct wprof_region *regions;
	const size_t *area_of;
	size_t n, len = 0;
	int rc = heat_hot(w->heat, w->track.now.v, &regions, &area_of, &n);
	char *at;

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		len += strlen(area_name(&w->track.now, &w->track.now.v[area_of[i]])) + 1;
	if (w->hot_bytes < n * sizeof(*regions) + len) {
		void *hot = realloc(w->hot, 2 * (n * sizeof(*regions) + len));

		if (!hot)
			return -ENOMEM;
		w->hot = hot;
		w->hot_bytes = 2 * (n * sizeof(*regions) + len);
	}
	w->n_hot = n;
	at = (char *)(w->hot + n);
	for (size_t i = 0; i < n; i++) {
		w->hot[i] = regions[i];
		w->hot[i].name = at;
		at = stpcpy(at, area_name(&w->track.now, &w->track.now.v[area_of[i]])) + 1;
	}
	return 0;
}

static void profile_totals(struct wprof *w)
{
	struct wprof_interval *iv = &w->interval;

	iv->written_pages = 0;
	w->next_armed = 0;
	for (size_t i = 0; i < w->n_vmas; i++) {
		iv->written_pages += w->vmas[i].written_pages;
		if (!(w->vmas[i].flags & WPROF_VMA_BUSY))
			w->next_armed += w->vmas[i].populated_pages;
	}
	w->next_armed -= w->next_armed < sample_unarmed(w->track.sample)
				 ? w->next_armed
				 : sample_unarmed(w->track.sample);
	iv->untracked_shared_bytes = w->track.shared_bytes;
	iv->untracked_busy_bytes = w->track.busy_bytes;
	iv->untracked_limit_bytes = w->track.limit_bytes;
	iv->vmas = w->vmas;
	iv->n_vmas = w->n_vmas;
	iv->runs = w->track.runs.v;
	iv->n_runs = w->track.runs.n;
	iv->unmeasured = w->unmeasured;
	iv->n_unmeasured = w->n_unmeasured;
	iv->soft_dirty_pages = w->soft.pages;
	iv->soft_dirty_runs = w->soft.runs.v;
	iv->n_soft_dirty_runs = w->soft.runs.n;
	iv->cost.scan_ns = w->track.scan_ns;
	iv->cost.n_scans = w->track.n_calls;
	/* what is estimated of new memory is in both */
	iv->cost.faults = w->track.first_written + w->estimated_pages;
	iv->cost.faults =
		iv->cost.faults < iv->written_pages ? iv->written_pages - iv->cost.faults : 0;
}

static int profile_interval(struct wprof *w)
{
	int rc = track_interval(&w->track);

	rc = rc ?: soft_interval(&w->soft, &w->track);
	rc = rc ?: huge_note_written(&w->huge, &w->track);
	rc = rc ?: profile_vmas(w);
	rc = rc ?: profile_heat(w);
	return rc ?: profile_hot(w);
}

/* 0: alive; -ESRCH: the target has exited */
static int profile_alive(const struct wprof *w)
{
	struct pollfd p = { .fd = w->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) > 0 ? -ESRCH : 0;
}

/* Has it no memory at all? Its size in pages is the first field of statm. */
static bool profile_has_memory(pid_t pid)
{
	char path[40], size = '0';
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT;
	if (read(fd, &size, 1) != 1)
		size = '0';
	close(fd);
	return size != '0';
}

/*
 * The target's memory is gone: how did that come? After an exec it has other
 * memory. One that exits has none, long before its pidfd tells: its threads may
 * take a while to end, or wait for their tracer. The pidfd is asked last, for
 * until then the number may have become another process's.
 */
static int profile_gone(const struct wprof *w)
{
	bool has_memory = profile_has_memory(w->pid);

	return profile_alive(w) ?: has_memory ? -ESTALE : -ESRCH;
}

static int profile_ended(struct wprof *w)
{
	w->ended = profile_gone(w);
	w->interval.ended = true;
	w->n_vmas = w->n_unmeasured = 0;
	w->track.runs.n = w->soft.runs.n = w->soft.pages = 0;
	return 0;
}

static int profile_sample(struct wprof *w, const struct wprof_interval **out)
{
	struct wprof_interval *iv = &w->interval;
	uint64_t now = profile_now_ns();
	int rc = profile_alive(w);

	*iv = (struct wprof_interval){
		.number = iv->number + 1,
		.start_ns = w->last_ns,
		.length_ns = now - w->last_ns,
		.page_bytes = 1ull << w->track.scan.page_shift,
		.armed_pages = w->next_armed,
	};
	w->last_ns = now;
	rc = rc ?: profile_interval(w);
	if (rc == -ESRCH)
		rc = profile_ended(w);
	if (rc)
		return rc;
	profile_totals(w);
	iv->cost.total_ns = profile_now_ns() - now;
	*out = iv;
	return 0;
}

int wprof_sample(struct wprof *w, const struct wprof_interval **out)
{
	int saved = errno, rc;

	if (!w || !out)
		return -EINVAL;
	if (w->ended || w->paused)
		return w->ended ?: -ENOTCONN;
	rc = profile_sample(w, out);
	errno = saved;
	return rc;
}

int wprof_hot(struct wprof *w, const struct wprof_region **out, size_t *n)
{
	if (!w || !out || !n)
		return -EINVAL;
	*out = w->hot;
	*n = w->n_hot;
	return 0;
}

/* ---- beginning ---------------------------------------------------------------------- */

static int opts_check(const struct wprof_opts *o, struct wprof_why *why)
{
	uint64_t g = o->granularity_bytes;

	if (o->arming > WPROF_SAMPLE)
		return why_system(why, -EINVAL, "arming must be exact or sample");
	if (o->flags & ~(WPROF_F_SOFT_DIRTY | WPROF_F_CLEAR_SOFT_DIRTY | WPROF_F_COLLAPSE))
		return why_system(why, -EINVAL, "flags 0x%x are not known", o->flags);
	if (g && (g & (g - 1) || g < WPROF_CHUNK_MIN || g > WPROF_CHUNK_MAX))
		return why_system(why, -EINVAL,
				  "granularity must be a power of two from 64 KiB to 1 GiB, or 0");
	if (!(o->hot_threshold > 0 && o->hot_threshold < 1))
		return why_system(why, -EINVAL, "threshold must lie between 0 and 1");
	if (o->hot_consecutive < 1 || o->hot_consecutive > 10)
		return why_system(why, -EINVAL, "consecutive must be 1 to 10 intervals");
	if (o->window < 1 || o->window > 64)
		return why_system(why, -EINVAL, "window must be 1 to 64 intervals");
	return 0;
}

int profile_opts(const struct wprof_opts *opts, struct wprof_opts *o, struct wprof_why *why)
{
	size_t size = opts ? opts->size : 0;
	const char *bytes = (const char *)opts;

	memset(o, 0, sizeof(*o));
	if (opts && size < sizeof(size))
		return why_system(why, -EINVAL, "the options do not say their size");
	for (size_t i = sizeof(*o); i < size; i++)
		if (bytes[i])
			return why_system(why, -E2BIG, "options of a newer library");
	if (opts)
		memcpy(o, opts, size < sizeof(*o) ? size : sizeof(*o));
	if (o->hot_threshold == 0)
		o->hot_threshold = 0.3;
	if (!o->hot_consecutive)
		o->hot_consecutive = 3;
	if (!o->window)
		o->window = 10;
	return opts_check(o, why);
}

static int profile_new(pid_t pid, const struct wprof_opts *o, struct wprof **out)
{
	struct wprof *w = calloc(1, sizeof(*w));
	struct heat_params params = {
		.granularity = o->granularity_bytes,
		.threshold = o->hot_threshold,
		.consecutive = o->hot_consecutive,
		.window = o->window,
		.page_shift = (unsigned int)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE)),
	};

	if (!w)
		return -ENOMEM;
	w->pid = pid;
	w->opts = *o;
	w->pidfd = w->uffd = w->track.scan.fd = -1;
	if (heat_open(&params, NULL, &w->heat)) {
		free(w);
		return -ENOMEM;
	}
	*out = w;
	return 0;
}

/* A process that is exiting has no memory either: the flag PF_KTHREAD tells. */
static bool profile_kernel_thread(pid_t pid)
{
	unsigned int flags;
	char path[40], stat[1024];
	const char *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	if (fd >= 0)
		close(fd);
	stat[n < 0 ? 0 : n] = '\0';
	p = strrchr(stat, ')');
	return p && sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
	       (flags & 0x00200000);
}

static int profile_target(struct wprof *w, struct wprof_why *why)
{
	int rc;

	if (w->pid <= 0)
		return why_set(why, WPROF_NO_PROCESS, "%d is no process", (int)w->pid);
	if (w->pid == getpid())
		return why_set(why, WPROF_SELF, "process %d is the profiler itself: name another",
			       (int)w->pid);
	w->pidfd = (int)syscall(SYS_pidfd_open, w->pid, 0);
	if (w->pidfd < 0 && (errno == ESRCH || errno == EINVAL))
		return why_set(why, WPROF_NO_PROCESS, "there is no process %d", (int)w->pid);
	if (w->pidfd < 0)
		return why_system(why, -errno, "cannot open process %d", (int)w->pid);
	rc = track_open(&w->track, w->pid);
	if (rc == -ESRCH && profile_kernel_thread(w->pid))
		return why_set(why, WPROF_KERNEL_THREAD,
			       "process %d is a kernel thread: it has "
			       "no memory of its own",
			       (int)w->pid);
	if (rc == -ENOENT && !profile_alive(w))
		return why_set(why, WPROF_NOT_PERMITTED,
			       "/proc hides process %d (its option hidepid): run as its user, as "
			       "root, or with CAP_SYS_PTRACE",
			       (int)w->pid);
	if (rc == -ENOENT || rc == -ESRCH)
		return why_set(why, WPROF_NO_PROCESS, "process %d has exited", (int)w->pid);
	if (rc == -EACCES || rc == -EPERM)
		return why_set(why, WPROF_NOT_PERMITTED,
			       "may not look into process %d: run as its user, as root, or with "
			       "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
			       (int)w->pid);
	return rc ? why_system(why, rc, "cannot look into process %d", (int)w->pid) : 0;
}

static int profile_soft(struct wprof *w, struct wprof_why *why)
{
	int rc = soft_open(&w->soft, w->pid, w->opts.flags);

	if (rc == -EOPNOTSUPP)
		return why_set(why, WPROF_NO_KERNEL,
			       "this kernel was built without soft-dirty "
			       "(CONFIG_MEM_SOFT_DIRTY): profile without it");
	if (rc)
		return why_system(why, rc, "cannot clear soft-dirty of process %d", (int)w->pid);
	return 0;
}

static int profile_second(pid_t pid, struct wprof_why *why)
{
	return why_set(why, WPROF_TRACED,
		       "another profiler tracks the memory of process %d: end that one first",
		       (int)pid);
}

/* Everything from a descriptor on that nothing was asked of yet */
static int profile_start(struct wprof *w, struct wprof_why *why)
{
	int rc = arm_api(w->uffd);

	if (rc)
		return why_set(why, WPROF_NO_KERNEL,
			       "this kernel cannot track writes without "
			       "stopping the writer: UFFD_FEATURE_WP_ASYNC came with Linux 6.7");
	w->track.uffd = w->uffd;
	w->track.holes_written = profile_holes_written();
	if (w->opts.arming == WPROF_SAMPLE && sample_open(&w->track.sample))
		return -ENOMEM;
	w->track.tracks_itself = rival_is_target(w->pid);
	rc = track_start(&w->track);
	if (rc == -EBUSY)
		return profile_second(w->pid, why);
	if (rc == -EIO && w->track.busy_bytes)
		return why_set(why, WPROF_TRACED,
			       "another userfaultfd owns all memory of process %d: it cannot be "
			       "profiled while that is open",
			       (int)w->pid);
	if (rc == -EIO)
		return why_set(why, WPROF_NOT_ARMED,
			       "arming the memory of process %d had no "
			       "effect: nothing can be measured here",
			       (int)w->pid);
	if (rc == -ESRCH)
		rc = profile_gone(w);
	if (rc == -ESRCH)
		return why_set(why, WPROF_ENDED, "process %d exited meanwhile", (int)w->pid);
	if (rc == -ESTALE)
		return why_set(why, WPROF_EXECED, "process %d runs a new program now: try again",
			       (int)w->pid);
	if (rc)
		return why_system(why, rc, "cannot register the memory of process %d", (int)w->pid);
	w->last_ns = profile_now_ns();
	w->huge.on = w->opts.flags & WPROF_F_COLLAPSE;
	rc = huge_note_all(&w->huge, &w->track);
	rc = rc ?: profile_vmas(w);
	if (rc)
		return why_system(why, rc, "cannot begin with process %d", (int)w->pid);
	profile_totals(w);
	return profile_soft(w, why);
}

/* An injection, unless a look tells already that it would be for nothing */
static int profile_inject(struct wprof *w, struct wprof_why *why)
{
	if (rival_look(&w->track.scan, w->track.maps) == 1 && !rival_is_target(w->pid))
		return profile_second(w->pid, why);
	return inject_uffd(w->pid, w->opts.injector, &w->uffd, NULL, why);
}

int profile_attach(pid_t pid, int uffd, const struct wprof_opts *opts, struct wprof **out,
		   struct wprof_why *why)
{
	struct wprof_opts o;
	struct wprof *w = NULL;
	int rc = profile_opts(opts, &o, why);

	rc = rc ?: profile_new(pid, &o, &w);
	if (rc)
		return rc;
	rc = profile_target(w, why);
	rc = rc ?: profile_kernel(why);
	if (!rc && uffd < 0)
		rc = profile_inject(w, why);
	else if (!rc)
		w->uffd = uffd;
	rc = rc ?: profile_start(w, why);
	if (rc)
		wprof_close(w);
	else
		*out = w;
	return rc;
}

int wprof_open(pid_t pid, const struct wprof_opts *opts, struct wprof **out, struct wprof_why *why)
{
	int saved = errno, rc;

	why_clear(why);
	if (!out)
		return -EINVAL;
	rc = profile_attach(pid, -1, opts, out, why);
	if (rc == -ENOMEM && why && why->reason == WPROF_OK)
		why_system(why, rc, "cannot begin");
	errno = saved;
	return rc;
}

/* ---- in between and end --------------------------------------------------------------- */

int wprof_pause(struct wprof *w)
{
	if (!w)
		return -EINVAL;
	if (w->ended)
		return w->ended;
	if (!w->paused)
		track_stop(&w->track);
	w->paused = true;
	return 0;
}

int wprof_resume(struct wprof *w)
{
	int saved = errno, rc;

	if (!w)
		return -EINVAL;
	if (w->ended || !w->paused)
		return w->ended;
	sample_reset(w->track.sample);
	rc = track_start(&w->track);
	if (rc == -ESRCH) {
		profile_ended(w);
		rc = w->ended;
	}
	if (!rc) {
		w->paused = false;
		w->last_ns = profile_now_ns();
	}
	errno = saved;
	return rc;
}

int wprof_pidfd(const struct wprof *w)
{
	return w ? w->pidfd : -EINVAL;
}

void wprof_close(struct wprof *w)
{
	int saved = errno;

	if (!w)
		return;
	if (w->uffd >= 0)
		close(w->uffd);
	if (!w->ended) /* after an exec the addresses are another program's */
		huge_give_back(&w->huge, w->pidfd);
	huge_close(&w->huge);
	soft_close(&w->soft);
	sample_close(w->track.sample);
	track_close(&w->track);
	if (w->pidfd >= 0)
		close(w->pidfd);
	heat_close(w->heat);
	free(w->unmeasured);
	free(w->vmas);
	free(w->hot);
	free(w);
	errno = saved;
}

const char *wprof_vma_type_name(enum wprof_vma_type type)
{
	static const char *const names[] = {
		[WPROF_HEAP] = "heap", [WPROF_STACK] = "stack", [WPROF_ANONYMOUS] = "anonymous",
		[WPROF_CODE] = "code", [WPROF_DATA] = "data",	[WPROF_VDSO] = "vdso",
	};

	return (size_t)type < sizeof(names) / sizeof(*names) ? names[type] : "unknown";
}
