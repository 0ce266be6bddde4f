/*
 * arm.c - registering memory with the userfaultfd, and the first arming.
 *
 * All of it acts on the target from outside: the ioctls of a userfaultfd work
 * on the memory of the process that created it, whoever calls them.
 *
 * Registering is cheap and arms nothing. One call may cover several VMAs and
 * the holes between them.
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

static int arm_one(int uffd, struct area *a)
{
	int rc = arm_range(uffd, a->start, a->end);

	if (rc == -ENOMEM)
		return rc;
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
static int arm_areas(int uffd, struct area *areas, size_t n)
{
	int all = n > 1 ? arm_range(uffd, areas[0].start, areas[n - 1].end) : -EINVAL;
	int rc = all == -ENOMEM ? all : 0;

	for (size_t i = 0; i < n && !rc; i++) {
		areas[i].state &= ~(uint32_t)AREA_FRESH;
		if (all)
			rc = arm_one(uffd, &areas[i]);
		else
			arm_disarm(uffd, areas[i].start, areas[i].end);
	}
	return rc;
}

int arm_register(int uffd, struct area *areas, size_t n)
{
	size_t k = 1;
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i += k) {
		k = 1;
		if (!(areas[i].state & AREA_FRESH))
			continue;
		k = arm_group(areas + i, n - i);
		rc = arm_areas(uffd, areas + i, k);
	}
	return rc;
}

void arm_unregister(int uffd, const struct area *areas, size_t n)
{
	int saved = errno;

	for (size_t i = 0; i < n; i++) {
		struct uffdio_range range = {
			.start = areas[i].start,
			.len = areas[i].end - areas[i].start,
		};

		if (area_tracked(&areas[i]))
			(void)ioctl(uffd, UFFDIO_UNREGISTER, &range);
	}
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
