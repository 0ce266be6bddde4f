/*
 * scene.h - a child process that publishes by hand, rightly or wrongly.
 *
 * The child runs steps on the parent's word: scene_step() returns when the step
 * is done. It ends when the parent does, and scene_end() ends it.
 */
#ifndef PCTX_SCENE_H
#define PCTX_SCENE_H

#include <atf-c.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "header.h"
#include "pctx.h"

#define PAGE 4096u

struct scene {
	pid_t pid;
	int order;  /* to the child: one byte a step */
	int answer; /* from the child */
};

typedef void scene_fn(int step, void *arg);

/* In the child: there is no test to fail, so it ends and the parent notices. */
#define CHILD_REQUIRE(x)                                   \
	do {                                               \
		if (!(x)) {                                \
			dprintf(2, "child: %s: %m\n", #x); \
			_exit(99);                         \
		}                                          \
	} while (0)

static inline void scene_child(int order, int answer, scene_fn *fn, void *arg)
{
	unsigned char step;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(order, &step, 1) == 1) {
		fn(step, arg);
		CHILD_REQUIRE(write(answer, &step, 1) == 1);
	}
	_exit(0);
}

static inline bool scene_step_try(struct scene *s, int step)
{
	unsigned char byte = (unsigned char)step;

	return write(s->order, &byte, 1) == 1 && read(s->answer, &byte, 1) == 1;
}

static inline void scene_step(struct scene *s, int step)
{
	if (!scene_step_try(s, step))
		atf_tc_fail("the child ended in step %d", step);
}

/* Fork, and have step 0 run. */
static inline struct scene scene_begin(scene_fn *fn, void *arg)
{
	struct scene s;
	int order[2], answer[2];

	ATF_REQUIRE(pipe(order) == 0 && pipe(answer) == 0);
	s.pid = fork();
	ATF_REQUIRE(s.pid >= 0);
	if (s.pid == 0) {
		close(order[1]);
		close(answer[0]);
		scene_child(order[0], answer[1], fn, arg);
	}
	close(order[0]);
	close(answer[1]);
	s.order = order[1];
	s.answer = answer[0];
	scene_step(&s, 0);
	return s;
}

static inline void scene_end(struct scene *s)
{
	int status;

	kill(s->pid, SIGKILL);
	close(s->order);
	close(s->answer);
	ATF_REQUIRE_EQ(s->pid, waitpid(s->pid, &status, 0));
}

/* ---- by hand, in the child ------------------------------------------------ */

/* A mapping of a memfd of that name, as a publisher makes it. */
static inline void *craft_memfd(const char *name, size_t len, int prot, int flags)
{
	int fd = memfd_create(name, MFD_CLOEXEC);
	void *map;

	CHILD_REQUIRE(fd >= 0 && ftruncate(fd, (off_t)len) == 0);
	map = mmap(NULL, len, prot, flags, fd, 0);
	CHILD_REQUIRE(map != MAP_FAILED);
	close(fd);
	return map;
}

static inline struct ctx_header *craft_mapping(size_t len)
{
	return craft_memfd("OTEL_CTX", len, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static inline void craft_header(struct ctx_header *h, const void *payload, uint32_t size,
				uint64_t at_ns)
{
	CHILD_REQUIRE(h);
	memcpy(h->signature, CTX_SIGNATURE, CTX_SIGNATURE_SIZE);
	h->version = CTX_VERSION;
	h->payload_size = size;
	h->payload = (uintptr_t)payload;
	atomic_thread_fence(memory_order_seq_cst);
	*(volatile uint64_t *)&h->published_at_ns = at_ns;
}

/* ---- payloads by hand ------------------------------------------------------ */

struct bytes {
	uint8_t data[70000];
	size_t len;
};

static inline void put(struct bytes *b, const void *data, size_t len)
{
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
}

static inline void put_varint(struct bytes *b, uint64_t n)
{
	for (; n > 0x7f; n >>= 7)
		b->data[b->len++] = (uint8_t)(n | 0x80);
	b->data[b->len++] = (uint8_t)n;
}

static inline void put_field(struct bytes *b, uint32_t number, const void *data, size_t len)
{
	put_varint(b, number << 3 | 2);
	put_varint(b, len);
	put(b, data, len);
}

/* Wrap what is in @b into a field of the message around it. */
static inline void wrap(struct bytes *b, uint32_t number)
{
	static struct bytes head;

	head.len = 0;
	put_varint(&head, number << 3 | 2);
	put_varint(&head, b->len);
	memmove(b->data + head.len, b->data, b->len);
	memcpy(b->data, head.data, head.len);
	b->len += head.len;
}

/* A ProcessContext whose resource has one string attribute. */
static inline void payload_string(struct bytes *b, const char *key, const char *value)
{
	static struct bytes any;

	any.len = 0;
	put_field(&any, 1, value, strlen(value));
	b->len = 0;
	put_field(b, 1, key, strlen(key));
	put_field(b, 2, any.data, any.len);
	wrap(b, 1);
	wrap(b, 1);
}

/* In a scene: publish this service.name and timestamp, each time in the same place. */
static inline void publish_as(const char *service, uint64_t published_at_ns)
{
	static struct ctx_header *h;
	static struct bytes b;

	if (!h)
		h = craft_mapping(PAGE);
	payload_string(&b, "service.name", service);
	craft_header(h, b.data, (uint32_t)b.len, published_at_ns);
}

/* A scene that publishes at each step: service.name is "hand". */
static inline void publish_by_hand(int step, void *arg)
{
	(void)arg;
	publish_as("hand", 1000 + (uint64_t)step);
}

/* ---- in the parent ---------------------------------------------------------- */

static inline bool has_string(const struct pctx_context *c, const char *key, const char *value)
{
	const struct pctx_attr *a = pctx_context_find(c, key);

	return a && a->value.kind == PCTX_STRING && a->value.u.string.len == strlen(value) &&
	       memcmp(a->value.u.string.data, value, strlen(value)) == 0;
}

/* Read once; the error, or 0 when service.name is @name. */
static inline int read_service(pid_t pid, const struct pctx_reader_opts *opts, const char *name)
{
	struct pctx_context *c;
	int rc = pctx_read(pid, opts, &c);

	if (rc)
		return rc;
	ATF_CHECK(has_string(c, "service.name", name));
	pctx_context_free(c);
	return 0;
}

#define TEST_CASE(name, text)                           \
	ATF_TC(name);                                   \
	ATF_TC_HEAD(name, tc)                           \
	{                                               \
		atf_tc_set_md_var(tc, "descr", text);   \
		atf_tc_set_md_var(tc, "timeout", "30"); \
	}                                               \
	ATF_TC_BODY(name, tc)

#endif /* PCTX_SCENE_H */
