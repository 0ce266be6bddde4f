/* human.h - figures and tables for people. */
#ifndef WPROF_TOOL_HUMAN_H
#define WPROF_TOOL_HUMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "wprof.h"

/** struct human - a short text, returned by value: printf("%s", human_...().text) */
struct human {
	char text[32];
};

/** human_bytes() - "64.0 MiB" */
struct human human_bytes(double bytes);

/** human_rate() - "64.0 MiB/s" */
struct human human_rate(double bytes_per_sec);

/** human_time() - "1.5 ms", "3.00 s", "2:05" */
struct human human_time(uint64_t ns);

/** human_percent() - "31.4%" */
struct human human_percent(double ratio);

/** human_vma_name() - the mapping's name, or what kind of memory it is */
const char *human_vma_name(enum wprof_vma_type type, const char *name);

/**
 * human_clip() - @text made fit for a terminal: at most @width columns, the
 * middle replaced by "..", control characters by "?"
 * @out: at least 4 * @width + 1 bytes
 */
char *human_clip(const char *text, size_t width, char *out);

/** HUMAN_WIDTH_MAX - widest line any table makes */
#define HUMAN_WIDTH_MAX 400

/** human_width() - columns of the terminal behind @fd; COLUMNS; else 80; 20 at least */
size_t human_width(int fd);

/** human_progress() - draw the line on the terminal of standard error anew; "": take it away */
void human_progress(const char *text);

/** human_region_head(), human_region() - the table of regions, @width columns */
void human_region_head(size_t width);
void human_region(const struct wprof_region *r, size_t width);

/** human_untracked() - one line on what is not tracked in the interval; none if all is */
void human_untracked(FILE *f, const struct wprof_interval *iv);

#endif /* WPROF_TOOL_HUMAN_H */
