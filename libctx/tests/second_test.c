/*
 * A process context is a singleton: other publishers in the same process, real
 * ones and what only looks like one. Two copies of libctx are the one linked in
 * here and the shared library.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "pub_util.h"
#include "sys.h"

static char library[4096];

struct copy {
	int (*publish)(const struct pctx_publish_opts *opts);
	int (*unpublish)(void);
};

static struct copy copy_load(void)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	struct copy c;

	ATF_REQUIRE_MSG(handle != NULL, "%s", dlerror());
	c.publish = (int (*)(const struct pctx_publish_opts *))dlsym(handle, "pctx_publish");
	c.unpublish = (int (*)(void))dlsym(handle, "pctx_unpublish");
	ATF_REQUIRE(c.publish && c.unpublish && c.publish != pctx_publish);
	return c;
}

/* The library lies beside the test program's folder: BUILD/lib/libctx.so */
static void copy_find(const atf_tc_t *tc)
{
	snprintf(library, sizeof(library), "%s/../../lib/libctx.so",
		 atf_tc_get_config_var(tc, "srcdir"));
}

/* A mapping of @name with @h at its start, as another library would make it. */
static struct ctx_header *foreign_map(const char *name, const struct ctx_header *h, int prot)
{
	int fd = sys_memfd_create(name, MFD_CLOEXEC);
	void *map;

	ATF_REQUIRE(fd >= 0);
	ATF_REQUIRE_EQ(write(fd, h, sizeof(*h)), sizeof(*h));
	ATF_REQUIRE_EQ(ftruncate(fd, (off_t)sys_page_size()), 0);
	map = mmap(NULL, sys_page_size(), prot, MAP_PRIVATE, fd, 0);
	ATF_REQUIRE(map != MAP_FAILED);
	close(fd);
	return map;
}

static const struct ctx_header valid = {
	.signature = { 'O', 'T', 'E', 'L', '_', 'C', 'T', 'X' },
	.version = CTX_VERSION,
	.payload_size = 2,
	.published_at_ns = 1,
	.payload = 4096,
};

CASE(foreign__published, "Beside another library's context publishing answers -EEXIST")
{
	struct ctx_header *h = foreign_map("OTEL_CTX", &valid, PROT_READ | PROT_WRITE);
	struct pub_mapping m[2];

	ATF_CHECK_EQ(pub_service("a"), -EEXIST);
	h->published_at_ns = 0; /* it is being updated, and no less there */
	ATF_CHECK_EQ(pub_service("a"), -EEXIST);
	h->version = 1;
	ATF_CHECK_EQ(pub_service("a"), -EEXIST);
	ATF_CHECK_EQ(pub_mappings(m, 2), 1);
	ATF_CHECK_EQ(m[0].start, (uintptr_t)h);
	ATF_CHECK_EQ(pctx_unpublish(), -ENODATA);

	munmap(h, sys_page_size());
	ATF_CHECK_EQ(pub_service("a"), 0);
}

CASE(foreign__later, "A context that appears later does not keep the first from its updates")
{
	ATF_REQUIRE_EQ(pub_service("a"), 0);
	foreign_map("OTEL_CTX", &valid, PROT_READ | PROT_WRITE);
	ATF_CHECK_EQ(pub_service("b"), 0);
	ATF_CHECK_EQ(pctx_unpublish(), 0);
	ATF_CHECK_EQ(pub_service("c"), -EEXIST);
}

CASE(foreign__decoys, "Mappings that only look like a context are in nobody's way")
{
	struct ctx_header wrong = valid, zero;
	char name[64];

	memset(&zero, 0, sizeof(zero));
	wrong.signature[7] = 'Y';
	foreign_map("OTEL_CTX", &wrong, PROT_READ | PROT_WRITE);
	foreign_map("OTEL_CTX", &zero, PROT_READ | PROT_WRITE);
	foreign_map("OTEL_CTX_OLD", &zero, PROT_READ | PROT_WRITE);
	foreign_map("OTEL_CTX", &valid, PROT_NONE);
	foreign_map("OTEL_CTX", &valid, PROT_READ | PROT_EXEC);
	foreign_map("other OTEL_CTX", &valid, PROT_READ | PROT_WRITE);
	/* a line of maps that is longer than the scanner keeps */
	snprintf(name, sizeof(name), "OTEL_CTX%050d", 1);
	foreign_map(name, &wrong, PROT_READ | PROT_WRITE);
	ATF_CHECK_EQ(pub_service("a"), 0);
}

CASE(foreign__truncated, "A memfd that was cut to nothing does not end the process")
{
	int fd = sys_memfd_create("OTEL_CTX", MFD_CLOEXEC);
	void *map;

	ATF_REQUIRE(fd >= 0);
	ATF_REQUIRE_EQ(ftruncate(fd, 4096), 0);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ATF_REQUIRE(map != MAP_FAILED);
	ATF_REQUIRE_EQ(ftruncate(fd, 0), 0);
	ATF_CHECK_EQ(pub_service("a"), 0);
	close(fd);
}

CASE(foreign__among_many, "The other context is found among thousands of mappings, at any place")
{
	struct ctx_header *h = foreign_map("OTEL_CTX", &valid, PROT_READ | PROT_WRITE);
	size_t page = sys_page_size();
	char *many = mmap(NULL, 4000 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ATF_REQUIRE(many != MAP_FAILED);
	for (size_t i = 0; i < 4000; i += 2)
		ATF_REQUIRE_EQ(mprotect(many + i * page, page, PROT_NONE), 0);
	ATF_CHECK_EQ(pub_service("a"), -EEXIST);
	munmap(h, page);
	foreign_map("OTEL_CTX", &valid, PROT_READ | PROT_WRITE);
	ATF_CHECK_EQ(pub_service("a"), -EEXIST);
}

static void no_vm_readv(void)
{
	static const struct pub_rule rules[] = { DENY(process_vm_readv, ENOSYS) };

	pub_filter(rules, 1);
	CHILD_REQUIRE(pub_service("a") == -EEXIST);
}

CASE(foreign__no_vm_readv, "Without process_vm_readv the other context is read by /proc/self/mem")
{
	foreign_map("OTEL_CTX", &valid, PROT_READ | PROT_WRITE);
	ATF_CHECK_EQ(pub_child(no_vm_readv), 0);
}

static bool came_back;

static void *publish_cancelled(void *arg)
{
	(void)arg;
	pthread_cancel(pthread_self());
	CHILD_REQUIRE(pub_service("a") == 0);
	CHILD_REQUIRE(pub_service("b") == 0);
	CHILD_REQUIRE(pctx_unpublish() == 0);
	came_back = true;
	pthread_testcancel();
	return NULL;
}

static void cancelled(void)
{
	static const struct pub_rule rules[] = { DENY(process_vm_readv, ENOSYS) };
	pthread_t thread;
	void *result;

	pub_filter(rules, 1);
	CHILD_REQUIRE(pthread_create(&thread, NULL, publish_cancelled, NULL) == 0);
	CHILD_REQUIRE(pthread_join(thread, &result) == 0);
	CHILD_REQUIRE(came_back && result == PTHREAD_CANCELED);
	/* nothing is left locked */
	CHILD_REQUIRE(pub_service("c") == 0);
}

CASE(foreign__cancellation,
     "No call of the publisher is a cancellation point, whatever it looks at")
{
	struct ctx_header zero;

	memset(&zero, 0, sizeof(zero));
	foreign_map("OTEL_CTX", &zero, PROT_READ | PROT_WRITE);
	ATF_CHECK_EQ(pub_child(cancelled), 0);
}

CASE(copy__published, "Of two copies of libctx the first stays, until it withdraws")
{
	struct pctx_publish_opts opts = { .size = sizeof(opts) };
	struct copy c;

	copy_find(tc);
	c = copy_load();
	ATF_REQUIRE_EQ(pub_service("a"), 0);
	ATF_CHECK_EQ(c.publish(&opts), -EEXIST);
	ATF_CHECK_EQ(c.unpublish(), -ENODATA);
	ATF_CHECK(pub_is_published("a"));
	ATF_REQUIRE_EQ(pctx_unpublish(), 0);
	ATF_CHECK_EQ(c.publish(&opts), 0);
	ATF_CHECK_EQ(pub_service("b"), -EEXIST);
	ATF_CHECK_EQ(c.unpublish(), 0);
}

static pthread_barrier_t barrier;
static struct copy racer;

static void *race(void *arg)
{
	struct pctx_publish_opts opts = { .size = sizeof(opts) };
	long rc;

	pthread_barrier_wait(&barrier);
	rc = arg ? racer.publish(&opts) : pctx_publish(&opts);
	return (void *)rc;
}

CASE(copy__race, "When two copies publish for the first time at once, exactly one succeeds")
{
	/* an emulated processor, that of the kernel tests, takes its time for a thread */
	int rounds = *atf_tc_get_config_var_wd(tc, "kernel", "") ? 100 : 1000;
	struct pub_mapping m[3];

	copy_find(tc);
	racer = copy_load();
	ATF_REQUIRE_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
	for (int i = 0; i < rounds; i++) {
		pthread_t threads[2];
		void *rc[2];

		for (intptr_t k = 0; k < 2; k++)
			ATF_REQUIRE_EQ(pthread_create(&threads[k], NULL, race, (void *)k), 0);
		for (int k = 0; k < 2; k++)
			ATF_REQUIRE_EQ(pthread_join(threads[k], &rc[k]), 0);
		ATF_REQUIRE_MSG((rc[0] == NULL) != (rc[1] == NULL), "round %d: %ld and %ld", i,
				(long)rc[0], (long)rc[1]);
		ATF_REQUIRE_EQ((long)rc[0] + (long)rc[1], -EEXIST);
		ATF_REQUIRE_EQ(pub_mappings(m, 3), 1);
		ATF_REQUIRE_EQ(rc[0] ? racer.unpublish() : pctx_unpublish(), 0);
	}
}

CASE(copy__closed, "A context outlives dlclose of the shared library, which stays loaded for it")
{
	struct pctx_publish_opts opts = { .size = sizeof(opts) };
	struct copy c;
	void *handle;

	copy_find(tc);
	c = copy_load();
	ATF_REQUIRE_EQ(c.publish(&opts), 0);
	handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	ATF_REQUIRE(handle != NULL);
	ATF_CHECK_EQ(dlclose(handle), 0);
	ATF_CHECK_EQ(dlclose(handle), 0);
	c = copy_load();
	ATF_CHECK_EQ(c.publish(&opts), 0); /* an update: the state is still there */
	ATF_CHECK_EQ(c.unpublish(), 0);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, foreign__published);
	ATF_TP_ADD_TC(tp, foreign__later);
	ATF_TP_ADD_TC(tp, foreign__decoys);
	ATF_TP_ADD_TC(tp, foreign__truncated);
	ATF_TP_ADD_TC(tp, foreign__among_many);
	ATF_TP_ADD_TC(tp, foreign__no_vm_readv);
	ATF_TP_ADD_TC(tp, foreign__cancellation);
	ATF_TP_ADD_TC(tp, copy__published);
	ATF_TP_ADD_TC(tp, copy__race);
	ATF_TP_ADD_TC(tp, copy__closed);
	return atf_no_error();
}
