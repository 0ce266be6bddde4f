/*
 * Exactness: a target performs random operations on its memory, and what the
 * profile reports of each interval is compared, page for page, with what it
 * did. The seed is printed; `exact_test -v seed=N` repeats a run, and with the
 * variable soak it is a long one.
 *
 * The model knows of each page of an arena, and of what the heap grows by and
 * shrinks to, whether it is mapped, populated and written. Memory that is new to the
 * profiler, or was moved, counts as written as a whole, as far as it is populated.
 * Huge pages are off, as one write would populate 512 pages; where they are on, each
 * write has to be found, and what is found beside it has to lie in memory as large as a
 * huge page with a write in it. The racing case cannot know in which of two intervals a
 * write falls, so there only losses are looked for.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "kid.h"

#define ARENA	    0x300000000000L
#define ARENA_PAGES 2048
#define MAX_SPAN    160
#define HEAP_PAGES  64
#define HUGE_PAGES  512 /* in a huge page */

struct model {
	bool mapped[ARENA_PAGES];
	bool writable[ARENA_PAGES];
	bool populated[ARENA_PAGES];
	bool written[ARENA_PAGES];
	bool touched[ARENA_PAGES]; /* written or moved here, whatever became of it then */
	long heap, heap_n;	   /* where it began to grow, and the pages there are of it */
	bool heap_populated[HEAP_PAGES];
	bool heap_written[HEAP_PAGES];
	uint64_t random;
	bool huge; /* huge pages are on in the arena */
	unsigned long n_ops, n_intervals, n_pages, n_more, n_beside;
};

static uint64_t draw(struct model *m, uint64_t below)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random % below;
}

static long addr_of(long page)
{
	return ARENA + page * (long)PAGE;
}

static void span(struct model *m, long *first, long *n)
{
	*n = 1 + (long)draw(m, draw(m, 4) ? 12 : MAX_SPAN);
	*first = (long)draw(m, (uint64_t)(ARENA_PAGES - *n + 1));
}

/* The first run of pages within [first, first + n) that all may be touched so */
static long usable(const struct model *m, long *first, long n, bool write)
{
	long end = *first + n, len = 0;

	while (*first < end && !(m->mapped[*first] && (!write || m->writable[*first])))
		++*first;
	while (*first + len < end && m->mapped[*first + len] &&
	       (!write || m->writable[*first + len]))
		len++;
	return len;
}

static void op_map(const struct kid *k, struct model *m, long first, long n)
{
	kid_mmap_at(k, addr_of(first), (size_t)n * PAGE, PROT_READ | PROT_WRITE,
		    KID_ANON | MAP_FIXED);
	ATF_REQUIRE_EQ(0, kid_call(k, madvise, addr_of(first), n * (long)PAGE,
				   m->huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
	for (long i = first; i < first + n; i++) {
		m->mapped[i] = m->writable[i] = true;
		m->populated[i] = m->written[i] = false;
	}
}

/* Now and then memory that a huge page fits into, or else there soon was none */
static void op_map_huge(const struct kid *k, struct model *m)
{
	long first = HUGE_PAGES * (long)draw(m, ARENA_PAGES / HUGE_PAGES);

	op_map(k, m, first, HUGE_PAGES);
}

static void op_unmap(const struct kid *k, struct model *m, long first, long n)
{
	ATF_REQUIRE_EQ(0, kid_call(k, munmap, addr_of(first), n * (long)PAGE));
	for (long i = first; i < first + n; i++)
		m->mapped[i] = m->writable[i] = m->populated[i] = m->written[i] = false;
}

static void op_write(const struct kid *k, struct model *m, long first, long n)
{
	n = usable(m, &first, n, true);
	kid_write(k, addr_of(first), n);
	for (long i = first; i < first + n; i++)
		m->populated[i] = m->written[i] = m->touched[i] = true;
}

static void op_read(const struct kid *k, struct model *m, long first, long n)
{
	n = usable(m, &first, n, false);
	kid_pages(k, KID_READ, addr_of(first), n, 1);
}

static void op_protect(const struct kid *k, struct model *m, long first, long n)
{
	bool writable = draw(m, 2);

	n = usable(m, &first, n, false);
	if (!n)
		return;
	ATF_REQUIRE_EQ(0, kid_call(k, mprotect, addr_of(first), n * (long)PAGE,
				   writable ? PROT_READ | PROT_WRITE : PROT_READ));
	for (long i = first; i < first + n; i++)
		m->writable[i] = writable;
}

static void op_drop(const struct kid *k, struct model *m, long first, long n)
{
	n = usable(m, &first, n, false);
	if (!n)
		return;
	ATF_REQUIRE_EQ(0, kid_call(k, madvise, addr_of(first), n * (long)PAGE, MADV_DONTNEED));
	for (long i = first; i < first + n; i++)
		m->populated[i] = m->written[i] = false;
}

/* One page, or pages that were mapped at once: mremap wants them of one VMA. */
static void op_move(const struct kid *k, struct model *m, long first, long n)
{
	long to, rc, len = 1;

	if (draw(m, 2)) {
		len = n;
		op_map(k, m, first, n);
		op_write(k, m, first, (n + 1) / 2);
	}
	n = usable(m, &first, len, true);
	to = (long)draw(m, (uint64_t)(ARENA_PAGES - len + 1));
	if (!n || (to < first + len && first < to + len))
		return;
	rc = kid_call(k, mremap, addr_of(first), len * (long)PAGE, len * (long)PAGE,
		      MREMAP_MAYMOVE | MREMAP_FIXED, addr_of(to));
	ATF_REQUIRE_EQ(addr_of(to), rc);
	for (long i = 0; i < len; i++) {
		m->mapped[to + i] = m->writable[to + i] = m->touched[to + i] = true;
		m->populated[to + i] = m->written[to + i] = m->populated[first + i];
		m->mapped[first + i] = m->writable[first + i] = false;
		m->populated[first + i] = m->written[first + i] = false;
	}
}

static void op_fork(const struct kid *k, struct model *m, long first, long n)
{
	n = usable(m, &first, n, true);
	ATF_REQUIRE_EQ(0, kid_order(k, KID_FORK, 0, addr_of(first), n, 1));
}

/* The heap grows or shrinks to any size, and up to n pages at its end are written. */
static void op_brk(const struct kid *k, struct model *m, long n)
{
	long want = (long)draw(m, HEAP_PAGES + 1), top = m->heap + want * (long)PAGE;

	ATF_REQUIRE_EQ(top, kid_call(k, brk, top));
	for (long i = want < m->heap_n ? want : m->heap_n; i < HEAP_PAGES; i++)
		m->heap_populated[i] = m->heap_written[i] = false;
	m->heap_n = want;
	n = n < want ? n : want;
	kid_write(k, top - n * (long)PAGE, n);
	for (long i = want - n; i < want; i++)
		m->heap_populated[i] = m->heap_written[i] = true;
}

static void operate(const struct kid *k, struct model *m)
{
	long first, n;
	uint64_t what = draw(m, 100);

	span(m, &first, &n);
	m->n_ops++;
	if (m->huge && !draw(m, 16))
		op_map_huge(k, m);
	else if (what < 45)
		op_write(k, m, first, n);
	else if (what < 60)
		op_read(k, m, first, n);
	else if (what < 70)
		op_map(k, m, first, n);
	else if (what < 76)
		op_unmap(k, m, first, n);
	else if (what < 84)
		op_protect(k, m, first, n);
	else if (what < 92)
		op_drop(k, m, first, n);
	else if (what < 97)
		op_move(k, m, first, n);
	else if (what < 99)
		op_brk(k, m, 1 + n % 8);
	else
		op_fork(k, m, first, n);
}

/* The profile's pages of n from an address on, one flag each */
static void reported(const struct kid *k, long start, long n, bool *pages)
{
	memset(pages, 0, (size_t)n * sizeof(*pages));
	for (size_t i = 0; i < k->iv->n_runs; i++)
		for (uint64_t p = 0; p < k->iv->runs[i].n_pages; p++) {
			uint64_t addr = k->iv->runs[i].start + p * PAGE;

			if (addr >= (uint64_t)start && addr < (uint64_t)(start + n * (long)PAGE))
				pages[(addr - (uint64_t)start) / PAGE] = true;
		}
}

/*
 * The kernel may take the registration from a VMA that memory was moved to:
 * the profile says that it is new or has changed, and reports all that it holds.
 */
static bool is_changed(const struct kid *k, long addr)
{
	const struct wprof_vma *vma = kid_vma(k, addr);

	return vma && vma->flags & (WPROF_VMA_NEW | WPROF_VMA_CHANGED);
}

static void compare_pages(const struct kid *k, struct model *m, long start, long n,
			  const bool *populated, bool *written, uint64_t seed)
{
	static bool pages[ARENA_PAGES];

	reported(k, start, n, pages);
	for (long i = 0; i < n; i++) {
		bool more = pages[i] && !written[i] && populated[i] &&
			    is_changed(k, start + i * (long)PAGE);

		m->n_more += more;
		ATF_REQUIRE_MSG(pages[i] == written[i] || more,
				"seed %lu, interval %lu, page %ld of %#lx: reported %d, written "
				"%d, populated %d",
				(unsigned long)seed, m->n_intervals, i, start, pages[i], written[i],
				populated[i]);
		m->n_pages += pages[i];
		written[i] = false;
	}
}

/* One block as large as a huge page: all writes are found, and none in another one */
static void compare_block(const struct kid *k, struct model *m, long first, const bool *pages,
			  uint64_t seed)
{
	bool any = false;

	for (long i = first; i < first + HUGE_PAGES; i++)
		any |= m->touched[i];
	for (long i = first; i < first + HUGE_PAGES; i++) {
		ATF_REQUIRE_MSG(pages[i] ? any || is_changed(k, addr_of(i)) : !m->written[i],
				"seed %lu, interval %lu, page %ld of the arena: reported %d, "
				"written %d, touched in its block %d",
				(unsigned long)seed, m->n_intervals, i, pages[i], m->written[i],
				any);
		m->n_pages += pages[i];
		m->n_beside += pages[i] && !m->populated[i];
		m->written[i] = m->touched[i] = false;
	}
}

static void compare_blocks(const struct kid *k, struct model *m, uint64_t seed)
{
	static bool pages[ARENA_PAGES];

	reported(k, ARENA, ARENA_PAGES, pages);
	for (long i = 0; i < ARENA_PAGES; i += HUGE_PAGES)
		compare_block(k, m, i, pages, seed);
}

static void compare(struct kid *k, struct model *m, uint64_t seed)
{
	kid_sample(k);
	kid_invariants(k);
	m->n_intervals++;
	if (m->huge)
		compare_blocks(k, m, seed);
	else
		compare_pages(k, m, ARENA, ARENA_PAGES, m->populated, m->written, seed);
	compare_pages(k, m, m->heap, HEAP_PAGES, m->heap_populated, m->heap_written, seed);
}

static uint64_t seed_of(const atf_tc_t *tc)
{
	const char *given = atf_tc_get_config_var_wd(tc, "seed", "");
	uint64_t seed = *given ? strtoull(given, NULL, 0) : (uint64_t)getpid() * 2654435761u;

	printf("seed %lu\n", (unsigned long)seed);
	return seed;
}

static bool soak(const atf_tc_t *tc)
{
	return atf_tc_get_config_var_as_bool_wd(tc, "soak", false);
}

/* An emulated processor, that of the kernel tests, is ten times as slow and more. */
static int length(const atf_tc_t *tc, int usual, int emulated, int longest)
{
	if (soak(tc))
		return longest;
	return *atf_tc_get_config_var_wd(tc, "kernel", "") ? emulated : usual;
}

static struct model *model_new(uint64_t seed)
{
	struct model *m = calloc(1, sizeof(*m));

	ATF_REQUIRE(m != NULL);
	m->random = seed | 1;
	return m;
}

static void run_model(const atf_tc_t *tc, struct model *m, enum track_way way, unsigned int vec_len,
		      uint64_t seed)
{
	unsigned long n_ops = (unsigned long)length(tc, 4000, 1000, 100000);
	struct kid k;

	kid_start(&k);
	m->heap = kid_call(&k, brk, 0);
	op_map(&k, m, 0, ARENA_PAGES);
	op_write(&k, m, 0, ARENA_PAGES / 2);
	kid_profile(&k, NULL);
	k.w->track.way = way;
	k.w->track.scan.vec_len = vec_len;
	memset(m->written, 0, sizeof(m->written));
	while (m->n_ops < n_ops) {
		for (uint64_t i = draw(m, 60); i > 0; i--)
			operate(&k, m);
		compare(&k, m, seed);
	}
	printf("%lu operations, %lu intervals, %lu pages, %lu more in changed VMAs, %lu beside\n",
	       m->n_ops, m->n_intervals, m->n_pages, m->n_more, m->n_beside);
	ATF_CHECK(m->n_pages > m->n_ops);
	ATF_CHECK(m->n_more * 20 < m->n_pages);
	kid_end(&k);
}

static void run(const atf_tc_t *tc, enum track_way way, unsigned int vec_len)
{
	uint64_t seed = seed_of(tc);
	struct model *m = model_new(seed);

	run_model(tc, m, way, vec_len, seed);
	free(m);
}

/* Does the kernel make huge pages where it is asked to? */
static bool has_huge(void)
{
	char line[64] = "";
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");

	if (!f)
		return false;
	ATF_REQUIRE(fgets(line, sizeof(line), f) != NULL);
	fclose(f);
	return !strstr(line, "[never]");
}

static void run_huge(const atf_tc_t *tc, enum track_way way)
{
	uint64_t seed = seed_of(tc);
	struct model *m = model_new(seed);

	m->huge = true;
	run_model(tc, m, way, SCAN_VEC, seed);
	ATF_CHECK(m->n_beside > 0 || !has_huge());
	free(m);
}

#define SOAK_CASE(name, text) CASE_WITHIN(soak(tc) ? "1800" : "60", name, text)

SOAK_CASE(random__two_phases, "Random operations: two phases report exactly the pages written")
{
	run(tc, TRACK_TWO_PHASES, SCAN_VEC);
}

SOAK_CASE(random__one_filter,
	  "Random operations: the single filter reports exactly the pages written")
{
	run(tc, TRACK_ONE_FILTER, SCAN_VEC);
}

SOAK_CASE(random__as_chosen, "Random operations: whatever way is chosen, the pages are the same")
{
	run(tc, TRACK_CHOOSE, SCAN_VEC);
}

SOAK_CASE(random__small_vector, "Random operations, four regions a call: no tail is lost")
{
	run(tc, TRACK_TWO_PHASES, 4);
}

SOAK_CASE(huge__two_phases, "Random operations on huge pages: two phases miss no write")
{
	run_huge(tc, TRACK_TWO_PHASES);
}

SOAK_CASE(huge__one_filter, "Random operations on huge pages: the single filter misses no write")
{
	run_huge(tc, TRACK_ONE_FILTER);
}

SOAK_CASE(huge__as_chosen,
	  "Random operations on huge pages: whatever way is chosen, no write is missed")
{
	run_huge(tc, TRACK_CHOOSE);
}

/* ---- writers that race the scan -------------------------------------------------- */

#define RACE_PAGES   512
#define RACE_THREADS 2

/* In memory shared with the target: a page is written, then its count is raised. */
struct race {
	_Atomic uint64_t count[RACE_PAGES];
	_Atomic bool stop;
	_Atomic int ready;
	char *pages;
};

struct writer {
	struct race *race;
	uint64_t random;
};

static void *race_writer(void *arg)
{
	struct writer *w = arg;
	struct race *r = w->race;

	atomic_fetch_add(&r->ready, 1);
	while (!atomic_load(&r->stop)) {
		uint64_t page;

		w->random = w->random * 6364136223846793005u + 1442695040888963407u;
		page = (w->random >> 33) % RACE_PAGES;
		((volatile char *)r->pages)[page * PAGE]++;
		atomic_fetch_add(&r->count[page], 1);
	}
	return NULL;
}

static _Noreturn void race_target(struct race *r, int sock)
{
	long fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
	struct writer w[RACE_THREADS];
	pthread_t t[RACE_THREADS];
	char c;

	if (write(sock, &fd, sizeof(fd)) != sizeof(fd) || read(sock, &c, 1) != 1)
		_exit(1);
	close((int)fd);
	for (int i = 0; i < RACE_THREADS; i++) {
		w[i] = (struct writer){ r, (uint64_t)i + 77 };
		if (pthread_create(&t[i], NULL, race_writer, &w[i]))
			_exit(1);
	}
	for (int i = 0; i < RACE_THREADS; i++)
		pthread_join(t[i], NULL);
	_exit(0);
}

static void race_start(struct kid *k, struct race **out)
{
	struct race *r =
		mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int sv[2], pidfd;
	long fd;

	ATF_REQUIRE(r != MAP_FAILED);
	r->pages = mmap(NULL, RACE_PAGES * PAGE, PROT_READ | PROT_WRITE, KID_ANON, -1, 0);
	ATF_REQUIRE(r->pages != MAP_FAILED);
	madvise(r->pages, RACE_PAGES * PAGE, MADV_NOHUGEPAGE);
	memset(k, 0, sizeof(*k));
	ATF_REQUIRE_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	k->pid = fork();
	if (!k->pid)
		race_target(r, sv[1]);
	close(sv[1]);
	k->sock = sv[0];
	fd = kid_answer(k);
	pidfd = (int)syscall(SYS_pidfd_open, k->pid, 0);
	k->uffd = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	ATF_REQUIRE(k->uffd >= 0);
	close(pidfd);
	ATF_REQUIRE_EQ(1, write(k->sock, "", 1));
	while (atomic_load(&r->ready) < RACE_THREADS)
		sched_yield();
	*out = r;
}

/* Which pages of the racing memory the last interval reported */
static void race_reported(const struct kid *k, const struct race *r, bool *hits)
{
	uint64_t from = (uintptr_t)r->pages;

	memset(hits, 0, RACE_PAGES * sizeof(*hits));
	for (size_t i = 0; i < k->iv->n_runs; i++)
		for (uint64_t p = 0; p < k->iv->runs[i].n_pages; p++) {
			uint64_t addr = k->iv->runs[i].start + p * PAGE;

			if (addr >= from && addr < from + RACE_PAGES * PAGE)
				hits[(addr - from) / PAGE] = true;
		}
}

/*
 * The count of a page is raised after the page was written, so between two
 * readings all but one raise a thread stand for writes after the first. The
 * second reading is taken right before interval i ends. Such a write lies in
 * interval i, or in the scan that ended interval i - 1: one of them reports it.
 */
static void race_run(const atf_tc_t *tc, enum track_way way)
{
	static uint64_t before[RACE_PAGES], now[RACE_PAGES];
	static bool hits[2][RACE_PAGES];
	const time_t patience_s = soak(tc) ? 1200 : 15;
	int n = length(tc, 2000, 60, 200000), done = 0;
	unsigned long checked = 0;
	time_t begun = time(NULL);
	struct race *r;
	struct kid k;

	race_start(&k, &r);
	kid_profile(&k, NULL);
	k.w->track.way = way;
	/* on a busy machine the writers leave little time: fewer intervals then */
	for (int i = 0; i < n && time(NULL) - begun < patience_s; i++) {
		for (int p = 0; p < RACE_PAGES; p++)
			now[p] = atomic_load(&r->count[p]);
		kid_sample(&k);
		race_reported(&k, r, hits[i % 2]);
		for (int p = 0; p < RACE_PAGES; p++) {
			bool due = i > 0 && now[p] > before[p] + RACE_THREADS;

			ATF_REQUIRE_MSG(!due || hits[0][p] || hits[1][p],
					"interval %d: page %d was written and not reported", i, p);
			checked += due;
			before[p] = now[p];
		}
		done++;
	}
	printf("%d intervals, %lu written pages looked for\n", done, checked);
	ATF_CHECK(checked > (unsigned long)done);
	atomic_store(&r->stop, true);
	kid_end(&k);
}

SOAK_CASE(race__two_phases, "Writers race the scan: each write is in its interval or the next")
{
	race_run(tc, TRACK_TWO_PHASES);
}

SOAK_CASE(race__one_filter,
	  "Writers race the single filter: each write is in its interval or the next")
{
	race_run(tc, TRACK_ONE_FILTER);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, random__two_phases);
	ATF_TP_ADD_TC(tp, random__one_filter);
	ATF_TP_ADD_TC(tp, random__as_chosen);
	ATF_TP_ADD_TC(tp, random__small_vector);
	ATF_TP_ADD_TC(tp, huge__two_phases);
	ATF_TP_ADD_TC(tp, huge__one_filter);
	ATF_TP_ADD_TC(tp, huge__as_chosen);
	ATF_TP_ADD_TC(tp, race__two_phases);
	ATF_TP_ADD_TC(tp, race__one_filter);
	return atf_no_error();
}
