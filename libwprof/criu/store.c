/*
 * store.c - the directory of all dumps, and what is noted beside the images.
 *
 *   ID/full, ID/ship    the images
 *   ID/dump.wprof       what dump it is: written before CRIU begins
 *   ID/excluded-PID     what it left out of a process
 *   ID/dump.log         CRIU's log
 *   ID.partial          being made
 *   ID.lost             part of a dump whose process is gone
 *   ID.failed.log       CRIU's log of a dump that failed
 *   PID.chain           the last dump of a process
 *
 * No id has a dot in it, so nothing else bears the name of a dump.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "criu/dump.h"
#include "why.h"

#define HEADER "wprof-dump 1\n"

int store_open(struct store *store, const char *path, struct wprof_why *why)
{
	char *real = realpath(path, NULL);
	int rc = 0;

	store->fd = -1;
	if (!real)
		return why_system(why, -errno, "the images directory %s", path);
	if (strlen(real) >= sizeof(store->path))
		rc = why_system(why, -ENAMETOOLONG, "the images directory");
	else
		memcpy(store->path, real, strlen(real) + 1);
	free(real);
	if (rc)
		return rc;
	store->fd = open(store->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store->fd < 0)
		return why_system(why, -errno, "the images directory %s", path);
	if (!flock(store->fd, LOCK_EX | LOCK_NB))
		return 0;
	store_close(store);
	return why_system(why, -EBUSY, "another dump into %s is being made; wait for its end",
			  path);
}

void store_close(struct store *store)
{
	if (store->fd >= 0)
		close(store->fd);
	store->fd = -1;
}

void store_path(const struct store *store, const char *id, const char *tail, char *out)
{
	snprintf(out, PATH_MAX, "%s/%s%s", store->path, id, tail);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path) && errno != ENOENT ? -errno : 0;
}

int store_remove(const char *path)
{
	int rc = nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);

	if (rc == -1)
		rc = -errno;
	return rc == -ENOENT ? 0 : rc;
}

/* ---- one dump ------------------------------------------------------------------- */

static bool parse_entry(FILE *f, struct store_entry *e)
{
	char header[sizeof(HEADER)], mode[16], kind[16], parent[DUMP_ID_MAX + 2];
	int leave, shell_job;

	if (!fgets(header, sizeof(header), f) || strcmp(header, HEADER))
		return false;
	if (fscanf(f,
		   "kind %15s leave_running %d mode %15s pid %d start_ticks %" SCNu64
		   " parent %65s shell_job %d",
		   kind, &leave, mode, &e->pid, &e->start_ticks, parent, &shell_job) != 7)
		return false;
	e->final = !strcmp(kind, "dump");
	e->leave_running = leave != 0;
	e->shell_job = shell_job != 0;
	if (!strcmp(parent, "-"))
		parent[0] = '\0';
	else if (!dump_id_valid(parent))
		return false;
	memcpy(e->parent, parent, strlen(parent) + 1);
	return (e->final || !strcmp(kind, "pre-dump")) && dump_mode_of(mode, &e->mode);
}

int store_read(const char *images, const char *id, struct store_entry *entry)
{
	char path[PATH_MAX];
	int rc = 0;
	FILE *f;

	memset(entry, 0, sizeof(*entry));
	if ((size_t)snprintf(path, sizeof(path), "%s/%s/dump.wprof", images, id) >= sizeof(path))
		return -ENAMETOOLONG;
	f = fopen(path, "re");
	if (!f)
		return -errno;
	if (!parse_entry(f, entry))
		rc = -EBADMSG;
	fclose(f);
	return rc;
}

/* A whole file or none: written beside, synced, renamed. */
static int put_file(const char *path, const char *text)
{
	char temp[PATH_MAX + 8];
	size_t len = strlen(text);
	int fd, rc = 0;

	snprintf(temp, sizeof(temp), "%s.tmp", path);
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	errno = ENOSPC; /* of a short write */
	if (write(fd, text, len) != (ssize_t)len || fsync(fd))
		rc = -errno;
	if (close(fd) && !rc)
		rc = -errno;
	if (!rc && rename(temp, path))
		rc = -errno;
	if (rc)
		unlink(temp);
	return rc;
}

int store_write(const char *dir, const struct store_entry *e)
{
	char path[PATH_MAX], text[512];

	snprintf(path, sizeof(path), "%s/dump.wprof", dir);
	snprintf(text, sizeof(text),
		 HEADER "kind %s\nleave_running %d\nmode %s\npid %d\nstart_ticks %" PRIu64
			"\nparent %s\nshell_job %d\n",
		 e->final ? "dump" : "pre-dump", e->leave_running, dump_mode_name(e->mode),
		 (int)e->pid, e->start_ticks, e->parent[0] ? e->parent : "-", e->shell_job);
	return put_file(path, text);
}

/* ---- the last dump of a process --------------------------------------------------- */

static void chain_path(const struct store *store, pid_t pid, char *path)
{
	snprintf(path, PATH_MAX, "%s/%d.chain", store->path, (int)pid);
}

void store_last(const struct store *store, const struct store_entry *of, char *id)
{
	char path[PATH_MAX], text[DUMP_ID_MAX + 2] = "";
	uint64_t start = 0;
	FILE *f;

	id[0] = '\0';
	chain_path(store, of->pid, path);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fscanf(f, "%" SCNu64 " %65s", &start, text) == 2 && start == of->start_ticks &&
	    dump_id_valid(text))
		memcpy(id, text, strlen(text) + 1);
	fclose(f);
}

int store_set_last(const struct store *store, const struct store_entry *of, const char *id)
{
	char path[PATH_MAX], text[DUMP_ID_MAX + 40];
	int rc;

	chain_path(store, of->pid, path);
	snprintf(text, sizeof(text), "%" PRIu64 " %s\n", of->start_ticks, id && *id ? id : ".");
	rc = put_file(path, text);
	if (!rc && fsync(store->fd))
		rc = -errno;
	return rc;
}
