/* `--shard rows`: every process of mpirun takes views of its own rows of the problem, of which it has read no more where the
 * files allow that, and solves them with the others. Outputs and gradients have its own rows too (rows.h). */
#include "shard.h"

#include <string.h>

#include "program/ranks/ranks.h"

void cli_shard_cut(const cli_context *context, ota_array *a, int k, int64_t total) {
    const cli_share *share = &context->share;
    if (share->ranks == 0 || a->type == OTA_NO_TYPE || a->size[k] != total) return;
    a->size[k] = cli_share_held(share, total);
    if (a->data != NULL && !cli_is_share(context, a->data))
        a->data = (char *)a->data + cli_share_begin(total, share->rank, share->ranks) *
                                        a->stride[k] * (int64_t)ota_type_bytes(a->type);
}

int cli_shard_open(cli_context *context, const cli_problem *whole, cli_shard *shard) {
    const int64_t n = whole->queries, m = whole->keys;
    ota_error error;
    memset(shard, 0, sizeof *shard);
    if (whole->settings.gradients.advantage != NULL)
        return cli_refuse_flag(context, "advantage", "leave out --advantage, or --shard",
                               "--advantage needs all values in one process, and --shard gives "
                               "every process its own");
    const ota_status status = cli_ranks_communicator(&shard->with, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    shard->problem = whole->problem;
    shard->values = whole->values;
    ota_problem *p = &shard->problem;
    cli_shard_cut(context, &p->queries, 2, n);
    cli_shard_cut(context, &p->scores, 2, n);
    cli_shard_cut(context, &p->row_mass, 3, n);
    cli_shard_cut(context, &p->entry_caps, 2, n);
    if (p->keys.type != OTA_NO_TYPE) {
        cli_shard_cut(context, &p->keys, 2, m);
        cli_shard_cut(context, &shard->values, 2, m);
    }
    memcpy(shard->terms, whole->terms, sizeof shard->terms);
    memcpy(shard->supports, whole->supports, sizeof shard->supports);
    for (int64_t k = 0; k < p->term_count; k++) {
        if (shard->terms[k].kind == OTA_TERM_DENSE)
            cli_shard_cut(context, &shard->terms[k].array, 2, n);
    }
    for (int64_t k = 0; k < p->support_count; k++) {
        const ota_support_kind kind = shard->supports[k].kind;
        if (kind == OTA_SUPPORT_BOOLEAN || kind == OTA_SUPPORT_ADDITIVE)
            cli_shard_cut(context, &shard->supports[k].array, 2, n);
    }
    p->terms = shard->terms;
    p->supports = shard->supports;
    return 0;
}

int cli_shard_together(int code) {
    /* The first process that failed tells; the others end in silence (see analyze). One that another has stopped before has
     * nothing to tell. */
    const int here = code > 0 ? cli_ranks_size() - cli_ranks_rank() : 0;
    const int distance = cli_ranks_agree(here);
    const bool mine = here > 0 && distance == here;
    return distance == 0 ? 0 : mine ? code : CLI_SHARD_STOPPED;
}
