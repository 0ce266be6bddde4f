/*
 * pctx run - run a program that publishes a process context though it knows
 * nothing of it: libpctx-preload.so is loaded into it and does the publishing.
 */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "run.h"
#include "run_env.h"
#include "utf8.h"

enum { RUN_NO_FOLLOW = 256 };

struct run_args {
	char *attributes; /* as OTEL_RESOURCE_ATTRIBUTES, or NULL */
	bool no_follow_forks;
	char **command;
};

/* Append @len bytes in the form that OTEL_RESOURCE_ATTRIBUTES has. */
static char *run_encode(char *to, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (strchr("%,= \t", text[i]) || (unsigned char)text[i] < 0x20)
			to += sprintf(to, "%%%02X", (unsigned char)text[i]);
		else
			*to++ = text[i];
	}
	*to = 0;
	return to;
}

/* What is wrong with KEY=VALUE, NULL if nothing */
static const char *run_attribute_fault(const char *text)
{
	if (*text == '=' || !strchr(text, '='))
		return "not of the form KEY=VALUE";
	return utf8_valid(text, strlen(text)) ? NULL : "not UTF-8";
}

/* Add a faultless KEY=VALUE. */
static error_t run_add_attribute(struct run_args *args, const char *text)
{
	size_t old = args->attributes ? strlen(args->attributes) : 0;
	size_t key = strcspn(text, "=");
	/* each byte takes three at most, then ",", "=" and the end */
	char *all = realloc(args->attributes, old + 3 * strlen(text) + 3), *to;

	if (!all)
		return ENOMEM;
	args->attributes = all;
	to = all + old;
	if (old)
		*to++ = ',';
	to = run_encode(to, text, key);
	*to++ = '=';
	run_encode(to, text + key + 1, strlen(text + key + 1));
	return 0;
}

static error_t run_parse(int key, char *arg, struct argp_state *state)
{
	struct run_args *args = state->input;
	const char *fault;

	switch (key) {
	case 'a':
		fault = run_attribute_fault(arg);
		if (!fault)
			return run_add_attribute(args, arg);
		argp_error(state, "--attr %s: %s", arg, fault);
		return EINVAL;
	case RUN_NO_FOLLOW:
		args->no_follow_forks = true;
		return 0;
	case ARGP_KEY_ARG:
		args->command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no command to run");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option run_options[] = {
	{ "attr", 'a', "KEY=VALUE", 0, "publish this resource attribute too; may be repeated", 0 },
	{ "no-follow-forks", RUN_NO_FOLLOW, NULL, 0,
	  "only the command itself publishes, no child of it", 0 },
	{ 0 },
};

static const struct argp run_argp = {
	.options = run_options,
	.parser = run_parse,
	.args_doc = "[--] COMMAND [ARGUMENT...]",
	.doc = "Run COMMAND and publish a process context for it.\v"
	       "The attributes are those of OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME and "
	       "--attr, of which the last counts most, and a service.instance.id for each "
	       "process.",
};

/* DIR/NAME into @out, if there is such a file that can be read. */
static bool run_join(char *out, size_t size, const char *dir, const char *name)
{
	int n = snprintf(out, size, "%s/%s", dir, name);

	return n > 0 && (size_t)n < size && access(out, R_OK) == 0;
}

/* Beside this very program (build tree, moved trees), then where it was installed. */
static bool run_find_shim(char *out, size_t size)
{
	char dir[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);

	for (int up = 0; n > 0 && up < 2; up++) {
		dir[n] = 0;
		n = strrchr(dir, '/') - dir;
	}
	if (n > 0) {
		dir[n] = 0;
		if (run_join(out, size, dir, "lib/procscope/" RUN_SHIM_NAME))
			return true;
	}
	return run_join(out, size, PROCSCOPE_LIBDIR "/procscope", RUN_SHIM_NAME);
}

static bool run_executable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The file that execvp will take for @command. */
static bool run_find_command(const char *command, char *out, size_t size)
{
	const char *path = getenv("PATH");

	if (strchr(command, '/')) {
		snprintf(out, size, "%s", command);
		return run_executable(out);
	}
	for (path = path ? path : "/bin:/usr/bin"; path; path = strchr(path, ':')) {
		int len;

		path += *path == ':';
		len = (int)strcspn(path, ":");
		snprintf(out, size, "%.*s%s%s", len, path, len ? "/" : "", command);
		if (run_executable(out))
			return true;
	}
	return false;
}

/* The shim goes behind what is preloaded already, once. */
static bool run_set_preload(const char *shim)
{
	const char *old = getenv("LD_PRELOAD");
	size_t size = strlen(shim) + (old ? strlen(old) : 0) + 2;
	char *all;
	bool ok;

	if (strpbrk(shim, ": ")) {
		cli_error("cannot preload %s: LD_PRELOAD takes no path with a blank or colon; "
			  "move the tree",
			  shim);
		return false;
	}
	if (!old || !*old || strstr(old, shim))
		return setenv("LD_PRELOAD", old && *old ? old : shim, 1) == 0;
	all = malloc(size);
	if (!all)
		return false;
	snprintf(all, size, "%s:%s", old, shim);
	ok = setenv("LD_PRELOAD", all, 1) == 0;
	free(all);
	return ok;
}

static bool run_set_environment(const struct run_args *args)
{
	char pid[24];

	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	if (args->attributes ? setenv(RUN_ENV_ATTRIBUTES, args->attributes, 1)
			     : unsetenv(RUN_ENV_ATTRIBUTES))
		return false;
	return setenv(RUN_ENV_PID, pid, 1) == 0 &&
	       setenv(RUN_ENV_FOLLOW_FORKS, args->no_follow_forks ? "0" : "1", 1) == 0;
}

static int run_exec(const struct run_args *args)
{
	char path[PATH_MAX], shim[PATH_MAX];

	if (!run_find_command(args->command[0], path, sizeof(path))) {
		cli_error("cannot run %s: no such program; check its name and PATH",
			  args->command[0]);
		return CLI_FAILED;
	}
	if (!run_check(path))
		return CLI_FAILED;
	if (!run_find_shim(shim, sizeof(shim))) {
		cli_error("cannot find %s: neither beside pctx nor in %s; build or install it",
			  RUN_SHIM_NAME, PROCSCOPE_LIBDIR "/procscope");
		return CLI_FAILED;
	}
	if (!run_set_preload(shim) || !run_set_environment(args))
		return CLI_FAILED;
	execvp(path, args->command); /* a script without #! goes to the shell */
	cli_error("cannot run %s: %s", path, strerror(errno));
	return CLI_FAILED;
}

int run_main(int argc, char **argv)
{
	struct run_args args = { .attributes = NULL };
	int rc = CLI_USAGE;

	argp_err_exit_status = CLI_USAGE;
	if (argp_parse(&run_argp, argc, argv, ARGP_IN_ORDER, NULL, &args) == 0)
		rc = run_exec(&args);
	free(args.attributes);
	return rc;
}
