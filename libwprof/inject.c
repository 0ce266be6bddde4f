/*
 * inject.c - start wprof-inject and take the userfaultfd it hands over.
 *
 * Theory of operation
 *
 * The caller of this library may be anything: it may have threads that hold locks,
 * handlers of signals, no free descriptors, and it may be killed at any moment.
 * The target must not suffer from that. So what touches the target is done by a
 * program of its own:
 *
 *	caller					wprof-inject PID
 *	socketpair, posix_spawn  ------------>	own session, all signals blocked
 *	poll for the answer			stops a thread, two calls, lets it go
 *						closes copies in children
 *	recvmsg			 <------------	struct inject_reply, SCM_RIGHTS
 *	waitpid					exits
 *
 * Invariants
 *
 * - posix_spawn, never fork: a forked child of a program with threads may do next
 *   to nothing, and would have its descriptors and its memory.
 * - The injector gets /dev/null three times, the socket, and no environment: what
 *   the caller has set, LD_PRELOAD least of all, does not get into it. What the
 *   caller left open without O_CLOEXEC it closes first.
 * - Exactly one message comes, or the end of the socket: the injector died, or is
 *   another program. A message of another size or magic is one of another version.
 * - The descriptor comes with the message or not at all. Where this process has no
 *   number left for it, the kernel drops it (MSG_CTRUNC) and says so; the
 *   userfaultfd is then closed everywhere, for the injector's copy ends with it.
 *
 * When it dies. The caller, at any step: the injector finishes, its message finds no
 * reader, the descriptor ends with it. The injector: see inject/tracee.c; here the
 * socket ends without a message and the wait is over.
 *
 * Limits. The answer is waited for longer than the injector's own deadline, so a
 * timeout means that it gets no time at all; it is then not waited for, and its
 * exit is left to the caller's parenthood. A caller that ignores SIGCHLD, or whose
 * other thread waits for any child, has taken its exit status: that is not needed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apart.h"
#include "inject.h"
#include "inject/reply.h"
#include "why.h"

#define ANSWER_MS 15000 /* longer than the injector's own deadline */
#define INJECTOR  "wprof-inject"

/* ---- finding the injector --------------------------------------------------- */

/* cut the last component off; false: there is none left */
static bool path_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return false;
	*slash = '\0';
	return true;
}

static bool path_runs(const char *path)
{
	return !access(path, X_OK);
}

/* a build tree: libexec beside the directory of @object, or one further up */
static bool injector_near(const char *object, char *path, size_t size)
{
	char dir[PATH_MAX];

	if (!object || !realpath(object, dir) || !path_up(dir))
		return false;
	for (int i = 0; i < 2 && path_up(dir); i++) {
		if ((size_t)snprintf(path, size, "%s/libexec/" INJECTOR, dir) < size &&
		    path_runs(path))
			return true;
	}
	return false;
}

static const char *object_of_this(void)
{
	static const char anchor;
	Dl_info info;

	return dladdr(&anchor, &info) ? info.dli_fname : NULL;
}

static int injector_find(const char *given, char *path, size_t size, struct wprof_why *why)
{
	const char *dir = secure_getenv("PROCSCOPE_LIBEXEC");
	int n;

	if (given)
		n = snprintf(path, size, "%s", given);
	else if (dir)
		n = snprintf(path, size, "%s/" INJECTOR, dir);
	else if (injector_near(object_of_this(), path, size) ||
		 injector_near("/proc/self/exe", path, size))
		return 0;
	else
		n = snprintf(path, size, PROCSCOPE_LIBEXECDIR "/procscope/" INJECTOR);
	if (n >= 0 && (size_t)n < size && path_runs(path))
		return 0;
	return why_set(why, WPROF_NO_INJECTOR,
		       "%.160s cannot be run; install it or set PROCSCOPE_LIBEXEC", path);
}

/* ---- starting it -------------------------------------------------------------- */

/* Nothing interrupts it between its two calls in the target. */
static int spawn_attr(posix_spawnattr_t *attr)
{
	sigset_t all;

	sigfillset(&all);
	return apart_attr(attr, &all);
}

static int spawn_files(posix_spawn_file_actions_t *files, int sock)
{
	int err;

	err = posix_spawn_file_actions_adddup2(files, sock, REPLY_FD);
	for (int fd = 0; !err && fd < REPLY_FD; fd++)
		err = posix_spawn_file_actions_addopen(files, fd, "/dev/null", O_RDWR, 0);
	return err;
}

/* posix_spawn, never fork: the caller may have threads that hold locks */
static int spawn_injector(const char *path, pid_t target, int sock, pid_t *child)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	char number[16];
	char name[] = INJECTOR;
	char *argv[] = { name, number, NULL };
	char *env[] = { NULL };
	int err;

	snprintf(number, sizeof(number), "%d", target);
	err = posix_spawnattr_init(&attr);
	if (err)
		return -err;
	err = posix_spawn_file_actions_init(&files);
	if (!err) {
		err = spawn_attr(&attr);
		if (!err)
			err = spawn_files(&files, sock);
		if (!err)
			err = posix_spawn(child, path, &files, &attr, argv, env);
		posix_spawn_file_actions_destroy(&files);
	}
	posix_spawnattr_destroy(&attr);
	return -err;
}

/* ---- its answer ---------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* signals that the caller handles do not end the wait: its time runs on */
static int answer_wait(int sock)
{
	struct pollfd pfd = { .fd = sock, .events = POLLIN };
	const int64_t start = now_ms();
	int left = ANSWER_MS;
	int ret;

	do {
		ret = poll(&pfd, 1, left);
		if (ret >= 0 || errno != EINTR)
			break;
		left = (int)(ANSWER_MS - (now_ms() - start));
	} while (left > 0);
	if (ret < 0 && errno != EINTR)
		return -errno;
	return ret > 0 ? 0 : -ETIMEDOUT;
}

static int answer_fd(struct msghdr *msg)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	int fd;

	if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS ||
	    cmsg->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
	return fd;
}

static int answer_receive(int sock, struct inject_reply *reply, int *uffd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { reply, sizeof(*reply) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	ssize_t n;
	int err;

	err = answer_wait(sock);
	if (err)
		return err;
	n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -errno;
	*uffd = answer_fd(&msg);
	if (n != sizeof(*reply) || reply->magic != REPLY_MAGIC)
		return -EPROTO;
	reply->why.text[sizeof(reply->why.text) - 1] = '\0';
	if (!reply->err && *uffd < 0) /* no room for it in our table */
		return msg.msg_flags & MSG_CTRUNC ? -EMFILE : -EPROTO;
	return 0;
}

/* Another thread of the caller may have waited for it: that is fine. */
static void injector_reap(pid_t child)
{
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

static int answer_failed(pid_t pid, int err, struct wprof_why *why)
{
	if (err == -ETIMEDOUT)
		return why_system(why, err,
				  "no answer from " INJECTOR " about process %d, which "
				  "does not get to run (is its cgroup frozen?)",
				  pid);
	if (err == -EPROTO)
		return why_system(why, err,
				  INJECTOR " died, or is not of this version of libwprof");
	return why_system(why, err, "receiving the userfaultfd of process %d", pid);
}

static int inject_run(const char *path, pid_t pid, int *uffd, struct inject_stats *stats,
		      struct wprof_why *why)
{
	struct inject_reply reply = { 0 };
	int sock[2];
	pid_t child = -1;
	int err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		return why_system(why, -errno, "creating a socket pair");
	err = spawn_injector(path, pid, sock[1], &child);
	close(sock[1]);
	if (err) {
		close(sock[0]);
		return why_system(why, err, "starting %.160s", path);
	}
	err = answer_receive(sock[0], &reply, uffd);
	close(sock[0]);
	if (err != -ETIMEDOUT) /* else it may have to wait for its target */
		injector_reap(child);
	if (err)
		return answer_failed(pid, err, why);
	if (stats)
		*stats = reply.stats;
	if (why)
		*why = reply.why;
	return reply.err;
}

int inject_uffd(pid_t pid, const char *injector, int *uffd_out, struct inject_stats *stats,
		struct wprof_why *why)
{
	const int saved = errno;
	char path[PATH_MAX];
	int uffd = -1;
	int err;

	why_clear(why);
	if (pid <= 0)
		err = why_set(why, WPROF_NO_PROCESS, "%d is not the number of a process", pid);
	else if (pid == getpid())
		err = why_set(why, WPROF_SELF, "process %d cannot profile itself", pid);
	else
		err = injector_find(injector, path, sizeof(path), why);
	if (!err)
		err = inject_run(path, pid, &uffd, stats, why);
	if (!err)
		*uffd_out = uffd;
	else if (uffd >= 0)
		close(uffd);
	errno = saved;
	return err;
}
