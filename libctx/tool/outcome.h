/* outcome.h - what the programs say about each outcome of reading a context. */
#ifndef PROCSCOPE_OUTCOME_H
#define PROCSCOPE_OUTCOME_H

#include <stdbool.h>

/** struct outcome - one -errno of the reader, for people and for programs */
struct outcome {
	int error;
	const char *word; /* in JSON */
	const char *why;  /* in an error line: why, and what to do */
	int exit_code;
	bool fallback; /* --fallback serves it */
};

/** outcome_of() - never NULL; @error: a negative errno */
const struct outcome *outcome_of(int error);

#endif /* PROCSCOPE_OUTCOME_H */
