/*
 * Targets asleep in a system call: they must not see that they were stopped. A
 * call with a deadline ends at that deadline and not later; times are checked
 * only from below (it did not end early), as a loaded machine may be late.
 */
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "tests/inject_common.h"

#define SLEEP_MS     700
#define N_INJECTIONS 5

static long elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

/* injections while it sleeps; it checks for itself what it saw */
static struct inject_stats inject_asleep(void (*body)(struct shared *))
{
	struct target t = target_start(body);
	struct inject_stats stats = { 0 };
	struct timespec begun;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	target_wait(&t, 1);
	target_state(&t, 'S');
	/* as many as there is time for: an emulated processor may need a while for one */
	for (int i = 0; i < N_INJECTIONS && (!i || elapsed_ms(&begun) < SLEEP_MS / 2); i++) {
		stats = inject_ok(&t);
		pause_ms(10);
	}
	target_finish(&t);
	return stats;
}

static void body_nanosleep(struct shared *shared)
{
	struct timespec ts = { 0, SLEEP_MS * 1000000 }, start;

	clock_gettime(CLOCK_MONOTONIC, &start);
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(!nanosleep(&ts, NULL));
	CHILD_REQUIRE(elapsed_ms(&start) >= SLEEP_MS);
}

INJECT_CASE(nanosleep__unnoticed, "nanosleep sleeps to its end, over several injections")
{
	ATF_CHECK_EQ(0, inject_asleep(body_nanosleep).rewound);
}

static void body_absolute(struct shared *shared)
{
	struct timespec ts, start;

	clock_gettime(CLOCK_MONOTONIC, &start);
	ts = start;
	ts.tv_nsec += SLEEP_MS * 1000000;
	ts.tv_sec += ts.tv_nsec / 1000000000;
	ts.tv_nsec %= 1000000000;
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(!clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL));
	CHILD_REQUIRE(elapsed_ms(&start) >= SLEEP_MS);
}

INJECT_CASE(clock_nanosleep__unnoticed, "A sleep to a point in time ends then")
{
	ATF_CHECK_EQ(0, inject_asleep(body_absolute).rewound);
}

static void body_poll(struct shared *shared)
{
	struct timespec start;
	struct pollfd pfd;
	int fds[2];

	CHILD_REQUIRE(!pipe(fds));
	pfd = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	clock_gettime(CLOCK_MONOTONIC, &start);
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(poll(&pfd, 1, SLEEP_MS) == 0);
	CHILD_REQUIRE(elapsed_ms(&start) >= SLEEP_MS);
}

INJECT_CASE(poll__unnoticed, "poll times out when it should")
{
	ATF_CHECK_EQ(0, inject_asleep(body_poll).rewound);
}

static void body_futex(struct shared *shared)
{
	struct timespec ts = { 0, SLEEP_MS * 1000000 }, start;
	int word = 1;

	clock_gettime(CLOCK_MONOTONIC, &start);
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(syscall(SYS_futex, &word, FUTEX_WAIT, 1, &ts, NULL, 0) == -1);
	CHILD_REQUIRE(errno == ETIMEDOUT);
	CHILD_REQUIRE(elapsed_ms(&start) >= SLEEP_MS);
}

INJECT_CASE(futex__unnoticed, "A futex wait times out when it should")
{
	ATF_CHECK_EQ(0, inject_asleep(body_futex).rewound);
}

/* ---- calls without a deadline: the test ends them ------------------------------- */

static int channel[2];

static void body_read(struct shared *shared)
{
	char c = 0;

	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(read(channel[0], &c, 1) == 1);
	CHILD_REQUIRE(c == 'x');
}

INJECT_CASE(read__unnoticed, "read of a pipe gets what is written later")
{
	struct target t;

	ATF_REQUIRE_EQ(0, pipe(channel));
	t = target_start(body_read);
	target_wait(&t, 1);
	target_state(&t, 'S');
	for (int i = 0; i < N_INJECTIONS; i++)
		ATF_CHECK_EQ(0, inject_ok(&t).rewound);
	ATF_REQUIRE_EQ(1, write(channel[1], "x", 1));
	target_finish(&t);
}

/* SO_RCVTIMEO makes recv answer EINTR to every stop */
static void body_recv(struct shared *shared)
{
	struct timeval tv = { 20, 0 };
	char c;

	CHILD_REQUIRE(!setsockopt(channel[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(recv(channel[0], &c, 1, 0) == 1);
}

INJECT_CASE(recv__timeout_unnoticed, "recv on a socket with a timeout sees no EINTR")
{
	struct target t;

	ATF_REQUIRE_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, channel));
	t = target_start(body_recv);
	target_wait(&t, 1);
	target_state(&t, 'S');
	for (int i = 0; i < N_INJECTIONS; i++)
		inject_ok(&t);
	ATF_REQUIRE_EQ(1, write(channel[1], "x", 1));
	target_finish(&t);
}

static void body_epoll(struct shared *shared)
{
	struct epoll_event event = { .events = EPOLLIN };
	int ep = epoll_create1(0);

	CHILD_REQUIRE(!epoll_ctl(ep, EPOLL_CTL_ADD, channel[0], &event));
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(epoll_wait(ep, &event, 1, 20000) == 1);
}

INJECT_CASE(epoll__no_eintr, "epoll_wait of the only thread is restarted and sees no EINTR")
{
	struct target t;

	ATF_REQUIRE_EQ(0, pipe(channel));
	t = target_start(body_epoll);
	target_wait(&t, 1);
	for (int i = 0; i < N_INJECTIONS; i++) {
		target_state(&t, 'S');
		pause_ms(5);
		ATF_CHECK_EQ(1, inject_ok(&t).rewound);
	}
	ATF_REQUIRE_EQ(1, write(channel[1], "x", 1));
	target_finish(&t);
}

/* a handler must still end it: what the program would have seen without us */
static void on_signal(int sig)
{
	(void)sig;
}

static void body_epoll_signal(struct shared *shared)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct epoll_event event = { .events = EPOLLIN };
	int ep = epoll_create1(0);

	CHILD_REQUIRE(!sigaction(SIGUSR1, &sa, NULL));
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(epoll_wait(ep, &event, 1, 20000) == -1);
	CHILD_REQUIRE(errno == EINTR);
}

INJECT_CASE(epoll__signal_eintr, "A signal still ends a restarted epoll_wait with EINTR")
{
	struct target t = target_start(body_epoll_signal);

	target_wait(&t, 1);
	target_state(&t, 'S');
	inject_ok(&t);
	target_state(&t, 'S');
	ATF_REQUIRE_EQ(0, kill(t.pid, SIGUSR1));
	target_finish(&t);
}

#define N_MANY 100 /* more than are kept of those that were looked at */

static pthread_t many[N_MANY];

static void *epoll_thread(void *arg)
{
	body_epoll(arg);
	return NULL;
}

static void body_epoll_other(struct shared *shared)
{
	pthread_t thread;

	CHILD_REQUIRE(!pthread_create(&thread, NULL, epoll_thread, shared));
	CHILD_REQUIRE(!pthread_join(thread, NULL));
}

INJECT_CASE(epoll__other_thread, "Where another thread sleeps in a futex, that one is taken")
{
	struct inject_stats stats;
	struct target t;

	ATF_REQUIRE_EQ(0, pipe(channel));
	t = target_start(body_epoll_other);
	target_wait(&t, 1);
	target_state(&t, 'S');
	for (int i = 0; i < N_INJECTIONS; i++) {
		stats = inject_ok(&t);
		ATF_CHECK_EQ(0, stats.rewound);
		ATF_CHECK_EQ(t.pid, stats.tid);
	}
	ATF_REQUIRE_EQ(1, write(channel[1], "x", 1));
	target_finish(&t);
}

static void *join_thread(void *arg)
{
	struct shared *shared = arg;

	atomic_store(&shared->counts[0], gettid());
	CHILD_REQUIRE(!pthread_join(many[0], NULL));
	return NULL;
}

static void body_epoll_many(struct shared *shared)
{
	pthread_t last;

	for (int i = 0; i < N_MANY; i++)
		CHILD_REQUIRE(!pthread_create(&many[i], NULL, epoll_thread, shared));
	CHILD_REQUIRE(!pthread_create(&last, NULL, join_thread, shared));
	body_epoll(shared);
	for (int i = 1; i < N_MANY; i++)
		CHILD_REQUIRE(!pthread_join(many[i], NULL));
	CHILD_REQUIRE(!pthread_join(last, NULL));
}

INJECT_CASE(epoll__last_of_many,
	    "The one thread that does not notice is taken, the last of 102, too")
{
	struct inject_stats stats;
	struct target t;
	pid_t last;

	ATF_REQUIRE_EQ(0, pipe(channel));
	t = target_start(body_epoll_many);
	target_wait(&t, 1);
	do
		last = (pid_t)atomic_load(&t.shared->counts[0]);
	while (!last || *status_of(t.pid, last, "State") != 'S');
	for (int i = 0; i < N_INJECTIONS; i++) {
		stats = inject_ok(&t);
		ATF_CHECK_EQ(0, stats.rewound);
		ATF_CHECK_EQ(last, stats.tid);
	}
	ATF_REQUIRE_EQ(1, write(channel[1], "x", 1));
	target_finish(&t);
}

static void body_semop(struct shared *shared)
{
	struct sembuf up = { 0, 1, 0 }, down = { 0, -1, 0 };
	int sem = semget(IPC_PRIVATE, 1, 0600);
	pid_t child;

	CHILD_REQUIRE(sem >= 0);
	child = fork();
	if (!child) {
		while (!atomic_load(&shared->stop))
			pause_ms(5);
		_exit(semop(sem, &up, 1) ? 1 : 0);
	}
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(!semop(sem, &down, 1));
	CHILD_REQUIRE(!semctl(sem, 0, IPC_RMID));
}

INJECT_CASE(semop__no_eintr, "semop, which never restarts, sees no EINTR")
{
	ATF_CHECK_EQ(1, inject_asleep(body_semop).rewound);
}

static void body_sigtimedwait(struct shared *shared)
{
	struct timespec ts = { 20, 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	CHILD_REQUIRE(!sigprocmask(SIG_BLOCK, &set, NULL));
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(sigtimedwait(&set, NULL, &ts) == SIGUSR2);
}

INJECT_CASE(sigtimedwait__no_eintr, "sigtimedwait sees no EINTR and still gets its signal")
{
	struct target t = target_start(body_sigtimedwait);

	target_wait(&t, 1);
	for (int i = 0; i < N_INJECTIONS; i++) {
		target_state(&t, 'S');
		inject_ok(&t);
	}
	ATF_REQUIRE_EQ(0, kill(t.pid, SIGUSR2));
	target_finish(&t);
}

/* a mask that holds only during the call, and a signal only it lets through */
static volatile sig_atomic_t seen;

static void on_seen(int sig)
{
	(void)sig;
	seen++;
}

static void body_ppoll(struct shared *shared)
{
	struct sigaction sa = { .sa_handler = on_seen };
	sigset_t set, old, now;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHILD_REQUIRE(!sigaction(SIGUSR1, &sa, NULL));
	CHILD_REQUIRE(!sigprocmask(SIG_BLOCK, &set, &old));
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(ppoll(NULL, 0, NULL, &old) == -1 && errno == EINTR);
	CHILD_REQUIRE(seen == 1);
	CHILD_REQUIRE(!sigprocmask(SIG_SETMASK, NULL, &now));
	CHILD_REQUIRE(sigismember(&now, SIGUSR1));
}

INJECT_CASE(ppoll__mask, "ppoll keeps the mask of the call and the one after it")
{
	struct target t = target_start(body_ppoll);

	target_wait(&t, 1);
	for (int i = 0; i < N_INJECTIONS; i++) {
		target_state(&t, 'S');
		inject_ok(&t);
	}
	ATF_REQUIRE_EQ(0, kill(t.pid, SIGUSR1));
	target_finish(&t);
}

static void body_interrupted(struct shared *shared)
{
	struct sigaction sa = { .sa_handler = on_seen };
	struct timespec ts = { 20, 0 };

	CHILD_REQUIRE(!sigaction(SIGUSR1, &sa, NULL));
	atomic_store(&shared->ready, 1);
	CHILD_REQUIRE(nanosleep(&ts, NULL) == -1 && errno == EINTR);
	CHILD_REQUIRE(seen == 1);
}

INJECT_CASE(nanosleep__signal_eintr, "A signal after injections ends nanosleep with EINTR")
{
	struct target t = target_start(body_interrupted);

	target_wait(&t, 1);
	for (int i = 0; i < N_INJECTIONS; i++) {
		target_state(&t, 'S');
		inject_ok(&t);
	}
	ATF_REQUIRE_EQ(0, kill(t.pid, SIGUSR1));
	target_finish(&t);
}

/* a vfork parent cannot be stopped until its child has exec'ed or ended */
static void body_vfork(struct shared *shared)
{
	pid_t child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */

	if (!child) {
		atomic_store(&shared->ready, 1);
		while (!atomic_load(&shared->stop))
			;
		_exit(0);
	}
	CHILD_REQUIRE(child > 0);
	CHILD_REQUIRE(waitpid(child, NULL, 0) == child);
}

INJECT_CASE(vfork__no_thread, "A target whose only thread waits for a vfork child is refused")
{
	struct target t = target_start(body_vfork);

	target_wait(&t, 1);
	inject_refused(t.pid, -EAGAIN, WPROF_NO_THREAD, "state D");
	target_finish(&t);
}

/* ---- a frozen cgroup ------------------------------------------------------------ */

static char cgroup[4200];

static void cgroup_write(const char *file, const char *value)
{
	char path[4300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", cgroup, file);
	f = fopen(path, "we");
	ATF_REQUIRE_MSG(f, "%s", path);
	ATF_REQUIRE(fputs(value, f) >= 0);
	ATF_REQUIRE_EQ(0, fclose(f));
}

/* a new one below where version 2 is mounted */
static void cgroup_make(void)
{
	char line[4200], dir[4096] = "", type[64];
	FILE *f = fopen("/proc/mounts", "re");

	ATF_REQUIRE(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %4095s %63s", dir, type) == 2 && !strcmp(type, "cgroup2"))
			break;
	fclose(f);
	if (strcmp(type, "cgroup2"))
		atf_tc_skip("cgroup version 2 is not mounted");
	snprintf(cgroup, sizeof(cgroup), "%s/wprof-test-%d", dir, getpid());
	ATF_REQUIRE_EQ_MSG(0, mkdir(cgroup, 0755), "%s", cgroup);
}

static bool cgroup_is_frozen(void)
{
	char path[4300], line[64];
	bool frozen = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.events", cgroup);
	f = fopen(path, "re");
	ATF_REQUIRE(f);
	while (fgets(line, sizeof(line), f))
		frozen |= !strcmp(line, "frozen 1\n");
	fclose(f);
	return frozen;
}

/* It can be stopped, and then it cannot run: its registers must come back. */
INJECT_CASE(frozen__untouched, "A frozen target is given up, and runs on once it is thawed")
{
	struct target t = target_start(body_pause);
	char pid[16];

	target_wait(&t, 1);
	cgroup_make();
	snprintf(pid, sizeof(pid), "%d", t.pid);
	cgroup_write("cgroup.procs", pid);
	cgroup_write("cgroup.freeze", "1");
	while (!cgroup_is_frozen())
		sched_yield();
	inject_refused(t.pid, -EAGAIN, WPROF_NO_THREAD, "frozen");
	cgroup_write("cgroup.freeze", "0");
	for (int i = 0; i < N_INJECTIONS; i++)
		inject_ok(&t);
	ATF_CHECK_STREQ("0000000000000000\n", status_of(t.pid, t.pid, "SigBlk"));
	target_kill(&t);
	ATF_CHECK_EQ(0, rmdir(cgroup));
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, nanosleep__unnoticed);
	ATF_TP_ADD_TC(tp, clock_nanosleep__unnoticed);
	ATF_TP_ADD_TC(tp, poll__unnoticed);
	ATF_TP_ADD_TC(tp, futex__unnoticed);
	ATF_TP_ADD_TC(tp, read__unnoticed);
	ATF_TP_ADD_TC(tp, recv__timeout_unnoticed);
	ATF_TP_ADD_TC(tp, epoll__no_eintr);
	ATF_TP_ADD_TC(tp, epoll__signal_eintr);
	ATF_TP_ADD_TC(tp, epoll__other_thread);
	ATF_TP_ADD_TC(tp, epoll__last_of_many);
	ATF_TP_ADD_TC(tp, semop__no_eintr);
	ATF_TP_ADD_TC(tp, sigtimedwait__no_eintr);
	ATF_TP_ADD_TC(tp, ppoll__mask);
	ATF_TP_ADD_TC(tp, nanosleep__signal_eintr);
	ATF_TP_ADD_TC(tp, vfork__no_thread);
	ATF_TP_ADD_TC(tp, frozen__untouched);
	return atf_no_error();
}
