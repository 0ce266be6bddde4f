#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "tool/pace.h"

uint64_t pace_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

int pace_open(struct pace *p)
{
	sigset_t mask;

	memset(p, 0, sizeof(*p));
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGWINCH);
	sigprocmask(SIG_BLOCK, &mask, &p->old_mask);
	p->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return p->signals < 0 ? -errno : 0;
}

void pace_start(struct pace *p, uint64_t interval_ns, uint64_t duration_ns)
{
	p->interval_ns = interval_ns;
	p->start_ns = pace_now_ns();
	p->next_ns = p->start_ns + interval_ns;
	p->stop_ns = duration_ns ? p->start_ns + duration_ns : UINT64_MAX;
	if (p->next_ns > p->stop_ns)
		p->next_ns = p->stop_ns;
}

/* The interval is over: when is the next? One that was missed is left out. */
static enum pace_event tick(struct pace *p, uint64_t now)
{
	if (now >= p->stop_ns)
		return PACE_DONE;
	p->next_ns += p->interval_ns;
	if (p->next_ns <= now)
		p->next_ns = now + p->interval_ns;
	/* a rest of less than half an interval is not worth one of its own */
	if (p->stop_ns != UINT64_MAX && p->next_ns + p->interval_ns / 2 > p->stop_ns)
		p->next_ns = p->stop_ns;
	return PACE_TICK;
}

static enum pace_event read_signal(const struct pace *p)
{
	struct signalfd_siginfo info;

	if (read(p->signals, &info, sizeof(info)) == sizeof(info) && info.ssi_signo == SIGWINCH)
		return PACE_RESIZED;
	return PACE_SIGNAL;
}

enum pace_event pace_wait(struct pace *p, int pidfd, int keys)
{
	for (;;) {
		struct pollfd fds[] = {
			{ .fd = p->signals, .events = POLLIN },
			{ .fd = keys, .events = POLLIN },
			{ .fd = pidfd, .events = POLLIN },
		};
		uint64_t now = pace_now_ns(), left = now < p->next_ns ? p->next_ns - now : 0;
		struct timespec ts = { (time_t)(left / 1000000000), (long)(left % 1000000000) };
		int n = ppoll(fds, 3, &ts, NULL);

		if (n == 0)
			return tick(p, pace_now_ns());
		if (n < 0)
			continue;
		if (fds[0].revents)
			return read_signal(p);
		if (fds[1].revents)
			return PACE_KEY;
		if (fds[2].revents)
			return PACE_ENDED;
	}
}

void pace_close(struct pace *p)
{
	if (p->signals >= 0)
		close(p->signals);
	sigprocmask(SIG_SETMASK, &p->old_mask, NULL);
}
