/* ctx_bench.h - what the benches of the reader share: a target, a clock, medians. */
#ifndef CTX_BENCH_H
#define CTX_BENCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pctx.h"

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of the values in @v, which are sorted by it. */
static inline double percentile(double *v, size_t n, double p)
{
	qsort(v, n, sizeof(*v), compare_doubles);
	return v[(size_t)(p * (double)(n - 1))];
}

static inline void must(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

/* Publish ten attributes, as a service would. */
static inline void publish_ten(int64_t number)
{
	struct pctx_attr attrs[] = {
		pctx_string("service.name", "bench"),
		pctx_string("service.version", "1.2.3"),
		pctx_string("service.namespace", "shop"),
		pctx_string("service.instance.id", "627cc493-f310-47de-96bd-71410b7dec09"),
		pctx_string("deployment.environment.name", "production"),
		pctx_string("host.name", "host-17.example"),
		pctx_string("telemetry.sdk.name", "procscope"),
		pctx_string("telemetry.sdk.language", "c"),
		pctx_string("telemetry.sdk.version", "0.1.0"),
		pctx_int("number", number),
	};
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .resource = attrs,
					  .n_resource = 10 };

	must(pctx_publish(&opts) == 0, "publish");
}

/*
 * A child that runs @fn, which says so by a byte and then waits for its end. That byte
 * being 'n', it could not do what it should: it is ended, and there is none (0).
 */
static inline pid_t target_try(void (*fn)(int ready, void *arg), void *arg)
{
	int ready[2];
	char byte;
	pid_t pid;

	must(pipe(ready) == 0, "pipe");
	pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		fn(ready[1], arg);
		_exit(1);
	}
	close(ready[1]);
	must(read(ready[0], &byte, 1) == 1, "target");
	close(ready[0]);
	if (byte != 'n')
		return pid;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}

static inline pid_t target_start(void (*fn)(int ready, void *arg), void *arg)
{
	pid_t pid = target_try(fn, arg);

	must(pid > 0, "target");
	return pid;
}

static inline void target_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A line of the table; 1 when a target is missed. */
static inline int verdict(const char *what, double ratio, double target)
{
	bool met = ratio <= target;

	printf("%-44s %8.2fx   target %5.2fx   %s\n", what, ratio, target, met ? "met" : "MISSED");
	return !met;
}

#endif /* CTX_BENCH_H */
