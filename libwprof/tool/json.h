/* json.h - what the JSON of the wprof program is made of. */
#ifndef WPROF_TOOL_JSON_H
#define WPROF_TOOL_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** JSON_WPROF - how every document and line is printed */
#define JSON_WPROF (JSON_COMPACT | JSON_REAL_PRECISION(10))

/** json_text() - a string of bytes that may not be UTF-8: bad ones become U+FFFD */
json_t *json_text(const char *bytes);

/** json_address() - "0x7f0000000000" */
json_t *json_address(uint64_t address);

/** json_u64() - a whole number; those beyond 2^63 - 1 become it */
json_t *json_u64(uint64_t n);

/**
 * json_put() - print @value and free it, with a line end
 *
 * Return: false when memory or the output failed.
 */
bool json_put(FILE *f, json_t *value);

/* Fields of @object. Return: false when missing or of another kind. */
bool json_get_u64(const json_t *object, const char *key, uint64_t *out);
bool json_get_address(const json_t *object, const char *key, uint64_t *out);
bool json_get_number(const json_t *object, const char *key, double *out);
bool json_get_text(const json_t *object, const char *key, const char **out);

/** json_is_flag() - is the field there, and true */
bool json_is_flag(const json_t *object, const char *key);

/** json_to_address() - the reverse of json_address(), strictly */
bool json_to_address(const json_t *value, uint64_t *out);

#endif /* WPROF_TOOL_JSON_H */
