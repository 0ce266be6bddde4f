/* picture_text.c - the heat map in the terminal. */
#include <inttypes.h>
#include <stdio.h>

#include "tool/human.h"
#include "tool/picture.h"

#define ROWS_MAX   28
#define LABEL	   30 /* columns for the labels, where there is room */
#define LABEL_FROM 64 /* width from which there is */

static const char ramp[] = " .:-=+*#%@";
/* the same, as colours of a 256-colour terminal */
static const unsigned char colours[] = { 0, 58, 100, 142, 178, 208, 202, 196, 161, 127 };

#define LEVELS (sizeof(ramp) - 2)

/* not measured: neither written nor not */
#define GAP '~'

/* 0: nothing written; a single page is already 1 */
static size_t cell_level(double share)
{
	size_t level;

	if (share <= 0)
		return 0;
	level = 1 + (size_t)(share * (double)LEVELS);
	return level > LEVELS ? LEVELS : level;
}

static void put_level(size_t level, bool colour)
{
	if (colour && level)
		printf("\033[48;5;%um \033[0m", colours[level]);
	else
		putchar(ramp[level]);
}

static void put_row(const struct picture *p, const struct map_row *row, size_t n_cells, bool colour)
{
	double cells[HUMAN_WIDTH_MAX];

	heatmap_row(p->map, row->start, row->end, cells, n_cells);
	putchar('|');
	for (size_t i = 0; i < n_cells; i++)
		if (cells[i] <= HEATMAP_UNMEASURED)
			putchar(GAP);
		else
			put_level(cell_level(cells[i]), colour);
	puts("|");
}

static void put_label(const struct map_row *row, size_t width)
{
	char name[4 * HUMAN_WIDTH_MAX + 1];
	const struct region_sum *r = row->region;

	if (width < LABEL_FROM) {
		if (row->first)
			printf("%s\n", human_clip(human_vma_name(r->type, r->name), width, name));
		return;
	}
	if (row->first)
		printf("%-14s ", human_clip(human_vma_name(r->type, r->name), 14, name));
	else
		printf("%-14s ", "");
	printf("0x%-12" PRIx64 " ", row->start);
}

static void put_axis(const struct picture *p, size_t indent, size_t n_cells)
{
	struct human end = human_time(heatmap_end_ns(p->map));

	printf("%*s0 s%*s\n", (int)indent + 1, "", (int)n_cells - 3, end.text);
}

static void put_legend(const struct picture *p, size_t width, bool colour)
{
	if (width < LABEL_FROM) {
		if (heatmap_has_gaps(p->map))
			printf("%c not measured\n", GAP);
		return;
	}
	printf("pages written per interval: 0%% ");
	for (size_t level = 0; level <= LEVELS; level++)
		put_level(level, colour);
	printf(" 100%%");
	if (heatmap_has_gaps(p->map))
		printf("; %c not measured", GAP);
	putchar('\n');
}

void picture_text(const struct picture *p, size_t width, bool colour)
{
	size_t indent = width < LABEL_FROM ? 0 : LABEL, n_cells = width - indent - 2, hidden, n;
	struct map_row rows[ROWS_MAX];

	n = map_rows(p->regions, p->pid, heatmap_chunk_bytes(p->map), ROWS_MAX, 1, rows, &hidden);
	if (!n)
		return;
	for (size_t i = 0; i < n; i++) {
		put_label(&rows[i], width);
		put_row(p, &rows[i], n_cells, colour);
	}
	put_axis(p, indent, n_cells);
	put_legend(p, width, colour);
	if (hidden)
		printf("(%zu less written mappings are not shown)\n", hidden);
}
