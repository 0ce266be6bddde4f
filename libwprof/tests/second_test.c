/*
 * Two profilers of one target: one has it, the other is told so, whenever they
 * begin. The races are run many times; that none goes wrong here does not prove
 * that none can: why it cannot is in track.c, Theory of operation.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "kid.h"

#define GAPS	   48 /* shared mappings that part the memory: as many registrations */
#define PLACE	   0x200000000000L
#define RACERS_MAX 4
#define PATIENCE_S 20

/** struct racer - one of those that begin at the same instant */
struct racer {
	pthread_barrier_t *start;
	pid_t pid;
	int uffd; /* -1: inject for one */
	struct wprof *w;
	struct wprof_why why;
	int rc;
};

/* private and shared mappings in turn, with a private one at either end */
static void map_parted(const struct kid *k)
{
	for (long i = 0; i <= 2 * GAPS; i++)
		kid_mmap_at(k, PLACE + i * PAGES(4), (size_t)PAGES(4), PROT_READ | PROT_WRITE,
			    MAP_FIXED | MAP_ANONYMOUS | (i % 2 ? MAP_SHARED : MAP_PRIVATE));
	kid_pages(k, KID_WRITE, PLACE, GAPS, 8);
}

/* a descriptor of the kid's that nothing was asked of yet */
static int fresh_uffd(const struct kid *k)
{
	long fd = kid_call(k, userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
	int pidfd = (int)syscall(SYS_pidfd_open, k->pid, 0);
	int uffd = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	ATF_REQUIRE(fd >= 0 && uffd >= 0);
	ATF_REQUIRE_EQ(0, kid_call(k, close, fd));
	close(pidfd);
	return uffd;
}

static void *racer_run(void *arg)
{
	struct racer *r = arg;

	pthread_barrier_wait(r->start);
	r->rc = profile_attach(r->pid, r->uffd, NULL, &r->w, &r->why);
	return NULL;
}

/* All begin at once; one has the target, the others know why they have not. */
static struct wprof *race(const struct kid *k, int n, const int *uffds)
{
	struct racer racers[RACERS_MAX] = { 0 };
	pthread_t threads[RACERS_MAX];
	pthread_barrier_t start;
	struct wprof *winner = NULL;
	int won = 0;

	pthread_barrier_init(&start, NULL, (unsigned int)n);
	for (int i = 0; i < n; i++) {
		racers[i].start = &start;
		racers[i].pid = k->pid;
		racers[i].uffd = uffds[i];
		ATF_REQUIRE_EQ(0, pthread_create(&threads[i], NULL, racer_run, &racers[i]));
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	for (int i = 0; i < n; i++) {
		won += !racers[i].rc;
		winner = racers[i].rc ? winner : racers[i].w;
		if (racers[i].rc &&
		    (racers[i].rc != -EBUSY || racers[i].why.reason != WPROF_TRACED))
			atf_tc_fail("refused for another reason: %s", racers[i].why.text);
	}
	ATF_REQUIRE_EQ_MSG(1, won, "%d of %d have it: %s", won, n, racers[0].why.text);
	return winner;
}

/* What the winner has is all there is, and it sees what is written. */
static void winner_has_all(struct kid *k)
{
	kid_sample(k);
	ATF_CHECK_EQ(0, k->iv->untracked_busy_bytes);
	kid_pages(k, KID_WRITE, PLACE, GAPS, 8);
	kid_sample(k);
	kid_invariants(k);
	ATF_CHECK_EQ(0, k->iv->untracked_busy_bytes);
	ATF_CHECK_EQ(GAPS, kid_written(k, PLACE, (size_t)PAGES(8 * GAPS)));
}

/* As many rounds as are wanted, or as a slow machine does in a while */
static void races(struct kid *k, int rounds, int n, bool inject)
{
	const time_t end = time(NULL) + PATIENCE_S;

	for (int i = 0; i < rounds && (i < 5 || time(NULL) < end); i++) {
		int uffds[RACERS_MAX];

		for (int j = 0; j < n; j++)
			uffds[j] = inject ? -1 : fresh_uffd(k);
		k->w = race(k, n, uffds);
		winner_has_all(k);
		wprof_close(k->w);
		k->w = NULL;
	}
}

KID_CASE(begin__one_of_two, "Of two that begin at the same instant one has the target")
{
	map_parted(k);
	races(k, 300, 2, false);
}

KID_CASE(begin__one_of_four, "Of four that begin at the same instant one has the target")
{
	map_parted(k);
	races(k, 100, 4, false);
}

KID_CASE(begin__one_of_two_with_injection, "The same where each injects for its descriptor")
{
	map_parted(k);
	races(k, 60, 2, true);
}

/** struct churn - a kid that maps and unmaps until it is told to stop */
struct churn {
	const struct kid *k;
	atomic_bool stop;
};

/* Below, within and above what the racers meet first: their lists differ. */
static void *churn_run(void *arg)
{
	static const long places[] = { 0x10000000, PLACE + PAGES(8), PLACE + PAGES(16 * GAPS) };
	struct churn *c = arg;

	for (long i = 0; !atomic_load(&c->stop); i++) {
		long p = places[i % 3];

		kid_mmap_at(c->k, p, (size_t)PAGES(4), PROT_READ | PROT_WRITE,
			    KID_ANON | MAP_FIXED);
		kid_write(c->k, p, 4);
		if (p != places[1])
			kid_call(c->k, munmap, p, PAGES(4));
	}
	return NULL;
}

KID_CASE(begin__mappings_change, "The same while the target maps and unmaps memory")
{
	const time_t end = time(NULL) + PATIENCE_S;
	struct churn c = { .k = k };
	struct wprof *w;
	pthread_t thread;

	map_parted(k);
	for (int i = 0; i < 60 && (i < 5 || time(NULL) < end); i++) {
		int fds[2] = { fresh_uffd(k), fresh_uffd(k) };

		atomic_store(&c.stop, false);
		ATF_REQUIRE_EQ(0, pthread_create(&thread, NULL, churn_run, &c));
		w = race(k, 2, fds);
		atomic_store(&c.stop, true);
		pthread_join(thread, NULL);
		k->w = w;
		winner_has_all(k);
		wprof_close(w);
		k->w = NULL;
	}
}

KID_CASE(begin__spares_the_injection, "One that comes later is refused before a thread is stopped")
{
	struct wprof_opts opts = { .size = sizeof(opts), .injector = "/nonexistent" };
	struct wprof_why why;
	struct wprof *w;

	ATF_REQUIRE_EQ(-ENOENT, wprof_open(k->pid, &opts, &w, &why));
	kid_profile(k, NULL);
	ATF_CHECK_EQ(-EBUSY, wprof_open(k->pid, &opts, &w, &why));
	ATF_CHECK_EQ(WPROF_TRACED, why.reason);
	ATF_CHECK_MATCH("another profiler", why.text);
}

/* state of the fact, or -2 */
static int unprofiled(pid_t pid)
{
	struct wprof_fact facts[64];
	size_t n = 64;

	ATF_REQUIRE_EQ(0, wprof_check(pid, facts, &n));
	for (size_t i = 0; i < n; i++)
		if (!strcmp(facts[i].name, "target_unprofiled"))
			return facts[i].state;
	return -2;
}

KID_CASE(check__tells, "Looking at a target that is being profiled says so, and disturbs nobody")
{
	map_parted(k);
	ATF_CHECK_EQ(1, unprofiled(k->pid));
	kid_profile(k, NULL);
	ATF_CHECK_EQ(0, unprofiled(k->pid));
	winner_has_all(k);
	ATF_REQUIRE_EQ(0, wprof_pause(k->w));
	ATF_CHECK_EQ(1, unprofiled(k->pid));
}

KID_CASE(resume__taken_meanwhile,
	 "Resuming fails while another has the target, and works afterwards")
{
	int uffd = fresh_uffd(k);
	struct wprof_why why;
	struct wprof *w;

	map_parted(k);
	kid_profile(k, NULL);
	ATF_REQUIRE_EQ(0, wprof_pause(k->w));
	ATF_REQUIRE_EQ_MSG(0, profile_attach(k->pid, uffd, NULL, &w, &why), "%s", why.text);
	ATF_CHECK_EQ(-EBUSY, wprof_resume(k->w));
	ATF_CHECK_EQ(-ENOTCONN, wprof_sample(k->w, &k->iv));
	/* the attempt took nothing from the other one */
	kid_pages(k, KID_WRITE, PLACE, GAPS, 8);
	ATF_REQUIRE_EQ(0, wprof_sample(w, &k->iv));
	ATF_CHECK_EQ(0, k->iv->untracked_busy_bytes);
	ATF_CHECK_EQ(GAPS, kid_written(k, PLACE, (size_t)PAGES(8 * GAPS)));
	wprof_close(w);
	ATF_REQUIRE_EQ(0, wprof_resume(k->w));
	winner_has_all(k);
}

KID_CASE(target__tracks_itself, "Memory that the target tracks itself is skipped and told")
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };
	struct uffdio_register reg = { { PLACE, (unsigned long)PAGES(4) },
				       UFFDIO_REGISTER_MODE_WP,
				       0 };
	long fd = kid_call(k, userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
	int pidfd = (int)syscall(SYS_pidfd_open, k->pid, 0);
	int uffd = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	map_parted(k);
	ATF_REQUIRE_EQ(0, ioctl(uffd, UFFDIO_API, &api));
	ATF_REQUIRE_EQ(0, ioctl(uffd, UFFDIO_REGISTER, &reg));
	close(uffd);
	close(pidfd);
	kid_profile(k, NULL);
	kid_pages(k, KID_WRITE, PLACE, GAPS, 8);
	kid_sample(k);
	ATF_CHECK_EQ(PAGES(4), (long)k->iv->untracked_busy_bytes);
	ATF_CHECK_EQ(GAPS - 1, kid_written(k, PLACE, (size_t)PAGES(8 * GAPS)));
}

KID_CASE(target__has_an_unused_one, "A userfaultfd that an injection is creating is nobody's yet")
{
	ATF_REQUIRE(kid_call(k, userfaultfd, O_CLOEXEC | O_NONBLOCK | 1) >= 0);
	map_parted(k);
	races(k, 20, 2, false);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, begin__one_of_two);
	ATF_TP_ADD_TC(tp, begin__one_of_four);
	ATF_TP_ADD_TC(tp, begin__one_of_two_with_injection);
	ATF_TP_ADD_TC(tp, begin__mappings_change);
	ATF_TP_ADD_TC(tp, begin__spares_the_injection);
	ATF_TP_ADD_TC(tp, check__tells);
	ATF_TP_ADD_TC(tp, resume__taken_meanwhile);
	ATF_TP_ADD_TC(tp, target__tracks_itself);
	ATF_TP_ADD_TC(tp, target__has_an_unused_one);
	return atf_no_error();
}
