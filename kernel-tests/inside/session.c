/*
 * session.c - a libwprof session that is told what to do.
 *
 *	session PID		commands on stdin, an answer a line
 *
 * "sample" ends an interval: "interval N written PAGES in MAPPING consecutive C",
 * where MAPPING is the largest tracked VMA, PAGES those written in it and C for how
 * many intervals its hottest part has been hot; or "interval N ended". "open" is
 * answered by "open" once all is armed, which is so from the start. With commands
 * instead of a clock, a test knows what an interval must show.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wprof.h"

static const struct wprof_vma *largest(const struct wprof_interval *it)
{
	const struct wprof_vma *found = NULL;

	for (size_t i = 0; i < it->n_vmas; i++)
		if (!found || it->vmas[i].end - it->vmas[i].start > found->end - found->start)
			found = &it->vmas[i];
	return found;
}

static uint32_t hottest(struct wprof *w, const struct wprof_vma *v)
{
	const struct wprof_region *r;
	uint32_t most = 0;
	size_t n;

	if (wprof_hot(w, &r, &n))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (r[i].start >= v->start && r[i].end <= v->end && r[i].consecutive > most)
			most = r[i].consecutive;
	return most;
}

static int sample(struct wprof *w)
{
	const struct wprof_interval *it;
	const struct wprof_vma *v;
	int rc = wprof_sample(w, &it);

	if (rc) {
		printf("error %s\n", strerror(-rc));
		return rc;
	}
	v = largest(it);
	if (it->ended || !v)
		printf("interval %" PRIu64 " ended\n", it->number);
	else
		printf("interval %" PRIu64 " written %" PRIu64 " in %" PRIx64 "-%" PRIx64
		       " consecutive %u\n",
		       it->number, v->written_pages, v->start, v->end, hottest(w, v));
	return 0;
}

int main(int argc, char **argv)
{
	const struct wprof_opts opts = { .size = sizeof(opts),
					 .granularity_bytes = 64 << 10,
					 .hot_threshold = 0.2,
					 .hot_consecutive = 1 };
	struct wprof_why why;
	struct wprof *w;
	char line[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 2)
		return 2;
	if (wprof_open(atoi(argv[1]), &opts, &w, &why)) {
		printf("error %s\n", why.text);
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "sample\n") && sample(w))
			break;
		if (!strcmp(line, "open\n"))
			puts("open");
	}
	wprof_close(w);
	return 0;
}
