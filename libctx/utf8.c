#include "utf8.h"

#include <stdint.h>

/* Length of the sequence that @first starts, 0 for none; the range its second
 * byte must be in rules out overlong forms, surrogates and what is too large. */
static size_t utf8_sequence(uint8_t first, uint8_t *low, uint8_t *high)
{
	*low = 0x80;
	*high = 0xbf;
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef) {
		if (first == 0xe0)
			*low = 0xa0;
		if (first == 0xed)
			*high = 0x9f;
		return 3;
	}
	if (first >= 0xf0 && first <= 0xf4) {
		if (first == 0xf0)
			*low = 0x90;
		if (first == 0xf4)
			*high = 0x8f;
		return 4;
	}
	return 0;
}

bool utf8_valid(const void *text, size_t len)
{
	const uint8_t *p = text;
	uint8_t low, high;

	for (size_t i = 0; i < len;) {
		size_t n = utf8_sequence(p[i], &low, &high);

		if (n == 0 || n > len - i)
			return false;
		if (n > 1 && (p[i + 1] < low || p[i + 1] > high))
			return false;
		for (size_t k = 2; k < n; k++) {
			if ((p[i + k] & 0xc0) != 0x80)
				return false;
		}
		i += n;
	}
	return true;
}
