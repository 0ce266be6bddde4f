#include "profile.h"
#include "why.h"
int profile_kernel(struct wprof_why *why) { (void)why; return 0; }
