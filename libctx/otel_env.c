#ifdef __linux__

#include "otel_env.h"

#include <errno.h>
#include <string.h>

#include "utf8.h"

struct pctx_attr *attr_list_find(const struct attr_list *list, const char *key)
{
	for (size_t i = 0; i < list->n; i++) {
		if (!strcmp(list->attrs[i].key, key))
			return &list->attrs[i];
	}
	return NULL;
}

static int attr_list_grow(struct arena *arena, struct attr_list *list)
{
	size_t capacity = list->capacity ? 2 * list->capacity : 16;
	struct pctx_attr *attrs = arena_alloc(arena, capacity * sizeof(*attrs));

	if (!attrs)
		return -ENOMEM;
	if (list->n)
		memcpy(attrs, list->attrs, list->n * sizeof(*attrs));
	list->attrs = attrs;
	list->capacity = capacity;
	return 0;
}

int attr_list_set(struct arena *arena, struct attr_list *list, const struct pctx_attr *attr)
{
	struct pctx_attr *old = attr_list_find(list, attr->key);
	int rc = 0;

	if (old) {
		*old = *attr;
		return 0;
	}
	if (list->n == list->capacity)
		rc = attr_list_grow(arena, list);
	if (!rc)
		list->attrs[list->n++] = *attr;
	return rc;
}

static int env_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Decode @len bytes of @text without the blanks around them. */
static int env_decode(struct arena *arena, const char *text, size_t len, char **out)
{
	char *to;
	size_t n = 0;
	int high, low;

	while (len && (text[0] == ' ' || text[0] == '\t')) {
		text++;
		len--;
	}
	while (len && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	to = arena_alloc(arena, len + 1);
	if (!to)
		return -ENOMEM;
	for (size_t i = 0; i < len; n++) {
		if (text[i] != '%') {
			to[n] = text[i++];
			continue;
		}
		high = len - i < 3 ? -1 : env_hex(text[i + 1]);
		low = high < 0 ? -1 : env_hex(text[i + 2]);
		if (low < 0)
			return -EINVAL;
		to[n] = (char)(high * 16 + low);
		i += 3;
	}
	*out = to;
	return memchr(to, 0, n) || !utf8_valid(to, n) ? -EILSEQ : 0;
}

static int env_member(struct arena *arena, const char *text, size_t len, struct attr_list *list)
{
	const char *equals = memchr(text, '=', len);
	struct pctx_attr attr;
	char *key, *value;
	int rc;

	if (!equals)
		return text[strspn(text, " \t")] == text[len] || !len ? 0 : -EINVAL;
	rc = env_decode(arena, text, (size_t)(equals - text), &key);
	if (rc)
		return rc;
	if (!*key)
		return -EINVAL;
	rc = env_decode(arena, equals + 1, len - (size_t)(equals - text) - 1, &value);
	if (rc)
		return rc;
	attr = pctx_string(key, value);
	return attr_list_set(arena, list, &attr);
}

int otel_env_attributes(struct arena *arena, const char *text, struct attr_list *list)
{
	struct attr_list found = { .n = 0 };
	int rc = 0;

	while (!rc) {
		size_t len = strcspn(text, ",");

		rc = env_member(arena, text, len, &found);
		if (!text[len])
			break;
		text += len + 1;
	}
	for (size_t i = 0; !rc && i < found.n; i++)
		rc = attr_list_set(arena, list, &found.attrs[i]);
	return rc;
}

#endif /* __linux__ */
