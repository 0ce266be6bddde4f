/* cli.h - what the programs share: exit codes, one-line errors, numbers. */
#ifndef PROCSCOPE_CLI_H
#define PROCSCOPE_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** enum cli_exit - the exit codes of every program */
enum cli_exit {
	CLI_DONE = 0,	    /* done, an empty answer included */
	CLI_FAILED = 1,	    /* tried and failed */
	CLI_USAGE = 2,	    /* wrong usage */
	CLI_UNAVAILABLE = 3 /* nothing there to answer with */
};

/**
 * cli_begin() - first of all: make sure that what is written arrives or fails
 *
 * Where 0, 1 or 2 is closed, the next file that is opened would take its place, and
 * be written what was meant for people. Commands that are executed find it closed.
 * A file that reaches its size limit (`ulimit -f`) is an error of writing, not the
 * end of the program. Output that could not be written by the time the program
 * exits with 0, its --help too, makes that CLI_FAILED, with a line that says so.
 */
void cli_begin(void);

/** cli_output() - the exit code @status, or CLI_FAILED and a line if output is lost */
int cli_output(int status);

/** cli_error() - print "PROGRAM: message" as one line on standard error */
void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * cli_number() - read a whole number, nothing before or after it
 *
 * Return: true and *@out set when @text is a decimal within [@min, @max].
 */
bool cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/** cli_decimal() - read a finite decimal within [@min, @max] */
bool cli_decimal(const char *text, double min, double max, double *out);

/** cli_bytes() - read a size: a number, then nothing, K, M, G or KiB, MiB, GiB */
bool cli_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/** cli_pid() - read a process id: 1 to 2^22 */
bool cli_pid(const char *text, pid_t *out);

#endif /* PROCSCOPE_CLI_H */
