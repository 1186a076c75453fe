/* Keys and values read where they lie, part of forward.inc.h: of plans with few queries, where packing them would
 * take longer than reading them. A type or stride that kernels cannot read goes through a strip of OTA_PANEL
 * rows. */

static bool WORD(readable)(const ota_array *a) {
    return a->type == REAL_TYPE && (a->stride[3] == 1 || a->size[3] <= 1);
}

/* Rows [first, first + count) of keys or values: in place where kernels can read them, else in `strip`. */
static const REAL *WORD(strip_of)(const ota_array *a, int64_t batch, int64_t head, int64_t first,
                                  int64_t count, REAL *strip, int64_t *ld) {
    if (WORD(readable)(a)) {
        *ld = a->size[2] == 1 ? 0 : a->stride[2];
        return (const REAL *)a->data + (a->size[0] == 1 ? 0 : batch * a->stride[0]) +
               (a->size[1] == 1 ? 0 : head * a->stride[1]) + first * *ld;
    }
    *ld = a->size[3];
    pack_rows(a, batch, head, first, count, strip, *ld);
    return strip;
}

/* Raw scores q.k of one query, worker->queries[width], against keys [low, high) -> to[0 ... high - low). */
static void dot_keys(const walk *w, ota_worker *worker, int64_t batch, int64_t key_head,
                     const REAL *query, int64_t low, int64_t high, REAL *to) {
    const ota_plan *plan = w->plan;
    const ota_array *keys = &plan->resolved.problem.keys;
    const int64_t most = WORD(readable)(keys) ? high - low : OTA_PANEL;
    for (int64_t at = low; at < high; at += most) {
        const int64_t count = high - at < most ? high - at : most;
        int64_t ld;
        const REAL *k = WORD(strip_of)(keys, batch, key_head, at, count, worker->strip, &ld);
        KERNELS(plan)->dots(query, k, ld, count, plan->resolved.width, to + (at - low));
    }
}

/* out[rows][values_width] += p V over keys [low, high); p[rows][stride] begins at key `low`. */
static void apply_rows(const walk *w, ota_worker *worker, int64_t batch, int64_t key_head,
                       int64_t low, int64_t high, const REAL *p, int64_t stride, int64_t rows,
                       REAL *out) {
    const ota_plan *plan = w->plan;
    const int64_t width = plan->values_width;
    const ota_array *values = &w->arrays->values;
    const int64_t most = WORD(readable)(values) ? high - low : OTA_PANEL;
    for (int64_t at = low; at < high; at += most) {
        const int64_t count = high - at < most ? high - at : most;
        int64_t ld;
        const REAL *v = WORD(strip_of)(values, batch, key_head, at, count, worker->strip, &ld);
        KERNELS(plan)->apply(p + (at - low), stride, v, ld, rows, count, width, out, width);
    }
}

/* The output of a row that is not finite: false where a value with weight is not, else without the others. */
static bool mend_row(const walk *w, ota_worker *worker, int64_t batch, int64_t key_head,
                     const REAL *p, REAL *out) {
    const ota_plan *plan = w->plan;
    const int64_t width = plan->values_width;
    memset(out, 0, (size_t)width * sizeof *out);
    for (int64_t j = 0; j < plan->key_count; j++) {
        int64_t ld;
        if (!(p[j] > (REAL)0)) continue;
        const REAL *v =
            WORD(strip_of)(&w->arrays->values, batch, key_head, j, 1, worker->strip, &ld);
        if (!WORD(all_finite)(v, width)) return false;
        for (int64_t k = 0; k < width; k++) out[k] += p[j] * v[k];
    }
    return true;
}
