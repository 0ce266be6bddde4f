/*
 * screen.c - a terminal that is redrawn in place.
 *
 * Lines are written over those before and only their rests are cleared, in one
 * write(2): nothing flickers, and a slow line shows no half picture for long. The
 * terminal's own strings come from terminfo; no window library is needed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <curses.h>
#include <term.h>

#include "tool/screen.h"

static struct {
	bool open, keys;
	struct termios before;
	const char *home, *end_of_line, *end_of_screen, *reverse, *normal;
} screen;

/* A string of the terminal; "" when it has none. */
static const char *capability(const char *name)
{
	const char *text = tigetstr(name);

	return text && text != (const char *)-1 ? text : "";
}

static void put(const char *text)
{
	size_t len = strlen(text);

	while (len) {
		ssize_t n = write(STDOUT_FILENO, text, len);

		if (n < 0 && errno != EINTR)
			return;
		text += n < 0 ? 0 : n;
		len -= n < 0 ? 0 : (size_t)n;
	}
}

static void take_keys(void)
{
	struct termios raw;

	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &screen.before))
		return;
	raw = screen.before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	/* stopping half way would leave the shell a screen without cursor */
	raw.c_cc[VSUSP] = _POSIX_VDISABLE;
	screen.keys = !tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

bool screen_open(void)
{
	int error;

	if (!isatty(STDOUT_FILENO) || setupterm(NULL, STDOUT_FILENO, &error) != OK)
		return false;
	screen.home = capability("home");
	screen.end_of_line = capability("el");
	screen.end_of_screen = capability("ed");
	screen.reverse = capability("rev");
	screen.normal = capability("sgr0");
	if (!*screen.home || !*screen.end_of_line || !*screen.end_of_screen)
		return false;
	take_keys();
	put(capability("smcup"));
	put(capability("civis"));
	put(capability("clear"));
	screen.open = true;
	atexit(screen_close);
	return true;
}

void screen_close(void)
{
	if (!screen.open)
		return;
	put(screen.normal);
	put(capability("cnorm"));
	put(capability("rmcup"));
	if (screen.keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
	screen.open = screen.keys = false;
}

void screen_size(size_t *width, size_t *height)
{
	struct winsize ws;

	*width = 80;
	*height = 24;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws))
		return;
	if (ws.ws_col)
		*width = ws.ws_col;
	if (ws.ws_row)
		*height = ws.ws_row;
}

static void add_line(FILE *f, const char *line, size_t len)
{
	bool reverse = len && line[0] == '\001';

	if (reverse)
		fputs(screen.reverse, f);
	fwrite(line + reverse, 1, len - reverse, f);
	if (reverse)
		fputs(screen.normal, f);
	fputs(screen.end_of_line, f);
}

void screen_show(const char *text)
{
	char *frame = NULL;
	size_t size;
	FILE *f = open_memstream(&frame, &size);

	if (!f)
		return;
	fputs(screen.home, f);
	while (*text) {
		size_t len = strcspn(text, "\n");

		add_line(f, text, len);
		text += len;
		/* no line end behind the last line: the screen would scroll */
		if (*text == '\n' && *++text)
			fputs("\r\n", f);
	}
	fputs(screen.end_of_screen, f);
	if (!fclose(f))
		put(frame);
	free(frame);
}

int screen_keys(void)
{
	return screen.keys ? STDIN_FILENO : -1;
}

int screen_key(void)
{
	unsigned char c;
	ssize_t n = read(STDIN_FILENO, &c, 1);

	if (n == 1)
		return c;
	/* nothing to read although poll() said so: the terminal is gone */
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}
