/* hot.c - `wprof hot`: profile for some intervals, then say which memory is hot. */
#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "tool/commands.h"
#include "tool/human.h"
#include "tool/json.h"
#include "tool/session.h"

static bool print_json(const struct session *s, const struct options *o)
{
	static const struct wprof_interval none = { .page_bytes = 4096 };
	const struct wprof_interval *iv = s->last ? s->last : &none;
	uint64_t elapsed = iv->start_ns + iv->length_ns;
	json_t *rest, *doc = session_json(s, "wprof.hot");

	rest = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:b, s:b, s:o, s:o}", "intervals",
			 json_u64(s->intervals), "elapsed_ns",
			 json_u64(s->last ? elapsed - s->pace.start_ns : 0), "page_bytes",
			 json_u64(iv->page_bytes), "total_vmas", json_u64(iv->n_vmas), "hot_vmas",
			 json_u64(trace_hot_vmas(iv, s->hot, s->n_hot)), "hot_bytes",
			 json_u64(trace_hot_bytes(s->hot, s->n_hot)), "dirty_rate_bytes_per_sec",
			 trace_dirty_rate(iv), "estimated", iv->estimated, "ended", s->ended,
			 "regions", trace_regions_json(s->hot, s->n_hot), "cost",
			 trace_cost_json(&s->cost));
	if (!doc || !rest || trace_add_rule(doc, &o->rule) || json_object_update(doc, rest)) {
		json_decref(doc);
		doc = NULL;
	}
	json_decref(rest);
	return json_put(stdout, doc);
}

static void print_cost(const struct session *s)
{
	printf("own cost: %s scanning in %llu intervals, %s of processor; at most %llu faults "
	       "in the target\n",
	       human_time(s->cost.scan_ns).text, (unsigned long long)s->intervals,
	       human_time(s->cost.cpu_ns).text, (unsigned long long)s->cost.faults);
}

static void print_table(const struct session *s, const struct options *o)
{
	size_t width = human_width(STDOUT_FILENO);
	char label[200];

	printf("%s: %llu intervals of %llu ms, hot above %g in %llu in a row%s\n",
	       target_label(&s->target, label, sizeof(label)), (unsigned long long)s->intervals,
	       (unsigned long long)o->rule.interval_ms, o->rule.hot_threshold,
	       (unsigned long long)o->rule.hot_consecutive,
	       s->last && s->last->estimated ? ", estimated" : "");
	if (s->n_hot) {
		human_region_head(width);
		for (size_t i = 0; i < s->n_hot; i++)
			human_region(&s->hot[i], width);
		printf("hot: %s in %zu region%s",
		       human_bytes((double)trace_hot_bytes(s->hot, s->n_hot)).text, s->n_hot,
		       s->n_hot == 1 ? "" : "s");
	} else {
		printf("nothing is hot");
	}
	if (s->last)
		printf("; written in the last interval: %s, %s",
		       human_bytes((double)(s->last->written_pages * s->last->page_bytes)).text,
		       human_rate(trace_dirty_rate(s->last)).text);
	puts(s->ended ? "\nthe target has ended" : "");
	if (s->last)
		human_untracked(stdout, s->last);
	print_cost(s);
}

int hot_main(int argc, char **argv)
{
	static const struct options_command command = {
		.usage = "PID\n--service NAME\n-- CMD [ARG...]",
		.about = "Profile a process for some intervals and print its hot memory.\v"
			 "It takes one interval more than --consecutive asks for. Nothing hot is "
			 "an answer too: the exit code is 0.",
		.children = { &options_target, &options_rule, &options_json },
	};
	struct options o = OPTIONS_DEFAULT;
	struct session s;
	int rc;

	o.takes_command = true;
	options_parse(argc, argv, &command, &o);
	rc = session_profile(&o, &s);
	if (!rc && o.json && !print_json(&s, &o))
		rc = CLI_FAILED;
	if (!rc && !o.json)
		print_table(&s, &o);
	session_close(&s);
	return rc;
}
