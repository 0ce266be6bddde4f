/*
 * Places where a thread must not be left as it was found: a restartable sequence,
 * and the page of the old vsyscalls.
 */
#include <linux/rseq.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "tests/inject_common.h"

#if defined(__x86_64__) && __has_include(<sys/rseq.h>)
#define HAVE_RSEQ_TEST 1
extern const ptrdiff_t __rseq_offset;
extern const unsigned int __rseq_size;
#else
#define HAVE_RSEQ_TEST 0
#endif

static void on_signal(int sig)
{
	(void)sig;
}

#if HAVE_RSEQ_TEST
/*
 * A critical section that spins until *stop is set. The kernel sends a thread
 * that it interrupts in there to the abort handler. Return: 1 committed, 0 aborted.
 */
static int section_run(atomic_int *stop, uint64_t *rseq_cs)
{
	__asm__ volatile goto(".pushsection .data.rel, \"aw\"\n"
			      ".balign 32\n"
			      "3:\n"
			      ".long 0, 0\n"
			      ".quad 1f, 2f - 1f, 4f\n"
			      ".popsection\n"
			      "leaq 3b(%%rip), %%rax\n"
			      "movq %%rax, (%[cs])\n"
			      "1:\n"
			      "cmpl $0, (%[stop])\n"
			      "je 1b\n"
			      "2:\n"
			      ".pushsection .text.rseq_abort, \"ax\"\n"
			      ".byte 0x0f, 0xb9, 0x3d\n" /* ud1: the signature follows */
			      ".long 0x53053053\n"
			      "4:\n"
			      "jmp %l[aborted]\n"
			      ".popsection\n"
			      :
			      : [cs] "r"(rseq_cs), [stop] "r"(stop)
			      : "rax", "memory", "cc"
			      : aborted);
	return 1;
aborted:
	return 0;
}

static void body_section(struct shared *shared)
{
	uint64_t *cs = (uint64_t *)((char *)__builtin_thread_pointer() + __rseq_offset +
				    offsetof(struct rseq, rseq_cs));

	signal(SIGUSR1, on_signal);
	atomic_store(&shared->ready, 1);
	while (!section_run(&shared->stop, cs))
		atomic_fetch_add(&shared->counts[0], 1);
}
#endif

#if HAVE_RSEQ_TEST
/* PTRACE_GET_RSEQ_CONFIGURATION is of Linux 5.13; older ones cannot profile either. */
static bool kernel_tells_rseq(void)
{
	struct utsname u;
	int major, minor;

	return uname(&u) || sscanf(u.release, "%d.%d", &major, &minor) != 2 || major > 5 ||
	       minor >= 13;
}
#endif

/*
 * Had the injection left the thread inside the section with the kernel's note of
 * it cleared, a signal would not abort it any more: the count would stand still.
 */
INJECT_CASE(rseq__aborted, "A thread in a restartable sequence leaves by its abort handler")
{
#if HAVE_RSEQ_TEST
	struct target t;
	long before;

	if (!__rseq_size)
		atf_tc_skip("the C library has registered no rseq area");
	if (!kernel_tells_rseq())
		atf_tc_skip("this kernel does not tell where a thread's rseq area is");
	t = target_start(body_section);
	target_wait(&t, 1);
	for (int i = 0; i < 30; i++) {
		before = atomic_load(&t.shared->counts[0]);
		inject_ok(&t);
		while (atomic_load(&t.shared->counts[0]) == before)
			sched_yield();
		before = atomic_load(&t.shared->counts[0]);
		ATF_REQUIRE_EQ(0, kill(t.pid, SIGUSR1));
		while (atomic_load(&t.shared->counts[0]) == before)
			sched_yield();
	}
	target_finish(&t);
#else
	atf_tc_skip("no rseq for this architecture or C library");
#endif
}

/* time(2) as programs of long ago call it: a page the kernel emulates */
#define VSYSCALL_TIME 0xffffffffff600400ul

static int vsyscall_is_there(void)
{
	char line[512];
	int found = 0;
	FILE *f = fopen("/proc/self/maps", "re");

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, "[vsyscall]") != NULL;
	if (f)
		fclose(f);
	return found;
}

static void body_vsyscall(struct shared *shared)
{
	time_t (*vsyscall_time)(time_t *) = (time_t(*)(time_t *))VSYSCALL_TIME;

	atomic_store(&shared->ready, 1);
	while (!atomic_load(&shared->stop)) {
		time_t now = vsyscall_time(NULL);

		CHILD_REQUIRE(labs((long)(now - time(NULL))) <= 5);
		atomic_fetch_add(&shared->counts[0], 1);
	}
}

INJECT_CASE(vsyscall__busy, "A thread that lives in the vsyscall page goes on as before")
{
	struct target t;

	if (!vsyscall_is_there())
		atf_tc_skip("this kernel has no vsyscall page");
	t = target_start(body_vsyscall);
	target_wait(&t, 1);
	for (int i = 0; i < 100; i++)
		inject_ok(&t);
	count_runs(&t.shared->counts[0]);
	target_finish(&t);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, rseq__aborted);
	ATF_TP_ADD_TC(tp, vsyscall__busy);
	return atf_no_error();
}
