/*
 * metrics.c - what a scraper reads, over the least of HTTP/1.1 that it needs.
 *
 * One thread, one connection at a time, each for at most WAIT_MS: a client that
 * sends nothing delays the next scrape, never an RPC. Only GET /metrics is
 * answered; nothing that a client sends is used for anything else.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "handlers.h"
#include "listen.h"
#include "metrics.h"

#define WAIT_MS	    1000
#define REQUEST_MAX 4096

static struct listener listener = { -1, -1, "" };
static int stop_fd = -1;
static pthread_t thread;

/* ---- the text ------------------------------------------------------------------- */

static void family(FILE *f, const char *name, const char *type, const char *unit, const char *help)
{
	fprintf(f, "# TYPE wprof_agent_%s %s\n", name, type);
	if (unit)
		fprintf(f, "# UNIT wprof_agent_%s %s\n", name, unit);
	fprintf(f, "# HELP wprof_agent_%s %s\n", name, help);
}

static void gauge(FILE *f, const char *name, const char *unit, const char *help, double value)
{
	family(f, name, "gauge", unit, help);
	fprintf(f, "wprof_agent_%s %.9g\n", name, value);
}

static void print_profile(FILE *f)
{
	const struct snapshot *s = profiler_lock();
	struct snapshot copy = *s;

	profiler_unlock();
	gauge(f, "profiled_processes", NULL, "Processes being profiled.", copy.n_processes);
	gauge(f, "tracked_vmas", NULL, "Memory areas being tracked.", copy.n_vmas);
	gauge(f, "hot_vmas", NULL, "Memory areas with a hot part.", copy.n_hot_vmas);
	gauge(f, "hot_bytes", "bytes", "Memory that is hot.", (double)copy.hot_bytes);
	gauge(f, "dirty_rate_bytes_per_second", NULL, "Written in the last interval.",
	      copy.volume.bytes_per_s);
	gauge(f, "scan_seconds", "seconds", "Time spent scanning in the last interval.",
	      (double)copy.scan_ns / 1e9);
	family(f, "dirty_bytes", "counter", "bytes", "Written since the profiling began.");
	fprintf(f, "wprof_agent_dirty_bytes_total %llu\n",
		(unsigned long long)copy.volume.total_bytes);
}

static void print_method(FILE *f, const char *name, size_t i)
{
	struct rpc_counts c;

	rpc_count(i, &c);
	fprintf(f, "wprof_agent_rpcs_total{method=\"%s\",outcome=\"ok\"} %llu\n", name,
		(unsigned long long)c.ok);
	fprintf(f, "wprof_agent_rpcs_total{method=\"%s\",outcome=\"failed\"} %llu\n", name,
		(unsigned long long)c.failed);
	fprintf(f, "wprof_agent_rpcs_total{method=\"%s\",outcome=\"cancelled\"} %llu\n", name,
		(unsigned long long)c.cancelled);
}

static void print_rpcs(FILE *f)
{
	const struct rpc_method *methods;
	size_t n;

	methods = handlers_methods(&n);
	family(f, "rpcs", "counter", NULL, "Calls that are over, by method and outcome.");
	for (size_t i = 0; i < n; i++)
		print_method(f, strrchr(methods[i].path, '/') + 1, i);
	print_method(f, "unknown", n);
}

static char *metrics_text(size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	if (!f)
		return NULL;
	family(f, "build", "info", NULL, "What is running.");
	fprintf(f, "wprof_agent_build_info{version=\"%s\"} 1\n", PROCSCOPE_VERSION);
	print_profile(f);
	print_rpcs(f);
	fputs("# EOF\n", f);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- HTTP ------------------------------------------------------------------------- */

/* Read up to the empty line. Return: is it there? */
static bool read_request(int fd, char *request)
{
	struct timespec from, now;
	size_t len = 0;
	int left = WAIT_MS;

	clock_gettime(CLOCK_MONOTONIC, &from);
	while (left > 0 && len < REQUEST_MAX - 1) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n = poll(&p, 1, left) == 1 ? read(fd, request + len, REQUEST_MAX - 1 - len)
						   : -1;

		if (n <= 0)
			return false;
		len += (size_t)n;
		request[len] = '\0';
		if (strstr(request, "\r\n\r\n"))
			return true;
		clock_gettime(CLOCK_MONOTONIC, &now);
		left = WAIT_MS - (int)((now.tv_sec - from.tv_sec) * 1000 +
				       (now.tv_nsec - from.tv_nsec) / 1000000);
	}
	return false;
}

static void send_answer(int fd, const char *status, const char *type, const char *body, size_t len)
{
	struct timeval wait = { .tv_sec = WAIT_MS / 1000 };
	char head[256];
	int n = snprintf(head, sizeof(head),
			 "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
			 "Connection: close\r\n\r\n",
			 status, type, len);

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (send(fd, head, (size_t)n, MSG_NOSIGNAL | MSG_MORE) == n)
		(void)!send(fd, body, len, MSG_NOSIGNAL);
}

static void send_error(int fd, const char *status)
{
	send_answer(fd, status, "text/plain", status, strlen(status));
}

static void serve(int fd)
{
	char request[REQUEST_MAX], *text;
	size_t len = 0;

	if (!read_request(fd, request)) {
		send_error(fd, "400 Bad Request");
		return;
	}
	if (strncmp(request, "GET /metrics", 12) || !strchr(" ?", request[12])) {
		send_error(fd, "404 Not Found");
		return;
	}
	text = metrics_text(&len);
	if (text)
		send_answer(fd, "200 OK",
			    "application/openmetrics-text; version=1.0.0; charset=utf-8", text,
			    len);
	else
		send_error(fd, "500 Internal Server Error");
	free(text);
}

static void *metrics_main(void *arg)
{
	struct pollfd fds[2] = { { .fd = listener.fd, .events = POLLIN },
				 { .fd = stop_fd, .events = POLLIN } };

	while (poll(fds, 2, -1) < 0 || !fds[1].revents) {
		int fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0) {
			/* out of descriptors: no busy loop */
			if (errno == EMFILE || errno == ENFILE)
				poll(&fds[1], 1, 100);
			continue;
		}
		serve(fd);
		close(fd);
	}
	return arg;
}

/* ---- where ------------------------------------------------------------------------- */

static int listen_inet(const struct sockaddr *a, socklen_t len)
{
	int fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, rc;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(fd, a, len) && !listen(fd, 16))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static int listen_loopback(const char *address)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	const char *colon = strrchr(address, ':');
	char *end = NULL;
	unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
	size_t len = colon ? (size_t)(colon - address) : 0;

	if (!colon || !port || port > 65535 || *end)
		return -EINVAL;
	v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	v4.sin_port = v6.sin6_port = htons((uint16_t)port);
	if ((len == 9 && !strncmp(address, "127.0.0.1", len)) ||
	    (len == 9 && !strncmp(address, "localhost", len)))
		return listen_inet((struct sockaddr *)&v4, sizeof(v4));
	if (len == 5 && !strncmp(address, "[::1]", len))
		return listen_inet((struct sockaddr *)&v6, sizeof(v6));
	return -EINVAL;
}

int metrics_open(const char *address, char *why, size_t room)
{
	int rc;

	if (!strncmp(address, "unix:", 5)) {
		rc = listen_unix(address + 5, 0600, &listener, why, room);
	} else {
		rc = listen_loopback(address);
		snprintf(why, room,
			 rc == -EINVAL
				 ? "%s is neither unix:PATH nor a loopback address with a port"
				 : "%s cannot be bound",
			 address);
		listener.fd = rc;
	}
	if (rc < 0)
		return rc;
	stop_fd = eventfd(0, EFD_CLOEXEC);
	rc = stop_fd < 0 ? -errno : -pthread_create(&thread, NULL, metrics_main, NULL);
	if (rc)
		snprintf(why, room, "the metrics cannot be served: %s", strerror(-rc));
	return rc;
}

void metrics_close(void)
{
	uint64_t one = 1;

	if (stop_fd < 0 || write(stop_fd, &one, sizeof(one)) < 0)
		return;
	pthread_join(thread, NULL);
	close(stop_fd);
	listen_close(&listener);
}
