/* The parser of /proc/PID/maps: lines as kernels write them, and broken ones. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "maps.h"

static int parse(const char *text, struct maps_entry *e)
{
	static char line[512];

	snprintf(line, sizeof(line), "%s", text);
	return maps_parse(line, e);
}

CASE(parse__broken_lines, "A line that is not of maps is refused, whatever is wrong with it")
{
	static const char *const bad[] = {
		"",
		"x",
		"7f00",
		"7f00-",
		"7f00-7e00 rw-p 0 0:0 0",
		"1000-1000 rw-p 0 0:0 0",
		"1000-2000",
		"1000-2000 rw-",
		"1000-2000 rw-q 0 0:0 0",
		"1000-2000rw-p 0 0:0 0",
		"1000-2000 rw-p 0 0:0",
		"1000-2000 rw-p 0 00 0",
		"1000-2000 rw-p 0 0:0 x",
		"1000-fffffffffffffffff rw-p 0 0:0 0",
		"1000-2000 rw-p 0 0:0 0name",
		"1000-2000 rw-p",
	};
	struct maps_entry e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ATF_CHECK_EQ_MSG(-EBADMSG, parse(bad[i], &e), "\"%s\"", bad[i]);
}

CASE(parse__types_and_names, "Each kind of mapping has its type, and its name as it stands")
{
	static const struct {
		const char *line, *name;
		enum wprof_vma_type type;
		uint32_t flags;
	} good[] = {
		{ "55d0-55e0 rw-p 00000000 00:00 0    [heap]", "[heap]", WPROF_HEAP,
		  MAPS_READ | MAPS_WRITE },
		{ "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]", "[stack]", WPROF_STACK,
		  MAPS_READ | MAPS_WRITE },
		{ "1000-2000 rw-p 00000000 00:00 0", "", WPROF_ANONYMOUS, MAPS_READ | MAPS_WRITE },
		{ "1000-2000 rw-p 00000000 00:00 0 ", "", WPROF_ANONYMOUS, MAPS_READ | MAPS_WRITE },
		{ "1000-2000 rw-p 00000000 00:00 0 [anon:my arena]", "[anon:my arena]",
		  WPROF_ANONYMOUS, MAPS_READ | MAPS_WRITE },
		{ "1000-2000 r-xp 00001000 fe:00 1234 /usr/lib/my prog/a b.so",
		  "/usr/lib/my prog/a b.so", WPROF_CODE, MAPS_READ | MAPS_EXEC },
		{ "1000-2000 rw-p 00001000 fe:00 1234 /tmp/x (deleted)", "/tmp/x (deleted)",
		  WPROF_DATA, MAPS_READ | MAPS_WRITE },
		{ "1000-2000 rw-s 00000000 00:01 99 /memfd:a b (deleted)", "/memfd:a b (deleted)",
		  WPROF_DATA, MAPS_READ | MAPS_WRITE | MAPS_SHARED },
		{ "1000-2000 r--p 00001000 fe:00 1234 /a\\012b", "/a\\012b", WPROF_DATA,
		  MAPS_READ },
		{ "1000-2000 r-xp 00000000 00:00 0 [vdso]", "[vdso]", WPROF_VDSO,
		  MAPS_READ | MAPS_EXEC },
		{ "1000-2000 r--p 00000000 00:00 0 [vvar_vclock]", "[vvar_vclock]", WPROF_VDSO,
		  MAPS_READ },
		{ "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]",
		  "[vsyscall]", WPROF_VDSO, MAPS_EXEC },
		{ "1000-2000 ---p 00000000 103:05 18446744073709551615 /x", "/x", WPROF_DATA, 0 },
	};
	struct maps_entry e;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		ATF_REQUIRE_EQ_MSG(0, parse(good[i].line, &e), "\"%s\"", good[i].line);
		ATF_CHECK_STREQ(good[i].name, e.name);
		ATF_CHECK_EQ_MSG(good[i].type, e.type, "\"%s\"", good[i].line);
		ATF_CHECK_EQ(good[i].flags, e.flags);
	}
}

CASE(open__no_process, "A process that is not there cannot be opened")
{
	struct maps *m;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	ATF_REQUIRE_EQ(pid, waitpid(pid, NULL, 0));
	ATF_CHECK_EQ(-ENOENT, maps_open(pid, &m));
}

CASE(next__equals_the_file, "All mappings of a process come, as the file has them, twice")
{
	struct maps *m;
	struct maps_entry e;
	char line[8192];
	pid_t pid = fork();
	int rc;

	if (!pid) {
		pause();
		_exit(0);
	}
	ATF_REQUIRE_EQ(0, maps_open(pid, &m));
	for (int i = 0; i < 2; i++) {
		FILE *f;

		snprintf(line, sizeof(line), "/proc/%d/maps", (int)pid);
		f = fopen(line, "r");

		ATF_REQUIRE(f != NULL);
		ATF_REQUIRE_EQ(0, maps_rewind(m));
		while ((rc = maps_next(m, &e)) == 1) {
			unsigned long start, end;

			ATF_REQUIRE(fgets(line, sizeof(line), f) != NULL);
			ATF_REQUIRE_EQ(2, sscanf(line, "%lx-%lx", &start, &end));
			ATF_CHECK_EQ(start, e.start);
			ATF_CHECK_EQ(end, e.end);
		}
		ATF_CHECK_EQ(0, rc);
		ATF_CHECK(!fgets(line, sizeof(line), f));
		fclose(f);
	}
	maps_close(m);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

CASE(next__long_and_odd_names, "A mapped file with a long name with blanks and newlines is whole")
{
	char name[NAME_MAX + 1], expected[5 * NAME_MAX];
	struct maps *m;
	struct maps_entry e;
	bool found = false;
	size_t n = 0;
	int fd;
	void *p;

	for (size_t i = 0; i < NAME_MAX; i++) {
		name[i] = i % 3 ? ' ' : i % 2 ? '\n' : 'a';
		n += (size_t)sprintf(expected + n, name[i] == '\n' ? "\\012" : "%c", name[i]);
	}
	name[NAME_MAX] = '\0';
	fd = open(name, O_RDWR | O_CREAT, 0600);
	ATF_REQUIRE(fd >= 0);
	ATF_REQUIRE_EQ(0, ftruncate(fd, 4096));
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	ATF_REQUIRE(p != MAP_FAILED);
	ATF_REQUIRE_EQ(0, maps_open(getpid(), &m));
	while (maps_next(m, &e) == 1)
		if (e.start == (uintptr_t)p) {
			const char *base = strrchr(e.name, '/');

			ATF_REQUIRE(base != NULL);
			ATF_CHECK_STREQ(expected, base + 1);
			found = true;
		}
	ATF_CHECK(found);
	maps_close(m);
	close(fd);
}

CASE(next__dead_target, "Of a target that has exited nothing comes, without an error")
{
	struct maps *m;
	struct maps_entry e;
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	ATF_REQUIRE_EQ(0, maps_open(pid, &m));
	ATF_CHECK_EQ(1, maps_next(m, &e));
	kill(pid, SIGKILL);
	ATF_REQUIRE_EQ(pid, waitpid(pid, NULL, 0));
	ATF_REQUIRE_EQ(0, maps_rewind(m));
	ATF_CHECK_EQ(0, maps_next(m, &e));
	maps_close(m);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, parse__broken_lines);
	ATF_TP_ADD_TC(tp, parse__types_and_names);
	ATF_TP_ADD_TC(tp, open__no_process);
	ATF_TP_ADD_TC(tp, next__dead_target);
	ATF_TP_ADD_TC(tp, next__equals_the_file);
	ATF_TP_ADD_TC(tp, next__long_and_odd_names);
	return atf_no_error();
}
