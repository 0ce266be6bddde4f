/* How a workload names itself: its process context. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "pctx.h"
#include "workload.h"

/* A random id for service.instance.id; the kernel makes a proper version 4 UUID. */
static void instance_id(char id[37])
{
	FILE *f = fopen("/proc/sys/kernel/random/uuid", "re");

	if (!f || fread(id, 1, 36, f) != 36)
		snprintf(id, 37, "pid-%d", (int)getpid());
	else
		id[36] = '\0';
	if (f)
		fclose(f);
}

void workload_publish(const struct workload *w)
{
	char id[37];
	int err;

	instance_id(id);
	const struct pctx_attr resource[] = {
		pctx_string("service.name", w->service),
		pctx_string("service.version", PROCSCOPE_VERSION),
		pctx_string("service.instance.id", id),
		pctx_int("process.pid", getpid()),
	};
	const struct pctx_publish_opts opts = {
		.size = sizeof(opts),
		.resource = resource,
		.n_resource = sizeof(resource) / sizeof(*resource),
	};

	err = pctx_publish(&opts);
	/* -EEXIST: `pctx run` has published for us, and that name is meant */
	if (err && err != -EEXIST) {
		cli_error("cannot publish the process context: %s", strerror(-err));
		exit(CLI_FAILED);
	}
}
