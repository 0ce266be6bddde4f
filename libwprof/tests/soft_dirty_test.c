/*
 * Real programs, seen by two witnesses: ours and the kernel's soft-dirty bit,
 * which CRIU goes by. The program is stopped by SIGSTOP while both are read and
 * begun anew, so that they speak of the same time and the same pages: each page
 * soft-dirty calls written, and that still exists, must be among ours. The other
 * way round is no error: what is new to us counts as written when it is found.
 *
 * Cannot show: what happens to writes during a scan; exact_test does.
 */
#include <atf-c.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wprof.h"

#define INTERVALS 12
#define PAGES_MIN 1000 /* what both saw, or nothing was compared */

static pid_t children[2]; /* the program; its load */

static pid_t child_run(const char *command)
{
	pid_t pid = fork();

	ATF_REQUIRE(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* The output of @command, run until it begins with @text: a minute at most */
static void await(const char *command, const char *text)
{
	char line[256] = "";

	for (int i = 0; i < 600; i++) {
		FILE *f = popen(command, "r");

		ATF_REQUIRE(f != NULL);
		if (fgets(line, sizeof(line), f) && !strncmp(line, text, strlen(text))) {
			pclose(f);
			return;
		}
		pclose(f);
		usleep(100000);
	}
	atf_tc_fail("%s: %s", command, line);
}

static void children_end(void)
{
	for (size_t i = 0; i < 2; i++) {
		if (children[i] <= 0)
			continue;
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
}

static struct wprof *open_session(pid_t pid)
{
	const struct wprof_opts opts = { .size = sizeof(opts),
					 .granularity_bytes = WPROF_CHUNK,
					 .flags = WPROF_F_SOFT_DIRTY | WPROF_F_CLEAR_SOFT_DIRTY };
	struct wprof_why why;
	struct wprof *w;
	int rc = wprof_open(pid, &opts, &w, &why);

	if (rc == -EOPNOTSUPP && strstr(why.text, "soft-dirty")) {
		children_end();
		atf_tc_skip("this kernel has no soft-dirty");
	}
	ATF_REQUIRE_MSG(rc == 0, "%s", why.text);
	return w;
}

/* Pages of @soft that are in none of the runs of @iv, both ascending. */
static uint64_t missed(const struct wprof_interval *iv)
{
	uint64_t n = 0;
	size_t k = 0;

	for (size_t i = 0; i < iv->n_soft_dirty_runs; i++) {
		const struct wprof_run *s = &iv->soft_dirty_runs[i];

		for (uint64_t p = 0; p < s->n_pages; p++) {
			uint64_t at = s->start + p * iv->page_bytes;

			while (k < iv->n_runs &&
			       iv->runs[k].start + iv->runs[k].n_pages * iv->page_bytes <= at)
				k++;
			if (k < iv->n_runs && iv->runs[k].start <= at)
				continue;
			if (!n++)
				printf("interval %" PRIu64 ": page %#" PRIx64 " was missed\n",
				       iv->number, at);
		}
	}
	return n;
}

/*
 * The first interval is not compared: soft-dirty then tells of all that was
 * written since the program began.
 */
static void compare(pid_t pid)
{
	struct wprof *w = open_session(pid);
	uint64_t ours = 0, soft = 0, lost = 0;
	const struct wprof_interval *iv;
	siginfo_t info;

	for (int i = 0; i < INTERVALS; i++) {
		usleep(200000);
		ATF_REQUIRE_EQ(0, kill(pid, SIGSTOP));
		ATF_REQUIRE_EQ(0, waitid(P_PID, (id_t)pid, &info, WSTOPPED));
		ATF_REQUIRE_EQ(0, wprof_sample(w, &iv));
		ATF_REQUIRE(!iv->ended);
		if (i > 0) {
			ours += iv->written_pages;
			soft += iv->soft_dirty_pages;
			lost += missed(iv);
		}
		ATF_REQUIRE_EQ(0, kill(pid, SIGCONT));
	}
	wprof_close(w);
	printf("written: %" PRIu64 " pages by soft-dirty, %" PRIu64 " by wprof, %" PRIu64
	       " of the first not among the second\n",
	       soft, ours, lost);
	ATF_CHECK_EQ(0, lost);
	ATF_CHECK_MSG(soft >= PAGES_MIN, "only %" PRIu64 " pages were compared", soft);
}

ATF_TC(numpy__nothing_missed);
ATF_TC_HEAD(numpy__nothing_missed, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "No page is missed that numpy wrote, arrays coming and going");
	atf_tc_set_md_var(tc, "require.progs", "/usr/bin/python3");
	atf_tc_set_md_var(tc, "require.files", "/usr/lib/python3/dist-packages/numpy");
	atf_tc_set_md_var(tc, "timeout", "120");
}
ATF_TC_BODY(numpy__nothing_missed, tc)
{
	(void)tc;
	children[0] = child_run("exec /usr/bin/python3 -c '\n"
				"import numpy\n"
				"r = numpy.random.default_rng(1)\n"
				"a = numpy.zeros(4 << 20, dtype=numpy.uint32)\n"
				"open(\"ready\", \"w\").write(\"ready\")\n"
				"while True:\n"
				"    a[r.integers(0, a.size, 2000)] += 1\n"
				"    b = a[::64].copy()\n"
				"    a[:100000] = numpy.sort(a[:100000])\n"
				"'");
	await("cat ready 2> /dev/null", "ready");
	compare(children[0]);
	children_end();
}

ATF_TC(redis__nothing_missed);
ATF_TC_HEAD(redis__nothing_missed, tc)
{
	atf_tc_set_md_var(tc, "descr", "No page is missed that redis wrote under redis-benchmark");
	atf_tc_set_md_var(tc, "require.progs", "redis-server redis-benchmark redis-cli");
	atf_tc_set_md_var(tc, "timeout", "180");
}
ATF_TC_BODY(redis__nothing_missed, tc)
{
	(void)tc;
	children[0] = child_run("exec redis-server --port 0 --unixsocket redis.sock --save '' "
				"--appendonly no --daemonize no > redis.log 2>&1");
	await("redis-cli -s redis.sock ping 2> /dev/null", "PONG");
	children[1] = child_run("exec redis-benchmark -s redis.sock -q -t set -d 1024 -r 20000 "
				"-n 100000000 > load.log 2>&1");
	await("redis-cli -s redis.sock exists key:000000000001 key:000000000002 "
	      "key:000000000003 | grep -v '^0' | sed 's/.*/there/'",
	      "there");
	compare(children[0]);
	await("redis-cli -s redis.sock ping", "PONG");
	children_end();
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, numpy__nothing_missed);
	ATF_TP_ADD_TC(tp, redis__nothing_missed);
	return atf_no_error();
}
