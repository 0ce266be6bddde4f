/*
 * dump.h - have CRIU dump a process, and keep the books of its dumps.
 *
 * Inside libwprof: the agent is built with it, nobody else needs it.
 */
#ifndef WPROF_CRIU_DUMP_H
#define WPROF_CRIU_DUMP_H

#include <limits.h>

#include "wprof.h"

#define DUMP_ID_MAX 64u

/** enum dump_mode - what becomes of hot memory */
enum dump_mode {
	DUMP_OFF,      /* it is dumped and sent as all else */
	DUMP_WITHHOLD, /* dumped, but left out of what is sent until the last dump */
	DUMP_NATIVE,   /* CRIU is told to leave it out */
	DUMP_AUTO      /* as the parent; else native where CRIU can, else withhold */
};

/** struct dump_opts - one dump */
struct dump_opts {
	const char *criu;	 /* program; without a slash it is looked for in PATH */
	const char *images;	 /* directory of all dumps */
	const char *id, *parent; /* @parent: NULL: none */
	pid_t pid;
	enum dump_mode mode;
	bool final, leave_running;	    /* @leave_running: of a final one */
	const struct wprof_images_hot *hot; /* by the pid as it is here; a final one takes none */
	size_t n_hot;
	uint32_t flags; /* WPROF_IMAGES_NO_SYNC */
};

/** struct dump_result - what was dumped */
struct dump_result {
	char dir[PATH_MAX]; /* the one to send */
	enum dump_mode mode;
	uint64_t pages_written, pages_skipped, frozen_us; /* by CRIU's own count */
	uint64_t bytes_written;				  /* of all files of @dir */
	uint64_t bytes_withheld;
	size_t n_exclude, n_no_parent; /* ranges */
	bool shell_job;		       /* criu restore wants --shell-job too */
};

/** dump_id_valid() - 1 to 64 letters, digits, _ and -, no - first */
bool dump_id_valid(const char *id);

/** dump_mode_name() - "off", "withhold", "native", "auto" */
const char *dump_mode_name(enum dump_mode mode);

/** dump_mode_of() - by its name. Return: false: no such mode */
bool dump_mode_of(const char *name, enum dump_mode *mode);

/**
 * dump_pending() - was this dump taken but not made ready to send, or left by an
 * agent that was killed and its process gone with it?
 *
 * dump_take() then does what is left, and needs no process.
 */
bool dump_pending(const char *images, const char *id);

/** dump_used() - is there a dump of this id, or what is left of one? dump_take() refuses it */
bool dump_used(const char *images, const char *id);

/**
 * dump_take() - take a dump: <images>/<id>/full, and /ship with DUMP_WITHHOLD
 *
 * Blocks until CRIU is done. The dump is there whole or not at all; only where
 * the process is gone with it, nothing CRIU wrote is ever removed.
 *
 * Return: 0; -EINVAL: an id, or a parent of another mode or process; -EEXIST: the
 * id is taken, or the unfinished dump of that id is another; -ENOENT: no such
 * parent, or no CRIU; -ESTALE: the parent is not the last dump of the process:
 * begin again without one; -EBUSY: another dump runs; -ESRCH: no such process;
 * -EOPNOTSUPP: native is not possible; -ECHILD: CRIU failed; else what the system or
 * wprof_images_withhold() said. @why always says.
 */
WPROF_CHECKED int dump_take(const struct dump_opts *opts, struct dump_result *result,
			    struct wprof_why *why);

/* ---- run.c: CRIU as a child ------------------------------------------------- */

/**
 * run_child() - run a program in a session of its own, wait for it
 * @out: where it writes what it prints; made or emptied
 * @keep_fd: stays open in it as 3, so that a lock lasts as long as it runs; -1: none
 * @status: of waitpid(2)
 *
 * Return: 0; -ENOENT and the like: it could not be started.
 */
WPROF_CHECKED int run_child(char *const argv[], const char *out, int keep_fd, int *status);

/** run_last_error() - the last error of CRIU's log @log, or of what it printed to @out */
void run_last_error(const char *log, const char *out, char *text, size_t room);

/** run_has_native() - does this CRIU's help show the options for hot ranges?
 * @scratch: a file to be made and removed. Return: 1, 0 or -errno */
WPROF_CHECKED int run_has_native(const char *criu, const char *scratch);

/* ---- store.c: what is kept on disk ------------------------------------------ */

/** struct store - the directory of all dumps, locked */
struct store {
	char path[PATH_MAX - 2 * DUMP_ID_MAX - 128]; /* absolute: names below fit a path */
	int fd;
};

/** struct store_entry - what is known of one dump: dump.wprof */
struct store_entry {
	char parent[DUMP_ID_MAX + 1]; /* "": none */
	enum dump_mode mode;
	bool final, leave_running, shell_job;
	pid_t pid;
	uint64_t start_ticks; /* when the process began: a pid is used again */
};

WPROF_CHECKED int store_open(struct store *store, const char *path, struct wprof_why *why);
void store_close(struct store *store);

/** store_path() - <store>/<id><tail> */
void store_path(const struct store *store, const char *id, const char *tail, char *out);

/** store_remove() - a directory with all in it. 0 or -errno; none is fine */
int store_remove(const char *path);

WPROF_CHECKED int store_read(const char *images, const char *id, struct store_entry *entry);
WPROF_CHECKED int store_write(const char *dir, const struct store_entry *entry);

/**
 * store_last() - the last dump of a process, on which alone the next can build
 * @id: "": none
 */
void store_last(const struct store *store, const struct store_entry *of, char *id);
/** store_set_last() - @id NULL: none. On disk when it returns */
WPROF_CHECKED int store_set_last(const struct store *store, const struct store_entry *of,
				 const char *id);

/* ---- task.c: what /proc says ------------------------------------------------- */

/** struct task - of a process that is to be dumped */
struct task {
	pid_t pid, session;
	int terminal;
	uint64_t start_ticks;
	bool is_dying; /* killed, or exiting, and not yet gone */
};

/** task_read() - 0, or -ESRCH: none, or dead and only not yet waited for */
WPROF_CHECKED int task_read(pid_t pid, struct task *task);
/** task_inner_pid() - its number in its own PID namespace, which CRIU's images use */
uint64_t task_inner_pid(pid_t pid);
bool task_has_children(pid_t pid);
/** task_vmas() - all of its mappings; free(*vmas) */
WPROF_CHECKED int task_vmas(pid_t pid, struct wprof_range **vmas, size_t *n);

#endif /* WPROF_CRIU_DUMP_H */
