/*
 * maps.c - a streamed parse of /proc/PID/maps.
 *
 * The file is opened once and read from its beginning at each interval. It
 * belongs to the memory the target had when it was opened: after an exec or an
 * exit (ESRCH) there is simply nothing in it. The kernel writes it a few lines at a time and lets
 * go of its lock in between, so a line may overlap the one before when the
 * target changes its mappings meanwhile; such a line is clipped, what it lost
 * is seen at the next interval.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "maps.h"

/* A path has up to PATH_MAX bytes, each written as four when it is a newline. */
#define MAPS_BUF (32u << 10)

struct maps {
	int fd;
	uint64_t last_end;
	size_t pos, len;
	bool eof;
	char buf[MAPS_BUF + 1];
};

/* hugetlb_file_setup() in the kernel: a file that nobody can open */
static bool maps_hugetlb(const char *name, uint32_t flags)
{
	return !(flags & MAPS_SHARED) && !strcmp(name, "/anon_hugepage (deleted)");
}

static enum wprof_vma_type maps_type(const char *name, uint32_t flags)
{
	static const char *const kernel[] = { "[vdso]", "[vvar", "[vsyscall]", "[uprobes]" };

	if (!strcmp(name, "[heap]"))
		return WPROF_HEAP;
	if (!strncmp(name, "[stack", 6))
		return WPROF_STACK;
	for (size_t i = 0; i < sizeof(kernel) / sizeof(*kernel); i++)
		if (!strncmp(name, kernel[i], strlen(kernel[i])))
			return WPROF_VDSO;
	if (!*name || !strncmp(name, "[anon:", 6) || flags & MAPS_HUGETLB)
		return WPROF_ANONYMOUS;
	return flags & MAPS_EXEC ? WPROF_CODE : WPROF_DATA;
}

static char *maps_hex(char *p, uint64_t *v, char end)
{
	char *q;

	errno = 0;
	*v = strtoull(p, &q, 16);
	return q == p || *q != end || errno ? NULL : q + 1;
}

static char *maps_perms(char *p, uint32_t *flags)
{
	if (strnlen(p, 5) < 5 || p[4] != ' ' || (p[3] != 'p' && p[3] != 's'))
		return NULL;
	*flags = (p[0] == 'r' ? MAPS_READ : 0) | (p[1] == 'w' ? MAPS_WRITE : 0) |
		 (p[2] == 'x' ? MAPS_EXEC : 0) | (p[3] == 's' ? MAPS_SHARED : 0);
	return p + 5;
}

/* start-end perms offset major:minor inode, blanks, then the name as it is */
int maps_parse(char *line, struct maps_entry *e)
{
	char *p = line, *q;
	uint64_t skipped;
	int saved = errno;

	if ((p = maps_hex(p, &e->start, '-')) && (p = maps_hex(p, &e->end, ' ')) &&
	    (p = maps_perms(p, &e->flags)) && (p = maps_hex(p, &skipped, ' ')) &&
	    (p = maps_hex(p, &skipped, ':')))
		p = maps_hex(p, &skipped, ' ');
	errno = saved;
	if (!p || e->start >= e->end)
		return -EBADMSG;
	q = p + strspn(p, "0123456789");
	if (q == p || (*q && *q != ' '))
		return -EBADMSG;
	e->name = q + strspn(q, " ");
	e->flags |= maps_hugetlb(e->name, e->flags) ? MAPS_HUGETLB : 0;
	e->type = maps_type(e->name, e->flags);
	return 0;
}

int maps_open(pid_t pid, struct maps **out)
{
	char path[48];
	struct maps *m = malloc(sizeof(*m));

	if (!m)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	m->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (m->fd < 0) {
		int err = -errno;

		free(m);
		return err;
	}
	m->last_end = 0;
	m->pos = m->len = 0;
	m->eof = false;
	*out = m;
	return 0;
}

void maps_close(struct maps *m)
{
	if (!m)
		return;
	close(m->fd);
	free(m);
}

int maps_rewind(struct maps *m)
{
	m->last_end = 0;
	m->pos = m->len = 0;
	m->eof = false;
	return lseek(m->fd, 0, SEEK_SET) ? -errno : 0;
}

static int maps_fill(struct maps *m)
{
	ssize_t n;

	memmove(m->buf, m->buf + m->pos, m->len - m->pos);
	m->len -= m->pos;
	m->pos = 0;
	if (m->len == MAPS_BUF)
		return -EBADMSG;
	do
		n = read(m->fd, m->buf + m->len, MAPS_BUF - m->len);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != ESRCH)
		return -errno;
	m->len += n > 0 ? (size_t)n : 0;
	m->eof = n <= 0;
	return 0;
}

/* The next line; NULL in *line: no more. */
static int maps_line(struct maps *m, char **line)
{
	for (;;) {
		char *at = m->buf + m->pos, *nl = memchr(at, '\n', m->len - m->pos);
		int rc;

		*line = NULL;
		if (!nl && m->eof)
			return m->len == m->pos ? 0 : -EBADMSG;
		if (nl) {
			*nl = '\0';
			m->pos = (size_t)(nl + 1 - m->buf);
			*line = at;
			return 0;
		}
		rc = maps_fill(m);
		if (rc)
			return rc;
	}
}

int maps_next(struct maps *m, struct maps_entry *e)
{
	char *line;
	int rc;

	do {
		rc = maps_line(m, &line);
		if (rc || !line)
			return rc;
		rc = maps_parse(line, e);
		if (rc)
			return rc;
	} while (e->end <= m->last_end);
	if (e->start < m->last_end)
		e->start = m->last_end;
	m->last_end = e->end;
	return 1;
}
