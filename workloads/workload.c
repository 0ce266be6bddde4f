#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "options.h"
#include "pctx.h"
#include "truth.h"
#include "workload.h"

#define NSEC 1000000000ull

struct worker {
	struct workload *w;
	void (*body)(struct workload *w, unsigned int number);
	unsigned int number;
	pthread_t thread;
};

uint64_t workload_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NSEC + (uint64_t)t.tv_nsec;
}

/* A random id for service.instance.id; the kernel makes a proper version 4 UUID. */
static void instance_id(char id[37])
{
	FILE *f = fopen("/proc/sys/kernel/random/uuid", "re");

	if (!f || fread(id, 1, 36, f) != 36)
		snprintf(id, 37, "pid-%d", (int)getpid());
	else
		id[36] = '\0';
	if (f)
		fclose(f);
}

static void publish(const struct workload *w)
{
	char id[37];
	int err;

	instance_id(id);
	const struct pctx_attr resource[] = {
		pctx_string("service.name", w->service),
		pctx_string("service.version", PROCSCOPE_VERSION),
		pctx_string("service.instance.id", id),
		pctx_int("process.pid", getpid()),
	};
	const struct pctx_publish_opts opts = {
		.size = sizeof(opts),
		.resource = resource,
		.n_resource = sizeof(resource) / sizeof(*resource),
	};

	err = pctx_publish(&opts);
	/* -EEXIST: `pctx run` has published for us, and that name is meant */
	if (err && err != -EEXIST) {
		cli_error("cannot publish the process context: %s", strerror(-err));
		exit(CLI_FAILED);
	}
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

static void *worker_main(void *arg)
{
	struct worker *self = arg;
	struct workload *w = self->w;
	eventfd_t token;

	while (eventfd_read(w->start_fd, &token) < 0 && errno == EINTR)
		;
	self->body(w, self->number);
	if (atomic_fetch_sub(&w->running, 1) == 1)
		eventfd_write(w->done_fd, 1);
	return NULL;
}

/* Milliseconds until the duration is over, for poll(); -1: for ever. */
static int wait_ms(const struct workload *w)
{
	double left_ns;

	if (!(w->duration_s > 0))
		return -1;
	left_ns = (double)w->start_ns + w->duration_s * (double)NSEC - (double)workload_now_ns();
	return left_ns > 0 ? (int)(left_ns / 1e6) + 1 : 0;
}

static void begin(struct workload *w)
{
	w->start_ns = workload_now_ns();
	eventfd_write(w->start_fd, w->threads);
}

/* Answer signals until the end. */
static void supervise(struct workload *w, int signal_fd)
{
	struct pollfd fds[] = { { .fd = signal_fd, .events = POLLIN },
				{ .fd = w->hold ? -1 : w->done_fd, .events = POLLIN } };
	bool begun = !w->hold;
	struct signalfd_siginfo info;

	if (begun)
		begin(w);
	for (;;) {
		int n = poll(fds, 2, begun ? wait_ms(w) : -1);

		if (n == 0 || (n > 0 && fds[1].revents))
			break;
		if (n < 0 || read(signal_fd, &info, sizeof(info)) != sizeof(info))
			continue;
		if (info.ssi_signo != SIGUSR1)
			break;
		if (begun)
			truth_report(w, stdout);
		else
			begin(w);
		begun = true;
	}
	atomic_store(&w->stop, true);
	if (!begun)
		begin(w);
}

static void start_workers(struct worker *workers, struct workload *w,
			  void (*body)(struct workload *w, unsigned int number))
{
	atomic_store(&w->running, w->threads);
	for (unsigned int i = 0; i < w->threads; i++) {
		workers[i] = (struct worker){ .w = w, .body = body, .number = i };
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i])) {
			cli_error("cannot start thread %u of %u: use fewer --threads", i + 1,
				  w->threads);
			exit(CLI_FAILED);
		}
	}
}

int workload_run(struct workload *w, void (*body)(struct workload *w, unsigned int number))
{
	struct worker *workers = calloc(w->threads, sizeof(*workers));
	sigset_t set;
	int signal_fd;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	w->done_fd = eventfd(0, EFD_CLOEXEC);
	w->start_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (!workers || signal_fd < 0 || w->done_fd < 0 || w->start_fd < 0) {
		cli_error("cannot start: %s", strerror(errno));
		return CLI_FAILED;
	}
	start_workers(workers, w, body);
	publish(w);
	supervise(w, signal_fd);
	for (unsigned int i = 0; i < w->threads; i++)
		pthread_join(workers[i].thread, NULL);
	truth_report(w, stdout);
	free(workers);
	return CLI_DONE;
}
