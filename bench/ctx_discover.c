/*
 * Finding a context among 10 to 1,000,000 mappings: by text alone, which is the
 * floor everybody else pays, and as the library does it. Median of several
 * rounds. With vm.max_map_count as it is the largest sizes may not fit: it is
 * raised for the run where that is permitted, and put back.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "ctx_bench.h"
#include "discover.h"

enum place { FIRST, MIDDLE, LAST, NONE };

static const char *const place_names[] = { "first", "middle", "last", "none" };

struct layout {
	enum place place;
	unsigned int n;
};

static bool map_some(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		if (mmap(NULL, 4096, i & 1 ? PROT_READ | PROT_WRITE : PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			return false;
	}
	return true;
}

static void layout_make(int ready, void *arg)
{
	const struct layout *l = arg;
	bool ok;

	if (l->place == FIRST)
		publish_ten(1);
	ok = map_some(l->n / 2);
	if (l->place == MIDDLE)
		publish_ten(1);
	ok = ok && map_some(l->n / 2);
	if (l->place == LAST)
		publish_ten(1);
	must(write(ready, ok ? "y" : "n", 1) == 1, "write");
	for (;;)
		pause();
}

static double find_us(pid_t pid, bool text_only, unsigned int rounds)
{
	struct discover_opts opts = { .text_only = text_only };
	double us[101] = { 0 };

	for (unsigned int i = 0; i < rounds; i++) {
		uint64_t address, start;
		struct target t;
		int rc;

		must(target_open(&t, pid, NULL) == 0, "open");
		start = now_ns();
		rc = discover(&t, &opts, &address);
		us[i] = (double)(now_ns() - start) / 1000;
		must(rc == 0 || rc == -ENODATA, "discover");
		target_close(&t);
	}
	return percentile(us, rounds, 0.5);
}

/* A read of the whole text and nothing else. */
static double text_us(pid_t pid, unsigned int rounds)
{
	static char buffer[32768];
	double us[101] = { 0 };
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	for (unsigned int i = 0; i < rounds; i++) {
		uint64_t start = now_ns();
		int fd = open(path, O_RDONLY);

		must(fd >= 0, "maps");
		while (read(fd, buffer, sizeof(buffer)) > 0)
			;
		close(fd);
		us[i] = (double)(now_ns() - start) / 1000;
	}
	return percentile(us, rounds, 0.5);
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

/* 1 when a target of the million is missed, or text is faster from 100 up. */
static int measure(enum place place, unsigned int n)
{
	struct layout l = { place, n };
	unsigned int rounds = n >= 100000 ? 5 : n >= 1000 ? 21 : 101;
	pid_t pid = target_start(layout_make, &l);
	double whole = text_us(pid, rounds), text = find_us(pid, true, rounds),
	       ours = find_us(pid, false, rounds);
	/* "never slower" with room for the noise of a shared machine */
	bool missed = (n >= 100 && ours > 1.15 * text && ours > 1.15 * whole) ||
		      (n == 1000000 && (place == FIRST || place == LAST) && ours > whole / 100);

	printf("%8u  %-6s  %12.1f  %12.1f  %12.1f  %8.4f  %s\n", n, place_names[place], whole, text,
	       ours, ours / whole, missed ? "MISSED" : "met");
	fflush(stdout);
	target_end(pid);
	return missed;
}

int main(void)
{
	static const unsigned int sizes[] = { 10, 100, 1000, 2000, 10000, 100000, 1000000 };
	int missed = 0;

	count_before = map_count_set(1100000);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);

	printf("microseconds; targets: at 1,000,000 first and last 1/100 of reading the text, "
	       "from 100 up never slower\n%8s  %-6s  %12s  %12s  %12s  %8s\n",
	       "mappings", "mapped", "read text", "find by text", "ours", "ratio");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int place = FIRST; place <= NONE; place++)
			missed |= measure((enum place)place, sizes[i]);
	}
	map_count_reset(count_before);
	return missed;
}
