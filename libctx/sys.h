/*
 * sys.h - what the publisher asks of the kernel, where a C library may be older
 * than the kernel: system calls by number, constants with the release of Linux
 * that brought them. A kernel without one answers an error, and the caller falls
 * back. None of these is a cancellation point, and all return -errno.
 */
#ifndef PCTX_SYS_H
#define PCTX_SYS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef CLOCK_BOOTTIME
#define CLOCK_BOOTTIME 7 /* 2.6.39 */
#endif
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC	  0x0001u /* 3.17 */
#define MFD_ALLOW_SEALING 0x0002u /* 3.17 */
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u /* 6.3 */
#endif
#ifndef MADV_DONTFORK
#define MADV_DONTFORK 10 /* 2.6.16 */
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* 4.14 */
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA	     0x53564d41 /* 5.17 */
#define PR_SET_VMA_ANON_NAME 0
#endif

/* The numbers are part of the ABI; a C library's headers may lack them. */
#ifndef SYS_memfd_create
#if defined(__x86_64__) && !defined(__ILP32__)
#define SYS_memfd_create 319
#elif defined(__aarch64__) || defined(__riscv)
#define SYS_memfd_create 279
#elif defined(__i386__)
#define SYS_memfd_create 356
#endif
#endif

static inline long sys_result(long rc)
{
	return rc == -1 ? -errno : rc;
}

/** sys_memfd_create() - Linux 3.17, glibc 2.27: a descriptor or -errno */
static inline int sys_memfd_create(const char *name, unsigned int flags)
{
#ifdef SYS_memfd_create
	return (int)sys_result(syscall(SYS_memfd_create, name, flags));
#else
	(void)name;
	(void)flags;
	return -ENOSYS;
#endif
}

/** sys_name_mapping() - Linux 5.17 with CONFIG_ANON_VMA_NAME */
static inline int sys_name_mapping(const void *start, size_t len, const char *name)
{
	return (int)sys_result(syscall(SYS_prctl, (unsigned long)PR_SET_VMA,
				       (unsigned long)PR_SET_VMA_ANON_NAME, start, len, name));
}

static inline int sys_madvise(void *start, size_t len, int advice)
{
	return (int)sys_result(syscall(SYS_madvise, start, len, advice));
}

/**
 * sys_ftruncate() - give a file its size, or -errno
 *
 * A file that grows beyond RLIMIT_FSIZE is not only refused: SIGXFSZ ends the
 * program. So the limit is looked at before.
 */
static inline int sys_ftruncate(int fd, size_t len)
{
	struct rlimit limit;
	int rc;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < len)
		return -EFBIG;
	do {
		rc = ftruncate(fd, (off_t)len) ? -errno : 0;
	} while (rc == -EINTR);
	return rc;
}

/* close() of libc is a cancellation point; a retry could close another's file */
static inline void sys_close(int fd)
{
	syscall(SYS_close, fd);
}

/** sys_map() - private memory, of @fd or, if -1, zeroes; NULL with errno set: none */
static inline void *sys_map(size_t len, int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
	void *map = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);

	return map == MAP_FAILED ? NULL : map;
}

static inline int sys_open(const char *path, int flags)
{
	long rc;

	do {
		rc = sys_result(syscall(SYS_openat, -100 /* AT_FDCWD */, path, flags, 0));
	} while (rc == -EINTR);
	return (int)rc;
}

static inline ssize_t sys_read(int fd, void *buf, size_t len)
{
	long rc;

	do {
		rc = sys_result(syscall(SYS_read, fd, buf, len));
	} while (rc == -EINTR);
	return rc;
}

/** sys_read_at() - read of a file of our own; its offset moves. pread() can be cancelled. */
static inline ssize_t sys_read_at(int fd, void *buf, size_t len, uint64_t offset)
{
	long rc;
#ifdef SYS__llseek /* where a long has 32 bits */
	long long at;

	rc = sys_result(syscall(SYS__llseek, fd, (unsigned long)(offset >> 32),
				(unsigned long)offset, &at, 0 /* SEEK_SET */));
#else
	rc = sys_result(syscall(SYS_lseek, fd, offset, 0 /* SEEK_SET */));
#endif
	return rc < 0 ? rc : sys_read(fd, buf, len);
}

/** sys_page_size() - bytes of a page; cheap, from the auxiliary vector */
static inline size_t sys_page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

#endif /* PCTX_SYS_H */
