/*
 * criu_args.c - `wprof criu-args`: profile, then print what tells CRIU to leave
 * hot memory out.
 *
 * The set that is left out must be kept by the caller until the dump has
 * succeeded, and only then be the next one's --previous: --exclude-file writes it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "tool/commands.h"
#include "tool/json.h"
#include "tool/session.h"

struct criu_args {
	struct options o;
	struct session s;
	const char *previous_file, *criu;
	bool page_exact, final;
	/* what comes out */
	char exclude_file[4096]; /* "": none written */
	char criu_path[4096];	 /* "": none found */
	bool criu_supports;
	struct wprof_ranges *previous, *exclude, *no_parent;
	char **args;
};

/* ---- which CRIU is there? ----------------------------------------------------------- */

static bool find_in_path(const char *name, char *out, size_t bytes)
{
	const char *path = getenv("PATH");

	if (!path || !*path)
		path = "/usr/sbin:/usr/bin:/sbin:/bin";
	while (*path) {
		size_t len = strcspn(path, ":");

		snprintf(out, bytes, "%.*s/%s", (int)len, path, name);
		if (len && !access(out, X_OK))
			return true;
		path += len + (path[len] == ':');
	}
	/* root's shell has it, another's may not */
	snprintf(out, bytes, "/usr/sbin/%s", name);
	if (!access(out, X_OK))
		return true;
	out[0] = '\0';
	return false;
}

/* The path goes to the shell as an argument, so it may hold anything. */
static bool probe_help(const char *criu)
{
	static const char *const options[] = { "--exclude-range", "--exclude-file",
					       "--no-parent-range" };
	unsigned int seen = 0;
	char line[512];
	FILE *f;

	setenv("WPROF_CRIU", criu, 1);
	f = popen("\"$WPROF_CRIU\" --help 2>&1 < /dev/null", "re");
	unsetenv("WPROF_CRIU");
	while (f && fgets(line, sizeof(line), f))
		for (unsigned int i = 0; i < 3; i++)
			if (strstr(line, options[i]))
				seen |= 1u << i;
	if (f)
		pclose(f);
	return seen == 7;
}

/* Return: 0, or the exit code: a CRIU that was named must know the options. */
static int probe_criu(struct criu_args *c)
{
	if (c->criu && strchr(c->criu, '/'))
		snprintf(c->criu_path, sizeof(c->criu_path), "%s", c->criu);
	else
		find_in_path(c->criu ? c->criu : "criu", c->criu_path, sizeof(c->criu_path));
	if (c->criu && (!c->criu_path[0] || access(c->criu_path, X_OK))) {
		cli_error("--criu %s: no such program", c->criu);
		return CLI_FAILED;
	}
	c->criu_supports = c->criu_path[0] && probe_help(c->criu_path);
	if (c->criu && !c->criu_supports) {
		cli_error("%s has no --exclude-range, --exclude-file and --no-parent-range (no "
			  "released CRIU has); use one that has, or wprof-agent, which works with "
			  "any",
			  c->criu_path);
		return CLI_UNAVAILABLE;
	}
	return 0;
}

/* ---- sets ------------------------------------------------------------------------------- */

static int load_previous(struct criu_args *c)
{
	size_t line = 0;
	int rc;

	if (!c->previous_file)
		return 0;
	rc = wprof_ranges_load(c->previous_file, &c->previous, &line);
	if (!rc)
		return 0;
	if (rc == -EBADMSG)
		cli_error("--previous %s: line %zu is no range \"start end\" of whole pages, in "
			  "hexadecimal",
			  c->previous_file, line);
	else
		cli_error("--previous %s: %s", c->previous_file, strerror(-rc));
	return CLI_FAILED;
}

/* All VMAs as they stand now, written or not: CRIU skips what it finds there. */
static int read_vmas(pid_t pid, struct wprof_range **vmas, size_t *n)
{
	size_t room = 0, line_room = 0;
	struct wprof_range r;
	char path[40], *line = NULL;
	FILE *f;
	int rc = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	*n = 0;
	while (!rc && getline(&line, &line_room, f) > 0) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &r.start, &r.end) != 2)
			continue;
		if (*n == room) {
			struct wprof_range *more;

			room = room ? 2 * room : 256;
			more = reallocarray(*vmas, room, sizeof(r));
			if (!more) {
				rc = -ENOMEM;
				break;
			}
			*vmas = more;
		}
		(*vmas)[(*n)++] = r;
	}
	free(line);
	fclose(f);
	return rc;
}

static int hot_set(const struct session *s, struct wprof_ranges **out)
{
	struct wprof_range *list = calloc(s->n_hot + 1, sizeof(*list));
	int rc;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_hot; i++)
		list[i] = (struct wprof_range){ s->hot[i].start, s->hot[i].end };
	rc = wprof_ranges_new(list, s->n_hot, out);
	free(list);
	return rc;
}

static int make_sets(struct criu_args *c)
{
	struct wprof_criu_opts opts = { .size = sizeof(opts), .previous = c->previous };
	struct wprof_ranges *hot = NULL;
	struct wprof_range *vmas = NULL;
	int rc = hot_set(&c->s, &hot);

	if (!rc && !c->page_exact)
		rc = read_vmas(c->s.target.pid, &vmas, &opts.n_vmas);
	if (!rc) {
		opts.hot = hot;
		opts.vmas = vmas;
		rc = wprof_criu_sets(&opts, &c->exclude, &c->no_parent);
	}
	wprof_ranges_free(hot);
	free(vmas);
	if (rc)
		cli_error("process %d: %s", c->s.target.pid, strerror(-rc));
	return rc ? CLI_FAILED : 0;
}

/* ---- arguments ----------------------------------------------------------------------------- */

/* Too many ranges for arguments, and no file was named: one is made. */
static bool make_temporary(struct criu_args *c)
{
	const char *dir = getenv("TMPDIR");
	int fd;

	snprintf(c->exclude_file, sizeof(c->exclude_file), "%s/wprof-exclude-%d.XXXXXX",
		 dir && *dir ? dir : "/tmp", c->s.target.pid);
	fd = mkostemp(c->exclude_file, 0);
	if (fd < 0) {
		cli_error("%s: %s", c->exclude_file, strerror(errno));
		return false;
	}
	close(fd);
	fprintf(stderr, "the excluded ranges are in %s\n", c->exclude_file);
	return true;
}

static int make_args(struct criu_args *c)
{
	size_t n;
	int rc = 0;

	wprof_ranges_list(c->exclude, &n);
	if (c->o.output) {
		snprintf(c->exclude_file, sizeof(c->exclude_file), "%s", c->o.output);
		rc = wprof_ranges_save(c->exclude, c->exclude_file);
	} else if (n > WPROF_CRIU_INLINE && !make_temporary(c)) {
		return CLI_FAILED;
	}
	if (!rc)
		rc = wprof_criu_args(c->exclude, c->no_parent, c->exclude_file, &c->args);
	if (rc)
		cli_error("--exclude-file %s: %s", c->exclude_file, strerror(-rc));
	return rc ? CLI_FAILED : 0;
}

static json_t *ranges_json(const struct wprof_ranges *set)
{
	json_t *list = json_array();
	const struct wprof_range *r;
	size_t n;

	r = wprof_ranges_list(set, &n);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list,
				      json_pack("{s:o, s:o}", "start", json_address(r[i].start),
						"end", json_address(r[i].end)));
	return list;
}

static bool print_json(const struct criu_args *c)
{
	json_t *doc = session_json(&c->s, "wprof.criu_args"), *args = json_array(), *criu;

	for (size_t i = 0; c->args[i]; i++)
		json_array_append_new(args, json_text(c->args[i]));
	criu = c->criu_path[0] ? json_pack("{s:o, s:b}", "path", json_text(c->criu_path),
					   "supported", c->criu_supports)
			       : json_null();
	json_object_set_new(doc, "args", args);
	json_object_set_new(doc, "exclude", ranges_json(c->exclude));
	json_object_set_new(doc, "no_parent", ranges_json(c->no_parent));
	json_object_set_new(doc, "exclude_file",
			    c->exclude_file[0] ? json_text(c->exclude_file) : json_null());
	json_object_set_new(doc, "whole_vmas", json_boolean(!c->page_exact));
	json_object_set_new(doc, "criu", criu);
	return json_put(stdout, doc);
}

/* As a shell takes it: only a file's name can need quotes. */
static void print_word(const char *word)
{
	if (!word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			       "-_./:=,+@%")]) {
		fputs(word, stdout);
		return;
	}
	putchar('\'');
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*word);
	}
	putchar('\'');
}

static void print_args(const struct criu_args *c)
{
	for (size_t i = 0; c->args[i]; i++) {
		if (i)
			putchar(' ');
		print_word(c->args[i]);
	}
	putchar('\n');
	fflush(stdout); /* on a terminal the remarks come after it */
	if (!c->args[0] && !c->final)
		fputs("nothing is hot: nothing to leave out\n", stderr);
	if (!c->criu_path[0])
		fputs("no CRIU here: one that has --exclude-range is needed\n", stderr);
	else if (!c->criu_supports)
		fprintf(stderr,
			"%s does not know these options (no released CRIU does); "
			"wprof-agent works with any CRIU\n",
			c->criu_path);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct criu_args *c = state->input;

	switch (key) {
	case 'p':
		c->previous_file = arg;
		return 0;
	case 'x':
		c->o.output = arg;
		return 0;
	case 'e':
		c->page_exact = true;
		return 0;
	case 'f':
		c->final = true;
		return 0;
	case 'c':
		c->criu = arg;
		return 0;
	default:
		(void)state;
		return ARGP_ERR_UNKNOWN;
	}
}

static void parse_line(int argc, char **argv, struct criu_args *c)
{
	static const struct argp_option own[] = {
		{ "previous", 'p', "FILE", 0,
		  "Ranges the parent dump left out; none: it has no "
		  "parent",
		  3 },
		{ "exclude-file", 'x', "FILE", 0,
		  "Write the ranges left out there; they are the "
		  "next dump's --previous once this one has succeeded",
		  3 },
		{ "page-exact", 'e', NULL, 0,
		  "For a CRIU that leaves out pages, not whole "
		  "mappings",
		  3 },
		{ "final", 'f', NULL, 0,
		  "For the last dump: it leaves nothing out, nothing is "
		  "profiled",
		  3 },
		{ "criu", 'c', "PROGRAM", 0, "Fail unless this CRIU knows the options", 3 },
		{ 0 }
	};
	const struct options_command command = {
		.usage = "PID\n--service NAME",
		.about = "Profile a process and print the arguments that make CRIU leave its hot "
			 "memory out of a pre-dump.\v"
			 "Use it at once, as criu pre-dump $(wprof criu-args PID) ...: mappings "
			 "come and go.",
		.children = { &options_target, &options_rule, &options_json },
		.own = own,
		.parser = parse,
		.input = c,
	};

	options_parse(argc, argv, &command, &c->o);
}

int criu_args_main(int argc, char **argv)
{
	static struct criu_args c = { .o = OPTIONS_DEFAULT };
	int rc;

	parse_line(argc, argv, &c);
	rc = probe_criu(&c);
	if (!rc)
		rc = load_previous(&c);
	if (rc)
		return rc;
	rc = c.final ? session_find(&c.o, &c.s) : session_profile(&c.o, &c.s);
	if (!rc && c.s.ended) {
		cli_error("process %d has ended: there is nothing to dump", c.s.target.pid);
		rc = CLI_FAILED;
	}
	if (!rc)
		rc = make_sets(&c);
	if (!rc)
		rc = make_args(&c);
	if (!rc && c.o.json && !print_json(&c))
		rc = CLI_FAILED;
	if (!rc && !c.o.json)
		print_args(&c);
	session_close(&c.s);
	wprof_criu_args_free(c.args);
	wprof_ranges_free(c.exclude);
	wprof_ranges_free(c.no_parent);
	wprof_ranges_free(c.previous);
	return rc;
}
