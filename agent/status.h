/* status.h - the one table from errno to gRPC's codes. */
#ifndef AGENT_STATUS_H
#define AGENT_STATUS_H

#include "rpc.h"

/** status_code() - for a negative errno */
enum rpc_code status_code(int error);

/** status_fail() - answer @rpc with @error: "what: why" */
void status_fail(struct rpc *rpc, int error, const char *what);

#endif /* AGENT_STATUS_H */
