#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "show.h"
#include "text.h"

size_t show_text(FILE *to, const char *text, size_t len, bool quoted)
{
	size_t width = quoted ? 2 : 0;
	uint32_t c;

	if (quoted)
		putc('"', to);
	for (size_t i = 0, n; i < len; i += n) {
		n = text_decode(text + i, len - i, &c);
		if (c == TEXT_NO_CHARACTER) {
			fputs("\xef\xbf\xbd", to);
			width++;
		} else if (text_dangerous(c)) {
			width += (size_t)fprintf(to, "\\u%04" PRIx32, c);
		} else if (quoted && (c == '"' || c == '\\')) {
			width += (size_t)fprintf(to, "\\%c", (char)c);
		} else {
			fwrite(text + i, 1, n, to);
			width++;
		}
	}
	if (quoted)
		putc('"', to);
	return width;
}

void show_column(FILE *to, const char *text, size_t len, unsigned int width)
{
	size_t used = show_text(to, text, len, false);

	fprintf(to, "%*s", used < width ? (int)(width - used) : 0, "");
}

static void show_bytes(FILE *to, const uint8_t *data, size_t len)
{
	fputs("0x", to);
	for (size_t i = 0; i < len; i++)
		fprintf(to, "%02x", data[i]);
}

static void show_array(FILE *to, const struct pctx_value *values, size_t n)
{
	putc('[', to);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? ", " : "", to);
		show_value(to, &values[i]);
	}
	putc(']', to);
}

static void show_kvlist(FILE *to, const struct pctx_attr *attrs, size_t n)
{
	putc('{', to);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? ", " : "", to);
		show_text(to, attrs[i].key, strlen(attrs[i].key), true);
		fputs(": ", to);
		show_value(to, &attrs[i].value);
	}
	putc('}', to);
}

void show_value(FILE *to, const struct pctx_value *v)
{
	switch (v->kind) {
	case PCTX_STRING:
		show_text(to, v->u.string.data, v->u.string.len, true);
		break;
	case PCTX_BOOL:
		fputs(v->u.boolean ? "true" : "false", to);
		break;
	case PCTX_INT:
		fprintf(to, "%" PRId64, v->u.integer);
		break;
	case PCTX_DOUBLE:
		fprintf(to, "%.17g", v->u.number);
		break;
	case PCTX_BYTES:
		show_bytes(to, v->u.bytes.data, v->u.bytes.len);
		break;
	case PCTX_ARRAY:
		show_array(to, v->u.array.values, v->u.array.n);
		break;
	case PCTX_KVLIST:
		show_kvlist(to, v->u.kvlist.attrs, v->u.kvlist.n);
		break;
	default:
		fputs("(empty)", to);
	}
}

static void show_attrs(FILE *to, const char *title, const struct pctx_attr *attrs, size_t n)
{
	unsigned int width = 0;

	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(attrs[i].key);

		if (len <= 40 && len > width)
			width = (unsigned int)len;
	}
	fprintf(to, "%s:%s\n", title, n ? "" : " none");
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(attrs[i].key);

		fputs("  ", to);
		show_column(to, attrs[i].key, len, width);
		fputs("  ", to);
		show_value(to, &attrs[i].value);
		putc('\n', to);
	}
}

void show_context(FILE *to, const struct pctx_context *context)
{
	const struct pctx_attr *attrs;
	size_t n;

	attrs = pctx_context_resource(context, &n);
	show_attrs(to, "resource", attrs, n);
	attrs = pctx_context_attributes(context, &n);
	if (n)
		show_attrs(to, "attributes", attrs, n);
}

bool show_age(char *out, size_t room, uint64_t at_ns)
{
	struct timespec now;
	uint64_t now_ns, seconds;

	clock_gettime(CLOCK_BOOTTIME, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	seconds = at_ns < now_ns ? (now_ns - at_ns) / 1000000000u : 0;
	if (at_ns > now_ns)
		snprintf(out, room, "future");
	else if (seconds < 120)
		snprintf(out, room, "%" PRIu64 " s", seconds);
	else if (seconds < 7200)
		snprintf(out, room, "%" PRIu64 " min", seconds / 60);
	else if (seconds < 172800)
		snprintf(out, room, "%" PRIu64 " h", seconds / 3600);
	else
		snprintf(out, room, "%" PRIu64 " d", seconds / 86400);
	return at_ns <= now_ns;
}

void comm_read(const char *procfs, pid_t pid, char *out, size_t room)
{
	char path[4096];
	FILE *from;

	out[0] = '\0';
	snprintf(path, sizeof(path), "%s/%d/comm", procfs ? procfs : "/proc", (int)pid);
	from = fopen(path, "re");
	if (!from)
		return;
	if (!fgets(out, (int)room, from))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	fclose(from);
}
