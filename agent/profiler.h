/* profiler.h - the thread that profiles, and what it knows. */
#ifndef AGENT_PROFILER_H
#define AGENT_PROFILER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jobs.h"
#include "target.h"

/** struct rule - how to profile; no field is 0 but granularity_bytes */
struct rule {
	uint32_t interval_ms;
	double hot_threshold;
	uint32_t hot_consecutive;
	uint64_t granularity_bytes;
	bool tree;
};

/** struct volume - what was written, of all members together */
struct volume {
	uint64_t dirty_pages, dirty_bytes;
	double pages_per_s, bytes_per_s;
	uint64_t total_bytes; /* since the profiling began */
	double total_s;	      /* how long that is */
	uint64_t since_dump_bytes;
	uint64_t populated_bytes; /* tracked memory that there is: what a first dump has */
	int64_t at_unix_ms;
	bool estimated;
};

/** struct hot - a hot region */
struct hot {
	uint64_t start, end;
	double written_ratio;
	uint32_t consecutive;
	pid_t pid;
};

/** struct snapshot - all that can be asked for, as of the last interval */
struct snapshot {
	bool active;
	pid_t pid;
	char idle[200]; /* not active: why */
	struct volume volume;
	struct hot *hot;
	size_t n_hot, hot_bytes;
	uint32_t n_vmas, n_hot_vmas, n_processes, interval_ms;
	uint64_t scan_ns; /* of the last interval */
};

/** enum order_kind - what the thread is asked for */
enum order_kind { ORDER_START, ORDER_STOP };

/**
 * struct order - an RPC on its way to the thread
 *
 * As a job it first looks for the target, which may block, then it is handed on.
 */
struct order {
	struct job job; /* first: freed as a job */
	struct order *next;
	enum order_kind kind;
	struct rule rule;
	struct target_query query;
	pid_t pid;
};

/** struct profiler_calls - what the thread calls, with nothing locked */
struct profiler_calls {
	/* how an order ended: @error NULL: well. @pid, @n_vmas: of a start */
	void (*done)(const struct order *order, pid_t pid, uint32_t n_vmas, const char *error);
	void (*sampled)(const struct volume *volume, uint32_t interval_ms);
	void (*ended)(const char *why);
};

/** profiler_open() - start the thread. @injector: NULL: the installed one. 0 or -errno */
int profiler_open(const struct profiler_calls *calls, const char *injector);

/** profiler_order() - hand an order over, which is the profiler's now. MT-Safe */
void profiler_order(struct order *order);

/** profiler_lock() - the snapshot, which stays as it is until profiler_unlock() */
const struct snapshot *profiler_lock(void);
void profiler_unlock(void);

/** profiler_dumped() - process @pid was dumped: count its bytes anew. MT-Safe */
void profiler_dumped(pid_t pid);

/** profiler_close() - end the profiling and the thread */
void profiler_close(void);

#endif /* AGENT_PROFILER_H */
