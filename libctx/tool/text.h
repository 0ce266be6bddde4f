/*
 * text.h - text of unknown origin on a terminal. What another process calls
 * itself, its service or its files may hold any bytes, escape sequences too.
 */
#ifndef PROCSCOPE_TEXT_H
#define PROCSCOPE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** TEXT_NO_CHARACTER - what text_decode() makes of a byte that is not UTF-8 */
#define TEXT_NO_CHARACTER UINT32_MAX

/** text_decode() - the character at @text; Return: how many bytes it has, at least 1 */
size_t text_decode(const char *text, size_t len, uint32_t *out);

/** text_dangerous() - a control, without width, or turns the direction of writing? */
bool text_dangerous(uint32_t c);

/** text_tame() - make each character that must not reach a terminal a '?', in place */
void text_tame(char *text);

#endif /* PROCSCOPE_TEXT_H */
