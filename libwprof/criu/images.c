/* images.c - the public view of a chain: its levels, and whether it restores. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "criu/images.h"
#include "stats.pb-c.h"

struct wprof_images {
	struct chain chain;
	struct wprof_images_level *level;
	bool sparse;
};

/* What CRIU says of its own dump; a level without it is no worse for that. */
static int read_stats(const struct level *level, struct wprof_images_level *out,
		      struct wprof_why *why)
{
	static const uint32_t magic[] = { IMG_MAGIC_SERVICE, IMG_MAGIC_STATS };
	Img__Stats *stats = NULL;
	const uint8_t *data;
	struct img_in *in;
	size_t len;
	int rc;

	rc = img_in_open(level->fd, level->dir, IMG_STATS, magic, 2, &in, why);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	rc = img_in_next(in, &data, &len, why);
	if (rc > 0)
		stats = img__stats__unpack(NULL, len, data);
	rc = rc < 0 ? rc : stats ? 0 : img_bad(in, why, "not statistics of a dump");
	img_in_close(in);
	if (stats && stats->dump) {
		out->has_stats = true;
		out->frozen_us = stats->dump->frozen_time;
		out->scanned_pages = stats->dump->pages_scanned;
		out->written_pages = stats->dump->pages_written;
		out->skipped_pages = stats->dump->pages_skipped_parent;
	}
	if (stats)
		img__stats__free_unpacked(stats, NULL);
	return rc;
}

static int count_bytes(const struct level *level, const struct files *files,
		       struct wprof_images_level *out, struct wprof_why *why)
{
	struct stat st;

	for (size_t i = 0; i < files->n; i++) {
		if (fstatat(level->fd, files->list[i].name, &st, AT_SYMLINK_NOFOLLOW))
			return why_system(why, -errno, "%s/%s", level->dir, files->list[i].name);
		if (files->list[i].kind == FILE_PAGES)
			out->pages_bytes += (uint64_t)st.st_size;
		else
			out->other_bytes += (uint64_t)st.st_size;
	}
	return 0;
}

static int scan_maps(const struct wprof_images *images, const struct level *level,
		     const struct files *files, struct wprof_images_level *out,
		     struct wprof_why *why)
{
	struct wprof_images_map *maps = calloc(files->n + 1, sizeof(*maps));
	int rc = 0;

	if (!maps)
		return why_system(why, -ENOMEM, "%s", level->dir);
	out->maps = maps;
	for (size_t i = 0; !rc && i < files->n; i++) {
		const struct file *file = &files->list[i];

		if (file->kind == FILE_PAGEMAP || file->kind == FILE_PAGEMAP_SHARED)
			rc = level_scan(level, file, images->sparse, &maps[out->n_maps++], why);
	}
	return rc;
}

/* Add a withheld range to the map of its process. */
static int count_withheld(uint64_t id, const struct wprof_range *range, void *arg)
{
	struct wprof_images_level *level = arg;
	struct wprof_images_map *maps = (struct wprof_images_map *)level->maps;

	for (size_t i = 0; i < level->n_maps && !maps[i].shared; i++)
		if (maps[i].id == id)
			maps[i].withheld_pages += (range->end - range->start) / pm_page_bytes();
	return 0;
}

static int fill_level(const struct wprof_images *images, size_t k, struct wprof_why *why)
{
	const struct level *level = &images->chain.level[k];
	struct wprof_images_level *out = &images->level[k];
	struct record record;
	struct files files;
	int rc;

	out->dir = level->dir;
	out->parent = level->parent;
	out->uptime_us = level->uptime_us;
	rc = files_list(level, &files, why);
	if (rc)
		return rc;
	out->pre_dump = !files_have(&files, "pstree.img");
	rc = scan_maps(images, level, &files, out, why);
	if (!rc)
		rc = count_bytes(level, &files, out, why);
	if (!rc)
		rc = read_stats(level, out, why);
	if (!rc)
		rc = record_read(level, &record, count_withheld, out, why);
	if (!rc)
		out->state = record.state;
	files_free(&files);
	return rc;
}

/* Take the caller's options, however old or new its struct is. */
static int take_opts(const struct wprof_images_opts *opts, struct wprof_images_opts *o)
{
	memset(o, 0, sizeof(*o));
	if (!opts)
		return 0;
	if (opts->size < sizeof(opts->size))
		return -EINVAL;
	for (size_t i = sizeof(*o); i < opts->size; i++)
		if (((const char *)opts)[i])
			return -E2BIG;
	memcpy(o, opts, opts->size < sizeof(*o) ? opts->size : sizeof(*o));
	return o->flags & ~WPROF_IMAGES_SPARSE ? -EINVAL : 0;
}

static int images_fill(struct wprof_images *images, const char *dir, const char *root,
		       struct wprof_why *why)
{
	int rc;

	rc = chain_open(dir, root, &images->chain, why);
	if (rc)
		return rc;
	images->level = calloc(images->chain.n, sizeof(*images->level));
	if (!images->level)
		return why_system(why, -ENOMEM, "%s", dir);
	for (size_t k = 0; !rc && k < images->chain.n; k++)
		rc = fill_level(images, k, why);
	return rc;
}

int wprof_images_open(const char *dir, const struct wprof_images_opts *opts,
		      struct wprof_images **out, struct wprof_why *why)
{
	struct wprof_images_opts o;
	struct wprof_images *images;
	int saved = errno, rc;

	why_clear(why);
	rc = dir && out ? take_opts(opts, &o) : -EINVAL;
	if (rc)
		return why_system(why, rc, "options of wprof_images_open");
	images = calloc(1, sizeof(*images));
	if (!images)
		return why_system(why, -ENOMEM, "%s", dir);
	images->sparse = o.flags & WPROF_IMAGES_SPARSE;
	rc = images_fill(images, dir, o.root, why);
	if (rc)
		wprof_images_close(images);
	else
		*out = images;
	errno = saved;
	return rc;
}

void wprof_images_close(struct wprof_images *images)
{
	int saved = errno;

	if (!images)
		return;
	for (size_t k = 0; images->level && k < images->chain.n; k++)
		free((void *)images->level[k].maps);
	free(images->level);
	chain_close(&images->chain);
	free(images);
	errno = saved;
}

const struct wprof_images_level *wprof_images_levels(const struct wprof_images *images, size_t *n)
{
	*n = images ? images->chain.n : 0;
	return images ? images->level : NULL;
}

/* What collect_range() works for. */
struct collect {
	uint64_t id;
	struct wprof_ranges *set;
};

static int collect_range(uint64_t id, const struct wprof_range *range, void *arg)
{
	struct collect *c = arg;
	struct wprof_ranges *one;
	int rc;

	if (id != c->id)
		return 0;
	rc = wprof_ranges_new(range, 1, &one);
	if (rc)
		return rc;
	rc = wprof_ranges_unite(c->set, one);
	wprof_ranges_free(one);
	return rc;
}

int wprof_images_withheld(const struct wprof_images *images, size_t level, uint64_t id,
			  struct wprof_ranges **out, struct wprof_why *why)
{
	struct collect c = { .id = id };
	struct record record;
	int saved = errno, rc;

	why_clear(why);
	if (!images || !out || level >= images->chain.n)
		return why_system(why, -EINVAL, "no level %zu", level);
	rc = wprof_ranges_new(NULL, 0, &c.set);
	if (rc)
		return why_system(why, rc, "withheld ranges");
	rc = record_read(&images->chain.level[level], &record, collect_range, &c, why);
	if (rc)
		wprof_ranges_free(c.set);
	else
		*out = c.set;
	errno = saved;
	return rc;
}

/* ---- verify ------------------------------------------------------------------- */

/** struct check - one pagemap of the newest level being followed down */
struct check {
	const struct wprof_images_level *level;
	const struct wprof_images_map *map;
	struct wprof_images_verdict *verdict;
	wprof_images_lost_fn fn;
	void *arg;		       /* of fn */
	struct wprof_images_lost lost; /* to be told; empty: none */
};

static void tell_lost(struct check *c)
{
	if (c->lost.range.end && c->fn)
		c->fn(&c->lost, c->arg);
	memset(&c->lost, 0, sizeof(c->lost));
}

static void add_lost(struct check *c, uint64_t start, const struct found *at)
{
	uint64_t end = start + at->n_pages * pm_page_bytes();
	struct wprof_images_lost *last = &c->lost;

	c->verdict->lost_pages += at->n_pages;
	if (last->range.end == start && last->level == at->level && last->reason == at->lost) {
		last->range.end = end;
		return;
	}
	tell_lost(c);
	*last = (struct wprof_images_lost){
		.map = c->map,
		.range = { start, end },
		.level = at->level,
		.reason = at->lost,
	};
}

static int follow_hole(struct check *c, struct finder *finder, const struct pm_in *pm,
		       struct wprof_why *why)
{
	uint64_t at = pm->e.start, page = pm_page_bytes();
	struct found found;
	int rc;

	while (at < pm->end) {
		rc = finder_find(finder, at, (pm->end - at) / page, &found, why);
		if (rc)
			return rc;
		if (found.lost)
			add_lost(c, at, &found);
		else
			c->verdict->resolved_pages += found.n_pages;
		at += found.n_pages * page;
	}
	return 0;
}

static int follow_map(struct check *c, const struct chain *chain, struct wprof_why *why)
{
	const struct level *level = &chain->level[0];
	struct found here = { .lost = "data stayed with a lazy-pages server" };
	struct finder finder;
	char name[IMG_NAME_MAX];
	struct pm_in pm;
	int rc;

	snprintf(name, sizeof(name), "pagemap-%s%llu.img", c->map->shared ? "shmem-" : "",
		 (unsigned long long)c->map->id);
	rc = finder_open(&finder, chain, name);
	if (rc)
		return why_system(why, rc, "%s", level->dir);
	rc = pm_in_open(level->fd, level->dir, name, &pm, why);
	if (rc) {
		finder_close(&finder);
		return rc == -ENOENT ? why_system(why, rc, "%s/%s", level->dir, name) : rc;
	}
	while ((rc = pm_next(&pm, why)) > 0) {
		here.n_pages = pm.e.n_pages;
		if (pm.e.flags & PE_PARENT)
			rc = follow_hole(c, &finder, &pm, why);
		else if (!(pm.e.flags & PE_PRESENT))
			add_lost(c, pm.e.start, &here);
		if (rc < 0)
			break;
	}
	tell_lost(c);
	pm_in_close(&pm);
	finder_close(&finder);
	return rc;
}

/* What was withheld from the newest level has no entry there: it would be zeros. */
static int lose_withheld(uint64_t id, const struct wprof_range *range, void *arg)
{
	struct check *c = arg;
	const struct wprof_images_level *level = c->level;
	struct wprof_images_lost lost = { .range = *range, .reason = "withheld from this level" };

	for (size_t i = 0; i < level->n_maps; i++)
		if (!level->maps[i].shared && level->maps[i].id == id)
			lost.map = &level->maps[i];
	if (!lost.map)
		return -EBADMSG;
	c->verdict->lost_pages += (range->end - range->start) / pm_page_bytes();
	if (c->fn)
		c->fn(&lost, c->arg);
	return 0;
}

int wprof_images_verify(const struct wprof_images *images, wprof_images_lost_fn lost, void *arg,
			struct wprof_images_verdict *verdict, struct wprof_why *why)
{
	struct wprof_images_verdict v = { 0 };
	struct check c = { .verdict = &v, .fn = lost, .arg = arg };
	struct record record;
	int saved = errno, rc = 0;

	why_clear(why);
	if (!images || !verdict)
		return why_system(why, -EINVAL, "nothing to verify");
	c.level = &images->level[0];
	for (size_t i = 0; !rc && i < c.level->n_maps; i++) {
		c.map = &c.level->maps[i];
		rc = follow_map(&c, &images->chain, why);
	}
	if (!rc)
		rc = record_read(&images->chain.level[0], &record, lose_withheld, &c, why);
	v.restores = !v.lost_pages && !c.level->pre_dump;
	if (!rc)
		*verdict = v;
	errno = saved;
	return rc;
}
