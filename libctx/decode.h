/* decode.h - from the bytes of a payload to a context. */
#ifndef PCTX_DECODE_H
#define PCTX_DECODE_H

#include "context.h"

/**
 * decode_context() - check, unpack and convert a payload
 *
 * Takes no more memory than a fixed multiple of @len, whatever the bytes say.
 *
 * Return: 0 and a context with no timestamp; -EBADMSG; -ENOMEM.
 */
int decode_context(const void *payload, size_t len, struct pctx_context **out);

#endif /* PCTX_DECODE_H */
