/* `--shard rows`: every process of mpirun has read the whole problem, takes views of its own rows of it, solves them with the
 * others, and gets the rows of all outputs, so that rank 0 writes what one process would. */
#include "shard.h"

#include <stdlib.h>
#include <string.h>

#include "program/ranks/ranks.h"

static int64_t first_of(int64_t total, int rank, int ranks) {
    return total / ranks * rank + (total % ranks < rank ? total % ranks : rank);
}

/* Rows of dimension `k` that this process has; dimensions of size 1 stand for all. */
static void cut(ota_array *a, int k, int64_t total) {
    const int rank = tool_ranks_rank(), ranks = tool_ranks_size();
    if (a->type == OTA_NO_TYPE || a->size[k] != total) return;
    const int64_t first = first_of(total, rank, ranks);
    a->size[k] = first_of(total, rank + 1, ranks) - first;
    if (a->data != NULL)
        a->data = (char *)a->data + first * a->stride[k] * (int64_t)ota_type_bytes(a->type);
}

int tool_shard_open(tool_context *context, const tool_problem *whole, const ota_arrays *arrays,
                    tool_shard *shard) {
    const int64_t n = whole->queries, m = whole->keys;
    ota_error error;
    memset(shard, 0, sizeof *shard);
    if (whole->settings.grad != NULL)
        return tool_refuse_flag(context, "shard", "leave out --grad, or --shard",
                                "--shard and --grad do not go together");
    const ota_status status = tool_ranks_communicator(&shard->with, &error);
    if (status < 0) return tool_fail_status(context, status, &error);
    shard->problem = whole->problem;
    shard->arrays = *arrays;
    ota_problem *p = &shard->problem;
    cut(&p->queries, 2, n);
    cut(&p->scores, 2, n);
    cut(&p->row_mass, 3, n);
    cut(&p->entry_caps, 2, n);
    if (p->keys.type != OTA_NO_TYPE) {
        cut(&p->keys, 2, m);
        cut(&shard->arrays.values, 2, m);
    }
    memcpy(shard->terms, whole->terms, sizeof shard->terms);
    memcpy(shard->supports, whole->supports, sizeof shard->supports);
    for (int64_t k = 0; k < p->term_count; k++) {
        if (shard->terms[k].kind == OTA_TERM_DENSE) cut(&shard->terms[k].array, 2, n);
    }
    for (int64_t k = 0; k < p->support_count; k++) {
        const ota_support_kind kind = shard->supports[k].kind;
        if (kind == OTA_SUPPORT_BOOLEAN || kind == OTA_SUPPORT_ADDITIVE)
            cut(&shard->supports[k].array, 2, n);
    }
    p->terms = shard->terms;
    p->supports = shard->supports;
    cut(&shard->arrays.out, 2, n);
    cut(&shard->arrays.coupling, 2, n);
    cut(&shard->arrays.row_potential, 3, n);
    cut(&shard->arrays.sink, 3, n);
    return 0;
}

/* One output's rows of all processes into all of them; `whole` is dense. */
static int gather(tool_context *context, tool_shard *shard, const ota_array *whole, int dimension) {
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
        offsets[k] = first_of(rows, k, ranks) * line;
        counts[k] = first_of(rows, k + 1, ranks) * line - offsets[k];
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

int tool_shard_gather(tool_context *context, tool_shard *shard, const ota_arrays *whole) {
    int code = gather(context, shard, &whole->out, 2);
    if (code == 0) code = gather(context, shard, &whole->coupling, 2);
    if (code == 0) code = gather(context, shard, &whole->row_potential, 3);
    return code != 0 ? code : gather(context, shard, &whole->sink, 3);
}

int tool_shard_together(int code) {
    /* The first process that failed tells; the others end in silence (see analyze). */
    const int distance = tool_ranks_agree(code != 0 ? tool_ranks_size() - tool_ranks_rank() : 0);
    const bool mine = code != 0 && distance == tool_ranks_size() - tool_ranks_rank();
    return distance == 0 ? 0 : mine ? code : TOOL_SHARD_STOPPED;
}
