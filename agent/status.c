#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

static const struct {
	int error;
	enum rpc_code code;
} status_table[] = {
	{ EINVAL, RPC_INVALID_ARGUMENT },
	{ E2BIG, RPC_INVALID_ARGUMENT },
	{ ERANGE, RPC_INVALID_ARGUMENT },
	{ ENOENT, RPC_NOT_FOUND },
	{ ESRCH, RPC_NOT_FOUND },
	{ ENODATA, RPC_NOT_FOUND },
	{ EPERM, RPC_PERMISSION_DENIED },
	{ EACCES, RPC_PERMISSION_DENIED },
	{ EEXIST, RPC_ALREADY_EXISTS },
	{ EALREADY, RPC_ALREADY_EXISTS },
	{ ENOTCONN, RPC_FAILED_PRECONDITION },
	{ EAGAIN, RPC_UNAVAILABLE },
	{ EBUSY, RPC_UNAVAILABLE },
	{ ENOMEM, RPC_RESOURCE_EXHAUSTED },
	{ ENOSPC, RPC_RESOURCE_EXHAUSTED },
	{ EMFILE, RPC_RESOURCE_EXHAUSTED },
	{ ENFILE, RPC_RESOURCE_EXHAUSTED },
	{ ETIMEDOUT, RPC_DEADLINE_EXCEEDED },
	{ ECANCELED, RPC_CANCELLED },
	{ ENOSYS, RPC_UNIMPLEMENTED },
	{ EOPNOTSUPP, RPC_UNIMPLEMENTED },
	{ EPROTONOSUPPORT, RPC_UNIMPLEMENTED },
	{ EBADMSG, RPC_DATA_LOSS },
};

enum rpc_code status_code(int error)
{
	for (size_t i = 0; i < sizeof(status_table) / sizeof(status_table[0]); i++)
		if (status_table[i].error == -error)
			return status_table[i].code;
	return RPC_INTERNAL;
}

void status_fail(struct rpc *rpc, int error, const char *what)
{
	char text[320];

	snprintf(text, sizeof(text), "%s: %s", what, strerror(-error));
	rpc_fail(rpc, status_code(error), text);
}
