/*
 * level.c - one dump: a directory, its link to the one before, its files.
 *
 * A parent link is walked part by part with descriptors, never resolved by path:
 * it may go up only so far as the caller allows, and no part of it may be a link
 * itself. So nothing outside the images can be named, whatever a chain contains
 * and whoever renames directories meanwhile.
 */
#include <dirent.h>
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
#include "inventory.pb-c.h"

/* how far up the parent link of a chain may go when no root is named */
#define DEFAULT_DEPTH 2

/* How many directories @fd is below the one with @root's number; -EINVAL. */
static int count_up(int fd, const struct stat *root, unsigned int *depth)
{
	struct stat st, last = { 0 };
	int at = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC), up, rc = -EINVAL;

	for (*depth = 0; at >= 0 && !fstat(at, &st); ++*depth) {
		if (st.st_dev == root->st_dev && st.st_ino == root->st_ino)
			rc = 0;
		if (!rc || (st.st_dev == last.st_dev && st.st_ino == last.st_ino))
			break;
		last = st;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = up;
	}
	if (at < 0)
		return -errno;
	close(at);
	return rc;
}

int level_depth(int fd, const char *dir, const char *root, unsigned int *depth,
		struct wprof_why *why)
{
	struct stat st;
	int rc;

	*depth = DEFAULT_DEPTH;
	if (!root)
		return 0;
	if (stat(root, &st))
		return why_system(why, -errno, "%s", root);
	rc = count_up(fd, &st, depth);
	return rc ? why_system(why, rc, "%s is not a directory above %s", root, dir) : 0;
}

/* One part of a link. Return: a descriptor that replaces @at, or an error. */
static int walk_part(int at, const char *dir, const char *link, const char *part,
		     unsigned int *depth, struct wprof_why *why)
{
	bool up = !strcmp(part, "..");
	int fd;

	if (up && !*depth)
		return why_set(why, WPROF_OUTSIDE,
			       "%s: the parent link %s leads out of the images; name a root "
			       "directory above if it should",
			       dir, link);
	fd = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return why_set(why, WPROF_OUTSIDE,
			       "%s: in the parent link %s, %s is no directory itself", dir, link,
			       part);
	if (fd < 0)
		return why_system(why, -errno, "%s: parent link %s", dir, link);
	*depth += up ? -1u : 1;
	return fd;
}

int level_walk(int from, const char *dir, const char *link, unsigned int *depth,
	       struct wprof_why *why)
{
	char text[PATH_MAX], *save, *part;
	int at, next;

	if (*link == '/' || !*link || strlen(link) >= sizeof(text))
		return why_set(why, WPROF_OUTSIDE,
			       "%s: the parent link %s is not relative: the chain could not move",
			       dir, link);
	memcpy(text, link, strlen(link) + 1);
	at = openat(from, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (part = strtok_r(text, "/", &save); part && at >= 0;
	     part = strtok_r(NULL, "/", &save)) {
		if (!strcmp(part, "."))
			continue;
		next = walk_part(at, dir, link, part, depth, why);
		close(at);
		at = next;
		if (at < 0)
			return at;
	}
	next = at < 0 ? -1 : openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (next < 0)
		next = why_system(why, -errno, "%s: parent link %s", dir, link);
	if (at >= 0)
		close(at);
	return next;
}

static int read_inventory(struct level *level, struct wprof_why *why)
{
	static const uint32_t magic[] = { IMG_MAGIC_INVENTORY };
	Img__Inventory *inventory = NULL;
	struct img_in *in;
	const uint8_t *data;
	size_t len;
	int rc;

	rc = img_in_open(level->fd, level->dir, IMG_INVENTORY, magic, 1, &in, why);
	if (rc == -ENOENT)
		return why_set(why, WPROF_HALF_MADE,
			       "%s: no " IMG_INVENTORY
			       ": not a directory of CRIU images, or the dump "
			       "did not finish",
			       level->dir);
	if (rc)
		return rc;
	rc = img_in_next(in, &data, &len, why);
	if (rc > 0)
		inventory = img__inventory__unpack(NULL, len, data);
	if (inventory)
		level->uptime_us = inventory->has_dump_uptime ? inventory->dump_uptime : 0;
	rc = rc < 0 ? rc : inventory ? 0 : img_bad(in, why, "not an inventory");
	if (inventory)
		img__inventory__free_unpacked(inventory, NULL);
	img_in_close(in);
	return rc;
}

/* Note the text of the parent link. A directory of that name serves CRIU as well. */
static int read_link(struct level *level, struct wprof_why *why)
{
	char text[PATH_MAX];
	ssize_t len;

	len = readlinkat(level->fd, IMG_PARENT, text, sizeof(text) - 1);
	if (len < 0 && errno == ENOENT)
		return 0;
	if (len < 0 && errno == EINVAL)
		len = (ssize_t)strlen(strcpy(text, IMG_PARENT));
	if (len < 0)
		return why_system(why, -errno, "%s/" IMG_PARENT, level->dir);
	text[len] = '\0';
	level->parent = strdup(text);
	return level->parent ? 0 : why_system(why, -ENOMEM, "%s", level->dir);
}

/* What every level must be; level->fd and level->dir are set. */
static int level_check(struct level *level, struct wprof_why *why)
{
	struct stat st;
	int rc;

	if (!fstatat(level->fd, IMG_UNFINISHED, &st, AT_SYMLINK_NOFOLLOW))
		return why_set(
			why, WPROF_HALF_MADE,
			"%s: half made: the run that wrote it was stopped; remove it and run "
			"again",
			level->dir);
	if (fstat(level->fd, &st))
		return why_system(why, -errno, "%s", level->dir);
	level->dev = st.st_dev;
	level->ino = st.st_ino;
	rc = read_inventory(level, why);
	return rc ? rc : read_link(level, why);
}

int level_open(const char *dir, const char *root, struct level *level, struct wprof_why *why)
{
	int rc;

	memset(level, 0, sizeof(*level));
	level->dir = strdup(dir);
	level->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (level->fd < 0 || !level->dir)
		rc = why_system(why, level->dir ? -errno : -ENOMEM, "%s", dir);
	else
		rc = level_depth(level->fd, dir, root, &level->depth, why);
	if (!rc)
		rc = level_check(level, why);
	if (rc)
		level_close(level);
	return rc;
}

/* "a/b" and "../c" make "a/c": for people, the descriptor is what counts */
static char *join(const char *dir, const char *link)
{
	size_t len = strlen(dir);
	char *text;

	while (!strncmp(link, "../", 3) && len) {
		const char *slash = memrchr(dir, '/', len);
		size_t last = slash ? (size_t)(slash + 1 - dir) : 0;

		if (len == last || dir[len - 1] == '.')
			break;
		len = last ? last - 1 : 0;
		link += 3;
	}
	if (asprintf(&text, "%.*s%s%s", (int)len, dir, len ? "/" : "", link) < 0)
		return NULL;
	return text;
}

int level_below(const struct level *level, struct level *below, struct wprof_why *why)
{
	int rc;

	memset(below, 0, sizeof(*below));
	below->fd = -1;
	if (!level->parent)
		return 0;
	below->depth = level->depth;
	below->dir = join(level->dir, level->parent);
	if (!below->dir)
		return why_system(why, -ENOMEM, "%s", level->dir);
	below->fd = level_walk(level->fd, level->dir, level->parent, &below->depth, why);
	rc = below->fd < 0 ? below->fd : level_check(below, why);
	if (rc)
		level_close(below);
	return rc ? rc : 1;
}

void level_close(struct level *level)
{
	if (level->fd >= 0)
		close(level->fd);
	level->fd = -1;
	free(level->dir);
	free(level->parent);
	level->dir = level->parent = NULL;
}
