/*
 * The payload as bytes.
 *
 * Theory of operation
 *
 * protobuf-c unpacks by recursion without a limit: 64 KiB can hold 8,883 levels
 * and end the process by a stack overflow. It ends a string at its first NUL, so
 * that "service.name\0x" reads "service.name"; it takes invalid UTF-8; and it
 * refuses messages that every other implementation takes: with a group in them,
 * or with a known field number of another wire type. So the payload is gone
 * through here first, without recursion:
 *
 * - A stack of at most WIRE_DEPTH_MAX frames, each with the message's type and
 *   end. Schemas are small tables: field number to kind.
 * - A length-delimited field that the schema calls a message opens a frame. All
 *   else is stepped over; strings are checked on the way.
 * - What protobuf-c would refuse though it is well formed is rewritten in place
 *   to an unknown field of the same length: a known number with a foreign wire
 *   type gets the number FIELD_UNUSED; a group becomes a length-delimited field,
 *   its length padded to fill the gap (a varint may be longer than it needs).
 * - Repeating a singular message means merging. protobuf-c copies all that it
 *   has at every merge, which is quadratic: at most WIRE_REPEATS_MAX of them.
 *
 * Invariant: @at never passes the end of the innermost frame, and every frame's
 * end lies within that of the frame below it. Each step advances @at.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "utf8.h"
#include "wire.h"

#define FIELD_UNUSED 15u /* in none of the messages; a tag of one byte */
#define FIELD_MAX    ((1u << 29) - 1)

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_LENGTH = 2,
	WIRE_GROUP = 3,
	WIRE_GROUP_END = 4,
	WIRE_FIXED32 = 5
};

enum message {
	MSG_CONTEXT,
	MSG_RESOURCE,
	MSG_ENTITY,
	MSG_KEY_VALUE,
	MSG_ANY,
	MSG_ARRAY,
	MSG_KVLIST
};

enum kind {
	UNKNOWN,
	VARINT,
	FIXED64,
	TEXT,
	BYTES,
	MANY, /* a repeated message */
	ONE   /* a singular message: repeated means merged */
};

struct field {
	uint8_t kind;
	uint8_t message; /* with MANY and ONE */
};

#define FIELDS 9 /* numbers 0 to 8 */

static const struct field schemas[][FIELDS] = {
	[MSG_CONTEXT] = { [1] = { ONE, MSG_RESOURCE }, [2] = { MANY, MSG_KEY_VALUE } },
	[MSG_RESOURCE] = { [1] = { MANY, MSG_KEY_VALUE },
			   [2] = { VARINT, 0 },
			   [3] = { MANY, MSG_ENTITY } },
	[MSG_ENTITY] = { [1] = { TEXT, 0 },
			 [2] = { TEXT, 0 },
			 [3] = { TEXT, 0 },
			 [4] = { TEXT, 0 } },
	[MSG_KEY_VALUE] = { [1] = { TEXT, 0 }, [2] = { ONE, MSG_ANY }, [3] = { VARINT, 0 } },
	[MSG_ANY] = { [1] = { TEXT, 0 },
		      [2] = { VARINT, 0 },
		      [3] = { VARINT, 0 },
		      [4] = { FIXED64, 0 },
		      [5] = { ONE, MSG_ARRAY },
		      [6] = { ONE, MSG_KVLIST },
		      [7] = { BYTES, 0 },
		      [8] = { VARINT, 0 } },
	[MSG_ARRAY] = { [1] = { MANY, MSG_ANY } },
	[MSG_KVLIST] = { [1] = { MANY, MSG_KEY_VALUE } },
};

struct frame {
	uint8_t *end;
	uint8_t message;
	uint8_t n_repeats;
};

struct wire {
	uint8_t *at;
	unsigned int depth; /* frames in use */
	struct frame frames[WIRE_DEPTH_MAX];
};

static struct frame *top(struct wire *w)
{
	return &w->frames[w->depth - 1];
}

static size_t rest(struct wire *w)
{
	return (size_t)(top(w)->end - w->at);
}

static bool take_varint(struct wire *w, uint64_t *out)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < 10 && rest(w); i++) {
		uint8_t byte = *w->at++;

		if (i == 9 && byte > 1)
			return false;
		n |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (!(byte & 0x80)) {
			*out = n;
			return true;
		}
	}
	return false;
}

static bool take_tag(struct wire *w, uint32_t *number, enum wire_type *type)
{
	uint8_t *from = w->at;
	uint64_t tag;

	if (!take_varint(w, &tag) || w->at - from > 5 || tag >> 3 > FIELD_MAX)
		return false;
	*number = (uint32_t)(tag >> 3);
	*type = (enum wire_type)(tag & 7);
	return *number != 0;
}

/* Give the field whose tag starts at @tag, of a number up to 15, another one. */
static void retag(uint8_t *tag, uint32_t number, enum wire_type type)
{
	*tag = (uint8_t)((*tag & 0x80) | number << 3 | type);
}

static bool take_bytes(struct wire *w, size_t len)
{
	if (len > rest(w))
		return false;
	w->at += len;
	return true;
}

/* What follows a tag of a type other than a group's. */
static bool take_value(struct wire *w, enum wire_type type)
{
	uint64_t n;

	switch (type) {
	case WIRE_VARINT:
		return take_varint(w, &n);
	case WIRE_FIXED64:
		return take_bytes(w, 8);
	case WIRE_FIXED32:
		return take_bytes(w, 4);
	case WIRE_LENGTH:
		return take_varint(w, &n) && n <= rest(w) && take_bytes(w, (size_t)n);
	default:
		return false;
	}
}

/* Up to the end of the group @number, groups within it included. */
static bool take_group(struct wire *w, uint32_t number)
{
	uint32_t open[WIRE_DEPTH_MAX];
	unsigned int n = 0;

	open[n++] = number;
	while (n) {
		enum wire_type type;

		if (!take_tag(w, &number, &type))
			return false;
		if (type == WIRE_GROUP) {
			if (w->depth + n >= WIRE_DEPTH_MAX)
				return false;
			open[n++] = number;
		} else if (type == WIRE_GROUP_END) {
			if (open[--n] != number)
				return false;
		} else if (!take_value(w, type)) {
			return false;
		}
	}
	return true;
}

/* Write the length of what fills @gap bytes together with that length. */
static void fill_gap(uint8_t *at, size_t gap)
{
	size_t width = 1, len;

	while ((gap - width) >> (7 * width))
		width++;
	len = gap - width;
	for (size_t i = 0; i < width; i++)
		at[i] = (uint8_t)((len >> (7 * i) & 0x7f) | (i + 1 < width ? 0x80 : 0));
}

static bool skip_group(struct wire *w, uint8_t *tag, uint32_t number)
{
	uint8_t *inside = w->at;

	if (!take_group(w, number))
		return false;
	retag(tag, number <= FIELD_UNUSED ? FIELD_UNUSED : (*tag >> 3 & 0xf), WIRE_LENGTH);
	fill_gap(inside, (size_t)(w->at - inside));
	return true;
}

static bool text_valid(const uint8_t *text, size_t len)
{
	return !memchr(text, 0, len) && utf8_valid(text, len);
}

static bool open_message(struct wire *w, const struct field *field, size_t len)
{
	struct frame *f = top(w);

	if (field->kind == ONE && f->n_repeats++ >= WIRE_REPEATS_MAX)
		return false;
	if (w->depth == WIRE_DEPTH_MAX)
		return false;
	w->frames[w->depth++] = (struct frame){ w->at + len, field->message, 0 };
	return true;
}

static bool take_length(struct wire *w, const struct field *field)
{
	uint64_t len;

	if (!take_varint(w, &len) || len > rest(w))
		return false;
	if (field->kind == MANY || field->kind == ONE)
		return open_message(w, field, (size_t)len);
	if (field->kind == TEXT && !text_valid(w->at, (size_t)len))
		return false;
	return take_bytes(w, (size_t)len);
}

static enum wire_type wire_of(enum kind kind)
{
	if (kind == VARINT)
		return WIRE_VARINT;
	return kind == FIXED64 ? WIRE_FIXED64 : WIRE_LENGTH;
}

static bool take_field(struct wire *w)
{
	static const struct field unknown = { UNKNOWN, 0 };
	const struct field *field = &unknown;
	uint8_t *tag = w->at;
	enum wire_type type;
	uint32_t number;

	if (!take_tag(w, &number, &type))
		return false;
	if (type == WIRE_GROUP)
		return skip_group(w, tag, number);
	if (number < FIELDS)
		field = &schemas[top(w)->message][number];
	if (field->kind == UNKNOWN)
		return take_value(w, type);
	if (type != wire_of((enum kind)field->kind)) {
		retag(tag, FIELD_UNUSED, type);
		return take_value(w, type);
	}
	return type == WIRE_LENGTH ? take_length(w, field) : take_value(w, type);
}

int wire_prepare(uint8_t *data, size_t len)
{
	struct wire w;

	w.at = data;
	w.depth = 1;
	w.frames[0] = (struct frame){ data + len, MSG_CONTEXT, 0 };
	while (w.depth) {
		if (!rest(&w))
			w.depth--;
		else if (!take_field(&w))
			return -EBADMSG;
	}
	return 0;
}
