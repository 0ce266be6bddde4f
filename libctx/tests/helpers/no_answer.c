/*
 * no_answer payload | header | file | file-sync - publish a context that nobody can
 * read: its payload, or its header, lies behind a userfaultfd that nobody serves, or
 * its payload in a file of a file system that never answers a read; of the two, the
 * last keeps even a reader that was killed. Says "ready" and lives until its input
 * ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sched.h>
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

/* ---- a file system of one file ------------------------------------------------------ */

union reply {
	struct fuse_init_out init;
	struct fuse_attr_out attr;
	struct fuse_open_out open;
};

/* The length of the reply to what is needed, or -ENOSYS. */
static int serve(const struct fuse_in_header *in, uint32_t flags, union reply *out)
{
	memset(out, 0, sizeof(*out));
	switch (in->opcode) {
	case FUSE_INIT:
		out->init.major = FUSE_KERNEL_VERSION;
		out->init.minor = FUSE_KERNEL_MINOR_VERSION;
		out->init.flags = flags;
		out->init.max_readahead = PAGE;
		out->init.max_write = PAGE;
		return (int)sizeof(out->init);
	case FUSE_GETATTR:
		out->attr.attr.ino = FUSE_ROOT_ID;
		out->attr.attr.mode = S_IFREG | 0644;
		out->attr.attr.nlink = 1;
		out->attr.attr.size = PAGE;
		return (int)sizeof(out->attr);
	case FUSE_OPEN:
		return (int)sizeof(out->open);
	default:
		return -ENOSYS;
	}
}

static void serve_all(int fuse, uint32_t flags)
{
	static char buffer[FUSE_MIN_READ_BUFFER + PAGE];
	struct {
		struct fuse_out_header head;
		union reply body;
	} out;

	while (read(fuse, buffer, sizeof(buffer)) > 0) {
		const struct fuse_in_header *in = (const struct fuse_in_header *)buffer;
		int len = serve(in, flags, &out.body);

		out.head = (struct fuse_out_header){ .len = sizeof(out.head),
						     .error = len < 0 ? len : 0,
						     .unique = in->unique };
		if (len > 0)
			out.head.len += (uint32_t)len;
		if (in->opcode != FUSE_READ && write(fuse, &out, out.head.len) < 0)
			break;
	}
}

/* Mounted for this process alone: it is gone with it, and so is who serves it. */
static int file_system(const char *path, uint32_t flags)
{
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[80];

	snprintf(options, sizeof(options), "fd=%d,rootmode=100644,user_id=0,group_id=0", fuse);
	if (fuse < 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("no_answer", path, "fuse", MS_NOSUID | MS_NODEV, options))
		return -1;
	if (fork() == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() != 1)
			serve_all(fuse, flags);
		_exit(0);
	}
	close(fuse);
	return 0;
}

static void *silent_file(uint32_t flags)
{
	char path[] = "no_answer.XXXXXX";
	int fd = mkstemp(path);
	void *page = MAP_FAILED;
	struct stat st;

	if (fd >= 0)
		close(fd);
	if (fd < 0 || file_system(path, flags))
		return page;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* what is beyond the end of a file is refused: the kernel asks for that now */
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size == PAGE)
		page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	return page;
}

/* ---- */

static void *silent_page(const char *part)
{
	if (strcmp(part, "file") == 0)
		return silent_file(FUSE_ASYNC_READ);
	if (strcmp(part, "file-sync") == 0)
		return silent_file(0);
	return mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";
	bool header = strcmp(part, "header") == 0;
	bool file = strncmp(part, "file", 4) == 0;
	char *payload = silent_page(part);
	int fd = memfd_create(CTX_NAME, MFD_CLOEXEC);
	struct ctx_header *h;

	if (payload == MAP_FAILED || fd < 0 || ftruncate(fd, PAGE))
		return perror("no_answer"), 1;
	h = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, header ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	if (h == MAP_FAILED || (!file && withhold(header ? (void *)h : (void *)payload)))
		return perror("no_answer"), 1;
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
