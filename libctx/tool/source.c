#include <string.h>

#include "cli.h"
#include "source.h"

enum {
	KEY_PROCFS = 0x100,
	KEY_MAPPINGS_MAX,
	KEY_VERSION_1,
};

static const struct argp_option options[] = {
	{ "procfs", KEY_PROCFS, "DIR", 0, "a /proc mounted elsewhere, such as a host's", 10 },
	{ "mappings-max", KEY_MAPPINGS_MAX, "N", 0, "look at no more than N mappings of a process",
	  10 },
	{ "version-1", KEY_VERSION_1, NULL, 0, "accept contexts of development version 1 too", 10 },
	{ 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct pctx_reader_opts *opts = state->input;

	switch (key) {
	case KEY_PROCFS:
		opts->procfs = arg;
		return 0;
	case KEY_MAPPINGS_MAX:
		if (!cli_number(arg, 1, UINT64_MAX, &opts->mappings_max))
			argp_error(state, "--mappings-max '%s' is not a number from 1", arg);
		return 0;
	case KEY_VERSION_1:
		opts->accept_version_1 = 1;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp source_argp = { .options = options, .parser = parse };

void source_init(struct pctx_reader_opts *opts)
{
	memset(opts, 0, sizeof(*opts));
	opts->size = sizeof(*opts);
}
