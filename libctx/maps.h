/* maps.h - lines of /proc/PID/maps, and which of them may be a context. */
#ifndef PCTX_MAPS_H
#define PCTX_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum maps_perm {
	MAPS_READ = 1,
	MAPS_WRITE = 2,
	MAPS_EXEC = 4,
	MAPS_SHARED = 8 /* the same bits as PROCMAP_QUERY_VMA_* */
};

/** struct maps_line - one mapping; @name points into the text, "" when none */
struct maps_line {
	uint64_t start;
	uint64_t end;
	unsigned int perms; /* enum maps_perm */
	const char *name;
	size_t name_len;
};

/** maps_parse() - read one line without its newline; false when it is none */
bool maps_parse(const char *text, size_t len, struct maps_line *out);

/**
 * maps_is_candidate() - may this mapping hold a context?
 *
 * By name and by permissions: a publisher writes its header, so the mapping is
 * readable and writable, and nobody publishes in executable memory.
 */
bool maps_is_candidate(const struct maps_line *line);

#endif /* PCTX_MAPS_H */
