/*
 * Memory made to crash, hang or mislead a reader. Each case is a process that
 * has laid it out for real.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>

#include "scene.h"

#define KERNEL_HALF 0xffff800000000000ull

static struct pctx_reader_opts few = { .size = sizeof(few), .attempts_max = 5 };
/* with a procfs that is named the memory is read by its file */
static struct pctx_reader_opts by_file = { .size = sizeof(by_file),
					   .attempts_max = 5,
					   .procfs = "/proc" };

/* ---- payloads ------------------------------------------------------------------ */

struct claim {
	uint64_t payload;
	uint32_t size;
	const char *what;
};

static void publish_claim(int step, void *arg)
{
	const struct claim *claim = arg;
	struct ctx_header *h = craft_mapping(PAGE);

	(void)step;
	craft_header(h, NULL, claim->size, 1000);
	h->payload = claim->payload;
}

TEST_CASE(payload__nowhere,
	  "A payload at an address that cannot be, or of an absurd size, is -EBADMSG")
{
	struct claim claims[] = {
		{ 0, 10, "NULL" },
		{ 0, 0, "nothing" },
		{ 16, 10, "the first page" },
		{ 0x10000, 0, "size 0" },
		{ 0x10000, 10, "unmapped" },
		{ KERNEL_HALF, 10, "the kernel's half" },
		{ 0xffffffffff600000ull, 10, "vsyscall" },
		{ 0x8000000000000000ull, 10, "not canonical" },
		{ UINT64_MAX, 10, "wraps" },
		{ UINT64_MAX - 9, 10, "ends at 2^64" },
		{ 0x10000, UINT32_MAX, "4 GiB" },
		{ 0x10000, PCTX_PAYLOAD_MAX + 1, "above the limit" },
	};
	struct pctx_context *c;

	for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
		struct scene s = scene_begin(publish_claim, &claims[i]);

		ATF_CHECK_EQ_MSG(-EBADMSG, pctx_read(s.pid, &few, &c), "%s", claims[i].what);
		ATF_CHECK_EQ_MSG(-EBADMSG, pctx_read(s.pid, &by_file, &c), "%s", claims[i].what);
		scene_end(&s);
	}
}

/* Steps: 0 half of the payload in memory that is not readable, 1 all of it readable */
static void publish_across(int step, void *arg)
{
	static uint8_t *pages;
	static struct bytes b;
	uint8_t *at;

	(void)arg;
	payload_string(&b, "service.name", "across");
	if (step) {
		CHILD_REQUIRE(mprotect(pages, 2 * PAGE, PROT_READ | PROT_WRITE) == 0);
		return;
	}
	pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHILD_REQUIRE(pages != MAP_FAILED);
	at = pages + PAGE - b.len / 2;
	memcpy(at, b.data, b.len);
	CHILD_REQUIRE(mprotect(pages + PAGE, PAGE, PROT_NONE) == 0);
	craft_header(craft_mapping(PAGE), at, (uint32_t)b.len, 1000);
}

TEST_CASE(payload__crosses_into_prot_none,
	  "A payload half of which is PROT_NONE is -EBADMSG, not half")
{
	struct scene s = scene_begin(publish_across, NULL);
	struct pctx_reader *reader;
	struct pctx_context *c;
	bool changed = false;

	ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, &few, &reader));
	ATF_CHECK_EQ(-EBADMSG, pctx_reader_read(reader, &c));
	/* it stays so until the header changes */
	ATF_CHECK_EQ(-EBADMSG, pctx_reader_poll(reader, &changed));
	scene_step(&s, 1);
	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
	ATF_CHECK(has_string(c, "service.name", "across"));
	pctx_context_free(c);
	pctx_reader_close(reader);
	scene_end(&s);
}

static void publish_garbage(int step, void *arg)
{
	static uint8_t garbage[PCTX_PAYLOAD_MAX];
	static struct ctx_header *h;
	unsigned int seed = (unsigned int)step;

	(void)arg;
	for (size_t i = 0; i < sizeof(garbage); i++)
		garbage[i] = (uint8_t)rand_r(&seed);
	if (!h)
		h = craft_mapping(PAGE);
	craft_header(h, garbage, sizeof(garbage), 1000 + (uint64_t)step);
}

TEST_CASE(payload__garbage, "64 KiB of noise is -EBADMSG, and the next update is read afresh")
{
	struct scene s = scene_begin(publish_garbage, NULL);
	struct pctx_reader *reader;
	struct pctx_context *c;

	ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, &few, &reader));
	for (int step = 1; step < 20; step++) {
		ATF_CHECK_EQ(-EBADMSG, pctx_reader_read(reader, &c));
		scene_step(&s, step);
	}
	pctx_reader_close(reader);
	scene_end(&s);
}

static void publish_deep(int step, void *arg)
{
	static struct bytes b;

	(void)step;
	(void)arg;
	while (b.len < 60000) {
		wrap(&b, 1);
		wrap(&b, 5);
	}
	put_field(&b, 1, "k", 1);
	craft_header(craft_mapping(PAGE), b.data, (uint32_t)b.len, 1000);
}

TEST_CASE(payload__deep, "A payload of thousands of levels is -EBADMSG and crashes nobody")
{
	struct scene s = scene_begin(publish_deep, NULL);
	struct pctx_context *c;

	ATF_CHECK_EQ(-EBADMSG, pctx_read(s.pid, &few, &c));
	scene_end(&s);
}

/* ---- the stack that reading needs ----------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_BYTES (1024u * 1024u) /* sanitizers take more for themselves */
#else
#define STACK_BYTES (128u * 1024u) /* as pctx.h and pctx_reader(3) say */
#endif

/* At step n arrays that lie n deep in each other, and as many attributes as there is room for */
static void publish_arrays(int step, void *arg)
{
	static struct ctx_header *h;
	static struct bytes b;

	(void)arg;
	if (!h)
		h = craft_mapping(PAGE);
	b.len = 0;
	put_field(&b, 1, "x", 1);
	for (int i = 0; i < step; i++) {
		wrap(&b, 1);
		wrap(&b, 5);
	}
	wrap(&b, 2);
	put_field(&b, 1, "k", 1);
	wrap(&b, 1);
	wrap(&b, 1);
	/* thousands of attributes of the context itself */
	while (b.len + 8 < PCTX_PAYLOAD_MAX)
		put_field(&b, 2,
			  "\x0a\x02"
			  "ab",
			  4);
	craft_header(h, b.data, (uint32_t)b.len, 1000 + (uint64_t)step);
}

struct small_read {
	pid_t pid;
	int read, detected;
};

static void *read_small(void *arg)
{
	struct small_read *r = arg;
	struct pctx_context *c;

	r->read = pctx_read(r->pid, &few, &c);
	if (!r->read)
		pctx_context_free(c);
	r->detected = pctx_detect(r->pid, NULL, &c);
	if (!r->detected)
		pctx_context_free(c);
	return NULL;
}

/* On a stack of that size with nothing below it; how much of it was used */
static size_t on_small_stack(struct small_read *r)
{
	uint8_t *all =
		mmap(NULL, STACK_BYTES + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *stack = all + PAGE;
	pthread_attr_t attr;
	pthread_t thread;
	size_t unused = 0;

	ATF_REQUIRE(all != MAP_FAILED && !mprotect(stack, STACK_BYTES, PROT_READ | PROT_WRITE));
	memset(stack, 0xa5, STACK_BYTES);
	ATF_REQUIRE_EQ(0, pthread_attr_init(&attr));
	ATF_REQUIRE_EQ(0, pthread_attr_setstack(&attr, stack, STACK_BYTES));
	ATF_REQUIRE_EQ(0, pthread_create(&thread, &attr, read_small, r));
	ATF_REQUIRE_EQ(0, pthread_join(thread, NULL));
	pthread_attr_destroy(&attr);
	while (unused < STACK_BYTES && stack[unused] == 0xa5)
		unused++;
	munmap(all, STACK_BYTES + PAGE);
	return STACK_BYTES - unused;
}

TEST_CASE(stack__small, "The deepest and largest that is accepted is read on 128 KiB of stack")
{
	struct scene s = scene_begin(publish_arrays, NULL);
	struct small_read r = { .pid = s.pid };
	size_t used = 0, most = 0;
	int deepest = 0;

	for (int step = 1; step < 60; step++) {
		scene_step(&s, step);
		used = on_small_stack(&r);
		most = used > most ? used : most;
		ATF_CHECK_EQ(0, r.detected);
		ATF_CHECK(!r.read || (r.read == -EBADMSG && step > 40));
		deepest = r.read ? deepest : step;
	}
	scene_end(&s);
	printf("arrays %d deep, %zu bytes of stack\n", deepest, most);
	ATF_CHECK_EQ(48, deepest); /* 4 levels around them, 2 each: 100, as Google's parsers */
}

static void publish_4gib(int step, void *arg)
{
	void *all = mmap(NULL, (size_t)4 << 30, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)step;
	(void)arg;
	CHILD_REQUIRE(all != MAP_FAILED);
	craft_header(craft_mapping(PAGE), all, UINT32_MAX, 1000);
}

TEST_CASE(payload__huge_and_real, "4 GiB that are really there are refused without being fetched")
{
	struct scene s = scene_begin(publish_4gib, NULL);
	struct rusage before, after;
	struct pctx_context *c;

	getrusage(RUSAGE_SELF, &before);
	ATF_CHECK_EQ(-EBADMSG, pctx_read(s.pid, &few, &c));
	getrusage(RUSAGE_SELF, &after);
	ATF_CHECK(after.ru_maxrss - before.ru_maxrss < 1024);
	scene_end(&s);
}

static void publish_elsewhere(int step, void *arg)
{
	static struct bytes b;
	struct ctx_header *h;
	uint8_t *at;

	(void)step;
	payload_string(&b, "service.name", "elsewhere");
	switch (*(int *)arg) {
	case 0: /* behind the header */
		h = craft_mapping(PAGE);
		at = (uint8_t *)(h + 1);
		break;
	case 1: /* on the heap */
		h = craft_mapping(2 * PAGE);
		at = malloc(b.len);
		break;
	case 2: /* in another memfd, shared */
		h = craft_mapping(100 * PAGE);
		at = craft_memfd("other", PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
		break;
	default: /* a header in shared memory, read-only data */
		h = craft_memfd("OTEL_CTX", PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
		at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		break;
	}
	memcpy(at, b.data, b.len);
	if (*(int *)arg == 3)
		CHILD_REQUIRE(mprotect(at, PAGE, PROT_READ) == 0);
	craft_header(h, at, (uint32_t)b.len, 1000);
}

TEST_CASE(payload__anywhere,
	  "A payload behind the header, on the heap, in a memfd, read-only is read")
{
	for (int i = 0; i < 4; i++) {
		struct scene s = scene_begin(publish_elsewhere, &i);

		ATF_CHECK_EQ(0, read_service(s.pid, NULL, "elsewhere"));
		scene_end(&s);
	}
}

static void publish_size(int step, void *arg)
{
	static struct bytes b;
	static char value[PCTX_PAYLOAD_MAX];
	size_t len = *(size_t *)arg;

	(void)step;
	/* what goes around a string of this length is 31 bytes */
	memset(value, 'x', len);
	payload_string(&b, "service.name", value);
	while (b.len < len)
		put(&b, "\x78\x00", 2);
	craft_header(craft_mapping(PAGE), b.data, (uint32_t)b.len, 1000);
}

TEST_CASE(payload__limit, "The caller's limit on the payload is kept to the byte")
{
	struct pctx_reader_opts opts = few;
	size_t len = 60000;
	struct scene s = scene_begin(publish_size, &len);
	struct pctx_context *c;

	/* 60000 and what stands around it */
	opts.payload_max_bytes = 60000;
	ATF_CHECK_EQ(-EBADMSG, pctx_read(s.pid, &opts, &c));
	opts.payload_max_bytes = 60100;
	ATF_REQUIRE_EQ(0, pctx_read(s.pid, &opts, &c));
	ATF_CHECK_EQ(60000, pctx_context_find(c, "service.name")->value.u.string.len);
	pctx_context_free(c);
	scene_end(&s);
}

/* ---- headers --------------------------------------------------------------------- */

enum decoy {
	DECOY_PROT_NONE,
	DECOY_EXECUTABLE,
	DECOY_ZERO,
	DECOY_TRUNCATED,
	DECOY_VERSION,
	DECOY_NEAR_NAME,
	N_DECOYS
};

static void decoy_make(enum decoy kind)
{
	static struct bytes b;
	const int rw = PROT_READ | PROT_WRITE;
	struct ctx_header *h;
	int fd;

	payload_string(&b, "service.name", "decoy");
	switch (kind) {
	case DECOY_PROT_NONE:
		craft_memfd("OTEL_CTX", PAGE, PROT_NONE, MAP_PRIVATE);
		break;
	case DECOY_EXECUTABLE:
		h = craft_memfd("OTEL_CTX", PAGE, rw | PROT_EXEC, MAP_PRIVATE);
		craft_header(h, b.data, (uint32_t)b.len, 5000);
		break;
	case DECOY_ZERO:
		craft_mapping(PAGE);
		break;
	case DECOY_TRUNCATED: /* a file without bytes: reading it is EFAULT or EIO */
		fd = memfd_create("OTEL_CTX", 0);
		CHILD_REQUIRE(fd >= 0);
		CHILD_REQUIRE(mmap(NULL, PAGE, rw, MAP_SHARED, fd, 0) != MAP_FAILED);
		break;
	case DECOY_VERSION:
		h = craft_mapping(PAGE);
		craft_header(h, b.data, (uint32_t)b.len, 5000);
		h->version = 7;
		break;
	default: /* a prefix, so a candidate; what is in it decides */
		craft_memfd("OTEL_CTX_BACKUP", PAGE, rw, MAP_PRIVATE);
		craft_memfd("OTEL_CTX with spaces", PAGE, rw, MAP_PRIVATE);
		h = craft_memfd("not OTEL_CTX", PAGE, rw, MAP_PRIVATE);
		craft_header(h, b.data, (uint32_t)b.len, 5000);
	}
}

struct decoys {
	enum decoy before;
	enum decoy after;
	bool real;
};

static void publish_among_decoys(int step, void *arg)
{
	const struct decoys *d = arg;
	static struct bytes b;

	(void)step;
	decoy_make(d->before);
	if (d->real) {
		payload_string(&b, "service.name", "real");
		craft_header(craft_mapping(PAGE), b.data, (uint32_t)b.len, 1000);
	}
	decoy_make(d->after);
}

TEST_CASE(decoys__passed_over, "The real context is found among decoys of every kind on both sides")
{
	struct decoys d = { .real = true };

	for (int i = 0; i < N_DECOYS; i++) {
		struct scene s;

		d.before = (enum decoy)i;
		d.after = (enum decoy)((i + 1) % N_DECOYS);
		s = scene_begin(publish_among_decoys, &d);
		ATF_CHECK_EQ(0, read_service(s.pid, NULL, "real"));
		ATF_CHECK_EQ(0, read_service(s.pid, &by_file, "real"));
		scene_end(&s);
	}
}

TEST_CASE(decoys__alone,
	  "Decoys alone are none published, or an unsupported version where one has that")
{
	struct decoys d = { .real = false };
	struct pctx_context *c;

	for (int i = 0; i < N_DECOYS; i++) {
		struct scene s;

		d.before = d.after = (enum decoy)i;
		s = scene_begin(publish_among_decoys, &d);
		ATF_CHECK_EQ(i == DECOY_VERSION ? -EPROTONOSUPPORT : -ENODATA,
			     pctx_read(s.pid, NULL, &c));
		ATF_CHECK_EQ(i == DECOY_VERSION ? -EPROTONOSUPPORT : -ENODATA,
			     pctx_read(s.pid, &by_file, &c));
		scene_end(&s);
	}
}

/* A publisher that died inside its process, then another one. */
static void publish_after_dead(int step, void *arg)
{
	static struct bytes b;

	(void)step;
	payload_string(&b, "service.name", "real");
	if (*(int *)arg)
		craft_header(craft_mapping(PAGE), b.data, (uint32_t)b.len, 0);
	craft_header(craft_mapping(PAGE), b.data, (uint32_t)b.len, 1000);
	if (!*(int *)arg)
		craft_header(craft_mapping(PAGE), b.data, (uint32_t)b.len, 0);
}

TEST_CASE(header__stuck_beside_valid,
	  "A valid context is taken before one that is stuck in an update")
{
	for (int i = 0; i < 2; i++) {
		struct scene s = scene_begin(publish_after_dead, &i);

		ATF_CHECK_EQ(0, read_service(s.pid, NULL, "real"));
		scene_end(&s);
	}
}

static void publish_latest(int step, void *arg)
{
	static struct bytes b;

	(void)step;
	(void)arg;
	payload_string(&b, "service.name", "real");
	craft_header(craft_mapping(PAGE), b.data, (uint32_t)b.len, UINT64_MAX);
}

TEST_CASE(header__greatest_timestamp, "A timestamp of 2^64 - 1 is a timestamp")
{
	struct scene s = scene_begin(publish_latest, NULL);
	struct pctx_context *c;

	ATF_REQUIRE_EQ(0, pctx_read(s.pid, NULL, &c));
	ATF_CHECK_EQ(UINT64_MAX, pctx_context_published_at_ns(c));
	pctx_context_free(c);
	scene_end(&s);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, payload__nowhere);
	ATF_TP_ADD_TC(tp, payload__crosses_into_prot_none);
	ATF_TP_ADD_TC(tp, payload__garbage);
	ATF_TP_ADD_TC(tp, payload__deep);
	ATF_TP_ADD_TC(tp, stack__small);
	ATF_TP_ADD_TC(tp, payload__huge_and_real);
	ATF_TP_ADD_TC(tp, payload__anywhere);
	ATF_TP_ADD_TC(tp, payload__limit);
	ATF_TP_ADD_TC(tp, decoys__passed_over);
	ATF_TP_ADD_TC(tp, decoys__alone);
	ATF_TP_ADD_TC(tp, header__stuck_beside_valid);
	ATF_TP_ADD_TC(tp, header__greatest_timestamp);
	return atf_no_error();
}
