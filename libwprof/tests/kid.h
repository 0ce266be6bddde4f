/*
 * kid.h - a target for tests: a child that does what it is told.
 *
 * It makes its userfaultfd itself, so that what is tested here needs no
 * injection, and then runs system calls and touches memory on request, one
 * message each over a socket. Its own stack and data are written meanwhile:
 * look at memory that was mapped for the test only.
 */
#ifndef KID_H
#define KID_H

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "profile.h"

#define PAGE	 4096ul
#define PAGES(n) ((long)(n) * (long)PAGE)
#define MIB	 (1ul << 20)
#define KID_ANON (MAP_PRIVATE | MAP_ANONYMOUS)

enum kid_op { KID_CALL, KID_WRITE, KID_READ, KID_FORK, KID_STACK, KID_UFFD };

struct kid_order {
	enum kid_op op;
	long nr, a[6];
};

struct kid {
	pid_t pid;
	int sock;
	int uffd;
	struct wprof *w;
	const struct wprof_interval *iv;
};

/*
 * Memory that no sanitizer has heard of. What is written was not read before:
 * an emulated processor makes a load and a store of an increment, the load maps
 * a page of zeroes, and no huge page is ever made.
 */
static __attribute__((no_sanitize("address", "thread"))) void kid_touch(const struct kid_order *o)
{
	volatile char *p = (volatile char *)o->a[0];

	for (long i = 0; i < o->a[1]; i++)
		if (o->op == KID_WRITE)
			p[i * o->a[2] * (long)PAGE] = 1;
		else
			(void)p[i * o->a[2] * (long)PAGE];
}

/* A child that writes the pages too, into its own copy */
static long kid_fork(const struct kid_order *o)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		struct kid_order w = *o;

		w.op = KID_WRITE;
		kid_touch(&w);
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status ? 0 : -1;
}

static __attribute__((noinline)) long kid_stack(long depth)
{
	volatile char frame[2048];

	frame[0] = (char)depth;
	frame[sizeof(frame) - 1] = depth ? (char)kid_stack(depth - 1) : 0;
	return frame[0];
}

/* Another userfaultfd, as a JVM or an emulator has: registers a range. */
static long kid_uffd(const struct kid_order *o)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { (unsigned long)o->a[0], (unsigned long)o->a[1] },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
		return -errno;
	return fd;
}

static long kid_obey(const struct kid_order *o)
{
	long rc = 0;

	switch (o->op) {
	case KID_CALL:
		rc = syscall(o->nr, o->a[0], o->a[1], o->a[2], o->a[3], o->a[4], o->a[5]);
		return rc == -1 ? -errno : rc;
	case KID_FORK:
		return kid_fork(o);
	case KID_STACK:
		return kid_stack(o->a[0]) & 0;
	case KID_UFFD:
		return kid_uffd(o);
	default:
		kid_touch(o);
		return rc;
	}
}

static _Noreturn void kid_run(int sock)
{
	struct kid_order o;
	long rc = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);

	if (rc < 0)
		rc = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	while (write(sock, &rc, sizeof(rc)) == sizeof(rc) && read(sock, &o, sizeof(o)) == sizeof(o))
		rc = kid_obey(&o);
	_exit(0);
}

static inline long kid_answer(const struct kid *k)
{
	long rc = -1;

	ATF_REQUIRE_EQ((ssize_t)sizeof(rc), read(k->sock, &rc, sizeof(rc)));
	return rc;
}

static inline void kid_send(const struct kid *k, enum kid_op op, long nr, const long a[6])
{
	struct kid_order o = { .op = op, .nr = nr };

	memcpy(o.a, a, sizeof(o.a));
	ATF_REQUIRE_EQ((ssize_t)sizeof(o), write(k->sock, &o, sizeof(o)));
}

#define kid_order(k, op, nr, ...) \
	(kid_send((k), (op), (nr), (long[6]){ __VA_ARGS__ }), kid_answer(k))
#define kid_call(k, name, ...) kid_order(k, KID_CALL, SYS_##name, __VA_ARGS__)

static inline void kid_pages(const struct kid *k, enum kid_op op, long at, long n, long stride)
{
	ATF_REQUIRE_EQ(0, kid_order(k, op, 0, at, n, stride));
}

static inline void kid_write(const struct kid *k, long at, long n)
{
	kid_pages(k, KID_WRITE, at, n, 1);
}

static inline long kid_mmap_at(const struct kid *k, long at, size_t len, int prot, int flags)
{
	long p = kid_call(k, mmap, at, (long)len, prot, flags, -1, 0);

	ATF_REQUIRE_MSG(p > 0, "mmap: %s", strerror((int)-p));
	return p;
}

static inline long kid_mmap(const struct kid *k, size_t len)
{
	return kid_mmap_at(k, 0, len, PROT_READ | PROT_WRITE, KID_ANON);
}

static inline void kid_start(struct kid *k)
{
	int sv[2], pidfd;
	long fd;

	memset(k, 0, sizeof(*k));
	ATF_REQUIRE_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	k->pid = fork();
	ATF_REQUIRE(k->pid >= 0);
	if (!k->pid) {
		close(sv[0]);
		kid_run(sv[1]);
	}
	close(sv[1]);
	k->sock = sv[0];
	fd = kid_answer(k);
	ATF_REQUIRE_MSG(fd >= 0, "userfaultfd: %ld", fd);
	pidfd = (int)syscall(SYS_pidfd_open, k->pid, 0);
	k->uffd = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	ATF_REQUIRE_MSG(k->uffd >= 0, "pidfd_getfd: %s", strerror(errno));
	close(pidfd);
	ATF_REQUIRE_EQ(0, kid_call(k, close, fd));
}

static inline void kid_profile(struct kid *k, const struct wprof_opts *opts)
{
	struct wprof_why why = { 0 };
	int rc = profile_attach(k->pid, k->uffd, opts, &k->w, &why);

	ATF_REQUIRE_MSG(!rc, "%s: %s", strerror(-rc), why.text);
}

static inline const struct wprof_interval *kid_sample(struct kid *k)
{
	int rc = wprof_sample(k->w, &k->iv);

	ATF_REQUIRE_MSG(!rc, "wprof_sample: %s", strerror(-rc));
	return k->iv;
}

static inline void kid_end(struct kid *k)
{
	wprof_close(k->w);
	close(k->sock);
	kill(k->pid, SIGKILL);
	waitpid(k->pid, NULL, 0);
}

/* Written pages the last interval reported in [start, start + len) */
static inline uint64_t kid_written(const struct kid *k, long start, size_t len)
{
	uint64_t n = 0, from = (uint64_t)start, to = from + len;

	for (size_t i = 0; i < k->iv->n_runs; i++) {
		uint64_t a = k->iv->runs[i].start, b = a + k->iv->runs[i].n_pages * PAGE;

		a = a > from ? a : from;
		b = b < to ? b : to;
		n += a < b ? (b - a) / PAGE : 0;
	}
	return n;
}

/* The VMA of the last interval that holds addr, or NULL */
static inline const struct wprof_vma *kid_vma(const struct kid *k, long addr)
{
	for (size_t i = 0; i < k->iv->n_vmas; i++)
		if (k->iv->vmas[i].start <= (uint64_t)addr && (uint64_t)addr < k->iv->vmas[i].end)
			return &k->iv->vmas[i];
	return NULL;
}

/* Every condition the header promises of an interval */
static inline void kid_invariants(const struct kid *k)
{
	const struct wprof_interval *iv = k->iv;
	uint64_t end = 0, in_runs = 0, in_vmas = 0;
	size_t v = 0;

	for (size_t i = 0; i < iv->n_vmas; i++) {
		ATF_REQUIRE(iv->vmas[i].start >= end && iv->vmas[i].start < iv->vmas[i].end);
		end = iv->vmas[i].end;
		in_vmas += iv->vmas[i].written_pages;
	}
	end = 0;
	for (size_t i = 0; i < iv->n_runs; i++) {
		uint64_t start = iv->runs[i].start, stop = start + iv->runs[i].n_pages * PAGE;

		while (v < iv->n_vmas && iv->vmas[v].end <= start)
			v++;
		ATF_REQUIRE(v < iv->n_vmas && start >= iv->vmas[v].start);
		ATF_REQUIRE_MSG(stop <= iv->vmas[v].end, "a run crosses its VMA");
		ATF_REQUIRE(start > end || (start == end && start == iv->vmas[v].start));
		end = stop;
		in_runs += iv->runs[i].n_pages;
	}
	ATF_REQUIRE_EQ(in_vmas, iv->written_pages);
	if (!iv->estimated)
		ATF_REQUIRE_EQ(in_runs, iv->written_pages);
}

/* A case with a kid of its own, in k */
#define KID_CASE(name, text)                  \
	static void name##_of(struct kid *k); \
	CASE_WITHIN("60", name, text)         \
	{                                     \
		struct kid kid;               \
                                              \
		kid_start(&kid);              \
		name##_of(&kid);              \
		kid_end(&kid);                \
	}                                     \
	static void name##_of(struct kid *k)

#endif
