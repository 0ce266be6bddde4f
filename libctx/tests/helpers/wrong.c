/*
 * wrong HOW: publishes a context by hand, and prints "ready". For tests of what
 * readers make of it. For each line of input it publishes the same again, in the same
 * place, and it ends when its input is closed.
 *
 *	right		as a publisher does
 *	many N		so, and then maps N mappings, which come to lie below
 *	malformed	the payload is cut short
 *	size		the header says more than any payload may have
 *	address		the header says an address where nothing is mapped
 *	updating	the timestamp stays 0
 *	version N	another version of the protocol
 */
#include "../scene.h"

/* Neighbours with other permissions, so that they stay mappings of their own. */
static void map_many(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		CHILD_REQUIRE(mmap(NULL, PAGE, i & 1 ? PROT_READ | PROT_WRITE : PROT_READ,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

static struct ctx_header *publish(const char *how, const char *arg)
{
	static struct bytes b;
	struct ctx_header *h = craft_mapping(PAGE);

	payload_string(&b, "service.name", "by-hand");
	craft_header(h, b.data, (uint32_t)b.len, 0);
	if (strcmp(how, "malformed") == 0)
		h->payload_size--;
	else if (strcmp(how, "size") == 0)
		h->payload_size = UINT32_MAX;
	else if (strcmp(how, "address") == 0)
		h->payload = 64;
	else if (strcmp(how, "version") == 0)
		h->version = (uint32_t)strtoul(arg, NULL, 10);
	else if (strcmp(how, "many") == 0)
		map_many(strtoul(arg, NULL, 10));
	if (strcmp(how, "updating") != 0)
		h->published_at_ns = 1000;
	return h;
}

int main(int argc, char **argv)
{
	struct ctx_header *h;
	char line[64];

	if (argc < 2)
		return 2;
	h = publish(argv[1], argc > 2 ? argv[2] : "");
	do {
		puts("ready");
		fflush(stdout);
	} while (fgets(line, sizeof(line), stdin) && ++h->published_at_ns);
	return 0;
}
