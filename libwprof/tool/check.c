/* check.c - `wprof check`: what this kernel, these privileges and that target allow. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "tool/commands.h"
#include "tool/human.h"
#include "tool/json.h"
#include "tool/target.h"

#define FACTS_MAX 64

static const char *state_name(int state)
{
	return state > 0 ? "yes" : state == 0 ? "no" : "unknown";
}

static bool is_possible(const struct wprof_fact *facts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (facts[i].needed && facts[i].state == 0)
			return false;
	return true;
}

/* What the target or the caller lacks is a failure; what the kernel lacks is not there. */
static int exit_code(const struct wprof_fact *facts, size_t n)
{
	int code = CLI_DONE;

	for (size_t i = 0; i < n; i++) {
		if (!facts[i].needed || facts[i].state != 0)
			continue;
		if (strncmp(facts[i].name, "target", 6) && strcmp(facts[i].name, "ptrace"))
			return CLI_UNAVAILABLE;
		code = CLI_FAILED;
	}
	return code;
}

static bool print_json(pid_t pid, const struct wprof_fact *facts, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:o}", "name", facts[i].name,
						      "state", state_name(facts[i].state), "needed",
						      facts[i].needed, "reason",
						      json_text(facts[i].reason)));
	return json_put(stdout,
			json_pack("{s:s, s:i, s:o, s:b, s:o}", "format", "wprof.check", "version",
				  1, "pid", pid ? json_integer(pid) : json_null(), "possible",
				  is_possible(facts, n), "facts", list));
}

static void print_table(pid_t pid, const struct wprof_fact *facts, size_t n)
{
	printf("%-24s %-8s %-7s %s\n", "FACT", "STATE", "NEEDED", "REASON");
	for (size_t i = 0; i < n; i++)
		printf("%-24s %-8s %-7s %s\n", facts[i].name, state_name(facts[i].state),
		       facts[i].needed ? "yes" : "", facts[i].reason);
	if (!is_possible(facts, n))
		puts("profiling is not possible: see the needed facts that say no");
	else if (pid)
		printf("process %d can be profiled\n", pid);
	else
		puts("profiling is possible; `wprof check PID` asks about one process");
}

int check_main(int argc, char **argv)
{
	static const struct options_command command = {
		.usage = "[PID]\n--service NAME",
		.about = "Print what this kernel, these privileges and, where one is named, "
			 "that process allow.\v"
			 "The exit code is 0 when profiling is possible, 3 when the kernel lacks "
			 "something, 1 when it is the process or the privileges.",
		.children = { &options_target, &options_json },
	};
	struct options o = OPTIONS_DEFAULT;
	struct wprof_fact facts[FACTS_MAX];
	size_t n = FACTS_MAX;
	struct target t = { 0 };
	int rc;

	o.needs_target = false;
	options_parse(argc, argv, &command, &o);
	if (o.service) {
		rc = target_find(&o, NULL, &t);
		if (rc)
			return rc;
		o.pid = t.pid;
		target_close(&t);
	}
	rc = wprof_check(o.pid, facts, &n);
	if (rc) {
		cli_error("process %d cannot be checked: %s", o.pid, strerror(-rc));
		return CLI_FAILED;
	}
	if (!o.json)
		print_table(o.pid, facts, n);
	else if (!print_json(o.pid, facts, n))
		return CLI_FAILED;
	return exit_code(facts, n);
}
