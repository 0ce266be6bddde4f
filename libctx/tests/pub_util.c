#include "pub_util.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "sys.h"

int pub_child(void (*body)(void))
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm(60); /* a hang is a failure, not a timeout of the whole test */
		body();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

/* "start-end perms offset device inode name"; false without a name */
static bool pub_mapping_parse(char *line, struct pub_mapping *m)
{
	char *at = line;

	line[strcspn(line, "\n")] = 0;
	m->start = strtoul(at, &at, 16);
	m->end = strtoul(at + 1, &at, 16);
	snprintf(m->perms, sizeof(m->perms), "%.4s", at + 1);
	for (int field = 0; field < 4; field++) { /* perms, offset, device, inode */
		at += strspn(at, " ");
		at += strcspn(at, " ");
	}
	at += strspn(at, " ");
	snprintf(m->name, sizeof(m->name), "%s", at);
	return *at != 0;
}

size_t pub_mappings(struct pub_mapping *out, size_t max)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	size_t n = 0;

	while (maps && n < max && fgets(line, sizeof(line), maps)) {
		if (strstr(line, CTX_NAME))
			n += pub_mapping_parse(line, &out[n]);
	}
	if (maps)
		fclose(maps);
	return n;
}

size_t pub_signatures(struct ctx_header **out)
{
	struct pub_mapping m[8];
	size_t n = pub_mappings(m, 8), valid = 0;

	for (size_t i = 0; i < n; i++) {
		struct ctx_header *h = (struct ctx_header *)m[i].start;

		if (m[i].perms[0] != 'r' ||
		    memcmp(h->signature, CTX_SIGNATURE, CTX_SIGNATURE_SIZE) != 0)
			continue;
		*out = h;
		valid++;
	}
	return valid;
}

struct ctx_header *pub_header(void)
{
	struct ctx_header *h = NULL;

	return pub_signatures(&h) == 1 ? h : NULL;
}

pb_context *pub_context(void)
{
	const struct ctx_header *h = pub_header();

	if (!h || !h->published_at_ns || h->version != CTX_VERSION)
		return NULL;
	return pb_context_unpack(NULL, h->payload_size, (const uint8_t *)(uintptr_t)h->payload);
}

const pb_any *pub_attr(pb_kv *const *list, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(list[i]->key, key))
			return list[i]->value;
	}
	return NULL;
}

bool pub_is_published(const char *value)
{
	pb_context *c = pub_context();
	const pb_any *any = NULL;
	bool is;

	if (c && c->resource)
		any = pub_attr(c->resource->attributes, c->resource->n_attributes, "service.name");
	is = any && any->value_case == PB_ANY(STRING_VALUE) && !strcmp(any->string_value, value);
	if (c)
		pb_context_free(c, NULL);
	return is;
}

int pub_service_and_bytes(const char *value, size_t n_bytes)
{
	uint8_t *data = calloc(1, n_bytes + 1);
	struct pctx_attr resource[] = {
		pctx_string("service.name", value),
		{ .key = "bytes", .value = { .kind = PCTX_BYTES } },
	};
	struct pctx_publish_opts opts = { .size = sizeof(opts), .resource = resource };
	int rc;

	resource[1].value.u.bytes.data = data;
	resource[1].value.u.bytes.len = n_bytes;
	opts.n_resource = n_bytes ? 2 : 1;
	rc = pctx_publish(&opts);
	free(data);
	return rc;
}

int pub_service(const char *value)
{
	return pub_service_and_bytes(value, 0);
}

int pub_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

bool pub_can_name(void)
{
	void *map;
	bool can;

	map = sys_map(sys_page_size(), -1);
	if (!map)
		return false;
	can = sys_name_mapping(map, sys_page_size(), "probe") == 0;
	munmap(map, sys_page_size());
	return can;
}

/* One rule is four instructions or two; @out has room. */
static size_t filter_rule(const struct pub_rule *r, struct sock_filter *out)
{
	uint32_t action =
		r->kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | (uint32_t)r->error;
	const struct sock_filter nr =
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	size_t n = 0, skip = r->arg < 0 ? 1 : 4;

	out[n++] = nr;
	out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->nr, 0,
						(uint8_t)skip);
	if (r->arg >= 0) { /* the low half of the argument, little-endian */
		uint32_t at = (uint32_t)(offsetof(struct seccomp_data, args) + 8 * r->arg);

		out[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at);
		out[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask);
		out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->value, 0, 1);
	}
	out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
	return n;
}

void pub_filter(const struct pub_rule *rules, size_t n)
{
	struct sock_filter code[64];
	struct sock_fprog program = { .filter = code };
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += filter_rule(&rules[i], code + len);
	code[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)len;
	CHILD_REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHILD_REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
}
