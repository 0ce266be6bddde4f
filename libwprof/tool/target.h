/* target.h - the process that is looked at: by PID, by service, or started here. */
#ifndef WPROF_TOOL_TARGET_H
#define WPROF_TOOL_TARGET_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tool/options.h"
#include "tool/pace.h"

struct pctx_reader;

/** struct target - a process and what it says about itself */
struct target {
	pid_t pid;
	bool started; /* by us: it is asked to end with us */
	char command[17];
	struct pctx_reader *reader; /* NULL: it cannot be read */
	json_t *context;	    /* as OTLP/JSON; NULL: none */
	char service[96];	    /* its service.name, or "" */
};

/**
 * target_find() - find, or start, what the options name
 * @p: signals; a command is started with the mask from before
 *
 * Return: 0, or the exit code: an error has been printed.
 */
int target_find(const struct options *o, const struct pace *p, struct target *t);

/** target_attach() - as target_find(), for a process known by @pid; never fails */
void target_attach(pid_t pid, struct target *t);

/** target_changed() - has its context changed? Then t->context is the new one */
bool target_changed(struct target *t);

/** target_label() - "memwrite (pid 123, service db)" */
const char *target_label(const struct target *t, char *out, size_t bytes);

/** target_close() - forget it; a command that was started is asked to end */
void target_close(struct target *t);

#endif /* WPROF_TOOL_TARGET_H */
