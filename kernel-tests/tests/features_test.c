/*
 * What this kernel has, asked of the kernel itself, and what libctx makes of
 * it. In a guest of the kernel tests the answers must be those of the table
 * kernel-tests/kernels; on any other machine, where no table is given, they
 * are only used to know what to expect of the library.
 *
 * Cannot show: that a feature works in every detail; the tests of the
 * libraries do that.
 */
#include <atf-c.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pctx.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA	     0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif
#define NOEXEC_SEAL  0x8u	  /* MFD_NOEXEC_SEAL: glibc 2.36 lacks it */
#define SCAN_IOCTL   0xc0606610ul /* PAGEMAP_SCAN: so do Linux 6.1's headers */
#define PAGEMAP_SOFT (UINT64_C(1) << 55)

/* in_table() - 1 or 0 as the table has it, -1 where there is no table */
static int in_table(const atf_tc_t *tc, const char *feature)
{
	const char *list, *at;
	size_t len = strlen(feature);

	if (!atf_tc_has_config_var(tc, "features"))
		return -1;
	list = atf_tc_get_config_var(tc, "features");
	for (at = strstr(list, feature); at; at = strstr(at + 1, feature))
		if ((at == list || at[-1] == ',') && (at[len] == ',' || !at[len]))
			return 1;
	return 0;
}

static void check_table(const atf_tc_t *tc, const char *feature, bool there)
{
	int want = in_table(tc, feature);

	printf("%s: %s\n", feature, there ? "there" : "not there");
	ATF_CHECK_MSG(want < 0 || want == there, "%s: the table says %d, the kernel %d", feature,
		      want, there);
}

static char *one_page(void)
{
	char *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ATF_REQUIRE(page != MAP_FAILED);
	return page;
}

ATF_TC(scan__is_as_the_table_says);
ATF_TC_HEAD(scan__is_as_the_table_says, tc)
{
	atf_tc_set_md_var(tc, "descr", "PAGEMAP_SCAN answers, or is unknown to the kernel");
}
ATF_TC_BODY(scan__is_as_the_table_says, tc)
{
	uint64_t arg[12] = { 96 }; /* size; an empty range at 0 */
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int rc;

	ATF_REQUIRE(fd >= 0);
	rc = ioctl(fd, SCAN_IOCTL, arg);
	ATF_REQUIRE_MSG(rc == 0 || errno == ENOTTY, "PAGEMAP_SCAN: %s", strerror(errno));
	close(fd);
	check_table(tc, "scan", rc == 0);
}

static bool is_soft_dirty(const char *page)
{
	uint64_t entry;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	off_t at = (off_t)((uintptr_t)page / (uintptr_t)sysconf(_SC_PAGESIZE) * sizeof(entry));

	ATF_REQUIRE(fd >= 0);
	ATF_REQUIRE_EQ(sizeof(entry), pread(fd, &entry, sizeof(entry), at));
	close(fd);
	return entry & PAGEMAP_SOFT;
}

ATF_TC(soft_dirty__is_as_the_table_says);
ATF_TC_HEAD(soft_dirty__is_as_the_table_says, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Bit 55 of a page goes with clear_refs and comes back "
			  "with a write, or is never set");
}
ATF_TC_BODY(soft_dirty__is_as_the_table_says, tc)
{
	volatile char *page = one_page();
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	bool there;

	ATF_REQUIRE(fd >= 0);
	page[0] = 1;
	there = is_soft_dirty((char *)page);
	if (there) {
		ATF_REQUIRE_EQ(1, write(fd, "4", 1));
		ATF_CHECK(!is_soft_dirty((char *)page));
		page[0] = 2;
		ATF_CHECK(is_soft_dirty((char *)page));
	}
	close(fd);
	check_table(tc, "soft", there);
}

static bool has_seal(void)
{
	long fd = syscall(SYS_memfd_create, "seal", NOEXEC_SEAL);

	if (fd >= 0)
		close((int)fd);
	else
		ATF_REQUIRE_EQ_MSG(EINVAL, errno, "memfd_create: %s", strerror(errno));
	return fd >= 0;
}

ATF_TC(seal__is_as_the_table_says);
ATF_TC_HEAD(seal__is_as_the_table_says, tc)
{
	atf_tc_set_md_var(tc, "descr", "memfd_create takes MFD_NOEXEC_SEAL, or answers EINVAL");
}
ATF_TC_BODY(seal__is_as_the_table_says, tc)
{
	check_table(tc, "seal", has_seal());
}

static bool has_names(void)
{
	return prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, one_page(), sysconf(_SC_PAGESIZE),
		     "features_test") == 0;
}

ATF_TC(names__are_as_the_table_says);
ATF_TC_HEAD(names__are_as_the_table_says, tc)
{
	atf_tc_set_md_var(tc, "descr", "An anonymous mapping can be named, or prctl refuses");
}
ATF_TC_BODY(names__are_as_the_table_says, tc)
{
	check_table(tc, "names", has_names());
}

/* block() - from now on memfd_create, or naming by prctl, is refused */
static int block(bool memfd, bool naming)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, memfd ? SYS_memfd_create : 0xffffffff, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, naming ? SYS_prctl : 0xffffffff, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_VMA, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) ? -errno : 0;
}

/* own_name() - the name /proc/self/maps shows for the context of this process */
static void own_name(char *name, size_t size)
{
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");

	snprintf(name, size, "none");
	while (maps && fgets(line, sizeof(line), maps)) {
		char *at = strpbrk(line, "[/");

		if (!at || !strstr(at, "OTEL_CTX"))
			continue;
		at[strcspn(at, "\n")] = '\0';
		snprintf(name, size, "%s", at);
	}
	if (maps)
		fclose(maps);
}

static void publish_and_tell(bool memfd, bool naming, int out)
{
	struct pctx_attr service = pctx_string("service.name", "features-test");
	struct pctx_publish_opts opts = { .size = sizeof(opts),
					  .resource = &service,
					  .n_resource = 1 };
	char name[256];
	int err = block(memfd, naming);

	if (err)
		snprintf(name, sizeof(name), "no filter: %s", strerror(-err));
	else if (pctx_publish(&opts))
		snprintf(name, sizeof(name), "refused");
	else
		own_name(name, sizeof(name));
	_exit(write(out, name, strlen(name) + 1) < 0);
}

/* published_name() - what a process is found by that may not use one or the other */
static const char *published_name(bool memfd, bool naming)
{
	static char name[256];
	int fds[2], status;
	pid_t pid;

	ATF_REQUIRE_EQ(0, pipe(fds));
	pid = fork();
	ATF_REQUIRE(pid >= 0);
	if (pid == 0)
		publish_and_tell(memfd, naming, fds[1]);
	close(fds[1]);
	ATF_REQUIRE(read(fds[0], name, sizeof(name)) > 0);
	close(fds[0]);
	ATF_REQUIRE_EQ(pid, waitpid(pid, &status, 0));
	ATF_REQUIRE_EQ(0, status);
	return name;
}

ATF_TC(publish__is_found_by_the_name_the_kernel_allows);
ATF_TC_HEAD(publish__is_found_by_the_name_the_kernel_allows, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "With memfd or naming refused, the context bears each of "
			  "the three names that this kernel can give, and where none is left "
			  "publishing fails");
}
ATF_TC_BODY(publish__is_found_by_the_name_the_kernel_allows, tc)
{
	const char *memfd = "/memfd:OTEL_CTX (deleted)";
	bool names = has_names();

	(void)tc;
	ATF_CHECK_STREQ(names ? "[anon_shmem:OTEL_CTX]" : memfd, published_name(false, false));
	ATF_CHECK_STREQ(names ? "[anon:OTEL_CTX]" : "refused", published_name(true, false));
	ATF_CHECK_STREQ(memfd, published_name(false, true));
	ATF_CHECK_STREQ("refused", published_name(true, true));
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, scan__is_as_the_table_says);
	ATF_TP_ADD_TC(tp, soft_dirty__is_as_the_table_says);
	ATF_TP_ADD_TC(tp, seal__is_as_the_table_says);
	ATF_TP_ADD_TC(tp, names__are_as_the_table_says);
	ATF_TP_ADD_TC(tp, publish__is_found_by_the_name_the_kernel_allows);
	return atf_no_error();
}
