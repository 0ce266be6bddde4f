/* ranges.h - sets of address ranges, inside libwprof. */
#ifndef WPROF_CRIU_RANGES_H
#define WPROF_CRIU_RANGES_H

#include <stddef.h>

#include "wprof.h"

/**
 * wprof_ranges_parse() - make a set of the text of a range file
 * @text: @len bytes, need not end in NUL
 * @line: set to the number of the bad line with -EBADMSG; may be NULL
 *
 * Return: 0; -EBADMSG: a line is no range; -ENOMEM.
 */
int wprof_ranges_parse(const char *text, size_t len, struct wprof_ranges **out, size_t *line);

#endif /* WPROF_CRIU_RANGES_H */
