/*
 * Theory of operation
 *
 * A process context is a singleton, but several libraries of a process may want
 * to publish one, two copies of libctx among them. Only the first publish of a
 * copy pays for looking: before it maps anything, and again once its own context
 * is complete, as another thread's library may have done the same meanwhile.
 *
 * Of two copies of libctx in such a race exactly one stays: each makes its
 * signature visible, then reads the clock, then stores the timestamp, then
 * looks. If A does not see B's signature, B reads the clock later than A did,
 * and sees A. Who sees an earlier timestamp withdraws; equal ones are ordered by
 * address. A timestamp still 0 is waited for, for a short while.
 *
 * Foreign memory is read by process_vm_readv on ourselves: it may be PROT_NONE,
 * or be unmapped by its owner at any moment.
 */
#ifdef __linux__

#include "foreign.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>

#include "sys.h"

#define FOREIGN_WAITS 1000

/* the part of a line of maps that is of interest, the longest name included */
struct foreign_line {
	char text[160];
	size_t len;
};

static bool foreign_read(uint64_t address, struct ctx_header *h)
{
	struct iovec to = { h, sizeof(*h) }, from = { (void *)(uintptr_t)address, sizeof(*h) };
	ssize_t n;
	int fd;

	if (syscall(SYS_process_vm_readv, getpid(), &to, 1UL, &from, 1UL, 0UL) == sizeof(*h))
		return true;
	fd = sys_open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = sys_read_at(fd, h, sizeof(*h), address);
	sys_close(fd);
	return n == sizeof(*h);
}

static bool foreign_valid(uint64_t address, struct ctx_header *h)
{
	return foreign_read(address, h) && !memcmp(h->signature, CTX_SIGNATURE, CTX_SIGNATURE_SIZE);
}

/* Does the context at @address come before ours? */
static bool foreign_first(uint64_t address, const struct ctx_header *own, uint64_t own_ns)
{
	struct ctx_header h = { .version = 0 };

	for (int i = 0; i < FOREIGN_WAITS; i++) {
		if (!foreign_valid(address, &h))
			return false;
		if (!own)
			return true;
		if (h.published_at_ns)
			return h.published_at_ns < own_ns ||
			       (h.published_at_ns == own_ns && address < (uintptr_t)own);
		sched_yield();
	}
	return true;
}

static const char *foreign_hex(const char *p, uint64_t *out)
{
	*out = 0;
	for (;; p++) {
		if (*p >= '0' && *p <= '9')
			*out = *out << 4 | (uint64_t)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			*out = *out << 4 | (uint64_t)(*p - 'a' + 10);
		else
			return p;
	}
}

/* "start-end perms offset device inode     name": the name or NULL */
static const char *foreign_parse(const char *line, uint64_t *start, const char **perms)
{
	uint64_t end;
	const char *p = foreign_hex(line, start);

	if (*p++ != '-')
		return NULL;
	p = foreign_hex(p, &end);
	if (*p++ != ' ')
		return NULL;
	*perms = p;
	for (int field = 0; field < 4; field++) {
		p = strchr(p, ' ');
		if (!p)
			return NULL;
		p++;
	}
	return p + strspn(p, " ");
}

static bool foreign_line(const char *line, const struct ctx_header *own, uint64_t own_ns)
{
	static const char *const prefixes[] = CTX_MAPS_PREFIXES;
	const char *perms, *name;
	uint64_t start;

	if (!strstr(line, CTX_NAME))
		return false;
	name = foreign_parse(line, &start, &perms);
	if (!name || perms[0] != 'r' || perms[2] == 'x' || start == (uintptr_t)own)
		return false;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return foreign_first(start, own, own_ns);
	}
	return false;
}

/* Add @n bytes to the line, as far as they fit. */
static void foreign_add(struct foreign_line *l, const char *text, size_t n)
{
	size_t room = sizeof(l->text) - 1 - l->len;

	if (n > room)
		n = room;
	memcpy(l->text + l->len, text, n);
	l->len += n;
	l->text[l->len] = 0;
}

static bool foreign_chunk(struct foreign_line *l, const char *text, size_t n,
			  const struct ctx_header *own, uint64_t own_ns)
{
	while (n) {
		const char *newline = memchr(text, '\n', n);
		size_t part = newline ? (size_t)(newline - text) : n;

		foreign_add(l, text, part);
		if (!newline)
			return false;
		if (foreign_line(l->text, own, own_ns))
			return true;
		l->len = 0;
		text += part + 1;
		n -= part + 1;
	}
	return false;
}

bool foreign_context(const struct ctx_header *own, uint64_t own_ns)
{
	struct foreign_line line = { .len = 0 };
	char text[1024];
	bool found = false;
	ssize_t n;
	int fd = sys_open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	while (!found && (n = sys_read(fd, text, sizeof(text))) > 0)
		found = foreign_chunk(&line, text, (size_t)n, own, own_ns);
	sys_close(fd);
	return found;
}

#endif /* __linux__ */
