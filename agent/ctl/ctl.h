/* ctl.h - what the files of wprof-ctl share. */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "call.h"

/** struct ctl - the command line, checked */
struct ctl {
	struct call_opts call;
	const char *tls_cert, *tls_key, *tls_ca;
	bool json;
	/* of start; 0: the agent's defaults */
	uint32_t interval_ms, hot_consecutive;
	double hot_threshold;
	uint64_t granularity_bytes;
	int32_t pid;
	const char *service;
	bool tree;
	/* of watch */
	uint64_t n_samples; /* 0: no end */
	/* of pre-dump and dump */
	const char *dump_id, *parent;
	bool leave_running;
	/* of migrate */
	const char *to, *name, *resume; /* NULL: not given */
	uint32_t max_pre_dumps, downtime_ms;
	double min_shrink;
	uint64_t enough_bytes;
};

/** struct ctl_command - a subcommand */
struct ctl_command {
	const char *name;
	int (*run)(const struct ctl *ctl);
	const char *argument; /* NULL: it takes none */
	bool needs_argument;
	const char *options; /* keys of the options it takes beside those of all */
	const char *summary;
};

/** ctl_commands() - all of them, the last without a name */
const struct ctl_command *ctl_commands(void);

/** ctl_parse() - or say what is wrong, and exit with 2 */
const struct ctl_command *ctl_parse(int argc, char **argv, struct ctl *ctl);

#endif /* CTL_CTL_H */
