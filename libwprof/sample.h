/* sample.h - re-arming hot memory in turns instead of always */
#ifndef WPROF_SAMPLE_H
#define WPROF_SAMPLE_H

#include "heat.h"

struct track;
struct sample;

/* Does hot memory lie in this area? s may be NULL. */
bool sample_has(const struct sample *s, const struct area *a);

/* Scans an area that holds hot memory. */
WPROF_CHECKED int sample_scan(struct sample *s, struct track *t, struct area *a);

#endif
