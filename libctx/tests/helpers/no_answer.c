/*
 * no_answer payload | header - publish a context that nobody can read: its payload,
 * or its header, lies behind a userfaultfd that nobody serves. Says "ready" and
 * lives until its input ends.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "header.h"

#define PAGE 4096u

/* From now on a touch of this page waits for ever. */
static int withhold(void *page)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { (uintptr_t)page, PAGE },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };

	return fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range);
}

int main(int argc, char **argv)
{
	struct ctx_header *h;
	char *payload =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool header = argc > 1 && strcmp(argv[1], "header") == 0;
	int fd = memfd_create(CTX_NAME, MFD_CLOEXEC);

	if (payload == MAP_FAILED || fd < 0 || ftruncate(fd, PAGE))
		return 1;
	h = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, header ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	if (h == MAP_FAILED || withhold(header ? (void *)h : (void *)payload))
		return 1;
	if (!header) {
		memcpy(h->signature, CTX_SIGNATURE, CTX_SIGNATURE_SIZE);
		h->version = CTX_VERSION;
		h->payload = (uintptr_t)payload;
		h->payload_size = 64;
		h->published_at_ns = 1000;
	}
	puts("ready");
	fflush(stdout);
	return getchar() != EOF;
}
