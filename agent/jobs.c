/*
 * Jobs: work that may wait, taken in order by a few threads.
 *
 * Theory of operation
 * The one list has one lock. Whoever adds wakes one thread; each thread takes
 * the oldest job and runs it without the lock, so a job that hangs costs one
 * thread and no more. The list is bounded: what does not fit is refused at once,
 * and the caller says so to its client. A job whose client has stopped waiting
 * is answered without being run. At the end what is waiting still runs; a
 * thread ends when it finds the list empty and the end declared, both seen
 * under the lock. When the agent is killed the jobs are gone with their calls.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "jobs.h"

/* A process may lay its context where reading hangs, so one thread is too few. */
#define JOB_THREADS 4
#define JOBS_MAX    256

static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t jobs_more = PTHREAD_COND_INITIALIZER;
static pthread_t jobs_threads[JOB_THREADS];
static struct job *jobs_first, **jobs_last = &jobs_first;
static size_t n_jobs;
static bool jobs_over;

static struct job *jobs_take(void)
{
	struct job *job;

	pthread_mutex_lock(&jobs_lock);
	while (!jobs_first && !jobs_over)
		pthread_cond_wait(&jobs_more, &jobs_lock);
	job = jobs_first;
	if (job) {
		jobs_first = job->next;
		if (!jobs_first)
			jobs_last = &jobs_first;
		n_jobs--;
	}
	pthread_mutex_unlock(&jobs_lock);
	return job;
}

static void *jobs_main(void *arg)
{
	struct job *job;

	while ((job = jobs_take())) {
		if (rpc_expired(job->rpc)) {
			rpc_fail(job->rpc, RPC_DEADLINE_EXCEEDED, "too late when its turn came");
			free(job);
		} else {
			job->run(job);
		}
	}
	return arg;
}

int jobs_open(void)
{
	for (size_t i = 0; i < JOB_THREADS; i++) {
		int error = pthread_create(&jobs_threads[i], NULL, jobs_main, NULL);

		if (error)
			return -error;
	}
	return 0;
}

int jobs_post(struct job *job)
{
	int rc = -EAGAIN;

	job->next = NULL;
	pthread_mutex_lock(&jobs_lock);
	if (n_jobs < JOBS_MAX) {
		*jobs_last = job;
		jobs_last = &job->next;
		n_jobs++;
		pthread_cond_signal(&jobs_more);
		rc = 0;
	}
	pthread_mutex_unlock(&jobs_lock);
	return rc;
}

void jobs_close(void)
{
	pthread_mutex_lock(&jobs_lock);
	jobs_over = true;
	pthread_cond_broadcast(&jobs_more);
	pthread_mutex_unlock(&jobs_lock);
	for (size_t i = 0; i < JOB_THREADS; i++)
		pthread_join(jobs_threads[i], NULL);
}
