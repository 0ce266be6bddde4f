/*
 * profiler_cpu - what the profiler itself costs, per GiB and interval.
 *
 *	profiler_cpu [MIB [INTERVALS]]	default 1024, 20
 *
 * A child holds that much memory, all of it populated, and writes a share of it,
 * evenly spread, every 20 ms; so each interval of 100 ms meets all of the share.
 * Two profilers follow it, one after the other: libwprof alone (scan, heat of
 * 2 MiB chunks, hot regions) and the whole of `wprof record -o`, which writes
 * every run of pages down as JSON. Printed is their processor time, user and
 * system, divided by intervals and GiB; that of `wprof record` without the time
 * it takes to start. Processor time suffers less from other load than the clock.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "beside.h"
#include "ctx_bench.h"
#include "wprof.h"

#define PAGE	      4096ul
#define INTERVAL_MS   100
#define INTERVALS_MAX 10000

struct load {
	size_t pages, step; /* every step-th page is written; 0: none */
	bool thp;
};

static const struct {
	const char *name;
	size_t step;
} shares[] = { { "nothing", 0 }, { "0.1 %", 1000 }, { "10 %", 10 }, { "everything", 1 } };

static void load_run(int ready, void *arg)
{
	const struct load *l = arg;
	char *p = mmap(NULL, l->pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	must(p != MAP_FAILED, "mmap");
	madvise(p, l->pages * PAGE, l->thp ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	memset(p, 1, l->pages * PAGE);
	must(write(ready, "x", 1) == 1, "pipe");
	for (;;) {
		for (size_t i = 0; l->step && i < l->pages; i += l->step)
			((volatile char *)p)[i * PAGE]++;
		usleep(20000);
	}
}

static double cpu_ms(const struct rusage *u)
{
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1e3 +
	       (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e3;
}

/* Processor time of libwprof for an interval; *@pages: written, on the average */
static double library_ms(pid_t pid, uint32_t arming, int intervals, double *pages)
{
	const struct wprof_opts opts = { .size = sizeof(opts),
					 .arming = arming,
					 .granularity_bytes = WPROF_CHUNK };
	const struct wprof_interval *iv;
	struct wprof_why why;
	struct rusage a, b;
	struct wprof *w;

	if (wprof_open(pid, &opts, &w, &why)) {
		fprintf(stderr, "profiler_cpu: %s\n", why.text);
		exit(1);
	}
	*pages = 0;
	/* until sampling has begun and ways to scan have been chosen */
	for (int i = -6; i < intervals; i++) {
		usleep(INTERVAL_MS * 1000);
		if (i == 0)
			getrusage(RUSAGE_THREAD, &a);
		must(wprof_sample(w, &iv) == 0, "wprof_sample");
		*pages += i < 0 ? 0 : (double)iv->written_pages / intervals;
	}
	getrusage(RUSAGE_THREAD, &b);
	wprof_close(w);
	return (cpu_ms(&b) - cpu_ms(&a)) / intervals;
}

static double record_run(pid_t pid, double seconds)
{
	char path[4096], target[16], duration[32];
	struct rusage usage;
	pid_t child;
	int status;

	program_path(path, sizeof(path), "wprof");
	snprintf(target, sizeof(target), "%d", pid);
	snprintf(duration, sizeof(duration), "%.2f", seconds);
	child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execl(path, path, "record", target, "--interval", "100", "--duration", duration,
		      "-o", "/dev/null", (char *)NULL);
		_exit(127);
	}
	must(wait4(child, &status, 0, &usage) == child, "wprof record");
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "profiler_cpu: wprof record failed\n");
		exit(1);
	}
	return cpu_ms(&usage);
}

/* What more intervals cost more: starting is in both */
static double record_ms(pid_t pid, int intervals)
{
	double few[3], many;

	for (int i = 0; i < 3; i++)
		few[i] = record_run(pid, 0.5);
	many = record_run(pid, 0.5 + intervals * INTERVAL_MS / 1e3);
	return (many - percentile(few, 3, 0.5)) / intervals;
}

static void line(const char *name, struct load *l, int intervals)
{
	double gib = (double)l->pages * PAGE / (1 << 30), pages;
	pid_t pid = target_start(load_run, l);
	double exact = library_ms(pid, WPROF_EXACT, intervals, &pages) / gib;
	double sample = library_ms(pid, WPROF_SAMPLE, intervals, &pages) / gib;

	printf("%-12s %-4s %12.0f %10.2f %10.2f %10.2f\n", name, l->thp ? "on" : "off", pages,
	       exact, sample, record_ms(pid, intervals) / gib);
	fflush(stdout);
	target_end(pid);
}

int main(int argc, char **argv)
{
	int mib = number_arg(argc, argv, 1, 1024, 1 << 20);
	int intervals = number_arg(argc, argv, 2, 20, INTERVALS_MAX);
	struct load l = { .pages = (size_t)mib << 8 };

	if (argc > 3 || !mib || !intervals) {
		fprintf(stderr, "usage: profiler_cpu [MIB [INTERVALS]]\n");
		return 2;
	}
	printf("processor time of the profiler, ms an interval and GiB; %zu MiB, %d intervals\n\n",
	       l.pages >> 8, intervals);
	printf("%-12s %-4s %12s %10s %10s %10s\n", "written", "THP", "pages", "exact", "sample",
	       "record");
	for (int thp = 0; thp < 2; thp++)
		for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
			l.step = shares[i].step;
			l.thp = thp;
			line(shares[i].name, &l, intervals);
		}
	return 0;
}
