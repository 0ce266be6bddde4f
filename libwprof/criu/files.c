/* files.c - the files of a level: what they are, and whether they are whole. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "criu/images.h"

/* "PREFIX<number>.img", the number as CRIU prints it */
static bool name_number(const char *name, const char *prefix, uint64_t *out)
{
	size_t len = strlen(prefix);
	char *end;

	if (strncmp(name, prefix, len) || name[len] < '0' || name[len] > '9' ||
	    (name[len] == '0' && name[len + 1] != '.'))
		return false;
	errno = 0;
	*out = strtoull(name + len, &end, 10);
	return !errno && !strcmp(end, ".img");
}

static void classify(struct file *file)
{
	if (name_number(file->name, "pagemap-", &file->id))
		file->kind = FILE_PAGEMAP;
	else if (name_number(file->name, "pagemap-shmem-", &file->id))
		file->kind = FILE_PAGEMAP_SHARED;
	else if (name_number(file->name, "pages-", &file->id))
		file->kind = FILE_PAGES;
	else
		file->kind = strcmp(file->name, IMG_RECORD) ? FILE_OTHER : FILE_RECORD;
}

/* Return: 1 for a regular file, 0 for what is no image, or an error. */
static int entry_counts(const struct level *level, const char *name, struct wprof_why *why)
{
	struct stat st;

	if (!strcmp(name, IMG_PARENT))
		return 0;
	if (fstatat(level->fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return why_system(why, -errno, "%s/%s", level->dir, name);
	if (S_ISLNK(st.st_mode))
		return why_set(why, WPROF_OUTSIDE, "%s/%s: a symbolic link; only files belong here",
			       level->dir, name);
	return S_ISREG(st.st_mode);
}

static int files_add(struct files *files, const char *name)
{
	struct file *list = files->list;

	if (!(files->n & (files->n - 1))) {
		list = reallocarray(list, files->n ? 2 * files->n : 1, sizeof(*list));
		if (!list)
			return -ENOMEM;
		files->list = list;
	}
	memset(&list[files->n], 0, sizeof(*list));
	snprintf(list[files->n].name, sizeof(list->name), "%s", name);
	classify(&list[files->n++]);
	return 0;
}

static int read_names(const struct level *level, DIR *d, struct files *files, struct wprof_why *why)
{
	struct dirent *entry;
	int rc;

	for (;;) {
		errno = 0;
		entry = readdir(d);
		if (!entry)
			return errno ? why_system(why, -errno, "%s", level->dir) : 0;
		rc = entry_counts(level, entry->d_name, why);
		if (rc > 0) {
			rc = files_add(files, entry->d_name);
			if (rc)
				why_system(why, rc, "%s", level->dir);
		}
		if (rc < 0)
			return rc;
	}
}

static int by_kind(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return strcmp(x->name, y->name);
}

int files_list(const struct level *level, struct files *files, struct wprof_why *why)
{
	int fd = openat(level->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	memset(files, 0, sizeof(*files));
	if (!d) {
		rc = why_system(why, -errno, "%s", level->dir);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	rc = read_names(level, d, files, why);
	closedir(d);
	if (rc)
		files_free(files);
	else if (files->n)
		qsort(files->list, files->n, sizeof(*files->list), by_kind);
	return rc;
}

void files_free(struct files *files)
{
	free(files->list);
	files->list = NULL;
	files->n = 0;
}

bool files_have(const struct files *files, const char *name)
{
	for (size_t i = 0; i < files->n; i++)
		if (!strcmp(files->list[i].name, name))
			return true;
	return false;
}

/* FNV-1a, 64 bit: it tells dumps apart, it does not resist forgery */
static uint64_t hash_more(uint64_t hash, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ data[i]) * 0x100000001b3u;
	return hash;
}

static int hash_file(const struct level *level, const char *name, uint64_t *hash,
		     struct wprof_why *why)
{
	uint8_t buf[16384];
	ssize_t got;
	int fd;

	fd = img_open_regular(level->fd, level->dir, name, why);
	if (fd < 0)
		return fd == -ENOENT ? why_system(why, fd, "%s/%s", level->dir, name) : fd;
	*hash = hash_more(*hash, (const uint8_t *)name, strlen(name) + 1);
	while ((got = read(fd, buf, sizeof(buf))) > 0 || (got < 0 && errno == EINTR))
		if (got > 0)
			*hash = hash_more(*hash, buf, (size_t)got);
	got = got < 0 ? -errno : 0;
	close(fd);
	return got ? why_system(why, (int)got, "%s/%s", level->dir, name) : 0;
}

int level_identity(const struct level *level, const struct files *files, uint64_t *out,
		   struct wprof_why *why)
{
	int rc;

	*out = 0xcbf29ce484222325u;
	rc = hash_file(level, IMG_INVENTORY, out, why);
	for (size_t i = 0; !rc && i < files->n; i++)
		if (files->list[i].kind == FILE_PAGEMAP)
			rc = hash_file(level, files->list[i].name, out, why);
	return rc;
}

/* A hole means that somebody took the data away, or never wrote zeros. */
static bool punched(int fd, uint64_t bytes)
{
	off_t hole = lseek(fd, 0, SEEK_HOLE);

	return hole >= 0 && (uint64_t)hole < bytes;
}

int level_pages(const struct level *level, uint32_t pages_id, uint64_t need, bool sparse,
		struct wprof_why *why)
{
	char name[IMG_NAME_MAX];
	struct stat st;
	int fd, rc = 0;

	snprintf(name, sizeof(name), "pages-%" PRIu32 ".img", pages_id);
	fd = img_open_regular(level->fd, level->dir, name, why);
	if (fd == -ENOENT && need && need != IMG_ANY)
		return why_set(why, WPROF_BAD_IMAGE,
			       "%s/%s: missing; a pagemap has %" PRIu64 " pages there", level->dir,
			       name, need / pm_page_bytes());
	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		rc = why_system(why, -errno, "%s/%s", level->dir, name);
	else if (need != IMG_ANY && (uint64_t)st.st_size != need)
		rc = why_set(why, WPROF_BAD_IMAGE,
			     "%s/%s: %llu bytes where its pagemap has %" PRIu64 "%s", level->dir,
			     name, (unsigned long long)st.st_size, need,
			     (uint64_t)st.st_size < need ? ": truncated" : "");
	else if (!sparse && punched(fd, (uint64_t)st.st_size))
		rc = why_set(
			why, WPROF_PUNCHED,
			"%s/%s has holes: data were punched out, as --auto-dedup and criu dedup "
			"do (if it is a sparse copy, say so)",
			level->dir, name);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static void count_entry(const struct pm_entry *e, struct wprof_images_map *map)
{
	map->n_entries++;
	if (e->flags & PE_PRESENT)
		map->present_pages += e->n_pages;
	else if (e->flags & PE_PARENT)
		map->parent_pages += e->n_pages;
	else
		map->lazy_pages += e->n_pages;
}

int level_scan(const struct level *level, const struct file *file, bool sparse,
	       struct wprof_images_map *map, struct wprof_why *why)
{
	struct pm_in pm;
	int rc, fd;

	memset(map, 0, sizeof(*map));
	map->id = file->id;
	map->shared = file->kind == FILE_PAGEMAP_SHARED;
	rc = pm_in_open(level->fd, level->dir, file->name, &pm, why);
	if (rc)
		return rc == -ENOENT ? why_system(why, rc, "%s/%s", level->dir, file->name) : rc;
	while ((rc = pm_next(&pm, why)) > 0)
		count_entry(&pm.e, map);
	map->pages_id = pm.pages_id;
	map->layout = pm.layout;
	if (!rc) {
		fd = level_pages(level, pm.pages_id, pm.next_offset, sparse, why);
		if (fd >= 0)
			close(fd);
		else if (fd != -ENOENT)
			rc = fd;
	}
	pm_in_close(&pm);
	return rc;
}
