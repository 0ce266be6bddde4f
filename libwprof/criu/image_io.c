/* image_io.c - files of framed messages, and moving page data. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "criu/images.h"

int img_open_regular(int dir_fd, const char *dir, const char *name, struct wprof_why *why)
{
	struct stat st;
	int fd;

	/* O_NONBLOCK: a fifo of that name must not hang us */
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0 && errno == ELOOP)
		return why_set(why, WPROF_OUTSIDE, "%s/%s: a symbolic link; only files belong here",
			       dir, name);
	if (fd < 0)
		return why_system(why, -errno, "%s/%s", dir, name);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return why_set(why, WPROF_BAD_IMAGE, "%s/%s: not a regular file", dir, name);
	}
	return fd;
}

int img_bad(const struct img_in *in, struct wprof_why *why, const char *format, ...)
{
	char text[160];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return why_set(why, WPROF_BAD_IMAGE, "%s/%s, message %llu: %s", in->dir, in->name,
		       (unsigned long long)in->n_messages, text);
}

static ssize_t read_some(int fd, void *to, size_t room)
{
	ssize_t got;

	do
		got = read(fd, to, room);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* Have @need bytes at in->at. Return: how many there are, up to @need or more. */
static ssize_t in_fill(struct img_in *in, size_t need, struct wprof_why *why)
{
	ssize_t got;

	if (in->have - in->at >= need)
		return in->have - in->at;
	memmove(in->buf, in->buf + in->at, in->have - in->at);
	in->have -= in->at;
	in->at = 0;
	while (in->have < need) {
		got = read_some(in->fd, in->buf + in->have, sizeof(in->buf) - in->have);
		if (got < 0)
			return why_system(why, (int)got, "%s/%s", in->dir, in->name);
		if (!got)
			break;
		in->have += (uint32_t)got;
	}
	return in->have;
}

static uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int in_magic(struct img_in *in, const uint32_t *magic, size_t n, struct wprof_why *why)
{
	for (size_t i = 0; i < n; i++) {
		ssize_t have = in_fill(in, 4, why);

		if (have < 0)
			return (int)have;
		if (have < 4)
			return img_bad(in, why, "the file ends within its head");
		if (get_u32(in->buf + in->at) != magic[i])
			return img_bad(in, why,
				       "not an image of this kind: magic 0x%08x, not 0x%08x",
				       get_u32(in->buf + in->at), magic[i]);
		in->at += 4;
	}
	return 0;
}

int img_in_open(int dir_fd, const char *dir, const char *name, const uint32_t *magic, size_t n,
		struct img_in **out, struct wprof_why *why)
{
	struct img_in *in;
	int rc;

	in = malloc(sizeof(*in));
	if (!in)
		return why_system(why, -ENOMEM, "%s/%s", dir, name);
	memset(in, 0, offsetof(struct img_in, buf));
	in->dir = dir;
	snprintf(in->name, sizeof(in->name), "%s", name);
	in->fd = img_open_regular(dir_fd, dir, name, why);
	rc = in->fd < 0 ? in->fd : in_magic(in, magic, n, why);
	if (rc)
		img_in_close(in);
	else
		*out = in;
	return rc;
}

void img_in_close(struct img_in *in)
{
	if (!in)
		return;
	if (in->fd >= 0)
		close(in->fd);
	free(in);
}

int img_in_next(struct img_in *in, const uint8_t **data, size_t *len, struct wprof_why *why)
{
	ssize_t have;
	uint32_t size;

	in->n_messages++;
	have = in_fill(in, 4, why);
	if (have <= 0)
		return (int)have;
	if (have < 4)
		return img_bad(in, why, "the file ends within a length");
	size = get_u32(in->buf + in->at);
	if (size > IMG_MESSAGE_MAX)
		return img_bad(in, why, "%u bytes, more than any message here has", size);
	have = in_fill(in, 4 + (size_t)size, why);
	if (have < 0)
		return (int)have;
	if ((size_t)have < 4 + (size_t)size)
		return img_bad(in, why, "the file ends within a message of %u bytes", size);
	*data = in->buf + in->at + 4;
	*len = size;
	in->at += 4 + size;
	return 1;
}

int img_out_open(struct img_out *out, int dir_fd, const char *name, mode_t mode)
{
	memset(out, 0, offsetof(struct img_out, buf));
	snprintf(out->name, sizeof(out->name), "%s", name);
	out->fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	return out->fd < 0 ? -errno : 0;
}

static void out_flush(struct img_out *out)
{
	uint32_t at = 0;

	while (!out->error && at < out->have) {
		ssize_t put = write(out->fd, out->buf + at, out->have - at);

		if (put >= 0)
			at += (uint32_t)put;
		else if (errno != EINTR)
			out->error = -errno;
	}
	out->bytes += out->have;
	out->have = 0;
}

static uint8_t *out_room(struct img_out *out, size_t len)
{
	uint8_t *p;

	if (sizeof(out->buf) - out->have < len)
		out_flush(out);
	p = out->buf + out->have;
	out->have += (uint32_t)len;
	return p;
}

static void put_u32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

void img_out_write(struct img_out *out, const void *data, size_t len)
{
	memcpy(out_room(out, len), data, len);
}

void img_out_magic(struct img_out *out, const uint32_t *magic, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put_u32(out_room(out, 4), magic[i]);
}

uint8_t *img_out_message(struct img_out *out, size_t len)
{
	uint8_t *p = out_room(out, 4 + len);

	put_u32(p, (uint32_t)len);
	return p + 4;
}

int img_out_close(struct img_out *out)
{
	if (out->fd < 0)
		return out->error;
	out_flush(out);
	if (close(out->fd) && !out->error)
		out->error = -errno;
	out->fd = -1;
	return out->error;
}

static bool move_unsupported(int error)
{
	return error == EXDEV || error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

/*
 * One step of a move. copy_file_range shares blocks where the file system can;
 * between two file systems sendfile splices through a pipe of the kernel's own.
 */
static ssize_t move_some(int in_fd, off_t *from, size_t len, int out_fd)
{
	ssize_t put;

	put = copy_file_range(in_fd, from, out_fd, NULL, len, 0);
	if (put < 0 && move_unsupported(errno))
		put = sendfile(out_fd, in_fd, from, len);
	return put < 0 ? -errno : put;
}

int img_move(int in_fd, uint64_t from, uint64_t len, int out_fd)
{
	off_t at = (off_t)from;

	while (len) {
		size_t step = len < 1u << 30 ? (size_t)len : 1u << 30;
		ssize_t put = move_some(in_fd, &at, step, out_fd);

		if (put == -EINTR)
			continue;
		if (put <= 0)
			return put ? (int)put : -ENODATA;
		len -= (uint64_t)put;
	}
	return 0;
}
