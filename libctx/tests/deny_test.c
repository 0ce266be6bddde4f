/*
 * Publishing where the kernel or a sandbox says no: system calls are refused by
 * seccomp filters, each in a forked child, as a filter cannot be taken off.
 */
#include <atf-c.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "pub_util.h"
#include "state.h"
#include "sys.h"

#define FILTER(...)                                                      \
	do {                                                             \
		static const struct pub_rule rules_[] = { __VA_ARGS__ }; \
		pub_filter(rules_, sizeof(rules_) / sizeof(*rules_));    \
	} while (0)

/* A first publish must fail with @error and leave nothing behind. */
static void fails_with(int error)
{
	struct pub_mapping m[1];
	int fds = pub_fds();

	for (int i = 0; i < 3; i++) {
		CHILD_REQUIRE(pub_service("a") == -error);
		CHILD_REQUIRE(pub_mappings(m, 1) == 0);
	}
	CHILD_REQUIRE(pub_fds() == fds);
	CHILD_REQUIRE(pctx_unpublish() == -ENODATA);
}

static void no_memfd_no_name(void)
{
	FILTER(DENY(memfd_create, ENOSYS), DENY(prctl, EINVAL));
	fails_with(EOPNOTSUPP);
}

CASE(memfd__and_naming_denied, "With neither memfd nor naming, publishing fails and nothing stays")
{
	ATF_CHECK_EQ(pub_child(no_memfd_no_name), 0);
}

static void no_memory_at_all(void)
{
	FILTER(DENY(mmap, ENOMEM));
	CHILD_REQUIRE(pub_service("a") == -ENOMEM);
	CHILD_REQUIRE(pctx_unpublish() == -ENOMEM);
}

CASE(first_call__no_memory, "Without memory for its state every first call is -ENOMEM")
{
	ATF_CHECK_EQ(pub_child(no_memory_at_all), 0);
}

static void no_descriptor(void)
{
	FILTER(DENY(memfd_create, EMFILE), DENY(prctl, EINVAL));
	fails_with(EMFILE);
}

static void no_memory_for_memfd(void)
{
	FILTER(DENY(memfd_create, ENOMEM), DENY(prctl, EINVAL));
	fails_with(ENOMEM);
}

CASE(memfd__lacking, "Where descriptors or memory ran out, that is the error, not the sandbox")
{
	ATF_CHECK_EQ(pub_child(no_descriptor), 0);
	ATF_CHECK_EQ(pub_child(no_memory_for_memfd), 0);
}

/* An answer of success to prctl stands for a kernel that can name mappings. */
static void no_memfd_but_name(void)
{
	struct pub *p;

	FILTER(DENY(memfd_create, EPERM), DENY(prctl, 0));
	CHILD_REQUIRE(pub_service("a") == 0);
	CHILD_REQUIRE(state_lock(&p) == 0);
	CHILD_REQUIRE(p->header && p->header->published_at_ns);
	CHILD_REQUIRE(!memcmp(p->header->signature, CTX_SIGNATURE, CTX_SIGNATURE_SIZE));
	state_unlock(p);
	CHILD_REQUIRE(pub_service("b") == 0);
	CHILD_REQUIRE(pctx_unpublish() == 0);
}

CASE(memfd__denied_naming_works, "Without memfd a mapping that could be named is enough")
{
	ATF_CHECK_EQ(pub_child(no_memfd_but_name), 0);
}

static void no_memfd(void)
{
	struct pub_mapping m[1];

	if (!pub_can_name()) {
		FILTER(DENY(memfd_create, EPERM));
		fails_with(EOPNOTSUPP);
		return;
	}
	FILTER(DENY(memfd_create, EPERM));
	CHILD_REQUIRE(pub_service("a") == 0);
	CHILD_REQUIRE(pub_mappings(m, 1) == 1);
	CHILD_REQUIRE(!strcmp(m[0].name, "[anon:OTEL_CTX]"));
	CHILD_REQUIRE(!strcmp(m[0].perms, "rw-p"));
}

CASE(memfd__denied, "Without memfd the kernel's own naming decides")
{
	ATF_CHECK_EQ(pub_child(no_memfd), 0);
}

static void no_seal_flag(void)
{
	FILTER(DENY_IF(memfd_create, EINVAL, 1, MFD_NOEXEC_SEAL, MFD_NOEXEC_SEAL));
	CHILD_REQUIRE(pub_service("a") == 0);
	CHILD_REQUIRE(pub_is_published("a"));
}

CASE(memfd__seal_flag_unknown, "A kernel that does not know MFD_NOEXEC_SEAL is asked again without")
{
	ATF_CHECK_EQ(pub_child(no_seal_flag), 0);
}

/* Linux 6.3 has it: on older ones such a sandbox allows no memfd at all. */
static bool kernel_can_seal(void)
{
	long fd = syscall(SYS_memfd_create, "probe", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd >= 0)
		close((int)fd);
	return fd >= 0;
}

static void only_seal_flag(void)
{
	bool can_publish = kernel_can_seal() || pub_can_name();

	FILTER(DENY_IF(memfd_create, EACCES, 1, MFD_NOEXEC_SEAL, 0));
	if (!can_publish) {
		fails_with(EOPNOTSUPP);
		return;
	}
	CHILD_REQUIRE(pub_service("a") == 0);
	CHILD_REQUIRE(pub_is_published("a"));
}

CASE(memfd__seal_flag_required,
     "A sandbox that wants MFD_NOEXEC_SEAL gets it where the kernel knows it")
{
	ATF_CHECK_EQ(pub_child(only_seal_flag), 0);
}

static void no_name(void)
{
	FILTER(DENY(prctl, EPERM));
	errno = 77;
	CHILD_REQUIRE(pub_service("a") == 0);
	CHILD_REQUIRE(pub_service("b") == 0);
	CHILD_REQUIRE(errno == 77);
	CHILD_REQUIRE(pub_is_published("b"));
}

CASE(naming__denied, "That naming fails is no error where memfd works")
{
	ATF_CHECK_EQ(pub_child(no_name), 0);
}

static void name_kills(void)
{
	static const struct pub_rule rule = { SYS_prctl, 0, true, 0, 0xffffffffu, PR_SET_VMA };

	pub_filter(&rule, 1);
	(void)!pub_service("a");
}

CASE(naming__kills,
     "The attempt to name is made even where a filter kills for it, as the OTEP demands")
{
	int status = pub_child(name_kills);

	ATF_CHECK(WIFSIGNALED(status));
	ATF_CHECK_EQ(WTERMSIG(status), SIGSYS);
}

static void no_ftruncate(void)
{
	FILTER(DENY(ftruncate, EIO));
	fails_with(EIO);
}

CASE(ftruncate__denied, "A memfd that cannot be sized is a failure, without an anonymous fallback")
{
	ATF_CHECK_EQ(pub_child(no_ftruncate), 0);
}

static void no_file_size(void)
{
	struct rlimit none = { 4095, RLIM_INFINITY };

	CHILD_REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
	fails_with(EFBIG);
	none.rlim_cur = 4096;
	CHILD_REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
	CHILD_REQUIRE(pub_service("a") == 0);
}

CASE(ftruncate__file_size_limit, "A limit on file sizes is an error, and no signal that kills")
{
	ATF_CHECK_EQ(pub_child(no_file_size), 0);
}

static void no_mmap_of_memfd(void)
{
	FILTER(DENY_IF(mmap, ENODEV, 3, MAP_ANONYMOUS, 0));
	fails_with(ENODEV);
}

CASE(mmap__of_memfd_denied,
     "A memfd that cannot be mapped is a failure, without an anonymous fallback")
{
	ATF_CHECK_EQ(pub_child(no_mmap_of_memfd), 0);
}

static void no_mmap_for_payload(void)
{
	struct pub_mapping m[1];
	int fds = pub_fds();

	FILTER(DENY_IF(mmap, ENOMEM, 1, 0xffffffffu, 28672));
	CHILD_REQUIRE(pub_service_and_bytes("a", 28000) == -ENOMEM);
	CHILD_REQUIRE(pub_mappings(m, 1) == 0);
	CHILD_REQUIRE(pub_fds() == fds);
	CHILD_REQUIRE(pub_service("a") == 0);
}

CASE(mmap__for_payload_denied, "Without memory for the payload nothing is published")
{
	ATF_CHECK_EQ(pub_child(no_mmap_for_payload), 0);
}

static void no_mmap_at_all(void)
{
	FILTER(DENY(mmap, ENOMEM));
	CHILD_REQUIRE(pub_service("a") == -ENOMEM);
	CHILD_REQUIRE(pctx_unpublish() == -ENOMEM);
}

CASE(mmap__denied, "Without any memory publishing answers -ENOMEM")
{
	ATF_CHECK_EQ(pub_child(no_mmap_at_all), 0);
}

static void no_dontfork(void)
{
	FILTER(DENY_IF(madvise, EINVAL, 2, 0xffffffffu, MADV_DONTFORK));
	fails_with(EINVAL);
}

CASE(madvise__dontfork_denied, "A mapping that children would inherit is not published")
{
	ATF_CHECK_EQ(pub_child(no_dontfork), 0);
}

/* What was published before the filter must be there afterwards. */
static void grow_fails_with(int error)
{
	struct ctx_header before = *pub_header();
	int fds = pub_fds();

	CHILD_REQUIRE(pub_service_and_bytes("new", 30000) == -error);
	CHILD_REQUIRE(pub_header());
	CHILD_REQUIRE(!memcmp(&before, pub_header(), sizeof(before)));
	CHILD_REQUIRE(pub_is_published("old"));
	CHILD_REQUIRE(pub_fds() == fds);
	/* what needs no new memory works on */
	CHILD_REQUIRE(pub_service("next") == 0);
	CHILD_REQUIRE(pub_is_published("next"));
}

static void published_twice(void)
{
	CHILD_REQUIRE(pub_service("older") == 0);
	CHILD_REQUIRE(pub_service("old") == 0);
}

static void update_no_mmap(void)
{
	published_twice();
	FILTER(DENY_IF(mmap, ENOMEM, 1, 0xffffffffu, 32768));
	grow_fails_with(ENOMEM);
}

static void update_no_dontfork(void)
{
	published_twice();
	FILTER(DENY_IF(madvise, EAGAIN, 2, 0xffffffffu, MADV_DONTFORK));
	grow_fails_with(EAGAIN);
}

CASE(update__no_memory, "An update that gets no memory leaves the old context, and later ones work")
{
	ATF_CHECK_EQ(pub_child(update_no_mmap), 0);
	ATF_CHECK_EQ(pub_child(update_no_dontfork), 0);
}

static void no_wipeonfork(void)
{
	FILTER(DENY_IF(madvise, EINVAL, 2, 0xffffffffu, MADV_WIPEONFORK));
	CHILD_REQUIRE(pub_service("a") == 0);
	CHILD_REQUIRE(pub_service("b") == 0);
	CHILD_REQUIRE(pub_is_published("b"));
}

static void no_wipeonfork_fork(void)
{
	no_wipeonfork();
	CHILD_REQUIRE(pub_child(no_wipeonfork) == 0);
	CHILD_REQUIRE(pub_is_published("b"));
}

static void no_wipeonfork_locked(void)
{
	struct pub *p;

	no_wipeonfork();
	CHILD_REQUIRE(state_lock(&p) == 0);
	/* the child's copy of the lock is held by a thread it does not have */
	CHILD_REQUIRE(pub_child(no_wipeonfork) == 0);
	state_unlock(p);
	CHILD_REQUIRE(pub_service("c") == 0);
}

CASE(madvise__wipeonfork_denied, "Before Linux 4.14 a child notices the fork by its PID")
{
	ATF_CHECK_EQ(pub_child(no_wipeonfork_fork), 0);
	ATF_CHECK_EQ(pub_child(no_wipeonfork_locked), 0);
}

static void no_proc(void)
{
	FILTER(DENY(openat, EACCES));
	CHILD_REQUIRE(pub_service("a") == 0);
}

CASE(proc__denied, "Where /proc cannot be read, no other context is looked for")
{
	ATF_CHECK_EQ(pub_child(no_proc), 0);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, first_call__no_memory);
	ATF_TP_ADD_TC(tp, memfd__and_naming_denied);
	ATF_TP_ADD_TC(tp, memfd__lacking);
	ATF_TP_ADD_TC(tp, memfd__denied_naming_works);
	ATF_TP_ADD_TC(tp, memfd__denied);
	ATF_TP_ADD_TC(tp, memfd__seal_flag_unknown);
	ATF_TP_ADD_TC(tp, memfd__seal_flag_required);
	ATF_TP_ADD_TC(tp, naming__denied);
	ATF_TP_ADD_TC(tp, naming__kills);
	ATF_TP_ADD_TC(tp, ftruncate__denied);
	ATF_TP_ADD_TC(tp, ftruncate__file_size_limit);
	ATF_TP_ADD_TC(tp, mmap__of_memfd_denied);
	ATF_TP_ADD_TC(tp, mmap__for_payload_denied);
	ATF_TP_ADD_TC(tp, mmap__denied);
	ATF_TP_ADD_TC(tp, madvise__dontfork_denied);
	ATF_TP_ADD_TC(tp, update__no_memory);
	ATF_TP_ADD_TC(tp, madvise__wipeonfork_denied);
	ATF_TP_ADD_TC(tp, proc__denied);
	return atf_no_error();
}
