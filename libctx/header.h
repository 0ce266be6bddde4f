/*
 * header.h - the 32 bytes at the start of a process context's mapping, the same
 * for who writes them and who reads them. All in the publisher's byte order.
 */
#ifndef PCTX_HEADER_H
#define PCTX_HEADER_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define CTX_NAME	   "OTEL_CTX" /* of the memfd and the mapping */
#define CTX_SIGNATURE	   "OTEL_CTX" /* without its NUL */
#define CTX_SIGNATURE_SIZE 8
#define CTX_VERSION	   2u

/** struct ctx_header - the header; a reader sees it change at any time */
struct ctx_header {
	char signature[CTX_SIGNATURE_SIZE];
	uint32_t version;
	uint32_t payload_size;
	uint64_t published_at_ns; /* 0: being changed, or withdrawn */
	uint64_t payload;	  /* address in the publisher */
};

static_assert(sizeof(struct ctx_header) == 32, "no padding");
static_assert(offsetof(struct ctx_header, published_at_ns) == 16, "as the OTEP has it");
static_assert(offsetof(struct ctx_header, payload) == 24, "as the OTEP has it");

/* How a mapping's name may start in /proc/PID/maps: memfd and prctl worked,
 * prctl alone, memfd alone. */
#define CTX_MAPS_PREFIXES                                                              \
	{                                                                              \
		"[anon_shmem:" CTX_NAME "]", "[anon:" CTX_NAME "]", "/memfd:" CTX_NAME \
	}

#endif /* PCTX_HEADER_H */
