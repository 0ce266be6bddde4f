/* opts.h - options structs that begin with their own size */
#ifndef PCTX_OPTS_H
#define PCTX_OPTS_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

/**
 * opts_take() - copy the caller's options into this library's struct
 * @to: zeroed here; has @known bytes
 * @from: begins with its size_t size; the caller may be older or newer than us
 *
 * Return: 0, -EINVAL when the size cannot be one, -E2BIG when bytes that this
 * library does not know are not zero.
 */
static inline int opts_take(void *to, size_t known, const void *from)
{
	const unsigned char *bytes = from;
	size_t size;

	memcpy(&size, from, sizeof(size));
	if (size < sizeof(size))
		return -EINVAL;
	for (size_t i = known; i < size; i++) {
		if (bytes[i])
			return -E2BIG;
	}
	memset(to, 0, known);
	memcpy(to, from, size < known ? size : known);
	return 0;
}

#endif /* PCTX_OPTS_H */
