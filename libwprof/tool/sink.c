#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "tool/human.h"
#include "tool/sink.h"

static bool good(FILE *f)
{
	return !ferror(f);
}

/* ---- trace ------------------------------------------------------------------------- */

static bool trace_member(FILE *f, struct member *m, uint64_t start_ns)
{
	return trace_put_process(f, m->target.pid, m->parent, m->target.command, start_ns,
				 m->target.context);
}

static bool trace_interval(FILE *f, struct member *m, uint64_t base_ns, const struct options *o)
{
	uint64_t layout = trace_layout_hash(m->iv);

	if (layout != m->layout && m->iv->n_vmas) {
		if (!trace_put_layout(f, m->target.pid, m->iv))
			return false;
		m->layout = layout;
	}
	return trace_put_interval(f, m->target.pid, base_ns, m->iv, m->hot, m->n_hot,
				  o->soft_dirty);
}

static bool trace_context(FILE *f, struct member *m)
{
	return trace_put_context(f, m->target.pid, m->target.context);
}

const struct sink sink_trace = {
	.begin = trace_put_header,
	.member = trace_member,
	.interval = trace_interval,
	.context = trace_context,
	.end = trace_put_end,
};

/* ---- CSV ---------------------------------------------------------------------------- */

static bool csv_begin(FILE *f, const struct trace_header *h)
{
	(void)h;
	fputs("pid,interval,start_ns,length_ns,start,end,type,name,written_pages,"
	      "populated_pages,estimated\n",
	      f);
	return good(f);
}

static bool nothing_for_member(FILE *f, struct member *m, uint64_t start_ns)
{
	(void)m;
	(void)start_ns;
	return good(f);
}

static bool nothing_for_context(FILE *f, struct member *m)
{
	(void)m;
	return good(f);
}

static bool nothing_for_end(FILE *f, const struct trace_end *end)
{
	(void)end;
	return good(f);
}

static void csv_text(FILE *f, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, f);
		return;
	}
	putc('"', f);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', f);
		putc(*text, f);
	}
	putc('"', f);
}

static bool csv_interval(FILE *f, struct member *m, uint64_t base_ns, const struct options *o)
{
	const struct wprof_interval *iv = m->iv;
	uint64_t start_ns = iv->start_ns > base_ns ? iv->start_ns - base_ns : 0;

	(void)o;
	for (size_t i = 0; i < iv->n_vmas; i++) {
		const struct wprof_vma *v = &iv->vmas[i];

		if (!v->written_pages)
			continue;
		fprintf(f, "%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",0x%" PRIx64 ",0x%" PRIx64 ",%s,",
			m->target.pid, iv->number, start_ns, iv->length_ns, v->start, v->end,
			wprof_vma_type_name(v->type));
		csv_text(f, v->name);
		fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%s\n", v->written_pages, v->populated_pages,
			iv->estimated ? "true" : "false");
	}
	return good(f);
}

const struct sink sink_csv = {
	.begin = csv_begin,
	.member = nothing_for_member,
	.interval = csv_interval,
	.context = nothing_for_context,
	.end = nothing_for_end,
};

/* ---- a table --------------------------------------------------------------------------- */

#define TABLE_WIDE   76
#define TABLE_MEDIUM 50

static bool table_begin(FILE *f, const struct trace_header *h)
{
	size_t width = human_width(fileno(f));

	if (h->tree)
		fprintf(f, "%7s ", "PID");
	if (width >= TABLE_WIDE)
		fprintf(f, "%9s %10s %12s %9s %10s  %s\n", "TIME", "WRITTEN", "RATE", "HOT VMAS",
			"HOT", "MOST WRITTEN");
	else if (width >= TABLE_MEDIUM)
		fprintf(f, "%9s %10s %12s %10s\n", "TIME", "WRITTEN", "RATE", "HOT");
	else
		fprintf(f, "%8s %10s\n", "TIME", "WRITTEN");
	return good(f);
}

static const struct wprof_vma *most_written(const struct wprof_interval *iv)
{
	const struct wprof_vma *most = NULL;

	for (size_t i = 0; i < iv->n_vmas; i++)
		if (iv->vmas[i].written_pages > (most ? most->written_pages : 0))
			most = &iv->vmas[i];
	return most;
}

static void table_most(FILE *f, const struct wprof_interval *iv, size_t width)
{
	char name[4 * HUMAN_WIDTH_MAX + 1];
	const struct wprof_vma *v = most_written(iv);

	if (v)
		fprintf(f, "  0x%" PRIx64 " %s", v->start,
			human_clip(human_vma_name(v->type, v->name), width, name));
}

static bool table_interval(FILE *f, struct member *m, uint64_t base_ns, const struct options *o)
{
	const struct wprof_interval *iv = m->iv;
	uint64_t end_ns = iv->start_ns + iv->length_ns;
	struct human time = human_time(end_ns > base_ns ? end_ns - base_ns : 0);
	struct human written = human_bytes((double)(iv->written_pages * iv->page_bytes));
	size_t width = human_width(fileno(f));
	uint64_t hot = trace_hot_bytes(m->hot, m->n_hot);
	char vmas[48];

	if (o->tree)
		fprintf(f, "%7d ", m->target.pid);
	if (width < TABLE_MEDIUM) {
		fprintf(f, "%8s %10s\n", time.text, written.text);
		return !fflush(f);
	}
	fprintf(f, "%9s %10s %12s ", time.text, written.text,
		human_rate(trace_dirty_rate(iv)).text);
	if (width >= TABLE_WIDE) {
		snprintf(vmas, sizeof(vmas), "%zu of %zu", trace_hot_vmas(iv, m->hot, m->n_hot),
			 iv->n_vmas);
		fprintf(f, "%9s ", vmas);
	}
	fprintf(f, "%10s", human_bytes((double)hot).text);
	if (width >= TABLE_WIDE)
		table_most(f, iv, width - (o->tree ? 80 : 72) + 4);
	fprintf(f, "%s\n", iv->ended ? " (ended)" : "");
	return !fflush(f);
}

static bool table_member(FILE *f, struct member *m, uint64_t start_ns)
{
	char label[200];

	target_label(&m->target, label, sizeof(label));
	if (m->parent)
		fprintf(f, "%7d after %s: %s, child of %d\n", m->target.pid,
			human_time(start_ns).text, label, m->parent);
	else
		fprintf(f, "after %s it runs %s\n", human_time(start_ns).text, label);
	return good(f);
}

const struct sink sink_table = {
	.begin = table_begin,
	.member = table_member,
	.interval = table_interval,
	.context = nothing_for_context,
	.end = nothing_for_end,
};
