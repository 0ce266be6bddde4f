/*
 * inject_stop - how long an injection stops its target.
 *
 * Beside each injection the same thread is stopped for nothing: seized,
 * interrupted, waited for, let go. Both run in a program of their own that has
 * just been started, at real-time priority where that is allowed; both count from
 * the request to stop until the thread has been let go, as their own clock sees
 * it. For a busy thread this includes the time until it notices. Rounds alternate,
 * so that both meet the same load; other load on the machine lengthens both. What
 * is compared are medians; the target is a ratio of 4 at most.
 *
 *	inject_stop [ROUNDS]		a table on standard output
 *	inject_stop --empty TID		one empty stop: nanoseconds
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "inject.h"

#define ROUNDS_DEFAULT 60
#define ROUNDS_MAX     10000
#define TARGET_RATIO   4.0

/** struct scene - what the target looks like */
struct scene {
	const char *name;
	int threads;
	int busy; /* of them; the rest sleeps */
	int vmas;
};

static const struct scene scenes[] = {
	{ "1 sleeping thread", 1, 0, 1 },
	{ "1 sleeping thread, 1000 VMAs", 1, 0, 1000 },
	{ "64 sleeping threads", 64, 0, 1 },
	{ "64 sleeping threads, 1000 VMAs", 64, 0, 1000 },
	{ "8 threads, 1 of them busy", 8, 1, 1 },
	{ "1 busy thread", 1, 1, 1 },
	{ "1 busy thread, 1000 VMAs", 1, 1, 1000 },
	{ "8 busy threads", 8, 8, 1 },
	{ "64 busy threads", 64, 64, 1 },
};

static void die(const char *what)
{
	fprintf(stderr, "inject_stop: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* ---- the target ------------------------------------------------------------------- */

static void *sleeps(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void *spins(void *arg)
{
	volatile unsigned long n = 0;

	(void)arg;
	for (;;)
		n++;
	return NULL;
}

/* every second page of another protection: as many VMAs */
static void make_vmas(int n)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, (size_t)n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		_exit(1);
	for (int i = 0; i < n; i += 2)
		if (mprotect(p + (size_t)i * page, page, PROT_READ))
			_exit(1);
}

static void target_run(const struct scene *scene, int ready)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	make_vmas(scene->vmas);
	for (int i = 1; i < scene->threads; i++)
		if (pthread_create(&thread, NULL, i < scene->busy ? spins : sleeps, NULL))
			_exit(1);
	if (write(ready, "x", 1) != 1)
		_exit(1);
	(scene->busy ? spins : sleeps)(NULL);
}

static pid_t target_start(const struct scene *scene)
{
	int ready[2];
	pid_t pid;
	char c;

	if (pipe(ready))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		target_run(scene, ready[1]);
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		die("starting a target");
	close(ready[0]);
	usleep(20000); /* its threads come to rest */
	return pid;
}

/* ---- the empty stop ----------------------------------------------------------------- */

static int empty_stop(pid_t tid)
{
	const struct sched_param param = { .sched_priority = 1 };
	uint64_t start;
	siginfo_t info;

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		errno = 0;
	if (ptrace(PTRACE_SEIZE, tid, 0, 0))
		return 1;
	start = now_ns();
	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0))
		return 1;
	if (waitid(P_PID, (id_t)tid, &info, WSTOPPED | __WALL))
		return 1;
	if (ptrace(PTRACE_DETACH, tid, 0, 0))
		return 1;
	printf("%llu\n", (unsigned long long)(now_ns() - start));
	return 0;
}

static uint64_t empty_measure(pid_t tid)
{
	unsigned long long ns = 0;
	char command[64];
	FILE *f;

	snprintf(command, sizeof(command), "exec /proc/%d/exe --empty %d", getpid(), tid);
	f = popen(command, "r");
	if (!f || fscanf(f, "%llu", &ns) != 1)
		die("an empty stop");
	pclose(f);
	return ns;
}

/* ---- the table ---------------------------------------------------------------------- */

static int cmp_u64(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double median_us(uint64_t *values, int n)
{
	uint64_t middle_ns;

	qsort(values, (size_t)n, sizeof(*values), cmp_u64);
	middle_ns = values[n / 2];
	return (double)middle_ns / 1000;
}

static void inject_measure(pid_t pid, struct inject_stats *stats)
{
	struct wprof_why why;
	int uffd;

	if (inject_uffd(pid, NULL, &uffd, stats, &why)) {
		fprintf(stderr, "inject_stop: %s\n", why.text);
		exit(1);
	}
	close(uffd);
}

static bool scene_run(const struct scene *scene, int rounds)
{
	static uint64_t stopped[ROUNDS_MAX], changed[ROUNDS_MAX], empty[ROUNDS_MAX],
		others[ROUNDS_MAX];
	const pid_t pid = target_start(scene);
	struct inject_stats stats;
	double ratio, stop_us, empty_us;

	for (int i = 0; i < rounds; i++) {
		inject_measure(pid, &stats);
		stopped[i] = stats.stopped_ns;
		changed[i] = stats.changed_ns;
		others[i] = stats.visited_ns;
		empty[i] = empty_measure(stats.tid);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	stop_us = median_us(stopped, rounds);
	empty_us = median_us(empty, rounds);
	ratio = stop_us / empty_us;
	printf("%-32s %10.1f %10.1f %10.1f %10.1f %8.2f  %s\n", scene->name, stop_us,
	       median_us(changed, rounds), median_us(others, rounds), empty_us, ratio,
	       ratio <= TARGET_RATIO ? "met" : "missed");
	fflush(stdout);
	return ratio <= TARGET_RATIO;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS_DEFAULT;
	int missed = 0;

	if (argc == 3 && !strcmp(argv[1], "--empty"))
		return empty_stop(atoi(argv[2]));
	if (argc > 2 || rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: inject_stop [ROUNDS]\n");
		return 2;
	}
	printf("time a target is stopped by an injection, medians of %d, us; target: at most %.0f "
	       "times an empty stop\n\n",
	       rounds, TARGET_RATIO);
	printf("%-32s %10s %10s %10s %10s %8s\n", "target", "stopped", "changed", "others", "empty",
	       "ratio");
	for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++)
		missed += !scene_run(&scenes[i], rounds);
	printf("\nchanged: the part in which killing wprof-inject kills the target\n"
	       "others: other running threads stop once, to be in no fork; the longest of them\n");
	return missed ? 1 : 0;
}
