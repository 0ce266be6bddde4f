/*
 * images.h - CRIU images, inside libwprof. docs/IMAGES.md holds the format.
 *
 * The layers, each knowing only those above it in this list:
 *   image_io.c	files of framed messages, and moving page data
 *   pagemap.c	the entries of one pagemap file, read and written
 *   level.c	one dump: a directory and its link to the one before
 *   files.c	the files of a level: what they are, and whether they are whole
 *   chain.c	dumps down to the first, and where a page's data are
 *   record.c	what was withheld from a level
 *   aside.c	a directory that appears whole or not at all
 *   shipmap.c	one pagemap rewritten
 *   ship.c	withhold and complete
 *   images.c	the public view of a chain, verify
 */
#ifndef WPROF_CRIU_IMAGES_H
#define WPROF_CRIU_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "why.h"

#define IMG_MAGIC_COMMON    0x54564319u
#define IMG_MAGIC_SERVICE   0x55105940u
#define IMG_MAGIC_PAGEMAP   0x56084025u
#define IMG_MAGIC_INVENTORY 0x58313116u
#define IMG_MAGIC_STATS	    0x57093306u

#define IMG_PARENT     "parent"
#define IMG_INVENTORY  "inventory.img"
#define IMG_STATS      "stats-dump"
/** in a directory that is being made, and gone once it is whole */
#define IMG_UNFINISHED "unfinished.wprof"
/** what was withheld from a shipped level */
#define IMG_RECORD     "withheld.wprof"

#define IMG_NAME_MAX 64

/* ---- image_io.c ----------------------------------------------------------- */

/** IMG_MESSAGE_MAX - no message read here is larger; an entry has 40 bytes */
#define IMG_MESSAGE_MAX (16u << 10)

/** struct img_in - a file of messages being read */
struct img_in {
	int fd;
	uint32_t at, have; /* in buf */
	uint64_t n_messages;
	char name[IMG_NAME_MAX];
	const char *dir; /* for errors; the level's */
	uint8_t buf[2 * IMG_MESSAGE_MAX];
};

/** struct img_out - a file being written; the first error stays */
struct img_out {
	int fd;
	int error; /* negative errno */
	uint32_t have;
	uint64_t bytes;
	char name[IMG_NAME_MAX];
	uint8_t buf[IMG_MESSAGE_MAX];
};

/**
 * img_open_regular() - open a regular file for reading, following no link
 *
 * Return: a descriptor; -ENOENT without a reason given; else a reason is.
 */
int img_open_regular(int dir_fd, const char *dir, const char *name, struct wprof_why *why);

/** img_in_open() - open a file and check its @n magic numbers; img_in_close() frees it */
int img_in_open(int dir_fd, const char *dir, const char *name, const uint32_t *magic, size_t n,
		struct img_in **out, struct wprof_why *why);
void img_in_close(struct img_in *in);

/**
 * img_in_next() - the next message
 *
 * Return: 1 and @data set until the next call, 0 at the end, or an error.
 */
int img_in_next(struct img_in *in, const uint8_t **data, size_t *len, struct wprof_why *why);

/** img_bad() - "DIR/NAME, message N: text" as WPROF_BAD_IMAGE */
int img_bad(const struct img_in *in, struct wprof_why *why, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** img_out_open() - make a new file in @dir_fd; 0 or a negative errno */
int img_out_open(struct img_out *out, int dir_fd, const char *name, mode_t mode);
void img_out_write(struct img_out *out, const void *data, size_t len);
void img_out_magic(struct img_out *out, const uint32_t *magic, size_t n);
/** img_out_message() - room for one message of @len bytes, to be packed there */
uint8_t *img_out_message(struct img_out *out, size_t len);
/** img_out_close() - flush, close; Return: the first error */
int img_out_close(struct img_out *out);

/**
 * img_move() - append @len bytes at @from of @in_fd to @out_fd, inside the kernel
 *
 * Return: 0; -ENODATA: the source ends before; else a negative errno.
 */
int img_move(int in_fd, uint64_t from, uint64_t len, int out_fd);

/* ---- pagemap.c -------------------------------------------------------------- */

#define PE_PARENT  (1u << 0) /* the data are in the level below */
#define PE_LAZY	   (1u << 1) /* may be restored lazily */
#define PE_PRESENT (1u << 2) /* the data are in this level's pages file */

struct pm_entry {
	uint64_t start, n_pages;
	uint32_t flags;
	bool in_parent; /* the old way of saying PE_PARENT was used */
};

/** struct pm_in - a pagemap file being read; it moves forward only */
struct pm_in {
	struct img_in *in;
	uint32_t pages_id;
	uint32_t layout;   /* 1: count in field 2, 2: in field 5, 0: none yet */
	struct pm_entry e; /* the current entry, once pm_next() gave 1 */
	uint64_t end;	   /* of it, in bytes */
	uint64_t offset;   /* of its data in the pages file, if PE_PRESENT */
	uint64_t next_offset;
	bool eof;
};

int pm_in_open(int dir_fd, const char *dir, const char *name, struct pm_in *pm,
	       struct wprof_why *why);
void pm_in_close(struct pm_in *pm);
/** pm_next() - 1: pm->e is the next entry, 0: there is none, or an error */
int pm_next(struct pm_in *pm, struct wprof_why *why);
/**
 * pm_seek() - move to the entry that holds @address, or the first one after it
 *
 * Addresses must not descend from call to call. Return: 1, 0 at the end, an error.
 */
int pm_seek(struct pm_in *pm, uint64_t address, struct wprof_why *why);

/** pm_out_head(), pm_out_entry() - write a pagemap file of a layout */
void pm_out_head(struct img_out *out, uint32_t pages_id);
void pm_out_entry(struct img_out *out, uint32_t layout, const struct pm_entry *e);

/** pm_page_bytes() - size of a page */
uint64_t pm_page_bytes(void);

/* ---- level.c ---------------------------------------------------------------- */

/** struct level - one dump */
struct level {
	int fd;		    /* its directory */
	char *dir;	    /* its path, for people */
	char *parent;	    /* text of its link; NULL: none */
	unsigned int depth; /* directories its link may still go up */
	dev_t dev;
	ino_t ino;
	uint64_t uptime_us;
};

int level_open(const char *dir, const char *root, struct level *level, struct wprof_why *why);
/** level_below() - open what the parent link names: 1, 0 without a link, or an error */
int level_below(const struct level *level, struct level *below, struct wprof_why *why);
/**
 * level_walk() - open the directory that @link names, seen from the directory @from
 * @depth: how far it may go up; set to how far one may go from there
 */
int level_walk(int from, const char *dir, const char *link, unsigned int *depth,
	       struct wprof_why *why);
/** level_depth() - how far up a link in the directory @fd may go for @root */
int level_depth(int fd, const char *dir, const char *root, unsigned int *depth,
		struct wprof_why *why);
void level_close(struct level *level);

enum file_kind {
	FILE_PAGEMAP, /* of a process */
	FILE_PAGEMAP_SHARED,
	FILE_PAGES,
	FILE_RECORD,
	FILE_OTHER
};

/** struct file - a regular file of a level */
struct file {
	enum file_kind kind;
	uint64_t id; /* of pagemaps and pages files */
	char name[256];
};

/** struct files - those of a level, by kind, id and name */
struct files {
	struct file *list;
	size_t n;
};

int files_list(const struct level *level, struct files *files, struct wprof_why *why);
void files_free(struct files *files);
bool files_have(const struct files *files, const char *name);

/** level_identity() - a number that tells this dump's memory from another's */
int level_identity(const struct level *level, const struct files *files, uint64_t *out,
		   struct wprof_why *why);

/**
 * level_pages() - open a pages file
 * @need: it must have exactly so many bytes; IMG_ANY: however many it has
 * @sparse: holes are pages of zeros, else there must be none
 *
 * Return: a descriptor, -ENOENT where there is none and none is needed, an error.
 */
#define IMG_ANY UINT64_MAX
int level_pages(const struct level *level, uint32_t pages_id, uint64_t need, bool sparse,
		struct wprof_why *why);

/** level_scan() - read one pagemap whole: count and check; its data are there */
int level_scan(const struct level *level, const struct file *file, bool sparse,
	       struct wprof_images_map *map, struct wprof_why *why);

/* ---- chain.c ---------------------------------------------------------------- */

/** struct chain - a dump and all below it, newest first */
struct chain {
	struct level *level;
	size_t n;
};

int chain_open(const char *dir, const char *root, struct chain *chain, struct wprof_why *why);
void chain_close(struct chain *chain);

/** struct finder - looks for pages of one pagemap down a chain */
struct finder {
	const struct chain *chain;
	char name[IMG_NAME_MAX];
	struct pm_in *pm; /* for each level; unopened: in is NULL */
	bool *looked;	  /* the level was looked at */
};

/** struct found - where consecutive pages are, or why they are not */
struct found {
	uint64_t n_pages;
	size_t level;	 /* with data, or where the search ended */
	uint64_t offset; /* in its pages file */
	uint32_t pages_id;
	const char *lost; /* NULL: found */
};

int finder_open(struct finder *finder, const struct chain *chain, const char *name);
void finder_close(struct finder *finder);
/**
 * finder_find() - where the data of @n_pages at @address are, below level 0
 * @out: out->n_pages of them have the same answer, at least one
 *
 * Addresses must not descend from call to call. Return: 0 or an error.
 */
int finder_find(struct finder *finder, uint64_t address, uint64_t n_pages, struct found *out,
		struct wprof_why *why);

/* ---- record.c --------------------------------------------------------------- */

/** struct record - the head and tail of a level's record */
struct record {
	enum wprof_images_state state; /* WPROF_IMAGES_PLAIN: no record */
	uint64_t source;	       /* level_identity() of the dump it was made from */
};

typedef int (*record_fn)(uint64_t id, const struct wprof_range *range, void *arg);

/** record_read() - read the record of a level, if it has one; @fn may be NULL */
int record_read(const struct level *level, struct record *record, record_fn fn, void *arg,
		struct wprof_why *why);
void record_head(struct img_out *out, const struct record *record);
void record_range(struct img_out *out, uint64_t id, const struct wprof_range *range);
void record_tail(struct img_out *out);

/* ---- aside.c ---------------------------------------------------------------- */

/** struct aside - a directory being made beside the place where it will stand */
struct aside {
	int above; /* the directory both names are in */
	int fd;	   /* the new directory */
	char *name, *partial;
	bool sync;
	uint64_t bytes; /* of the files that were closed */
};

int aside_open(struct aside *aside, const char *path, bool sync, struct wprof_why *why);
/** aside_copy() - copy a regular file as it is */
int aside_copy(struct aside *aside, const struct level *from, const char *name,
	       struct wprof_why *why);
/** aside_commit() - put it in its place; @replace: what stands there goes */
int aside_commit(struct aside *aside, bool replace, struct wprof_why *why);
/** aside_close() - free it; what was not committed is removed */
void aside_close(struct aside *aside);

/* ---- shipmap.c -------------------------------------------------------------- */

/** struct ship - one level being made */
struct ship {
	const struct wprof_images_ship *opts;
	bool fill; /* complete: nothing is withheld, all is filled in */
	bool sparse;
	struct chain full;  /* the dump and what is below it */
	struct files files; /* of the dump */
	struct level below; /* the shipped level below; fd -1: none */
	struct aside aside;
	struct img_out record;
	struct wprof_images_shipped sum;
};

/** ship_map() - write the pagemap and the pages file of one process */
int ship_map(struct ship *ship, const struct file *file, struct wprof_why *why);

#endif /* WPROF_CRIU_IMAGES_H */
