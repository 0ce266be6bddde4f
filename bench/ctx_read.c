/*
 * What reading costs against its floor: the bare system call that moves the same
 * bytes. Both are measured in turns in the same run; the ratio is that of the
 * tenth percentiles of 400 rounds of 100 calls: on a machine with other work the
 * middle of the rounds says more of that work than of the calls.
 */
#include <sys/uio.h>

#include "ctx_bench.h"
#include "discover.h"

#define ROUNDS 400
#define CALLS  100

static struct ctx_header header;
static uint64_t address;
static pid_t pid;
static struct pctx_reader *reader;

static void publisher(int ready, void *arg)
{
	(void)arg;
	publish_ten(1);
	must(write(ready, "x", 1) == 1, "write");
	for (;;)
		pause();
}

/* Memory of the whole program, so that no floor is measured in a warmer place. */
static uint8_t payload[PCTX_PAYLOAD_MAX];
static struct ctx_header again;

static void floor_poll(void)
{
	struct iovec to = { &again, sizeof(again) };
	struct iovec from = { (void *)(uintptr_t)address, sizeof(again) };

	must(process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof(again), "process_vm_readv");
}

static void floor_read(void)
{
	struct iovec to[] = { { &header, sizeof(header) },
			      { payload, header.payload_size },
			      { &again, sizeof(again) } };
	struct iovec from[] = { { (void *)(uintptr_t)address, sizeof(header) },
				{ (void *)(uintptr_t)header.payload, header.payload_size },
				{ (void *)(uintptr_t)address, sizeof(header) } };

	must(process_vm_readv(pid, to, 3, from, 3, 0) > 0, "process_vm_readv");
}

static void our_poll(void)
{
	bool changed;

	must(pctx_reader_poll(reader, &changed) == 0 && !changed, "poll");
}

static void our_read(void)
{
	struct pctx_context *c;

	must(pctx_reader_read(reader, &c) == 0, "read");
	pctx_context_free(c);
}

static void our_first_read(void)
{
	struct pctx_context *c;

	must(pctx_read(pid, NULL, &c) == 0, "read");
	pctx_context_free(c);
}

static double round_ns(void (*fn)(void), unsigned int calls)
{
	uint64_t start = now_ns();

	for (unsigned int i = 0; i < calls; i++)
		fn();
	return (double)(now_ns() - start) / calls;
}

/* ns of both, taken in turns; the ratio of ours to the floor. */
static double compare(const char *what, void (*floor)(void), void (*ours)(void), unsigned int calls)
{
	static double a[ROUNDS], b[ROUNDS];
	double floor_ns, ours_ns;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		a[i] = round_ns(floor, calls);
		b[i] = round_ns(ours, calls);
	}
	floor_ns = percentile(a, ROUNDS, 0.1);
	ours_ns = percentile(b, ROUNDS, 0.1);
	printf("%-32s floor %9.0f ns   ours %9.0f ns\n", what, floor_ns, ours_ns);
	return ours_ns / floor_ns;
}

int main(void)
{
	struct discover_opts opts = { .mappings_max = 0 };
	struct pctx_context *c;
	double poll_ratio, read_ratio;
	struct target t;
	int missed;

	pid = target_start(publisher, NULL);
	must(target_open(&t, pid, NULL) == 0 && discover(&t, &opts, &address) == 0, "discover");
	must(target_read(&t, address, &header, sizeof(header)) == 0, "header");
	target_close(&t);
	must(pctx_reader_open(pid, NULL, &reader) == 0, "open");
	must(pctx_reader_read(reader, &c) == 0, "read");
	pctx_context_free(c);

	poll_ratio = compare("poll, unchanged", floor_poll, our_poll, CALLS);
	read_ratio = compare("read of a known context", floor_read, our_read, CALLS);
	compare("open, find, read, decode", floor_read, our_first_read, 5);
	missed = verdict("poll / bare read of 32 bytes", poll_ratio, 1.2);
	missed |= verdict("read / bare read of 3 vectors", read_ratio, 1.3);
	pctx_reader_close(reader);
	target_end(pid);
	return missed;
}
