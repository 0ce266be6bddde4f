#include <argp.h>
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "options.h"

enum {
	OPT_ALLOW_UID = 256,
	OPT_TLS_CERT,
	OPT_TLS_KEY,
	OPT_TLS_CA,
	OPT_INSECURE,
	OPT_METRICS,
	OPT_TARGET_PID,
	OPT_TARGET_COMM,
	OPT_IMAGES_DIR,
	OPT_CRIU,
	OPT_HOT_MODE,
	OPT_LOG_LEVEL,
	OPT_STOP_TIMEOUT,
};

static const struct argp_option option_list[] = {
	{ "listen", 'l', "ADDRESS", 0,
	  "unix:PATH or HOST:PORT, up to 8 times; " LISTEN_USUAL " unless given", 0 },
	{ "allow-uid", OPT_ALLOW_UID, "UID", 0,
	  "Serve this user too on unix sockets, beside root and the agent's own", 0 },
	{ "tls-cert", OPT_TLS_CERT, "FILE", 0, "PEM: the agent's certificate, for TCP", 0 },
	{ "tls-key", OPT_TLS_KEY, "FILE", 0, "PEM: its private key", 0 },
	{ "tls-ca", OPT_TLS_CA, "FILE", 0, "PEM: who signs clients' certificates", 0 },
	{ "insecure", OPT_INSECURE, NULL, 0, "TCP in the clear, on loopback addresses only", 0 },
	{ "metrics", OPT_METRICS, "ADDRESS", 0,
	  "Serve OpenMetrics on unix:PATH or a loopback HOST:PORT", 0 },
	{ "target-pid", OPT_TARGET_PID, "PID", 0, "What to profile when a request names nothing",
	  0 },
	{ "target-comm", OPT_TARGET_COMM, "NAME", 0, "The same, by the name of its command", 0 },
	{ "images-dir", OPT_IMAGES_DIR, "DIR", 0, "Where dumps are made; without it none are taken",
	  0 },
	{ "criu", OPT_CRIU, "PROGRAM", 0, "criu unless given", 0 },
	{ "hot-mode", OPT_HOT_MODE, "MODE", 0,
	  "What becomes of hot memory: auto (usual), native, withhold or off", 0 },
	{ "log-level", OPT_LOG_LEVEL, "LEVEL", 0, "debug, info (usual), warn or error", 0 },
	{ "stop-timeout", OPT_STOP_TIMEOUT, "MS", 0,
	  "Be gone so long after a SIGTERM at the latest, 400 to 60000; 900 unless given", 0 },
	{ 0 }
};

bool options_is_unix(const char *address)
{
	return strncmp(address, "unix:", 5) == 0;
}

/* Of a numeric address: may it be reached from elsewhere? */
static bool is_loopback(const char *address)
{
	const char *colon = strrchr(address, ':');
	char host[64] = "";
	struct in_addr v4;

	if (!colon || (size_t)(colon - address) >= sizeof(host))
		return false;
	memcpy(host, address, (size_t)(colon - address));
	if (!strcmp(host, "localhost") || !strcmp(host, "[::1]"))
		return true;
	return inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

static bool is_host_port(const char *address)
{
	const char *colon = strrchr(address, ':');
	uint64_t port;

	return colon && colon != address && cli_number(colon + 1, 1, 65535, &port);
}

static void check_listen(struct argp_state *state, const struct options *o)
{
	for (size_t i = 0; i < o->n_listen; i++) {
		const char *address = o->listen[i];

		if (options_is_unix(address))
			continue;
		if (!is_host_port(address))
			argp_error(state, "%s is neither unix:PATH nor HOST:PORT", address);
		if (o->tls_cert)
			continue;
		if (!o->insecure)
			argp_error(state, "%s needs --tls-cert, --tls-key and --tls-ca", address);
		if (!is_loopback(address))
			argp_error(state, "%s is no loopback address: --insecure is for those only",
				   address);
	}
}

static void check_all(struct argp_state *state, struct options *o)
{
	bool all = o->tls_cert && o->tls_key && o->tls_ca;

	if ((o->tls_cert || o->tls_key || o->tls_ca) && !all)
		argp_error(state, "--tls-cert, --tls-key and --tls-ca go together");
	if (all && o->insecure)
		argp_error(state, "--insecure and --tls-cert exclude each other");
	if (o->target_pid && o->target_comm)
		argp_error(state, "--target-pid and --target-comm exclude each other");
	check_listen(state, o);
}

static void add_listen(struct argp_state *state, struct options *o, const char *address)
{
	if (o->n_listen == LISTEN_MAX)
		argp_error(state, "at most %d addresses", LISTEN_MAX);
	o->listen[o->n_listen++] = address;
}

static void add_uid(struct argp_state *state, struct options *o, const char *text)
{
	uint64_t uid = 0;

	if (o->n_uids == UIDS_MAX || !cli_number(text, 0, UINT32_MAX - 1, &uid))
		argp_error(state, "--allow-uid %s: a user's number, at most %d times", text,
			   UIDS_MAX);
	o->uids[o->n_uids++] = (uid_t)uid;
}

static void set_level(struct argp_state *state, struct options *o, const char *text)
{
	static const char *const names[] = { "debug", "info", "warn", "error" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) == 0) {
			o->log_level = (enum log_level)i;
			return;
		}
	}
	argp_error(state, "--log-level %s: debug, info, warn or error", text);
}

static void set_target(struct argp_state *state, struct options *o, int key, const char *text)
{
	if (key == OPT_TARGET_PID && !cli_pid(text, &o->target_pid))
		argp_error(state, "--target-pid %s is no process id", text);
	if (key == OPT_TARGET_COMM && !*text)
		argp_error(state, "--target-comm: a name");
	if (key == OPT_TARGET_COMM)
		o->target_comm = text;
}

/* Where an option goes that is taken as it is; NULL: it is another. */
static const char **text_of(struct options *o, int key)
{
	switch (key) {
	case OPT_TLS_CERT:
		return &o->tls_cert;
	case OPT_TLS_KEY:
		return &o->tls_key;
	case OPT_TLS_CA:
		return &o->tls_ca;
	case OPT_METRICS:
		return &o->metrics;
	case OPT_IMAGES_DIR:
		return &o->images_dir;
	case OPT_CRIU:
		return &o->criu;
	default:
		return NULL;
	}
}

/* Those that are looked into. */
static error_t parse_value(int key, const char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'l':
		add_listen(state, o, arg);
		break;
	case OPT_ALLOW_UID:
		add_uid(state, o, arg);
		break;
	case OPT_TARGET_PID:
	case OPT_TARGET_COMM:
		set_target(state, o, key, arg);
		break;
	case OPT_HOT_MODE:
		if (!dump_mode_of(arg, &o->hot_mode))
			argp_error(state, "--hot-mode %s: auto, native, withhold or off", arg);
		break;
	case OPT_LOG_LEVEL:
		set_level(state, o, arg);
		break;
	case OPT_STOP_TIMEOUT:
		if (!cli_number(arg, 400, 60000, &o->stop_ms))
			argp_error(state, "--stop-timeout %s: 400 to 60000", arg);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	const char **text = text_of(o, key);

	if (text) {
		*text = arg;
		return 0;
	}
	switch (key) {
	case OPT_INSECURE:
		o->insecure = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument %s", arg);
		return 0;
	case ARGP_KEY_END:
		check_all(state, o);
		return 0;
	default:
		return parse_value(key, arg, state);
	}
}

void options_parse(int argc, char **argv, struct options *o)
{
	static const struct argp argp = {
		option_list,
		parse,
		NULL,
		"Profile where a process writes, beside CRIU, for clients that speak gRPC.",
		NULL,
		NULL,
		NULL
	};

	memset(o, 0, sizeof(*o));
	o->log_level = LOG_LEVEL_INFO;
	o->stop_ms = 900;
	cli_begin();
	o->criu = "criu";
	o->hot_mode = DUMP_AUTO;
	argp_err_exit_status = CLI_USAGE;
	argp_program_version = "wprof-agent " PROCSCOPE_VERSION;
	argp_parse(&argp, argc, argv, 0, NULL, o);
}
