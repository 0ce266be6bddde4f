/* What every workload does before its work, and its clock. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "options.h"
#include "workload.h"

#define NSEC 1000000000ull

uint64_t workload_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NSEC + (uint64_t)t.tv_nsec;
}

/* Children run the same beside; each ends with its parent and publishes itself. */
static void fork_children(const struct workload *w)
{
	pid_t parent = getpid();

	for (unsigned int i = 0; i < w->forks; i++) {
		pid_t child = fork();

		if (child < 0) {
			cli_error("cannot fork: %s", strerror(errno));
			exit(CLI_FAILED);
		}
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGTERM);
			if (getppid() != parent)
				_exit(CLI_FAILED);
			break;
		}
	}
}

void workload_start(struct workload *w, int argc, char **argv)
{
	sigset_t set;

	w->service = w->name;
	w->stride_pages = 16;
	w->thp = -1;
	options_parse(w, argc, argv);
	/* before any thread: all of them leave these signals to the main thread */
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fork_children(w);
}

void *workload_map(const struct workload *w, uint64_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		cli_error("cannot map %llu bytes: %s; use a smaller --size",
			  (unsigned long long)bytes, strerror(errno));
		exit(CLI_FAILED);
	}
	if (w->thp >= 0)
		madvise(memory, bytes, w->thp ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return memory;
}

static void sleep_until(uint64_t t_ns)
{
	struct timespec t = { .tv_sec = (time_t)(t_ns / NSEC), .tv_nsec = (long)(t_ns % NSEC) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

void workload_pace(const struct workload *w, uint64_t done_bytes)
{
	const uint64_t step_ns = NSEC / 20; /* look at w->stop so often */
	uint64_t due_ns, now_ns;

	if (!w->rate_bytes)
		return;
	due_ns = w->start_ns + (uint64_t)((double)done_bytes * (double)w->threads /
					  (double)w->rate_bytes * (double)NSEC);
	while (!atomic_load(&w->stop) && (now_ns = workload_now_ns()) < due_ns)
		sleep_until(due_ns - now_ns < step_ns ? due_ns : now_ns + step_ns);
}
