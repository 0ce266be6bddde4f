/*
 * uapi.h - what libwprof asks of the kernel that the headers of an older
 * distribution do not name. Each entry says in which release it appeared.
 *
 * Structures and ioctls carry a prefix of their own, so that a newer
 * <linux/fs.h> may be included beside this file; plain constants are defined
 * only where the system's headers lack them.
 */
#ifndef WPROF_UAPI_H
#define WPROF_UAPI_H

#include <stdint.h>
#include <sys/ioctl.h>
#include <linux/userfaultfd.h>

/* ---- userfaultfd ---------------------------------------------------------- */

#ifndef UFFD_USER_MODE_ONLY /* 5.11 */
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM /* 5.19 */
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED /* 6.4 */
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif
#ifndef UFFD_FEATURE_WP_ASYNC /* 6.7 */
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

/* ---- PAGEMAP_SCAN on /proc/PID/pagemap: 6.7 -------------------------------- */

/** struct uapi_page_region - consecutive pages of equal categories */
struct uapi_page_region {
	uint64_t start;
	uint64_t end;
	uint64_t categories;
};

/** struct uapi_pm_scan_arg - argument of UAPI_PAGEMAP_SCAN, 96 bytes */
struct uapi_pm_scan_arg {
	uint64_t size;	/* of this structure */
	uint64_t flags; /* UAPI_PM_SCAN_* */
	uint64_t start;
	uint64_t end;
	uint64_t walk_end; /* out: where to go on */
	uint64_t vec;	   /* struct uapi_page_region[] */
	uint64_t vec_len;
	uint64_t max_pages; /* 0: no limit */
	uint64_t category_inverted;
	uint64_t category_mask;
	uint64_t category_anyof_mask;
	uint64_t return_mask;
};

#define UAPI_PAGEMAP_SCAN _IOWR('f', 16, struct uapi_pm_scan_arg)
_Static_assert(sizeof(struct uapi_pm_scan_arg) == 96, "the kernel checks the size");
_Static_assert(UAPI_PAGEMAP_SCAN == 0xc0606610u, "number of PAGEMAP_SCAN");

#define UAPI_PM_SCAN_WP_MATCHING   (1u << 0) /* arm the pages that match */
#define UAPI_PM_SCAN_CHECK_WPASYNC (1u << 1) /* EPERM where not registered */

#define UAPI_PAGE_IS_WPALLOWED	(1u << 0)
#define UAPI_PAGE_IS_WRITTEN	(1u << 1)
#define UAPI_PAGE_IS_FILE	(1u << 2)
#define UAPI_PAGE_IS_PRESENT	(1u << 3)
#define UAPI_PAGE_IS_SWAPPED	(1u << 4)
#define UAPI_PAGE_IS_PFNZERO	(1u << 5)
#define UAPI_PAGE_IS_HUGE	(1u << 6)
#define UAPI_PAGE_IS_SOFT_DIRTY (1u << 7) /* 6.8 */
#define UAPI_PAGE_IS_GUARD	(1u << 8) /* 6.15 */

/* bits of a 64-bit entry of /proc/PID/pagemap, not of the hardware's PTE */
#define UAPI_PM_SOFT_DIRTY (1ull << 55) /* 3.11 */
#define UAPI_PM_UFFD_WP	   (1ull << 57) /* 5.14 */
#define UAPI_PM_FILE	   (1ull << 61) /* 3.5 */
#define UAPI_PM_SWAP	   (1ull << 62)
#define UAPI_PM_PRESENT	   (1ull << 63)

/* ---- PROCMAP_QUERY on /proc/PID/maps: 6.11 --------------------------------- */

/** struct uapi_procmap_query - argument of UAPI_PROCMAP_QUERY, 104 bytes */
struct uapi_procmap_query {
	uint64_t size;	      /* of this structure */
	uint64_t query_flags; /* UAPI_PROCMAP_*: which VMAs are meant */
	uint64_t query_addr;
	uint64_t vma_start; /* out, as all below */
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size; /* in: room, out: length with the NUL */
	uint32_t build_id_size;
	uint64_t vma_name_addr; /* in */
	uint64_t build_id_addr; /* in */
};

#define UAPI_PROCMAP_QUERY _IOWR('f', 17, struct uapi_procmap_query)

#define UAPI_PROCMAP_READABLE	      0x01u
#define UAPI_PROCMAP_WRITABLE	      0x02u
#define UAPI_PROCMAP_EXECUTABLE	      0x04u
#define UAPI_PROCMAP_SHARED	      0x08u
#define UAPI_PROCMAP_COVERING_OR_NEXT 0x10u
#define UAPI_PROCMAP_FILE_BACKED      0x20u

/* ---- memory advice ---------------------------------------------------------- */

#ifndef MADV_COLLAPSE /* 6.1 */
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_GUARD_INSTALL /* 6.13 */
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MADV_GUARD_REMOVE /* 6.13 */
#define MADV_GUARD_REMOVE 103
#endif

/* ---- ptrace and pidfd ------------------------------------------------------- */

#ifndef PIDFD_THREAD	  /* 6.9: a pidfd of one thread */
#define PIDFD_THREAD 0200 /* O_EXCL */
#endif

#define UAPI_PTRACE_GET_RSEQ 0x420f /* 5.13 */
#define UAPI_PTRACE_SET_SUD  0x4210 /* 6.4 */
#define UAPI_PTRACE_GET_SUD  0x4211 /* 6.4 */

/** struct uapi_ptrace_rseq - answer of UAPI_PTRACE_GET_RSEQ */
struct uapi_ptrace_rseq {
	uint64_t rseq_abi_pointer;
	uint32_t rseq_abi_size;
	uint32_t signature;
	uint32_t flags;
	uint32_t pad;
};

/** struct uapi_ptrace_sud - system call user dispatch of a thread */
struct uapi_ptrace_sud {
	uint64_t mode; /* 0: off */
	uint64_t selector;
	uint64_t offset;
	uint64_t len;
};

#endif /* WPROF_UAPI_H */
