/* discover.h - find the mapping that holds a process's context. */
#ifndef PCTX_DISCOVER_H
#define PCTX_DISCOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "header.h"
#include "target.h"

struct discover_opts {
	uint64_t mappings_max; /* 0: no limit */
	bool accept_version_1;
	bool text_only; /* do not ask by PROCMAP_QUERY (tests, benches) */
};

/**
 * discover() - find the one mapping whose header has signature and version
 *
 * The choice among several valid ones (which the OTEP forbids) is fixed: the
 * lowest among the process's DISCOVER_HEAD lowest mappings, else the highest.
 *
 * Return: 0 and *@address; -ENODATA: none; -EPROTONOSUPPORT: none, but one of a
 * version that is not accepted; -ERANGE: none among the first mappings_max;
 * -EPERM; -ESRCH; -ENOMEM, -EMFILE, ...
 */
int discover(struct target *t, const struct discover_opts *opts, uint64_t *address);

/** DISCOVER_HEAD - mappings read as text before any query is made */
#define DISCOVER_HEAD 1200

/** discover_check() - 0, -EBADMSG (wrong signature) or -EPROTONOSUPPORT */
int discover_check(const struct ctx_header *header, bool accept_version_1);

#endif /* PCTX_DISCOVER_H */
