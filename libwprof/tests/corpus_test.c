/* The fuzz target on its kept corpus: each finding that was mended stays mended. */
#include <atf-c.h>
#include <dirent.h>

#include "../fuzz/images.c"

static void run_file(const char *dir, const char *name)
{
	static uint8_t data[1 << 16];
	char path[4096 + 256];
	FILE *from;
	size_t len;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	from = fopen(path, "re");
	ATF_REQUIRE_MSG(from, "%s", path);
	len = fread(data, 1, sizeof(data), from);
	fclose(from);
	printf("%s\n", name);
	fflush(stdout);
	LLVMFuzzerTestOneInput(data, len);
}

ATF_TC(corpus__runs);
ATF_TC_HEAD(corpus__runs, tc)
{
	atf_tc_set_md_var(tc, "descr",
			  "Every input of the fuzz target's corpus is survived, and what is "
			  "completed resolves");
	atf_tc_set_md_var(tc, "timeout", "60");
}
ATF_TC_BODY(corpus__runs, tc)
{
	char path[3800];
	struct dirent *entry;
	unsigned int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/libwprof/fuzz/corpus/images",
		 atf_tc_get_config_var(tc, "top"));
	dir = opendir(path);
	ATF_REQUIRE(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		run_file(path, entry->d_name);
		n++;
	}
	closedir(dir);
	ATF_CHECK(n >= 7);
}

ATF_TP_ADD_TCS(tp)
{
	ATF_TP_ADD_TC(tp, corpus__runs);
	return atf_no_error();
}
