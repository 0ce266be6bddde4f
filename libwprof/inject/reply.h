/*
 * reply.h - what wprof-inject sends back to libwprof, one message on the
 * socket it was started with; the descriptor comes along by SCM_RIGHTS.
 */
#ifndef WPROF_INJECT_REPLY_H
#define WPROF_INJECT_REPLY_H

#include "inject.h"

#define REPLY_FD    3		/* where the injector finds the socket */
#define REPLY_MAGIC 0x77707232u /* changes with this structure */

struct inject_reply {
	uint32_t magic;
	int32_t err; /* 0 or -errno */
	struct inject_stats stats;
	struct wprof_why why;
};

#endif /* WPROF_INJECT_REPLY_H */
