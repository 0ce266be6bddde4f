/* ask.c - the RPCs that more than one command makes. */
#include <inttypes.h>
#include <stdio.h>

#include "ask.h"
#include "cli.h"

int ask_why(const struct ctl *ctl, const struct call_error *e, char *text, size_t room)
{
	switch (e->code) {
	case 14:
		snprintf(text, room,
			 "no agent answers at %s: %s; is wprof-agent running, and may you use it?",
			 ctl->call.address, e->text);
		return CLI_FAILED;
	case 3:
		snprintf(text, room, "the agent refused the request: %s", e->text);
		return CLI_USAGE;
	case 9: /* nothing is profiled */
	case 12:
		snprintf(text, room, "%s", e->text);
		return CLI_UNAVAILABLE;
	default:
		snprintf(text, room, "%s (%s)", e->text, call_code_name(e->code));
		return CLI_FAILED;
	}
}

int ask_failed(const struct ctl *ctl, const struct call_error *e)
{
	char text[700];
	int rc = ask_why(ctl, e, text, sizeof(text));

	cli_error("%s", text);
	return rc;
}

int ask_print_json(json_t *document)
{
	int rc = document ? json_dumpf(document, stdout, JSON_COMPACT) : -1;

	json_decref(document);
	if (rc) {
		cli_error("out of memory, or the output cannot be written");
		return CLI_FAILED;
	}
	putchar('\n');
	fflush(stdout);
	return CLI_DONE;
}

const char *ask_bytes(double n, char *out, size_t room)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t u = 0;

	for (; n >= 1024 && u < 4; u++)
		n /= 1024;
	snprintf(out, room, u ? "%.1f %s" : "%.0f %s", n, units[u]);
	return out;
}

/* ---- RPCs ---------------------------------------------------------------------- */

ask_start_response *ask_start(const struct ctl *ctl, struct call_error *e)
{
	Criu__Agent__V1__StartProfilingRequest q = CRIU__AGENT__V1__START_PROFILING_REQUEST__INIT;

	q.interval_ms = (int32_t)ctl->interval_ms;
	q.hot_threshold = ctl->hot_threshold;
	q.hot_consecutive = (int32_t)ctl->hot_consecutive;
	q.granularity_bytes = ctl->granularity_bytes;
	q.pid = ctl->pid;
	if (ctl->service)
		q.service_name = (char *)ctl->service;
	q.tree = ctl->tree;
	return (void *)call_unary(SERVICE "StartProfiling", &q.base,
				  &criu__agent__v1__start_profiling_response__descriptor, e);
}

ask_volume_response *ask_volume(struct call_error *e)
{
	Criu__Agent__V1__GetDirtyVolumeRequest q = CRIU__AGENT__V1__GET_DIRTY_VOLUME_REQUEST__INIT;

	return (void *)call_unary(SERVICE "GetDirtyVolume", &q.base,
				  &criu__agent__v1__get_dirty_volume_response__descriptor, e);
}

ask_hot_response *ask_hot(struct call_error *e)
{
	Criu__Agent__V1__GetHotRegionsRequest q = CRIU__AGENT__V1__GET_HOT_REGIONS_REQUEST__INIT;

	return (void *)call_unary(SERVICE "GetHotRegions", &q.base,
				  &criu__agent__v1__get_hot_regions_response__descriptor, e);
}

static ask_dump_response *ask_pre_dump(const struct ask_dump *dump, struct call_error *e)
{
	Criu__Agent__V1__PreCheckpointRequest q = CRIU__AGENT__V1__PRE_CHECKPOINT_REQUEST__INIT;

	q.dump_id = (char *)dump->id;
	if (dump->parent)
		q.parent_dump_id = (char *)dump->parent;
	return (void *)call_unary(SERVICE "PreCheckpoint", &q.base,
				  &criu__agent__v1__dump_response__descriptor, e);
}

static ask_dump_response *ask_final_dump(const struct ask_dump *dump, struct call_error *e)
{
	Criu__Agent__V1__FinalDumpRequest q = CRIU__AGENT__V1__FINAL_DUMP_REQUEST__INIT;

	q.dump_id = (char *)dump->id;
	if (dump->parent)
		q.parent_dump_id = (char *)dump->parent;
	q.leave_running = dump->leave_running;
	return (void *)call_unary(SERVICE "FinalDump", &q.base,
				  &criu__agent__v1__dump_response__descriptor, e);
}

ask_dump_response *ask_dump(const struct ask_dump *dump, struct call_error *e)
{
	return dump->final ? ask_final_dump(dump, e) : ask_pre_dump(dump, e);
}
