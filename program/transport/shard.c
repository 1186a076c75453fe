/* `--shard rows`: every process of mpirun takes views of its own rows of the problem, of which it has read no more where the
 * files allow that, solves them with the others, and gets the rows of all outputs and gradients, so that rank 0 writes what
 * one process would. */
#include "shard.h"

#include <stdlib.h>
#include <string.h>

#include "program/ranks/ranks.h"

/* Rows of dimension `k` that this process has; dimensions of size 1 stand for all. */
static void cut(const tool_context *context, ota_array *a, int k, int64_t total) {
    const int rank = tool_ranks_rank(), ranks = tool_ranks_size();
    if (a->type == OTA_NO_TYPE || a->size[k] != total) return;
    const int64_t first = tool_share_begin(total, rank, ranks);
    a->size[k] = tool_share_begin(total, rank + 1, ranks) - first;
    if (a->data != NULL && !tool_is_share(context, a->data))
        a->data = (char *)a->data + first * a->stride[k] * (int64_t)ota_type_bytes(a->type);
}

int tool_shard_open(tool_context *context, const tool_problem *whole, const ota_arrays *arrays,
                    tool_shard *shard) {
    const int64_t n = whole->queries, m = whole->keys;
    ota_error error;
    memset(shard, 0, sizeof *shard);
    if (whole->settings.advantage != NULL)
        return tool_refuse_flag(context, "advantage", "leave out --advantage, or --shard",
                                "--advantage needs all values in one process, and --shard gives "
                                "every process its own");
    const ota_status status = tool_ranks_communicator(&shard->with, &error);
    if (status < 0) return tool_fail_status(context, status, &error);
    shard->queries = n;
    shard->keys = m;
    shard->problem = whole->problem;
    shard->arrays = *arrays;
    ota_problem *p = &shard->problem;
    cut(context, &p->queries, 2, n);
    cut(context, &p->scores, 2, n);
    cut(context, &p->row_mass, 3, n);
    cut(context, &p->entry_caps, 2, n);
    if (p->keys.type != OTA_NO_TYPE) {
        cut(context, &p->keys, 2, m);
        cut(context, &shard->arrays.values, 2, m);
    }
    memcpy(shard->terms, whole->terms, sizeof shard->terms);
    memcpy(shard->supports, whole->supports, sizeof shard->supports);
    for (int64_t k = 0; k < p->term_count; k++) {
        if (shard->terms[k].kind == OTA_TERM_DENSE) cut(context, &shard->terms[k].array, 2, n);
    }
    for (int64_t k = 0; k < p->support_count; k++) {
        const ota_support_kind kind = shard->supports[k].kind;
        if (kind == OTA_SUPPORT_BOOLEAN || kind == OTA_SUPPORT_ADDITIVE)
            cut(context, &shard->supports[k].array, 2, n);
    }
    p->terms = shard->terms;
    p->supports = shard->supports;
    cut(context, &shard->arrays.out, 2, n);
    cut(context, &shard->arrays.coupling, 2, n);
    cut(context, &shard->arrays.row_potential, 3, n);
    cut(context, &shard->arrays.sink, 3, n);
    return 0;
}

/* One output's rows of all processes into all of them; `whole` is dense. */
static int gather(tool_context *context, const tool_shard *shard, const ota_array *whole,
                  int dimension) {
    const int ranks = shard->with.ranks;
    if (whole->type == OTA_NO_TYPE || whole->data == NULL) return 0;
    int64_t line = (int64_t)ota_type_bytes(whole->type), blocks = 1;
    for (int k = 0; k < 4; k++) {
        if (k < dimension) blocks *= whole->size[k];
        if (k > dimension) line *= whole->size[k];
    }
    const int64_t rows = whole->size[dimension];
    int64_t *counts = calloc(2 * (size_t)ranks, sizeof *counts), *offsets = counts + ranks;
    void *mine = malloc((size_t)((rows / ranks + 1) * line) + 1);
    int code = 0;
    for (int k = 0; k < ranks && counts != NULL; k++) {
        offsets[k] = tool_share_begin(rows, k, ranks) * line;
        counts[k] = tool_share_begin(rows, k + 1, ranks) * line - offsets[k];
    }
    for (int64_t b = 0; b < blocks && code == 0 && counts != NULL && mine != NULL; b++) {
        char *all = (char *)whole->data + b * rows * line;
        memcpy(mine, all + offsets[shard->with.rank], (size_t)counts[shard->with.rank]);
        code = shard->with.all_gather(shard->with.user, mine, all, counts, offsets);
    }
    const bool memory = counts != NULL && mine != NULL;
    free(counts);
    free(mine);
    if (!memory) return tool_fail(&context->error, TOOL_EXIT_LIMIT, "there is no memory left");
    if (code == 0) return 0;
    ota_error error = {.message = "the outputs of the processes could not be gathered"};
    return tool_fail_status(context, OTA_ECOMM, &error);
}

int tool_shard_gather(tool_context *context, const tool_shard *shard, const ota_arrays *whole) {
    int code = gather(context, shard, &whole->out, 2);
    if (code == 0) code = gather(context, shard, &whole->coupling, 2);
    if (code == 0) code = gather(context, shard, &whole->row_potential, 3);
    return code != 0 ? code : gather(context, shard, &whole->sink, 3);
}

/* Calls `each` on every gradient that has rows of this problem's queries or keys. */
static int each_gradient(tool_context *context, const tool_shard *shard, ota_gradients *g,
                         ota_array *terms,
                         int (*each)(tool_context *context, const tool_shard *shard, ota_array *a,
                                     int dimension, int64_t rows)) {
    const int64_t n = shard->queries, m = shard->keys;
    const bool matrix = shard->problem.scores.type != OTA_NO_TYPE;
    ota_array *const with_rows[] = {&g->out_grad, &g->coupling_grad, &g->queries, &g->matrix,
                                    &g->scores};
    int code = 0;
    for (size_t k = 0; k < sizeof with_rows / sizeof *with_rows && code == 0; k++)
        code = each(context, shard, with_rows[k], 2, n);
    if (code == 0) code = each(context, shard, &g->row_mass, 3, n);
    if (code == 0 && !matrix) code = each(context, shard, &g->keys, 2, m);
    if (code == 0 && !matrix) code = each(context, shard, &g->values, 2, m);
    for (int64_t k = 0; k < shard->problem.term_count && code == 0; k++) {
        if (shard->terms[k].kind == OTA_TERM_DENSE) code = each(context, shard, &terms[k], 2, n);
    }
    return code;
}

static int cut_gradient(tool_context *context, const tool_shard *shard, ota_array *a, int dimension,
                        int64_t rows) {
    (void)shard;
    cut(context, a, dimension, rows);
    return 0;
}

static int gather_gradient(tool_context *context, const tool_shard *shard, ota_array *a,
                           int dimension, int64_t rows) {
    return a->size[dimension] == rows ? gather(context, shard, a, dimension) : 0;
}

ota_status tool_shard_backward(tool_context *context, const tool_shard *shard, ota_plan *plan,
                               const ota_gradients *whole, ota_result *result, ota_error *error,
                               int *code) {
    ota_gradients mine = *whole, found = *whole;
    ota_array terms[TOOL_MAX_TERMS] = {{0}}, all[TOOL_MAX_TERMS] = {{0}};
    if (whole->terms != NULL) {
        memcpy(terms, whole->terms, sizeof terms);
        memcpy(all, whole->terms, sizeof all);
        mine.terms = terms;
    }
    (void)each_gradient(context, shard, &mine, terms, cut_gradient);
    const ota_status status = ota_backward(plan, &shard->arrays, &mine, result, error);
    /* What is given comes from the files. */
    found.out_grad = found.coupling_grad = (ota_array){.data = NULL};
    *code = status < 0 ? 0 : each_gradient(context, shard, &found, all, gather_gradient);
    return status;
}

int tool_shard_together(int code) {
    /* The first process that failed tells; the others end in silence (see analyze). One that another has stopped before has
     * nothing to tell. */
    const int here = code > 0 ? tool_ranks_size() - tool_ranks_rank() : 0;
    const int distance = tool_ranks_agree(here);
    const bool mine = here > 0 && distance == here;
    return distance == 0 ? 0 : mine ? code : TOOL_SHARD_STOPPED;
}
