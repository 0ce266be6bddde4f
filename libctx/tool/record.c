#include <string.h>

#include "cli.h"
#include "otlp_json.h"
#include "record.h"
#include "show.h"

json_t *record_text(const char *text)
{
	return text[0] ? otlp_json_text(text, strlen(text)) : json_null();
}

json_t *record_new(const char *procfs, pid_t pid)
{
	char comm[64];

	comm_read(procfs, pid, comm, sizeof(comm));
	return json_pack("{s:i, s:o}", "pid", (int)pid, "command", record_text(comm));
}

bool record_context(json_t *record, const struct pctx_context *context)
{
	uint64_t at_ns = pctx_context_published_at_ns(context);
	json_t *at = json_null();

	if (!pctx_context_detected(context))
		at = json_integer(at_ns > INT64_MAX ? INT64_MAX : (json_int_t)at_ns);
	return json_object_set_new(record, "published_at_ns", at) == 0 &&
	       json_object_set_new(record, "context", otlp_json_context(context)) == 0;
}

int record_print(json_t *record)
{
	int rc = record ? json_dumpf(record, stdout, JSON_COMPACT) : -1;

	json_decref(record);
	if (rc || putchar('\n') == EOF) {
		cli_error("cannot write the output: out of memory, or nobody reads it");
		return CLI_FAILED;
	}
	return CLI_DONE;
}
