/* keymap.h - the keys of threadlocal.attribute_key_map, in their order */
#ifndef PCTX_KEYMAP_H
#define PCTX_KEYMAP_H

#include <stddef.h>

#include "pctx.h"

/*
 * All of it under the publisher's lock. A key is staged behind those that are in
 * the map and counts only when committed, after the map with it was published.
 */

/** keymap_keys() - the keys, each with its NUL, one after the other */
const char *keymap_keys(void);

/** keymap_used() - how many bytes of keymap_keys() are in the map */
size_t keymap_used(void);

/** keymap_find() - the index of @key in the map or -1 */
int keymap_find(const char *key);

/**
 * keymap_stage() - put one more key behind the map
 * @used: in and out: bytes used, staged keys included
 *
 * Return: 0, -ENOSPC with 256 keys there, -EMSGSIZE.
 */
int keymap_stage(const char *key, size_t len, size_t *used);

/**
 * keymap_stage_value() - stage what an array of strings has more than the map
 *
 * Return: as keymap_stage(), -EINVAL when it is no array of strings, -ENOKEY,
 * -EILSEQ or -EDOM for a bad key, -ENOTUNIQ, -ESTALE when it does not begin
 * with the keys that are in the map.
 */
int keymap_stage_value(const struct pctx_value *value, size_t *used);

void keymap_commit(size_t used);

#endif /* PCTX_KEYMAP_H */
