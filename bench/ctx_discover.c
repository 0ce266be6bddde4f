/*
 * Finding a context among 10 to 2,000,000 mappings: by text alone, which is the
 * floor everybody else pays, and as the library does it. Median of several
 * rounds. With vm.max_map_count as it is the largest sizes may not fit: it is
 * raised for the run where that is permitted, and put back; what does not fit is
 * said and counts as missed.
 *
 * The others are anonymous, as those of allocators, which the kernel's filter for files
 * passes over; in the rows with "files" they are mapped from a file, every second one
 * readable and writable as a context is, so that the filter passes over none of these.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "ctx_bench.h"
#include "discover.h"

#define ROUNDS_MOST 101
#define TEXT_MOST   1.15 /* "never slower", with room for the noise of a shared machine */
#define ENDS_MOST   0.01
#define MILLION	    1000000u

enum place { FIRST, MIDDLE, LAST, NONE };

static const char *const place_names[] = { "first", "middle", "last", "none" };

struct layout {
	enum place place;
	unsigned int n;
	bool files; /* what the others are */
};

static bool map_some(unsigned int n, int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;

	for (unsigned int i = 0; i < n; i++) {
		if (mmap(NULL, 4096, i & 1 ? PROT_READ | PROT_WRITE : PROT_READ, flags, fd, 0) ==
		    MAP_FAILED)
			return false;
	}
	return true;
}

static void layout_make(int ready, void *arg)
{
	const struct layout *l = arg;
	int fd = l->files ? memfd_create("others", MFD_CLOEXEC) : -1;
	bool ok;

	must(!l->files || (fd >= 0 && !ftruncate(fd, 4096)), "a file");
	if (l->place == FIRST)
		publish_ten(1);
	ok = map_some(l->n / 2, fd);
	if (l->place == MIDDLE)
		publish_ten(1);
	ok = ok && map_some(l->n / 2, fd);
	if (l->place == LAST)
		publish_ten(1);
	must(write(ready, ok ? "y" : "n", 1) == 1, "write");
	for (;;)
		pause();
}

static double find_us(pid_t pid, bool text_only)
{
	struct discover_opts opts = { .text_only = text_only };
	uint64_t address, start, end;
	struct target t;
	int rc;

	must(target_open(&t, pid, NULL) == 0, "open");
	start = now_ns();
	rc = discover(&t, &opts, &address);
	end = now_ns();
	must(rc == 0 || rc == -ENODATA, "discover");
	target_close(&t);
	return (double)(end - start) / 1000;
}

/* A read of the whole text and nothing else. */
static double text_us(pid_t pid)
{
	static char buffer[32768];
	char path[32];
	uint64_t start;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	start = now_ns();
	fd = open(path, O_RDONLY);
	must(fd >= 0, "maps");
	while (read(fd, buffer, sizeof(buffer)) > 0)
		;
	close(fd);
	return (double)(now_ns() - start) / 1000;
}

static long map_count_set(long count)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r+");
	char text[32] = "";
	long old = 0;

	if (!f)
		return 0;
	if (fgets(text, sizeof(text), f))
		old = strtol(text, NULL, 10);
	if (old && count > old) {
		rewind(f);
		fprintf(f, "%ld\n", count);
	}
	fclose(f);
	return old;
}

static void map_count_reset(long count)
{
	FILE *f = count ? fopen("/proc/sys/vm/max_map_count", "w") : NULL;

	if (f) {
		fprintf(f, "%ld\n", count);
		fclose(f);
	}
}

static long count_before;

static void on_signal(int number)
{
	(void)number;
	map_count_reset(count_before);
	_exit(1);
}

/* at exit, too: a step that fails ends the program */
static void put_back(void)
{
	map_count_reset(count_before);
}

static bool is_met(const struct layout *l, double ratio)
{
	bool ends = l->n >= MILLION && (l->place == FIRST || l->place == LAST);

	return l->n < 100 || ratio <= (ends ? ENDS_MOST : TEXT_MOST);
}

static int row(const struct layout *l, double whole, double text, double ours)
{
	bool met = is_met(l, ours / whole);

	printf("%8u  %-9s  %-6s  %12.1f  %12.1f  %12.1f  %8.4f  %s\n", l->n,
	       l->files ? "files" : "anonymous", place_names[l->place], whole, text, ours,
	       ours / whole, met ? "met" : "MISSED");
	fflush(stdout);
	return !met;
}

/* 1 when a target is missed, or the mappings do not fit */
static int measure(enum place place, unsigned int n, bool files)
{
	struct layout l = { place, n, files };
	unsigned int rounds = n >= 100000 ? 5 : n >= 1000 ? 41 : ROUNDS_MOST;
	double wholes[ROUNDS_MOST] = { 0 }, texts[ROUNDS_MOST] = { 0 },
	       all_ours[ROUNDS_MOST] = { 0 };
	pid_t pid = target_try(layout_make, &l);

	if (!pid) {
		printf("%8u  does not fit: vm.max_map_count, or memory\n", n);
		return 1;
	}
	/* by turns: a processor changes its speed */
	for (unsigned int i = 0; i < rounds; i++) {
		wholes[i] = text_us(pid);
		texts[i] = find_us(pid, true);
		all_ours[i] = find_us(pid, false);
	}
	target_end(pid);
	return row(&l, percentile(wholes, rounds, 0.5), percentile(texts, rounds, 0.5),
		   percentile(all_ours, rounds, 0.5));
}

/* An argument is the most mappings to try. */
int main(int argc, char **argv)
{
	static const unsigned int sizes[] = { 10,   100,   200,	   500,	    1000,
					      2000, 10000, 100000, MILLION, 2 * MILLION };
	unsigned long most = argc > 1 ? strtoul(argv[1], NULL, 10) : 2 * MILLION;
	int missed = 0;

	count_before = map_count_set(2 * MILLION + 100000);
	atexit(put_back);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);

	printf("microseconds; targets: from 1,000,000 on first and last at most %.2f of reading "
	       "the "
	       "text, from 100 up none over %.2f\n%8s  %-9s  %-6s  %12s  %12s  %12s  %8s\n",
	       ENDS_MOST, TEXT_MOST, "mappings", "others", "mapped", "read text", "find by text",
	       "ours", "ratio");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= most; i++) {
		for (int place = FIRST; place <= NONE; place++)
			missed |= measure((enum place)place, sizes[i], false);
	}
	for (int place = FIRST; place <= NONE; place++) {
		missed |= most < 10000 ? 0 : measure((enum place)place, 10000, true);
		missed |= most < MILLION ? 0 : measure((enum place)place, MILLION, true);
	}
	return missed;
}
