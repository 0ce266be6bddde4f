/* commands.h - the subcommands of wprof, each in a file of its own. */
#ifndef WPROF_TOOL_COMMANDS_H
#define WPROF_TOOL_COMMANDS_H

/* argv[0] is "wprof NAME"; each returns the exit code. */
int check_main(int argc, char **argv);
int criu_args_main(int argc, char **argv);
int hot_main(int argc, char **argv);
int images_main(int argc, char **argv);
int record_main(int argc, char **argv);
int report_main(int argc, char **argv);
int top_main(int argc, char **argv);

#endif /* WPROF_TOOL_COMMANDS_H */
