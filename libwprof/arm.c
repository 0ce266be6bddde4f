/*
 * arm.c - registering memory with the userfaultfd, and the first arming.
 *
 * Theory of operation
 *
 * All of it acts on the target from outside: the ioctls of a userfaultfd work
 * on the memory of the process that created it, whoever calls them. The target
 * runs on meanwhile and is not stopped by any of it.
 *
 *	fresh --REGISTER--> registered --disarm--> nothing armed, all reads written
 *	      --scan_filter(rearm)--> what exists is armed
 *
 * Invariants
 *
 * - Registering arms nothing. Between it and the arming scan a write is not lost:
 *   a page that is not armed reads written.
 * - What was armed before by whomever is disarmed first, or it would stay armed
 *   through a write that nobody counted (track.c says how that comes about).
 * - Only pages that exist are armed, by the filter of scan.c; the ioctl that arms
 *   a range would put a marker on each page that does not exist.
 * - Registration goes in ascending order, in one call for several VMAs or in one
 *   for each: rival.c says why that order decides between two profilers.
 * - Undone is only what is ours.
 *
 * What may fail. A call over several VMAs takes all of them or none; one that fails
 * is repeated VMA by VMA, so that the one at fault is found: EBUSY, another
 * userfaultfd has it, tried again at each interval; anything else, the kernel does
 * not register that kind of memory. ENOMEM, where the memory is gone as a whole,
 * is passed on. That all of it worked is believed only when a page that was armed
 * reads so (arm_verify).
 *
 * Cost. Several VMAs with nothing but holes between them are one call: 1,000 took
 * 4.8 ms one by one. Arming is one walk of what exists.
 *
 * When this process dies at any step, the kernel closes its descriptor: all is
 * unregistered and disarmed.
 */
#include <errno.h>
#include <sys/ioctl.h>

#include "arm.h"

int arm_api(int uffd)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };

	return ioctl(uffd, UFFDIO_API, &api) ? -errno : 0;
}

static int arm_range(int uffd, uint64_t start, uint64_t end)
{
	struct uffdio_register reg = {
		.range = { .start = start, .len = end - start },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	return ioctl(uffd, UFFDIO_REGISTER, &reg) ? -errno : 0;
}

/*
 * Pages may be armed from before, when their VMA was registered already: such
 * a page stays so when it is written. Disarmed, all of them read written.
 */
static void arm_disarm(int uffd, uint64_t start, uint64_t end)
{
	struct uffdio_writeprotect wp = {
		.range = { .start = start, .len = end - start },
	};

	/* it fails for memory that went away meanwhile */
	while (ioctl(uffd, UFFDIO_WRITEPROTECT, &wp) && errno == EAGAIN)
		;
}

/* -EBUSY: another profiler has it, where that matters */
static int arm_one(int uffd, struct area *a, struct scan *rival)
{
	int rc = arm_range(uffd, a->start, a->end);

	if (rc == -ENOMEM || (rc == -EBUSY && rival && scan_tracked(rival, a->start, a->end) == 1))
		return rc;
	a->state &= ~(uint32_t)AREA_FRESH;
	if (rc == -EBUSY)
		a->flags = WPROF_VMA_BUSY;
	else if (rc)
		a->state |= AREA_REFUSED;
	else
		arm_disarm(uffd, a->start, a->end);
	return 0;
}

/* Fresh areas with nothing but holes between them: one call, if it works. */
static size_t arm_group(const struct area *areas, size_t n)
{
	size_t k = 1;

	while (k < n && areas[k].state & AREA_FRESH && !(areas[k].state & AREA_APART))
		k++;
	return k;
}

/* One call for n areas, or where that fails one for each */
static int arm_areas(int uffd, struct area *areas, size_t n, struct scan *rival)
{
	int all = n > 1 ? arm_range(uffd, areas[0].start, areas[n - 1].end) : -EINVAL;
	int rc = all == -ENOMEM ? all : 0;

	for (size_t i = 0; i < n && !rc; i++) {
		if (all) {
			rc = arm_one(uffd, &areas[i], rival);
			continue;
		}
		areas[i].state &= ~(uint32_t)AREA_FRESH;
		arm_disarm(uffd, areas[i].start, areas[i].end);
	}
	return rc;
}

int arm_register(int uffd, struct area *areas, size_t n, struct scan *rival)
{
	size_t k = 1;
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i += k) {
		k = 1;
		if (!(areas[i].state & AREA_FRESH))
			continue;
		k = arm_group(areas + i, n - i);
		rc = arm_areas(uffd, areas + i, k, rival);
	}
	return rc;
}

void arm_unregister(int uffd, uint64_t start, uint64_t end)
{
	struct uffdio_range range = { .start = start, .len = end - start };
	int saved = errno;

	(void)ioctl(uffd, UFFDIO_UNREGISTER, &range); /* or it went away meanwhile */
	errno = saved;
}

int arm_baseline(struct scan *s, struct area *areas, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t pos = areas[i].start;
		int rc;

		if (!area_tracked(&areas[i]))
			continue;
		areas[i].populated = 0;
		rc = scan_filter(s, SCAN_POPULATED, true, &pos, areas[i].end, NULL,
				 &areas[i].populated);
		if (rc)
			return rc;
	}
	return 0;
}

int arm_verify(struct scan *s, const struct area *areas, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int rc;

		if (!area_tracked(&areas[i]) || !areas[i].populated)
			continue;
		rc = scan_armable(s, areas[i].start, areas[i].end);
		if (rc)
			return rc < 0 ? rc : 0;
	}
	return -EIO;
}
