/* pace.h - wait for the next interval, a signal, a key, or the target's end. */
#ifndef WPROF_TOOL_PACE_H
#define WPROF_TOOL_PACE_H

#include <signal.h>
#include <stdint.h>

enum pace_event {
	PACE_TICK,   /* the interval is over */
	PACE_DONE,   /* and so is the duration */
	PACE_SIGNAL, /* asked to stop */
	PACE_ENDED,  /* the target has exited */
	PACE_KEY,    /* something to read on the key descriptor */
	PACE_RESIZED /* the terminal has another size */
};

/** struct pace - the rhythm of a run */
struct pace {
	int signals;	   /* signalfd */
	sigset_t old_mask; /* for a command that is started */
	uint64_t interval_ns, start_ns, next_ns, stop_ns;
};

/** pace_now_ns() - CLOCK_MONOTONIC */
uint64_t pace_now_ns(void);

/** pace_open() - take SIGINT, SIGTERM, SIGHUP and SIGWINCH by descriptor. 0 or -errno */
int pace_open(struct pace *p);

/** pace_start() - the first interval begins now. @duration_ns: 0: no end */
void pace_start(struct pace *p, uint64_t interval_ns, uint64_t duration_ns);

/** pace_wait() - until something happens. @pidfd, @keys: -1: none */
enum pace_event pace_wait(struct pace *p, int pidfd, int keys);

void pace_close(struct pace *p);

#endif /* WPROF_TOOL_PACE_H */
