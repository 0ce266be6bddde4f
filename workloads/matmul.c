/*
 * matmul - multiply two square matrices over and over.
 *
 * By default 1024 x 1024 doubles (--size is the size of one matrix: 8 MiB). The
 * inputs are written once; of the result each thread writes its own rows, one
 * row after the other. Every 16 rounds the inputs are made anew from the seed.
 */
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "truth.h"
#include "workload.h"

#define RENEW_ROUNDS 16

enum { A, B, C, MATRICES };

static uint64_t n, page_bytes;
static double *m[MATRICES];
static struct truth *truth[MATRICES];
static pthread_barrier_t round_end;

/* The elements [from, to) of matrix @x were written. */
static void wrote(int x, uint64_t from, uint64_t to)
{
	uint64_t at = from * sizeof(double), end = to * sizeof(double);

	while (at < end) {
		uint64_t page = at / page_bytes, next = (page + 1) * page_bytes;

		truth_wrote(truth[x], page, (next < end ? next : end) - at);
		at = next;
	}
}

static void fill(int x, uint64_t seed)
{
	for (uint64_t i = 0; i < n * n; i++)
		m[x][i] = (double)(pattern_random(&seed) >> 11) / (double)(1ull << 53);
	wrote(x, 0, n * n);
}

static void multiply_row(uint64_t row)
{
	double *c = m[C] + row * n;

	memset(c, 0, n * sizeof(*c));
	for (uint64_t k = 0; k < n; k++) {
		double a = m[A][row * n + k];
		const double *b = m[B] + k * n;

		for (uint64_t j = 0; j < n; j++)
			c[j] += a * b[j];
	}
	wrote(C, row * n, (row + 1) * n);
}

/*
 * All threads together. The last to come decides for all whether there is a next
 * round, for they would wait for each other for ever if each looked by itself,
 * and makes new inputs now and then.
 */
static bool next_round(struct workload *w, uint64_t round)
{
	static bool more;

	/* NOLINTNEXTLINE(bugprone-posix-return): this one result is below 0 */
	if (pthread_barrier_wait(&round_end) == PTHREAD_BARRIER_SERIAL_THREAD) {
		more = !atomic_load(&w->stop) &&
		       !(w->limit_bytes && round * n * n * sizeof(double) >= w->limit_bytes);
		if (more && round % RENEW_ROUNDS == 0) {
			fill(A, w->seed + 2 * round);
			fill(B, w->seed + 2 * round + 1);
		}
	}
	pthread_barrier_wait(&round_end);
	return more;
}

static void multiply(struct workload *w, unsigned int number)
{
	uint64_t first = n * number / w->threads, last = n * (number + 1) / w->threads;
	uint64_t done_bytes = 0, round = 0;

	do {
		for (uint64_t row = first; row < last && !atomic_load(&w->stop); row++) {
			multiply_row(row);
			done_bytes += n * sizeof(double);
			workload_pace(w, done_bytes);
		}
	} while (next_round(w, ++round));
}

static bool make_matrices(const struct workload *w)
{
	for (int x = 0; x < MATRICES; x++) {
		m[x] = workload_map(w, n * n * sizeof(double));
		truth[x] = truth_add(m[x], n * n * sizeof(double));
		if (!truth[x])
			return false;
		fill(x, w->seed + (uint64_t)x);
	}
	return true;
}

int main(int argc, char **argv)
{
	static struct workload w = {
		.name = "matmul",
		.doc = "Multiply two square matrices over and over, as a target for profilers; "
		       "print what was written as JSON on SIGUSR1 and at the end.",
		.size_bytes = 8 << 20,
		.threads = 2,
	};

	page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	workload_start(&w, argc, argv);
	n = w.size_bytes / sizeof(double);
	n = (uint64_t)sqrt((double)n);
	if (!make_matrices(&w) || pthread_barrier_init(&round_end, NULL, w.threads)) {
		cli_error("cannot make the matrices: out of memory");
		return CLI_FAILED;
	}
	return workload_run(&w, multiply);
}
