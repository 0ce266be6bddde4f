#include <string.h>

#include "container.h"

static const char digits[] = "0123456789abcdef";

/*
 * The last run of exactly 64 hex digits in @text[0..@len): the innermost cgroup.
 * What stands around it differs by runtime: /docker/ID, docker-ID.scope,
 * cri-containerd-ID.scope, crio-ID, libpod-ID.scope/container, /kubepods/.../ID.
 */
static const char *last_id(const char *text, size_t len)
{
	const char *found = NULL;

	for (size_t i = 0; i < len;) {
		size_t run = 0;

		while (i + run < len && text[i + run] && strchr(digits, text[i + run]))
			run++;
		if (run == CONTAINER_ID_LEN)
			found = text + i;
		i += run + 1;
	}
	return found;
}

static void take(char *id, const char *from)
{
	memcpy(id, from, CONTAINER_ID_LEN);
	id[CONTAINER_ID_LEN] = '\0';
}

bool container_from_cgroup(const char *text, char id[CONTAINER_ID_LEN + 1])
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		const char *found = last_id(text, len);

		if (found) {
			take(id, found);
			return true;
		}
		text += len + (text[len] == '\n');
	}
	return false;
}

/* The root field, the fourth: the directory the mount shows. */
static const char *mount_root(const char *line, size_t *len)
{
	for (unsigned int i = 0; i < 3; i++) {
		line += strcspn(line, " \n");
		line += *line == ' ';
	}
	*len = strcspn(line, " \n");
	return line;
}

/* A pod's sandbox has such a directory too, and is not the container. */
static bool is_container_file(const char *root, size_t len, const char *id)
{
	const char *after = id + CONTAINER_ID_LEN;
	size_t rest = (size_t)(root + len - after);
	const char *sandboxes = strstr(root, "/sandboxes/");

	if (sandboxes && sandboxes < id)
		return false;
	return (rest >= 9 && memcmp(after, "/hostname", 9) == 0) ||
	       (rest >= 12 && memcmp(after, "/resolv.conf", 12) == 0) ||
	       (rest >= 6 && memcmp(after, "/hosts", 6) == 0) ||
	       (rest >= 18 && memcmp(after, "/userdata/hostname", 18) == 0);
}

bool container_from_mounts(const char *text, char id[CONTAINER_ID_LEN + 1])
{
	while (*text) {
		size_t line = strcspn(text, "\n"), len;
		const char *root = mount_root(text, &len);
		const char *found = last_id(root, len);

		if (found && is_container_file(root, len, found)) {
			take(id, found);
			return true;
		}
		text += line + (text[line] == '\n');
	}
	return false;
}
