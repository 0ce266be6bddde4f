#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

static atomic_int log_least = LOG_LEVEL_INFO;

void log_level_set(enum log_level level)
{
	atomic_store(&log_least, (int)level);
}

static size_t log_begin(char *line, size_t room, enum log_level level, const char *message)
{
	static const char *const names[] = { "debug", "info", "warn", "error" };
	struct timespec now;
	struct tm utc;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	n = strftime(line, room, "time=%Y-%m-%dT%H:%M:%S", &utc);
	n += (size_t)snprintf(line + n, room - n, ".%03ldZ level=%s msg=\"%s\"",
			      now.tv_nsec / 1000000, names[level], message);
	return n < room ? n : room - 1;
}

void log_line(enum log_level level, const char *message, const char *format, ...)
{
	char line[1024];
	va_list args;
	size_t n;
	int more;

	if ((int)level < atomic_load(&log_least))
		return;
	n = log_begin(line, sizeof(line) - 1, level, message);
	if (format && n < sizeof(line) - 2) {
		line[n++] = ' ';
		va_start(args, format);
		more = vsnprintf(line + n, sizeof(line) - 1 - n, format, args);
		va_end(args);
		n += more > 0 ? (size_t)more : 0;
		if (n > sizeof(line) - 2)
			n = sizeof(line) - 2;
	}
	line[n++] = '\n';
	/* a log that cannot be written must not end the daemon */
	if (write(STDERR_FILENO, line, n) < 0)
		return;
}

const char *log_quote(const char *text, struct log_text *room)
{
	size_t n = 0;

	room->text[n++] = '"';
	for (; *text && n < sizeof(room->text) - 6; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < ' ' || c > '~' || c == '"' || c == '\\')
			n += (size_t)sprintf(room->text + n, "\\x%02x", c);
		else
			room->text[n++] = (char)c;
	}
	room->text[n++] = '"';
	room->text[n] = '\0';
	return room->text;
}
