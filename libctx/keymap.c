/*
 * Theory of operation
 *
 * Threads of the process hold indices into this map in their records (OTEP
 * 4947), so a key keeps its index as long as the process runs: through
 * unpublish, and in forked children, which inherit the records' memory. The keys
 * therefore lie in ordinary memory, unlike the publisher's state. The number of
 * bytes used is stored last; a child forked at any moment sees whole keys.
 */
#ifdef __linux__

#include "keymap.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "encode.h"

static char keymap_text[PCTX_PAYLOAD_MAX];
static size_t keymap_len; /* accessed by __atomic builtins only */

const char *keymap_keys(void)
{
	return keymap_text;
}

size_t keymap_used(void)
{
	return __atomic_load_n(&keymap_len, __ATOMIC_ACQUIRE);
}

void keymap_commit(size_t used)
{
	__atomic_store_n(&keymap_len, used, __ATOMIC_RELEASE);
}

/* The index of the key, or -1 with *@n the number of keys. */
static int keymap_search(const char *key, size_t len, size_t used, int *n)
{
	size_t at = 0;

	for (*n = 0; at < used; (*n)++) {
		size_t l = strlen(keymap_text + at);

		if (l == len && !memcmp(keymap_text + at, key, len))
			return *n;
		at += l + 1;
	}
	return -1;
}

int keymap_find(const char *key)
{
	int n;

	return keymap_search(key, strlen(key), keymap_used(), &n);
}

int keymap_stage(const char *key, size_t len, size_t *used)
{
	int n;

	if (keymap_search(key, len, *used, &n) >= 0)
		return -ENOTUNIQ;
	if (n >= PCTX_KEY_MAP_MAX)
		return -ENOSPC;
	if (len >= sizeof(keymap_text) - *used)
		return -EMSGSIZE;
	memcpy(keymap_text + *used, key, len);
	keymap_text[*used + len] = 0;
	*used += len + 1;
	return 0;
}

static int keymap_check(const struct pctx_value *v)
{
	if (v->kind != PCTX_STRING || (v->u.string.len && !v->u.string.data))
		return -EINVAL;
	if (v->u.string.len && memchr(v->u.string.data, 0, v->u.string.len))
		return -EDOM;
	return encode_key(v->u.string.data, v->u.string.len);
}

int keymap_stage_value(const struct pctx_value *value, size_t *used)
{
	size_t n = value->u.array.n, at = 0, old = *used;

	if (value->kind != PCTX_ARRAY || (n && !value->u.array.values))
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		const struct pctx_value *v = &value->u.array.values[i];
		size_t len = v->u.string.len;
		int rc = keymap_check(v);

		if (rc)
			return rc;
		if (at == old) { /* past what is in the map */
			rc = keymap_stage(v->u.string.data, len, used);
			if (rc)
				return rc;
		} else if (strlen(keymap_text + at) != len ||
			   memcmp(keymap_text + at, v->u.string.data, len) != 0) {
			return -ESTALE;
		} else {
			at += len + 1;
		}
	}
	return at == old ? 0 : -ESTALE;
}

#endif /* __linux__ */
