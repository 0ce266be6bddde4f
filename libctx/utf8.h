/* utf8.h - is this text what protobuf calls a string? */
#ifndef PCTX_UTF8_H
#define PCTX_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/** utf8_valid() - is it UTF-8: no overlong form, surrogate, or above U+10FFFF? */
bool utf8_valid(const void *text, size_t len);

#endif /* PCTX_UTF8_H */
