#include <inttypes.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "log.h"
#include "rights.h"

static const struct {
	unsigned int number;
	const char *name;
	const char *missing_for;
} rights[] = {
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE",
	  "profiling other users' processes and reading their contexts" },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN",
	  "profiling processes under a seccomp filter that forbids userfaultfd" },
};

static uint64_t rights_effective(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	uint64_t mask = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %" SCNx64, &mask) == 1)
			break;
	if (f)
		fclose(f);
	return mask;
}

void rights_drop(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		log_warn("no_new_privs cannot be set", "error=\"%m\"");
}

void rights_report(void)
{
	uint64_t have = rights_effective();

	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
		if (!(have >> rights[i].number & 1))
			log_info("capability missing", "name=%s not_possible=\"%s\"",
				 rights[i].name, rights[i].missing_for);
}
