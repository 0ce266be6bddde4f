#include "notify.h"

#ifdef HAVE_WATCH_BPF

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "bpf/watch_event.h"
#include "watch.skel.h"

#define TOLD_MOST 256

struct notify {
	struct watch_bpf *bpf;
	struct ring_buffer *events;
	notify_fn *fn;
	void *arg;
	unsigned long long n_lost;
	unsigned int n_told; /* in this notify_wait() */
};

static int on_event(void *arg, void *data, size_t len)
{
	const struct watch_event *event = data;
	struct notify *n = arg;

	(void)len;
	/* an error is what ends libbpf's loop, which else goes on until it has caught up */
	return n->fn((pid_t)event->pid, n->arg) && ++n->n_told < TOLD_MOST ? 0 : -ECANCELED;
}

/* The device as the kernel has it inside, not as stat() gives it. */
static unsigned long long kernel_dev(dev_t dev)
{
	return (unsigned long long)major(dev) << 20 | minor(dev);
}

static bool load(struct notify *n, bool first_namespace)
{
	struct stat ns;

	n->bpf = watch_bpf__open();
	if (!n->bpf)
		return false;
	if (!first_namespace && stat("/proc/self/ns/pid", &ns) == 0) {
		n->bpf->rodata->namespace_dev = kernel_dev(ns.st_dev);
		n->bpf->rodata->namespace_ino = ns.st_ino;
	}
	if (watch_bpf__load(n->bpf) || watch_bpf__attach(n->bpf))
		return false;
	n->events = ring_buffer__new(bpf_map__fd(n->bpf->maps.events), on_event, n, NULL);
	return n->events != NULL;
}

struct notify *notify_open(bool first_namespace, notify_fn *fn, void *arg, const char **why)
{
	struct notify *n = calloc(1, sizeof(*n));

	if (!n) {
		*why = "out of memory";
		return NULL;
	}
	n->fn = fn;
	n->arg = arg;
	libbpf_set_print(NULL);
	if (load(n, first_namespace))
		return n;
	*why = errno == EPERM || errno == EACCES
		       ? "not permitted to load eBPF programs; needs root, or CAP_BPF and "
			 "CAP_PERFMON"
		       : "this kernel does not take the eBPF program; it needs BTF and Linux 5.8";
	notify_close(n);
	return NULL;
}

bool notify_wait(struct notify *n, unsigned int ms)
{
	unsigned long long n_lost;

	n->n_told = 0;
	if (ring_buffer__poll(n->events, (int)ms) == -EINTR)
		return false;
	n_lost = __atomic_load_n(&n->bpf->bss->n_lost, __ATOMIC_RELAXED);
	if (n_lost != n->n_lost)
		n->fn(0, n->arg);
	n->n_lost = n_lost;
	return true;
}

void notify_close(struct notify *n)
{
	if (!n)
		return;
	ring_buffer__free(n->events);
	watch_bpf__destroy(n->bpf);
	free(n);
}

#else /* HAVE_WATCH_BPF */

#include <stddef.h>

struct notify *notify_open(bool first_namespace, notify_fn *fn, void *arg, const char **why)
{
	(void)first_namespace;
	(void)fn;
	(void)arg;
	*why = "pctx was built without libbpf, clang or bpftool";
	return NULL;
}

bool notify_wait(struct notify *n, unsigned int ms)
{
	(void)n;
	(void)ms;
	return false;
}

void notify_close(struct notify *n)
{
	(void)n;
}

#endif /* HAVE_WATCH_BPF */
