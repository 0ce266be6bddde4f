/*
 * libpctx-preload.so: publishes a process context for a program that knows
 * nothing of it. `pctx run` puts it into LD_PRELOAD.
 *
 * Theory of operation
 *
 * The constructor collects the resource and publishes it; a handler of
 * pthread_atfork does so again in each forked child, with an instance id and a
 * PID of its own. For an attribute that has several sources the first counts:
 *
 *	PCTX_RUN_ATTRIBUTES		--attr of `pctx run`
 *	OTEL_SERVICE_NAME		service.name
 *	OTEL_RESOURCE_ATTRIBUTES	spoilt as a whole by one error in it
 *	defaults			service.name "unknown_service:EXECUTABLE",
 *					service.instance.id a random UUID,
 *					process.pid, process.executable.name,
 *					telemetry.sdk.name, .language, .version
 *
 * process.pid is the program's own view of its PID, which in a container differs
 * from the reader's; command line and owner are left to readers, as they may be
 * secret. telemetry.sdk.* names who published: this shim, which is C.
 *
 * An instance id that is given belongs to the process the command was for (by
 * PCTX_RUN_PID, or any that was not forked where that is unset): all others get
 * one of their own, as two instances must not share one.
 *
 * It must not break the program it is in. So: nothing is printed, errno is kept,
 * malloc is not called (in a forked child the program's allocator may not have
 * had its own fork handler yet), a failure to publish is silent, and no symbol is
 * exported or taken from another library than libc. A child of a program that has
 * put a seccomp filter on itself does not publish: the filter may kill.
 * Children by vfork or posix_spawn share memory until they exec; no handler runs
 * and nothing happens to them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "otel_env.h"
#include "pctx.h"
#include "run_env.h"
#include "sys.h"
#include "utf8.h"

#define SHIM_INSTANCE_ID "service.instance.id"
#define SHIM_PID	 "process.pid"

static struct arena shim_arena;
static struct attr_list shim_resource;
static char shim_instance_id[37];
static char shim_executable[256];
static char shim_service[32 + sizeof(shim_executable)];
static bool shim_own_pid;     /* process.pid is ours to set */
static char shim_filters[64]; /* seccomp filters when the program started */

static int shim_set(struct pctx_attr attr)
{
	return attr_list_set(&shim_arena, &shim_resource, &attr);
}

static int shim_default(struct pctx_attr attr)
{
	return attr_list_find(&shim_resource, attr.key) ? 0 : shim_set(attr);
}

/* Random bytes; should there be none, bytes that at least differ by process. */
static void shim_random(uint8_t *out, size_t len)
{
	struct timespec now = { 0, 0 };
	uint64_t mix;

	if (syscall(SYS_getrandom, out, len, 1 /* GRND_NONBLOCK */) == (long)len)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	mix = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec +
	      ((uint64_t)getpid() << 40) + (uintptr_t)&mix;
	for (size_t i = 0; i < len; i++) { /* splitmix64 */
		uint64_t z = mix += 0x9e3779b97f4a7c15u;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
		out[i] = (uint8_t)((z ^ (z >> 27)) >> 56);
	}
}

/* A random UUID, version 4 */
static void shim_new_instance_id(void)
{
	static const char hex[] = "0123456789abcdef";
	uint8_t random[16];
	size_t at = 0;

	shim_random(random, sizeof(random));
	random[6] = (uint8_t)((random[6] & 0x0f) | 0x40);
	random[8] = (uint8_t)((random[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < sizeof(random); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			shim_instance_id[at++] = '-';
		shim_instance_id[at++] = hex[random[i] >> 4];
		shim_instance_id[at++] = hex[random[i] & 15];
	}
}

/* The lines of /proc/self/status that change when a filter is added */
static void shim_seccomp_state(char *out, size_t size)
{
	char text[4096];
	const char *found;
	ssize_t n;
	int fd = sys_open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	memset(out, 0, size);
	if (fd < 0)
		return;
	n = sys_read(fd, text, sizeof(text) - 1);
	sys_close(fd);
	if (n <= 0)
		return;
	text[n] = 0;
	found = strstr(text, "\nSeccomp:");
	if (found)
		strncpy(out, found, size - 1);
	/* "Seccomp:\t2\nSeccomp_filters:\t1\n", and nothing after it */
	found = strstr(out, "\nSpeculation");
	if (found)
		out[found - out] = 0;
}

/* Take off what the kernel puts behind the path of a file that was removed. */
static void shim_strip_deleted(char *path)
{
	static const char mark[] = " (deleted)";
	size_t len = strlen(path), mark_len = sizeof(mark) - 1;
	struct stat st;

	if (len > mark_len && !strcmp(path + len - mark_len, mark) &&
	    stat("/proc/self/exe", &st) == 0 && !st.st_nlink)
		path[len - mark_len] = 0;
}

static void shim_find_executable(void)
{
	char path[4096];
	const char *name;
	long n = syscall(SYS_readlinkat, -100 /* AT_FDCWD */, "/proc/self/exe", path,
			 sizeof(path) - 1);

	if (n <= 0)
		return;
	path[n] = 0;
	shim_strip_deleted(path);
	name = strrchr(path, '/');
	name = name ? name + 1 : path;
	if (strlen(name) < sizeof(shim_executable) && utf8_valid(name, strlen(name)))
		memcpy(shim_executable, name, strlen(name) + 1);
}

static const char *shim_default_service(void)
{
	snprintf(shim_service, sizeof(shim_service), "unknown_service%s%s",
		 *shim_executable ? ":" : "", shim_executable);
	return shim_service;
}

static bool shim_is_root_process(void)
{
	const char *pid = getenv(RUN_ENV_PID);

	return !pid || !*pid || strtol(pid, NULL, 10) == (long)getpid();
}

/* What is given; a source that is wrong, or too much, counts as not there. */
static int shim_collect_given(bool all)
{
	const char *attributes = getenv("OTEL_RESOURCE_ATTRIBUTES");
	const char *service = getenv("OTEL_SERVICE_NAME");
	const char *run = getenv(RUN_ENV_ATTRIBUTES);
	int rc = 0;

	if (all && attributes &&
	    otel_env_attributes(&shim_arena, attributes, &shim_resource) == -ENOMEM)
		return -ENOMEM;
	if (service && *service && utf8_valid(service, strlen(service)))
		rc = shim_set(pctx_string("service.name", service));
	if (!rc && all && run)
		rc = otel_env_attributes(&shim_arena, run, &shim_resource) == -ENOMEM ? -ENOMEM : 0;
	return rc;
}

static int shim_collect(bool all)
{
	static const char *const sdk[][2] = {
		{ "telemetry.sdk.name", "procscope" },
		{ "telemetry.sdk.language", "c" },
		{ "telemetry.sdk.version", PROCSCOPE_VERSION },
	};
	int rc;

	shim_resource.n = 0;
	rc = shim_collect_given(all);
	shim_own_pid = !attr_list_find(&shim_resource, SHIM_PID);
	if (!rc)
		rc = shim_default(pctx_string("service.name", shim_default_service()));
	if (!rc && shim_is_root_process())
		rc = shim_default(pctx_string(SHIM_INSTANCE_ID, shim_instance_id));
	else if (!rc)
		rc = shim_set(pctx_string(SHIM_INSTANCE_ID, shim_instance_id));
	if (!rc)
		rc = shim_default(pctx_int(SHIM_PID, getpid()));
	if (!rc && *shim_executable)
		rc = shim_default(pctx_string("process.executable.name", shim_executable));
	for (size_t i = 0; !rc && i < sizeof(sdk) / sizeof(*sdk); i++)
		rc = shim_default(pctx_string(sdk[i][0], sdk[i][1]));
	return rc;
}

static int shim_publish(void)
{
	struct pctx_publish_opts opts = {
		.size = sizeof(opts),
		.resource = shim_resource.attrs,
		.n_resource = shim_resource.n,
	};

	return pctx_publish(&opts);
}

static void shim_in_child(void)
{
	char filters[sizeof(shim_filters)];
	int saved = errno;

	shim_seccomp_state(filters, sizeof(filters));
	if (!strcmp(filters, shim_filters)) {
		shim_new_instance_id();
		/* no memory is needed for attributes that are there already */
		(void)!shim_set(pctx_string(SHIM_INSTANCE_ID, shim_instance_id));
		if (shim_own_pid)
			(void)!shim_set(pctx_int(SHIM_PID, getpid()));
		(void)!shim_publish();
	}
	errno = saved;
}

static void shim_start(void)
{
	const char *follow = getenv(RUN_ENV_FOLLOW_FORKS);
	bool only_root = follow && !strcmp(follow, "0");

	if (only_root && !shim_is_root_process())
		return;
	arena_init(&shim_arena);
	shim_seccomp_state(shim_filters, sizeof(shim_filters));
	shim_find_executable();
	shim_new_instance_id();
	if (shim_collect(true))
		return;
	/* too much for a payload: the name at least */
	if (shim_publish() == -EMSGSIZE && (shim_collect(false) || shim_publish()))
		return;
	if (!only_root)
		pthread_atfork(NULL, NULL, shim_in_child);
}

__attribute__((constructor)) static void shim_constructor(void)
{
	int saved = errno;

	shim_start();
	errno = saved;
}
