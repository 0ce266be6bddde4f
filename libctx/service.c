/* Looking through all processes of a procfs. */
#ifdef __linux__

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pctx.h"
#include "reader.h"
#include "target.h"

/* ---- the processes there are --------------------------------------------- */

struct pids {
	pid_t *pid;
	size_t n;
	size_t room;
};

static int pids_add(struct pids *p, pid_t pid)
{
	if (p->n == p->room) {
		size_t room = p->room ? 2 * p->room : 256;
		pid_t *grown = realloc(p->pid, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		p->pid = grown;
		p->room = room;
	}
	p->pid[p->n++] = pid;
	return 0;
}

static pid_t name_to_pid(const char *name)
{
	char *end;
	long n = strtol(name, &end, 10);

	return *name >= '1' && *name <= '9' && !*end && n <= INT32_MAX ? (pid_t)n : 0;
}

static int pid_compare(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int pids_list(struct pids *p, const char *procfs)
{
	DIR *dir = opendir(procfs ? procfs : "/proc");
	struct dirent *entry;
	int rc = 0;

	if (!dir)
		return errno == ENOENT || errno == ENOTDIR ? -EINVAL : -errno;
	while (rc == 0 && (entry = readdir(dir))) {
		pid_t pid = name_to_pid(entry->d_name);

		if (pid)
			rc = pids_add(p, pid);
	}
	if (rc == 0 && !p->n && !target_is_procfs(dirfd(dir)))
		rc = -EINVAL;
	closedir(dir);
	if (rc == 0 && p->n)
		qsort(p->pid, p->n, sizeof(*p->pid), pid_compare);
	return rc;
}

/* ---- all contexts -------------------------------------------------------- */

static int read_one(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_context **out)
{
	struct pctx_reader *reader;
	int rc = reader_open(pid, opts, &reader);

	if (rc)
		return rc;
	rc = pctx_reader_read(reader, out);
	pctx_reader_close(reader);
	return rc;
}

/* Errors of ours end the pass, those of a process are its own. */
static bool error_is_ours(int rc)
{
	return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE || rc == -EINVAL;
}

static int each_one(pid_t pid, const struct pctx_reader_opts *opts, pctx_each_fn *each, void *arg)
{
	struct pctx_context *context = NULL;
	int rc = (opts->read ? opts->read : read_one)(pid, opts, &context);

	if (error_is_ours(rc))
		return rc;
	if (rc == -ENODATA || rc == -ESRCH)
		return 0;
	rc = each(pid, rc, context, arg);
	pctx_context_free(context);
	return rc;
}

static int each_all(const struct pctx_reader_opts *opts, pctx_each_fn *each, void *arg)
{
	struct pids pids = { 0 };
	int rc = pids_list(&pids, opts->procfs);

	for (size_t i = 0; i < pids.n && rc == 0; i++)
		rc = each_one(pids.pid[i], opts, each, arg);
	free(pids.pid);
	return rc;
}

int pctx_each(const struct pctx_reader_opts *opts, pctx_each_fn *each, void *arg)
{
	struct pctx_reader_opts o;
	int saved = errno;
	int rc = reader_opts_take(&o, opts);

	if (rc == 0)
		rc = each_all(&o, each, arg);
	errno = saved;
	return rc;
}

/* ---- those of one service ------------------------------------------------ */

struct search {
	const char *name;
	size_t name_len;
	struct pids found;
	bool not_permitted;
	bool timed_out;
};

static bool is_service(const struct pctx_context *context, const struct search *s)
{
	const struct pctx_attr *attrs;
	size_t n;

	attrs = pctx_context_resource(context, &n);
	for (size_t i = 0; i < n; i++) {
		const struct pctx_value *v = &attrs[i].value;

		if (strcmp(attrs[i].key, "service.name") == 0)
			return v->kind == PCTX_STRING && v->u.string.len == s->name_len &&
			       memcmp(v->u.string.data, s->name, s->name_len) == 0;
	}
	return false;
}

static int search_one(pid_t pid, int error, const struct pctx_context *context, void *arg)
{
	struct search *s = arg;

	if (error == -EPERM)
		s->not_permitted = true;
	if (error == -ETIMEDOUT)
		s->timed_out = true;
	if (error || !is_service(context, s))
		return 0;
	return pids_add(&s->found, pid);
}

/* The parent by the fourth field of stat; 0 when there is none. */
static pid_t parent_of(pid_t pid, const char *procfs)
{
	char text[512], path[4096], *end;
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%d/stat", procfs ? procfs : "/proc", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	end = strrchr(text, ')');
	/* ") S 1234 " */
	return end && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

static bool found_has(const struct pids *found, pid_t pid)
{
	return bsearch(&pid, found->pid, found->n, sizeof(pid), pid_compare) != NULL;
}

/* A chain of parents ends; while processes come and go it could be read as a ring. */
#define ANCESTORS_MAX 4096

static bool has_ancestor(const struct pids *found, pid_t pid, const char *procfs)
{
	for (unsigned int i = 0; i < ANCESTORS_MAX; i++) {
		pid = parent_of(pid, procfs);
		if (pid <= 0)
			return false;
		if (found_has(found, pid))
			return true;
	}
	return false;
}

static int search_result(const struct search *s, const char *procfs, pid_t *pids, size_t *n)
{
	size_t n_top = 0;

	for (size_t i = 0; i < s->found.n; i++) {
		if (has_ancestor(&s->found, s->found.pid[i], procfs))
			continue;
		if (n_top < *n)
			pids[n_top] = s->found.pid[i];
		n_top++;
	}
	if (!n_top && s->timed_out)
		return -ETIMEDOUT;
	if (!n_top)
		return s->not_permitted ? -EPERM : -ENODATA;
	*n = n_top;
	return 0;
}

int pctx_find_service(const char *service_name, const struct pctx_reader_opts *opts, pid_t *pids,
		      size_t *n)
{
	struct search s = { .name = service_name, .name_len = strlen(service_name) };
	struct pctx_reader_opts o;
	int saved = errno;
	int rc = reader_opts_take(&o, opts);

	if (rc == 0)
		rc = each_all(&o, search_one, &s);
	if (rc == 0)
		rc = search_result(&s, o.procfs, pids, n);
	free(s.found.pid);
	errno = saved;
	return rc;
}

#else /* not Linux */

#include "pctx.h"

#include <errno.h>

int pctx_each(const struct pctx_reader_opts *opts, pctx_each_fn *each, void *arg)
{
	(void)opts;
	(void)each;
	(void)arg;
	return -ENOSYS;
}

int pctx_find_service(const char *service_name, const struct pctx_reader_opts *opts, pid_t *pids,
		      size_t *n)
{
	(void)service_name;
	(void)opts;
	(void)pids;
	(void)n;
	return -ENOSYS;
}

#endif /* __linux__ */
