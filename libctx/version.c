#include "pctx.h"

const char *pctx_version(void)
{
	return PROCSCOPE_VERSION;
}
