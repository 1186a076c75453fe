/* judge_forward.h: one solved problem against the reference and the certificate, element by element, each
 * within its bound of tolerance.h. Rules that run rounds or solve rows alone are compared with the same
 * computation; rules that stop at a residual by the distance which that residual allows.
 *
 * Include after problems.h and tolerance.h. */
#ifndef TESTS_JUDGE_FORWARD_H
#define TESTS_JUDGE_FORWARD_H

#include "judge/judge_scores.h"
#include "validation/validation.h"
#include "problems.h"
#include "tolerance.h"

/* What the bounds of one head are made of. */
typedef struct measure {
    ota_resolved resolved;
    double u, tau, order, range, mass;
    double *scores, *growth; /* [n][m] */
    double *row_growth;      /* [n] */
    double *row_spill;       /* [n] what a Tsallis row's other weights may push into each weight */
    double rounds;           /* the factor K + 1 */
    bool by_residual, hard, transposed;
} measure;

static inline bool agree(double got, double want, double allowed) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return got <= want && got >= want;
    return fabs(got - want) <= allowed;
}

static inline void complain(const drawn *x, const char *what, int64_t head, int64_t i, int64_t j,
                            double got, double want, double allowed) {
    print_error("%s[head %" PRId64 "][%" PRId64 "][%" PRId64
                "] is %.17g, wanted %.17g within %.3g (off by %.3g)\n",
                what, head, i, j, got, want, allowed, fabs(got - want));
    print_error("  status %d '%s', reference %d '%s'\n", (int)x->status, x->result.sentence,
                (int)x->exact_status, x->exact_result.sentence);
    print_recipe(x);
    fail();
}

/* The largest error met so far, in units of what was allowed. */
static double worst_ratio;

static inline void check_value(const drawn *x, const char *what, int64_t head, int64_t i, int64_t j,
                               double got, double want, double allowed) {
    if (!agree(got, want, allowed)) complain(x, what, head, i, j, got, want, allowed);
    if (allowed > 0.0 && isfinite(want))
        worst_ratio = fmax(worst_ratio, fabs(got - want) / allowed);
}

/* sum_k |q_ik| |k_jk|, or what a matrix of scores holds. */
static inline double product_size(const ota_resolved *r, int64_t b, int64_t h, int64_t i,
                                  int64_t j) {
    if (r->from_matrix) return fabs(ota_array_get(&r->problem.scores, b, h, i, j));
    double sum = 0.0;
    for (int64_t k = 0; k < r->width; k++) {
        sum += fabs(ota_array_get(&r->problem.queries, b, h, i, k) *
                    ota_array_get(&r->problem.keys, b, h / (r->heads / r->key_heads), j, k));
    }
    return sum;
}

static inline double alibi_slope(const ota_term *term, int64_t h) {
    return ota_array_present(&term->array) ? ota_array_get(&term->array, 0, 0, 0, h) : term->value;
}

/* Sum of what is added to the product, in units of S. */
static inline double bias_size(const ota_resolved *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    double sum = r->has_sink ? fabs(ota_head_sink(r, h)) : 0.0;
    const int64_t line = i - j + r->keys - 1, away = i + r->offset - j;
    for (int t = 0; t < r->term_count; t++) {
        const ota_term *term = &r->terms[t];
        if (term->kind == OTA_TERM_DENSE) sum += fabs(ota_array_get(&term->array, b, h, i, j));
        if (term->kind == OTA_TERM_ALIBI) sum += fabs(alibi_slope(term, h) * (double)away);
        if (term->kind == OTA_TERM_RELATIVE)
            sum += fabs(ota_array_get(&term->array, 0, h, 0, line));
        if (term->kind == OTA_TERM_RELATIVE_INSIDE)
            sum += fabs(r->scale * ota_array_get(&term->array, 0, h, 0, line));
    }
    for (int t = 0; t < r->support_count; t++) {
        if (r->supports[t].kind == OTA_SUPPORT_ADDITIVE)
            sum += fabs(ota_array_get(&r->supports[t].array, b, h, i, j));
    }
    return sum;
}

static inline void measure_growth(const drawn *x, measure *m, int64_t b, int64_t h) {
    const ota_resolved *r = &m->resolved;
    const bool bare = r->from_matrix && r->term_count == 0 && !r->has_sink && !r->row_terms &&
                      r->scale >= 1.0 && r->scale <= 1.0;
    const double sink = r->has_sink ? fabs(ota_head_sink(r, h)) / m->tau : 0.0;
    double worst_head = product_growth(sink), low = INFINITY, high = -INFINITY;
    double *fixed = calloc((size_t)r->width + 1, sizeof(double));
    assert_non_null(fixed);
    for (int64_t i = 0; i < r->queries; i++) {
        double *s = m->scores + i * r->keys, *growth = m->growth + i * r->keys,
               worst = product_growth(sink);
        ota_judge_line(r, b, h, false, i, fixed, s);
        double top = -INFINITY;
        for (int64_t j = 0; j < r->keys; j++) top = fmax(top, s[j]);
        for (int64_t j = 0; j < r->keys; j++) {
            growth[j] = 0.0;
            if (!(s[j] > -INFINITY)) continue;
            low = fmin(low, s[j]);
            high = fmax(high, s[j]);
            const double bound =
                (fabs(r->scale) * product_size(r, b, h, i, j) + bias_size(r, b, h, i, j)) / m->tau;
            growth[j] = score_growth((top - s[j]) / m->tau);
            worst = fmax(worst, product_growth(bare ? 0.0 : bound));
        }
        m->row_growth[i] = worst;
        for (int64_t j = 0; j < r->keys; j++) {
            growth[j] += worst;
            worst_head = fmax(worst_head, growth[j]);
        }
    }
    free(fixed);
    m->range = high > low ? high - low : 0.0;
    /* Coupled columns carry the error of one row into all of them. */
    const bool coupled = r->problem.columns != OTA_COLUMNS_FREE || m->transposed;
    double start = 0.0, potential = 0.0;
    for (int64_t j = 0; x->want.warm && j < r->keys; j++)
        start = fmax(start, fabs(ota_array_get(&x->arrays.start_potential, b, h, 0, j)));
    /* Rounds round the potentials that they hold, in units of tau as the scores are. */
    for (int64_t j = 0; j < r->keys; j++) {
        const double g = ota_array_get(&x->exact.column_potential, b, h, 0, j);
        if (isfinite(g)) potential = fmax(potential, fabs(g));
    }
    for (int64_t k = 0; k < r->queries * r->keys && coupled; k++)
        m->growth[k] = worst_head + (4.0 * start + potential) / m->tau;
}

/* Bound of one weight. */
static inline double weight_bound(const drawn *x, const measure *m, int64_t b, int64_t h, int64_t i,
                                  int64_t j, double p) {
    const ota_resolved *r = &m->resolved;
    const double mass = ota_row_mass(r, b, h, i), growth = m->growth[i * r->keys + j] * m->rounds;
    if (m->hard) return 8.0 * m->u * (double)(r->queries + r->keys) * (1.0 + fabs(p));
    const double own = weight_slack(m->order, p, mass, m->u, growth) + m->row_spill[i];
    if (x->problem.columns != OTA_COLUMNS_ONLINE) return own;
    /* What earlier rows took from the key is known no better than their own weights. */
    const double cap = r->problem.cap * ota_column_mass(r, b, h, j, 1.0);
    return own + weight_slack(m->order, cap, cap, m->u, growth * (double)(1 + i));
}

/* ---- one head ----------------------------------------------------------------------------------- */

static inline void judge_poison(const drawn *x, int64_t b, int64_t h, int64_t head) {
    const ota_array *const all[] = {&x->arrays.out, &x->arrays.coupling, &x->arrays.receiver};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        for (int64_t i = 0; i < all[k]->size[2]; i++) {
            for (int64_t j = 0; j < all[k]->size[3]; j++)
                check_value(x, "poison", head, i, j, ota_array_get(all[k], b, h, i, j), NAN, 0.0);
        }
    }
}

/* A plan that stopped at a residual: how far it is from the reference's, as a whole. */
static inline void judge_distance(const drawn *x, const measure *m, int64_t b, int64_t h,
                                  int64_t head) {
    const ota_resolved *r = &m->resolved;
    double l1 = 0.0, l2 = 0.0, low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < r->queries; i++) {
        for (int64_t j = 0; j < r->keys; j++) {
            const double apart = ota_array_get(&x->arrays.coupling, b, h, i, j) -
                                 ota_array_get(&x->exact.coupling, b, h, i, j);
            l1 += fabs(apart);
            l2 += apart * apart;
        }
    }
    for (int64_t j = 0; j < r->keys; j++) {
        const double g = ota_array_get(&x->exact.column_potential, b, h, 0, j);
        if (!isfinite(g)) continue;
        low = fmin(low, g);
        high = fmax(high, g);
    }
    const double reach = (high > low ? high - low : 0.0) + m->range + m->tau;
    /* Real scores have one best hard plan; whole numbers tie, and the certificate judges. */
    if (m->hard) {
        const bool ties = x->want.whole_numbers || (!r->from_matrix && r->width == 0);
        const double pairs = (double)(r->queries + r->keys);
        if (!ties)
            check_value(x, "l1 distance", head, 0, 0, l1, 0.0,
                        pairs * m->mass * residual_floor(m->u, m->range, 1.0));
        return;
    }
    const double residual = r->settings.stop.tolerance + residual_floor(m->u, m->range, m->tau);
    const double allowed = residual_distance(residual, m->mass, reach, m->tau);
    if (is_entropy(m->order))
        check_value(x, "l1 distance", head, 0, 0, l1, 0.0, allowed);
    else if (m->order <= 2.0)
        check_value(x, "l2 distance", head, 0, 0, sqrt(l2), 0.0, allowed);
}

static inline void judge_rows(const drawn *x, measure *m, int64_t b, int64_t h, int64_t head) {
    const ota_resolved *r = &m->resolved;
    const ota_arrays *a = &x->arrays, *e = &x->exact;
    /* Columns that take no round, or never move, are softmax, bit for bit. */
    const ota_problem *q = &r->problem;
    const bool still =
        q->columns == OTA_COLUMNS_ELASTIC && !(q->lambda > 0.0) && !ota_array_present(&q->lambdas);
    const bool idle = r->settings.stop.fixed && (r->settings.stop.rounds <= 0 || still);
    const bool alone =
        is_entropy(m->order) && !m->transposed && (idle || r->problem.columns == OTA_COLUMNS_FREE);
    const bool bare = r->from_matrix;
    const double narrow = narrow_weights(x->want.type, x->want.out_type);
    const double flushed = flushed_products(x->want.type, x->want.out_type);
    for (int64_t i = 0; i < r->queries; i++) {
        double entropy_bound = 0.0, largest_bound = 0.0, lse_growth = 8.0;
        double mass = m->transposed ? 0.0 : ota_row_mass(r, b, h, i), spill = 0.0;
        for (int64_t j = 0; j < r->keys; j++) {
            const double p = ota_array_get(&e->coupling, b, h, i, j);
            if (!m->hard && !is_entropy(m->order)) spill += weight_bound(x, m, b, h, i, j, p);
            if (m->transposed) mass += p;
        }
        m->row_spill[i] = spill;
        for (int64_t j = 0; j < r->keys; j++) {
            const double p = ota_array_get(&e->coupling, b, h, i, j);
            const double bound = weight_bound(x, m, b, h, i, j, p);
            check_value(x, "coupling", head, i, j, ota_array_get(&a->coupling, b, h, i, j), p,
                        bound);
            const double relative = mass > 0.0 ? p / mass : 0.0;
            entropy_bound +=
                bound / fmax(mass, DBL_MIN) * (2.0 + fabs(log(fmax(relative, DBL_MIN)))) +
                8.0 * m->u * relative;
            largest_bound = fmax(largest_bound, bound);
            lse_growth = fmax(lse_growth, m->growth[i * r->keys + j] * m->rounds);
        }
        for (int64_t v = 0; v < x->want.values_width; v++) {
            double allowed = 0.0;
            for (int64_t j = 0; j < r->keys; j++) {
                const double p = ota_array_get(&e->coupling, b, h, i, j);
                const double value =
                    fabs(ota_array_get(&a->values, b, h / (r->heads / r->key_heads), j, v));
                if (!isfinite(value)) continue;
                allowed += alone && !bare
                               ? (m->u * m->row_growth[i] + narrow) * p * value + flushed * value
                               : (weight_bound(x, m, b, h, i, j, p) + 8.0 * m->u * p) * value;
            }
            allowed +=
                alone ? (double)r->keys * smallest_step(m->u > 0x1p-30 ? OTA_F32 : OTA_F64) : 0.0;
            const double want = ota_array_get(&e->out, b, h, i, v);
            if (alone && !bare) allowed += narrow * fabs(want);
            check_value(x, "out", head, i, v, ota_array_get(&a->out, b, h, i, v), want,
                        allowed + storing(x->want.out_type, want));
        }
        const double lse = ota_array_get(&e->lse, b, h, 0, i);
        const double level = m->u * lse_growth * (1.0 + fabs(isfinite(lse) ? lse : 0.0));
        check_value(x, "lse", head, i, 0, ota_array_get(&a->lse, b, h, 0, i), lse,
                    level + storing(a->lse.type, lse));
        const double row_max = ota_array_get(&e->row_max, b, h, 0, i);
        check_value(x, "row_max", head, i, 0, ota_array_get(&a->row_max, b, h, 0, i), row_max,
                    largest_bound + storing(a->row_max.type, row_max));
        /* The sink's share errs like any other weight. */
        const double sink = ota_array_get(&e->sink, b, h, 0, i);
        check_value(x, "sink", head, i, 0, ota_array_get(&a->sink, b, h, 0, i), sink,
                    weight_slack(m->order, sink, mass, m->u, lse_growth * (double)(1 + i)) +
                        storing(a->sink.type, sink));
        if (m->hard) continue;
        check_value(x, "row_entropy", head, i, 0, ota_array_get(&a->row_entropy, b, h, 0, i),
                    ota_array_get(&e->row_entropy, b, h, 0, i), entropy_bound + lse_growth * m->u);
        if (!is_entropy(m->order) || (m->transposed && !(lse > -INFINITY))) continue;
        const double f = ota_array_get(&e->row_potential, b, h, 0, i);
        check_value(x, "row_potential", head, i, 0, ota_array_get(&a->row_potential, b, h, 0, i), f,
                    m->tau * m->u * lse_growth * (1.0 + fabs(log(mass)) + fabs(f) / m->tau));
    }
}

static inline void judge_columns(const drawn *x, const measure *m, int64_t b, int64_t h,
                                 int64_t head) {
    const ota_resolved *r = &m->resolved;
    const ota_arrays *a = &x->arrays, *e = &x->exact;
    for (int64_t j = 0; j < r->keys; j++) {
        double allowed = 0.0;
        for (int64_t i = 0; i < r->queries; i++) {
            const double p = ota_array_get(&e->coupling, b, h, i, j);
            if (isfinite(p)) allowed += weight_bound(x, m, b, h, i, j, p) + m->u * p;
        }
        const double want = ota_array_get(&e->receiver, b, h, 0, j);
        check_value(x, "receiver", head, 0, j, ota_array_get(&a->receiver, b, h, 0, j), want,
                    allowed + storing(a->receiver.type, want));
    }
}

/* Rows sum to mu, nothing is negative, nothing lies outside the support: from the raw coupling. */
static inline void judge_simplex(const drawn *x, const measure *m, int64_t b, int64_t h,
                                 int64_t head) {
    const ota_resolved *r = &m->resolved;
    if (x->want.relaxed_rows || x->want.end == OTA_SIDE_COLUMNS || m->transposed) return;
    for (int64_t i = 0; i < r->queries; i++) {
        ota_judge_sum sum = {ota_array_get(&x->arrays.sink, b, h, 0, i), 0.0};
        bool open = r->has_sink;
        for (int64_t j = 0; j < r->keys; j++) {
            const double p = ota_array_get(&x->arrays.coupling, b, h, i, j);
            const bool allowed = m->scores[i * r->keys + j] > -INFINITY;
            if (!(p >= 0.0) || (!allowed && p > 0.0))
                complain(x, "weight", head, i, j, p, 0.0, 0.0);
            ota_judge_add(&sum, p);
            open |= allowed;
        }
        const double mass = open ? ota_row_mass(r, b, h, i) : 0.0;
        check_value(x, "row sum", head, i, 0, ota_judge_total(sum), mass,
                    row_sum_slack(m->u) * mass);
    }
}

/* Can the keys that some query may use not take the rows' mass, or must they take more? A sink takes any rest. */
static inline bool bounds_fail(const drawn *x, const ota_resolved *r, int64_t b, int64_t h) {
    const bool bounded = r->problem.columns == OTA_COLUMNS_BOUNDED;
    const double upper = bounded ? r->problem.upper : r->problem.cap;
    double room = 0.0, mass = 0.0, least = 0.0, usable = 0.0;
    for (int64_t i = 0; i < r->queries; i++) {
        bool open = false;
        for (int64_t j = 0; j < r->keys; j++)
            open |= ota_array_get(&x->exact.coupling, b, h, i, j) > 0.0;
        if (open) mass += ota_row_mass(r, b, h, i);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t j = 0; j < r->keys; j++) {
            bool used = false;
            for (int64_t i = 0; i < r->queries; i++)
                used |= ota_array_get(&x->exact.coupling, b, h, i, j) > 0.0;
            usable += used && pass == 0 ? 1.0 : 0.0;
            if (pass == 0) continue;
            const double nu = ota_column_mass(r, b, h, j, bounded ? mass / usable : 1.0);
            if (used) room += upper * nu;
            if (bounded && (used || ota_array_present(&r->problem.column_mass)))
                least += r->problem.lower * nu;
        }
    }
    return (!r->has_sink && room < mass) || least > mass * (1.0 - 1e-9);
}

static inline void judge_head(const drawn *x, measure *m, int64_t b, int64_t h) {
    const ota_resolved *r = &m->resolved;
    const int64_t head = b * r->heads + h;
    const ota_status got = x->arrays.heads[head].status, want = x->exact.heads[head].status;
    /* Capacities below the mass are refused before the rounds that the reference just runs. */
    const bool excused =
        (got == OTA_INFEASIBLE && want == OTA_FIXED_ITERS &&
         (x->problem.columns == OTA_COLUMNS_CAPPED || x->problem.columns == OTA_COLUMNS_BOUNDED) &&
         bounds_fail(x, r, b, h)) ||
        (got == OTA_NOT_CONVERGED && want == OTA_INFEASIBLE) ||
        (got == OTA_INFEASIBLE && want == OTA_NOT_CONVERGED);
    if (got != want && !excused) complain(x, "status", head, 0, 0, (double)got, (double)want, 0.0);
    if (got < OTA_OK) {
        judge_poison(x, b, h, head);
        return;
    }
    m->tau = ota_head_temperature(r, h);
    m->mass = 0.0;
    for (int64_t i = 0; i < r->queries; i++) m->mass += ota_row_mass(r, b, h, i);
    measure_growth(x, m, b, h);
    judge_simplex(x, m, b, h, head);
    if (m->by_residual) {
        judge_distance(x, m, b, h, head);
        return;
    }
    memset(m->row_spill, 0, (size_t)r->queries * sizeof *m->row_spill);
    judge_rows(x, m, b, h, head);
    judge_columns(x, m, b, h, head);
}

/* ---- the certificate ---------------------------------------------------------------------------- */

static inline void judge_certificate(const drawn *x, const measure *m) {
    if (x->status != OTA_OK && x->status != OTA_FIXED_ITERS) return;
    ota_certificate c = {.size = sizeof c};
    ota_error error;
    const ota_status status = ota_certify(&x->problem, &x->options, &x->arrays, &c, NULL, &error);
    if (status != OTA_OK) print_error("certify: %s\n", error.message);
    if (status != OTA_OK) complain(x, "certify", 0, 0, 0, (double)status, 0.0, 0.0);
    const ota_column_rule rule = x->problem.columns;
    const bool tolerant = !m->resolved.settings.stop.fixed;
    const double floor = residual_floor(m->u, m->range, 1.0) * (double)(x->want.n + x->want.m);
    if (x->want.end == OTA_SIDE_ROWS && !x->want.relaxed_rows)
        check_value(x, "certified row error", 0, 0, 0, c.row_error, 0.0, row_sum_slack(m->u));
    if (tolerant &&
        (rule == OTA_COLUMNS_EXACT || rule == OTA_COLUMNS_RELAXED || rule == OTA_COLUMNS_CAPPED ||
         rule == OTA_COLUMNS_BOUNDED || rule == OTA_COLUMNS_ONLINE)) {
        check_value(x, "certified column error", 0, 0, 0, c.column_error, 0.0,
                    m->resolved.settings.stop.tolerance + floor);
    }
    check_value(x, "certified outside", 0, 0, 0, c.outside, 0.0, 0.0);
    if (c.minimum < 0.0) complain(x, "certified minimum", 0, 0, 0, c.minimum, 0.0, 0.0);
    if (m->hard &&
        (rule == OTA_COLUMNS_EXACT || rule == OTA_COLUMNS_CAPPED || rule == OTA_COLUMNS_BOUNDED)) {
        const double size = (m->range + 1.0) * fmax(1.0, c.receiver_max * (double)x->want.n);
        check_value(x, "certified gap", 0, 0, 0, c.gap, 0.0,
                    64.0 * m->u * size * (double)(x->want.n * x->want.m + 1) *
                        (double)(x->want.batch * x->want.heads));
    }
}

/* Everything about a problem that was solved and whose reference is known. */
static inline void judge(const drawn *x) {
    measure m = {.u = 0.0};
    ota_error error;
    if (x->exact_status < 0 && x->exact_result.status == OTA_OK) {
        /* refused by validation: both must refuse alike */
        if (x->status != x->exact_status)
            complain(x, "refusal", 0, 0, 0, (double)x->status, (double)x->exact_status, 0.0);
        return;
    }
    if (x->status < 0 && x->result.size == 0) complain(x, "result", 0, 0, 0, 0.0, 1.0, 0.0);
    assert_int_equal(ota_resolve(&x->problem, &x->options, &m.resolved, &error), OTA_OK);
    const ota_resolved *r = &m.resolved;
    const ota_column_rule rule = x->problem.columns;
    m.order = r->order;
    m.hard = r->order <= 0.0;
    m.transposed = x->want.axis == OTA_AXIS_COLUMNS;
    m.u = unit_roundoff(x->want.type == OTA_F64 || x->result.promoted ? OTA_F64 : OTA_F32);
    m.rounds = r->settings.stop.fixed ? (double)(r->settings.stop.rounds + 1) : 1.0;
    const bool stops = rule == OTA_COLUMNS_EXACT || rule == OTA_COLUMNS_RELAXED ||
                       rule == OTA_COLUMNS_CAPPED || rule == OTA_COLUMNS_BOUNDED ||
                       rule == OTA_COLUMNS_PREFIX;
    m.by_residual = stops && (!r->settings.stop.fixed || rule == OTA_COLUMNS_PREFIX);
    m.scores = calloc((size_t)(r->queries * r->keys) + 1, sizeof(double));
    m.growth = calloc((size_t)(r->queries * r->keys) + 1, sizeof(double));
    m.row_growth = calloc((size_t)r->queries + 1, sizeof(double));
    m.row_spill = calloc((size_t)r->queries + 1, sizeof(double));
    assert_non_null(m.row_growth);
    assert_non_null(m.row_spill);
    assert_non_null(m.scores);
    assert_non_null(m.growth);
    for (int64_t b = 0; b < r->batch; b++) {
        for (int64_t h = 0; h < r->heads; h++) judge_head(x, &m, b, h);
    }
    judge_certificate(x, &m);
    const ota_array *const outputs[] = {&x->arrays.out, &x->arrays.coupling, &x->arrays.lse,
                                        &x->arrays.receiver, &x->arrays.row_max};
    for (size_t k = 0; k < sizeof outputs / sizeof outputs[0]; k++) {
        if (!gaps_untouched(&x->memory, outputs[k]))
            complain(x, "memory between the elements of output", 0, (int64_t)k, 0, 1.0, 0.0, 0.0);
    }
    const ota_status worst = x->exact_status;
    if (x->status >= OTA_OK && (worst == OTA_OK || worst == OTA_FIXED_ITERS))
        assert_int_equal(x->status, worst);
    /* One that stopped at a head may have left others uncounted; judge_head says whether it may stop. */
    if (x->status >= OTA_OK && worst >= OTA_OK) {
        assert_int_equal(x->result.empty_rows, x->exact_result.empty_rows);
        assert_int_equal(x->result.nonfinite_rows, x->exact_result.nonfinite_rows);
    }
    free(m.scores);
    free(m.growth);
    free(m.row_growth);
    free(m.row_spill);
}

/* Solved and judged by every kernel of this machine in turn. */
static inline void judge_every_level(drawn *x) {
    const char *kernel;
    for (int k = 0; (kernel = ota_kernel_name(k)) != NULL; k++) {
        if (k > 0) clear_outputs(x, &x->arrays);
        x->options.cpu = kernel;
        solve(x);
        judge(x);
    }
}

#endif
