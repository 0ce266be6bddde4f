/* options.h - the options that subcommands of wprof share. */
#ifndef WPROF_TOOL_OPTIONS_H
#define WPROF_TOOL_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tool/trace.h"

/** struct options - everything that can be said on a command line */
struct options {
	/* whom: one of the three */
	pid_t pid;
	const char *service;
	char **command; /* NULL-terminated */
	bool takes_command, needs_target;
	bool hides_output; /* of the command: the screen is ours */
	/* how */
	struct trace_rule rule;
	uint64_t duration_ns; /* 0: until it is stopped */
	bool tree, collapse, soft_dirty, clear_soft_dirty;
	uint64_t tree_max;
	/* what comes out */
	bool json, csv;
	const char *output;
};

/* to be children of a subcommand's argp, with struct options as input */
extern const struct argp options_target;
extern const struct argp options_rule;
extern const struct argp options_record;
extern const struct argp options_json;

/** OPTIONS_DEFAULT - as design and man page say */
#define OPTIONS_DEFAULT                                     \
	{                                                   \
		.rule = { .interval_ms = 1000,              \
			  .granularity_bytes = WPROF_CHUNK, \
			  .hot_threshold = 0.3,             \
			  .hot_consecutive = 3,             \
			  .window = 10 },                   \
		.needs_target = true, .tree_max = 64        \
	}

/**
 * options_parse() - parse a subcommand's line; wrong usage ends the program
 * @children: of the above, ended by { 0 }; each is given @o
 * @own: the subcommand's own options, ended by { 0 }; NULL: none
 * @parser: of its own options and arguments, given @input; NULL: none
 */
struct options_command {
	const char *usage; /* arguments, for --help */
	const char *about; /* one sentence, then \v and more */
	const struct argp *children[5];
	const struct argp_option *own;
	argp_parser_t parser;
	void *input;
};

void options_parse(int argc, char **argv, const struct options_command *command, struct options *o);

#endif /* WPROF_TOOL_OPTIONS_H */
