/* run.h - `pctx run`: a program with a process context it knows nothing of */
#ifndef PCTX_RUN_H
#define PCTX_RUN_H

#include <stdbool.h>

/**
 * run_main() - the subcommand; argv[0] is its name
 *
 * Return: only when the program could not be started: an enum cli_exit.
 */
int run_main(int argc, char **argv);

/**
 * run_check() - can the shim be loaded into this program?
 * @path: the file to be executed
 *
 * Return: true, or false after saying why not.
 */
bool run_check(const char *path);

#endif /* PCTX_RUN_H */
