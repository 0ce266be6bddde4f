/* top_draw.c - one frame of `wprof top`, as text. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool/human.h"
#include "tool/top.h"

#define MEAN_FROM 98
#define WIDE	  72
#define MEDIUM	  48

static int by_number(double a, double b)
{
	return (a < b) - (a > b);
}

static int by_start(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Equal rows keep the order of addresses, so the table does not jump. */
static int row_order(const void *a, const void *b, void *sort)
{
	const struct top_row *x = a, *y = b;
	int order = 0;

	switch (*(enum top_sort *)sort) {
	case TOP_BY_RATE:
		order = by_number(x->rate, y->rate);
		break;
	case TOP_BY_MEAN:
		order = by_number(x->mean, y->mean);
		break;
	case TOP_BY_HOT:
		order = by_number((double)x->hot_bytes, (double)y->hot_bytes);
		break;
	case TOP_BY_SIZE:
		order = by_number((double)x->bytes, (double)y->bytes);
		break;
	case TOP_BY_NAME:
		order = strcmp(x->name, y->name);
		break;
	case TOP_BY_ADDRESS:
		break;
	}
	return order ? order : by_start(a, b);
}

static void put_line(FILE *f, const struct top_frame *frame, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void put_line(FILE *f, const struct top_frame *frame, const char *format, ...)
{
	char text[1024], clipped[4 * HUMAN_WIDTH_MAX + 1];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(f, "%s\n", human_clip(text, frame->width, clipped));
}

/* What the profiling itself takes, of one processor. */
static double own_share(const struct top_table *t)
{
	return t->length_ns ? (double)t->cost.total_ns / (double)t->length_ns : 0;
}

static size_t draw_head(FILE *f, const struct top_table *t, const struct top_frame *frame)
{
	const char *about = t->estimated ? "~" : "";
	struct human hot = human_bytes((double)t->hot_bytes);

	put_line(f, frame, "%s", frame->label);
	if (frame->width < MEDIUM) {
		put_line(f, frame, "%s%s", about, human_rate(t->rate).text);
		return 2;
	}
	put_line(f, frame, "%s%s written, %s hot, %" PRIu64 " mappings, %s shared untracked", about,
		 human_rate(t->rate).text, hot.text, t->n_vmas,
		 human_bytes((double)t->shared_bytes).text);
	put_line(f, frame,
		 "%s, intervals of %" PRIu64 " ms, %s arming; own cost %s, %" PRIu64 " faults",
		 human_time(frame->elapsed_ns).text, frame->interval_ms,
		 frame->sample ? "sample" : "exact", human_percent(own_share(t)).text,
		 t->cost.faults);
	return 3;
}

static void draw_titles(FILE *f, const struct top_frame *frame)
{
	char line[HUMAN_WIDTH_MAX + 1];
	const char *id = frame->tree ? "PID" : "START";

	if (frame->width >= WIDE)
		snprintf(line, sizeof(line), "%-14s %10s %12s %s%6s %10s %s", id, "SIZE", "RATE",
			 frame->width >= MEAN_FROM ? "        MEAN " : "", "SHARE", "HOT", "NAME");
	else if (frame->width >= MEDIUM)
		snprintf(line, sizeof(line), "%-14s %12s  %s", id, "RATE", "NAME");
	else
		snprintf(line, sizeof(line), "%11s %s", "RATE", "NAME");
	/* the titles' line is as long as the table is wide */
	if (frame->marks)
		fprintf(f, "\001%-*s\n", (int)frame->width, line);
	else
		fprintf(f, "%s\n", line);
}

static void draw_row(FILE *f, const struct top_row *r, const struct top_frame *frame)
{
	char name[4 * HUMAN_WIDTH_MAX + 1], id[24], mean[40] = "";
	struct human rate = human_rate(r->rate);

	snprintf(id, sizeof(id), frame->tree ? "%" PRIu64 : "0x%" PRIx64, r->start);
	if (frame->width >= MEAN_FROM)
		snprintf(mean, sizeof(mean), "%12s ", human_rate(r->mean).text);
	if (frame->width >= WIDE)
		fprintf(f, "%-14s %10s %12s %s%6s %10s %s\n", id,
			human_bytes((double)r->bytes).text, rate.text, mean,
			human_percent(r->share).text, human_bytes((double)r->hot_bytes).text,
			human_clip(r->name, frame->width - (*mean ? 70 : 57), name));
	else if (frame->width >= MEDIUM)
		fprintf(f, "%-14s %12s  %s\n", id, rate.text,
			human_clip(r->name, frame->width - 29, name));
	else
		fprintf(f, "%11s %s\n", rate.text, human_clip(r->name, frame->width - 12, name));
}

static void draw_keys(FILE *f, const struct top_frame *frame)
{
	static const char *const names[] = { "rate", "mean", "hot", "size", "address", "name" };

	if (frame->width >= MEDIUM)
		put_line(f, frame, "by %s; sort: r)ate m)ean h)ot s)ize a)ddress n)ame, q)uit",
			 names[frame->sort]);
	else
		put_line(f, frame, "rmhsan sort, q)uit");
}

void top_draw(FILE *f, struct top_table *t, const struct top_frame *frame)
{
	enum top_sort sort = frame->sort;
	size_t used = 0, rows;

	/* a terminal of very few lines shows the totals, then rows, then the keys */
	if (frame->height >= 5)
		used += draw_head(f, t, frame);
	draw_titles(f, frame);
	used += 1 + frame->keys;
	rows = frame->height > used ? frame->height - used : 0;
	if (t->n) /* else there is no list either */
		qsort_r(t->list, t->n, sizeof(*t->list), row_order, &sort);
	for (size_t i = 0; i < t->n && i < rows; i++)
		draw_row(f, &t->list[i], frame);
	for (size_t i = t->n; i < rows && frame->keys; i++)
		putc('\n', f);
	if (frame->keys && frame->height > used)
		draw_keys(f, frame);
}
