/* pctx list: every process of the host that published a context. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bounded.h"
#include "cli.h"
#include "commands.h"
#include "outcome.h"
#include "record.h"
#include "show.h"
#include "source.h"

struct listing {
	struct pctx_reader_opts opts;
	struct bounded_pass pass;
	bool json;
	bool titled;
	unsigned int n_not_permitted;
};

static const struct argp_option options[] = { { "json", 'j', NULL, 0, "JSON, an object a line", 1 },
					      { 0 } };

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct listing *l = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &l->opts;
		return 0;
	case 'j':
		l->json = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is one argument too many", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int print_json(const struct listing *l, pid_t pid, int error,
		      const struct pctx_context *context)
{
	json_t *record = record_new(l->opts.procfs, pid);
	bool ok = record != NULL;

	if (ok && error)
		ok = json_object_set_new(record, "error", json_string(outcome_of(error)->word)) ==
		     0;
	else if (ok)
		ok = record_context(record, context);
	if (!ok) {
		json_decref(record);
		record = NULL;
	}
	return record_print(record);
}

static void print_string(const struct pctx_context *context, const char *key, unsigned int width)
{
	const struct pctx_attr *attr = pctx_context_find(context, key);
	const char *text = "-";
	size_t len = 1;

	if (attr && attr->value.kind == PCTX_STRING && attr->value.u.string.len) {
		text = attr->value.u.string.data;
		len = attr->value.u.string.len;
	}
	show_column(stdout, text, len, width);
}

static int print_text(struct listing *l, pid_t pid, int error, const struct pctx_context *context)
{
	char comm[64], age[16];

	if (!l->titled)
		printf("%7s  %-15s  %8s  %-24s  %s\n", "PID", "COMMAND", "AGE", "SERVICE.NAME",
		       "SERVICE.INSTANCE.ID");
	l->titled = true;
	comm_read(l->opts.procfs, pid, comm, sizeof(comm));
	printf("%7d  ", (int)pid);
	show_column(stdout, comm, strlen(comm), 15);
	fputs("  ", stdout);
	if (error) {
		printf("%8s  (%s)\n", "-", outcome_of(error)->word);
		return CLI_DONE;
	}
	show_age(age, sizeof(age), pctx_context_published_at_ns(context));
	printf("%8s  ", age);
	print_string(context, "service.name", 24);
	fputs("  ", stdout);
	print_string(context, "service.instance.id", 0);
	putchar('\n');
	return CLI_DONE;
}

static int list_one(pid_t pid, int error, const struct pctx_context *context, void *arg)
{
	struct listing *l = arg;

	if (error == -EPERM) {
		l->n_not_permitted++;
		return 0;
	}
	return l->json ? print_json(l, pid, error, context) : print_text(l, pid, error, context);
}

static int finish(const struct listing *l)
{
	if (l->n_not_permitted && l->json)
		return record_print(json_pack("{s:i}", "not_permitted", (int)l->n_not_permitted));
	if (l->n_not_permitted)
		cli_error("not permitted to look into %u process%s%s", l->n_not_permitted,
			  l->n_not_permitted == 1 ? "" : "es",
			  geteuid() ? "; as root there may be more" : "");
	return CLI_DONE;
}

int list_main(int argc, char **argv)
{
	static const struct argp_child children[] = { { &source_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { options,  parse,
					  NULL,	    "List the processes that published a context.",
					  children, NULL,
					  NULL };
	struct listing l = { .json = false };
	int rc = 0;

	source_init(&l.opts);
	l.opts.read = bounded_read;
	l.opts.read_arg = &l.pass;
	argp_parse(&argp, argc, argv, 0, NULL, &l);
	if (l.json)
		rc = record_print(json_pack("{s:s, s:i}", "format", "pctx.list", "version", 1));
	if (rc == 0)
		rc = pctx_each(&l.opts, list_one, &l);
	if (rc < 0) {
		cli_error("cannot list the processes: %s", outcome_of(rc)->why);
		return outcome_of(rc)->exit_code;
	}
	return rc ? rc : finish(&l);
}
