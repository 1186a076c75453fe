/* What blocked.c does not reach, on the same heads in f32: a regulariser of the caller's [LIT-34], certificates [CETA-18 to 20,
 * DER-18], prefix and online columns [DER-04, DER-23, CETA-26]. */
#include "statements/couplings/blocked.h"

/* ---- a regulariser of the caller's ---- */

static double shannon_weight(void *user, double x) {
    (void)user;
    return exp(fmin(x, 700.0));
}

static double square_weight(void *user, double x) {
    (void)user;
    return fmax(0.0, x);
}

static double square_slope(void *user, double x) {
    (void)user;
    return x > 0.0 ? 1.0 : 0.0;
}

static blocked *custom_head(trial *t, double tau, bool square) {
    blocked *b = statement_blocked_head(t, tau);
    b->problem.regulariser = OTA_CUSTOM;
    b->problem.custom = (ota_custom){.weight = square ? square_weight : shannon_weight,
                                     .slope = square ? square_slope : shannon_weight};
    return b;
}

static double custom_shannon(trial *t) {
    const double tau = between(t, 0.5, 2.0);
    blocked *b = custom_head(t, tau, false);
    if (statement_blocked_run(t, b, NULL, false) == NULL) return NAN;
    return statement_blocked_softmax_errors(b, tau);
}

/* A score that is off by e moves such a weight by 2 e at most. */
static double custom_square(trial *t) {
    double formula[M], most = 0.0;
    blocked *b = custom_head(t, 1.0, true);
    if (statement_blocked_run(t, b, NULL, false) == NULL) return NAN;
    for (int i = 0; i < N; i++) {
        statement_entmax_formula(b->s + (int64_t)i * M, 2.0, formula);
        most = worse(most, farthest(b->p + (int64_t)i * M, formula, M) / (2.0 * b->unit));
    }
    return most;
}

static double custom_gradients(trial *t) {
    return statement_blocked_gradients(t, custom_head(t, 1.0, false), NULL, false);
}

/* ---- certificates ---- */

/* The certificate of the plan that the potentials define, and its largest relative distance from loops over P [N][M]. */
static double certificate_errors(trial *t, blocked *b, bool exact) {
    ota_certificate judged = {.size = sizeof judged};
    ota_arrays arrays = {.size = sizeof arrays};
    double most = 0.0, delta = 0.0, value = 0.0, entropy = 0.0;
    arrays.row_potential = ota_array_of(b->f, OTA_F64, 1, 1, 1, N);
    arrays.column_potential = ota_array_of(b->g, OTA_F64, 1, 1, 1, M);
    if (ota_certify(&b->problem, &b->options, &arrays, &judged, NULL, NULL) < 0) return NAN;
    for (int j = 0; j < M; j++) delta = fmax(delta, fabs(b->columns[j] - 1.0));
    for (int64_t k = 0; k < (int64_t)N * M; k++) {
        value -= b->p[k] * b->s[k];
        entropy -= b->p[k] * log(b->p[k]);
    }
    most = worse(most, fabs(judged.receiver_max / largest_of(b->columns, M) - 1.0));
    /* Where columns are exact, delta is what rounding and the tolerance leave: `exact_columns` of blocked.c has its size. */
    most = worse(most, fabs(judged.delta - delta) / (exact ? 1.0 : delta));
    most = worse(most, fabs(judged.value / (value - entropy) - 1.0));
    most = worse(most, fabs(judged.entropy / (entropy / (double)N) - 1.0));
    return seen_too(t, most / b->unit);
}

static double softmax_certificate(trial *t) {
    blocked *b = statement_blocked_run(t, statement_blocked_head(t, 1.0), "softmax", false);
    return b == NULL ? NAN : certificate_errors(t, b, false);
}

static double exact_certificate(trial *t) {
    blocked *b = statement_blocked_run(t, statement_blocked_head(t, 1.0), "softmax/exact", false);
    return b == NULL ? NAN : certificate_errors(t, b, true);
}

/* Two heads, the second with every key moved: their plans, scores S - T and the change that the library computes. */
static blocked *moved_head(trial *t, const blocked *a, double size) {
    blocked *b = statement_blocked_head(t, 1.0);
    for (int k = 0; k < N * D; k++) b->q[k] = a->q[k];
    for (int k = 0; k < M * D; k++) b->k[k] = (float)(a->k[k] + size * normal(t));
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < M; j++) {
            double sum = 0.0;
            for (int k = 0; k < D; k++) sum += (double)b->q[i * D + k] * b->k[j * D + k];
            b->s[i * M + j] = sum / sqrt(D);
        }
    }
    return b;
}

/* <S - T, P - Q> = tau (KL(P|Q) + KL(Q|P)) between two plans, relative to the identity's own terms, in units. */
static double energy_identity(trial *t) {
    blocked *a = statement_blocked_head(t, 1.0), *b = moved_head(t, a, 0.5);
    a = statement_blocked_run(t, a, "softmax/exact", false);
    if (a == NULL || statement_blocked_run(t, b, "softmax/exact", false) == NULL) return NAN;
    double energy = 0.0, divergence = 0.0;
    for (int64_t k = 0; k < (int64_t)N * M; k++) {
        energy += (a->s[k] - b->s[k]) * (a->p[k] - b->p[k]);
        divergence += (a->p[k] - b->p[k]) * (log(a->p[k]) - log(b->p[k]));
    }
    return fabs(energy / divergence - 1.0) / fmax(a->unit, b->unit);
}

/* ---- prefix columns ---- */

/* Row i sees the keys 0 to i + M - N. Rows at both ends and past a vector, against scaling of their own prefix by loops. */
static double prefix_rows(trial *t) {
    static const int looked_at[] = {0, 33, N - 1};
    double *part = numbers(t, (int64_t)N * M), *p = numbers(t, (int64_t)N * M), most = 0.0;
    blocked *b = statement_blocked_run(t, statement_blocked_head(t, 1.0), "prefix", false);
    if (b == NULL) return NAN;
    for (int k = 0; k < 3; k++) {
        const int size = looked_at[k] + 1, keys = size + M - N;
        const double *row = b->p + (int64_t)looked_at[k] * M;
        for (int i = 0; i < size; i++)
            memcpy(part + i * keys, b->s + (int64_t)i * M, (size_t)keys * sizeof *part);
        statement_sinkhorn_formula(part, size, keys, 1.0, NULL, NULL, 2000, p);
        most = worse(most, farthest(row, p + (int64_t)(size - 1) * keys, keys));
        for (int j = keys; j < M; j++) most = worse(most, fabs(row[j]));
    }
    return most / b->unit;
}

/* Different bits in rows 0 to N - 2 after the last query changed. */
static double leak(trial *t, blocked *b, const char *method) {
    double *before = numbers(t, (int64_t)N * M);
    if (statement_blocked_run(t, b, method, false) == NULL) return NAN;
    memcpy(before, b->p, (size_t)N * M * sizeof *before);
    for (int k = 0; k < D; k++) b->q[(N - 1) * D + k] += (float)normal(t);
    if (statement_blocked_run(t, b, method, false) == NULL) return NAN;
    return different_bits(before, b->p, (int64_t)(N - 1) * M);
}

static double prefix_leak(trial *t) { return leak(t, statement_blocked_head(t, 1.0), "prefix"); }

/* ---- online columns ---- */

static blocked *online_head(trial *t) {
    blocked *b = statement_blocked_head(t, 1.0);
    b->supports[0] = (ota_support){.kind = OTA_SUPPORT_CAUSAL};
    b->problem.corner = OTA_TOP_LEFT;
    b->problem.supports = b->supports;
    b->problem.support_count = 1;
    return b;
}

/* Row by row, min(what is left of the cap, exp(s - x)) with the level x of the sum 1 by bisection. */
static double online_rows(trial *t) {
    double left[M], formula[M], most = 0.0;
    blocked *b = statement_blocked_run(t, online_head(t), "online:1.2", false);
    if (b == NULL) return NAN;
    for (int j = 0; j < M; j++) left[j] = 1.2;
    for (int i = 0; i < N; i++) {
        const double *s = b->s + (int64_t)i * M;
        double low = -40.0, high = 40.0;
        for (int step = 0; step < 80; step++) {
            const double x = 0.5 * (low + high);
            double sum = 0.0;
            for (int j = 0; j <= i; j++) sum += formula[j] = fmin(left[j], exp(s[j] - x));
            *(sum > 1.0 ? &low : &high) = x;
        }
        most = worse(most, farthest(b->p + (int64_t)i * M, formula, i + 1));
        for (int j = i + 1; j < M; j++) most = worse(most, fabs(b->p[i * M + j]));
        for (int j = 0; j <= i; j++) left[j] -= formula[j];
    }
    return most / b->unit;
}

/* Sums of rows are 1 and no column is above the cap. */
static double online_sums(trial *t) {
    double most = 0.0;
    blocked *b = statement_blocked_run(t, online_head(t), "online:1.2", false);
    if (b == NULL) return NAN;
    for (int i = 0; i < N; i++) most = worse(most, fabs(sum_of(b->p + (int64_t)i * M, M) - 1.0));
    for (int j = 0; j < M; j++) most = worse(most, b->columns[j] * (double)N / (double)M - 1.2);
    return most / b->unit;
}

static double online_leak(trial *t) { return leak(t, online_head(t), "online:1.2"); }

static const statement_check table[] = {
    AT_MOST("LIT-34", "f32, 97 x 131: Shannon as functions, relative, over u (8 + 4 B / tau)",
            custom_shannon, 1.0, 2),
    AT_MOST("LIT-34", "f32, 97 x 131: l2 as functions, over 2 u (8 + 4 B)", custom_square, 1.0, 2),
    AT_MOST("LIT-34", "f32, 97 x 131: dQ, dK, dV of Shannon as functions, over u (8 + 4 B)",
            custom_gradients, 1.0, 2),
    AT_MOST("CETA-19", "f32, 97 x 131: certificate of softmax by loops, over u (8 + 4 B)",
            softmax_certificate, 1.0, 2),
    AT_MOST("CETA-20", "f32, 97 x 131: certificate of exact columns by loops, over u (8 + 4 B)",
            exact_certificate, 1.0, 2),
    AT_MOST("CETA-18", "f32, 97 x 131: <S-T,P-Q> = tau J(P,Q), relative, over u (8 + 4 B)",
            energy_identity, 1.0, 2),
    AT_MOST("DER-04", "f32, 97 x 131: prefix rows by scaling of their prefix, over u (8 + 4 B)",
            prefix_rows, 1.0, 1),
    AT_MOST("DER-04", "f32, 97 x 131: different bits after the last query changed", prefix_leak,
            0.0, 1),
    AT_MOST("CETA-26", "f32, 97 x 131: online rows by bisection, over u (8 + 4 B)", online_rows,
            1.0, 2),
    AT_MOST("CETA-26", "f32, 97 x 131: online sums and caps, over u (8 + 4 B)", online_sums, 1.0,
            2),
    AT_MOST("DER-23", "f32, 97 x 131: different bits after the last query changed, online",
            online_leak, 0.0, 1),
};
CHECK_GROUP(statement_checks_blocked_rules, table);
