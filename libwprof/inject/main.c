/*
 * wprof-inject - take a userfaultfd out of another process.
 *
 * Started by libwprof with a socket as descriptor REPLY_FD; answers with one
 * struct inject_reply. A program of its own, in a session of its own, so that
 * the end of its caller at any moment does not leave a target half changed.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/arch.h"
#include "inject/clock.h"
#include "inject/reply.h"
#include "inject/take.h"
#include "why.h"

#define DEADLINE_NS (6 * NS_PER_S)

/*
 * From the first change to the last the target depends on this program getting
 * to run: ahead of others, and without page faults. Where that is not allowed,
 * it goes without.
 */
static void hurry(void)
{
	const struct sched_param param = { .sched_priority = 1 };

	if (!sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param))
		tracee_realtime();
	if (mlockall(MCL_CURRENT))
		errno = 0;
}

/*
 * Nothing but SIGKILL ends this program while a target is in its hands. What
 * its caller left open is none of its business: REPLY_FD alone stays.
 */
static void shield(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGCHLD, SIG_DFL);
	close_range(REPLY_FD + 1, ~0u, 0);
	if (chdir("/"))
		return;
}

static int run(pid_t pid, int *uffd, struct inject_reply *reply)
{
	const uint64_t deadline_ns = clock_ns() + DEADLINE_NS;
	int number;
	int err;

	if (!ARCH_SUPPORTED)
		return why_set(&reply->why, WPROF_NO_ARCH,
			       "there is no injection for " ARCH_NAME " yet");
	err = take_uffd(pid, uffd, &number, deadline_ns, &reply->stats, &reply->why);
	if (err)
		return err;
	settle(pid, reply->stats.tid, deadline_ns, &reply->stats);
	return copies_close(*uffd, number, deadline_ns, &reply->stats.n_children, &reply->why);
}

/* A caller that is gone is no error: the descriptor goes with this program. */
static void answer(const struct inject_reply *reply, int uffd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = { .buf = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)reply, sizeof(*reply) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;

	if (uffd >= 0) {
		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &uffd, sizeof(int));
	}
	if (sendmsg(REPLY_FD, &msg, MSG_NOSIGNAL) < 0)
		return;
}

static bool is_socket(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISSOCK(st.st_mode);
}

int main(int argc, char **argv)
{
	struct inject_reply reply;
	int uffd = -1;

	if (argc == 2 && !strcmp(argv[1], "--version")) {
		puts("wprof-inject (procscope) " PROCSCOPE_VERSION);
		if (!fflush(stdout))
			return 0;
		perror("wprof-inject: standard output cannot be written");
		return 1;
	}
	if (argc != 2 || atoi(argv[1]) <= 0 || !is_socket(REPLY_FD)) {
		fputs("wprof-inject: it is started by libwprof; use wprof(1)\n", stderr);
		return 2;
	}
	shield();
	hurry();
	memset(&reply, 0, sizeof(reply));
	reply.magic = REPLY_MAGIC;
	reply.err = run(atoi(argv[1]), &uffd, &reply);
	answer(&reply, reply.err ? -1 : uffd);
	_exit(reply.err ? 1 : 0);
}
