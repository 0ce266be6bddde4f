/* top.c - `wprof top`: a live table of where a process writes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "tool/commands.h"
#include "tool/human.h"
#include "tool/screen.h"
#include "tool/top.h"

struct top {
	struct options o;
	struct pace pace;
	struct group group;
	struct top_table table;
	struct top_frame frame;
	struct trace_cost cost;
	bool live; /* redraws in place */
	bool stop, ended;
	uint64_t lines; /* of a table that is printed */
	char label[200];
};

static const char sort_keys[] = "rmhsan";
static const char *const sort_names[] = { "rate", "mean", "hot", "size", "address", "name" };

static void draw(struct top *t)
{
	char *text = NULL;
	size_t size;
	FILE *f = t->live ? open_memstream(&text, &size) : stdout;

	if (!f)
		return;
	t->frame.elapsed_ns = pace_now_ns() - t->pace.start_ns;
	if (t->live)
		screen_size(&t->frame.width, &t->frame.height);
	else
		t->frame.width = human_width(STDOUT_FILENO);
	if (t->frame.width > HUMAN_WIDTH_MAX)
		t->frame.width = HUMAN_WIDTH_MAX;
	top_draw(f, &t->table, &t->frame);
	if (!t->live) {
		putc('\n', f);
		/* nobody reads any more: a signal has said so, or this does */
		t->stop |= fflush(f) != 0;
		return;
	}
	if (!fclose(f))
		screen_show(text);
	free(text);
}

static void press(struct top *t, int key)
{
	const char *sort = key > 0 ? strchr(sort_keys, key | 0x20) : NULL;

	if (key == 'q' || key == 'Q' || key < 0)
		t->stop = true;
	else if (sort && *sort)
		t->frame.sort = (enum top_sort)(sort - sort_keys);
}

/* Return: 0, or the exit code. */
static int take_interval(struct top *t)
{
	for (size_t i = 0; i < t->group.n; i++) {
		int rc = group_sample(&t->group, i);

		if (rc < 0) {
			screen_close();
			cli_error("profiling process %d: %s", t->group.list[i].target.pid,
				  strerror(-rc));
			return CLI_FAILED;
		}
		if (rc)
			target_changed(&t->group.list[i].target);
	}
	if (!top_update(&t->table, &t->group)) {
		screen_close();
		cli_error("out of memory");
		return CLI_FAILED;
	}
	t->cost.scan_ns += t->table.cost.scan_ns;
	t->cost.faults += t->table.cost.faults;
	group_bury(&t->group);
	group_follow(&t->group);
	t->ended = group_over(&t->group);
	if (t->group.list[0].w)
		target_label(&t->group.list[0].target, t->label, sizeof(t->label));
	return 0;
}

static int run(struct top *t)
{
	enum pace_event event;
	int rc = 0;

	pace_start(&t->pace, t->o.rule.interval_ms * 1000000, t->o.duration_ns);
	if (t->live)
		draw(t);
	while (!rc && !t->stop && !t->ended) {
		event = pace_wait(&t->pace, group_pidfd(&t->group), screen_keys());
		if (event == PACE_KEY)
			press(t, screen_key());
		else if (event == PACE_SIGNAL)
			t->stop = true;
		else if (event != PACE_RESIZED)
			rc = take_interval(t);
		t->stop |= event == PACE_DONE;
		if (!rc && (t->live || event == PACE_TICK || event == PACE_DONE))
			draw(t);
	}
	return rc;
}

static void print_summary(const struct top *t)
{
	printf("%s: %llu intervals in %s%s; own cost: %s scanning, %s of processor, at most %llu "
	       "faults in the target\n",
	       t->label, (unsigned long long)t->table.n_intervals,
	       human_time(pace_now_ns() - t->pace.start_ns).text,
	       !t->ended	 ? ""
	       : t->group.execed ? "; it runs another program now"
				 : "; the target has ended",
	       human_time(t->cost.scan_ns).text, human_time(cpu_ns()).text,
	       (unsigned long long)t->cost.faults);
	group_print_refused(&t->group, stdout);
}

static int top_target(struct top *t)
{
	struct target target;
	int rc = target_find(&t->o, &t->pace, &target);

	if (rc)
		return rc;
	target_label(&target, t->label, sizeof(t->label));
	rc = group_open(&t->group, &t->o, &target);
	if (rc > 0)
		return rc;
	t->ended = rc < 0;
	t->pace.start_ns = pace_now_ns();
	t->live = !t->ended && screen_open();
	t->frame.label = t->label;
	t->frame.tree = t->o.tree;
	t->frame.keys = t->frame.marks = t->live;
	t->frame.height = t->lines + 4;
	t->frame.sample = t->o.rule.sample;
	t->frame.interval_ms = t->o.rule.interval_ms;
	rc = t->ended ? 0 : run(t);
	screen_close();
	if (!rc)
		print_summary(t);
	return rc;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct top *t = state->input;

	switch (key) {
	case 's':
		for (size_t i = 0; i < sizeof(sort_names) / sizeof(sort_names[0]); i++)
			if (!strcmp(arg, sort_names[i])) {
				t->frame.sort = (enum top_sort)i;
				return 0;
			}
		argp_error(state, "--sort: rate, mean, hot, size, address or name, not '%s'", arg);
		return 0;
	case 'n':
		if (!cli_number(arg, 1, 100000, &t->lines))
			argp_error(state, "--lines: a number from 1 to 100000, not '%s'", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int top_main(int argc, char **argv)
{
	static const struct argp_option own[] = {
		{ "sort", 's', "KEY", 0, "rate, mean, hot, size, address or name", 3 },
		{ "lines", 'n', "N", 0, "Rows of a table that is not on a terminal (20)", 3 },
		{ 0 }
	};
	static struct top t = { .o = OPTIONS_DEFAULT, .lines = 20 };
	const struct options_command command = {
		.usage = "PID\n--service NAME\n-- CMD [ARG...]",
		.about = "Show where a process writes, a row for each mapping; with --tree, one "
			 "for each process.\v"
			 "Keys: r, m, h, s, a, n sort by rate, mean, hot memory, size, address, "
			 "name; q quits. Not on a terminal, a table is printed for each interval. "
			 "~ marks estimated figures: arming is 'sample' unless told otherwise.",
		.children = { &options_target, &options_rule, &options_record },
		.own = own,
		.parser = parse,
		.input = &t,
	};
	int rc;

	t.o.takes_command = true;
	t.o.hides_output = isatty(STDOUT_FILENO);
	t.o.rule.sample = true;
	options_parse(argc, argv, &command, &t.o);
	rc = pace_open(&t.pace);
	if (rc) {
		cli_error("signalfd: %s", strerror(-rc));
		return CLI_FAILED;
	}
	rc = top_target(&t);
	group_close(&t.group);
	top_free(&t.table);
	pace_close(&t.pace);
	return rc;
}
