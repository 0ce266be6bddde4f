/*
 * look PID WORD...: looks at the context of a process as the words say. For tests
 * that count what system calls that takes; so it prints only when it is through.
 *
 *	procfs		what is opened after this is opened by way of the procfs
 *	open, close	a reader
 *	read, poll	with it; "0 SERVICE", "0 changed", "0 unchanged", or -errno
 *	mark		a system call to be found in the trace: getppid
 *	ask		a line to descriptor 3, and wait for one from descriptor 4
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pctx.h"

static struct pctx_reader_opts opts = { .size = sizeof(opts) };
static struct pctx_reader *reader;

static void say_service(const struct pctx_context *c)
{
	const struct pctx_attr *a = pctx_context_find(c, "service.name");

	if (a && a->value.kind == PCTX_STRING)
		printf("read: 0 %.*s\n", (int)a->value.u.string.len, a->value.u.string.data);
	else
		puts("read: 0");
}

static void look_read(void)
{
	struct pctx_context *c;
	int rc = pctx_reader_read(reader, &c);

	if (rc) {
		printf("read: %d\n", rc);
		return;
	}
	say_service(c);
	pctx_context_free(c);
}

static void look_poll(void)
{
	bool changed = false;
	int rc = pctx_reader_poll(reader, &changed);

	printf("poll: %d%s\n", rc, rc ? "" : changed ? " changed" : " unchanged");
}

static int ask(void)
{
	char c = 0;

	if (write(3, "\n", 1) != 1)
		return 1;
	while (read(4, &c, 1) == 1 && c != '\n')
		;
	return c != '\n';
}

static int look_open(pid_t pid)
{
	int rc = pctx_reader_open(pid, &opts, &reader);

	if (rc)
		printf("open: %d\n", rc);
	return rc;
}

static int look(pid_t pid, const char *word)
{
	if (strcmp(word, "procfs") == 0)
		opts.procfs = "/proc";
	else if (strcmp(word, "open") == 0)
		return look_open(pid);
	else if (strcmp(word, "close") == 0)
		pctx_reader_close(reader);
	else if (strcmp(word, "read") == 0)
		look_read();
	else if (strcmp(word, "poll") == 0)
		look_poll();
	else if (strcmp(word, "mark") == 0)
		return getppid() < 0;
	else if (strcmp(word, "ask") == 0)
		return ask();
	else
		return 2;
	return 0;
}

int main(int argc, char **argv)
{
	static char output[65536];
	int rc = argc < 2 ? 2 : 0;

	setvbuf(stdout, output, _IOFBF, sizeof(output));
	for (int i = 2; i < argc && rc == 0; i++)
		rc = look((pid_t)strtol(argv[1], NULL, 10), argv[i]);
	return rc != 0;
}
