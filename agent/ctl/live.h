/* live.h - a table that is drawn anew in place, the newest sample last. */
#ifndef CTL_LIVE_H
#define CTL_LIVE_H

#include <stdbool.h>
#include <stdint.h>

/** struct live_row - a sample, each column as it is shown */
struct live_row {
	char when[16], rate[32], written[24], total[24];
	double value; /* of the rate: the length of its bar */
};

/** live_usable() - is standard output a terminal that can be drawn on? */
bool live_usable(void);

/**
 * live_add() - a further row; the table is drawn
 * @note: below it; empty: nothing
 *
 * Columns that find no room are left out, the rate last: the terminal's size is
 * asked for each time. Not MT-Safe.
 *
 * Return: false: it cannot be written
 */
bool live_add(const struct live_row *row, const char *note);

#endif /* CTL_LIVE_H */
