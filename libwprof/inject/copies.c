/*
 * copies.c - close the copies that children have inherited.
 *
 * A child that was forked by another thread between the two calls has a copy of
 * the descriptor, at the same number. It is made to close it, as its parent was.
 * A reader that comes upon the descriptor of somebody else at that number is
 * kept from closing it by kcmp().
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/clock.h"
#include "inject/facts.h"
#include "inject/take.h"
#include "why.h"

#define UFFD_LINK "anon_inode:[userfaultfd]"

static bool copy_is_here(int proc, pid_t pid, int uffd, int number)
{
	char link[sizeof(UFFD_LINK)];
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "%d/fd/%d", pid, number);
	n = readlinkat(proc, path, link, sizeof(link));
	if (n != (ssize_t)strlen(UFFD_LINK) || memcmp(link, UFFD_LINK, (size_t)n))
		return false;
	return syscall(SYS_kcmp, getpid(), pid, KCMP_FILE, uffd, number) == 0;
}

static int copy_close(pid_t pid, int number, uint64_t deadline_ns, struct wprof_why *why)
{
	struct tracee t;
	long ret;
	int err;

	err = take_thread(pid, &t, deadline_ns, why);
	if (err == -ESRCH)
		return 0; /* exited: closed */
	if (err)
		return err;
	err = tracee_call(&t, SYS_close, number, deadline_ns, &ret);
	if (tracee_let_go(&t) || err == -ESRCH)
		return 0;
	if (err)
		return why_set(why, WPROF_NO_THREAD,
			       "process %d, forked meanwhile, still holds the userfaultfd and does "
			       "not get to run",
			       pid);
	return 0;
}

/* One look at all processes; *n_closed: where it was found. */
static int copies_pass(DIR *dir, int uffd, int number, uint64_t deadline_ns, uint32_t *n_closed,
		       struct wprof_why *why)
{
	struct dirent *entry;
	int err = 0;
	pid_t pid;

	rewinddir(dir);
	while (!err && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)*entry->d_name))
			continue;
		pid = atoi(entry->d_name);
		if (pid == getpid() || !copy_is_here(dirfd(dir), pid, uffd, number))
			continue;
		err = copy_close(pid, number, deadline_ns, why);
		++*n_closed;
	}
	return err;
}

int copies_close(int uffd, int number, uint64_t deadline_ns, uint32_t *n_closed,
		 struct wprof_why *why)
{
	uint32_t found;
	DIR *dir;
	int err;

	dir = opendir("/proc");
	if (!dir)
		return why_system(why, -errno, "reading /proc");
	do {
		found = 0;
		err = copies_pass(dir, uffd, number, deadline_ns, &found, why);
		*n_closed += found;
	} while (!err && found);
	closedir(dir);
	return err;
}
