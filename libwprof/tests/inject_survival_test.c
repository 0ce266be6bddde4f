/*
 * Survival: a target with threads that compute, sleep and take signals, over
 * many injections; and callers that are killed at any moment. `make check` runs
 * a short version; with the variable soak=true it is 10,000 injections and 1,000
 * kills.
 */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "tests/inject_common.h"
#include "uapi.h"

#define N_WORKERS 2
#define N_RT	  4  /* real-time signals in use */
#define BURST	  16 /* sent before the receiver is waited for */

/* places in counts */
enum { SEEN = 0, UNORDERED = 8, ROUNDS = 16, WRONG = 32, EINTRS = 40, SENT = 48 };

static struct shared *self;
static uint64_t expected;

static long soak(const atf_tc_t *tc, long in_check, long in_soak)
{
	return atf_tc_get_config_var_as_bool_wd(tc, "soak", false) ? in_soak : in_check;
}

static void on_rt(int sig, siginfo_t *info, void *context)
{
	const int n = sig - SIGRTMIN;
	const long seen = atomic_fetch_add(&self->counts[SEEN + n], 1);

	(void)context;
	if (info->si_value.sival_int != (int)seen)
		atomic_fetch_add(&self->counts[UNORDERED + n], 1);
}

/* work with a known result: registers, memory and floating point take part */
static uint64_t work(void)
{
	uint64_t x = 88172645463325252ull;
	uint64_t buf[512];
	double sum = 0;

	for (int i = 0; i < 512; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		buf[i] = x;
		sum += (double)(x >> 40);
	}
	for (int i = 0; i < 512; i++)
		x += buf[i] * (uint64_t)(i + 1);
	return x ^ (uint64_t)sum;
}

static void *worker(void *arg)
{
	const long n = (long)arg;

	while (!atomic_load(&self->stop)) {
		if (work() != expected)
			atomic_fetch_add(&self->counts[WRONG], 1);
		atomic_fetch_add(&self->counts[ROUNDS + n], 1);
	}
	return NULL;
}

/* SA_RESTART does not help epoll_wait and nanosleep: signals are blocked here */
static void *waiter(void *arg)
{
	struct epoll_event event;
	int ep = epoll_create1(0);
	long ns = 0;

	(void)arg;
	while (!atomic_load(&self->stop)) {
		struct timespec ts = { 0, ns = (ns + 70000) % 1000000 };

		if (epoll_wait(ep, &event, 1, 1) < 0 || nanosleep(&ts, NULL))
			atomic_fetch_add(&self->counts[EINTRS], 1);
		atomic_fetch_add(&self->counts[ROUNDS + N_WORKERS], 1);
	}
	return NULL;
}

static void rt_mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < N_RT; i++)
		sigaddset(&set, SIGRTMIN + i);
	CHILD_REQUIRE(!pthread_sigmask(how, &set, NULL));
}

/* All are delivered to the main thread, which computes, too: in their order. */
static void body_service(struct shared *shared)
{
	struct sigaction sa = { .sa_sigaction = on_rt, .sa_flags = SA_SIGINFO | SA_RESTART };
	pthread_t threads[N_WORKERS];

	self = shared;
	expected = work();
	rt_mask(SIG_BLOCK);
	for (int i = 0; i < N_RT; i++)
		CHILD_REQUIRE(!sigaction(SIGRTMIN + i, &sa, NULL));
	CHILD_REQUIRE(!pthread_create(&threads[0], NULL, waiter, NULL));
	for (long i = 1; i < N_WORKERS; i++)
		CHILD_REQUIRE(!pthread_create(&threads[i], NULL, worker, (void *)i));
	rt_mask(SIG_UNBLOCK);
	atomic_store(&shared->ready, 1);
	worker((void *)0);
	for (int i = 0; i < N_WORKERS; i++)
		CHILD_REQUIRE(!pthread_join(threads[i], NULL));
}

/* a storm until told to end; queued signals are limited, so wait now and then */
static pid_t storm_start(const struct target *t)
{
	struct shared *s = t->shared;
	pid_t pid = fork();

	ATF_REQUIRE(pid >= 0);
	if (pid)
		return pid;
	while (!atomic_load(&s->counts[SENT + N_RT])) {
		for (int i = 0; i < BURST * N_RT; i++) {
			const int n = i % N_RT;
			const union sigval value = { .sival_int = (int)s->counts[SENT + n] };

			CHILD_REQUIRE(!sigqueue(t->pid, SIGRTMIN + n, value));
			atomic_fetch_add(&s->counts[SENT + n], 1);
		}
		for (int n = 0; n < N_RT; n++)
			while (atomic_load(&s->counts[SEEN + n]) < s->counts[SENT + n] - 2)
				sched_yield();
		pause_ms(1);
	}
	_exit(0);
}

static void storm_end(const struct target *t, pid_t sender)
{
	int status;

	atomic_store(&t->shared->counts[SENT + N_RT], 1);
	ATF_REQUIRE_EQ(sender, waitpid(sender, &status, 0));
	ATF_REQUIRE_EQ(0, status);
	for (int n = 0; n < N_RT; n++)
		while (atomic_load(&t->shared->counts[SEEN + n]) < t->shared->counts[SENT + n])
			sched_yield();
}

static void service_check(const struct target *t)
{
	const struct shared *s = t->shared;

	for (int n = 0; n < N_RT; n++) {
		ATF_CHECK_EQ(s->counts[SENT + n], s->counts[SEEN + n]);
		ATF_CHECK_EQ(0, s->counts[UNORDERED + n]);
		ATF_CHECK(s->counts[SENT + n] > 0);
	}
	ATF_CHECK_EQ(0, s->counts[WRONG]);
	ATF_CHECK_EQ(0, s->counts[EINTRS]);
}

ATF_TC(service__storm);
ATF_TC_HEAD(service__storm, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Injections into a threaded, signalled target: no signal "
			  "lost or doubled, no EINTR, all results right");
	atf_tc_set_md_var(tc, "timeout", "3600");
}
ATF_TC_BODY(service__storm, tc)
{
	const long n = soak(tc, 300, 10000);
	struct target t = target_start(body_service);
	pid_t sender;

	target_wait(&t, 1);
	sender = storm_start(&t);
	for (long i = 0; i < n; i++)
		inject_ok(&t);
	storm_end(&t, sender);
	for (int i = 0; i <= N_WORKERS; i++)
		count_runs(&t.shared->counts[ROUNDS + i]);
	target_finish(&t);
	service_check(&t);
	printf("%ld injections, %ld signals each of %d\n", n, t.shared->counts[SENT], N_RT);
}

/* ---- callers that are killed --------------------------------------------------------- */

/* printed, so that a run can be repeated by -v seed=N */
static unsigned int seed_of(const atf_tc_t *tc)
{
	const long seed = atf_tc_get_config_var_as_long_wd(tc, "seed", (long)time(NULL));

	printf("seed %ld\n", seed);
	fflush(stdout);
	return (unsigned int)seed;
}

/* at the same address in the target, which was forked from here */
static char arena[1 << 20] __attribute__((aligned(4096)));

/* injects and registers memory over and over, until it is killed */
static void caller_registers(pid_t target)
{
	for (;;) {
		struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };
		struct uffdio_register reg = {
			.range = { (uintptr_t)arena, sizeof(arena) },
			.mode = UFFDIO_REGISTER_MODE_WP,
		};
		int uffd = -1;

		CHILD_REQUIRE(!inject_uffd(target, NULL, &uffd, NULL, NULL));
		CHILD_REQUIRE(!ioctl(uffd, UFFDIO_API, &api));
		CHILD_REQUIRE(!ioctl(uffd, UFFDIO_REGISTER, &reg));
		close(uffd);
	}
}

/* profiles, until it is killed: setting up, scanning, pausing, ending */
static void caller_profiles(pid_t target)
{
	const struct wprof_interval *iv;
	struct wprof *w;

	for (;;) {
		CHILD_REQUIRE(!wprof_open(target, NULL, &w, NULL));
		for (int i = 0; i < 20; i++)
			CHILD_REQUIRE(!wprof_sample(w, &iv));
		CHILD_REQUIRE(!wprof_pause(w));
		CHILD_REQUIRE(!wprof_resume(w));
		wprof_close(w);
	}
}

/*
 * An injector that its caller left behind comes to its end by itself, and, this
 * program being the one that orphans go to, as its child.
 */
static void wait_orphans(pid_t target)
{
	char path[64];
	bool found;
	int status;
	FILE *f;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	do {
		found = false;
		f = fopen(path, "re");
		ATF_REQUIRE(f);
		while (fscanf(f, "%d", &pid) == 1)
			if (pid != target) {
				found = true;
				ATF_REQUIRE_EQ(pid, waitpid(pid, &status, 0));
			}
		fclose(f);
	} while (found);
}

/* in smaps: memory that some userfaultfd watches */
static bool is_registered(pid_t pid)
{
	char line[1024];
	char path[64];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	f = fopen(path, "re");
	ATF_REQUIRE(f);
	while (fgets(line, sizeof(line), f))
		found |= !strncmp(line, "VmFlags:", 8) && strstr(line, " uw");
	fclose(f);
	return found;
}

ATF_TC(caller__killed);
ATF_TC_HEAD(caller__killed, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "SIGKILL of the caller at random moments: the target lives, "
			  "undisturbed, and nothing stays in it");
	atf_tc_set_md_var(tc, "timeout", "3600");
}
ATF_TC_BODY(caller__killed, tc)
{
	const long n = soak(tc, 50, 1000);
	unsigned int seed = seed_of(tc);
	struct target t = target_start(body_service);
	pid_t pid;
	int status;

	ATF_REQUIRE_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
	target_wait(&t, 1);
	for (long i = 0; i < n; i++) {
		struct timespec ts = { 0, 0 };

		pid = fork();
		ATF_REQUIRE(pid >= 0);
		if (!pid && i % 2)
			caller_profiles(t.pid);
		if (!pid)
			caller_registers(t.pid);
		ts.tv_nsec = rand_r(&seed) % (i % 2 ? 30000000 : 15000000);
		nanosleep(&ts, NULL);
		ATF_REQUIRE_EQ(0, kill(pid, SIGKILL));
		ATF_REQUIRE_EQ(pid, waitpid(pid, &status, 0));
		ATF_REQUIRE(WIFSIGNALED(status));
		wait_orphans(t.pid);
		ATF_REQUIRE_EQ_MSG(0, waitpid(t.pid, &status, WNOHANG), "after %ld kills", i + 1);
		ATF_REQUIRE_EQ(0, count_uffds(t.pid));
		ATF_REQUIRE(!is_registered(t.pid));
	}
	for (int i = 0; i <= N_WORKERS; i++)
		count_runs(&t.shared->counts[ROUNDS + i]);
	inject_ok(&t);
	target_finish(&t);
	ATF_CHECK_EQ(0, t.shared->counts[WRONG]);
	ATF_CHECK_EQ(0, t.shared->counts[EINTRS]);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, service__storm);
	ATF_TP_ADD_TC(tp, caller__killed);
	return atf_no_error();
}
