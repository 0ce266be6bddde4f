/*
 * Polls that meet an update which does not end. What else a poll says is in
 * reader_test: it is asked there between the reads.
 */
#include "scene.h"

/* As the contract says: every eighth poll in a row looks at the mappings. */
#define POLLS 8

static void time_set(struct ctx_header *h, uint64_t at_ns)
{
	CHILD_REQUIRE(h);
	atomic_thread_fence(memory_order_seq_cst);
	*(volatile uint64_t *)&h->published_at_ns = at_ns;
}

enum step { BEGIN, STOP, GO_ON, BESIDE };

/* Publish "first"; stop in an update; end that without a change; publish elsewhere. */
static void publish_and_stop(int step, void *arg)
{
	static struct ctx_header *first, *second;
	static struct bytes b[2];

	(void)arg;
	if (step == BEGIN) {
		first = craft_mapping(PAGE);
		payload_string(&b[0], "service.name", "first");
		craft_header(first, b[0].data, (uint32_t)b[0].len, 1000);
	} else if (step == BESIDE) {
		second = craft_mapping(2 * (size_t)PAGE);
		payload_string(&b[1], "service.name", "second");
		craft_header(second, b[1].data, (uint32_t)b[1].len, 2000);
	} else {
		time_set(first, step == STOP ? 0 : 1000);
	}
}

static struct pctx_reader *reader_of(const struct scene *s)
{
	struct pctx_reader *reader;

	ATF_REQUIRE_EQ(0, pctx_reader_open(s->pid, NULL, &reader));
	return reader;
}

static void expect_read(struct pctx_reader *reader, const char *name)
{
	struct pctx_context *c;

	ATF_REQUIRE_EQ(0, pctx_reader_read(reader, &c));
	ATF_CHECK(has_string(c, "service.name", name));
	pctx_context_free(c);
}

static void expect_polls(struct pctx_reader *reader, int n, int rc)
{
	bool changed = false;

	for (int i = 0; i < n; i++)
		ATF_CHECK_EQ_MSG(rc, pctx_reader_poll(reader, &changed), "poll %d", i);
	ATF_CHECK(!changed);
}

static void expect_changed(struct pctx_reader *reader)
{
	bool changed = false;

	ATF_CHECK_EQ(0, pctx_reader_poll(reader, &changed));
	ATF_CHECK(changed);
}

TEST_CASE(poll__stuck_alone, "An update that does not end is one for as many polls as there are")
{
	struct scene s = scene_begin(publish_and_stop, NULL);
	struct pctx_reader *reader = reader_of(&s);

	expect_read(reader, "first");
	scene_step(&s, STOP);
	expect_polls(reader, 3 * POLLS, -EAGAIN);
	scene_step(&s, GO_ON);
	/* the mapping that was looked for and found is still the one that is known */
	expect_polls(reader, 1, 0);
	scene_end(&s);
	expect_polls(reader, 1, -ESRCH);
	pctx_reader_close(reader);
}

TEST_CASE(poll__stuck_beside, "A context beside one stuck in an update is seen by the eighth poll")
{
	struct scene s = scene_begin(publish_and_stop, NULL);
	struct pctx_reader *reader = reader_of(&s);

	expect_read(reader, "first");
	scene_step(&s, STOP);
	expect_polls(reader, 1, -EAGAIN);
	scene_step(&s, BESIDE);
	expect_polls(reader, POLLS - 2, -EAGAIN);
	expect_changed(reader);
	expect_read(reader, "second");
	expect_polls(reader, 2 * POLLS, 0);
	pctx_reader_close(reader);
	scene_end(&s);
}

TEST_CASE(poll__stuck_unread, "A reader that never read sees the context beside a stuck one, too")
{
	struct scene s = scene_begin(publish_and_stop, NULL);
	struct pctx_reader *reader = reader_of(&s);

	scene_step(&s, STOP);
	expect_polls(reader, POLLS + 1, -EAGAIN);
	scene_step(&s, BESIDE);
	expect_polls(reader, POLLS - 2, -EAGAIN);
	expect_changed(reader);
	expect_read(reader, "second");
	pctx_reader_close(reader);
	scene_end(&s);
}

TEST_CASE(poll__in_a_row, "Updates that end are never too many: only polls in a row count")
{
	struct scene s = scene_begin(publish_and_stop, NULL);
	struct pctx_reader *reader = reader_of(&s);

	expect_read(reader, "first");
	scene_step(&s, BESIDE);
	for (int i = 0; i < 2; i++) {
		scene_step(&s, STOP);
		expect_polls(reader, POLLS - 1, -EAGAIN);
		scene_step(&s, GO_ON);
		expect_polls(reader, 1, 0);
	}
	expect_read(reader, "first");
	pctx_reader_close(reader);
	scene_end(&s);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, poll__stuck_alone);
	ATF_TP_ADD_TC(tp, poll__stuck_beside);
	ATF_TP_ADD_TC(tp, poll__stuck_unread);
	ATF_TP_ADD_TC(tp, poll__in_a_row);
	return atf_no_error();
}
