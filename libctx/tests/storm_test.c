/*
 * Reading against writers that update without a pause. Each context carries its
 * number in several places: a torn one would not agree with itself. Trying shows
 * the presence of tearing, not its absence; `make soak` tries ten million times.
 */
#include <stdio.h>
#include <time.h>

#include "scene.h"

#define ATTEMPTS      200000u
#define ATTEMPTS_SOAK 10000000u
#define TEXT_MAX      3000u

struct outcomes {
	unsigned int n_read, n_busy, n_torn, n_other, n_changes;
};

/* The number, a text of as many letters as it says, the number again. */
static bool agrees_with_itself(const struct pctx_context *c, int64_t *number)
{
	const struct pctx_attr *a = pctx_context_find(c, "a"), *b = pctx_context_find(c, "b"),
			       *text = pctx_context_find(c, "text");

	if (!a || !b || !text || a->value.u.integer != b->value.u.integer)
		return false;
	*number = a->value.u.integer;
	if (text->value.u.string.len != (size_t)*number % TEXT_MAX)
		return false;
	for (size_t i = 0; i < text->value.u.string.len; i++) {
		if (text->value.u.string.data[i] != 'a' + *number % 26)
			return false;
	}
	return true;
}

static void attempt(struct pctx_reader *reader, struct outcomes *o, int64_t *last)
{
	struct pctx_context *c;
	int64_t number = -1;
	int rc = pctx_reader_read(reader, &c);

	if (rc == -EAGAIN)
		o->n_busy++;
	else if (rc)
		o->n_other++;
	if (rc)
		return;
	if (agrees_with_itself(c, &number) && number >= *last)
		o->n_read++;
	else
		o->n_torn++;
	o->n_changes += number != *last;
	*last = number;
	pctx_context_free(c);
}

static bool is_soak(const struct atf_tc *tc)
{
	return atf_tc_get_config_var_as_bool_wd(tc, "soak", false);
}

/* Less on an emulated processor, that of the kernel tests. */
static unsigned int n_attempts(const struct atf_tc *tc)
{
	if (is_soak(tc))
		return ATTEMPTS_SOAK;
#ifdef __SANITIZE_THREAD__
	return ATTEMPTS / 20;
#endif
	return *atf_tc_get_config_var_wd(tc, "kernel", "") ? ATTEMPTS / 20 : ATTEMPTS;
}

static void storm(pid_t writer, unsigned int attempts)
{
	struct pctx_reader_opts opts = { .size = sizeof(opts), .attempts_max = 1 };
	struct outcomes o = { 0 };
	struct pctx_reader *reader;
	int64_t last = -1;

	ATF_REQUIRE_EQ(0, pctx_reader_open(writer, &opts, &reader));
	for (unsigned int i = 0; i < attempts; i++)
		attempt(reader, &o, &last);
	printf("%u attempts: %u read, %u busy, %u torn, %u other; %u changes seen\n", attempts,
	       o.n_read, o.n_busy, o.n_torn, o.n_other, o.n_changes);
	ATF_CHECK_EQ(0, o.n_torn);
	ATF_CHECK_EQ(0, o.n_other);
	ATF_CHECK(o.n_read > 0);
	ATF_CHECK(o.n_changes > 1);
	pctx_reader_close(reader);
}

/* ---- the library's own publisher ---------------------------------------------------- */

static void publish_number(int64_t number)
{
	static char text[TEXT_MAX + 1];
	struct pctx_attr attrs[] = { pctx_int("a", number), pctx_string("text", ""),
				     pctx_int("b", number) };
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .resource = attrs,
					  .n_resource = 3 };

	memset(text, 'a' + (int)(number % 26), TEXT_MAX);
	attrs[1].value.u.string.data = text;
	attrs[1].value.u.string.len = (size_t)number % TEXT_MAX;
	CHILD_REQUIRE(pctx_publish(&opts) == 0);
}

static void library_writer(int step, void *arg)
{
	(void)arg;
	publish_number(0);
	if (!step)
		return;
	for (int64_t i = 1;; i++)
		publish_number(i);
}

ATF_TC(storm__library);
ATF_TC_HEAD(storm__library, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "200,000 attempts, or ten million, against the publisher: none torn");
	atf_tc_set_md_var(tc, "timeout", is_soak(tc) ? "3600" : "60");
}
ATF_TC_BODY(storm__library, tc)
{
	struct scene s = scene_begin(library_writer, NULL);

	ATF_REQUIRE_EQ(1, write(s.order, "\1", 1));
	storm(s.pid, n_attempts(tc));
	scene_end(&s);
}

/* ---- a writer that changes its payload in place, as the OTEP allows ------------------- */

static void in_place_writer(int step, void *arg)
{
	static struct ctx_header *h;
	static struct bytes b;
	static char text[TEXT_MAX + 1];
	uint64_t at_ns = 1000;

	(void)arg;
	if (!h)
		h = craft_mapping(PAGE);
	for (uint64_t number = 0; number < (step ? UINT64_MAX : 1); number++) {
		volatile uint64_t *published = &h->published_at_ns;
		size_t len = number % TEXT_MAX;

		*published = 0;
		atomic_thread_fence(memory_order_seq_cst);
		/* attributes: three key-values, each built where the next one starts */
		b.len = 0;
		memset(text, 'a' + (int)(number % 26), TEXT_MAX);
		for (int i = 0; i < 3; i++) {
			static struct bytes kv;

			kv.len = 0;
			if (i == 1) {
				put_field(&kv, 1, text, len);
			} else {
				put(&kv, "\x18", 1);
				put_varint(&kv, number);
			}
			wrap(&kv, 2);
			put_field(&kv, 1, i == 0 ? "a" : i == 1 ? "text" : "b", i == 1 ? 4 : 1);
			put_field(&b, 2, kv.data, kv.len);
		}
		h->payload = (uintptr_t)b.data;
		h->payload_size = (uint32_t)b.len;
		memcpy(h->signature, CTX_SIGNATURE, CTX_SIGNATURE_SIZE);
		h->version = CTX_VERSION;
		atomic_thread_fence(memory_order_seq_cst);
		*published = at_ns++;
		/* else the context would hardly ever be there to be read */
		if (number % 8 == 0)
			nanosleep(&(struct timespec){ 0, 1000 }, NULL);
	}
}

ATF_TC(storm__in_place);
ATF_TC_HEAD(storm__in_place, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "200,000 attempts, or ten million, against a payload that changes in "
			  "place: none torn");
	atf_tc_set_md_var(tc, "timeout", is_soak(tc) ? "3600" : "60");
}
ATF_TC_BODY(storm__in_place, tc)
{
	struct scene s = scene_begin(in_place_writer, NULL);

	ATF_REQUIRE_EQ(1, write(s.order, "\1", 1));
	storm(s.pid, n_attempts(tc));
	scene_end(&s);
}

/* ---- a writer that frees the old payload, as many do ------------------------------------ */

static void freeing_writer(int step, void *arg)
{
	static struct ctx_header *h;
	static struct bytes b, kv;
	static uint8_t *old;
	static uint64_t number;

	(void)arg;
	if (!h)
		h = craft_mapping(PAGE);
	do {
		uint8_t *new = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				    -1, 0);
		char text[26];

		CHILD_REQUIRE(new != MAP_FAILED);
		memset(text, 'a' + (int)(number % 26), sizeof(text));
		b.len = 0;
		for (int i = 0; i < 3; i++) {
			kv.len = 0;
			if (i == 1) {
				put_field(&kv, 1, text, number % 26);
			} else {
				put(&kv, "\x18", 1);
				put_varint(&kv, number % 26);
			}
			wrap(&kv, 2);
			put_field(&kv, 1, i == 0 ? "a" : i == 1 ? "text" : "b", i == 1 ? 4 : 1);
			put_field(&b, 2, kv.data, kv.len);
		}
		memcpy(new, b.data, b.len);
		*(volatile uint64_t *)&h->published_at_ns = 0;
		atomic_thread_fence(memory_order_seq_cst);
		craft_header(h, new, (uint32_t)b.len, 1000 + number++);
		/* who has read the header before is about to read this */
		CHILD_REQUIRE(!old || munmap(old, PAGE) == 0);
		old = new;
	} while (step);
}

TEST_CASE(storm__freed,
	  "A payload that is freed between header and copy is a race: busy, and never malformed")
{
	struct pctx_reader_opts opts = { .size = sizeof(opts), .attempts_max = 1 };
	struct scene s = scene_begin(freeing_writer, NULL);
	unsigned int n_read = 0, n_busy = 0;
	unsigned int n_least = (n_attempts(tc) < ATTEMPTS ? n_attempts(tc) : ATTEMPTS) / 4;
	struct pctx_context *c;

	ATF_REQUIRE_EQ(1, write(s.order, "\1", 1));
	/* a new reader each time: it takes the header by a call of its own */
	for (unsigned int i = 0; i < n_least || (i < 10 * n_least && !(n_read && n_busy)); i++) {
		int rc = pctx_read(s.pid, &opts, &c);
		int64_t number;

		ATF_REQUIRE_MSG(rc == 0 || rc == -EAGAIN, "attempt %u: %d", i, rc);
		n_busy += rc != 0;
		n_read += rc == 0;
		if (rc)
			continue;
		ATF_REQUIRE(agrees_with_itself(c, &number));
		pctx_context_free(c);
	}
	printf("%u read, %u busy\n", n_read, n_busy);
	ATF_CHECK(n_read && n_busy);
	scene_end(&s);
}

TEST_CASE(storm__freed_known, "A known payload that was freed is looked for where it is now")
{
	struct scene s = scene_begin(freeing_writer, NULL);
	struct pctx_reader *reader;
	struct pctx_context *c;

	ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, NULL, &reader));
	for (int64_t i = 0; i < 100; i++) {
		int64_t number;

		ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
		ATF_REQUIRE(agrees_with_itself(c, &number));
		ATF_CHECK_EQ(i % 26, number);
		pctx_context_free(c);
		scene_step(&s, 0);
	}
	pctx_reader_close(reader);
	scene_end(&s);
}

TEST_CASE(storm__default_attempts, "With the default attempts reads succeed during the storm")
{
	struct scene s = scene_begin(library_writer, NULL);
	struct pctx_reader *reader;
	unsigned int n_read = 0;

	ATF_REQUIRE_EQ(1, write(s.order, "\1", 1));
	ATF_REQUIRE_EQ(0, pctx_reader_open(s.pid, NULL, &reader));
	for (unsigned int i = 0; i < 100; i++) {
		struct pctx_context *c;
		int rc = pctx_reader_read(reader, &c);

		ATF_CHECK(rc == 0 || rc == -EAGAIN);
		if (rc == 0)
			pctx_context_free(c);
		n_read += rc == 0;
	}
	printf("%u of 100 read\n", n_read);
	ATF_CHECK(n_read > 0);
	pctx_reader_close(reader);
	scene_end(&s);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, storm__library);
	ATF_TP_ADD_TC(tp, storm__in_place);
	ATF_TP_ADD_TC(tp, storm__freed);
	ATF_TP_ADD_TC(tp, storm__freed_known);
	ATF_TP_ADD_TC(tp, storm__default_attempts);
	return atf_no_error();
}
