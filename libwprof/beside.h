/* beside.h - what a session does beside tracking writes, when asked to */
#ifndef WPROF_BESIDE_H
#define WPROF_BESIDE_H

#include "track.h"

/* Soft-dirty pages of the last interval: the kernel's other written bit */
struct soft {
	bool on;
	int clear_fd; /* /proc/PID/clear_refs, or -1 */
	struct runs runs;
	uint64_t pages;
};

/* flags: WPROF_F_*SOFT_DIRTY. 0, -EOPNOTSUPP, or another errno */
WPROF_CHECKED int soft_open(struct soft *s, pid_t pid, uint32_t flags);
WPROF_CHECKED int soft_interval(struct soft *s, struct track *t);
void soft_close(struct soft *s);

/* Huge pages seen while profiling, to be given back afterwards */
struct huge {
	bool on;
	struct wprof_ranges *seen;
	struct runs runs;
};

/* Note the huge pages of all memory, or of what was written last. */
WPROF_CHECKED int huge_note_all(struct huge *h, struct track *t);
WPROF_CHECKED int huge_note_written(struct huge *h, struct track *t);

/* Once nothing is registered any more */
void huge_give_back(struct huge *h, int pidfd);
void huge_close(struct huge *h);

#endif
