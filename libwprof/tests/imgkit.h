/*
 * imgkit.h - CRIU images for tests, made and read without any code of the library:
 * the bytes are put together here by hand. Everything dies on failure.
 */
#ifndef IMGKIT_H
#define IMGKIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIT_PARENT  1u
#define KIT_LAZY    2u
#define KIT_PRESENT 4u
#define KIT_PAGE    4096u

/** kit_put() - write a whole file */
void kit_put(const char *dir, const char *name, const void *data, size_t len);
/** kit_bytes() - write a whole file from hexadecimal text, blanks allowed */
void kit_hex(const char *dir, const char *name, const char *hex);

/** kit_level() - make a directory with an inventory, and a link if @parent is given */
void kit_level(const char *dir, const char *parent, uint64_t uptime_us);

/** struct kit_map - a pagemap and its pages file being written */
struct kit_map {
	char dir[256], name[64];
	unsigned int pages_id;
	int layout; /* 1: up to CRIU 4.1, 2: from 4.2 */
	uint8_t *map, *pages;
	size_t map_len, pages_len;
};

void kit_map_begin(struct kit_map *map, const char *dir, const char *name, unsigned int pages_id,
		   int layout);
/** kit_map_add() - an entry; a present one takes its pages from @data */
void kit_map_add(struct kit_map *map, uint64_t start, uint64_t n_pages, unsigned int flags,
		 const void *data);
void kit_map_end(struct kit_map *map);

/**
 * kit_page() - resolve a page as CRIU would, by the parent links
 *
 * Return: true and @page filled; false: no entry in @dir, or none further down.
 */
bool kit_page(const char *dir, const char *name, uint64_t address, uint8_t page[KIT_PAGE]);
/** kit_entry() - the flags @dir itself has for a page; 0: no entry */
unsigned int kit_entry(const char *dir, const char *name, uint64_t address);
/** kit_forget() - drop what kit_page() and kit_entry() remember of files */
void kit_forget(void);

#endif /* IMGKIT_H */
