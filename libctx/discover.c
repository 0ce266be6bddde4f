/*
 * Finding a context among the mappings of another process.
 *
 * Theory of operation
 *
 * /proc/PID/maps as text costs about 0.35 us a mapping, whatever is looked for.
 * PROCMAP_QUERY costs 0.7 us a call, but one call walks over everything that
 * does not fit its filter, at about half the price of the text. So:
 *
 * 1. Read the text of the first DISCOVER_HEAD mappings, so many that the 50 us
 *    step 2 begins with add no more than a tenth. Nearly every process ends
 *    here, and a context that was mapped last into a full address space (mmap
 *    allocates downward) is found here too. Most lines are only searched for what
 *    every name of a context has: to take each apart costs half as much as to
 *    read it.
 * 2. A context that was mapped early lies near the upper end of the mmap area.
 *    That end is found by bisection: "is there a mapping between x and the
 *    stack" is monotone in x. From it windows go downward, each four times as
 *    long as the one before, until they meet the part read as text. A query has
 *    no upper bound: each one that finds nothing walks to the top of the address
 *    space, which is why the windows must start at the end of the mappings and
 *    not at the end of the address space, and why their sum stays within 4/3 of
 *    one full walk.
 * 3. Where there is no PROCMAP_QUERY: read the rest of the text.
 *
 * Queries are filtered for file-backed, readable, writable: a memfd, named or
 * not. [anon:OTEL_CTX] passes no filter that would help, and exists only on
 * kernels that can name anonymous memory: there the first QUERIES_UNFILTERED
 * mappings from the upper end are looked at without the file filter, and when
 * nothing was found the rest of the text is read after all.
 *
 * The target's mappings change while this runs. Windows touch each other and
 * the topmost is open, so a mapping that stays where it is cannot fall between
 * them, wherever the bisection ended.
 *
 * A limit on mappings counts lines of text. A window may be queried under a
 * limit only while it has no more pages than the limit has mappings left.
 *
 * Nothing here trusts a name: each candidate's header is read and checked, and
 * one that fails is passed over. One that is being updated is taken when the
 * search ends without another: it may be what a dead publisher left behind. No
 * answer of the target makes this loop without end: text and windows advance in
 * addresses.
 */
#ifdef __linux__

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "discover.h"
#include "maps.h"
#include "procmap.h"

#define TEXT_BYTES	   32768
#define NAME_BYTES	   4096
#define QUERIES_UNFILTERED 300
#define WINDOW_BYTES	   (1ull << 20) /* the first one */
#define ADDRESS_END	   (1ull << 57) /* no user memory beyond */
#define ADDRESS_USUAL	   (1ull << 47) /* no memory beyond without asking for it */
#define ABOVE_STACK_MAX	   8		/* vdso and its data pages */

#ifndef PR_SET_VMA
#define PR_SET_VMA	     0x53564d41 /* Linux 5.17 */
#define PR_SET_VMA_ANON_NAME 0
#endif

struct discovery {
	struct target *target;
	const struct discover_opts *opts;
	int maps;
	uint64_t n_lines;
	uint64_t page_bytes;
	unsigned int unfiltered; /* queries left without the file filter */
	uint64_t found;
	uint64_t updating; /* one that is just being updated, or 0 */
	bool has_found;
	bool unsupported;      /* saw a context of another version */
	char name[NAME_BYTES]; /* of a queried mapping */
	char text[TEXT_BYTES];
	size_t text_at, text_len;
	bool text_ended;
	const char *last; /* the last line that text_line() gave */
	size_t last_len;
};

int discover_check(const struct ctx_header *header, bool accept_version_1)
{
	if (memcmp(header->signature, CTX_SIGNATURE, sizeof(header->signature)) != 0)
		return -EBADMSG;
	if (header->version == CTX_VERSION || (header->version == 1 && accept_version_1))
		return 0;
	return -EPROTONOSUPPORT;
}

/* Look at one mapping. Only what ends the whole search is an error. */
static int look_at(struct discovery *d, const struct maps_line *line)
{
	struct ctx_header header = { .version = 0 };
	int rc;

	if (!maps_is_candidate(line) || line->end - line->start < sizeof(header))
		return 0;
	rc = target_read(d->target, line->start, &header, sizeof(header));
	if (rc)
		return rc == -EFAULT ? 0 : rc;
	rc = discover_check(&header, d->opts->accept_version_1);
	if (rc == -EPROTONOSUPPORT)
		d->unsupported = true;
	if (rc == 0 && header.published_at_ns) {
		d->found = line->start;
		d->has_found = true;
	} else if (rc == 0) {
		d->updating = line->start;
	}
	return 0;
}

/* ---- text ---------------------------------------------------------------- */

static int text_fill(struct discovery *d)
{
	ssize_t n;

	memmove(d->text, d->text + d->text_at, d->text_len - d->text_at);
	d->text_len -= d->text_at;
	d->text_at = 0;
	if (d->text_len == sizeof(d->text))
		d->text_len = 0; /* no line is that long: drop it */
	do
		n = read(d->maps, d->text + d->text_len, sizeof(d->text) - d->text_len);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != ESRCH)
		return errno == EACCES ? -EPERM : -errno;
	if (n <= 0)
		d->text_ended = true;
	else
		d->text_len += (size_t)n;
	return 0;
}

/* The next line, or *@len = 0 at the end. */
static int text_line(struct discovery *d, const char **line, size_t *len)
{
	while (!d->text_ended) {
		const char *from = d->text + d->text_at;
		const char *end = memchr(from, '\n', d->text_len - d->text_at);
		int rc;

		if (end) {
			*line = d->last = from;
			*len = d->last_len = (size_t)(end - from) + 1;
			d->text_at += *len;
			return 0;
		}
		rc = text_fill(d);
		if (rc)
			return rc;
	}
	*len = 0;
	return 0;
}

/* All below has been looked at; valid until more of the text is read. */
static uint64_t text_end_address(const struct discovery *d)
{
	struct maps_line line;

	return d->last && maps_parse(d->last, d->last_len - 1, &line) ? line.end : 0;
}

/* Can it have a name of ours? The kernel ends a line without a name by a blank. */
static bool may_be_named(const char *line, size_t len)
{
	return len >= 2 && line[len - 2] != ' ' &&
	       memmem(line, len, CTX_NAME, sizeof(CTX_NAME) - 1);
}

/* Go through the text up to line @until; with @first stop at a valid one. */
static int text_scan(struct discovery *d, uint64_t until, bool first)
{
	while (d->n_lines < until && !(first && d->has_found)) {
		struct maps_line mapping;
		const char *line;
		size_t len;
		int rc = text_line(d, &line, &len);

		if (rc || !len)
			return rc;
		d->n_lines++;
		if (!may_be_named(line, len) || !maps_parse(line, len - 1, &mapping))
			continue;
		rc = look_at(d, &mapping);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- queries ------------------------------------------------------------- */

static int query(struct discovery *d, uint64_t address, uint64_t flags, bool with_name,
		 struct procmap_query *q)
{
	*q = (struct procmap_query){
		.size = sizeof(*q),
		.query_flags = flags | PROCMAP_COVERING_OR_NEXT,
		.query_addr = address,
		.vma_name_size = with_name ? NAME_BYTES : 0,
		.vma_name_addr = with_name ? (uintptr_t)d->name : 0,
	};
	d->name[0] = '\0';
	while (ioctl(d->maps, PROCMAP_QUERY, q)) {
		if (errno == EINTR)
			continue;
		/* a path beyond PATH_MAX: a mapping all the same */
		if (errno == ENAMETOOLONG && with_name)
			return query(d, address, flags, false, q);
		return -errno;
	}
	return 0;
}

/* The mapping at or next above @address, if it begins below @limit: else -ENOENT. */
static int query_next(struct discovery *d, uint64_t address, uint64_t limit,
		      struct procmap_query *q)
{
	int rc = query(d, address, 0, false, q);

	return rc == 0 && q->vma_start >= limit ? -ENOENT : rc;
}

/*
 * The highest mapping that begins below @limit: -ENOENT when above @floor there is
 * none. By bisection, but after each step upward the very next mapping is asked
 * for: mostly there is none, and that ends it. Both ends only move inward.
 */
static int query_below(struct discovery *d, uint64_t floor, uint64_t limit, struct procmap_query *q)
{
	uint64_t low = floor, high = limit, best = limit;
	uint64_t at = limit - d->page_bytes; /* often one ends where the next begins */

	while (low < high) {
		bool next = at == low;
		int rc = query_next(d, at, limit, q);

		if (rc && rc != -ENOENT)
			return rc;
		if (rc == 0) {
			best = q->vma_start;
			low = q->vma_end;
		} else if (next) {
			break;
		} else {
			high = at;
		}
		at = low;
		if (rc || next)
			at += (high - low) / 2 / d->page_bytes * d->page_bytes;
	}
	return best == limit ? -ENOENT : query(d, best, 0, true, q);
}

/* The end of the mappings below the stack: an address to start windows from. */
static int upper_end(struct discovery *d, uint64_t floor, uint64_t *end)
{
	uint64_t limit = ADDRESS_END;
	struct procmap_query q;
	bool stack = false;

	*end = floor;
	if (floor < ADDRESS_USUAL && query(d, ADDRESS_USUAL, 0, false, &q) == -ENOENT)
		limit = ADDRESS_USUAL;
	for (unsigned int i = 0; i < ABOVE_STACK_MAX; i++) {
		int rc = query_below(d, floor, limit, &q);

		if (rc)
			return rc == -ENOENT ? 0 : rc;
		if (i == 0 || stack)
			*end = q.vma_end;
		if (stack)
			return 0;
		stack = strcmp(d->name, "[stack]") == 0;
		limit = q.vma_start;
		if (limit <= floor)
			return 0;
	}
	return 0;
}

static uint64_t window_filter(struct discovery *d)
{
	const uint64_t flags = PROCMAP_READ | PROCMAP_WRITE;

	if (!d->unfiltered)
		return flags | PROCMAP_FILE_BACKED;
	d->unfiltered--;
	return flags;
}

static int window_scan(struct discovery *d, uint64_t low, uint64_t high)
{
	struct procmap_query q;

	for (uint64_t at = low; at < high; at = q.vma_end) {
		struct maps_line line;
		int rc = query(d, at, window_filter(d), true, &q);

		if (rc)
			return rc == -ENOENT ? 0 : rc;
		if (q.vma_start >= high || q.vma_end <= at)
			return 0;
		line.start = q.vma_start;
		line.end = q.vma_end;
		line.perms = (unsigned int)q.vma_flags & 0xf;
		line.name = d->name;
		line.name_len = strnlen(d->name, sizeof(d->name));
		rc = look_at(d, &line);
		if (rc)
			return rc;
	}
	return 0;
}

/* Is a window from @low to @end within what the caller's limit leaves? */
static bool window_allowed(const struct discovery *d, uint64_t low, uint64_t end)
{
	uint64_t max = d->opts->mappings_max;

	return !max || (end - low) / d->page_bytes <= max - d->n_lines;
}

/* Windows from the upper end down to @floor; *@all: everything was seen. */
static int windows_scan(struct discovery *d, uint64_t floor, bool *all)
{
	uint64_t low, high = UINT64_MAX, bytes = WINDOW_BYTES, end;
	int rc = upper_end(d, floor, &end);

	*all = false;
	if (rc)
		return rc;
	do {
		low = end - floor > bytes ? end - bytes : floor;
		if (!window_allowed(d, low, end))
			return 0;
		rc = window_scan(d, low, high);
		if (rc)
			return rc;
		high = low;
		bytes *= 4;
	} while (low > floor && !d->has_found);
	*all = low == floor;
	return 0;
}

/* ---- both ---------------------------------------------------------------- */

/* A kernel that cannot name memory says so before it looks at the arguments. */
static bool kernel_names(void)
{
	int saved = errno;
	bool no = prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, 0, 0, 0) && errno == EINVAL;

	errno = saved;
	return !no;
}

static int scan_tail(struct discovery *d, uint64_t text_until)
{
	bool all = false, names;
	int rc;

	if (!d->opts->text_only) {
		names = kernel_names();
		d->unfiltered = names ? QUERIES_UNFILTERED : 0;
		rc = windows_scan(d, text_end_address(d), &all);
		/* what this kernel cannot answer is read as text */
		if (rc == -EPERM || rc == -ESRCH || rc == -ENOMEM)
			return rc;
		if (d->has_found || (all && rc == 0 && !names))
			return 0;
	}
	return text_scan(d, text_until, false);
}

static int scan(struct discovery *d)
{
	uint64_t max = d->opts->mappings_max ? d->opts->mappings_max : UINT64_MAX;
	int rc = text_scan(d, max < DISCOVER_HEAD ? max : DISCOVER_HEAD, true);

	if (rc || d->has_found || d->text_ended)
		return rc;
	return max > DISCOVER_HEAD ? scan_tail(d, max) : 0;
}

/* Was the text cut off by the caller's limit? */
static bool cut_off(struct discovery *d)
{
	const char *line;
	size_t len;

	return d->opts->mappings_max && d->n_lines >= d->opts->mappings_max &&
	       text_line(d, &line, &len) == 0 && len;
}

static int verdict(struct discovery *d, uint64_t *address)
{
	if (d->has_found || d->updating) {
		*address = d->has_found ? d->found : d->updating;
		return 0;
	}
	if (target_gone(d->target))
		return -ESRCH;
	if (d->unsupported)
		return -EPROTONOSUPPORT;
	return cut_off(d) ? -ERANGE : -ENODATA;
}

static int discover_once(struct discovery *d, uint64_t *address)
{
	int rc;

	d->maps = target_file(d->target, "maps");
	if (d->maps < 0)
		return d->maps;
	rc = scan(d);
	if (rc == 0)
		rc = verdict(d, address);
	close(d->maps);
	return rc;
}

int discover(struct target *t, const struct discover_opts *opts, uint64_t *address)
{
	struct discovery *d = malloc(sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	/* the name too: valgrind does not know that PROCMAP_QUERY writes it */
	memset(d, 0, offsetof(struct discovery, text));
	d->text_at = d->text_len = 0;
	d->text_ended = false;
	d->last = NULL;
	d->target = t;
	d->opts = opts;
	d->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	target_refresh(t);
	rc = discover_once(d, address);
	/* no memory at all: a kernel thread, an exit, or only its first thread's */
	if (rc == -ENODATA && !d->n_lines && target_ended(t)) {
		d->text_ended = false;
		rc = target_live_thread(t) ? discover_once(d, address) : -ESRCH;
		if (rc == -ENODATA && !d->n_lines)
			rc = -ESRCH;
	}
	free(d);
	return rc;
}

#endif /* __linux__ */
