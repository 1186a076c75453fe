/* Alignment of D = A - B [rows, columns] with shifts k [rows] and v [columns].
 *
 *     R = min max_ij |D_ij - k_i - v_j|
 *
 * |D_ij - k_i - v_j| <= eta is a system of difference constraints on the complete bipartite graph,
 *
 *     k_i >= D_ij - v_j - eta   (arc i -> j, weight  D_ij)
 *    -v_j >= k_i - D_ij - eta   (arc j -> i, weight -D_ij)
 *
 * feasible exactly when no closed walk has a mean weight above eta: R is the largest cycle mean
 * [TOT-38]. Howard's iteration keeps one arc out of every node (a policy), takes the best cycle of the
 * policy as eta, solves the equations above along the policy, and changes every arc that violates
 * them. It ends when none does: the cycle bounds R from below and the shifts bound it from above.
 *
 * The matrix is read in strips of columns. A scan serves the columns first, whose new shifts the rows then use; both are
 * shared out over threads, columns by pieces of a strip and rows by runs of rows, and extremes do not depend on how. */
#include <float.h>
#include <stdlib.h>

#include "base/integers.h"
#include "gauge_state.h"
#include "analysis/kernels/logit_kernels.h"

typedef struct scan {
    gauge_state *s;
    gauge_column_step *step;
    int64_t width;    /* of a piece of the columns; pieces make up strips */
    int64_t *high_at; /* [rows] or NULL */
} scan;

static void scan_columns(const gauge_state *s, gauge_strip *strip, int64_t first, int64_t count) {
    const ota_logit_kernels *const kernels = ota_logit_kernels_newest();
    for (int64_t j = 0; j < count; j++) {
        strip->low[j] = HUGE_VAL, strip->high[j] = -HUGE_VAL;
        strip->low_at[j] = 0;
    }
    for (int64_t i = 0; i < s->d.rows && analysis_goes_on(s->call, i); i++) {
        if (s->moved != NULL && s->moved[i] == 0) continue;
        load(&s->d, i, first, count, strip->entries);
        kernels->columns(strip->entries, s->k[i], i, count, strip->low, strip->low_at, strip->high);
    }
}

static void step_piece(void *context, int64_t index, int worker) {
    const scan *x = context;
    gauge_state *const s = x->s;
    gauge_strip strip;
    const int64_t first = index * x->width;
    const int64_t count = ota_int_min(x->width, s->d.columns - first);
    (void)worker;
    s->pieces[index] = (gauge_piece){.changed = false};
    strip.widest = 0.0;
    if (ota_analysis_goes_on(s->call)) scan_columns(s, &strip, first, count);
    /* Shifts are not made of what was not read. */
    if (!ota_analysis_goes_on(s->call)) return;
    s->pieces[index].changed = x->step(s, &strip, first, count);
    s->pieces[index].widest = strip.widest;
}

static bool is_changed(const scan *x, int64_t first, int64_t count) {
    for (int64_t t = first / x->width; t * x->width < first + count; t++)
        if (x->s->pieces[t].changed) return true;
    return false;
}

static void scan_row(const scan *x, int64_t i) {
    gauge_state *const s = x->s;
    const ota_logit_kernels *const kernels = ota_logit_kernels_newest();
    double entries[STRIP];
    s->row_low[i] = HUGE_VAL, s->row_high[i] = -HUGE_VAL;
    for (int64_t first = 0; first < s->d.columns; first += STRIP) {
        const int64_t count = strip_size(&s->d, first);
        if (x->step != NULL && s->moved != NULL && !is_changed(x, first, count)) continue;
        load(&s->d, i, first, count, entries);
        double high = s->row_high[i];
        kernels->row(entries, s->v + first, count, &s->row_low[i], &high);
        if (!(high > s->row_high[i])) continue;
        s->row_high[i] = high;
        if (x->high_at == NULL) continue;
        int64_t j = 0;
        while (j < count - 1 && entries[j] - s->v[first + j] < high) j++;
        x->high_at[i] = first + j;
    }
}

static void scan_share(void *context, int64_t share, int worker) {
    const scan *x = context;
    const int64_t end = gauge_share_begin(&x->s->d, share + 1);
    (void)worker;
    for (int64_t i = gauge_share_begin(&x->s->d, share);
         i < end && ota_analysis_goes_on(x->s->call); i++)
        scan_row(x, i);
}

ota_status ota_gauge_scan(gauge_state *s, gauge_column_step *step, int64_t *high_at,
                          bool *changed) {
    /* Pieces for threads; whole strips are read in less time. */
    scan x = {.s = s,
              .step = step,
              .width = s->options->executor != NULL ? PIECE : STRIP,
              .high_at = high_at};
    const int64_t pieces = step != NULL ? ota_int_ceil_div(s->d.columns, x.width) : 0;
    *changed = false;
    gauge_run(s->options, pieces, step_piece, &x);
    const ota_status interrupted = ota_analysis_interrupted(s->call);
    if (interrupted != OTA_OK) return interrupted;
    for (int64_t t = 0; t < pieces; t++) {
        *changed = *changed || s->pieces[t].changed;
        s->widest = fmax(s->widest, s->pieces[t].widest);
    }
    gauge_run(s->options, gauge_shares(&s->d), scan_share, &x);
    return ota_analysis_interrupted(s->call);
}

/* ---- midranges ---- */

bool ota_gauge_centre_columns(gauge_state *s, gauge_strip *strip, int64_t first, int64_t count) {
    for (int64_t j = 0; j < count; j++) {
        s->v[first + j] = 0.5 * (strip->low[j] + strip->high[j]);
        s->policy.column_at[first + j] = strip->low_at[j];
    }
    return true;
}

void ota_gauge_centre_rows(gauge_state *s) {
    for (int64_t i = 0; i < s->d.rows; i++) s->k[i] = 0.5 * (s->row_low[i] + s->row_high[i]);
}

ota_status ota_gauge_start(gauge_state *s) {
    bool changed;
    memset(s->v, 0, (size_t)s->d.columns * sizeof *s->v);
    ota_status status = ota_gauge_scan(s, NULL, NULL, &changed);
    if (status != OTA_OK) return status;
    ota_gauge_centre_rows(s);
    status = ota_gauge_scan(s, ota_gauge_centre_columns, s->policy.row_at, &changed);
    if (status == OTA_OK) ota_gauge_centre_rows(s);
    return status;
}

/* ---- policies ---- */

void ota_gauge_best_cycle(gauge_state *s) {
    const int64_t n = s->d.rows;
    int64_t *mark = s->policy.head, best_length = 0;
    s->eta = -HUGE_VAL;
    for (int64_t i = 0; i < n; i++) mark[i] = -1;
    for (int64_t start = 0; start < n; start++) {
        int64_t i = start;
        while (mark[i] < 0) {
            mark[i] = start;
            i = s->policy.column_at[s->policy.row_at[i]];
        }
        if (mark[i] != start) continue;
        double total = 0.0;
        int64_t length = 0, at = i;
        do {
            const int64_t j = s->policy.row_at[at], after = s->policy.column_at[j];
            total += entry(&s->d, at, j) - entry(&s->d, after, j);
            length++;
            at = after;
        } while (at != i);
        const double mean = total / (2.0 * (double)length);
        if (mean > s->eta) s->eta = mean, s->policy.root = i, best_length = length;
    }
    if (s->cycle.length > 0 && !(s->eta > s->lower)) return;
    s->lower = s->eta;
    s->cycle.length = best_length;
    for (int64_t t = 0, at = s->policy.root; t < best_length; t++) {
        s->cycle.rows[t] = at;
        s->cycle.columns[t] = s->policy.row_at[at];
        at = s->policy.column_at[s->policy.row_at[at]];
    }
}

/* Shifts that meet the policy's equations, for every node whose policy leads to the root; the others keep
 * theirs until an arc towards these pays. */
static void follow_policy(gauge_state *s) {
    const int64_t n = s->d.rows;
    for (int64_t i = 0; i < n; i++) s->policy.head[i] = -1;
    for (int64_t i = n - 1; i >= 0; i--) {
        const int64_t after = s->policy.column_at[s->policy.row_at[i]];
        s->policy.next[i] = s->policy.head[after];
        s->policy.head[after] = i;
    }
    int64_t depth = 0;
    s->policy.stack[depth++] = s->policy.root;
    /* Marks: next of a row that was reached is -2 from then on. */
    while (depth > 0) {
        const int64_t parent = s->policy.stack[--depth];
        for (int64_t i = s->policy.head[parent], following; i >= 0; i = following) {
            following = s->policy.next[i];
            s->policy.next[i] = -2;
            if (i == s->policy.root) continue;
            const int64_t j = s->policy.row_at[i];
            s->k[i] = entry(&s->d, i, j) - entry(&s->d, parent, j) - 2.0 * s->eta + s->k[parent];
            s->policy.stack[depth++] = i;
        }
    }
    for (int64_t j = 0; j < s->d.columns; j++) {
        const int64_t i = s->policy.column_at[j];
        if (s->policy.next[i] == -2) s->v[j] = entry(&s->d, i, j) - s->k[i] + s->eta;
    }
    /* Three roundings in D - k - v, and as many where k and v came from. */
    double most = s->scale;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(s->k[i]));
    s->slack = 8.0 * DBL_EPSILON * (s->scale + most);
}

static bool improve_columns(gauge_state *s, gauge_strip *strip, int64_t first, int64_t count) {
    bool changed = false;
    for (int64_t j = 0; j < count; j++) {
        const double v = strip->low[j] + s->eta, change = s->v[first + j] - v;
        if (!(change > s->slack)) continue;
        s->v[first + j] = v;
        s->policy.column_at[first + j] = strip->low_at[j];
        strip->widest = fmax(strip->widest, change);
        changed = true;
    }
    return changed;
}

ota_status ota_gauge_howard(gauge_state *s) {
    const int64_t most = s->options->max_passes > 0 ? s->options->max_passes : 1000;
    while (s->passes < most) {
        bool changed;
        ota_gauge_best_cycle(s);
        follow_policy(s);
        s->widest = 0.0;
        /* The maxima's places go to `stack`: the policy keeps its old arc where it is good enough. */
        const ota_status status = ota_gauge_scan(s, improve_columns, s->policy.stack, &changed);
        if (status != OTA_OK) return status;
        for (int64_t i = 0; i < s->d.rows; i++) {
            const double k = s->row_high[i] - s->eta, change = k - s->k[i];
            if (!(change > s->slack)) continue;
            s->k[i] = k;
            s->policy.row_at[i] = s->policy.stack[i];
            s->widest = fmax(s->widest, change);
            changed = true;
        }
        s->passes++;
        tell(s->call, ++s->told, s->scale > 0.0 ? s->widest / s->scale : 0.0);
        if (!changed) return OTA_OK;
    }
    return OTA_NOT_CONVERGED;
}

/* ---- the tie rule: the centre between the greatest and the least minimiser with k_0 = 0 ---- */

static bool raise_to_reach(gauge_state *s, gauge_strip *strip, int64_t first, int64_t count) {
    bool changed = false;
    for (int64_t j = 0; j < count; j++) {
        const double v = strip->high[j] - s->eta, change = v - s->v[first + j];
        if (!(change > s->slack)) continue;
        s->v[first + j] = v;
        changed = true;
    }
    return changed;
}

static bool lower_to_reach(gauge_state *s, gauge_strip *strip, int64_t first, int64_t count) {
    bool changed = false;
    for (int64_t j = 0; j < count; j++) {
        const double v = strip->low[j] + s->eta, change = s->v[first + j] - v;
        if (!(change > s->slack)) continue;
        s->v[first + j] = v;
        changed = true;
    }
    return changed;
}

/* Shortest paths from row 0; rows passes are enough, for none of them visits a row twice. */
ota_status ota_gauge_extreme(gauge_state *s, double sign) {
    int64_t *moved = s->policy.head;
    for (int64_t i = 0; i < s->d.rows; i++) {
        s->k[i] = i == 0 ? 0.0 : sign * HUGE_VAL;
        moved[i] = i == 0;
    }
    for (int64_t j = 0; j < s->d.columns; j++) s->v[j] = -sign * HUGE_VAL;
    bool changed = true;
    s->moved = moved;
    ota_status status = OTA_OK;
    for (int64_t pass = 0; changed && pass <= s->d.rows; pass++) {
        status = ota_gauge_scan(s, sign > 0.0 ? raise_to_reach : lower_to_reach, NULL, &changed);
        if (status != OTA_OK) break;
        changed = false;
        for (int64_t i = 1; i < s->d.rows; i++) {
            const double k = sign > 0.0 ? s->row_low[i] + s->eta : s->row_high[i] - s->eta;
            moved[i] = sign * (s->k[i] - k) > s->slack;
            if (moved[i] == 0) continue;
            s->k[i] = k;
            changed = true;
        }
        moved[0] = 0;
        tell(s->call, ++s->told, 0.0);
    }
    s->moved = NULL;
    return status;
}

double ota_gauge_largest_rest(const gauge_state *s) {
    double rest = 0.0;
    for (int64_t i = 0; i < s->d.rows; i++) {
        rest = fmax(rest, fmax(s->row_high[i] - s->k[i], s->k[i] - s->row_low[i]));
    }
    return rest;
}

static void swap_shifts(gauge_state *s) {
    double *const k = s->k, *const v = s->v;
    s->k = s->other_k, s->v = s->other_v;
    s->other_k = k, s->other_v = v;
}

ota_status ota_gauge_centre(gauge_state *s) {
    bool changed;
    ota_status status = ota_gauge_scan(s, NULL, NULL, &changed);
    if (status != OTA_OK) return status;
    s->eta = ota_gauge_largest_rest(s);
    swap_shifts(s);
    status = ota_gauge_extreme(s, 1.0);
    if (status != OTA_OK) {
        swap_shifts(s);
        return status;
    }
    /* `other` now takes the greatest; Howard's are no longer needed. */
    swap_shifts(s);
    status = ota_gauge_extreme(s, -1.0);
    if (status != OTA_OK) {
        swap_shifts(s);
        return status;
    }
    for (int64_t i = 0; i < s->d.rows; i++) s->k[i] = 0.5 * (s->k[i] + s->other_k[i]);
    for (int64_t j = 0; j < s->d.columns; j++) s->v[j] = 0.5 * (s->v[j] + s->other_v[j]);
    return OTA_OK;
}
