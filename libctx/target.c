#ifdef __linux__

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target.h"

/*
 * Do the numbers in @procfs mean to us what they mean to process_vm_readv? Only
 * for the default one, and not if someone mounted that of another namespace.
 */
static bool proc_is_ours(const char *procfs)
{
	char self[32] = "";

	return !procfs && readlink("/proc/self", self, sizeof(self) - 1) > 0 &&
	       strtol(self, NULL, 10) == (long)getpid();
}

bool target_is_procfs(int dir)
{
	struct stat st;

	/* a symbolic link, which for a process of no use there leads nowhere */
	return fstatat(dir, "self", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * procfs can hide the processes of others (hidepid), in two ways: there is no directory
 * (ptraceable), or, as any path may be opened with O_PATH, there is one without anything
 * in it (invisible). The second says so when it is asked about itself; that of a process
 * that has ended does not.
 */
static bool dir_is_hidden(int dir)
{
	struct stat st;

	return fstat(dir, &st) && errno == ENOENT;
}

/* Why there is no directory? */
static int missing_why(int root, pid_t pid, bool ours)
{
	if (!target_is_procfs(root))
		return -EINVAL;
	return ours && (kill(pid, 0) == 0 || errno == EPERM) ? -EPERM : -ESRCH;
}

static int dir_error(int error)
{
	if (error == EACCES)
		return -EPERM;
	return error == ENOTDIR ? -EINVAL : -error;
}

int target_open(struct target *t, pid_t pid, const char *procfs)
{
	bool ours = proc_is_ours(procfs);
	char name[16];
	int root;

	if (pid <= 0)
		return -EINVAL;
	root = open(procfs ? procfs : "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return errno == ENOENT ? -EINVAL : dir_error(errno);
	snprintf(name, sizeof(name), "%d", (int)pid);
	t->dir = openat(root, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->dir < 0) {
		int error = errno == ENOENT ? missing_why(root, pid, ours) : dir_error(errno);

		close(root);
		return error;
	}
	close(root);
	if (dir_is_hidden(t->dir)) {
		close(t->dir);
		return -EPERM;
	}
	t->thread = -1;
	t->mem = -1;
	t->process = pid;
	t->by_root = !ours;
	target_refresh(t);
	return 0;
}

void target_refresh(struct target *t)
{
	if (t->mem >= 0)
		close(t->mem);
	if (t->thread >= 0)
		close(t->thread);
	t->mem = -1;
	t->thread = -1;
	t->pid = t->process;
	t->by_number = !t->by_root;
}

void target_close(struct target *t)
{
	target_refresh(t);
	close(t->dir);
}

bool target_gone(const struct target *t)
{
	return faccessat(t->dir, "stat", F_OK, 0) && (errno == ENOENT || errno == ESRCH) &&
	       !dir_is_hidden(t->dir);
}

int target_file(const struct target *t, const char *name)
{
	int fd = openat(t->thread >= 0 ? t->thread : t->dir, name, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	if (errno == EACCES || (errno == ENOENT && dir_is_hidden(t->dir)))
		return -EPERM;
	return errno == ENOENT ? -ESRCH : -errno;
}

/* ---- memory -------------------------------------------------------------- */

static int mem_read_one(int mem, uint64_t address, void *to, size_t len)
{
	size_t done = 0;

	/* a file offset is signed: no address of user space has that bit */
	if (address > INT64_MAX || len > INT64_MAX - address)
		return -EFAULT;
	while (done < len) {
		ssize_t n = pread(mem, (char *)to + done, len - done, (off_t)(address + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EFAULT;
		done += (size_t)n;
	}
	return 0;
}

static int mem_readv(struct target *t, const struct iovec *to, const struct iovec *from, size_t n)
{
	int rc = 0;

	if (t->mem < 0) {
		t->mem = target_file(t, "mem");
		if (t->mem < 0)
			return t->mem;
	}
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = mem_read_one(t->mem, (uintptr_t)from[i].iov_base, to[i].iov_base,
				  to[i].iov_len);
		atomic_thread_fence(memory_order_seq_cst);
	}
	return rc;
}

static int vm_readv(pid_t pid, const struct iovec *to, const struct iovec *from, size_t n)
{
	size_t want = 0;
	ssize_t got;

	for (size_t i = 0; i < n; i++)
		want += to[i].iov_len;
	do
		got = process_vm_readv(pid, to, n, from, n, 0);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	return (size_t)got == want ? 0 : -EFAULT;
}

/* Read in 6.12 and 7.2: the pieces are copied one after the other. */
static bool order_is_kept(void)
{
#ifdef __x86_64__
	return true;
#else
	return false;
#endif
}

static int number_readv(struct target *t, const struct iovec *to, const struct iovec *from,
			size_t n)
{
	int rc = 0;

	if (order_is_kept())
		return vm_readv(t->pid, to, from, n);
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = vm_readv(t->pid, &to[i], &from[i], 1);
		atomic_thread_fence(memory_order_seq_cst);
	}
	return rc;
}

int target_readv(struct target *t, const struct iovec *to, const struct iovec *from, size_t n)
{
	if (t->by_number) {
		int rc = number_readv(t, to, from, n);

		/* a sandbox may forbid the call, by any error, and allow the file */
		if (!rc || rc == -EFAULT || rc == -ESRCH || rc == -ENOMEM)
			return rc;
		t->by_number = false;
	}
	return mem_readv(t, to, from, n);
}

int target_read(struct target *t, uint64_t address, void *to, size_t len)
{
	struct iovec local = { to, len };
	struct iovec remote = { (void *)(uintptr_t)address, len };

	return target_readv(t, &local, &remote, 1);
}

/* ---- threads ------------------------------------------------------------- */

#define FLAG_EXITING 0x4u /* the kernel's PF_EXITING, in stat's flags */

bool target_ended(const struct target *t)
{
	char text[512], *end;
	int fd = target_file(t, "stat");
	ssize_t n;
	char state;

	if (fd < 0)
		return fd == -ESRCH;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	/* the name before it may have brackets of its own */
	end = strrchr(text, ')');
	if (!end || strlen(end) < 3)
		return false;
	state = end[2];
	/* flags are the seventh field behind the name */
	for (unsigned int i = 0; end && i < 7; i++)
		end = strchr(end + 1, ' ');
	return strchr("ZXx", state) || (end && strtoul(end, NULL, 10) & FLAG_EXITING);
}

/* Let the thread @name below @tasks stand in for the process if it lives. */
static bool thread_adopt(struct target *t, int tasks, const char *name)
{
	t->thread = openat(tasks, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->thread < 0)
		return false;
	if (target_ended(t)) {
		close(t->thread);
		t->thread = -1;
		return false;
	}
	t->pid = (pid_t)strtol(name, NULL, 10);
	return true;
}

bool target_live_thread(struct target *t)
{
	int fd = openat(t->dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *tasks = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool found = false;

	target_refresh(t);
	if (!tasks) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!found && (entry = readdir(tasks)))
		found = entry->d_name[0] != '.' && thread_adopt(t, dirfd(tasks), entry->d_name);
	closedir(tasks);
	return found;
}

#endif /* __linux__ */
