/*
 * What publishing costs, against the bare system calls it cannot do without, in
 * the same run. Times are of the processor, the kernel's part included, so that
 * other programs only disturb the caches; what is shown is the median of rounds.
 *
 * An update's floor is clock_gettime and prctl, both as system calls. The first
 * publish's is memfd_create, ftruncate, two mmap, two madvise, close, prctl and
 * the munmap of both; it looks through /proc/self/maps besides, twice.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pctx.h"
#include "sys.h"

#define ROUNDS	      51
#define TARGET_UPDATE 8.0

static struct pctx_attr attributes[10];
static void *page;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void publish(void)
{
	struct pctx_publish_opts opts = {
		.size = sizeof(opts),
		.resource = attributes,
		.n_resource = 10,
	};
	int rc = pctx_publish(&opts);

	if (rc) {
		fprintf(stderr, "ctx_publish: pctx_publish: %s\n", strerror(-rc));
		exit(1);
	}
}

static void publish_first(void)
{
	publish();
	(void)!pctx_unpublish();
}

static void bare_update(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &t);
	sys_name_mapping(page, sys_page_size(), "OTEL_CTX");
}

static void bare_publish(void)
{
	size_t size = sys_page_size();
	int fd = sys_memfd_create("bench", MFD_CLOEXEC);
	char *header, *payload = sys_map(size, -1);

	sys_ftruncate(fd, size);
	header = sys_map(size, fd);
	sys_close(fd);
	if (!header || !payload)
		exit(1);
	sys_madvise(header, size, MADV_DONTFORK);
	sys_madvise(payload, size, MADV_DONTFORK);
	header[0] = payload[0] = 1;
	sys_name_mapping(header, size, "bench");
	munmap(header, size);
	munmap(payload, size);
}

/* Nanoseconds a call of each of two functions takes, their rounds in turn. */
static void measure(void (*const f[2])(void), int calls, double out[2])
{
	double rounds[2][ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		for (int k = 0; k < 2; k++) {
			uint64_t start = now_ns();

			for (int i = 0; i < calls; i++)
				f[k]();
			rounds[k][r] = (double)(now_ns() - start) / calls;
		}
	}
	for (int k = 0; k < 2; k++) {
		qsort(rounds[k], ROUNDS, sizeof(double), compare);
		out[k] = rounds[k][ROUNDS / 2];
	}
}

static double row(const char *name, void (*ours)(void), void (*floor)(void), int calls)
{
	void (*const both[2])(void) = { ours, floor };
	double ns[2];

	measure(both, calls, ns);
	printf("%-34s %12.0f %12.0f %8.2f", name, ns[0], ns[1], ns[0] / ns[1]);
	return ns[0] / ns[1];
}

int main(void)
{
	static char keys[10][32], values[10][48];
	double ratio;

	for (int i = 0; i < 10; i++) {
		snprintf(keys[i], sizeof(keys[i]), "some.attribute.key.%d", i);
		snprintf(values[i], sizeof(values[i]), "a value as long as many are, number %d", i);
		attributes[i] = pctx_string(keys[i], values[i]);
	}
	page = sys_map(sys_page_size(), -1);
	printf("%-34s %12s %12s %8s\n", "10 attributes", "ns", "bare, ns", "ratio");
	row("publish and withdraw", publish_first, bare_publish, 200);
	putchar('\n');
	publish();
	ratio = row("update", publish, bare_update, 2000);
	printf("   target %.1f: %s\n", TARGET_UPDATE, ratio <= TARGET_UPDATE ? "met" : "missed");
	(void)!pctx_unpublish();
	return ratio <= TARGET_UPDATE ? 0 : 1;
}
