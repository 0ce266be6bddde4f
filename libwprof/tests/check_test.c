/* What wprof_check() tells, and the options wprof_open() refuses. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "profile.h"

static struct wprof_fact facts[40];

static const struct wprof_fact *fact(pid_t pid, const char *name)
{
	size_t n = sizeof(facts) / sizeof(*facts);

	ATF_REQUIRE_EQ(0, wprof_check(pid, facts, &n));
	for (size_t i = 0; i < n; i++)
		if (!strcmp(facts[i].name, name))
			return &facts[i];
	return NULL;
}

CASE(check__bad_arguments, "No counter and a negative PID are refused")
{
	size_t n = 1;

	ATF_CHECK_EQ(-EINVAL, wprof_check(0, facts, NULL));
	ATF_CHECK_EQ(-EINVAL, wprof_check(-1, facts, &n));
}

CASE(check__tells_the_room_it_needs, "Too little room is an error that says how much is needed")
{
	size_t all = 0, n = 2;

	ATF_REQUIRE_EQ(0, wprof_check(0, NULL, &all));
	ATF_CHECK(all > 2);
	ATF_CHECK_EQ(-ERANGE, wprof_check(0, facts, &n));
	ATF_CHECK_EQ(all, n);
	n = all;
	ATF_CHECK_EQ(0, wprof_check(0, facts, &n));
}

CASE(check__every_fact_has_a_reason, "Each fact has a name of its own and a reason in words")
{
	size_t n = sizeof(facts) / sizeof(*facts);

	ATF_REQUIRE_EQ(0, wprof_check(getppid(), facts, &n));
	for (size_t i = 0; i < n; i++) {
		ATF_CHECK(facts[i].state >= -1 && facts[i].state <= 1);
		ATF_CHECK(*facts[i].reason && !strchr(facts[i].reason, '\n'));
		for (size_t k = 0; k < i; k++)
			ATF_CHECK(strcmp(facts[i].name, facts[k].name));
	}
}

CASE(check__no_such_process, "A process that is not there is a fact with the state no")
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	ATF_REQUIRE_EQ(pid, waitpid(pid, NULL, 0));
	ATF_CHECK_EQ(0, fact(pid, "target")->state);
	ATF_CHECK(fact(pid, "target")->needed);
}

CASE(check__self, "Our own process is refused")
{
	ATF_CHECK_EQ(0, fact(getpid(), "target")->state);
}

CASE(check__traced, "A tracer of the target is named")
{
	char text[32];
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	ATF_REQUIRE_EQ(0, ptrace(PTRACE_SEIZE, pid, 0, 0));
	ATF_CHECK_EQ(0, fact(pid, "target_untraced")->state);
	snprintf(text, sizeof(text), "process %d traces", (int)getpid());
	ATF_CHECK(strstr(fact(pid, "target_untraced")->reason, text) != NULL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- a target that an unprivileged profiler is refused --------------------------------- */

static void become_filtered(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &allow };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		_exit(1);
}

static void become_undumpable(void)
{
	if (prctl(PR_SET_DUMPABLE, 0))
		_exit(1);
}

static void become_nobody(void)
{
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534) ||
	    prctl(PR_SET_DUMPABLE, 1))
		_exit(1);
}

/* a child that has become nobody, then what @more makes of it */
static pid_t nobody_start(void (*more)(void))
{
	int ready[2];
	pid_t pid;
	char c;

	ATF_REQUIRE_EQ(0, pipe(ready));
	pid = fork();
	if (!pid) {
		become_nobody();
		more();
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	ATF_REQUIRE_EQ(1, read(ready[0], &c, 1));
	close(ready[0]);
	return pid;
}

/* What nobody is told of @pid: 0 when @name says no, is needed and says @why */
static int nobody_asks(pid_t pid, const char *name, const char *why)
{
	size_t n = sizeof(facts) / sizeof(*facts);
	int status;
	pid_t kid = fork();

	if (!kid) {
		become_nobody();
		if (wprof_check(pid, facts, &n))
			_exit(2);
		for (size_t i = 0; i < n; i++)
			if (!strcmp(facts[i].name, name))
				_exit(facts[i].state || !facts[i].needed ||
				      !strstr(facts[i].reason, why));
		_exit(3);
	}
	ATF_REQUIRE_EQ(kid, waitpid(kid, &status, 0));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

CASE(check__filtered_target, "Without CAP_SYS_ADMIN a filtered target says no, and why")
{
	pid_t pid = nobody_start(become_filtered);

	ATF_CHECK_EQ(0, nobody_asks(pid, "target_seccomp", "CAP_SYS_ADMIN"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

CASE(check__undumpable_target, "A target of the same user that forbids tracing says no")
{
	pid_t pid = nobody_start(become_undumpable);
	int rc = nobody_asks(pid, "target_tracing", "trace");

	if (rc == 3) /* not even its mappings may be read */
		rc = nobody_asks(pid, "target_access", "may not look");
	ATF_CHECK_EQ(0, rc);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

CASE(check__kernel_thread, "A kernel thread has no memory of its own")
{
	const struct wprof_fact *f = fact(2, "target_memory");

	if (!f)
		f = fact(2, "target_access");
	/* in a PID namespace there is no process 2, or it is an ordinary one */
	if (f && !access("/proc/2/exe", F_OK))
		atf_tc_skip("process 2 is no kernel thread here");
	if (f)
		ATF_CHECK_EQ(0, f->state);
}

static int try_open(struct wprof_opts *o, struct wprof_why *why)
{
	struct wprof *w;

	return wprof_open(getppid(), o, &w, why);
}

CASE(open__options_out_of_range, "Each option out of its range is refused with a reason")
{
	struct wprof_opts bad[] = {
		{ .arming = 2 },
		{ .flags = 1u << 30 },
		{ .granularity_bytes = 4096 },
		{ .granularity_bytes = 3u << 20 },
		{ .granularity_bytes = 1ull << 31 },
		{ .hot_threshold = 1 },
		{ .hot_threshold = -0.1 },
		{ .hot_threshold = NAN },
		{ .hot_consecutive = 11 },
		{ .window = 65 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct wprof_why why = { 0 };

		bad[i].size = sizeof(bad[i]);
		ATF_CHECK_EQ_MSG(-EINVAL, try_open(&bad[i], &why), "option %zu", i);
		ATF_CHECK(*why.text);
	}
}

CASE(open__size_of_options, "Options say their size; unknown bytes must be zero")
{
	struct {
		struct wprof_opts o;
		char more[16];
	} newer = { .o.size = sizeof(newer) };
	struct wprof_opts o = { .size = 0 }, out;
	struct wprof_why why;

	ATF_CHECK_EQ(-EINVAL, try_open(&o, &why));
	newer.more[3] = 1;
	ATF_CHECK_EQ(-E2BIG, try_open(&newer.o, &why));
	newer.more[3] = 0;
	ATF_CHECK_EQ(0, profile_opts(&newer.o, &out, &why));
	/* an older caller, who knows the first members only */
	o = (struct wprof_opts){ .size = offsetof(struct wprof_opts, flags),
				 .arming = WPROF_SAMPLE,
				 .flags = ~0u,
				 .window = 9999 };
	ATF_REQUIRE_EQ(0, profile_opts(&o, &out, &why));
	ATF_CHECK_EQ(WPROF_SAMPLE, out.arming);
	ATF_CHECK_EQ(0, out.flags);
	ATF_CHECK_EQ(10, out.window);
	ATF_CHECK_EQ(3, out.hot_consecutive);
	ATF_CHECK_EQ(0, profile_opts(NULL, &out, &why));
}

CASE(open__no_target, "No process, our own, and no PID at all have their reasons")
{
	struct wprof *w;
	struct wprof_why why;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	ATF_REQUIRE_EQ(pid, waitpid(pid, NULL, 0));
	ATF_CHECK_EQ(-ESRCH, wprof_open(pid, NULL, &w, &why));
	ATF_CHECK_EQ(WPROF_NO_PROCESS, why.reason);
	ATF_CHECK_EQ(-EINVAL, wprof_open(getpid(), NULL, &w, &why));
	ATF_CHECK_EQ(WPROF_SELF, why.reason);
	ATF_CHECK_EQ(-ESRCH, wprof_open(0, NULL, &w, &why));
	ATF_CHECK_EQ(-ESRCH, wprof_open(-5, NULL, &w, NULL));
	ATF_CHECK_EQ(-EINVAL, wprof_open(1, NULL, NULL, &why));
}

CASE(calls__bad_arguments, "Every function of a session takes NULL for an error, and keeps errno")
{
	const struct wprof_interval *iv;
	const struct wprof_region *r;
	struct wprof *w;
	size_t n;

	errno = 77;
	ATF_CHECK_EQ(-EINVAL, wprof_sample(NULL, &iv));
	ATF_CHECK_EQ(-EINVAL, wprof_hot(NULL, &r, &n));
	ATF_CHECK_EQ(-EINVAL, wprof_pause(NULL));
	ATF_CHECK_EQ(-EINVAL, wprof_resume(NULL));
	ATF_CHECK_EQ(-EINVAL, wprof_pidfd(NULL));
	wprof_close(NULL);
	ATF_CHECK_EQ(-ESRCH, wprof_open(0, NULL, &w, NULL));
	ATF_CHECK_EQ(77, errno);
	ATF_CHECK_STREQ("unknown", wprof_vma_type_name((enum wprof_vma_type)99));
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, check__bad_arguments);
	ATF_TP_ADD_TC(tp, check__tells_the_room_it_needs);
	ATF_TP_ADD_TC(tp, check__no_such_process);
	ATF_TP_ADD_TC(tp, check__self);
	ATF_TP_ADD_TC(tp, check__traced);
	ATF_TP_ADD_TC(tp, check__filtered_target);
	ATF_TP_ADD_TC(tp, check__undumpable_target);
	ATF_TP_ADD_TC(tp, check__kernel_thread);
	ATF_TP_ADD_TC(tp, check__every_fact_has_a_reason);
	ATF_TP_ADD_TC(tp, open__options_out_of_range);
	ATF_TP_ADD_TC(tp, open__size_of_options);
	ATF_TP_ADD_TC(tp, open__no_target);
	ATF_TP_ADD_TC(tp, calls__bad_arguments);
	return atf_no_error();
}
