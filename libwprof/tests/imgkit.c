#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "imgkit.h"

static void die(const char *what, const char *name)
{
	fprintf(stderr, "%s: %s: %s\n", what, name, strerror(errno));
	abort();
}

void kit_put(const char *dir, const char *name, const void *data, size_t len)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	if (!f || fwrite(data, 1, len, f) != len || fclose(f))
		die("write", path);
}

void kit_hex(const char *dir, const char *name, const char *hex)
{
	uint8_t bytes[4096];
	size_t n = 0;
	int skip;

	for (unsigned int byte; sscanf(hex, " %2x%n", &byte, &skip) == 1; hex += skip)
		bytes[n++] = (uint8_t)byte;
	kit_put(dir, name, bytes, n);
}

static size_t put_u32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
	return 4;
}

static size_t put_varint(uint8_t *p, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		p[n++] = (uint8_t)(v | 0x80);
	p[n++] = (uint8_t)v;
	return n;
}

/* A field of a whole number: wire type 0. */
static size_t put_field(uint8_t *p, unsigned int field, uint64_t v)
{
	size_t n = put_varint(p, field << 3);

	return n + put_varint(p + n, v);
}

void kit_level(const char *dir, const char *parent, uint64_t uptime_us)
{
	uint8_t b[64];
	size_t n, len;
	char path[PATH_MAX];

	if (mkdir(dir, 0755))
		die("mkdir", dir);
	n = put_u32(b, 0x58313116);
	len = put_field(b + n + 4, 1, 1);
	len += put_field(b + n + 4 + len, 8, uptime_us);
	n += put_u32(b + n, (uint32_t)len);
	kit_put(dir, "inventory.img", b, n + len);
	snprintf(path, sizeof(path), "%s/parent", dir);
	if (parent && symlink(parent, path))
		die("symlink", path);
}

static void grow(uint8_t **p, size_t len, size_t more)
{
	/* in powers of two, which the length tells */
	size_t room = 4096;

	while (room < len)
		room *= 2;
	if (*p && len + more <= room)
		return;
	while (room < len + more)
		room *= 2;
	*p = realloc(*p, room);
	if (!*p)
		die("realloc", "image");
}

static void map_message(struct kit_map *map, const uint8_t *m, size_t len)
{
	grow(&map->map, map->map_len, len + 4);
	map->map_len += put_u32(map->map + map->map_len, (uint32_t)len);
	memcpy(map->map + map->map_len, m, len);
	map->map_len += len;
}

void kit_map_begin(struct kit_map *map, const char *dir, const char *name, unsigned int pages_id,
		   int layout)
{
	uint8_t m[16] = { 0 };

	memset(map, 0, sizeof(*map));
	snprintf(map->dir, sizeof(map->dir), "%s", dir);
	snprintf(map->name, sizeof(map->name), "%s", name);
	map->pages_id = pages_id;
	map->layout = layout;
	grow(&map->map, 0, 8);
	map->map_len = put_u32(map->map, 0x54564319);
	map->map_len += put_u32(map->map + 4, 0x56084025);
	map_message(map, m, put_field(m, 1, pages_id));
}

void kit_map_add(struct kit_map *map, uint64_t start, uint64_t n_pages, unsigned int flags,
		 const void *data)
{
	uint8_t m[64];
	size_t n;

	n = put_field(m, 1, start);
	n += put_field(m + n, 2, map->layout == 1 ? n_pages : 0);
	n += put_field(m + n, 4, flags);
	if (map->layout == 2)
		n += put_field(m + n, 5, n_pages);
	map_message(map, m, n);
	if (!(flags & KIT_PRESENT))
		return;
	grow(&map->pages, map->pages_len, n_pages * KIT_PAGE);
	memcpy(map->pages + map->pages_len, data, n_pages * KIT_PAGE);
	map->pages_len += n_pages * KIT_PAGE;
}

void kit_map_end(struct kit_map *map)
{
	char name[64];

	snprintf(name, sizeof(name), "pages-%u.img", map->pages_id);
	kit_put(map->dir, map->name, map->map, map->map_len);
	kit_put(map->dir, name, map->pages ? map->pages : (const void *)"", map->pages_len);
	free(map->map);
	free(map->pages);
}

/* ---- reading, file by file as a whole ------------------------------------------ */

struct loaded {
	char path[PATH_MAX];
	uint8_t *data;
	size_t len;
	struct loaded *next;
};

static struct loaded *loaded_files;

static const struct loaded *load(const char *path)
{
	struct loaded *l;
	struct stat st;
	FILE *f;

	for (l = loaded_files; l; l = l->next)
		if (!strcmp(l->path, path))
			return l->data ? l : NULL;
	l = calloc(1, sizeof(*l));
	if (!l)
		die("calloc", path);
	snprintf(l->path, sizeof(l->path), "%s", path);
	l->next = loaded_files;
	loaded_files = l;
	f = fopen(path, "re");
	if (!f)
		return NULL;
	if (fstat(fileno(f), &st))
		die("stat", path);
	l->len = (size_t)st.st_size;
	l->data = malloc(l->len + 1);
	if (!l->data || fread(l->data, 1, l->len, f) != l->len)
		die("read", path);
	fclose(f);
	return l;
}

void kit_forget(void)
{
	while (loaded_files) {
		struct loaded *l = loaded_files;

		loaded_files = l->next;
		free(l->data);
		free(l);
	}
}

static uint64_t get_varint(const uint8_t **p)
{
	uint64_t v = 0;

	for (int shift = 0;; shift += 7) {
		v |= (uint64_t)(**p & 0x7f) << shift;
		if (!(*(*p)++ & 0x80))
			return v;
	}
}

static uint32_t get_u32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The fields of the message at @*p by number, and on to the next one. */
static void get_message(const uint8_t **p, uint64_t field[8])
{
	const uint8_t *end = *p + 4 + get_u32(*p);

	memset(field, 0, 8 * sizeof(*field));
	for (*p += 4; *p < end;) {
		uint64_t key = get_varint(p);

		if (key & 7 || key >> 3 > 7)
			die("field", "message");
		field[key >> 3] = get_varint(p);
	}
}

struct place {
	unsigned int flags;
	uint64_t pages_id, offset;
};

static struct place look(const char *dir, const char *name, uint64_t address)
{
	struct place at = { 0 };
	uint64_t f[8], offset = 0;
	const struct loaded *l;
	const uint8_t *p;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	l = load(path);
	if (!l)
		return at;
	p = l->data + 8;
	get_message(&p, f);
	at.pages_id = f[1];
	while (p < l->data + l->len) {
		uint64_t n;

		get_message(&p, f);
		n = f[5] ? f[5] : f[2];
		if (address >= f[1] && address < f[1] + n * KIT_PAGE) {
			at.flags = (unsigned int)f[4];
			at.offset = offset + (address - f[1]);
			break;
		}
		offset += f[4] & KIT_PRESENT ? n * KIT_PAGE : 0;
	}
	return at;
}

unsigned int kit_entry(const char *dir, const char *name, uint64_t address)
{
	return look(dir, name, address).flags;
}

bool kit_page(const char *dir, const char *name, uint64_t address, uint8_t page[KIT_PAGE])
{
	struct place at = look(dir, name, address);
	const struct loaded *l;
	char path[PATH_MAX];

	if (at.flags & KIT_PARENT) {
		snprintf(path, sizeof(path), "%s/parent", dir);
		return kit_page(path, name, address, page);
	}
	if (!(at.flags & KIT_PRESENT))
		return false;
	snprintf(path, sizeof(path), "%s/pages-%llu.img", dir, (unsigned long long)at.pages_id);
	l = load(path);
	if (!l || at.offset + KIT_PAGE > l->len)
		die("short", path);
	memcpy(page, l->data + at.offset, KIT_PAGE);
	return true;
}
