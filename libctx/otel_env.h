/* otel_env.h - attributes out of environment variables, as OpenTelemetry has them */
#ifndef PCTX_OTEL_ENV_H
#define PCTX_OTEL_ENV_H

#include <stddef.h>

#include "arena.h"
#include "pctx.h"

/** struct attr_list - attributes in an arena, room for @capacity of them */
struct attr_list {
	struct pctx_attr *attrs;
	size_t n;
	size_t capacity;
};

/** attr_list_find() - the attribute of that key or NULL */
struct pctx_attr *attr_list_find(const struct attr_list *list, const char *key);

/** attr_list_set() - set the attribute of that key, add it if there is none: 0, -ENOMEM */
int attr_list_set(struct arena *arena, struct attr_list *list, const struct pctx_attr *attr);

/**
 * otel_env_attributes() - read a variable like OTEL_RESOURCE_ATTRIBUTES
 * @text: "key=value,key=value": blanks around keys and values do not count,
 *   %XX stands for a byte in both, an empty member is passed over, and of two
 *   members with the same key the later one counts
 * @list: the attributes, all strings, are set in it; on failure it is unchanged
 *
 * As the OpenTelemetry specification says, one error spoils the whole variable.
 * Return: 0, -EINVAL for a member without "=" or key, or a bad %XX, -EILSEQ for
 * what is not UTF-8 or a NUL, -ENOMEM.
 */
int otel_env_attributes(struct arena *arena, const char *text, struct attr_list *list);

#endif /* PCTX_OTEL_ENV_H */
