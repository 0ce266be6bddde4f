/*
 * wprof-agent: the daemon.
 *
 * Theory of operation
 *
 * Threads: this one serves gRPC's queue (rpc.c). The front thread awaits signals
 * and connections on unix sockets, asks the kernel whose they are and hands those
 * of allowed users on: gRPC by itself cannot tell. The profiler's thread
 * (profiler.c), a few for what may block (jobs.c), and one for metrics follow.
 *
 * Signals are blocked before the first thread there is, gRPC's own included, and
 * read from a signalfd. At the end of it the profiling is closed, which disarms
 * the target; if anything hangs the process ends all the same (--stop-timeout), and
 * the kernel does it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "dumper.h"
#include "handlers.h"
#include "jobs.h"
#include "listen.h"
#include "log.h"
#include "metrics.h"
#include "options.h"
#include "rights.h"
#include "rpc.h"

#define FDS_KEPT 32 /* descriptors that connections leave to profiling, dumps and metrics */

static struct options opt;
static struct listener listeners[LISTEN_MAX];
static size_t n_listeners;
static int signal_fd = -1;

static pthread_mutex_t over_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over_cond = PTHREAD_COND_INITIALIZER;
static bool is_over;

/* ---- connections ----------------------------------------------------------------- */

static bool may_talk(uid_t uid)
{
	if (uid == 0 || uid == geteuid())
		return true;
	for (size_t i = 0; i < opt.n_uids; i++)
		if (opt.uids[i] == uid)
			return true;
	return false;
}

/* The kernel gives the lowest number that is free: is there room for our own? */
static bool is_crowded(int fd)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_NOFILE, &limit) && (rlim_t)fd + FDS_KEPT >= limit.rlim_cur;
}

/*
 * gRPC closes what is accepted here, which ThreadSanitizer does not see: that the
 * kernel gives its number to another file afterwards looks like a race of the two.
 * So it does not see the beginning either.
 */
#ifdef __SANITIZE_THREAD__
#define front_accept4(fd) (int)syscall(SYS_accept4, fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
#else
#define front_accept4(fd) accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
#endif

static void front_accept(const struct listener *l)
{
	int fd = front_accept4(l->fd);
	const char *why = "not_allowed";
	uid_t uid = (uid_t)-1;
	pid_t pid = 0;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			poll(NULL, 0, 100); /* it stays in the queue: no busy loop */
		return;
	}
	if (listen_peer(fd, &uid, &pid) && may_talk(uid)) {
		if (!is_crowded(fd)) {
			rpc_add_fd(fd);
			return;
		}
		why = "too_many_connections";
	}
	log_warn("connection refused", "why=%s peer_uid=%u peer_pid=%d", why, (unsigned int)uid,
		 (int)pid);
	close(fd);
}

/* ---- the end --------------------------------------------------------------------- */

static void close_listeners(void)
{
	for (size_t i = 0; i < n_listeners; i++)
		listen_close(&listeners[i]);
	n_listeners = 0;
}

static void await_end(void)
{
	struct timespec until;
	uint64_t left_ms = opt.stop_ms - RPC_GRACE_MS; /* rpc_stop() had the rest */

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)(left_ms / 1000);
	until.tv_nsec += (long)(left_ms % 1000) * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&over_lock);
	while (!is_over)
		if (pthread_cond_timedwait(&over_cond, &over_lock, &until))
			break;
	if (!is_over) {
		log_warn("something hangs: ending without it", NULL);
		_exit(CLI_DONE);
	}
	pthread_mutex_unlock(&over_lock);
}

static void front_stop(void)
{
	struct signalfd_siginfo info;

	if (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		log_info("shutting down", "signal=%u", info.ssi_signo);
	listen_notify("STOPPING=1");
	close_listeners();
	rpc_stop();
	await_end();
}

static void *front_main(void *arg)
{
	struct pollfd fds[LISTEN_MAX + 1];
	size_t n = n_listeners;

	for (size_t i = 0; i < n; i++)
		fds[i] = (struct pollfd){ .fd = listeners[i].fd, .events = POLLIN };
	fds[n] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
	for (;;) {
		if (poll(fds, n + 1, -1) < 0)
			continue;
		if (fds[n].revents)
			break;
		for (size_t i = 0; i < n; i++)
			if (fds[i].revents)
				front_accept(&listeners[i]);
	}
	front_stop();
	return arg;
}

/* ---- the beginning --------------------------------------------------------------- */

static char *read_file(const char *path)
{
	char *text = NULL;
	size_t room = 0;
	FILE *f = fopen(path, "re");
	ssize_t n = f ? getdelim(&text, &room, '\0', f) : -1;

	if (n <= 0) {
		cli_error("%s cannot be read: %s", path,
			  f && !ferror(f) ? "it is empty" : strerror(errno));
		free(text);
		text = NULL;
	}
	if (f)
		fclose(f);
	return text;
}

static void tls_free(struct rpc_tls *tls)
{
	free(tls->cert);
	free(tls->key);
	free(tls->ca);
}

static int open_tcp(const char *address)
{
	struct rpc_tls tls = { NULL, NULL, NULL };
	int rc = -EINVAL;

	if (opt.tls_cert) {
		tls.cert = read_file(opt.tls_cert);
		tls.key = read_file(opt.tls_key);
		tls.ca = read_file(opt.tls_ca);
		if (!tls.cert || !tls.key || !tls.ca)
			goto out;
	}
	rc = rpc_listen(address, opt.tls_cert ? &tls : NULL);
	if (rc)
		cli_error("%s cannot be listened on: it is taken, or the TLS files do not fit",
			  address);
out:
	tls_free(&tls);
	return rc;
}

/* Others than ourselves can only come if the file lets them; who may is asked later. */
static int open_unix(const char *path)
{
	char why[300];
	int rc;

	if (!strcmp(path, &LISTEN_USUAL[5]) && mkdir("/run/wprof-agent", 0755) && errno != EEXIST)
		cli_error("/run/wprof-agent cannot be made: %s", strerror(errno));
	rc = listen_unix(path, opt.n_uids ? 0666 : 0600, &listeners[n_listeners], why, sizeof(why));
	if (rc)
		cli_error("%s", why);
	else
		n_listeners++;
	return rc;
}

static int open_listeners(void)
{
	int n = listen_activated(listeners, LISTEN_MAX);

	if (n < 0) {
		cli_error(
			"the sockets passed by systemd must be listening unix sockets, at most %d",
			LISTEN_MAX);
		return n;
	}
	n_listeners = (size_t)n;
	if (!n && !opt.n_listen)
		opt.listen[opt.n_listen++] = LISTEN_USUAL;
	for (size_t i = 0; i < opt.n_listen; i++) {
		const char *address = opt.listen[i];
		int rc = -EINVAL;

		if (n_listeners < LISTEN_MAX)
			rc = options_is_unix(address) ? open_unix(address + 5) : open_tcp(address);
		if (rc)
			return rc;
		log_info("listening", "address=%s", address);
	}
	return 0;
}

static int open_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	return signal_fd < 0 ? -errno : 0;
}

static int open_metrics(void)
{
	char why[300];

	if (!opt.metrics || !metrics_open(opt.metrics, why, sizeof(why)))
		return 0;
	cli_error("%s", why);
	return -1;
}

static int open_threads(pthread_t *front)
{
	int rc = profiler_open(handlers_calls(), NULL);

	if (!rc)
		rc = jobs_open();
	if (!rc)
		rc = -pthread_create(front, NULL, front_main, NULL);
	if (rc)
		cli_error("a thread cannot be started: %s", strerror(-rc));
	return rc;
}

static void run(pthread_t front)
{
	log_info("ready", "version=%s pid=%d", PROCSCOPE_VERSION, (int)getpid());
	listen_notify("READY=1");
	rpc_run();
	jobs_close();
	profiler_close();
	metrics_close();
	pthread_mutex_lock(&over_lock);
	is_over = true;
	pthread_cond_signal(&over_cond);
	pthread_mutex_unlock(&over_lock);
	pthread_join(front, NULL);
	rpc_close();
	close(signal_fd);
	log_info("ended", NULL);
}

int main(int argc, char **argv)
{
	const struct rpc_method *methods;
	pthread_t front;
	size_t n;

	options_parse(argc, argv, &opt);
	log_level_set(opt.log_level);
	rights_settle();
	rights_report(opt.images_dir != NULL);
	dumper_open(opt.criu, opt.images_dir, opt.hot_mode);
	target_default(opt.target_pid, opt.target_comm);
	if (open_signals()) {
		cli_error("signals cannot be taken: %s", strerror(errno));
		return CLI_FAILED;
	}
	methods = handlers_methods(&n);
	rpc_open(methods, n);
	if (open_listeners() || open_metrics()) {
		close_listeners();
		return CLI_FAILED;
	}
	rpc_start();
	if (open_threads(&front)) {
		close_listeners();
		return CLI_FAILED;
	}
	run(front);
	return CLI_DONE;
}
