/*
 * Work in a process that may be left behind.
 *
 * Theory of operation
 *
 * A thread that waits for a file system (FUSE) which took a request and does not
 * answer ends by no signal. While it is there its process does not end either: the
 * main thread is a zombie that nobody can wait for, and the files stay open, a pipe
 * on standard output among them, whose reader waits with it. So what reads other
 * processes runs in a child. When that is through and has left threads, it gives up
 * its standard files and sends its exit code by a pipe; this process exits with it.
 * What is left of the child goes to init, and ends with the file system.
 *
 * In all other cases the child just exits, the pipe is closed by that, and its status
 * is waited for. Signals that a process sent are passed on; those of the terminal the
 * child gets itself. If one of them ends the child while a thread is stuck, there is
 * neither an exit code nor a status: the child's main thread being a zombie tells. The
 * end of this process ends the child.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bounded.h"
#include "cli.h"
#include "deputy.h"

#define LOOK_MS 200 /* after a signal: did it end the child? */

static int told = -1; /* in the child: where the exit code is said */

/* At the child's exit, whoever called that. */
static void tell_exit(int status, void *arg)
{
	pid_t child = *(const pid_t *)arg;

	if (child != getpid() || !bounded_left())
		return;
	status = cli_output(status);
	for (int fd = 0; fd <= 2; fd++)
		close(fd);
	if (write(told, &status, sizeof(status)) < 0)
		status = CLI_FAILED;
	_exit(status);
}

static void child_begin(pid_t parent, int fd)
{
	static pid_t self;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(CLI_FAILED);
	told = fd;
	self = getpid();
	on_exit(tell_exit, &self);
}

/* ---- the face of the child -------------------------------------------------------- */

struct face {
	pid_t child;
	int code;    /* its exit code comes here */
	int signals; /* a signalfd */
	int last;    /* a signal that the child was sent */
	sigset_t caught;
};

static _Noreturn void die_by(struct face *f, int number)
{
	signal(number, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &f->caught, NULL);
	raise(number);
	_exit(128 + number);
}

/* The child has ended, all of it. */
static int face_status(struct face *f)
{
	int status;

	while (waitpid(f->child, &status, 0) < 0) {
		if (errno != EINTR)
			return CLI_FAILED;
	}
	if (WIFSIGNALED(status))
		die_by(f, WTERMSIG(status));
	return WEXITSTATUS(status);
}

static void face_pass_on(struct face *f)
{
	struct signalfd_siginfo info;

	if (read(f->signals, &info, sizeof(info)) != sizeof(info))
		return;
	f->last = (int)info.ssi_signo;
	if (info.ssi_code <= 0)
		kill(f->child, f->last);
}

static bool is_zombie(pid_t pid)
{
	char path[32], text[512], *end;
	FILE *stat;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	stat = fopen(path, "re");
	if (!stat)
		return true;
	n = fread(text, 1, sizeof(text) - 1, stat);
	fclose(stat);
	text[n] = '\0';
	end = strrchr(text, ')');
	return end && strncmp(end, ") Z", 3) == 0;
}

static int face_show(struct face *f)
{
	struct pollfd on[] = { { .fd = f->code, .events = POLLIN },
			       { .fd = f->signals, .events = POLLIN } };
	int code, n;

	for (;;) {
		n = poll(on, 2, f->last ? LOOK_MS : -1);
		if (n < 0 && errno != EINTR)
			return CLI_FAILED;
		if (n > 0 && on[0].revents)
			return read(f->code, &code, sizeof(code)) == sizeof(code) ? code
										  : face_status(f);
		if (n > 0 && on[1].revents)
			face_pass_on(f);
		if (n == 0 && is_zombie(f->child))
			die_by(f, f->last);
	}
}

int deputy_main(int (*work)(int argc, char **argv), int argc, char **argv)
{
	struct face f = { .last = 0 };
	pid_t self = getpid();
	sigset_t before;
	int ends[2];

	sigemptyset(&f.caught);
	sigaddset(&f.caught, SIGINT);
	sigaddset(&f.caught, SIGTERM);
	sigaddset(&f.caught, SIGHUP);
	sigaddset(&f.caught, SIGQUIT);
	if (pipe2(ends, O_CLOEXEC))
		return work(argc, argv);
	sigprocmask(SIG_BLOCK, &f.caught, &before);
	f.signals = signalfd(-1, &f.caught, SFD_CLOEXEC);
	f.child = f.signals < 0 ? -1 : fork();
	if (f.child <= 0)
		sigprocmask(SIG_SETMASK, &before, NULL);
	if (f.child == 0) {
		close(f.signals);
		close(ends[0]);
		child_begin(self, ends[1]);
	}
	if (f.child <= 0)
		return work(argc, argv);
	close(ends[1]);
	f.code = ends[0];
	return face_show(&f);
}

/* ---- one call ---------------------------------------------------------------------- */

static bool read_all(int fd, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = read(fd, (char *)to + done, bytes - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static _Noreturn void call_child(void (*call)(const void *arg, void *result), const void *arg,
				 void *result, size_t bytes, int fd)
{
	bool left, ok;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	call(arg, result);
	left = bounded_left();
	ok = write(fd, result, bytes) == (ssize_t)bytes && write(fd, &left, sizeof(left)) > 0;
	for (int std = 0; std <= 2; std++)
		close(std);
	_exit(ok ? CLI_DONE : CLI_FAILED);
}

int deputy_call(void (*call)(const void *arg, void *result), const void *arg, void *result,
		size_t bytes)
{
	bool left = false, ok;
	pid_t child;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	child = fork();
	if (child == 0)
		call_child(call, arg, result, bytes, ends[1]);
	close(ends[1]);
	ok = child > 0 && read_all(ends[0], result, bytes) &&
	     read_all(ends[0], &left, sizeof(left));
	close(ends[0]);
	while (child > 0 && !left && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return ok ? 0 : -ECHILD;
}
