/* rights.h - what the agent may do, and what it gives up. */
#ifndef AGENT_RIGHTS_H
#define AGENT_RIGHTS_H

#include <stdbool.h>

/** rights_settle() - capabilities go on to what we start, also those that came
 * with our file; no_new_privs; never a seccomp filter: it would keep an
 * injection from suspending the target's */
void rights_settle(void);

/** rights_report() - log which capability is missing, and for what; @dumps: those
 * for dumps too */
void rights_report(bool dumps);

#endif /* AGENT_RIGHTS_H */
