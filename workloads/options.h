/* options.h - the command line of a workload. */
#ifndef PROCSCOPE_OPTIONS_H
#define PROCSCOPE_OPTIONS_H

#include "workload.h"

/** options_parse() - fill @w from the command line; ends the program on wrong usage */
void options_parse(struct workload *w, int argc, char **argv);

#endif /* PROCSCOPE_OPTIONS_H */
