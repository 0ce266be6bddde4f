/* picture.h - a heat map as SVG, and in the terminal. */
#ifndef WPROF_TOOL_PICTURE_H
#define WPROF_TOOL_PICTURE_H

#include <stdio.h>

#include "tool/heatmap.h"

/** struct picture - what is drawn */
struct picture {
	const struct heatmap *map;
	const struct region_table *regions;
	int pid;
	uint64_t page_bytes;
	const char *title;    /* the target */
	const char *subtitle; /* how it was profiled */
};

/** picture_svg() - one SVG document. Return: false when the output failed */
bool picture_svg(FILE *f, const struct picture *p);

/**
 * picture_text() - rows of characters on standard output
 * @width: columns to fill
 * @colour: 256 colours by escape sequences; else characters of growing weight
 */
void picture_text(const struct picture *p, size_t width, bool colour);

#endif /* WPROF_TOOL_PICTURE_H */
