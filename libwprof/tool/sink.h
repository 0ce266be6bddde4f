/* sink.h - where a recording goes: a trace, CSV, or a table for people. */
#ifndef WPROF_TOOL_SINK_H
#define WPROF_TOOL_SINK_H

#include <stdio.h>

#include "tool/group.h"

/** struct sink - one way of writing a recording down; false: the output failed */
struct sink {
	bool (*begin)(FILE *f, const struct trace_header *h);
	bool (*member)(FILE *f, struct member *m, uint64_t start_ns); /* a child */
	bool (*interval)(FILE *f, struct member *m, uint64_t base_ns, const struct options *o);
	bool (*context)(FILE *f, struct member *m);
	bool (*end)(FILE *f, const struct trace_end *end);
};

extern const struct sink sink_trace, sink_csv, sink_table;

#endif /* WPROF_TOOL_SINK_H */
