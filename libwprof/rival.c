/*
 * rival.c - two profilers of one target.
 *
 * Theory of operation
 *
 * A VMA belongs to one userfaultfd; registering it with a second one answers
 * EBUSY. If two profilers shared a target, each would see a part of it, and
 * memory mapped anew would go to either. So the second is refused, and of several
 * that begin at the same instant exactly one may go on. There is no lock that all
 * of them could see (they may live in containers of their own, as other users);
 * what they do share is the target's list of VMAs, and that decides:
 *
 *	Whoever begins registers in ascending order, and stops at the first VMA
 *	that another profiler has. It undoes what it has and is refused.
 *
 * Two cannot both be refused. Say A stopped at x, which B had, and B at y, which A
 * had. A took y before it came to x, so y < x; B took x before it came to y, so
 * x < y. The same holds round a circle of more than two. Two cannot both go on
 * either, unless they met no VMA in common. A call that registers several VMAs
 * takes all of them or none: the kernel looks at all first, under one lock.
 *
 * Registering everything that can be registered in one order is thus the invariant;
 * what is met later, interval by interval, is skipped where it is busy: only one
 * that is about to be refused can have it.
 *
 * Before all that, and before a thread of the target is stopped for it, a look at
 * the mappings spares the second one the attempt. That look is no protection.
 *
 * Is a busy VMA another profiler's? Only memory that tracks writes the way we do
 * (WP_ASYNC) is. A target may do that itself; a virtual machine monitor might. Then
 * it has a descriptor open with that feature, and its memory is skipped and
 * reported. A descriptor that an injection is creating just now has no features
 * yet, so it is not taken for one of those.
 *
 * Limit: beside a target that tracks its own writes, two profilers are not told
 * apart from it, and each may get a part.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rival.h"

/* The third value of "API:\taa:FEATURES:IOCTLS" is not of interest. */
static bool uffd_tracks(int fds, const char *number)
{
	unsigned int features = 0;
	char path[64], info[512];
	const char *api;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "../fdinfo/%.20s", number);
	fd = openat(fds, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, info, sizeof(info) - 1);
	close(fd);
	info[n > 0 ? n : 0] = '\0';
	api = strstr(info, "API:");
	return api && sscanf(api, "API: %*x:%x", &features) == 1 &&
	       features & UFFD_FEATURE_WP_ASYNC;
}

static bool is_uffd(int fds, const char *number)
{
	static const char name[] = "anon_inode:[userfaultfd]";
	char link[sizeof(name)];
	ssize_t n = readlinkat(fds, number, link, sizeof(link));

	return n == (ssize_t)strlen(name) && !memcmp(link, name, strlen(name));
}

bool rival_is_target(pid_t pid)
{
	struct dirent *entry;
	bool found = false;
	char path[40];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir)))
		found = isdigit((unsigned char)*entry->d_name) &&
			is_uffd(dirfd(dir), entry->d_name) &&
			uffd_tracks(dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
	return found;
}

int rival_look(struct scan *s, struct maps *maps)
{
	uint64_t start = 0, end = 0;
	struct maps_entry e;
	int rc = maps_rewind(maps);

	while (!rc && (rc = maps_next(maps, &e)) > 0) {
		rc = 0;
		if (e.type == WPROF_VDSO)
			continue;
		start = end ? start : e.start;
		end = e.end;
	}
	return rc ?: end ? scan_tracked(s, start, end) : -ESRCH;
}
