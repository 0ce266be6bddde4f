/* rival.h - is there another profiler of this target? (theory in rival.c) */
#ifndef WPROF_RIVAL_H
#define WPROF_RIVAL_H

#include "maps.h"
#include "scan.h"

/* Has the target a userfaultfd of its own by which it tracks its writes? */
bool rival_is_target(pid_t pid);

/* 1: memory is tracked already, by whomever; 0: none is; or -errno. A look. */
WPROF_CHECKED int rival_look(struct scan *s, struct maps *maps);

#endif
