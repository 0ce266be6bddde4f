#include "wprof.h"

const char *wprof_version(void)
{
	return PROCSCOPE_VERSION;
}
