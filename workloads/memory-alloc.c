/*
 * memory-alloc - allocate and fill a block every now and then.
 *
 * By default 32 MiB every 3 s. The newest eight blocks are kept, older ones go
 * back to the system, so the process does not grow for ever. Each block is
 * written once, page by page, as fast as the memory takes it (or --rate).
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"
#include "truth.h"
#include "workload.h"

#define KEPT 8

struct block {
	char *memory;
	struct truth *truth;
};

static uint64_t page_bytes;

static void block_free(struct block *b, uint64_t bytes)
{
	if (!b->memory)
		return;
	truth_drop(b->truth);
	munmap(b->memory, bytes);
	b->memory = NULL;
}

static void block_fill(const struct workload *w, const struct block *b, uint64_t *done_bytes)
{
	uint64_t n = w->size_bytes / page_bytes;

	for (uint64_t page = 0; page < n && !atomic_load(&w->stop); page++) {
		memset(b->memory + page * page_bytes, (int)(page + w->seed) | 1, page_bytes);
		truth_wrote(b->truth, page, page_bytes);
		*done_bytes += page_bytes;
		workload_pace(w, *done_bytes);
	}
}

static void wait_period(const struct workload *w, uint64_t round)
{
	uint64_t due_ns = w->start_ns + round * w->period_ms * 1000000u;

	while (!atomic_load(&w->stop) && workload_now_ns() < due_ns)
		usleep(10000);
}

static void allocate(struct workload *w, unsigned int number)
{
	struct block blocks[KEPT] = { 0 };
	uint64_t done_bytes = 0;

	(void)number;
	for (uint64_t round = 0; !atomic_load(&w->stop); round++) {
		struct block *b = &blocks[round % KEPT];

		block_free(b, w->size_bytes);
		b->memory = workload_map(w, w->size_bytes);
		b->truth = truth_add(b->memory, w->size_bytes);
		if (!b->truth) {
			cli_error("cannot keep the ground truth: too many blocks");
			return;
		}
		block_fill(w, b, &done_bytes);
		if (w->limit_bytes && done_bytes >= w->limit_bytes / w->threads)
			return;
		wait_period(w, round + 1);
	}
}

int main(int argc, char **argv)
{
	static struct workload w = {
		.name = "memory-alloc",
		.doc = "Allocate and fill a block every now and then, as a target for "
		       "profilers; print what was written as JSON on SIGUSR1 and at the end.",
		.size_bytes = 32 << 20,
		.period_ms = 3000,
		.threads = 1,
	};

	page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	workload_start(&w, argc, argv);
	w.size_bytes -= w.size_bytes % page_bytes;
	return workload_run(&w, allocate);
}
