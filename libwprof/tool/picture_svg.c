/* picture_svg.c - the heat map as an SVG document, without scripts or fonts. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "tool/human.h"
#include "tool/picture.h"

#define ROWS_MAX   96
#define ROWS_LEAST 5 /* of 6 pixels: two lines of label */
#define ROW_PX	   6
#define GAP_PX	   5 /* between regions */
#define LEFT_PX	   232
#define TOP_PX	   74
#define MAP_PX	   640
#define LEGEND_PX  110
#define LEVELS	   32

struct sheet {
	FILE *f;
	const struct picture *p;
	struct map_row rows[ROWS_MAX];
	size_t n_rows, n_hidden, n_cells;
	double cell_px;
};

static void put_escaped(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", f);
		else if (*text == '>')
			fputs("&gt;", f);
		else if (*text == '&')
			fputs("&amp;", f);
		else if (*text == '"')
			fputs("&quot;", f);
		else if ((unsigned char)*text < 0x20)
			putc('?', f);
		else
			putc(*text, f);
	}
}

/* From pale to dark: even steps of lightness, also for eyes that see no red. */
static void level_colour(int level, char colour[10])
{
	static const unsigned char stops[][3] = {
		{ 253, 231, 190 }, { 252, 190, 106 }, { 240, 126, 70 },
		{ 203, 62, 80 },   { 132, 27, 92 },   { 58, 12, 74 },
	};
	double at = (double)(level - 1) / (LEVELS - 1) * 5;
	int i = at >= 5 ? 4 : (int)at;
	double share = at - i;
	unsigned int c[3];

	for (int k = 0; k < 3; k++)
		c[k] = (unsigned int)(stops[i][k] + share * (stops[i + 1][k] - stops[i][k]) + 0.5);
	snprintf(colour, 10, "#%02x%02x%02x", c[0] & 0xff, c[1] & 0xff, c[2] & 0xff);
}

#define GAP (-1) /* a level: not measured */

/* 0: nothing written; else 1 to LEVELS, so that a single page can be seen */
static int cell_level(double share)
{
	int level;

	if (share <= HEATMAP_UNMEASURED)
		return GAP;
	if (share <= 0)
		return 0;
	level = (int)ceil(share * LEVELS);
	return level > LEVELS ? LEVELS : level;
}

/* One rectangle for each stretch of equal colour. */
static void put_cells(const struct sheet *s, const double *cells, int y)
{
	for (size_t i = 0, to; i < s->n_cells; i = to) {
		int level = cell_level(cells[i]);
		char colour[10] = "url(#gap)";

		for (to = i + 1; to < s->n_cells && cell_level(cells[to]) == level; to++)
			;
		if (!level)
			continue;
		if (level != GAP)
			level_colour(level, colour);
		fprintf(s->f,
			"<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n",
			LEFT_PX + (double)i * s->cell_px, y, (double)(to - i) * s->cell_px, ROW_PX,
			colour);
	}
}

static void put_label(const struct sheet *s, const struct region_sum *r, int y)
{
	char name[4 * 34 + 1];

	fprintf(s->f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" class=\"name\">", LEFT_PX - 8,
		y + 11);
	put_escaped(s->f, human_clip(human_vma_name(r->type, r->name), 34, name));
	fprintf(s->f,
		"</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\" class=\"where\">"
		"0x%" PRIx64 " + %s</text>\n",
		LEFT_PX - 8, y + 24, r->low, human_bytes((double)(r->high - r->low)).text);
}

/* A region: its ground, its label, a title for those who point at it. */
static void put_region(const struct sheet *s, size_t row, size_t n_rows, int y)
{
	const struct region_sum *r = s->rows[row].region;

	fprintf(s->f, "<g><title>");
	put_escaped(s->f, human_vma_name(r->type, r->name));
	fprintf(s->f, " 0x%" PRIx64 "-0x%" PRIx64 ", %s written</title>\n", r->start, r->end,
		human_bytes((double)(r->written_pages * s->p->page_bytes)).text);
	fprintf(s->f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%zu\" class=\"ground\"/>\n",
		LEFT_PX, y, MAP_PX, n_rows * ROW_PX);
	put_label(s, r, y);
}

static size_t region_rows(const struct sheet *s, size_t row)
{
	size_t n = 1;

	while (row + n < s->n_rows && !s->rows[row + n].first)
		n++;
	return n;
}

/* Return: the height of all regions. */
static int put_map(const struct sheet *s)
{
	double cells[MAP_PX];
	int y = TOP_PX;

	for (size_t row = 0; row < s->n_rows; y += GAP_PX) {
		size_t n = region_rows(s, row);

		put_region(s, row, n, y);
		for (size_t i = 0; i < n; i++, row++, y += ROW_PX) {
			heatmap_row(s->p->map, s->rows[row].start, s->rows[row].end, cells,
				    s->n_cells);
			put_cells(s, cells, y);
		}
		fputs("</g>\n", s->f);
	}
	return y - TOP_PX;
}

/* 1, 2 or 5 times a power of ten, about six to the axis */
static double tick_step(double seconds)
{
	double step = pow(10, floor(log10(seconds / 6)));

	if (seconds / step > 30)
		return 5 * step;
	return seconds / step > 12 ? 2 * step : step;
}

static void put_axis(const struct sheet *s, int y)
{
	double seconds = (double)heatmap_end_ns(s->p->map) / 1e9, step;

	if (seconds <= 0)
		return;
	step = tick_step(seconds);
	for (int i = 0; i * step <= seconds * 1.0001; i++) {
		double x = LEFT_PX + i * step / seconds * MAP_PX;

		fprintf(s->f,
			"<path d=\"M%.1f %dv5\" class=\"tick\"/><text x=\"%.1f\" y=\"%d\" "
			"text-anchor=\"middle\" class=\"where\">%g s</text>\n",
			x, y, x, y + 18, i * step);
	}
}

static void put_legend(const struct sheet *s)
{
	int x = LEFT_PX + MAP_PX + 24, y = TOP_PX;
	char colour[10];

	fprintf(s->f,
		"<text x=\"%d\" y=\"%d\" class=\"where\">pages written</text>\n"
		"<text x=\"%d\" y=\"%d\" class=\"where\">per interval</text>\n",
		x, y - 20, x, y - 7);
	for (int level = LEVELS; level > 0; level--) {
		level_colour(level, colour);
		fprintf(s->f, "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"4\" fill=\"%s\"/>\n",
			x, y + (LEVELS - level) * 4, colour);
	}
	for (int i = 0; i <= 4; i++)
		fprintf(s->f, "<text x=\"%d\" y=\"%d\" class=\"where\">%d%%</text>\n", x + 20,
			y + i * LEVELS + 4, 100 - 25 * i);
	y += LEVELS * 4 + 12;
	if (heatmap_has_gaps(s->p->map))
		fprintf(s->f,
			"<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"14\" fill=\"url(#gap)\"/>\n"
			"<text x=\"%d\" y=\"%d\" class=\"where\">not</text>\n"
			"<text x=\"%d\" y=\"%d\" class=\"where\">measured</text>\n",
			x, y, x + 20, y + 5, x + 20, y + 17);
}

/* Stripes: a colour of the scale would say how much was written. */
static void put_pattern(const struct sheet *s)
{
	if (heatmap_has_gaps(s->p->map))
		fputs("<defs><pattern id=\"gap\" width=\"6\" height=\"6\" "
		      "patternUnits=\"userSpaceOnUse\"><rect width=\"6\" height=\"6\" "
		      "fill=\"#f0eeea\"/><path d=\"M0 6L6 0\" "
		      "stroke=\"#8a93a0\"/></pattern></defs>\n",
		      s->f);
}

static void put_head(const struct sheet *s, int height)
{
	fprintf(s->f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
		LEFT_PX + MAP_PX + LEGEND_PX, height, LEFT_PX + MAP_PX + LEGEND_PX, height);
	put_escaped(s->f, s->p->title);
	fputs("</title>\n<style>text{font-family:sans-serif;fill:#222}.head{font-size:17px;"
	      "font-weight:bold}.sub{font-size:12px;fill:#555}.name{font-size:12px}"
	      ".where{font-size:11px;font-family:monospace;fill:#555}.ground{fill:#f0eeea}"
	      ".tick{stroke:#777}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
	      "<text x=\"16\" y=\"28\" class=\"head\">",
	      s->f);
	put_escaped(s->f, s->p->title);
	fputs("</text>\n<text x=\"16\" y=\"48\" class=\"sub\">", s->f);
	put_escaped(s->f, s->p->subtitle);
	fputs("</text>\n", s->f);
	put_pattern(s);
}

static int map_height(const struct sheet *s)
{
	int height = 0;

	for (size_t row = 0; row < s->n_rows; row++)
		height += ROW_PX + (s->rows[row].first ? GAP_PX : 0);
	return height < LEVELS * 4 + 32 ? LEVELS * 4 + 32 : height;
}

static void put_foot(const struct sheet *s, int y)
{
	if (!s->n_rows)
		fprintf(s->f, "<text x=\"%d\" y=\"%d\" class=\"sub\">Nothing was written.</text>\n",
			LEFT_PX, TOP_PX + 14);
	if (s->n_hidden)
		fprintf(s->f,
			"<text x=\"16\" y=\"%d\" class=\"sub\">%zu less written mappings are "
			"not shown.</text>\n",
			y, s->n_hidden);
	fputs("</svg>\n", s->f);
}

bool picture_svg(FILE *f, const struct picture *p)
{
	struct sheet s = { .f = f, .p = p };
	int y;

	s.n_rows = map_rows(p->regions, p->pid, heatmap_chunk_bytes(p->map), ROWS_MAX, ROWS_LEAST,
			    s.rows, &s.n_hidden);
	s.n_cells = heatmap_columns(p->map);
	s.cell_px = s.n_cells ? (double)MAP_PX / (double)s.n_cells : 0;
	y = TOP_PX + map_height(&s);
	put_head(&s, y + 30 + (s.n_hidden ? 20 : 0));
	if (s.n_rows)
		put_axis(&s, TOP_PX + put_map(&s));
	put_legend(&s);
	put_foot(&s, y + 38);
	return !ferror(f);
}
