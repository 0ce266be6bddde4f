/*
 * images.c - fuzz the reader and the writer of CRIU images.
 *
 * An input is cut into the files of two levels, each piece with a length of two
 * bytes before it: flags and the pagemaps of two dumps, the second on top of the
 * first, an inventory, a record. Pages files get the size their pagemap asks for,
 * as far as that is small, so that withholding and completing are reached. Beyond
 * not crashing: what was completed must resolve to its last page.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "criu/images.h"
#include "wprof.h"

#define MOST_DATA (1u << 20)

struct piece {
	const uint8_t *data;
	size_t len;
};

static struct piece cut(const uint8_t **data, size_t *len)
{
	struct piece p = { *data, 0 };

	if (*len < 2)
		return p;
	p.len = (size_t)(*data)[0] | (size_t)(*data)[1] << 8;
	*data += 2;
	*len -= 2;
	if (p.len > *len)
		p.len = *len;
	p.data = *data;
	*data += p.len;
	*len -= p.len;
	return p;
}

static void put(const char *path, struct piece p)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write(fd, p.data, p.len) != (ssize_t)p.len)
		abort();
	close(fd);
}

/* As many bytes as the pagemap of @dir asks for, zeros. */
static void put_pages(const char *dir)
{
	struct pm_in pm;
	char path[64];
	uint64_t need;
	int fd, at = open(dir, O_RDONLY | O_DIRECTORY);

	if (at < 0)
		abort();
	if (!pm_in_open(at, dir, "pagemap-1.img", &pm, NULL)) {
		while (pm_next(&pm, NULL) > 0)
			continue;
		need = pm.next_offset < MOST_DATA ? pm.next_offset : MOST_DATA;
		snprintf(path, sizeof(path), "%s/pages-%u.img", dir, pm.pages_id);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		if (fd < 0 || ftruncate(fd, (off_t)need))
			abort();
		close(fd);
		pm_in_close(&pm);
	}
	close(at);
}

/* Remove the directory and what is in it. */
static void wipe(const char *dir)
{
	struct dirent *entry;
	char path[512];
	DIR *d = opendir(dir);

	while (d && (entry = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

static void wipe_all(void)
{
	static const char *const dirs[] = {
		"full-1", "full-2", "ship-1", "ship-2", "ship-1.partial", "ship-2.partial",
	};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		wipe(dirs[i]);
}

static void make_level(const char *dir, const char *parent, struct piece pagemap,
		       struct piece inventory)
{
	static const uint8_t plain[] = "\x16\x31\x31\x58\x02\0\0\0\x08\x01";
	char path[64];

	if (mkdir(dir, 0755))
		abort();
	snprintf(path, sizeof(path), "%s/inventory.img", dir);
	put(path, inventory.len ? inventory : (struct piece){ plain, sizeof(plain) - 1 });
	snprintf(path, sizeof(path), "%s/pagemap-1.img", dir);
	put(path, pagemap);
	snprintf(path, sizeof(path), "%s/parent", dir);
	if (parent && symlink(parent, path))
		abort();
	put_pages(dir);
}

static void look(const char *dir, bool must_resolve)
{
	struct wprof_images_opts o = { .size = sizeof(o), .flags = WPROF_IMAGES_SPARSE };
	struct wprof_images_verdict v;
	struct wprof_images *images;
	struct wprof_ranges *set;
	int rc;

	rc = wprof_images_open(dir, &o, &images, NULL);
	if (must_resolve && rc)
		abort();
	if (rc)
		return;
	if (!wprof_images_withheld(images, 0, 1, &set, NULL))
		wprof_ranges_free(set);
	rc = wprof_images_verify(images, NULL, NULL, &v, NULL);
	if (must_resolve && (rc || v.lost_pages))
		abort();
	wprof_images_close(images);
}

static void ship(uint8_t flags)
{
	static const struct wprof_range hot = { 0x401000, 0x404000 };
	struct wprof_images_hot all = { 0 };
	struct wprof_images_ship o = {
		.size = sizeof(o),
		.flags = WPROF_IMAGES_SPARSE | WPROF_IMAGES_NO_SYNC,
		.full = "full-1",
		.ship = "ship-1",
		.hot = &all,
		.n_hot = 1,
	};
	struct wprof_ranges *set;
	int rc;

	if (wprof_ranges_new(&hot, 1, &set))
		abort();
	all.ranges = set;
	rc = wprof_images_withhold(&o, NULL, NULL);
	wprof_ranges_free(set);
	if (rc)
		return;
	o.full = "full-2";
	o.ship = "ship-2";
	o.parent = flags & 1 ? "../ship-1" : "../full-1";
	o.n_hot = 0;
	if (!wprof_images_complete(&o, NULL, NULL))
		look("ship-2", true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char dir[] = "/dev/shm/images-fuzz.XXXXXX";

	(void)argc;
	(void)argv;
	/* the corpus is named by absolute paths: see module.mk */
	return !mkdtemp(dir) || chdir(dir) ? (perror(dir), exit(1), 1) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t flags = len ? data[0] : 0;
	struct piece first, second, inventory, record;

	if (!len)
		return 0;
	data++;
	len--;
	first = cut(&data, &len);
	second = cut(&data, &len);
	inventory = cut(&data, &len);
	record = cut(&data, &len);
	wipe_all();
	make_level("full-1", NULL, first, inventory);
	make_level("full-2", "../full-1", second, (struct piece){ 0 });
	if (record.len)
		put("full-2/withheld.wprof", record);
	look("full-2", false);
	ship(flags);
	return 0;
}
