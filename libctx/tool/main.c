/* pctx: the process contexts of a host. Finds the subcommand, no more. */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "deputy.h"
#include "pctx.h"
#include "run.h"

static const struct command {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *full_name; /* what its own --help calls it */
	const char *summary;
	bool reads; /* other processes, which may not let it go */
} commands[] = {
	{ "read", read_main, "pctx read", "show the context of one process", true },
	{ "list", list_main, "pctx list", "all processes that published one", true },
	{ "watch", watch_main, "pctx watch", "publications as they happen", true },
	{ "run", run_main, "pctx run", "run a program that publishes one", false },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void help(FILE *to)
{
	fputs("Usage: pctx COMMAND [ARGUMENT...]\n"
	      "OpenTelemetry process contexts: who a process says it is.\n\n",
	      to);
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(to, "  %-6s  %s\n", commands[i].name, commands[i].summary);
	fputs("\n`pctx COMMAND --help' says more. Also: --help, --version.\n", to);
}

static int dispatch(int argc, char **argv)
{
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (strcmp(argv[0], commands[i].name) == 0) {
			argv[0] = (char *)commands[i].full_name;
			return commands[i].reads ? deputy_main(commands[i].main, argc, argv)
						 : commands[i].main(argc, argv);
		}
	}
	cli_error("no command '%s'; `pctx --help' lists them", argv[0]);
	return CLI_USAGE;
}

static int finish(int code)
{
	/* what could not be written was not done */
	if (fflush(stdout) || ferror(stdout)) {
		cli_error("cannot write the output: %m");
		return code ? code : CLI_FAILED;
	}
	return code;
}

int main(int argc, char **argv)
{
	cli_begin();
	argp_err_exit_status = CLI_USAGE;
	argp_program_version = "pctx " PROCSCOPE_VERSION;
	if (argc < 2) {
		help(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0) {
		help(stdout);
		return finish(CLI_DONE);
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		puts(argp_program_version);
		return finish(CLI_DONE);
	}
	return finish(dispatch(argc - 1, argv + 1));
}
