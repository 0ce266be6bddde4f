#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "otlp_json.h"
#include "tool/json.h"

json_t *json_text(const char *bytes)
{
	return otlp_json_text(bytes, strlen(bytes));
}

json_t *json_address(uint64_t address)
{
	return json_sprintf("0x%" PRIx64, address);
}

json_t *json_u64(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

bool json_put(FILE *f, json_t *value)
{
	bool good = value && !json_dumpf(value, f, JSON_WPROF) && putc('\n', f) != EOF;

	json_decref(value);
	return good;
}

bool json_get_u64(const json_t *object, const char *key, uint64_t *out)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	*out = (uint64_t)json_integer_value(value);
	return true;
}

bool json_to_address(const json_t *value, uint64_t *out)
{
	const char *text = json_string_value(value);
	size_t digits;

	if (!text || text[0] != '0' || text[1] != 'x')
		return false;
	digits = strspn(text + 2, "0123456789abcdef");
	if (!digits || digits > 16 || text[2 + digits])
		return false;
	*out = strtoull(text + 2, NULL, 16);
	return true;
}

bool json_get_address(const json_t *object, const char *key, uint64_t *out)
{
	return json_to_address(json_object_get(object, key), out);
}

bool json_get_number(const json_t *object, const char *key, double *out)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_number(value))
		return false;
	*out = json_number_value(value);
	return true;
}

bool json_get_text(const json_t *object, const char *key, const char **out)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (!text)
		return false;
	*out = text;
	return true;
}

bool json_is_flag(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}
