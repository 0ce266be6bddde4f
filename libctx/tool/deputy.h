/* deputy.h - work that may leave threads behind which nothing ends. */
#ifndef PROCSCOPE_DEPUTY_H
#define PROCSCOPE_DEPUTY_H

#include <stddef.h>

/**
 * deputy_main() - run a command in a child and be its face: exit code and signals
 * @work: the command; its exit code
 *
 * The child ends as soon as it can. Where threads of it are stuck (bounded.h) for
 * good, it says its exit code and is left. Call it before there are threads.
 *
 * Return: the exit code of @work, which may also have called exit().
 */
int deputy_main(int (*work)(int argc, char **argv), int argc, char **argv);

/**
 * deputy_call() - call a function in a child and take its result over
 * @result: @bytes that it fills in
 *
 * Return: 0, or a negative errno: the child could not be started or died.
 */
int deputy_call(void (*call)(const void *arg, void *result), const void *arg, void *result,
		size_t bytes);

#endif /* PROCSCOPE_DEPUTY_H */
