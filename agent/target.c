#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bounded.h"
#include "pctx.h"
#include "target.h"

#define LISTED_MAX 16

static pid_t default_pid;
static const char *default_comm;

/** struct found - processes that match */
struct found {
	pid_t pids[LISTED_MAX];
	size_t n; /* may be more than there is room for */
};

void target_default(pid_t pid, const char *comm)
{
	default_pid = pid;
	default_comm = comm;
}

static void found_add(struct found *f, pid_t pid)
{
	if (f->n < LISTED_MAX)
		f->pids[f->n] = pid;
	f->n++;
}

/* One of them is what is wanted; none and several are errors in words. */
static int found_one(const struct found *f, const char *what, pid_t *pid, char *why, size_t room)
{
	size_t len;

	if (f->n == 1) {
		*pid = f->pids[0];
		return 0;
	}
	if (!f->n) {
		snprintf(why, room, "no process %s", what);
		return -ESRCH;
	}
	len = (size_t)snprintf(why, room, "%zu processes %s; name one by pid:", f->n, what);
	for (size_t i = 0; i < f->n && i < LISTED_MAX && len + 12 < room; i++)
		len += (size_t)snprintf(why + len, room - len, " %d", (int)f->pids[i]);
	if (f->n > LISTED_MAX && len + 5 < room)
		snprintf(why + len, room - len, " ...");
	return -EEXIST;
}

/* ---- by what /proc says ------------------------------------------------------- */

/* The value of "@key:" in /proc/PID/status, without the blanks around it. */
static bool status_value(pid_t pid, const char *key, char *out, size_t room)
{
	char path[40], line[512];
	size_t len = strlen(key);
	bool got = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!got && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, len) || line[len] != ':')
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(out, room, "%s", line + len + 1 + strspn(line + len + 1, " \t"));
		got = true;
	}
	fclose(f);
	return got;
}

/* Is @pid the number that the innermost of several PID namespaces gave it? */
static bool is_inner_pid(pid_t pid, const void *wanted)
{
	char value[256], *last;

	if (!status_value(pid, "NSpid", value, sizeof(value)))
		return false;
	last = strrchr(value, '\t');
	return last && strtol(last + 1, NULL, 10) == *(const pid_t *)wanted;
}

static bool has_comm(pid_t pid, const void *wanted)
{
	char path[40], comm[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fgets(comm, sizeof(comm), f))
		comm[0] = '\0';
	fclose(f);
	comm[strcspn(comm, "\n")] = '\0';
	/* the kernel keeps 15 bytes */
	return pid != getpid() && comm[0] && strncmp(comm, wanted, 15) == 0;
}

static int scan_proc(bool (*match)(pid_t pid, const void *wanted), const void *wanted,
		     struct found *f)
{
	DIR *proc = opendir("/proc");
	const struct dirent *e;

	if (!proc)
		return -errno;
	while ((e = readdir(proc))) {
		pid_t pid = isdigit((unsigned char)e->d_name[0])
				    ? (pid_t)strtol(e->d_name, NULL, 10)
				    : 0;

		if (pid > 0 && match(pid, wanted))
			found_add(f, pid);
	}
	closedir(proc);
	return 0;
}

static int find_pid(pid_t wanted, pid_t *pid, char *why, size_t room)
{
	struct found f = { .n = 0 };
	char path[40], what[80];
	int rc;

	snprintf(path, sizeof(path), "/proc/%d", (int)wanted);
	if (access(path, F_OK) == 0) {
		*pid = wanted;
		return 0;
	}
	rc = scan_proc(is_inner_pid, &wanted, &f);
	if (rc) {
		snprintf(why, room, "/proc cannot be read: %s", strerror(-rc));
		return rc;
	}
	snprintf(what, sizeof(what),
		 f.n ? "have the number %d in their containers"
		     : "has the number %d, nor has it in a container",
		 (int)wanted);
	return found_one(&f, what, pid, why, room);
}

static int find_comm(const char *comm, pid_t *pid, char *why, size_t room)
{
	struct found f = { .n = 0 };
	char what[80];
	int rc = scan_proc(has_comm, comm, &f);

	if (rc) {
		snprintf(why, room, "/proc cannot be read: %s", strerror(-rc));
		return rc;
	}
	snprintf(what, sizeof(what), "named %.32s", comm);
	return found_one(&f, what, pid, why, room);
}

/* ---- by context ------------------------------------------------------------------ */

static int find_service(const char *name, pid_t *pid, char *why, size_t room)
{
	struct bounded_pass pass = { 0 };
	struct pctx_reader_opts opts = { .size = sizeof(opts),
					 .read = bounded_read,
					 .read_arg = &pass };
	struct found f = { .n = LISTED_MAX };
	char what[120];
	int rc = pctx_find_service(name, &opts, f.pids, &f.n);

	snprintf(what, sizeof(what), "published the service name %.60s", name);
	if (rc == -ENODATA || rc == -EPERM) {
		snprintf(why, room, "no process %s%s", what,
			 rc == -EPERM
				 ? "; some may not be looked into: the agent lacks CAP_SYS_PTRACE"
				 : "");
		return -ESRCH;
	}
	if (rc == -ETIMEDOUT) {
		snprintf(why, room,
			 "no process that can be read %s; `pctx list' shows those that "
			 "do not answer",
			 what);
		return -ESRCH;
	}
	if (rc) {
		snprintf(why, room, "looking for the service failed: %s", strerror(-rc));
		return rc;
	}
	return found_one(&f, what, pid, why, room);
}

/** struct only - the processes with a context, and their name if it is the same */
struct only {
	struct found found;
	char name[TARGET_NAME_MAX + 1]; /* "" : they differ, or have none */
};

static int only_add(pid_t pid, int error, const struct pctx_context *context, void *arg)
{
	const struct pctx_attr *a = context ? pctx_context_find(context, "service.name") : NULL;
	struct only *only = arg;
	char name[TARGET_NAME_MAX + 1] = "";

	(void)error;
	if (!context)
		return 0;
	if (a && a->value.kind == PCTX_STRING && a->value.u.string.len <= TARGET_NAME_MAX)
		memcpy(name, a->value.u.string.data, a->value.u.string.len);
	if (!only->found.n)
		memcpy(only->name, name, sizeof(name));
	else if (strcmp(only->name, name))
		only->name[0] = '\0';
	found_add(&only->found, pid);
	return 0;
}

/* With the same name they may be one tree, of which the topmost is meant. */
static int find_only(pid_t *pid, char *why, size_t room)
{
	struct bounded_pass pass = { 0 };
	struct pctx_reader_opts opts = { .size = sizeof(opts),
					 .read = bounded_read,
					 .read_arg = &pass };
	struct only only = { .found = { .n = 0 } };
	int rc = pctx_each(&opts, only_add, &only);

	if (rc) {
		snprintf(why, room, "looking for a process context failed: %s", strerror(-rc));
		return rc;
	}
	if (only.found.n > 1 && only.name[0])
		return find_service(only.name, pid, why, room);
	return found_one(&only.found, "published a context", pid, why, room);
}

int target_find(const struct target_query *query, pid_t *pid, char *why, size_t room)
{
	if (query->pid)
		return find_pid(query->pid, pid, why, room);
	if (query->service_name[0])
		return find_service(query->service_name, pid, why, room);
	if (default_pid)
		return find_pid(default_pid, pid, why, room);
	if (default_comm)
		return find_comm(default_comm, pid, why, room);
	return find_only(pid, why, room);
}
