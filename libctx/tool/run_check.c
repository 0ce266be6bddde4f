/*
 * Whether LD_PRELOAD works for a program. The dynamic loader ignores it without
 * a word, or makes the program fail, for: static programs (there is no loader),
 * setuid, setgid and file capabilities (the loader is told to be careful), and
 * programs of another machine type or another C library than the shim's. A
 * script is judged by its interpreter. The loader run by hand looks like a static
 * program, and does preload: into the program that it is given.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli.h"
#include "run.h"

#define RUN_SCRIPTS_MAX 4 /* as deep as the kernel follows #! lines */

struct run_elf {
	ElfW(Ehdr) header;
	char path[256];	    /* of the program interpreter, "" if none */
	const char *loader; /* its base name */
};

static bool run_pread(int fd, void *buf, size_t len, uint64_t offset)
{
	return pread(fd, buf, len, (off_t)offset) == (ssize_t)len;
}

static void run_loader(int fd, struct run_elf *elf)
{
	ElfW(Phdr) ph;

	for (int i = 0; i < elf->header.e_phnum; i++) {
		uint64_t at = elf->header.e_phoff + (uint64_t)i * elf->header.e_phentsize;
		const char *slash;

		if (!run_pread(fd, &ph, sizeof(ph), at))
			return;
		if (ph.p_type != PT_INTERP)
			continue;
		if (ph.p_filesz >= sizeof(elf->path) ||
		    !run_pread(fd, elf->path, ph.p_filesz, ph.p_offset))
			return;
		slash = strrchr(elf->path, '/');
		elf->loader = slash ? slash + 1 : elf->path;
		return;
	}
}

/* Is it an ELF file of our own class at all? Then fill in the rest. */
static bool run_elf_read(int fd, struct run_elf *elf)
{
	ElfW(Ehdr) *h = &elf->header;

	memset(elf->path, 0, sizeof(elf->path));
	elf->loader = elf->path;
	if (!run_pread(fd, h, sizeof(*h), 0) || memcmp(h, ELFMAG, SELFMAG) != 0)
		return false;
	if (h->e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
		run_loader(fd, elf);
	return true;
}

static bool run_own_elf(struct run_elf *elf)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	bool ok = fd >= 0 && run_elf_read(fd, elf);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* Is @path the very loader that runs pctx? */
static bool run_is_loader(const char *path, const struct run_elf *own)
{
	struct stat a, b;

	return *own->path && stat(path, &a) == 0 && stat(own->path, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool run_check_elf(const char *path, const struct run_elf *elf)
{
	struct run_elf own;

	if (!run_own_elf(&own)) {
		cli_error("cannot look at /proc/self/exe to compare %s with: mount /proc", path);
		return false;
	}
	if (elf->header.e_ident[EI_CLASS] != own.header.e_ident[EI_CLASS] ||
	    elf->header.e_machine != own.header.e_machine) {
		cli_error("cannot run %s with a context: it is for another machine type than "
			  "pctx; build pctx for that type",
			  path);
		return false;
	}
	if (!*elf->loader && run_is_loader(path, &own))
		return true;
	if (!*elf->loader) {
		cli_error("cannot run %s with a context: it is statically linked, nothing can be "
			  "preloaded; link it with libctx and call pctx_publish()",
			  path);
		return false;
	}
	if (strcmp(elf->loader, own.loader) != 0) {
		cli_error("cannot run %s with a context: it uses another C library (%s) than "
			  "pctx (%s); build pctx with that one",
			  path, elf->loader, own.loader);
		return false;
	}
	return true;
}

/* Does executing it change the credentials? Then the loader preloads nothing. */
static bool run_check_mode(const char *path, int fd)
{
	struct statvfs fs;
	struct stat st;
	const char *what = NULL;

	if (fstat(fd, &st))
		return true;
	if (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_NOSUID))
		return true;
	if ((st.st_mode & S_ISUID) && st.st_uid != geteuid())
		what = "setuid";
	else if ((st.st_mode & S_ISGID) && st.st_gid != getegid())
		what = "setgid";
	else if (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		what = "given capabilities by its file";
	if (!what)
		return true;
	cli_error("cannot run %s with a context: it is %s, so nothing is preloaded into it; "
		  "run it as the user it changes to",
		  path, what);
	return false;
}

/* The interpreter of a script: false if @fd is none. */
static bool run_interpreter(int fd, char *out, size_t size)
{
	char line[256];
	ssize_t n = pread(fd, line, sizeof(line) - 1, 0);
	char *start;

	if (n < 3 || memcmp(line, "#!", 2) != 0)
		return false;
	line[n] = 0;
	start = line + 2 + strspn(line + 2, " \t");
	start[strcspn(start, " \t\r\n")] = 0;
	snprintf(out, size, "%s", start);
	return *start != 0;
}

static bool run_check_at(const char *path, int depth)
{
	struct run_elf elf;
	char interpreter[256];
	bool ok = true;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	/* a program that may be executed but not read: exec knows more than we */
	if (fd < 0)
		return true;
	if (run_elf_read(fd, &elf))
		ok = run_check_mode(path, fd) && run_check_elf(path, &elf);
	else if (depth < RUN_SCRIPTS_MAX && run_interpreter(fd, interpreter, sizeof(interpreter)))
		ok = run_check_at(interpreter, depth + 1);
	close(fd);
	return ok;
}

bool run_check(const char *path)
{
	return run_check_at(path, 0);
}
