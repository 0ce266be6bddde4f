/* show.h - contexts for people. */
#ifndef PROCSCOPE_SHOW_H
#define PROCSCOPE_SHOW_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "pctx.h"

/**
 * show_text() - text of unknown origin, safe for a terminal
 *
 * Control characters, those without width and those that turn the direction of
 * writing are shown as \uXXXX, a byte that is not UTF-8 as U+FFFD; when @quoted a
 * quote or backslash gets a backslash. Return: how many characters that were.
 */
size_t show_text(FILE *to, const char *text, size_t len, bool quoted);

/** show_column() - the same with blanks behind it, up to @width characters */
void show_column(FILE *to, const char *text, size_t len, unsigned int width);

/** show_value() - on one line, much as JSON would write it */
void show_value(FILE *to, const struct pctx_value *value);

/** show_context() - the whole of it, an attribute a line */
void show_context(FILE *to, const struct pctx_context *context);

/**
 * show_age() - how long ago a CLOCK_BOOTTIME of @at_ns was; @room: 16 at least
 *
 * Return: false, with "future", for one that is still to come: a publisher's
 * clock is its own affair, and in a time namespace it is another one.
 */
bool show_age(char *out, size_t room, uint64_t at_ns);

/** comm_read() - the name of a process; "" when it is gone */
void comm_read(const char *procfs, pid_t pid, char *out, size_t room);

#endif /* PROCSCOPE_SHOW_H */
