/*
 * Publishing, updating and withdrawing, looked at from within the process. That
 * no reader ever sees a mixture is not shown here but by the reader's tests.
 */
#include <atf-c.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "pub_util.h"
#include "state.h"
#include "sys.h"

CASE(opts__bad, "Options that cannot be right are refused, each with its errno")
{
	struct pctx_attr a = pctx_string("a", "b");
	struct {
		struct pctx_publish_opts opts;
		uint64_t newer;
	} large = { .opts = { .size = sizeof(large) } };

	ATF_CHECK_EQ(pctx_publish(NULL), -EINVAL);
	large.opts.size = sizeof(size_t) - 1;
	ATF_CHECK_EQ(pctx_publish(&large.opts), -EINVAL);
	large.opts.size = sizeof(large);
	large.newer = 1;
	ATF_CHECK_EQ(pctx_publish(&large.opts), -E2BIG);
	large.newer = 0;
	large.opts.n_resource = 1;
	ATF_CHECK_EQ(pctx_publish(&large.opts), -EINVAL);
	large.opts.n_resource = 0;
	large.opts.n_attributes = 1;
	ATF_CHECK_EQ(pctx_publish(&large.opts), -EINVAL);
	ATF_CHECK(!pub_header());

	large.opts.attributes = &a;
	ATF_CHECK_EQ(pctx_publish(&large.opts), 0);
	/* a caller of an older header, without the extra attributes */
	large.opts.size = offsetof(struct pctx_publish_opts, attributes);
	ATF_CHECK_EQ(pctx_publish(&large.opts), 0);
	ATF_CHECK_EQ(pub_header()->payload_size, 2);
}

CASE(unpublish__nothing, "Withdrawing first, or twice, answers -ENODATA")
{
	ATF_CHECK_EQ(pctx_unpublish(), -ENODATA);
	ATF_REQUIRE_EQ(pub_service("a"), 0);
	ATF_CHECK_EQ(pctx_unpublish(), 0);
	ATF_CHECK_EQ(pctx_unpublish(), -ENODATA);
}

CASE(update__failed_keeps_old, "An update that fails leaves the old context as it was")
{
	struct ctx_header before;

	ATF_REQUIRE_EQ(pub_service("old"), 0);
	before = *pub_header();
	ATF_CHECK_EQ(pub_service("\xff"), -EILSEQ);
	ATF_CHECK_EQ(pub_service_and_bytes("new", PCTX_PAYLOAD_MAX), -EMSGSIZE);
	ATF_CHECK_EQ(memcmp(&before, pub_header(), sizeof(before)), 0);
	ATF_CHECK(pub_is_published("old"));
}

CASE(publish__header, "The header has signature, version, size, time and pointer in place")
{
	struct timespec now;
	const struct ctx_header *h;
	uint64_t now_ns;

	ATF_REQUIRE_EQ(pub_service("a"), 0);
	h = pub_header();
	ATF_REQUIRE(h != NULL);
	ATF_REQUIRE_EQ(clock_gettime(CLOCK_BOOTTIME, &now), 0);
	now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	ATF_CHECK_EQ(memcmp(h, "OTEL_CTX\2\0\0\0", 12), 0);
	ATF_CHECK(h->payload_size > 0);
	ATF_CHECK(h->published_at_ns > 0 && h->published_at_ns <= now_ns);
	ATF_CHECK_EQ((uintptr_t)h % sys_page_size(), 0);
	ATF_CHECK(pub_is_published("a"));
}

/* The VmFlags line of smaps for the mapping at @start */
static bool vm_flags(uintptr_t start, char *out, size_t size)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	char line[512], head[32];
	bool inside = false, found = false;

	snprintf(head, sizeof(head), "%lx-", (unsigned long)start);
	while (smaps && !found && fgets(line, sizeof(line), smaps)) {
		if (!strncmp(line, head, strlen(head)))
			inside = true;
		found = inside && !strncmp(line, "VmFlags:", 8);
	}
	if (smaps)
		fclose(smaps);
	if (found)
		snprintf(out, size, "%s", line);
	return found;
}

CASE(publish__mapping, "The mapping is one page, rw-p, not inherited, and leaves no descriptor")
{
	struct pub_mapping m[2];
	int fds = pub_fds();
	char flags[512];

	ATF_REQUIRE_EQ(pub_service("a"), 0);
	ATF_REQUIRE_EQ(pub_service_and_bytes("b", 20000), 0);
	ATF_REQUIRE_EQ(pub_mappings(m, 2), 1);
	ATF_CHECK_STREQ(m[0].perms, "rw-p");
	ATF_CHECK_EQ(m[0].end - m[0].start, sys_page_size());
	ATF_CHECK(!strncmp(m[0].name, "/memfd:OTEL_CTX", 15) ||
		  !strcmp(m[0].name, "[anon_shmem:OTEL_CTX]"));
	ATF_REQUIRE(vm_flags(m[0].start, flags, sizeof(flags)));
	ATF_CHECK_MSG(strstr(flags, " dc") != NULL, "%s", flags);
	ATF_CHECK_EQ(pub_fds(), fds);
}

CASE(update__address_stays, "Updates of any size keep the mapping where it is")
{
	static const size_t sizes[] = { 0, 100, 60000, 1, 65000, 0, 4096, 30000 };
	struct ctx_header *h;
	uint64_t last;

	ATF_REQUIRE_EQ(pub_service("a"), 0);
	h = pub_header();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		last = h->published_at_ns;
		ATF_REQUIRE_EQ(pub_service_and_bytes("b", sizes[i]), 0);
		ATF_CHECK_EQ(pub_header(), h);
		ATF_CHECK(h->published_at_ns > last);
		ATF_CHECK(h->payload_size >= sizes[i]);
		ATF_CHECK(pub_is_published("b"));
	}
}

CASE(update__old_payload_stays, "The payload before the current one stays as it was")
{
	struct ctx_header old;
	uint8_t copy[256];

	ATF_REQUIRE_EQ(pub_service("first"), 0);
	ATF_REQUIRE_EQ(pub_service("second"), 0);
	old = *pub_header();
	ATF_REQUIRE(old.payload_size <= sizeof(copy));
	memcpy(copy, (void *)(uintptr_t)old.payload, old.payload_size);
	ATF_REQUIRE_EQ(pub_service_and_bytes("third", 50000), 0);
	ATF_CHECK(pub_header()->payload != old.payload);
	ATF_CHECK_EQ(memcmp(copy, (void *)(uintptr_t)old.payload, old.payload_size), 0);
}

CASE(unpublish__republish, "A withdrawn context leaves no mapping and can be published anew")
{
	struct pub_mapping m[2];
	uint64_t last = 0;

	for (int i = 0; i < 100; i++) {
		ATF_REQUIRE_EQ(pub_service("a"), 0);
		ATF_CHECK(pub_header()->published_at_ns > last);
		last = pub_header()->published_at_ns;
		ATF_REQUIRE_EQ(pctx_unpublish(), 0);
		ATF_CHECK_EQ(pub_mappings(m, 2), 0);
	}
}

static void unpublish_without_munmap(void)
{
	static const struct pub_rule rules[] = { DENY(munmap, EPERM) };
	struct ctx_header *h;

	CHILD_REQUIRE(pub_service("a") == 0);
	h = pub_header();
	CHILD_REQUIRE(h);
	pub_filter(rules, 1);
	CHILD_REQUIRE(pctx_unpublish() == 0);
	CHILD_REQUIRE(h->published_at_ns == 0);
	CHILD_REQUIRE(memcmp(h->signature, CTX_SIGNATURE, CTX_SIGNATURE_SIZE) != 0);
	/* what is left there is no context, so it is in nobody's way */
	CHILD_REQUIRE(pub_service("b") == 0);
}

CASE(unpublish__time_zero_first,
     "The timestamp is 0 before the mapping goes, which munmap cannot undo")
{
	ATF_CHECK_EQ(pub_child(unpublish_without_munmap), 0);
}

CASE(errno__kept, "No function changes errno, whether it succeeds or fails")
{
	uint8_t index;

	errno = 4321;
	(void)!pctx_unpublish();
	ATF_CHECK_EQ(errno, 4321);
	(void)!pub_service("a"); /* naming fails on many kernels */
	ATF_CHECK_EQ(errno, 4321);
	(void)!pub_service("b");
	ATF_CHECK_EQ(errno, 4321);
	(void)!pub_service("\xff");
	ATF_CHECK_EQ(errno, 4321);
	(void)!pctx_key_map_append("k", &index);
	ATF_CHECK_EQ(errno, 4321);
	(void)!pctx_unpublish();
	ATF_CHECK_EQ(errno, 4321);
}

CASE(publish__resource_unset_or_empty,
     "NULL leaves the resource out, no attributes publish an empty one")
{
	struct pctx_attr a = pctx_string("a", "b");
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .attributes = &a,
					  .n_attributes = 1 };
	pb_context *c;

	ATF_REQUIRE_EQ(pctx_publish(&opts), 0);
	c = pub_context();
	ATF_REQUIRE(c != NULL);
	ATF_CHECK(!c->resource);
	pb_context_free(c, NULL);

	opts.resource = &a;
	ATF_REQUIRE_EQ(pctx_publish(&opts), 0);
	c = pub_context();
	ATF_REQUIRE(c && c->resource);
	ATF_CHECK_EQ(c->resource->n_attributes, 0);
	pb_context_free(c, NULL);
}

CASE(publish__nothing_at_all, "Without any attribute the payload still has a byte")
{
	struct pctx_publish_opts opts = { .size = sizeof(opts) };

	ATF_REQUIRE_EQ(pctx_publish(&opts), 0);
	ATF_CHECK_EQ(pub_header()->payload_size, 2);
	ATF_CHECK(pub_header()->payload != 0);
}

CASE(time__later_than_stored, "A timestamp another library stored in our header is surpassed")
{
	struct ctx_header *h;

	ATF_REQUIRE_EQ(pub_service("a"), 0);
	h = pub_header();
	h->published_at_ns = UINT64_MAX - 2;
	ATF_CHECK_EQ(pub_service("b"), 0);
	ATF_CHECK_EQ(h->published_at_ns, UINT64_MAX - 1);
	ATF_CHECK_EQ(pub_service("c"), 0);
	ATF_CHECK_EQ(h->published_at_ns, UINT64_MAX);
	ATF_CHECK_EQ(pub_service("d"), -EOVERFLOW);
	ATF_CHECK_EQ(h->published_at_ns, UINT64_MAX);
	ATF_CHECK(pub_is_published("c"));
}

CASE(update__foreign_payload,
     "A payload another library put into our header is replaced, not freed")
{
	static uint8_t theirs[] = { 0x0a, 0x00 };
	struct ctx_header *h;

	ATF_REQUIRE_EQ(pub_service("a"), 0);
	h = pub_header();
	h->payload = (uintptr_t)theirs;
	h->payload_size = sizeof(theirs);
	for (int i = 0; i < 3; i++) {
		ATF_REQUIRE_EQ(pub_service("b"), 0);
		ATF_CHECK(pub_is_published("b"));
	}
	h->payload = (uintptr_t)theirs;
	ATF_CHECK_EQ(pctx_unpublish(), 0);
	ATF_CHECK_EQ(theirs[0], 0x0a);
}

#define STORM_THREADS 8
#define STORM_ROUNDS  1000

static void *storm(void *arg)
{
	char name[16];
	long failures = 0;

	for (int i = 0; i < STORM_ROUNDS; i++) {
		snprintf(name, sizeof(name), "%d.%d", (int)(intptr_t)arg, i);
		failures += pub_service_and_bytes(name, (size_t)(i * 37 % 9000)) != 0;
	}
	return (void *)failures;
}

CASE(publish__threads, "Many threads that publish at once leave one whole context")
{
	pthread_t threads[STORM_THREADS];
	bool last = false;
	char name[16];

	for (intptr_t i = 0; i < STORM_THREADS; i++)
		ATF_REQUIRE_EQ(pthread_create(&threads[i], NULL, storm, (void *)i), 0);
	for (int i = 0; i < STORM_THREADS; i++) {
		void *failures;

		ATF_REQUIRE_EQ(pthread_join(threads[i], &failures), 0);
		ATF_CHECK(!failures);
	}
	ATF_REQUIRE(pub_header() != NULL);
	for (int i = 0; i < STORM_THREADS; i++) {
		snprintf(name, sizeof(name), "%d.%d", i, STORM_ROUNDS - 1);
		last = last || pub_is_published(name);
	}
	ATF_CHECK(last);
}

static void *come_and_go(void *arg)
{
	long failures = 0;

	for (int i = 0; i < STORM_ROUNDS / 4; i++) {
		int rc = arg ? pub_service("a") : pctx_unpublish();

		failures += rc != 0 && rc != -ENODATA;
	}
	return (void *)failures;
}

CASE(unpublish__threads, "Threads that publish and withdraw at once do no harm")
{
	pthread_t threads[4];

	for (intptr_t i = 0; i < 4; i++)
		ATF_REQUIRE_EQ(pthread_create(&threads[i], NULL, come_and_go, (void *)(i % 2)), 0);
	for (int i = 0; i < 4; i++) {
		void *failures;

		ATF_REQUIRE_EQ(pthread_join(threads[i], &failures), 0);
		ATF_CHECK(!failures);
	}
	ATF_CHECK_EQ(pub_service("end"), 0);
	ATF_CHECK(pub_is_published("end"));
	ATF_CHECK_EQ(pctx_unpublish(), 0);
}

/*
 * A filter that reports prctl to a listener: the publishing thread waits while
 * the other looks at what it is about to tell the kernel.
 */
static int name_listener;
static pthread_barrier_t name_ready;

static void *publish_watched(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };
	long rc;

	(void)arg;
	name_listener = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
				? -1
				: (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
					       SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	pthread_barrier_wait(&name_ready);
	rc = name_listener < 0 ? -errno : pub_service("a");
	if (!rc)
		rc = pub_service("b");
	return (void *)rc;
}

/* The header at @address as another process would read it. */
static struct ctx_header header_read(uint64_t address)
{
	struct ctx_header h = { .version = 0 };
	struct iovec to = { &h, sizeof(h) }, from = { (void *)(uintptr_t)address, sizeof(h) };

	ATF_REQUIRE_EQ(process_vm_readv(getpid(), &to, 1, &from, 1, 0), sizeof(h));
	return h;
}

/* One naming: all is complete by then, and the name has its NUL. */
static uint64_t name_check(uint64_t not_before)
{
	struct seccomp_notif_resp answer = { .error = -EINVAL };
	struct seccomp_notif call;
	struct ctx_header h;

	memset(&call, 0, sizeof(call));
	ATF_REQUIRE_EQ(ioctl(name_listener, SECCOMP_IOCTL_NOTIF_RECV, &call), 0);
	ATF_CHECK_EQ(call.data.args[0], PR_SET_VMA);
	ATF_CHECK_EQ(call.data.args[1], PR_SET_VMA_ANON_NAME);
	ATF_CHECK_EQ(call.data.args[3], sys_page_size());
	ATF_CHECK_EQ(memcmp((const char *)(uintptr_t)call.data.args[4], "OTEL_CTX", 9), 0);
	h = header_read(call.data.args[2]);
	ATF_CHECK_EQ(memcmp(h.signature, CTX_SIGNATURE, CTX_SIGNATURE_SIZE), 0);
	ATF_CHECK(h.payload && h.payload_size);
	ATF_CHECK(h.published_at_ns > not_before);
	answer.id = call.id;
	ATF_REQUIRE_EQ(ioctl(name_listener, SECCOMP_IOCTL_NOTIF_SEND, &answer), 0);
	return h.published_at_ns;
}

CASE(naming__last, "Each time the mapping is named when all else is done, with the exact name")
{
	pthread_t thread;
	void *rc;

	ATF_REQUIRE_EQ(pthread_barrier_init(&name_ready, NULL, 2), 0);
	ATF_REQUIRE_EQ(pthread_create(&thread, NULL, publish_watched, NULL), 0);
	pthread_barrier_wait(&name_ready);
	ATF_REQUIRE(name_listener >= 0);
	name_check(name_check(0));
	ATF_REQUIRE_EQ(pthread_join(thread, &rc), 0);
	ATF_CHECK_EQ((long)rc, 0);
	close(name_listener);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, opts__bad);
	ATF_TP_ADD_TC(tp, unpublish__nothing);
	ATF_TP_ADD_TC(tp, update__failed_keeps_old);
	ATF_TP_ADD_TC(tp, publish__header);
	ATF_TP_ADD_TC(tp, publish__mapping);
	ATF_TP_ADD_TC(tp, update__address_stays);
	ATF_TP_ADD_TC(tp, update__old_payload_stays);
	ATF_TP_ADD_TC(tp, unpublish__republish);
	ATF_TP_ADD_TC(tp, unpublish__time_zero_first);
	ATF_TP_ADD_TC(tp, errno__kept);
	ATF_TP_ADD_TC(tp, publish__resource_unset_or_empty);
	ATF_TP_ADD_TC(tp, publish__nothing_at_all);
	ATF_TP_ADD_TC(tp, time__later_than_stored);
	ATF_TP_ADD_TC(tp, update__foreign_payload);
	ATF_TP_ADD_TC(tp, naming__last);
	ATF_TP_ADD_TC(tp, publish__threads);
	ATF_TP_ADD_TC(tp, unpublish__threads);
	return atf_no_error();
}
