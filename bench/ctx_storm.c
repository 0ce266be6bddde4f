/*
 * ctx_storm [ATTEMPTS]: single attempts to read (10,000,000 by default, some six minutes) against a
 * process that updates without a pause. Each context names its number twice: one
 * that disagrees with itself was torn.
 */
#include <errno.h>
#include <string.h>

#include "ctx_bench.h"

#define SAMPLES	 200000
#define TEXT_MAX 48

/* A text that says the number, of another length for the next one. */
static void text_of(char text[TEXT_MAX], int64_t number)
{
	snprintf(text, TEXT_MAX, "%.*s%lld", (int)(number % 16), "################",
		 (long long)number);
}

static void writer(int ready, void *arg)
{
	(void)arg;
	publish_ten(0);
	must(write(ready, "x", 1) == 1, "write");
	for (int64_t i = 1;; i++) {
		char text[TEXT_MAX];
		struct pctx_attr attrs[3] = { pctx_int("a", i), pctx_int("b", i) };
		struct pctx_publish_opts opts = { .size = sizeof(opts),
						  .resource = attrs,
						  .n_resource = 3 };

		text_of(text, i);
		attrs[2] = pctx_string("text", text);
		must(pctx_publish(&opts) == 0, "publish");
	}
}

/* Also true of the ten attributes that are there before the storm. */
static bool agrees(const struct pctx_context *c)
{
	const struct pctx_attr *a = pctx_context_find(c, "a"), *b = pctx_context_find(c, "b"),
			       *text = pctx_context_find(c, "text");
	char expected[TEXT_MAX];

	if (!a && !b && !text)
		return pctx_context_find(c, "number") != NULL;
	if (!a || !b || !text || a->value.u.integer != b->value.u.integer)
		return false;
	text_of(expected, a->value.u.integer);
	return text->value.u.string.len == strlen(expected) &&
	       memcmp(text->value.u.string.data, expected, strlen(expected)) == 0;
}

int main(int argc, char **argv)
{
	struct pctx_reader_opts opts = { .size = sizeof(opts), .attempts_max = 1 };
	uint64_t attempts = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
	uint64_t n_read = 0, n_busy = 0, n_torn = 0, n_other = 0, n_changed = 0, last = 0;
	static double us[SAMPLES];
	struct pctx_reader *reader;
	pid_t pid = target_start(writer, NULL);
	size_t n_us = 0;

	must(pctx_reader_open(pid, &opts, &reader) == 0, "open");
	for (uint64_t i = 0; i < attempts; i++) {
		uint64_t start = now_ns();
		struct pctx_context *c;
		int rc = pctx_reader_read(reader, &c);

		if (i % (attempts / SAMPLES + 1) == 0)
			us[n_us++] = (double)(now_ns() - start) / 1000;
		n_busy += rc == -EAGAIN;
		n_other += rc && rc != -EAGAIN;
		if (rc)
			continue;
		n_read++;
		n_torn += !agrees(c);
		n_changed += pctx_context_published_at_ns(c) != last;
		last = pctx_context_published_at_ns(c);
		pctx_context_free(c);
	}
	printf("%llu attempts: %llu read (%llu of them new), %llu met an update, %llu torn, "
	       "%llu other\n",
	       (unsigned long long)attempts, (unsigned long long)n_read,
	       (unsigned long long)n_changed, (unsigned long long)n_busy,
	       (unsigned long long)n_torn, (unsigned long long)n_other);
	printf("latency of an attempt: p50 %.1f us, p99 %.1f us, p99.9 %.1f us\n",
	       percentile(us, n_us, 0.5), percentile(us, n_us, 0.99), percentile(us, n_us, 0.999));
	printf("target: none torn, no other outcome: %s\n", n_torn || n_other ? "MISSED" : "met");
	pctx_reader_close(reader);
	target_end(pid);
	return n_torn || n_other;
}
