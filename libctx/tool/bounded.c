/*
 * Reading with a deadline.
 *
 * Theory of operation
 *
 * The kernel copies the memory of another process as if that process touched it.
 * Where it lies behind a userfaultfd that nobody serves, or in a file of a file
 * system that does not answer (FUSE), the copy waits, and nothing but a fatal
 * signal ends the wait: no handler runs meanwhile, no call has a timeout, and
 * what the memory is like cannot be asked before without a race. A process may
 * do that by accident, or to blind whoever looks at all processes.
 *
 * So each call runs in a thread of its own. When it is not back in time that
 * thread is left where it is, with all that it uses: the reader, the context. It
 * frees them if it ever comes back, as it does when the other process ends; the
 * end of the program ends it too, by the fatal signal that is the end of a
 * process for its threads. The kernel holds no lock of the other process during
 * the wait.
 *
 * A thread that is left costs its stack, and a descriptor or two. More than
 * STUCK_MAX at a time are not left: then every read is -ETIMEDOUT at once, until
 * one comes back.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "bounded.h"

#define STUCK_MAX 256

struct job {
	void (*run)(struct job *job);
	pid_t pid;
	struct pctx_reader_opts opts;
	struct pctx_reader *reader;
	struct pctx_context *context;
	bool changed;
	int rc;
	pthread_mutex_t lock;
	pthread_cond_t end;
	bool done;
	bool left; /* nobody waits any more: the thread frees it */
};

static atomic_int n_stuck;

/* ---- what is run ----------------------------------------------------------------- */

static void run_read(struct job *job)
{
	job->rc = pctx_read(job->pid, &job->opts, &job->context);
}

static void run_detect(struct job *job)
{
	job->rc = pctx_detect(job->pid, &job->opts, &job->context);
}

static void run_reader_read(struct job *job)
{
	job->rc = pctx_reader_read(job->reader, &job->context);
}

static void run_reader_poll(struct job *job)
{
	job->rc = pctx_reader_poll(job->reader, &job->changed);
}

/* ---- the thread -------------------------------------------------------------------- */

static struct job *job_new(void (*run)(struct job *job))
{
	struct job *job = calloc(1, sizeof(*job));
	pthread_condattr_t clock;

	if (!job)
		return NULL;
	job->run = run;
	pthread_mutex_init(&job->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&job->end, &clock);
	pthread_condattr_destroy(&clock);
	return job;
}

static void job_free(struct job *job)
{
	pthread_cond_destroy(&job->end);
	pthread_mutex_destroy(&job->lock);
	free(job);
}

static void *job_thread(void *arg)
{
	struct job *job = arg;
	bool left;

	job->run(job);
	pthread_mutex_lock(&job->lock);
	job->done = true;
	left = job->left;
	/* under the lock: who waits frees the job as soon as it has that */
	pthread_cond_signal(&job->end);
	pthread_mutex_unlock(&job->lock);
	if (left) {
		if (!job->rc)
			pctx_context_free(job->context);
		pctx_reader_close(job->reader);
		job_free(job);
		atomic_fetch_sub(&n_stuck, 1);
	}
	return NULL;
}

/* Wait for the end: false when it did not come, and the thread has the job. */
static bool job_wait(struct job *job)
{
	struct timespec until;
	bool done;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += BOUNDED_MS / 1000;
	pthread_mutex_lock(&job->lock);
	while (!job->done && pthread_cond_timedwait(&job->end, &job->lock, &until) != ETIMEDOUT)
		;
	done = job->done;
	job->left = !done;
	if (!done)
		atomic_fetch_add(&n_stuck, 1);
	pthread_mutex_unlock(&job->lock);
	return done;
}

/* 0 when it ran to its end; else nothing ran, or -ETIMEDOUT and the job is lost. */
static int job_run(struct job *job)
{
	sigset_t all, before;
	pthread_t thread;
	int rc;

	if (atomic_load(&n_stuck) >= STUCK_MAX)
		return -EBUSY;
	/* handlers are for the threads that are not stuck */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = -pthread_create(&thread, NULL, job_thread, job);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return rc;
	if (!job_wait(job)) {
		pthread_detach(thread);
		return -ETIMEDOUT;
	}
	pthread_join(thread, NULL);
	return 0;
}

/* ---- the calls ----------------------------------------------------------------------- */

static int once(void (*run)(struct job *job), pid_t pid, const struct pctx_reader_opts *opts,
		struct pctx_context **out)
{
	struct job *job = job_new(run);
	int rc;

	if (!job)
		return -ENOMEM;
	job->pid = pid;
	job->opts = *opts;
	rc = job_run(job);
	if (rc == -ETIMEDOUT)
		return rc;
	if (rc == 0)
		rc = job->rc;
	if (rc == 0)
		*out = job->context;
	job_free(job);
	return rc == -EBUSY ? -ETIMEDOUT : rc;
}

int bounded_read(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_context **out)
{
	return once(run_read, pid, opts, out);
}

int bounded_detect(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_context **out)
{
	return once(run_detect, pid, opts, out);
}

/* The job's result in @job, which is freed by the caller; NULL with an error. */
static int again(void (*run)(struct job *job), struct pctx_reader **reader, struct job **out)
{
	struct job *job = job_new(run);
	int rc;

	*out = NULL;
	if (!job)
		return -ENOMEM;
	job->reader = *reader;
	rc = job_run(job);
	if (rc == -ETIMEDOUT) {
		*reader = NULL;
		return rc;
	}
	if (rc == 0)
		rc = job->rc;
	*out = job;
	return rc == -EBUSY ? -EAGAIN : rc;
}

int bounded_reader_read(struct pctx_reader **reader, struct pctx_context **out)
{
	struct job *job;
	int rc = again(run_reader_read, reader, &job);

	if (rc == 0)
		*out = job->context;
	if (job)
		job_free(job);
	return rc;
}

int bounded_reader_poll(struct pctx_reader **reader, bool *changed)
{
	struct job *job;
	int rc = again(run_reader_poll, reader, &job);

	if (rc == 0)
		*changed = job->changed;
	if (job)
		job_free(job);
	return rc;
}
