/* listen.h - unix sockets, who may talk on them, and systemd. */
#ifndef AGENT_LISTEN_H
#define AGENT_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/** struct listener - one listening unix socket */
struct listener {
	int fd;
	int lock_fd;	/* -1: not ours to lock */
	char path[108]; /* "": not ours to remove */
};

/**
 * listen_unix() - listen on @path, alone
 * @mode: of the socket
 * @why: @room bytes; what failed, in words
 *
 * A lock on PATH.lock is held as long as the listener is open: a second daemon
 * is refused, and what a killed one left behind is taken over. The lock file
 * stays: removing it would let two daemons lock two files of that name.
 *
 * Return: 0, or -EADDRINUSE: another daemon has it, or a file that is no socket
 * is in the way; or another errno.
 */
int listen_unix(const char *path, mode_t mode, struct listener *out, char *why, size_t room);

/**
 * listen_activated() - the unix sockets that systemd opened for us
 *
 * Return: how many were put into @out (at most @max), or -EINVAL: it passed
 * something that is no listening unix socket.
 */
int listen_activated(struct listener *out, size_t max);

/** listen_close() - no more connections; the path goes if it is still ours */
void listen_close(struct listener *l);

/** listen_peer() - the user on the other end of a connected unix socket; false: not known */
bool listen_peer(int fd, uid_t *uid, pid_t *pid);

/** listen_notify() - tell systemd a state, as "READY=1"; nothing without systemd */
void listen_notify(const char *state);

#endif /* AGENT_LISTEN_H */
