/*
 * check.c - what this kernel, these privileges and that target allow.
 *
 * Features are probed, not read off a version: each probe does on our own
 * process what profiling does to the target. Only known bugs, which no probe
 * can show, go by the version.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "arch/arch.h"
#include "profile.h"
#include "rival.h"
#include "why.h"

#define CAP_SYS_PTRACE_BIT 19
#define CAP_SYS_ADMIN_BIT  21

struct check {
	struct wprof_fact *facts;
	size_t n, room;
	pid_t pid;
};

static void check_add(struct check *c, const char *name, int state, bool needed, const char *fmt,
		      ...) __attribute__((format(printf, 5, 6)));

static void check_add(struct check *c, const char *name, int state, bool needed, const char *fmt,
		      ...)
{
	va_list ap;

	if (c->n < c->room) {
		struct wprof_fact *f = &c->facts[c->n];

		f->name = name;
		f->state = state;
		f->needed = needed;
		va_start(ap, fmt);
		vsnprintf(f->reason, sizeof(f->reason), fmt, ap);
		va_end(ap);
	}
	c->n++;
}

static int check_read(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return 0;
}

/* A field of /proc/PID/status as a number, or -1 */
static long long check_status(pid_t pid, const char *field, int base)
{
	char path[48], buf[8192], key[32];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	snprintf(key, sizeof(key), "\n%s:", field);
	if (check_read(path, buf, sizeof(buf)) || !(at = strstr(buf, key)))
		return -1;
	return strtoll(at + strlen(key), NULL, base);
}

static int check_sysctl(const char *path)
{
	char buf[32];

	return check_read(path, buf, sizeof(buf)) ? -1 : atoi(buf);
}

/* ---- the kernel --------------------------------------------------------------- */

static int own_uffd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd < 0 && errno == EINVAL)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* 1: the kernel has it, 0: it has not, -errno: could not ask */
static int probe_async(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = own_uffd(), rc;

	if (fd < 0)
		return fd;
	rc = ioctl(fd, UFFDIO_API, &api) ? -errno : !!(api.features & UFFD_FEATURE_WP_ASYNC);
	close(fd);
	return rc;
}

/* Scan [p, p + len) of our own memory; the number of regions or -errno */
static int probe_scan(const void *p, size_t len, uint64_t mask, struct uapi_page_region *region)
{
	struct uapi_pm_scan_arg arg = {
		.size = sizeof(arg),
		.start = (uintptr_t)p,
		.end = (uintptr_t)p + len,
		.vec = (uintptr_t)region,
		.vec_len = 1,
		.category_mask = mask,
		.return_mask = mask,
	};
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = ioctl(fd, UAPI_PAGEMAP_SCAN, &arg);
	if (rc < 0)
		rc = -errno;
	close(fd);
	return rc;
}

static void *probe_page(size_t *page)
{
	char *p;

	*page = (size_t)sysconf(_SC_PAGESIZE);
	p = mmap(NULL, *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	*p = 1;
	return p;
}

/* A scan for one category: 1 it knows it, 0 it does not, -errno could not ask */
static int probe_category(uint64_t mask)
{
	struct uapi_page_region region;
	size_t page;
	void *p = probe_page(&page);
	int rc;

	if (!p)
		return -ENOMEM;
	rc = probe_scan(p, page, mask, &region);
	munmap(p, page);
	if (rc == -ENOTTY || rc == -EINVAL)
		return 0;
	return rc < 0 ? rc : 1;
}

/* A page just written reads soft-dirty, where the kernel has that: 1, 0, -errno */
int profile_soft_dirty(void)
{
	size_t page;
	uint64_t entry = 0;
	void *p = probe_page(&page);
	int fd, rc = 0;

	if (!p)
		return -ENOMEM;
	fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, &entry, sizeof(entry),
			    (off_t)((uintptr_t)p / page * sizeof(entry))) != sizeof(entry))
		rc = -EIO;
	if (fd >= 0)
		close(fd);
	munmap(p, page);
	if (!rc && entry & UAPI_PM_SOFT_DIRTY)
		return probe_category(UAPI_PAGE_IS_SOFT_DIRTY);
	return rc;
}

/*
 * Registered memory that does not exist: does it read written on the fast path,
 * so that whatever does not is armed? 1 or 0.
 */
int profile_holes_written(void)
{
	const size_t len = 4u << 20;
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };
	struct uapi_page_region region = { 0 };
	int fd = own_uffd(), rc = 0;
	void *p;

	if (fd < 0)
		return 0;
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED) {
		struct uffdio_register reg = {
			.range = { (uintptr_t)p, len },
			.mode = UFFDIO_REGISTER_MODE_WP,
		};

		rc = !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &reg) &&
		     probe_scan(p, len, UAPI_PAGE_IS_WRITTEN, &region) == 1 &&
		     region.end - region.start == len;
		munmap(p, len);
	}
	close(fd);
	return rc;
}

static const char no_uffd[] = "built without CONFIG_USERFAULTFD";
static const char no_async[] = "has no write tracking that does not stop the writer "
			       "(UFFD_FEATURE_WP_ASYNC, Linux 6.7)";
static const char no_scan[] = "has no PAGEMAP_SCAN (Linux 6.7)";

static void check_kernel(struct check *c)
{
	int async = probe_async(), scan = probe_category(UAPI_PAGE_IS_WRITTEN);
	int rc;

	check_add(c, "architecture", ARCH_SUPPORTED, true, "%s",
		  ARCH_SUPPORTED ? "injection is there for " ARCH_NAME
				 : "no injection for " ARCH_NAME " yet");
	if (async == -ENOSYS)
		check_add(c, "userfaultfd", 0, true, "the kernel was %s", no_uffd);
	else if (async < 0)
		check_add(c, "userfaultfd", -1, true, "this process may not ask: %s",
			  strerrordesc_np(-async));
	else
		check_add(c, "userfaultfd", 1, true, "the kernel has it");
	check_add(c, "uffd_wp_async", async < 0 ? -1 : async, true, "the kernel %s",
		  async < 0 ? "could not be asked"
		  : async   ? "tracks writes by itself"
			    : no_async);
	check_add(c, "pagemap_scan", scan < 0 ? -1 : scan, true, "the kernel %s",
		  scan < 0 ? "could not be asked"
		  : scan   ? "tells what was written"
			   : no_scan);
	rc = profile_holes_written();
	check_add(c, "scan_of_holes", rc, false, "pages that do not exist %s",
		  rc ? "read as written: populated pages are counted for nothing"
		     : "are not reported: populated pages are counted now and then");
	rc = probe_category(UAPI_PAGE_IS_GUARD);
	check_add(c, "guard_regions", rc < 0 ? -1 : rc, false, "the scan %s guard regions (6.15)",
		  rc > 0 ? "knows" : "does not know");
	rc = profile_soft_dirty();
	check_add(
		c, "soft_dirty", rc < 0 ? -1 : rc, false,
		rc > 0 ? "the kernel has it: CRIU can pre-dump"
		       : "built without CONFIG_MEM_SOFT_DIRTY: no CRIU pre-dump, no --soft-dirty");
}

static bool version_below(const char *release, int a, int b, int c)
{
	int x = 0, y = 0, z = 0;

	if (sscanf(release, "%d.%d.%d", &x, &y, &z) < 2)
		return false;
	return x != a ? x < a : y != b ? y < b : z < c;
}

/* Bugs that a probe cannot show, by the release of the 6.12 series that mended them;
 * what newer series have of them is not known here. */
static const struct {
	int release;
	const char *what;
} bugs_6_12[] = {
	{ 11, "may miss writes to memory moved by mremap" },
	{ 25, "may hang when tracking ends while the memory is in use" },
	{ 36, "counts huge pages of zeros as data" },
	{ 54, "may lose what is written when a huge page of zeros is split" },
	{ 97, "may deadlock when it scans hugetlb memory" },
	{ 103, "may tell of dropped pages in one way of scanning and not in another" },
	{ 117, "may scan a process that is just ending" },
};

static void check_bugs_6_12(struct check *c, const char *release)
{
	for (size_t i = 0; i < sizeof(bugs_6_12) / sizeof(bugs_6_12[0]); i++)
		if (version_below(release, 6, 12, bugs_6_12[i].release)) {
			check_add(c, "scan_fixes", 0, false,
				  "Linux %.60s %s: mended in 6.12.%d; take 6.12.117 or newer",
				  release, bugs_6_12[i].what, bugs_6_12[i].release);
			return;
		}
	check_add(c, "scan_fixes", 1, false, "those known are mended in Linux %.60s", release);
}

static void check_bugs(struct check *c)
{
	struct utsname u;

	if (uname(&u) || version_below(u.release, 6, 7, 0))
		return; /* it has no scan */
	if (version_below(u.release, 6, 8, 10))
		check_add(c, "scan_fixes", 0, false,
			  "Linux %.60s can lose written pages while it "
			  "scans: mended in 6.8.10 and 6.9",
			  u.release);
	else if (version_below(u.release, 6, 13, 0))
		check_bugs_6_12(c, u.release);
	else
		check_add(c, "scan_fixes", 1, false, "none is on record here for Linux %.60s",
			  u.release);
}

/* ---- privileges -------------------------------------------------------------------- */

static bool check_cap(unsigned int bit)
{
	return check_status(getpid(), "CapEff", 16) >> bit & 1;
}

static void check_privileges(struct check *c)
{
	bool ptrace_cap = check_cap(CAP_SYS_PTRACE_BIT), admin = check_cap(CAP_SYS_ADMIN_BIT);
	int scope = check_sysctl("/proc/sys/kernel/yama/ptrace_scope");
	int unprivileged = check_sysctl("/proc/sys/vm/unprivileged_userfaultfd");
	bool filtered = check_status(getpid(), "Seccomp", 10) > 0;

	if (ptrace_cap)
		check_add(c, "ptrace", scope != 3, true,
			  scope == 3
				  ? "kernel.yama.ptrace_scope is 3: nobody may trace until a reboot"
				  : "CAP_SYS_PTRACE: any process");
	else
		check_add(
			c, "ptrace", scope <= 0, false,
			scope <= 0
				? "processes of the same user, no other: CAP_SYS_PTRACE is missing"
				: "kernel.yama.ptrace_scope is %d: only children without "
				  "CAP_SYS_PTRACE",
			scope);
	check_add(c, "seccomp_suspend", admin && !filtered, false,
		  "a target with a seccomp "
		  "filter can%s be profiled%s",
		  admin && !filtered ? "" : " perhaps not",
		  !admin     ? ": CAP_SYS_ADMIN is missing"
		  : filtered ? ": we are filtered too"
			     : "");
	check_add(c, "unprivileged_userfaultfd", unprivileged, false, "%s",
		  unprivileged < 0 ? "the kernel has no such switch"
		  : unprivileged   ? "on"
				   : "off: the target's userfaultfd is made for user mode only, "
				     "which is enough");
}

/* ---- the target ---------------------------------------------------------------------- */

/*
 * Reading one byte asks the kernel what tracing would ask: the user, the user
 * namespace, whether the target is dumpable, and Yama. Looking is allowed to more.
 */
static void check_attach(struct check *c, uint64_t address)
{
	char byte;
	struct iovec local = { &byte, 1 }, remote = { (void *)(uintptr_t)address, 1 };
	bool denied = process_vm_readv(c->pid, &local, 1, &remote, 1, 0) < 0 &&
		      (errno == EPERM || errno == EACCES);

	check_add(c, "target_tracing", !denied, true,
		  denied ? "this process may not trace it (Yama, another user namespace, or it is "
			   "not dumpable): run as root"
			 : "this process may trace it");
}

/* Asked for what wprof_open() refuses; where the kernel has no scan, nobody can know. */
static void check_rival(struct check *c, struct track *t)
{
	int tracked = rival_look(&t->scan, t->maps);

	if (tracked == 1 && !rival_is_target(c->pid))
		check_add(c, "target_unprofiled", 0, true,
			  "another profiler tracks its memory: end that one first");
	else if (tracked >= 0)
		check_add(c, "target_unprofiled", 1, true, "no other profiler tracks its memory");
}

static void check_access(struct check *c)
{
	struct maps_entry e = { 0 };
	struct track *t = malloc(sizeof(*t));
	int rc = t ? track_open(t, c->pid) : -ENOMEM;
	bool memory = !rc && maps_next(t->maps, &e) > 0;

	if (rc && rc != -ESRCH)
		check_add(c, "target_access", 0, true,
			  "may not look into process %d (%s): run as its user, as root, or with "
			  "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
			  (int)c->pid, strerrordesc_np(-rc));
	else if (!rc)
		check_add(c, "target_access", 1, true, "its mappings and pages can be read");
	/* of a kernel thread there is not even a file to be opened */
	if (!rc || rc == -ESRCH)
		check_add(c, "target_memory", memory, true,
			  memory ? "it has memory of its own"
				 : "no memory of its own: a kernel thread, or it has exited");
	if (memory) {
		check_attach(c, e.start);
		check_rival(c, t);
	}
	if (!rc)
		track_close(t);
	free(t);
}

/* Injection suspends a filter; that the kernel can do it shows only when it does. */
static void check_seccomp(struct check *c)
{
	long long seccomp = check_status(c->pid, "Seccomp", 10);
	bool admin = check_cap(CAP_SYS_ADMIN_BIT);
	bool filtered = check_status(getpid(), "Seccomp", 10) > 0;

	if (seccomp <= 0)
		check_add(c, "target_seccomp", 1, false, "it has no seccomp filter");
	else if (admin && !filtered)
		check_add(c, "target_seccomp", -1, false,
			  "it is filtered (mode %lld): its filter is suspended for two calls, "
			  "where the kernel has CONFIG_CHECKPOINT_RESTORE",
			  seccomp);
	else
		check_add(c, "target_seccomp", 0, true,
			  "it is filtered (mode %lld), and suspending that %s", seccomp,
			  admin ? "is refused to a process with a filter: run from outside its "
				  "container"
				: "takes CAP_SYS_ADMIN: run as root on the host");
}

static void check_target(struct check *c)
{
	long long tracer = check_status(c->pid, "TracerPid", 10);
	bool self = c->pid == getpid();

	if (tracer < 0) {
		check_add(c, "target", 0, true,
			  kill(c->pid, 0) && errno == ESRCH
				  ? "there is no process %d"
				  : "/proc hides process %d (its option hidepid): run as its user, "
				    "as root, or with CAP_SYS_PTRACE",
			  (int)c->pid);
		return;
	}
	check_add(c, "target", !self, true,
		  self ? "process %d is the profiler itself" : "process %d is there", (int)c->pid);
	check_access(c);
	check_add(c, "target_untraced", !tracer, true,
		  tracer ? "process %lld traces it: end that one first"
			 : "no other tracer holds it",
		  tracer);
	check_seccomp(c);
}

int wprof_check(pid_t pid, struct wprof_fact *facts, size_t *n)
{
	struct check c = { .facts = facts, .room = n && facts ? *n : 0, .pid = pid };
	int saved = errno;

	if (!n || pid < 0)
		return -EINVAL;
	check_kernel(&c);
	check_bugs(&c);
	check_privileges(&c);
	if (pid)
		check_target(&c);
	*n = c.n;
	errno = saved;
	return c.n > c.room && facts ? -ERANGE : 0;
}

int profile_kernel(struct wprof_why *why)
{
	int async = probe_async(), scan = probe_category(UAPI_PAGE_IS_WRITTEN);

	if (async == -ENOSYS)
		return why_set(why, WPROF_NO_KERNEL, "this kernel was %s", no_uffd);
	if (!async)
		return why_set(why, WPROF_NO_KERNEL, "this kernel %s", no_async);
	if (!scan)
		return why_set(why, WPROF_NO_KERNEL, "this kernel %s", no_scan);
	return 0;
}
