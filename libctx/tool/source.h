/* source.h - the options of read, list and watch that say where to look. */
#ifndef PROCSCOPE_SOURCE_H
#define PROCSCOPE_SOURCE_H

#include <argp.h>

#include "pctx.h"

/** source_argp - --procfs, --mappings-max, --version-1; its input: the options */
extern const struct argp source_argp;

/** source_init() - the defaults */
void source_init(struct pctx_reader_opts *opts);

#endif /* PROCSCOPE_SOURCE_H */
