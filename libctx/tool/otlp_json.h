/* otlp_json.h - contexts as OTLP/JSON writes them. */
#ifndef PROCSCOPE_OTLP_JSON_H
#define PROCSCOPE_OTLP_JSON_H

#include <jansson.h>
#include <sys/types.h>

#include "pctx.h"

/**
 * otlp_json_context() - {"resource": {"attributes": [...]}, "attributes": [...]}
 *
 * Return: a new reference, or NULL when out of memory.
 */
json_t *otlp_json_context(const struct pctx_context *context);

/**
 * otlp_json_text() - a JSON string of bytes that need not be UTF-8
 *
 * What is not becomes U+FFFD. Return: a new reference, or NULL.
 */
json_t *otlp_json_text(const char *text, size_t len);

#endif /* PROCSCOPE_OTLP_JSON_H */
