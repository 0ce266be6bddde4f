/*
 * throughput - what being profiled costs memwrite.
 *
 * memwrite, unchanged, writes 64 MiB round and round as fast as it can and says
 * when asked how many bytes it has written in how much time. It is left alone for
 * a while, profiled for some intervals, left alone, and so on: each profiled time
 * is compared with the two beside it, so that what drifts on the machine falls out.
 * The profiler is libwprof at the defaults of wprof, a 2 MiB chunk of heat.
 *
 *	throughput [ROUNDS [NAME]]	NAME: exact or sample; default: as many
 *					rounds as half a minute a line takes
 *
 * What is printed are medians of the rounds, and of `own` the range in which the
 * median of endlessly many rounds lies by 95 % (by order statistics: nothing is
 * supposed of how the rounds scatter). A target is met or missed when all of that
 * range is; otherwise the line says undecided, which fails nothing: the machine is
 * too noisy for so few rounds.
 *
 * Two ratios. `wall` is bytes a second, profiled to not profiled, as the clock on
 * the wall has it: right on a machine with nothing else to do, noise elsewhere.
 * `own` asks the target's processor time: how much more it took for as many bytes
 * as it wrote is what the profiler cost it, and that over the length of the
 * interval is what a target loses which never waits. Waiting itself (for a lock
 * the scan holds) is not in it. The verdict is on `own`, because a target that
 * gets a tenth of a processor shows a tenfold cost in any plain ratio.
 *
 * A round of sample counts only when all of the buffer stayed hot: a target that
 * gets no time does not write, cools down and is armed whole again.
 *
 * THP on: memory in huge pages when not profiled; they are given back after each
 * profiled time (WPROF_F_COLLAPSE), so each begins with all of them. The last line has
 * what the target loses when they are split and nothing else is done to it.
 */
#include <math.h>
#include <string.h>

#include "beside.h"
#include "ctx_bench.h"
#include "wprof.h"

#define ROUNDS_MAX   1000
#define WARM_MAX     50	 /* intervals until memory is hot and sampled, */
#define WARM_MS	     100 /* which may be short */
#define ALONE_MS     500
#define BOUND_ROUNDS 7
#define ROUNDS_LEAST 6	  /* fewer say nothing of 95 % */
#define STEADY_PAGES 2048 /* armed, at most, when all of it is sampled */

/** struct scene - one line of the table */
struct scene {
	const char *name;
	uint32_t arming;
	unsigned int interval_ms;
	bool thp;
	unsigned int intervals; /* measured each round */
	int rounds;		/* unless told otherwise */
	double target;		/* of the ratio; 0: none, the cost is printed */
};

static const struct scene scenes[] = {
	{ "exact", WPROF_EXACT, 1000, false, 1, 9, 0 },
	{ "exact", WPROF_EXACT, 1000, true, 1, 9, 0 },
	{ "exact", WPROF_EXACT, 100, false, 5, 15, 0 },
	{ "exact", WPROF_EXACT, 100, true, 5, 15, 0 },
	{ "sample", WPROF_SAMPLE, 1000, false, 1, 17, 0.99 },
	{ "sample", WPROF_SAMPLE, 1000, true, 1, 17, 0.99 },
	{ "sample", WPROF_SAMPLE, 100, false, 5, 27, 0.97 },
	{ "sample", WPROF_SAMPLE, 100, true, 5, 27, 0.97 },
};

struct target {
	pid_t pid;
	FILE *said;
	char *line;
	size_t line_size;
};

/** struct reading - what the target has done so far, or between two readings */
struct reading {
	double bytes, cpu_ns, wall_ns;
};

/** struct profiled - one profiled time */
struct profiled {
	struct reading did;
	double faults, own_cpu_ns;
	bool steady;
};

/** struct sums - of the rounds of a scene */
struct sums {
	double wall[ROUNDS_MAX], own[ROUNDS_MAX], lost_ms[ROUNDS_MAX], page_ns[ROUNDS_MAX];
	double rate[ROUNDS_MAX], own_cpu_ms[ROUNDS_MAX];
};

/* ---- the target ------------------------------------------------------------------- */

/* The signal is blocked before there is a child: one that comes early waits. */
static void memwrite_start(struct target *t, bool thp)
{
	char path[4096];
	sigset_t set;
	int out[2];

	program_path(path, sizeof(path), "memwrite");
	must(pipe(out) == 0, "pipe");
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	t->pid = fork();
	must(t->pid >= 0, "fork");
	if (t->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], STDOUT_FILENO);
		close(out[0]);
		close(out[1]);
		execl(path, path, "--thp", thp ? "always" : "never", (char *)NULL);
		perror(path);
		_exit(1);
	}
	close(out[1]);
	t->said = fdopen(out[0], "r");
	must(t->said != NULL, "fdopen");
}

static void memwrite_end(struct target *t)
{
	target_end(t->pid);
	fclose(t->said);
	free(t->line);
}

static double field(const char *json, const char *name)
{
	const char *at = strstr(json, name);

	must(at != NULL, "what memwrite said");
	return strtod(at + strlen(name), NULL);
}

static struct reading memwrite_ask(struct target *t)
{
	must(kill(t->pid, SIGUSR1) == 0, "memwrite");
	must(getline(&t->line, &t->line_size, t->said) > 0, "memwrite");
	return (struct reading){ field(t->line, "\"bytes_written\":"),
				 field(t->line, "\"cpu_ns\":"), field(t->line, "\"elapsed_ns\":") };
}

static struct reading between(struct reading a, struct reading b)
{
	return (struct reading){ b.bytes - a.bytes, b.cpu_ns - a.cpu_ns, b.wall_ns - a.wall_ns };
}

static void sleep_ms(unsigned int ms)
{
	const struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

/* ---- one round -------------------------------------------------------------------- */

static struct reading leave_alone(struct target *t, const struct scene *s)
{
	struct reading first = memwrite_ask(t);

	sleep_ms(s->interval_ms < ALONE_MS ? ALONE_MS : s->interval_ms / 2);
	return between(first, memwrite_ask(t));
}

static const struct wprof_interval *next_interval(struct wprof *w, unsigned int ms,
						  struct profiled *p)
{
	const struct wprof_interval *iv;
	struct timespec a, b;

	sleep_ms(ms);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	must(wprof_sample(w, &iv) == 0, "wprof_sample");
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	p->own_cpu_ns += (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
	p->faults += (double)iv->cost.faults;
	return iv;
}

/* Is only that armed that shall be? A target that starved has cooled down. */
static bool is_steady(const struct scene *s, const struct wprof_interval *iv)
{
	return s->arming == WPROF_EXACT || iv->armed_pages <= STEADY_PAGES;
}

static struct profiled profile(struct target *t, const struct scene *s)
{
	const struct wprof_opts opts = {
		.size = sizeof(opts),
		.arming = s->arming,
		.granularity_bytes = WPROF_CHUNK,
		.flags = s->thp ? WPROF_F_COLLAPSE : 0,
	};
	struct profiled p = { 0 };
	struct wprof_why why;
	struct reading first;
	struct wprof *w;
	bool steady = false;

	if (wprof_open(t->pid, &opts, &w, &why)) {
		fprintf(stderr, "throughput: %s\n", why.text);
		exit(1);
	}
	for (int i = 0; i < WARM_MAX && !steady; i++)
		steady = is_steady(s, next_interval(w, WARM_MS, &p));
	p = (struct profiled){ .steady = steady };
	first = memwrite_ask(t);
	for (unsigned int i = 0; i < s->intervals; i++)
		p.steady &= is_steady(s, next_interval(w, s->interval_ms, &p));
	p.did = between(first, memwrite_ask(t));
	wprof_close(w);
	return p;
}

/* Profiled time @p against the times alone before and after it. */
static void compare(const struct scene *s, const struct profiled *p, const struct reading *before,
		    const struct reading *after, struct sums *sums, size_t round)
{
	double alone_bytes = before->bytes + after->bytes;
	double alone_rate = alone_bytes / (before->wall_ns + after->wall_ns);
	double byte_ns = (before->cpu_ns + after->cpu_ns) / alone_bytes;
	double lost_ns = p->did.cpu_ns - p->did.bytes * byte_ns;

	sums->rate[round] = alone_rate;
	sums->wall[round] = p->did.bytes / p->did.wall_ns / alone_rate;
	sums->own[round] = 1 - lost_ns / p->did.wall_ns;
	sums->lost_ms[round] = lost_ns / s->intervals / 1e6;
	sums->page_ns[round] = p->faults > 0 ? lost_ns / p->faults : 0;
	sums->own_cpu_ms[round] = p->own_cpu_ns / s->intervals / 1e6;
}

static int scene_starved(const struct scene *s)
{
	printf("%-7s %5u ms  %-3s not measured: the machine is too busy, memwrite was not hot\n",
	       s->name, s->interval_ms, s->thp ? "on" : "off");
	return 1;
}

/*
 * The rank, from 0, of the value that the median lies below with a probability of
 * 2.5 % at most: so many of n tosses of a coin are that one-sided by chance.
 */
static size_t median_rank(size_t n)
{
	double chance = exp2(-(double)n), sum = 0;
	size_t k = 0;

	while (k < n / 2 && sum + chance <= 0.025) {
		sum += chance;
		chance *= (double)(n - k) / (double)(k + 1);
		k++;
	}
	return k ? k - 1 : 0;
}

/* 1: missed. @own is sorted. */
static int judge(const struct scene *s, const double *own, size_t n)
{
	size_t rank = median_rank(n);

	bool missed = own[n - 1 - rank] < s->target, met = own[rank] >= s->target;

	if (n < ROUNDS_LEAST)
		missed = met = false;
	printf("at least %.2f: %s\n", s->target, missed ? "MISSED" : met ? "met" : "undecided");
	return missed;
}

static int scene_put(const struct scene *s, struct sums *sums, size_t n)
{
	double own = percentile(sums->own, n, 0.5); /* and sorts them */
	size_t rank = median_rank(n);
	int missed = 0;

	printf("%-7s %5u ms  %-3s %8.2f %8.3f %8.3f  %.3f-%.3f %8.2f %9.2f %4zu  ", s->name,
	       s->interval_ms, s->thp ? "on" : "off", percentile(sums->rate, n, 0.5),
	       percentile(sums->wall, n, 0.5), own, sums->own[rank], sums->own[n - 1 - rank],
	       percentile(sums->lost_ms, n, 0.5), percentile(sums->own_cpu_ms, n, 0.5), n);
	if (s->target > 0)
		missed = judge(s, sums->own, n);
	else
		printf("%.0f ns for each page armed\n", percentile(sums->page_ns, n, 0.5));
	fflush(stdout);
	return missed;
}

static int scene_run(const struct scene *s, int rounds)
{
	static struct sums sums;
	struct target t = { 0 };
	struct reading before, after;
	size_t n = 0;

	memwrite_start(&t, s->thp);
	leave_alone(&t, s); /* it has come to speed */
	before = leave_alone(&t, s);
	for (int i = 0; i < 2 * rounds && n < (size_t)rounds; i++) {
		struct profiled p = profile(&t, s);

		after = leave_alone(&t, s);
		if (p.steady)
			compare(s, &p, &before, &after, &sums, n++);
		before = after;
	}
	memwrite_end(&t);
	if (!n)
		return scene_starved(s);
	return scene_put(s, &sums, n);
}

/* ---- what huge pages are worth ------------------------------------------------------ */

static double alone_byte_ns(bool thp)
{
	static const struct scene alone = { .interval_ms = ALONE_MS };
	struct target t = { 0 };
	struct reading did;

	memwrite_start(&t, thp);
	leave_alone(&t, &alone); /* it has come to speed */
	did = leave_alone(&t, &alone);
	memwrite_end(&t);
	return did.cpu_ns / did.bytes;
}

/*
 * The first write to an armed huge page splits it, whoever arms it: with THP on no
 * profiler that arms can do better than this, by as much as it arms.
 */
static void bound_put(void)
{
	double ratio[BOUND_ROUNDS];

	for (int i = 0; i < BOUND_ROUNDS; i++)
		ratio[i] = alone_byte_ns(true) / alone_byte_ns(false);
	printf("\nmemwrite alone, in small pages against huge ones: %.3f (%.3f-%.3f of %d): what "
	       "splitting costs\n",
	       percentile(ratio, BOUND_ROUNDS, 0.5), percentile(ratio, BOUND_ROUNDS, 0),
	       percentile(ratio, BOUND_ROUNDS, 1), BOUND_ROUNDS);
}

int main(int argc, char **argv)
{
	int rounds = number_arg(argc, argv, 1, ROUNDS_MAX, ROUNDS_MAX), missed = 0;

	if (argc > 3 || !rounds ||
	    (argc == 3 && strcmp(argv[2], "exact") && strcmp(argv[2], "sample"))) {
		fprintf(stderr, "usage: throughput [ROUNDS [exact|sample]]\n");
		return 2;
	}
	printf("memwrite, 64 MiB, profiled and not, medians of rounds\n\n");
	printf("%-7s %8s  %-3s %8s %8s %8s  %-11s %8s %9s %4s\n", "arming", "interval", "THP",
	       "GB/s", "ratio", "ratio", "own: 95 %", "lost ms", "profiler", "");
	printf("%-7s %8s  %-3s %8s %8s %8s  %-11s %8s %9s %4s\n", "", "", "", "alone", "wall",
	       "own", "of medians", "/interval", "CPU ms", "n");
	for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++)
		if (argc < 3 || !strcmp(argv[2], scenes[i].name))
			missed += scene_run(&scenes[i], argc > 1 ? rounds : scenes[i].rounds);
	bound_put();
	printf("\nlost: the target's processor time for the same bytes, more than when alone\n"
	       "profiler CPU: its processor time for an interval, in ms\n"
	       "n: rounds that count\n");
	return missed ? 1 : 0;
}
