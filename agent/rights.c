#include <inttypes.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"
#include "rights.h"

#define BIT(capability) ((uint64_t)1 << (capability))

static const struct {
	const char *name;
	uint64_t instead; /* those that serve as well */
	const char *missing_for;
	unsigned int number;
	bool dumps;
} rights[] = {
	{ "CAP_SYS_PTRACE", 0, "profiling other users' processes and reading their contexts",
	  CAP_SYS_PTRACE, false },
	{ "CAP_DAC_READ_SEARCH", BIT(CAP_DAC_OVERRIDE),
	  "profiling processes of another user than the agent's own", CAP_DAC_READ_SEARCH, false },
	{ "CAP_SYS_ADMIN", 0, "profiling processes under a seccomp filter", CAP_SYS_ADMIN, false },
	{ "CAP_SYS_ADMIN", 0, "dumps: CRIU runs with the agent's rights", CAP_SYS_ADMIN, true },
};

#define N_RIGHTS (sizeof(rights) / sizeof(rights[0]))

struct sets {
	struct __user_cap_data_struct half[2];
};

static struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };

static bool sets_get(struct sets *s)
{
	memset(s, 0, sizeof(*s));
	return syscall(SYS_capget, &header, s->half) == 0;
}

static uint64_t sets_effective(const struct sets *s)
{
	return (uint64_t)s->half[1].effective << 32 | s->half[0].effective;
}

/*
 * A program that is not root's passes on to those it executes only what is
 * ambient, and with no_new_privs their files cannot give it to them either.
 */
static void rights_hand_on(void)
{
	struct sets s;

	if (geteuid() == 0 || !sets_get(&s))
		return;
	for (size_t i = 0; i < 2; i++)
		s.half[i].inheritable = s.half[i].permitted;
	if (syscall(SYS_capset, &header, s.half))
		return;
	for (size_t i = 0; i < N_RIGHTS; i++)
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, rights[i].number, 0, 0);
}

void rights_settle(void)
{
	rights_hand_on();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		log_warn("no_new_privs cannot be set", "error=\"%m\"");
}

void rights_report(bool dumps)
{
	struct sets s;
	uint64_t have = sets_get(&s) ? sets_effective(&s) : 0;

	for (size_t i = 0; i < N_RIGHTS; i++)
		if (!(have & (BIT(rights[i].number) | rights[i].instead)) &&
		    (dumps || !rights[i].dumps))
			log_info("capability missing", "name=%s not_possible=\"%s\"",
				 rights[i].name, rights[i].missing_for);
}
