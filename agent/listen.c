#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "listen.h"

#define ACTIVATED_FIRST 3 /* SD_LISTEN_FDS_START */

static int listen_lock(const char *path, char *why, size_t room)
{
	char lock[128];
	int fd, rc = 0;

	snprintf(lock, sizeof(lock), "%s.lock", path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		rc = -errno;
		snprintf(why, room, "%s cannot be made: %s", lock, strerror(-rc));
		return rc;
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		rc = errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
		snprintf(why, room,
			 rc == -EADDRINUSE ? "another daemon listens on %s"
					   : "%s.lock cannot be locked",
			 path);
		close(fd);
		return rc;
	}
	return fd;
}

/* systemd, or another program, may listen without a lock: does anybody take calls? */
static bool is_served(const char *path)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	bool served;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	served = fd >= 0 && (!connect(fd, (struct sockaddr *)&a, sizeof(a)) || errno == EAGAIN);
	if (fd >= 0)
		close(fd);
	return served;
}

/* With the lock held a socket that nobody serves is a dead daemon's; all else stays. */
static int clear_path(const char *path, char *why, size_t room)
{
	struct stat st;

	if (lstat(path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		snprintf(why, room, "%s is there and is no socket; remove it or take another path",
			 path);
	else if (is_served(path))
		snprintf(why, room, "another program listens on %s", path);
	else
		return unlink(path) && errno != ENOENT ? -errno : 0;
	return -EADDRINUSE;
}

static int bind_unix(const char *path, mode_t mode, char *why, size_t room)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	mode_t mask;

	if (fd < 0)
		return -errno;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	/* never for a moment open to more than it should be */
	mask = umask(0777 & ~mode);
	rc = bind(fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : 0;
	umask(mask);
	if (!rc && listen(fd, SOMAXCONN))
		rc = -errno;
	if (!rc)
		return fd;
	snprintf(why, room, "%s cannot be bound: %s", path, strerror(-rc));
	close(fd);
	return rc;
}

int listen_unix(const char *path, mode_t mode, struct listener *out, char *why, size_t room)
{
	int lock_fd, fd;

	if (!*path || strlen(path) >= sizeof(out->path)) {
		snprintf(why, room, "a socket's path has 1 to %zu bytes", sizeof(out->path) - 1);
		return -EINVAL;
	}
	lock_fd = listen_lock(path, why, room);
	if (lock_fd < 0)
		return lock_fd;
	snprintf(why, room, "%s cannot be replaced", path);
	fd = clear_path(path, why, room);
	if (!fd)
		fd = bind_unix(path, mode, why, room);
	if (fd < 0) {
		close(lock_fd);
		return fd;
	}
	out->fd = fd;
	out->lock_fd = lock_fd;
	snprintf(out->path, sizeof(out->path), "%s", path);
	return 0;
}

static bool is_listening_unix(int fd)
{
	int domain = 0, listening = 0;
	socklen_t len = sizeof(domain);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX &&
	       !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) && listening;
}

int listen_activated(struct listener *out, size_t max)
{
	const char *pid = getenv("LISTEN_PID"), *n_fds = getenv("LISTEN_FDS");
	long n;

	if (!pid || !n_fds || strtol(pid, NULL, 10) != getpid())
		return 0;
	n = strtol(n_fds, NULL, 10);
	if (n < 0 || (size_t)n > max)
		return -EINVAL;
	for (int i = 0; i < n; i++) {
		int fd = ACTIVATED_FIRST + i, flags = fcntl(fd, F_GETFL);

		if (flags < 0 || !is_listening_unix(fd))
			return -EINVAL;
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		out[i] = (struct listener){ .fd = fd, .lock_fd = -1 };
	}
	/* not for the programs we start */
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return (int)n;
}

void listen_close(struct listener *l)
{
	/* the lock is still held: nobody else can have put a socket there */
	if (l->path[0])
		unlink(l->path);
	close(l->fd);
	if (l->lock_fd >= 0)
		close(l->lock_fd);
	l->fd = l->lock_fd = -1;
}

bool listen_peer(int fd, uid_t *uid, pid_t *pid)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return false;
	*uid = peer.uid;
	*pid = peer.pid;
	return true;
}

void listen_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (!len || len >= sizeof(a.sun_path) || (*path != '/' && *path != '@'))
		return;
	memcpy(a.sun_path, path, len);
	if (*path == '@')
		a.sun_path[0] = '\0'; /* in the abstract namespace */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&a,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	close(fd);
}
