/*
 * fork() and the publisher. The storm forks while threads publish, so that in
 * most children the lock was held by a thread they do not have; it cannot prove
 * that every moment was hit.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "pub_util.h"
#include "state.h"

static uintptr_t parent_payload;

/* Is the address mapped here? */
static bool is_mapped(uintptr_t address)
{
	unsigned char in_core;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return syscall(SYS_mincore, address / page * page, page, &in_core) == 0;
}

static void child_has_nothing(void)
{
	struct pub_mapping m[1];

	CHILD_REQUIRE(pub_mappings(m, 1) == 0);
	CHILD_REQUIRE(!is_mapped(parent_payload));
	CHILD_REQUIRE(pctx_unpublish() == -ENODATA);
}

static void child_publishes(void)
{
	child_has_nothing();
	CHILD_REQUIRE(pub_service("child") == 0);
	CHILD_REQUIRE(pub_service("child again") == 0);
	CHILD_REQUIRE(pub_is_published("child again"));
	CHILD_REQUIRE(pctx_unpublish() == 0);
}

static void child_and_grandchild(void)
{
	CHILD_REQUIRE(pub_child(child_publishes) == 0);
	CHILD_REQUIRE(pub_service("child") == 0);
	CHILD_REQUIRE(pub_header());
	parent_payload = (uintptr_t)pub_header()->payload;
	CHILD_REQUIRE(pub_child(child_publishes) == 0);
	CHILD_REQUIRE(pub_is_published("child"));
}

CASE(child__not_inherited, "A child has no context and nothing to withdraw; the parent's stays")
{
	struct ctx_header before;

	ATF_REQUIRE_EQ(pub_service("parent"), 0);
	before = *pub_header();
	parent_payload = (uintptr_t)before.payload;
	ATF_CHECK_EQ(pub_child(child_has_nothing), 0);
	ATF_CHECK_EQ(pub_child(child_publishes), 0);
	ATF_CHECK_EQ(pub_child(child_and_grandchild), 0);
	ATF_CHECK_EQ(memcmp(&before, pub_header(), sizeof(before)), 0);
	ATF_CHECK(pub_is_published("parent"));
}

CASE(child__lock_held, "A child of a process whose lock is held can publish, and its child too")
{
	struct pub *p;

	ATF_REQUIRE_EQ(pub_service("parent"), 0);
	parent_payload = (uintptr_t)pub_header()->payload;
	ATF_REQUIRE_EQ(state_lock(&p), 0);
	ATF_CHECK_EQ(pub_child(child_publishes), 0);
	ATF_CHECK_EQ(pub_child(child_and_grandchild), 0);
	state_unlock(p);
	ATF_CHECK_EQ(pub_service("parent again"), 0);
}

/* clone(2) past the C library: no fork handler runs. */
static pid_t raw_fork(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

CASE(child__raw_clone, "A child by clone(2), unknown to the C library, can publish")
{
	int status;
	pid_t pid;

	ATF_REQUIRE_EQ(pub_service("parent"), 0);
	parent_payload = (uintptr_t)pub_header()->payload;
	pid = raw_fork(0);
	if (pid == 0) {
		child_publishes();
		_exit(0);
	}
	ATF_REQUIRE(pid > 0);
	ATF_REQUIRE_EQ(waitpid(pid, &status, 0), pid);
	ATF_CHECK_EQ(status, 0);
}

/* PID 1 of a PID namespace publishes and forks PID 1 of another one below it. */
static void first_of_namespace(void)
{
	int status;
	pid_t pid;

	CHILD_REQUIRE(getpid() == 1);
	CHILD_REQUIRE(pub_service("first") == 0);
	pid = raw_fork(CLONE_NEWPID);
	if (pid == 0) {
		CHILD_REQUIRE(getpid() == 1);
		CHILD_REQUIRE(pctx_unpublish() == -ENODATA);
		CHILD_REQUIRE(pub_service("second") == 0);
		_exit(0);
	}
	CHILD_REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	CHILD_REQUIRE(pub_is_published("first"));
}

ATF_TC(child__same_pid);
ATF_TC_HEAD(child__same_pid, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "A child with its parent's PID, in another PID namespace, "
			  "is no less a child");
	atf_tc_set_md_var(tc, "require.user", "root");
	atf_tc_set_md_var(tc, "timeout", "30");
}
ATF_TC_BODY(child__same_pid, tc)
{
	int status;
	pid_t pid = raw_fork(CLONE_NEWPID);

	if (pid == 0) {
		first_of_namespace();
		_exit(0);
	}
	ATF_REQUIRE_MSG(pid > 0, "clone: %s", strerror(errno));
	ATF_REQUIRE_EQ(waitpid(pid, &status, 0), pid);
	ATF_CHECK_EQ(status, 0);
}

static bool stop;

static void *publish_until_stopped(void *arg)
{
	char name[32];
	long failures = 0;

	(void)arg;
	for (int i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		snprintf(name, sizeof(name), "%d", i);
		failures += pub_service_and_bytes(name, (size_t)(i % 5000)) != 0;
		if (i % 64 == 63) {
			int rc = pctx_unpublish();

			failures += rc != 0 && rc != -ENODATA;
		}
		sched_yield(); /* the children want the processor too */
	}
	return (void *)failures;
}

static void child_of_storm(void)
{
	CHILD_REQUIRE(pub_service("child") == 0);
	CHILD_REQUIRE(pub_service("child again") == 0);
	CHILD_REQUIRE(pctx_unpublish() == 0);
	CHILD_REQUIRE(pctx_unpublish() == -ENODATA);
}

/*
 * An emulated processor, that of the kernel tests, forks some thirty times slower,
 * and so does a process with the thread sanitizer's shadow.
 */
static int n_storm_children(const struct atf_tc *tc)
{
#ifdef __SANITIZE_THREAD__
	return 300;
#endif
	return *atf_tc_get_config_var_wd(tc, "kernel", "") ? 100 : 10000;
}

ATF_TC(storm__children);
ATF_TC_HEAD(storm__children, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "10,000 children forked while threads publish can all "
			  "publish, none hangs");
	atf_tc_set_md_var(tc, "timeout", "240");
}
ATF_TC_BODY(storm__children, tc)
{
	pthread_t threads[2];
	int bad = 0;

	ATF_REQUIRE_EQ(pthread_create(&threads[0], NULL, publish_until_stopped, NULL), 0);
	ATF_REQUIRE_EQ(pthread_create(&threads[1], NULL, publish_until_stopped, NULL), 0);
	for (int i = 0; i < n_storm_children(tc) && !bad; i++)
		bad = pub_child(child_of_storm);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++) {
		void *failures;

		ATF_REQUIRE_EQ(pthread_join(threads[i], &failures), 0);
		ATF_CHECK(!failures);
	}
	ATF_CHECK_EQ(bad, 0);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, child__not_inherited);
	ATF_TP_ADD_TC(tp, child__lock_held);
	ATF_TP_ADD_TC(tp, child__raw_clone);
	ATF_TP_ADD_TC(tp, child__same_pid);
	ATF_TP_ADD_TC(tp, storm__children);
	return atf_no_error();
}
