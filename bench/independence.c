/*
 * independence.c - do the two ways to see writes disturb each other?
 *
 *	independence [-c CRIU] [-s SEED] [-p PAGES] [-n STEPS] [-d PRE-DUMPS]
 *
 * Bit 55 of a /proc/PID/pagemap entry is soft-dirty, which CRIU reads and resets;
 * bit 57 is uffd-wp, which the profiler sets and a write clears. A child holds some
 * memory. Random operations of both sides are done on it, and after each one both
 * bits of every page are compared with a model that knows only what was done. A
 * page-step is one page looked at after one operation; the defaults are 256 pages
 * and 400 steps, 102,400 page-steps, each of two comparisons.
 *
 * What the model says: a write sets 55 and clears 57; clear_refs and a CRIU pre-dump
 * clear 55; a scan that arms sets 57 on registered pages with data; unregistering
 * clears 57; nothing else changes anything.
 *
 * Small pages only: the write to an armed huge page splits it, and soft-dirty is
 * per huge page, so both channels are coarser there. Where the kernel has no
 * soft-dirty bit 57 alone is compared. Without -c there are no pre-dumps.
 * Exit 0: no deviation; 1: some, or it could not run.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject.h"
#include "uapi.h"

#define PAGE	   4096ul
#define MOST_PAGES 4096u
#define SHOW	   10 /* deviations told one by one */

enum op {
	WRITE,
	KERNEL_WRITE,
	REMOTE_WRITE,
	READ,
	CLEAR_REFS,
	ARM,
	SCAN,
	REGISTER,
	UNREGISTER,
	PRE_DUMP,
	N_OPS
};

static const char *const op_name[N_OPS] = {
	"write by the target",
	"write by the kernel for it",
	"write by process_vm_writev",
	"read by the target",
	"clear_refs",
	"PAGEMAP_SCAN that arms",
	"PAGEMAP_SCAN, looks",
	"UFFDIO_REGISTER",
	"UFFDIO_UNREGISTER",
	"CRIU pre-dump",
};

/* how often, in a thousand; what is left over is target's writes */
static const unsigned int op_share[N_OPS] = {
	[KERNEL_WRITE] = 100, [REMOTE_WRITE] = 100, [READ] = 80,     [CLEAR_REFS] = 80,
	[ARM] = 150,	      [SCAN] = 60,	    [REGISTER] = 80, [UNREGISTER] = 40,
};

enum { SOFT, WP, CHANNELS };
static const uint64_t channel_bit[CHANNELS] = { UAPI_PM_SOFT_DIRTY, UAPI_PM_UFFD_WP };
static const char *const channel_name[CHANNELS] = { "55", "57" };

/* what the model knows of a page */
struct page {
	bool data; /* written at least once: neither absent nor the zero page */
	bool registered;
	bool bit[CHANNELS];
};

struct tally {
	uint64_t times, set[CHANNELS], cleared[CHANNELS], wrong[CHANNELS];
};

/* what the child is told to do, to which pages */
struct order {
	enum op op;
	uint8_t pages[MOST_PAGES];
};

struct bench {
	const char *criu;
	uint64_t seed, random;
	size_t pages, steps, dumps;
	pid_t pid;
	int sock, pagemap, clear_refs, uffd;
	uint64_t base;
	bool has_soft;
	char images[64];
	struct page page[MOST_PAGES];
	struct tally tally[N_OPS];
	struct order order;
};

static struct bench b = { .seed = 1, .pages = 256, .steps = 400, .dumps = 8, .uffd = -1 };

static _Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *fmt, ...)
{
	va_list ap;

	fputs("independence: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	if (b.pid > 0)
		kill(b.pid, SIGKILL);
	exit(1);
}

static size_t below(size_t n)
{
	b.random ^= b.random << 13;
	b.random ^= b.random >> 7;
	b.random ^= b.random << 17;
	return (size_t)((b.random >> 11) % n);
}

/* ---- the child: memory, and hands ------------------------------------------- */

static char *map_alone(size_t pages)
{
	/* between guards, so that no neighbour is ever merged with it */
	char *p = mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + PAGE, pages * PAGE, PROT_READ | PROT_WRITE))
		return NULL;
	madvise(p + PAGE, pages * PAGE, MADV_NOHUGEPAGE);
	return p + PAGE;
}

static bool obey(volatile char *p, const struct order *order)
{
	static volatile char seen;

	for (size_t i = 0; i < b.pages; i++) {
		if (!order->pages[i])
			continue;
		if (order->op == WRITE)
			p[i * PAGE + i % PAGE] += 1;
		else if (order->op == READ)
			seen = p[i * PAGE];
		else if (getrandom((char *)p + i * PAGE, 1, 0) != 1)
			return false;
	}
	(void)seen;
	return true;
}

static _Noreturn void child(int sock)
{
	static struct order order;
	char *p = map_alone(b.pages);
	uint64_t at = (uint64_t)(uintptr_t)p;

	setsid();
	if (!p || write(sock, &at, sizeof(at)) != sizeof(at))
		_exit(1);
	while (recv(sock, &order, sizeof(order), MSG_WAITALL) == sizeof(order))
		if (!obey(p, &order) || write(sock, "", 1) != 1)
			_exit(1);
	_exit(0);
}

/* command() - have the child do b.order to its pages */
static void command(enum op op)
{
	char done;

	b.order.op = op;
	if (write(b.sock, &b.order, sizeof(b.order)) != sizeof(b.order) ||
	    read(b.sock, &done, 1) != 1)
		fail("the target is gone");
}

/* ---- operations: each does it and tells the model ----------------------------- */

static void set_bit(enum op op, size_t page, int channel, bool value)
{
	bool *bit = &b.page[page].bit[channel];

	if (*bit != value)
		(value ? b.tally[op].set : b.tally[op].cleared)[channel]++;
	*bit = value;
}

static void choose_pages(void)
{
	size_t first = below(b.pages), n = 1 + below(b.pages / 4), every = 1 + below(4);

	memset(b.order.pages, 0, sizeof(b.order.pages));
	for (size_t i = first; i < b.pages && i < first + n; i += every)
		b.order.pages[i] = 1;
}

static void remote_write(void)
{
	for (size_t i = 0; i < b.pages; i++) {
		char byte = (char)i;
		struct iovec from = { &byte, 1 };
		struct iovec to = { (char *)(uintptr_t)(b.base + i * PAGE + 7), 1 };

		if (b.order.pages[i] && process_vm_writev(b.pid, &from, 1, &to, 1, 0) != 1)
			fail("process_vm_writev: %s", strerror(errno));
	}
}

static void do_write(enum op op)
{
	choose_pages();
	if (op == REMOTE_WRITE)
		remote_write();
	else
		command(op);
	for (size_t i = 0; op != READ && i < b.pages; i++) {
		if (!b.order.pages[i])
			continue;
		b.page[i].data = true;
		set_bit(op, i, SOFT, true);
		set_bit(op, i, WP, false);
	}
}

static void clear_soft(enum op op)
{
	for (size_t i = 0; i < b.pages; i++)
		set_bit(op, i, SOFT, false);
}

static void clear_refs(void)
{
	if (b.has_soft && pwrite(b.clear_refs, "4", 1, 0) != 1)
		fail("clear_refs: %s", strerror(errno));
	clear_soft(CLEAR_REFS);
}

static void choose_range(size_t *first, size_t *n)
{
	bool all = below(3) == 0;

	*first = all ? 0 : below(b.pages);
	*n = all ? b.pages : 1 + below(b.pages - *first);
}

/* the filter that arms what holds data, and never an empty page */
static void do_scan(enum op op)
{
	struct uapi_page_region vec[8];
	struct uapi_pm_scan_arg arg = {
		.size = sizeof(arg),
		.vec = (uintptr_t)vec,
		.vec_len = 8,
		.category_mask = UAPI_PAGE_IS_WRITTEN,
		.return_mask = UAPI_PAGE_IS_WRITTEN,
	};
	size_t first, n;

	choose_range(&first, &n);
	if (op == ARM) {
		arg.flags = UAPI_PM_SCAN_WP_MATCHING;
		arg.category_inverted = UAPI_PAGE_IS_PFNZERO | UAPI_PAGE_IS_FILE;
		arg.category_mask |= arg.category_inverted;
		arg.category_anyof_mask = UAPI_PAGE_IS_PRESENT | UAPI_PAGE_IS_SWAPPED;
	}
	arg.end = b.base + (first + n) * PAGE;
	for (arg.start = b.base + first * PAGE; arg.start < arg.end; arg.start = arg.walk_end)
		if (ioctl(b.pagemap, UAPI_PAGEMAP_SCAN, &arg) < 0)
			fail("PAGEMAP_SCAN: %s", strerror(errno));
	for (size_t i = first; op == ARM && i < first + n; i++)
		if (b.page[i].data && b.page[i].registered)
			set_bit(op, i, WP, true);
}

static void do_register(enum op op)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_WP };
	size_t first, n;
	int rc;

	choose_range(&first, &n);
	reg.range.start = b.base + first * PAGE;
	reg.range.len = n * PAGE;
	if (op == REGISTER)
		rc = ioctl(b.uffd, UFFDIO_REGISTER, &reg);
	else
		rc = ioctl(b.uffd, UFFDIO_UNREGISTER, &reg.range);
	if (rc)
		fail("%s: %s", op_name[op], strerror(errno));
	for (size_t i = first; i < first + n; i++) {
		b.page[i].registered = op == REGISTER;
		if (op == UNREGISTER)
			set_bit(op, i, WP, false);
	}
}

static void remove_images(void)
{
	char command_line[96];

	snprintf(command_line, sizeof(command_line), "rm -rf '%s'", b.images);
	if (system(command_line))
		fail("cannot remove %s", b.images);
}

static void pre_dump(void)
{
	char pid[16];
	pid_t criu;
	int status;

	if (mkdir(b.images, 0700))
		fail("%s: %s", b.images, strerror(errno));
	snprintf(pid, sizeof(pid), "%d", b.pid);
	criu = fork();
	if (!criu) {
		execlp(b.criu, b.criu, "pre-dump", "-t", pid, "-D", b.images, "--track-mem", "-v3",
		       "-o", "log", (char *)NULL);
		_exit(127);
	}
	if (criu < 0 || waitpid(criu, &status, 0) != criu || status)
		fail("%s pre-dump failed: see %s/log", b.criu, b.images);
	remove_images();
	clear_soft(PRE_DUMP);
}

static void operate(enum op op)
{
	b.tally[op].times++;
	switch (op) {
	case CLEAR_REFS:
		clear_refs();
		break;
	case ARM:
	case SCAN:
		do_scan(op);
		break;
	case REGISTER:
	case UNREGISTER:
		do_register(op);
		break;
	case PRE_DUMP:
		pre_dump();
		break;
	default:
		do_write(op);
	}
}

/* ---- comparing ------------------------------------------------------------------ */

static void compare(enum op op, size_t step)
{
	static uint64_t entry[MOST_PAGES];
	static unsigned int shown;
	size_t bytes = b.pages * sizeof(entry[0]);

	if (pread(b.pagemap, entry, bytes, (off_t)(b.base / PAGE * sizeof(entry[0]))) !=
	    (ssize_t)bytes)
		fail("pagemap: %s", strerror(errno));
	for (size_t i = 0; i < b.pages; i++) {
		for (int c = b.has_soft ? SOFT : WP; c < CHANNELS; c++) {
			bool is = entry[i] & channel_bit[c];

			if (is == b.page[i].bit[c])
				continue;
			b.tally[op].wrong[c]++;
			if (shown++ < SHOW)
				printf("step %zu, %s: page %zu: bit %s is %d, expected %d\n", step,
				       op_name[op], i, channel_name[c], is, !is);
		}
	}
}

static enum op choose_op(size_t step)
{
	size_t at = below(1000);

	/* pre-dumps cost most by far: their number is given, their places are not */
	if (b.criu && below(b.steps - step) < b.dumps) {
		b.dumps--;
		return PRE_DUMP;
	}
	for (enum op op = KERNEL_WRITE; op < PRE_DUMP; op++) {
		if (at < op_share[op])
			return op;
		at -= op_share[op];
	}
	return WRITE;
}

/* ---- beginning and end ------------------------------------------------------------ */

static int open_of(const char *what, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", b.pid, what);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	return fd;
}

/* as libwprof does it: what the profiler has on a target it is tried with */
static void take_uffd(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };
	struct wprof_why why;

	if (inject_uffd(b.pid, NULL, &b.uffd, NULL, &why))
		fail("%s", why.text);
	if (ioctl(b.uffd, UFFDIO_API, &api))
		fail("UFFDIO_API: %s: PAGEMAP_SCAN needs Linux 6.7", strerror(errno));
}

static void probe_soft(void)
{
	uint64_t entry = 0;

	memset(b.order.pages, 0, sizeof(b.order.pages));
	b.order.pages[0] = 1;
	command(WRITE);
	b.page[0].data = true;
	if (pread(b.pagemap, &entry, sizeof(entry), (off_t)(b.base / PAGE * sizeof(entry))) < 0)
		fail("pagemap: %s", strerror(errno));
	b.has_soft = entry & UAPI_PM_SOFT_DIRTY;
	/* a new mapping is soft-dirty as a whole until it is cleared the first time */
	if (b.has_soft)
		clear_refs();
	else if (b.criu)
		fail("this kernel has no soft-dirty bit: no pre-dumps");
	else
		puts("no soft-dirty on this kernel: bit 57 alone is compared");
}

static void start(void)
{
	int pair[2];

	b.random = b.seed * 0x9e3779b97f4a7c15u + 1;
	snprintf(b.images, sizeof(b.images), "/tmp/independence.%d", getpid());
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		fail("socketpair: %s", strerror(errno));
	b.pid = fork();
	if (!b.pid) {
		close(pair[0]);
		child(pair[1]);
	}
	close(pair[1]);
	b.sock = pair[0];
	if (b.pid < 0 || read(b.sock, &b.base, sizeof(b.base)) != sizeof(b.base))
		fail("no target: %s", strerror(errno));
	b.pagemap = open_of("pagemap", O_RDONLY);
	b.clear_refs = open_of("clear_refs", O_WRONLY);
	take_uffd();
	probe_soft();
}

static void print_channel(const struct tally *t, int c)
{
	if (c == SOFT && !b.has_soft)
		printf(" %8s %8s %6s", "-", "-", "-");
	else
		printf(" %8lu %8lu %6lu", t->set[c], t->cleared[c], t->wrong[c]);
}

static void print_row(const char *name, const struct tally *t)
{
	printf("%-28s %6lu", name, t->times);
	print_channel(t, SOFT);
	print_channel(t, WP);
	putchar('\n');
}

/* print_table() - Return: number of deviations */
static uint64_t print_table(void)
{
	struct tally all = { 0 };

	printf("%-28s %6s %24s %24s\n", "", "", "bit 55, soft-dirty", "bit 57, uffd-wp");
	printf("%-28s %6s %8s %8s %6s %8s %8s %6s\n", "operation", "times", "set", "cleared",
	       "wrong", "set", "cleared", "wrong");
	for (enum op op = 0; op < N_OPS; op++) {
		print_row(op_name[op], &b.tally[op]);
		all.times += b.tally[op].times;
		for (int c = 0; c < CHANNELS; c++) {
			all.set[c] += b.tally[op].set[c];
			all.cleared[c] += b.tally[op].cleared[c];
			all.wrong[c] += b.tally[op].wrong[c];
		}
	}
	print_row("all", &all);
	return all.wrong[SOFT] + all.wrong[WP];
}

static size_t number(const char *text, size_t most)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || !*text || n < 1 || n > most)
		fail("'%s' is no number from 1 to %zu", text, most);
	return n;
}

static void options(int argc, char **argv)
{
	for (int o; (o = getopt(argc, argv, "c:s:p:n:d:")) != -1;) {
		switch (o) {
		case 'c':
			b.criu = optarg;
			break;
		case 's':
			b.seed = number(optarg, UINT32_MAX);
			break;
		case 'p':
			b.pages = number(optarg, MOST_PAGES);
			break;
		case 'n':
			b.steps = number(optarg, 100000000);
			break;
		case 'd':
			b.dumps = number(optarg, 1000000);
			break;
		default:
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t wrong;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv);
	printf("independence: seed %lu, %zu pages, %zu steps, CRIU: %s\n", b.seed, b.pages, b.steps,
	       b.criu ? b.criu : "none");
	start();
	memset(b.tally, 0, sizeof(b.tally));
	for (size_t step = 0; step < b.steps; step++) {
		enum op op = choose_op(step);

		operate(op);
		compare(op, step);
	}
	wrong = print_table();
	printf("%zu page-steps, %lu deviations\n", b.pages * b.steps, wrong);
	close(b.sock);
	waitpid(b.pid, NULL, 0);
	return wrong ? 1 : 0;
}
