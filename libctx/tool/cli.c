#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

int cli_output(int status)
{
	int err;

	errno = 0;
	err = fflush(stdout) || ferror(stdout);
	if (!err || status)
		return status;
	cli_error("standard output cannot be written: %s", strerror(errno ? errno : EIO));
	return CLI_FAILED;
}

/* At exit, whoever called it, argp for --help included: was all of it written? */
static void output_check(int status, void *arg)
{
	(void)arg;
	if (cli_output(status) != status)
		_exit(CLI_FAILED);
}

static void ignore(int sig)
{
	(void)sig;
}

/* Handled rather than ignored: a program that is executed finds its default. */
static void size_limit_is_error(void)
{
	const struct sigaction action = { .sa_handler = ignore, .sa_flags = SA_RESTART };
	struct sigaction old;

	if (!sigaction(SIGXFSZ, NULL, &old) && old.sa_handler == SIG_DFL)
		sigaction(SIGXFSZ, &action, NULL);
}

void cli_begin(void)
{
	for (int fd = 0; fd <= 2; fd++)
		/* the wrong way round: reads and writes fail as they would have */
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", (fd ? O_RDONLY : O_WRONLY) | O_CLOEXEC) != fd)
			break;
	size_limit_is_error();
	on_exit(output_check, NULL);
}

void cli_error(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, line);
}

/* The number at the start of @text; *@rest is what follows it. */
static bool number_prefix(const char *text, const char **rest, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	*rest = end;
	return errno == 0;
}

bool cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	const char *rest;
	uint64_t n;

	if (!number_prefix(text, &rest, &n) || *rest || n < min || n > max)
		return false;
	*out = n;
	return true;
}

bool cli_decimal(const char *text, double min, double max, double *out)
{
	char *end;
	double d;

	if ((*text < '0' || *text > '9') && *text != '.')
		return false;
	d = strtod(text, &end);
	if (end == text || *end || !isfinite(d) || d < min || d > max)
		return false;
	*out = d;
	return true;
}

bool cli_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	static const char units[] = "KMGT";
	const char *rest, *unit;
	unsigned int shift = 0;
	uint64_t n;

	if (!number_prefix(text, &rest, &n))
		return false;
	if (*rest) {
		unit = strchr(units, *rest & ~0x20);
		if (!unit || (rest[1] && strcmp(rest + 1, "iB")))
			return false;
		shift = 10 * (unsigned int)(unit - units + 1);
	}
	if (n > UINT64_MAX >> shift || (n << shift) < min || (n << shift) > max)
		return false;
	*out = n << shift;
	return true;
}

bool cli_pid(const char *text, pid_t *out)
{
	uint64_t n;

	if (!cli_number(text, 1, 1u << 22, &n))
		return false;
	*out = (pid_t)n;
	return true;
}
