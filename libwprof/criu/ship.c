/*
 * ship.c - withhold and complete: a level of the shipped chain is made.
 *
 * The files of the dump are copied, but for the pagemaps of its processes and
 * their pages files, which shipmap.c rewrites; shared memory is copied whole.
 * Before anything is written the dump is read through, so most of what is wrong is
 * found while there is nothing to undo.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "criu/images.h"

#define KNOWN_FLAGS (WPROF_IMAGES_SPARSE | WPROF_IMAGES_NO_SYNC)

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* No two pagemaps may share a pages file: the second would be rewritten wrongly. */
static int check_shared_pages(uint32_t *ids, size_t n, const char *dir, struct wprof_why *why)
{
	qsort(ids, n, sizeof(*ids), by_number);
	for (size_t i = 1; i < n; i++)
		if (ids[i] == ids[i - 1])
			return why_set(why, WPROF_BAD_IMAGE,
				       "%s: two pagemaps name pages-%" PRIu32 ".img", dir, ids[i]);
	return 0;
}

/* Read the pagemaps of the dump through. */
static int check_dump(struct ship *ship, struct wprof_why *why)
{
	const struct level *level = &ship->full.level[0];
	struct wprof_images_map map;
	uint32_t *ids;
	size_t n = 0;
	int rc = 0;

	ids = calloc(ship->files.n + 1, sizeof(*ids));
	if (!ids)
		return why_system(why, -ENOMEM, "%s", level->dir);
	for (size_t i = 0; !rc && i < ship->files.n; i++) {
		const struct file *file = &ship->files.list[i];

		if (file->kind != FILE_PAGEMAP && file->kind != FILE_PAGEMAP_SHARED)
			continue;
		rc = level_scan(level, file, ship->sparse, &map, why);
		ids[n++] = map.pages_id;
	}
	if (!rc)
		rc = check_shared_pages(ids, n, level->dir, why);
	free(ids);
	return rc;
}

/* Nothing of the levels below may have been punched out by this dump. */
static int check_below(struct ship *ship, struct wprof_why *why)
{
	struct files files;
	int rc = 0, fd;

	for (size_t k = 1; !rc && !ship->sparse && k < ship->full.n; k++) {
		rc = files_list(&ship->full.level[k], &files, why);
		if (rc)
			break;
		for (size_t i = 0; !rc && i < files.n; i++) {
			if (files.list[i].kind != FILE_PAGES || files.list[i].id > UINT32_MAX)
				continue;
			fd = level_pages(&ship->full.level[k], (uint32_t)files.list[i].id, IMG_ANY,
					 false, why);
			if (fd >= 0)
				close(fd);
			else if (fd != -ENOENT)
				rc = fd;
		}
		files_free(&files);
	}
	return rc;
}

static int check_full(struct ship *ship, struct wprof_why *why)
{
	struct record record;
	int rc;

	rc = record_read(&ship->full.level[0], &record, NULL, NULL, why);
	if (!rc && record.state == WPROF_IMAGES_WITHHELD)
		return why_system(why, -EINVAL, "%s was itself withheld from: name the full dump",
				  ship->full.level[0].dir);
	if (!rc)
		rc = files_list(&ship->full.level[0], &ship->files, why);
	if (!rc)
		rc = check_dump(ship, why);
	return rc ? rc : check_below(ship, why);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * The parent link of the shipped level: as asked for, or as the dump's. In a layout
 * ID/full, ID/ship the last part of the dump's names the full one: then ours names
 * the shipped one.
 */
static int parent_link(const struct ship *ship, char **out, struct wprof_why *why)
{
	const char *link = ship->full.level[0].parent, *want = ship->opts->parent, *last;
	char full[PATH_MAX];

	*out = NULL;
	if (want && !link)
		return why_system(why, -EINVAL, "%s has no parent, its copy cannot have one",
				  ship->full.level[0].dir);
	if (!link)
		return 0;
	if (!want && !strcmp(link, IMG_PARENT))
		return why_system(why, -EINVAL,
				  "%s holds its parent itself: say which one the "
				  "copy should have",
				  ship->full.level[0].dir);
	if (!realpath(ship->opts->full, full))
		return why_system(why, -errno, "%s", ship->opts->full);
	last = last_part(link);
	if (want)
		*out = strdup(want);
	else if (strcmp(last, last_part(full)))
		*out = strdup(link);
	else if (asprintf(out, "%.*s%s", (int)(last - link), link, ship->aside.name) < 0)
		*out = NULL;
	return *out ? 0 : why_system(why, -ENOMEM, "%s", link);
}

/* The shipped level below must have been made from the full level below. */
static int check_parent(struct ship *ship, struct wprof_why *why)
{
	const struct level *full = &ship->full.level[1];
	struct record record = { 0 };
	struct files files;
	uint64_t want, have;
	int rc;

	rc = files_list(full, &files, why);
	if (rc)
		return rc;
	rc = level_identity(full, &files, &want, why);
	files_free(&files);
	if (!rc)
		rc = record_read(&ship->below, &record, NULL, NULL, why);
	have = record.source;
	if (!rc && record.state == WPROF_IMAGES_PLAIN) {
		rc = files_list(&ship->below, &files, why);
		if (rc)
			return rc;
		rc = level_identity(&ship->below, &files, &have, why);
		files_free(&files);
	}
	if (!rc && have != want)
		rc = why_set(
			why, WPROF_OTHER_CHAIN,
			"%s was not made from %s: name its parent, or make the levels in order",
			ship->below.dir, full->dir);
	return rc;
}

/* Open the shipped level below and put the link to it into the new directory. */
static int ship_parent(struct ship *ship, struct wprof_why *why)
{
	struct level self = { .fd = ship->aside.fd, .dir = (char *)ship->opts->ship };
	int rc;

	rc = parent_link(ship, &self.parent, why);
	if (rc || !self.parent)
		return rc;
	rc = level_depth(self.fd, self.dir, ship->opts->root, &self.depth, why);
	if (!rc)
		rc = level_below(&self, &ship->below, why);
	if (rc > 0)
		rc = check_parent(ship, why);
	if (!rc && symlinkat(self.parent, ship->aside.fd, IMG_PARENT))
		rc = why_system(why, -errno, "%s/" IMG_PARENT, ship->aside.partial);
	free(self.parent);
	return rc;
}

/* The pages files that shipmap.c writes are not copied. */
static bool is_rewritten(const struct ship *ship, const struct file *file)
{
	struct stat st;

	return file->kind == FILE_PAGEMAP || file->kind == FILE_RECORD ||
	       !strcmp(file->name, IMG_UNFINISHED) ||
	       (file->kind == FILE_PAGES &&
		!fstatat(ship->aside.fd, file->name, &st, AT_SYMLINK_NOFOLLOW));
}

/* Pagemaps of processes sort first, so their pages files exist when others come. */
static int ship_files(struct ship *ship, struct wprof_why *why)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < ship->files.n; i++) {
		const struct file *file = &ship->files.list[i];

		if (file->kind == FILE_PAGEMAP)
			rc = ship_map(ship, file, why);
		else if (!is_rewritten(ship, file))
			rc = aside_copy(&ship->aside, &ship->full.level[0], file->name, why);
	}
	return rc;
}

static int record_open(struct ship *ship, struct wprof_why *why)
{
	struct record record = {
		.state = ship->fill ? WPROF_IMAGES_COMPLETE : WPROF_IMAGES_WITHHELD,
	};
	int rc;

	rc = level_identity(&ship->full.level[0], &ship->files, &record.source, why);
	if (rc)
		return rc;
	rc = img_out_open(&ship->record, ship->aside.fd, IMG_RECORD, 0600);
	if (rc)
		return why_system(why, rc, "%s/" IMG_RECORD, ship->aside.partial);
	record_head(&ship->record, &record);
	return 0;
}

static int record_close(struct ship *ship, struct wprof_why *why)
{
	int rc;

	record_tail(&ship->record);
	rc = img_out_close(&ship->record);
	ship->sum.written_bytes += ship->record.bytes + ship->aside.bytes;
	return rc ? why_system(why, rc, "%s/" IMG_RECORD, ship->aside.partial) : 0;
}

/*
 * May what stands at the ship's place be replaced? Only by completing what was
 * withheld from the same dump. Return: 1 yes, 0 nothing stands there, or an error.
 */
static int may_replace(const struct ship *ship, struct wprof_why *why)
{
	struct level old = { .dir = (char *)ship->opts->ship };
	struct record record;
	uint64_t source;
	int rc;

	old.fd = openat(ship->aside.above, ship->aside.name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (old.fd < 0)
		return errno == ENOENT ? 0 : why_system(why, -errno, "%s", old.dir);
	rc = record_read(&old, &record, NULL, NULL, why);
	close(old.fd);
	if (!rc && record.state != WPROF_IMAGES_PLAIN && ship->fill) {
		rc = level_identity(&ship->full.level[0], &ship->files, &source, why);
		if (!rc && source == record.source)
			return 1;
	}
	if (!rc && record.state != WPROF_IMAGES_PLAIN)
		rc = why_system(why, -EEXIST, "%s", old.dir);
	return rc;
}

static int ship_make(struct ship *ship, struct wprof_why *why)
{
	const struct wprof_images_ship *o = ship->opts;
	bool replace = false;
	int rc;

	rc = chain_open(o->full, o->root, &ship->full, why);
	if (!rc)
		rc = check_full(ship, why);
	if (!rc)
		rc = aside_open(&ship->aside, o->ship, !(o->flags & WPROF_IMAGES_NO_SYNC), why);
	if (!rc) {
		rc = may_replace(ship, why);
		replace = rc > 0;
		rc = rc < 0 ? rc : ship_parent(ship, why);
	}
	if (!rc)
		rc = record_open(ship, why);
	if (!rc)
		rc = ship_files(ship, why);
	if (!rc)
		rc = record_close(ship, why);
	return rc ? rc : aside_commit(&ship->aside, replace, why);
}

static int ship_run(struct ship *ship, struct wprof_images_shipped *shipped, struct wprof_why *why)
{
	int saved = errno, rc;

	ship->sparse = ship->opts->flags & WPROF_IMAGES_SPARSE;
	ship->below.fd = ship->record.fd = -1;
	ship->aside.above = ship->aside.fd = -1;
	rc = ship_make(ship, why);
	if (ship->record.fd >= 0)
		close(ship->record.fd);
	aside_close(&ship->aside);
	level_close(&ship->below);
	chain_close(&ship->full);
	files_free(&ship->files);
	if (!rc && shipped)
		*shipped = ship->sum;
	errno = saved;
	return rc;
}

/* Take the caller's options, however old or new its struct is. */
static int take_opts(const struct wprof_images_ship *opts, struct wprof_images_ship *o)
{
	memset(o, 0, sizeof(*o));
	if (!opts || opts->size < sizeof(opts->size))
		return -EINVAL;
	for (size_t i = sizeof(*o); i < opts->size; i++)
		if (((const char *)opts)[i])
			return -E2BIG;
	memcpy(o, opts, opts->size < sizeof(*o) ? opts->size : sizeof(*o));
	if (!o->full || !o->ship || o->flags & ~KNOWN_FLAGS || (o->n_hot && !o->hot))
		return -EINVAL;
	for (size_t i = 0; i < o->n_hot; i++)
		if (!o->hot[i].ranges)
			return -EINVAL;
	return 0;
}

static int ship_start(const struct wprof_images_ship *opts, bool fill,
		      struct wprof_images_shipped *shipped, struct wprof_why *why)
{
	struct wprof_images_ship o;
	struct ship *ship;
	int rc;

	why_clear(why);
	rc = take_opts(opts, &o);
	if (!rc && fill && o.n_hot)
		rc = -EINVAL;
	if (rc)
		return why_system(why, rc, "options of a level to ship");
	ship = calloc(1, sizeof(*ship));
	if (!ship)
		return why_system(why, -ENOMEM, "%s", o.ship);
	ship->opts = &o;
	ship->fill = fill;
	rc = ship_run(ship, shipped, why);
	free(ship);
	return rc;
}

int wprof_images_withhold(const struct wprof_images_ship *ship,
			  struct wprof_images_shipped *shipped, struct wprof_why *why)
{
	return ship_start(ship, false, shipped, why);
}

int wprof_images_complete(const struct wprof_images_ship *ship,
			  struct wprof_images_shipped *shipped, struct wprof_why *why)
{
	return ship_start(ship, true, shipped, why);
}
