/* run.c - CRIU as a child: start it, wait for it, find what it complained of. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apart.h"
#include "criu/dump.h"

#define KEPT_FD 3

/* Signals as a shell would give them. */
static int child_attr(posix_spawnattr_t *attr)
{
	sigset_t none;

	sigemptyset(&none);
	return apart_attr(attr, &none);
}

static int child_files(posix_spawn_file_actions_t *files, const char *out, int keep_fd)
{
	int err = 0;

	if (keep_fd >= 0) /* the same number twice clears close-on-exec */
		err = posix_spawn_file_actions_adddup2(files, keep_fd, KEPT_FD);
	if (!err)
		err = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
	if (!err)
		err = posix_spawn_file_actions_addopen(files, 1, out, O_WRONLY | O_CREAT | O_TRUNC,
						       0600);
	if (!err)
		err = posix_spawn_file_actions_adddup2(files, 1, 2);
	return err;
}

/*
 * CRIU has children of its own for a moment, to try what the kernel can do; one that is
 * killed just then leaves them waiting for ever, and with them the lock of the images
 * directory. Its group goes with it, and is its own for as long as it is not reaped.
 */
static int reap(pid_t pid, int *status)
{
	siginfo_t end;

	while (waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT))
		if (errno != EINTR)
			return errno;
	if (end.si_code != CLD_EXITED)
		kill(-pid, SIGKILL);
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

int run_child(char *const argv[], const char *out, int keep_fd, int *status)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int err, saved = errno;
	pid_t pid = 0;

	err = posix_spawnattr_init(&attr);
	if (err)
		return -err;
	err = posix_spawn_file_actions_init(&files);
	if (!err) {
		err = child_attr(&attr);
		if (!err)
			err = child_files(&files, out, keep_fd);
		if (!err)
			err = posix_spawnp(&pid, argv[0], &files, &attr, argv, environ);
		posix_spawn_file_actions_destroy(&files);
	}
	posix_spawnattr_destroy(&attr);
	if (!err)
		err = reap(pid, status);
	errno = saved;
	return -err;
}

/* "(00.012345) Error (criu/x.c:12): text" - not the sum at the end, which says nothing */
static const char *error_of(const char *line)
{
	const char *error = strstr(line, "Error (");

	return error && !strstr(error, "umping FAILED") ? error : NULL;
}

static const char *any_text(const char *line)
{
	return strspn(line, " \t\r\n") < strlen(line) ? line : NULL;
}

/* The last line of a file that @pick finds something in; @text is left if there is none. */
static void last_line(const char *path, const char *(*pick)(const char *), char *text, size_t room)
{
	const char *found;
	char *line = NULL;
	size_t size = 0;
	FILE *f = fopen(path, "re");

	while (f && getline(&line, &size, f) > 0) {
		line[strcspn(line, "\r\n")] = '\0';
		found = pick(line);
		if (found)
			snprintf(text, room, "%s", found);
	}
	free(line);
	if (f)
		fclose(f);
}

void run_last_error(const char *log, const char *out, char *text, size_t room)
{
	int saved = errno;

	text[0] = '\0';
	last_line(log, error_of, text, room);
	if (!text[0])
		last_line(out, any_text, text, room);
	for (char *c = text; *c; c++) /* one line, whatever a process is called */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	errno = saved;
}

static bool file_has(const char *path, const char *word)
{
	bool found = false;
	char *line = NULL;
	size_t size = 0;
	FILE *f = fopen(path, "re");

	while (f && !found && getline(&line, &size, f) > 0)
		found = strstr(line, word) != NULL;
	free(line);
	if (f)
		fclose(f);
	return found;
}

int run_has_native(const char *criu, const char *scratch)
{
	char *argv[] = { (char *)criu, (char *)"--help", NULL };
	int status, rc;

	rc = run_child(argv, scratch, -1, &status);
	if (!rc)
		rc = file_has(scratch, "--exclude-range") && file_has(scratch, "--exclude-file") &&
		     file_has(scratch, "--no-parent-range");
	unlink(scratch);
	return rc;
}
