/*
 * wrong HOW: publishes a context by hand, and prints "ready". For tests of what
 * programs make of it. It ends when its input is closed.
 *
 *	right		as a publisher does
 *	malformed	the payload is cut short
 *	size		the header says more than any payload may have
 *	address		the header says an address where nothing is mapped
 *	updating	the timestamp stays 0
 *	version N	another version of the protocol
 */
#include "../scene.h"

static void publish(const char *how, const char *arg)
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
	if (strcmp(how, "updating") != 0)
		h->published_at_ns = 1000;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	publish(argv[1], argc > 2 ? argv[2] : "");
	puts("ready");
	fflush(stdout);
	return getchar() != EOF;
}
