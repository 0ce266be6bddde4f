/*
 * Who is a process that published nothing: the default resource detection that
 * the OTEP asks a reader to fall back to.
 *
 * Everything comes from the process's directory in procfs. Each source that is
 * missing or not permitted only leaves its attributes out. Names are those of the
 * semantic conventions. What the environment says stands first and wins, as in
 * an SDK; OTEL_SERVICE_NAME wins over OTEL_RESOURCE_ATTRIBUTES.
 */
#ifdef __linux__

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena.h"
#include "container.h"
#include "context.h"
#include "otel_env.h"
#include "reader.h"
#include "target.h"
#include "utf8.h"

#define ATTRS_MAX 256
#define ARGS_MAX  256
#define FILE_MAX  ((size_t)256 * 1024) /* of environ, cmdline, mountinfo */

struct detection {
	struct target *target;
	struct pool *pool;
	struct pctx_attr attrs[ATTRS_MAX];
	size_t n;
	bool no_memory;
};

/* ---- attributes ---------------------------------------------------------- */

static bool has(const struct detection *d, const char *key)
{
	for (size_t i = 0; i < d->n; i++) {
		if (strcmp(d->attrs[i].key, key) == 0)
			return true;
	}
	return false;
}

/* A free attribute with this key, or NULL: the key is there, or no room. */
static struct pctx_value *add(struct detection *d, const char *key)
{
	if (d->n == ATTRS_MAX || has(d, key))
		return NULL;
	d->attrs[d->n].key = key;
	return &d->attrs[d->n++].value;
}

/* What procfs shows may be any bytes: each that is no text becomes a '?'. */
static bool text_value(struct detection *d, struct pctx_value *v, const char *text, size_t len)
{
	char *copy = pool_text(d->pool, text, len);

	if (!copy) {
		d->no_memory = true;
		return false;
	}
	if (!utf8_valid(copy, len)) {
		for (size_t i = 0; i < len; i++)
			copy[i] = (unsigned char)copy[i] < 0x80 ? copy[i] : '?';
	}
	v->kind = PCTX_STRING;
	v->u.string.data = copy;
	v->u.string.len = len;
	return true;
}

static void add_text(struct detection *d, const char *key, const char *text, size_t len)
{
	struct pctx_value *v = len ? add(d, key) : NULL;

	if (v && !text_value(d, v, text, len))
		d->n--;
}

static void add_int(struct detection *d, const char *key, int64_t n)
{
	struct pctx_value *v = add(d, key);

	if (v) {
		v->kind = PCTX_INT;
		v->u.integer = n;
	}
}

/* ---- files --------------------------------------------------------------- */

/* Up to FILE_MAX bytes and a NUL; to be freed. */
static char *file_read(struct detection *d, const char *name, size_t *len)
{
	int fd = target_file(d->target, name);
	char *data = fd < 0 ? NULL : malloc(FILE_MAX + 1);
	ssize_t n = 1;

	*len = 0;
	while (data && *len < FILE_MAX && n) {
		n = read(fd, data + *len, FILE_MAX - *len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			n = 0;
		*len += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	if (data)
		data[*len] = '\0';
	return data;
}

/* ---- the environment it began with --------------------------------------- */

/* As long as what could be published; looking for a key twice takes its time. */
#define VARIABLE_MAX ((size_t)PCTX_PAYLOAD_MAX)

static void add_pairs(struct detection *d, const char *text)
{
	struct attr_list list = { .n = 0 };
	struct arena arena;

	if (strlen(text) > VARIABLE_MAX)
		return;
	arena_init(&arena);
	if (otel_env_attributes(&arena, text, &list) == -ENOMEM)
		d->no_memory = true;
	for (size_t i = 0; i < list.n; i++) {
		const char *key = list.attrs[i].key;
		const struct pctx_value *v = &list.attrs[i].value;
		char *copy = pool_text(d->pool, key, strlen(key));

		if (copy)
			add_text(d, copy, v->u.string.data, v->u.string.len);
	}
	arena_free(&arena);
}

/* A variable in a block of NUL-terminated ones. */
static const char *variable(const char *block, size_t len, const char *name)
{
	size_t name_len = strlen(name);

	for (const char *p = block; p < block + len; p += strlen(p) + 1) {
		if (strncmp(p, name, name_len) == 0 && p[name_len] == '=')
			return p + name_len + 1;
	}
	return NULL;
}

static void detect_environment(struct detection *d)
{
	const char *value;
	size_t len;
	char *block = file_read(d, "environ", &len);

	if (!block)
		return;
	value = variable(block, len, "OTEL_SERVICE_NAME");
	if (value)
		add_text(d, "service.name", value, strlen(value));
	value = variable(block, len, "OTEL_RESOURCE_ATTRIBUTES");
	if (value)
		add_pairs(d, value);
	free(block);
}

/* ---- process ------------------------------------------------------------- */

static void add_arguments(struct detection *d, const char *block, size_t len)
{
	struct pctx_value *values = pool_alloc(d->pool, ARGS_MAX * sizeof(*values));
	struct pctx_value *v = values ? add(d, "process.command_args") : NULL;
	size_t n = 0;

	if (!v)
		return;
	for (const char *p = block; p < block + len && n < ARGS_MAX; p += strlen(p) + 1) {
		if (!text_value(d, &values[n++], p, strlen(p)))
			break;
	}
	v->kind = PCTX_ARRAY;
	v->u.array.values = values;
	v->u.array.n = n;
}

static void detect_command(struct detection *d)
{
	size_t len;
	char *block = file_read(d, "cmdline", &len);

	if (block && len) {
		add_text(d, "process.command", block, strlen(block));
		add_arguments(d, block, len);
	}
	free(block);
}

/* The kernel puts this behind the path of a file that no directory has any more. */
static size_t deleted_len(const struct detection *d, const char *path, size_t len)
{
	static const char mark[] = " (deleted)";
	size_t mark_len = sizeof(mark) - 1;
	struct stat st;

	if (len <= mark_len || memcmp(path + len - mark_len, mark, mark_len) != 0)
		return 0;
	/* a file may have such a name */
	return fstatat(d->target->dir, "exe", &st, 0) == 0 && !st.st_nlink ? mark_len : 0;
}

static void detect_executable(struct detection *d)
{
	char path[4096], *base;
	ssize_t n = readlinkat(d->target->dir, "exe", path, sizeof(path) - 1);

	if (n <= 0)
		return;
	n -= (ssize_t)deleted_len(d, path, (size_t)n);
	path[n] = '\0';
	base = strrchr(path, '/');
	add_text(d, "process.executable.path", path, (size_t)n);
	if (base)
		add_text(d, "process.executable.name", base + 1, strlen(base + 1));
}

/* A number behind "@label" at the start of a line of /proc/PID/status. */
static bool status_number(const char *status, const char *label, unsigned int nth, long *out)
{
	const char *p = strstr(status, label);
	char *end;

	if (!p)
		return false;
	p += strlen(label);
	for (unsigned int i = 0; i <= nth; i++, p = end) {
		*out = strtol(p, &end, 10);
		if (end == p)
			return false;
	}
	return true;
}

static void detect_status(struct detection *d)
{
	size_t len;
	long n;
	char *status = file_read(d, "status", &len);

	add_int(d, "process.pid", d->target->process);
	if (status && status_number(status, "\nPPid:", 0, &n) && n > 0)
		add_int(d, "process.parent_pid", n);
	/* real, effective, saved, file system */
	if (status && status_number(status, "\nUid:", 1, &n))
		add_int(d, "process.user.id", n);
	free(status);
}

static void detect_container(struct detection *d)
{
	char id[CONTAINER_ID_LEN + 1];
	bool found = false;
	size_t len;
	char *text = file_read(d, "cgroup", &len);

	if (text)
		found = container_from_cgroup(text, id);
	free(text);
	if (!found) {
		/* in a cgroup namespace of its own the path says nothing */
		text = file_read(d, "mountinfo", &len);
		if (text)
			found = container_from_mounts(text, id);
		free(text);
	}
	if (found)
		add_text(d, "container.id", id, CONTAINER_ID_LEN);
}

/* An SDK that is told no name says unknown_service:PROGRAM. */
static void detect_unknown_service(struct detection *d)
{
	char name[300] = "unknown_service";
	size_t used = strlen(name), len;
	char *comm = file_read(d, "comm", &len);

	if (comm && len)
		snprintf(name + used, sizeof(name) - used, ":%.*s", (int)strcspn(comm, "\n"), comm);
	free(comm);
	add_text(d, "service.name", name, strlen(name));
}

/* ---- all ----------------------------------------------------------------- */

static int detect_all(struct detection *d, struct pctx_context *c)
{
	struct pctx_attr *attrs;

	detect_environment(d);
	detect_unknown_service(d);
	detect_status(d);
	detect_executable(d);
	detect_command(d);
	detect_container(d);
	if (target_gone(d->target))
		return -ESRCH;
	attrs = pool_alloc(&c->pool, d->n * sizeof(*attrs));
	if (!attrs || d->no_memory)
		return -ENOMEM;
	memcpy(attrs, d->attrs, d->n * sizeof(*attrs));
	c->resource = attrs;
	c->n_resource = d->n;
	c->detected = true;
	return 0;
}

static int detect_new(struct target *t, struct pctx_context **out)
{
	struct detection *d = calloc(1, sizeof(*d));
	struct pctx_context *c = context_new(8 * FILE_MAX);
	int rc = -ENOMEM;

	if (d && c) {
		d->target = t;
		d->pool = &c->pool;
		rc = detect_all(d, c);
	}
	free(d);
	if (rc)
		pctx_context_free(c);
	else
		*out = c;
	return rc;
}

int pctx_detect(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_context **out)
{
	struct pctx_reader_opts o;
	struct target t;
	int saved = errno;
	int rc = reader_opts_take(&o, opts);

	if (rc == 0)
		rc = target_open(&t, pid, o.procfs);
	if (rc == 0) {
		rc = detect_new(&t, out);
		target_close(&t);
	}
	errno = saved;
	return rc;
}

#else /* not Linux */

#include "pctx.h"

#include <errno.h>

int pctx_detect(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_context **out)
{
	(void)pid;
	(void)opts;
	(void)out;
	return -ENOSYS;
}

#endif /* __linux__ */
