/* rights.h - what the agent may do, and what it gives up. */
#ifndef AGENT_RIGHTS_H
#define AGENT_RIGHTS_H

/** rights_drop() - no_new_privs, for us and what we start; never a seccomp
 * filter: it would keep an injection from suspending the target's */
void rights_drop(void);

/** rights_report() - log which capability is missing, and for what */
void rights_report(void);

#endif /* AGENT_RIGHTS_H */
