#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "text.h"
#include "tool/human.h"

struct human human_bytes(double bytes)
{
	static const char units[][4] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	struct human h;
	size_t u = 0;

	while (bytes >= 1023.95 && u < sizeof(units) / sizeof(units[0]) - 1) {
		bytes /= 1024;
		u++;
	}
	snprintf(h.text, sizeof(h.text), u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
	return h;
}

struct human human_rate(double bytes_per_sec)
{
	const struct human bytes = human_bytes(bytes_per_sec);
	struct human h;

	snprintf(h.text, sizeof(h.text), "%.*s/s", (int)sizeof(h.text) - 3, bytes.text);
	return h;
}

struct human human_time(uint64_t ns)
{
	struct human h;

	if (ns < 999950)
		snprintf(h.text, sizeof(h.text), "%.1f us", (double)ns / 1e3);
	else if (ns < 999950000)
		snprintf(h.text, sizeof(h.text), "%.1f ms", (double)ns / 1e6);
	else if (ns < 120000000000)
		snprintf(h.text, sizeof(h.text), "%.2f s", (double)ns / 1e9);
	else
		snprintf(h.text, sizeof(h.text), "%" PRIu64 ":%02" PRIu64, ns / 60000000000,
			 ns / 1000000000 % 60);
	return h;
}

struct human human_percent(double ratio)
{
	struct human h;

	snprintf(h.text, sizeof(h.text), "%.1f%%", 100 * ratio);
	return h;
}

const char *human_vma_name(enum wprof_vma_type type, const char *name)
{
	if (name && *name)
		return name;
	return type == WPROF_ANONYMOUS ? "[anon]" : wprof_vma_type_name(type);
}

/* UTF-8 continuation bytes take no column. */
static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

static size_t columns(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += !is_continuation(*text);
	return n;
}

/* Copy @n columns of *@text to @to and move on. */
static char *copy_columns(char *to, const char **text, size_t n)
{
	for (size_t i = 0; i < n && **text; i++) {
		do
			*to++ = *(*text)++;
		while (is_continuation(**text));
	}
	return to;
}

char *human_clip(const char *text, size_t width, char *out)
{
	/* of a path the last part tells most */
	size_t n = columns(text), head = *text == '/' ? 0 : (width - 2) / 3;
	char *to;

	if (n <= width) {
		*copy_columns(out, &text, n) = '\0';
		text_tame(out);
		return out;
	}
	if (width <= 2)
		head = width;
	to = copy_columns(out, &text, head);
	if (width > 2) {
		size_t tail = width - 2 - head;

		*to++ = '.';
		*to++ = '.';
		for (size_t skip = n - head - tail; skip; skip--)
			do
				text++;
			while (is_continuation(*text));
		to = copy_columns(to, &text, tail);
	}
	*to = '\0';
	text_tame(out);
	return out;
}

size_t human_width(int fd)
{
	const char *env = getenv("COLUMNS");
	struct winsize ws;
	size_t width = 0;

	if (!ioctl(fd, TIOCGWINSZ, &ws))
		width = ws.ws_col;
	else if (env)
		width = strtoul(env, NULL, 10);
	if (!width)
		width = 80;
	if (width > HUMAN_WIDTH_MAX)
		return HUMAN_WIDTH_MAX;
	return width < 20 ? 20 : width;
}

void human_progress(const char *text)
{
	char clipped[4 * HUMAN_WIDTH_MAX + 1];

	fprintf(stderr, "\r\033[K%s", human_clip(text, human_width(STDERR_FILENO) - 1, clipped));
}

/* Below 80 columns the right-hand figures go first, the address stays. */
#define WIDE   80
#define MEDIUM 44

void human_region_head(size_t width)
{
	if (width >= WIDE)
		printf("%-14s %10s %10s %7s %7s %3s %-9s %s\n", "START", "SIZE", "POPULATED",
		       "WRITTEN", "WINDOW", "FOR", "TYPE", "NAME");
	else if (width >= MEDIUM)
		printf("%-14s %10s %7s %s\n", "START", "POPULATED", "WRITTEN", "NAME");
	else
		printf("%-12s %7s\n", "START", "WRITTEN");
}

void human_region(const struct wprof_region *r, size_t width)
{
	char name[4 * HUMAN_WIDTH_MAX + 1];
	const char *full = human_vma_name(r->type, r->name);
	struct human populated = human_bytes((double)r->populated_bytes);
	struct human written = human_percent(r->written_ratio);

	if (width >= WIDE)
		printf("0x%-12" PRIx64 " %10s %10s %7s %7s %3" PRIu32 " %-9s %s\n", r->start,
		       human_bytes((double)(r->end - r->start)).text, populated.text, written.text,
		       human_percent(r->window_ratio).text, r->consecutive,
		       wprof_vma_type_name(r->type), human_clip(full, width - 67, name));
	else if (width >= MEDIUM)
		printf("0x%-12" PRIx64 " %10s %7s %s\n", r->start, populated.text, written.text,
		       human_clip(full, width - 34, name));
	else
		printf("%-12" PRIx64 " %7s\n", r->start, written.text);
}

static void untracked(FILE *f, uint64_t bytes, const char *what, const char **before)
{
	if (!bytes)
		return;
	fprintf(f, "%s%s %s", *before, human_bytes((double)bytes).text, what);
	*before = ", ";
}

void human_untracked(FILE *f, const struct wprof_interval *iv)
{
	const char *before = "not tracked: ";

	untracked(f, iv->untracked_shared_bytes, "shared", &before);
	untracked(f, iv->untracked_busy_bytes, "owned by another userfaultfd", &before);
	untracked(f, iv->untracked_limit_bytes, "new, for there are too many mappings", &before);
	if (*before == ',')
		putc('\n', f);
}
