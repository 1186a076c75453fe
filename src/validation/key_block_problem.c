/* The problem of a block of keys: what belongs to whole rows and to all keys is left out. */
#include "masks/masks.h"
#include "terms/terms.h"
#include "validation/validation.h"

static void resolve_settings(const ota_key_block *block, ota_settings *s) {
    s->ranks = NULL;
    s->stop.fixed = false;
    s->stop.rounds = 0;
    s->gradients = block->gradients;
    s->backward = 0;
    s->solver[0] = '\0';
    s->limits.workspace = 0;
    /* Flag and deadline stay: a block ends early, and whoever has blocks tells the other ranks. */
    s->calls.progress = NULL;
    s->stop.allow_partial = s->prune = s->stop.strict = false;
}

void ota_key_block_resolve(const ota_resolved *whole, const ota_key_block *block,
                           ota_resolved *to) {
    ota_resolved_copy(to, whole);
    ota_problem *p = &to->problem;
    p->queries = block->queries;
    p->keys = block->keys;
    to->type = block->queries.type;
    to->batch = to->key_heads = 1;
    to->heads = block->heads;
    to->keys = block->room;
    to->share.key_first = block->first;
    to->share.batch = block->batch;
    to->share.head = block->head;
    to->has_sink = false;
    to->rule_rounds = -1;
    /* Caps belong to rows that have all keys. */
    p->entry_cap = 0.0;
    p->entry_caps = (ota_array){0};
    p->columns = OTA_COLUMNS_FREE;
    p->column_mass = p->lambdas = (ota_array){0};
    p->row_mass = ota_key_block_rows(block, &p->row_mass);
    p->temperatures = ota_key_block_heads(block, &p->temperatures);
    if (!block->drops) p->dropout = 0.0;
    resolve_settings(block, &to->settings);
    ota_key_block_supports(block, to);
    ota_key_block_terms(block, to);
}
