/*
 * call.c - the client's side of the C core; no other file of it calls gRPC.
 *
 * One call at a time, one queue. A batch without the initial metadata would
 * never come back when the answer is a status alone, so they are always asked
 * for. A stream asks for one message after the other: what is not read is held
 * back by flow control at the server.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>

#include "call.h"

static grpc_channel *channel;
static grpc_completion_queue *queue;
static uint32_t timeout_ms;

static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;
static grpc_call *current; /* the stream in progress */
static bool is_cancelled;

/** struct call - what a call receives */
struct call {
	grpc_call *grpc;
	grpc_metadata_array initial, trailing;
	grpc_byte_buffer *out, *in;
	grpc_status_code code;
	grpc_slice text;
};

static void no_log(gpr_log_func_args *args)
{
	(void)args; /* the status says what failed */
}

static grpc_channel_credentials *credentials(const struct call_opts *o)
{
	grpc_ssl_pem_key_cert_pair pair = { o->tls_key, o->tls_cert };

	if (!o->tls_cert)
		return grpc_insecure_credentials_create();
	return grpc_ssl_credentials_create_ex(o->tls_ca, &pair, NULL, NULL);
}

void call_open(const struct call_opts *o)
{
	grpc_channel_credentials *creds;
	grpc_arg args[2] = {
		/* else calls of 127.0.0.1 go to $http_proxy too */
		{ .type = GRPC_ARG_INTEGER,
		  .key = (char *)GRPC_ARG_ENABLE_HTTP_PROXY,
		  .value.integer = 0 },
		{ .type = GRPC_ARG_STRING,
		  .key = (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
		  .value.string = (char *)o->tls_name },
	};
	grpc_channel_args all = { o->tls_name ? 2 : 1, args };

	gpr_set_log_function(no_log);
	grpc_init();
	creds = credentials(o);
	queue = grpc_completion_queue_create_for_next(NULL);
	channel = grpc_channel_create(o->address, creds, &all);
	grpc_channel_credentials_release(creds);
	timeout_ms = o->timeout_ms;
}

void call_close(void)
{
	gpr_timespec never = gpr_inf_future(GPR_CLOCK_REALTIME);

	grpc_channel_destroy(channel);
	grpc_completion_queue_shutdown(queue);
	while (grpc_completion_queue_next(queue, never, NULL).type != GRPC_QUEUE_SHUTDOWN)
		;
	grpc_completion_queue_destroy(queue);
	grpc_shutdown_blocking();
}

static void await_tag(void *tag)
{
	gpr_timespec never = gpr_inf_future(GPR_CLOCK_REALTIME);

	while (grpc_completion_queue_next(queue, never, NULL).tag != tag)
		;
}

static void call_begin(struct call *c, const char *path, const ProtobufCMessage *request,
		       bool stream)
{
	gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_REALTIME);
	grpc_slice s = grpc_slice_malloc(protobuf_c_message_get_packed_size(request));

	protobuf_c_message_pack(request, GRPC_SLICE_START_PTR(s));
	memset(c, 0, sizeof(*c));
	grpc_metadata_array_init(&c->initial);
	grpc_metadata_array_init(&c->trailing);
	c->text = grpc_empty_slice();
	c->out = grpc_raw_byte_buffer_create(&s, 1);
	grpc_slice_unref(s);
	if (!stream)
		deadline = gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
					gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
	c->grpc =
		grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
					 grpc_slice_from_static_string(path), NULL, deadline, NULL);
}

static void call_end(struct call *c, struct call_error *error)
{
	char *text = grpc_slice_to_c_string(c->text);

	error->code = (int)c->code;
	snprintf(error->text, sizeof(error->text), "%s", text);
	gpr_free(text);
	grpc_metadata_array_destroy(&c->initial);
	grpc_metadata_array_destroy(&c->trailing);
	grpc_byte_buffer_destroy(c->out);
	if (c->in)
		grpc_byte_buffer_destroy(c->in);
	grpc_slice_unref(c->text);
	grpc_call_unref(c->grpc);
}

static void call_batch(struct call *c, const grpc_op *ops, size_t n, void *tag)
{
	if (grpc_call_start_batch(c->grpc, ops, n, tag, NULL) != GRPC_CALL_OK)
		abort(); /* a bug: all arguments are ours */
}

static void op_status(struct call *c, grpc_op *op)
{
	op->op = GRPC_OP_RECV_STATUS_ON_CLIENT;
	op->data.recv_status_on_client.trailing_metadata = &c->trailing;
	op->data.recv_status_on_client.status = &c->code;
	op->data.recv_status_on_client.status_details = &c->text;
}

/* The request, and the metadata of the answer. */
static grpc_op *ops_send(struct call *c, grpc_op *op)
{
	op++->op = GRPC_OP_SEND_INITIAL_METADATA;
	op->op = GRPC_OP_SEND_MESSAGE;
	op++->data.send_message.send_message = c->out;
	op++->op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
	op->op = GRPC_OP_RECV_INITIAL_METADATA;
	op++->data.recv_initial_metadata.recv_initial_metadata = &c->initial;
	return op;
}

static ProtobufCMessage *take_message(struct call *c, const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage *message = NULL;
	grpc_byte_buffer_reader reader;
	grpc_slice s;

	if (grpc_byte_buffer_reader_init(&reader, c->in)) {
		s = grpc_byte_buffer_reader_readall(&reader);
		grpc_byte_buffer_reader_destroy(&reader);
		message = protobuf_c_message_unpack(type, NULL, GRPC_SLICE_LENGTH(s),
						    GRPC_SLICE_START_PTR(s));
		grpc_slice_unref(s);
	}
	grpc_byte_buffer_destroy(c->in);
	c->in = NULL;
	return message;
}

ProtobufCMessage *call_unary(const char *path, const ProtobufCMessage *request,
			     const ProtobufCMessageDescriptor *answer, struct call_error *error)
{
	ProtobufCMessage *message = NULL;
	grpc_op ops[6] = { 0 };
	struct call c;
	grpc_op *op;

	call_begin(&c, path, request, false);
	op = ops_send(&c, ops);
	op->op = GRPC_OP_RECV_MESSAGE;
	op++->data.recv_message.recv_message = &c.in;
	op_status(&c, op++);
	call_batch(&c, ops, (size_t)(op - ops), &c);
	await_tag(&c);
	if (c.code == GRPC_STATUS_OK && c.in)
		message = take_message(&c, answer);
	call_end(&c, error);
	if (!message && !error->code) {
		error->code = 13;
		snprintf(error->text, sizeof(error->text), "the answer cannot be read");
	}
	return message;
}

/* The call that call_cancel() means; too late or none: it cancels the next. */
static void set_current(grpc_call *call)
{
	pthread_mutex_lock(&current_lock);
	current = call;
	if (call && is_cancelled)
		grpc_call_cancel(call, NULL);
	pthread_mutex_unlock(&current_lock);
}

void call_cancel(void)
{
	pthread_mutex_lock(&current_lock);
	is_cancelled = true;
	if (current)
		grpc_call_cancel(current, NULL);
	pthread_mutex_unlock(&current_lock);
}

static bool stream_next(struct call *c, const ProtobufCMessageDescriptor *type, call_message_fn *fn,
			void *arg)
{
	grpc_op op = { 0 };
	ProtobufCMessage *message;
	bool go_on;

	op.op = GRPC_OP_RECV_MESSAGE;
	op.data.recv_message.recv_message = &c->in;
	call_batch(c, &op, 1, &c->in);
	await_tag(&c->in);
	if (!c->in)
		return false;
	message = take_message(c, type);
	if (!message)
		return false;
	go_on = fn(message, arg);
	protobuf_c_message_free_unpacked(message, NULL);
	if (!go_on)
		call_cancel();
	return go_on;
}

bool call_stream(const char *path, const ProtobufCMessage *request,
		 const ProtobufCMessageDescriptor *answer, call_message_fn *fn, void *arg,
		 struct call_error *error)
{
	grpc_op ops[4] = { 0 }, last = { 0 };
	grpc_op *op;
	struct call c;

	call_begin(&c, path, request, true);
	op = ops_send(&c, ops);
	call_batch(&c, ops, (size_t)(op - ops), &c);
	set_current(c.grpc);
	await_tag(&c);
	while (stream_next(&c, answer, fn, arg))
		;
	op_status(&c, &last);
	call_batch(&c, &last, 1, &c.code);
	await_tag(&c.code);
	set_current(NULL);
	call_end(&c, error);
	return is_cancelled && error->code == GRPC_STATUS_CANCELLED;
}

const char *call_code_name(int code)
{
	static const char *const names[] = {
		"OK",
		"CANCELLED",
		"UNKNOWN",
		"INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED",
		"NOT_FOUND",
		"ALREADY_EXISTS",
		"PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION",
		"ABORTED",
		"OUT_OF_RANGE",
		"UNIMPLEMENTED",
		"INTERNAL",
		"UNAVAILABLE",
		"DATA_LOSS",
		"UNAUTHENTICATED",
	};

	return code >= 0 && (size_t)code < sizeof(names) / sizeof(names[0]) ? names[code] : "?";
}
