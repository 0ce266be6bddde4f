/*
 * The order in which the publisher changes its header, store by store: the page is
 * read-only, each store faults, is done as a single step, and what it made of the
 * header is kept. That is the order of the program; x86-64 shows stores in it. What
 * another processor would make of the fences cannot be seen here.
 */
#include <atf-c.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "pub_util.h"
#include "sys.h"

#define STORES_MAX 64
#define TRAP_FLAG  0x100

static struct ctx_header *watched;
static struct ctx_header seen[STORES_MAX]; /* after each store */
static unsigned int n_seen;

static void on_fault(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	uintptr_t at = (uintptr_t)info->si_addr;

	(void)number;
	if (at - (uintptr_t)watched >= sys_page_size() ||
	    mprotect(watched, sys_page_size(), PROT_READ | PROT_WRITE))
		_exit(98);
	uc->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)number;
	(void)info;
	uc->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	if (n_seen < STORES_MAX)
		seen[n_seen++] = *watched;
	if (mprotect(watched, sys_page_size(), PROT_READ))
		_exit(97);
}

static void watch_header(void)
{
	struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	struct sigaction step = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };

	watched = pub_header();
	ATF_REQUIRE(watched != NULL);
	ATF_REQUIRE_EQ(sigaction(SIGSEGV, &fault, NULL), 0);
	ATF_REQUIRE_EQ(sigaction(SIGTRAP, &step, NULL), 0);
	n_seen = 0;
	ATF_REQUIRE_EQ(mprotect(watched, sys_page_size(), PROT_READ), 0);
}

static bool same_but_time(const struct ctx_header *a, const struct ctx_header *b)
{
	return a->version == b->version && a->payload == b->payload &&
	       a->payload_size == b->payload_size &&
	       memcmp(a->signature, b->signature, sizeof(a->signature)) == 0;
}

CASE(update__time_first_and_last,
     "An update makes the timestamp 0, then changes the rest, then sets the later one")
{
	struct ctx_header before;

	ATF_REQUIRE_EQ(pub_service("a"), 0);
	watch_header();
	before = *watched;
	ATF_REQUIRE_EQ(pub_service_and_bytes("b", 1000), 0);
	ATF_REQUIRE(n_seen >= 3 && n_seen < STORES_MAX);
	ATF_CHECK_EQ(seen[0].published_at_ns, 0);
	ATF_CHECK(same_but_time(&seen[0], &before));
	for (unsigned int i = 1; i < n_seen - 1; i++)
		ATF_CHECK_EQ(seen[i].published_at_ns, 0);
	ATF_CHECK(seen[n_seen - 1].published_at_ns > before.published_at_ns);
	ATF_CHECK(same_but_time(&seen[n_seen - 1], &seen[n_seen - 2]));
	ATF_CHECK(seen[n_seen - 1].payload != before.payload);
	ATF_CHECK(seen[n_seen - 1].payload_size > 1000);
}

CASE(update__refused_stores_nothing, "An update that is refused does not touch the header")
{
	struct pctx_attr twice[] = { pctx_string("k", "1"), pctx_string("k", "2") };
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .resource = twice,
					  .n_resource = 2 };

	ATF_REQUIRE_EQ(pub_service("a"), 0);
	watch_header();
	ATF_CHECK_EQ(pctx_publish(&opts), -ENOTUNIQ);
	ATF_CHECK_EQ(n_seen, 0);
}

CASE(unpublish__time_first, "A withdrawal makes the timestamp 0 before all else")
{
	struct ctx_header before;

	ATF_REQUIRE_EQ(pub_service("a"), 0);
	watch_header();
	before = *watched;
	ATF_REQUIRE_EQ(pctx_unpublish(), 0);
	ATF_REQUIRE(n_seen >= 1);
	ATF_CHECK_EQ(seen[0].published_at_ns, 0);
	ATF_CHECK(same_but_time(&seen[0], &before));
	for (unsigned int i = 1; i < n_seen; i++)
		ATF_CHECK_EQ(seen[i].published_at_ns, 0);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, update__time_first_and_last);
	ATF_TP_ADD_TC(tp, update__refused_stores_nothing);
	ATF_TP_ADD_TC(tp, unpublish__time_first);
	return atf_no_error();
}
