/* commands.c - one function for each RPC: call, then print for people or programs. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent.pb-c.h"
#include "ask.h"
#include "cli.h"
#include "ctl.h"
#include "decode.h"
#include "grpc/health/v1/health.pb-c.h"
#include "live.h"
#include "migrate.h"
#include "otlp_json.h"
#include "show.h"

typedef Criu__Agent__V1__GetDirtyVolumeResponse volume_response;

static json_t *address(uint64_t a)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, a);
	return json_string(text);
}

static void clock_text(int64_t unix_ms, char *out, size_t room)
{
	time_t s = (time_t)(unix_ms / 1000);
	struct tm tm;

	strftime(out, room, "%H:%M:%S", localtime_r(&s, &tm));
}

/* ---- start, stop ------------------------------------------------------------------- */

static int run_start(const struct ctl *ctl)
{
	Criu__Agent__V1__StartProfilingResponse *a;
	struct call_error e;
	int rc = CLI_DONE;

	a = ask_start(ctl, &e);
	if (!a)
		return ask_failed(ctl, &e);
	if (!a->success) {
		cli_error("profiling cannot begin: %s", a->error);
		rc = CLI_FAILED;
	} else if (ctl->json) {
		rc = ask_print_json(json_pack("{s:s, s:i, s:i, s:i}", "format", "wprof-ctl.start",
					      "version", 1, "pid", a->pid, "vma_count",
					      a->vma_count));
	} else {
		printf("profiling process %d: %d VMAs\n", a->pid, a->vma_count);
	}
	protobuf_c_message_free_unpacked(&a->base, NULL);
	return rc;
}

static int run_stop(const struct ctl *ctl)
{
	Criu__Agent__V1__StopProfilingRequest q = CRIU__AGENT__V1__STOP_PROFILING_REQUEST__INIT;
	struct call_error e;
	ProtobufCMessage *a = call_unary(SERVICE "StopProfiling", &q.base,
					 &criu__agent__v1__stop_profiling_response__descriptor, &e);

	if (!a)
		return ask_failed(ctl, &e);
	protobuf_c_message_free_unpacked(a, NULL);
	if (ctl->json)
		return ask_print_json(
			json_pack("{s:s, s:i}", "format", "wprof-ctl.stop", "version", 1));
	puts("nothing is being profiled now");
	return CLI_DONE;
}

/* ---- hot --------------------------------------------------------------------------- */

static int hot_json(const Criu__Agent__V1__GetHotRegionsResponse *a)
{
	json_t *regions = json_array();

	for (size_t i = 0; i < a->n_regions; i++) {
		const Criu__Agent__V1__HotRegionProto *r = a->regions[i];

		json_array_append_new(regions,
				      json_pack("{s:o, s:o, s:f, s:i, s:i}", "start",
						address(r->start_addr), "end", address(r->end_addr),
						"written_ratio", r->written_ratio, "consecutive",
						r->consecutive_hot, "pid", r->pid));
	}
	return ask_print_json(json_pack("{s:s, s:i, s:I, s:i, s:i, s:o}", "format", "wprof-ctl.hot",
					"version", 1, "timestamp_ms", (json_int_t)a->timestamp_ms,
					"total_vmas", a->total_vmas, "hot_vmas", a->hot_vmas,
					"regions", regions));
}

static int hot_text(const Criu__Agent__V1__GetHotRegionsResponse *a)
{
	char size[24];

	printf("%zu hot regions in %d of %d VMAs\n", a->n_regions, a->hot_vmas, a->total_vmas);
	if (a->n_regions)
		printf("%7s  %-16s  %-16s  %10s  %7s  %s\n", "PID", "START", "END", "SIZE",
		       "WRITTEN", "INTERVALS");
	for (size_t i = 0; i < a->n_regions; i++) {
		const Criu__Agent__V1__HotRegionProto *r = a->regions[i];

		printf("%7d  %016" PRIx64 "  %016" PRIx64 "  %10s  %6.1f%%  %d\n", r->pid,
		       r->start_addr, r->end_addr,
		       ask_bytes((double)(r->end_addr - r->start_addr), size, sizeof(size)),
		       100 * r->written_ratio, r->consecutive_hot);
	}
	return CLI_DONE;
}

static int run_hot(const struct ctl *ctl)
{
	Criu__Agent__V1__GetHotRegionsResponse *a;
	struct call_error e;
	int rc;

	a = ask_hot(&e);
	if (!a)
		return ask_failed(ctl, &e);
	rc = ctl->json ? hot_json(a) : hot_text(a);
	protobuf_c_message_free_unpacked(&a->base, NULL);
	return rc;
}

/* ---- volume, watch ------------------------------------------------------------------- */

static json_t *volume_json(const volume_response *v)
{
	return json_pack("{s:I, s:I, s:I, s:f, s:f, s:I, s:f, s:I, s:b, s:I, s:I, s:s}",
			 "timestamp_ms", (json_int_t)v->timestamp_ms, "dirty_pages",
			 (json_int_t)v->dirty_pages, "dirty_bytes", (json_int_t)v->dirty_bytes,
			 "dirty_rate_pages_per_sec", v->dirty_rate_pages_per_sec,
			 "dirty_rate_bytes_per_sec", v->dirty_rate_bytes_per_sec,
			 "cumulative_dirty_bytes", (json_int_t)v->cumulative_dirty_bytes,
			 "avg_dirty_rate_bytes_per_sec", v->avg_dirty_rate, "bytes_since_last_dump",
			 (json_int_t)v->bytes_since_last_dump, "estimated", v->estimated,
			 "skipped_samples", (json_int_t)v->skipped_samples, "populated_bytes",
			 (json_int_t)v->populated_bytes, "hot_mode", v->hot_mode);
}

static json_t *with_header(json_t *document, const char *format)
{
	json_t *header = json_pack("{s:s, s:i}", "format", format, "version", 1);

	if (!header || !document || json_object_update(header, document)) {
		json_decref(header);
		header = NULL;
	}
	json_decref(document);
	return header;
}

static int volume_text(const volume_response *v)
{
	char a[24], b[24], c[24], d[24];

	printf("last interval  %s in %" PRId64 " pages%s, %s/s\n"
	       "since start    %s, %s/s\n",
	       ask_bytes((double)v->dirty_bytes, a, sizeof(a)), v->dirty_pages,
	       v->estimated ? " (estimated)" : "",
	       ask_bytes(v->dirty_rate_bytes_per_sec, b, sizeof(b)),
	       ask_bytes((double)v->cumulative_dirty_bytes, c, sizeof(c)),
	       ask_bytes(v->avg_dirty_rate, d, sizeof(d)));
	return CLI_DONE;
}

static int run_volume(const struct ctl *ctl)
{
	volume_response *a;
	struct call_error e;
	int rc;

	a = ask_volume(&e);
	if (!a)
		return ask_failed(ctl, &e);
	if (ctl->json)
		rc = ask_print_json(with_header(volume_json(a), "wprof-ctl.volume"));
	else
		rc = volume_text(a);
	protobuf_c_message_free_unpacked(&a->base, NULL);
	return rc;
}

/** struct watch - a stream on its way to the terminal */
struct watch {
	const struct ctl *ctl;
	uint64_t n, n_skipped;
	bool is_live;
	int rc;
};

/* On a terminal a table that is drawn in place, for a pipe a line a sample. */
static void watch_live(struct watch *w, const struct live_row *row, const volume_response *v)
{
	char note[64] = "";

	w->n_skipped += (uint64_t)v->skipped_samples;
	if (w->n_skipped)
		snprintf(note, sizeof(note), "%" PRIu64 " samples skipped", w->n_skipped);
	else if (v->estimated)
		snprintf(note, sizeof(note), "estimated");
	if (!live_add(row, note))
		w->rc = CLI_FAILED;
}

static void watch_line(struct watch *w, const struct live_row *row, const volume_response *v)
{
	if (!w->n)
		printf("%-8s  %12s  %10s  %12s\n", "TIME", "RATE", "WRITTEN", "SINCE START");
	printf("%s  %12s  %10s  %12s", row->when, row->rate, row->written, row->total);
	if (v->skipped_samples)
		printf("  (%" PRId64 " samples skipped)", v->skipped_samples);
	putchar('\n');
	if (fflush(stdout))
		w->rc = CLI_FAILED;
}

static void watch_show(struct watch *w, const volume_response *v)
{
	struct live_row row = { .value = v->dirty_rate_bytes_per_sec };
	char rate[24];

	clock_text(v->timestamp_ms, row.when, sizeof(row.when));
	ask_bytes(v->dirty_rate_bytes_per_sec, rate, sizeof(rate));
	snprintf(row.rate, sizeof(row.rate), "%s/s", rate);
	ask_bytes((double)v->dirty_bytes, row.written, sizeof(row.written));
	ask_bytes((double)v->cumulative_dirty_bytes, row.total, sizeof(row.total));
	if (w->is_live)
		watch_live(w, &row, v);
	else
		watch_line(w, &row, v);
}

static bool watch_message(const ProtobufCMessage *message, void *arg)
{
	const volume_response *v = (const void *)message;
	struct watch *w = arg;

	if (w->ctl->json)
		w->rc = ask_print_json(volume_json(v));
	else
		watch_show(w, v);
	w->n++;
	return !w->rc && w->n != w->ctl->n_samples;
}

static int run_watch(const struct ctl *ctl)
{
	Criu__Agent__V1__WatchDirtyVolumeRequest q =
		CRIU__AGENT__V1__WATCH_DIRTY_VOLUME_REQUEST__INIT;
	struct watch w = { .ctl = ctl, .is_live = live_usable() };
	struct call_error e;

	q.interval_ms = (int32_t)ctl->interval_ms;
	if (ctl->json &&
	    ask_print_json(json_pack("{s:s, s:i}", "format", "wprof-ctl.watch", "version", 1)))
		return CLI_FAILED;
	if (call_stream(SERVICE "WatchDirtyVolume", &q.base,
			&criu__agent__v1__get_dirty_volume_response__descriptor, watch_message, &w,
			&e))
		return w.rc;
	if (w.n && e.code == 9) { /* the profiling ended: all there was was shown */
		fprintf(stderr, "%s\n", e.text);
		return CLI_DONE;
	}
	return ask_failed(ctl, &e);
}

/* ---- context ---------------------------------------------------------------------------- */

static struct pctx_context *context_of(const Criu__Agent__V1__GetProcessContextResponse *a)
{
	struct pctx_context *context = NULL;
	size_t len = a->context ? protobuf_c_message_get_packed_size(&a->context->base) : 0;
	uint8_t *payload = malloc(len + 1);

	if (!payload || !a->context)
		goto out;
	protobuf_c_message_pack(&a->context->base, payload);
	if (decode_context(payload, len, &context))
		context = NULL;
out:
	free(payload);
	return context;
}

static int context_print(const struct ctl *ctl, const Criu__Agent__V1__GetProcessContextResponse *a)
{
	struct pctx_context *context = context_of(a);
	char age[16];
	int rc = CLI_DONE;

	if (!context) {
		cli_error("the agent's answer has a context that cannot be read");
		return CLI_FAILED;
	}
	if (ctl->json) {
		rc = ask_print_json(json_pack(
			"{s:s, s:i, s:b, s:I, s:o}", "format", "wprof-ctl.context", "version", 1,
			"fallback", a->fallback, "published_at_ns", (json_int_t)a->published_at_ns,
			"context", otlp_json_context(context)));
	} else {
		if (a->fallback) {
			puts("detected, not published");
		} else {
			show_age(age, sizeof(age), a->published_at_ns);
			printf("published %s ago\n", age);
		}
		show_context(stdout, context);
	}
	pctx_context_free(context);
	return rc;
}

static int run_context(const struct ctl *ctl)
{
	Criu__Agent__V1__GetProcessContextRequest q =
		CRIU__AGENT__V1__GET_PROCESS_CONTEXT_REQUEST__INIT;
	Criu__Agent__V1__GetProcessContextResponse *a;
	struct call_error e;
	int rc;

	q.pid = ctl->pid;
	a = (void *)call_unary(SERVICE "GetProcessContext", &q.base,
			       &criu__agent__v1__get_process_context_response__descriptor, &e);
	if (!a)
		return ask_failed(ctl, &e);
	rc = context_print(ctl, a);
	protobuf_c_message_free_unpacked(&a->base, NULL);
	return rc;
}

/* ---- pre-dump, dump ---------------------------------------------------------------------- */

static int dump_print(const struct ctl *ctl, const Criu__Agent__V1__DumpResponse *a)
{
	char written[24], withheld[24];

	if (!a->success) {
		cli_error("dump %s failed: %s", ctl->dump_id, a->error);
		return CLI_FAILED;
	}
	if (ctl->json)
		return ask_print_json(json_pack(
			"{s:s, s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:s, s:b}",
			"format", "wprof-ctl.dump", "version", 1, "dump_id", a->dump_id,
			"images_dir", a->images_dir, "pages_written", (json_int_t)a->pages_written,
			"pages_skipped_parent", (json_int_t)a->pages_skipped_parent,
			"bytes_written", (json_int_t)a->bytes_written, "bytes_withheld",
			(json_int_t)a->bytes_withheld, "frozen_time_us",
			(json_int_t)a->frozen_time_us, "exclude_ranges", a->exclude_ranges,
			"no_parent_ranges", a->no_parent_ranges, "hot_mode", a->hot_mode,
			"shell_job", a->shell_job));
	printf("%s: %s written, %s withheld, frozen for %" PRId64 " us, to send: %s\n", a->dump_id,
	       ask_bytes((double)a->bytes_written, written, sizeof(written)),
	       ask_bytes((double)a->bytes_withheld, withheld, sizeof(withheld)), a->frozen_time_us,
	       a->images_dir);
	return CLI_DONE;
}

static int dump(const struct ctl *ctl, bool final)
{
	struct ask_dump q = { ctl->dump_id, ctl->parent, final, ctl->leave_running };
	Criu__Agent__V1__DumpResponse *a;
	struct call_error e;
	int rc;

	a = ask_dump(&q, &e);
	if (!a)
		return ask_failed(ctl, &e);
	rc = dump_print(ctl, a);
	protobuf_c_message_free_unpacked(&a->base, NULL);
	return rc;
}

static int run_pre_dump(const struct ctl *ctl)
{
	return dump(ctl, false);
}

static int run_dump(const struct ctl *ctl)
{
	return dump(ctl, true);
}

/* ---- health -------------------------------------------------------------------------------- */

static int run_health(const struct ctl *ctl)
{
	Grpc__Health__V1__HealthCheckRequest q = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	Grpc__Health__V1__HealthCheckResponse *a;
	struct call_error e;
	bool serving;

	a = (void *)call_unary("/grpc.health.v1.Health/Check", &q.base,
			       &grpc__health__v1__health_check_response__descriptor, &e);
	if (!a)
		return ask_failed(ctl, &e);
	serving = a->status == GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
	protobuf_c_message_free_unpacked(&a->base, NULL);
	if (ctl->json && ask_print_json(json_pack("{s:s, s:i, s:b}", "format", "wprof-ctl.health",
						  "version", 1, "serving", serving)))
		return CLI_FAILED;
	if (!ctl->json)
		puts(serving ? "serving" : "not serving");
	return serving ? CLI_DONE : CLI_UNAVAILABLE;
}

const struct ctl_command *ctl_commands(void)
{
	static const struct ctl_command commands[] = {
		{ "start", run_start, "PID", false, "itngsT", "begin to profile a process" },
		{ "stop", run_stop, NULL, false, "", "end the profiling" },
		{ "hot", run_hot, NULL, false, "", "the hot regions" },
		{ "volume", run_volume, NULL, false, "", "how much is written" },
		{ "watch", run_watch, NULL, false, "ic", "the same, as a live table" },
		{ "context", run_context, "PID", false, "", "who a process says it is" },
		{ "pre-dump", run_pre_dump, "ID", true, "p", "a pre-dump by CRIU" },
		{ "dump", run_dump, "ID", true, "pr", "the final dump" },
		{ "migrate", run_migrate, "PID", false, "itngsTromkbDNR",
		  "pre-dumps, the final dump, each sent" },
		{ "health", run_health, NULL, false, "", "is the agent serving?" },
		{ NULL, NULL, NULL, false, NULL, NULL },
	};

	return commands;
}
