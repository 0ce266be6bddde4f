/*
 * What one look into a live process comes to: each outcome of the reader, the
 * unhappy ones first. What changes under a reader is reader_test's.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <time.h>

#include "scene.h"

static struct pctx_reader_opts few_attempts = { .size = sizeof(few_attempts), .attempts_max = 3 };

/* ---- arguments -------------------------------------------------------------- */

TEST_CASE(open__bad_arguments, "A PID or a limit that cannot be is -EINVAL, unknown options -E2BIG")
{
	struct pctx_reader_opts opts = { .size = sizeof(opts) };
	struct {
		struct pctx_reader_opts opts;
		uint64_t newer;
	} big = { { .size = sizeof(big) }, 1 };
	struct pctx_reader *reader = NULL;

	ATF_CHECK_EQ(-EINVAL, pctx_reader_open(0, NULL, &reader));
	ATF_CHECK_EQ(-EINVAL, pctx_reader_open(-1, NULL, &reader));
	opts.payload_max_bytes = PCTX_PAYLOAD_LIMIT + 1;
	ATF_CHECK_EQ(-EINVAL, pctx_reader_open(getpid(), &opts, &reader));
	opts = (struct pctx_reader_opts){ .size = sizeof(opts), .procfs = "/nowhere" };
	ATF_CHECK_EQ(-EINVAL, pctx_reader_open(getpid(), &opts, &reader));
	opts.procfs = "/etc/passwd";
	ATF_CHECK_EQ(-EINVAL, pctx_reader_open(getpid(), &opts, &reader));
	opts = (struct pctx_reader_opts){ .size = 2 };
	ATF_CHECK_EQ(-EINVAL, pctx_reader_open(getpid(), &opts, &reader));
	ATF_CHECK_EQ(-E2BIG, pctx_reader_open(getpid(), &big.opts, &reader));
	ATF_CHECK(!reader);
	pctx_reader_close(NULL);
	pctx_context_free(NULL);
}

TEST_CASE(open__older_caller, "Options that end early take their defaults")
{
	struct pctx_reader_opts opts = { .size = sizeof(size_t) };
	struct pctx_reader *reader;

	opts.payload_max_bytes = 1; /* beyond the size: not looked at */
	opts.procfs = "/nowhere";
	ATF_REQUIRE_EQ(0, pctx_reader_open(getpid(), &opts, &reader));
	pctx_reader_close(reader);
}

/* ---- nothing to read --------------------------------------------------------- */

TEST_CASE(read__nobody, "A process that is gone is -ESRCH, and errno stays what it was")
{
	struct pctx_context *c = NULL;
	pid_t pid = fork();

	ATF_REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(0);
	ATF_REQUIRE_EQ(pid, waitpid(pid, NULL, 0));
	errno = 4711;
	ATF_CHECK_EQ(-ESRCH, pctx_read(pid, NULL, &c));
	ATF_CHECK_EQ(4711, errno);
	ATF_CHECK(!c);
}

TEST_CASE(read__zombie, "A zombie, whose maps are empty and not an error, is -ESRCH")
{
	struct pctx_context *c;
	siginfo_t info;
	pid_t pid = fork();

	ATF_REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(0);
	ATF_REQUIRE_EQ(0, waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
	ATF_CHECK_EQ(-ESRCH, pctx_read(pid, NULL, &c));
	ATF_REQUIRE_EQ(pid, waitpid(pid, NULL, 0));
}

static void do_nothing(int step, void *arg)
{
	(void)step;
	(void)arg;
}

TEST_CASE(read__none_published, "A process without a context is -ENODATA")
{
	struct scene s = scene_begin(do_nothing, NULL);
	struct pctx_context *c;

	errno = 4711;
	ATF_CHECK_EQ(-ENODATA, pctx_read(s.pid, NULL, &c));
	ATF_CHECK_EQ(4711, errno);
	scene_end(&s);
}

TEST_CASE(read__kernel_thread, "A kernel thread has no memory and so no context: -ENODATA")
{
	struct pctx_context *c;
	char name[32] = "";
	int fd = open("/proc/2/comm", O_RDONLY);

	if (fd >= 0 && read(fd, name, sizeof(name) - 1) > 0 && strcmp(name, "kthreadd\n") == 0)
		ATF_CHECK_EQ(-ENODATA, pctx_read(2, NULL, &c));
	else
		atf_tc_pass(); /* in a PID namespace there is none to look at */
	close(fd);
}

/* ---- permissions -------------------------------------------------------------- */

/* Read as another user, in a process of its own: the error it gets. */
static int read_as_nobody(pid_t pid)
{
	pid_t child = fork();
	struct pctx_context *c;
	int status;

	ATF_REQUIRE(child >= 0);
	if (child == 0) {
		CHILD_REQUIRE(setresgid(65534, 65534, 65534) == 0 &&
			      setresuid(65534, 65534, 65534) == 0);
		_exit(-pctx_read(pid, NULL, &c));
	}
	ATF_REQUIRE_EQ(child, waitpid(child, &status, 0));
	ATF_REQUIRE(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

ATF_TC(read__other_user);
ATF_TC_HEAD(read__other_user, tc)
{
	atf_tc_set_md_var(tc, "descr", "Another user's process is -EPERM, published or not");
	atf_tc_set_md_var(tc, "require.user", "root");
	atf_tc_set_md_var(tc, "timeout", "30");
}
ATF_TC_BODY(read__other_user, tc)
{
	struct scene s = scene_begin(publish_by_hand, NULL), none = scene_begin(do_nothing, NULL);

	ATF_CHECK_EQ(-EPERM, read_as_nobody(s.pid));
	ATF_CHECK_EQ(-EPERM, read_as_nobody(none.pid));
	scene_end(&s);
	scene_end(&none);
}

static void publish_undumpable(int step, void *arg)
{
	CHILD_REQUIRE(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
	CHILD_REQUIRE(prctl(PR_SET_DUMPABLE, 0) == 0);
	publish_by_hand(step, arg);
}

ATF_TC(read__undumpable);
ATF_TC_HEAD(read__undumpable, tc)
{
	atf_tc_set_md_var(
		tc, "descr",
		"A process that is not dumpable is -EPERM for its user, readable for root");
	atf_tc_set_md_var(tc, "require.user", "root");
	atf_tc_set_md_var(tc, "timeout", "30");
}
ATF_TC_BODY(read__undumpable, tc)
{
	struct scene s = scene_begin(publish_undumpable, NULL);

	ATF_CHECK_EQ(-EPERM, read_as_nobody(s.pid));
	ATF_CHECK_EQ(0, read_service(s.pid, NULL, "hand"));
	scene_end(&s);
}

/* In a mount namespace whose /proc hides as @hidepid says, in the child of a test. */
static void hide(const char *hidepid)
{
	CHILD_REQUIRE(unshare(CLONE_NEWNS) == 0 &&
		      mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		      mount("proc", "/proc", "proc", 0, hidepid) == 0);
}

/* What root and then another user make of it, and of a process that is not there. What
 * root has looked up in a procfs others find there, too: each has one of its own. */
static void look_hidden(const char *hidepid, pid_t pid, pid_t gone, bool has_directory)
{
	struct pctx_reader *reader;
	struct pctx_context *c;
	bool changed;

	hide(hidepid);
	CHILD_REQUIRE(pctx_reader_open(pid, NULL, &reader) == 0 &&
		      pctx_reader_read(reader, &c) == 0);
	pctx_context_free(c);
	hide(hidepid);
	CHILD_REQUIRE(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
	CHILD_REQUIRE(pctx_read(pid, NULL, &c) == -EPERM);
	/* the owner of a directory that is seen is seen too */
	CHILD_REQUIRE(pctx_detect(pid, NULL, &c) == (has_directory ? 0 : -EPERM));
	if (has_directory)
		pctx_context_free(c);
	CHILD_REQUIRE(pctx_read(gone, NULL, &c) == -ESRCH);
	CHILD_REQUIRE(pctx_detect(gone, NULL, &c) == -ESRCH);
	/* what it could look into it is hidden from now, but is not gone */
	CHILD_REQUIRE(pctx_reader_poll(reader, &changed) == -EPERM);
	CHILD_REQUIRE(pctx_reader_read(reader, &c) == -EPERM);
	pctx_reader_close(reader);
}

ATF_TC(read__hidden);
ATF_TC_HEAD(read__hidden, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "A process that /proc hides (hidepid) is -EPERM, one that is not there "
			  "-ESRCH");
	atf_tc_set_md_var(tc, "require.user", "root");
	atf_tc_set_md_var(tc, "timeout", "30");
}
ATF_TC_BODY(read__hidden, tc)
{
	/* a directory that cannot be entered, one with nothing in it, and none */
	static const char *const modes[] = { "hidepid=1", "hidepid=2", "hidepid=4" };
	struct scene s = scene_begin(publish_by_hand, NULL);
	pid_t gone = fork();
	int status;

	if (gone == 0)
		_exit(0);
	ATF_REQUIRE_EQ(gone, waitpid(gone, NULL, 0));
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		pid_t child = fork();

		ATF_REQUIRE(child >= 0);
		if (child == 0) {
			look_hidden(modes[i], s.pid, gone, i == 0);
			_exit(0);
		}
		ATF_REQUIRE_EQ(child, waitpid(child, &status, 0));
		ATF_CHECK_EQ_MSG(0, status, "%s", modes[i]);
	}
	scene_end(&s);
}

/* ---- versions and signatures ----------------------------------------------------- */

static void publish_version(int step, void *arg)
{
	static struct bytes b;
	struct ctx_header *h = craft_mapping(PAGE);

	(void)step;
	payload_string(&b, "service.name", "hand");
	craft_header(h, b.data, (uint32_t)b.len, 1000);
	h->version = *(const uint32_t *)arg;
}

TEST_CASE(read__versions, "Versions 0, 1 and 3 are -EPROTONOSUPPORT, 1 is read when asked for")
{
	struct pctx_reader_opts development = { .size = sizeof(development),
						.accept_version_1 = 1 };
	uint32_t versions[] = { 0, 1, 3, 0x02000000 };
	struct pctx_context *c;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct scene s = scene_begin(publish_version, &versions[i]);

		ATF_CHECK_EQ(-EPROTONOSUPPORT, pctx_read(s.pid, NULL, &c));
		ATF_CHECK_EQ(versions[i] == 1 ? 0 : -EPROTONOSUPPORT,
			     read_service(s.pid, &development, "hand"));
		scene_end(&s);
	}
}

static void publish_signature(int step, void *arg)
{
	static struct bytes b;
	struct ctx_header *h = craft_mapping(PAGE);

	(void)step;
	payload_string(&b, "service.name", "hand");
	craft_header(h, b.data, (uint32_t)b.len, 1000);
	h->signature[*(const int *)arg] ^= 0x20;
}

TEST_CASE(read__signature, "A signature wrong in one byte is no context")
{
	struct pctx_context *c;

	for (int i = 0; i < CTX_SIGNATURE_SIZE; i++) {
		struct scene s = scene_begin(publish_signature, &i);

		ATF_CHECK_EQ(-ENODATA, pctx_read(s.pid, NULL, &c));
		scene_end(&s);
	}
}

/* ---- updates ----------------------------------------------------------------------- */

static void publish_stuck(int step, void *arg)
{
	(void)arg;
	publish_as("hand", step ? 77 : 0);
}

TEST_CASE(read__updating_forever, "A timestamp of 0 that stays is -EAGAIN after bounded attempts")
{
	struct scene s = scene_begin(publish_stuck, NULL);
	struct pctx_reader *reader;
	struct pctx_context *c;
	bool changed = false;

	ATF_CHECK_EQ(-EAGAIN, pctx_read(s.pid, NULL, &c));
	ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, &few_attempts, &reader));
	ATF_CHECK_EQ(-EAGAIN, pctx_reader_read(reader, &c));
	ATF_CHECK_EQ(-EAGAIN, pctx_reader_poll(reader, &changed));
	ATF_CHECK(!changed);
	scene_step(&s, 1);
	ATF_CHECK_EQ(0, pctx_reader_poll(reader, &changed));
	ATF_CHECK(changed);
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
	pctx_context_free(c);
	pctx_reader_close(reader);
	scene_end(&s);
}

static void publish_slowly(int step, void *arg)
{
	static struct ctx_header *h;
	static struct bytes b;

	if (!step) {
		h = craft_mapping(PAGE);
		payload_string(&b, "service.name", "hand");
		craft_header(h, b.data, (uint32_t)b.len, 0);
		return;
	}
	/* the answer is sent first: the reader runs against what follows */
	CHILD_REQUIRE(write(*(int *)arg, "x", 1) == 1);
	nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
	craft_header(h, b.data, (uint32_t)b.len, 1000);
}

TEST_CASE(read__updating_for_5_ms, "An update of 5 ms is waited for")
{
	unsigned char step = 1;
	int started[2];
	struct scene s;

	ATF_REQUIRE_EQ(0, pipe(started));
	s = scene_begin(publish_slowly, &started[1]);
	ATF_REQUIRE_EQ(1, write(s.order, &step, 1));
	ATF_REQUIRE_EQ(1, read(started[0], &step, 1));
	ATF_CHECK_EQ(0, read_service(s.pid, NULL, "hand"));
	scene_end(&s);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, open__bad_arguments);
	ATF_TP_ADD_TC(tp, open__older_caller);
	ATF_TP_ADD_TC(tp, read__nobody);
	ATF_TP_ADD_TC(tp, read__zombie);
	ATF_TP_ADD_TC(tp, read__none_published);
	ATF_TP_ADD_TC(tp, read__kernel_thread);
	ATF_TP_ADD_TC(tp, read__other_user);
	ATF_TP_ADD_TC(tp, read__undumpable);
	ATF_TP_ADD_TC(tp, read__hidden);
	ATF_TP_ADD_TC(tp, read__versions);
	ATF_TP_ADD_TC(tp, read__signature);
	ATF_TP_ADD_TC(tp, read__updating_forever);
	ATF_TP_ADD_TC(tp, read__updating_for_5_ms);
	return atf_no_error();
}
