/* pub_util.h - what the publisher's tests share */
#ifndef PUB_UTIL_H
#define PUB_UTIL_H

#include <atf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "header.h"
#include "pb.h"
#include "pctx.h"

/* a case with its description, and a limit should it hang */
#define CASE(name, sentence)                              \
	ATF_TC(name);                                     \
	ATF_TC_HEAD(name, tc)                             \
	{                                                 \
		atf_tc_set_md_var(tc, "descr", sentence); \
		atf_tc_set_md_var(tc, "timeout", "30");   \
	}                                                 \
	ATF_TC_BODY(name, tc)

/* ATF_REQUIRE does not fail the test from within a forked child; this does,
 * together with pub_child(). */
#define CHILD_REQUIRE(condition)                                                        \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                       \
		}                                                                       \
	} while (0)

/** pub_child() - run @body in a forked child: its wait status, 0 when all went well */
int pub_child(void (*body)(void));

/** struct pub_mapping - a line of /proc/self/maps */
struct pub_mapping {
	uintptr_t start;
	uintptr_t end;
	char perms[5];
	char name[64];
};

/** pub_mappings() - mappings with OTEL_CTX in their name, at most @max of them */
size_t pub_mappings(struct pub_mapping *out, size_t max);

/** pub_signatures() - how many of them begin with the signature; *@out is one */
size_t pub_signatures(struct ctx_header **out);

/** pub_header() - the header of the one published context, NULL without just one */
struct ctx_header *pub_header(void);

/** pub_context() - the published context decoded by protobuf-c, or NULL; to be freed */
pb_context *pub_context(void);

/** pub_attr() - the value of an attribute in the list, or NULL */
const pb_any *pub_attr(pb_kv *const *list, size_t n, const char *key);

/** pub_is_published() - is @value the resource attribute service.name just now? */
bool pub_is_published(const char *value);

/** pub_service() - publish the resource service.name = @value */
int pub_service(const char *value);

/** pub_service_and_bytes() - that, and so many bytes more */
int pub_service_and_bytes(const char *value, size_t n_bytes);

/** pub_fds() - how many descriptors are open */
int pub_fds(void);

/** pub_can_name() - can this kernel name an anonymous mapping? */
bool pub_can_name(void);

/** struct pub_rule - what a filter does to a system call */
struct pub_rule {
	long nr;
	int error;	      /* the errno it answers; 0: success without doing it */
	bool kill;	      /* SIGSYS instead */
	int arg;	      /* number of the argument that decides, -1: none does */
	uint32_t mask, value; /* it does when (argument & mask) == value */
};

/** pub_filter() - put a seccomp filter on the calling thread, for good */
void pub_filter(const struct pub_rule *rules, size_t n);

/* rules for the steps of publishing */
#define DENY(name, error)                          \
	{                                          \
		SYS_##name, error, false, -1, 0, 0 \
	}
#define DENY_IF(name, error, arg, mask, value)             \
	{                                                  \
		SYS_##name, error, false, arg, mask, value \
	}

#endif /* PUB_UTIL_H */
