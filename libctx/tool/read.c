/* pctx read: the context of one process. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bounded.h"
#include "cli.h"
#include "commands.h"
#include "outcome.h"
#include "record.h"
#include "show.h"
#include "source.h"

struct request {
	struct pctx_reader_opts opts;
	pid_t pid;
	bool json;
	bool fallback;
};

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "one JSON document", 1 },
	{ "fallback", 'f', NULL, 0,
	  "when there is no usable context, describe the process from /proc and say why", 1 },
	{ 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct request *r = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &r->opts;
		return 0;
	case 'j':
		r->json = true;
		return 0;
	case 'f':
		r->fallback = true;
		return 0;
	case ARGP_KEY_ARG:
		if (r->pid)
			argp_error(state, "one PID only");
		if (!cli_pid(arg, &r->pid))
			argp_error(state, "'%s' is not a PID", arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "a PID is missing");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int print_json(const struct request *r, const struct pctx_context *context, int error)
{
	json_t *record = record_new(r->opts.procfs, r->pid);

	json_object_set_new(record, "format", json_string("pctx.read"));
	json_object_set_new(record, "version", json_integer(1));
	json_object_set_new(record, "fallback", json_boolean(error));
	if (error)
		json_object_set_new(record, "fallback_reason",
				    json_string(outcome_of(error)->word));
	if (record && !record_context(record, context)) {
		json_decref(record);
		record = NULL;
	}
	return record_print(record);
}

static int print_text(const struct request *r, const struct pctx_context *context, int error)
{
	char comm[64], age[16];

	comm_read(r->opts.procfs, r->pid, comm, sizeof(comm));
	printf("process %d (", (int)r->pid);
	show_text(stdout, comm, strlen(comm), false);
	if (error) {
		printf("), detected, not published: %s\n", outcome_of(error)->word);
	} else {
		bool past = show_age(age, sizeof(age), pctx_context_published_at_ns(context));

		printf("), published %s%s\n", past ? age : "in the future", past ? " ago" : "");
	}
	show_context(stdout, context);
	return CLI_DONE;
}

/* A thread of the kernel has no memory that could hold a context. */
static bool is_kernel_thread(const struct request *r)
{
	char path[4096], line[1024] = "", *end;
	FILE *stat;

	snprintf(path, sizeof(path), "%s/%d/stat", r->opts.procfs ? r->opts.procfs : "/proc",
		 (int)r->pid);
	stat = fopen(path, "re");
	if (!stat)
		return false;
	if (!fgets(line, sizeof(line), stat))
		line[0] = '\0';
	fclose(stat);
	end = strrchr(line, ')');
	/* flags are the seventh field behind the name */
	for (unsigned int i = 0; end && i < 7; i++)
		end = strchr(end + 1, ' ');
	return end && strtoul(end, NULL, 10) & 0x200000; /* PF_KTHREAD */
}

static int fail(const struct request *r, int error)
{
	const struct outcome *outcome = outcome_of(error);

	if (error == -ENODATA && is_kernel_thread(r)) {
		cli_error(
			"cannot read the context of process %d: it is a kernel thread and has none",
			(int)r->pid);
		return CLI_FAILED;
	}
	cli_error("cannot read the context of process %d: %s", (int)r->pid, outcome->why);
	return outcome->exit_code;
}

int read_main(int argc, char **argv)
{
	static const struct argp_child children[] = { { &source_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { options,  parse,
					  "PID",    "Show the context that process PID published.",
					  children, NULL,
					  NULL };
	struct request r = { .pid = 0 };
	struct pctx_context *context;
	int rc, error;

	source_init(&r.opts);
	argp_parse(&argp, argc, argv, 0, NULL, &r);
	error = bounded_read(r.pid, &r.opts, &context);
	rc = error;
	if (error && r.fallback && outcome_of(error)->fallback)
		rc = bounded_detect(r.pid, &r.opts, &context);
	if (rc)
		return fail(&r, rc);
	rc = r.json ? print_json(&r, context, error) : print_text(&r, context, error);
	pctx_context_free(context);
	return rc;
}
