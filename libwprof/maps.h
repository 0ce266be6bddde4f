/* maps.h - a streamed parse of /proc/PID/maps */
#ifndef WPROF_MAPS_H
#define WPROF_MAPS_H

#include "wprof.h"

#define MAPS_READ    (1u << 0)
#define MAPS_WRITE   (1u << 1)
#define MAPS_EXEC    (1u << 2)
#define MAPS_SHARED  (1u << 3)
#define MAPS_HUGETLB (1u << 4) /* private memory of MAP_HUGETLB, by its name */

struct maps_entry {
	uint64_t start, end;
	uint32_t flags; /* MAPS_* */
	enum wprof_vma_type type;
	const char *name; /* lives until the next call */
};

struct maps;

WPROF_CHECKED int maps_open(pid_t pid, struct maps **out);
void maps_close(struct maps *m);
WPROF_CHECKED int maps_rewind(struct maps *m);

/* 1: *e is the next entry; 0: no more; or -errno */
WPROF_CHECKED int maps_next(struct maps *m, struct maps_entry *e);

/* One line without its newline; the line is changed. 0 or -EBADMSG. */
WPROF_CHECKED int maps_parse(char *line, struct maps_entry *e);

#endif
