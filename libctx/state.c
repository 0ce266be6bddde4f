/*
 * Theory of operation
 *
 * The header's mapping and the payloads are MADV_DONTFORK: a forked child does
 * not have them, and what the parent knew of them is wrong there. The lock may
 * have been held by a thread that does not exist in the child. So state and
 * lock lie in a page of their own that is MADV_WIPEONFORK: the kernel gives each
 * child a page of zeroes, which reads "unlocked, nothing published". No
 * fork handler is needed (libctx may be closed by dlclose, a handler may not),
 * clone(2) without libc is covered, PID namespaces in which parent and child
 * have the same PID are, and vfork, which shares the memory, changes nothing.
 *
 * Linux before 4.14 and some emulations have no MADV_WIPEONFORK. There the lock
 * word holds the PID of its holder: a word of another process is up for taking,
 * and whoever gets the lock drops a state whose pid is not its own.
 *
 * The lock: 0 free, else the holder's number, with LOCK_WAITERS when a thread
 * may sleep on it. Taking it acquires, leaving it releases. A thread that slept
 * takes it with LOCK_WAITERS set, as there may be others: at worst one wake-up
 * too many. The page is made on first use, once; it is never unmapped.
 */
#ifdef __linux__

#include "state.h"

#include <linux/futex.h>
#include <stdbool.h>
#include <string.h>

#include "sys.h"

#define LOCK_WAITERS 0x80000000u

static struct pub *state; /* accessed by __atomic builtins only */
static bool state_wiped_by_fork;

static struct pub *state_make(void)
{
	struct pub *expected = NULL;
	void *page;
	bool wiped;

	page = sys_map(sys_page_size(), -1);
	if (!page)
		return NULL;
	wiped = sys_madvise(page, sys_page_size(), MADV_WIPEONFORK) == 0;
	/* racing threads store the same answer */
	__atomic_store_n(&state_wiped_by_fork, wiped, __ATOMIC_RELAXED);
	if (__atomic_compare_exchange_n(&state, &expected, page, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return page;
	munmap(page, sys_page_size());
	return expected;
}

static bool lock_take(uint32_t *word, uint32_t seen, uint32_t want)
{
	return __atomic_compare_exchange_n(word, &seen, want, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

static void lock_wait(uint32_t *word, uint32_t seen)
{
	if (!(seen & LOCK_WAITERS) && !lock_take(word, seen, seen | LOCK_WAITERS))
		return;
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen | LOCK_WAITERS, NULL, NULL, 0);
}

static void lock_get(uint32_t *word, uint32_t owner, bool wiped)
{
	uint32_t want = owner;

	for (;;) {
		uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
		bool orphan = !wiped && (seen & ~LOCK_WAITERS) != owner;

		if (!seen || orphan) {
			if (lock_take(word, seen, want))
				return;
			continue;
		}
		lock_wait(word, seen);
		want = owner | LOCK_WAITERS;
	}
}

int state_lock(struct pub **out)
{
	struct pub *p = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
	bool wiped;
	pid_t pid;

	if (!p)
		p = state_make();
	if (!p)
		return -ENOMEM;
	wiped = __atomic_load_n(&state_wiped_by_fork, __ATOMIC_RELAXED);
	pid = wiped ? 1 : getpid();
	lock_get(&p->lock, (uint32_t)pid, wiped);
	if (p->pid != pid) {
		memset((char *)p + offsetof(struct pub, pid), 0,
		       sizeof(*p) - offsetof(struct pub, pid));
		p->pid = pid;
	}
	*out = p;
	return 0;
}

void state_unlock(struct pub *p)
{
	if (__atomic_exchange_n(&p->lock, 0, __ATOMIC_RELEASE) & LOCK_WAITERS)
		syscall(SYS_futex, &p->lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif /* __linux__ */
