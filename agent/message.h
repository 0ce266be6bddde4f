/* message.h - what protobuf-c does not do: checks of requests, contexts. */
#ifndef AGENT_MESSAGE_H
#define AGENT_MESSAGE_H

#include "agent.pb-c.h"
#include "pctx.h"

/**
 * message_unpack() - unpack a request
 * @why: set to what is wrong, a constant or in a buffer of this thread
 *
 * Strings must be UTF-8 without NUL: protobuf-c takes anything and cuts at a NUL.
 *
 * Return: the message, or NULL.
 */
ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *data,
				 size_t len, const char **why);

typedef Opentelemetry__Proto__Processcontext__V1development__ProcessContext otel_context;

/** message_context() - a context as a message, to be freed as if unpacked; NULL: no memory */
otel_context *message_context(const struct pctx_context *context);

#endif /* AGENT_MESSAGE_H */
