/*
 * pagemap.c - the entries of one pagemap file, read and written.
 *
 * A file is checked as it is read, for everything later relies on it: entries
 * ascend and do not overlap, none is empty or unaligned, no sum overflows, each
 * says exactly once where its data are, and nothing is said in fields or flags
 * not known here. What cannot be understood cannot be rewritten.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "criu/images.h"
#include "pagemap.pb-c.h"

static const uint32_t pm_magic[] = { IMG_MAGIC_COMMON, IMG_MAGIC_PAGEMAP };

uint64_t pm_page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static int new_format(const struct img_in *in, const char *what, unsigned int n,
		      struct wprof_why *why)
{
	return why_set(why, WPROF_NEW_FORMAT,
		       "%s/%s, message %llu: %s %u is not known here (compressed pages, or a newer "
		       "CRIU): dump without it",
		       in->dir, in->name, (unsigned long long)in->n_messages, what, n);
}

static int pm_head(struct pm_in *pm, struct wprof_why *why)
{
	Img__PagemapHead *head;
	const uint8_t *data;
	size_t len;
	int rc;

	rc = img_in_next(pm->in, &data, &len, why);
	if (rc < 0)
		return rc;
	head = rc ? img__pagemap_head__unpack(NULL, len, data) : NULL;
	if (!head)
		return img_bad(pm->in, why, "no head that names the pages file");
	if (head->base.n_unknown_fields)
		rc = new_format(pm->in, "field", head->base.unknown_fields[0].tag, why);
	else
		rc = 0;
	pm->pages_id = head->pages_id;
	img__pagemap_head__free_unpacked(head, NULL);
	return rc;
}

int pm_in_open(int dir_fd, const char *dir, const char *name, struct pm_in *pm,
	       struct wprof_why *why)
{
	int rc;

	memset(pm, 0, sizeof(*pm));
	rc = img_in_open(dir_fd, dir, name, pm_magic, 2, &pm->in, why);
	if (rc)
		return rc;
	rc = pm_head(pm, why);
	if (rc)
		pm_in_close(pm);
	return rc;
}

void pm_in_close(struct pm_in *pm)
{
	img_in_close(pm->in);
	pm->in = NULL;
}

/* The count, from whichever field holds it; a file has one layout throughout. */
static int take_count(struct pm_in *pm, const Img__PagemapEntry *m, struct wprof_why *why)
{
	uint32_t layout = m->has_nr_pages ? 2 : 1;

	if (pm->layout && pm->layout != layout)
		return img_bad(pm->in, why, "entries of two layouts in one file");
	pm->layout = layout;
	pm->e.n_pages = m->has_nr_pages ? m->nr_pages : m->compat_nr_pages;
	if (!pm->e.n_pages)
		return img_bad(pm->in, why, "an entry of no pages");
	if (m->has_nr_pages && m->compat_nr_pages && m->compat_nr_pages != m->nr_pages)
		return img_bad(pm->in, why, "two counts that differ, %u and %" PRIu64,
			       m->compat_nr_pages, m->nr_pages);
	return 0;
}

static int take_flags(struct pm_in *pm, const Img__PagemapEntry *m, struct wprof_why *why)
{
	uint32_t where, flags = m->has_flags ? m->flags : 0;

	pm->e.in_parent = m->has_in_parent && m->in_parent;
	if (pm->e.in_parent)
		flags |= PE_PARENT;
	else if (!m->has_flags)
		flags = PE_PRESENT;
	if (flags & ~(PE_PARENT | PE_LAZY | PE_PRESENT))
		return new_format(pm->in, "flags", flags, why);
	where = flags & (PE_PARENT | PE_PRESENT);
	if (where == (PE_PARENT | PE_PRESENT) || !flags)
		return img_bad(pm->in, why, "flags 0x%x say %s where the data are", flags,
			       flags ? "twice" : "nowhere");
	pm->e.flags = flags;
	return 0;
}

/* Where the entry lies, after @floor, the end of the one before. */
static int take_place(struct pm_in *pm, uint64_t vaddr, uint64_t floor, struct wprof_why *why)
{
	uint64_t page = pm_page_bytes(), bytes, end;

	pm->e.start = vaddr;
	if (vaddr % page)
		return img_bad(pm->in, why, "address 0x%" PRIx64 " is no page boundary", vaddr);
	if (__builtin_mul_overflow(pm->e.n_pages, page, &bytes) ||
	    __builtin_add_overflow(vaddr, bytes, &end) || end > INT64_MAX)
		return img_bad(pm->in, why,
			       "%" PRIu64 " pages at 0x%" PRIx64 " go beyond any memory",
			       pm->e.n_pages, vaddr);
	if (vaddr < floor)
		return img_bad(pm->in, why, "0x%" PRIx64 " overlaps or precedes the entry before",
			       vaddr);
	pm->end = end;
	pm->offset = pm->next_offset;
	if (pm->e.flags & PE_PRESENT &&
	    (__builtin_add_overflow(pm->offset, bytes, &pm->next_offset) ||
	     pm->next_offset > INT64_MAX))
		return img_bad(pm->in, why, "more data than a file can hold");
	return 0;
}

static int take_entry(struct pm_in *pm, const Img__PagemapEntry *m, struct wprof_why *why)
{
	uint64_t floor = pm->end;
	int rc;

	if (m->base.n_unknown_fields)
		return new_format(pm->in, "field", m->base.unknown_fields[0].tag, why);
	rc = take_count(pm, m, why);
	if (!rc)
		rc = take_flags(pm, m, why);
	if (!rc)
		rc = take_place(pm, m->vaddr, floor, why);
	return rc;
}

int pm_next(struct pm_in *pm, struct wprof_why *why)
{
	Img__PagemapEntry *m;
	const uint8_t *data;
	size_t len;
	int rc;

	rc = pm->eof ? 0 : img_in_next(pm->in, &data, &len, why);
	if (rc <= 0) {
		pm->eof = true;
		return rc;
	}
	m = img__pagemap_entry__unpack(NULL, len, data);
	if (!m)
		return img_bad(pm->in, why, "not a pagemap entry");
	rc = take_entry(pm, m, why);
	img__pagemap_entry__free_unpacked(m, NULL);
	return rc ? rc : 1;
}

int pm_seek(struct pm_in *pm, uint64_t address, struct wprof_why *why)
{
	while (!pm->eof && pm->end <= address) {
		int rc = pm_next(pm, why);

		if (rc <= 0)
			return rc;
	}
	return !pm->eof;
}

void pm_out_head(struct img_out *out, uint32_t pages_id)
{
	Img__PagemapHead head = IMG__PAGEMAP_HEAD__INIT;

	head.pages_id = pages_id;
	img_out_magic(out, pm_magic, 2);
	img__pagemap_head__pack(&head,
				img_out_message(out, img__pagemap_head__get_packed_size(&head)));
}

/*
 * In the newer layout the old field is filled as well where the count fits: a
 * CRIU up to 4.1 then reads the same, instead of entries of no pages.
 */
void pm_out_entry(struct img_out *out, uint32_t layout, const struct pm_entry *e)
{
	Img__PagemapEntry m = IMG__PAGEMAP_ENTRY__INIT;

	m.vaddr = e->start;
	m.compat_nr_pages = e->n_pages <= UINT32_MAX ? (uint32_t)e->n_pages : 0;
	m.has_nr_pages = layout != 1;
	m.nr_pages = e->n_pages;
	m.has_flags = true;
	m.flags = e->flags;
	m.has_in_parent = m.in_parent = e->in_parent && e->flags & PE_PARENT;
	img__pagemap_entry__pack(&m, img_out_message(out, img__pagemap_entry__get_packed_size(&m)));
}
