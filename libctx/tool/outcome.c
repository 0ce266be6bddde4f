#include <errno.h>
#include <stddef.h>

#include "cli.h"
#include "outcome.h"

static const struct outcome outcomes[] = {
	{ -ENODATA, "none_published", "it published none; --fallback describes it without",
	  CLI_UNAVAILABLE, true },
	{ -EAGAIN, "being_updated", "it is being updated all the time; try again", CLI_UNAVAILABLE,
	  true },
	{ -EBADMSG, "malformed", "what it published is malformed; --fallback describes it without",
	  CLI_FAILED, true },
	{ -EPROTONOSUPPORT, "unsupported_version",
	  "it has a version this program does not read; a newer one may", CLI_UNAVAILABLE, true },
	{ -ERANGE, "scan_limit", "none among the mappings allowed; raise --mappings-max",
	  CLI_UNAVAILABLE, true },
	{ -EPERM, "not_permitted", "not permitted; run as its user or as root", CLI_FAILED, false },
	{ -ETIMEDOUT, "no_answer",
	  "its memory does not answer: it lies behind a userfaultfd or in a file system that "
	  "hangs; try again when that is served",
	  CLI_FAILED, true },
	{ -ESRCH, "gone", "no such process; `pctx list' shows those that published one", CLI_FAILED,
	  false },
	{ -ENOMEM, "failed", "out of memory", CLI_FAILED, false },
	{ -EMFILE, "failed", "too many open files; raise ulimit -n", CLI_FAILED, false },
	{ -ENFILE, "failed", "too many open files on this host", CLI_FAILED, false },
	{ -EINVAL, "failed", "no such procfs directory; --procfs DIR names one", CLI_FAILED,
	  false },
	{ 0, "failed", "an error that was not expected", CLI_FAILED, false },
};

const struct outcome *outcome_of(int error)
{
	size_t i = 0;

	while (outcomes[i].error && outcomes[i].error != error)
		i++;
	return &outcomes[i];
}
