/*
 * sample_error - how far sampled arming is from the truth, beside exact arming.
 *
 *	sample_error [INTERVALS]	default 64
 *
 * A child holds 128 MiB in small pages and writes a pattern of it when it is told to;
 * then an interval ends. So the pages written in each interval are known, and both
 * ways of arming are compared with them: each profiles a child of its own, which
 * writes the same pages. Printed are, for each pattern, the mean of what is reported
 * against the truth, the mean and the worst error of an interval (of the memory's
 * pages, since some patterns write nothing at times), and the share of hot memory on
 * which both agree. The first intervals, until memory is hot, count too. No target is
 * set: it is a figure to judge estimates by.
 */
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "beside.h"
#include "ctx_bench.h"
#include "wprof.h"

#define PAGE  4096ul
#define PAGES 32768ul
#define CHUNK 512ul /* pages of 2 MiB */
#define MOST  1000

/* ---- the child ---------------------------------------------------------------------- */

static uint64_t state;

static uint64_t draw(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static size_t put(volatile char *p, const bool *chosen)
{
	size_t n = 0;

	for (size_t i = 0; i < PAGES; i++)
		if (chosen[i]) {
			p[i * PAGE]++;
			n++;
		}
	return n;
}

static void first(bool *chosen, size_t from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		chosen[(from + i) % PAGES] = true;
}

static void steady(bool *chosen, int at)
{
	(void)at;
	first(chosen, 0, PAGES / 2);
}

static void uniform(bool *chosen, int at)
{
	(void)at;
	for (size_t i = 0; i < PAGES * 7 / 10; i++)
		chosen[draw(PAGES)] = true;
}

/* Page k is chosen as often as 1 / (k + 1) says. */
static void zipf(bool *chosen, int at)
{
	(void)at;
	for (size_t i = 0; i < PAGES; i++)
		chosen[(size_t)exp((double)draw(1u << 30) / (1u << 30) * log((double)PAGES)) - 1] =
			true;
}

/* A quarter of the memory, another one every eight intervals */
static void phases(bool *chosen, int at)
{
	first(chosen, (size_t)(at / 8) * PAGES / 4, PAGES / 4);
}

/* More and more of each chunk, then less and less */
static void tide(bool *chosen, int at)
{
	size_t n = (size_t)(at % 32 < 16 ? at % 32 : 31 - at % 32) * CHUNK / 16;

	for (size_t i = 0; i < PAGES; i += CHUNK)
		first(chosen, i, n);
}

/* All of it, but in every fourth interval nothing */
static void pauses(bool *chosen, int at)
{
	first(chosen, 0, at % 4 ? PAGES : 0);
}

static const struct {
	const char *name;
	void (*choose)(bool *chosen, int at);
} patterns[] = {
	{ "steady half", steady }, { "uniform, half", uniform },
	{ "zipf", zipf },	   { "phases", phases },
	{ "tide", tide },	   { "pauses", pauses },
};

static _Noreturn void child(int sock, size_t pattern)
{
	static bool chosen[PAGES];
	char *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	size_t n = (size_t)p;
	int at;

	if (p == MAP_FAILED || madvise(p, PAGES * PAGE, MADV_NOHUGEPAGE))
		_exit(1);
	memset(p, 1, PAGES * PAGE);
	state = 88172645463325252u + pattern;
	while (write(sock, &n, sizeof(n)) == sizeof(n) &&
	       read(sock, &at, sizeof(at)) == sizeof(at)) {
		memset(chosen, 0, sizeof(chosen));
		patterns[pattern].choose(chosen, at);
		n = put(p, chosen);
	}
	_exit(0);
}

/* ---- one way of arming ---------------------------------------------------------------- */

struct trial {
	size_t truth[MOST], told[MOST];
	bool hot[MOST][PAGES / CHUNK];
};

static void take_hot(const struct wprof *w, size_t start, bool *hot)
{
	const struct wprof_region *r;
	size_t n;

	must(!wprof_hot((struct wprof *)w, &r, &n), "wprof_hot");
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < PAGES / CHUNK; k++) {
			size_t at = start + k * CHUNK * PAGE;

			hot[k] |= r[i].start <= at && at < r[i].end;
		}
}

/* What is reported of the child's memory; the rest of it writes a page or two. */
static size_t told_of(const struct wprof_interval *iv, size_t start)
{
	size_t n = 0;

	for (size_t i = 0; i < iv->n_vmas; i++)
		if (iv->vmas[i].start < start + PAGES * PAGE && iv->vmas[i].end > start)
			n += iv->vmas[i].written_pages;
	return n;
}

static void run(size_t pattern, uint32_t arming, int intervals, struct trial *t)
{
	const struct wprof_opts opts = { .size = sizeof(opts),
					 .arming = arming,
					 .granularity_bytes = WPROF_CHUNK };
	const struct wprof_interval *iv;
	struct wprof_why why;
	struct wprof *w;
	size_t start;
	int sv[2];
	pid_t pid;

	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), "socketpair");
	pid = fork();
	if (pid == 0) {
		close(sv[0]);
		child(sv[1], pattern);
	}
	close(sv[1]);
	must(read(sv[0], &start, sizeof(start)) == sizeof(start), "the child");
	if (wprof_open(pid, &opts, &w, &why)) {
		fprintf(stderr, "sample_error: %s\n", why.text);
		exit(1);
	}
	for (int i = 0; i < intervals; i++) {
		must(write(sv[0], &i, sizeof(i)) == sizeof(i), "the child");
		must(read(sv[0], &t->truth[i], sizeof(size_t)) == sizeof(size_t), "the child");
		must(!wprof_sample(w, &iv), "wprof_sample");
		t->told[i] = told_of(iv, start);
		memset(t->hot[i], 0, sizeof(t->hot[i]));
		take_hot(w, start, t->hot[i]);
	}
	wprof_close(w);
	close(sv[0]);
	waitpid(pid, NULL, 0);
}

static void show(const char *name, const char *way, const struct trial *t, int intervals,
		 double agree)
{
	double truth = 0, told = 0, sum = 0, worst = 0;

	for (int i = 0; i < intervals; i++) {
		double off = fabs((double)t->told[i] - (double)t->truth[i]) / PAGES;

		truth += (double)t->truth[i];
		told += (double)t->told[i];
		sum += off;
		worst = off > worst ? off : worst;
	}
	printf("%-14s %-7s %10.1f %10.3f %11.2f %% %9.2f %%", name, way,
	       truth / intervals * PAGE / 1048576, told / truth, 100 * sum / intervals,
	       100 * worst);
	if (agree >= 0)
		printf(" %9.1f %%", 100 * agree);
	puts("");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static struct trial exact, sample;
	int intervals = number_arg(argc, argv, 1, 64, MOST);

	if (!intervals) {
		fprintf(stderr, "usage: sample_error [INTERVALS]\n");
		return 2;
	}
	printf("%d intervals of 128 MiB; errors are shares of its pages\n", intervals);
	printf("%-14s %-7s %10s %10s %13s %11s %11s\n", "pattern", "arming", "MiB", "told/true",
	       "mean error", "worst", "hot agrees");
	for (size_t p = 0; p < sizeof(patterns) / sizeof(patterns[0]); p++) {
		const size_t n_chunks = (size_t)intervals * (PAGES / CHUNK);
		size_t same = 0;

		run(p, WPROF_EXACT, intervals, &exact);
		run(p, WPROF_SAMPLE, intervals, &sample);
		for (int i = 0; i < intervals; i++)
			for (size_t k = 0; k < PAGES / CHUNK; k++)
				same += exact.hot[i][k] == sample.hot[i][k];
		show(patterns[p].name, "exact", &exact, intervals, -1);
		show(patterns[p].name, "sample", &sample, intervals,
		     (double)same / (double)n_chunks);
	}
	return 0;
}
