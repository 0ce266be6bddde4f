#include "sample.h"
bool sample_has(const struct sample *s, const struct area *a) { (void)a; return s != 0; }
int sample_scan(struct sample *s, struct track *t, struct area *a) { (void)s;(void)t;(void)a; return 0; }
