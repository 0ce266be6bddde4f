/*
 * rpc.c - the gRPC server on the C core. No other file of the daemon calls gRPC.
 *
 * Theory of operation
 *
 * One completion queue, one thread that runs rpc_run(). For each method some
 * requests are outstanding, and some for calls of unknown methods, which would
 * hang until their deadline otherwise. A request comes back as TAG_NEW with its
 * message read; another takes its place.
 *
 * Unary: serve() or, later, any thread answers by one batch (receive the close,
 * send metadata, message, status), which comes back as TAG_DONE; the call is
 * freed. Two trips through the queue a call. A method that blocks would stall
 * all calls, so what may block is done by other threads, which start the batch
 * themselves: that is the only way into a queue for them.
 *
 * Streams: the batch that receives the close is out from the start, so that a
 * cancellation is seen at once (TAG_CLOSED). At most one message is on its way
 * (TAG_SENT): HTTP/2 flow control holds it back for a reader that is slow, and
 * the samples meanwhile are counted, not kept. A stream costs one message of
 * memory whatever its reader does. Messages are started by the thread that has
 * news, under streams_lock, which guards the list and everything about a stream.
 * The status (TAG_ENDED) follows the message on its way. A call is freed when it
 * is closed and none of its batches is out.
 *
 * Shutdown: rpc_stop() ends the streams, tells the server, gives calls in
 * progress RPC_GRACE_MS and cancels what is left. TAG_STOP and the last call to be
 * freed, in either order, shut the queue down; a batch on a queue that is shut
 * down would be fatal, so calls that other threads still hold are waited for.
 * Should one of them never answer, the caller of rpc_stop() ends the process.
 *
 * Not served: grpc.health.v1.Health/Watch, which its specification lets be
 * UNIMPLEMENTED, and reflection: the .proto is installed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>

#include "log.h"
#include "rpc.h"

/* gRPC is not built for ThreadSanitizer: say that its queue keeps order. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define QUEUE_GIVES(tag) __tsan_release(tag)
#define QUEUE_TAKES(tag) __tsan_acquire(tag)
#else
#define QUEUE_GIVES(tag) ((void)(tag))
#define QUEUE_TAKES(tag) ((void)(tag))
#endif

#define PRE_REQUESTED 32    /* outstanding requests of each method */
#define REQUEST_MAX   65536 /* bytes; the largest real request has some hundred */
#define STREAMS_MAX   256   /* calls at a time on one connection */
#define NS_PER_MS     1000000u

enum tag_kind { TAG_NEW, TAG_DONE, TAG_CLOSED, TAG_SENT, TAG_ENDED, N_TAGS, TAG_STOP };

struct tag {
	struct rpc *rpc;
	enum tag_kind kind;
};

struct rpc {
	struct tag tags[N_TAGS];
	const struct rpc_method *method; /* NULL: unknown */
	grpc_call *call;
	gpr_timespec deadline;
	grpc_call_details details;
	grpc_metadata_array metadata;
	grpc_byte_buffer *in, *out;
	grpc_slice text;
	enum rpc_code code;
	int cancelled;

	/* of streams: under streams_lock */
	struct rpc *next;
	uint64_t interval_ns, due_ns, n_skipped;
	int n_pending; /* batches that have not come back */
	bool closed, sending, metadata_sent, ending;
};

static grpc_server *server;
static grpc_completion_queue *queue;
static grpc_server_credentials *plain; /* for connections we accepted */
static const struct rpc_method *methods;
static size_t n_methods;
static void *handles[RPC_METHODS_MAX];
static struct {
	atomic_ullong ok, failed, cancelled;
} counts[RPC_METHODS_MAX + 1];

/* of the queue's thread */
static size_t n_live; /* calls that were begun and are not freed */
static bool stop_seen;

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rpc *streams;

static pthread_mutex_t stop_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stop_done = PTHREAD_COND_INITIALIZER;
static bool is_stopped;

static uint64_t rpc_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Arguments are ours and constant: what fails here is a bug. */
static void rpc_batch(struct rpc *r, const grpc_op *ops, size_t n, enum tag_kind kind)
{
	grpc_call *call = r->call;

	QUEUE_GIVES(&r->tags[kind]); /* from here on @r may be freed at any time */
	if (grpc_call_start_batch(call, ops, n, &r->tags[kind], NULL) == GRPC_CALL_OK)
		return;
	log_error("gRPC refused a batch", NULL);
	abort();
}

static grpc_byte_buffer *rpc_pack(const ProtobufCMessage *message)
{
	grpc_slice s = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
	grpc_byte_buffer *buffer;

	protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(s));
	buffer = grpc_raw_byte_buffer_create(&s, 1);
	grpc_slice_unref(s);
	return buffer;
}

/* ---- one call ------------------------------------------------------------------ */

static struct rpc *rpc_new(const struct rpc_method *method)
{
	struct rpc *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	for (int i = 0; i < N_TAGS; i++)
		r->tags[i] = (struct tag){ r, (enum tag_kind)i };
	r->method = method;
	r->text = grpc_empty_slice();
	grpc_metadata_array_init(&r->metadata);
	grpc_call_details_init(&r->details);
	return r;
}

static void rpc_free(struct rpc *r)
{
	grpc_metadata_array_destroy(&r->metadata);
	grpc_call_details_destroy(&r->details);
	if (r->in)
		grpc_byte_buffer_destroy(r->in);
	if (r->out)
		grpc_byte_buffer_destroy(r->out);
	grpc_slice_unref(r->text);
	if (r->call)
		grpc_call_unref(r->call);
	free(r);
}

/* Ask for one more call of @method, or of an unknown one when it is NULL. */
static void rpc_request(const struct rpc_method *method)
{
	struct rpc *r = rpc_new(method);
	grpc_call_error e;

	if (!r) {
		log_error("out of memory: one request less is served at a time", NULL);
		return;
	}
	if (method)
		e = grpc_server_request_registered_call(server, handles[method - methods], &r->call,
							&r->deadline, &r->metadata, &r->in, queue,
							queue, &r->tags[TAG_NEW]);
	else
		e = grpc_server_request_call(server, &r->call, &r->details, &r->metadata, queue,
					     queue, &r->tags[TAG_NEW]);
	if (e != GRPC_CALL_OK) /* the queue is shut down */
		rpc_free(r);
}

static void rpc_over(struct rpc *r)
{
	size_t i = r->method ? (size_t)(r->method - methods) : n_methods;

	if (r->cancelled)
		atomic_fetch_add(&counts[i].cancelled, 1);
	else if (r->code == RPC_OK)
		atomic_fetch_add(&counts[i].ok, 1);
	else
		atomic_fetch_add(&counts[i].failed, 1);
	rpc_free(r);
	n_live--;
	if (stop_seen && !n_live)
		grpc_completion_queue_shutdown(queue);
}

static void rpc_serve(struct rpc *r)
{
	grpc_byte_buffer_reader reader;
	grpc_slice s;

	if (!r->method) {
		rpc_fail(r, RPC_UNIMPLEMENTED, "no such method");
		return;
	}
	if (!r->in) {
		rpc_fail(r, RPC_INVALID_ARGUMENT, "no request message");
		return;
	}
	if (!grpc_byte_buffer_reader_init(&reader, r->in)) {
		rpc_fail(r, RPC_INVALID_ARGUMENT, "the request cannot be decompressed");
		return;
	}
	s = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	r->method->serve(r, GRPC_SLICE_START_PTR(s), GRPC_SLICE_LENGTH(s));
	grpc_slice_unref(s);
}

/* The one batch of an unary answer; afterwards @r is the queue's. */
static void rpc_answer(struct rpc *r, grpc_byte_buffer *body)
{
	grpc_op ops[4] = { 0 };
	grpc_op *op = ops;

	op->op = GRPC_OP_RECV_CLOSE_ON_SERVER;
	op++->data.recv_close_on_server.cancelled = &r->cancelled;
	op++->op = GRPC_OP_SEND_INITIAL_METADATA;
	r->out = body;
	if (body) {
		op->op = GRPC_OP_SEND_MESSAGE;
		op++->data.send_message.send_message = body;
	}
	op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
	op->data.send_status_from_server.status = (grpc_status_code)r->code;
	/* an empty text would be sent, and read, as a header of its own */
	op++->data.send_status_from_server.status_details = r->code ? &r->text : NULL;
	rpc_batch(r, ops, (size_t)(op - ops), TAG_DONE);
}

void rpc_reply(struct rpc *rpc, const ProtobufCMessage *message)
{
	rpc_answer(rpc, rpc_pack(message));
}

void rpc_fail(struct rpc *rpc, enum rpc_code code, const char *text)
{
	rpc->code = code;
	rpc->text = grpc_slice_from_copied_string(text);
	rpc_answer(rpc, NULL);
}

bool rpc_expired(const struct rpc *rpc)
{
	return gpr_time_cmp(gpr_now(rpc->deadline.clock_type), rpc->deadline) >= 0;
}

/* ---- streams ------------------------------------------------------------------- */

void rpc_stream_begin(struct rpc *rpc, uint32_t interval_ms, rpc_stream_fn *fill, void *arg)
{
	grpc_op op = { 0 };

	pthread_mutex_lock(&streams_lock);
	rpc->interval_ns = (uint64_t)interval_ms * NS_PER_MS;
	rpc->next = streams;
	streams = rpc;
	op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
	op.data.recv_close_on_server.cancelled = &rpc->cancelled;
	rpc->n_pending++;
	rpc_batch(rpc, &op, 1, TAG_CLOSED);
	if (fill)
		fill(rpc, 0, arg);
	pthread_mutex_unlock(&streams_lock);
}

void rpc_stream_send(struct rpc *r, const ProtobufCMessage *message)
{
	grpc_op ops[2] = { 0 };
	grpc_op *op = ops;

	if (r->out)
		grpc_byte_buffer_destroy(r->out);
	r->out = rpc_pack(message);
	if (!r->metadata_sent)
		op++->op = GRPC_OP_SEND_INITIAL_METADATA;
	r->metadata_sent = true;
	op->op = GRPC_OP_SEND_MESSAGE;
	op++->data.send_message.send_message = r->out;
	r->sending = true;
	r->n_skipped = 0;
	r->due_ns = rpc_now_ns() + r->interval_ns;
	r->n_pending++;
	rpc_batch(r, ops, (size_t)(op - ops), TAG_SENT);
}

void rpc_stream_each(uint32_t slack_ms, rpc_stream_fn *fill, void *arg)
{
	uint64_t until_ns = rpc_now_ns() + (uint64_t)slack_ms * NS_PER_MS;

	pthread_mutex_lock(&streams_lock);
	for (struct rpc *r = streams; r; r = r->next) {
		if (r->closed || r->ending || until_ns < r->due_ns)
			continue;
		if (r->sending)
			r->n_skipped++;
		else
			fill(r, r->n_skipped, arg);
	}
	pthread_mutex_unlock(&streams_lock);
}

static void stream_send_status(struct rpc *r)
{
	grpc_op ops[2] = { 0 };
	grpc_op *op = ops;

	if (!r->metadata_sent)
		op++->op = GRPC_OP_SEND_INITIAL_METADATA;
	r->metadata_sent = true;
	op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
	op->data.send_status_from_server.status = (grpc_status_code)r->code;
	op++->data.send_status_from_server.status_details = &r->text;
	r->n_pending++;
	rpc_batch(r, ops, (size_t)(op - ops), TAG_ENDED);
}

void rpc_stream_end(enum rpc_code code, const char *text)
{
	pthread_mutex_lock(&streams_lock);
	for (struct rpc *r = streams; r; r = r->next) {
		if (r->closed || r->ending)
			continue;
		r->ending = true;
		r->code = code;
		r->text = grpc_slice_from_copied_string(text);
		if (!r->sending)
			stream_send_status(r);
	}
	pthread_mutex_unlock(&streams_lock);
}

static void stream_unlink(const struct rpc *r)
{
	struct rpc **p = &streams;

	while (*p != r)
		p = &(*p)->next;
	*p = r->next;
}

/* A batch of a stream is back. */
static void stream_event(struct rpc *r, enum tag_kind kind)
{
	bool over;

	pthread_mutex_lock(&streams_lock);
	r->n_pending--;
	if (kind == TAG_CLOSED) {
		r->closed = true;
		stream_unlink(r);
	} else if (kind == TAG_SENT) {
		r->sending = false;
		if (r->ending && !r->closed)
			stream_send_status(r);
	}
	over = r->closed && !r->n_pending;
	pthread_mutex_unlock(&streams_lock);
	if (over)
		rpc_over(r);
}

/* ---- the server ------------------------------------------------------------------ */

static void server_stopped(void)
{
	stop_seen = true;
	if (!n_live)
		grpc_completion_queue_shutdown(queue);
	pthread_mutex_lock(&stop_lock);
	is_stopped = true;
	pthread_cond_signal(&stop_done);
	pthread_mutex_unlock(&stop_lock);
}

static void server_event(const grpc_event *ev)
{
	struct tag *tag = ev->tag;
	struct rpc *r = tag->rpc;

	QUEUE_TAKES(tag);
	switch (tag->kind) {
	case TAG_STOP:
		server_stopped();
		break;
	case TAG_NEW:
		if (!ev->success) { /* the server is shutting down */
			rpc_free(r);
			break;
		}
		n_live++;
		rpc_request(r->method);
		rpc_serve(r);
		break;
	case TAG_DONE:
		rpc_over(r);
		break;
	default:
		stream_event(r, tag->kind);
	}
}

void rpc_run(void)
{
	gpr_timespec never = gpr_inf_future(GPR_CLOCK_REALTIME);
	grpc_event ev;

	for (;;) {
		ev = grpc_completion_queue_next(queue, never, NULL);
		if (ev.type == GRPC_QUEUE_SHUTDOWN)
			return;
		server_event(&ev);
	}
}

void rpc_stop(void)
{
	static struct tag stop = { NULL, TAG_STOP };
	struct timespec until;

	rpc_stream_end(RPC_UNAVAILABLE, "the agent is shutting down");
	grpc_server_shutdown_and_notify(server, queue, &stop);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += RPC_GRACE_MS * (long)NS_PER_MS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&stop_lock);
	while (!is_stopped && !pthread_cond_timedwait(&stop_done, &stop_lock, &until))
		;
	if (!is_stopped)
		grpc_server_cancel_all_calls(server);
	pthread_mutex_unlock(&stop_lock);
}

/* What gRPC has to say goes into our log, in our form. */
static void server_log(gpr_log_func_args *args)
{
	static const enum log_level levels[] = {
		[GPR_LOG_SEVERITY_DEBUG] = LOG_LEVEL_DEBUG,
		[GPR_LOG_SEVERITY_INFO] = LOG_LEVEL_DEBUG,
		[GPR_LOG_SEVERITY_ERROR] = LOG_LEVEL_WARN,
	};
	struct log_text text;

	log_line(levels[args->severity], "gRPC", "text=%s", log_quote(args->message, &text));
}

static grpc_arg server_arg(const char *key, int value)
{
	return (grpc_arg){ .type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value };
}

void rpc_open(const struct rpc_method *served, size_t n)
{
	grpc_arg args[] = {
		/* else two daemons share a port and each gets half of the calls */
		server_arg(GRPC_ARG_ALLOW_REUSEPORT, 0),
		server_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, REQUEST_MAX),
		server_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, STREAMS_MAX),
		/* else 60 KiB of a request become 60 MiB before they are refused */
		server_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1),
		/* peers that vanish without a word, or never had one, are gone in half a minute */
		server_arg(GRPC_ARG_KEEPALIVE_TIME_MS, 20000),
		server_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000),
		server_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
		server_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 20000),
	};
	grpc_channel_args all = { sizeof(args) / sizeof(args[0]), args };

	gpr_set_log_function(server_log);
	grpc_init();
	methods = served;
	n_methods = n;
	queue = grpc_completion_queue_create_for_next(NULL);
	server = grpc_server_create(&all, NULL);
	plain = grpc_insecure_server_credentials_create();
	grpc_server_register_completion_queue(server, queue, NULL);
	for (size_t i = 0; i < n; i++)
		handles[i] =
			grpc_server_register_method(server, methods[i].path, NULL,
						    GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
}

static grpc_server_credentials *server_tls(const struct rpc_tls *tls)
{
	grpc_ssl_pem_key_cert_pair pair = { tls->key, tls->cert };

	return grpc_ssl_server_credentials_create_with_options(
		grpc_ssl_server_credentials_create_options_using_config(
			GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
			grpc_ssl_server_certificate_config_create(tls->ca, &pair, 1)));
}

int rpc_listen(const char *address, const struct rpc_tls *tls)
{
	grpc_server_credentials *creds = tls ? server_tls(tls) : plain;
	int port = creds ? grpc_server_add_http2_port(server, address, creds) : 0;

	if (tls && creds)
		grpc_server_credentials_release(creds);
	return port ? 0 : -EADDRINUSE;
}

void rpc_start(void)
{
	grpc_server_start(server);
	for (size_t k = 0; k < PRE_REQUESTED; k++) {
		for (size_t i = 0; i < n_methods; i++)
			rpc_request(&methods[i]);
		rpc_request(NULL);
	}
}

void rpc_add_fd(int fd)
{
	grpc_server_add_channel_from_fd(server, fd, plain);
}

void rpc_close(void)
{
	grpc_server_destroy(server);
	grpc_completion_queue_destroy(queue);
	grpc_server_credentials_release(plain);
	grpc_shutdown_blocking();
}

void rpc_count(size_t i, struct rpc_counts *out)
{
	out->ok = atomic_load(&counts[i].ok);
	out->failed = atomic_load(&counts[i].failed);
	out->cancelled = atomic_load(&counts[i].cancelled);
}
