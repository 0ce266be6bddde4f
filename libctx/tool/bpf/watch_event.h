/* watch_event.h - what the eBPF program tells; of both worlds, so no includes. */
#ifndef PROCSCOPE_WATCH_EVENT_H
#define PROCSCOPE_WATCH_EVENT_H

struct watch_event {
	unsigned int pid;
};

#endif /* PROCSCOPE_WATCH_EVENT_H */
