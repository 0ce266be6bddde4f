/*
 * Fuzz target: what another process controls. The first byte says what follows.
 *
 *   'p'  a payload
 *   'm'  lines of maps text
 *   'd'  the files that a process without a context is described by, a byte 0xff
 *        between two of them: environ, cmdline, cgroup, mountinfo, status
 *   else a procfs made of files: a line of length in decimal, that much maps text,
 *        and the memory from address 0 on; read, polled, read again
 *
 * Besides crashes and what the sanitizers find, a context that comes out must keep
 * the promises of pctx.h: strings are UTF-8 without NUL, keys end.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "decode.h"
#include "maps.h"
#include "pctx.h"
#include "utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define PROMISE(x)                                           \
	do {                                                 \
		if (!(x)) {                                  \
			fprintf(stderr, "broken: %s\n", #x); \
			abort();                             \
		}                                            \
	} while (0)

static void walk_attrs(const struct pctx_attr *attrs, size_t n);

static void walk_value(const struct pctx_value *v)
{
	switch (v->kind) {
	case PCTX_STRING:
		PROMISE(utf8_valid(v->u.string.data, v->u.string.len));
		PROMISE(!memchr(v->u.string.data, 0, v->u.string.len));
		break;
	case PCTX_BYTES:
		for (size_t i = 0; i < v->u.bytes.len; i++)
			(void)*(const volatile uint8_t *)&v->u.bytes.data[i];
		break;
	case PCTX_ARRAY:
		for (size_t i = 0; i < v->u.array.n; i++)
			walk_value(&v->u.array.values[i]);
		break;
	case PCTX_KVLIST:
		walk_attrs(v->u.kvlist.attrs, v->u.kvlist.n);
		break;
	default:
		PROMISE(v->kind <= PCTX_KVLIST);
	}
}

static void walk_attrs(const struct pctx_attr *attrs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		PROMISE(utf8_valid(attrs[i].key, strlen(attrs[i].key)));
		walk_value(&attrs[i].value);
	}
}

static void walk(struct pctx_context *c)
{
	const struct pctx_attr *attrs;
	size_t n;

	attrs = pctx_context_resource(c, &n);
	walk_attrs(attrs, n);
	attrs = pctx_context_attributes(c, &n);
	walk_attrs(attrs, n);
	pctx_context_free(c);
}

static void fuzz_payload(const uint8_t *data, size_t len)
{
	struct pctx_context *c;

	if (decode_context(data, len, &c) == 0)
		walk(c);
}

static void fuzz_lines(const char *text, size_t len)
{
	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t line = end ? (size_t)(end - text) : len;
		struct maps_line m;

		if (maps_parse(text, line, &m)) {
			PROMISE(m.start < m.end);
			PROMISE(m.name >= text && m.name + m.name_len == text + line);
			(void)maps_is_candidate(&m);
		}
		text += line + (end != NULL);
		len -= line + (end != NULL);
	}
}

/* ---- a procfs made of files ---------------------------------------------------- */

static char root[] = "/tmp/pctx-fuzz-XXXXXX";
static const char *const files[] = { "environ", "cmdline", "cgroup", "mountinfo",
				     "status",	"maps",	   "mem",    "stat" };
#define N_DESCRIBING 5

static void root_remove(void)
{
	char path[64];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/7/%s", root, files[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/7", root);
	rmdir(path);
	rmdir(root);
}

static void file_put(const char *name, const void *data, size_t len)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/7/%s", root, name);
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		abort();
	close(fd);
}

static void root_make(void)
{
	static bool made;
	char path[64];

	if (made)
		return;
	if (!mkdtemp(root))
		abort();
	made = true;
	atexit(root_remove);
	snprintf(path, sizeof(path), "%s/7", root);
	if (mkdir(path, 0700))
		abort();
	file_put("stat", "7 (x) S 1", 9);
}

static void fuzz_process(const uint8_t *data, size_t len)
{
	struct pctx_reader_opts opts = { .size = sizeof(opts), .procfs = root, .attempts_max = 2 };
	const uint8_t *line = memchr(data, '\n', len);
	struct pctx_reader *reader;
	struct pctx_context *c;
	size_t maps_len, rest;
	bool changed;

	if (!line)
		return;
	maps_len = strtoul((const char *)data, NULL, 10);
	rest = len - (size_t)(line + 1 - data);
	if (maps_len > rest)
		maps_len = rest;
	root_make();
	file_put("maps", line + 1, maps_len);
	file_put("mem", line + 1 + maps_len, rest - maps_len);
	if (pctx_reader_open(7, &opts, &reader))
		abort();
	if (pctx_reader_read(reader, &c) == 0)
		walk(c);
	if (pctx_reader_poll(reader, &changed) == 0)
		PROMISE(!changed);
	if (pctx_reader_read(reader, &c) == 0)
		walk(c);
	pctx_reader_close(reader);
}

static void fuzz_detect(const uint8_t *data, size_t len)
{
	struct pctx_reader_opts opts = { .size = sizeof(opts), .procfs = root };
	struct pctx_context *c;

	root_make();
	for (size_t i = 0; i < N_DESCRIBING; i++) {
		const uint8_t *end = memchr(data, 0xff, len);
		size_t n = end ? (size_t)(end - data) : len;

		file_put(files[i], data, n);
		data += n + (end != NULL);
		len -= n + (end != NULL);
	}
	if (pctx_detect(7, &opts, &c) == 0) {
		PROMISE(pctx_context_detected(c));
		walk(c);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!len)
		return 0;
	if (data[0] == 'p')
		fuzz_payload(data + 1, len - 1);
	else if (data[0] == 'm')
		fuzz_lines((const char *)data + 1, len - 1);
	else if (data[0] == 'd')
		fuzz_detect(data + 1, len - 1);
	else
		fuzz_process(data, len);
	return 0;
}
