/*
 * Targets with threads: the same code everywhere, many of them, threads that
 * come and go, forks, exec.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include "tests/inject_common.h"

#define N_THREADS    64
#define MORE_THREADS 600 /* than the 512 of others */

static struct shared *threads_shared;

/* the same code and the same calls in all: a patched page would show */
static void *same_code(void *arg)
{
	atomic_long *counter = arg;

	while (!atomic_load(&threads_shared->stop)) {
		CHILD_REQUIRE(syscall(SYS_getppid) > 0);
		CHILD_REQUIRE(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &(struct timespec){ 0 }) ==
			      0);
		atomic_fetch_add(counter, 1);
	}
	return NULL;
}

static void threads_run(struct shared *shared, void *(*body)(void *), int n)
{
	pthread_t threads[N_THREADS];

	threads_shared = shared;
	for (int i = 0; i < n; i++)
		CHILD_REQUIRE(!pthread_create(&threads[i], NULL, body, &shared->counts[i]));
	atomic_store(&shared->ready, 1);
	for (int i = 0; i < n; i++)
		CHILD_REQUIRE(!pthread_join(threads[i], NULL));
}

static void body_same_code(struct shared *shared)
{
	threads_run(shared, same_code, 4);
}

INJECT_CASE(threads__same_code, "Threads that run the vDSO and system calls all the time")
{
	struct target t = target_start(body_same_code);
	int rounds = rounds_of(tc, 50, 15);

	target_wait(&t, 1);
	for (int i = 0; i < rounds; i++)
		inject_ok(&t);
	for (int i = 0; i < 4; i++)
		count_runs(&t.shared->counts[i]);
	target_finish(&t);
}

static void *sleeper(void *arg)
{
	(void)arg;
	while (!atomic_load(&threads_shared->stop))
		pause_ms(20);
	return NULL;
}

static void body_sleepers(struct shared *shared)
{
	threads_run(shared, sleeper, N_THREADS);
}

INJECT_CASE(threads__many, "A target with 64 sleeping threads")
{
	struct target t = target_start(body_sleepers);

	target_wait(&t, 1);
	for (int i = 0; i < 20; i++)
		inject_ok(&t);
	target_finish(&t);
}

static void *naps(void *arg)
{
	(void)arg;
	while (!atomic_load(&threads_shared->stop))
		pause_ms(500);
	return NULL;
}

static void body_more(struct shared *shared)
{
	static pthread_t threads[MORE_THREADS];
	pthread_attr_t small;

	threads_shared = shared;
	CHILD_REQUIRE(!pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, 65536));
	for (int i = 0; i < MORE_THREADS; i++)
		CHILD_REQUIRE(!pthread_create(&threads[i], &small, naps, NULL));
	atomic_store(&shared->ready, 1);
	for (int i = 0; i < MORE_THREADS; i++)
		CHILD_REQUIRE(!pthread_join(threads[i], NULL));
}

INJECT_CASE(threads__six_hundred, "A target with more threads than any list has room for")
{
	struct target t = target_start(body_more);

	target_wait(&t, 1);
	for (int i = 0; i < 3; i++)
		inject_ok(&t);
	target_finish(&t);
}

static void body_busy(struct shared *shared)
{
	threads_run(shared, same_code, 16);
}

INJECT_CASE(threads__all_busy, "A target with 16 threads that never sleep, on few processors")
{
	struct target t = target_start(body_busy);

	target_wait(&t, 1);
	for (int i = 0; i < 3; i++)
		inject_ok(&t);
	target_finish(&t);
}

static void *ends_at_once(void *arg)
{
	atomic_fetch_add((atomic_long *)arg, 1);
	return NULL;
}

static void body_come_and_go(struct shared *shared)
{
	pthread_t threads[4];

	atomic_store(&shared->ready, 1);
	while (!atomic_load(&shared->stop)) {
		for (int i = 0; i < 4; i++)
			CHILD_REQUIRE(!pthread_create(&threads[i], NULL, ends_at_once,
						      &shared->counts[0]));
		for (int i = 0; i < 4; i++)
			CHILD_REQUIRE(!pthread_join(threads[i], NULL));
	}
}

INJECT_CASE(threads__come_and_go, "Threads are created and end while it is injected")
{
	struct target t = target_start(body_come_and_go);
	int rounds = rounds_of(tc, 100, 20);

	target_wait(&t, 1);
	for (int i = 0; i < rounds; i++)
		inject_ok(&t);
	target_finish(&t);
}

static void *outlives_leader(void *arg)
{
	(void)arg;
	while (*status_of(getpid(), getpid(), "State") != 'Z')
		sched_yield();
	body_spin(threads_shared);
	_exit(0);
}

static void body_leader_ends(struct shared *shared)
{
	pthread_t thread;

	threads_shared = shared;
	CHILD_REQUIRE(!pthread_create(&thread, NULL, outlives_leader, NULL));
	pthread_exit(NULL);
}

/* The leader's descriptors are gone by then: those of a thread are asked for. */
INJECT_CASE(threads__leader_gone, "A target whose main thread has ended")
{
	struct target t = target_start(body_leader_ends);

	target_wait(&t, 1);
	for (int i = 0; i < 5; i++)
		ATF_CHECK(inject_ok(&t).tid != t.pid);
	target_finish(&t);
}

/* ---- forks ------------------------------------------------------------------------ */

enum { N_FORKS, N_COPIES, N_BEGUN, N_OVER };

/*
 * A child that looks for the descriptor in its own table, once the injections
 * that had begun when it was born are over.
 */
static void forked_child(struct shared *shared)
{
	long begun = atomic_load(&shared->counts[N_BEGUN]);

	CHILD_REQUIRE(!prctl(PR_SET_PDEATHSIG, SIGKILL));
	while (atomic_load(&shared->counts[N_OVER]) < begun)
		pause_ms(1);
	if (count_uffds(getpid()))
		atomic_fetch_add(&shared->counts[N_COPIES], 1);
	_exit(0);
}

static void *forker(void *arg)
{
	(void)arg;
	while (!atomic_load(&threads_shared->stop)) {
		pid_t child = fork();

		CHILD_REQUIRE(child >= 0);
		if (!child)
			forked_child(threads_shared);
		atomic_fetch_add(&threads_shared->counts[N_FORKS], 1);
		if (atomic_load(&threads_shared->counts[N_FORKS]) % 8 == 0)
			while (waitpid(-1, NULL, 0) > 0)
				;
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
	return NULL;
}

static void body_forks(struct shared *shared)
{
	const size_t size = 32 << 20; /* to be copied: forks that take a while */
	char *memory = malloc(size);

	CHILD_REQUIRE(memory);
	memset(memory, 1, size);
	threads_run(shared, forker, 2);
	free(memory);
}

INJECT_CASE(forks__no_copy, "Children forked during an injection hold no descriptor after it")
{
	struct target t = target_start(body_forks);
	/* with one emulated processor it may never do */
	const int rounds = rounds_of(tc, 150, 30), usual = rounds_of(tc, 150, 0);
	uint32_t n_closed = 0;

	target_wait(&t, 1);
	/* until a fork met the window at least once */
	for (int i = 0; i < rounds || (i < 20 * usual && !n_closed); i++) {
		atomic_fetch_add(&t.shared->counts[N_BEGUN], 1);
		n_closed += inject_ok(&t).n_children;
		atomic_fetch_add(&t.shared->counts[N_OVER], 1);
	}
	target_finish(&t);
	ATF_CHECK(atomic_load(&t.shared->counts[N_FORKS]) > 0);
	ATF_CHECK_EQ(0, atomic_load(&t.shared->counts[N_COPIES]));
	ATF_CHECK(n_closed > 0 || !usual);
	printf("%ld forks, closed in %u children\n", atomic_load(&t.shared->counts[N_FORKS]),
	       n_closed);
}

/* ---- exec ------------------------------------------------------------------------- */

/*
 * A shell that replaces itself by itself, all the time: each exec ends the memory
 * we look at and moves the vDSO.
 */
static void body_execs(struct shared *shared)
{
	static const char script[] =
		"n=$1; [ -e \"$2\" ] && exit 0; exec sh -c \"$0\" \"$0\" $((n + 1)) \"$2\"";

	atomic_store(&shared->ready, 1);
	execl("/bin/sh", "sh", "-c", script, script, "0", "stop", (char *)NULL);
	CHILD_REQUIRE(!"exec");
}

INJECT_CASE(exec__meanwhile, "A target that execs all the time is injected or refused, not harmed")
{
	struct target t = target_start(body_execs);
	int rounds = rounds_of(tc, 200, 20);
	int good = 0;
	int fd;

	target_wait(&t, 1);
	for (int i = 0; i < rounds; i++) {
		struct wprof_why why;
		int uffd = -1;
		int err = inject_uffd(t.pid, NULL, &uffd, NULL, &why);

		ATF_CHECK_MSG(!err || err == -ESTALE || err == -EAGAIN, "%d: %s", err, why.text);
		good += !err;
		if (!err)
			close(uffd);
	}
	ATF_CHECK(good > 0);
	fd = open("stop", O_CREAT | O_WRONLY, 0600);
	ATF_REQUIRE(fd >= 0);
	close(fd);
	target_finish(&t);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, threads__same_code);
	ATF_TP_ADD_TC(tp, threads__many);
	ATF_TP_ADD_TC(tp, threads__six_hundred);
	ATF_TP_ADD_TC(tp, threads__all_busy);
	ATF_TP_ADD_TC(tp, threads__come_and_go);
	ATF_TP_ADD_TC(tp, threads__leader_gone);
	ATF_TP_ADD_TC(tp, forks__no_copy);
	ATF_TP_ADD_TC(tp, exec__meanwhile);
	return atf_no_error();
}
