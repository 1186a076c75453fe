/* The problem of a block of keys (key_block.h): arrays of the whole problem from their first element in the block on. */
#include "problem/key_block.h"

#include <string.h>

#include "base/integers.h"

/* Elements [first, first + count) of a dimension, unless it is broadcast. */
static void cut(ota_array *a, int dimension, int64_t first, int64_t count) {
    if (!ota_array_present(a) || a->size[dimension] == 1) return;
    a->data = (char *)a->data + first * a->stride[dimension] * (int64_t)ota_type_bytes(a->type);
    a->size[dimension] = count;
}

ota_array ota_key_block_pairs(const ota_key_block *block, const ota_array *a) {
    ota_array part = *a;
    cut(&part, 0, block->batch, 1);
    cut(&part, 1, block->head, block->heads);
    cut(&part, 3, block->first, block->room);
    return part;
}

ota_array ota_key_block_heads(const ota_key_block *block, const ota_array *a) {
    ota_array part = *a;
    cut(&part, 3, block->head, block->heads);
    return part;
}

static void resolve_settings(const ota_key_block *block, ota_settings *s) {
    s->ranks = NULL;
    s->fixed = false;
    s->rounds = 0;
    s->gradients = block->gradients;
    s->backward = 0;
    s->solver[0] = '\0';
    s->workspace_limit = 0;
    /* Ranks are interrupted together, where they count. */
    s->cancel = NULL;
    s->deadline_ns = 0;
    s->progress = NULL;
    s->allow_partial = s->prune = s->strict = false;
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
    cut(&p->row_mass, 0, block->batch, 1);
    cut(&p->row_mass, 1, block->head, block->heads);
    p->temperatures = ota_key_block_heads(block, &p->temperatures);
    if (!block->drops) p->dropout = 0.0;
    resolve_settings(block, &to->settings);
    ota_key_block_supports(block, to);
    ota_key_block_terms(block, to);
}
