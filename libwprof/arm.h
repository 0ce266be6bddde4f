/* arm.h - registering memory with the userfaultfd, and the first arming */
#ifndef WPROF_ARM_H
#define WPROF_ARM_H

#include "scan.h"

/* Bring a fresh descriptor into use; -EINVAL: the kernel has no async mode */
WPROF_CHECKED int arm_api(int uffd);

/*
 * Register what is AREA_FRESH, in ascending order, none of it armed; sets BUSY,
 * REFUSED. 0, -ENOMEM, or -EBUSY: rival is not NULL and tells that the memory met
 * belongs to another profiler; nothing after it was registered then.
 */
WPROF_CHECKED int arm_register(int uffd, struct area *areas, size_t n, struct scan *rival);

/* Of a mapping that is registered by us */
void arm_unregister(int uffd, uint64_t start, uint64_t end);

/* Arm every data page there is and count them; never one that does not exist */
WPROF_CHECKED int arm_baseline(struct scan *s, struct area *areas, size_t n);

/* 0: a page that was armed reads so, -EIO: none does, or another errno */
WPROF_CHECKED int arm_verify(struct scan *s, const struct area *areas, size_t n);

#endif
