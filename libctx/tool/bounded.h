/*
 * bounded.h - reading a process that may keep its reader from returning.
 *
 * What the library does, with a deadline. For programs: the library itself starts
 * no thread.
 */
#ifndef PROCSCOPE_BOUNDED_H
#define PROCSCOPE_BOUNDED_H

#include "pctx.h"

/** BOUNDED_MS - a process that did not answer for so long does not answer */
#define BOUNDED_MS 3000u

/**
 * struct bounded_pass - one look at many processes, in ascending order of PIDs
 *
 * All zero at its beginning, and @read_arg of the options that its reads are given.
 * Then all the processes that do not answer cost it one deadline together, and not
 * one each (bounded.c says how).
 */
struct bounded_pass {
	bool looked_ahead;
	unsigned int n_misses;
};

/**
 * bounded_read() - pctx_read() with a deadline; fits pctx_reader_opts.read
 * @opts: not NULL; what it points to must outlive the program's reading. @read_arg:
 *        NULL, or the struct bounded_pass that this is part of
 *
 * MT-Safe; a pass is for one thread.
 *
 * Return: as pctx_read(), or -ETIMEDOUT: the process keeps its memory from being
 * read, or did so within the last minute. -ENOMEM also when no thread can be started.
 */
int bounded_read(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_context **out);

/** bounded_detect() - pctx_detect() with a deadline, as bounded_read() */
int bounded_detect(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_context **out);

/**
 * bounded_reader_read() - pctx_reader_read() with a deadline
 * @pid: the process of @reader
 * @opts: as for bounded_read()
 *
 * After -ETIMEDOUT the reader is lost, and *@reader NULL.
 */
int bounded_reader_read(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_reader **reader,
			struct pctx_context **out);

/** bounded_reader_poll() - pctx_reader_poll() with a deadline, in the same way */
int bounded_reader_poll(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_reader **reader,
			bool *changed);

/** bounded_left() - are there threads that may never end, and keep this process? */
bool bounded_left(void);

#endif /* PROCSCOPE_BOUNDED_H */
