/* rangefile.c - range sets as text files: "start end", hexadecimal, a line each. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "criu/ranges.h"

/* A range file larger than this is none: 2 million ranges fit. */
#define RANGE_FILE_MAX (64u << 20)

struct range_vec {
	struct wprof_range *list;
	size_t n, room;
};

static int vec_push(struct range_vec *v, struct wprof_range r)
{
	struct wprof_range *list;
	size_t room = v->room ? 2 * v->room : 16;

	if (v->n == v->room) {
		list = reallocarray(v->list, room, sizeof(*list));
		if (!list)
			return -ENOMEM;
		v->list = list;
		v->room = room;
	}
	v->list[v->n++] = r;
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* An address at *@p, which moves behind it; at most 16 digits. */
static bool take_address(const char **p, const char *end, uint64_t *out)
{
	const char *s = *p;
	int digits = 0;

	if (end - s > 2 && s[0] == '0' && (s[1] | 0x20) == 'x')
		s += 2;
	for (*out = 0; s < end && hex_digit(*s) >= 0; s++, digits++)
		*out = *out << 4 | (uint64_t)hex_digit(*s);
	*p = s;
	return digits > 0 && digits <= 16;
}

/* Return: 1 and @r set, 0 for a line that says nothing, -EBADMSG. */
static int parse_line(const char *p, const char *end, struct wprof_range *r)
{
	uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

	while (p < end && is_blank(*p))
		p++;
	while (end > p && is_blank(end[-1]))
		end--;
	if (p == end || *p == '#')
		return 0;
	if (!take_address(&p, end, &r->start) || p == end || !is_blank(*p))
		return -EBADMSG;
	while (p < end && is_blank(*p))
		p++;
	if (!take_address(&p, end, &r->end) || p != end)
		return -EBADMSG;
	if (r->start >= r->end || (r->start | r->end) & mask)
		return -EBADMSG;
	return 1;
}

static int parse_lines(const char *text, size_t len, struct range_vec *v, size_t *line)
{
	const char *p = text, *end = text + len;

	for (*line = 1; p < end; ++*line) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		struct wprof_range r;
		int rc;

		if (!eol)
			eol = end;
		rc = parse_line(p, eol, &r);
		if (rc > 0)
			rc = vec_push(v, r);
		if (rc < 0)
			return rc;
		p = eol + 1;
	}
	return 0;
}

int wprof_ranges_parse(const char *text, size_t len, struct wprof_ranges **out, size_t *line)
{
	struct range_vec v = { 0 };
	size_t number = 0;
	int rc;

	rc = len ? parse_lines(text, len, &v, &number) : 0;
	if (!rc)
		rc = wprof_ranges_new(v.list, v.n, out);
	else if (line)
		*line = number;
	free(v.list);
	return rc;
}

static ssize_t read_some(int fd, char *buf, size_t room)
{
	ssize_t got;

	do
		got = read(fd, buf, room);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* Read all of @fd into *@text, which the caller frees, in case of error too. */
static int slurp(int fd, char **text, size_t *len)
{
	size_t room = 0;
	ssize_t got;

	for (*text = NULL, *len = 0;; *len += (size_t)got) {
		if (*len == room) {
			char *more;

			if (room == RANGE_FILE_MAX)
				return -EFBIG;
			room = room ? 2 * room : 1 << 16;
			more = realloc(*text, room);
			if (!more)
				return -ENOMEM;
			*text = more;
		}
		got = read_some(fd, *text + *len, room - *len);
		if (got <= 0)
			return (int)got;
	}
}

int wprof_ranges_load(const char *path, struct wprof_ranges **out, size_t *line)
{
	int saved = errno, fd, rc;
	char *text = NULL;
	size_t len = 0;

	if (!path || !out)
		return -EINVAL;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	rc = fd < 0 ? -errno : slurp(fd, &text, &len);
	if (!rc)
		rc = wprof_ranges_parse(text, len, out, line);
	free(text);
	if (fd >= 0)
		close(fd);
	errno = saved;
	return rc;
}

static int write_lines(const struct wprof_ranges *set, FILE *f)
{
	const struct wprof_range *r;
	size_t n;

	r = wprof_ranges_list(set, &n);
	for (size_t i = 0; i < n; i++)
		if (fprintf(f, "%" PRIx64 " %" PRIx64 "\n", r[i].start, r[i].end) < 0)
			return -errno;
	if (fflush(f) || fsync(fileno(f)))
		return -errno;
	return 0;
}

static int write_temp(const struct wprof_ranges *set, const char *temp)
{
	FILE *f;
	int fd, rc;

	unlink(temp); /* left by one that died with our number */
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	f = fdopen(fd, "w");
	if (!f) {
		rc = -errno;
		close(fd);
		return rc;
	}
	rc = write_lines(set, f);
	if (fclose(f) && !rc)
		rc = -errno;
	return rc;
}

int wprof_ranges_save(const struct wprof_ranges *set, const char *path)
{
	int saved = errno, rc;
	char *temp;

	if (!set || !path)
		return -EINVAL;
	if (asprintf(&temp, "%s.%d.tmp", path, gettid()) < 0)
		return -ENOMEM;
	rc = write_temp(set, temp);
	if (!rc && rename(temp, path))
		rc = -errno;
	if (rc)
		unlink(temp);
	free(temp);
	errno = saved;
	return rc;
}
