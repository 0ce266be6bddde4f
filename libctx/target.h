/* target.h - another process: its identity, its files, its memory. */
#ifndef PCTX_TARGET_H
#define PCTX_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/**
 * struct target - a process that stays the same one
 *
 * @dir is an open /proc/PID: it names this very process, and every look-up in
 * it fails once that process is gone, whoever has its number by then.
 */
struct target {
	int dir;
	int thread; /* the same of a thread that stands in for it, or -1 */
	int mem;    /* -1: not open */
	pid_t process;
	pid_t pid;	/* for process_vm_readv: of the process or that thread */
	bool by_number; /* process_vm_readv works and means this process */
	bool by_root;	/* the procfs is not this namespace's: never by number */
};

/** target_open() - 0, -ESRCH, -EPERM, -EINVAL (@procfs is none), -EMFILE, ... */
int target_open(struct target *t, pid_t pid, const char *procfs);
void target_close(struct target *t);

/** target_is_procfs() - is the open directory @dir a procfs, or laid out as one? */
bool target_is_procfs(int dir);

/** target_gone() - did the process end since target_open()? */
bool target_gone(const struct target *t);

/** target_file() - open a file of the process's directory for reading */
int target_file(const struct target *t, const char *name);

/** target_refresh() - forget what belongs to a former address space (exec) */
void target_refresh(struct target *t);

/**
 * target_read() - copy @len bytes at @address
 *
 * Return: 0; -EFAULT when not all of it could be read (nothing there, or the
 * process gone: ask target_gone); -EPERM; -ESRCH.
 */
int target_read(struct target *t, uint64_t address, void *to, size_t len);

/**
 * target_readv() - the same for several pieces, in order
 *
 * One system call where that is known to keep the order, else one for each
 * piece with a barrier between them.
 */
int target_readv(struct target *t, const struct iovec *to, const struct iovec *from, size_t n);

/**
 * target_ended() - has the process, or the thread that stands in, run to its end?
 *
 * True from the moment it began to exit: it gives its memory up next, and to free
 * that may take long before it is a zombie. False when there is no telling.
 */
bool target_ended(const struct target *t);

/**
 * target_live_thread() - go over to a thread that still runs
 *
 * When the first thread of a process has ended and others run on, its own
 * directory shows no memory. Return: true when there is such a thread.
 */
bool target_live_thread(struct target *t);

#endif /* PCTX_TARGET_H */
