/* wprof-ctl: one RPC of a wprof-agent each command. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "ctl.h"
#include "migrate.h"

#define USUAL_ADDRESS "unix:/run/wprof-agent/agent.sock"

/* Ctrl-C ends a watch, and a migration where it can be ended; another one the program. */
static void *await_signal(void *arg)
{
	const sigset_t *set = arg;
	int number;

	if (!sigwait(set, &number)) {
		migrate_stop();
		call_cancel();
	}
	sigwait(set, &number);
	_Exit(128 + number);
}

/* Before gRPC starts its threads, which inherit the mask. */
static int take_signals(bool ends_well)
{
	static sigset_t set;
	pthread_t thread;

	if (!ends_well)
		return 0;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	return pthread_create(&thread, NULL, await_signal, &set) || pthread_detach(thread);
}

static bool read_file(const char *path, char **text)
{
	FILE *f = fopen(path, "re");
	size_t room = 0;
	bool ok = f && getdelim(text, &room, '\0', f) > 0;

	if (!ok)
		cli_error("%s cannot be read, or is empty: %s", path, strerror(errno));
	if (f)
		fclose(f);
	return ok;
}

static bool read_tls(struct ctl *ctl)
{
	if (!ctl->tls_cert)
		return true;
	return read_file(ctl->tls_cert, &ctl->call.tls_cert) &&
	       read_file(ctl->tls_key, &ctl->call.tls_key) &&
	       read_file(ctl->tls_ca, &ctl->call.tls_ca);
}

int main(int argc, char **argv)
{
	struct ctl ctl = { .call = { .address = USUAL_ADDRESS },
			   .granularity_bytes = 2u << 20,
			   .max_pre_dumps = 8,
			   .min_shrink = 0.1 };
	const struct ctl_command *command = ctl_parse(argc, argv, &ctl);
	int rc = CLI_FAILED;

	if (take_signals(!strcmp(command->name, "watch") || !strcmp(command->name, "migrate")))
		cli_error("signals cannot be taken");
	else if (read_tls(&ctl)) {
		call_open(&ctl.call);
		rc = command->run(&ctl);
		call_close();
	}
	free(ctl.call.tls_cert);
	free(ctl.call.tls_key);
	free(ctl.call.tls_ca);
	if (fflush(stdout) || ferror(stdout)) {
		cli_error("cannot write the output: %s", strerror(errno));
		rc = rc ? rc : CLI_FAILED;
	}
	return rc;
}
