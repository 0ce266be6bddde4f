/* The threads of a workload: started together, supervised until the end. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli.h"
#include "truth.h"
#include "workload.h"

#define NSEC 1e9

struct worker {
	struct workload *w;
	void (*body)(struct workload *w, unsigned int number);
	unsigned int number;
	pthread_t thread;
};

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
	left_ns = (double)w->start_ns + w->duration_s * NSEC - (double)workload_now_ns();
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
		free(workers);
		return CLI_FAILED;
	}
	start_workers(workers, w, body);
	workload_publish(w);
	supervise(w, signal_fd);
	for (unsigned int i = 0; i < w->threads; i++)
		pthread_join(workers[i].thread, NULL);
	truth_report(w, stdout);
	free(workers);
	return CLI_DONE;
}
