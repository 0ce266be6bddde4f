/* record.h - the objects of pctx's JSON. */
#ifndef PROCSCOPE_RECORD_H
#define PROCSCOPE_RECORD_H

#include <jansson.h>
#include <sys/types.h>

#include "pctx.h"

/** record_new() - an object with pid and command; NULL: no memory */
json_t *record_new(const char *procfs, pid_t pid);

/** record_text() - a JSON string, or null for ""; NULL: no memory */
json_t *record_text(const char *text);

/** record_context() - add published_at_ns and context; false: no memory */
bool record_context(json_t *record, const struct pctx_context *context);

/** record_print() - write one on a line and give it up; 0 or an exit code */
int record_print(json_t *record);

#endif /* PROCSCOPE_RECORD_H */
