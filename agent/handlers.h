/* handlers.h - the methods of the service. */
#ifndef AGENT_HANDLERS_H
#define AGENT_HANDLERS_H

#include "profiler.h"
#include "rpc.h"

/** handlers_methods() - all that is served, for rpc_open() and the metrics */
const struct rpc_method *handlers_methods(size_t *n);

/** handlers_calls() - what the profiler is to call */
const struct profiler_calls *handlers_calls(void);

#endif /* AGENT_HANDLERS_H */
