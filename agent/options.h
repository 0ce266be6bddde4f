/* options.h - the command line of wprof-agent. */
#ifndef AGENT_OPTIONS_H
#define AGENT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "criu/dump.h"
#include "log.h"

#define LISTEN_MAX   8
#define UIDS_MAX     64
#define LISTEN_USUAL "unix:/run/wprof-agent/agent.sock"

/** struct options - all of it, checked */
struct options {
	const char *listen[LISTEN_MAX];
	size_t n_listen;
	uid_t uids[UIDS_MAX]; /* beside our own, which may always */
	size_t n_uids;
	const char *tls_cert, *tls_key, *tls_ca; /* all or none */
	bool insecure;
	const char *metrics;
	pid_t target_pid;
	const char *target_comm;
	const char *criu, *images_dir; /* @images_dir: NULL: no dumps */
	enum dump_mode hot_mode;
	enum log_level log_level;
	uint64_t stop_ms; /* from the signal to the end, at most */
};

/** options_parse() - or say what is wrong, and exit with 2 */
void options_parse(int argc, char **argv, struct options *o);

/** options_is_unix() - is an address unix:PATH? */
bool options_is_unix(const char *address);

#endif /* AGENT_OPTIONS_H */
