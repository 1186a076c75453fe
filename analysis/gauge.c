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
 * The matrix is read in strips of columns. One scan serves a strip's columns first, whose new shifts its
 * rows then use, so that a pass reads memory once. */
#include <float.h>
#include <stdlib.h>

#include "gauge.h"

typedef struct state state;
/* Changes v on a strip from low and high of its columns; returns whether anything changed. */
typedef bool column_step(state *s, int64_t first, int64_t count);

struct state {
    matrix d;
    const ota_gauge_options *options;
    double *k, *v;               /* [rows], [columns] */
    double *other_k, *other_v;   /* another pair of shifts */
    double *row_low, *row_high;  /* [rows]: min_j, max_j D_ij - v_j of the last scan */
    int64_t *row_at, *column_at; /* the policy: column of row i, row of column j */
    int64_t *head, *next;        /* [rows]: the policy's tree, and marks */
    int64_t *stack;              /* [rows] */
    int64_t *cycle_rows;         /* [rows]: the cycle behind `lower` */
    int64_t *cycle_columns;
    int64_t *moved;      /* [rows] or NULL: only these rows changed since the last scan */
    double strip[STRIP]; /* entries of a row */
    double low[STRIP];   /* of a strip's columns: min_i D_ij - k_i, where, and max_i */
    double high[STRIP];
    int64_t low_at[STRIP];
    double eta;                  /* what the column step works with */
    double scale, slack, widest; /* max |D_ij|; rounding of D - k - v; largest change of a pass */
    double lower;
    int64_t root, cycle_length, passes;
    int64_t told; /* calls of the progress callback */
};

static void scan_columns(state *s, int64_t first, int64_t count) {
    for (int64_t j = 0; j < count; j++) {
        s->low[j] = HUGE_VAL, s->high[j] = -HUGE_VAL;
        s->low_at[j] = 0;
    }
    for (int64_t i = 0; i < s->d.rows; i++) {
        if (s->moved != NULL && s->moved[i] == 0) continue;
        load(&s->d, i, first, count, s->strip);
        const double k = s->k[i];
        for (int64_t j = 0; j < count; j++) {
            const double t = s->strip[j] - k;
            const bool lower = t < s->low[j];
            s->low[j] = lower ? t : s->low[j];
            s->low_at[j] = lower ? i : s->low_at[j];
            s->high[j] = t > s->high[j] ? t : s->high[j];
        }
    }
}

static void scan_rows(state *s, int64_t first, int64_t count, int64_t *high_at) {
    for (int64_t i = 0; i < s->d.rows; i++) {
        load(&s->d, i, first, count, s->strip);
        double high = s->row_high[i];
        widen(s->strip, s->v + first, count, &s->row_low[i], &high);
        if (!(high > s->row_high[i])) continue;
        s->row_high[i] = high;
        if (high_at == NULL) continue;
        int64_t j = 0;
        while (j < count - 1 && s->strip[j] - s->v[first + j] < high) j++;
        high_at[i] = first + j;
    }
}

/* One pass over the matrix: `step`, when there is one, on every strip's columns, then the rows' extremes
 * with the shifts it left. high_at [rows] or NULL receives where the row maxima are. With `moved`, the
 * extremes are those over rows and strips that changed. */
static ota_status scan(state *s, column_step *step, int64_t *high_at, bool *changed) {
    *changed = false;
    for (int64_t i = 0; i < s->d.rows; i++) s->row_low[i] = HUGE_VAL, s->row_high[i] = -HUGE_VAL;
    for (int64_t first = 0; first < s->d.columns; first += STRIP) {
        const int64_t count = strip_size(&s->d, first);
        if (cancelled(s->options)) return OTA_CANCELLED;
        if (step != NULL) {
            scan_columns(s, first, count);
            if (step(s, first, count))
                *changed = true;
            else if (s->moved != NULL)
                continue;
        }
        scan_rows(s, first, count, high_at);
    }
    return OTA_OK;
}

static void note_change(state *s, double change) {
    if (change > s->widest) s->widest = change;
}

/* ---- policies ---- */

/* The best cycle of the policy: its mean becomes eta, a row of it the root, and it becomes the
 * certificate when it is the best so far. */
static void best_cycle(state *s) {
    const int64_t n = s->d.rows;
    int64_t *mark = s->head, best_length = 0;
    s->eta = -HUGE_VAL;
    for (int64_t i = 0; i < n; i++) mark[i] = -1;
    for (int64_t start = 0; start < n; start++) {
        int64_t i = start;
        while (mark[i] < 0) {
            mark[i] = start;
            i = s->column_at[s->row_at[i]];
        }
        if (mark[i] != start) continue;
        double total = 0.0;
        int64_t length = 0, at = i;
        do {
            const int64_t j = s->row_at[at], after = s->column_at[j];
            total += entry(&s->d, at, j) - entry(&s->d, after, j);
            length++;
            at = after;
        } while (at != i);
        const double mean = total / (2.0 * (double)length);
        if (mean > s->eta) s->eta = mean, s->root = i, best_length = length;
    }
    if (s->cycle_length > 0 && !(s->eta > s->lower)) return;
    s->lower = s->eta;
    s->cycle_length = best_length;
    for (int64_t t = 0, at = s->root; t < best_length; t++) {
        s->cycle_rows[t] = at;
        s->cycle_columns[t] = s->row_at[at];
        at = s->column_at[s->row_at[at]];
    }
}

/* Shifts that meet the policy's equations, for every node whose policy leads to the root; the others keep
 * theirs until an arc towards these pays. */
static void follow_policy(state *s) {
    const int64_t n = s->d.rows;
    for (int64_t i = 0; i < n; i++) s->head[i] = -1;
    for (int64_t i = n - 1; i >= 0; i--) {
        const int64_t after = s->column_at[s->row_at[i]];
        s->next[i] = s->head[after];
        s->head[after] = i;
    }
    int64_t depth = 0;
    s->stack[depth++] = s->root;
    /* Marks: next of a row that was reached is -2 from then on. */
    while (depth > 0) {
        const int64_t parent = s->stack[--depth];
        for (int64_t i = s->head[parent], following; i >= 0; i = following) {
            following = s->next[i];
            s->next[i] = -2;
            if (i == s->root) continue;
            const int64_t j = s->row_at[i];
            s->k[i] = entry(&s->d, i, j) - entry(&s->d, parent, j) - 2.0 * s->eta + s->k[parent];
            s->stack[depth++] = i;
        }
    }
    for (int64_t j = 0; j < s->d.columns; j++) {
        const int64_t i = s->column_at[j];
        if (s->next[i] == -2) s->v[j] = entry(&s->d, i, j) - s->k[i] + s->eta;
    }
    /* Three roundings in D - k - v, and as many where k and v came from. */
    double most = s->scale;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(s->k[i]));
    s->slack = 8.0 * DBL_EPSILON * (s->scale + most);
}

static bool improve_columns(state *s, int64_t first, int64_t count) {
    bool changed = false;
    for (int64_t j = 0; j < count; j++) {
        const double v = s->low[j] + s->eta, change = s->v[first + j] - v;
        if (!(change > s->slack)) continue;
        s->v[first + j] = v;
        s->column_at[first + j] = s->low_at[j];
        note_change(s, change);
        changed = true;
    }
    return changed;
}

static ota_status howard(state *s) {
    const int64_t most = s->options->max_passes > 0 ? s->options->max_passes : 1000;
    while (s->passes < most) {
        bool changed;
        best_cycle(s);
        follow_policy(s);
        s->widest = 0.0;
        /* The maxima's places go to `stack`: the policy keeps its old arc where it is good enough. */
        const ota_status status = scan(s, improve_columns, s->stack, &changed);
        if (status != OTA_OK) return status;
        for (int64_t i = 0; i < s->d.rows; i++) {
            const double k = s->row_high[i] - s->eta, change = k - s->k[i];
            if (!(change > s->slack)) continue;
            s->k[i] = k;
            s->row_at[i] = s->stack[i];
            note_change(s, change);
            changed = true;
        }
        s->passes++;
        tell(s->options, ++s->told, s->scale > 0.0 ? s->widest / s->scale : 0.0);
        if (!changed) return OTA_OK;
    }
    return OTA_NOT_CONVERGED;
}

/* ---- the tie rule: the centre between the greatest and the least minimiser with k_0 = 0 ---- */

static bool raise_to_reach(state *s, int64_t first, int64_t count) {
    bool changed = false;
    for (int64_t j = 0; j < count; j++) {
        const double v = s->high[j] - s->eta, change = v - s->v[first + j];
        if (!(change > s->slack)) continue;
        s->v[first + j] = v;
        changed = true;
    }
    return changed;
}

static bool lower_to_reach(state *s, int64_t first, int64_t count) {
    bool changed = false;
    for (int64_t j = 0; j < count; j++) {
        const double v = s->low[j] + s->eta, change = s->v[first + j] - v;
        if (!(change > s->slack)) continue;
        s->v[first + j] = v;
        changed = true;
    }
    return changed;
}

/* Shortest paths from row 0: k the greatest (sign 1, v the least) or the least (sign -1) with k_0 = 0
 * and residual eta. rows passes are enough, for no shortest path visits a row twice. */
static ota_status extreme_shifts(state *s, double sign) {
    int64_t *moved = s->head;
    for (int64_t i = 0; i < s->d.rows; i++) {
        s->k[i] = i == 0 ? 0.0 : sign * HUGE_VAL;
        moved[i] = i == 0;
    }
    for (int64_t j = 0; j < s->d.columns; j++) s->v[j] = -sign * HUGE_VAL;
    bool changed = true;
    s->moved = moved;
    ota_status status = OTA_OK;
    for (int64_t pass = 0; changed && pass <= s->d.rows; pass++) {
        status = scan(s, sign > 0.0 ? raise_to_reach : lower_to_reach, NULL, &changed);
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
        tell(s->options, ++s->told, 0.0);
    }
    s->moved = NULL;
    return status;
}

static double largest_rest(const state *s) {
    double rest = 0.0;
    for (int64_t i = 0; i < s->d.rows; i++) {
        rest = fmax(rest, fmax(s->row_high[i] - s->k[i], s->k[i] - s->row_low[i]));
    }
    return rest;
}

static void swap_shifts(state *s) {
    double *const k = s->k, *const v = s->v;
    s->k = s->other_k, s->v = s->other_v;
    s->other_k = k, s->other_v = v;
}

static ota_status centre(state *s) {
    bool changed;
    ota_status status = scan(s, NULL, NULL, &changed);
    if (status != OTA_OK) return status;
    s->eta = largest_rest(s);
    swap_shifts(s);
    status = extreme_shifts(s, 1.0);
    if (status != OTA_OK) {
        swap_shifts(s);
        return status;
    }
    /* `other` now takes the greatest; Howard's are no longer needed. */
    swap_shifts(s);
    status = extreme_shifts(s, -1.0);
    if (status != OTA_OK) {
        swap_shifts(s);
        return status;
    }
    for (int64_t i = 0; i < s->d.rows; i++) s->k[i] = 0.5 * (s->k[i] + s->other_k[i]);
    for (int64_t j = 0; j < s->d.columns; j++) s->v[j] = 0.5 * (s->v[j] + s->other_v[j]);
    return OTA_OK;
}

/* ---- the other rules ---- */

static bool centre_columns(state *s, int64_t first, int64_t count) {
    for (int64_t j = 0; j < count; j++) {
        s->v[first + j] = 0.5 * (s->low[j] + s->high[j]);
        s->column_at[first + j] = s->low_at[j];
    }
    return true;
}

static void centre_rows(state *s) {
    for (int64_t i = 0; i < s->d.rows; i++) s->k[i] = 0.5 * (s->row_low[i] + s->row_high[i]);
}

/* Row midranges at v = 0, column midranges, row midranges: a start, with its policy. */
static ota_status start_midrange(state *s) {
    bool changed;
    memset(s->v, 0, (size_t)s->d.columns * sizeof *s->v);
    ota_status status = scan(s, NULL, NULL, &changed);
    if (status != OTA_OK) return status;
    centre_rows(s);
    status = scan(s, centre_columns, s->row_at, &changed);
    if (status == OTA_OK) centre_rows(s);
    return status;
}

static ota_status midrange(state *s) {
    const double tolerance = s->options->tolerance > 0.0 ? s->options->tolerance : 1e-6;
    const int64_t most = s->options->max_passes > 0 ? s->options->max_passes : 100;
    for (s->passes = 1;; s->passes++) {
        best_cycle(s);
        const double open = largest_rest(s) - s->lower;
        tell(s->options, ++s->told, s->scale > 0.0 ? open / s->scale : 0.0);
        if (open <= tolerance * s->lower + s->slack) return OTA_OK;
        if (s->passes == most) return OTA_NOT_CONVERGED;
        bool changed;
        const ota_status status = scan(s, centre_columns, s->row_at, &changed);
        if (status != OTA_OK) return status;
        centre_rows(s);
    }
}

/* The policy at the shifts there are: a lower bound for any of them. */
static bool keep_columns(state *s, int64_t first, int64_t count) {
    memcpy(s->column_at + first, s->low_at, (size_t)count * sizeof *s->low_at);
    return false;
}

static ota_status least_squares(state *s) {
    const int64_t n = s->d.rows, m = s->d.columns;
    double grand = 0.0;
    bool changed;
    memset(s->k, 0, (size_t)n * sizeof *s->k);
    memset(s->v, 0, (size_t)m * sizeof *s->v);
    for (int64_t first = 0; first < m; first += STRIP) {
        const int64_t count = strip_size(&s->d, first);
        if (cancelled(s->options)) return OTA_CANCELLED;
        for (int64_t i = 0; i < n; i++) {
            double part = 0.0;
            load(&s->d, i, first, count, s->strip);
            for (int64_t j = 0; j < count; j++) {
                part += s->strip[j];
                s->v[first + j] += s->strip[j];
            }
            s->k[i] += part / (double)m;
        }
    }
    for (int64_t j = 0; j < m; j++) s->v[j] /= (double)n;
    for (int64_t i = 0; i < n; i++) grand += s->k[i] / (double)n;
    for (int64_t i = 0; i < n; i++) s->k[i] -= grand;
    s->passes = 1;
    const ota_status status = scan(s, keep_columns, s->row_at, &changed);
    if (status == OTA_OK) best_cycle(s);
    return status;
}

static ota_status fast(state *s) {
    bool changed;
    load(&s->d, 0, 0, s->d.columns, s->v);
    const ota_status status = scan(s, NULL, NULL, &changed);
    if (status != OTA_OK) return status;
    centre_rows(s);
    for (int64_t i = 0; i < s->d.rows; i++) {
        s->lower = fmax(s->lower, 0.25 * (s->row_high[i] - s->row_low[i]));
    }
    s->passes = 1;
    return OTA_OK;
}

static ota_status solve(state *s) {
    switch (s->options->rule) {
    case OTA_GAUGE_LEAST_SQUARES: return least_squares(s);
    case OTA_GAUGE_FAST: return fast(s);
    default: break;
    }
    ota_status status = start_midrange(s);
    if (status != OTA_OK) return status;
    if (s->options->rule == OTA_GAUGE_MIDRANGE) return midrange(s);
    status = howard(s);
    return status == OTA_OK ? centre(s) : status;
}

/* ---- judging, memory, checks ---- */

/* The figures of the shifts, from the matrix alone. */
static void judge(const state *s, const ota_gauge_arrays *arrays, ota_gauge_result *result) {
    double strip[STRIP], square = 0.0, worst = 0.0;
    const int64_t n = s->d.rows, m = s->d.columns;
    for (int64_t i = 0; i < n; i++) {
        double row = 0.0, row_square = 0.0;
        for (int64_t first = 0; first < m; first += STRIP) {
            const int64_t count = strip_size(&s->d, first);
            double part = 0.0;
            load(&s->d, i, first, count, strip);
            for (int64_t j = 0; j < count; j++) {
                const double rest = fabs(strip[j] - s->k[i] - s->v[first + j]);
                const double share = s->scale > 0.0 ? rest / s->scale : 0.0;
                row = rest > row ? rest : row;
                part += share * share;
            }
            row_square += part;
        }
        if (arrays->row_residual != NULL) arrays->row_residual[i] = row;
        worst = fmax(worst, row);
        square += row_square;
    }
    const double size = (double)n * (double)m;
    result->residual = worst;
    /* Above it by rounding alone. */
    result->residual_lower = fmin(s->lower, worst);
    result->rms = s->scale * sqrt(square / size);
    result->per_sqrt_columns = worst / sqrt((double)m);
    result->per_normal_maximum = size > 1.0 ? worst / sqrt(2.0 * log(size)) : (double)NAN;
    result->passes = s->passes;
    result->cycle_length = s->cycle_length;
}

/* mean(k) = 0. */
static void normalise(state *s) {
    double mean = 0.0;
    for (int64_t i = 0; i < s->d.rows; i++) mean += s->k[i] / (double)s->d.rows;
    for (int64_t i = 0; i < s->d.rows; i++) s->k[i] -= mean;
    for (int64_t j = 0; j < s->d.columns; j++) s->v[j] += mean;
}

typedef struct workspace {
    double *numbers;
    int64_t *places;
} workspace;

static bool allocate(state *s, workspace *w) {
    const size_t n = (size_t)s->d.rows, m = (size_t)s->d.columns;
    /* check_matrix keeps 64 rows and 64 columns within the range of sizes. */
    w->numbers = calloc(4 * n + 2 * m, sizeof *w->numbers);
    w->places = calloc(6 * n + m, sizeof *w->places);
    if (w->numbers == NULL || w->places == NULL) return false;
    double **const rows[] = {&s->k, &s->other_k, &s->row_low, &s->row_high};
    for (size_t l = 0; l < 4; l++) *rows[l] = w->numbers + l * n;
    s->v = w->numbers + 4 * n;
    s->other_v = s->v + m;
    int64_t **const places[] = {&s->row_at, &s->head,       &s->next,
                                &s->stack,  &s->cycle_rows, &s->cycle_columns};
    for (size_t l = 0; l < 6; l++) *places[l] = w->places + l * n;
    s->column_at = w->places + 6 * n;
    return true;
}

static void release(workspace *w) {
    free(w->numbers);
    free(w->places);
}

static void copy_out(const state *s, const ota_gauge_arrays *arrays) {
    const size_t n = (size_t)s->d.rows, m = (size_t)s->d.columns, l = (size_t)s->cycle_length;
    if (arrays->row_shift != NULL) memcpy(arrays->row_shift, s->k, n * sizeof *s->k);
    if (arrays->column_shift != NULL) memcpy(arrays->column_shift, s->v, m * sizeof *s->v);
    if (arrays->cycle_rows != NULL) {
        memcpy(arrays->cycle_rows, s->cycle_rows, l * sizeof *s->cycle_rows);
    }
    if (arrays->cycle_columns != NULL) {
        memcpy(arrays->cycle_columns, s->cycle_columns, l * sizeof *s->cycle_columns);
    }
}

ota_status ota_gauge(const void *a, const void *b, ota_type type, int64_t rows, int64_t columns,
                     const ota_gauge_options *options, const ota_gauge_arrays *arrays,
                     ota_gauge_result *result, ota_error *error) {
    static const ota_gauge_options standard = {.size = sizeof standard};
    static const ota_gauge_arrays none;
    state s = {.d = {a, b, type, rows, columns}, .options = options != NULL ? options : &standard};
    workspace w = {NULL, NULL};
    ota_status status = check_matrix(&s.d, error);
    if (status == OTA_OK) status = check_options(s.options, error);
    if (status == OTA_OK) status = check_entries(&s.d, &s.scale, error);
    if (status != OTA_OK) return status;
    s.slack = 16.0 * DBL_EPSILON * s.scale;
    if (!allocate(&s, &w)) {
        release(&w);
        return no_memory(error);
    }
    result->status = solve(&s);
    normalise(&s);
    if (arrays == NULL) arrays = &none;
    judge(&s, arrays, result);
    copy_out(&s, arrays);
    release(&w);
    if (result->status == OTA_CANCELLED) {
        return analysis_fail(error, OTA_CANCELLED, "cancel", "", "the alignment was cancelled");
    }
    if (result->status == OTA_NOT_CONVERGED) {
        return analysis_fail(
            error, OTA_NOT_CONVERGED, "max_passes", "raise max_passes, or take the Howard rule",
            "R lies between %.12g and %.12g; more is not known after pass %" PRId64,
            result->residual_lower, result->residual, result->passes);
    }
    return result->status;
}
