/* log.h - lines on standard error: level, message, then key=value. */
#ifndef AGENT_LOG_H
#define AGENT_LOG_H

#include <stddef.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

/** log_level_set() - lines below @level are dropped; info unless set */
void log_level_set(enum log_level level);

/**
 * log_line() - write one line, whole, however many threads write
 * @message: a few constant words
 * @format: "key=%d other=%s" and so on; what came from outside goes through
 *	log_quote(). NULL: nothing more
 */
void log_line(enum log_level level, const char *message, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)

/** struct log_text - room for a quoted text */
struct log_text {
	char text[320];
};

/** log_quote() - @text in quotes, anything but plain ASCII as \xNN; cut when long */
const char *log_quote(const char *text, struct log_text *room);

#endif /* AGENT_LOG_H */
