/*
 * target.c - what criu_test dumps, beside the workloads.
 *
 *	target sparse		64 MiB of which 1 MiB exists, scattered; writes only
 *				when told: the same pages for each SIGUSR1
 *	target descriptor	has a userfaultfd of its own open
 *
 * Ready, and each round done, is shown by the name of the process: "round 0", "round
 * 1", and so on. Nothing of it depends on time or addresses, so two runs that are
 * told the same have the same pages.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "uapi.h"

#define PAGE	  4096u
#define ALL_PAGES 16384u
#define EVERY	  64u  /* 256 pages exist */
#define HOT_EVERY 256u /* 64 of them are written in each round */

static void show(unsigned int round)
{
	char name[16];

	snprintf(name, sizeof(name), "round %u", round);
	prctl(PR_SET_NAME, name);
}

/* touch() - one page in EVERY, a value that differs for each page and round */
static void touch(uint8_t *p, unsigned int every, unsigned int round)
{
	for (unsigned int i = 0; i < ALL_PAGES; i += every)
		memset(p + (size_t)i * PAGE, (int)(1 + (i / EVERY + round) % 255), PAGE);
}

static int sparse(void)
{
	uint8_t *p = mmap(NULL, (size_t)ALL_PAGES * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	sigset_t set;

	if (p == MAP_FAILED)
		return 1;
	madvise(p, (size_t)ALL_PAGES * PAGE, MADV_NOHUGEPAGE);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	touch(p, EVERY, 0);
	for (unsigned int round = 1;; round++) {
		show(round - 1);
		/* -1: interrupted by a dump */
		while (sigwaitinfo(&set, NULL) != SIGUSR1)
			;
		touch(p, HOT_EVERY, round);
	}
}

static int descriptor(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api)) {
		perror("userfaultfd");
		return 1;
	}
	show(0);
	for (;;)
		pause();
}

/* the same addresses in each run */
static int at_fixed_addresses(char **argv)
{
	int now = personality(0xffffffff);

	if (now & ADDR_NO_RANDOMIZE)
		return 0;
	if (personality((unsigned long)now | ADDR_NO_RANDOMIZE) < 0)
		return -1;
	return execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	if (argc != 2 || at_fixed_addresses(argv))
		return 2;
	if (!strcmp(argv[1], "sparse"))
		return sparse();
	return strcmp(argv[1], "descriptor") ? 2 : descriptor();
}
