/* commands.h - the subcommands of pctx, one file each; run has run.h. */
#ifndef PROCSCOPE_COMMANDS_H
#define PROCSCOPE_COMMANDS_H

/* Each gets its own name as argv[0] and returns an exit code. */
int read_main(int argc, char **argv);
int list_main(int argc, char **argv);
int watch_main(int argc, char **argv);

#endif /* PROCSCOPE_COMMANDS_H */
