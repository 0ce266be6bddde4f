/* threadlocal.attribute_key_map: indices that never change (OTEP 4947) */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "encode.h"
#include "pub_util.h"

/* The published key at @index, copied to @out; false when there is none. */
static bool published_key(size_t index, char *out, size_t size)
{
	pb_context *c = pub_context();
	const pb_any *map = c ? pub_attr(c->attributes, c->n_attributes, KEY_MAP_ATTRIBUTE) : NULL;
	bool there =
		map && map->value_case == PB_ANY(ARRAY_VALUE) && index < map->array_value->n_values;

	if (there)
		snprintf(out, size, "%s", map->array_value->values[index]->string_value);
	if (c)
		pb_context_free(c, NULL);
	return there;
}

static bool is_published_at(size_t index, const char *key)
{
	char published[64];

	return published_key(index, published, sizeof(published)) && !strcmp(published, key);
}

static int publish_map(const char *const *keys, size_t n)
{
	struct pctx_value values[PCTX_KEY_MAP_MAX + 1];
	struct pctx_attr map = { .key = KEY_MAP_ATTRIBUTE, .value.kind = PCTX_ARRAY };
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .attributes = &map,
					  .n_attributes = 1 };

	for (size_t i = 0; i < n; i++)
		values[i] = pctx_string("", keys[i]).value;
	map.value.u.array.values = values;
	map.value.u.array.n = n;
	return pctx_publish(&opts);
}

CASE(append__bad, "A key that cannot be one is refused and takes no index")
{
	uint8_t index = 99;

	ATF_CHECK_EQ(pctx_key_map_append(NULL, &index), -EINVAL);
	ATF_CHECK_EQ(pctx_key_map_append("a", NULL), -EINVAL);
	ATF_CHECK_EQ(pctx_key_map_append("", &index), -ENOKEY);
	ATF_CHECK_EQ(pctx_key_map_append("\xff", &index), -EILSEQ);
	ATF_CHECK_EQ(index, 99);
	ATF_REQUIRE_EQ(pctx_key_map_append("a", &index), 0);
	ATF_CHECK_EQ(index, 0);
}

CASE(append__full, "256 keys fit, the next is -ENOSPC and the map stays as it was")
{
	uint8_t index;
	char key[16];

	ATF_REQUIRE_EQ(pub_service("a"), 0);
	for (int i = 0; i < PCTX_KEY_MAP_MAX; i++) {
		snprintf(key, sizeof(key), "key.%d", i);
		ATF_REQUIRE_EQ(pctx_key_map_append(key, &index), 0);
		ATF_CHECK_EQ(index, i);
		ATF_CHECK(is_published_at((size_t)i, key));
	}
	ATF_CHECK_EQ(pctx_key_map_append("more", &index), -ENOSPC);
	ATF_CHECK_EQ(index, 255);
	ATF_CHECK_EQ(pctx_key_map_append("key.7", &index), 0);
	ATF_CHECK_EQ(index, 7);
	ATF_CHECK(!published_key(256, key, sizeof(key)));
	ATF_CHECK(pub_is_published("a"));
}

CASE(append__too_large, "A key that makes the payload too large is refused and takes no index")
{
	static char large[PCTX_PAYLOAD_MAX + 10];
	uint8_t index;

	memset(large, 'x', sizeof(large) - 1);
	ATF_CHECK_EQ(pctx_key_map_append(large, &index), -EMSGSIZE);
	ATF_REQUIRE_EQ(pub_service_and_bytes("a", 60000), 0);
	large[6000] = 0;
	ATF_CHECK_EQ(pctx_key_map_append(large, &index), -EMSGSIZE);
	ATF_CHECK(pub_is_published("a"));
	ATF_REQUIRE_EQ(pctx_key_map_append("b", &index), 0);
	ATF_CHECK_EQ(index, 0);
}

CASE(append__updates, "A new key is published before its index is handed out, with all the rest")
{
	struct ctx_header *h;
	uint8_t index;
	uint64_t last;

	ATF_REQUIRE_EQ(pub_service("a"), 0);
	h = pub_header();
	last = h->published_at_ns;
	ATF_REQUIRE_EQ(pctx_key_map_append("http.route", &index), 0);
	ATF_CHECK(h->published_at_ns > last);
	ATF_CHECK(is_published_at(index, "http.route"));
	ATF_CHECK(pub_is_published("a"));

	last = h->published_at_ns;
	ATF_REQUIRE_EQ(pctx_key_map_append("http.route", &index), 0);
	ATF_CHECK_EQ(h->published_at_ns, last); /* nothing new, nothing to publish */
}

CASE(append__before_publish,
     "Keys appended before anything is published come with the first publish")
{
	uint8_t index;

	ATF_REQUIRE_EQ(pctx_key_map_append("a", &index), 0);
	ATF_REQUIRE_EQ(pctx_key_map_append("b", &index), 0);
	ATF_CHECK_EQ(index, 1);
	ATF_CHECK(!pub_header());
	ATF_REQUIRE_EQ(pub_service("s"), 0);
	ATF_CHECK(is_published_at(0, "a"));
	ATF_CHECK(is_published_at(1, "b"));
}

CASE(map__stays, "Keys keep their index through updates and withdrawal")
{
	uint8_t index;

	ATF_REQUIRE_EQ(pctx_key_map_append("a", &index), 0);
	ATF_REQUIRE_EQ(pub_service("1"), 0);
	ATF_REQUIRE_EQ(pub_service("2"), 0);
	ATF_CHECK(is_published_at(0, "a"));
	ATF_REQUIRE_EQ(pctx_unpublish(), 0);
	ATF_REQUIRE_EQ(pctx_key_map_append("b", &index), 0);
	ATF_CHECK_EQ(index, 1);
	ATF_REQUIRE_EQ(pub_service("3"), 0);
	ATF_CHECK(is_published_at(0, "a"));
	ATF_CHECK(is_published_at(1, "b"));
}

CASE(map__given, "A map given as an attribute must continue the one there is")
{
	static const char *const abc[] = { "a", "b", "c" };
	static const char *const ac[] = { "a", "c" };
	static const char *const aa[] = { "a", "a" };
	uint8_t index;

	ATF_REQUIRE_EQ(publish_map(abc, 2), 0);
	ATF_CHECK(is_published_at(1, "b"));
	ATF_CHECK_EQ(publish_map(abc, 1), -ESTALE);
	ATF_CHECK_EQ(publish_map(ac, 2), -ESTALE);
	ATF_REQUIRE_EQ(publish_map(abc, 3), 0);
	ATF_CHECK(is_published_at(2, "c"));
	ATF_REQUIRE_EQ(pctx_key_map_append("d", &index), 0);
	ATF_CHECK_EQ(index, 3);
	ATF_CHECK(is_published_at(3, "d"));
	ATF_CHECK_EQ(publish_map(abc, 3), -ESTALE);
	ATF_CHECK_EQ(publish_map(aa, 2), -ESTALE);
	ATF_CHECK(is_published_at(3, "d"));
}

CASE(map__given_bad, "A given map that is no array of different, non-empty strings is refused")
{
	static const char *const aa[] = { "a", "a" }, *const empty[] = { "" };
	static const char *const bad[] = { "\xff" };
	struct pctx_attr map = pctx_int(KEY_MAP_ATTRIBUTE, 1);
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .attributes = &map,
					  .n_attributes = 1 };
	const struct pctx_attr number = pctx_int("", 1);
	const char *many[PCTX_KEY_MAP_MAX + 1];
	char names[PCTX_KEY_MAP_MAX + 1][16];

	ATF_CHECK_EQ(pctx_publish(&opts), -EINVAL);
	map.value.kind = PCTX_ARRAY;
	map.value.u.array.n = 1;
	map.value.u.array.values = NULL;
	ATF_CHECK_EQ(pctx_publish(&opts), -EINVAL);
	map.value.u.array.values = &number.value;
	ATF_CHECK_EQ(pctx_publish(&opts), -EINVAL);
	ATF_CHECK_EQ(publish_map(aa, 2), -ENOTUNIQ);
	ATF_CHECK_EQ(publish_map(empty, 1), -ENOKEY);
	ATF_CHECK_EQ(publish_map(bad, 1), -EILSEQ);
	for (int i = 0; i <= PCTX_KEY_MAP_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "k%d", i);
		many[i] = names[i];
	}
	ATF_CHECK_EQ(publish_map(many, PCTX_KEY_MAP_MAX + 1), -ENOSPC);
	ATF_CHECK_EQ(publish_map(many, PCTX_KEY_MAP_MAX), 0);
}

static void append_in_child(void)
{
	uint8_t index;

	CHILD_REQUIRE(pctx_key_map_append("b", &index) == 0 && index == 1);
	CHILD_REQUIRE(pctx_key_map_append("a", &index) == 0 && index == 0);
	CHILD_REQUIRE(pub_service("child") == 0);
	CHILD_REQUIRE(is_published_at(0, "a"));
	CHILD_REQUIRE(is_published_at(1, "b"));
}

CASE(map__fork, "A forked child keeps the keys and adds its own")
{
	uint8_t index;

	ATF_REQUIRE_EQ(pub_service("parent"), 0);
	ATF_REQUIRE_EQ(pctx_key_map_append("a", &index), 0);
	ATF_CHECK_EQ(pub_child(append_in_child), 0);
	ATF_REQUIRE_EQ(pctx_key_map_append("other", &index), 0);
	ATF_CHECK_EQ(index, 1);
}

static void *append_many(void *arg)
{
	static const char *const keys[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
	uint8_t *indices = arg;
	long failures = 0;

	for (int i = 0; i < 8; i++)
		failures += pctx_key_map_append(keys[i], &indices[i]) != 0;
	return (void *)failures;
}

CASE(append__threads, "Threads that append the same keys get the same indices")
{
	uint8_t indices[4][8];
	pthread_t threads[4];

	ATF_REQUIRE_EQ(pub_service("a"), 0);
	for (int i = 0; i < 4; i++)
		ATF_REQUIRE_EQ(pthread_create(&threads[i], NULL, append_many, indices[i]), 0);
	for (int i = 0; i < 4; i++) {
		void *failures;

		ATF_REQUIRE_EQ(pthread_join(threads[i], &failures), 0);
		ATF_CHECK(!failures);
		ATF_CHECK_EQ(memcmp(indices[0], indices[i], 8), 0);
	}
	ATF_CHECK(is_published_at(indices[0][7], "h"));
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, append__bad);
	ATF_TP_ADD_TC(tp, append__full);
	ATF_TP_ADD_TC(tp, append__too_large);
	ATF_TP_ADD_TC(tp, append__updates);
	ATF_TP_ADD_TC(tp, append__before_publish);
	ATF_TP_ADD_TC(tp, append__threads);
	ATF_TP_ADD_TC(tp, map__stays);
	ATF_TP_ADD_TC(tp, map__given);
	ATF_TP_ADD_TC(tp, map__given_bad);
	ATF_TP_ADD_TC(tp, map__fork);
	return atf_no_error();
}
