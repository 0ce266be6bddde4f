#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "why.h"

static const int why_errnos[] = {
	[WPROF_OK] = 0,
	[WPROF_NO_PROCESS] = -ESRCH,
	[WPROF_KERNEL_THREAD] = -EINVAL,
	[WPROF_SELF] = -EINVAL,
	[WPROF_TRACED] = -EBUSY,
	[WPROF_NOT_PERMITTED] = -EPERM,
	[WPROF_SECCOMP] = -EACCES,
	[WPROF_NO_KERNEL] = -EOPNOTSUPP,
	[WPROF_NO_ARCH] = -ENOSYS,
	[WPROF_NO_INJECTOR] = -ENOENT,
	[WPROF_NO_THREAD] = -EAGAIN,
	[WPROF_ENDED] = -ESRCH,
	[WPROF_EXECED] = -ESTALE,
	[WPROF_NOT_ARMED] = -EIO,
	[WPROF_BAD_IMAGE] = -EBADMSG,
	[WPROF_HALF_MADE] = -ENODATA,
	[WPROF_PUNCHED] = -EOPNOTSUPP,
	[WPROF_NEW_FORMAT] = -EPROTONOSUPPORT,
	[WPROF_OUTSIDE] = -EXDEV,
	[WPROF_OTHER_CHAIN] = -ESTALE,
	[WPROF_SYSTEM] = -EIO,
};

int why_errno(enum wprof_reason reason)
{
	if ((size_t)reason >= sizeof(why_errnos) / sizeof(*why_errnos))
		return -EIO;
	return why_errnos[reason];
}

void why_clear(struct wprof_why *why)
{
	if (!why)
		return;
	why->reason = WPROF_OK;
	why->text[0] = '\0';
}

int why_set(struct wprof_why *why, enum wprof_reason reason, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (why) {
		why->reason = reason;
		va_start(ap, fmt);
		vsnprintf(why->text, sizeof(why->text), fmt, ap);
		va_end(ap);
	}
	errno = saved;
	return why_errno(reason);
}

int why_system(struct wprof_why *why, int err, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;
	size_t len;

	if (why) {
		why->reason = WPROF_SYSTEM;
		va_start(ap, fmt);
		vsnprintf(why->text, sizeof(why->text), fmt, ap);
		va_end(ap);
		len = strlen(why->text);
		snprintf(why->text + len, sizeof(why->text) - len, ": %s",
			 strerrordesc_np(-err) ? strerrordesc_np(-err) : "unknown error");
	}
	errno = saved;
	return err;
}
