/*
 * The injection in plain conditions, and the targets it refuses. Hazards have
 * programs of their own beside this one.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include "tests/inject_common.h"
#include "uapi.h"

INJECT_CASE(pid__none, "A number that is no process is refused")
{
	pid_t pid;

	inject_refused(0, -ESRCH, WPROF_NO_PROCESS, "not the number");
	inject_refused(-5, -ESRCH, WPROF_NO_PROCESS, "not the number");
	pid = fork();
	if (!pid)
		_exit(0);
	ATF_REQUIRE_EQ(pid, waitpid(pid, NULL, 0));
	inject_refused(pid, -ESRCH, WPROF_NO_PROCESS, "no process");
}

INJECT_CASE(pid__own, "A process cannot inject into itself")
{
	inject_refused(getpid(), -EINVAL, WPROF_SELF, "itself");
}

INJECT_CASE(pid__kernel_thread, "A kernel thread is refused by name")
{
	inject_refused(2, -EINVAL, WPROF_KERNEL_THREAD, "kernel thread");
}

INJECT_CASE(pid__zombie, "A process that has exited is refused as ended")
{
	struct target t = target_start(body_pause);

	ATF_REQUIRE_EQ(0, kill(t.pid, SIGKILL));
	while (*status_of(t.pid, t.pid, "State") != 'Z')
		sched_yield();
	inject_refused(t.pid, -ESRCH, WPROF_ENDED, "has exited");
	ATF_REQUIRE_EQ(t.pid, waitpid(t.pid, NULL, 0));
}

INJECT_CASE(injector__missing, "A missing or foreign injector is an error and harms nobody")
{
	struct target t = target_start(body_pause);
	struct wprof_why why;
	int uffd = -1;

	ATF_CHECK_EQ(-ENOENT, inject_uffd(t.pid, "/nowhere/wprof-inject", &uffd, NULL, &why));
	ATF_CHECK_EQ(WPROF_NO_INJECTOR, why.reason);
	ATF_CHECK(strstr(why.text, "/nowhere/wprof-inject"));
	ATF_CHECK_EQ(-1, uffd);
	ATF_CHECK_EQ(-EPROTO, inject_uffd(t.pid, "/bin/true", &uffd, NULL, NULL));
	ATF_CHECK_EQ(-1, uffd);
	target_kill(&t);
}

INJECT_CASE(uffd__works, "The descriptor is a userfaultfd of the target with our flags")
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };
	struct target t = target_start(body_pause);
	struct wprof_why why;
	int uffd;

	target_wait(&t, 1);
	errno = 77;
	ATF_REQUIRE_EQ_MSG(0, inject_uffd(t.pid, NULL, &uffd, NULL, &why), "%s", why.text);
	ATF_CHECK_EQ(77, errno);
	ATF_CHECK_EQ(WPROF_OK, why.reason);
	ATF_CHECK_EQ(FD_CLOEXEC, fcntl(uffd, F_GETFD));
	ATF_CHECK(fcntl(uffd, F_GETFL) & O_NONBLOCK);
	ATF_CHECK_EQ(0, ioctl(uffd, UFFDIO_API, &api));
	ATF_REQUIRE_EQ(0, close(uffd));
	target_kill(&t);
}

/*
 * Everything of status that an injection could change, and the mappings. Not
 * RssFile: it counts the pages of the vDSO once they have been run.
 */
static void snapshot(pid_t pid, char *buf, size_t size)
{
	static const char *const names[] = {
		"State",  "TracerPid", "FDSize",  "Threads", "SigPnd", "ShdPnd",  "SigBlk",
		"SigIgn", "SigCgt",    "Seccomp", "VmSize",  "VmPTE",  "RssAnon",
	};
	char path[64];
	size_t len = 0;
	FILE *f;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		len += (size_t)snprintf(buf + len, size - len, "%s %s", names[i],
					status_of(pid, pid, names[i]));
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	ATF_REQUIRE(f);
	len += fread(buf + len, 1, size - len - 1, f);
	fclose(f);
	buf[len] = '\0';
}

INJECT_CASE(target__unchanged,
	    "State, masks, mappings and memory of a sleeping target stay the same")
{
	static char before[65536], after[65536];
	struct target t = target_start(body_pause);

	target_wait(&t, 1);
	target_state(&t, 'S');
	snapshot(t.pid, before, sizeof(before));
	for (int i = 0; i < 20; i++)
		inject_ok(&t);
	target_state(&t, 'S');
	snapshot(t.pid, after, sizeof(after));
	ATF_CHECK_STREQ(before, after);
	target_kill(&t);
}

/* a breakpoint poked into the code would leave a page of its own, for good */
INJECT_CASE(target__code_clean, "No page of the target's code is copied, let alone changed")
{
	struct target t = target_start(body_spin);
	bool executable = false;
	char line[1024], flags[8];
	char path[64];
	long kb;
	FILE *f;

	target_wait(&t, 1);
	for (int i = 0; i < 5; i++)
		inject_ok(&t);
	snprintf(path, sizeof(path), "/proc/%d/smaps", t.pid);
	f = fopen(path, "re");
	ATF_REQUIRE(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*x-%*x %7s", flags) == 1)
			executable = flags[2] == 'x';
		if (executable && sscanf(line, "Anonymous: %ld", &kb) == 1)
			ATF_CHECK_EQ(0, kb);
	}
	fclose(f);
	target_finish(&t);
}

INJECT_CASE(target__busy, "A target that never sleeps goes on after each injection")
{
	struct target t = target_start(body_spin);

	target_wait(&t, 1);
	for (int i = 0; i < 20; i++) {
		inject_ok(&t);
		count_runs(&t.shared->spins);
	}
	target_finish(&t);
}

static void body_full(struct shared *shared)
{
	while (dup(0) >= 0)
		;
	CHILD_REQUIRE(errno == EMFILE);
	body_pause(shared);
}

INJECT_CASE(target__no_descriptor_free, "A target with a full descriptor table is a clear error")
{
	struct target t = target_start(body_full);

	target_wait(&t, 1);
	inject_refused(t.pid, -EMFILE, WPROF_SYSTEM, "RLIMIT_NOFILE");
	target_kill(&t);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, pid__none);
	ATF_TP_ADD_TC(tp, pid__own);
	ATF_TP_ADD_TC(tp, pid__kernel_thread);
	ATF_TP_ADD_TC(tp, pid__zombie);
	ATF_TP_ADD_TC(tp, injector__missing);
	ATF_TP_ADD_TC(tp, uffd__works);
	ATF_TP_ADD_TC(tp, target__unchanged);
	ATF_TP_ADD_TC(tp, target__code_clean);
	ATF_TP_ADD_TC(tp, target__busy);
	ATF_TP_ADD_TC(tp, target__no_descriptor_free);
	return atf_no_error();
}
