/* The reference: attention as optimal transport by plain double loops from the definitions of
 * otattn.h.
 *
 *     S [rows][columns] pair by pair (judge_scores.c) -> P, f, g of one head (reference_scaling.c,
 *     reference_transport.c) -> out = P V [queries][values width] and the row and column statistics
 *
 * With axis columns the head is transposed on the way in and out. */
#include "reference.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference_head.h"
#include "validation/validation.h"

/* One head and what the outputs need beside it. */
typedef struct work {
    ota_reference_head head;
    double *block;    /* all numbers of the head, owned */
    double *caps;     /* [n][m] */
    double *capacity; /* [m] nu before online rows took from it */
    double *level;    /* [n] prefix: log-sum-exp of each row's own block, entropy only */
    double *line, *fixed;
    bool *empty, *bad; /* [n] fully masked; met NaN or +inf */
    int64_t empty_rows, bad_rows;
} work;

static double *take(double **next, int64_t count) {
    double *piece = *next;
    *next += count;
    return piece;
}

static bool work_make(work *w, const ota_resolved *r) {
    const bool swapped = r->problem.axis == OTA_AXIS_COLUMNS;
    const int64_t n = swapped ? r->keys : r->queries, m = swapped ? r->queries : r->keys;
    *w = (work){.head = {.n = n, .m = m}};
    const int64_t widest = n > m ? n : m;
    int64_t pairs, count;
    if (__builtin_mul_overflow(n, m, &pairs) || __builtin_mul_overflow(pairs, (int64_t)3, &count) ||
        __builtin_add_overflow(count, 4 * n + 5 * m + 2 * widest + r->width + 2, &count) ||
        count > INT64_MAX / (int64_t)sizeof(double)) {
        return false;
    }
    w->block = calloc((size_t)count, sizeof(double));
    w->empty = calloc((size_t)n + 1, sizeof(bool));
    w->bad = calloc((size_t)n + 1, sizeof(bool));
    if (w->block == NULL || w->empty == NULL || w->bad == NULL) return false;
    double *next = w->block;
    ota_reference_head *h = &w->head;
    h->s = take(&next, pairs);
    h->p = take(&next, pairs);
    w->caps = take(&next, pairs);
    h->cap_line = take(&next, widest + 1);
    h->mu = take(&next, n);
    h->f = take(&next, n);
    h->rest = take(&next, n);
    w->level = take(&next, n);
    h->nu = take(&next, m);
    h->g = take(&next, m);
    h->lambda = take(&next, m);
    w->capacity = take(&next, m);
    w->line = take(&next, widest);
    w->fixed = take(&next, r->width);
    return true;
}

static void work_free(work *w) {
    free(w->block);
    free(w->empty);
    free(w->bad);
}

static void load_caps(const ota_problem *p, int64_t b, int64_t hd, work *w) {
    ota_reference_head *h = &w->head;
    const bool given = ota_array_present(&p->entry_caps);
    h->cap = given || p->entry_cap > 0.0 ? w->caps : NULL;
    for (int64_t k = 0; h->cap != NULL && k < h->n * h->m; k++)
        h->cap[k] = given ? ota_array_get(&p->entry_caps, b, hd, k / h->m, k % h->m) : p->entry_cap;
}

/* Scores, masks, masses of one head with their defaults. */
static void load_head(const ota_resolved *r, const ota_arrays *a, int64_t b, int64_t hd, work *w) {
    const ota_problem *problem = &r->problem;
    ota_reference_head *h = &w->head;
    const bool swapped = problem->axis == OTA_AXIS_COLUMNS;
    const bool lambdas = ota_array_present(&problem->lambdas) && !swapped;
    h->tau = ota_array_present(&problem->temperatures)
                 ? ota_array_get(&problem->temperatures, 0, 0, 0, hd)
                 : problem->temperature;
    h->order = problem->regulariser == OTA_SOFTMAX ? 1.0
               : problem->regulariser == OTA_HARD  ? 0.0
                                                   : problem->order;
    h->custom = NULL;
    if (problem->regulariser == OTA_CUSTOM) {
        h->order = 2.0;
        h->custom = &problem->custom;
    }
    h->sink = !r->has_sink                        ? -INFINITY
              : ota_array_present(&r->sink.array) ? ota_array_get(&r->sink.array, 0, 0, 0, hd)
                                                  : r->sink.value;
    h->row_strength = problem->rows == OTA_ROWS_RELAXED ? problem->row_strength : INFINITY;
    h->strength = problem->strength;
    h->imbalance = r->type == OTA_F64 ? 1e-12 : 1e-6;
    h->rule = problem->columns;
    h->start = problem->start;
    h->end = problem->end;
    h->settings = &r->settings;
    h->rounds = h->unusable = h->pruned = 0;
    h->row_error = h->column_error = 0.0;
    h->first_bad_row = h->n;
    h->sentence[0] = '\0';
    h->mass = 0.0;
    w->empty_rows = w->bad_rows = 0;
    load_caps(problem, b, hd, w);
    ota_judge_sum mass = {0.0, 0.0};
    for (int64_t i = 0; i < h->n; i++) {
        double *s = ota_reference_row(h, h->s, i);
        ota_judge_line(r, b, hd, swapped, i, w->fixed, s);
        int64_t allowed = 0;
        w->bad[i] = false;
        for (int64_t j = 0; j < h->m; j++) {
            if (isnan(s[j]) || s[j] > DBL_MAX) w->bad[i] = true;
            if (!(isinf(s[j]) && s[j] < 0.0)) allowed++;
        }
        w->empty[i] = allowed == 0 && !(h->sink > -INFINITY);
        h->mu[i] = w->empty[i] ? 0.0 : ota_judge_row_mass(r, b, hd, i);
        h->f[i] = -INFINITY;
        h->rest[i] = 0.0;
        w->empty_rows += w->empty[i];
        w->bad_rows += w->bad[i];
        ota_judge_add(&mass, h->mu[i]);
    }
    h->mass = ota_judge_total(mass);
    int64_t usable = 0;
    for (int64_t j = 0; j < h->m; j++) {
        bool used = false;
        for (int64_t i = 0; i < h->n; i++) used = used || !(h->s[i * h->m + j] <= -INFINITY);
        h->nu[j] = used ? 1.0 : 0.0;
        usable += used;
    }
    const bool caps = h->rule == OTA_COLUMNS_CAPPED || h->rule == OTA_COLUMNS_ONLINE;
    h->floor = h->rule == OTA_COLUMNS_BOUNDED ? problem->lower / problem->upper : 0.0;
    for (int64_t j = 0; j < h->m; j++) {
        if (caps) {
            h->nu[j] = problem->cap *
                       (ota_judge_has_column_mass(r) ? ota_judge_column_mass(r, b, hd, j) : 1.0);
            h->capacity = j == 0 ? h->nu[0] : fmax(h->capacity, h->nu[j]);
            if (h->rule == OTA_COLUMNS_ONLINE && ota_array_present(&a->remaining))
                h->nu[j] = ota_array_get(&a->remaining, b, hd, 0, j);
        } else {
            h->nu[j] = ota_judge_has_column_mass(r)
                           ? ota_judge_column_mass(r, b, hd, j)
                           : h->nu[j] * h->mass / (double)(usable > 0 ? usable : 1);
        }
        if (h->rule == OTA_COLUMNS_BOUNDED) h->nu[j] *= problem->upper;
        w->capacity[j] = h->nu[j];
        h->lambda[j] = lambdas ? ota_array_get(&problem->lambdas, 0, 0, 0, j) : problem->lambda;
        const bool warm = ota_array_present(&a->start_potential) && !swapped;
        h->g[j] = warm ? ota_array_get(&a->start_potential, b, hd, 0, j) : 0.0;
    }
}

/* A row that met NaN or +inf has no plan: it leaves the sums and is marked when the head is
   written. */
static void set_aside(work *w, int64_t i) {
    ota_reference_head *h = &w->head;
    w->bad[i] = true;
    h->mass -= h->mu[i];
    h->mu[i] = 0.0;
    for (int64_t j = 0; j < h->m; j++) h->s[i * h->m + j] = -INFINITY;
}

/* Row i of prefix columns is the last row of the exact plan of queries 0 ... i on the first m - n
 * + i + 1 keys. */
static ota_status solve_prefix(work *w) {
    ota_reference_head *h = &w->head, part = *h;
    const int64_t n = h->n, m = h->m;
    double *block = calloc((size_t)(3 * n * m + 2 * n + 2 * m + 1), sizeof(double));
    if (block == NULL) return OTA_ENOMEM;
    double *next = block;
    ota_status worst = OTA_OK;
    part.s = take(&next, n * m);
    part.p = take(&next, n * m);
    part.cap = h->cap == NULL ? NULL : take(&next, n * m);
    part.f = take(&next, n);
    part.rest = take(&next, n);
    part.nu = take(&next, m);
    part.g = take(&next, m);
    part.rule = OTA_COLUMNS_EXACT;
    bool nonfinite = false;
    for (int64_t i = 0; i < n && worst >= 0; i++) {
        nonfinite = nonfinite || w->bad[i];
        if (nonfinite) {
            set_aside(w, i);
            continue;
        }
        part.n = i + 1;
        part.m = m - n + i + 1;
        part.mass = 0.0;
        int64_t usable = 0;
        for (int64_t j = 0; j < part.m; j++) part.nu[j] = part.g[j] = 0.0;
        for (int64_t k = 0; k <= i; k++) {
            double *s = ota_reference_row(&part, part.s, k);
            memcpy(s, ota_reference_row(h, h->s, k), (size_t)part.m * sizeof(double));
            for (int64_t j = 0; j < part.m; j++) {
                if (s[j] > -INFINITY) part.nu[j] = 1.0;
                if (h->cap != NULL) part.cap[k * part.m + j] = h->cap[k * m + j];
            }
            part.mass += h->mu[k];
        }
        for (int64_t j = 0; j < part.m; j++) usable += part.nu[j] > 0.0;
        for (int64_t j = 0; j < part.m; j++)
            part.nu[j] *= part.mass / (double)(usable > 0 ? usable : 1);
        const ota_status status = h->order > 0.0   ? ota_reference_scale(&part)
                                  : h->cap == NULL ? ota_reference_hard(&part)
                                                   : OTA_UNSUPPORTED;
        if (status < 0)
            worst = status;
        else if (status > worst)
            worst = status;
        memcpy(ota_reference_row(h, h->p, i), ota_reference_row(&part, part.p, i),
               (size_t)part.m * sizeof(double));
        memset(ota_reference_row(h, h->p, i) + part.m, 0, (size_t)(m - part.m) * sizeof(double));
        h->f[i] = part.f[i];
        h->rest[i] = part.rest[i];
        h->rounds = part.rounds > h->rounds ? part.rounds : h->rounds;
        w->level[i] = log(h->mu[i]) - part.f[i] / h->tau;
        memcpy(h->sentence, part.sentence, sizeof h->sentence);
    }
    for (int64_t j = 0; j < m; j++) h->g[j] = 0.0;
    free(block);
    return worst;
}

static ota_status solve_head(work *w, bool strict) {
    ota_reference_head *h = &w->head;
    const bool alone = h->rule == OTA_COLUMNS_FREE || h->rule == OTA_COLUMNS_ONLINE ||
                       h->rule == OTA_COLUMNS_PREFIX;
    if (w->bad_rows > 0 && (strict || !alone)) {
        (void)snprintf(h->sentence, sizeof h->sentence, "%lld rows met NaN or +inf scores",
                       (long long)w->bad_rows);
        return OTA_NONFINITE;
    }
    if (w->empty_rows > 0 && (h->rule == OTA_COLUMNS_EXACT || h->rule == OTA_COLUMNS_PREFIX)) {
        (void)snprintf(h->sentence, sizeof h->sentence, "%lld rows have no key at all",
                       (long long)w->empty_rows);
        return OTA_INFEASIBLE;
    }
    for (int64_t i = 0; i < h->n && h->rule != OTA_COLUMNS_PREFIX; i++) {
        if (w->bad[i]) set_aside(w, i);
    }
    switch (h->rule) {
    case OTA_COLUMNS_ONLINE: return ota_reference_online(h);
    case OTA_COLUMNS_PREFIX: return solve_prefix(w);
    default: break;
    }
    if (h->order > 0.0) return ota_reference_scale(h);
    return h->cap == NULL ? ota_reference_hard(h) : OTA_UNSUPPORTED;
}

/* ---- outputs ------------------------------------------------------------------------------ */

static double plan_at(const ota_reference_head *h, bool swapped, int64_t i, int64_t j) {
    return swapped ? h->p[j * h->m + i] : h->p[i * h->m + j];
}

static void put(const ota_array *array, int64_t b, int64_t h, int64_t r, int64_t c, double value) {
    if (ota_array_present(array)) ota_array_set(array, b, h, r, c, value);
}

/* Was the pair's value used? Weights that underflowed are still positive numbers; zeros of entmax
 * and hard plans and masked pairs are not. */
static bool uses_value(const ota_reference_head *h, bool swapped, int64_t i, int64_t j) {
    const double p = plan_at(h, swapped, i, j);
    const double s = swapped ? h->s[j * h->m + i] : h->s[i * h->m + j];
    if (!(s > -INFINITY) && !isnan(s)) return false;
    return p > 0.0 || p < 0.0 || isnan(p) || (h->order > 0.0 && h->order <= 1.0);
}

/* True when a value that was used made the row's output not finite. */
static bool write_values(const ota_resolved *r, const ota_arrays *a, int64_t b, int64_t hd,
                         const work *w, int64_t i) {
    if (!ota_array_present(&a->values) || !ota_array_present(&a->out)) return false;
    const bool swapped = r->problem.axis == OTA_AXIS_COLUMNS;
    const int64_t value_head = a->values.size[1] > 0 ? hd / (r->heads / a->values.size[1]) : 0;
    bool nonfinite = false;
    for (int64_t v = 0; v < a->values.size[3]; v++) {
        ota_judge_sum sum = {0.0, 0.0};
        for (int64_t j = 0; j < r->keys; j++) {
            if (!uses_value(&w->head, swapped, i, j)) continue;
            ota_judge_add(&sum, plan_at(&w->head, swapped, i, j) *
                                    ota_judge_dropout(r, b, hd, i, j) *
                                    ota_array_get(&a->values, b, value_head, j, v));
        }
        const double out = ota_judge_total(sum);
        nonfinite = nonfinite || !isfinite(out);
        ota_array_set(&a->out, b, hd, i, v, out);
    }
    return nonfinite;
}

static void write_statistics(const ota_resolved *r, const ota_arrays *a, int64_t b, int64_t hd,
                             const work *w, int64_t i) {
    const ota_reference_head *h = &w->head;
    const bool swapped = r->problem.axis == OTA_AXIS_COLUMNS;
    ota_judge_sum total = {swapped ? 0.0 : h->rest[i], 0.0}, entropy = {0.0, 0.0};
    double largest = 0.0, top = -INFINITY;
    int64_t positive = 0;
    bool nonfinite = false;
    for (int64_t j = 0; j < r->keys; j++) {
        const double p = plan_at(h, swapped, i, j);
        put(&a->coupling, b, hd, i, j, p);
        ota_judge_add(&total, p);
        nonfinite = nonfinite || isnan(p);
        positive += p > 0.0;
        largest = fmax(largest, p);
        const double g = swapped ? h->f[j] : h->g[j];
        const double s = swapped ? h->s[j * h->m + i] : h->s[i * h->m + j];
        if (g > -INFINITY) top = fmax(top, s + g);
    }
    const double unit = swapped ? ota_judge_total(total) : h->mu[i];
    for (int64_t j = -1; j < r->keys && unit > 0.0; j++) {
        const double p = j >= 0 ? plan_at(h, swapped, i, j) : swapped ? 0.0 : h->rest[i];
        const double share = p / unit;
        if (share > 0.0) ota_judge_add(&entropy, -share * log(share));
    }
    if (!swapped) top = fmax(top, h->sink);
    double lse = top;
    if (top > -INFINITY) {
        ota_judge_sum sum = {swapped ? 0.0 : exp((h->sink - top) / h->tau), 0.0};
        for (int64_t j = 0; j < r->keys; j++) {
            const double g = swapped ? h->f[j] : h->g[j];
            const double s = swapped ? h->s[j * h->m + i] : h->s[i * h->m + j];
            if (g > -INFINITY && s > -INFINITY) ota_judge_add(&sum, exp((s + g - top) / h->tau));
        }
        lse = top / h->tau + log(ota_judge_total(sum));
    }
    if (h->rule == OTA_COLUMNS_PREFIX && !w->empty[i]) lse = w->level[i];
    if (!ota_reference_is_entropy(h) || nonfinite) lse = NAN;
    put(&a->lse, b, hd, 0, i, lse);
    put(&a->row_potential, b, hd, 0, i,
        swapped     ? h->g[i]
        : nonfinite ? NAN
                    : h->f[i] + ota_reference_offset(h));
    put(&a->row_entropy, b, hd, 0, i, nonfinite ? NAN : ota_judge_total(entropy));
    put(&a->row_support, b, hd, 0, i, nonfinite ? NAN : (double)positive);
    put(&a->row_max, b, hd, 0, i, nonfinite ? NAN : largest);
    put(&a->sink, b, hd, 0, i, nonfinite ? NAN : swapped ? 0.0 : h->rest[i]);
}

/* Returns the number of rows that are not finite. */
static int64_t write_head(const ota_resolved *r, const ota_arrays *a, int64_t b, int64_t hd,
                          work *w) {
    ota_reference_head *h = &w->head;
    const bool swapped = r->problem.axis == OTA_AXIS_COLUMNS;
    for (int64_t i = 0; i < h->n; i++) {
        for (int64_t j = 0; j < h->m && w->bad[i]; j++) h->p[i * h->m + j] = NAN;
        if (w->bad[i]) h->f[i] = h->rest[i] = NAN;
    }
    int64_t nonfinite = 0;
    for (int64_t i = 0; i < r->queries; i++) {
        write_statistics(r, a, b, hd, w, i);
        const bool values_broke = write_values(r, a, b, hd, w, i);
        nonfinite += values_broke || (!swapped && w->bad[i]);
    }
    for (int64_t j = 0; j < r->keys; j++) {
        ota_judge_sum sum = {0.0, 0.0};
        for (int64_t i = 0; i < r->queries; i++) ota_judge_add(&sum, plan_at(h, swapped, i, j));
        put(&a->receiver, b, hd, 0, j, ota_judge_total(sum));
        put(&a->column_potential, b, hd, 0, j,
            swapped ? h->f[j] + ota_reference_offset(h) : h->g[j]);
        if (h->rule == OTA_COLUMNS_ONLINE) put(&a->remaining, b, hd, 0, j, h->nu[j]);
    }
    return nonfinite;
}

static void poison(const ota_arrays *a, int64_t b, int64_t hd) {
    const ota_array *outputs[] = {
        &a->out,      &a->coupling,    &a->row_potential, &a->column_potential, &a->lse,
        &a->receiver, &a->row_entropy, &a->row_support,   &a->row_max,          &a->sink};
    for (size_t k = 0; k < sizeof outputs / sizeof outputs[0]; k++) {
        if (!ota_array_present(outputs[k])) continue;
        for (int64_t i = 0; i < outputs[k]->size[2]; i++) {
            for (int64_t j = 0; j < outputs[k]->size[3]; j++)
                ota_array_set(outputs[k], b, hd, i, j, NAN);
        }
    }
}

/* Failures outweigh caveats; the first failure and the largest caveat stay. */
static bool is_worse(ota_status next, ota_status old) {
    return next < 0 ? old >= 0 : old >= 0 && next > old;
}

static void finish_errors(work *w) {
    ota_reference_head *h = &w->head;
    if (h->rule != OTA_COLUMNS_ONLINE && h->rule != OTA_COLUMNS_PREFIX) return;
    double *lowered = h->nu;
    h->nu = w->capacity;
    (void)ota_reference_residual(h);
    h->nu = lowered;
}

ota_status ota_reference(const ota_problem *problem, const ota_options *options,
                         const ota_arrays *arrays, ota_result *result, ota_error *error) {
    ota_resolved r;
    const ota_status refused = ota_resolve(problem, options, &r, error);
    if (refused != OTA_OK) return refused;
    ota_arrays a = {.size = sizeof a};
    if (arrays != NULL && arrays->size > 0)
        memcpy(&a, arrays, arrays->size < sizeof a ? arrays->size : sizeof a);
    ota_result all = {.size = sizeof all, .temperature_reached = r.problem.temperature};
    work w;
    if (!work_make(&w, &r)) {
        work_free(&w);
        return ota_fail(error, OTA_ENOMEM, "problem", "use smaller sizes",
                        "the reference cannot hold %lld x %lld scores", (long long)r.queries,
                        (long long)r.keys);
    }
    for (int64_t b = 0; b < r.batch; b++) {
        for (int64_t hd = 0; hd < r.heads; hd++) {
            load_head(&r, &a, b, hd, &w);
            ota_status status = solve_head(&w, r.settings.stop.strict);
            int64_t nonfinite = 0;
            if (status < 0) {
                poison(&a, b, hd);
                nonfinite = w.bad_rows;
            } else {
                finish_errors(&w);
                nonfinite = write_head(&r, &a, b, hd, &w);
                if (nonfinite > 0 && r.settings.stop.strict) {
                    status = OTA_NONFINITE;
                    poison(&a, b, hd);
                } else if (nonfinite > 0 && status == OTA_OK) {
                    status = OTA_NONFINITE_ROWS;
                }
            }
            const ota_reference_head *h = &w.head;
            if (is_worse(status, all.status)) {
                all.status = status;
                all.head = b * r.heads + hd;
                memcpy(all.sentence, h->sentence, sizeof h->sentence);
            }
            all.rounds = h->rounds > all.rounds ? h->rounds : all.rounds;
            all.row_error = fmax(all.row_error, h->row_error);
            all.column_error = fmax(all.column_error, h->column_error);
            all.empty_rows += w.empty_rows;
            all.nonfinite_rows += nonfinite;
            all.unusable_pairs += h->unusable;
            all.pruned_pairs += h->pruned;
            if (a.heads != NULL) {
                a.heads[b * r.heads + hd] =
                    (ota_head_result){status, h->rounds, h->row_error, h->column_error};
            }
        }
    }
    work_free(&w);
    if (result != NULL) {
        const size_t theirs = result->size < sizeof all ? result->size : sizeof all;
        memcpy((char *)result + sizeof result->size, (char *)&all + sizeof all.size,
               theirs - sizeof all.size);
    }
    if (all.status < 0) {
        return ota_fail(error, all.status, "problem", "", "%s",
                        all.sentence[0] != '\0' ? all.sentence : ota_status_text(all.status));
    }
    return all.status;
}
