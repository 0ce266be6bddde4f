/*
 * pctx.h - the public header of libctx: the OpenTelemetry process context.
 *
 * libctx publishes the process context of the calling process (OTEP-4719) and
 * reads that of other processes. It starts no thread, prints nothing, never
 * exits, has no constructor and leaves errno as it was. This header compiles
 * alone, as C11 and as C++.
 *
 * Conventions. Functions return 0 or a negative errno. Objects are handed out
 * through a `struct x **out` that is set only on success. Options structs begin
 * with their own size: fill it with sizeof; fields beyond it take their
 * defaults, and bytes this library does not know must be zero (-E2BIG).
 * Strings are UTF-8 without NUL, their length given apart, never NUL-terminated
 * unless said so.
 */
#ifndef PCTX_H
#define PCTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PCTX_API	__attribute__((visibility("default")))
#define PCTX_CHECKED	__attribute__((warn_unused_result))
#else
#define PCTX_API
#define PCTX_CHECKED
#endif

/** PCTX_PAYLOAD_MAX - most bytes an encoded payload may have */
#define PCTX_PAYLOAD_MAX	65536u

/* ---- attributes ---------------------------------------------------------- */

/** enum pctx_kind - the kinds of an OTLP AnyValue */
enum pctx_kind {
	PCTX_EMPTY,		/* no value; legal in OTLP */
	PCTX_STRING,
	PCTX_BOOL,
	PCTX_INT,
	PCTX_DOUBLE,
	PCTX_BYTES,
	PCTX_ARRAY,
	PCTX_KVLIST
};

struct pctx_attr;

/**
 * struct pctx_value - one AnyValue, a view: nothing in it is owned
 *
 * What a publisher passes in stays the caller's and need only live for the
 * call; what a reader gets out lives as long as its struct pctx_context.
 */
struct pctx_value {
	enum pctx_kind kind;
	union {
		struct {
			const char *data;
			size_t len;
		} string;		/* PCTX_STRING: UTF-8, no NUL */
		bool boolean;		/* PCTX_BOOL */
		int64_t integer;	/* PCTX_INT */
		double number;		/* PCTX_DOUBLE, NaN and Inf included */
		struct {
			const uint8_t *data;
			size_t len;
		} bytes;		/* PCTX_BYTES: anything */
		struct {
			const struct pctx_value *values;
			size_t n;
		} array;		/* PCTX_ARRAY */
		struct {
			const struct pctx_attr *attrs;
			size_t n;
		} kvlist;		/* PCTX_KVLIST */
	} u;
};

/** struct pctx_attr - one KeyValue; a view like its value */
struct pctx_attr {
	const char *key;		/* NUL-terminated, UTF-8, not empty */
	struct pctx_value value;
};

/** pctx_string() - make a string attribute of two C strings, for literals */
static inline struct pctx_attr pctx_string(const char *key, const char *text)
{
	struct pctx_attr a;
	size_t len = 0;

	while (text[len])
		len++;
	a.key = key;
	a.value.kind = PCTX_STRING;
	a.value.u.string.data = text;
	a.value.u.string.len = len;
	return a;
}

/** pctx_int() - make an integer attribute */
static inline struct pctx_attr pctx_int(const char *key, int64_t integer)
{
	struct pctx_attr a;

	a.key = key;
	a.value.kind = PCTX_INT;
	a.value.u.integer = integer;
	return a;
}

/* ---- publisher ----------------------------------------------------------- */

/** struct pctx_publish_opts - what to publish */
struct pctx_publish_opts {
	size_t size;				/* sizeof(struct pctx_publish_opts) */
	const struct pctx_attr *resource;	/* resource attributes */
	size_t n_resource;
	const struct pctx_attr *attributes;	/* extra attributes (field 2) */
	size_t n_attributes;
};

PCTX_API PCTX_CHECKED int pctx_publish(const struct pctx_publish_opts *opts);
PCTX_API PCTX_CHECKED int pctx_unpublish(void);

/* ---- reader -------------------------------------------------------------- */

struct pctx_reader;
struct pctx_context;

/** struct pctx_reader_opts - how to find and read a context; all 0: defaults */
struct pctx_reader_opts {
	size_t size;			/* sizeof(struct pctx_reader_opts) */
	const char *procfs;		/* NULL: "/proc" */
	size_t payload_max_bytes;	/* 0: PCTX_PAYLOAD_MAX */
	uint64_t mappings_max;		/* most mappings to look at; 0: no limit */
	uint32_t attempts_max;		/* tries against a racing writer; 0: 100 */
	uint32_t accept_version_1;	/* not 0: take development version 1 too */
};

PCTX_API PCTX_CHECKED int pctx_reader_open(pid_t pid, const struct pctx_reader_opts *opts,
					   struct pctx_reader **out);
PCTX_API void pctx_reader_close(struct pctx_reader *reader);
PCTX_API PCTX_CHECKED int pctx_reader_read(struct pctx_reader *reader, struct pctx_context **out);
PCTX_API PCTX_CHECKED int pctx_reader_poll(struct pctx_reader *reader, bool *changed);
PCTX_API PCTX_CHECKED int pctx_read(pid_t pid, const struct pctx_reader_opts *opts,
				    struct pctx_context **out);

PCTX_API void pctx_context_free(struct pctx_context *context);
PCTX_API const struct pctx_attr *pctx_context_resource(const struct pctx_context *context,
						       size_t *n);
PCTX_API const struct pctx_attr *pctx_context_attributes(const struct pctx_context *context,
							 size_t *n);
PCTX_API uint64_t pctx_context_published_at_ns(const struct pctx_context *context);
PCTX_API const struct pctx_attr *pctx_context_find(const struct pctx_context *context,
						   const char *key);

PCTX_API const char *pctx_version(void);

#ifdef __cplusplus
}
#endif

#endif /* PCTX_H */
