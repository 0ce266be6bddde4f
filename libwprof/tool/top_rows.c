/* top_rows.c - the rows of `wprof top`, from interval to interval. */
#include <stdlib.h>
#include <string.h>

#include "tool/human.h"
#include "tool/top.h"

static struct top_row *row_for(struct top_table *t, uint64_t start, const char *name)
{
	struct top_row *list;
	size_t room = t->room ? 2 * t->room : 32;

	for (size_t i = 0; i < t->n; i++)
		if (t->list[i].start == start && !strcmp(t->list[i].name, name))
			return &t->list[i];
	if (t->n == t->room) {
		list = reallocarray(t->list, room, sizeof(*list));
		if (!list)
			return NULL;
		t->list = list;
		t->room = room;
	}
	t->list[t->n] = (struct top_row){ .start = start, .name = strdup(name) };
	return t->list[t->n].name ? &t->list[t->n++] : NULL;
}

static void row_rate(struct top_row *r, double rate)
{
	double sum = 0;

	memmove(r->history + 1, r->history, (TOP_HISTORY - 1) * sizeof(r->history[0]));
	r->history[0] = rate;
	if (r->n_history < TOP_HISTORY)
		r->n_history++;
	for (size_t i = 0; i < r->n_history; i++)
		sum += r->history[i];
	r->rate = rate;
	r->mean = sum / (double)r->n_history;
	r->seen = true;
}

static uint64_t hot_in(const struct member *m, const struct wprof_vma *v)
{
	uint64_t bytes = 0;

	/* a region lies within one VMA */
	for (size_t i = 0; i < m->n_hot; i++)
		if (v->start <= m->hot[i].start && m->hot[i].end <= v->end)
			bytes += m->hot[i].populated_bytes;
	return bytes;
}

static bool take_vma(struct top_table *t, const struct member *m, const struct wprof_vma *v)
{
	double seconds = (double)m->iv->length_ns / 1e9;
	struct top_row *r = row_for(t, v->start, human_vma_name(v->type, v->name));
	uint64_t pages = (v->end - v->start) / m->iv->page_bytes;

	if (!r)
		return false;
	if (v->populated_pages && v->populated_pages < pages)
		pages = v->populated_pages;
	r->bytes = v->end - v->start;
	r->share = (double)v->written_pages / (double)pages;
	r->hot_bytes = hot_in(m, v);
	row_rate(r, seconds > 0 ? (double)(v->written_pages * m->iv->page_bytes) / seconds : 0);
	return true;
}

/* A mapping gets its row when it is first written, and keeps it for a while. */
static bool take_mappings(struct top_table *t, const struct member *m)
{
	for (size_t i = 0; i < m->iv->n_vmas; i++) {
		const struct wprof_vma *v = &m->iv->vmas[i];
		bool known = false;

		for (size_t k = 0; k < t->n && !known; k++)
			known = t->list[k].start == v->start;
		if ((v->written_pages || known) && !take_vma(t, m, v))
			return false;
	}
	return true;
}

static bool take_process(struct top_table *t, const struct member *m)
{
	char label[200];
	struct top_row *r;
	uint64_t populated = 0;

	snprintf(label, sizeof(label), "%s%s%s", m->target.command, m->target.service[0] ? " " : "",
		 m->target.service);
	r = row_for(t, (uint64_t)m->target.pid, label);
	if (!r)
		return false;
	r->bytes = 0;
	for (size_t i = 0; i < m->iv->n_vmas; i++) {
		r->bytes += m->iv->vmas[i].end - m->iv->vmas[i].start;
		populated += m->iv->vmas[i].populated_pages;
	}
	r->hot_bytes = trace_hot_bytes(m->hot, m->n_hot);
	r->share = populated ? (double)m->iv->written_pages / (double)populated : 0;
	if (r->share > 1)
		r->share = 1;
	row_rate(r, trace_dirty_rate(m->iv));
	return true;
}

static bool is_silent(const struct top_row *r)
{
	if (!r->seen)
		return true;
	for (size_t i = 0; i < r->n_history; i++)
		if (r->history[i] > 0)
			return false;
	return true;
}

/* Rows whose mapping, or process, is gone or has not been written for long. */
static void drop_rows(struct top_table *t, bool tree)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n; i++) {
		if (tree ? !t->list[i].seen : is_silent(&t->list[i]))
			free(t->list[i].name);
		else
			t->list[kept++] = t->list[i];
	}
	t->n = kept;
}

static void take_totals(struct top_table *t, const struct member *m)
{
	t->rate += trace_dirty_rate(m->iv);
	t->n_vmas += m->iv->n_vmas;
	t->shared_bytes += m->iv->untracked_shared_bytes;
	t->estimated |= m->iv->estimated;
	t->length_ns = m->iv->length_ns;
	t->hot_bytes += trace_hot_bytes(m->hot, m->n_hot);
	trace_add_cost(&t->cost, &m->iv->cost);
}

bool top_update(struct top_table *t, const struct group *g)
{
	t->rate = 0;
	t->hot_bytes = t->n_vmas = t->shared_bytes = 0;
	t->estimated = false;
	memset(&t->cost, 0, sizeof(t->cost));
	t->n_intervals++;
	for (size_t i = 0; i < t->n; i++)
		t->list[i].seen = false;
	for (size_t i = 0; i < g->n; i++) {
		const struct member *m = &g->list[i];

		if (!m->w || !m->iv || m->iv->ended)
			continue;
		take_totals(t, m);
		if (!(g->o->tree ? take_process(t, m) : take_mappings(t, m)))
			return false;
	}
	drop_rows(t, g->o->tree);
	return true;
}

void top_free(struct top_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->list[i].name);
	free(t->list);
	memset(t, 0, sizeof(*t));
}
