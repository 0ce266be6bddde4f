/* main.c - the wprof program: find the subcommand and call it. */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "tool/commands.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *about;
} commands[] = {
	{ "top", top_main, "a live table of where a process writes" },
	{ "record", record_main, "record where a process writes, interval by interval" },
	{ "report", report_main, "sum a recording up, with a heat map" },
	{ "hot", hot_main, "profile for some intervals, then print the hot memory" },
	{ "criu-args", criu_args_main, "arguments that make CRIU leave hot memory out" },
	{ "images", images_main, "a chain of CRIU images: show, verify, withhold, complete" },
	{ "check", check_main, "what can be done here, and what cannot and why" },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *f)
{
	fputs("Usage: wprof COMMAND [OPTION...]\n"
	      "Where a running process writes.\n\n",
	      f);
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].about);
	fputs("\n  -?, --help     this; `wprof COMMAND --help` says more\n"
	      "  -V, --version  the version\n",
	      f);
}

static int run(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	char full[32];

	if (!strcmp(name, "--help") || !strcmp(name, "-?") || !strcmp(name, "help")) {
		usage(stdout);
		return CLI_DONE;
	}
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		puts(argp_program_version);
		return CLI_DONE;
	}
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (strcmp(name, commands[i].name))
			continue;
		snprintf(full, sizeof(full), "wprof %s", name);
		argv[1] = full; /* argp prints it before its messages */
		return commands[i].run(argc - 1, argv + 1);
	}
	if (argc > 1)
		cli_error("no such command: %s; `wprof --help` lists them", name);
	else
		usage(stderr);
	return CLI_USAGE;
}

int main(int argc, char **argv)
{
	int rc;

	cli_begin();
	setlocale(LC_CTYPE, "");
	argp_err_exit_status = CLI_USAGE;
	argp_program_version = "wprof " PROCSCOPE_VERSION;
	rc = run(argc, argv);
	if (!fflush(stdout) && !ferror(stdout))
		return rc;
	if (!rc)
		cli_error("standard output: %s", strerror(errno));
	return rc ? rc : CLI_FAILED;
}
