/*
 * publisher: publishes what it is told on standard input, a line a step:
 * "publish NAME", "withdraw", "fork" (a child does the rest). Answers each with a
 * line. For tests written in sh.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pctx.h"

static int publish(const char *name)
{
	struct pctx_attr attrs[] = { pctx_string("service.name", name) };
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .resource = attrs,
					  .n_resource = 1 };

	return pctx_publish(&opts);
}

int main(void)
{
	char line[256];

	setvbuf(stdin, NULL, _IONBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		int rc = -1;

		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "publish ", 8) == 0)
			rc = publish(line + 8);
		else if (strcmp(line, "withdraw") == 0)
			rc = pctx_unpublish();
		else if (strcmp(line, "fork") == 0 && fork() == 0)
			rc = 0;
		else
			pause();
		printf("%d %d\n", (int)getpid(), rc);
		fflush(stdout);
	}
	return 0;
}
