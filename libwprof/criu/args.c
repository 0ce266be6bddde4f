/*
 * args.c - what a dump leaves out, and the arguments that tell CRIU.
 *
 * Theory of operation
 *
 * A dump leaves out E (hot memory). Its pages are then in no image, so when the
 * next dump takes some of them again, their parent has none and CRIU must not
 * look there: those are N, the no-parent set. With E' the set the parent left
 * out, N = E' - E: addresses, not whole ranges, for a range grows, splits and
 * merges between two dumps. What was left out before the parent needs no memory:
 * it is either in E' still or the parent took it without a parent.
 *
 * CRIU matches a range by overlap and then skips the whole VMA, however large.
 * So E is rounded to the VMAs as they stand now, else the next dump would not
 * know what was really left out. N is rounded after the subtraction, and E taken
 * out again: what is skipped is not dumped, whatever its parent.
 *
 * E' advances only when the dump succeeded: nothing here keeps it, the caller
 * stores E with the id of the dump.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "criu/ranges.h"

static int copy_set(const struct wprof_ranges *set, struct wprof_ranges **out)
{
	const struct wprof_range *list;
	size_t n;

	list = wprof_ranges_list(set, &n);
	return wprof_ranges_new(list, n, out);
}

static int round_set(const struct wprof_criu_opts *o, struct wprof_ranges *set)
{
	return o->vmas ? wprof_ranges_round(set, o->vmas, o->n_vmas) : 0;
}

static int make_no_parent(const struct wprof_criu_opts *o, const struct wprof_ranges *exclude,
			  struct wprof_ranges *no_parent)
{
	int rc;

	rc = wprof_ranges_subtract(no_parent, exclude);
	if (!rc)
		rc = round_set(o, no_parent);
	if (!rc)
		rc = wprof_ranges_subtract(no_parent, exclude);
	return rc;
}

/* Take the caller's options, however old or new its struct is. */
static int take_opts(const struct wprof_criu_opts *opts, struct wprof_criu_opts *o)
{
	size_t known = sizeof(*o);

	memset(o, 0, sizeof(*o));
	if (!opts || opts->size < sizeof(opts->size))
		return -EINVAL;
	for (size_t i = known; i < opts->size; i++)
		if (((const char *)opts)[i])
			return -E2BIG;
	memcpy(o, opts, opts->size < known ? opts->size : known);
	return 0;
}

int wprof_criu_sets(const struct wprof_criu_opts *opts, struct wprof_ranges **exclude,
		    struct wprof_ranges **no_parent)
{
	struct wprof_ranges *e = NULL, *n = NULL;
	struct wprof_criu_opts o;
	int rc;

	if (!exclude || !no_parent)
		return -EINVAL;
	rc = take_opts(opts, &o);
	if (!rc)
		rc = copy_set(o.hot, &e);
	if (!rc)
		rc = round_set(&o, e);
	if (!rc)
		rc = copy_set(o.previous, &n);
	if (!rc)
		rc = make_no_parent(&o, e, n);
	if (rc) {
		wprof_ranges_free(e);
		wprof_ranges_free(n);
		return rc;
	}
	*exclude = e;
	*no_parent = n;
	return 0;
}

/* Append "--option START:END" for each range, two strings a range. */
static int push_ranges(char **args, size_t *n_args, const char *option,
		       const struct wprof_ranges *set)
{
	const struct wprof_range *r;
	size_t n;

	r = wprof_ranges_list(set, &n);
	for (size_t i = 0; i < n; i++) {
		args[*n_args] = strdup(option);
		if (!args[*n_args])
			return -ENOMEM;
		++*n_args;
		if (asprintf(&args[*n_args], "%" PRIx64 ":%" PRIx64, r[i].start, r[i].end) < 0) {
			args[*n_args] = NULL;
			return -ENOMEM;
		}
		++*n_args;
	}
	return 0;
}

static int push_file(char **args, size_t *n_args, const struct wprof_ranges *set, const char *path)
{
	int rc;

	if (!path)
		return -ENAMETOOLONG;
	rc = wprof_ranges_save(set, path);
	if (rc)
		return rc;
	args[0] = strdup("--exclude-file");
	args[1] = args[0] ? strdup(path) : NULL;
	*n_args = 2;
	return args[1] ? 0 : -ENOMEM;
}

int wprof_criu_args(const struct wprof_ranges *exclude, const struct wprof_ranges *no_parent,
		    const char *exclude_file, char ***out)
{
	size_t n_exclude, n_no_parent, n = 0;
	char **args;
	int rc;

	if (!out)
		return -EINVAL;
	wprof_ranges_list(exclude, &n_exclude);
	wprof_ranges_list(no_parent, &n_no_parent);
	args = calloc(2 * (n_exclude + n_no_parent) + 3, sizeof(*args));
	if (!args)
		return -ENOMEM;
	if (n_exclude > WPROF_CRIU_INLINE)
		rc = push_file(args, &n, exclude, exclude_file);
	else
		rc = push_ranges(args, &n, "--exclude-range", exclude);
	if (!rc)
		rc = push_ranges(args, &n, "--no-parent-range", no_parent);
	if (rc)
		wprof_criu_args_free(args);
	else
		*out = args;
	return rc;
}

void wprof_criu_args_free(char **args)
{
	for (size_t i = 0; args && args[i]; i++)
		free(args[i]);
	free(args);
}
