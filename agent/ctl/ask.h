/* ask.h - the RPCs that more than one command makes, and how their answers are told. */
#ifndef CTL_ASK_H
#define CTL_ASK_H

#include <jansson.h>

#include "agent.pb-c.h"
#include "ctl.h"

#define SERVICE "/criu.agent.v1.CRIUAgent/"

typedef Criu__Agent__V1__StartProfilingResponse ask_start_response;
typedef Criu__Agent__V1__GetDirtyVolumeResponse ask_volume_response;
typedef Criu__Agent__V1__GetHotRegionsResponse ask_hot_response;
typedef Criu__Agent__V1__DumpResponse ask_dump_response;

/** struct ask_dump - a dump to ask for */
struct ask_dump {
	const char *id, *parent; /* @parent: NULL: none */
	bool final, leave_running;
};

/* Each: the answer, for protobuf_c_message_free_unpacked(); NULL: @e is set. */
ask_start_response *ask_start(const struct ctl *ctl, struct call_error *e);
ask_volume_response *ask_volume(struct call_error *e);
ask_hot_response *ask_hot(struct call_error *e);
ask_dump_response *ask_dump(const struct ask_dump *dump, struct call_error *e);

/** ask_why() - what became of a call, in @text. Return: the exit code */
int ask_why(const struct ctl *ctl, const struct call_error *e, char *text, size_t room);

/** ask_failed() - the same as a line on standard error. Return: the exit code */
int ask_failed(const struct ctl *ctl, const struct call_error *e);

/** ask_print_json() - a line; takes the reference. @document: NULL: no memory.
 * Return: the exit code */
int ask_print_json(json_t *document);

/** ask_bytes() - for people: "1.5 MiB". Return: @out */
const char *ask_bytes(double n, char *out, size_t room);

#endif /* CTL_ASK_H */
