/*
 * ranges.c - sets of address ranges: union, difference, intersection.
 *
 * Theory of operation
 *
 * A set is an array of ranges, ascending, disjoint and never adjacent, so equal
 * sets are equal arrays. Its 2n borders alternate between "now inside" and "now
 * outside". Every operation of two sets is one sweep over the borders of both:
 * at each address where something changes, whether a point is in the result
 * depends only on whether it is in the one and in the other, four cases, which
 * `enum keep` holds as a bit mask. The result has at most n_a + n_b ranges, for
 * each of its borders is a border of one of the two.
 *
 * An operation builds its result apart and swaps it in at the end: a set whose
 * operation failed is as it was. Cost: O(n_a + n_b), one allocation.
 *
 * Addresses are 64 bit, 57 of which today's processors use; the address 2^64
 * cannot be an end, which no process could map anyway.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "criu/ranges.h"

struct wprof_ranges {
	struct wprof_range *list;
	size_t n;
};

/* bit (in a) + 2 * (in b) is set when such a point is in the result */
enum keep { KEEP_EITHER = 0xe, KEEP_BOTH = 0x8, KEEP_FIRST_ONLY = 0x2 };

static uint64_t border(const struct wprof_ranges *set, size_t i)
{
	return i & 1 ? set->list[i / 2].end : set->list[i / 2].start;
}

/* The next address where @a (from border @i) or @b (from @j) changes. */
static uint64_t next_border(const struct wprof_ranges *a, size_t i, const struct wprof_ranges *b,
			    size_t j)
{
	if (i == 2 * a->n)
		return border(b, j);
	if (j == 2 * b->n)
		return border(a, i);
	return border(a, i) < border(b, j) ? border(a, i) : border(b, j);
}

/* @list has room for a->n + b->n ranges. Return: how many there are. */
static size_t sweep(const struct wprof_ranges *a, const struct wprof_ranges *b, enum keep keep,
		    struct wprof_range *list)
{
	size_t i = 0, j = 0, n = 0;
	bool inside = false;

	while (i < 2 * a->n || j < 2 * b->n) {
		uint64_t at = next_border(a, i, b, j);
		bool now;

		i += i < 2 * a->n && border(a, i) == at;
		j += j < 2 * b->n && border(b, j) == at;
		now = (unsigned int)keep >> ((i & 1) + 2 * (j & 1)) & 1;
		if (now && !inside)
			list[n].start = at;
		else if (!now && inside)
			list[n++].end = at;
		inside = now;
	}
	return n;
}

static int combine(struct wprof_ranges *set, const struct wprof_ranges *other, enum keep keep)
{
	struct wprof_range *list;
	size_t n;

	if (!set || !other)
		return -EINVAL;
	list = calloc(set->n + other->n + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	n = sweep(set, other, keep, list);
	free(set->list);
	set->list = list;
	set->n = n;
	return 0;
}

static bool range_valid(const struct wprof_range *r)
{
	uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

	return r->start < r->end && !((r->start | r->end) & mask);
}

static int by_start(const void *a, const void *b)
{
	const struct wprof_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Sort and join what overlaps or touches. Return: how many remain. */
static size_t normalise(struct wprof_range *list, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(list, n, sizeof(*list), by_start);
	for (size_t i = 0; i < n; i++) {
		if (kept && list[i].start <= list[kept - 1].end) {
			if (list[i].end > list[kept - 1].end)
				list[kept - 1].end = list[i].end;
		} else {
			list[kept++] = list[i];
		}
	}
	return kept;
}

int wprof_ranges_new(const struct wprof_range *list, size_t n, struct wprof_ranges **out)
{
	struct wprof_ranges *set;

	if (!out || (n && !list))
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (!range_valid(&list[i]))
			return -EINVAL;
	set = calloc(1, sizeof(*set));
	if (!set)
		return -ENOMEM;
	set->list = calloc(n + 1, sizeof(*list));
	if (!set->list) {
		free(set);
		return -ENOMEM;
	}
	if (n)
		memcpy(set->list, list, n * sizeof(*list));
	set->n = normalise(set->list, n);
	*out = set;
	return 0;
}

void wprof_ranges_free(struct wprof_ranges *set)
{
	if (!set)
		return;
	free(set->list);
	free(set);
}

const struct wprof_range *wprof_ranges_list(const struct wprof_ranges *set, size_t *n)
{
	*n = set ? set->n : 0;
	return set ? set->list : NULL;
}

uint64_t wprof_ranges_bytes(const struct wprof_ranges *set)
{
	uint64_t bytes = 0;

	for (size_t i = 0; set && i < set->n; i++)
		bytes += set->list[i].end - set->list[i].start;
	return bytes;
}

int wprof_ranges_unite(struct wprof_ranges *set, const struct wprof_ranges *other)
{
	return combine(set, other, KEEP_EITHER);
}

int wprof_ranges_subtract(struct wprof_ranges *set, const struct wprof_ranges *other)
{
	return combine(set, other, KEEP_FIRST_ONLY);
}

int wprof_ranges_intersect(struct wprof_ranges *set, const struct wprof_ranges *other)
{
	return combine(set, other, KEEP_BOTH);
}

int wprof_ranges_round(struct wprof_ranges *set, const struct wprof_range *vmas, size_t n)
{
	struct wprof_range *list;
	size_t kept = 0, i = 0;

	if (!set || (n && !vmas))
		return -EINVAL;
	for (size_t v = 0; v < n; v++)
		if (!range_valid(&vmas[v]) || (v && vmas[v].start < vmas[v - 1].end))
			return -EINVAL;
	list = calloc(n + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t v = 0; v < n; v++) {
		while (i < set->n && set->list[i].end <= vmas[v].start)
			i++;
		if (i < set->n && set->list[i].start < vmas[v].end)
			list[kept++] = vmas[v];
	}
	free(set->list);
	set->list = list;
	set->n = normalise(list, kept);
	return 0;
}
