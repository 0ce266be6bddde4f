#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "tool/options.h"

enum {
	KEY_SERVICE = 0x100,
	KEY_INTERVAL,
	KEY_THRESHOLD,
	KEY_CONSECUTIVE,
	KEY_WINDOW,
	KEY_GRANULARITY,
	KEY_ARMING,
	KEY_DURATION,
	KEY_CSV,
	KEY_JSON,
	KEY_TREE,
	KEY_TREE_MAX,
	KEY_COLLAPSE
};

/* ---- whom ---------------------------------------------------------------------- */

/* Text behind `--` is a command, whatever it looks like. */
static void take_argument(struct options *o, char *arg, struct argp_state *state)
{
	if (state->quoted && state->next > state->quoted) {
		if (!o->takes_command)
			argp_error(state, "no command can be given here: %s", arg);
		o->command = &state->argv[state->next - 1];
		state->next = state->argc;
	} else if (o->pid) {
		argp_error(state, "one process id is enough: %s", arg);
	} else if (!cli_pid(arg, &o->pid)) {
		argp_error(state, "not a process id: %s%s", arg,
			   o->takes_command ? " (a command follows --)" : "");
	}
}

static void check_target(const struct options *o, struct argp_state *state)
{
	int given = (o->pid != 0) + (o->service != NULL) + (o->command != NULL);

	if (given > 1)
		argp_error(state, "name the process once: PID%s",
			   o->takes_command ? ", --service or -- CMD" : " or --service");
	if (given == 0 && o->needs_target)
		argp_error(state, "which process? PID%s",
			   o->takes_command ? ", --service NAME or -- CMD" : " or --service NAME");
}

static error_t parse_target(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_SERVICE:
		if (!*arg)
			argp_error(state, "--service: a name is needed");
		o->service = arg;
		return 0;
	case ARGP_KEY_ARG:
		take_argument(o, arg, state);
		return 0;
	case ARGP_KEY_END:
		check_target(o, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option target_options[] = {
	{ "service", KEY_SERVICE, "NAME", 0, "The process whose context has this service.name", 1 },
	{ 0 }
};

const struct argp options_target = { .options = target_options, .parser = parse_target };

/* ---- how ------------------------------------------------------------------------ */

static void take_number(struct argp_state *state, const char *option, const char *arg, uint64_t min,
			uint64_t max, uint64_t *out)
{
	if (!cli_number(arg, min, max, out))
		argp_error(state, "--%s: a whole number from %llu to %llu, not '%s'", option,
			   (unsigned long long)min, (unsigned long long)max, arg);
}

static void take_threshold(struct argp_state *state, const char *arg, double *out)
{
	if (!cli_decimal(arg, 0, 1, out) || *out <= 0 || *out >= 1)
		argp_error(state, "--threshold: a number above 0 and below 1, not '%s'", arg);
}

static void take_granularity(struct argp_state *state, const char *arg, uint64_t *out)
{
	if (!strcmp(arg, "vma"))
		*out = WPROF_VMA;
	else if (!cli_bytes(arg, 64u << 10, 1u << 30, out) || (*out & (*out - 1)))
		argp_error(state, "--granularity: 'vma' or a power of two from 64K to 1G, not '%s'",
			   arg);
}

static void take_arming(struct argp_state *state, const char *arg, bool *sample)
{
	if (strcmp(arg, "exact") && strcmp(arg, "sample"))
		argp_error(state, "--arming: 'exact' or 'sample', not '%s'", arg);
	*sample = !strcmp(arg, "sample");
}

static error_t parse_rule(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_INTERVAL:
		take_number(state, "interval", arg, 10, 3600000, &o->rule.interval_ms);
		return 0;
	case KEY_THRESHOLD:
		take_threshold(state, arg, &o->rule.hot_threshold);
		return 0;
	case KEY_CONSECUTIVE:
		take_number(state, "consecutive", arg, 1, 10, &o->rule.hot_consecutive);
		return 0;
	case KEY_WINDOW:
		take_number(state, "window", arg, 1, 64, &o->rule.window);
		return 0;
	case KEY_GRANULARITY:
		take_granularity(state, arg, &o->rule.granularity_bytes);
		return 0;
	case KEY_ARMING:
		take_arming(state, arg, &o->rule.sample);
		return 0;
	case KEY_COLLAPSE:
		o->collapse = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option rule_options[] = {
	{ "interval", KEY_INTERVAL, "MS", 0, "Length of an interval (1000)", 2 },
	{ "threshold", KEY_THRESHOLD, "RATIO", 0,
	  "Hot is memory of whose pages more than this share is written (0.3)", 2 },
	{ "consecutive", KEY_CONSECUTIVE, "N", 0, "... in N intervals in a row (3)", 2 },
	{ "window", KEY_WINDOW, "N", 0, "Intervals of the mean (10)", 2 },
	{ "granularity", KEY_GRANULARITY, "SIZE", 0,
	  "Heat of chunks of SIZE, or of each whole 'vma' (2M)", 2 },
	{ "arming", KEY_ARMING, "MODE", 0, "'exact', or 'sample' hot memory: cheaper", 2 },
	{ "collapse", KEY_COLLAPSE, NULL, 0,
	  "Afterwards give back the huge pages that profiling has split", 2 },
	{ 0 }
};

const struct argp options_rule = { .options = rule_options, .parser = parse_rule };

/* ---- what comes out ------------------------------------------------------------- */

static void take_duration(struct argp_state *state, const char *arg, uint64_t *ns)
{
	double seconds;

	if (!cli_decimal(arg, 0.01, 31536000, &seconds))
		argp_error(state, "--duration: seconds from 0.01 to 31536000, not '%s'", arg);
	*ns = (uint64_t)(seconds * 1e9);
}

static error_t parse_record(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_DURATION:
		take_duration(state, arg, &o->duration_ns);
		return 0;
	case KEY_TREE:
		o->tree = true;
		return 0;
	case KEY_TREE_MAX:
		take_number(state, "tree-max", arg, 1, 1024, &o->tree_max);
		o->tree = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option record_options[] = {
	{ "duration", KEY_DURATION, "S", 0, "Stop after S seconds; else ctrl-C does", 2 },
	{ "tree", KEY_TREE, NULL, 0, "Follow its children too", 1 },
	{ "tree-max", KEY_TREE_MAX, "N", 0, "... but no more than N processes at once (64)", 1 },
	{ 0 }
};

const struct argp options_record = { .options = record_options, .parser = parse_record };

static error_t parse_json(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	(void)arg;
	if (key != KEY_JSON)
		return ARGP_ERR_UNKNOWN;
	o->json = true;
	return 0;
}

static const struct argp_option json_options[] = {
	{ "json", KEY_JSON, NULL, 0, "Print JSON, as docs/formats.md describes", 3 }, { 0 }
};

const struct argp options_json = { .options = json_options, .parser = parse_json };

/* ---- all of them ------------------------------------------------------------------ */

struct parse_input {
	const struct options_command *command;
	struct options *o;
};

/* Hands the input on to the children; its own options go to the subcommand. */
static error_t parse_all(int key, char *arg, struct argp_state *state)
{
	struct parse_input *in = state->input;
	error_t rc;

	if (key == ARGP_KEY_INIT)
		for (size_t i = 0; in->command->children[i]; i++)
			state->child_inputs[i] = in->o;
	if (!in->command->parser)
		return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
	state->input = in->command->input;
	rc = in->command->parser(key, arg, state);
	state->input = in;
	return key == ARGP_KEY_INIT ? 0 : rc;
}

void options_parse(int argc, char **argv, const struct options_command *command, struct options *o)
{
	struct argp_child children[6] = { 0 };
	struct parse_input in = { command, o };
	struct argp argp = {
		.options = command->own,
		.parser = parse_all,
		.args_doc = command->usage,
		.doc = command->about,
		.children = children,
	};

	for (size_t i = 0; command->children[i]; i++)
		children[i].argp = command->children[i];
	/* in order: else getopt moves what stands before `--` behind it */
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &in);
}
