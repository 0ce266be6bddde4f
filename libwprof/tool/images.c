/* images.c - `wprof images`: show a chain of CRIU images, withhold, complete. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli.h"
#include "tool/commands.h"
#include "tool/human.h"
#include "tool/json.h"
#include "wprof.h"

/* ranges that the tables list before they say how many more there are */
#define LISTED 10

enum { OPT_ROOT = 256, OPT_PARENT, OPT_SPARSE, OPT_NO_SYNC };

struct images_args {
	bool json, verify, withhold, complete;
	uint32_t flags;
	const char *root, *parent, *dir, *ship;
	struct wprof_images_hot *hot;
	size_t n_hot;
};

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "print one JSON document", 0 },
	{ "verify", 'v', NULL, 0,
	  "does it restore alone? name each page that does not resolve; "
	  "exit status 1 if it does not",
	  0 },
	{ "withhold", 'w', "[PID:]RANGES", 0,
	  "make SHIP of the dump FULL without the pages of this "
	  "range file, of one process or of all; may be given several times",
	  0 },
	{ "complete", 'c', NULL, 0,
	  "make SHIP of the last dump FULL: what the shipped chain lacks "
	  "is filled in, it then restores alone",
	  0 },
	{ "parent", OPT_PARENT, "LINK", 0,
	  "parent link of SHIP, relative to it (default: as FULL's; "
	  "ID/full becomes ID/ship)",
	  0 },
	{ "root", OPT_ROOT, "DIR", 0,
	  "directory above the images that no parent link may leave "
	  "(default: two levels up)",
	  0 },
	{ "sparse-ok", OPT_SPARSE, NULL, 0,
	  "holes in pages files are zeros of a sparse copy, not "
	  "punched by --auto-dedup",
	  0 },
	{ "no-sync", OPT_NO_SYNC, NULL, 0, "do not wait for the disk; not crash safe", 0 },
	{ 0 }
};

/* "[PID:]FILE"; a file whose name looks so is given as ./NAME */
static int add_hot(struct images_args *a, const char *arg)
{
	struct wprof_images_hot *hot = reallocarray(a->hot, a->n_hot + 1, sizeof(*hot));
	size_t digits = strspn(arg, "0123456789"), line = 0;
	struct wprof_ranges *ranges;
	const char *path = arg;
	uint64_t id = 0;
	int rc;

	if (!hot)
		return -ENOMEM;
	a->hot = hot;
	if (digits && arg[digits] == ':') {
		id = strtoull(arg, NULL, 10);
		path = arg + digits + 1;
	}
	rc = wprof_ranges_load(path, &ranges, &line);
	if (rc == -EBADMSG)
		cli_error("%s, line %zu: not a range \"start end\" of whole pages", path, line);
	else if (rc)
		cli_error("%s: %s", path, strerror(-rc));
	if (rc)
		return rc;
	hot[a->n_hot++] = (struct wprof_images_hot){ .id = id, .ranges = ranges };
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct images_args *a = state->input;

	switch (key) {
	case 'j':
		a->json = true;
		break;
	case 'v':
		a->verify = true;
		break;
	case 'w':
		a->withhold = true;
		if (add_hot(a, arg))
			exit(CLI_FAILED);
		break;
	case 'c':
		a->complete = true;
		break;
	case OPT_PARENT:
		a->parent = arg;
		break;
	case OPT_ROOT:
		a->root = arg;
		break;
	case OPT_SPARSE:
		a->flags |= WPROF_IMAGES_SPARSE;
		break;
	case OPT_NO_SYNC:
		a->flags |= WPROF_IMAGES_NO_SYNC;
		break;
	case ARGP_KEY_ARG:
		if (a->ship)
			argp_error(state, "too many directories: %s", arg);
		*(a->dir ? &a->ship : &a->dir) = arg;
		break;
	case ARGP_KEY_END:
		if (a->withhold && a->complete)
			argp_error(state, "--withhold or --complete, not both");
		if ((a->withhold || a->complete) && !a->ship)
			argp_error(state, "name two directories, FULL and SHIP");
		if ((a->withhold || a->complete) && a->verify)
			argp_error(state, "--verify is for a chain that is there: run it on SHIP");
		if (!(a->withhold || a->complete) && (a->parent || a->flags & WPROF_IMAGES_NO_SYNC))
			argp_error(state,
				   "--parent and --no-sync are for --withhold and --complete");
		if (!a->dir || (a->ship && !a->withhold && !a->complete))
			argp_error(state, "name one directory");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- withhold, complete --------------------------------------------------------------- */

static bool put_shipped(const struct images_args *a, const struct wprof_images_shipped *s)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (a->json)
		return json_put(stdout,
				json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "format",
					  "wprof.images.ship", "version", 1, "dir",
					  json_text(a->ship), "page_bytes", json_u64(page),
					  "present_pages", json_u64(s->present_pages),
					  "filled_pages", json_u64(s->filled_pages), "parent_pages",
					  json_u64(s->parent_pages), "withheld_pages",
					  json_u64(s->withheld_pages), "written_bytes",
					  json_u64(s->written_bytes)));
	printf("%s: %s written; pages: %" PRIu64 " copied, %" PRIu64 " filled in, %" PRIu64
	       " left to the level below, %" PRIu64 " withheld (%s)\n",
	       a->ship, human_bytes((double)s->written_bytes).text, s->present_pages,
	       s->filled_pages, s->parent_pages, s->withheld_pages,
	       human_bytes((double)(s->withheld_pages * page)).text);
	return true;
}

static int run_ship(const struct images_args *a)
{
	struct wprof_images_ship o = {
		.size = sizeof(o),
		.flags = a->flags,
		.full = a->dir,
		.ship = a->ship,
		.parent = a->parent,
		.root = a->root,
		.hot = a->hot,
		.n_hot = a->n_hot,
	};
	struct wprof_images_shipped shipped;
	struct wprof_why why;
	int rc;

	rc = a->complete ? wprof_images_complete(&o, &shipped, &why)
			 : wprof_images_withhold(&o, &shipped, &why);
	if (rc) {
		cli_error("%s", why.text);
		return CLI_FAILED;
	}
	return put_shipped(a, &shipped) ? CLI_DONE : CLI_FAILED;
}

/* ---- show --------------------------------------------------------------------------------- */

/** struct lost_list - what verify says, kept to be printed */
struct lost_list {
	struct wprof_images_lost *list;
	size_t n, room;
	bool failed;
};

static void keep_lost(const struct wprof_images_lost *lost, void *arg)
{
	struct lost_list *l = arg;

	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct wprof_images_lost *list = reallocarray(l->list, room, sizeof(*list));

		if (!list) {
			l->failed = true;
			return;
		}
		l->list = list;
		l->room = room;
	}
	l->list[l->n++] = *lost;
}

struct shown {
	const struct images_args *a;
	struct wprof_images *images;
	const struct wprof_images_level *levels;
	size_t n_levels;
	struct lost_list lost;
	struct wprof_images_verdict verdict;
	struct wprof_why why;
};

static const char *state_name(enum wprof_images_state state)
{
	return state == WPROF_IMAGES_WITHHELD	? "withheld"
	       : state == WPROF_IMAGES_COMPLETE ? "complete"
						: "plain";
}

static json_t *range_json(const struct wprof_range *r)
{
	return json_pack("{s:o, s:o}", "start", json_address(r->start), "end",
			 json_address(r->end));
}

static json_t *withheld_json(struct shown *s, size_t level, const struct wprof_images_map *map)
{
	json_t *array = json_array();
	const struct wprof_range *r;
	struct wprof_ranges *set;
	size_t n;

	if (map->shared || !map->withheld_pages)
		return array;
	if (wprof_images_withheld(s->images, level, map->id, &set, &s->why)) {
		json_decref(array);
		return NULL;
	}
	r = wprof_ranges_list(set, &n);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, range_json(&r[i]));
	wprof_ranges_free(set);
	return array;
}

static json_t *map_json(struct shown *s, size_t level, const struct wprof_images_map *map)
{
	return json_pack("{s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o}",
			 map->shared ? "shared_id" : "pid", json_u64(map->id), "pages_id",
			 json_u64(map->pages_id), "layout", (int)map->layout, "entries",
			 json_u64(map->n_entries), "present_pages", json_u64(map->present_pages),
			 "parent_pages", json_u64(map->parent_pages), "lazy_pages",
			 json_u64(map->lazy_pages), "withheld_pages", json_u64(map->withheld_pages),
			 "withheld", withheld_json(s, level, map));
}

static json_t *maps_json(struct shown *s, size_t level, bool shared)
{
	const struct wprof_images_level *l = &s->levels[level];
	json_t *array = json_array();

	for (size_t i = 0; i < l->n_maps; i++)
		if (l->maps[i].shared == shared &&
		    json_array_append_new(array, map_json(s, level, &l->maps[i]))) {
			json_decref(array);
			return NULL;
		}
	return array;
}

static json_t *stats_json(const struct wprof_images_level *l)
{
	if (!l->has_stats)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o}", "frozen_us", json_u64(l->frozen_us),
			 "scanned_pages", json_u64(l->scanned_pages), "written_pages",
			 json_u64(l->written_pages), "skipped_parent_pages",
			 json_u64(l->skipped_pages));
}

static json_t *level_json(struct shown *s, size_t level)
{
	const struct wprof_images_level *l = &s->levels[level];

	return json_pack(
		"{s:i, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "level", (int)level,
		"dir", json_text(l->dir), "parent", l->parent ? json_text(l->parent) : json_null(),
		"kind", l->pre_dump ? "pre-dump" : "dump", "state", state_name(l->state),
		"uptime_us", json_u64(l->uptime_us), "pages_bytes", json_u64(l->pages_bytes),
		"other_bytes", json_u64(l->other_bytes), "stats", stats_json(l), "processes",
		maps_json(s, level, false), "shared", maps_json(s, level, true));
}

static json_t *lost_json(const struct shown *s)
{
	json_t *array = json_array();

	for (size_t i = 0; i < s->lost.n; i++) {
		const struct wprof_images_lost *l = &s->lost.list[i];

		json_array_append_new(array, json_pack("{s:o, s:o, s:o, s:i, s:s}",
						       l->map->shared ? "shared_id" : "pid",
						       json_u64(l->map->id), "start",
						       json_address(l->range.start), "end",
						       json_address(l->range.end), "level",
						       (int)l->level, "reason", l->reason));
	}
	return array;
}

static bool put_document(struct shown *s)
{
	json_t *levels = json_array(), *verify = json_null();

	for (size_t i = 0; i < s->n_levels; i++)
		if (json_array_append_new(levels, level_json(s, i))) {
			json_decref(levels);
			return json_put(stdout, NULL);
		}
	if (s->a->verify)
		verify = json_pack("{s:b, s:o, s:o, s:o}", "restores", s->verdict.restores,
				   "resolved_pages", json_u64(s->verdict.resolved_pages),
				   "lost_pages", json_u64(s->verdict.lost_pages), "lost",
				   lost_json(s));
	return json_put(stdout, json_pack("{s:s, s:i, s:o, s:o, s:o, s:o}", "format",
					  "wprof.images", "version", 1, "dir", json_text(s->a->dir),
					  "page_bytes", json_u64((uint64_t)sysconf(_SC_PAGESIZE)),
					  "levels", levels, "verify", verify));
}

static void show_withheld(struct shown *s, size_t level, const struct wprof_images_map *map)
{
	const struct wprof_range *r;
	struct wprof_ranges *set;
	size_t n;

	if (map->shared || !map->withheld_pages ||
	    wprof_images_withheld(s->images, level, map->id, &set, &s->why))
		return;
	r = wprof_ranges_list(set, &n);
	for (size_t i = 0; i < n && i < LISTED; i++)
		printf("         withheld %" PRIx64 "-%" PRIx64 "  %s\n", r[i].start, r[i].end,
		       human_bytes((double)(r[i].end - r[i].start)).text);
	if (n > LISTED)
		printf("         and %zu ranges more (--json lists them)\n", n - LISTED);
	wprof_ranges_free(set);
}

static void show_map(struct shown *s, size_t level, const struct wprof_images_map *map)
{
	char who[32];

	snprintf(who, sizeof(who), "%s %" PRIu64, map->shared ? "shared" : "process", map->id);
	printf("       %-16s %10" PRIu64 " %10" PRIu64 " %10" PRIu64, who, map->present_pages,
	       map->parent_pages, map->withheld_pages);
	if (map->lazy_pages)
		printf("  (and %" PRIu64 " lazy ones elsewhere)", map->lazy_pages);
	putchar('\n');
	show_withheld(s, level, map);
}

static void show_level(struct shown *s, size_t level)
{
	const struct wprof_images_level *l = &s->levels[level];

	printf("%5zu  %s: %s%s, %s of pages, %s of other files\n", level, l->dir,
	       l->pre_dump ? "pre-dump" : "dump",
	       l->state == WPROF_IMAGES_PLAIN	   ? ""
	       : l->state == WPROF_IMAGES_WITHHELD ? " to ship, hot pages withheld"
						   : " to ship, completed",
	       human_bytes((double)l->pages_bytes).text, human_bytes((double)l->other_bytes).text);
	for (size_t i = 0; i < l->n_maps; i++)
		show_map(s, level, &l->maps[i]);
}

static void show_lost(const struct shown *s)
{
	for (size_t i = 0; i < s->lost.n && i < LISTED; i++) {
		const struct wprof_images_lost *l = &s->lost.list[i];

		printf("lost: %s %" PRIu64 ", %" PRIx64 "-%" PRIx64 ": level %zu, %s\n",
		       l->map->shared ? "shared" : "process", l->map->id, l->range.start,
		       l->range.end, l->level, l->reason);
	}
	if (s->lost.n > LISTED)
		printf("and %zu runs of pages more (--json lists them)\n", s->lost.n - LISTED);
}

static void show_verdict(const struct shown *s)
{
	if (s->verdict.restores)
		printf("restores alone: all %" PRIu64 " holes resolve\n",
		       s->verdict.resolved_pages);
	else if (s->verdict.lost_pages)
		printf("does not restore: %" PRIu64 " pages do not resolve\n",
		       s->verdict.lost_pages);
	else
		puts("does not restore: a pre-dump; all its pages resolve");
}

static bool show(struct shown *s)
{
	puts("LEVEL  DIRECTORY             PAGES      HOLES   WITHHELD");
	for (size_t i = 0; i < s->n_levels; i++)
		show_level(s, i);
	if (s->a->verify) {
		show_lost(s);
		show_verdict(s);
	}
	return true;
}

static int run_show(const struct images_args *a)
{
	struct wprof_images_opts o = { .size = sizeof(o), .flags = a->flags, .root = a->root };
	struct shown s = { .a = a };
	bool done;
	int rc;

	rc = wprof_images_open(a->dir, &o, &s.images, &s.why);
	if (!rc && a->verify)
		rc = wprof_images_verify(s.images, keep_lost, &s.lost, &s.verdict, &s.why);
	if (rc || s.lost.failed) {
		cli_error("%s", rc ? s.why.text : "out of memory");
		done = false;
	} else {
		s.levels = wprof_images_levels(s.images, &s.n_levels);
		done = a->json ? put_document(&s) : show(&s);
	}
	wprof_images_close(s.images);
	free(s.lost.list);
	if (!done || (a->verify && !s.verdict.restores))
		return CLI_FAILED;
	return CLI_DONE;
}

/* A long chain needs descriptors. */
static void prepare(void)
{
	struct rlimit files;

	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

int images_main(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		"DIR\n--withhold [PID:]RANGES FULL SHIP\n--complete FULL SHIP",
		"Show a chain of CRIU images whose newest dump is DIR, ship it without its hot "
		"pages, complete it at the end.",
		NULL,
		NULL,
		NULL
	};
	struct images_args a = { 0 };
	int rc;

	if (argp_parse(&argp, argc, argv, 0, NULL, &a))
		return CLI_USAGE;
	prepare();
	rc = a.ship ? run_ship(&a) : run_show(&a);
	for (size_t i = 0; i < a.n_hot; i++)
		wprof_ranges_free((struct wprof_ranges *)a.hot[i].ranges);
	free(a.hot);
	return rc;
}
