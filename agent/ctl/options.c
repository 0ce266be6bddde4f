#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "criu/dump.h"
#include "ctl.h"

enum { OPT_TLS_CERT = 256, OPT_TLS_KEY, OPT_TLS_CA, OPT_TLS_NAME, OPT_JSON };

static const struct argp_option option_list[] = {
	{ "connect", 'l', "ADDRESS", 0, "unix:PATH or HOST:PORT of the agent", 0 },
	{ "timeout", 'w', "SECONDS", 0,
	  "How long to wait for an answer; 10 unless given, 600 for a dump", 0 },
	{ "json", OPT_JSON, NULL, 0, "For programs: docs/formats.md", 0 },
	{ "tls-cert", OPT_TLS_CERT, "FILE", 0, "PEM: our certificate, for TCP", 0 },
	{ "tls-key", OPT_TLS_KEY, "FILE", 0, "PEM: its private key", 0 },
	{ "tls-ca", OPT_TLS_CA, "FILE", 0, "PEM: who signed the agent's certificate", 0 },
	{ "tls-name", OPT_TLS_NAME, "NAME", 0, "The agent's name in it; the HOST unless given", 0 },
	{ NULL, 0, NULL, 0, "start, watch:", 1 },
	{ "interval", 'i', "MS", 0, "Length of an interval; least time between two lines", 1 },
	{ "threshold", 't', "RATIO", 0, "Hot is written above this, 0 to 1", 1 },
	{ "consecutive", 'n', "N", 0, "for so many intervals in a row, 1 to 10", 1 },
	{ "granularity", 'g', "SIZE", 0, "vma, or a power of two, 64K to 1G; 2M unless given", 1 },
	{ "service", 's', "NAME", 0, "The process that published this service name", 1 },
	{ "tree", 'T', NULL, 0, "Its children too", 1 },
	{ "count", 'c', "N", 0, "End after so many lines", 1 },
	{ NULL, 0, NULL, 0, "pre-dump, dump:", 2 },
	{ "parent", 'p', "ID", 0, "The dump before this one", 2 },
	{ "leave-running", 'r', NULL, 0, "The process goes on after the dump", 2 },
	{ NULL, 0, NULL, 0, "migrate, beside those of start and dump:", 3 },
	{ "to", 'o', "[HOST:]DIR", 0, "Send each dump there by rsync", 3 },
	{ "max-pre-dumps", 'm', "N", 0, "At most so many, 0 to 99; 8 unless given", 3 },
	{ "min-shrink", 'k', "RATIO", 0,
	  "Go on while each is smaller by this share, 0 to 1; 0.1 unless given", 3 },
	{ "enough", 'b', "SIZE", 0, "Until the final dump is expected to be no larger", 3 },
	{ "downtime", 'D', "MS", 0, "Until it is expected to be dumped and sent so soon", 3 },
	{ "name", 'N', "NAME", 0, "Of the dumps: NAME-1, NAME-2, NAME-final", 3 },
	{ "resume", 'R', "DIR/NAME", 0, "Go on with an attempt that failed", 3 },
	{ 0 }
};

/** struct parsing - while the options are read */
struct parsing {
	struct ctl *ctl;
	const struct ctl_command *command;
	bool has_argument;
};

static uint64_t number(struct argp_state *state, const char *what, const char *text, uint64_t min,
		       uint64_t max)
{
	uint64_t n = 0;

	if (!cli_number(text, min, max, &n))
		argp_error(state, "%s %s: a number from %llu to %llu", what, text,
			   (unsigned long long)min, (unsigned long long)max);
	return n;
}

/* Of the dumps that are called after it. */
static const char *migration(struct argp_state *state, const char *what, const char *text)
{
	const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;

	if (!dump_id_valid(name) || strlen(name) > DUMP_ID_MAX - strlen("-final"))
		argp_error(state, "%s %s: a name of 1 to %zu letters, digits, _ and -", what, text,
			   DUMP_ID_MAX - strlen("-final"));
	return text;
}

static void granularity(struct argp_state *state, struct ctl *ctl, const char *text)
{
	uint64_t n = 0;

	if (strcmp(text, "vma") && (!cli_bytes(text, 64u << 10, 1u << 30, &n) || (n & (n - 1))))
		argp_error(state, "--granularity %s: vma, or a power of two from 64K to 1G", text);
	ctl->granularity_bytes = n;
}

static void argument(struct argp_state *state, struct parsing *p, char *arg)
{
	const char *wanted = p->command->argument;

	if (!wanted || p->has_argument)
		argp_error(state, "unexpected argument %s", arg);
	p->has_argument = true;
	if (wanted && !strcmp(wanted, "PID") && !cli_pid(arg, &p->ctl->pid))
		argp_error(state, "%s is no process id", arg);
	p->ctl->dump_id = arg;
}

static void finish(struct argp_state *state, const struct parsing *p)
{
	struct ctl *ctl = p->ctl;

	/* CRIU takes as long as the memory is large */
	if (!ctl->call.timeout_ms)
		ctl->call.timeout_ms = strpbrk(p->command->options, "po") ? 600000 : 10000;
	if (p->command->needs_argument && !p->has_argument)
		argp_error(state, "%s is missing", p->command->argument);
	if (ctl->name && ctl->resume)
		argp_error(state, "--name and --resume exclude each other");
	if (ctl->pid && ctl->service)
		argp_error(state, "a PID and --service exclude each other");
	if (!ctl->tls_cert != !ctl->tls_key || !ctl->tls_cert != !ctl->tls_ca)
		argp_error(state, "--tls-cert, --tls-key and --tls-ca go together");
}

static error_t parse_common(int key, char *arg, struct argp_state *state, struct ctl *ctl)
{
	switch (key) {
	case 'l':
		ctl->call.address = arg;
		break;
	case 'w':
		ctl->call.timeout_ms = (uint32_t)number(state, "--timeout", arg, 1, 86400) * 1000;
		break;
	case OPT_JSON:
		ctl->json = true;
		break;
	case OPT_TLS_CERT:
		ctl->tls_cert = arg;
		break;
	case OPT_TLS_KEY:
		ctl->tls_key = arg;
		break;
	case OPT_TLS_CA:
		ctl->tls_ca = arg;
		break;
	case OPT_TLS_NAME:
		ctl->call.tls_name = arg;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse_migrate(int key, char *arg, struct argp_state *state, struct ctl *ctl)
{
	switch (key) {
	case 'o':
		if (!*arg || *arg == '-')
			argp_error(state, "--to %s: no directory", arg);
		ctl->to = arg;
		break;
	case 'm':
		ctl->max_pre_dumps = (uint32_t)number(state, "--max-pre-dumps", arg, 0, 99);
		break;
	case 'k':
		if (!cli_decimal(arg, 0, 1, &ctl->min_shrink))
			argp_error(state, "--min-shrink %s: from 0 to 1", arg);
		break;
	case 'b':
		if (!cli_bytes(arg, 1, UINT64_MAX, &ctl->enough_bytes))
			argp_error(state, "--enough %s: a size", arg);
		break;
	case 'D':
		ctl->downtime_ms = (uint32_t)number(state, "--downtime", arg, 1, 3600000);
		break;
	case 'N':
		if (strchr(arg, '/'))
			argp_error(state, "--name %s: no / in a name", arg);
		ctl->name = migration(state, "--name", arg);
		break;
	case 'R':
		ctl->resume = migration(state, "--resume", arg);
		break;
	default:
		ctl->leave_running = true;
	}
	return 0;
}

static error_t parse_own(int key, char *arg, struct argp_state *state, struct ctl *ctl)
{
	switch (key) {
	case 'i':
		ctl->interval_ms = (uint32_t)number(state, "--interval", arg, 10, 3600000);
		break;
	case 't':
		if (!cli_decimal(arg, 0, 1, &ctl->hot_threshold) || ctl->hot_threshold <= 0 ||
		    ctl->hot_threshold >= 1)
			argp_error(state, "--threshold %s: above 0 and below 1", arg);
		break;
	case 'n':
		ctl->hot_consecutive = (uint32_t)number(state, "--consecutive", arg, 1, 10);
		break;
	case 'g':
		granularity(state, ctl, arg);
		break;
	case 's':
		ctl->service = arg;
		break;
	case 'T':
		ctl->tree = true;
		break;
	case 'c':
		ctl->n_samples = number(state, "--count", arg, 1, UINT64_MAX);
		break;
	case 'p':
		ctl->parent = arg;
		break;
	default:
		return parse_migrate(key, arg, state, ctl);
	}
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct parsing *p = state->input;

	if (key == ARGP_KEY_ARG) {
		argument(state, p, arg);
		return 0;
	}
	if (key == ARGP_KEY_END) {
		finish(state, p);
		return 0;
	}
	if (!parse_common(key, arg, state, p->ctl))
		return 0;
	if (key <= ' ' || key > '~' || !strchr("itngsTcpromkbDNR", key))
		return ARGP_ERR_UNKNOWN;
	if (!strchr(p->command->options, key))
		argp_error(state, "%s has no option -%c", p->command->name, key);
	return parse_own(key, arg, state, p->ctl);
}

static void help(FILE *to)
{
	fputs("Usage: wprof-ctl COMMAND [OPTION...] [ARGUMENT]\n"
	      "Ask a wprof-agent.\n\n",
	      to);
	for (const struct ctl_command *c = ctl_commands(); c->name; c++)
		fprintf(to, "  %-8s %-3s  %s\n", c->name, c->argument ? c->argument : "",
			c->summary);
	fputs("\n`wprof-ctl COMMAND --help' says more. Also: --help, --version.\n", to);
}

static const struct ctl_command *find_command(const char *name)
{
	for (const struct ctl_command *c = ctl_commands(); c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	cli_error("no command '%s'; `wprof-ctl --help' lists them", name);
	exit(CLI_USAGE);
}

const struct ctl_command *ctl_parse(int argc, char **argv, struct ctl *ctl)
{
	static char name[40];
	struct parsing p = { .ctl = ctl };
	struct argp argp = { option_list, parse, NULL, NULL, NULL, NULL, NULL };

	cli_begin();
	argp_err_exit_status = CLI_USAGE;
	argp_program_version = "wprof-ctl " PROCSCOPE_VERSION;
	if (argc < 2) {
		help(stderr);
		exit(CLI_USAGE);
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-?")) {
		help(stdout);
		exit(CLI_DONE);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts(argp_program_version);
		exit(CLI_DONE);
	}
	p.command = find_command(argv[1]);
	snprintf(name, sizeof(name), "wprof-ctl %s", p.command->name);
	argv[1] = name;
	argp.args_doc = p.command->argument;
	argp.doc = p.command->summary;
	argp_parse(&argp, argc - 1, argv + 1, 0, NULL, &p);
	return p.command;
}
