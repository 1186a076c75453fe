/* The certificate: how well a plan solves its problem, in f64, from the outputs alone. Rows are
 * streamed, O(rows + columns) memory. f^ = f, less tau / (alpha (alpha - 1)) for Tsallis:
 *
 *     primal = sum P C + tau R(P) + RHO KL(P1 | mu) + rho KL(c | nu)
 *     dual   = rows + columns - sum over pairs and sinks of
 *                  entropy   tau exp(x / tau)                                 x = S + f + g
 *                  Tsallis   (tau / alpha) [(alpha - 1) x / tau]_+^(alpha / (alpha - 1)), infinite for alpha < 1 <= 1 + x
 *                  hard      0, but x <= 0
 *                  with a cap c, whatever R: max over 0 <= p <= c of p x - tau R(p), for hard c max(0, x)
 *     rows     hard   sum mu f^    relaxed  -RHO sum mu (exp(-f^ / RHO) - 1)
 *     columns  exact  sum nu g     relaxed  -rho sum nu (exp(-g / rho) - 1)
 *              capped sum cap min(0, g)     free  0, and g = 0
 *
 * The dual is a lower bound of the primal optimum for every f and g, so f is always the best one
 * for the given g (a row update): a wrong plan shows in `gap`, a wrong marginal in the errors. With
 * options.prune pairs that no feasible plan can use leave the dual (certificate_prune.c). */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/sized.h"
#include "problem/check.h"
#include "validation/shards.h"
#include "certificate_head.h"
#include "validation/validation.h"

/* ---- measures ------------------------------------------------------------------------------- */

static double column_error(const ota_judge_head *k) {
    ota_judge_sum error = {0.0, 0.0};
    for (int64_t j = 0; j < k->m; j++) {
        const double c = ota_judge_total(k->column[j]);
        double wanted = k->target[j];
        switch (k->method.rule) {
        case OTA_COLUMNS_BOUNDED:
            ota_judge_add(&error, fmax(0.0, c - wanted));
            ota_judge_add(&error, fmax(0.0, k->r->problem.lower * k->nu[j] - c));
            break;
        case OTA_COLUMNS_CAPPED: ota_judge_add(&error, fmax(0.0, c - wanted)); break;
        case OTA_COLUMNS_ONLINE:
            ota_judge_add(&error, fmax(0.0, c - wanted));
            if (ota_array_present(&k->a->remaining)) {
                ota_judge_add(&error,
                              fmax(0.0, -ota_array_get(&k->a->remaining, k->batch, k->head, 0, j)));
            }
            break;
        case OTA_COLUMNS_RELAXED:
            wanted = !(wanted > 0.0) || !k->used[j]
                         ? 0.0
                         : wanted * exp(-k->g[j] / k->r->problem.strength);
            ota_judge_add(&error, fabs(c - wanted));
            break;
        default: ota_judge_add(&error, fabs(c - wanted)); break;
        }
    }
    return ota_judge_total(error);
}

/* ---- many processes ------------------------------------------------------------------------ */

/* One process, or all of them: what was summed over this rank's rows becomes that of all rows. */
static bool share_sums(const ota_judge_head *k, double *sums, int64_t count, const char *step) {
    return ota_ranks_sum(&k->r->settings, sums, count, NULL, 0, step);
}

/* What a head's rows came to, in the order of the message. */
typedef struct row_statistics {
    double rows, primal, value, entropy, support, counted, empty, nonfinite, lost;
} row_statistics;
enum { ROW_STATISTICS = (int)(sizeof(row_statistics) / sizeof(double)) };

/* The same while they are added up, and the extremes. */
typedef struct row_sums {
    ota_judge_sum rows, primal, value, entropy;
    double support, counted; /* positive weights, and rows that have mass */
    double outside, cap_error, least;
    int64_t empty, nonfinite;
    bool lost; /* weights that are not numbers although their scores are */
} row_sums;

/* Keys in use, keys that mass reaches, the mass of the rows. */
static bool share_masses(ota_judge_head *k, double *reached) {
    if (k->r->settings.ranks == NULL) return true;
    for (int64_t j = 0; j < k->m; j++) k->left[j] = k->used[j];
    const bool shared =
        ota_ranks_most(&k->r->settings, k->left, k->m, "the keys in use") &&
        ota_ranks_most(&k->r->settings, reached, k->m, "the keys that mass reaches") &&
        share_sums(k, &k->mass, 1, "the mass of the rows");
    for (int64_t j = 0; j < k->m; j++) k->used[j] = k->left[j] > 0.0;
    return shared;
}

/* The sums of this process's rows become those of all rows; so do the column sums. */
static bool share_rows(ota_judge_head *k, row_sums *t) {
    if (k->r->settings.ranks == NULL) return true;
    row_statistics all = {.rows = ota_judge_total(t->rows),
                          .primal = ota_judge_total(t->primal),
                          .value = ota_judge_total(t->value),
                          .entropy = ota_judge_total(t->entropy),
                          .support = t->support,
                          .counted = t->counted,
                          .empty = (double)t->empty,
                          .nonfinite = (double)t->nonfinite,
                          .lost = t->lost};
    double extremes[] = {t->outside, t->cap_error, -t->least};
    for (int64_t j = 0; j < k->m; j++) k->at.p[j] = ota_judge_total(k->column[j]);
    if (!share_sums(k, k->at.p, k->m, "the column sums") ||
        !share_sums(k, (double *)&all, ROW_STATISTICS, "the rows' errors") ||
        !ota_ranks_most(&k->r->settings, extremes, 3, "the largest errors"))
        return false;
    for (int64_t j = 0; j < k->m; j++) k->column[j] = (ota_judge_sum){k->at.p[j], 0.0};
    *t = (row_sums){.rows = {all.rows, 0.0},
                    .primal = {all.primal, 0.0},
                    .value = {all.value, 0.0},
                    .entropy = {all.entropy, 0.0},
                    .support = all.support,
                    .counted = all.counted,
                    .outside = extremes[0],
                    .cap_error = extremes[1],
                    .least = -extremes[2],
                    .empty = (int64_t)all.empty,
                    .nonfinite = (int64_t)all.nonfinite,
                    .lost = all.lost > 0.0};
    return true;
}

/* ---- one head ----------------------------------------------------------------------------- */

/* Masses, usable columns, targets; counts empty and nonfinite rows of the scores. */
static bool load_masses(ota_judge_head *k) {
    const ota_resolved *r = k->r;
    ota_judge_sum mass = {0.0, 0.0};
    double *reached = k->at.p; /* 1 where a row that has mass may use the column */
    for (int64_t j = 0; j < k->m; j++) {
        k->used[j] = false;
        reached[j] = 0.0;
    }
    for (int64_t i = 0; i < k->n && !ota_watch_ends(&k->watch, k->at.pairs); i++) {
        const ota_judge_row_kind kind = ota_judge_load_scores(k, i);
        const bool has_mass = ota_judge_mass_of(k, i) > 0.0;
        for (int64_t j = 0; j < k->m; j++) {
            const bool allowed =
                kind == OTA_JUDGE_NONFINITE ? !(k->at.s[j] <= -INFINITY) : k->at.s[j] > -INFINITY;
            k->used[j] = k->used[j] || allowed;
            if (allowed && has_mass) reached[j] = 1.0;
        }
        if (kind == OTA_JUDGE_NORMAL) ota_judge_add(&mass, ota_judge_mass_of(k, i));
    }
    k->mass = ota_judge_total(mass);
    if (!share_masses(k, reached)) return false;
    int64_t usable = 0;
    for (int64_t j = 0; j < k->m; j++) usable += k->used[j];
    const bool given = ota_judge_has_column_mass(r);
    const bool caps = k->method.rule == OTA_COLUMNS_CAPPED || k->method.rule == OTA_COLUMNS_ONLINE;
    for (int64_t j = 0; j < k->m; j++) {
        const double even = k->used[j] ? k->mass / (double)usable : 0.0;
        const double mine = given ? ota_judge_column_mass(r, k->batch, k->head, j) : 1.0;
        k->nu[j] = given && !caps ? mine : even;
        k->target[j] = caps                                    ? r->problem.cap * mine
                       : k->method.rule == OTA_COLUMNS_BOUNDED ? r->problem.upper * k->nu[j]
                                                               : k->nu[j];
        k->left[j] = k->target[j];
        k->column[j] = (ota_judge_sum){0.0, 0.0};
        /* What no mass can reach has no say in any condition below: its best potential is infinite. */
        k->used[j] = reached[j] > 0.0;
    }
    return true;
}

static void load_potentials(ota_judge_head *k) {
    const ota_array *f = k->swapped ? &k->a->column_potential : &k->a->row_potential;
    const ota_array *g = k->swapped ? &k->a->row_potential : &k->a->column_potential;
    k->given.f = ota_array_present(f);
    k->given.g = ota_array_present(g) || k->method.rule == OTA_COLUMNS_FREE ||
                 k->method.rule == OTA_COLUMNS_ONLINE;
    const bool tsallis = k->method.custom == NULL && k->method.order > 0.0 &&
                         (k->method.order < 1.0 || k->method.order > 1.0);
    const double offset = tsallis ? k->method.tau / (k->method.order - 1.0) : 0.0;
    for (int64_t i = 0; i < k->n; i++)
        k->f[i] = k->given.f ? ota_array_get(f, k->batch, k->head, 0, i) - offset : 0.0;
    const bool zero = k->method.rule == OTA_COLUMNS_FREE || k->method.rule == OTA_COLUMNS_ONLINE ||
                      !ota_array_present(g);
    for (int64_t j = 0; j < k->m; j++)
        k->g[j] = zero ? 0.0 : ota_array_get(g, k->batch, k->head, 0, j);
}

/* What the weight p of a pair or sink with score s adds to the objective, the value and the entropy: -(p / mu) log(p / mu). */
static void add_weight(const ota_judge_head *k, row_sums *t, double p, double s, double mu,
                       double log_mu) {
    const double log_p = p > 0.0 ? log(p) : 0.0;
    ota_judge_add(&t->primal, -p * s);
    ota_judge_add(&t->primal, ota_judge_regulariser(k, p, log_p));
    ota_judge_add(&t->value, -p * s + k->method.tau * (fmax(p, 0.0) * log_p));
    if (mu > 0.0 && p > 0.0) ota_judge_add(&t->entropy, -(p / mu) * (log_p - log_mu));
}

/* The weights k->at.p of a row under its scores k->at.s. */
static void judge_pairs(const ota_judge_head *k, row_sums *t, double mu) {
    const double log_mu = log(mu);
    double positive = 0.0;
    for (int64_t j = 0; j < k->m; j++) {
        const double p = k->at.p[j];
        if (!(k->at.s[j] > -INFINITY)) {
            t->outside = fmax(t->outside, fabs(p));
            continue;
        }
        if (k->method.capped) t->cap_error = fmax(t->cap_error, p - ota_judge_cap(k, j));
        if ((mu > 0.0 || p < 0.0) && p < t->least) t->least = p;
        positive += p > 0.0;
        if (p > 0.0 || p < 0.0) add_weight(k, t, p, k->at.s[j], mu, log_mu);
    }
    if (mu > 0.0) {
        t->support += positive;
        t->counted += 1.0;
    }
}

/* What row i should sum to; a relaxed row pays for what its total lacks of mu. */
static double wanted_total(const ota_judge_head *k, row_sums *t, int64_t i, double mu,
                           double total) {
    if (!isfinite(k->method.row_strength)) return mu;
    ota_judge_add(&t->primal, k->method.row_strength * ota_judge_divergence(total, mu));
    if (!(mu > 0.0)) return mu;
    const double f = k->given.f    ? k->f[i]
                     : total > 0.0 ? -k->method.row_strength * log(total / mu)
                                   : 0.0;
    return mu * exp(-f / k->method.row_strength);
}

static void judge_row(ota_judge_head *k, row_sums *t, int64_t i) {
    const ota_judge_row_kind kind = ota_judge_load_scores(k, i);
    const double mu = kind == OTA_JUDGE_EMPTY ? 0.0 : ota_judge_mass_of(k, i);
    t->empty += kind == OTA_JUDGE_EMPTY;
    if (kind == OTA_JUDGE_NONFINITE) {
        t->nonfinite++;
        return;
    }
    double rest;
    const double total = ota_judge_load_weights(k, i, mu, &rest);
    if (!isfinite(total)) {
        t->nonfinite++;
        t->lost = true;
        return;
    }
    for (int64_t j = 0; j < k->m; j++)
        ota_judge_add(&k->column[j],
                      OTA_FAULT(CERTIFICATE_ROWS, k->at.p[j], i + 1 < k->n ? k->p[j] : 0.0));
    judge_pairs(k, t, mu);
    if (rest > 0.0) add_weight(k, t, rest, k->method.sink, mu, log(mu));
    ota_judge_add(&t->rows, fabs(total - wanted_total(k, t, i, mu, total)));
}

static void write_rows(const row_sums *t, double unit, ota_certificate *out) {
    out->empty_rows = t->empty;
    out->nonfinite_rows = t->nonfinite;
    out->outside = t->outside;
    out->cap_error = t->cap_error;
    out->row_error = t->lost ? INFINITY : ota_judge_total(t->rows) / unit;
    out->value = ota_judge_total(t->value);
    out->entropy = t->counted > 0.0 ? ota_judge_total(t->entropy) / t->counted : 0.0;
    out->support = t->counted > 0.0 ? t->support / t->counted : 0.0;
    out->minimum = isinf(t->least) ? 0.0 : t->least;
}

/* What the keys receive against an equal share, and what relaxed columns pay for theirs. Keys that no mass can reach, such
 * as padding, take no share of it [TOT-48]. */
static void judge_columns(const ota_judge_head *k, row_sums *t, ota_certificate *out) {
    int64_t reached = 0;
    for (int64_t j = 0; j < k->m; j++) reached += k->used[j];
    const double share = reached > 0 ? k->mass / (double)reached : 0.0;
    double most = 0.0, fewest = INFINITY;
    for (int64_t j = 0; j < k->m; j++) {
        const double c = ota_judge_total(k->column[j]);
        const double received = share > 0.0 ? c / share : 0.0;
        most = fmax(most, received);
        if (k->used[j]) fewest = fmin(fewest, received);
        out->delta = fmax(out->delta, share > 0.0 ? fabs(c - k->nu[j]) / share : 0.0);
        if (k->method.rule == OTA_COLUMNS_RELAXED)
            ota_judge_add(&t->primal,
                          k->r->problem.strength * ota_judge_divergence(c, k->target[j]));
    }
    out->receiver_max = most;
    out->receiver_min = reached > 0 ? fewest : 0.0;
    out->primal = ota_judge_total(t->primal);
}

/* The dual at the best f for the given or recovered g, and the column error. False: the communicator failed. */
static bool judge_dual(ota_judge_head *k, bool lost, double unit, ota_certificate *out) {
    const bool known =
        k->given.g || (k->given.coupling && !lost && ota_judge_recover_potentials(k));
    const bool pruned = known && k->component != NULL;
    const bool has_dual = known && k->method.rule != OTA_COLUMNS_ELASTIC &&
                          k->method.rule != OTA_COLUMNS_PREFIX &&
                          k->method.rule != OTA_COLUMNS_ONLINE;
    if (pruned) ota_judge_find_components(k);
    ota_judge_sum dual = {0.0, 0.0}, apart = {0.0, 0.0};
    for (int64_t i = 0; i < k->n && has_dual && !ota_watch_ends(&k->watch, k->at.pairs); i++) {
        double rest, distance;
        if (ota_judge_load_scores(k, i) != OTA_JUDGE_NORMAL) continue;
        const double mu = ota_judge_mass_of(k, i);
        (void)ota_judge_load_weights(k, i, mu, &rest);
        if (pruned) ota_judge_leave_out(k, i);
        ota_judge_add(&dual, ota_judge_row_dual(k, mu, rest, &distance));
        ota_judge_add(&apart, distance);
    }
    double duals[] = {ota_judge_total(dual), ota_judge_total(apart)};
    if (!share_sums(k, duals, 2, "the dual")) return false;
    out->column_error = column_error(k) / unit;
    /* A relaxed plan alone: is it the plan of the potential its own column sums ask for? */
    if (k->method.rule == OTA_COLUMNS_RELAXED && !k->given.g)
        out->column_error = known ? duals[1] / unit : INFINITY;
    out->dual = has_dual ? duals[0] + ota_judge_column_dual(k) : NAN;
    out->gap = out->primal - out->dual;
    return true;
}

/* False: the communicator failed. */
static bool judge_head(ota_judge_head *k, ota_certificate *out) {
    *out = (ota_certificate){.size = sizeof *out};
    if (!load_masses(k)) return false;
    load_potentials(k);
    const double unit = k->mass > 0.0 ? k->mass : 1.0;
    row_sums t = {.least = INFINITY};
    for (int64_t i = 0; i < k->n && !ota_watch_ends(&k->watch, k->at.pairs); i++)
        judge_row(k, &t, i);
    if (!share_rows(k, &t)) return false;
    write_rows(&t, unit, out);
    judge_columns(k, &t, out);
    if (!judge_dual(k, t.lost, unit, out)) return false;
    if (t.lost) {
        out->column_error = INFINITY;
        out->primal = out->value = out->dual = out->gap = NAN;
    }
    return true;
}

/* ---- the call ----------------------------------------------------------------------------- */

static double *take(double **next, int64_t count) {
    double *piece = *next;
    *next += count;
    return piece;
}

static void combine(ota_certificate *all, const ota_certificate *head, bool first, double share) {
    if (first) {
        const size_t size = all->size;
        *all = *head;
        all->size = size;
        all->entropy *= share;
        all->support *= share;
        return;
    }
    all->row_error = fmax(all->row_error, head->row_error);
    all->column_error = fmax(all->column_error, head->column_error);
    all->gap = isnan(head->gap)  ? head->gap
               : isnan(all->gap) ? all->gap
                                 : fmax(all->gap, head->gap);
    all->delta = fmax(all->delta, head->delta);
    all->receiver_max = fmax(all->receiver_max, head->receiver_max);
    all->receiver_min = fmin(all->receiver_min, head->receiver_min);
    all->minimum = fmin(all->minimum, head->minimum);
    all->outside = fmax(all->outside, head->outside);
    all->cap_error = fmax(all->cap_error, head->cap_error);
    all->primal += head->primal;
    all->dual += head->dual;
    all->value += head->value;
    all->entropy += head->entropy * share;
    all->support += head->support * share;
    all->empty_rows += head->empty_rows;
    all->nonfinite_rows += head->nonfinite_rows;
}

static ota_status refuse(const ota_resolved *r, const ota_arrays *a,
                         const ota_certificate *certificate, ota_error *error) {
    if (certificate == NULL || certificate->size == 0) {
        return ota_fail(error, OTA_EINVAL, "certificate.size", "set it to sizeof the struct",
                        "certificate.size is 0");
    }
    const struct {
        const char *field;
        const ota_array *array;
        int64_t rows, columns;
    } read[] = {{"coupling", &a->coupling, r->queries, r->keys},
                {"row_potential", &a->row_potential, 1, r->queries},
                {"column_potential", &a->column_potential, 1, r->keys},
                {"sink", &a->sink, 1, r->queries},
                {"remaining", &a->remaining, 1, r->keys}};
    for (size_t k = 0; k < sizeof read / sizeof read[0]; k++) {
        const ota_array *x = read[k].array;
        if (!ota_array_present(x)) continue;
        const bool fits = x->size[0] == r->batch && x->size[1] == r->heads &&
                          x->size[2] == read[k].rows && x->size[3] == read[k].columns;
        if (!fits || x->type < OTA_F64 || x->type > OTA_F16) {
            return ota_fail(error, OTA_EINVAL, read[k].field, "make shape and type fit the problem",
                            "%s has shape [%lld, %lld, %lld, %lld] where [%lld, %lld, %lld, %lld] "
                            "of floats is needed",
                            read[k].field, (long long)x->size[0], (long long)x->size[1],
                            (long long)x->size[2], (long long)x->size[3], (long long)r->batch,
                            (long long)r->heads, (long long)read[k].rows,
                            (long long)read[k].columns);
        }
        TRY(ota_check_array(x, read[k].field, error));
    }
    if (ota_array_present(&a->coupling)) return OTA_OK;
    if (r->problem.regulariser == OTA_HARD || r->problem.columns == OTA_COLUMNS_PREFIX) {
        return ota_fail(
            error, OTA_EINVAL, "coupling", "give arrays.coupling",
            "coupling is absent, and potentials alone do not define a hard or prefix plan");
    }
    if (r->settings.prune) {
        return ota_fail(error, OTA_EINVAL, "coupling", "give arrays.coupling",
                        "coupling is absent, and potentials do not tell which pairs were pruned");
    }
    const bool columns =
        r->problem.columns == OTA_COLUMNS_FREE || r->problem.columns == OTA_COLUMNS_ONLINE;
    const bool swapped = r->problem.axis == OTA_AXIS_COLUMNS;
    const bool row = ota_array_present(&a->row_potential) || (swapped && columns);
    const bool column = ota_array_present(&a->column_potential) || (!swapped && columns);
    if (row && column) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, "coupling", "give arrays.coupling, or both potentials",
                    "coupling is absent and so is the %s potential", row ? "column" : "row");
}

/* What is judged from potentials alone, and how keys that no rank may lack are looked for, need all rows in one place. */
static ota_status refuse_ranks(const ota_resolved *r, const ota_arrays *a, ota_error *error) {
    const bool online = r->problem.columns == OTA_COLUMNS_ONLINE;
    const bool known =
        r->problem.columns == OTA_COLUMNS_FREE || ota_array_present(&a->column_potential);
    if (r->problem.axis == OTA_AXIS_COLUMNS || online || r->problem.columns == OTA_COLUMNS_PREFIX ||
        r->settings.prune)
        return ota_fail(
            error, OTA_UNSUPPORTED, "communicator", "judge it in one process",
            "a certificate of rows on many ranks is for rows that are hard or relaxed and "
            "free, exact, relaxed, capped, bounded or elastic columns");
    if (known) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, "column_potential", "give it besides the coupling",
                    "column_potential is absent, and one rank's rows do not tell it");
}

typedef struct judged {
    ota_resolved r;
    ota_arrays a;
} judged;

static void release(ota_judge_head *k) {
    void *const memory[] = {k->f, k->used, k->column, k->component};
    for (size_t at = 0; at < sizeof memory / sizeof memory[0]; at++) free(memory[at]);
}

static ota_judge_power power_of(double order) {
    const double of[] = {
        [OTA_JUDGE_SQUARE_ROOT] = 1.5, [OTA_JUDGE_IDENTITY] = 2.0, [OTA_JUDGE_SQUARE] = 3.0};
    for (int power = OTA_JUDGE_SQUARE_ROOT; power <= OTA_JUDGE_SQUARE; power++)
        if (order >= of[power] && order <= of[power]) return (ota_judge_power)power;
    return OTA_JUDGE_ANY_POWER;
}

/* What the heads have in common, and all memory; nothing is held where that cannot be had. */
static ota_status begin(const judged *on, ota_judge_head *k, ota_error *error) {
    const ota_resolved *r = &on->r;
    const ota_arrays *a = &on->a;
    const bool swapped = r->problem.axis == OTA_AXIS_COLUMNS;
    *k = (ota_judge_head){.r = r,
                          .a = a,
                          .swapped = swapped,
                          .watch = ota_watch_of(&r->settings),
                          .at.pairs = (swapped ? r->queries : r->keys) * (4 + r->width),
                          .n = swapped ? r->keys : r->queries,
                          .m = swapped ? r->queries : r->keys,
                          .method.rule = r->problem.columns};
    k->method.order = r->problem.regulariser == OTA_SOFTMAX ? 1.0
                      : r->problem.regulariser == OTA_HARD  ? 0.0
                                                            : r->problem.order;
    if (r->problem.regulariser == OTA_CUSTOM) {
        k->method.order = 2.0;
        k->method.custom = &r->problem.custom;
    }
    k->method.power = k->method.custom != NULL ? OTA_JUDGE_ANY_POWER : power_of(k->method.order);
    k->method.capped = r->problem.entry_cap > 0.0 || ota_array_present(&r->problem.entry_caps);
    k->method.row_strength =
        r->problem.rows == OTA_ROWS_RELAXED ? r->problem.row_strength : INFINITY;
    k->given.coupling = ota_array_present(&a->coupling);
    const bool prunes = r->settings.prune && r->problem.regulariser == OTA_SOFTMAX &&
                        k->method.rule == OTA_COLUMNS_EXACT;
    size_t bytes, graph = prunes ? ota_judge_components_bytes(k->n, k->m) : 0;
    /* Nine lines of doubles at most per row or column; the checks bound each size by 2^57. */
    if (!__builtin_mul_overflow((size_t)(k->n + k->m + r->width + 2), 9 * sizeof(double), &bytes))
        k->f = malloc(bytes);
    k->used = calloc((size_t)k->m + 1, sizeof *k->used);
    k->column = calloc((size_t)k->m + 1, sizeof *k->column);
    if (prunes && graph < SIZE_MAX) k->component = malloc(graph);
    if (k->f == NULL || k->used == NULL || k->column == NULL || (prunes && k->component == NULL)) {
        release(k);
        return ota_fail(error, OTA_ENOMEM, "certificate", "free some memory",
                        "no memory for the certificate's sums");
    }
    double *next = k->f + k->n;
    k->g = take(&next, k->m);
    k->target = take(&next, k->m);
    k->nu = take(&next, k->m);
    k->left = take(&next, k->m);
    k->at.s = take(&next, k->m);
    k->at.p = take(&next, k->m);
    k->gather = take(&next, k->m + 1);
    k->fixed = take(&next, r->width);
    return OTA_OK;
}

/* OTA_OK, or what the caller wants instead: then nothing is written. */
static ota_status judge_all(ota_judge_head *k, ota_certificate *certificate,
                            ota_certificate *per_head, ota_error *error) {
    const ota_resolved *r = k->r;
    ota_certificate all = {.size = sizeof all};
    const size_t theirs = certificate->size < sizeof all ? certificate->size : sizeof all;
    const int64_t heads = r->batch * r->heads;
    for (int64_t h = 0; h < heads; h++) {
        ota_certificate one;
        k->batch = h / r->heads;
        k->head = h % r->heads;
        k->method.tau = ota_array_present(&r->problem.temperatures)
                            ? ota_array_get(&r->problem.temperatures, 0, 0, 0, k->head)
                            : r->problem.temperature;
        k->method.sink = !r->has_sink ? -INFINITY
                         : ota_array_present(&r->sink.array)
                             ? ota_array_get(&r->sink.array, 0, 0, 0, k->head)
                             : r->sink.value;
        if (!judge_head(k, &one)) break; /* the caller asks */
        const ota_status stopped = ota_watch_ask(&k->watch);
        if (stopped != OTA_OK)
            return ota_fail(error, stopped, "", "", "%s", ota_status_text(stopped));
        combine(&all, &one, h == 0, 1.0 / (double)heads);
        /* Records are as long as the caller's header says. */
        one.size = certificate->size;
        if (per_head != NULL)
            memcpy((char *)per_head + (size_t)h * certificate->size, &one, theirs);
    }
    ota_sized_write(certificate, certificate->size, &all, sizeof all);
    return OTA_OK;
}

static ota_status read_arrays(judged *on, const ota_arrays *arrays,
                              const ota_certificate *certificate, ota_error *error) {
    on->a = (ota_arrays){.size = sizeof on->a};
    if (arrays != NULL && arrays->size > 0)
        memcpy(&on->a, arrays, arrays->size < sizeof on->a ? arrays->size : sizeof on->a);
    const ota_status status = refuse(&on->r, &on->a, certificate, error);
    return status == OTA_OK && on->r.settings.ranks != NULL ? refuse_ranks(&on->r, &on->a, error)
                                                            : status;
}

static ota_status certify_of_ranks(const ota_problem *problem, const ota_options *options,
                                   const ota_arrays *arrays, ota_certificate *certificate,
                                   ota_certificate *per_head, ota_error *error) {
    ota_shards *shards;
    ota_problem full;
    ota_shard_sizes sizes;
    judged on;
    ota_judge_head head = {0};
    ota_status status = ota_shards_open(&shards, options->communicator, OTA_OK, error);
    if (status == OTA_OK)
        status = ota_shards_meet(shards, problem, options, 0, &full, &sizes, error);
    if (status == OTA_OK) {
        status = ota_shards_resolve(shards, &full, options, 0, &sizes, &on.r, error);
        if (status == OTA_OK) status = read_arrays(&on, arrays, certificate, error);
        if (status == OTA_OK) status = begin(&on, &head, error);
        const bool begun = status == OTA_OK;
        status = ota_ranks_agree(&shards->ranks, status, error);
        if (status == OTA_OK && !shards->from_matrix &&
            !ota_shards_gather(shards, &shards->keys, &shards->all_keys, "gathering the keys"))
            status = ota_ranks_refuse(&shards->ranks, error);
        if (status == OTA_OK) status = judge_all(&head, certificate, per_head, error);
        if (begun) release(&head);
    }
    if (shards != NULL && shards->ranks.failed) status = ota_ranks_refuse(&shards->ranks, error);
    ota_shards_free(shards);
    return status;
}

ota_status ota_certify(const ota_problem *problem, const ota_options *options,
                       const ota_arrays *arrays, ota_certificate *certificate,
                       ota_certificate *per_head, ota_error *error) {
    if (ota_communicator_of(options) != NULL)
        return certify_of_ranks(problem, options, arrays, certificate, per_head, error);
    judged on;
    ota_judge_head head;
    ota_status status = ota_resolve(problem, options, &on.r, error);
    if (status == OTA_OK) status = read_arrays(&on, arrays, certificate, error);
    if (status == OTA_OK) status = begin(&on, &head, error);
    if (status != OTA_OK) return status;
    status = judge_all(&head, certificate, per_head, error);
    release(&head);
    return status;
}
