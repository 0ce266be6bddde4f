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
 * CLOCK_MONOTONIC nanoseconds unless said otherwise.
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
#define WPROF_API	__attribute__((visibility("default")))
#define WPROF_CHECKED	__attribute__((warn_unused_result))
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
	WPROF_NO_PROCESS,	/* -ESRCH: no such process */
	WPROF_KERNEL_THREAD,	/* -EINVAL: it has no memory of its own */
	WPROF_SELF,		/* -EINVAL: the caller's own process */
	WPROF_TRACED,		/* -EBUSY: another tracer holds it */
	WPROF_NOT_PERMITTED,	/* -EPERM: credentials, Yama, or a container */
	WPROF_SECCOMP,		/* -EACCES: the target's filter forbids it */
	WPROF_NO_KERNEL,	/* -EOPNOTSUPP: kernel lacks a feature, text names it */
	WPROF_NO_ARCH,		/* -ENOSYS: no injection for this architecture */
	WPROF_NO_INJECTOR,	/* -ENOENT: libexec/wprof-inject not found */
	WPROF_NO_THREAD,	/* -EAGAIN: no thread could be stopped in time */
	WPROF_ENDED,		/* -ESRCH: the target exited meanwhile */
	WPROF_EXECED,		/* -ESTALE: the target runs a new program now */
	WPROF_NOT_ARMED,	/* -EIO: arming had no effect */
	WPROF_SYSTEM		/* any other errno */
};

/** struct wprof_why - the reason in words; optional out-parameter */
struct wprof_why {
	enum wprof_reason reason;
	char text[240];		/* one line: what failed, why, what can be done */
};

/* ---- profiling a process -------------------------------------------------- */

enum wprof_arming {
	WPROF_EXACT,		/* everything is re-armed at each interval */
	WPROF_SAMPLE		/* hot memory in rotating 2 MiB chunks, 1 in 16 */
};

/** WPROF_VMA - granularity of heat: whole VMAs, written / all pages */
#define WPROF_VMA		0u
/** WPROF_CHUNK - default of the programs: 2 MiB, written / populated pages */
#define WPROF_CHUNK		(2u << 20)

/** flags of struct wprof_opts */
#define WPROF_F_SOFT_DIRTY		(1u << 0)	/* read bit 55 beside, never clear it */
#define WPROF_F_CLEAR_SOFT_DIRTY	(1u << 1)	/* and clear it: CRIU then loses pages */
#define WPROF_F_COLLAPSE		(1u << 2)	/* give split huge pages back on close */

/** struct wprof_opts - how to profile; all 0: defaults */
struct wprof_opts {
	size_t size;			/* sizeof(struct wprof_opts) */
	uint32_t arming;		/* enum wprof_arming; 0: exact */
	uint32_t flags;			/* WPROF_F_* */
	uint64_t granularity_bytes;	/* WPROF_VMA, or a power of two, 64 KiB to 1 GiB */
	double hot_threshold;		/* 0 < t < 1; 0: 0.3 */
	uint32_t hot_consecutive;	/* 1 to 10 intervals; 0: 3 */
	uint32_t window;		/* 1 to 64 intervals; 0: 10 */
	const char *injector;		/* path of wprof-inject; NULL: where installed */
};

enum wprof_vma_type {
	WPROF_HEAP, WPROF_STACK, WPROF_ANONYMOUS, WPROF_CODE, WPROF_DATA, WPROF_VDSO
};

/** flags of struct wprof_vma: what happened to it in this interval */
#define WPROF_VMA_NEW		(1u << 0)
#define WPROF_VMA_CHANGED	(1u << 1)	/* grown, shrunk, merged or split */
#define WPROF_VMA_BUSY		(1u << 2)	/* another userfaultfd owns it: not tracked */

/** struct wprof_vma - one tracked VMA in one interval */
struct wprof_vma {
	uint64_t start, end;
	enum wprof_vma_type type;
	uint32_t flags;			/* WPROF_VMA_* */
	uint64_t written_pages;		/* written, and still populated at the scan */
	uint64_t populated_pages;	/* cached, at most 10 intervals old */
	const char *name;		/* as in maps, "" for anonymous memory */
};

/** struct wprof_run - consecutive written pages */
struct wprof_run {
	uint64_t start;			/* address of the first */
	uint64_t n_pages;
};

/** struct wprof_cost - what this interval cost */
struct wprof_cost {
	uint64_t scan_ns;		/* time spent in PAGEMAP_SCAN */
	uint64_t total_ns;		/* the whole call */
	uint64_t n_scans;		/* system calls for scanning */
	uint64_t faults;		/* faults the arming caused in the target, at most */
};

/** struct wprof_interval - all of one interval; lives until the next call */
struct wprof_interval {
	uint64_t number;		/* 1, 2, ... */
	uint64_t start_ns;		/* end of the interval before */
	uint64_t length_ns;		/* measured */
	bool ended;			/* the target exited or exec'ed: no more to come */
	bool estimated;			/* sampled arming: page counts are extrapolated */
	uint64_t page_bytes;		/* size of a page */
	uint64_t written_pages;
	uint64_t armed_pages;		/* pages that were armed during this interval */
	uint64_t untracked_shared_bytes;
	uint64_t untracked_busy_bytes;
	const struct wprof_vma *vmas;	/* ascending */
	size_t n_vmas;
	const struct wprof_run *runs;	/* ascending, never adjacent within a VMA */
	size_t n_runs;
	struct wprof_cost cost;
};

/** struct wprof_region - memory that is hot now; adjacent regions are merged */
struct wprof_region {
	uint64_t start, end;
	double written_ratio;		/* last interval, 0 to 1 */
	double window_ratio;		/* mean over the window */
	uint32_t consecutive;		/* intervals in a row above the threshold */
	enum wprof_vma_type type;
	const char *name;
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
 * One thread of @pid is stopped for well under a millisecond. All private
 * writable memory is registered and what exists of it armed; interval 1 begins.
 * Memory that does not exist is never armed. A VMA owned by another userfaultfd
 * is skipped and told in each interval.
 *
 * Spec: write profiler, 4.1 and 4.2. AS-Unsafe.
 *
 * Return: 0, or
 * -EINVAL: an option is out of its range; @pid is a kernel thread or the caller;
 * -E2BIG: options of a newer library are set: clear them;
 * -ESRCH: no such process, or it exited meanwhile;
 * -ESTALE: it runs a new program now: call again;
 * -EBUSY: another tracer holds it: stop that one;
 * -EPERM: run as the target's user with ptrace allowed, or as root;
 * -EACCES: a seccomp filter of the target or caller forbids it;
 * -EOPNOTSUPP: the kernel lacks what @why names: wprof_check() shows all;
 * -ENOSYS: this architecture is not supported;
 * -ENOENT: wprof-inject was not found: name it in @opts;
 * -EAGAIN: no thread could be stopped in time: call again;
 * -EIO: arming had no effect, nothing can be measured here;
 * -ENOMEM, -EMFILE or another errno of the system.
 */
WPROF_API WPROF_CHECKED int wprof_open(pid_t pid, const struct wprof_opts *opts,
				       struct wprof **out, struct wprof_why *why);

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
 * close; -ENOMEM: the interval is lost in part, go on or close.
 */
WPROF_API WPROF_CHECKED int wprof_sample(struct wprof *w, const struct wprof_interval **out);

/**
 * wprof_hot() - what was hot at the end of the last interval
 * @out: ascending, valid until the next wprof_sample() or the closing; it stays
 *	while paused and after the target's end
 * @n: their number; 0 before the first intervals have passed
 *
 * Adjacent hot parts of a VMA are one region: the ratios are weighted by size,
 * consecutive is the least.
 *
 * Spec: write profiler, 4.4.3, and 6.3.
 *
 * Return: 0, or -EINVAL.
 */
WPROF_API WPROF_CHECKED int wprof_hot(struct wprof *w, const struct wprof_region **out,
				      size_t *n);

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
 * Return: 0, or -EINVAL; -ESRCH, -ESTALE: the target has ended; -EIO: arming had
 * no effect; -ENOMEM.
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
	const char *name;		/* short, stable: "pagemap_scan" */
	int state;			/* 1 yes, 0 no, -1 not known */
	bool needed;			/* profiling is impossible without it */
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
#define WPROF_CRIU_INLINE	10u

/** struct wprof_criu_opts - what a dump leaves out, and what it takes without parent */
struct wprof_criu_opts {
	size_t size;				/* sizeof(struct wprof_criu_opts) */
	const struct wprof_ranges *hot;		/* hot now; NULL: nothing (a final dump) */
	const struct wprof_ranges *previous;	/* what the parent dump left out; NULL: none */
	const struct wprof_range *vmas;		/* round to these; NULL: page exact */
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

WPROF_API const char *wprof_version(void);

#ifdef __cplusplus
}
#endif

#endif /* WPROF_H */
