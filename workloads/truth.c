#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "truth.h"
#include "workload.h"

#define TRUTH_MAX 256

struct truth {
	uint64_t start, bytes, n_pages;
	_Atomic uint64_t *words; /* NULL: the slot is free */
};

static struct truth truths[TRUTH_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* slots, not bits */
static _Atomic uint64_t total_bytes;

static uint64_t n_words(const struct truth *t)
{
	return (t->n_pages + 63) / 64;
}

struct truth *truth_add(void *start, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct truth *t = NULL;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < TRUTH_MAX && !t; i++)
		if (!truths[i].words)
			t = &truths[i];
	if (t) {
		t->start = (uint64_t)(uintptr_t)start;
		t->bytes = bytes;
		t->n_pages = (bytes + page - 1) / page;
		t->words = calloc(n_words(t), sizeof(*t->words));
		if (!t->words)
			t = NULL;
	}
	pthread_mutex_unlock(&lock);
	return t;
}

void truth_drop(struct truth *t)
{
	pthread_mutex_lock(&lock);
	free((void *)t->words);
	t->words = NULL;
	pthread_mutex_unlock(&lock);
}

void truth_wrote(struct truth *t, uint64_t page, uint64_t bytes)
{
	uint64_t bit = 1ull << (page % 64);
	_Atomic uint64_t *word = &t->words[page / 64];

	if (!(atomic_load_explicit(word, memory_order_relaxed) & bit))
		atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
	atomic_fetch_add_explicit(&total_bytes, bytes, memory_order_relaxed);
}

uint64_t truth_bytes(void)
{
	return atomic_load_explicit(&total_bytes, memory_order_relaxed);
}

static json_t *address(uint64_t a)
{
	return json_sprintf("0x%llx", (unsigned long long)a);
}

/* The runs of set bits of @t, taken and cleared; *@n_pages counts them. */
static json_t *take_runs(struct truth *t, uint64_t page_bytes, uint64_t *n_pages)
{
	json_t *runs = json_array();
	uint64_t begin = 0, word = 0;
	bool in_run = false;

	for (uint64_t i = 0; i <= t->n_pages; i++) {
		if (i % 64 == 0)
			word = i / 64 < n_words(t) ? atomic_exchange(&t->words[i / 64], 0) : 0;
		bool set = i < t->n_pages && (word >> (i % 64) & 1);

		if (set && !in_run)
			begin = i;
		if (!set && in_run) {
			json_array_append_new(runs,
					      json_pack("{s:o, s:I}", "start",
							address(t->start + begin * page_bytes),
							"pages", (json_int_t)(i - begin)));
			*n_pages += i - begin;
		}
		in_run = set;
	}
	return runs;
}

static json_t *buffer_json(struct truth *t, uint64_t page_bytes, uint64_t *n_pages)
{
	json_t *runs = take_runs(t, page_bytes, n_pages);

	return json_pack("{s:o, s:o, s:o}", "start", address(t->start), "end",
			 address(t->start + t->n_pages * page_bytes), "written", runs);
}

/* Processor time of all threads so far: what the work itself took. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void truth_report(const struct workload *w, FILE *out)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), n_pages = 0;
	json_t *buffers = json_array(), *all;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < TRUTH_MAX; i++)
		if (truths[i].words)
			json_array_append_new(buffers,
					      buffer_json(&truths[i], page_bytes, &n_pages));
	pthread_mutex_unlock(&lock);
	all = json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "workload", w->name, "pid",
			(int)getpid(), "seed", (json_int_t)w->seed, "elapsed_ns",
			(json_int_t)(workload_now_ns() - w->start_ns), "cpu_ns",
			(json_int_t)cpu_ns(), "bytes_written", (json_int_t)truth_bytes(),
			"page_bytes", (json_int_t)page_bytes, "written_pages", (json_int_t)n_pages,
			"buffers", buffers);
	if (all)
		json_dumpf(all, out, JSON_COMPACT);
	fputc('\n', out);
	fflush(out);
	json_decref(all);
}
