/*
 * wprof.h - the public header of libwprof: where a running process writes.
 *
 * libwprof follows the writes of another process page by page, by userfaultfd
 * write-protection in async mode and PAGEMAP_SCAN. It does not disturb CRIU and
 * no byte of the target is changed. It prints nothing, never exits and leaves
 * errno as it was. This header compiles alone, as C11 and as C++.
 *
 * Conventions. Functions return 0 or a negative errno. Objects are handed out
 * through a `struct x **out` that is set only on success. Options structs begin
 * with their own size: fill it with sizeof; fields beyond it take their
 * defaults, and bytes this library does not know must be zero (-E2BIG).
 * Ranges are half open, [start, end), page aligned, in bytes. Times are
 * CLOCK_MONOTONIC nanoseconds unless said otherwise. Where a function, or the
 * head of its group, does not say otherwise it is MT-Safe as long as no other
 * thread uses the same object, not AS-Safe, and the child of a fork() may call
 * it on what it inherited.
 */
#ifndef WPROF_H
#define WPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WPROF_API     __attribute__((visibility("default")))
#define WPROF_CHECKED __attribute__((warn_unused_result))
#else
#define WPROF_API
#define WPROF_CHECKED
#endif

/* ---- reasons --------------------------------------------------------------
 * One errno often has several causes that a person must treat differently.
 */

/** enum wprof_reason - why a function refused or failed */
enum wprof_reason {
	WPROF_OK,
	WPROF_NO_PROCESS,    /* -ESRCH: no such process */
	WPROF_KERNEL_THREAD, /* -EINVAL: it has no memory of its own */
	WPROF_SELF,	     /* -EINVAL: the caller's own process */
	WPROF_TRACED,	     /* -EBUSY: another tracer or profiler holds it */
	WPROF_NOT_PERMITTED, /* -EPERM: credentials, Yama, or a container */
	WPROF_SECCOMP,	     /* -EACCES: the target's filter forbids it */
	WPROF_NO_KERNEL,     /* -EOPNOTSUPP: kernel lacks a feature, text names it */
	WPROF_NO_ARCH,	     /* -ENOSYS: no injection for this architecture */
	WPROF_NO_INJECTOR,   /* -ENOENT: libexec/wprof-inject not found */
	WPROF_NO_THREAD,     /* -EAGAIN: no thread could be stopped in time */
	WPROF_ENDED,	     /* -ESRCH: the target exited meanwhile */
	WPROF_EXECED,	     /* -ESTALE: the target runs a new program now */
	WPROF_NOT_ARMED,     /* -EIO: arming had no effect */
	WPROF_BAD_IMAGE,     /* -EBADMSG: an image is truncated, corrupt or hostile */
	WPROF_HALF_MADE,     /* -ENODATA: whoever wrote this directory did not finish */
	WPROF_PUNCHED,	     /* -EOPNOTSUPP: page data were punched out (auto-dedup) */
	WPROF_NEW_FORMAT,    /* -EPROTONOSUPPORT: images of a CRIU newer than known here */
	WPROF_OUTSIDE,	     /* -EXDEV: a link leads out of the images */
	WPROF_OTHER_CHAIN,   /* -ESTALE: the shipped parent belongs to another chain */
	WPROF_SYSTEM	     /* any other errno */
};

/** struct wprof_why - the reason in words; optional out-parameter */
struct wprof_why {
	enum wprof_reason reason;
	char text[240]; /* one line: what failed, why, what can be done */
};

/* ---- profiling a process -------------------------------------------------- */

enum wprof_arming {
	WPROF_EXACT, /* everything is re-armed at each interval */
	WPROF_SAMPLE /* hot memory in rotating 2 MiB chunks, 1 in 16 */
};

/** WPROF_VMA - granularity of heat: whole VMAs, written / all pages */
#define WPROF_VMA   0u
/** WPROF_CHUNK - default of the programs: 2 MiB, written / populated pages */
#define WPROF_CHUNK (2u << 20)

/** flags of struct wprof_opts */
#define WPROF_F_SOFT_DIRTY	 (1u << 0) /* read soft-dirty beside, never clear it */
#define WPROF_F_CLEAR_SOFT_DIRTY (1u << 1) /* and clear it: CRIU then loses pages */
#define WPROF_F_COLLAPSE	 (1u << 2) /* give split huge pages back on close */

/** struct wprof_opts - how to profile; all 0: defaults */
struct wprof_opts {
	size_t size;		    /* sizeof(struct wprof_opts) */
	uint32_t arming;	    /* enum wprof_arming; 0: exact */
	uint32_t flags;		    /* WPROF_F_* */
	uint64_t granularity_bytes; /* WPROF_VMA, or a power of two, 64 KiB to 1 GiB */
	double hot_threshold;	    /* 0 < t < 1; 0: 0.3 */
	uint32_t hot_consecutive;   /* 1 to 10 intervals; 0: 3 */
	uint32_t window;	    /* 1 to 64 intervals; 0: 10 */
	const char *injector;	    /* path of wprof-inject; NULL: where installed */
};

enum wprof_vma_type {
	WPROF_HEAP,
	WPROF_STACK,
	WPROF_ANONYMOUS,
	WPROF_CODE,
	WPROF_DATA,
	WPROF_VDSO
};

/** flags of struct wprof_vma: what happened to it in this interval */
#define WPROF_VMA_NEW	  (1u << 0)
#define WPROF_VMA_CHANGED (1u << 1) /* grown, shrunk, merged or split */
#define WPROF_VMA_BUSY	  (1u << 2) /* another userfaultfd owns it: not tracked */

/** struct wprof_vma - one tracked VMA in one interval */
struct wprof_vma {
	uint64_t start, end;
	enum wprof_vma_type type;
	uint32_t flags;		  /* WPROF_VMA_* */
	uint64_t written_pages;	  /* written, and still populated at the scan */
	uint64_t populated_pages; /* cached, at most 10 intervals old */
	const char *name;	  /* as in maps, "[stack:TID]", "" if anonymous */
};

/** struct wprof_run - consecutive written pages */
struct wprof_run {
	uint64_t start; /* address of the first */
	uint64_t n_pages;
};

/** struct wprof_cost - what this interval cost */
struct wprof_cost {
	uint64_t scan_ns;  /* time spent in PAGEMAP_SCAN */
	uint64_t total_ns; /* the whole call */
	uint64_t n_scans;  /* system calls for scanning */
	uint64_t faults;   /* faults the arming caused in the target, at most */
};

/** struct wprof_interval - all of one interval; lives until the next call */
struct wprof_interval {
	uint64_t number;     /* 1, 2, ... */
	uint64_t start_ns;   /* end of the interval before */
	uint64_t length_ns;  /* measured */
	bool ended;	     /* the target exited or exec'ed: no more to come */
	bool estimated;	     /* sampled arming: page counts are extrapolated */
	uint64_t page_bytes; /* size of a page */
	uint64_t written_pages;
	uint64_t armed_pages; /* pages that were armed during this interval */
	uint64_t untracked_shared_bytes;
	uint64_t untracked_busy_bytes;
	const struct wprof_vma *vmas; /* ascending */
	size_t n_vmas;
	const struct wprof_run *runs; /* ascending, never adjacent within a VMA */
	size_t n_runs;
	struct wprof_cost cost;
	uint64_t soft_dirty_pages; /* WPROF_F_SOFT_DIRTY: populated and soft-dirty */
	const struct wprof_run *soft_dirty_runs;
	size_t n_soft_dirty_runs;
	uint64_t untracked_limit_bytes; /* new, left alone: the target has too many VMAs */
	/* Memory that was not measured, as sampling had not armed it: what is counted as
	 * written there is an estimate, and not in runs. Ascending, never adjacent. */
	const struct wprof_run *unmeasured;
	size_t n_unmeasured;
};

/** struct wprof_region - memory that is hot now; adjacent regions are merged */
struct wprof_region {
	uint64_t start, end;
	double written_ratio; /* last interval, 0 to 1 */
	double window_ratio;  /* mean over the window */
	uint32_t consecutive; /* intervals in a row above the threshold */
	enum wprof_vma_type type;
	const char *name;
	uint64_t populated_bytes; /* how much of it exists; cached, see wprof_vma */
};

/**
 * struct wprof - one process being profiled
 *
 * A session is used by one thread at a time (two sessions are independent);
 * AS-Unsafe. After fork() the child must not use it: it may close it only when
 * the parent has ended, as closing does not end the profiling while the other
 * process has the session too.
 */
struct wprof;

/**
 * wprof_open() - begin to profile a process
 * @pid: the process, as the caller's /proc shows it; not the caller's own
 * @opts: NULL: the defaults (whole VMAs, exact)
 * @out: the session; end it by wprof_close()
 * @why: the reason in words when it fails; may be NULL
 *
 * One thread of @pid is stopped for well under a millisecond, and each that is
 * running once more for an instant; longer where more are running than there are
 * processors. All private writable memory is registered and what exists of it
 * armed; interval 1 begins. Memory that does not exist is never armed. A VMA owned by
 * another userfaultfd is skipped and told in each interval. Where it is another
 * profiler's, that is refused; of several that begin at the same instant exactly one
 * goes on.
 *
 * Spec: write profiler, 4.1 and 4.2. AS-Unsafe.
 *
 * Return: 0, or
 * -EINVAL: an option is out of its range; @pid is a kernel thread or the caller;
 * -E2BIG: options of a newer library are set: clear them;
 * -ESRCH: no such process, or it exited meanwhile;
 * -ESTALE: it runs a new program now: call again;
 * -EBUSY: another tracer holds it, or another profiler: stop that one;
 * -EPERM: run as the target's user with ptrace allowed, or as root;
 * -EACCES: a seccomp filter of the target or caller forbids it;
 * -EOPNOTSUPP: the kernel lacks what @why names: wprof_check() shows all;
 * -ENOSYS: this architecture is not supported;
 * -ENOENT: wprof-inject was not found: name it in @opts;
 * -EAGAIN: no thread could be stopped in time: call again;
 * -EIO: arming had no effect, nothing can be measured here;
 * -ENOMEM, -EMFILE or another errno of the system.
 */
WPROF_API WPROF_CHECKED int wprof_open(pid_t pid, const struct wprof_opts *opts, struct wprof **out,
				       struct wprof_why *why);

/**
 * wprof_close() - end the profiling; the target is as it was before
 * @w: NULL is fine
 *
 * The same happens when the caller exits or is killed, but for
 * WPROF_F_COLLAPSE. What closing cannot undo: huge pages split by writes to
 * armed memory, unless that flag asked for them.
 */
WPROF_API void wprof_close(struct wprof *w);

/**
 * wprof_sample() - end an interval: what was written since the last call
 * @w: not paused
 * @out: valid until the next call with @w, or its closing
 *
 * How long an interval is is up to the caller, who calls when it is over. Every
 * page written and still populated is reported now or, when it is written while
 * this call runs, at the latest in the next interval. In memory that is new,
 * and in memory that was moved, all that is populated counts as written.
 *
 * The target's end or exec is an interval with @ended set, once.
 *
 * Spec: write profiler, 4.2.4 and 4.3.3.
 *
 * Return: 0, or -EINVAL; -ENOTCONN: it is paused, resume first; -ESRCH: the target
 * has exited, -ESTALE: it runs another program; in both cases it was told before,
 * close; -ENOMEM, or another errno of the system: the interval is lost in part, go
 * on or close.
 */
WPROF_API WPROF_CHECKED int wprof_sample(struct wprof *w, const struct wprof_interval **out);

/**
 * wprof_hot() - what was hot at the end of the last interval
 * @out: ascending, valid until the next wprof_sample() or the closing; it stays
 *	while paused and after the target's end
 * @n: their number; 0 before the first intervals have passed
 *
 * Adjacent hot parts of a VMA are one region: the ratios are weighted by size,
 * consecutive is the least. A region is made of whole chunks, or of the whole
 * VMA, and may be sparse: how much memory is hot is the sum of populated_bytes.
 *
 * Spec: write profiler, 4.4.3, and 6.3.
 *
 * Return: 0, or -EINVAL.
 */
WPROF_API WPROF_CHECKED int wprof_hot(struct wprof *w, const struct wprof_region **out, size_t *n);

/**
 * wprof_pause() - unregister everything, and keep the session and its history
 *
 * Not needed around a CRIU dump. What is written while paused is not seen, nor
 * is what was written since the last wprof_sample(). Pausing twice is fine.
 *
 * Spec: write profiler, 5.1.
 *
 * Return: 0, or -EINVAL; -ESRCH, -ESTALE: the target has ended.
 */
WPROF_API WPROF_CHECKED int wprof_pause(struct wprof *w);

/**
 * wprof_resume() - register and arm again: a new interval begins
 *
 * Fine when it is not paused. When it fails the session stays paused.
 *
 * Spec: write profiler, 5.2.
 *
 * Return: 0, or -EINVAL; -ESRCH, -ESTALE: the target has ended; -EBUSY: another
 * profiler began meanwhile, stop that one; -EIO: arming had no effect; -ENOMEM, or
 * another errno of the system: call again, or close.
 */
WPROF_API WPROF_CHECKED int wprof_resume(struct wprof *w);

/**
 * wprof_pidfd() - a pidfd of the target, readable when it has exited
 *
 * It belongs to @w: poll it, do not close it.
 *
 * Return: the descriptor, or -EINVAL.
 */
WPROF_API int wprof_pidfd(const struct wprof *w);

/** wprof_vma_type_name() - "heap", "stack", ...; "unknown" for no type. MT-Safe, AS-Safe. */
WPROF_API const char *wprof_vma_type_name(enum wprof_vma_type type);

/* ---- what can be done here ------------------------------------------------ */

/** struct wprof_fact - one row of wprof_check() */
struct wprof_fact {
	const char *name; /* short, stable: "pagemap_scan" */
	int state;	  /* 1 yes, 0 no, -1 not known */
	bool needed;	  /* profiling is impossible without it */
	char reason[200];
};

/**
 * wprof_check() - what this kernel, these privileges and that target allow
 * @pid: a process, or 0: the kernel and the privileges only
 * @facts: room for *@n of them; NULL: tell the number only
 * @n: in: the room; out: how many there are
 *
 * Probes on the caller's own process; @pid is only looked at. Profiling is
 * possible when no needed fact has state 0; where one is -1, try. 32 are enough
 * room today. MT-Safe, AS-Unsafe. Survives fork(): yes.
 *
 * Return: 0; -EINVAL: no @n, or @pid is negative; -ERANGE: too little room, *@n
 * is what is needed and the first facts are filled in.
 */
WPROF_API WPROF_CHECKED int wprof_check(pid_t pid, struct wprof_fact *facts, size_t *n);

/* ---- range sets ------------------------------------------------------------ */

/** struct wprof_range - one range: [start, end), page aligned, not empty */
struct wprof_range {
	uint64_t start, end;
};

/**
 * struct wprof_ranges - a set of addresses: ranges, ascending, never adjacent
 *
 * MT-Safe as long as no two threads use the same set and one of them changes it.
 * AS-Unsafe (allocates). Survives fork(): yes.
 */
struct wprof_ranges;

/**
 * wprof_ranges_new() - make a set of any ranges, in any order, overlapping or not
 * @list: @n ranges; may be NULL when @n is 0 (the empty set)
 * @out: the set; free it by wprof_ranges_free()
 *
 * Return: 0; -EINVAL: a range is empty, reversed or not page aligned; -ENOMEM.
 */
WPROF_API WPROF_CHECKED int wprof_ranges_new(const struct wprof_range *list, size_t n,
					     struct wprof_ranges **out);

/** wprof_ranges_free() - free @set; NULL is fine */
WPROF_API void wprof_ranges_free(struct wprof_ranges *set);

/**
 * wprof_ranges_list() - the ranges of @set, ascending, disjoint, never adjacent
 * @n: set to their number; 0 for NULL
 *
 * Return: the ranges, valid until @set is changed or freed.
 */
WPROF_API const struct wprof_range *wprof_ranges_list(const struct wprof_ranges *set, size_t *n);

/** wprof_ranges_bytes() - how many bytes the ranges of @set cover; 0 for NULL */
WPROF_API uint64_t wprof_ranges_bytes(const struct wprof_ranges *set);

/**
 * wprof_ranges_unite() - add every address of @other to @set
 *
 * The two may be the same. A set whose operation failed is as it was.
 *
 * Return: 0; -EINVAL: one of them is NULL; -ENOMEM.
 */
WPROF_API WPROF_CHECKED int wprof_ranges_unite(struct wprof_ranges *set,
					       const struct wprof_ranges *other);

/** wprof_ranges_subtract() - take every address of @other out of @set; as unite */
WPROF_API WPROF_CHECKED int wprof_ranges_subtract(struct wprof_ranges *set,
						  const struct wprof_ranges *other);

/** wprof_ranges_intersect() - keep in @set what is in @other too; as unite */
WPROF_API WPROF_CHECKED int wprof_ranges_intersect(struct wprof_ranges *set,
						   const struct wprof_ranges *other);

/**
 * wprof_ranges_round() - make @set whole VMAs: those it has any address of
 * @vmas: @n VMAs, ascending and disjoint
 *
 * What lies in no VMA is dropped: there is no memory.
 *
 * Return: 0; -EINVAL: @vmas is not ascending, disjoint and page aligned; -ENOMEM.
 */
WPROF_API WPROF_CHECKED int wprof_ranges_round(struct wprof_ranges *set,
					       const struct wprof_range *vmas, size_t n);

/**
 * wprof_ranges_load() - read a range file: "start end", hexadecimal, a line each
 * @path: docs/formats.md describes it; at most 64 MiB
 * @line: set to the number of the bad line with -EBADMSG; may be NULL
 *
 * Return: 0; -EBADMSG: a line is no range, mend the file; -EFBIG: larger than
 * any range file; -ENOMEM; else what open(2) or read(2) said.
 */
WPROF_API WPROF_CHECKED int wprof_ranges_load(const char *path, struct wprof_ranges **out,
					      size_t *line);

/**
 * wprof_ranges_save() - write a range file; @path is replaced as a whole or not at all
 *
 * The directory of @path must be writable: a file beside it is renamed.
 *
 * Return: 0; -EINVAL: @set or @path is NULL; -ENOMEM; else what open(2), write(2),
 * fsync(2) or rename(2) said: make room or name another place.
 */
WPROF_API WPROF_CHECKED int wprof_ranges_save(const struct wprof_ranges *set, const char *path);

/* ---- arguments for CRIU ----------------------------------------------------- */

/** WPROF_CRIU_INLINE - most ranges given as arguments; more go to a file */
#define WPROF_CRIU_INLINE 10u

/** struct wprof_criu_opts - what a dump leaves out, and what it takes without parent */
struct wprof_criu_opts {
	size_t size;			     /* sizeof(struct wprof_criu_opts) */
	const struct wprof_ranges *hot;	     /* hot now; NULL: nothing (a final dump) */
	const struct wprof_ranges *previous; /* what the parent dump left out; NULL: none */
	const struct wprof_range *vmas;	     /* round to these; NULL: page exact */
	size_t n_vmas;
};

/**
 * wprof_criu_sets() - the excluded and the no-parent set of one dump
 * @opts: a dump without parent has no @opts->previous
 * @exclude: what this dump leaves out; keep it with the dump's id once the dump
 *	has succeeded, it is the next one's @opts->previous
 * @no_parent: left out by the parent, dumped now: no parent has these pages
 *
 * Both are the caller's, to be freed by wprof_ranges_free(). CRIU matches a range
 * by overlap and skips the whole VMA, so the sets must be rounded for it: give
 * @opts->vmas as they stand at this dump.
 *
 * Spec: write profiler, 5.3. MT-Safe. Survives fork(): yes.
 *
 * Return: 0; -EINVAL: the VMAs are not ascending and disjoint; -E2BIG: an option
 * this library does not know; -ENOMEM.
 */
WPROF_API WPROF_CHECKED int wprof_criu_sets(const struct wprof_criu_opts *opts,
					    struct wprof_ranges **exclude,
					    struct wprof_ranges **no_parent);

/**
 * wprof_criu_args() - CRIU's arguments for the two sets
 * @exclude: --exclude-range START:END each; beyond WPROF_CRIU_INLINE ranges they
 *	are written to @exclude_file and --exclude-file names it
 * @no_parent: --no-parent-range START:END each
 * @exclude_file: may be NULL as long as @exclude has few ranges
 * @out: strings, NULL-terminated; free them by wprof_criu_args_free()
 *
 * Return: 0; -ENAMETOOLONG: too many ranges for arguments and no @exclude_file;
 * -EINVAL: no @out; -ENOMEM; else what wprof_ranges_save() said.
 */
WPROF_API WPROF_CHECKED int wprof_criu_args(const struct wprof_ranges *exclude,
					    const struct wprof_ranges *no_parent,
					    const char *exclude_file, char ***out);

/** wprof_criu_args_free() - free what wprof_criu_args() gave; NULL is fine */
WPROF_API void wprof_criu_args_free(char **args);

/* ---- CRIU images ------------------------------------------------------------
 *
 * A dump of CRIU is a directory. Its `parent` link names the dump before it, and
 * so on: a chain, whose first level here is the newest. docs/IMAGES.md explains
 * the format and what withholding means.
 *
 * All of these: MT-Safe unless two threads use the same struct wprof_images;
 * AS-Unsafe; survive fork(). They follow no symbolic link but `parent`, which
 * must be relative, and read regular files only. Page data are never read into
 * memory. All may fail with
 * -EBADMSG (WPROF_BAD_IMAGE): truncated, corrupt or hostile, the text says where;
 *	take the dump again;
 * -ENODATA (WPROF_HALF_MADE): a dump or a run that did not finish; remove it;
 * -EOPNOTSUPP (WPROF_PUNCHED): pages were punched out of a pages file, their data
 *	are gone: dump without --auto-dedup, or WPROF_IMAGES_SPARSE;
 * -EPROTONOSUPPORT (WPROF_NEW_FORMAT): a field or flag not known here, as of
 *	compressed images: dump without that option;
 * -EXDEV (WPROF_OUTSIDE): a link leads out of the images: see root below;
 * -ENOMEM, -EMFILE (a level needs three descriptors at most), and what open(2),
 *	read(2) and the like say.
 */

/** WPROF_IMAGES_SPARSE - a hole in a pages file is a page of zeros, not a loss */
#define WPROF_IMAGES_SPARSE  (1u << 0)
/** WPROF_IMAGES_NO_SYNC - do not wait for the disk: not crash safe, for tmpfs */
#define WPROF_IMAGES_NO_SYNC (1u << 1)

/** struct wprof_images_opts - how to open a chain; all 0: defaults */
struct wprof_images_opts {
	size_t size;	  /* sizeof(struct wprof_images_opts) */
	uint32_t flags;	  /* WPROF_IMAGES_SPARSE */
	const char *root; /* a directory above the images which no parent
					 * link may leave; NULL: two levels up */
};

enum wprof_images_state {
	WPROF_IMAGES_PLAIN,    /* as CRIU wrote it */
	WPROF_IMAGES_WITHHELD, /* made by wprof_images_withhold() */
	WPROF_IMAGES_COMPLETE  /* made by wprof_images_complete() */
};

/** struct wprof_images_map - the memory of one process, or one shared memory */
struct wprof_images_map {
	uint64_t id; /* pid in the dump, or id of the shared memory */
	bool shared;
	uint32_t pages_id; /* its data are in pages-<pages_id>.img */
	uint32_t layout;   /* 1: up to CRIU 4.1, 2: from 4.2, 0: no entry */
	uint64_t n_entries;
	uint64_t present_pages;	 /* data are here */
	uint64_t parent_pages;	 /* holes: data are further down the chain */
	uint64_t lazy_pages;	 /* data stayed with a lazy-pages server */
	uint64_t withheld_pages; /* left out by wprof_images_withhold() */
};

/** struct wprof_images_level - one dump of a chain; lives as long as the chain */
struct wprof_images_level {
	const char *dir;
	const char *parent; /* text of its link; NULL: a first dump */
	enum wprof_images_state state;
	bool pre_dump;	      /* cannot be restored: no process tree in it */
	uint64_t uptime_us;   /* of the machine at the dump; 0: not known */
	uint64_t pages_bytes; /* of its pages files */
	uint64_t other_bytes; /* of its other files */
	bool has_stats;	      /* CRIU's own figures follow */
	uint64_t frozen_us, scanned_pages, written_pages, skipped_pages;
	const struct wprof_images_map *maps; /* processes by pid, then shared memory */
	size_t n_maps;
};

struct wprof_images;

/**
 * wprof_images_open() - open the chain whose newest dump is @dir, and check it
 * @opts: may be NULL
 * @out: to be closed by wprof_images_close()
 *
 * Every entry of every level is read and checked; no page data are.
 *
 * Return: 0; -EINVAL: no @dir or an unknown flag; -E2BIG: an option this library
 * does not know; -ENOENT: no such directory; else as above.
 */
WPROF_API WPROF_CHECKED int wprof_images_open(const char *dir, const struct wprof_images_opts *opts,
					      struct wprof_images **out, struct wprof_why *why);

/** wprof_images_close() - close the chain; NULL is fine */
WPROF_API void wprof_images_close(struct wprof_images *images);

/** wprof_images_levels() - the levels, newest first; @n: set to their number */
WPROF_API const struct wprof_images_level *wprof_images_levels(const struct wprof_images *images,
							       size_t *n);

/**
 * wprof_images_withheld() - what is withheld of a process at a level
 * @level: number of the level, 0 the newest
 * @id: the pid in the dump
 * @out: empty for a plain or complete level; free it by wprof_ranges_free()
 *
 * Return: 0; -EINVAL: no such level; else as above.
 */
WPROF_API WPROF_CHECKED int wprof_images_withheld(const struct wprof_images *images, size_t level,
						  uint64_t id, struct wprof_ranges **out,
						  struct wprof_why *why);

/** struct wprof_images_lost - pages that do not resolve */
struct wprof_images_lost {
	const struct wprof_images_map *map;
	struct wprof_range range;
	size_t level; /* where the search ended, 0 the newest */
	const char *reason;
};

typedef void (*wprof_images_lost_fn)(const struct wprof_images_lost *lost, void *arg);

/** struct wprof_images_verdict - does a chain restore alone? */
struct wprof_images_verdict {
	bool restores;		 /* a dump, and every page of it resolves */
	uint64_t lost_pages;	 /* in the newest level */
	uint64_t resolved_pages; /* holes of the newest level that do resolve */
};

/**
 * wprof_images_verify() - follow every hole of the newest level down the chain
 * @lost: called for each run of pages that does not resolve; may be NULL
 *
 * Looks where CRIU looks: an entry at each level on the way. It cannot tell that
 * the data themselves are right.
 *
 * Return: 0 and @verdict set, whatever it is; else as above.
 */
WPROF_API WPROF_CHECKED int wprof_images_verify(const struct wprof_images *images,
						wprof_images_lost_fn lost, void *arg,
						struct wprof_images_verdict *verdict,
						struct wprof_why *why);

/** struct wprof_images_hot - what to leave out of one process */
struct wprof_images_hot {
	uint64_t id; /* its pid in the dump; 0: every process */
	const struct wprof_ranges *ranges;
};

/** struct wprof_images_ship - what to make of which dump */
struct wprof_images_ship {
	size_t size;			    /* sizeof(struct wprof_images_ship) */
	uint32_t flags;			    /* WPROF_IMAGES_* */
	const char *full;		    /* directory of the dump */
	const char *ship;		    /* directory to make; may exist when empty */
	const char *parent;		    /* its parent link, relative to @ship; NULL: as the
					 * dump's, a last part named as @full renamed */
	const char *root;		    /* as in struct wprof_images_opts */
	const struct wprof_images_hot *hot; /* several for one process are united */
	size_t n_hot;
};

/** struct wprof_images_shipped - what was made */
struct wprof_images_shipped {
	uint64_t present_pages; /* data copied from this dump */
	uint64_t filled_pages;	/* data copied from below it */
	uint64_t parent_pages;	/* left to the shipped chain */
	uint64_t withheld_pages;
	uint64_t written_bytes; /* all files */
};

/**
 * wprof_images_withhold() - make a dump to ship, without hot pages
 * @ship: @ship->hot names the pages left out; pages that refer to a page which
 *	the shipped level below lacks are left out too. Shared memory is copied.
 * @shipped: may be NULL
 *
 * The full chain is left as it is and must be kept until the last dump has been
 * completed. @ship->ship appears whole or not at all, whenever the machine dies:
 * it is written as @ship->ship with ".partial" behind, which the next run clears
 * away.
 *
 * Return: 0; -EINVAL: no directory named, a parent link that is not relative, or
 * none although the dump has one; -EEXIST: @ship->ship is there already, or what
 * is in its way is not ours; -EBUSY: another run is making it; -ESTALE
 * (WPROF_OTHER_CHAIN): the parent was not made from the dump's parent; -E2BIG: an
 * option this library does not know; -ENOSPC, -EDQUOT, -EFBIG: no room, nothing
 * is left of it; else as above.
 */
WPROF_API WPROF_CHECKED int wprof_images_withhold(const struct wprof_images_ship *ship,
						  struct wprof_images_shipped *shipped,
						  struct wprof_why *why);

/**
 * wprof_images_complete() - make the last dump to ship: the chain restores alone
 * @ship: @ship->hot must be empty; @ship->ship may be what
 *	wprof_images_withhold() made of the same dump: it is replaced
 *
 * As wprof_images_withhold(), but what the shipped chain lacks is filled in from
 * the full chain.
 *
 * Return: as wprof_images_withhold(); -EBADMSG also when a page does not resolve
 * in the full chain.
 */
WPROF_API WPROF_CHECKED int wprof_images_complete(const struct wprof_images_ship *ship,
						  struct wprof_images_shipped *shipped,
						  struct wprof_why *why);

/** wprof_version() - of the library that is loaded, as "1.2.3". MT-Safe, AS-Safe. */
WPROF_API const char *wprof_version(void);

#ifdef __cplusplus
}
#endif

#endif /* WPROF_H */
