/*
 * why.h - the reason of a failure in words, and the errno that goes with it.
 */
#ifndef WPROF_WHY_H
#define WPROF_WHY_H

#include "wprof.h"

/**
 * why_errno() - the errno that belongs to a reason
 * @reason:	any but WPROF_SYSTEM, whose errno is the system's
 *
 * Return: a negative errno as wprof.h lists it, 0 for WPROF_OK, -EIO for
 * WPROF_SYSTEM and unknown reasons.
 */
int why_errno(enum wprof_reason reason);

/**
 * why_clear() - nothing has failed so far
 * @why:	may be NULL
 */
void why_clear(struct wprof_why *why);

/**
 * why_set() - note a reason with its text
 * @why:	may be NULL
 * @reason:	not WPROF_SYSTEM: that one needs why_system()
 * @fmt:	one line, no newline: what failed, why, what can be done
 *
 * Keeps errno. Return: why_errno(@reason), so that a caller can return it.
 */
int why_set(struct wprof_why *why, enum wprof_reason reason, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * why_system() - note an errno that has no reason of its own
 * @why:	may be NULL
 * @err:	negative errno; its text is appended to @fmt's
 * @fmt:	what failed, on what
 *
 * Keeps errno. Return: @err.
 */
int why_system(struct wprof_why *why, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* WPROF_WHY_H */
