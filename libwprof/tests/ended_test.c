/*
 * The end of a target that takes a while: its memory goes first, and its pidfd
 * does not tell before the last of its threads has been waited for. A tracer
 * that does not wait makes this state last as long as a test needs.
 */
#include <poll.h>
#include <pthread.h>
#include <sys/ptrace.h>

#include "tests/inject_common.h"

static struct shared *shared_thread;

static void *thread_sleeps(void *arg)
{
	(void)arg;
	atomic_store(&shared_thread->counts[0], syscall(SYS_gettid));
	body_pause(shared_thread);
	return NULL;
}

static void body_two_threads(struct shared *shared)
{
	pthread_t thread;

	shared_thread = shared;
	CHILD_REQUIRE(!pthread_create(&thread, NULL, thread_sleeps, NULL));
	pthread_join(thread, NULL);
}

/* Killed, and not yet exited: the second thread waits for its tracer, us. */
static void kill_and_linger(const struct target *t, pid_t tid)
{
	ATF_REQUIRE_EQ(0, ptrace(PTRACE_SEIZE, tid, NULL, NULL));
	ATF_REQUIRE_EQ(0, kill(t->pid, SIGKILL));
	while (*status_of(t->pid, t->pid, "State") != 'Z' ||
	       *status_of(t->pid, tid, "State") != 'Z')
		sched_yield();
}

static void reap(const struct target *t, pid_t tid)
{
	ATF_CHECK_EQ(tid, waitpid(tid, NULL, __WALL));
	ATF_CHECK_EQ(t->pid, waitpid(t->pid, NULL, 0));
}

INJECT_CASE(ended__memory_goes_first, "A target that is exiting has exited, not executed a program")
{
	struct target t = target_start(body_two_threads);
	struct wprof_why why = { 0 };
	const struct wprof_interval *iv;
	struct wprof *w;
	struct pollfd fd = { .events = POLLIN };
	pid_t tid;

	target_wait(&t, 1);
	tid = (pid_t)atomic_load(&t.shared->counts[0]);
	ATF_REQUIRE_MSG(!wprof_open(t.pid, NULL, &w, &why), "%s", why.text);
	kill_and_linger(&t, tid);
	fd.fd = wprof_pidfd(w);
	ATF_REQUIRE_EQ(0, poll(&fd, 1, 0));
	ATF_REQUIRE_EQ(0, wprof_sample(w, &iv));
	ATF_CHECK(iv->ended);
	ATF_CHECK_EQ(-ESRCH, wprof_sample(w, &iv));
	wprof_close(w);
	ATF_CHECK_EQ(-ESRCH, wprof_open(t.pid, NULL, &w, &why));
	ATF_CHECK_MSG(why.reason == WPROF_NO_PROCESS || why.reason == WPROF_ENDED, "%s", why.text);
	reap(&t, tid);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, ended__memory_goes_first);
	return atf_no_error();
}
