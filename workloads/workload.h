/*
 * workload.h - what the synthetic workloads share: their options, how they name
 * themselves, their ground truth, and how they are stopped.
 *
 * A workload's worker threads write; its main thread sleeps in poll(), answers
 * SIGUSR1 with the ground truth and ends on SIGINT, SIGTERM, when the duration
 * is over or when the workers are done. poll() restarts by itself after a stop,
 * so a profiler that stops one thread for a moment is never noticed.
 *
 * With --hold the first SIGUSR1 begins the work, and after the limit the process
 * stays until a signal: a profiler that was there all the time has then seen
 * exactly what the ground truth says.
 */
#ifndef PROCSCOPE_WORKLOAD_H
#define PROCSCOPE_WORKLOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pattern.h"

/** struct workload - options and state of one run */
struct workload {
	const char *name; /* of the program, also its default service.name */
	const char *doc;  /* for --help */
	/* options; the program sets its defaults before workload_start() */
	const char *service;
	uint64_t size_bytes;
	uint64_t rate_bytes;  /* a second, all threads together; 0: no limit */
	uint64_t limit_bytes; /* stop after writing so much; 0: no limit */
	uint64_t period_ms;   /* memory-alloc: between two allocations */
	double duration_s;    /* 0: until a signal or the limit */
	unsigned int threads;
	unsigned int forks; /* children that run the same workload */
	uint64_t seed;
	bool has_pattern; /* it heeds these: */
	enum pattern_kind pattern;
	uint64_t stride_pages;
	int thp;   /* 1 always, 0 never, -1 as the system has it */
	bool hold; /* begin on SIGUSR1, stay after the limit */
	/* state */
	atomic_bool stop;
	atomic_uint running; /* workers not done */
	int done_fd;	     /* eventfd: written by the last worker */
	int start_fd;	     /* eventfd: as many tokens as workers may begin */
	uint64_t start_ns;
};

/**
 * workload_start() - parse options, fork the children
 *
 * Ends the program on wrong usage (2) or when it cannot fork (1).
 */
void workload_start(struct workload *w, int argc, char **argv);

/** workload_map() - memory for the workload, with its huge page option; never NULL */
void *workload_map(const struct workload *w, uint64_t bytes);

/**
 * workload_run() - run @worker in w->threads threads until the end
 *
 * @worker is called with its number, 0 to threads - 1, and returns soon after
 * w->stop is set. The context is published when all is ready, so who finds it
 * knows that the memory is there and touched. The ground truth is printed on
 * SIGUSR1 and at the end.
 * Return: the exit code of the program.
 */
int workload_run(struct workload *w, void (*worker)(struct workload *w, unsigned int number));

/** workload_publish() - publish the process context, or end the program (1) */
void workload_publish(const struct workload *w);

/** workload_pace() - sleep so that @done_bytes fit the thread's share of the rate */
void workload_pace(const struct workload *w, uint64_t done_bytes);

/** workload_now_ns() - CLOCK_MONOTONIC */
uint64_t workload_now_ns(void);

#endif /* PROCSCOPE_WORKLOAD_H */
