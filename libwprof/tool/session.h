/* session.h - a target while it is profiled. */
#ifndef WPROF_TOOL_SESSION_H
#define WPROF_TOOL_SESSION_H

#include "tool/target.h"

/** session_open_profile() - wprof_open() as the options say; prints why not.
 *
 * Return: 0, or the exit code. -1: the target has ended, nothing was printed.
 */
int session_open_profile(const struct options *o, const struct target *t, struct wprof **w);

/** session_profile_opts() - the options as libwprof wants them */
void session_profile_opts(const struct options *o, struct wprof_opts *opts);

/** session_exit_code() - the exit code for a reason of libwprof */
int session_exit_code(enum wprof_reason reason);

/** struct session - one target, profiled until its hot memory is known */
struct session {
	struct pace pace;
	struct target target;
	struct wprof *w;
	bool ended;
	const struct wprof_interval *last; /* NULL: none */
	const struct wprof_region *hot;
	size_t n_hot;
	uint64_t intervals;
	struct trace_cost cost;
};

/**
 * session_profile() - find the target and profile it for consecutive + 1 intervals
 *
 * A signal stops it early. What is found lives until session_close().
 *
 * Return: 0, or the exit code: an error has been printed.
 */
int session_profile(const struct options *o, struct session *s);

/** session_find() - only find the target; as session_profile() */
int session_find(const struct options *o, struct session *s);

void session_close(struct session *s);

/** session_json() - the fields that documents about a target begin with */
json_t *session_json(const struct session *s, const char *format);

/** cpu_ns() - processor time of this program so far */
uint64_t cpu_ns(void);

#endif /* WPROF_TOOL_SESSION_H */
