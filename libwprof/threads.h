/* threads.h - which memory is a thread's stack */
#ifndef WPROF_THREADS_H
#define WPROF_THREADS_H

#include "wprof.h"

struct thread {
	pid_t tid;
	uint64_t sp; /* when it was seen in a system call last; 0: never */
};

struct threads {
	struct thread *v;
	size_t n;
	uint64_t looked_at; /* number of that interval */
};

/*
 * Look at the threads anew. One that runs has no stack pointer to be seen: it
 * keeps the one it had. What cannot be read is left out; never fails.
 */
void threads_look(struct threads *threads, pid_t pid, uint64_t number);
void threads_close(struct threads *threads);

/* The stack pointer in a line of /proc/PID/task/TID/syscall, or 0 */
uint64_t threads_parse(const char *line);

#endif
