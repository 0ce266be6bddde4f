/*
 * threads.c - which memory is a thread's stack.
 *
 * The kernel names the stack of the first thread only. Where another thread
 * sleeps in a system call, its stack pointer can be read: the mapping that
 * holds it is its stack. That is worth a few file reads a thread, so it is done
 * seldom, and for so many threads only.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "threads.h"

#define THREADS_MAX 256u

/* nr, six arguments, sp, pc; or -1 sp pc outside of a call; or "running" */
uint64_t threads_parse(const char *line)
{
	uint64_t sp = 0;

	if (sscanf(line, "-1 %" SCNx64, &sp) == 1)
		return sp;
	if (sscanf(line, "%*d %*x %*x %*x %*x %*x %*x %" SCNx64, &sp) == 1)
		return sp;
	return 0;
}

static uint64_t thread_sp(int dir, const char *tid)
{
	char path[300], line[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/syscall", tid);
	fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, line, sizeof(line) - 1);
	close(fd);
	line[n > 0 ? n : 0] = '\0';
	return threads_parse(line);
}

/* What is known of a thread from the look before, of which there were n */
static uint64_t thread_before(const struct thread *v, size_t n, pid_t tid)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].tid == tid)
			return v[i].sp;
	return 0;
}

static size_t threads_read(DIR *dir, const struct threads *before, struct thread *v)
{
	struct dirent *d;
	size_t n = 0;

	while (n < THREADS_MAX && (d = readdir(dir))) {
		pid_t tid = atoi(d->d_name);

		if (tid <= 0)
			continue;
		v[n].tid = tid;
		v[n].sp = thread_sp(dirfd(dir), d->d_name);
		if (!v[n].sp)
			v[n].sp = thread_before(before->v, before->n, tid);
		n++;
	}
	return n;
}

void threads_look(struct threads *threads, pid_t pid, uint64_t number)
{
	struct thread *v = malloc(THREADS_MAX * sizeof(*v));
	char path[48];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = v ? opendir(path) : NULL;
	threads->looked_at = number;
	if (!dir) {
		free(v);
		return;
	}
	threads->n = threads_read(dir, threads, v);
	closedir(dir);
	free(threads->v);
	threads->v = v;
}

void threads_close(struct threads *threads)
{
	free(threads->v);
	threads->v = NULL;
	threads->n = 0;
}
