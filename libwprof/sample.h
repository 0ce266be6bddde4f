/* sample.h - re-arming hot memory in turns instead of always (theory in sample.c) */
#ifndef WPROF_SAMPLE_H
#define WPROF_SAMPLE_H

#include "heat.h"

/* Hot memory is armed in aligned units of that size, one in so many a time. */
#define SAMPLE_UNIT  (2ull << 20)
#define SAMPLE_TURNS 16u

struct track;
struct sample;

WPROF_CHECKED int sample_open(struct sample **out);
void sample_close(struct sample *s);

/* Forget what is hot: everything is armed now. */
void sample_reset(struct sample *s);

/* Does hot memory lie in this area? s may be NULL. */
bool sample_has(const struct sample *s, const struct area *a);

/* Scans an area that holds hot memory: the rest of it is read as always. */
WPROF_CHECKED int sample_scan(struct sample *s, struct track *t, struct area *a);

/* After the heat of an interval is known: what is armed in turns from now on */
WPROF_CHECKED int sample_plan(struct sample *s, const struct heat *heat, const struct runs *runs,
			      uint64_t page_bytes);

/* What the last interval estimated, ascending; s may be NULL */
const struct heat_estimate *sample_estimates(const struct sample *s, size_t *n);

/* Pages that are hot and not armed now, as far as they are known to exist */
uint64_t sample_unarmed(const struct sample *s);

#endif
