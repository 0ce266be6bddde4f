/* migrate.h - pre-dumps, the final dump, each sent as it is made. */
#ifndef CTL_MIGRATE_H
#define CTL_MIGRATE_H

#include "ctl.h"

/** run_migrate() - the command. Return: the exit code */
int run_migrate(const struct ctl *ctl);

/** migrate_stop() - make no further dump, end what is being sent; from any thread */
void migrate_stop(void);

#endif /* CTL_MIGRATE_H */
