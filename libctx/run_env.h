/* run_env.h - what `pctx run` tells its preloaded shim, by environment variables */
#ifndef PCTX_RUN_ENV_H
#define PCTX_RUN_ENV_H

/* attributes of --attr, written as OTEL_RESOURCE_ATTRIBUTES is */
#define RUN_ENV_ATTRIBUTES   "PCTX_RUN_ATTRIBUTES"
/* the process that the command line was for; it keeps its PID through exec */
#define RUN_ENV_PID	     "PCTX_RUN_PID"
/* "0": only that process publishes */
#define RUN_ENV_FOLLOW_FORKS "PCTX_RUN_FOLLOW_FORKS"

#define RUN_SHIM_NAME "libpctx-preload.so"

#endif /* PCTX_RUN_ENV_H */
