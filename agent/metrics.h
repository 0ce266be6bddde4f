/* metrics.h - OpenMetrics over HTTP, on a loopback port or a unix socket. */
#ifndef AGENT_METRICS_H
#define AGENT_METRICS_H

#include <stddef.h>

/**
 * metrics_open() - begin to serve
 * @address: unix:PATH, or HOST:PORT where the host is 127.0.0.1, [::1] or localhost
 * @why: @room bytes; what failed, in words
 *
 * Return: 0 or -errno.
 */
int metrics_open(const char *address, char *why, size_t room);

/** metrics_close() - stop serving; fine when it was not opened */
void metrics_close(void);

#endif /* AGENT_METRICS_H */
