/*
 * images - withholding from CRIU images against a plain copy of the same files.
 *
 * A dump of one process is made, in entries of 16 pages, then by turns copied file
 * by file and rewritten by wprof_images_withhold(); both by copy_file_range, both
 * with every file synced, in the same directory. "nothing hot" writes as much as the
 * copy, "hot 2 MiB in 8" three quarters, "every 16th page" splits every entry. Each
 * runs in a process of its own, whose largest resident set is printed. What is
 * compared are medians of the rounds; other load on the disk spreads them. Targets:
 * at most 1.3 times the copy, and a resident set that does not grow with the images:
 * at most 1 MiB more than for the smallest, beside the sets of withheld ranges, which
 * are held in memory whole (three copies of 16 bytes a range: the caller's, the union
 * of what is hot for a process, and that union while it grows).
 *
 *	images [LARGEST_MIB [ROUNDS]]	sizes 64, 512, ... up to it (default 512, 5)
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "criu/images.h"
#include "wprof.h"

#define BASE	      0x7f0000000000u
#define RUN	      16 /* pages of an entry */
#define ROUNDS_MAX    64
#define TARGET_RATIO  1.3
#define TARGET_GROWTH 1024 /* KiB */
#define SET_COPIES    3

static void die(const char *what)
{
	fprintf(stderr, "images: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

static void make_pages(uint64_t pages)
{
	static uint64_t data[RUN * 512];
	int fd = open("full/pages-1.img", O_WRONLY | O_CREAT | O_TRUNC, 0644);

	for (uint64_t i = 0; i < pages / RUN; i++) {
		data[i % (RUN * 512)] = i;
		if (write(fd, data, sizeof(data)) != (ssize_t)sizeof(data))
			die("full/pages-1.img");
	}
	if (fsync(fd) || close(fd))
		die("full/pages-1.img");
}

static void make_dump(uint64_t pages)
{
	static const uint32_t magic[] = { IMG_MAGIC_INVENTORY };
	struct img_out *out = malloc(sizeof(*out));
	int dir;

	if (!out || (mkdir("full", 0755) && errno != EEXIST))
		die("full");
	unlink("full/inventory.img");
	unlink("full/pagemap-1.img");
	dir = open("full", O_RDONLY | O_DIRECTORY);
	if (img_out_open(out, dir, "inventory.img", 0644))
		die("inventory.img");
	img_out_magic(out, magic, 1);
	memcpy(img_out_message(out, 2), (const uint8_t[]){ 0x08, 0x01 }, 2);
	if (img_out_close(out) || img_out_open(out, dir, "pagemap-1.img", 0644))
		die("pagemap-1.img");
	pm_out_head(out, 1);
	for (uint64_t i = 0; i < pages; i += RUN) {
		/* a page apart, so that no two entries touch */
		struct pm_entry e = {
			.start = BASE + (i / RUN * (RUN + 1)) * pm_page_bytes(),
			.n_pages = RUN,
			.flags = PE_PRESENT,
		};

		pm_out_entry(out, 2, &e);
	}
	if (img_out_close(out))
		die("pagemap-1.img");
	close(dir);
	free(out);
	make_pages(pages);
}

static struct wprof_ranges *hot_ranges(uint64_t pages, uint64_t hot, uint64_t of)
{
	uint64_t span = pages / RUN * (RUN + 1), n = 0;
	struct wprof_range *list = calloc(span / of + 2, sizeof(*list));
	struct wprof_ranges *set = NULL;

	for (uint64_t i = 0; hot && i + of <= span; i += of, n++)
		list[n] = (struct wprof_range){ BASE + i * pm_page_bytes(),
						BASE + (i + hot) * pm_page_bytes() };
	if (!list || wprof_ranges_new(list, n, &set))
		die("ranges");
	free(list);
	return set;
}

static void copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0644);
	struct stat st;

	if (in < 0 || out < 0 || fstat(in, &st) || img_move(in, 0, (uint64_t)st.st_size, out) ||
	    fsync(out) || close(out))
		die(to);
	close(in);
}

static void plain_copy(const struct wprof_ranges *hot)
{
	(void)hot;
	if (mkdir("out", 0755))
		die("out");
	copy_file("full/inventory.img", "out/inventory.img");
	copy_file("full/pagemap-1.img", "out/pagemap-1.img");
	copy_file("full/pages-1.img", "out/pages-1.img");
}

static void rewrite(const struct wprof_ranges *hot)
{
	struct wprof_images_hot all = { .ranges = hot };
	struct wprof_images_ship o = {
		.size = sizeof(o),
		.full = "full",
		.ship = "out",
		.hot = &all,
		.n_hot = 1,
	};
	struct wprof_why why;

	if (wprof_images_withhold(&o, NULL, &why)) {
		fprintf(stderr, "images: %s\n", why.text);
		exit(1);
	}
}

static void remove_out(void)
{
	static const char *const names[] = {
		"out/inventory.img",
		"out/pagemap-1.img",
		"out/pages-1.img",
		"out/withheld.wprof",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unlink(names[i]);
	rmdir("out");
}

/* Run @fn in a child. Return: milliseconds; *@rss_kib: its largest resident set. */
static double timed(void (*fn)(const struct wprof_ranges *), const struct wprof_ranges *hot,
		    long *rss_kib)
{
	struct rusage usage;
	double begun = now_ms();
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		fn(hot);
		_exit(0);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status)
		die("child");
	begun = now_ms() - begun;
	*rss_kib = usage.ru_maxrss;
	remove_out();
	return begun;
}

static bool scene(unsigned long mib, const char *name, uint64_t hot, uint64_t of, size_t rounds,
		  long *base_kib)
{
	struct wprof_ranges *set = hot_ranges(mib << 8, hot, of);
	double copy[ROUNDS_MAX] = { 0 }, mine[ROUNDS_MAX] = { 0 }, ratio;
	long kib = 0, ignored;
	bool good;

	timed(plain_copy, set, &ignored);
	for (size_t i = 0; i < rounds; i++) {
		copy[i] = timed(plain_copy, set, &ignored);
		mine[i] = timed(rewrite, set, &kib);
	}
	/* what grows with the ranges, not with the images, does not count */
	kib -= (long)(hot ? SET_COPIES * (mib << 8) / of * sizeof(struct wprof_range) / 1024 : 0);
	if (!*base_kib)
		*base_kib = kib;
	ratio = median(mine, rounds) / median(copy, rounds);
	good = ratio <= TARGET_RATIO && kib <= *base_kib + TARGET_GROWTH;
	printf("%5lu MiB  %-16s %9.0f %9.0f %7.2f %9ld  %s\n", mib, name, median(copy, rounds),
	       median(mine, rounds), ratio, kib, good ? "" : "MISSED");
	fflush(stdout);
	wprof_ranges_free(set);
	malloc_trim(0); /* what this process keeps, its children begin with */
	return good;
}

/* Eightfold, the largest in any case. */
static unsigned long next_size(unsigned long mib, unsigned long largest)
{
	return mib < largest && mib * 8 > largest ? largest : mib * 8;
}

int main(int argc, char **argv)
{
	unsigned long largest = argc > 1 ? strtoul(argv[1], NULL, 10) : 512;
	size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 5;
	const char *tmp = getenv("TMPDIR");
	long base[3] = { 0 };
	bool good = true;
	char dir[4096];

	if (rounds < 1 || rounds > ROUNDS_MAX || largest < 64)
		return 2;
	snprintf(dir, sizeof(dir), "%s/images-bench.XXXXXX", tmp ? tmp : "/var/tmp");
	if (!mkdtemp(dir) || chdir(dir))
		die(dir);
	puts("   images  scene              copy ms   ours ms   ratio  peak KiB  (targets: 1.3, 1 "
	     "MiB "
	     "growth)");
	for (unsigned long mib = 64; mib <= largest; mib = next_size(mib, largest)) {
		make_dump((uint64_t)mib << 8);
		good &= scene(mib, "nothing hot", 0, 1, rounds, &base[0]);
		good &= scene(mib, "hot 2 MiB in 8", 512, 2048, rounds, &base[1]);
		good &= scene(mib, "every 16th page", 1, 16, rounds, &base[2]);
	}
	if (system("rm -rf full") || chdir("/") || rmdir(dir))
		die(dir);
	return good ? 0 : 1;
}
