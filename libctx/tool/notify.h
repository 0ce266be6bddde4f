/* notify.h - be told by the kernel when a process publishes. */
#ifndef PROCSCOPE_NOTIFY_H
#define PROCSCOPE_NOTIFY_H

#include <stdbool.h>
#include <sys/types.h>

struct notify;

/** notify_fn - a process has published or updated; @pid 0: some event was lost.
 * Return: false: tell of no more before the next notify_wait() */
typedef bool notify_fn(pid_t pid, void *arg);

/**
 * notify_open() - begin to be told
 * @first_namespace: PIDs are those of the first PID namespace, not of our own
 * @why: set on failure: why there are no events
 *
 * Return: NULL when this kernel, these privileges or this build have none.
 */
struct notify *notify_open(bool first_namespace, notify_fn *fn, void *arg, const char **why);

/** notify_wait() - up to @ms for events, and a few hundred at most: who publishes
 * without pause must not keep the caller here; false when a signal came */
bool notify_wait(struct notify *n, unsigned int ms);

void notify_close(struct notify *n);

#endif /* PROCSCOPE_NOTIFY_H */
