/*
 * Signals: each is delivered exactly once, in whatever moment it arrives, and
 * the dispositions of the target stay as they are.
 */
#include <pthread.h>
#include <sys/ptrace.h>

#include "tests/inject_common.h"

static struct shared *counters;

/* real-time signals queue: as many must be seen as were sent, in order */
static void on_queued(int sig, siginfo_t *info, void *context)
{
	(void)context;
	(void)sig;
	if (info->si_value.sival_int != (int)atomic_fetch_add(&counters->counts[0], 1))
		atomic_fetch_add(&counters->counts[1], 1);
}

static void body_queued(struct shared *shared)
{
	struct sigaction sa = { .sa_sigaction = on_queued, .sa_flags = SA_SIGINFO | SA_RESTART };

	counters = shared;
	CHILD_REQUIRE(!sigaction(SIGRTMIN, &sa, NULL));
	body_spin(shared);
}

/* in a process of its own, so that it goes on while we inject */
static pid_t storm_start(const struct target *t, int n)
{
	pid_t pid = fork();

	ATF_REQUIRE(pid >= 0);
	if (pid)
		return pid;
	for (int i = 0; i < n; i++) {
		while (sigqueue(t->pid, SIGRTMIN, (union sigval){ .sival_int = i }))
			sched_yield();
		if (i % 8 == 7)
			pause_ms(1);
	}
	_exit(0);
}

static void storm(void (*body)(struct shared *), int n)
{
	struct target t = target_start(body);
	pid_t sender;
	int rounds = 0;

	target_wait(&t, 1);
	sender = storm_start(&t, n);
	while (waitpid(sender, NULL, WNOHANG) != sender) {
		inject_ok(&t);
		rounds++;
	}
	while (atomic_load(&t.shared->counts[0]) < n)
		sched_yield();
	target_finish(&t);
	ATF_CHECK_EQ(n, atomic_load(&t.shared->counts[0]));
	ATF_CHECK_EQ(0, atomic_load(&t.shared->counts[1]));
	ATF_CHECK(rounds > 0);
}

INJECT_CASE(queued__busy, "Real-time signals to a busy target: each once, in order")
{
	storm(body_queued, 2000);
}

static void body_queued_asleep(struct shared *shared)
{
	struct sigaction sa = { .sa_sigaction = on_queued, .sa_flags = SA_SIGINFO | SA_RESTART };

	counters = shared;
	CHILD_REQUIRE(!sigaction(SIGRTMIN, &sa, NULL));
	atomic_store(&shared->ready, 1);
	while (!atomic_load(&shared->stop))
		pause_ms(1);
}

INJECT_CASE(queued__asleep, "Real-time signals to a sleeping target: each once, in order")
{
	storm(body_queued_asleep, 2000);
}

/* ---- SIGTRAP is in use ------------------------------------------------------------ */

static int trap_handler_is(void (*handler)(int))
{
	struct sigaction sa;

	return !sigaction(SIGTRAP, NULL, &sa) && sa.sa_handler == handler;
}

static void body_trap_ignored(struct shared *shared)
{
	signal(SIGTRAP, SIG_IGN);
	body_spin(shared);
	CHILD_REQUIRE(trap_handler_is(SIG_IGN));
	CHILD_REQUIRE(!raise(SIGTRAP));
}

INJECT_CASE(trap__ignored, "A target that ignores SIGTRAP ignores it still")
{
	struct target t = target_start(body_trap_ignored);

	target_wait(&t, 1);
	for (int i = 0; i < 20; i++)
		ATF_CHECK_EQ(1, inject_ok(&t).by_syscall);
	target_finish(&t);
}

static void on_trap(int sig)
{
	(void)sig;
	atomic_fetch_add(&counters->counts[0], 1);
}

/* blocked and one pending: it must stay pending, and come when unblocked */
static void body_trap_pending(struct shared *shared)
{
	sigset_t set;

	counters = shared;
	signal(SIGTRAP, on_trap);
	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	CHILD_REQUIRE(!sigprocmask(SIG_BLOCK, &set, NULL));
	CHILD_REQUIRE(!raise(SIGTRAP));
	atomic_store(&shared->ready, 1);
	while (!atomic_load(&shared->stop))
		pause_ms(1);
	CHILD_REQUIRE(atomic_load(&shared->counts[0]) == 0);
	CHILD_REQUIRE(trap_handler_is(on_trap));
	CHILD_REQUIRE(!sigprocmask(SIG_UNBLOCK, &set, NULL));
	CHILD_REQUIRE(atomic_load(&shared->counts[0]) == 1);
}

INJECT_CASE(trap__pending, "A blocked SIGTRAP stays pending and comes once")
{
	struct target t = target_start(body_trap_pending);

	target_wait(&t, 1);
	for (int i = 0; i < 20; i++)
		ATF_CHECK_EQ(1, inject_ok(&t).by_syscall);
	target_finish(&t);
}

static void body_trap_handled(struct shared *shared)
{
	counters = shared;
	signal(SIGTRAP, on_trap);
	body_spin(shared);
	CHILD_REQUIRE(trap_handler_is(on_trap));
}

/* Each is sent when the one before has arrived: none may merge, none be lost. */
static void send_traps(const struct target *t)
{
	for (long n = 1; !atomic_load(&t->shared->counts[1]); n++) {
		CHILD_REQUIRE(!kill(t->pid, SIGTRAP));
		atomic_store(&t->shared->counts[2], n);
		while (atomic_load(&t->shared->counts[0]) < n)
			sched_yield();
	}
	_exit(0);
}

INJECT_CASE(trap__own, "SIGTRAPs sent to a target while it is stepped arrive, each once")
{
	struct target t = target_start(body_trap_handled);
	int rounds = rounds_of(tc, 200, 25);
	pid_t sender;

	target_wait(&t, 1);
	sender = fork();
	ATF_REQUIRE(sender >= 0);
	if (!sender)
		send_traps(&t);
	for (int i = 0; i < rounds; i++)
		inject_ok(&t);
	atomic_store(&t.shared->counts[1], 1);
	ATF_REQUIRE_EQ(sender, waitpid(sender, NULL, 0));
	target_finish(&t);
	ATF_CHECK(atomic_load(&t.shared->counts[2]) > 0);
	ATF_CHECK_EQ(atomic_load(&t.shared->counts[2]), atomic_load(&t.shared->counts[0]));
}

/* ---- group stop ------------------------------------------------------------------- */

INJECT_CASE(stopped__stays, "A stopped target is injected into and stays stopped")
{
	struct target t = target_start(body_spin);
	int status;
	long count;

	target_wait(&t, 1);
	ATF_REQUIRE_EQ(0, kill(t.pid, SIGSTOP));
	ATF_REQUIRE_EQ(t.pid, waitpid(t.pid, &status, WUNTRACED));
	ATF_REQUIRE(WIFSTOPPED(status));
	count = atomic_load(&t.shared->spins);
	for (int i = 0; i < 10; i++) {
		inject_ok(&t);
		target_state(&t, 'T');
	}
	ATF_CHECK_EQ(count, atomic_load(&t.shared->spins));
	ATF_CHECK_EQ(0, waitpid(t.pid, &status, WNOHANG | WUNTRACED | WCONTINUED));
	ATF_REQUIRE_EQ(0, kill(t.pid, SIGCONT));
	ATF_REQUIRE_EQ(t.pid, waitpid(t.pid, &status, WCONTINUED));
	target_finish(&t);
}

static void *spin_thread(void *arg)
{
	struct shared *shared = arg;

	while (!atomic_load(&shared->stop))
		atomic_fetch_add(&shared->counts[1], 1);
	return NULL;
}

static void body_two(struct shared *shared)
{
	pthread_t thread;

	CHILD_REQUIRE(!pthread_create(&thread, NULL, spin_thread, shared));
	body_spin(shared);
	CHILD_REQUIRE(!pthread_join(thread, NULL));
}

/* The last word is CONT: it must run; each STOP must have been a real one. */
INJECT_CASE(stopped__storm, "SIGSTOP and SIGCONT while it is injected: the last one counts")
{
	struct target t = target_start(body_two);
	pid_t sender;

	target_wait(&t, 1);
	sender = fork();
	ATF_REQUIRE(sender >= 0);
	if (!sender) {
		for (int i = 0; i < 300; i++) {
			kill(t.pid, SIGSTOP);
			pause_ms(i % 3);
			kill(t.pid, SIGCONT);
		}
		_exit(0);
	}
	while (waitpid(sender, NULL, WNOHANG) != sender)
		inject_ok(&t);
	count_runs(&t.shared->spins);
	count_runs(&t.shared->counts[1]);
	ATF_REQUIRE_EQ(0, kill(t.pid, SIGSTOP));
	inject_ok(&t);
	target_state(&t, 'T');
	ATF_REQUIRE_EQ(0, kill(t.pid, SIGCONT));
	target_finish(&t);
}

/* ---- what the parent sees --------------------------------------------------------- */

static volatile sig_atomic_t sigchlds;

static void on_child(int sig)
{
	(void)sig;
	sigchlds++;
}

static void body_parent(struct shared *shared)
{
	int status;
	pid_t child;

	signal(SIGCHLD, on_child);
	child = fork();
	if (!child) {
		while (!atomic_load(&shared->counts[3]))
			pause_ms(1);
		_exit(7);
	}
	atomic_store(&shared->counts[2], child);
	atomic_store(&shared->ready, 1);
	while (!atomic_load(&shared->stop))
		CHILD_REQUIRE(!waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED));
	CHILD_REQUIRE(sigchlds == 0);
	atomic_store(&shared->counts[3], 1);
	while (waitpid(child, &status, 0) < 0)
		CHILD_REQUIRE(errno == EINTR);
	CHILD_REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	CHILD_REQUIRE(sigchlds == 1);
}

INJECT_CASE(parent__sees_nothing, "The parent of a target gets no SIGCHLD and no wait status")
{
	struct target t = target_start(body_parent);
	struct target child = t;
	int rounds = rounds_of(tc, 50, 15);

	target_wait(&t, 1);
	child.pid = (pid_t)atomic_load(&t.shared->counts[2]);
	for (int i = 0; i < rounds; i++)
		inject_ok(&child);
	target_finish(&t);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, queued__busy);
	ATF_TP_ADD_TC(tp, queued__asleep);
	ATF_TP_ADD_TC(tp, trap__ignored);
	ATF_TP_ADD_TC(tp, trap__pending);
	ATF_TP_ADD_TC(tp, trap__own);
	ATF_TP_ADD_TC(tp, stopped__stays);
	ATF_TP_ADD_TC(tp, stopped__storm);
	ATF_TP_ADD_TC(tp, parent__sees_nothing);
	return atf_no_error();
}
