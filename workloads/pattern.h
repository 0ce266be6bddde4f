/* pattern.h - which page a workload writes next, the same for the same seed. */
#ifndef PROCSCOPE_PATTERN_H
#define PROCSCOPE_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

enum pattern_kind {
	PATTERN_SEQUENTIAL, /* one page after the other, round and round */
	PATTERN_UNIFORM,    /* any page, all equally likely */
	PATTERN_ZIPF,	    /* low pages most: page k with weight 1/(k+1) */
	PATTERN_STRIDE,	    /* every Nth page, then the same one further */
	PATTERN_PHASES	    /* one eighth of the pages for a while, then the next */
};

struct pattern {
	enum pattern_kind kind;
	uint64_t n_pages, stride, i, random;
	double *cdf; /* zipf: cumulative weights */
};

/** pattern_init() - start a sequence over @n_pages pages; false: no memory */
bool pattern_init(struct pattern *p, enum pattern_kind kind, uint64_t n_pages,
		  uint64_t stride_pages, uint64_t seed);

void pattern_free(struct pattern *p);

/** pattern_next() - the next page, 0 to n_pages - 1 */
uint64_t pattern_next(struct pattern *p);

/** pattern_kind_of() - the kind named @name; false: there is none */
bool pattern_kind_of(const char *name, enum pattern_kind *out);

/** pattern_random() - the next number of the splitmix64 generator in *@state */
uint64_t pattern_random(uint64_t *state);

#endif /* PROCSCOPE_PATTERN_H */
