/* What is said of a process that published nothing, and finding those that did. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "container.h"
#include "scene.h"

#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

/* ---- container ids -------------------------------------------------------------- */

TEST_CASE(container__cgroup, "The id is found in the paths that the known runtimes make")
{
	static const char *const with[] = {
		"12:cpu:/docker/" ID "\n",
		"0::/system.slice/docker-" ID ".scope\n",
		"0::/kubepods.slice/kubepods-pod12.slice/cri-containerd-" ID ".scope\n",
		"1:a:/\n2:b:/kubepods/besteffort/pod9f1c/" ID "\n",
		"0::/machine.slice/libpod-" ID ".scope/container\n",
		"0::/docker/" OTHER "/docker/" ID "\n",
		("0::/crio-" ID),
	};
	static const char *const without[] = {
		"",
		"\n",
		"0::/\n",
		"0::/user.slice/user-1000.slice/session-3.scope\n",
		("0::/docker/" ID "0\n"), /* 65 digits */
		"0::/docker/0123456789abcdef\n",
	};
	char id[CONTAINER_ID_LEN + 1];

	for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
		ATF_CHECK_MSG(container_from_cgroup(with[i], id), "%s", with[i]);
		ATF_CHECK_STREQ(ID, id);
	}
	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
		ATF_CHECK_MSG(!container_from_cgroup(without[i], id), "%s", without[i]);
}

TEST_CASE(container__mounts,
	  "In a cgroup namespace the id is found by what is mounted, not a pod's")
{
	char id[CONTAINER_ID_LEN + 1];

	ATF_REQUIRE(container_from_mounts("1 2 8:1 / / rw - ext4 /dev/sda rw\n"
					  "3 4 8:1 /var/lib/docker/containers/" ID
					  "/hostname /etc/hostname rw - ext4 x rw\n",
					  id));
	ATF_CHECK_STREQ(ID, id);
	ATF_CHECK(!container_from_mounts(
		"3 4 8:1 /run/sandboxes/" OTHER "/hostname /etc/hostname rw - ext4 x rw\n", id));
	ATF_CHECK(!container_from_mounts("3 4 8:1 /data/" ID "/file /data rw - ext4 x rw\n", id));
	ATF_CHECK(!container_from_mounts("3 4\n", id));
	ATF_CHECK(!container_from_mounts("", id));
}

/* ---- a procfs made of files -------------------------------------------------------- */

static void put_file(const char *name, const char *data, size_t len)
{
	char path[64];
	int fd;

	mkdir("proc", 0755);
	mkdir("proc/7", 0755);
	snprintf(path, sizeof(path), "proc/7/%s", name);
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
	ATF_REQUIRE(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	close(fd);
}

/* A literal that may hold NULs. */
#define put_text(name, text) put_file(name, text, sizeof(text) - 1)

static struct pctx_context *detect_fixture(void)
{
	struct pctx_reader_opts opts = { .size = sizeof(opts), .procfs = "proc" };
	struct pctx_context *c;

	ATF_REQUIRE_EQ(0, pctx_detect(7, &opts, &c));
	ATF_CHECK(pctx_context_detected(c));
	ATF_CHECK_EQ(0, pctx_context_published_at_ns(c));
	return c;
}

TEST_CASE(detect__everything, "Each source gives its attributes, the environment first")
{
	struct pctx_context *c;
	const struct pctx_attr *a;

	put_text("stat", "");
	put_text("comm", "prog\n");
	put_text("environ", "A=1\0OTEL_SERVICE_NAME=shop\0OTEL_RESOURCE_ATTRIBUTES="
			    "service.name=no,k%20ey=a%2Cb, x = y ,process.pid=9\0");
	put_text("cmdline", "/bin/prog\0-v\0\0");
	put_text("status", "Name:\tprog\nPPid:\t3\nUid:\t1\t2\t3\t4\n");
	put_text("cgroup", "0::/docker/" ID "\n");
	ATF_REQUIRE(symlink("/usr/bin/prog", "proc/7/exe") == 0);
	c = detect_fixture();
	ATF_CHECK(has_string(c, "service.name", "shop"));
	ATF_CHECK(has_string(c, "k ey", "a,b"));
	ATF_CHECK(has_string(c, "x", "y"));
	ATF_CHECK(has_string(c, "process.pid", "9"));
	ATF_CHECK(has_string(c, "process.command", "/bin/prog"));
	ATF_CHECK(has_string(c, "process.executable.name", "prog"));
	ATF_CHECK(has_string(c, "process.executable.path", "/usr/bin/prog"));
	ATF_CHECK(has_string(c, "container.id", ID));
	a = pctx_context_find(c, "process.parent_pid");
	ATF_CHECK(a && a->value.u.integer == 3);
	a = pctx_context_find(c, "process.user.id");
	ATF_CHECK(a && a->value.u.integer == 2);
	a = pctx_context_find(c, "process.command_args");
	ATF_REQUIRE(a && a->value.kind == PCTX_ARRAY && a->value.u.array.n == 3);
	ATF_CHECK_EQ(0, a->value.u.array.values[2].u.string.len);
	pctx_context_free(c);
}

TEST_CASE(detect__nothing_readable, "Where no source can be read there is still a name and the PID")
{
	struct pctx_context *c;
	const struct pctx_attr *a;

	put_text("stat", "");
	c = detect_fixture();
	ATF_CHECK(has_string(c, "service.name", "unknown_service"));
	a = pctx_context_find(c, "process.pid");
	ATF_CHECK(a && a->value.u.integer == 7);
	pctx_context_free(c);
}

TEST_CASE(detect__bad_bytes,
	  "Bytes that are no text, and a variable spoiled by an error, do no harm")
{
	struct pctx_context *c;

	put_text("stat", "");
	put_text("comm", "pr\xffg\n");
	put_text("cmdline", "\xfe\0");
	put_text("environ", "OTEL_RESOURCE_ATTRIBUTES=a=b,c=%zz\0OTEL_SERVICE_NAME=\0");
	c = detect_fixture();
	ATF_CHECK(has_string(c, "service.name", "unknown_service:pr?g"));
	ATF_CHECK(has_string(c, "process.command", "?"));
	ATF_CHECK(!pctx_context_find(c, "a"));
	pctx_context_free(c);
}

TEST_CASE(detect__real, "A real process is described by its program and parent")
{
	struct pctx_context *c;
	const struct pctx_attr *a;

	ATF_REQUIRE_EQ(0, pctx_detect(getpid(), NULL, &c));
	ATF_CHECK(has_string(c, "process.executable.name", "detect_test"));
	a = pctx_context_find(c, "process.parent_pid");
	ATF_CHECK(a && a->value.u.integer == getppid());
	pctx_context_free(c);
}

TEST_CASE(detect__gone, "A process that is not there is -ESRCH")
{
	struct pctx_context *c;
	pid_t pid = fork();

	ATF_REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(0);
	ATF_REQUIRE_EQ(pid, waitpid(pid, NULL, 0));
	ATF_CHECK_EQ(-ESRCH, pctx_detect(pid, NULL, &c));
}

/* ---- finding services ------------------------------------------------------------------ */

/* The name is this test's own: other tests run at the same time. */
static char service[64];

static void publish_service(int step, void *arg)
{
	struct pctx_attr attrs[] = { pctx_string("service.name", service) };
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .resource = attrs,
					  .n_resource = 1 };

	(void)step;
	(void)arg;
	CHILD_REQUIRE(pctx_publish(&opts) == 0);
}

static int find(pid_t *pids, size_t room, size_t *n)
{
	*n = room;
	return pctx_find_service(service, NULL, pids, n);
}

TEST_CASE(service__none_and_several,
	  "No match is no success; several are all counted, as many told as fit")
{
	struct scene one, two;
	pid_t pids[4];
	size_t n;
	int rc;

	snprintf(service, sizeof(service), "test-%d", (int)getpid());
	/* -EPERM where something on this host may not be looked into even by us */
	rc = find(pids, 4, &n);
	ATF_CHECK(rc == -ENODATA || rc == -EPERM);
	one = scene_begin(publish_service, NULL);
	ATF_REQUIRE_EQ(0, find(pids, 4, &n));
	ATF_CHECK_EQ(1, n);
	ATF_CHECK_EQ(one.pid, pids[0]);
	two = scene_begin(publish_service, NULL);
	ATF_REQUIRE_EQ(0, find(pids, 4, &n));
	ATF_CHECK_EQ(2, n);
	pids[1] = 0;
	ATF_REQUIRE_EQ(0, find(pids, 1, &n));
	ATF_CHECK_EQ(2, n);
	ATF_CHECK_EQ(0, pids[1]);
	ATF_REQUIRE_EQ(0, find(NULL, 0, &n));
	ATF_CHECK_EQ(2, n);
	/* a prefix of the name is another name */
	service[strlen(service) - 1] = '\0';
	rc = find(pids, 4, &n);
	ATF_CHECK(rc == -ENODATA || rc == -EPERM);
	scene_end(&one);
	scene_end(&two);
}

static void publish_tree(int step, void *arg)
{
	int ready[2];
	char byte;

	publish_service(step, arg);
	/* a grandchild with the name, its parent without a context */
	CHILD_REQUIRE(pipe(ready) == 0);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			publish_service(step, arg);
			CHILD_REQUIRE(write(ready[1], "x", 1) == 1);
		}
		for (;;)
			pause();
	}
	CHILD_REQUIRE(read(ready[0], &byte, 1) == 1);
}

TEST_CASE(service__topmost_of_tree, "Of a tree of processes with the name the topmost is meant")
{
	struct scene s;
	pid_t pids[4];
	size_t n;

	snprintf(service, sizeof(service), "tree-%d", (int)getpid());
	s = scene_begin(publish_tree, NULL);
	ATF_REQUIRE_EQ(0, find(pids, 4, &n));
	ATF_CHECK_EQ(1, n);
	ATF_CHECK_EQ(s.pid, pids[0]);
	scene_end(&s);
}

static int stop_at_first(pid_t pid, int error, const struct pctx_context *context, void *arg)
{
	pid_t *seen = arg;

	if (error || !context || !has_string(context, "service.name", service))
		return 0;
	*seen = pid;
	return 4711;
}

TEST_CASE(each__stops, "What the callback returns ends the pass and is returned")
{
	struct pctx_reader_opts bad = { .size = sizeof(bad), .procfs = "/nowhere" };
	struct scene s;
	pid_t seen = 0;

	snprintf(service, sizeof(service), "each-%d", (int)getpid());
	s = scene_begin(publish_service, NULL);
	ATF_CHECK_EQ(4711, pctx_each(NULL, stop_at_first, &seen));
	ATF_CHECK_EQ(s.pid, seen);
	ATF_CHECK_EQ(-EINVAL, pctx_each(&bad, stop_at_first, &seen));
	scene_end(&s);
}

/* ---- reading with a function of the caller's ----------------------------------- */

struct answers {
	int rc; /* for the process it is about */
	pid_t pid;
	bool other_options; /* it was not given what it should be */
	int told;	    /* of that process by pctx_each() */
	unsigned int n_told;
};

static int answer(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_context **out)
{
	struct answers *a = opts->read_arg;

	a->other_options |= opts->mappings_max != 4711 || opts->read != answer;
	if (pid != a->pid)
		return -ENODATA;
	return a->rc ? a->rc : pctx_read(pid, NULL, out);
}

static int told(pid_t pid, int error, const struct pctx_context *context, void *arg)
{
	struct answers *a = arg;

	a->n_told++;
	a->told = pid == a->pid && !context == !!error ? error : 4711;
	return 0;
}

TEST_CASE(
	each__read_by_caller,
	"A function of the caller's reads, with its argument, and its errors are told or returned")
{
	static const struct {
		int read, told, each, find;
	} cases[] = {
		{ -ETIMEDOUT, -ETIMEDOUT, 0, -ETIMEDOUT },
		{ -EPERM, -EPERM, 0, -EPERM },
		{ -EBADMSG, -EBADMSG, 0, -ENODATA },
		{ -EAGAIN, -EAGAIN, 0, -ENODATA },
		{ -ENODATA, 1, 0, -ENODATA },
		{ -ESRCH, 1, 0, -ENODATA },
		{ -ENOMEM, 1, -ENOMEM, -ENOMEM },
		{ -EMFILE, 1, -EMFILE, -EMFILE },
		{ -ENFILE, 1, -ENFILE, -ENFILE },
		{ 0, 0, 0, 0 },
	};
	struct answers a = { .rc = 0 };
	struct pctx_reader_opts opts = {
		.size = sizeof(opts), .mappings_max = 4711, .read = answer, .read_arg = &a
	};
	struct scene s;

	snprintf(service, sizeof(service), "read-%d", (int)getpid());
	s = scene_begin(publish_service, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = 0;

		a = (struct answers){ .rc = cases[i].read, .pid = s.pid, .told = 1 };
		ATF_CHECK_EQ(cases[i].each, pctx_each(&opts, told, &a));
		ATF_CHECK_EQ(cases[i].told, a.told);
		ATF_CHECK_EQ(cases[i].told == 1 ? 0 : 1, a.n_told);
		ATF_CHECK_EQ(cases[i].find, pctx_find_service(service, &opts, NULL, &n));
		ATF_CHECK_EQ(cases[i].find == 0, n);
		ATF_CHECK(!a.other_options);
	}
	scene_end(&s);
}

TEST_CASE(all__newer_options, "Options that this library does not know are -E2BIG everywhere")
{
	struct {
		struct pctx_reader_opts opts;
		uint64_t newer;
	} big = { { .size = sizeof(big) }, 1 };
	struct pctx_context *c = NULL;
	struct answers a = { .rc = 0 };
	size_t n = 0;

	ATF_CHECK_EQ(-E2BIG, pctx_read(getpid(), &big.opts, &c));
	ATF_CHECK_EQ(-E2BIG, pctx_detect(getpid(), &big.opts, &c));
	ATF_CHECK_EQ(-E2BIG, pctx_each(&big.opts, told, &a));
	ATF_CHECK_EQ(-E2BIG, pctx_find_service("x", &big.opts, NULL, &n));
	ATF_CHECK(!c && !a.n_told);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, container__cgroup);
	ATF_TP_ADD_TC(tp, container__mounts);
	ATF_TP_ADD_TC(tp, detect__everything);
	ATF_TP_ADD_TC(tp, detect__nothing_readable);
	ATF_TP_ADD_TC(tp, detect__bad_bytes);
	ATF_TP_ADD_TC(tp, detect__real);
	ATF_TP_ADD_TC(tp, detect__gone);
	ATF_TP_ADD_TC(tp, service__none_and_several);
	ATF_TP_ADD_TC(tp, service__topmost_of_tree);
	ATF_TP_ADD_TC(tp, each__stops);
	ATF_TP_ADD_TC(tp, each__read_by_caller);
	ATF_TP_ADD_TC(tp, all__newer_options);
	return atf_no_error();
}
