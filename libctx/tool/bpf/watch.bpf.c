/*
 * Tells when a process publishes or updates its context: that ends with a
 * prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, ..., "OTEL_CTX"), also where the kernel
 * refuses to name memory. So every exit from that call is an event, whatever it
 * returned. Attached to the exit of all system calls: it is there on every kernel
 * with BTF and needs no tracefs; two loads and a compare for all other calls.
 *
 * A 32-bit program's call has another number and its arguments in other registers,
 * and nothing here says which kind a call was: each is compared with both. What
 * looks like one and is none costs a look at that process.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "watch_event.h"

#define SYS_PRCTL	157
#define SYS_PRCTL_32	172
#define PR_SET_VMA	0x53564d41
#define NAME		"OTEL_CTX"

/* Found in the running kernel's own types when this is loaded (CO-RE). */
struct pt_regs {
	unsigned long orig_ax, bx, cx, di, si, r8;
} __attribute__((preserve_access_index));

/* The PID namespace to tell PIDs in; inode 0: the first one. */
const volatile __u64 namespace_dev;
const volatile __u64 namespace_ino;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

/* 1 for each event that found no room; then user space looks at everything. */
__u64 n_lost;

static __always_inline __u32 current_pid(void)
{
	struct bpf_pidns_info info = { 0 };

	if (!namespace_ino)
		return bpf_get_current_pid_tgid() >> 32;
	if (bpf_get_ns_current_pid_tgid(namespace_dev, namespace_ino, &info, sizeof(info)))
		return 0;	/* not of that namespace */
	return info.tgid;
}

static __always_inline int is_context_name(unsigned long address)
{
	char name[sizeof(NAME)] = { 0 };

	if (bpf_probe_read_user(name, sizeof(name), (const void *)address))
		return 0;
	for (unsigned int i = 0; i < sizeof(NAME); i++) {
		if (name[i] != NAME[i])
			return 0;
	}
	return 1;
}

/* The address of the name in a call that names memory; 0: another call. */
static __always_inline unsigned long name_given(struct pt_regs *regs)
{
	unsigned long number = BPF_CORE_READ(regs, orig_ax);

	if (number == SYS_PRCTL && BPF_CORE_READ(regs, di) == PR_SET_VMA &&
	    BPF_CORE_READ(regs, si) == 0)
		return BPF_CORE_READ(regs, r8);
	if (number == SYS_PRCTL_32 && BPF_CORE_READ(regs, bx) == PR_SET_VMA &&
	    BPF_CORE_READ(regs, cx) == 0)
		return BPF_CORE_READ(regs, di);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_exit, struct pt_regs *regs, long ret)
{
	unsigned long name = name_given(regs);
	struct watch_event *event;
	__u32 pid;

	if (!name || !is_context_name(name))
		return 0;
	pid = current_pid();
	if (!pid)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&n_lost, 1);
		return 0;
	}
	event->pid = pid;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* what bpf_probe_read_user and the CO-RE reads ask of a licence */
char LICENSE[] SEC("license") = "Dual BSD/GPL";
