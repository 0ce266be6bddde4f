/* wire.h - look through an encoded ProcessContext before it is unpacked. */
#ifndef PCTX_WIRE_H
#define PCTX_WIRE_H

#include <stddef.h>
#include <stdint.h>

/** WIRE_DEPTH_MAX - the outermost message and 100 levels in it, as Google's parsers */
#define WIRE_DEPTH_MAX 101

/** WIRE_REPEATS_MAX - times that one message may hold its singular messages again */
#define WIRE_REPEATS_MAX 64

/**
 * wire_prepare() - check a payload, and make protobuf-c read it as others do
 * @data: changed in place: what the schema does not know (groups, known numbers
 *        with a foreign wire type) becomes a field that protobuf-c skips
 *
 * Needs no memory but a fixed stack frame, whatever the payload says.
 *
 * Return: 0, or -EBADMSG: not the wire format, nested too deep, a string that is
 * no UTF-8 or has a NUL.
 */
int wire_prepare(uint8_t *data, size_t len);

#endif /* PCTX_WIRE_H */
