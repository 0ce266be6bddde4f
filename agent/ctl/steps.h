/* steps.h - the steps of a migration, for people and for programs. */
#ifndef CTL_STEPS_H
#define CTL_STEPS_H

#include <limits.h>

#include "ctl.h"
#include "criu/dump.h"
#include "stoprule.h"

/** struct step - a dump, and what became of it */
struct step {
	bool final;
	unsigned int number; /* of a pre-dump */
	char id[DUMP_ID_MAX + 1], parent[DUMP_ID_MAX + 1];
	struct stop_forecast predicted;
	char dir[PATH_MAX], mode[16];
	uint64_t pages_written, pages_skipped, frozen_us;
	uint64_t written_bytes, withheld_bytes;
	bool shell_job;
	double dump_ms, send_ms; /* of calls and programs, as it was here */
	bool sent;
	int64_t sent_bytes; /* -1: not known */
};

/** steps_begin() - a migration. @to: NULL: nothing is sent. Return: the exit code */
int steps_begin(const struct ctl *ctl, const char *name, const char *to);

/** steps_show() - a step that is done. @reason: why pre-dumps end with it */
int steps_show(const struct ctl *ctl, const struct step *step, enum stop_reason reason);

/** steps_note() - a line for people; for programs it is an object of its own */
int steps_note(const struct ctl *ctl, const char *text);

/**
 * steps_end() - it is done: how it is restored
 * @to: where the images were sent; NULL: they stayed in @images
 * @tail: of the final dump: "ID/ship"
 */
int steps_end(const struct ctl *ctl, const char *images, const char *to, const char *tail,
	      bool shell_job);

/** steps_quote() - a word for a shell, in @out; what is too long is cut */
const char *steps_quote(const char *word, char *out, size_t room);

#endif /* CTL_STEPS_H */
