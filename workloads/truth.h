/*
 * truth.h - the ground truth of a workload: which pages it really wrote.
 *
 * A buffer is watched by one bit a page. Workers set bits as they write; a
 * report takes the bits and clears them, so two reports in a row say what was
 * written between them. MT-Safe: bits are set and taken atomically.
 */
#ifndef PROCSCOPE_TRUTH_H
#define PROCSCOPE_TRUTH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct workload;

/** truth_add() - watch @bytes at @start, page aligned; NULL: out of memory or slots */
struct truth *truth_add(void *start, uint64_t bytes);

/** truth_drop() - stop watching; its bits are lost, its bytes stay counted */
void truth_drop(struct truth *t);

/** truth_wrote() - a worker wrote @bytes within one page, @page counted from the start */
void truth_wrote(struct truth *t, uint64_t page, uint64_t bytes);

/** truth_bytes() - bytes written since the start, all buffers */
uint64_t truth_bytes(void);

/** truth_report() - print the truth as one line of JSON and begin anew */
void truth_report(const struct workload *w, FILE *out);

#endif /* PROCSCOPE_TRUTH_H */
