/*
 * Reading a context while its process goes on.
 *
 * Theory of operation
 *
 * The writer stores, in this order: timestamp 0; payload address and size; the
 * new timestamp; with full barriers between them. A timestamp is never used
 * twice. The reader takes the header, the payload, the header again, in this
 * order, and believes the payload when both headers are the same in all their 32
 * bytes and the timestamp is not 0.
 *
 * Why that suffices. Both headers show timestamp T. The first shows T, so the
 * stores of T's address and size came before its load. The second shows T too,
 * so no later update had stored its 0 when it was loaded; and a writer frees or
 * reuses T's payload only after that 0. So what was copied in between is T's
 * payload. A header is not copied in one piece; comparing all of it covers
 * that: an address or size of the next update implies that the 0 before it was
 * visible to every later load, the second header's timestamp among them.
 *
 * Order of the copies. In one process_vm_readv the kernel copies piece after
 * piece in the order of the vectors, each by loads in program order, which
 * x86-64 does not reorder among themselves. That is how it is done, not promised:
 * so nothing is believed on the order's strength that the comparison does not
 * show too, and elsewhere target_readv() makes one call for each piece, with a
 * barrier between them. They pair with the writer's barriers.
 *
 * States. Not mapped: the mapping is looked for. Mapped: its address is known.
 * Known: also the last header, and with it how long the payload is, so that one
 * call fetches header, payload and header. A context that moved to another
 * payload needs two calls: header; payload and header.
 *
 * What ends a state:
 * - the mapping cannot be read, or has no signature: withdrawn, or the process
 *   executed another program. Looked for anew, in the same call.
 * - the payload cannot be read: the header is read again. If it changed that was
 *   a race, else the context is malformed.
 * - the timestamp stays 0: a publisher that died or withdrew in the middle leaves it
 *   so, and may be succeeded by one in another mapping. A read gives up after its
 *   attempts and forgets the address; every POLLS_UPDATING-th poll in a row that
 *   meets 0 looks through the mappings, which prefers a context that is complete.
 * - the process ended. The numbers of processes are used again, and
 *   process_vm_readv goes by numbers: whatever is read that is not what is known
 *   already counts only if the process's directory, opened at the start, is
 *   still alive after the read. A header equal to the last in all its bytes needs
 *   no such look: its timestamp is in nanoseconds since boot.
 *
 * Limit: CRIU restores a process with its number, addresses and bytes, timestamp
 * included. To a poll that is the process it knew, unchanged, and it says so; the
 * next read that is not from what is known finds the directory dead: -ESRCH, and a new
 * reader is needed. Restored on another machine, a timestamp may lie in the future of
 * its clock; none of this compares it with the time of now.
 *
 * The same timestamp should mean the same payload. A publisher that gives
 * timestamps twice exists, so a read compares the payload's bytes as well; a poll
 * compares the header only.
 */
#ifdef __linux__

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "context.h"
#include "decode.h"
#include "discover.h"
#include "opts.h"
#include "reader.h"
#include "target.h"

#define ATTEMPTS_DEFAULT 100
#define ATTEMPTS_AT_ONCE 3
#define PAUSE_FIRST_NS	 10000u
#define PAUSE_MOST_NS	 2000000u
#define POLLS_UPDATING	 8 /* the contract names it, and poll_test counts it */

struct buffer {
	uint8_t *data;
	size_t room;
};

struct pctx_reader {
	struct target target;
	struct discover_opts discover;
	size_t payload_max_bytes;
	uint32_t attempts_max;
	bool mapped;
	uint64_t address;
	unsigned int n_updating; /* polls in a row that met the timestamp 0 */
	bool known;		 /* @last is what the last read saw */
	int last_error;		 /* what it made of that: 0 or -EBADMSG */
	struct ctx_header last;
	struct pctx_context *context; /* decoded from @kept, when last_error is 0 */
	struct buffer kept;	      /* payload of @last */
	struct buffer fresh;	      /* payload that is being read */
};

static bool headers_equal(const struct ctx_header *a, const struct ctx_header *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static bool buffer_reserve(struct buffer *b, size_t len)
{
	uint8_t *data;

	if (len <= b->room)
		return true;
	data = realloc(b->data, len);
	if (!data)
		return false;
	b->data = data;
	b->room = len;
	return true;
}

/* ---- one attempt --------------------------------------------------------- */

static int header_read(struct pctx_reader *r, struct ctx_header *header)
{
	int rc = target_read(&r->target, r->address, header, sizeof(*header));

	/* -ESRCH: perhaps only the thread that was asked has ended */
	if (rc)
		return rc == -EFAULT || rc == -ESRCH ? -ESTALE : rc;
	return discover_check(header, r->discover.accept_version_1) ? -ESTALE : 0;
}

/* What @header says of its payload is wrong, unless it was read in a race. */
static int confirm_bad(struct pctx_reader *r, const struct ctx_header *header)
{
	struct ctx_header again = { .version = 0 };
	int rc = header_read(r, &again);

	if (rc)
		return rc;
	return headers_equal(header, &again) ? -EBADMSG : -EAGAIN;
}

static bool payload_plausible(const struct pctx_reader *r, const struct ctx_header *header)
{
	return header->payload && header->payload_size &&
	       header->payload_size <= r->payload_max_bytes &&
	       header->payload <= UINTPTR_MAX - header->payload_size;
}

/* Two calls: the header; its payload and the header again. */
static int attempt_new(struct pctx_reader *r, struct ctx_header *header)
{
	struct ctx_header again = { .version = 0 };
	struct iovec to[2], from[2];
	int rc = header_read(r, header);

	if (rc)
		return rc;
	if (!header->published_at_ns)
		return -EAGAIN;
	if (!payload_plausible(r, header))
		return confirm_bad(r, header);
	if (!buffer_reserve(&r->fresh, header->payload_size))
		return -ENOMEM;
	to[0] = (struct iovec){ r->fresh.data, header->payload_size };
	from[0] = (struct iovec){ (void *)(uintptr_t)header->payload, header->payload_size };
	to[1] = (struct iovec){ &again, sizeof(again) };
	from[1] = (struct iovec){ (void *)(uintptr_t)r->address, sizeof(again) };
	rc = target_readv(&r->target, to, from, 2);
	if (rc == -EFAULT)
		return confirm_bad(r, header);
	if (rc)
		return rc;
	return headers_equal(header, &again) ? 0 : -EAGAIN;
}

/* One call, if the payload is where and as long as it was. */
static int attempt_known(struct pctx_reader *r, struct ctx_header *header)
{
	struct ctx_header again = { .version = 0 };
	struct iovec to[3], from[3];
	size_t len = r->last.payload_size;
	int rc;

	if (!buffer_reserve(&r->fresh, len))
		return -ENOMEM;
	to[0] = (struct iovec){ header, sizeof(*header) };
	to[1] = (struct iovec){ r->fresh.data, len };
	to[2] = (struct iovec){ &again, sizeof(again) };
	from[0] = (struct iovec){ (void *)(uintptr_t)r->address, sizeof(*header) };
	from[1] = (struct iovec){ (void *)(uintptr_t)r->last.payload, len };
	from[2] = from[0];
	rc = target_readv(&r->target, to, from, 3);
	if (rc)
		return rc == -EFAULT || rc == -ESRCH ? -EAGAIN : rc;
	return headers_equal(header, &again) && header->published_at_ns &&
			       header->payload == r->last.payload && header->payload_size == len &&
			       discover_check(header, r->discover.accept_version_1) == 0
		       ? 0
		       : -EAGAIN;
}

static int attempt(struct pctx_reader *r, struct ctx_header *header)
{
	if (r->known && r->last_error == 0) {
		int rc = attempt_known(r, header);

		if (rc != -EAGAIN)
			return rc;
	}
	return attempt_new(r, header);
}

/* ---- attempts ------------------------------------------------------------ */

static void forget(struct pctx_reader *r)
{
	r->mapped = false;
	r->known = false;
}

static int find(struct pctx_reader *r)
{
	int rc;

	if (r->mapped)
		return 0;
	rc = discover(&r->target, &r->discover, &r->address);
	r->mapped = rc == 0;
	return rc;
}

static void pause_before(uint32_t n_attempt)
{
	uint32_t doublings = n_attempt - ATTEMPTS_AT_ONCE;
	uint64_t ns = PAUSE_MOST_NS;

	if (n_attempt < ATTEMPTS_AT_ONCE)
		return;
	if (doublings < 8 && (uint64_t)PAUSE_FIRST_NS << doublings < PAUSE_MOST_NS)
		ns = (uint64_t)PAUSE_FIRST_NS << doublings;
	nanosleep(&(struct timespec){ 0, (long)ns }, NULL);
}

static int attempts(struct pctx_reader *r, struct ctx_header *header)
{
	int rc = -EAGAIN;

	for (uint32_t i = 0; i < r->attempts_max; i++) {
		pause_before(i);
		rc = find(r);
		if (rc)
			return rc;
		rc = attempt(r, header);
		if (rc == -ESTALE) {
			forget(r);
			rc = find(r);
			if (rc)
				return rc;
			rc = attempt(r, header);
		}
		if (rc != -EAGAIN && rc != -ESTALE)
			return rc;
	}
	/* it may not be this mapping that counts: look again next time */
	forget(r);
	return -EAGAIN;
}

/* ---- what was read ------------------------------------------------------- */

static void remember(struct pctx_reader *r, const struct ctx_header *header, int error,
		     struct pctx_context *context)
{
	struct buffer fresh = r->fresh;

	pctx_context_free(r->context);
	r->context = context;
	r->last = *header;
	r->last_error = error;
	r->known = true;
	r->fresh = r->kept;
	r->kept = fresh;
}

static bool same_as_last(const struct pctx_reader *r, const struct ctx_header *header)
{
	return r->known && r->last_error == 0 && headers_equal(header, &r->last) &&
	       memcmp(r->fresh.data, r->kept.data, header->payload_size) == 0;
}

static int take(struct pctx_reader *r, const struct ctx_header *header)
{
	struct pctx_context *context = NULL;
	int rc;

	if (same_as_last(r, header))
		return 0;
	if (target_gone(&r->target))
		return -ESRCH;
	rc = decode_context(r->fresh.data, header->payload_size, &context);
	if (rc && rc != -EBADMSG)
		return rc;
	if (context)
		context->published_at_ns = header->published_at_ns;
	remember(r, header, rc, context);
	return rc;
}

static int reader_read(struct pctx_reader *r, struct pctx_context **out)
{
	struct ctx_header header = { .version = 0 };
	int rc = attempts(r, &header);

	if (rc == -EBADMSG)
		remember(r, &header, rc, NULL);
	if (rc == 0)
		rc = take(r, &header);
	if (rc && target_gone(&r->target))
		rc = -ESRCH;
	if (rc == 0)
		*out = context_ref(r->context);
	return rc;
}

int pctx_reader_read(struct pctx_reader *reader, struct pctx_context **out)
{
	int saved = errno;
	int rc = reader_read(reader, out);

	errno = saved;
	return rc;
}

/* ---- poll ---------------------------------------------------------------- */

/*
 * Look whether another mapping holds a context by now. While there is none, this
 * one stays what it is, known or not.
 */
static int look_beside(struct pctx_reader *r)
{
	uint64_t address;
	int rc = discover(&r->target, &r->discover, &address);

	if (rc || address == r->address)
		return rc;
	forget(r);
	r->address = address;
	r->mapped = true;
	return 0;
}

/*
 * An update takes about a microsecond: what several polls met in the middle of one
 * may have been left so for ever.
 */
static int header_poll(struct pctx_reader *r, struct ctx_header *header)
{
	int rc = header_read(r, header);

	if (rc || header->published_at_ns) {
		r->n_updating = 0;
		return rc;
	}
	if (++r->n_updating < POLLS_UPDATING)
		return -EAGAIN;
	rc = look_beside(r);
	if (rc)
		return rc;
	r->n_updating = 0;
	return header_read(r, header);
}

static int poll_changed(struct pctx_reader *r, struct ctx_header *header)
{
	int rc = header_poll(r, header);

	if (rc == -ESTALE) {
		forget(r);
		rc = find(r);
		if (rc == 0)
			rc = header_read(r, header);
	}
	if (rc == 0 && !header->published_at_ns)
		rc = -EAGAIN;
	return rc == -ESTALE ? -EAGAIN : rc;
}

static int reader_poll(struct pctx_reader *r, bool *changed)
{
	struct ctx_header header = { .version = 0 };
	int rc = find(r);

	if (rc == 0)
		rc = poll_changed(r, &header);
	if (rc == 0 && r->known && headers_equal(&header, &r->last)) {
		if (r->last_error == 0)
			*changed = false;
		return r->last_error;
	}
	if (target_gone(&r->target))
		return -ESRCH;
	if (rc == 0)
		*changed = true;
	return rc;
}

int pctx_reader_poll(struct pctx_reader *reader, bool *changed)
{
	int saved = errno;
	int rc = reader_poll(reader, changed);

	errno = saved;
	return rc;
}

/* ---- open and close ------------------------------------------------------ */

int reader_opts_take(struct pctx_reader_opts *to, const struct pctx_reader_opts *from)
{
	int rc = 0;

	memset(to, 0, sizeof(*to));
	if (from)
		rc = opts_take(to, sizeof(*to), from);
	if (rc)
		return rc;
	if (!to->payload_max_bytes)
		to->payload_max_bytes = PCTX_PAYLOAD_MAX;
	if (!to->attempts_max)
		to->attempts_max = ATTEMPTS_DEFAULT;
	return to->payload_max_bytes > PCTX_PAYLOAD_LIMIT ? -EINVAL : 0;
}

int reader_open(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_reader **out)
{
	struct pctx_reader *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	r->discover.mappings_max = opts->mappings_max;
	r->discover.accept_version_1 = opts->accept_version_1 != 0;
	r->payload_max_bytes = opts->payload_max_bytes;
	r->attempts_max = opts->attempts_max;
	rc = target_open(&r->target, pid, opts->procfs);
	if (rc)
		free(r);
	else
		*out = r;
	return rc;
}

int pctx_reader_open(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_reader **out)
{
	struct pctx_reader_opts o;
	int saved = errno;
	int rc = reader_opts_take(&o, opts);

	if (rc == 0)
		rc = reader_open(pid, &o, out);
	errno = saved;
	return rc;
}

void pctx_reader_close(struct pctx_reader *reader)
{
	int saved = errno;

	if (!reader)
		return;
	target_close(&reader->target);
	pctx_context_free(reader->context);
	free(reader->kept.data);
	free(reader->fresh.data);
	free(reader);
	errno = saved;
}

int pctx_read(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_context **out)
{
	struct pctx_reader *reader;
	int rc = pctx_reader_open(pid, opts, &reader);

	if (rc)
		return rc;
	rc = pctx_reader_read(reader, out);
	pctx_reader_close(reader);
	return rc;
}

#else /* not Linux */

#include "pctx.h"

#include <errno.h>

/* There is nothing to read. Programs build and link everywhere all the same. */

int pctx_reader_open(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_reader **out)
{
	(void)pid;
	(void)opts;
	(void)out;
	return -ENOSYS;
}

void pctx_reader_close(struct pctx_reader *reader)
{
	(void)reader;
}

int pctx_reader_read(struct pctx_reader *reader, struct pctx_context **out)
{
	(void)reader;
	(void)out;
	return -ENOSYS;
}

int pctx_reader_poll(struct pctx_reader *reader, bool *changed)
{
	(void)reader;
	(void)changed;
	return -ENOSYS;
}

int pctx_read(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_context **out)
{
	(void)pid;
	(void)opts;
	(void)out;
	return -ENOSYS;
}

#endif /* __linux__ */
