/* The options that all workloads have. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "options.h"

enum {
	KEY_RATE = 256,
	KEY_LIMIT,
	KEY_SEED,
	KEY_FORK,
	KEY_THP,
	KEY_STRIDE,
	KEY_PERIOD,
	KEY_SERVICE,
	KEY_HOLD
};

static const struct argp_option options[] = {
	{ "size", 's', "BYTES", 0, "memory to write, e.g. 64M", 0 },
	{ "rate", KEY_RATE, "BYTES", 0, "write at most so much a second (default: no limit)", 0 },
	{ "limit", KEY_LIMIT, "BYTES", 0, "end after writing so much", 0 },
	{ "duration", 'd', "SECONDS", 0, "end after so long (default: until a signal)", 0 },
	{ "threads", 't', "N", 0, "threads that write, each a part of the memory", 0 },
	{ "fork", KEY_FORK, "N", 0, "children that run the same beside", 0 },
	{ "pattern", 'p', "NAME", 0, "memwrite: sequential, uniform, zipf, stride or phases", 0 },
	{ "stride", KEY_STRIDE, "PAGES", 0, "memwrite: step of the stride pattern (default 16)",
	  0 },
	{ "period", KEY_PERIOD, "MS", 0, "memory-alloc: time between two allocations", 0 },
	{ "seed", KEY_SEED, "N", 0, "start of the random numbers", 0 },
	{ "thp", KEY_THP, "WHEN", 0, "huge pages: always, never or system", 0 },
	{ "hold", KEY_HOLD, NULL, 0, "begin on SIGUSR1, and after the limit stay until a signal",
	  0 },
	{ "service", KEY_SERVICE, "NAME", 0, "service.name to publish", 0 },
	{ 0 },
};

static bool parse_thp(const char *arg, int *out)
{
	static const char *const names[] = { "system", "never", "always" };

	for (int i = 0; i < 3; i++) {
		if (!strcmp(arg, names[i])) {
			*out = i - 1;
			return true;
		}
	}
	return false;
}

static bool count(const char *arg, uint64_t max, unsigned int *out)
{
	uint64_t n;

	if (!cli_number(arg, 0, max, &n))
		return false;
	*out = (unsigned int)n;
	return true;
}

/* Store the value of one option; false: it is not a good one. */
static bool store(struct workload *w, int key, const char *arg)
{
	switch (key) {
	case 's':
		return cli_bytes(arg, 4096, 1ull << 40, &w->size_bytes);
	case KEY_RATE:
		return cli_bytes(arg, 1, 1ull << 50, &w->rate_bytes);
	case KEY_LIMIT:
		return cli_bytes(arg, 1, 1ull << 60, &w->limit_bytes);
	case 'd':
		return cli_decimal(arg, 0.001, 1e7, &w->duration_s);
	case 't':
		return count(arg, 1024, &w->threads) && w->threads > 0;
	case KEY_FORK:
		return count(arg, 256, &w->forks);
	case 'p':
		return pattern_kind_of(arg, &w->pattern);
	case KEY_STRIDE:
		return cli_number(arg, 1, 1ull << 30, &w->stride_pages);
	case KEY_PERIOD:
		return cli_number(arg, 1, 3600000, &w->period_ms);
	case KEY_SEED:
		return cli_number(arg, 0, UINT64_MAX, &w->seed);
	case KEY_THP:
		return parse_thp(arg, &w->thp);
	case KEY_SERVICE:
		w->service = arg;
		return *arg != '\0';
	}
	return false;
}

/* What the program would not heed is no option of it. */
static bool is_heeded(const struct workload *w, int key)
{
	if (key == 'p' || key == KEY_STRIDE)
		return w->has_pattern;
	return key != KEY_PERIOD || w->period_ms;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	if (key == ARGP_KEY_ARG)
		argp_error(state, "takes no arguments: '%s'", arg);
	if (key == KEY_HOLD) {
		((struct workload *)state->input)->hold = true;
		return 0;
	}
	if (!arg || key == ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	if (!is_heeded(state->input, key))
		argp_error(state, "another workload has that option: see --help");
	if (!store(state->input, key, arg))
		argp_error(state, "bad value '%s'", arg);
	return 0;
}

void options_parse(struct workload *w, int argc, char **argv)
{
	const struct argp argp = { .options = options, .parser = parse, .doc = w->doc };

	cli_begin();
	argp_err_exit_status = CLI_USAGE;
	/* defined here it would be hidden from the C library */
	argp_program_version = "procscope " PROCSCOPE_VERSION;
	argp_parse(&argp, argc, argv, 0, NULL, w);
}
