/* case.h - a test case with its one-sentence description; none may hang. */
#ifndef WPROF_TESTS_CASE_H
#define WPROF_TESTS_CASE_H

#include <atf-c.h>

#define CASE_WITHIN(seconds, name, text)                   \
	ATF_TC(name);                                      \
	ATF_TC_HEAD(name, tc)                              \
	{                                                  \
		atf_tc_set_md_var(tc, "descr", text);      \
		atf_tc_set_md_var(tc, "timeout", seconds); \
	}                                                  \
	ATF_TC_BODY(name, tc)

#define CASE(name, text) CASE_WITHIN("30", name, text)

#endif
