/* task.c - what /proc says of a process that is to be dumped. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "criu/dump.h"
#include "maps.h"

/* SIGKILL as /proc/PID/stat has it among the pending ones, and the kernel's PF_EXITING */
#define PENDING_KILL (1ul << (SIGKILL - 1))
#define IS_EXITING   0x4u

int task_read(pid_t pid, struct task *task)
{
	char path[40], text[1024], state;
	unsigned long pending;
	const char *behind;
	unsigned int flags;
	long n_threads;
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = pid > 0 ? fopen(path, "re") : NULL;
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[n] = '\0';
	behind = strrchr(text, ')'); /* a command may have one in its name */
	memset(task, 0, sizeof(*task));
	task->pid = pid;
	/* fields 3, 6, 7, 9, 20, 22 and 31 */
	if (!behind || sscanf(behind + 1,
			      " %c %*d %*d %d %d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d"
			      " %*d %ld %*d %" SCNu64 " %*u %*d %*u %*u %*u %*u %*u %*u %lu",
			      &state, &task->session, &task->terminal, &flags, &n_threads,
			      &task->start_ticks, &pending) != 7)
		return -ESRCH;
	task->is_dying = (pending & PENDING_KILL) || ((flags & IS_EXITING) && n_threads < 2);
	/* not yet waited for by its parent: gone; its first thread alone may end earlier */
	return strchr("ZXx", state) && n_threads < 2 ? -ESRCH : 0;
}

uint64_t task_inner_pid(pid_t pid)
{
	uint64_t inner = (uint64_t)pid;
	char path[40], line[512];
	const char *last;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		last = strrchr(line, '\t');
		if (!strncmp(line, "NSpid:", 6) && last)
			inner = strtoull(last, NULL, 10);
	}
	if (f)
		fclose(f);
	return inner;
}

static bool thread_has_children(pid_t pid, const char *tid)
{
	char path[320];
	bool has;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid, tid);
	f = fopen(path, "re");
	has = f && getc(f) != EOF;
	if (f)
		fclose(f);
	return has;
}

bool task_has_children(pid_t pid)
{
	const struct dirent *e;
	bool has = false;
	char path[40];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && !has && (e = readdir(d)))
		has = e->d_name[0] != '.' && thread_has_children(pid, e->d_name);
	if (d)
		closedir(d);
	return has;
}

int task_vmas(pid_t pid, struct wprof_range **vmas, size_t *n)
{
	struct wprof_range *list = NULL, *more;
	struct maps_entry e;
	struct maps *maps;
	size_t room = 0;
	int rc;

	*n = 0;
	rc = maps_open(pid, &maps);
	if (rc)
		return rc;
	while ((rc = maps_next(maps, &e)) > 0) {
		if (e.start >> 63) /* the vsyscall page */
			continue;
		if (*n == room) {
			room = room ? 2 * room : 64;
			more = reallocarray(list, room, sizeof(*list));
			if (!more) {
				rc = -ENOMEM;
				break;
			}
			list = more;
		}
		list[(*n)++] = (struct wprof_range){ e.start, e.end };
	}
	maps_close(maps);
	if (rc)
		free(list);
	else
		*vmas = list;
	return rc;
}
