#include <stdlib.h>
#include <string.h>

#include "pattern.h"

/* Rounds that PATTERN_PHASES spends in one eighth of the pages. */
#define PHASE_ROUNDS 256
#define PHASES	     8

static const char *const kind_names[] = {
	[PATTERN_SEQUENTIAL] = "sequential", [PATTERN_UNIFORM] = "uniform", [PATTERN_ZIPF] = "zipf",
	[PATTERN_STRIDE] = "stride",	     [PATTERN_PHASES] = "phases",
};

bool pattern_kind_of(const char *name, enum pattern_kind *out)
{
	for (unsigned int k = 0; k < sizeof(kind_names) / sizeof(*kind_names); k++) {
		if (!strcmp(kind_names[k], name)) {
			*out = (enum pattern_kind)k;
			return true;
		}
	}
	return false;
}

uint64_t pattern_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static bool zipf_init(struct pattern *p)
{
	double sum = 0;

	p->cdf = malloc(p->n_pages * sizeof(*p->cdf));
	if (!p->cdf)
		return false;
	for (uint64_t k = 0; k < p->n_pages; k++)
		p->cdf[k] = sum += 1.0 / (double)(k + 1);
	return true;
}

bool pattern_init(struct pattern *p, enum pattern_kind kind, uint64_t n_pages,
		  uint64_t stride_pages, uint64_t seed)
{
	*p = (struct pattern){ .kind = kind, .n_pages = n_pages, .random = seed };
	p->stride = stride_pages < n_pages ? stride_pages : n_pages;
	return kind != PATTERN_ZIPF || zipf_init(p);
}

void pattern_free(struct pattern *p)
{
	free(p->cdf);
	p->cdf = NULL;
}

static uint64_t zipf_next(struct pattern *p)
{
	double x = (double)(pattern_random(&p->random) >> 11) / (double)(1ull << 53);
	uint64_t low = 0, high = p->n_pages - 1;

	x *= p->cdf[high];
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (p->cdf[middle] > x)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Write i is in lane i / lane length; a lane holds the pages lane, lane + stride, ... */
static uint64_t stride_next(const struct pattern *p, uint64_t i)
{
	uint64_t lane_pages = (p->n_pages + p->stride - 1) / p->stride;
	uint64_t lane = i / lane_pages % p->stride;

	return (lane + i % lane_pages * p->stride) % p->n_pages;
}

static uint64_t phases_next(const struct pattern *p, uint64_t i)
{
	uint64_t part = p->n_pages / PHASES ? p->n_pages / PHASES : 1;
	uint64_t phase = i / (part * PHASE_ROUNDS) % PHASES;

	return (phase * part + i % part) % p->n_pages;
}

uint64_t pattern_next(struct pattern *p)
{
	uint64_t i = p->i++;

	switch (p->kind) {
	case PATTERN_UNIFORM:
		return pattern_random(&p->random) % p->n_pages;
	case PATTERN_ZIPF:
		return zipf_next(p);
	case PATTERN_STRIDE:
		return stride_next(p, i);
	case PATTERN_PHASES:
		return phases_next(p, i);
	case PATTERN_SEQUENTIAL:
		break;
	}
	return i % p->n_pages;
}
