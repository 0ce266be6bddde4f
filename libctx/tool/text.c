#include <string.h>

#include "text.h"
#include "utf8.h"

size_t text_decode(const char *text, size_t len, uint32_t *out)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc0 ? 2 : 1;

	*out = TEXT_NO_CHARACTER;
	if (n > len || !utf8_valid(p, n))
		return 1;
	*out = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++)
		*out = *out << 6 | (p[i] & 0x3f);
	return n;
}

bool text_dangerous(uint32_t c)
{
	static const uint32_t ranges[][2] = { { 0, 0x1f },	  { 0x7f, 0x9f },
					      { 0xad, 0xad },	  { 0x61c, 0x61c },
					      { 0x200b, 0x200f }, { 0x2028, 0x202e },
					      { 0x2060, 0x206f }, { 0xfeff, 0xfeff },
					      { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f } };

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (c >= ranges[i][0] && c <= ranges[i][1])
			return true;
	}
	return false;
}

void text_tame(char *text)
{
	size_t len = strlen(text);
	char *to = text;
	uint32_t c;

	for (size_t i = 0, n; i < len; i += n) {
		n = text_decode(text + i, len - i, &c);
		if (c == TEXT_NO_CHARACTER || text_dangerous(c)) {
			*to++ = '?';
			continue;
		}
		memmove(to, text + i, n);
		to += n;
	}
	*to = '\0';
}
