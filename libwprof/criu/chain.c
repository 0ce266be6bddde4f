/*
 * chain.c - dumps down to the first, and where a page's data are.
 *
 * CRIU looks a hole up in the level below; if that has a hole too, one further
 * down. A level without any entry for the page ends the search: it is lost, also
 * when a level further down has it, whose data would be older. Each level is read
 * forward once, whatever the number of pages, and holds one entry at a time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "criu/images.h"

/* The level seen before: a link that leads back would never end. */
static bool chain_has(const struct chain *chain, const struct level *level)
{
	for (size_t i = 0; i < chain->n; i++)
		if (chain->level[i].dev == level->dev && chain->level[i].ino == level->ino)
			return true;
	return false;
}

static int chain_add(struct chain *chain, struct level *level, struct wprof_why *why)
{
	struct level *list;
	int rc;

	if (chain_has(chain, level)) {
		rc = why_set(why, WPROF_BAD_IMAGE, "%s: its parent links lead back to itself",
			     chain->level[0].dir);
		goto fail;
	}
	if (!(chain->n & (chain->n - 1))) {
		list = reallocarray(chain->level, chain->n ? 2 * chain->n : 1, sizeof(*list));
		if (!list) {
			rc = why_system(why, -ENOMEM, "%s", level->dir);
			goto fail;
		}
		chain->level = list;
	}
	chain->level[chain->n++] = *level;
	return 0;
fail:
	level_close(level);
	return rc;
}

int chain_open(const char *dir, const char *root, struct chain *chain, struct wprof_why *why)
{
	struct level level;
	int rc;

	memset(chain, 0, sizeof(*chain));
	rc = level_open(dir, root, &level, why);
	if (!rc)
		rc = chain_add(chain, &level, why);
	while (!rc && (rc = level_below(&chain->level[chain->n - 1], &level, why)) > 0)
		rc = chain_add(chain, &level, why);
	if (rc)
		chain_close(chain);
	return rc;
}

void chain_close(struct chain *chain)
{
	for (size_t i = 0; i < chain->n; i++)
		level_close(&chain->level[i]);
	free(chain->level);
	memset(chain, 0, sizeof(*chain));
}

int finder_open(struct finder *finder, const struct chain *chain, const char *name)
{
	memset(finder, 0, sizeof(*finder));
	finder->chain = chain;
	snprintf(finder->name, sizeof(finder->name), "%s", name);
	finder->pm = calloc(chain->n, sizeof(*finder->pm));
	finder->looked = calloc(chain->n, sizeof(*finder->looked));
	if (finder->pm && finder->looked)
		return 0;
	finder_close(finder);
	return -ENOMEM;
}

void finder_close(struct finder *finder)
{
	for (size_t i = 0; finder->pm && i < finder->chain->n; i++)
		pm_in_close(&finder->pm[i]);
	free(finder->pm);
	free(finder->looked);
	finder->pm = NULL;
	finder->looked = NULL;
}

/* The pagemap of level @k; NULL with *@rc 0 when the level has none. */
static struct pm_in *finder_level(struct finder *finder, size_t k, int *rc, struct wprof_why *why)
{
	const struct level *level = &finder->chain->level[k];
	struct pm_in *pm = &finder->pm[k];

	*rc = 0;
	if (!finder->looked[k]) {
		*rc = pm_in_open(level->fd, level->dir, finder->name, pm, why);
		if (*rc == -ENOENT)
			*rc = 0;
		finder->looked[k] = true;
	}
	return *rc || !pm->in ? NULL : pm;
}

static void found_limit(struct found *out, uint64_t from, uint64_t to)
{
	uint64_t n = (to - from) / pm_page_bytes();

	if (n < out->n_pages)
		out->n_pages = n;
}

/* Look at one level. Return: 1 go one further down, 0 the answer is in @out. */
static int find_at(struct pm_in *pm, uint64_t address, struct found *out)
{
	if (pm->eof || address < pm->e.start) {
		if (!pm->eof)
			found_limit(out, address, pm->e.start);
		out->lost = "no entry there";
		return 0;
	}
	found_limit(out, address, pm->end);
	if (pm->e.flags & PE_PARENT)
		return 1;
	if (pm->e.flags & PE_PRESENT) {
		out->offset = pm->offset + (address - pm->e.start);
		out->pages_id = pm->pages_id;
	} else {
		out->lost = "data stayed with a lazy-pages server";
	}
	return 0;
}

int finder_find(struct finder *finder, uint64_t address, uint64_t n_pages, struct found *out,
		struct wprof_why *why)
{
	struct pm_in *pm;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	out->n_pages = n_pages;
	for (size_t k = 1; k < finder->chain->n; k++) {
		out->level = k;
		pm = finder_level(finder, k, &rc, why);
		if (!pm) {
			out->lost = "no pagemap of the process there";
			return rc;
		}
		rc = pm_seek(pm, address, why);
		if (rc < 0)
			return rc;
		if (!find_at(pm, address, out))
			return 0;
	}
	out->lost = "no level below";
	return 0;
}
