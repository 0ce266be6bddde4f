/* runs.c - apart from scan.c, in which nothing allocates */
#include <errno.h>
#include <stdlib.h>

#include "scan.h"

int runs_grow(struct runs *runs)
{
	size_t cap = runs->cap ? 2 * runs->cap : 4 * SCAN_VEC;
	struct wprof_run *v = realloc(runs->v, cap * sizeof(*v));

	if (!v)
		return -ENOMEM;
	runs->v = v;
	runs->cap = cap;
	return 0;
}
