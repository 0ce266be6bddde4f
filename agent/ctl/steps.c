/* steps.c - the steps of a migration, for people and for programs. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "cli.h"
#include "steps.h"

static int flush(void)
{
	return fflush(stdout) ? CLI_FAILED : CLI_DONE;
}

int steps_begin(const struct ctl *ctl, const char *name, const char *to)
{
	if (ctl->json)
		return ask_print_json(json_pack("{s:s, s:i, s:s, s:s?}", "format",
						"wprof-ctl.migrate", "version", 1, "name", name,
						"to", to));
	printf("migration %s%s%s\n%-5s%11s%9s%11s%11s%9s%10s%9s\n", name, to ? " to " : "",
	       to ? to : "", "STEP", "PREDICTED", "IN", "WRITTEN", "WITHHELD", "IN", "FROZEN",
	       "SENT IN");
	return flush();
}

static json_t *known(bool is, json_t *value)
{
	if (is)
		return value;
	json_decref(value);
	return json_null();
}

static int show_json(const struct step *s, enum stop_reason reason)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:s, s:s}", "type", "step", "kind",
			      s->final ? "dump" : "pre-dump", "dump_id", s->id, "parent_dump_id",
			      *s->parent ? json_string(s->parent) : json_null(), "images_dir",
			      s->dir, "hot_mode", s->mode);
	json_t *figures = json_pack(
		"{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:o}", "predicted_bytes",
		known(s->predicted.has_bytes, json_integer((json_int_t)s->predicted.bytes)),
		"predicted_ms", known(s->predicted.has_ms, json_real(s->predicted.ms)),
		"bytes_written", (json_int_t)s->written_bytes, "bytes_withheld",
		(json_int_t)s->withheld_bytes, "pages_written", (json_int_t)s->pages_written,
		"pages_skipped_parent", (json_int_t)s->pages_skipped, "frozen_time_us",
		(json_int_t)s->frozen_us, "dump_ms", s->dump_ms, "send_ms",
		known(s->sent, json_real(s->send_ms)), "sent_bytes",
		known(s->sent && s->sent_bytes >= 0, json_integer(s->sent_bytes)), "stop",
		known(reason != STOP_NOT, json_string(stop_name(reason))));

	if (o && (!figures || json_object_update(o, figures))) {
		json_decref(o);
		o = NULL;
	}
	json_decref(figures);
	return ask_print_json(o);
}

static const char *duration(double ms, char *out, size_t room)
{
	if (ms < 1000)
		snprintf(out, room, ms < 10 ? "%.1f ms" : "%.0f ms", ms);
	else
		snprintf(out, room, ms < 100000 ? "%.2f s" : "%.0f s", ms / 1000);
	return out;
}

static void show_text(const struct step *s)
{
	char text[8][24];

	if (s->final)
		snprintf(text[0], sizeof(text[0]), "final");
	else
		snprintf(text[0], sizeof(text[0]), "%u", s->number);
	strcpy(text[1], "-");
	strcpy(text[2], "-");
	strcpy(text[7], "-");
	if (s->predicted.has_bytes)
		ask_bytes((double)s->predicted.bytes, text[1], sizeof(text[1]));
	if (s->predicted.has_ms)
		duration(s->predicted.ms, text[2], sizeof(text[2]));
	ask_bytes((double)s->written_bytes, text[3], sizeof(text[3]));
	ask_bytes((double)s->withheld_bytes, text[4], sizeof(text[4]));
	duration(s->dump_ms, text[5], sizeof(text[5]));
	duration((double)s->frozen_us / 1000, text[6], sizeof(text[6]));
	if (s->sent)
		duration(s->send_ms, text[7], sizeof(text[7]));
	printf("%-5s%11s%9s%11s%11s%9s%10s%9s\n", text[0], text[1], text[2], text[3], text[4],
	       text[5], text[6], text[7]);
}

int steps_show(const struct ctl *ctl, const struct step *step, enum stop_reason reason)
{
	if (ctl->json)
		return show_json(step, reason);
	show_text(step);
	if (reason != STOP_NOT)
		printf("%s: the final dump\n", stop_text(reason));
	return flush();
}

int steps_note(const struct ctl *ctl, const char *text)
{
	if (ctl->json)
		return ask_print_json(json_pack("{s:s, s:s}", "type", "note", "text", text));
	puts(text);
	return flush();
}

const char *steps_quote(const char *word, char *out, size_t room)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-./:@%+=,";
	size_t n = 0;

	if (*word && !word[strspn(word, plain)]) {
		snprintf(out, room, "%s", word);
		return out;
	}
	out[n++] = '\'';
	for (; *word && n + 6 < room; word++) {
		if (*word == '\'') {
			memcpy(out + n, "'\\''", 4);
			n += 4;
		} else {
			out[n++] = *word;
		}
	}
	out[n++] = '\'';
	out[n] = '\0';
	return out;
}

/* "HOST:" of HOST:DIR, as rsync tells it from a DIR; *@dir is what follows. */
static size_t host_of(const char *to, const char **dir)
{
	size_t n = strcspn(to, ":/");

	if (to[n] != ':') {
		*dir = to;
		return 0;
	}
	*dir = to + n + 1;
	return n;
}

static int end_json(const char *host, size_t n_host, const char *dir, bool shell_job)
{
	return ask_print_json(json_pack("{s:s, s:s%, s:[s, s, s, s, s]}", "type", "end", "host",
					host, n_host, "restore", "criu", "restore", "-D", dir,
					shell_job ? "--shell-job" : "-d"));
}

int steps_end(const struct ctl *ctl, const char *images, const char *to, const char *tail,
	      bool shell_job)
{
	char path[PATH_MAX + 200], quoted[PATH_MAX + 400];
	const char *dir = images;
	size_t n_host = 0, n_dir;

	if (to)
		n_host = host_of(to, &dir);
	n_dir = strlen(dir);
	snprintf(path, sizeof(path), "%s%s%s", dir, n_dir && dir[n_dir - 1] != '/' ? "/" : "",
		 tail);
	if (ctl->json)
		return end_json(to ? to : "", n_host, path, shell_job);
	if (n_host)
		printf("restore on %.*s:\n", (int)n_host, to);
	else
		puts("restore:");
	printf("  criu restore -D %s %s\n", steps_quote(path, quoted, sizeof(quoted)),
	       shell_job ? "--shell-job" : "-d");
	return flush();
}
