/*
 * Preloaded: a CLOCK_BOOTTIME that reads what FAKE_CLOCK says, "S.NNNNNNNNN,..."
 * one after the other, the last one for ever; "fail" is an error. Other clocks
 * are left alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *next;

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ts)
{
	char *end;

	if (clock != CLOCK_BOOTTIME)
		return (int)syscall(SYS_clock_gettime, clock, ts);
	if (!next)
		next = getenv("FAKE_CLOCK");
	if (!next || !strncmp(next, "fail", 4)) {
		errno = EINVAL;
		return -1;
	}
	ts->tv_sec = strtoll(next, &end, 10);
	ts->tv_nsec = *end == '.' ? strtol(end + 1, &end, 10) : 0;
	if (*end == ',')
		next = end + 1;
	return 0;
}
