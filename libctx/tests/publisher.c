/*
 * publisher COMMAND...: publish by the words of the command line, for tests that
 * look from outside. Prints a line for each.
 *
 *	publish NAME	the resource service.name = NAME; "publish: 0" or -errno
 *	bytes N		that, and an attribute of N bytes
 *	kinds		an attribute of every kind of value
 *	deep		key-value lists as deep as they may lie in each other
 *	append KEY	to the key map
 *	unpublish
 *	loop N		publish N times over
 *	header		"header: TIMESTAMP ADDRESS SIZE", or "header: none"
 *	sound		fails unless what is there is whole: nothing, or one context
 *			whose payload can be decoded
 *	dump FILE	write the payload to FILE
 *	maps		the lines of /proc/self/maps with OTEL_CTX
 *	mark		a system call of its own, to be found in traces (getppid)
 *	hold		close the output, then wait until the input is closed
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pub_util.h"

static int publish_attrs(struct pctx_attr *resource, size_t n, struct pctx_attr *attributes,
			 size_t n_attributes)
{
	struct pctx_publish_opts opts = {
		.size = sizeof(opts),
		.resource = resource,
		.n_resource = n,
		.attributes = attributes,
		.n_attributes = n_attributes,
	};

	return pctx_publish(&opts);
}

static struct pctx_attr number(const char *key, double d)
{
	struct pctx_attr a = { .key = key };

	a.value.kind = PCTX_DOUBLE;
	a.value.u.number = d;
	return a;
}

static int publish_kinds(void)
{
	static const uint8_t bytes[] = { 0, 255, 'x', 0 };
	struct pctx_attr inner[] = { pctx_string("k", "v"), pctx_int("n", -1) };
	struct pctx_value list = { .kind = PCTX_KVLIST }, array[5];
	struct pctx_attr a[] = {
		pctx_string("string", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"),
		pctx_string("string.empty", ""),
		pctx_int("int.min", INT64_MIN),
		pctx_int("int.max", INT64_MAX),
		pctx_int("int.0", 0),
		number("double", 0.1),
		number("double.nan", NAN),
		number("double.inf", -INFINITY),
		{ .key = "bool.true", .value = { .kind = PCTX_BOOL, .u.boolean = true } },
		{ .key = "bool.false", .value = { .kind = PCTX_BOOL } },
		{ .key = "bytes", .value = { .kind = PCTX_BYTES } },
		{ .key = "bytes.empty", .value = { .kind = PCTX_BYTES } },
		{ .key = "empty", .value = { .kind = PCTX_EMPTY } },
		{ .key = "array", .value = { .kind = PCTX_ARRAY } },
		{ .key = "array.empty", .value = { .kind = PCTX_ARRAY } },
		{ .key = "kvlist.empty", .value = { .kind = PCTX_KVLIST } },
	};
	size_t n = sizeof(a) / sizeof(*a);

	list.u.kvlist.attrs = inner;
	list.u.kvlist.n = 2;
	array[0] = inner[0].value;
	array[1] = inner[1].value;
	array[2] = list;
	array[3] = (struct pctx_value){ .kind = PCTX_EMPTY };
	array[4] = (struct pctx_value){ .kind = PCTX_ARRAY };
	a[10].value.u.bytes.data = bytes;
	a[10].value.u.bytes.len = sizeof(bytes);
	a[13].value.u.array.values = array;
	a[13].value.u.array.n = 5;
	return publish_attrs(a, n, a, n);
}

static int publish_deep(void)
{
	struct pctx_attr chain[PCTX_NESTING_MAX + 1];

	for (int i = 0; i < PCTX_NESTING_MAX; i++) {
		chain[i] = (struct pctx_attr){ .key = "k", .value = { .kind = PCTX_KVLIST } };
		chain[i].value.u.kvlist.attrs = &chain[i + 1];
		chain[i].value.u.kvlist.n = 1;
	}
	chain[PCTX_NESTING_MAX] = pctx_string("k", "deepest");
	return publish_attrs(chain, 1, chain, 1);
}

static int append(const char *key)
{
	uint8_t index = 0;
	int rc = pctx_key_map_append(key, &index);

	return rc ? rc : index;
}

static int loop(int n)
{
	int rc = 0;

	for (int i = 0; i < n && !rc; i++)
		rc = pub_service_and_bytes("loop", (size_t)(i * 61 % 3000));
	return rc;
}

static int dump(const char *path)
{
	const struct ctx_header *h = pub_header();
	FILE *f = h ? fopen(path, "w") : NULL;
	size_t n;

	if (!f)
		return -ENODATA;
	n = fwrite((const void *)(uintptr_t)h->payload, 1, h->payload_size, f);
	return fclose(f) == 0 && n == h->payload_size ? 0 : -EIO;
}

static int header(void)
{
	const struct ctx_header *h = pub_header();

	if (h)
		printf("header: %llu %p %u\n", (unsigned long long)h->published_at_ns,
		       (const void *)h, h->payload_size);
	else
		puts("header: none");
	return 0;
}

static int sound(void)
{
	struct ctx_header *h;
	pb_context *c = pub_context();
	int rc = c || pub_signatures(&h) == 0 ? 0 : -EBADMSG;

	if (c)
		pb_context_free(c, NULL);
	return rc;
}

static int maps(void)
{
	struct pub_mapping m[8];
	size_t n = pub_mappings(m, 8);

	for (size_t i = 0; i < n; i++)
		printf("map: %s %s\n", m[i].perms, m[i].name);
	return 0;
}

static int hold(void)
{
	char c;

	fflush(stdout);
	close(1);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}

/* Run the command in @argv[0]; *@used: how many words it took. */
static int run(char **argv, int *used)
{
	const char *command = argv[0], *arg = argv[1] ? argv[1] : "";

	*used = 2;
	if (!strcmp(command, "publish"))
		return pub_service(arg);
	if (!strcmp(command, "bytes"))
		return pub_service_and_bytes("bytes", strtoul(arg, NULL, 10));
	if (!strcmp(command, "append"))
		return append(arg);
	if (!strcmp(command, "loop"))
		return loop((int)strtol(arg, NULL, 10));
	if (!strcmp(command, "dump"))
		return dump(arg);
	*used = 1;
	if (!strcmp(command, "kinds"))
		return publish_kinds();
	if (!strcmp(command, "deep"))
		return publish_deep();
	if (!strcmp(command, "unpublish"))
		return pctx_unpublish();
	if (!strcmp(command, "header"))
		return header();
	if (!strcmp(command, "sound"))
		return sound();
	if (!strcmp(command, "maps"))
		return maps();
	if (!strcmp(command, "mark"))
		return getppid() > 0 ? 0 : 1;
	if (!strcmp(command, "hold"))
		return hold();
	fprintf(stderr, "publisher: no command %s\n", command);
	exit(2);
}

int main(int argc, char **argv)
{
	int used, failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i += used) {
		int rc = run(argv + i, &used);

		printf("%s: %d\n", argv[i], rc);
		failed |= rc < 0 && !strcmp(argv[i], "sound");
	}
	return failed;
}
