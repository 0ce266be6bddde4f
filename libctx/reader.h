/* reader.h - what the other files of the library use of the reader. */
#ifndef PCTX_READER_H
#define PCTX_READER_H

#include "pctx.h"

/** reader_opts_take() - the caller's options, checked, with defaults filled in */
int reader_opts_take(struct pctx_reader_opts *to, const struct pctx_reader_opts *from);

/** reader_open() - pctx_reader_open() with options already taken */
int reader_open(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_reader **out);

#endif /* PCTX_READER_H */
