/*
 * send.c - rsync as a child.
 *
 * It stays in our process group: ctrl-C ends it too, and an ssh below it may ask
 * for a password on the terminal. What it prints comes through a pipe: the first
 * complaint is the reason for people, the last line only says that there was one.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "send.h"

#define SENT "Total bytes sent: "

extern char **environ;

static pthread_mutex_t child_lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t child; /* 0: none runs */
static bool stopped;

/** struct said - what is kept of what rsync prints */
struct said {
	char first[300];     /* line that is no figure */
	char complaint[300]; /* the first that is an error */
	int64_t sent_bytes;
};

static void keep_line(struct said *said, char *line)
{
	line[strcspn(line, "\r\n")] = '\0';
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	if (!strncmp(line, SENT, strlen(SENT)))
		said->sent_bytes = strtoll(line + strlen(SENT), NULL, 10);
	else if (!said->complaint[0] && !strncmp(line, "rsync: ", 7))
		snprintf(said->complaint, sizeof(said->complaint), "%s", line + 7);
	else if (!said->first[0] && *line)
		snprintf(said->first, sizeof(said->first), "%s", line);
}

static void listen_to(int fd, struct said *said)
{
	FILE *f = fdopen(fd, "r");
	char *line = NULL;
	size_t size = 0;

	said->sent_bytes = -1;
	while (f && getline(&line, &size, f) > 0)
		keep_line(said, line);
	free(line);
	if (f)
		fclose(f);
	else
		close(fd);
}

/* Signals as a shell would give them; ours are blocked. */
static int child_attr(posix_spawnattr_t *attr)
{
	sigset_t all, none;
	int err;

	sigfillset(&all);
	sigemptyset(&none);
	err = posix_spawnattr_setsigmask(attr, &none);
	if (!err)
		err = posix_spawnattr_setsigdefault(attr, &all);
	if (!err)
		err = posix_spawnattr_setflags(attr,
					       POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	return err;
}

static int child_files(posix_spawn_file_actions_t *files, int out)
{
	int err = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);

	if (!err)
		err = posix_spawn_file_actions_adddup2(files, out, 1);
	if (!err)
		err = posix_spawn_file_actions_adddup2(files, out, 2);
	return err;
}

/* Under the lock: send_stop() finds a child, or it comes before and none is started. */
static int child_begin(char *const argv[], posix_spawn_file_actions_t *files,
		       posix_spawnattr_t *attr)
{
	int err = ECANCELED;

	pthread_mutex_lock(&child_lock);
	if (!stopped)
		err = posix_spawnp(&child, argv[0], files, attr, argv, environ);
	if (err)
		child = 0;
	pthread_mutex_unlock(&child_lock);
	return err;
}

static int child_start(char *const argv[], int out)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int err = posix_spawnattr_init(&attr);

	if (err)
		return err;
	err = posix_spawn_file_actions_init(&files);
	if (!err) {
		err = child_attr(&attr);
		if (!err)
			err = child_files(&files, out);
		if (!err)
			err = child_begin(argv, &files, &attr);
		posix_spawn_file_actions_destroy(&files);
	}
	posix_spawnattr_destroy(&attr);
	return err;
}

/* Not reaped before the lock is taken: its number is not another's. */
static int child_end(void)
{
	siginfo_t info;
	int status = 0;

	while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) && errno == EINTR)
		;
	pthread_mutex_lock(&child_lock);
	if (waitpid(child, &status, 0) < 0)
		status = 255 << 8;
	child = 0;
	pthread_mutex_unlock(&child_lock);
	return status;
}

void send_stop(void)
{
	pthread_mutex_lock(&child_lock);
	stopped = true;
	if (child)
		kill(child, SIGTERM);
	pthread_mutex_unlock(&child_lock);
}

static bool explain(const char *to, int status, const struct said *said, char *why, size_t room)
{
	const char *text = *said->complaint ? said->complaint : said->first;
	char how[40];

	if (!status)
		return true;
	if (stopped)
		snprintf(how, sizeof(how), "was interrupted");
	else if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(status));
	else
		snprintf(how, sizeof(how), "ended with %d", WEXITSTATUS(status));
	snprintf(why, room, "rsync to %s %s%s%s", to, how, !stopped && *text ? ": " : "",
		 stopped ? "" : text);
	return false;
}

static bool run_rsync(char *const argv[], const char *to, int64_t *sent_bytes, char *why,
		      size_t room)
{
	struct said said = { .sent_bytes = -1 };
	int fds[2], err;

	if (pipe2(fds, O_CLOEXEC)) {
		snprintf(why, room, "rsync cannot be started: %s", strerror(errno));
		return false;
	}
	err = child_start(argv, fds[1]);
	close(fds[1]);
	if (err) {
		close(fds[0]);
		if (err == ECANCELED)
			snprintf(why, room, "rsync to %s was interrupted", to);
		else
			snprintf(why, room, "rsync cannot be started: %s%s", strerror(err),
				 err == ENOENT ? "; install it" : "");
		return false;
	}
	listen_to(fds[0], &said);
	*sent_bytes = said.sent_bytes;
	return explain(to, child_end(), &said, why, room);
}

bool send_check(const char *to, char *why, size_t room)
{
	char empty[] = "/tmp/wprof-ctl.XXXXXX", from[sizeof(empty) + 1];
	/* neither owner nor mode: the directory may be another's and is only made if it is not */
	char *argv[] = { (char *)"rsync", (char *)"-r", (char *)"--", from, (char *)to, NULL };
	int64_t sent_bytes;
	bool ok;

	if (!mkdtemp(empty)) {
		snprintf(why, room, "/tmp: %s", strerror(errno));
		return false;
	}
	snprintf(from, sizeof(from), "%s/", empty);
	ok = run_rsync(argv, to, &sent_bytes, why, room);
	rmdir(empty);
	return ok;
}

bool send_images(const char *images, const char *what, const char *to, int64_t *sent_bytes,
		 char *why, size_t room)
{
	char *from = NULL;
	/* -R: from the /./ on the path is made there too; our numbers of users are the ones */
	char *argv[] = { (char *)"rsync",
			 (char *)"-aR",
			 (char *)"--numeric-ids",
			 (char *)"--no-h",
			 (char *)"--stats",
			 (char *)"--",
			 NULL,
			 (char *)to,
			 NULL };
	bool ok;

	if (asprintf(&from, "%s/./%s", images, what) < 0) {
		snprintf(why, room, "out of memory");
		return false;
	}
	argv[6] = from;
	ok = run_rsync(argv, to, sent_bytes, why, room);
	free(from);
	return ok;
}
