/*
 * inject_common.h - targets for the tests of the injection: a forked child that
 * runs a function, and what must be true of it afterwards.
 */
#ifndef WPROF_TESTS_INJECT_COMMON_H
#define WPROF_TESTS_INJECT_COMMON_H

#include <atf-c.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "inject.h"

/* a case with its one-sentence description; none may hang */
#define INJECT_CASE(name, text)                                \
	ATF_TC(name);                                          \
	ATF_TC_HEAD(name, tc)                                  \
	{                                                      \
		atf_tc_set_md_var(tc, "descr", text);          \
		atf_tc_set_md_var(tc, "require.user", "root"); \
		atf_tc_set_md_var(tc, "timeout", "60");        \
	}                                                      \
	ATF_TC_BODY(name, tc)

/* An emulated processor, that of the kernel tests, takes its time for each round. */
static inline int rounds_of(const atf_tc_t *tc, int usual, int emulated)
{
	return *atf_tc_get_config_var_wd(tc, "kernel", "") ? emulated : usual;
}

/** struct shared - what a target and its test tell each other */
struct shared {
	atomic_int ready;	 /* the target is where it should be */
	atomic_int stop;	 /* it should come to its end */
	atomic_long spins;	 /* rounds of body_spin() */
	atomic_long counts[128]; /* whatever the case counts */
};

/** struct target - a child in a case of its own */
struct target {
	pid_t pid;
	struct shared *shared;
};

/* In a child: ATF_REQUIRE there would not fail the test. */
#define CHILD_REQUIRE(x)                                                                         \
	do {                                                                                     \
		if (!(x)) {                                                                      \
			fprintf(stderr, "%s:%d: %s: errno %d\n", __FILE__, __LINE__, #x, errno); \
			_exit(99);                                                               \
		}                                                                                \
	} while (0)

static inline void pause_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

/* wait until the target says that it is there, or does the n-th time */
static inline void target_wait(const struct target *t, int ready)
{
	while (atomic_load(&t->shared->ready) < ready) {
		ATF_REQUIRE_MSG(!waitpid(t->pid, NULL, WNOHANG), "the target ended early");
		sched_yield();
	}
}

/* the child runs @body and exits 0; it dies with the test */
static inline struct target target_start(void (*body)(struct shared *))
{
	struct target t;

	t.shared = mmap(NULL, sizeof(*t.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	ATF_REQUIRE(t.shared != MAP_FAILED);
	fflush(NULL);
	t.pid = fork();
	ATF_REQUIRE(t.pid >= 0);
	if (!t.pid) {
		CHILD_REQUIRE(!prctl(PR_SET_PDEATHSIG, SIGKILL));
		body(t.shared);
		_exit(0);
	}
	return t;
}

/* @name of /proc/PID/task/TID/status, "" when there is none */
static inline const char *status_of(pid_t pid, pid_t tid, const char *name)
{
	static char value[256];
	size_t len = strlen(name);
	char line[512];
	char path[64];
	FILE *f;

	value[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, len) && line[len] == ':')
			snprintf(value, sizeof(value), "%s",
				 line + len + 1 + strspn(line + len + 1, " \t"));
	}
	if (f)
		fclose(f);
	return value;
}

/* until its leader is in that state, as status names it */
static inline void target_state(const struct target *t, char state)
{
	while (*status_of(t->pid, t->pid, "State") != state) {
		ATF_REQUIRE(!waitpid(t->pid, NULL, WNOHANG));
		sched_yield();
	}
}

static inline int count_uffds(pid_t pid)
{
	struct dirent *entry;
	char path[320];
	char link[64];
	int count = 0;
	ssize_t n;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		count += strstr(link, "userfaultfd") != NULL;
	}
	if (dir)
		closedir(dir);
	return count;
}

/* one injection that has to work; nothing of it stays in the target */
static inline struct inject_stats inject_ok(const struct target *t)
{
	struct inject_stats stats = { 0 };
	struct wprof_why why;
	int uffd = -1;
	int err;

	err = inject_uffd(t->pid, NULL, &uffd, &stats, &why);
	ATF_REQUIRE_MSG(!err, "%d: %s", err, why.text);
	ATF_CHECK(uffd >= 0);
	ATF_CHECK_EQ(0, count_uffds(t->pid));
	ATF_REQUIRE_EQ(0, close(uffd));
	return stats;
}

/* one that has to be refused, for that reason, with a text that says so */
static inline void inject_refused(pid_t pid, int err, enum wprof_reason reason, const char *says)
{
	struct wprof_why why;
	int uffd = -1;

	ATF_CHECK_EQ(err, inject_uffd(pid, NULL, &uffd, NULL, &why));
	ATF_CHECK_EQ(-1, uffd);
	ATF_CHECK_EQ_MSG(reason, why.reason, "reason %d: %s", why.reason, why.text);
	ATF_CHECK_MSG(strstr(why.text, says), "says: %s", why.text);
}

/* it runs: its count goes on */
static inline void count_runs(atomic_long *counter)
{
	long count = atomic_load(counter);

	while (atomic_load(counter) == count)
		sched_yield();
}

/* it ends by itself, well */
static inline void target_finish(const struct target *t)
{
	int status;

	atomic_store(&t->shared->stop, 1);
	ATF_REQUIRE_EQ(t->pid, waitpid(t->pid, &status, 0));
	ATF_CHECK_MSG(WIFEXITED(status) && !WEXITSTATUS(status), "status %x", status);
}

static inline void target_kill(const struct target *t)
{
	ATF_REQUIRE_EQ(0, kill(t->pid, SIGKILL));
	ATF_REQUIRE_EQ(t->pid, waitpid(t->pid, NULL, 0));
}

/* ---- bodies ------------------------------------------------------------------- */

static inline void body_pause(struct shared *shared)
{
	atomic_store(&shared->ready, 1);
	while (!atomic_load(&shared->stop))
		pause();
}

static inline void body_spin(struct shared *shared)
{
	atomic_store(&shared->ready, 1);
	while (!atomic_load(&shared->stop))
		atomic_fetch_add(&shared->spins, 1);
}

#endif /* WPROF_TESTS_INJECT_COMMON_H */
