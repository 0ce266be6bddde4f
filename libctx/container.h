/* container.h - the id of the container a process runs in. */
#ifndef PCTX_CONTAINER_H
#define PCTX_CONTAINER_H

#include <stdbool.h>

#define CONTAINER_ID_LEN 64 /* hex digits, as all the runtimes make them */

/** container_from_cgroup() - from the text of /proc/PID/cgroup */
bool container_from_cgroup(const char *text, char id[CONTAINER_ID_LEN + 1]);

/**
 * container_from_mounts() - from the text of /proc/PID/mountinfo
 *
 * Runtimes mount a container's hostname or resolv.conf from a directory that is
 * named after it.
 */
bool container_from_mounts(const char *text, char id[CONTAINER_ID_LEN + 1]);

#endif /* PCTX_CONTAINER_H */
