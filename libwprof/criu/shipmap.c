/*
 * shipmap.c - one pagemap rewritten: the core of withholding and completing.
 *
 * Theory of operation
 *
 * Let F be the full chain and S the shipped one, levels 1 (first dump) to n. The
 * invariant, for each process and each level k:
 *
 *	(I) S_k has an entry for a page only if F_k has, and following it down S
 *	    gives the data that following it down F gives.
 *
 * A level is made by this rule alone; H_k is what is hot at the level:
 *
 *	page in F_k	in H_k	otherwise
 *	present		dropped	present, the data copied
 *	hole		dropped	a hole if S_(k-1) has an entry, else dropped; when
 *				completing: present, with the data found down F
 *
 * (I) holds for a copied page; for a hole because F_k's data are F_(k-1)'s and
 * (I) holds for k-1; for a filled page because its data come from F. A dropped
 * page has no entry. So an older copy further down S is never taken for a newer
 * one: CRIU ends its search at the first level without an entry. A completed level
 * drops nothing: every page of F_n is in S_n, and each was found in F, or it is
 * refused; so it restores alone.
 *
 * Regions that grow, shrink, move or vanish need no rule: only entries count.
 *
 * Everything is read forward once, F_k, S_(k-1) and the levels of F below, since
 * entries ascend; one entry of each is held. Runs whose data are consecutive in one
 * file are moved by one call. An entry of F_k is split where the rule changes, and
 * never joined with its neighbour.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "criu/images.h"

/** struct source - the pages file that data are being taken from */
struct source {
	int fd;
	size_t level;
	uint32_t pages_id;
	uint64_t from, len; /* to be moved, when more cannot be joined */
};

/** struct job - one process of the level */
struct job {
	struct ship *ship;
	const struct file *file;
	const struct wprof_range *hot; /* not yet passed */
	size_t n_hot;
	struct pm_in in;      /* of the dump */
	struct pm_in below;   /* of the shipped level below; in NULL: none */
	struct finder finder; /* in the full chain */
	struct source source;
	struct pm_entry e;	     /* to be written; no pages: none */
	struct wprof_range withheld; /* to be recorded; empty: none */
	struct img_out *pagemap;
	int pages_fd;
	const char *pages_name;
	uint64_t pages_bytes;
};

static int move_pending(struct job *job, struct wprof_why *why)
{
	struct source *s = &job->source;
	int rc;

	if (!s->len)
		return 0;
	rc = img_move(s->fd, s->from, s->len, job->pages_fd);
	job->pages_bytes += s->len;
	s->len = 0;
	if (rc == -ENODATA)
		return why_set(why, WPROF_BAD_IMAGE, "%s/pages-%" PRIu32 ".img: truncated",
			       job->ship->full.level[s->level].dir, s->pages_id);
	return rc ? why_system(why, rc, "%s/%s", job->ship->aside.partial, job->pages_name) : 0;
}

/* Make @level's pages file the source; level 0's must fit its pagemap. */
static int source_open(struct job *job, size_t level, uint32_t pages_id, struct wprof_why *why)
{
	const struct level *l = &job->ship->full.level[level];
	struct source *s = &job->source;

	if (s->fd >= 0 && s->level == level && s->pages_id == pages_id)
		return 0;
	if (s->fd >= 0)
		close(s->fd);
	s->level = level;
	s->pages_id = pages_id;
	s->fd = level_pages(l, pages_id, IMG_ANY, job->ship->sparse, why);
	if (s->fd == -ENOENT)
		return why_set(why, WPROF_BAD_IMAGE, "%s/pages-%" PRIu32 ".img: missing", l->dir,
			       pages_id);
	return s->fd < 0 ? s->fd : 0;
}

static int put_data(struct job *job, const struct found *at, struct wprof_why *why)
{
	struct source *s = &job->source;
	uint64_t bytes = at->n_pages * pm_page_bytes();
	int rc;

	if (s->len && (s->level != at->level || s->pages_id != at->pages_id ||
		       s->from + s->len != at->offset)) {
		rc = move_pending(job, why);
		if (rc)
			return rc;
	}
	rc = source_open(job, at->level, at->pages_id, why);
	if (rc)
		return rc;
	if (!s->len)
		s->from = at->offset;
	s->len += bytes;
	return 0;
}

static void put_entry(struct job *job, const struct pm_entry *e)
{
	struct pm_entry *last = &job->e;

	if (last->n_pages && e && last->flags == e->flags &&
	    last->start + last->n_pages * pm_page_bytes() == e->start) {
		last->n_pages += e->n_pages;
		return;
	}
	if (last->n_pages)
		pm_out_entry(job->pagemap, job->in.layout, last);
	last->n_pages = 0;
	if (e)
		*last = *e;
}

static void put_withheld(struct job *job, uint64_t start, uint64_t end)
{
	struct wprof_range *last = &job->withheld;

	if (last->end == start && last->end) {
		last->end = end;
		return;
	}
	if (last->end)
		record_range(&job->ship->record, job->file->id, last);
	last->start = start;
	last->end = end;
}

/* Is @at hot? Until @until, at most @end, the answer stays. */
static bool hot_at(struct job *job, uint64_t at, uint64_t end, uint64_t *until)
{
	while (job->n_hot && job->hot->end <= at) {
		job->hot++;
		job->n_hot--;
	}
	*until = end;
	if (!job->n_hot || job->hot->start >= end)
		return false;
	if (job->hot->start > at) {
		*until = job->hot->start;
		return false;
	}
	if (job->hot->end < end)
		*until = job->hot->end;
	return true;
}

/* Has the shipped level below an entry for @at? As hot_at(). Return: 1, 0, an error. */
static int below_at(struct job *job, uint64_t at, uint64_t end, uint64_t *until,
		    struct wprof_why *why)
{
	struct pm_in *pm = &job->below;
	int rc;

	*until = end;
	if (!pm->in)
		return 0;
	rc = pm_seek(pm, at, why);
	if (rc <= 0)
		return rc;
	if (pm->e.start > at) {
		if (pm->e.start < end)
			*until = pm->e.start;
		return 0;
	}
	if (pm->end < end)
		*until = pm->end;
	return 1;
}

/* A piece whose data are in the dump itself. */
static int ship_present(struct job *job, struct pm_entry *e, struct wprof_why *why)
{
	struct found at = {
		.n_pages = e->n_pages,
		.offset = job->in.offset + (e->start - job->in.e.start),
		.pages_id = job->in.pages_id,
	};

	job->ship->sum.present_pages += e->n_pages;
	put_entry(job, e);
	return put_data(job, &at, why);
}

/* Where the full chain has the data of a hole; @e is cut to what lies together there. */
static int find_full(struct job *job, struct pm_entry *e, struct found *at, struct wprof_why *why)
{
	const struct chain *full = &job->ship->full;
	int rc;

	rc = finder_find(&job->finder, e->start, e->n_pages, at, why);
	if (rc)
		return rc;
	if (at->lost)
		return why_set(why, WPROF_BAD_IMAGE,
			       "%s/%s: page 0x%" PRIx64 " does not resolve in %s: %s",
			       full->level[0].dir, job->file->name, e->start,
			       full->level[at->level].dir, at->lost);
	e->n_pages = at->n_pages;
	return 0;
}

/* A hole the shipped chain cannot resolve, while completing: fill it from @full. */
static int ship_fill(struct job *job, struct pm_entry *e, struct wprof_why *why)
{
	struct found at;
	int rc;

	rc = find_full(job, e, &at, why);
	if (rc)
		return rc;
	e->flags = (e->flags & ~PE_PARENT) | PE_PRESENT;
	e->in_parent = false;
	job->ship->sum.filled_pages += e->n_pages;
	put_entry(job, e);
	return put_data(job, &at, why);
}

/* A hole of the dump, from e->start; e->n_pages is cut to what was dealt with. */
static int ship_hole(struct job *job, struct pm_entry *e, uint64_t end, struct wprof_why *why)
{
	bool is_below;
	struct found at;
	uint64_t until;
	int rc;

	rc = below_at(job, e->start, end, &until, why);
	if (rc < 0)
		return rc;
	is_below = rc;
	e->n_pages = (until - e->start) / pm_page_bytes();
	if (is_below) {
		/* (I) says what it leads to, not that it leads anywhere */
		rc = job->ship->fill ? find_full(job, e, &at, why) : 0;
		if (rc)
			return rc;
		job->ship->sum.parent_pages += e->n_pages;
		put_entry(job, e);
		return 0;
	}
	if (job->ship->fill)
		return ship_fill(job, e, why);
	job->ship->sum.withheld_pages += e->n_pages;
	put_withheld(job, e->start, until);
	return 0;
}

static int ship_lazy(struct job *job, struct pm_entry *e, struct wprof_why *why)
{
	if (job->ship->fill)
		return why_set(why, WPROF_BAD_IMAGE,
			       "%s/%s: page 0x%" PRIx64 " stayed with a lazy-pages server: dump "
			       "without --lazy-pages",
			       job->ship->full.level[0].dir, job->file->name, e->start);
	put_entry(job, e);
	return 0;
}

/* One piece of the current entry, from @at. Return: 0 and *@next behind it. */
static int ship_piece(struct job *job, uint64_t at, uint64_t *next, struct wprof_why *why)
{
	struct pm_entry e = job->in.e;
	uint64_t page = pm_page_bytes(), until;
	int rc = 0;

	e.start = at;
	if (hot_at(job, at, job->in.end, &until)) {
		job->ship->sum.withheld_pages += (until - at) / page;
		put_withheld(job, at, until);
		*next = until;
		return 0;
	}
	e.n_pages = (until - at) / page;
	if (e.flags & PE_PRESENT)
		rc = ship_present(job, &e, why);
	else if (e.flags & PE_PARENT)
		rc = ship_hole(job, &e, until, why);
	else
		rc = ship_lazy(job, &e, why);
	*next = at + e.n_pages * page;
	return rc;
}

static int ship_entries(struct job *job, struct wprof_why *why)
{
	uint64_t at;
	int rc;

	while ((rc = pm_next(&job->in, why)) > 0) {
		for (at = job->in.e.start; at < job->in.end;) {
			rc = ship_piece(job, at, &at, why);
			if (rc)
				return rc;
		}
		put_entry(job, NULL);
		if (job->pagemap->error)
			break;
	}
	if (rc < 0)
		return rc;
	put_withheld(job, 0, 0);
	return move_pending(job, why);
}

static int job_inputs(struct job *job, struct wprof_why *why)
{
	const struct ship *ship = job->ship;
	const struct level *level = &ship->full.level[0];
	int rc;

	rc = pm_in_open(level->fd, level->dir, job->file->name, &job->in, why);
	if (rc == -ENOENT)
		why_system(why, rc, "%s/%s", level->dir, job->file->name);
	if (!rc && ship->below.fd >= 0) {
		rc = pm_in_open(ship->below.fd, ship->below.dir, job->file->name, &job->below, why);
		if (rc == -ENOENT)
			rc = 0;
	}
	if (!rc) {
		rc = finder_open(&job->finder, &ship->full, job->file->name);
		if (rc)
			why_system(why, rc, "%s", level->dir);
	}
	return rc;
}

static int job_outputs(struct job *job, struct wprof_why *why)
{
	const struct aside *aside = &job->ship->aside;
	struct stat st = { 0 };
	int rc;

	(void)!fstat(job->in.in->fd, &st);
	job->pagemap = malloc(sizeof(*job->pagemap));
	rc = !job->pagemap
		     ? -ENOMEM
		     : img_out_open(job->pagemap, aside->fd, job->file->name, st.st_mode & 0777);
	if (rc)
		return why_system(why, rc, "%s/%s", aside->partial, job->file->name);
	job->pages_fd = openat(aside->fd, job->pages_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
			       st.st_mode & 0777);
	if (job->pages_fd < 0)
		return why_system(why, -errno, "%s/%s", aside->partial, job->pages_name);
	pm_out_head(job->pagemap, job->in.pages_id);
	return 0;
}

/* Close both outputs; the first error counts. */
static int job_finish(struct job *job, int rc, struct wprof_why *why)
{
	const struct aside *aside = &job->ship->aside;
	int error;

	if (job->pages_fd >= 0 && close(job->pages_fd) && !rc)
		rc = why_system(why, -errno, "%s/%s", aside->partial, job->pages_name);
	if (job->pagemap) {
		error = img_out_close(job->pagemap);
		if (!rc && error)
			rc = why_system(why, error, "%s/%s", aside->partial, job->file->name);
		job->ship->sum.written_bytes += job->pagemap->bytes + job->pages_bytes;
	}
	return rc;
}

/* Everything hot of this process, as one set. */
static int hot_set(const struct wprof_images_ship *opts, uint64_t id, struct wprof_ranges **out)
{
	struct wprof_ranges *set;
	int rc;

	rc = wprof_ranges_new(NULL, 0, &set);
	for (size_t i = 0; !rc && i < opts->n_hot; i++) {
		if (opts->hot[i].id && opts->hot[i].id != id)
			continue;
		rc = wprof_ranges_unite(set, opts->hot[i].ranges);
		if (rc)
			wprof_ranges_free(set);
	}
	if (!rc)
		*out = set;
	return rc;
}

int ship_map(struct ship *ship, const struct file *file, struct wprof_why *why)
{
	struct job job = { .ship = ship, .file = file, .pages_fd = -1, .source.fd = -1 };
	struct wprof_ranges *hot = NULL;
	char pages_name[IMG_NAME_MAX];
	int rc;

	rc = hot_set(ship->opts, file->id, &hot);
	if (rc)
		return why_system(why, rc, "hot ranges of %s", file->name);
	job.hot = wprof_ranges_list(hot, &job.n_hot);
	rc = job_inputs(&job, why);
	if (!rc) {
		snprintf(pages_name, sizeof(pages_name), "pages-%" PRIu32 ".img", job.in.pages_id);
		job.pages_name = pages_name;
		rc = job_outputs(&job, why);
	}
	if (!rc)
		rc = ship_entries(&job, why);
	rc = job_finish(&job, rc, why);
	free(job.pagemap);
	pm_in_close(&job.in);
	pm_in_close(&job.below);
	finder_close(&job.finder);
	if (job.source.fd >= 0)
		close(job.source.fd);
	wprof_ranges_free(hot);
	return rc;
}
