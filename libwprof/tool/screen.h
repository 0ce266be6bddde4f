/* screen.h - a terminal that is redrawn in place, by terminfo. */
#ifndef WPROF_TOOL_SCREEN_H
#define WPROF_TOOL_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

/**
 * screen_open() - take the terminal over: its other screen, no cursor, no echo
 *
 * Return: false when standard output is none that can be redrawn; nothing is
 * changed then.
 */
bool screen_open(void);

/** screen_close() - give it back as it was; also by atexit(), so never forgotten */
void screen_close(void);

/** screen_size() - columns and lines, now */
void screen_size(size_t *width, size_t *height);

/**
 * screen_show() - show @text from the first line on, in one write
 *
 * Lines must fit the width and the height; what was there before is gone. A line
 * that begins with '\001' is shown in reverse.
 */
void screen_show(const char *text);

/** screen_keys() - the descriptor keys come from, or -1 */
int screen_keys(void);

/** screen_key() - one key; 0: none, -1: no more will come */
int screen_key(void);

#endif /* WPROF_TOOL_SCREEN_H */
