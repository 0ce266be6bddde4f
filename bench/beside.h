/* beside.h - what benches share that run the programs of the same build. */
#ifndef BESIDE_H
#define BESIDE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The path of program @name: bin/ lies beside the benches. */
static inline void program_path(char *path, size_t size, const char *name)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (!slash) {
		perror("/proc/self/exe");
		exit(1);
	}
	snprintf(slash, size - (size_t)(slash - path), "/../bin/%s", name);
}

/* Argument @i as a number from 1 to @max, @fallback when not given, 0: a bad one */
static inline int number_arg(int argc, char **argv, int i, int fallback, int max)
{
	char *end;
	long n;

	if (i >= argc)
		return fallback;
	n = strtol(argv[i], &end, 10);
	return *end || n < 1 || n > max ? 0 : (int)n;
}

#endif /* BESIDE_H */
