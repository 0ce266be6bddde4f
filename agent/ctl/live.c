#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "live.h"

#define ROWS_MAX 256 /* kept, for a terminal that grows */
#define BAR_MIN	 4
#define BAR_MAX	 40

/* Width of the columns with the gap before each; the rate has none. */
#define RATE_WIDTH    12
#define TIME_WIDTH    10
#define WRITTEN_WIDTH 12
#define TOTAL_WIDTH   14

static struct live_row rows[ROWS_MAX];
static size_t n_rows; /* ever added */

/** struct shape - what the terminal has room for */
struct shape {
	size_t n;   /* rows */
	size_t bar; /* 0: none */
	bool time, written, total;
};

bool live_usable(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static bool take(size_t *left, size_t width)
{
	if (*left < width)
		return false;
	*left -= width;
	return true;
}

static struct shape shape_now(void)
{
	struct winsize size = { 0 };
	struct shape s = { 0 };
	size_t left;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row)
		size = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	/* the last column stays free: some terminals wrap there */
	left = size.ws_col > RATE_WIDTH ? size.ws_col - RATE_WIDTH - 1u : 0;
	s.time = take(&left, TIME_WIDTH);
	s.written = take(&left, WRITTEN_WIDTH);
	s.total = take(&left, TOTAL_WIDTH);
	if (left >= BAR_MIN + 2)
		s.bar = left - 2 < BAR_MAX ? left - 2 : BAR_MAX;
	/* but for the head, the note and the line of the cursor */
	s.n = size.ws_row > 4 ? size.ws_row - 3u : 1;
	if (s.n > ROWS_MAX)
		s.n = ROWS_MAX;
	if (s.n > n_rows)
		s.n = n_rows;
	return s;
}

static void draw_line(const struct shape *s, const struct live_row *r, double most)
{
	size_t len = most > 0 ? (size_t)((double)s->bar * r->value / most) : 0;

	if (s->time)
		printf("%-8s  ", r->when);
	printf("%*s", RATE_WIDTH, r->rate);
	if (s->written)
		printf("  %10s", r->written);
	if (s->total)
		printf("  %12s", r->total);
	if (len)
		printf("  %.*s", (int)len, "########################################");
	fputs("\033[K\n", stdout);
}

bool live_add(const struct live_row *row, const char *note)
{
	static const struct live_row head = { "TIME", "RATE", "WRITTEN", "SINCE START", 0 };
	struct shape s;
	double most = 0;

	rows[n_rows++ % ROWS_MAX] = *row;
	s = shape_now();
	for (size_t i = n_rows - s.n; i < n_rows; i++)
		if (rows[i % ROWS_MAX].value > most)
			most = rows[i % ROWS_MAX].value;
	/* home; all of it only once: it would flicker */
	fputs(n_rows == 1 ? "\033[H\033[2J" : "\033[H", stdout);
	draw_line(&s, &head, 0);
	for (size_t i = n_rows - s.n; i < n_rows; i++)
		draw_line(&s, &rows[i % ROWS_MAX], most);
	if (*note)
		printf("%s\033[K\n", note);
	fputs("\033[J", stdout);
	return !fflush(stdout);
}
