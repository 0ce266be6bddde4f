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
 * unless said so. Where a function does not say otherwise it is MT-Safe as long
 * as no other thread uses the same object, not AS-Safe, and the child of a
 * fork() may call it on what it inherited.
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
#define PCTX_API     __attribute__((visibility("default")))
#define PCTX_CHECKED __attribute__((warn_unused_result))
#else
#define PCTX_API
#define PCTX_CHECKED
#endif

/** PCTX_PAYLOAD_MAX - most bytes an encoded payload may have */
#define PCTX_PAYLOAD_MAX 65536u

/* ---- attributes ---------------------------------------------------------- */

/** enum pctx_kind - the kinds of an OTLP AnyValue */
enum pctx_kind {
	PCTX_EMPTY, /* no value; legal in OTLP */
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
		} string;	 /* PCTX_STRING: UTF-8, no NUL */
		bool boolean;	 /* PCTX_BOOL */
		int64_t integer; /* PCTX_INT */
		double number;	 /* PCTX_DOUBLE, NaN and Inf included */
		struct {
			const uint8_t *data;
			size_t len;
		} bytes; /* PCTX_BYTES: anything */
		struct {
			const struct pctx_value *values;
			size_t n;
		} array; /* PCTX_ARRAY */
		struct {
			const struct pctx_attr *attrs;
			size_t n;
		} kvlist; /* PCTX_KVLIST */
	} u;
};

/** struct pctx_attr - one KeyValue; a view like its value */
struct pctx_attr {
	const char *key; /* NUL-terminated, UTF-8, not empty */
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
#define PCTX_NESTING_MAX 32

/** PCTX_KEY_MAP_MAX - most keys of threadlocal.attribute_key_map */
#define PCTX_KEY_MAP_MAX 256

/**
 * struct pctx_publish_opts - what to publish
 *
 * @resource: NULL leaves the resource unset, which says that nothing is known
 * of it; not NULL with @n_resource 0 publishes a resource without attributes.
 * With no attribute of either kind the latter is published in any case, as
 * readers take a payload of 0 bytes for an unfinished context.
 */
struct pctx_publish_opts {
	size_t size;			  /* sizeof(struct pctx_publish_opts) */
	const struct pctx_attr *resource; /* resource attributes */
	size_t n_resource;
	const struct pctx_attr *attributes; /* extra attributes (field 2) */
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
 * -EFBIG: RLIMIT_FSIZE is less than a page, and the memfd counts as a file; raise
 *   that limit (ulimit -f);
 * -EOVERFLOW: somebody stored the greatest timestamp there is in our header;
 *   unpublish and publish anew;
 * -EMFILE, -ENFILE: no descriptor is left for the memfd, not even for a moment;
 *   close some, or raise that limit (ulimit -n);
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

/* ---- reader --------------------------------------------------------------
 *
 * Reading another process needs the right to trace it: the same user and a
 * dumpable process, or CAP_SYS_PTRACE. Nothing is stopped and nothing written.
 * The reader needs 128 KiB of stack.
 *
 * Every function that looks into a process has these outcomes:
 *
 * -ENODATA: it has no context. Ask again later; it may publish late.
 * -EAGAIN: its context is being updated, and was through all attempts. Ask again.
 * -EBADMSG: what it published is malformed, or above a limit. Wait for its next
 *   update; nothing the caller does mends it.
 * -EPROTONOSUPPORT: it has a context of a version this library does not read.
 * -ERANGE: none among its first mappings_max mappings. Raise that limit.
 * -EPERM: not permitted to look into it. Run as its user, or with CAP_SYS_PTRACE.
 * -ESRCH: there is no such process (any more). Its number may belong to another
 *   one by now: open a new reader for that.
 * -ENOMEM, -EMFILE, -ENFILE: out of what they say; free some and try again.
 * -ENOSYS: not Linux; go on without. Nothing is ever read there.
 *
 * Limit: the kernel copies the memory. Where a process lays its context behind a
 * userfaultfd or into a file of a file system that does not answer (FUSE), the copy
 * waits for it, until the reading process gets a fatal signal. A caller that may
 * not wait reads in a thread that it can do without, as the programs do.
 */

struct pctx_reader;
struct pctx_context;
struct pctx_reader_opts;

/** pctx_read_fn - reads one process as pctx_read() does */
typedef int pctx_read_fn(pid_t pid, const struct pctx_reader_opts *opts, struct pctx_context **out);

/** PCTX_PAYLOAD_LIMIT - most that payload_max_bytes may be set to */
#define PCTX_PAYLOAD_LIMIT (1024u * 1024u)

/** struct pctx_reader_opts - how to find and read a context; all 0: defaults */
struct pctx_reader_opts {
	size_t size;		   /* sizeof(struct pctx_reader_opts) */
	const char *procfs;	   /* NULL: "/proc" */
	size_t payload_max_bytes;  /* 0: PCTX_PAYLOAD_MAX; up to PCTX_PAYLOAD_LIMIT */
	uint64_t mappings_max;	   /* most mappings to look at; 0: no limit */
	uint32_t attempts_max;	   /* tries against a racing writer; 0: 100 */
	uint32_t accept_version_1; /* not 0: take development version 1 too */
	/* NULL: pctx_read(); else called instead for each process by pctx_each() and
	 * pctx_find_service(): to do it with a deadline, -ETIMEDOUT when that is over */
	pctx_read_fn *read;
	void *read_arg; /* for @read, which is given these options; not looked at */
};

/**
 * pctx_reader_open() - get hold of a process to read its context again and again
 * @pid: the process; a number of @opts->procfs where that is given
 * @opts: NULL: defaults. With a procfs of another PID namespace memory is read
 *        through its PID/mem files instead of process_vm_readv
 * @out: the reader, to be closed by the caller
 *
 * The process need not have published yet. The reader means this very process:
 * not another one that gets its number later; what it executes keeps it.
 *
 * Spec: OTEP-4719, Reading Protocol.
 * MT-Safe; a reader is for one thread at a time. Not AS-Safe.
 * Survives fork(): yes, the child has a reader of its own.
 *
 * Return: 0; -ESRCH, -EPERM, -EMFILE, -ENFILE, -ENOMEM as above; -EINVAL: @pid is
 * not positive, @opts->procfs (or /proc) is no procfs or a limit is out of its range
 * (correct it); -E2BIG: @opts is of a newer library and uses what is unknown here.
 */
PCTX_API PCTX_CHECKED int pctx_reader_open(pid_t pid, const struct pctx_reader_opts *opts,
					   struct pctx_reader **out);

/** pctx_reader_close() - contexts read from it stay; NULL is allowed */
PCTX_API void pctx_reader_close(struct pctx_reader *reader);

/**
 * pctx_reader_read() - read the context as it is now
 * @reader: a reader
 * @out: the context, to be freed by the caller; it never changes
 *
 * Finds the context the first time and whenever it is not where it was. When it
 * did not change since the last call the same context is handed out again, at
 * the price of one system call. Waits between attempts against a racing writer,
 * at most about 0.2 s with the default of 100.
 *
 * Spec: OTEP-4719, Reading Protocol, steps 1 to 8.
 * MT-Safe with a reader for each thread. Not AS-Safe.
 * Survives fork(): yes.
 *
 * Return: 0 or one of the outcomes above.
 */
PCTX_API PCTX_CHECKED int pctx_reader_read(struct pctx_reader *reader, struct pctx_context **out);

/**
 * pctx_reader_poll() - did the context change since the last read?
 * @reader: a reader
 * @changed: false when what pctx_reader_read() said last is still so; true when
 *           it would now say something else, a first context included
 *
 * One system call, 32 bytes, while nothing changed. Never waits. Where nothing
 * is published yet it looks for a context anew, which costs a pass over the
 * process's mappings. So does every eighth poll in a row that meets an update: a
 * publisher that died in one never ends it, and whoever publishes next in that
 * process, in another mapping, is seen by that poll.
 *
 * Spec: OTEP-4719, Reading Protocol: the timestamp as the key of a cache.
 * MT-Safe with a reader for each thread. Not AS-Safe.
 * Survives fork(): yes.
 *
 * Return: 0 or one of the outcomes above; -EAGAIN: at this moment it is being
 * updated, poll again. With an error *@changed is left alone.
 */
PCTX_API PCTX_CHECKED int pctx_reader_poll(struct pctx_reader *reader, bool *changed);

/**
 * pctx_read() - read the context of a process once
 *
 * As pctx_reader_open(), pctx_reader_read() and pctx_reader_close() in a row.
 *
 * Return: what they return.
 */
PCTX_API PCTX_CHECKED int pctx_read(pid_t pid, const struct pctx_reader_opts *opts,
				    struct pctx_context **out);

/**
 * pctx_detect() - describe a process that has no usable context
 * @pid: the process
 * @opts: as for pctx_reader_open()
 * @out: the description, to be freed by the caller; pctx_context_detected() is true
 *
 * The default resource detection that the OTEP asks of readers: process.* from
 * /proc, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES from the environment the
 * process began with, container.id from its control group. service.name is
 * always there, at last as unknown_service:NAME. What the caller may not see is
 * left out.
 *
 * Spec: OTEP-4719, Reading Protocol: fall back to default resource detection.
 * MT-Safe. Not AS-Safe. Survives fork(): yes.
 *
 * Return: 0; -EINVAL, -E2BIG as pctx_reader_open(); -ESRCH, -EPERM (not even its
 * directory can be seen), -ENOMEM, -EMFILE, -ENFILE as above.
 */
PCTX_API PCTX_CHECKED int pctx_detect(pid_t pid, const struct pctx_reader_opts *opts,
				      struct pctx_context **out);

/**
 * pctx_each_fn - called for one process
 * @pid: the process
 * @error: 0, or why its context could not be read: one of the outcomes above or
 *         of @opts->read, never -ENODATA or -ESRCH
 * @context: NULL with an error; freed after the call
 * @arg: what pctx_each() was given
 *
 * Return: 0 to go on; anything else ends pctx_each(), which returns it.
 */
typedef int pctx_each_fn(pid_t pid, int error, const struct pctx_context *context, void *arg);

/**
 * pctx_each() - read the contexts of all processes of a procfs
 * @opts: as for pctx_reader_open()
 * @each: called in ascending order of PIDs for each process that published, and
 *        for each that may not be looked into
 * @arg: handed on to @each
 *
 * MT-Safe. Not AS-Safe. Survives fork(): yes.
 *
 * Return: 0; -EINVAL, -E2BIG as pctx_reader_open(); -ENOMEM, -EMFILE, -ENFILE as
 * above; else what @each returned.
 */
PCTX_API PCTX_CHECKED int pctx_each(const struct pctx_reader_opts *opts, pctx_each_fn *each,
				    void *arg);

/**
 * pctx_find_service() - find processes by the service.name they published
 * @service_name: compared byte for byte with that of the resource
 * @opts: as for pctx_reader_open()
 * @pids: the processes, ascending; NULL is allowed with *@n = 0
 * @n: in: room in @pids; out: how many there are, which may be more
 *
 * A process whose parent, or parent's parent and so on, has the same service
 * name is left out: of a tree the topmost is meant. (If the one in between has
 * another name it is the same tree all the same.)
 *
 * MT-Safe. Not AS-Safe. Survives fork(): yes.
 *
 * Return: 0 with *@n of 1 or more; -ENODATA: no process that the caller may look
 * into has it; -EPERM: the same, and some may not be looked into (run with
 * CAP_SYS_PTRACE); -ETIMEDOUT: the same, and @opts->read gave some up; -EINVAL,
 * -E2BIG, -ENOMEM, -EMFILE, -ENFILE as pctx_each().
 */
PCTX_API PCTX_CHECKED int pctx_find_service(const char *service_name,
					    const struct pctx_reader_opts *opts, pid_t *pids,
					    size_t *n);

/**
 * pctx_context_free() - give a context up; NULL is allowed
 *
 * MT-Safe: contexts may be freed, and read, by any thread.
 */
PCTX_API void pctx_context_free(struct pctx_context *context);

/**
 * pctx_context_resource() - the resource attributes, in the order published
 * @context: lives as long as what is returned
 * @n: how many
 *
 * Keys may be there twice, and may be empty: a reader shows what was published.
 * MT-Safe, AS-Safe.
 *
 * Return: the first of *@n attributes; may be NULL when *@n is 0.
 */
PCTX_API const struct pctx_attr *pctx_context_resource(const struct pctx_context *context,
						       size_t *n);

/** pctx_context_attributes() - the same for those that are not of the resource */
PCTX_API const struct pctx_attr *pctx_context_attributes(const struct pctx_context *context,
							 size_t *n);

/**
 * pctx_context_published_at_ns() - when it was published
 *
 * MT-Safe, AS-Safe.
 *
 * Return: CLOCK_BOOTTIME in ns as the publisher wrote it, never 0; 0 only for
 * what pctx_detect() made.
 */
PCTX_API uint64_t pctx_context_published_at_ns(const struct pctx_context *context);

/** pctx_context_detected() - is it from pctx_detect(), and was never published? */
PCTX_API bool pctx_context_detected(const struct pctx_context *context);

/**
 * pctx_context_find() - the first attribute with a key, the resource's first
 *
 * MT-Safe, AS-Safe.
 *
 * Return: the attribute, or NULL.
 */
PCTX_API const struct pctx_attr *pctx_context_find(const struct pctx_context *context,
						   const char *key);

/* ---- both ---------------------------------------------------------------- */

/** pctx_version() - of the library that is loaded, as "1.2.3". MT-Safe, AS-Safe. */
PCTX_API const char *pctx_version(void);

#ifdef __cplusplus
}
#endif

#endif /* PCTX_H */
