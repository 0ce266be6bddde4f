/*
 * images_target.c - what the guest tests of CRIU images dump and look at.
 *
 *	images_target live SEED PROCESSES	processes that write at random, until killed
 *	images_target snap PID...		a line for each page of their memory
 *	images_target hot SEED PID		random page ranges of its private memory
 *
 * `live` maps, unmaps, moves, grows and drops memory, and replaces its children, so
 * that regions and processes come and go between two dumps. `snap` leaves out what
 * the kernel keeps in a process (vdso and its data). Linux only, 4 KiB pages.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	4096u
#define REGIONS 16
#define MOST	128 /* pages of a region */

struct region {
	uint8_t *at;
	size_t pages;
};

static struct region regions[REGIONS];
static uint8_t *common; /* shared by all */

static size_t upto(size_t n)
{
	return (size_t)random() % (n + 1);
}

static void write_pages(struct region *r)
{
	size_t from = upto(r->pages - 1), n = 1 + upto(40);

	for (size_t i = from; i < r->pages && i < from + n; i++)
		for (size_t w = 0; w < PAGE; w += 512)
			*(long *)(r->at + i * PAGE + w) = random();
}

static void map_region(struct region *r)
{
	r->pages = 1 + upto(MOST - 1);
	r->at = mmap(NULL, r->pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	if (r->at == MAP_FAILED)
		r->at = NULL;
	else
		write_pages(r);
}

static void resize_region(struct region *r)
{
	size_t pages = 1 + upto(MOST - 1);
	void *at = mremap(r->at, r->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE);

	if (at == MAP_FAILED)
		return;
	r->at = at;
	r->pages = pages;
}

static void step(void)
{
	struct region *r = &regions[upto(REGIONS - 1)];

	if (!r->at) {
		map_region(r);
		return;
	}
	switch (upto(19)) {
	case 0:
		munmap(r->at, r->pages * PAGE);
		r->at = NULL;
		break;
	case 1:
		resize_region(r);
		break;
	case 2:
		madvise(r->at + upto(r->pages - 1) * PAGE, PAGE, MADV_DONTNEED);
		break;
	case 3:
		common[upto(63) * PAGE] = (uint8_t)random();
		break;
	default:
		write_pages(r);
		write_pages(r);
	}
}

/* The first regions are written in every step: hot memory. */
static void child(unsigned int seed)
{
	size_t lifetime;

	srandom(seed);
	lifetime = 100 + upto(1000);
	for (size_t i = 0; i < lifetime; i++) {
		for (size_t k = 0; k < 3; k++) {
			if (!regions[k].at)
				map_region(&regions[k]);
			else
				write_pages(&regions[k]);
		}
		step();
		usleep(20000);
	}
	_exit(0);
}

static int live(unsigned int seed, int processes)
{
	common = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (common == MAP_FAILED)
		return 1;
	for (int alive = 0;; seed++) {
		pid_t pid = alive < processes ? fork() : wait(NULL);

		if (pid < 0)
			return 1;
		if (!pid)
			child(seed);
		alive += alive < processes ? 1 : -1;
	}
}

/* ---- looking at a process -------------------------------------------------------------- */

struct vma {
	uint64_t start, end;
	char prot[8], name[256];
};

static bool next_vma(FILE *maps, struct vma *v)
{
	char line[512];

	if (!fgets(line, sizeof(line), maps))
		return false;
	v->name[0] = '\0';
	return sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %255[^\n]", &v->start, &v->end,
		      v->prot, v->name) >= 3;
}

static FILE *open_proc(const char *pid, const char *what)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, what);
	f = fopen(path, "r");
	if (!f)
		perror(path);
	return f;
}

static uint64_t hash(const uint8_t *page)
{
	uint64_t h = 0xcbf29ce484222325u, word;

	for (size_t i = 0; i < PAGE; i += sizeof(word)) {
		memcpy(&word, page + i, sizeof(word));
		h = (h ^ word) * 0x100000001b3u;
		h ^= h >> 29;
	}
	return h;
}

static void snap_vma(const char *pid, int mem, const struct vma *v)
{
	static uint8_t some[64 * PAGE];
	ssize_t got;

	for (uint64_t at = v->start; at < v->end; at += (uint64_t)got) {
		size_t want = v->end - at < sizeof(some) ? v->end - at : sizeof(some);

		got = pread(mem, some, want, (off_t)at);
		if (got < (ssize_t)PAGE)
			return;
		got -= got % PAGE;
		for (size_t i = 0; i < (size_t)got; i += PAGE)
			printf("%s %" PRIx64 " %016" PRIx64 "\n", pid, at + i, hash(some + i));
	}
}

static int snap(const char *pid)
{
	FILE *maps = open_proc(pid, "maps"), *mem = open_proc(pid, "mem");
	struct vma v;

	if (!maps || !mem)
		return 1;
	while (next_vma(maps, &v))
		if (v.prot[0] == 'r' && strncmp(v.name, "[v", 2))
			snap_vma(pid, fileno(mem), &v);
	fclose(maps);
	fclose(mem);
	return 0;
}

static int hot(unsigned int seed, const char *pid)
{
	FILE *maps = open_proc(pid, "maps");
	struct vma v;

	if (!maps)
		return 1;
	srandom(seed);
	while (next_vma(maps, &v)) {
		uint64_t pages = (v.end - v.start) / PAGE, from, n;

		if (v.prot[1] != 'w' || v.prot[3] != 'p' || upto(2) == 0)
			continue;
		from = upto(pages - 1);
		n = 1 + upto(pages - from - 1);
		printf("%" PRIx64 " %" PRIx64 "\n", v.start + from * PAGE,
		       v.start + (from + n) * PAGE);
	}
	fclose(maps);
	return 0;
}

int main(int argc, char **argv)
{
	int rc = 0;

	if (argc == 4 && !strcmp(argv[1], "live"))
		return live((unsigned int)atoi(argv[2]), atoi(argv[3]));
	if (argc == 4 && !strcmp(argv[1], "hot"))
		return hot((unsigned int)atoi(argv[2]), argv[3]);
	if (argc < 3 || strcmp(argv[1], "snap"))
		return 2;
	for (int i = 2; i < argc; i++)
		rc |= snap(argv[i]);
	return rc;
}
