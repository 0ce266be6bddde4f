/*
 * Theory of operation
 *
 * A page that other processes find by its name in /proc/PID/maps holds the
 * header of header.h, which points to the payload. Readers copy header and
 * payload while we may change both, and tell by the timestamp: 0 means "being
 * changed", and a timestamp that is the same before and after the copy means
 * that the copy is of one piece.
 *
 *	            timestamp   header's fields   who can read
 *	nothing     -           -                 nobody
 *	building    0           being written     nobody
 *	published   t > 0       of slot S         everybody
 *	updating    0           being changed     nobody, for some nanoseconds
 *	withdrawn   0           zeroed            nobody; unmapped next
 *
 * Invariants
 * - Whatever can fail happens before the timestamp of a published context is
 *   touched: encoding, memory for the payload, the clock. So a failed update
 *   leaves the old context as it was.
 * - The mapping never moves. It is named last, at each publish and update, even
 *   where the kernel cannot name: a tracer may watch for the attempt.
 * - A timestamp is later than every one before it, also with a clock that stands
 *   still or goes back, and also when another library stored one in our header.
 *
 * Payloads lie in two slots, mappings of their own, filled in turn. The slot to
 * be filled is the one before the current. A reader that is still copying it saw
 * a timestamp two updates old and will see that it changed, as the newer one was
 * stored (and fenced) before the first byte of the slot is written. Nothing is
 * ever freed that a header with a current timestamp points to; a slot that is
 * too small is unmapped only when it is not the current one, and a reader that
 * gets EFAULT for it finds the timestamp changed. Only our own slots are
 * unmapped: the pointer in the header is never believed.
 *
 * Memory order: seq_cst fences where the OTEP has barriers; they pair with those
 * between a reader's loads. Fields and timestamp are stored by single, aligned
 * atomic stores.
 *
 * If the process dies at any step the kernel takes all of it away. If it forks,
 * the child has neither header nor payloads (MADV_DONTFORK), and the state says
 * so (state.c). A child forked between mapping and MADV_DONTFORK inherits a page
 * without signature, which readers skip.
 */
#ifdef __linux__

#include "pctx.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "encode.h"
#include "foreign.h"
#include "keymap.h"
#include "opts.h"
#include "state.h"
#include "sys.h"

static void fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void header_set_time(struct ctx_header *h, uint64_t ns)
{
	__atomic_store_n(&h->published_at_ns, ns, __ATOMIC_RELAXED);
}

static void header_set_payload(struct ctx_header *h, const struct slot *slot)
{
	__atomic_store_n(&h->payload, (uint64_t)(uintptr_t)slot->data, __ATOMIC_RELAXED);
	__atomic_store_n(&h->payload_size, (uint32_t)slot->size, __ATOMIC_RELAXED);
}

/* max(now, @last + 1) of CLOCK_BOOTTIME; -EOVERFLOW when @last was the last one */
static int clock_after(uint64_t last, uint64_t *out)
{
	struct timespec now;
	uint64_t ns;

	if (last == UINT64_MAX)
		return -EOVERFLOW;
	if (clock_gettime(CLOCK_BOOTTIME, &now))
		return -errno;
	if (now.tv_sec < 0)
		ns = 0;
	else if (__builtin_mul_overflow((uint64_t)now.tv_sec, 1000000000u, &ns) ||
		 __builtin_add_overflow(ns, (uint64_t)now.tv_nsec, &ns))
		ns = UINT64_MAX - 1;
	*out = ns > last ? ns : last + 1;
	return 0;
}

/* Give the slot room for @size bytes; what it held is lost when it grows. */
static int slot_reserve(struct slot *slot, size_t size)
{
	size_t page = sys_page_size();
	size_t capacity = (size + page - 1) / page * page;
	void *map;
	int rc;

	if (size <= slot->capacity)
		return 0;
	map = sys_map(capacity, -1);
	if (!map)
		return -errno;
	rc = sys_madvise(map, capacity, MADV_DONTFORK);
	if (rc) {
		munmap(map, capacity);
		return rc;
	}
	if (slot->data)
		munmap(slot->data, slot->capacity);
	slot->data = map;
	slot->capacity = capacity;
	return 0;
}

/* Fill the slot; @old: the slot to take all but the key map from, or NULL. */
static int slot_fill(struct slot *slot, const struct encoding *e, const struct slot *old)
{
	size_t base_size = old ? old->base_size : e->base_size;
	int rc;

	if (base_size + e->map_size > PCTX_PAYLOAD_MAX)
		return -EMSGSIZE;
	rc = slot_reserve(slot, base_size + e->map_size);
	if (rc)
		return rc;
	if (old)
		memcpy(slot->data, old->data, base_size);
	else
		pb_context_pack(&e->base, slot->data);
	pb_context_pack(&e->map, slot->data + base_size);
	slot->base_size = base_size;
	slot->size = base_size + e->map_size;
	return 0;
}

static void slot_free(struct slot *slot)
{
	if (slot->data)
		munmap(slot->data, slot->capacity);
	memset(slot, 0, sizeof(*slot));
}

/* Flags of newer kernels first: old ones refuse them, some sandboxes want them. */
static int memfd_open(void)
{
	int fd = sys_memfd_create(CTX_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	return fd >= 0 ? fd : sys_memfd_create(CTX_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

/*
 * Map a page for the header: of a memfd or, only if there can be none, anonymous.
 * @memfd_error: why there was none, or 0.
 */
static struct ctx_header *header_map(int *memfd_error, int *error)
{
	struct ctx_header *h = NULL;
	int fd = memfd_open();

	*memfd_error = fd < 0 ? fd : 0;
	*error = fd >= 0 ? sys_ftruncate(fd, sys_page_size()) : 0;
	if (!*error) {
		h = sys_map(sys_page_size(), fd);
		*error = -errno;
	}
	if (fd >= 0)
		sys_close(fd);
	return h;
}

/*
 * Take a header away, complete or not: timestamp first, as a reader may be about
 * to trust it. The zeroes count should the kernel refuse to unmap.
 */
static void header_drop(struct ctx_header *h)
{
	header_set_time(h, 0);
	fence();
	memset(h->signature, 0, sizeof(h->signature));
	munmap(h, sys_page_size());
}

static bool header_name(struct ctx_header *h)
{
	return sys_name_mapping(h, sys_page_size(), CTX_NAME) == 0;
}

static void header_write(struct ctx_header *h, const struct slot *slot)
{
	memcpy(h->signature, CTX_SIGNATURE, CTX_SIGNATURE_SIZE);
	h->version = CTX_VERSION;
	header_set_payload(h, slot);
	fence();
}

/* Neither memfd nor name: is something lacking that there could be more of? */
static int not_findable(int memfd_error)
{
	switch (memfd_error) {
	case -EMFILE:
	case -ENFILE:
	case -ENOMEM:
		return memfd_error;
	default:
		return -EOPNOTSUPP;
	}
}

/* The OTEP's steps 5 to 10 on a fresh mapping */
static int pub_build(struct pub *p, const struct encoding *e, struct ctx_header *h, int memfd_error)
{
	uint64_t now = 0;
	int rc = sys_madvise(h, sys_page_size(), MADV_DONTFORK);

	if (rc)
		return rc;
	rc = slot_fill(&p->slots[0], e, NULL);
	if (rc)
		return rc;
	header_write(h, &p->slots[0]);
	rc = clock_after(p->last_ns, &now);
	if (rc)
		return rc;
	header_set_time(h, now);
	if (!header_name(h) && memfd_error)
		return not_findable(memfd_error);
	if (foreign_context(h, now))
		return -EEXIST;
	p->last_ns = now;
	return 0;
}

static int pub_first(struct pub *p, const struct encoding *e)
{
	struct ctx_header *h;
	int memfd_error, rc;

	if (foreign_context(NULL, 0))
		return -EEXIST;
	h = header_map(&memfd_error, &rc);
	if (!h)
		return rc;
	rc = pub_build(p, e, h, memfd_error);
	if (rc) {
		header_drop(h);
		slot_free(&p->slots[0]);
		return rc;
	}
	p->header = h;
	p->current = 0;
	return 0;
}

/* The OTEP's update. @keep: only the key map is new. */
static int pub_update(struct pub *p, const struct encoding *e, bool keep)
{
	struct ctx_header *h = p->header;
	struct slot *old = &p->slots[p->current], *new = &p->slots[!p->current];
	uint64_t stored = __atomic_load_n(&h->published_at_ns, __ATOMIC_RELAXED), now = 0;
	int rc;

	/* what was stored last is seen before the slot of the one before changes */
	fence();
	rc = slot_fill(new, e, keep ? old : NULL);
	if (rc)
		return rc;
	rc = clock_after(stored > p->last_ns ? stored : p->last_ns, &now);
	if (rc)
		return rc;
	header_set_time(h, 0);
	fence();
	header_set_payload(h, new);
	fence();
	header_set_time(h, now);
	header_name(h);
	p->last_ns = now;
	p->current = !p->current;
	return 0;
}

static int pub_put(struct pub *p, struct encoding *e, size_t keys_used, bool keep)
{
	int rc = encode_key_map(e, keymap_keys(), keys_used);

	if (!rc)
		rc = p->header ? pub_update(p, e, keep) : pub_first(p, e);
	if (!rc)
		keymap_commit(keys_used);
	return rc;
}

static int pub_publish(struct encoding *e)
{
	size_t used;
	struct pub *p;
	int rc = state_lock(&p);

	if (rc)
		return rc;
	used = keymap_used();
	if (e->key_map)
		rc = keymap_stage_value(e->key_map, &used);
	if (!rc)
		rc = pub_put(p, e, used, false);
	state_unlock(p);
	return rc;
}

int pctx_publish(const struct pctx_publish_opts *opts)
{
	struct pctx_publish_opts o;
	struct encoding e;
	int saved = errno, rc;

	if (!opts)
		return -EINVAL;
	rc = opts_take(&o, sizeof(o), opts);
	if (rc)
		return rc;
	encode_init(&e);
	rc = encode_context(&e, &o);
	if (!rc)
		rc = pub_publish(&e);
	encode_free(&e);
	errno = saved;
	return rc;
}

static int pub_append(struct encoding *e, const char *key, uint8_t *index)
{
	size_t used;
	struct pub *p;
	int rc = state_lock(&p), at;

	if (rc)
		return rc;
	at = keymap_find(key);
	if (at < 0) {
		used = keymap_used();
		rc = keymap_stage(key, strlen(key), &used);
		if (!rc && p->header)
			rc = pub_put(p, e, used, true);
		else if (!rc)
			keymap_commit(used);
		at = keymap_find(key);
	}
	state_unlock(p);
	if (!rc)
		*index = (uint8_t)at;
	return rc;
}

int pctx_key_map_append(const char *key, uint8_t *index)
{
	struct encoding e;
	int saved = errno, rc;

	if (!key || !index)
		return -EINVAL;
	rc = encode_key(key, strlen(key));
	if (rc)
		return rc;
	encode_init(&e);
	rc = pub_append(&e, key, index);
	encode_free(&e);
	errno = saved;
	return rc;
}

int pctx_unpublish(void)
{
	int saved = errno, rc;
	struct pub *p;

	rc = state_lock(&p);
	if (rc)
		return rc;
	if (p->header) {
		header_drop(p->header);
		slot_free(&p->slots[0]);
		slot_free(&p->slots[1]);
		p->header = NULL;
	} else {
		rc = -ENODATA;
	}
	state_unlock(p);
	errno = saved;
	return rc;
}

#else /* not Linux */

#include "pctx.h"

#include <errno.h>

/* The mechanism is Linux's. Programs build and link everywhere all the same. */

int pctx_publish(const struct pctx_publish_opts *opts)
{
	(void)opts;
	return -ENOSYS;
}

int pctx_key_map_append(const char *key, uint8_t *index)
{
	(void)key;
	(void)index;
	return -ENOSYS;
}

int pctx_unpublish(void)
{
	return -ENOSYS;
}

#endif /* __linux__ */
