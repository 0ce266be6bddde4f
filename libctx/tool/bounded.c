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
 * process for its threads. But a file system that took the request and does not
 * answer makes even that wait: so programs read in a child (deputy.h), or cannot
 * end for so long. The kernel holds no lock of the other process during the wait.
 *
 * Threads that are left are remembered. A process that has one is not asked again:
 * that is -ETIMEDOUT as soon as the deadline of that one is over. So a program that
 * lives long and looks at all processes again and again leaves one thread for each
 * of those that do not answer, and waits for them once. As the process may have
 * executed another program since, it is asked again once a minute, until it has
 * cost LEFT_EACH threads. While one is left its process lives, so its number means
 * no other.
 *
 * A pass over all processes would still wait for one deadline after the other. So
 * when for the first time one keeps it waiting for SLOW_MS, it looks ahead: it
 * begins to read all those to come, waits for each a moment only, and drops what
 * was read, so that memory holds one context at a time. Those that did not come
 * back are left, and known when the pass gets to them. A process that answers
 * then and not later is up to no good: each one of these halves what the pass
 * waits for the next, so that all of them together cost two deadlines.
 *
 * A thread that is left costs its stack, and a descriptor or two. More than
 * LEFT_MAX at a time are not left: then every read is -ETIMEDOUT at once, until
 * one comes back. Looking ahead takes no more than half of them.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bounded.h"
#include "cli.h"

#define LEFT_MAX    256
#define LEFT_EACH   4
#define AGAIN_MS    60000
#define SLOW_MS	    100 /* many times what any read should take */
#define AHEAD_MS    20	/* the same, when it costs nothing to be wrong */
#define STACK_BYTES (1024u * 1024u)

struct job {
	void (*run)(struct job *job);
	pid_t pid;
	struct pctx_reader_opts opts;
	struct pctx_reader *reader;
	struct pctx_context *context;
	bool changed;
	int rc;
	pthread_t thread;
	int64_t until_ms; /* its deadline */
	bool done;
	bool left;	  /* nobody waits any more: the thread frees it */
	struct job *next; /* among those left, the newest first */
};

/* One lock for all jobs' ends, and for those that are left. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some_end;
static pthread_once_t once_only = PTHREAD_ONCE_INIT;
static struct job *left_first;
static unsigned int n_left;

static void init(void)
{
	pthread_condattr_t clock;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&some_end, &clock);
	pthread_condattr_destroy(&clock);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Wait for the end of some job, with the lock; false when it is @until_ms. */
static bool wait_some(int64_t until_ms)
{
	struct timespec until = { (time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000 };

	return pthread_cond_timedwait(&some_end, &lock, &until) != ETIMEDOUT;
}

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

/* ---- those that are left ----------------------------------------------------------- */

static void left_add(struct job *job)
{
	job->left = true;
	job->next = left_first;
	left_first = job;
	n_left++;
}

static void left_remove(const struct job *job)
{
	struct job **at = &left_first;

	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	n_left--;
}

static bool same_procfs(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* The next from @job on that waits for the same memory as @of would. */
static struct job *left_like(struct job *job, const struct job *of)
{
	while (job && (job->pid != of->pid || (job->run == run_detect) != (of->run == run_detect) ||
		       !same_procfs(job->opts.procfs, of->opts.procfs)))
		job = job->next;
	return job;
}

/* Has @of's process cost its share of threads, or one in the last minute? */
static bool left_counts(struct job *newest, const struct job *of)
{
	unsigned int n = 0;

	for (struct job *job = newest; job; job = left_like(job->next, of))
		n++;
	return n >= LEFT_EACH || (n && now_ms() < newest->until_ms + AGAIN_MS);
}

/* Is it known not to answer, or will be when the one that asks already is over? */
static bool is_silent(const struct job *of)
{
	struct job *newest;
	bool silent;

	pthread_mutex_lock(&lock);
	while ((newest = left_like(left_first, of)) && now_ms() < newest->until_ms &&
	       wait_some(newest->until_ms))
		;
	/* it may have come to its end while this one waited */
	newest = left_like(left_first, of);
	silent = left_counts(newest, of);
	pthread_mutex_unlock(&lock);
	return silent;
}

static unsigned int left_number(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = n_left;
	pthread_mutex_unlock(&lock);
	return n;
}

bool bounded_left(void)
{
	return left_number() > 0;
}

/* ---- the thread -------------------------------------------------------------------- */

static struct job *job_new(void (*run)(struct job *job), pid_t pid,
			   const struct pctx_reader_opts *opts)
{
	struct job *job = calloc(1, sizeof(*job));

	pthread_once(&once_only, init);
	if (!job)
		return NULL;
	job->run = run;
	job->pid = pid;
	job->opts = *opts;
	return job;
}

/* With what it got and nobody wants. */
static void job_drop(struct job *job)
{
	if (!job->rc)
		pctx_context_free(job->context);
	pctx_reader_close(job->reader);
	free(job);
}

static void *job_thread(void *arg)
{
	struct job *job = arg;
	bool left;

	job->run(job);
	pthread_mutex_lock(&lock);
	job->done = true;
	left = job->left;
	if (left)
		left_remove(job);
	/* under the lock: who waits frees the job as soon as it has that */
	pthread_cond_broadcast(&some_end);
	pthread_mutex_unlock(&lock);
	if (left)
		job_drop(job);
	return NULL;
}

static int thread_start(struct job *job)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int rc = -pthread_attr_init(&attr);

	if (rc)
		return rc;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	/* handlers are for the threads that are not left */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = -pthread_create(&job->thread, &attr, job_thread, job);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

/* 0, -EBUSY when too many are left, -ENOMEM; with an error nothing runs. */
static int job_start(struct job *job)
{
	if (left_number() >= LEFT_MAX)
		return -EBUSY;
	job->until_ms = now_ms() + BOUNDED_MS;
	return thread_start(job) ? -ENOMEM : 0;
}

/* Has it ended, or does until @until_ms? */
static bool job_ends(struct job *job, int64_t until_ms)
{
	bool done;

	pthread_mutex_lock(&lock);
	while (!job->done && wait_some(until_ms))
		;
	done = job->done;
	pthread_mutex_unlock(&lock);
	return done;
}

/* Leave it if it has not ended: then false, and the thread has the job. */
static bool job_finish(struct job *job)
{
	pthread_t thread = job->thread;
	bool done;

	pthread_mutex_lock(&lock);
	done = job->done;
	if (!done)
		left_add(job);
	pthread_mutex_unlock(&lock);
	if (done)
		pthread_join(thread, NULL);
	else
		pthread_detach(thread);
	return done;
}

/* ---- a pass ------------------------------------------------------------------------- */

/* Does somebody wait for it already, or has in vain? */
static bool is_waited_for(const struct job *of)
{
	bool waited;

	pthread_mutex_lock(&lock);
	waited = left_like(left_first, of) != NULL;
	pthread_mutex_unlock(&lock);
	return waited;
}

static void ahead_one(pid_t pid, const struct pctx_reader_opts *opts)
{
	struct job *job = job_new(run_read, pid, opts);

	if (!job)
		return;
	if (is_waited_for(job) || job_start(job)) {
		free(job);
		return;
	}
	(void)job_ends(job, now_ms() + AHEAD_MS);
	if (job_finish(job))
		job_drop(job);
}

/* While @first keeps the pass waiting: see which of those to come would do so too. */
static void look_ahead(struct job *first)
{
	const struct pctx_reader_opts *opts = &first->opts;
	DIR *dir = opendir(opts->procfs ? opts->procfs : "/proc");
	struct dirent *entry;
	pid_t pid;

	while (dir && (entry = readdir(dir)) && left_number() < LEFT_MAX / 2 &&
	       !job_ends(first, now_ms())) {
		if (cli_pid(entry->d_name, &pid) && pid > first->pid)
			ahead_one(pid, opts);
	}
	if (dir)
		closedir(dir);
}

static int64_t patience_ms(const struct bounded_pass *pass)
{
	unsigned int halvings = pass->n_misses < 5 ? pass->n_misses : 5;

	return BOUNDED_MS >> halvings;
}

/* Wait for a job that is part of a pass, to its deadline at most. */
static void pass_wait(struct bounded_pass *pass, struct job *job)
{
	int64_t begun_ms = job->until_ms - BOUNDED_MS;
	bool knew = pass->looked_ahead;

	if (!knew && !job_ends(job, begun_ms + SLOW_MS)) {
		pass->looked_ahead = true;
		look_ahead(job);
	}
	if (!job_ends(job, begun_ms + patience_ms(pass)) && knew)
		pass->n_misses++;
}

/* ---- the calls ----------------------------------------------------------------------- */

/* 0 when it ran to its end, else nothing ran but with -ETIMEDOUT, where *@job is lost. */
static int job_run(struct job **job)
{
	struct bounded_pass *pass = (*job)->opts.read_arg;
	int rc;

	if (is_silent(*job)) {
		job_drop(*job);
		*job = NULL;
		return -ETIMEDOUT;
	}
	rc = job_start(*job);
	if (rc)
		return rc;
	if (pass)
		pass_wait(pass, *job);
	else
		(void)job_ends(*job, (*job)->until_ms);
	if (job_finish(*job))
		return 0;
	*job = NULL;
	return -ETIMEDOUT;
}

static int once(void (*run)(struct job *job), pid_t pid, const struct pctx_reader_opts *opts,
		struct pctx_context **out)
{
	struct job *job = job_new(run, pid, opts);
	int rc;

	if (!job)
		return -ENOMEM;
	rc = job_run(&job);
	if (rc == 0)
		rc = job->rc;
	if (rc == 0)
		*out = job->context;
	free(job);
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

/* Its result is in *@out, to be freed by the caller; NULL when there is none. */
static int again(struct job *job, struct pctx_reader **reader, struct job **out)
{
	int rc;

	*out = job;
	if (!job)
		return -ENOMEM;
	job->reader = *reader;
	rc = job_run(out);
	if (rc == 0)
		return (*out)->rc;
	if (rc == -ETIMEDOUT)
		*reader = NULL;
	return rc == -EBUSY ? -EAGAIN : rc;
}

int bounded_reader_read(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_reader **reader,
			struct pctx_context **out)
{
	struct job *job;
	int rc = again(job_new(run_reader_read, pid, opts), reader, &job);

	if (rc == 0)
		*out = job->context;
	free(job);
	return rc;
}

int bounded_reader_poll(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_reader **reader,
			bool *changed)
{
	struct job *job;
	int rc = again(job_new(run_reader_poll, pid, opts), reader, &job);

	if (rc == 0)
		*changed = job->changed;
	free(job);
	return rc;
}
