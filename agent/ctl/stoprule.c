/*
 * stoprule.c - when a migration makes its final dump.
 *
 * Theory of operation
 *
 * The volume of a dump is what it wrote and what it held back: about what a final
 * dump would have been in its place. The first is the whole memory; each further
 * one is what was written since the one before, and shrinks as long as the dumps
 * get quicker. When it no longer does, further pre-dumps gain nothing: the final
 * dump is due. It is due earlier when it is foretold to be small or quick enough.
 *
 * What is foretold: an agent counts the bytes written in each interval. Memory
 * that is written in every interval counts in each of them, but is dumped once.
 * The last interval says how much of the bytes that is: hot memory. So
 *
 *     cold = since the last dump * (1 - hot / last interval)
 *     dirty = cold + hot
 *
 * and no dump is larger than the first, of all the memory. A pre-dump that
 * withholds leaves hot memory out; a final one has what is withheld besides, of
 * which hot memory is a part. Without a profile the next dump is expected to be
 * as the last. A first dump has all the memory there is; how long it takes
 * nobody can say.
 *
 * Time: a line through the dumps so far (least squares), for a dump of nothing
 * takes some time too. Small pieces say nothing of a large one, as when all memory
 * is hot: beyond FAR times the largest no time is foretold.
 */
#include "stoprule.h"

#define FAR 8u

static uint64_t volume(const struct stop_step *s)
{
	return s->written_bytes + s->withheld_bytes;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Written since the last dump, but for hot memory. */
static uint64_t cold(const struct stop_dirty *d)
{
	if (!d->last_interval_bytes)
		return d->since_dump_bytes;
	if (d->hot_bytes >= d->last_interval_bytes)
		return 0;
	return (uint64_t)((double)d->since_dump_bytes *
			  (1 - (double)d->hot_bytes / (double)d->last_interval_bytes));
}

static uint64_t largest(const struct stop_step *steps, size_t n)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes = most(bytes, volume(&steps[i]));
	return bytes;
}

static uint64_t largest_written(const struct stop_step *steps, size_t n)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes = most(bytes, steps[i].written_bytes);
	return bytes;
}

static uint64_t next_bytes(const struct stop_step *steps, size_t n, const struct stop_dirty *dirty,
			   bool final, bool withholds)
{
	const struct stop_step *last = &steps[n - 1];
	uint64_t bytes;

	if (!dirty->known)
		return final ? volume(last) : last->written_bytes;
	bytes = cold(dirty);
	if (final)
		bytes += most(last->withheld_bytes, dirty->hot_bytes);
	else if (!withholds)
		bytes += dirty->hot_bytes;
	return bytes < largest(steps, n) ? bytes : largest(steps, n);
}

static uint64_t first_bytes(const struct stop_dirty *d, bool final, bool withholds)
{
	if (final || !withholds)
		return d->all_bytes;
	return d->all_bytes > d->hot_size_bytes ? d->all_bytes - d->hot_size_bytes : 0;
}

static double next_ms(const struct stop_step *steps, size_t n, uint64_t bytes)
{
	double x = 0, y = 0, xx = 0, xy = 0, slope, ms;

	for (size_t i = 0; i < n; i++) {
		x += (double)steps[i].written_bytes / (double)n;
		y += steps[i].ms / (double)n;
	}
	for (size_t i = 0; i < n; i++) {
		double dx = (double)steps[i].written_bytes - x;

		xx += dx * dx;
		xy += dx * (steps[i].ms - y);
	}
	if (xx > 0)
		slope = xy > 0 ? xy / xx : 0;
	else
		slope = x > 0 && n == 1 ? y / x : 0;
	ms = y + slope * ((double)bytes - x);
	return ms > 0 ? ms : 0;
}

struct stop_forecast stop_forecast(const struct stop_step *steps, size_t n,
				   const struct stop_dirty *dirty, bool final, bool withholds)
{
	struct stop_forecast f = { 0 };

	if (!n) {
		f.has_bytes = dirty->known && dirty->all_bytes;
		f.bytes = first_bytes(dirty, final, withholds);
		return f;
	}
	f.bytes = next_bytes(steps, n, dirty, final, withholds);
	f.has_bytes = true;
	f.has_ms = f.bytes <= FAR * largest_written(steps, n);
	f.ms = f.has_ms ? next_ms(steps, n, f.bytes) : 0;
	return f;
}

enum stop_reason stop_decide(const struct stop_limits *limits, const struct stop_step *steps,
			     size_t n, const struct stop_forecast *final)
{
	double before, now;

	if (!n)
		return STOP_NOT;
	if (limits->enough_bytes && final->has_bytes && final->bytes <= limits->enough_bytes)
		return STOP_ENOUGH;
	if (limits->downtime_ms && final->has_ms && final->ms <= limits->downtime_ms)
		return STOP_DOWNTIME;
	if (n >= limits->max_pre_dumps)
		return STOP_MAX;
	if (n < 2)
		return STOP_NOT;
	before = (double)volume(&steps[n - 2]);
	now = (double)volume(&steps[n - 1]);
	return now >= before * (1 - limits->min_shrink) ? STOP_STEADY : STOP_NOT;
}

const char *stop_text(enum stop_reason reason)
{
	static const char *const texts[] = {
		"",
		"what is left is expected to be small enough",
		"the downtime is expected to be short enough",
		"as many pre-dumps as allowed were made",
		"the dirty volume no longer shrinks",
	};

	return texts[reason];
}

const char *stop_name(enum stop_reason reason)
{
	static const char *const names[] = { "", "enough", "downtime", "max_pre_dumps", "steady" };

	return names[reason];
}
