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

/** PCTX_NESTING_MAX - how deep arrays and key-value lists may lie in each other:
 * what every protobuf decoder takes, of which some stop at 100 messages */
#define PCTX_NESTING_MAX	32

/** PCTX_KEY_MAP_MAX - most keys of threadlocal.attribute_key_map */
#define PCTX_KEY_MAP_MAX	256

/**
 * struct pctx_publish_opts - what to publish
 *
 * @resource: NULL leaves the resource unset, which says that nothing is known
 * of it; not NULL with @n_resource 0 publishes a resource without attributes.
 * With no attribute of either kind the latter is published in any case, as
 * readers take a payload of 0 bytes for an unfinished context.
 */
struct pctx_publish_opts {
	size_t size;				/* sizeof(struct pctx_publish_opts) */
	const struct pctx_attr *resource;	/* resource attributes */
	size_t n_resource;
	const struct pctx_attr *attributes;	/* extra attributes (field 2) */
	size_t n_attributes;
};

/**
 * pctx_publish() - publish this process's context, or replace what is published
 * @opts: the caller's, needed only during the call
 *
 * Other processes find the context by /proc/PID/maps and see either the old or
 * the new one, never a mixture; the mapping's address stays the same from the
 * first publish to pctx_unpublish(). When the call fails, what was published
 * before stays readable and unchanged. Allocates by mmap only, never by malloc.
 *
 * An attribute threadlocal.attribute_key_map in @opts->attributes must be an
 * array of strings that begins with the keys already in the map; without one, the
 * keys of pctx_key_map_append() are published.
 *
 * Spec: OTEP-4719, Publication Protocol and Updating Protocol.
 * MT-Safe. Not AS-Safe. Not a cancellation point. Keeps errno.
 * Survives fork(): the child has no context until it publishes its own, also if
 * another thread was in here at the fork. Call pctx_unpublish() before dlclose()
 * of a library that has libctx linked in: the mapping outlives it.
 *
 * Return: 0, or
 * -EINVAL: @opts is NULL or too small, a pointer with a count is NULL, a value's
 *   kind is unknown, or the key map is no array of strings; a bug in the caller;
 * -E2BIG: @opts has fields this library does not know; use a newer libctx or
 *   leave them 0;
 * -ENOKEY: a key is NULL or empty; give it a name;
 * -ENOTUNIQ: two attributes of one list have the same key; merge them;
 * -EILSEQ: a key or string is not UTF-8; convert it, or publish bytes;
 * -EDOM: a string has a NUL byte; publish it as bytes;
 * -ELOOP: values lie deeper than PCTX_NESTING_MAX; flatten them;
 * -EMSGSIZE: more than PCTX_PAYLOAD_MAX bytes when encoded; publish less;
 * -ENOSPC: the key map has more than PCTX_KEY_MAP_MAX keys;
 * -ESTALE: the key map given does not begin with the keys already published;
 * -EEXIST: another library of this process, or another copy of libctx, has
 *   published a context. The first stays; use that library;
 * -EOPNOTSUPP: neither memfd_create nor naming a mapping is allowed here, so
 *   nobody could find the context; allow memfd_create in the sandbox;
 * -EOVERFLOW: somebody stored the greatest timestamp there is in our header;
 *   unpublish and publish anew;
 * -ENOMEM, -EPERM or another errno of mmap, ftruncate, madvise or clock_gettime;
 * -ENOSYS: not Linux; go on without.
 */
PCTX_API PCTX_CHECKED int pctx_publish(const struct pctx_publish_opts *opts);

/**
 * pctx_key_map_append() - give a key its index in threadlocal.attribute_key_map
 * @key: NUL-terminated UTF-8, not empty
 * @index: set on success; the same for the same key as long as the process runs,
 *   in its forked children too, published or not
 *
 * A key that is not yet in the map is appended and, when a context is published,
 * that is updated before the call returns: whoever meets the index finds the key.
 * Without a context the key goes into the next pctx_publish().
 *
 * Spec: OTEP-4947, threadlocal.attribute_key_map.
 * MT-Safe. Not AS-Safe. Not a cancellation point. Keeps errno.
 * Survives fork(): yes, the child keeps the keys.
 *
 * Return: 0, -EINVAL for a NULL pointer, -ENOSPC when the map has all its 256
 * keys (record the attribute otherwise), or -ENOKEY, -EILSEQ, -EMSGSIZE,
 * -EOVERFLOW, -ENOMEM and the like as pctx_publish(); the map is unchanged then.
 */
PCTX_API PCTX_CHECKED int pctx_key_map_append(const char *key, uint8_t *index);

/**
 * pctx_unpublish() - withdraw the context of this process
 *
 * Readers see it withdrawn before its memory goes. It may be published again.
 *
 * Spec: OTEP-4719, Publication Protocol (dropping the context at shutdown).
 * MT-Safe. Not AS-Safe. Not a cancellation point. Keeps errno.
 * Survives fork(): a child that published nothing has nothing to withdraw.
 *
 * Return: 0; -ENODATA when this copy of libctx has nothing published, which a
 * caller at shutdown can ignore; -ENOMEM; -ENOSYS: not Linux.
 */
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
