/*
 * aside.c - a directory that appears whole or not at all.
 *
 * Theory of operation
 *
 * What is to stand at D is made in D.partial, which holds the file
 * unfinished.wprof from its first moment. At the end the directory is synced, then
 * its files, the mark is removed, the directory renamed to D, and it and the one
 * above synced. Where the machine or the program stops:
 *
 *	before the mark is there	D.partial is empty, the next run takes it
 *	while files are written		D.partial bears the mark: readers refuse it,
 *					the next run clears it
 *	between mark and rename		D.partial is whole and bears the record of
 *					withheld pages: the next run clears it
 *	after the rename		D is there, whole
 *
 * The names are synced before any file, so that after a loss of power no file is
 * there without the mark. That D comes back with the mark, from before it was
 * removed, is possible on a file system that does not keep the order of the two:
 * readers refuse it then. All files are synced together, at the end: they then
 * share one commit of the file system's journal, where each alone had its own.
 *
 * To replace a D, the two names are exchanged in one step; what stood there is then
 * D.partial, and removed. Only what bears the mark or the record is ever cleared:
 * anything else of that name is somebody's. A lock on D.partial keeps two runs
 * apart; it goes with the process.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "criu/images.h"

/* What tells that a directory is ours to clear. */
static const char *const ours[] = { IMG_RECORD, IMG_UNFINISHED };

static bool is_ours(const char *name)
{
	return !strcmp(name, IMG_RECORD) || !strcmp(name, IMG_UNFINISHED);
}

/* To be read from its beginning, and closed apart from @fd. */
static int dir_open(int fd, DIR **out)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	*out = copy < 0 ? NULL : fdopendir(copy);
	if (*out)
		return 0;
	rc = -errno;
	if (copy >= 0)
		close(copy);
	return rc ? rc : -EIO; /* never: for who reads this without errno(3) */
}

/*
 * Remove the files of @fd; subdirectories are never ours and make it fail. What
 * says that they are ours goes last: stopped midway, the next run goes on.
 */
static int clear_dir(int fd)
{
	struct dirent *entry;
	DIR *d;
	int rc = dir_open(fd, &d);

	if (rc)
		return rc;
	while (!rc && (entry = readdir(d)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
		    !is_ours(entry->d_name) && unlinkat(fd, entry->d_name, 0))
			rc = -errno;
	closedir(d);
	for (size_t i = 0; !rc && i < sizeof(ours) / sizeof(*ours); i++)
		if (unlinkat(fd, ours[i], 0) && errno != ENOENT)
			rc = -errno;
	return rc;
}

static bool dir_has(int fd, const char *name)
{
	struct stat st;

	return !fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW);
}

/* Return: 1, 0, or an error. */
static int dir_empty(int fd)
{
	struct dirent *entry;
	DIR *d;
	int rc = dir_open(fd, &d);

	if (rc)
		return rc;
	rc = 1;
	while (rc && (entry = readdir(d)))
		rc = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	closedir(d);
	return rc;
}

/* Two names for one: the path, and the same with ".partial" behind. */
static int aside_names(struct aside *aside, const char *path, struct wprof_why *why)
{
	char text[PATH_MAX], *slash;
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	if (!len || len >= sizeof(text))
		return why_system(why, -EINVAL, "%s", path);
	memcpy(text, path, len);
	text[len] = '\0';
	slash = strrchr(text, '/');
	aside->name = strdup(slash ? slash + 1 : text);
	if (!aside->name || asprintf(&aside->partial, "%s.partial", aside->name) < 0) {
		aside->partial = NULL;
		why_system(why, -ENOMEM, "%s", path);
		return -ENOMEM;
	}
	if (!*aside->name || !strcmp(aside->name, ".") || !strcmp(aside->name, ".."))
		return why_system(why, -EINVAL, "%s: not a name for a new directory", path);
	if (slash)
		slash[slash == text] = '\0';
	aside->above = open(slash ? text : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return aside->above < 0 ? why_system(why, -errno, "the directory of %s", path) : 0;
}

/* The open directory still bears the name: no other run has renamed it. */
static bool still_there(const struct aside *aside)
{
	struct stat a, b;

	return !fstat(aside->fd, &a) &&
	       !fstatat(aside->above, aside->partial, &b, AT_SYMLINK_NOFOLLOW) &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Make the open directory ours and empty. */
static int aside_claim(struct aside *aside, struct wprof_why *why)
{
	int rc;

	if (flock(aside->fd, LOCK_EX | LOCK_NB) || !still_there(aside))
		return why_system(why, -EBUSY, "%s: another run is making it", aside->name);
	if (dir_has(aside->fd, IMG_UNFINISHED) || dir_has(aside->fd, IMG_RECORD)) {
		rc = clear_dir(aside->fd);
		return rc ? why_system(why, rc, "%s: left by a run that stopped; remove it",
				       aside->partial)
			  : 0;
	}
	rc = dir_empty(aside->fd);
	if (rc < 0)
		return why_system(why, rc, "%s", aside->partial);
	if (!rc)
		return why_system(why, -EEXIST, "%s is in the way and not ours", aside->partial);
	return 0;
}

static int aside_take(struct aside *aside, struct wprof_why *why)
{
	bool made = !mkdirat(aside->above, aside->partial, 0700);
	int rc;

	if (!made && errno != EEXIST)
		return why_system(why, -errno, "%s", aside->partial);
	aside->fd = openat(aside->above, aside->partial,
			   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	rc = aside->fd < 0 ? why_system(why, -errno, "%s", aside->partial)
			   : aside_claim(aside, why);
	if (!rc)
		return 0;
	/* not ours: nothing in it may be cleared */
	if (aside->fd >= 0)
		close(aside->fd);
	aside->fd = -1;
	if (made)
		(void)!unlinkat(aside->above, aside->partial, AT_REMOVEDIR);
	return rc;
}

int aside_open(struct aside *aside, const char *path, bool sync, struct wprof_why *why)
{
	int rc, mark;

	memset(aside, 0, sizeof(*aside));
	aside->above = aside->fd = -1;
	aside->sync = sync;
	rc = aside_names(aside, path, why);
	if (!rc)
		rc = aside_take(aside, why);
	if (!rc) {
		mark = openat(aside->fd, IMG_UNFINISHED, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
			      0600);
		if (mark < 0)
			rc = why_system(why, -errno, "%s/" IMG_UNFINISHED, aside->partial);
		else
			close(mark);
	}
	if (rc)
		aside_close(aside);
	return rc;
}

int aside_copy(struct aside *aside, const struct level *from, const char *name,
	       struct wprof_why *why)
{
	int in, out = -1, rc;
	struct stat st;

	in = img_open_regular(from->fd, from->dir, name, why);
	if (in < 0)
		return in == -ENOENT ? why_system(why, in, "%s/%s", from->dir, name) : in;
	if (fstat(in, &st)) {
		rc = -errno;
		goto done;
	}
	out = openat(aside->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0777);
	rc = out < 0 ? -errno : img_move(in, 0, (uint64_t)st.st_size, out);
	if (out >= 0 && close(out) && !rc)
		rc = -errno;
	aside->bytes += (uint64_t)st.st_size;
done:
	close(in);
	return rc ? why_system(why, rc, "%s/%s", aside->partial, name) : 0;
}

/* Begin to write a file out, or wait until it is written. */
static int sync_file(const struct aside *aside, const char *name, bool wait)
{
	int fd, rc = 0;

	fd = openat(aside->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ELOOP ? 0 : -errno; /* the parent link: in the directory */
	if (wait && fsync(fd))
		rc = -errno;
	else if (!wait)
		/* only to have it begun; what fails here fails in fsync */
		(void)!sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	close(fd);
	return rc;
}

static int sync_files(const struct aside *aside, bool wait, struct wprof_why *why)
{
	int copy = openat(aside->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!d) {
		rc = why_system(why, -errno, "%s", aside->partial);
		if (copy >= 0)
			close(copy);
		return rc;
	}
	while (!rc && (entry = readdir(d))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		rc = sync_file(aside, entry->d_name, wait);
		if (rc)
			why_system(why, rc, "%s/%s", aside->partial, entry->d_name);
	}
	closedir(d);
	return rc;
}

static int aside_sync(struct aside *aside, struct wprof_why *why)
{
	int rc;

	if (!aside->sync)
		return 0;
	rc = sync_files(aside, false, why);
	if (!rc && fsync(aside->fd))
		rc = why_system(why, -errno, "%s", aside->partial);
	return rc ? rc : sync_files(aside, true, why);
}

static int aside_rename(struct aside *aside, bool replace)
{
	if (!replace)
		return renameat(aside->above, aside->partial, aside->above, aside->name);
	return renameat2(aside->above, aside->partial, aside->above, aside->name, RENAME_EXCHANGE);
}

int aside_commit(struct aside *aside, bool replace, struct wprof_why *why)
{
	int rc;

	rc = aside_sync(aside, why);
	if (rc)
		return rc;
	if (unlinkat(aside->fd, IMG_UNFINISHED, 0) || aside_rename(aside, replace)) {
		rc = errno == ENOTEMPTY ? -EEXIST : -errno;
		return why_system(why, rc, "%s", aside->name);
	}
	/* it stands from here on: what fails now only says that it may not last */
	if (aside->sync && (fsync(aside->above) || fsync(aside->fd)))
		rc = why_system(why, -errno, "the directory of %s", aside->name);
	close(aside->fd);
	aside->fd = -1;
	if (replace)
		aside->fd = openat(aside->above, aside->partial,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return rc;
}

void aside_close(struct aside *aside)
{
	/* errors here leave what the next run clears away */
	if (aside->fd >= 0 && aside->partial) {
		if (!clear_dir(aside->fd))
			(void)!unlinkat(aside->above, aside->partial, AT_REMOVEDIR);
		close(aside->fd);
	}
	if (aside->above >= 0)
		close(aside->above);
	aside->fd = aside->above = -1;
	free(aside->name);
	free(aside->partial);
	aside->name = aside->partial = NULL;
}
