/* track.h - following the memory of a process, interval by interval */
#ifndef WPROF_TRACK_H
#define WPROF_TRACK_H

#include "arm.h"
#include "maps.h"
#include "threads.h"

/* A count of populated pages serves that many intervals. */
#define TRACK_COUNT_AGE 10u

struct areas {
	struct area *v;
	size_t n, cap;
	char *names;
	size_t names_len, names_cap;
};

struct sample;

/* How an area is scanned; other than by choice for tests and benches */
enum track_way { TRACK_CHOOSE, TRACK_TWO_PHASES, TRACK_ONE_FILTER };

struct track {
	pid_t pid;
	int uffd; /* the caller's */
	struct maps *maps;
	struct scan scan;
	struct areas now, before;
	struct runs runs;
	struct sample *sample; /* NULL: everything is re-armed */
	enum track_way way;
	bool tracks_itself; /* the target does: what is busy is its own */
	bool holes_written; /* phase 1 reports pages that do not exist */
	uint64_t number;    /* of the interval, 1, 2, ... */
	struct threads threads;
	size_t n_maps, max_maps; /* mappings of the target, and what it may have */
	uint64_t shared_bytes, busy_bytes, limit_bytes;
	uint64_t scan_ns;
	uint64_t scan_cpu_ns; /* the same in time of this thread */
	uint64_t n_calls;
	uint64_t first_written; /* of the written pages those never armed */
};

/* Opens /proc/PID/maps and pagemap. */
WPROF_CHECKED int track_open(struct track *t, pid_t pid);
void track_close(struct track *t);

/* Register all there is and arm it: interval 1 begins. -EBUSY: there is another profiler */
WPROF_CHECKED int track_start(struct track *t);

/* Undo track_start: nothing stays registered. */
void track_stop(struct track *t);

/*
 * One interval: now.v and runs are its result. -ESRCH: that memory is gone,
 * the target ended or runs another program.
 */
WPROF_CHECKED int track_interval(struct track *t);

/* ---- for a scan of parts: sample.c ---- */

/* One filter over [pos, end) of an area, into the runs */
WPROF_CHECKED int track_filter(struct track *t, const struct area *a, uint64_t pos, uint64_t end,
			       bool rearm, uint64_t *n_pages);

/* 1: the area is what was registered; 0: it was replaced, and is read as new now */
WPROF_CHECKED int track_check(struct track *t, struct area *a);

/* Both phases over [start, end) of an area that was checked */
WPROF_CHECKED int track_part(struct track *t, struct area *a, uint64_t start, uint64_t end);

static inline const char *area_name(const struct areas *areas, const struct area *a)
{
	return areas->names + a->name;
}

#endif
