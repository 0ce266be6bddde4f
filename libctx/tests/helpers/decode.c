/*
 * decode: read one payload from standard input, print it as OTLP/JSON. Exit code
 * 1 when the reader refuses it. For comparing with other protobuf libraries.
 */
#include <stdio.h>

#include "decode.h"
#include "otlp_json.h"

int main(void)
{
	static unsigned char payload[PCTX_PAYLOAD_LIMIT];
	size_t len = fread(payload, 1, sizeof(payload), stdin);
	struct pctx_context *context;
	json_t *json;

	if (decode_context(payload, len, &context))
		return 1;
	json = otlp_json_context(context);
	json_dumpf(json, stdout, JSON_COMPACT);
	json_decref(json);
	pctx_context_free(context);
	return 0;
}
