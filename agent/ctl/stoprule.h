/* stoprule.h - when a migration makes its final dump, and what a dump will come to. */
#ifndef CTL_STOPRULE_H
#define CTL_STOPRULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** struct stop_limits - one that is met ends the pre-dumps */
struct stop_limits {
	uint32_t max_pre_dumps;
	double min_shrink;     /* the share by which the volume must have shrunk; 0: any */
	uint64_t enough_bytes; /* the final dump is expected to be so small; 0: no such limit */
	uint32_t downtime_ms;  /* and to be dumped and sent so soon; 0: no such limit */
};

/** struct stop_step - what a dump came to */
struct stop_step {
	uint64_t written_bytes;	 /* to be sent */
	uint64_t withheld_bytes; /* what it left out: it is sent with the final dump */
	double ms;		 /* dumped and sent */
};

/** struct stop_dirty - what an agent knows before a dump */
struct stop_dirty {
	bool known;		      /* something is being profiled */
	uint64_t since_dump_bytes;    /* what is written in every interval counts in each */
	uint64_t last_interval_bytes; /* of pages written in the last one */
	uint64_t hot_bytes;	      /* of those, in hot memory */
	uint64_t all_bytes;	      /* memory there is */
	uint64_t hot_size_bytes;      /* of it, hot */
};

/** struct stop_forecast - a dump to be made */
struct stop_forecast {
	bool has_bytes, has_ms;
	uint64_t bytes; /* to be sent */
	double ms;	/* to dump and to send */
};

/** enum stop_reason - why no pre-dump is made any more */
enum stop_reason { STOP_NOT, STOP_ENOUGH, STOP_DOWNTIME, STOP_MAX, STOP_STEADY };

/**
 * stop_forecast() - what the next dump will come to
 * @steps: those of its chain so far, the first of which had no parent
 * @final: all that was held back goes with it
 * @withholds: a pre-dump leaves hot memory out
 */
struct stop_forecast stop_forecast(const struct stop_step *steps, size_t n,
				   const struct stop_dirty *dirty, bool final, bool withholds);

/** stop_decide() - after n pre-dumps, with what is foretold of a final one */
enum stop_reason stop_decide(const struct stop_limits *limits, const struct stop_step *steps,
			     size_t n, const struct stop_forecast *final);

/** stop_text() - the reason, for people */
const char *stop_text(enum stop_reason reason);

/** stop_name() - the reason, for programs */
const char *stop_name(enum stop_reason reason);

#endif /* CTL_STOPRULE_H */
