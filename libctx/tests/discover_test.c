/*
 * Finding the mapping: lines of maps text, procfs directories made of files, and
 * processes with very many mappings, by queries and by text.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "discover.h"
#include "maps.h"
#include "scene.h"
#include "sys.h"

/* ---- lines ------------------------------------------------------------------------ */

static bool candidate(const char *text)
{
	struct maps_line line;

	return maps_parse(text, strlen(text), &line) && maps_is_candidate(&line);
}

#define AT "7f1200000000-7f1200001000 "

TEST_CASE(maps__names, "The three names of a context are candidates, with what may follow them")
{
	ATF_CHECK(candidate(AT "rw-p 00000000 00:01 123      /memfd:OTEL_CTX (deleted)"));
	ATF_CHECK(candidate(AT "rw-p 00000000 00:01 123      [anon_shmem:OTEL_CTX]"));
	ATF_CHECK(candidate(AT "rw-p 00000000 00:00 0        [anon:OTEL_CTX]"));
	ATF_CHECK(candidate(AT "rw-s 00000000 00:01 123      /memfd:OTEL_CTX (deleted)"));
	ATF_CHECK(candidate(AT "rw-p 00000000 00:01 123 /memfd:OTEL_CTX_BACKUP (deleted)"));
	ATF_CHECK(candidate(AT "rw-p 00000000 00:01 123 /memfd:OTEL_CTX with spaces"));
}

TEST_CASE(maps__near_misses, "Names that only resemble one, and memory nobody writes to, are none")
{
	ATF_CHECK(!candidate(AT "rw-p 00000000 00:00 0        [anon:OTEL_CTX2]"));
	ATF_CHECK(!candidate(AT "rw-p 00000000 00:00 0        [anon_shmem:OTEL_CTX2]"));
	ATF_CHECK(!candidate(AT "rw-p 00000000 00:00 0        [anon: OTEL_CTX]"));
	ATF_CHECK(!candidate(AT "rw-p 00000000 00:00 0        OTEL_CTX"));
	ATF_CHECK(!candidate(AT "rw-p 00000000 08:01 99       /tmp/memfd:OTEL_CTX/file"));
	ATF_CHECK(!candidate(AT "rw-p 00000000 08:01 99       /x/memfd:OTEL_CTX (deleted)"));
	ATF_CHECK(!candidate(AT "rw-p 00000000 00:01 123      /memfd:OTEL_CT"));
	ATF_CHECK(!candidate(AT "rw-p 00000000 00:01 123      /memfd:otel_ctx"));
	ATF_CHECK(!candidate(AT "---p 00000000 00:01 123      /memfd:OTEL_CTX (deleted)"));
	ATF_CHECK(!candidate(AT "r--p 00000000 00:01 123      /memfd:OTEL_CTX (deleted)"));
	ATF_CHECK(!candidate(AT "-w-p 00000000 00:01 123      /memfd:OTEL_CTX (deleted)"));
	ATF_CHECK(!candidate(AT "rwxp 00000000 00:01 123      /memfd:OTEL_CTX (deleted)"));
	ATF_CHECK(!candidate(AT "rw-p 00000000 00:00 0 "));
}

TEST_CASE(maps__lines, "A line is read into its parts, and what is no line is refused")
{
	static const char *const bad[] = {
		"",
		"-",
		"7f12",
		"7f12-",
		"7f12-7f13",
		"7f13-7f12 rw-p 0 0:0 0",
		"1-2 rw-p",
		"1-2 rw-p 0",
		"1-2 rw-p 0 0:0",
		"1-2 rwp 0 0:0 0",
		"x-2 rw-p 0 0:0 0",
		"1-1 rw-p 0 0:0 0",
		"1-2rw-p 0 0:0 0",
		"12345678123456781-2 rw-p 0 0:0 0",
		"-2 rw-p 0 0:0 0",
		"1-2  rw-p 0 0:0 0",
		"1-2 rw-q 0 0:0 0",
	};
	static const char good[] =
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]";
	struct maps_line line;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ATF_CHECK_MSG(!maps_parse(bad[i], strlen(bad[i]), &line), "'%s'", bad[i]);
	ATF_REQUIRE(maps_parse(good, strlen(good), &line));
	ATF_CHECK_EQ(0xffffffffff600000ull, line.start);
	ATF_CHECK_EQ(0xffffffffff601000ull, line.end);
	ATF_CHECK_EQ((unsigned int)MAPS_EXEC, line.perms);
	ATF_CHECK_EQ(10, line.name_len);
	ATF_REQUIRE(maps_parse("1-2 rw-s 0 0:0 0", 16, &line));
	ATF_CHECK_EQ(0, line.name_len);
	ATF_CHECK_EQ((unsigned int)(MAPS_READ | MAPS_WRITE | MAPS_SHARED), line.perms);
}

/* ---- a procfs made of files --------------------------------------------------------- */

/* proc/7 with this maps text, and a memory that has a context at 0x5000. */
static void fixture(const char *maps)
{
	static struct bytes b;
	struct ctx_header h;
	int fd;

	ATF_REQUIRE((mkdir("proc", 0755) == 0 && mkdir("proc/7", 0755) == 0) || errno == EEXIST);
	ATF_REQUIRE(symlink("7", "proc/self") == 0 || errno == EEXIST);
	atf_utils_create_file("proc/7/maps", "%s", maps);
	atf_utils_create_file("proc/7/stat", "7 (a) b) S 1 1 1 0 -1 0 0");
	payload_string(&b, "service.name", "file");
	craft_header(&h, (void *)0x9000, (uint32_t)b.len, 1000);
	fd = open("proc/7/mem", O_CREAT | O_WRONLY | O_TRUNC, 0644);
	ATF_REQUIRE(fd >= 0);
	ATF_REQUIRE_EQ(sizeof(h), pwrite(fd, &h, sizeof(h), 0x5000));
	ATF_REQUIRE_EQ((ssize_t)b.len, pwrite(fd, b.data, b.len, 0x9000));
	close(fd);
}

static int read_fixture(const char *maps)
{
	struct pctx_reader_opts opts = { .size = sizeof(opts),
					 .procfs = "proc",
					 .attempts_max = 2 };

	fixture(maps);
	return read_service(7, &opts, "file");
}

#define HEAP "00001000-00002000 rw-p 00000000 00:00 0          [heap]\n"

TEST_CASE(fixture__three_names, "Each of the three names is found in a procfs made of files")
{
	ATF_CHECK_EQ(0, read_fixture(HEAP "5000-6000 rw-p 0 00:01 5 /memfd:OTEL_CTX (deleted)\n"));
	ATF_CHECK_EQ(0, read_fixture(HEAP "5000-6000 rw-p 0 00:01 5 [anon_shmem:OTEL_CTX]\n"));
	ATF_CHECK_EQ(0, read_fixture(HEAP "5000-6000 rw-p 0 00:00 0 [anon:OTEL_CTX]\n" HEAP));
}

/* A second valid context at 0x7000, whose service.name is "second" */
static void fixture_second(void)
{
	static struct bytes b;
	struct ctx_header h;
	int fd = open("proc/7/mem", O_WRONLY);

	ATF_REQUIRE(fd >= 0);
	payload_string(&b, "service.name", "second");
	craft_header(&h, (void *)0xa000, (uint32_t)b.len, 2000);
	ATF_REQUIRE_EQ(sizeof(h), pwrite(fd, &h, sizeof(h), 0x7000));
	ATF_REQUIRE_EQ((ssize_t)b.len, pwrite(fd, b.data, b.len, 0xa000));
	close(fd);
}

TEST_CASE(fixture__lowest_of_two,
	  "Of two valid contexts among the lowest mappings the lowest is taken")
{
	static const char low[] = "5000-6000 rw-p 0 00:01 5 /memfd:OTEL_CTX (deleted)\n";
	static const char high[] = "7000-8000 rw-p 0 00:01 6 /memfd:OTEL_CTX (deleted)\n";
	struct pctx_reader_opts opts = { .size = sizeof(opts), .procfs = "proc" };
	char both[256];

	snprintf(both, sizeof(both), HEAP "%s%s", low, high);
	fixture(both);
	fixture_second();
	ATF_CHECK_EQ(0, read_service(7, &opts, "file"));
	atf_utils_create_file("proc/7/maps", HEAP "%s", high);
	ATF_CHECK_EQ(0, read_service(7, &opts, "second"));
}

TEST_CASE(fixture__nothing_to_find, "No such name, another place, no lines: -ENODATA")
{
	ATF_CHECK_EQ(-ENODATA, read_fixture(HEAP));
	ATF_CHECK_EQ(-ENODATA,
		     read_fixture(HEAP "5000-6000 rw-p 0 00:01 5 /memfd:OTEL (deleted)\n"));
	ATF_CHECK_EQ(-ENODATA, read_fixture(HEAP "6000-7000 rw-p 0 00:01 5 /memfd:OTEL_CTX\n"));
	/* beyond the end of the memory, and beyond what an offset can say */
	ATF_CHECK_EQ(-ENODATA, read_fixture("20000-21000 rw-p 0 00:01 5 /memfd:OTEL_CTX\n"));
	ATF_CHECK_EQ(-ENODATA, read_fixture("fffffffffffff000-ffffffffffffffff rw-p 0 00:01 5 "
					    "/memfd:OTEL_CTX\n"));
	/* shorter than a header */
	ATF_CHECK_EQ(-ENODATA, read_fixture("5000-501f rw-p 0 00:01 5 /memfd:OTEL_CTX\n"));
	ATF_CHECK_EQ(-ENODATA, read_fixture("\n\ngarbage\n"));
}

TEST_CASE(fixture__odd_text,
	  "Garbage, lines without end and lines beyond the buffer are passed over")
{
	char *text = malloc(200000);

	ATF_REQUIRE(text);
	memset(text, 'x', 100000);
	stpcpy(text + 100000, "\n5000-6000 rw-p 0 00:01 5 /memfd:OTEL_CTX\n");
	ATF_CHECK_EQ(0, read_fixture(text));
	/* a path that fills much of the buffer */
	stpcpy(text, "1000-2000 rw-p 0 00:01 5 /");
	memset(text + strlen(text), 'p', 20000);
	stpcpy(text + 20000, "\n5000-6000 rw-p 0 00:01 5 /memfd:OTEL_CTX\n");
	ATF_CHECK_EQ(0, read_fixture(text));
	free(text);
	/* the last line has no newline: it may be cut short, so it does not count */
	ATF_CHECK_EQ(-ENODATA, read_fixture("5000-6000 rw-p 0 00:01 5 /memfd:OTEL_CTX"));
	ATF_CHECK_EQ(0, read_fixture("not a line\n5000-6000 rw-p 0 00:01 5 /memfd:OTEL_CTX\n"));
}

TEST_CASE(fixture__absent_process, "A process that the procfs does not have is -ESRCH")
{
	struct pctx_reader_opts opts = { .size = sizeof(opts), .procfs = "proc" };
	struct pctx_context *c;

	fixture(HEAP);
	ATF_CHECK_EQ(-ESRCH, pctx_read(8, &opts, &c));
	/* one that lives, but not there */
	ATF_CHECK_EQ(-ESRCH, pctx_read(getpid(), &opts, &c));
}

/* With no maps at all: what the state and the flags of its stat make of it. */
static int read_empty(const char *stat)
{
	struct pctx_reader_opts opts = { .size = sizeof(opts), .procfs = "proc" };
	struct pctx_context *c;

	fixture("");
	atf_utils_create_file("proc/7/stat", "%s", stat);
	return pctx_read(7, &opts, &c);
}

TEST_CASE(fixture__no_memory,
	  "No memory means none published in a kernel thread, gone in a process that exits")
{
	ATF_CHECK_EQ(-ENODATA, read_empty("7 (kthreadd) S 0 0 0 0 -1 2129984 0\n"));
	ATF_CHECK_EQ(-ESRCH, read_empty("7 (a) b) Z 1 7 7 0 -1 4194316 0\n"));
	/* its memory is being freed, which takes long; it is no zombie yet */
	ATF_CHECK_EQ(-ESRCH, read_empty("7 (a) b) R 1 7 7 0 -1 4194308 0\n"));
	ATF_CHECK_EQ(-ESRCH, read_empty("7 (a) b) X 1 7 7 0 -1 0 0\n"));
	/* and where there is no telling */
	ATF_CHECK_EQ(-ENODATA, read_empty(""));
	ATF_CHECK_EQ(-ENODATA, read_empty("7 (a)"));
	ATF_CHECK_EQ(-ENODATA, read_empty("7 (a) R 1"));
}

static int count(pid_t pid, int error, const struct pctx_context *context, void *arg)
{
	(void)pid;
	(void)error;
	(void)context;
	++*(int *)arg;
	return 0;
}

TEST_CASE(fixture__no_procfs, "A directory that is no procfs is -EINVAL, not one without processes")
{
	struct pctx_reader_opts opts = { .size = sizeof(opts), .procfs = "none" };
	struct pctx_context *c;
	int n = 0;

	ATF_REQUIRE_EQ(0, mkdir("none", 0755));
	ATF_CHECK_EQ(-EINVAL, pctx_read(7, &opts, &c));
	ATF_CHECK_EQ(-EINVAL, pctx_detect(7, &opts, &c));
	ATF_CHECK_EQ(-EINVAL, pctx_each(&opts, count, &n));
	/* that of a PID namespace nobody lives in any more */
	ATF_REQUIRE_EQ(0, symlink("nobody", "none/self"));
	ATF_CHECK_EQ(-ESRCH, pctx_read(7, &opts, &c));
	ATF_CHECK_EQ(0, pctx_each(&opts, count, &n));
	ATF_CHECK_EQ(0, n);
}

/* ---- very many mappings ---------------------------------------------------------------- */

enum place { FIRST, MIDDLE, LAST, NOWHERE };

#define N_MANY	   30000u /* within the default of vm.max_map_count */
#define N_EMULATED 12000u
#define N_MORE	   200000u
#define N_MORE_EMU 70000u

static unsigned int n_many = N_MANY;

/* An emulated processor, that of the kernel tests, takes its time for each. */
static void many_begin(const atf_tc_t *tc)
{
	if (*atf_tc_get_config_var_wd(tc, "kernel", ""))
		n_many = N_EMULATED;
}

static void publish_here(void)
{
	static struct bytes b;

	payload_string(&b, "service.name", "many");
	craft_header(craft_mapping(PAGE), b.data, (uint32_t)b.len, 1000);
}

/* Neighbours with other permissions, so that they stay mappings of their own. */
static void map_many(unsigned int n, bool of_file)
{
	int fd = of_file ? memfd_create("filler", 0) : -1;
	int flags = of_file ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS;

	CHILD_REQUIRE(!of_file || ftruncate(fd, PAGE) == 0);
	for (unsigned int i = 0; i < n; i++)
		CHILD_REQUIRE(mmap(NULL, PAGE, i & 1 ? PROT_READ | PROT_WRITE : PROT_READ, flags,
				   fd, 0) != MAP_FAILED);
}

static void publish_among_many(int step, void *arg)
{
	enum place place = *(enum place *)arg;

	(void)step;
	if (place == FIRST)
		publish_here();
	map_many(n_many / 2, place == LAST);
	if (place == MIDDLE)
		publish_here();
	map_many(n_many / 2, place == LAST);
	if (place == LAST)
		publish_here();
}

static int discover_in(pid_t pid, bool text_only, uint64_t mappings_max, uint64_t *address)
{
	struct discover_opts opts = { .mappings_max = mappings_max, .text_only = text_only };
	struct target t;
	int rc;

	ATF_REQUIRE_EQ(0, target_open(&t, pid, NULL));
	rc = discover(&t, &opts, address);
	target_close(&t);
	return rc;
}

TEST_CASE(many__everywhere,
	  "Among 30,000 mappings queries and text find the same, wherever it lies")
{
	many_begin(tc);
	for (int place = FIRST; place <= NOWHERE; place++) {
		enum place p = (enum place)place;
		struct scene s = scene_begin(publish_among_many, &p);
		uint64_t by_query = 1, by_text = 2;
		int expected = p == NOWHERE ? -ENODATA : 0;

		ATF_CHECK_EQ(expected, discover_in(s.pid, false, 0, &by_query));
		ATF_CHECK_EQ(expected, discover_in(s.pid, true, 0, &by_text));
		ATF_CHECK(expected || by_query == by_text);
		scene_end(&s);
	}
}

/* ---- the name of an anonymous mapping ----------------------------------------------------- */

/* As a publisher does it without a memfd; where the kernel refuses the name, without one */
static int publish_named(void)
{
	static struct bytes b;
	void *map = sys_map(PAGE, -1);

	CHILD_REQUIRE(map);
	payload_string(&b, "service.name", "named");
	craft_header(map, b.data, (uint32_t)b.len, 1000);
	return sys_name_mapping(map, PAGE, "OTEL_CTX");
}

static void publish_named_among_many(int step, void *arg)
{
	enum place place = *(enum place *)arg;

	(void)step;
	for (int i = FIRST; i <= LAST; i++) {
		if (i == (int)place)
			(void)publish_named();
		if (i < LAST)
			map_many(n_many / 2, place == LAST);
	}
}

static bool can_name(void)
{
	void *map = sys_map(PAGE, -1);
	bool can;

	ATF_REQUIRE(map);
	can = sys_name_mapping(map, PAGE, "probe") == 0;
	munmap(map, PAGE);
	return can;
}

TEST_CASE(many__named,
	  "[anon:OTEL_CTX] is found wherever it lies; on a kernel without names, nothing is")
{
	int expected = can_name() ? 0 : -ENODATA;

	many_begin(tc);
	for (int place = FIRST; place <= LAST; place++) {
		enum place p = (enum place)place;
		struct scene s = scene_begin(publish_named_among_many, &p);
		uint64_t by_query = 1, by_text = 2;

		ATF_CHECK_EQ(expected, discover_in(s.pid, false, 0, &by_query));
		ATF_CHECK_EQ(expected, discover_in(s.pid, true, 0, &by_text));
		ATF_CHECK(expected || by_query == by_text);
		ATF_CHECK_EQ(expected, read_service(s.pid, NULL, "named"));
		scene_end(&s);
	}
	printf("names: %s\n", expected ? "no" : "yes");
}

/* Set vm.max_map_count to what the file @from says, and say in @to what it was. */
static void max_map_count(const char *from, const char *to)
{
	const char *path = "/proc/sys/vm/max_map_count";
	char old[32] = "", new[32] = "";
	FILE *f = fopen(from, "r");

	if (!f)
		return;
	ATF_REQUIRE(fgets(new, sizeof(new), f));
	fclose(f);
	f = fopen(path, "r");
	ATF_REQUIRE(f && fgets(old, sizeof(old), f));
	fclose(f);
	if (to && strtoul(old, NULL, 10) >= strtoul(new, NULL, 10))
		return;
	if (to)
		atf_utils_create_file(to, "%s", old);
	f = fopen(path, "w");
	ATF_REQUIRE(f && fputs(new, f) >= 0 && fclose(f) == 0);
}

ATF_TC_WITH_CLEANUP(many__beyond_the_default);
ATF_TC_HEAD(many__beyond_the_default, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Among 200,000 mappings, more than a process may have by default, too");
	atf_tc_set_md_var(tc, "require.user", "root");
	atf_tc_set_md_var(tc, "timeout", "120");
}
ATF_TC_BODY(many__beyond_the_default, tc)
{
	enum place places[] = { FIRST, NOWHERE };

	atf_utils_create_file("raised", "%u\n", 2 * N_MORE);
	max_map_count("raised", "before");
	n_many = *atf_tc_get_config_var_wd(tc, "kernel", "") ? N_MORE_EMU : N_MORE;
	for (size_t i = 0; i < 2; i++) {
		struct scene s = scene_begin(publish_among_many, &places[i]);
		uint64_t by_query = 1, by_text = 2;
		int expected = i ? -ENODATA : 0;

		ATF_CHECK_EQ(expected, discover_in(s.pid, false, 0, &by_query));
		ATF_CHECK_EQ(expected, discover_in(s.pid, true, 0, &by_text));
		ATF_CHECK(expected || by_query == by_text);
		ATF_CHECK_EQ(-ERANGE, discover_in(s.pid, true, n_many / 2, &by_text));
		scene_end(&s);
	}
}
ATF_TC_CLEANUP(many__beyond_the_default, tc)
{
	max_map_count("before", NULL);
}

TEST_CASE(many__limit, "The caller's limit on mappings ends the search with -ERANGE, not with none")
{
	enum place places[] = { MIDDLE, NOWHERE };
	uint64_t address;

	many_begin(tc);
	for (size_t i = 0; i < 2; i++) {
		struct scene s = scene_begin(publish_among_many, &places[i]);

		ATF_CHECK_EQ(-ERANGE, discover_in(s.pid, false, 5, &address));
		ATF_CHECK_EQ(-ERANGE, discover_in(s.pid, true, 5000, &address));
		ATF_CHECK_EQ(i ? -ENODATA : 0, discover_in(s.pid, false, 1000000, &address));
		scene_end(&s);
	}
}

TEST_CASE(many__limit_exact, "A limit of as many mappings as there are does not cut anything off")
{
	struct pctx_reader_opts opts = { .size = sizeof(opts),
					 .procfs = "proc",
					 .mappings_max = 2 };

	fixture(HEAP "5000-6000 rw-p 0 00:01 5 /memfd:OTEL_CTX\n");
	ATF_CHECK_EQ(0, read_service(7, &opts, "file"));
	opts.mappings_max = 1;
	ATF_CHECK_EQ(-ERANGE, read_service(7, &opts, "file"));
	fixture(HEAP HEAP);
	opts.mappings_max = 2;
	ATF_CHECK_EQ(-ENODATA, read_service(7, &opts, "file"));
}

/* Two valid ones, which the OTEP forbids, around many mappings. */
static void publish_two(int step, void *arg)
{
	(void)step;
	(void)arg;
	publish_here();
	map_many(n_many, false);
	publish_here();
	map_many(DISCOVER_HEAD + 100, true); /* out of the part that is read as text */
}

/* The highest mapping of a context. */
static uint64_t last_mapped(pid_t pid)
{
	char path[32], line[512];
	uint64_t address = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	ATF_REQUIRE(maps != NULL);
	while (fgets(line, sizeof(line), maps)) {
		if (strstr(line, CTX_NAME))
			address = strtoull(line, NULL, 16);
	}
	fclose(maps);
	return address;
}

TEST_CASE(many__two_contexts, "Of two valid contexts the same one is taken by queries and by text")
{
	uint64_t by_query = 1, by_text = 2;
	struct scene s;

	many_begin(tc);
	s = scene_begin(publish_two, NULL);
	ATF_CHECK_EQ(0, discover_in(s.pid, false, 0, &by_query));
	ATF_CHECK_EQ(0, discover_in(s.pid, true, 0, &by_text));
	ATF_CHECK_EQ(by_query, by_text);
	/* both are beyond the lowest ones, so it is the highest, mapped first */
	ATF_CHECK_EQ(last_mapped(s.pid), by_query);
	scene_end(&s);
}

/* the text is 2 MB; the thread sanitizer keeps four bytes for each that is touched */
#ifdef __SANITIZE_THREAD__
#define MEMORY_MAX_KIB 4096
#else
#define MEMORY_MAX_KIB 512
#endif

TEST_CASE(many__memory, "Going through 30,000 mappings takes no memory that grows with them")
{
	enum place place = NOWHERE;
	struct rusage before, after;
	uint64_t address;
	struct scene s;

	many_begin(tc);
	s = scene_begin(publish_among_many, &place);
	getrusage(RUSAGE_SELF, &before);
	ATF_CHECK_EQ(-ENODATA, discover_in(s.pid, true, 0, &address));
	getrusage(RUSAGE_SELF, &after);
	ATF_CHECK_MSG(after.ru_maxrss - before.ru_maxrss < MEMORY_MAX_KIB, "%ld KiB more",
		      after.ru_maxrss - before.ru_maxrss);
	scene_end(&s);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, maps__names);
	ATF_TP_ADD_TC(tp, maps__near_misses);
	ATF_TP_ADD_TC(tp, maps__lines);
	ATF_TP_ADD_TC(tp, fixture__three_names);
	ATF_TP_ADD_TC(tp, fixture__lowest_of_two);
	ATF_TP_ADD_TC(tp, fixture__nothing_to_find);
	ATF_TP_ADD_TC(tp, fixture__odd_text);
	ATF_TP_ADD_TC(tp, fixture__absent_process);
	ATF_TP_ADD_TC(tp, fixture__no_memory);
	ATF_TP_ADD_TC(tp, fixture__no_procfs);
	ATF_TP_ADD_TC(tp, many__everywhere);
	ATF_TP_ADD_TC(tp, many__named);
	ATF_TP_ADD_TC(tp, many__beyond_the_default);
	ATF_TP_ADD_TC(tp, many__limit);
	ATF_TP_ADD_TC(tp, many__limit_exact);
	ATF_TP_ADD_TC(tp, many__two_contexts);
	ATF_TP_ADD_TC(tp, many__memory);
	return atf_no_error();
}
