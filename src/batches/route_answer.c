/* What a routing says of itself (otattn_route.h): loads and value, the bound of the potentials b under loads l_j ... u_j
 *
 *     sum_i (the `take` largest of logits_ij + b_j) - sum_j (b_j l_j where b_j > 0, b_j u_j where b_j < 0),
 *
 * and what is beyond the upper bounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "route.h"

static int rising(const void *left, const void *right) {
    const ota_route_order *a = left, *b = right;
    if (a->number < b->number || a->number > b->number) return a->number < b->number ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

/* Adds the number to all potentials that makes the bound the least; the bound is convex in it and bends where one is 0. With the
 * shift -b those above b count by their lower loads and those below by their upper ones. */
static void level(const ota_route_call *r) {
    ota_route_order *order = r->order;
    const int64_t experts = r->experts;
    double positive = 0.0, negative = 0.0, best = (double)INFINITY, shift = 0.0;
    int64_t least = 0, most = 0;
    for (int64_t j = 0; j < experts; j++) {
        order[j] = (ota_route_order){-r->biases[j], j};
        negative += r->biases[j] * (double)ota_route_upper(r, j);
        most += ota_route_upper(r, j);
    }
    qsort(order, (size_t)experts, sizeof *order, rising);
    const double choices = (double)(r->tokens * r->problem.take);
    for (int64_t k = 0; k < experts; k++) {
        const int64_t j = order[k].place, lower = ota_route_lower(r, j);
        const int64_t upper = ota_route_upper(r, j);
        const double here = order[k].number;
        negative -= r->biases[j] * (double)upper;
        most -= upper;
        const double bound =
            choices * here - (positive + here * (double)least) - (negative + here * (double)most);
        if (bound < best) {
            best = bound;
            shift = here;
        }
        positive += r->biases[j] * (double)lower;
        least += lower;
    }
    for (int64_t j = 0; j < experts; j++) r->biases[j] += shift;
}

/* The largest sums of a block, in the place of its value. */
static void prove_task(void *context, int64_t index, int worker) {
    const ota_route_call *r = context;
    if (ota_route_ends(r)) return;
    ota_route_block block = ota_route_wide_block(r, index, worker);
    const int64_t take = r->problem.take;
    block.chosen = r->choice.proof + (ptrdiff_t)worker * OTA_ROUTE_TOKENS * take;
    r->wide->choose_biased(&block);
    const double *logits = block.logits;
    double sum = 0.0;
    for (int64_t i = 0; i < block.rows; i++) {
        for (int64_t k = 0; k < take; k++) {
            const int64_t j = block.chosen[i * take + k];
            sum += logits[i * block.logits_stride + j] + r->biases[j];
        }
    }
    r->choice.values[index] = sum;
}

static double bound_of(ota_route_call *r) {
    double bound = 0.0;
    ota_parallel(r->pool, r->blocks, prove_task, r);
    for (int64_t b = 0; b < r->blocks; b++) bound += r->choice.values[b];
    for (int64_t j = 0; j < r->experts; j++) {
        const double bias = r->biases[j];
        bound -= bias * (double)(bias > 0.0 ? ota_route_lower(r, j) : ota_route_upper(r, j));
    }
    return bound;
}

/* Gives up the smallest logits of expert j, of equal ones the first. */
static void drop(const ota_route_call *r, int64_t j, int64_t surplus,
                 const ota_routing_result *found) {
    const int64_t take = r->problem.take;
    int64_t held = 0;
    if (ota_route_ends(r)) return;
    for (int64_t at = 0; at < r->tokens * take; at++) {
        if (r->choice.chosen[at] != j) continue;
        r->order[held++] =
            (ota_route_order){ota_array_get(&r->problem.logits, 0, 0, at / take, j), at};
    }
    qsort(r->order, (size_t)held, sizeof *r->order, rising);
    for (int64_t k = 0; k < surplus; k++) {
        const int64_t at = r->order[k].place;
        found->kept[at] = 0;
        if (found->weights == NULL) continue;
        if (r->narrow)
            ((float *)found->weights)[at] = 0.0F;
        else
            ((double *)found->weights)[at] = 0.0;
    }
}

void ota_route_answer(ota_route_call *r, ota_routing_result *found) {
    const ota_route_method method = r->problem.method;
    if (found->kept != NULL) memset(found->kept, 1, (size_t)(r->tokens * r->problem.take));
    found->value = 0.0;
    found->excess = 0;
    for (int64_t b = 0; b < r->blocks; b++) found->value += r->choice.values[b];
    for (int64_t j = 0; j < r->experts; j++) {
        int64_t load = 0;
        for (int64_t b = 0; b < r->blocks; b++) load += r->choice.loads[b * r->experts + j];
        if (found->loads != NULL) found->loads[j] = load;
        const int64_t surplus = load - ota_route_upper(r, j);
        found->excess += ota_int_max(surplus, 0) + ota_int_max(ota_route_lower(r, j) - load, 0);
        if (found->kept != NULL && surplus > 0) drop(r, j, surplus, found);
    }
    if (method != OTA_ROUTE_TOPK && method != OTA_ROUTE_BASE) level(r);
    if (found->bound != NULL) *found->bound = bound_of(r);
    if (found->potentials != NULL)
        memcpy(found->potentials, r->biases, (size_t)r->experts * sizeof *r->biases);
}
