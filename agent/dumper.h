/* dumper.h - dumps by CRIU, one at a time. */
#ifndef AGENT_DUMPER_H
#define AGENT_DUMPER_H

#include <stdbool.h>

#include "criu/dump.h"
#include "jobs.h"

/** struct dump_request - an RPC that asks for a dump; a job */
struct dump_request {
	struct job job;
	char id[DUMP_ID_MAX + 1], parent[DUMP_ID_MAX + 1]; /* checked */
	bool final, leave_running;
};

/** dumper_open() - before the first request; strings are not copied.
 * @images: NULL: no dumps are taken */
void dumper_open(const char *criu, const char *images, enum dump_mode mode);

/** dumper_mode() - the name of the mode that dumps will have; "": none are taken */
const char *dumper_mode(void);

/** dumper_run() - a job's function: take the dump, answer, free the job */
void dumper_run(struct job *job);

#endif /* AGENT_DUMPER_H */
