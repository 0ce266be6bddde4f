/* profile.h - a session, as the library sees it */
#ifndef WPROF_PROFILE_H
#define WPROF_PROFILE_H

#include "beside.h"
#include "heat.h"
#include "sample.h"
#include "track.h"

#define WPROF_CHUNK_MIN (64ull << 10)
#define WPROF_CHUNK_MAX (1ull << 30)

struct wprof {
	pid_t pid;
	int pidfd;
	int uffd;
	int ended; /* -ESRCH, -ESTALE, or 0 */
	bool paused;
	struct wprof_opts opts; /* defaults filled in */
	struct track track;
	struct heat *heat;
	struct soft soft;
	struct huge huge;
	uint64_t last_ns;
	uint64_t next_armed;
	uint64_t estimated_pages; /* of the written ones in the last interval */
	struct wprof_interval interval;
	struct wprof_run *unmeasured;
	size_t n_unmeasured, unmeasured_cap;
	struct wprof_vma *vmas;
	size_t n_vmas, vmas_cap;
	struct wprof_region *hot; /* followed by their names */
	size_t n_hot, hot_bytes;
};

/* Options with their defaults, or -EINVAL, -E2BIG */
WPROF_CHECKED int profile_opts(const struct wprof_opts *opts, struct wprof_opts *o,
			       struct wprof_why *why);

/* wprof_open() with a descriptor that exists already; uffd -1: inject for one */
WPROF_CHECKED int profile_attach(pid_t pid, int uffd, const struct wprof_opts *opts,
				 struct wprof **out, struct wprof_why *why);

/* Has the kernel what we need? 0 or -EOPNOTSUPP */
WPROF_CHECKED int profile_kernel(struct wprof_why *why);

/* Can soft-dirty pages be scanned for? 1, 0 or -errno */
int profile_soft_dirty(void);

/* Does a scan report registered pages that do not exist as written? 1 or 0 */
int profile_holes_written(void);

#endif
