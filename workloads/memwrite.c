/*
 * memwrite - write one buffer over and over.
 *
 * By default a 64 MiB memset loop: page after page, round and round, as fast as
 * the memory takes it. With --pattern it writes elsewhere, with --rate slower.
 * The buffer is touched once before the work begins, so every page is populated.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "truth.h"
#include "workload.h"

#define PACE_PAGES 64 /* look at the rate, the limit and the end so often */

static char *buffer;
static uint64_t page_bytes;
static struct truth *truth;

static bool limit_reached(const struct workload *w, uint64_t done_bytes)
{
	return w->limit_bytes && done_bytes >= w->limit_bytes / w->threads;
}

static void write_part(struct workload *w, unsigned int number)
{
	uint64_t all = w->size_bytes / page_bytes;
	uint64_t first = all * number / w->threads;
	uint64_t n = all * (number + 1) / w->threads - first, done_bytes = 0;
	struct pattern pattern;

	if (!n || !pattern_init(&pattern, w->pattern, n, w->stride_pages, w->seed + number)) {
		cli_error("cannot write with thread %u: too little memory", number);
		return;
	}
	for (uint64_t i = 1; !atomic_load_explicit(&w->stop, memory_order_relaxed); i++) {
		uint64_t page = first + pattern_next(&pattern);

		/* a value that differs each time, so that the write is a change */
		memset(buffer + page * page_bytes, (int)(i ^ i >> 8), page_bytes);
		truth_wrote(truth, page, page_bytes);
		done_bytes += page_bytes;
		if (limit_reached(w, done_bytes))
			break;
		if (i % PACE_PAGES == 0 || w->rate_bytes < 1u << 20)
			workload_pace(w, done_bytes);
	}
	pattern_free(&pattern);
}

int main(int argc, char **argv)
{
	static struct workload w = {
		.name = "memwrite",
		.doc = "Write a buffer over and over, as a target for profilers; print what "
		       "was written as JSON on SIGUSR1 and at the end.",
		.size_bytes = 64 << 20,
		.threads = 1,
		.has_pattern = true,
	};

	page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	workload_start(&w, argc, argv);
	w.size_bytes -= w.size_bytes % page_bytes;
	buffer = workload_map(&w, w.size_bytes);
	memset(buffer, 1, w.size_bytes);
	truth = truth_add(buffer, w.size_bytes);
	if (!truth) {
		cli_error("cannot keep the ground truth: out of memory");
		return CLI_FAILED;
	}
	return workload_run(&w, write_part);
}
