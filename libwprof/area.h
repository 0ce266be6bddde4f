/* area.h - what is known of one VMA, and written runs: the scan works on both */
#ifndef WPROF_AREA_H
#define WPROF_AREA_H

#include "wprof.h"

/* state of an area */
#define AREA_FRESH    (1u << 0) /* not registered yet */
#define AREA_REFUSED  (1u << 1) /* the kernel does not register it */
#define AREA_IDLE     (1u << 2) /* read-only and holds no private page: not tracked */
#define AREA_APART    (1u << 3) /* something untracked lies just before it */
#define AREA_SINGLE   (1u << 4) /* mostly written: one filter is cheaper */
#define AREA_REPLACED (1u << 5) /* other memory than before at this address */
#define AREA_JOINED   (1u << 6) /* several VMAs of the kernel's */

struct area {
	uint64_t start, end;
	uint32_t flags; /* WPROF_VMA_* */
	uint32_t state; /* AREA_* */
	uint32_t perms; /* MAPS_* */
	enum wprof_vma_type type;
	size_t name;		     /* offset in the pool of names */
	uint64_t old_start, old_end; /* of the last area before that it lay in; 0: none */
	uint64_t written;	     /* pages */
	uint64_t walked;	     /* pages phase 2 had to walk */
	uint64_t n_groups;	     /* in so many calls */
	uint64_t candidates;	     /* pages phase 1 found not armed */
	uint64_t populated;	     /* pages, as counted last */
	uint64_t counted_at;	     /* number of that interval */
	uint32_t retry_in;	     /* intervals until two phases are tried again */
	uint32_t retries;
};

/* Areas the scan has to do with */
static inline bool area_tracked(const struct area *a)
{
	return !(a->state & (AREA_REFUSED | AREA_IDLE)) && !(a->flags & WPROF_VMA_BUSY);
}

struct runs {
	struct wprof_run *v;
	size_t n, cap;
	uint64_t border; /* a run that starts here continues no other */
};

/* Room for at least one more batch of a scan: 0 or -ENOMEM */
WPROF_CHECKED int runs_grow(struct runs *runs);

#endif
