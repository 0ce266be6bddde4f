/* encode.h - from attributes to the bytes of a ProcessContext message */
#ifndef PCTX_ENCODE_H
#define PCTX_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "pb.h"
#include "pctx.h"

#define KEY_MAP_ATTRIBUTE "threadlocal.attribute_key_map"

/**
 * struct encoding - a checked message, ready to be packed
 *
 * All of it lies in the arena or is the caller's; packing it cannot fail.
 */
struct encoding {
	struct arena arena;
	const struct pctx_value *key_map; /* of KEY_MAP_ATTRIBUTE, left out of @base */
	pb_context base;
	size_t base_size;
	pb_context map; /* only the key map; packed behind @base */
	size_t map_size;
	/* what may still be used up before the payload cannot but be too large */
	size_t nodes_left;
	size_t text_left;
};

/** encode_init() - an encoding of nothing; encode_free() it in any case */
void encode_init(struct encoding *e);

/**
 * encode_context() - check the attributes of @opts and build their message
 *
 * Return: 0, or the errors that pctx_publish() names for its input.
 */
int encode_context(struct encoding *e, const struct pctx_publish_opts *opts);

/**
 * encode_key_map() - build the message of the key map
 * @keys: keys one after the other, each with its NUL, @used bytes altogether
 */
int encode_key_map(struct encoding *e, const char *keys, size_t used);

/** encode_key() - is @key one that may be published? 0, -ENOKEY, -EILSEQ */
int encode_key(const char *key, size_t len);

void encode_free(struct encoding *e);

#endif /* PCTX_ENCODE_H */
