/*
 * agent - what a call of wprof-agent takes against gRPC itself, and what it
 * costs to keep one.
 *
 *	agent [CALLS [IDLE_SECONDS]]	default 10000, 10
 *
 * The other server answers every call with an empty message and does nothing
 * else: the same C core, a registered method, one queue, one thread. Both are
 * called over unix sockets by the same client in the same run, in turns of 500
 * calls: GetDirtyVolume one after the other, and with 16 in flight, while the
 * agent profiles a memwrite that writes 16 MiB a second. The target is that of
 * the medians; p99 and throughput are shown beside it: on two processors they
 * say more of what else runs.
 *
 * Idle is an agent that profiles nothing and has no client. Wake-ups are the
 * voluntary context switches of all its threads.
 */
#include <dirent.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>

#include "beside.h"
#include "ctx_bench.h"

#define METHOD	      "/criu.agent.v1.CRIUAgent/GetDirtyVolume"
#define TURN	      500
#define IN_FLIGHT     16
#define CALLS_MAX     1000000
#define TARGET	      1.2
#define PRE_REQUESTED 32 /* as many as the agent has of each method */

static char dir[] = "/tmp/bench-agent.XXXXXX";
static grpc_completion_queue *queue; /* of the client, or of the empty server */

/* ---- the empty server ------------------------------------------------------- */

/** struct empty - a call of the empty server */
struct empty {
	grpc_call *call;
	gpr_timespec deadline;
	grpc_metadata_array metadata;
	grpc_byte_buffer *in, *out;
	int cancelled;
	bool answered;
};

static void empty_request(grpc_server *server, void *method)
{
	struct empty *e = calloc(1, sizeof(*e));

	must(e, "calloc");
	grpc_metadata_array_init(&e->metadata);
	must(grpc_server_request_registered_call(server, method, &e->call, &e->deadline,
						 &e->metadata, &e->in, queue, queue,
						 e) == GRPC_CALL_OK,
	     "request");
}

static void empty_answer(struct empty *e)
{
	grpc_slice nothing = grpc_empty_slice();
	grpc_op ops[4] = { 0 };

	e->answered = true;
	e->out = grpc_raw_byte_buffer_create(&nothing, 1);
	ops[0].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
	ops[0].data.recv_close_on_server.cancelled = &e->cancelled;
	ops[1].op = GRPC_OP_SEND_INITIAL_METADATA;
	ops[2].op = GRPC_OP_SEND_MESSAGE;
	ops[2].data.send_message.send_message = e->out;
	ops[3].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
	ops[3].data.send_status_from_server.status = GRPC_STATUS_OK;
	must(grpc_call_start_batch(e->call, ops, 4, e, NULL) == GRPC_CALL_OK, "batch");
}

static void empty_free(struct empty *e)
{
	grpc_metadata_array_destroy(&e->metadata);
	grpc_byte_buffer_destroy(e->in);
	grpc_byte_buffer_destroy(e->out);
	grpc_call_unref(e->call);
	free(e);
}

/* In a process of its own, until that is killed. */
static void empty_serve(int ready, void *arg)
{
	gpr_timespec never = gpr_inf_future(GPR_CLOCK_REALTIME);
	grpc_server_credentials *plain;
	grpc_server *server;
	void *method;

	grpc_init();
	plain = grpc_insecure_server_credentials_create();
	queue = grpc_completion_queue_create_for_next(NULL);
	server = grpc_server_create(NULL, NULL);
	grpc_server_register_completion_queue(server, queue, NULL);
	method = grpc_server_register_method(server, METHOD, NULL,
					     GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
	must(grpc_server_add_http2_port(server, arg, plain), "the empty server's socket");
	grpc_server_start(server);
	for (int i = 0; i < PRE_REQUESTED; i++)
		empty_request(server, method);
	must(write(ready, "x", 1) == 1, "write");
	for (;;) {
		struct empty *e = grpc_completion_queue_next(queue, never, NULL).tag;

		if (e->answered) {
			empty_free(e);
			continue;
		}
		empty_request(server, method);
		empty_answer(e);
	}
}

/* ---- the agent, and its target ---------------------------------------------- */

/** struct program - one to run: its name beside the bench, and its arguments */
struct program {
	const char *name;
	const char *args[8];
};

/* Becomes @arg; @ready closes by itself, what it prints is not for the table. */
static void program_run(int ready, void *arg)
{
	const struct program *p = arg;
	char path[4096], *argv[10] = { path };

	program_path(path, sizeof(path), p->name);
	for (size_t i = 0; i < 8 && p->args[i]; i++)
		argv[i + 1] = (char *)p->args[i];
	must(write(ready, "x", 1) == 1, "write");
	must(freopen("/dev/null", "w", stdout) != NULL, "/dev/null");
	execv(path, argv);
	perror(path);
	_exit(127);
}

/* gRPC's own attempts to connect are a second apart: not before it listens. */
static void await_socket(const char *address)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int tries = 1000;

	must(fd >= 0, "socket");
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", address + strlen("unix:"));
	while (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		must(tries-- > 0, "the agent does not listen");
		usleep(10000);
	}
	close(fd);
}

static pid_t agent_start(const char *address)
{
	struct program agent = { "wprof-agent", { "--listen", address, "--log-level", "error" } };
	pid_t pid = target_start(program_run, &agent);

	await_socket(address);
	return pid;
}

static void profile(const char *address, pid_t target)
{
	char pid[16];
	struct program start = { "wprof-ctl", { "start", "--connect", address, pid } };
	int status;
	pid_t child;

	snprintf(pid, sizeof(pid), "%d", target);
	child = target_start(program_run, &start);
	if (waitpid(child, &status, 0) != child || status) {
		fprintf(stderr, "agent: profiling cannot begin\n");
		exit(1);
	}
}

/* ---- the client --------------------------------------------------------------- */

/** struct call - one in flight */
struct call {
	grpc_call *grpc;
	grpc_metadata_array initial, trailing;
	grpc_byte_buffer *out, *in;
	grpc_status_code code;
	grpc_slice text;
	uint64_t begun_ns;
};

static void call_begin(struct call *c, grpc_channel *channel)
{
	gpr_timespec deadline =
		gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(30, GPR_TIMESPAN));
	grpc_slice nothing = grpc_empty_slice();
	grpc_op ops[6] = { 0 };

	memset(c, 0, sizeof(*c));
	grpc_metadata_array_init(&c->initial);
	grpc_metadata_array_init(&c->trailing);
	c->out = grpc_raw_byte_buffer_create(&nothing, 1);
	c->begun_ns = now_ns();
	c->grpc = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
					   grpc_slice_from_static_string(METHOD), NULL, deadline,
					   NULL);
	ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
	ops[1].op = GRPC_OP_SEND_MESSAGE;
	ops[1].data.send_message.send_message = c->out;
	ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
	ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
	ops[3].data.recv_initial_metadata.recv_initial_metadata = &c->initial;
	ops[4].op = GRPC_OP_RECV_MESSAGE;
	ops[4].data.recv_message.recv_message = &c->in;
	ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
	ops[5].data.recv_status_on_client.trailing_metadata = &c->trailing;
	ops[5].data.recv_status_on_client.status = &c->code;
	ops[5].data.recv_status_on_client.status_details = &c->text;
	must(grpc_call_start_batch(c->grpc, ops, 6, c, NULL) == GRPC_CALL_OK, "batch");
}

/* The next call that comes back. Return: what it took, in ns */
static double call_end(struct call **out)
{
	gpr_timespec never = gpr_inf_future(GPR_CLOCK_REALTIME);
	struct call *c = grpc_completion_queue_next(queue, never, NULL).tag;
	double took_ns = (double)(now_ns() - c->begun_ns);

	if (c->code != GRPC_STATUS_OK || !c->in) {
		fprintf(stderr, "agent: a call failed: status %d\n", (int)c->code);
		exit(1);
	}
	grpc_metadata_array_destroy(&c->initial);
	grpc_metadata_array_destroy(&c->trailing);
	grpc_byte_buffer_destroy(c->out);
	grpc_byte_buffer_destroy(c->in);
	grpc_slice_unref(c->text);
	grpc_call_unref(c->grpc);
	*out = c;
	return took_ns;
}

/** struct side - a server and what was measured of it */
struct side {
	const char *name;
	char address[64];
	grpc_channel *channel;
	double *ns;	/* of each call, one after the other */
	double many_ns; /* for as many with IN_FLIGHT */
	double p50, p99;
};

static void side_open(struct side *s, size_t calls)
{
	grpc_channel_credentials *plain = grpc_insecure_credentials_create();
	struct call call, *back;

	s->channel = grpc_channel_create(s->address, plain, NULL);
	grpc_channel_credentials_release(plain);
	s->ns = calloc(calls, sizeof(*s->ns));
	must(s->ns, "calloc");
	for (int i = 0; i < TURN; i++) { /* connects, and warms up */
		call_begin(&call, s->channel);
		call_end(&back);
	}
}

static void turn_sequential(struct side *s, size_t at)
{
	struct call call, *back;

	for (size_t i = 0; i < TURN; i++) {
		call_begin(&call, s->channel);
		s->ns[at + i] = call_end(&back);
	}
}

static void turn_many(struct side *s)
{
	uint64_t start = now_ns();
	struct call calls[IN_FLIGHT], *back;
	size_t begun;

	for (begun = 0; begun < IN_FLIGHT; begun++)
		call_begin(&calls[begun], s->channel);
	for (size_t ended = 0; ended < TURN; ended++) {
		call_end(&back);
		if (begun++ < TURN)
			call_begin(back, s->channel);
	}
	s->many_ns += (double)(now_ns() - start);
}

static void side_print(struct side *s, size_t calls)
{
	double total_ns = 0;

	for (size_t i = 0; i < calls; i++)
		total_ns += s->ns[i];
	s->p50 = percentile(s->ns, calls, 0.5);
	s->p99 = percentile(s->ns, calls, 0.99);
	printf("%-14s %9.1f us %9.1f us %10.0f /s %10.0f /s\n", s->name, s->p50 / 1e3, s->p99 / 1e3,
	       1e9 * (double)calls / total_ns, 1e9 * (double)calls / s->many_ns);
}

static int measure_calls(struct side *empty, struct side *agent, size_t calls)
{
	grpc_init();
	queue = grpc_completion_queue_create_for_next(NULL);
	side_open(empty, calls);
	side_open(agent, calls);
	for (size_t at = 0; at < calls; at += TURN) {
		turn_sequential(empty, at);
		turn_sequential(agent, at);
		turn_many(empty);
		turn_many(agent);
	}
	printf("%-14s %12s %12s %13s %13s\n", "", "p50", "p99", "one by one", "16 in flight");
	side_print(empty, calls);
	side_print(agent, calls);
	return verdict("p50, agent / empty server", agent->p50 / empty->p50, TARGET);
}

/* ---- idle -------------------------------------------------------------------- */

/* The number of line @name, with its colon, of a status file. */
static unsigned long status_field(const char *path, const char *name)
{
	size_t len = strlen(name);
	unsigned long n = 0;
	char line[256];
	FILE *f = fopen(path, "re");

	must(f, path);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, len))
			n = strtoul(line + len, NULL, 10);
	fclose(f);
	return n;
}

static unsigned long wakeups(pid_t pid)
{
	char path[512];
	unsigned long n = 0;
	struct dirent *e;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	must(tasks, path);
	while ((e = readdir(tasks)))
		if (e->d_name[0] != '.') {
			snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, e->d_name);
			n += status_field(path, "voluntary_ctxt_switches:");
		}
	closedir(tasks);
	return n;
}

static void idle_print(const char *name, pid_t pid, unsigned long n, unsigned int seconds)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	printf("%-14s %6.1f MB resident, %lu wake-ups in %u s\n", name,
	       (double)status_field(path, "VmRSS:") * 1024 / 1e6, n, seconds);
}

static void measure_idle(pid_t empty, pid_t agent, unsigned int seconds)
{
	unsigned long a, b;

	sleep(1); /* what starting began is over */
	a = wakeups(empty);
	b = wakeups(agent);
	sleep(seconds);
	a = wakeups(empty) - a;
	b = wakeups(agent) - b;
	idle_print("empty, idle", empty, a, seconds);
	idle_print("agent, idle", agent, b, seconds);
	fflush(stdout); /* a child would write it again */
}

static void clean_up(void)
{
	static const char *const left[] = { "empty", "agent", "agent.lock" };
	char path[64];

	/* what was killed leaves its socket and the lock beside it */
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, left[i]);
		unlink(path);
	}
	rmdir(dir);
}

int main(int argc, char **argv)
{
	struct program memwrite = { "memwrite", { "-s", "64M", "--rate", "16M" } };
	struct side empty = { .name = "empty server" }, agent = { .name = "wprof-agent" };
	int calls = number_arg(argc, argv, 1, 10000, CALLS_MAX);
	int idle_s = number_arg(argc, argv, 2, 10, 3600);
	pid_t pids[3];
	int missed;

	if (argc > 3 || !calls || !idle_s) {
		fprintf(stderr, "usage: agent [CALLS [IDLE_SECONDS]]\n");
		return 2;
	}
	calls = (calls + TURN - 1) / TURN * TURN;
	must(mkdtemp(dir) != NULL, dir);
	snprintf(empty.address, sizeof(empty.address), "unix:%s/empty", dir);
	snprintf(agent.address, sizeof(agent.address), "unix:%s/agent", dir);
	/* all of them before gRPC's threads: a fork after those is not supported */
	pids[0] = target_start(empty_serve, empty.address);
	pids[1] = agent_start(agent.address);
	pids[2] = target_start(program_run, &memwrite);
	atexit(clean_up);
	measure_idle(pids[0], pids[1], (unsigned int)idle_s);
	profile(agent.address, pids[2]);
	missed = measure_calls(&empty, &agent, (size_t)calls);
	for (size_t i = 0; i < 3; i++)
		target_end(pids[i]);
	return missed;
}
