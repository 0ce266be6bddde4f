/*
 * rpc.h - the gRPC server, without gRPC's names: the rest of the agent knows
 * calls, codes and protobuf-c messages only.
 */
#ifndef AGENT_RPC_H
#define AGENT_RPC_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** enum rpc_code - gRPC's status codes, by its numbers */
enum rpc_code {
	RPC_OK = 0,
	RPC_CANCELLED = 1,
	RPC_INVALID_ARGUMENT = 3,
	RPC_DEADLINE_EXCEEDED = 4,
	RPC_NOT_FOUND = 5,
	RPC_ALREADY_EXISTS = 6,
	RPC_PERMISSION_DENIED = 7,
	RPC_RESOURCE_EXHAUSTED = 8,
	RPC_FAILED_PRECONDITION = 9,
	RPC_UNIMPLEMENTED = 12,
	RPC_INTERNAL = 13,
	RPC_UNAVAILABLE = 14,
	RPC_DATA_LOSS = 15
};

/** struct rpc - one call; gone once it has been answered */
struct rpc;

/** struct rpc_method - a method that is served */
struct rpc_method {
	const char *path; /* "/package.Service/Method" */
	/*
	 * Called on the server's thread, must not block. Answers @rpc now or
	 * has any other thread answer it later, exactly once.
	 */
	void (*serve)(struct rpc *rpc, const uint8_t *data, size_t len);
};

/** struct rpc_tls - files in PEM; the client must show a certificate of @ca */
struct rpc_tls {
	char *cert, *key, *ca; /* their text */
};

/** struct rpc_counts - what became of the calls of one method */
struct rpc_counts {
	uint64_t ok, failed, cancelled;
};

#define RPC_METHODS_MAX 16
#define RPC_GRACE_MS	300 /* what calls in progress are given at the end */

/**
 * rpc_open() - make the server; call once, with all signals blocked that matter
 * @methods: @n methods, at most RPC_METHODS_MAX; live as long as the server
 */
void rpc_open(const struct rpc_method *methods, size_t n);

/** rpc_listen() - add a TCP address. @tls: NULL: in the clear. Before rpc_run().
 * Return: 0, or -EADDRINUSE: it cannot be bound */
int rpc_listen(const char *address, const struct rpc_tls *tls);

/** rpc_start() - from now on connections are served */
void rpc_start(void);

/** rpc_add_fd() - serve a connected stream socket, which is the server's now. MT-Safe */
void rpc_add_fd(int fd);

/** rpc_run() - serve until rpc_stop(); every call has been answered when it returns */
void rpc_run(void);

/** rpc_stop() - refuse new calls and cancel those in progress. MT-Safe, once */
void rpc_stop(void);

/** rpc_close() - after rpc_run() */
void rpc_close(void);

/** rpc_count() - what became of the calls of method @i; @n of those unknown. MT-Safe */
void rpc_count(size_t i, struct rpc_counts *counts);

/** rpc_reply() - answer with a message, and OK. MT-Safe */
void rpc_reply(struct rpc *rpc, const ProtobufCMessage *message);

/** rpc_fail() - answer with an error; @text is copied. MT-Safe */
void rpc_fail(struct rpc *rpc, enum rpc_code code, const char *text);

/** rpc_expired() - is its deadline over, so that nobody waits for the answer? */
bool rpc_expired(const struct rpc *rpc);

/**
 * rpc_stream_fn - called when a stream can take a message
 * @n_skipped: how often it could not since its last one
 *
 * Calls rpc_stream_send() once, and no other function of these.
 */
typedef void rpc_stream_fn(struct rpc *rpc, uint64_t n_skipped, void *arg);

/**
 * rpc_stream_begin() - make @rpc one of the open streams; in serve() only
 * @interval_ms: least time between two messages
 * @fill: makes the first message, before this returns; NULL: none yet
 */
void rpc_stream_begin(struct rpc *rpc, uint32_t interval_ms, rpc_stream_fn *fill, void *arg);

/** rpc_stream_send() - one message, in a rpc_stream_fn only */
void rpc_stream_send(struct rpc *rpc, const ProtobufCMessage *message);

/**
 * rpc_stream_each() - call @fill for each stream that is due and can take a message
 * @slack_ms: a stream due within so long is taken for due
 *
 * A stream whose last message is still on its way is passed over and counted.
 * MT-Safe.
 */
void rpc_stream_each(uint32_t slack_ms, rpc_stream_fn *fill, void *arg);

/** rpc_stream_end() - end all streams, each after what is on its way. MT-Safe */
void rpc_stream_end(enum rpc_code code, const char *text);

#endif /* AGENT_RPC_H */
