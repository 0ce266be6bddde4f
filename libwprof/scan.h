/* scan.h - reading and re-arming: the two-phase scan (theory in scan.c) */
#ifndef WPROF_SCAN_H
#define WPROF_SCAN_H

#include "area.h"
#include "uapi.h"

/*
 * No more than the kernel collects at a time (512): with a longer vector it goes
 * on by itself, and then tells where it stopped first, not where it ended.
 */
#define SCAN_VEC 512u

struct scan {
	int fd; /* /proc/PID/pagemap */
	unsigned int page_shift;
	unsigned int vec_len;	/* <= SCAN_VEC; small in tests */
	unsigned int gap_pages; /* candidates nearer than this are merged */
	uint64_t n_calls;
	uint64_t counted_to; /* candidates below are counted: 0 at each interval */
	struct uapi_page_region cand[SCAN_VEC];
	struct uapi_page_region hit[SCAN_VEC];
};

/* What a filter looks for */
enum scan_what {
	SCAN_WRITTEN,	 /* data pages written since they were armed */
	SCAN_POPULATED,	 /* data pages */
	SCAN_SOFT_DIRTY, /* data pages with the soft-dirty bit */
	SCAN_HUGE	 /* data pages that are part of a huge one */
};

/* SCAN_FULL: no room for another batch of runs; grow them and call again */
#define SCAN_FULL 1

WPROF_CHECKED int scan_open(pid_t pid, struct scan *s);
void scan_close(struct scan *s);

/*
 * Two phases over areas[0..n), which touch each other or have nothing but holes
 * between them. *pos is where to go on; runs get the written pages, areas their
 * counts. 0, SCAN_FULL, -EPERM when a part is not registered (nothing armed
 * then from *pos on), -ESRCH when the memory is gone, or another errno.
 */
WPROF_CHECKED int scan_span(struct scan *s, struct area *areas, size_t n, uint64_t *pos,
			    struct runs *runs);

/* One filter over [*pos, end); rearm: arm what it reports. 0, SCAN_FULL, errno */
WPROF_CHECKED int scan_filter(struct scan *s, enum scan_what what, bool rearm, uint64_t *pos,
			      uint64_t end, struct runs *runs, uint64_t *n_pages);

/* Pages of [start, end) a filter finds, without keeping them, or -errno */
int64_t scan_count(struct scan *s, enum scan_what what, uint64_t start, uint64_t end);

/* 1: every VMA in [start, end) is registered, 0: one is not, or -errno */
WPROF_CHECKED int scan_registered(struct scan *s, uint64_t start, uint64_t end);

/* 1: a VMA in [start, end) is registered, for whomever, 0: none, or -errno */
WPROF_CHECKED int scan_tracked(struct scan *s, uint64_t start, uint64_t end);

/* 1: [start, end) holds a data page, 0: none, or -errno */
WPROF_CHECKED int scan_any(struct scan *s, uint64_t start, uint64_t end);

/* The first page of [start, end) that is data and can be armed: 1, 0 or -errno */
WPROF_CHECKED int scan_armable(struct scan *s, uint64_t start, uint64_t end);

#endif
