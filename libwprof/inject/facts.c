#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "arch/arch.h"
#include "inject/facts.h"
#include "why.h"

/*
 * Order of preference. A thread asleep in a call that restarts by itself never
 * notices; one in a call that most likely does comes next. A running thread
 * takes longer to stop. One whose call never restarts (epoll_wait) is restarted
 * by hand, its timeout with it; one in state D does not stop at all.
 */
enum { RANK_QUIET, RANK_ASLEEP, RANK_STOPPED, RANK_RUNNING, RANK_EINTR, RANK_STUCK };

#define PF_KTHREAD 0x00200000u

/* One read: what proc(5) gives in one is of one moment. -errno or length. */
static ssize_t facts_slurp(const char *path, char *buf, size_t size)
{
	ssize_t n;
	int err;
	int fd;

	memset(buf, 0, size); /* text, whatever happens */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = read(fd, buf, size - 1);
	err = errno;
	close(fd);
	if (n < 0)
		return -err;
	buf[n] = '\0';
	return n;
}

/* the value of "Name:\t", NULL when the kernel has no such line */
static const char *status_field(const char *status, const char *name)
{
	size_t len = strlen(name);
	const char *line;

	for (line = status; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, " \t");
	}
	return NULL;
}

static long status_long(const char *status, const char *name)
{
	const char *value = status_field(status, name);

	return value ? strtol(value, NULL, 10) : 0;
}

static bool status_has_trap(const char *status, const char *name)
{
	const char *value = status_field(status, name);

	return value && (strtoull(value, NULL, 16) >> (SIGTRAP - 1) & 1);
}

int facts_read(pid_t pid, pid_t tid, struct facts *facts)
{
	const char *state;
	char buf[8192];
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	n = facts_slurp(path, buf, sizeof(buf));
	if (n < 0)
		return (int)n;
	state = status_field(buf, "State");
	facts->state = state ? *state : '?';
	facts->tgid = (pid_t)status_long(buf, "Tgid");
	facts->tracer = (pid_t)status_long(buf, "TracerPid");
	facts->seccomp = (int)status_long(buf, "Seccomp");
	facts->trap_busy = status_has_trap(buf, "SigIgn") || status_has_trap(buf, "SigBlk") ||
			   status_has_trap(buf, "SigPnd") || status_has_trap(buf, "ShdPnd");
	facts->has_memory = status_field(buf, "VmSize") != NULL;
	return 0;
}

static void facts_comm(pid_t pid, char *buf, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	n = facts_slurp(path, buf, size);
	if (n <= 0)
		snprintf(buf, size, "?");
	else if (buf[n - 1] == '\n')
		buf[n - 1] = '\0';
}

/* field 9 of stat; the name in parentheses may hold anything */
static bool facts_kernel_thread(pid_t pid)
{
	unsigned int flags;
	const char *p;
	char path[64];
	char buf[1024];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (facts_slurp(path, buf, sizeof(buf)) < 0)
		return false;
	p = strrchr(buf, ')');
	return p && sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
	       (flags & PF_KTHREAD);
}

int facts_traced(pid_t pid, pid_t tracer, struct wprof_why *why)
{
	char comm[64];

	facts_comm(tracer, comm, sizeof(comm));
	return why_set(why, WPROF_TRACED,
		       "process %d is already traced by process %d (%s); a process has one "
		       "tracer: wait until that one is done",
		       pid, tracer, comm);
}

/* The leader may have exited while other threads go on. */
static bool facts_any_alive(pid_t pid)
{
	struct thread thread;

	return facts_threads(pid, &thread, 1) > 0;
}

/* Reading another namespace's /proc, every number means someone else. */
static bool facts_proc_is_ours(void)
{
	char buf[32];
	ssize_t n;

	n = readlink("/proc/self", buf, sizeof(buf) - 1);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	return atoi(buf) == getpid();
}

int facts_refuse(pid_t pid, struct wprof_why *why)
{
	struct facts facts;
	int err;

	if (!facts_proc_is_ours())
		return why_set(why, WPROF_NOT_PERMITTED,
			       "/proc is missing or belongs to another PID namespace; mount "
			       "the one of this namespace");
	err = facts_read(pid, pid, &facts);
	if (err == -ESRCH)
		return why_set(why, WPROF_NO_PROCESS, "there is no process %d", pid);
	if (err == -EACCES || err == -EPERM)
		return facts_denied(pid, pid, why);
	if (err)
		return why_system(why, err, "reading the status of process %d", pid);
	if (facts.tgid != pid)
		return why_set(why, WPROF_NO_PROCESS, "%d is a thread of process %d; name that one",
			       pid, facts.tgid);
	if (facts_kernel_thread(pid))
		return why_set(why, WPROF_KERNEL_THREAD,
			       "process %d is a kernel thread: it has no memory of its own", pid);
	if ((facts.state == 'Z' || facts.state == 'X') && !facts_any_alive(pid))
		return why_set(why, WPROF_ENDED,
			       "process %d has exited; its parent has not waited for it yet", pid);
	if (facts.tracer)
		return facts_traced(pid, facts.tracer, why);
	return 0;
}

static int facts_yama(void)
{
	char buf[16];

	if (facts_slurp("/proc/sys/kernel/yama/ptrace_scope", buf, sizeof(buf)) <= 0)
		return 0;
	return atoi(buf);
}

static bool facts_same_userns(pid_t pid)
{
	struct stat self, other;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	if (stat("/proc/self/ns/user", &self) || stat(path, &other))
		return true; /* not known: do not blame it */
	return self.st_dev == other.st_dev && self.st_ino == other.st_ino;
}

static uid_t facts_uid(pid_t pid)
{
	char buf[8192];
	char path[64];
	const char *uid;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (facts_slurp(path, buf, sizeof(buf)) < 0)
		return geteuid();
	uid = status_field(buf, "Uid");
	return uid ? (uid_t)strtoul(uid, NULL, 10) : geteuid();
}

int facts_denied(pid_t pid, pid_t tid, struct wprof_why *why)
{
	struct facts facts;
	uid_t uid = facts_uid(pid);
	int yama = facts_yama();

	if (!facts_read(pid, tid, &facts) && facts.tracer)
		return facts_traced(pid, facts.tracer, why);
	if (yama >= 3)
		return why_set(why, WPROF_NOT_PERMITTED,
			       "tracing is switched off on this machine (Yama, "
			       "kernel.yama.ptrace_scope = 3) until it is started again");
	if (geteuid() && uid != geteuid())
		return why_set(why, WPROF_NOT_PERMITTED,
			       "process %d belongs to user %u; become that user or root", pid, uid);
	if (!facts_same_userns(pid))
		return why_set(why, WPROF_NOT_PERMITTED,
			       "process %d lives in another user namespace (a container) over "
			       "which this one has no rights; run from the host",
			       pid);
	if (geteuid() && yama)
		return why_set(why, WPROF_NOT_PERMITTED,
			       "Yama (kernel.yama.ptrace_scope = %d) lets only %s trace process "
			       "%d; run as root",
			       yama, yama == 1 ? "its ancestors" : "root", pid);
	if (geteuid())
		return why_set(
			why, WPROF_NOT_PERMITTED,
			"process %d forbids tracing (it is not dumpable: setuid, or it asked "
			"for that), or has more rights than this one; run as root",
			pid);
	return why_set(why, WPROF_NOT_PERMITTED,
		       "not permitted to trace process %d: CAP_SYS_PTRACE is missing, or a "
		       "security module or a container's seccomp filter forbids it",
		       pid);
}

/* number of the call the thread sleeps in; -1: none, or it runs */
static long facts_call(pid_t pid, pid_t tid)
{
	char path[64];
	char buf[256];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	if (facts_slurp(path, buf, sizeof(buf)) <= 0 || !isdigit((unsigned char)*buf))
		return -1;
	return strtol(buf, NULL, 10);
}

static int facts_rank(pid_t pid, pid_t tid, char state)
{
	static const int asleep[] = { RANK_QUIET, RANK_ASLEEP, RANK_EINTR };

	switch (state) {
	case 'S':
		return asleep[arch_call_rank(facts_call(pid, tid))];
	case 'T':
		return RANK_STOPPED;
	case 'D':
	case 't':
		return RANK_STUCK;
	default:
		return RANK_RUNNING;
	}
}

static int thread_cmp(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	return x->rank != y->rank ? x->rank - y->rank : x->tid - y->tid;
}

/* false: not a candidate */
static bool thread_read(pid_t pid, pid_t tid, struct thread *thread)
{
	struct facts facts;

	if (facts_read(pid, tid, &facts) || facts.state == 'Z' || facts.state == 'X')
		return false;
	thread->tid = tid;
	thread->state = facts.state;
	thread->seccomp = facts.seccomp;
	thread->trap_busy = facts.trap_busy;
	thread->rank = facts_rank(pid, tid, facts.state);
	return true;
}

/* Where the next one goes: behind the others, or where none of them was better */
static size_t thread_place(const struct thread *threads, size_t n, size_t max)
{
	size_t worst = 0;

	if (n < max)
		return n;
	for (size_t i = 1; i < n; i++)
		if (threads[i].rank > threads[worst].rank)
			worst = i;
	return worst;
}

/* All are looked at until one is quiet; the best of them are kept. */
int facts_threads(pid_t pid, struct thread *threads, size_t max)
{
	struct thread thread;
	struct dirent *entry;
	size_t n = 0, at;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)*entry->d_name) ||
		    !thread_read(pid, atoi(entry->d_name), &thread))
			continue;
		at = thread_place(threads, n, max);
		if (at < n && threads[at].rank <= thread.rank)
			continue;
		threads[at] = thread;
		n += at == n;
		if (thread.rank == RANK_QUIET)
			break;
	}
	closedir(dir);
	qsort(threads, n, sizeof(*threads), thread_cmp);
	return (int)n;
}

/* field 39 of stat is the processor, field 41 the policy */
int facts_processor(pid_t pid, pid_t tid)
{
	int processor, policy;
	const char *p;
	char path[64];
	char buf[1024];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	if (facts_slurp(path, buf, sizeof(buf)) < 0)
		return -1;
	p = strrchr(buf, ')');
	for (int field = 2; p && field < 39; field++)
		p = strchr(p + 1, ' ');
	if (!p || sscanf(p, " %d %*u %d", &processor, &policy) != 2)
		return -1;
	return policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE ? processor
										      : -1;
}

/* where the kernel says it has mapped the vDSO; 0: nowhere */
static uint64_t facts_vdso(pid_t tid)
{
	uint64_t auxv[128];
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/auxv", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, auxv, sizeof(auxv));
	close(fd);
	for (ssize_t i = 0; i + 1 < n / (ssize_t)sizeof(*auxv); i += 2)
		if (auxv[i] == AT_SYSINFO_EHDR)
			return auxv[i + 1];
	return 0;
}

/* look for the instruction in [start, end) of @tid, page by page */
static int insn_search(pid_t tid, uint64_t start, uint64_t end, uint64_t *insn)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned char buf[65536];
	struct iovec local = { buf, 0 }, remote;
	const unsigned char *hit;
	ssize_t n;

	for (; start < end; start += page) {
		local.iov_len = (size_t)(end - start < page ? end - start : page);
		remote.iov_base = (void *)(uintptr_t)start;
		remote.iov_len = local.iov_len;
		n = process_vm_readv(tid, &local, 1, &remote, 1, 0);
		if (n <= 0)
			return n < 0 && errno != EFAULT ? -errno : -ENOENT;
		hit = memmem(buf, (size_t)n, arch_insn, sizeof(arch_insn));
		if (hit) {
			*insn = start + (uint64_t)(hit - buf);
			return 0;
		}
	}
	return -ENOENT;
}

/*
 * A target without a vDSO (switched off, unmapped, or moved by a restore):
 * any executable mapping serves, for one instruction is run and no more. The
 * page of the old vsyscalls does not: it cannot be read, nor run as it stands.
 */
static int insn_in_maps(pid_t tid, uint64_t *insn)
{
	uint64_t start, end;
	char *line = NULL;
	size_t size = 0;
	int err = -ENOENT;
	char path[64];
	char exec;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	while (err && getline(&line, &size, f) > 0) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%*c%c", &start, &end, &exec) != 3)
			continue;
		if (exec == 'x' && !strstr(line, "[vsyscall]"))
			err = insn_search(tid, start, end, insn);
	}
	free(line);
	fclose(f);
	return err;
}

int facts_insn(pid_t tid, uint64_t *insn)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t vdso = facts_vdso(tid);
	int err;

	err = vdso ? insn_search(tid, vdso, vdso + 4 * page, insn) : -ENOENT;
	if (err == -ENOENT)
		err = insn_in_maps(tid, insn);
	return err == -EACCES ? -EPERM : err;
}
