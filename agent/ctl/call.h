/* call.h - gRPC calls from a client's side, without gRPC's names. */
#ifndef CTL_CALL_H
#define CTL_CALL_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

/** struct call_opts - whom to call, and how */
struct call_opts {
	const char *address;		   /* unix:PATH or HOST:PORT */
	char *tls_cert, *tls_key, *tls_ca; /* PEM text; NULL: in the clear */
	const char *tls_name;		   /* the server's name in its certificate; NULL: HOST */
	uint32_t timeout_ms;		   /* of a call; streams have none */
};

/** struct call_error - gRPC's status when it is not OK */
struct call_error {
	int code;
	char text[400];
};

/** call_open() - connects with the first call */
void call_open(const struct call_opts *opts);

/**
 * call_unary() - one request, one answer
 *
 * Return: the answer, to be freed by protobuf_c_message_free_unpacked(); NULL and
 * @error set.
 */
ProtobufCMessage *call_unary(const char *path, const ProtobufCMessage *request,
			     const ProtobufCMessageDescriptor *answer, struct call_error *error);

/** call_message_fn - called for each message of a stream. Return: false to end it */
typedef bool call_message_fn(const ProtobufCMessage *message, void *arg);

/** call_stream() - until it ends, or @fn or call_cancel() ends it.
 * Return: did we end it? Else @error says how it ended */
bool call_stream(const char *path, const ProtobufCMessage *request,
		 const ProtobufCMessageDescriptor *answer, call_message_fn *fn, void *arg,
		 struct call_error *error);

/** call_cancel() - end the stream in progress, from any thread */
void call_cancel(void);

void call_close(void);

/** call_code_name() - "NOT_FOUND" and so on */
const char *call_code_name(int code);

#endif /* CTL_CALL_H */
