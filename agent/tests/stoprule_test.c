/* When a migration makes its final dump, and what is foretold of a dump. */
#include <atf-c.h>

#include "stoprule.h"

#define MIB (1024u * 1024u)

#define CASE(name, text)                                    \
	ATF_TC(name);                                       \
	ATF_TC_HEAD(name, tc)                               \
	{                                                   \
		atf_tc_set_md_var(tc, "descr", "%s", text); \
	}                                                   \
	ATF_TC_BODY(name, tc)

static const struct stop_limits usual = { .max_pre_dumps = 8, .min_shrink = 0.1 };

/* Steps that wrote so many MiB, at 10 ms each. */
static size_t steps_of(struct stop_step *steps, const unsigned int *mib, size_t n)
{
	for (size_t i = 0; i < n; i++)
		steps[i] = (struct stop_step){ mib[i] * (uint64_t)MIB, 0, mib[i] * 10.0 };
	return n;
}

static enum stop_reason decide(const struct stop_limits *limits, const unsigned int *mib, size_t n)
{
	static const struct stop_dirty unknown = { 0 };
	struct stop_step steps[8];
	struct stop_forecast final;

	steps_of(steps, mib, n);
	final = stop_forecast(steps, n, &unknown, true, false);
	return stop_decide(limits, steps, n, &final);
}

CASE(none__goes_on, "Before the first dump no limit is met")
{
	struct stop_limits limits = { 1, 0.1, MIB, 1 };

	ATF_CHECK_EQ(decide(&limits, NULL, 0), STOP_NOT);
}

CASE(steady__ends, "A dump that is not a tenth smaller than the one before is the last")
{
	ATF_CHECK_EQ(decide(&usual, (unsigned int[]){ 100 }, 1), STOP_NOT);
	ATF_CHECK_EQ(decide(&usual, (unsigned int[]){ 100, 60 }, 2), STOP_NOT);
	ATF_CHECK_EQ(decide(&usual, (unsigned int[]){ 100, 60, 53 }, 3), STOP_NOT);
	ATF_CHECK_EQ(decide(&usual, (unsigned int[]){ 100, 60, 54 }, 3), STOP_STEADY);
	ATF_CHECK_EQ(decide(&usual, (unsigned int[]){ 100, 60, 80 }, 3), STOP_STEADY);
	/* a process that sleeps */
	ATF_CHECK_EQ(decide(&usual, (unsigned int[]){ 100, 0, 0 }, 3), STOP_STEADY);
}

CASE(shrink_0__ends_when_it_grows, "With --min-shrink 0 any shrinking is enough to go on")
{
	struct stop_limits limits = { .max_pre_dumps = 8 };

	ATF_CHECK_EQ(decide(&limits, (unsigned int[]){ 100, 99 }, 2), STOP_NOT);
	ATF_CHECK_EQ(decide(&limits, (unsigned int[]){ 100, 99, 99 }, 3), STOP_STEADY);
}

CASE(max__ends, "No more pre-dumps than allowed")
{
	struct stop_limits limits = { .max_pre_dumps = 2, .min_shrink = 0.1 };

	ATF_CHECK_EQ(decide(&limits, (unsigned int[]){ 100 }, 1), STOP_NOT);
	ATF_CHECK_EQ(decide(&limits, (unsigned int[]){ 100, 50 }, 2), STOP_MAX);
}

CASE(goals__end_early, "What is foretold of the final dump, in bytes and in time, ends them early")
{
	struct stop_limits enough = { 8, 0.1, 50u * MIB, 0 };
	struct stop_limits downtime = { 8, 0.1, 0, 500 };

	ATF_CHECK_EQ(decide(&enough, (unsigned int[]){ 100, 51 }, 2), STOP_NOT);
	ATF_CHECK_EQ(decide(&enough, (unsigned int[]){ 100, 50 }, 2), STOP_ENOUGH);
	ATF_CHECK_EQ(decide(&downtime, (unsigned int[]){ 100, 51 }, 2), STOP_NOT);
	ATF_CHECK_EQ(decide(&downtime, (unsigned int[]){ 100, 50 }, 2), STOP_DOWNTIME);
}

CASE(volume__counts_what_is_withheld, "What is withheld is a part of the volume")
{
	/* 40 MiB are hot: the rest shrinks to a tenth, all of it hardly */
	struct stop_step steps[] = { { 60u * MIB, 40u * MIB, 1 },
				     { 10u * MIB, 40u * MIB, 1 },
				     { 6u * MIB, 40u * MIB, 1 } };
	struct stop_forecast final = { 0 };

	ATF_CHECK_EQ(stop_decide(&usual, steps, 2, &final), STOP_NOT);
	ATF_CHECK_EQ(stop_decide(&usual, steps, 3, &final), STOP_STEADY);
}

CASE(forecast__first, "A first dump has all memory, and no time is foretold for it")
{
	struct stop_dirty dirty = { true, 5u * MIB, MIB, MIB, 0, 0 };
	struct stop_forecast f = stop_forecast(NULL, 0, &dirty, false, true);

	ATF_CHECK(!f.has_bytes && !f.has_ms);
	dirty.all_bytes = 90u * MIB;
	dirty.hot_size_bytes = 20u * MIB;
	f = stop_forecast(NULL, 0, &dirty, false, true);
	ATF_CHECK(f.has_bytes && !f.has_ms);
	ATF_CHECK_EQ(f.bytes / MIB, 70);
	ATF_CHECK_EQ(stop_forecast(NULL, 0, &dirty, false, false).bytes / MIB, 90);
	ATF_CHECK_EQ(stop_forecast(NULL, 0, &dirty, true, true).bytes / MIB, 90);
	/* regions may be sparse */
	dirty.hot_size_bytes = 100u * MIB;
	ATF_CHECK_EQ(stop_forecast(NULL, 0, &dirty, false, true).bytes, 0);
}

CASE(forecast__unprofiled_is_as_the_last,
     "Without a profile the next dump is foretold to be as the last")
{
	struct stop_step steps[] = { { 100u * MIB, 0, 900 }, { 30u * MIB, 20u * MIB, 200 } };
	struct stop_dirty dirty = { .since_dump_bytes = 77 };

	ATF_CHECK_EQ(stop_forecast(steps, 2, &dirty, false, true).bytes, 30u * MIB);
	ATF_CHECK_EQ(stop_forecast(steps, 2, &dirty, true, true).bytes, 50u * MIB);
}

/* 4 intervals: 10 MiB that are hot in each, and 5 MiB of others */
CASE(forecast__hot_memory_counts_once,
     "Memory written in every interval is dumped once, and withheld by a pre-dump")
{
	struct stop_step steps[] = { { 90u * MIB, 10u * MIB, 900 } };
	struct stop_dirty dirty = { true, 60u * MIB, 15u * MIB, 10u * MIB, 0, 0 };

	ATF_CHECK_EQ(stop_forecast(steps, 1, &dirty, false, true).bytes / MIB, 20);
	ATF_CHECK_EQ(stop_forecast(steps, 1, &dirty, false, false).bytes / MIB, 30);
	ATF_CHECK_EQ(stop_forecast(steps, 1, &dirty, true, true).bytes / MIB, 30);
	/* more was withheld than is hot now */
	steps[0].withheld_bytes = 40u * MIB;
	ATF_CHECK_EQ(stop_forecast(steps, 1, &dirty, true, true).bytes / MIB, 60);
}

CASE(forecast__no_more_than_all_memory, "No dump is foretold to be larger than the first")
{
	struct stop_step steps[] = { { 16u * MIB, 0, 100 }, { 8u * MIB, 0, 60 } };
	struct stop_dirty dirty = { true, 900u * MIB, 16u * MIB, 0, 0, 0 };

	ATF_CHECK_EQ(stop_forecast(steps, 2, &dirty, false, false).bytes, 16u * MIB);
	/* nothing written in the last interval, hot from before */
	dirty = (struct stop_dirty){ true, 3u * MIB, 0, 0, 0, 0 };
	ATF_CHECK_EQ(stop_forecast(steps, 2, &dirty, false, false).bytes, 3u * MIB);
	/* sampled memory may be overestimated */
	dirty = (struct stop_dirty){ true, 3u * MIB, 1u * MIB, 2u * MIB, 0, 0 };
	ATF_CHECK_EQ(stop_forecast(steps, 2, &dirty, false, true).bytes, 0);
}

static double ms_of(const struct stop_step *steps, size_t n)
{
	static const struct stop_dirty unknown = { 0 };

	return stop_forecast(steps, n, &unknown, true, false).ms;
}

CASE(forecast__time, "Time is foretold by a line through the dumps so far")
{
	/* 50 ms, and 1 ms a MiB; what is withheld goes with the final dump */
	struct stop_step line[] = { { 100u * MIB, 0, 150 }, { 10u * MIB, 20u * MIB, 60 } };
	struct stop_step one[] = { { 100u * MIB, 100u * MIB, 100 } };
	struct stop_step same[] = { { MIB, 0, 100 }, { MIB, 0, 300 } };
	/* the larger one was quicker: no time below 0 is foretold */
	struct stop_step odd[] = { { 100u * MIB, 0, 10 }, { MIB, 0, 90 } };

	ATF_CHECK(ms_of(line, 2) > 79.9 && ms_of(line, 2) < 80.1);
	ATF_CHECK(ms_of(one, 1) > 199.9 && ms_of(one, 1) < 200.1);
	ATF_CHECK(ms_of(same, 2) > 199.9 && ms_of(same, 2) < 200.1);
	ATF_CHECK(ms_of(odd, 2) > 49.9 && ms_of(odd, 2) < 50.1);
}

CASE(forecast__no_time_from_afar, "No time is foretold for far more than was ever sent")
{
	struct stop_step hot[] = { { 2u * MIB, 30u * MIB, 100 }, { MIB, 7u * MIB, 90 } };
	struct stop_dirty unknown = { 0 };
	struct stop_limits downtime = { 8, 0.1, 0, 1 };
	struct stop_forecast f = stop_forecast(hot, 1, &unknown, true, true);

	ATF_CHECK(f.has_bytes && !f.has_ms);
	ATF_CHECK_EQ(f.bytes / MIB, 32);
	/* nothing known is no short time */
	ATF_CHECK_EQ(stop_decide(&downtime, hot, 1, &f), STOP_NOT);
	f = stop_forecast(hot, 2, &unknown, true, true);
	ATF_CHECK(f.has_ms);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, none__goes_on);
	ATF_TP_ADD_TC(tp, steady__ends);
	ATF_TP_ADD_TC(tp, shrink_0__ends_when_it_grows);
	ATF_TP_ADD_TC(tp, max__ends);
	ATF_TP_ADD_TC(tp, goals__end_early);
	ATF_TP_ADD_TC(tp, volume__counts_what_is_withheld);
	ATF_TP_ADD_TC(tp, forecast__first);
	ATF_TP_ADD_TC(tp, forecast__unprofiled_is_as_the_last);
	ATF_TP_ADD_TC(tp, forecast__hot_memory_counts_once);
	ATF_TP_ADD_TC(tp, forecast__no_more_than_all_memory);
	ATF_TP_ADD_TC(tp, forecast__time);
	ATF_TP_ADD_TC(tp, forecast__no_time_from_afar);
	return atf_no_error();
}
