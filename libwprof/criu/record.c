/*
 * record.c - what was withheld from a level: a text file beside the images.
 *
 *	wprof-withheld 1 withheld 1f3a5c7e9b2d4f60
 *	4711 7f0000000000 7f0000200000
 *	end
 *
 * The head holds the version, the state and the identity of the dump it was made
 * from; each line a process and a range, ascending; without the last line the
 * file is cut short. CRIU does not look at it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "criu/images.h"

static const char *const state_names[] = {
	[WPROF_IMAGES_WITHHELD] = "withheld",
	[WPROF_IMAGES_COMPLETE] = "complete",
};

void record_head(struct img_out *out, const struct record *record)
{
	char line[80];
	int len;

	len = snprintf(line, sizeof(line), "wprof-withheld 1 %s %016" PRIx64 "\n",
		       state_names[record->state], record->source);
	img_out_write(out, line, (size_t)len);
}

void record_range(struct img_out *out, uint64_t id, const struct wprof_range *range)
{
	char line[80];
	int len;

	len = snprintf(line, sizeof(line), "%" PRIu64 " %" PRIx64 " %" PRIx64 "\n", id,
		       range->start, range->end);
	img_out_write(out, line, (size_t)len);
}

void record_tail(struct img_out *out)
{
	img_out_write(out, "end\n", 4);
}

static bool parse_head(const char *line, struct record *record)
{
	unsigned int version;
	char state[16];
	int end = 0;

	if (sscanf(line, "wprof-withheld %u %15s %" SCNx64 "\n%n", &version, state, &record->source,
		   &end) != 3 ||
	    line[end] || version != 1)
		return false;
	record->state = WPROF_IMAGES_WITHHELD;
	if (!strcmp(state, state_names[WPROF_IMAGES_COMPLETE]))
		record->state = WPROF_IMAGES_COMPLETE;
	return !strcmp(state, state_names[record->state]);
}

/* One range; it must come after @last, the one before of the same process. */
static bool parse_range(const char *line, uint64_t *id, struct wprof_range *last)
{
	struct wprof_range r;
	uint64_t who;
	int end = 0;

	if (sscanf(line, "%" SCNu64 " %" SCNx64 " %" SCNx64 "\n%n", &who, &r.start, &r.end, &end) !=
		    3 ||
	    line[end])
		return false;
	if (r.start >= r.end || (r.start | r.end) % pm_page_bytes() || who < *id ||
	    (who == *id && r.start < last->end))
		return false;
	*id = who;
	*last = r;
	return true;
}

/* Return: 1 at the "end" line, 0 when a range was taken, or an error. */
static int take_line(const char *line, uint64_t *id, struct wprof_range *last, record_fn fn,
		     void *arg)
{
	if (!strcmp(line, "end\n"))
		return 1;
	if (!parse_range(line, id, last))
		return -EBADMSG;
	return fn ? fn(*id, last, arg) : 0;
}

static int read_lines(FILE *f, struct record *record, record_fn fn, void *arg)
{
	struct wprof_range last = { 0 };
	uint64_t id = 0;
	char line[96];
	int rc = -EBADMSG;

	if (!fgets(line, sizeof(line), f) || !parse_head(line, record))
		return -EBADMSG;
	while (fgets(line, sizeof(line), f)) {
		rc = take_line(line, &id, &last, fn, arg);
		if (rc)
			break;
		rc = -EBADMSG;
	}
	return rc == 1 ? 0 : rc;
}

int record_read(const struct level *level, struct record *record, record_fn fn, void *arg,
		struct wprof_why *why)
{
	FILE *f;
	int fd, rc;

	memset(record, 0, sizeof(*record));
	fd = img_open_regular(level->fd, level->dir, IMG_RECORD, why);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	f = fdopen(fd, "r");
	if (!f) {
		close(fd);
		return why_system(why, -ENOMEM, "%s/" IMG_RECORD, level->dir);
	}
	rc = read_lines(f, record, fn, arg);
	fclose(f);
	if (rc == -EBADMSG)
		return why_set(why, WPROF_BAD_IMAGE,
			       "%s/" IMG_RECORD ": cut short or not a record of withheld pages",
			       level->dir);
	return rc ? why_system(why, rc, "%s/" IMG_RECORD, level->dir) : 0;
}
