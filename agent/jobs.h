/* jobs.h - work that may block, done by a few threads. */
#ifndef AGENT_JOBS_H
#define AGENT_JOBS_H

#include "rpc.h"

/** struct job - embedded in what the work is about */
struct job {
	struct job *next;
	struct rpc *rpc;	      /* whose answer is awaited */
	void (*run)(struct job *job); /* answers, or hands on; frees the job */
};

/** jobs_open() - start the threads. 0 or -errno */
int jobs_open(void);

/**
 * jobs_post() - have @job run
 *
 * A job whose caller's deadline is over when its turn comes is answered and
 * freed without being run, so @job must come from malloc.
 *
 * Return: 0, or -EAGAIN: too many are waiting, nothing was taken.
 */
int jobs_post(struct job *job);

/** jobs_close() - run what is waiting, end the threads */
void jobs_close(void);

#endif /* AGENT_JOBS_H */
