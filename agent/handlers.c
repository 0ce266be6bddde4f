/* handlers.c - check a request, have it done, answer. Nothing here may block. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bounded.h"
#include "grpc/health/v1/health.pb-c.h"
#include "dumper.h"
#include "handlers.h"
#include "log.h"
#include "message.h"
#include "status.h"

#define INTERVAL_MIN_MS	    10
#define INTERVAL_MAX_MS	    3600000
#define CONSECUTIVE_MAX	    10
#define GRANULARITY_MIN	    (64u << 10)
#define GRANULARITY_MAX	    (1u << 30)
#define DEFAULT_INTERVAL_MS 1000
#define DEFAULT_THRESHOLD   0.3
#define DEFAULT_CONSECUTIVE 3

typedef Criu__Agent__V1__StartProfilingRequest start_request;
typedef Criu__Agent__V1__GetDirtyVolumeResponse volume_response;

/* Unpack, or answer that it cannot be. */
static void *unpack(struct rpc *rpc, const ProtobufCMessageDescriptor *type, const uint8_t *data,
		    size_t len)
{
	const char *why = NULL;
	ProtobufCMessage *message = message_unpack(type, data, len, &why);

	if (!message)
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, why);
	return message;
}

static void post(struct job *job)
{
	int rc = jobs_post(job);

	if (!rc)
		return;
	rpc_fail(job->rpc, status_code(rc), "too many requests are waiting; try again");
	free(job);
}

/* ---- StartProfiling, StopProfiling --------------------------------------------- */

/* Return: NULL, or what is wrong, by the field's name. */
static const char *start_check(const start_request *q)
{
	uint64_t g = q->granularity_bytes;

	if (q->interval_ms &&
	    (q->interval_ms < INTERVAL_MIN_MS || q->interval_ms > INTERVAL_MAX_MS))
		return "interval_ms: 10 to 3600000, or 0 for 1000";
	/* NaN is neither 0 nor in between */
	if (q->hot_threshold != 0 && !(q->hot_threshold > 0 && q->hot_threshold < 1))
		return "hot_threshold: above 0 and below 1, or 0 for 0.3";
	if (q->hot_consecutive < 0 || q->hot_consecutive > CONSECUTIVE_MAX)
		return "hot_consecutive: 1 to 10, or 0 for 3";
	if (q->pid < 0)
		return "pid: not a process";
	if (strlen(q->service_name) > TARGET_NAME_MAX)
		return "service_name: longer than 1024 bytes";
	if (q->pid && q->service_name[0])
		return "service_name: name the target by pid or by service_name, not by both";
	if (g && (g < GRANULARITY_MIN || g > GRANULARITY_MAX || (g & (g - 1))))
		return "granularity_bytes: a power of two from 65536 to 1073741824, or 0 for VMAs";
	return NULL;
}

static void start_fail(struct rpc *rpc, const char *error)
{
	Criu__Agent__V1__StartProfilingResponse out =
		CRIU__AGENT__V1__START_PROFILING_RESPONSE__INIT;
	struct log_text text;

	log_warn("profiling not begun", "why=%s", log_quote(error, &text));
	out.error = (char *)error;
	rpc_reply(rpc, &out.base);
}

/* Finding the target may block: a job. Then it is the profiler's. */
static void start_run(struct job *job)
{
	struct order *order = (struct order *)job;
	char why[300];

	if (!target_find(&order->query, &order->pid, why, sizeof(why))) {
		profiler_order(order);
		return;
	}
	start_fail(job->rpc, why);
	free(order);
}

static struct order *order_new(struct rpc *rpc, enum order_kind kind)
{
	struct order *order = calloc(1, sizeof(*order));

	if (!order) {
		status_fail(rpc, -ENOMEM, "the request");
		return NULL;
	}
	order->job.rpc = rpc;
	order->job.run = start_run;
	order->kind = kind;
	return order;
}

static void start_order(struct rpc *rpc, const start_request *q)
{
	struct order *order = order_new(rpc, ORDER_START);

	if (!order)
		return;
	order->rule = (struct rule){
		.interval_ms = q->interval_ms ? (uint32_t)q->interval_ms : DEFAULT_INTERVAL_MS,
		.hot_threshold = q->hot_threshold > 0 ? q->hot_threshold : DEFAULT_THRESHOLD,
		.hot_consecutive =
			q->hot_consecutive ? (uint32_t)q->hot_consecutive : DEFAULT_CONSECUTIVE,
		.granularity_bytes = q->granularity_bytes,
		.tree = q->tree,
	};
	order->query.pid = q->pid;
	memcpy(order->query.service_name, q->service_name, strlen(q->service_name) + 1);
	post(&order->job);
}

static void serve_start(struct rpc *rpc, const uint8_t *data, size_t len)
{
	start_request *q =
		unpack(rpc, &criu__agent__v1__start_profiling_request__descriptor, data, len);
	const char *wrong;

	if (!q)
		return;
	wrong = start_check(q);
	if (wrong)
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, wrong);
	else
		start_order(rpc, q);
	criu__agent__v1__start_profiling_request__free_unpacked(q, NULL);
}

static void serve_stop(struct rpc *rpc, const uint8_t *data, size_t len)
{
	void *q = unpack(rpc, &criu__agent__v1__stop_profiling_request__descriptor, data, len);
	struct order *order;

	if (!q)
		return;
	protobuf_c_message_free_unpacked(q, NULL);
	order = order_new(rpc, ORDER_STOP);
	if (order)
		profiler_order(order);
}

static void order_done(const struct order *order, pid_t pid, uint32_t n_vmas, const char *error)
{
	Criu__Agent__V1__StartProfilingResponse started =
		CRIU__AGENT__V1__START_PROFILING_RESPONSE__INIT;
	Criu__Agent__V1__StopProfilingResponse stopped =
		CRIU__AGENT__V1__STOP_PROFILING_RESPONSE__INIT;

	if (order->kind == ORDER_STOP) {
		stopped.success = error == NULL;
		rpc_reply(order->job.rpc, &stopped.base);
	} else if (error) {
		start_fail(order->job.rpc, error);
	} else {
		started.success = true;
		started.pid = pid;
		started.vma_count = (int32_t)n_vmas;
		rpc_reply(order->job.rpc, &started.base);
	}
}

/* ---- reads ----------------------------------------------------------------------- */

/* Lock the snapshot of a profiling; when there is none, answer that. */
static const struct snapshot *lock_active(struct rpc *rpc)
{
	const struct snapshot *s = profiler_lock();

	if (s->active)
		return s;
	rpc_fail(rpc, RPC_FAILED_PRECONDITION, s->idle);
	profiler_unlock();
	return NULL;
}

static void hot_reply(struct rpc *rpc, const struct snapshot *s)
{
	Criu__Agent__V1__GetHotRegionsResponse out =
		CRIU__AGENT__V1__GET_HOT_REGIONS_RESPONSE__INIT;
	Criu__Agent__V1__HotRegionProto *regions = calloc(s->n_hot + 1, sizeof(*regions));
	Criu__Agent__V1__HotRegionProto **list = calloc(s->n_hot + 1, sizeof(*list));

	for (size_t i = 0; regions && list && i < s->n_hot; i++) {
		criu__agent__v1__hot_region_proto__init(&regions[i]);
		regions[i].start_addr = s->hot[i].start;
		regions[i].end_addr = s->hot[i].end;
		regions[i].written_ratio = s->hot[i].written_ratio;
		regions[i].consecutive_hot = (int32_t)s->hot[i].consecutive;
		regions[i].pid = s->hot[i].pid;
		list[i] = &regions[i];
	}
	out.n_regions = s->n_hot;
	out.regions = list;
	out.timestamp_ms = s->volume.at_unix_ms;
	out.total_vmas = (int32_t)s->n_vmas;
	out.hot_vmas = (int32_t)s->n_hot_vmas;
	if (regions && list)
		rpc_reply(rpc, &out.base);
	else
		status_fail(rpc, -ENOMEM, "the hot regions");
	free(list);
	free(regions);
}

static void serve_hot(struct rpc *rpc, const uint8_t *data, size_t len)
{
	void *q = unpack(rpc, &criu__agent__v1__get_hot_regions_request__descriptor, data, len);
	const struct snapshot *s;

	if (!q)
		return;
	protobuf_c_message_free_unpacked(q, NULL);
	s = lock_active(rpc);
	if (!s)
		return;
	hot_reply(rpc, s);
	profiler_unlock();
}

static void volume_message(const struct volume *v, volume_response *out)
{
	criu__agent__v1__get_dirty_volume_response__init(out);
	out->dirty_pages = (int64_t)v->dirty_pages;
	out->dirty_bytes = (int64_t)v->dirty_bytes;
	out->dirty_rate_pages_per_sec = v->pages_per_s;
	out->dirty_rate_bytes_per_sec = v->bytes_per_s;
	out->cumulative_dirty_bytes = (int64_t)v->total_bytes;
	out->avg_dirty_rate = v->total_s > 0 ? (double)v->total_bytes / v->total_s : 0;
	out->bytes_since_last_dump = (int64_t)v->since_dump_bytes;
	out->populated_bytes = (int64_t)v->populated_bytes;
	out->hot_mode = (char *)dumper_mode();
	out->timestamp_ms = v->at_unix_ms;
	out->estimated = v->estimated;
}

static void serve_volume(struct rpc *rpc, const uint8_t *data, size_t len)
{
	void *q = unpack(rpc, &criu__agent__v1__get_dirty_volume_request__descriptor, data, len);
	const struct snapshot *s;
	volume_response out;

	if (!q)
		return;
	protobuf_c_message_free_unpacked(q, NULL);
	s = lock_active(rpc);
	if (!s)
		return;
	volume_message(&s->volume, &out);
	profiler_unlock();
	rpc_reply(rpc, &out.base);
}

static void watch_fill(struct rpc *rpc, uint64_t n_skipped, void *arg)
{
	volume_response out;

	volume_message(arg, &out);
	out.skipped_samples = (int64_t)n_skipped;
	rpc_stream_send(rpc, &out.base);
}

static void serve_watch(struct rpc *rpc, const uint8_t *data, size_t len)
{
	Criu__Agent__V1__WatchDirtyVolumeRequest *q =
		unpack(rpc, &criu__agent__v1__watch_dirty_volume_request__descriptor, data, len);
	const struct snapshot *s;
	int32_t ms;

	if (!q)
		return;
	ms = q->interval_ms;
	criu__agent__v1__watch_dirty_volume_request__free_unpacked(q, NULL);
	if (ms && (ms < INTERVAL_MIN_MS || ms > INTERVAL_MAX_MS)) {
		rpc_fail(rpc, RPC_INVALID_ARGUMENT,
			 "interval_ms: 10 to 3600000, or 0 for every sample");
		return;
	}
	s = lock_active(rpc);
	if (!s)
		return;
	rpc_stream_begin(rpc, (uint32_t)ms, watch_fill, (void *)&s->volume);
	profiler_unlock();
}

static void on_sample(const struct volume *volume, uint32_t interval_ms)
{
	rpc_stream_each(interval_ms / 2, watch_fill, (void *)volume);
}

static void on_end(const char *why)
{
	rpc_stream_end(RPC_FAILED_PRECONDITION, why);
}

/* ---- GetProcessContext -------------------------------------------------------------- */

/** struct context_job - a context to be read */
struct context_job {
	struct job job;
	struct target_query query;
};

static void context_reply(struct rpc *rpc, const struct pctx_context *context)
{
	Criu__Agent__V1__GetProcessContextResponse out =
		CRIU__AGENT__V1__GET_PROCESS_CONTEXT_RESPONSE__INIT;

	out.context = message_context(context);
	if (!out.context) {
		status_fail(rpc, -ENOMEM, "the process context");
		return;
	}
	out.published_at_ns = pctx_context_published_at_ns(context);
	out.fallback = pctx_context_detected(context);
	rpc_reply(rpc, &out.base);
	opentelemetry__proto__processcontext__v1development__process_context__free_unpacked(
		out.context, NULL);
}

static void context_run(struct job *job)
{
	struct pctx_reader_opts opts = { .size = sizeof(opts) };
	struct context_job *c = (struct context_job *)job;
	struct pctx_context *context = NULL;
	char why[300];
	pid_t pid;
	int rc = target_find(&c->query, &pid, why, sizeof(why));

	if (rc) {
		rpc_fail(job->rpc, status_code(rc), why);
		free(c);
		return;
	}
	rc = bounded_read(pid, &opts, &context);
	/* nothing that can be used: the fallback the OTEP asks for */
	if (rc == -ENODATA || rc == -EBADMSG || rc == -EPROTONOSUPPORT || rc == -EAGAIN ||
	    rc == -ETIMEDOUT)
		rc = bounded_detect(pid, &opts, &context);
	if (rc)
		status_fail(job->rpc, rc, "reading the process context");
	else
		context_reply(job->rpc, context);
	pctx_context_free(context);
	free(c);
}

static void context_post(struct rpc *rpc, pid_t pid)
{
	struct context_job *c = calloc(1, sizeof(*c));

	if (!c) {
		status_fail(rpc, -ENOMEM, "the request");
		return;
	}
	c->job.rpc = rpc;
	c->job.run = context_run;
	c->query.pid = pid;
	post(&c->job);
}

static void serve_context(struct rpc *rpc, const uint8_t *data, size_t len)
{
	Criu__Agent__V1__GetProcessContextRequest *q =
		unpack(rpc, &criu__agent__v1__get_process_context_request__descriptor, data, len);
	const struct snapshot *s;
	pid_t pid;

	if (!q)
		return;
	pid = q->pid;
	criu__agent__v1__get_process_context_request__free_unpacked(q, NULL);
	if (pid < 0) {
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, "pid: not a process");
		return;
	}
	if (!pid) {
		s = lock_active(rpc);
		if (!s)
			return;
		pid = s->pid;
		profiler_unlock();
	}
	context_post(rpc, pid);
}

/* ---- PreCheckpoint, FinalDump -------------------------------------------------------- */

/* What is wrong, by the field's name. */
static const char *dump_check(const char *id, const char *parent)
{
	if (!dump_id_valid(id))
		return "dump_id: 1 to 64 letters, digits, _ and -, no - first";
	if (*parent && (!dump_id_valid(parent) || !strcmp(id, parent)))
		return "parent_dump_id: the id of an earlier dump, or none";
	return NULL;
}

static void dump_post(struct rpc *rpc, const char *id, const char *parent, bool final,
		      bool leave_running)
{
	const char *wrong = dump_check(id, parent);
	struct dump_request *q;

	if (wrong) {
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, wrong);
		return;
	}
	q = calloc(1, sizeof(*q));
	if (!q) {
		status_fail(rpc, -ENOMEM, "the request");
		return;
	}
	q->job.rpc = rpc;
	q->job.run = dumper_run;
	memcpy(q->id, id, strlen(id) + 1);
	memcpy(q->parent, parent, strlen(parent) + 1);
	q->final = final;
	q->leave_running = leave_running;
	post(&q->job);
}

static void serve_pre(struct rpc *rpc, const uint8_t *data, size_t len)
{
	Criu__Agent__V1__PreCheckpointRequest *q =
		unpack(rpc, &criu__agent__v1__pre_checkpoint_request__descriptor, data, len);

	if (!q)
		return;
	dump_post(rpc, q->dump_id, q->parent_dump_id, false, false);
	criu__agent__v1__pre_checkpoint_request__free_unpacked(q, NULL);
}

static void serve_final(struct rpc *rpc, const uint8_t *data, size_t len)
{
	Criu__Agent__V1__FinalDumpRequest *q =
		unpack(rpc, &criu__agent__v1__final_dump_request__descriptor, data, len);

	if (!q)
		return;
	dump_post(rpc, q->dump_id, q->parent_dump_id, true, q->leave_running);
	criu__agent__v1__final_dump_request__free_unpacked(q, NULL);
}

/* ---- health ---------------------------------------------------------------------------- */

static void serve_health(struct rpc *rpc, const uint8_t *data, size_t len)
{
	Grpc__Health__V1__HealthCheckResponse out = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	Grpc__Health__V1__HealthCheckRequest *q =
		unpack(rpc, &grpc__health__v1__health_check_request__descriptor, data, len);

	if (!q)
		return;
	out.status = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
	if (!*q->service || !strcmp(q->service, "criu.agent.v1.CRIUAgent"))
		rpc_reply(rpc, &out.base);
	else
		rpc_fail(rpc, RPC_NOT_FOUND, "no such service");
	grpc__health__v1__health_check_request__free_unpacked(q, NULL);
}

#define SERVICE "/criu.agent.v1.CRIUAgent/"

static const struct rpc_method methods[] = {
	{ SERVICE "StartProfiling", serve_start },
	{ SERVICE "StopProfiling", serve_stop },
	{ SERVICE "GetHotRegions", serve_hot },
	{ SERVICE "GetDirtyVolume", serve_volume },
	{ SERVICE "WatchDirtyVolume", serve_watch },
	{ SERVICE "GetProcessContext", serve_context },
	{ SERVICE "PreCheckpoint", serve_pre },
	{ SERVICE "FinalDump", serve_final },
	{ "/grpc.health.v1.Health/Check", serve_health },
};

const struct rpc_method *handlers_methods(size_t *n)
{
	*n = sizeof(methods) / sizeof(methods[0]);
	return methods;
}

const struct profiler_calls *handlers_calls(void)
{
	static const struct profiler_calls calls = { order_done, on_sample, on_end };

	return &calls;
}
