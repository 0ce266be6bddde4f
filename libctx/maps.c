#include <string.h>

#include "header.h"
#include "maps.h"

struct scan {
	const char *at;
	const char *end;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static bool scan_hex(struct scan *s, uint64_t *out)
{
	const char *from = s->at;
	uint64_t n = 0;

	for (; s->at < s->end && hex_digit(*s->at) >= 0; s->at++)
		n = n << 4 | (uint64_t)hex_digit(*s->at);
	*out = n;
	return s->at > from && s->at - from <= 16;
}

static bool scan_char(struct scan *s, char c)
{
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

static bool scan_perms(struct scan *s, unsigned int *out)
{
	static const char set[] = "rwxs", clear[] = "---p";
	unsigned int perms = 0;

	for (unsigned int i = 0; i < 4; i++) {
		if (scan_char(s, set[i]))
			perms |= 1u << i;
		else if (!scan_char(s, clear[i]))
			return false;
	}
	*out = perms;
	return true;
}

/* A field we have no use for and the spaces behind it. */
static bool scan_skip(struct scan *s)
{
	const char *from = s->at;

	while (s->at < s->end && *s->at != ' ')
		s->at++;
	if (s->at == from)
		return false;
	while (scan_char(s, ' '))
		;
	return true;
}

bool maps_parse(const char *text, size_t len, struct maps_line *out)
{
	struct scan s = { text, text + len };

	if (!scan_hex(&s, &out->start) || !scan_char(&s, '-') || !scan_hex(&s, &out->end) ||
	    !scan_char(&s, ' ') || !scan_perms(&s, &out->perms) || !scan_char(&s, ' '))
		return false;
	/* offset, device, inode; the name may have spaces */
	for (unsigned int i = 0; i < 3; i++) {
		if (!scan_skip(&s))
			return false;
	}
	out->name = s.at;
	out->name_len = (size_t)(s.end - s.at);
	return out->start < out->end;
}

static bool name_begins(const struct maps_line *line, const char *prefix)
{
	size_t len = strlen(prefix);

	return line->name_len >= len && memcmp(line->name, prefix, len) == 0;
}

bool maps_is_candidate(const struct maps_line *line)
{
	static const char *const prefixes[] = CTX_MAPS_PREFIXES;
	const unsigned int rw = MAPS_READ | MAPS_WRITE;

	if ((line->perms & (rw | MAPS_EXEC)) != rw)
		return false;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (name_begins(line, prefixes[i]))
			return true;
	}
	return false;
}
