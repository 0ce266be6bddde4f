#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bounded.h"
#include "cli.h"
#include "deputy.h"
#include "otlp_json.h"
#include "pctx.h"
#include "text.h"
#include "tool/human.h"
#include "tool/target.h"

/* A command that was asked to end has this long. */
#define END_TIMEOUT_MS 5000

/* ---- what it says about itself ------------------------------------------------- */

static void read_command(struct target *t)
{
	char path[40];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", t->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, t->command, sizeof(t->command) - 1);
	if (fd >= 0)
		close(fd);
	t->command[n > 0 ? n : 0] = '\0';
	t->command[strcspn(t->command, "\n")] = '\0';
	text_tame(t->command);
}

static void read_service(struct target *t, const struct pctx_context *context)
{
	const struct pctx_attr *a = pctx_context_find(context, "service.name");

	t->service[0] = '\0';
	if (a && a->value.kind == PCTX_STRING)
		snprintf(t->service, sizeof(t->service), "%.*s", (int)a->value.u.string.len,
			 a->value.u.string.data);
	text_tame(t->service);
}

static const struct pctx_reader_opts reader_opts = { .size = sizeof(reader_opts) };

static void read_context(struct target *t)
{
	struct pctx_context *context = NULL;

	json_decref(t->context);
	t->context = NULL;
	if (!t->reader || bounded_reader_read(t->pid, &reader_opts, &t->reader, &context))
		return;
	t->context = otlp_json_context(context);
	read_service(t, context);
	pctx_context_free(context);
}

void target_attach(pid_t pid, struct target *t)
{
	memset(t, 0, sizeof(*t));
	t->pid = pid;
	read_command(t);
	if (pctx_reader_open(pid, &reader_opts, &t->reader))
		t->reader = NULL;
	read_context(t);
}

bool target_changed(struct target *t)
{
	bool changed = false;
	json_t *old;
	bool differs;

	if (!t->reader || bounded_reader_poll(t->pid, &reader_opts, &t->reader, &changed) ||
	    !changed)
		return false;
	old = json_incref(t->context);
	read_context(t);
	differs = !!old != !!t->context || (old && !json_equal(old, t->context));
	json_decref(old);
	return differs;
}

const char *target_label(const struct target *t, char *out, size_t bytes)
{
	char name[4 * 48 + 1];

	if (t->service[0])
		snprintf(out, bytes, "%s (pid %d, service %s)", t->command, t->pid,
			 human_clip(t->service, 48, name));
	else
		snprintf(out, bytes, "%s (pid %d)", t->command, t->pid);
	return out;
}

/* ---- by service ----------------------------------------------------------------- */

static int several(const char *service, const pid_t *pids, size_t n, size_t room)
{
	char list[200] = "";
	size_t len = 0;

	for (size_t i = 0; i < n && i < room && len < sizeof(list) - 16; i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, " %d", pids[i]);
	cli_error("%zu processes have the service name %s:%s%s; name one by its pid", n, service,
		  list, n > room ? " ..." : "");
	return CLI_FAILED;
}

#define FOUND_MAX 16

struct found {
	int rc;
	size_t n;
	pid_t pids[FOUND_MAX];
};

static void look_for(const void *service, void *result)
{
	struct bounded_pass pass = { 0 };
	struct pctx_reader_opts opts = { .size = sizeof(opts),
					 .read = bounded_read,
					 .read_arg = &pass };
	struct found *found = result;

	found->n = FOUND_MAX;
	found->rc = pctx_find_service(service, &opts, found->pids, &found->n);
}

static int find_service(const char *service, pid_t *pid)
{
	struct found found = { .n = 0 };
	int rc = deputy_call(look_for, service, &found, sizeof(found));

	if (rc == 0)
		rc = found.rc;
	if (rc == -ENODATA) {
		cli_error("no process has published the service name %s; `pctx list` shows "
			  "those there are",
			  service);
		return CLI_UNAVAILABLE;
	}
	if (rc == -EPERM) {
		cli_error("no process that may be looked into has published the service name %s; "
			  "others may not be looked into: try again as root",
			  service);
		return CLI_UNAVAILABLE;
	}
	if (rc == -ETIMEDOUT) {
		cli_error("no process that can be read has published the service name %s; "
			  "`pctx list` shows those that do not answer",
			  service);
		return CLI_UNAVAILABLE;
	}
	if (rc) {
		cli_error("looking for the service %s: %s", service, strerror(-rc));
		return CLI_FAILED;
	}
	if (found.n > 1)
		return several(service, found.pids, found.n, FOUND_MAX);
	*pid = found.pids[0];
	return 0;
}

/* ---- started here ------------------------------------------------------------------ */

static void redirect_output(const struct options *o)
{
	int null;

	if (o->hides_output) {
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
	} else if (!o->output) {
		/* ours are JSON lines or a table: they and the command's text do not mix */
		dup2(STDERR_FILENO, STDOUT_FILENO);
	}
}

/* In the child: never returns. What @report gets is the errno of exec. */
static void exec_command(const struct options *o, const sigset_t *mask, int report)
{
	int error;

	sigprocmask(SIG_SETMASK, mask, NULL);
	redirect_output(o);
	execvp(o->command[0], o->command);
	error = errno;
	if (write(report, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

/* Return: 0 once the command runs; the errno of exec. */
static int await_exec(pid_t pid, int report)
{
	int error = 0;

	if (read(report, &error, sizeof(error)) != sizeof(error))
		return 0;
	waitpid(pid, NULL, 0);
	return error;
}

static int start_command(const struct options *o, const struct pace *p, pid_t *out)
{
	int report[2], error;
	pid_t pid;

	if (pipe2(report, O_CLOEXEC))
		goto failed;
	pid = fork();
	if (pid < 0) {
		close(report[0]);
		close(report[1]);
		goto failed;
	}
	if (pid == 0)
		exec_command(o, &p->old_mask, report[1]);
	close(report[1]);
	error = await_exec(pid, report[0]);
	close(report[0]);
	if (error) {
		cli_error("%s cannot be run: %s", o->command[0], strerror(error));
		return CLI_FAILED;
	}
	*out = pid;
	return 0;
failed:
	cli_error("%s cannot be started: %s", o->command[0], strerror(errno));
	return CLI_FAILED;
}

int target_find(const struct options *o, const struct pace *p, struct target *t)
{
	pid_t pid = o->pid;
	int rc = 0;

	if (o->service)
		rc = find_service(o->service, &pid);
	else if (o->command)
		rc = start_command(o, p, &pid);
	if (rc)
		return rc;
	target_attach(pid, t);
	t->started = o->command != NULL;
	return 0;
}

/* Our own child: no other process can have its number while it is not waited for. */
static void end_command(pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd fd = { .fd = pidfd, .events = POLLIN };

	if (waitpid(pid, NULL, WNOHANG) == 0) {
		kill(pid, SIGTERM);
		if (poll(&fd, 1, END_TIMEOUT_MS) == 1)
			waitpid(pid, NULL, 0);
		else
			cli_error("process %d was asked to end and still runs", pid);
	}
	if (pidfd >= 0)
		close(pidfd);
}

void target_close(struct target *t)
{
	if (t->started)
		end_command(t->pid);
	if (t->reader)
		pctx_reader_close(t->reader);
	json_decref(t->context);
	memset(t, 0, sizeof(*t));
}
