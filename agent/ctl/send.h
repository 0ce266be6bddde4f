/* send.h - images on their way to where they are restored, by rsync. */
#ifndef CTL_SEND_H
#define CTL_SEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * send_check() - can rsync write to @to? The last directory of it is made
 * @to: as rsync takes it: DIR, HOST:DIR, HOST::MODULE/DIR
 *
 * Return: success; else @why says why not, in one line.
 */
bool send_check(const char *to, char *why, size_t room);

/**
 * send_images() - <@images>/<@what> becomes <@to>/<@what>
 * @what: "ID/ship" or "ID/full"; relative parent links in there hold
 * @sent_bytes: what went over the wire; -1: rsync did not say
 *
 * What is there already and the same is not sent again.
 * Return: success; else @why.
 */
bool send_images(const char *images, const char *what, const char *to, int64_t *sent_bytes,
		 char *why, size_t room);

/** send_stop() - end the rsync that runs now, from any thread */
void send_stop(void);

#endif /* CTL_SEND_H */
