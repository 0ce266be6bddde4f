/*
 * procmap.h - the PROCMAP_QUERY request of /proc/PID/maps (Linux 6.11).
 *
 * Restated here because the C library's headers may be older than the kernel.
 */
#ifndef PCTX_PROCMAP_H
#define PCTX_PROCMAP_H

#include <assert.h>
#include <stdint.h>
#include <sys/ioctl.h>

enum procmap_flags {
	/* which mappings are asked for, and how vma_flags answers */
	PROCMAP_READ = 0x01,
	PROCMAP_WRITE = 0x02,
	PROCMAP_EXEC = 0x04,
	PROCMAP_SHARED = 0x08,
	/* the one at the address, or the next above it that fits */
	PROCMAP_COVERING_OR_NEXT = 0x10,
	PROCMAP_FILE_BACKED = 0x20
};

struct procmap_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size; /* in: room, out: length with its NUL */
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};
static_assert(sizeof(struct procmap_query) == 104, "the kernel's layout");

#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)

#endif /* PCTX_PROCMAP_H */
