/* foreign.h - is there a process context here that is not ours? */
#ifndef PCTX_FOREIGN_H
#define PCTX_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "header.h"

/**
 * foreign_context() - look through this process's mappings for another context
 * @own: our header, left out; NULL: none yet
 * @own_ns: its timestamp
 *
 * Return: true when there is one that came first: any without @own, else one
 * with an earlier timestamp. False too where /proc cannot be read.
 */
bool foreign_context(const struct ctx_header *own, uint64_t own_ns);

#endif /* PCTX_FOREIGN_H */
