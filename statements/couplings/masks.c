/* Group E: which pairs may carry weight, and positions in the scores [TOT-43..52, LIT-32, CETA-24..26].
 * S, P [n][n]; every support is compared with the definition of its pattern. */
#include "statements/check.h"

enum { N = 12 };

/* ---- patterns ---- */

typedef bool (*pattern)(int64_t i, int64_t j);

static bool causal_pattern(int64_t i, int64_t j) { return j <= i; }
static bool window_pattern(int64_t i, int64_t j) { return llabs(i - j) <= 3; }
static bool strided_pattern(int64_t i, int64_t j) { return (i - j + 3 * N) % 3 == 0; }
static bool block_pattern(int64_t i, int64_t j) { return i / 4 == j / 4; }
static bool composed_pattern(int64_t i, int64_t j) {
    return causal_pattern(i, j) && window_pattern(i, j) && j < 10;
}

/* Exceptions: weight outside the pattern, or inside other than the renormalised softmax. */
static double pattern_distance(trial *t, head *h, pattern allowed) {
    double most = 0.0;
    statement_solve(t, h, "softmax", 1.0, 0.0);
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int j = 0; j < N; j++) sum += allowed(i, j) ? exp(h->scores[i * N + j]) : 0.0;
        for (int j = 0; j < N; j++) {
            const double p = h->p[i * N + j];
            const double want = allowed(i, j) ? exp(h->scores[i * N + j]) / sum : 0.0;
            if (allowed(i, j) != (p != 0.0)) most = HUGE_VAL;
            most = worse(most, fabs(p - want));
        }
    }
    return most;
}

static head *square_head(trial *t) { return statement_head(t, N, N, normals(t, N * N, 1.0)); }

static head *supported_head(trial *t, ota_support_kind kind, int64_t left, int64_t right) {
    head *h = square_head(t);
    statement_add_support(h, kind, left, right);
    return h;
}

static double causal(trial *t) {
    return pattern_distance(t, supported_head(t, OTA_SUPPORT_CAUSAL, 0, 0), causal_pattern);
}
static double window(trial *t) {
    return pattern_distance(t, supported_head(t, OTA_SUPPORT_WINDOW, 3, 3), window_pattern);
}
static double strided(trial *t) {
    return pattern_distance(t, supported_head(t, OTA_SUPPORT_STRIDED, 3, 0), strided_pattern);
}
static double block(trial *t) {
    return pattern_distance(t, supported_head(t, OTA_SUPPORT_BLOCK, 4, 0), block_pattern);
}

static double composed(trial *t) {
    head *h = supported_head(t, OTA_SUPPORT_CAUSAL, 0, 0);
    statement_add_support(h, OTA_SUPPORT_WINDOW, 3, 3);
    int64_t *lengths = take(t, sizeof *lengths);
    *lengths = 10;
    statement_add_support(h, OTA_SUPPORT_LENGTHS, 0, 0)->array =
        ota_array_of(lengths, OTA_I64, 1, 1, 1, 1);
    return pattern_distance(t, h, composed_pattern);
}

enum { REAL = 8, NUMBERS = 12 };

/* Scores s [REAL][REAL] with `padding` queries and keys behind them, solved: no length says how many queries there are,
 * so theirs is no mass. What stands at a padded key is not a number. */
static head *padded_head(trial *t, const double *s, int64_t padding, const char *method) {
    const int64_t n = REAL + padding;
    double *scores = normals(t, n * n, 3.0);
    for (int64_t k = 0; k < n * n; k++) {
        if (k % n >= REAL) scores[k] = NAN;
        if (k % n < REAL && k / n < REAL) scores[k] = s[k / n * REAL + k % n];
    }
    head *h = statement_head(t, n, n, scores);
    int64_t *lengths = take(t, sizeof *lengths);
    *lengths = REAL;
    if (padding > 0) {
        statement_add_support(h, OTA_SUPPORT_LENGTHS, 0, 0)->array =
            ota_array_of(lengths, OTA_I64, 1, 1, 1, 1);
        h->row_mass = numbers(t, n);
        for (int i = 0; i < REAL; i++) h->row_mass[i] = 1.0;
    }
    statement_solve(t, h, method, 1.0, 1e-13);
    return h;
}

static void metrics_of(const head *h, double metrics[NUMBERS]) {
    const ota_certificate *c = &h->certificate;
    const double all[NUMBERS] = {c->row_error, c->column_error, c->primal,       c->dual,
                                 c->gap,       c->value,        c->entropy,      c->support,
                                 c->delta,     c->receiver_max, c->receiver_min, c->minimum};
    memcpy(metrics, all, sizeof all);
}

/* How far a plan and the metrics of its certificate move when 3 and 7 tokens of padding come behind it; weight on a
 * padded key or of a padded query counts as infinitely far. */
static double padding(trial *t) {
    static const char *const methods[] = {"softmax",          "sparsemax",      "softmax/exact",
                                          "relaxed:1",        "capped:1.2",     "elastic:0.5,4",
                                          "entmax:1.5/exact", "bounded:.8,1.2", "prefix",
                                          "online:1.5",       "hard/exact"};
    double most = 0.0, alone[NUMBERS], metrics[NUMBERS], *s = normals(t, REAL * REAL, 1.0);
    const head *h = padded_head(t, s, 0, methods[t->draw]);
    metrics_of(h, alone);
    for (int padding = 3; padding < 8; padding += 4) {
        const head *other = padded_head(t, s, padding, methods[t->draw]);
        const int64_t n = other->n;
        for (int64_t k = 0; k < n * n; k++) {
            const bool real = k / n < REAL && k % n < REAL;
            if (!real && other->p[k] != 0.0) return HUGE_VAL;
            if (real) most = worse(most, fabs(other->p[k] - h->p[k / n * REAL + k % n]));
        }
        most = worse(most, farthest(other->entropy, h->entropy, REAL));
        most = worse(most, farthest(other->support, h->support, REAL));
        metrics_of(other, metrics);
        /* Elastic, prefix and online plans have no dual. */
        for (int k = 0; k < NUMBERS; k++)
            if (alone[k] == alone[k] || metrics[k] == metrics[k])
                most = worse(most, fabs(metrics[k] - alone[k]));
    }
    return most;
}

/* A boolean mask and the additive mask of -inf that says the same. */
static double mask_algebra(trial *t) {
    double *s = normals(t, N * N, 1.0), *added = numbers(t, N * N);
    unsigned char *mask = take(t, N * N);
    for (int k = 0; k < N * N; k++) {
        mask[k] = uniform(t) < 0.5 || k / N == k % N;
        added[k] = mask[k] ? 0.0 : -HUGE_VAL;
    }
    head *a = statement_head(t, N, N, s), *b = statement_head(t, N, N, s);
    statement_add_support(a, OTA_SUPPORT_BOOLEAN, 0, 0)->array =
        ota_array_of(mask, OTA_BOOL, 1, 1, N, N);
    statement_add_support(b, OTA_SUPPORT_ADDITIVE, 0, 0)->array =
        ota_array_of(added, OTA_F64, 1, 1, N, N);
    statement_solve(t, a, "softmax", 1.0, 0.0);
    statement_solve(t, b, "softmax", 1.0, 0.0);
    double most = farthest(a->p, b->p, N * N);
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int j = 0; j < N; j++) sum += mask[i * N + j] ? exp(s[i * N + j]) : 0.0;
        for (int j = 0; j < N; j++) {
            const double want = mask[i * N + j] ? exp(s[i * N + j]) / sum : 0.0;
            most =
                worse(most, want == 0.0 && a->p[i * N + j] != 0.0 ? HUGE_VAL
                                                                  : fabs(a->p[i * N + j] - want));
        }
    }
    return most;
}

/* ---- causal and doubly stochastic ---- */

static double from_identity(const double *p) {
    double most = 0.0;
    for (int k = 0; k < N * N; k++) most = worse(most, fabs(p[k] - (k / N == k % N ? 1.0 : 0.0)));
    return most;
}

static double random_objective_identity(trial *t) {
    head *h = supported_head(t, OTA_SUPPORT_CAUSAL, 0, 0);
    statement_solve(t, h, "hard/exact", 0.0, 0.0);
    return from_identity(h->p);
}

static double pruned_identity(trial *t) {
    head *h = supported_head(t, OTA_SUPPORT_CAUSAL, 0, 0);
    h->options.prune = 1;
    statement_solve(t, h, "softmax/exact", 1.0, 0.0);
    return from_identity(h->p);
}

static ota_status causal_exact_status(trial *t, int64_t *unusable) {
    head *h = supported_head(t, OTA_SUPPORT_CAUSAL, 0, 0);
    statement_solve(t, h, "softmax/exact", 1.0, 0.0);
    *unusable = h->result.unusable_pairs;
    return h->status;
}

static double causal_exact_refused(trial *t) {
    int64_t unusable;
    return seen_fact(t, causal_exact_status(t, &unusable) == OTA_INFEASIBLE);
}

static double causal_exact_solved(trial *t) {
    int64_t unusable;
    return causal_exact_status(t, &unusable) == OTA_OK ? 0.0 : 1.0;
}

/* error times rounds of plain scaling on the causal support: it settles, so the error falls like 1/t. */
static double crawl(trial *t) {
    double error[2];
    double *s = normals(t, N * N, 1.0);
    for (int k = 0; k < 2; k++) {
        head *h = statement_head(t, N, N, s);
        statement_add_support(h, OTA_SUPPORT_CAUSAL, 0, 0);
        h->options.rounds = k == 0 ? 8000 : 32000;
        statement_solve(t, h, "softmax/exact", 1.0, 0.0);
        error[k] = h->certificate.column_error * (double)h->options.rounds;
    }
    return fabs(error[1] / error[0] - 1.0);
}

static double strict_triangle(trial *t) {
    unsigned char *mask = take(t, N * N);
    for (int k = 0; k < N * N; k++) mask[k] = k % N < k / N;
    head *h = square_head(t);
    statement_add_support(h, OTA_SUPPORT_BOOLEAN, 0, 0)->array =
        ota_array_of(mask, OTA_BOOL, 1, 1, N, N);
    statement_solve(t, h, "softmax/exact", 1.0, 0.0);
    return seen_fact(t, h->status == OTA_INFEASIBLE);
}

static double unusable_of_causal(trial *t) {
    int64_t unusable = -1;
    (void)causal_exact_status(t, &unusable);
    return seen_fact(t, unusable == N * (N + 1) / 2 - N);
}

static double total_support(trial *t) {
    static const ota_support_kind kinds[] = {OTA_SUPPORT_WINDOW, OTA_SUPPORT_STRIDED,
                                             OTA_SUPPORT_BLOCK};
    double most = 0.0;
    for (int k = 0; k < 3; k++) {
        head *h = supported_head(t, kinds[k], 3, 3);
        h->options.max_rounds = 20000;
        statement_solve(t, h, "softmax/exact", 1.0, 1e-11);
        most = worse(most, (double)h->result.unusable_pairs);
        most = worse(most, h->certificate.column_error);
    }
    return most;
}

/* ---- causal variants and their leak ---- */

/* How far rows 0..N-2 move when the last query changes. */
static double leak(trial *t, const char *method, bool causal_support, int64_t blocks) {
    double *s = normals(t, N * N, 1.0), *changed = copy_of(t, s, N * N);
    for (int j = 0; j < N; j++) changed[(N - 1) * N + j] += 3.0 * normal(t);
    head *h[2] = {statement_head(t, N, N, s), statement_head(t, N, N, changed)};
    for (int k = 0; k < 2; k++) {
        if (causal_support) statement_add_support(h[k], OTA_SUPPORT_CAUSAL, 0, 0);
        if (blocks > 0) statement_add_support(h[k], OTA_SUPPORT_BLOCK, blocks, 0);
        statement_solve(t, h[k], method, 1.0, 0.0);
    }
    const int64_t rows = blocks > 0 ? N - blocks : N - 1;
    return farthest(h[0]->p, h[1]->p, rows * N);
}

static double leak_of_prefix(trial *t) { return leak(t, "prefix", false, 0); }
static double leak_of_online(trial *t) { return leak(t, "online:1.5", true, 0); }
static double leak_of_softmax(trial *t) { return leak(t, "softmax", true, 0); }
static double leak_of_blocks(trial *t) { return leak(t, "softmax/exact", false, 4); }
static double leak_of_elastic(trial *t) { return leak(t, "elastic:0.5,1", true, 0); }
static double leak_of_relaxed(trial *t) { return leak(t, "relaxed:1", true, 0); }

static double causal_variants(trial *t) {
    static const char *const methods[] = {"prefix", "capped:1.5", "relaxed:1", "online:1.5"};
    double most = 0.0;
    for (int k = 0; k < 4; k++) {
        head *h = square_head(t);
        if (k > 0) statement_add_support(h, OTA_SUPPORT_CAUSAL, 0, 0);
        statement_solve(t, h, methods[k], 1.0, 1e-11);
        for (int i = 0; i < N; i++) most = worse(most, fabs(h->rows[i] - 1.0));
        if (k % 2 == 1) {
            for (int j = 0; j < N; j++) most = worse(most, h->columns[j] - 1.5);
        }
    }
    return most;
}

/* ---- positions ---- */

static double score_distance(const head *h, const double *scores) {
    double most = 0.0, *formula = h->rows;
    for (int64_t i = 0; i < h->n; i++) {
        softmax_formula(scores + i * h->m, h->m, 1.0, formula);
        most = worse(most, farthest(h->p + i * h->m, formula, h->m));
    }
    return most;
}

/* (x + a) W_Q W_K^T (x + a)^T, multiplied out into its four terms. */
static double absolute_positions(trial *t) {
    enum { WIDTH = 8 };
    double *x = normals(t, N * WIDTH, 0.7), *a = normals(t, N * WIDTH, 0.7);
    double *w[2] = {normals(t, WIDTH * WIDTH, 0.4), normals(t, WIDTH * WIDTH, 0.4)};
    double *part[4]; /* x W_Q, a W_Q, x W_K, a W_K */
    for (int k = 0; k < 4; k++) {
        part[k] = numbers(t, N * WIDTH);
        for (int r = 0; r < N * WIDTH; r++) {
            for (int c = 0; c < WIDTH; c++) {
                part[k][r] +=
                    (k % 2 == 0 ? x : a)[r / WIDTH * WIDTH + c] * w[k / 2][c * WIDTH + r % WIDTH];
            }
        }
    }
    double *queries = numbers(t, N * WIDTH), *keys = numbers(t, N * WIDTH), *s = numbers(t, N * N);
    for (int k = 0; k < N * WIDTH; k++) {
        queries[k] = part[0][k] + part[1][k];
        keys[k] = part[2][k] + part[3][k];
    }
    for (int k = 0; k < N * N; k++) {
        const int i = k / N * WIDTH, j = k % N * WIDTH;
        s[k] = (dot(part[0] + i, part[2] + j, WIDTH) + dot(part[0] + i, part[3] + j, WIDTH) +
                dot(part[1] + i, part[2] + j, WIDTH) + dot(part[1] + i, part[3] + j, WIDTH)) /
               sqrt(WIDTH);
    }
    head *h = statement_attention_head(t, N, N, WIDTH, queries, keys);
    statement_solve(t, h, "softmax", 1.0, 0.0);
    return score_distance(h, s);
}

static double relative_positions(trial *t) {
    enum { WIDTH = 4, KEYS = 9 };
    double most = 0.0;
    for (int inside = 0; inside < 2; inside++) {
        const double tau = 1.7, scale = 0.3;
        double *bias = normals(t, N + KEYS - 1, 1.0), *s = numbers(t, N * KEYS);
        head *h = statement_attention_head(t, N, KEYS, WIDTH, normals(t, N * WIDTH, 1.0),
                                           normals(t, KEYS * WIDTH, 1.0));
        h->problem.scale = scale;
        statement_add_term(h, inside ? OTA_TERM_RELATIVE_INSIDE : OTA_TERM_RELATIVE,
                           ota_array_of(bias, OTA_F64, 1, 1, 1, N + KEYS - 1), 0.0);
        for (int k = 0; k < N * KEYS; k++) {
            const int i = k / KEYS, j = k % KEYS;
            const double b = bias[i - j + KEYS - 1];
            const double product = dot(h->queries + i * WIDTH, h->keys + j * WIDTH, WIDTH);
            s[k] = (inside ? scale * (product + b) : scale * product + b) / tau;
        }
        statement_solve(t, h, "softmax", tau, 0.0);
        most = worse(most, score_distance(h, s));
    }
    return most;
}

static double rotation(trial *t) {
    enum { WIDTH = 10 };
    double most = 0.0;
    double *x = normals(t, N * WIDTH, 1.0), *rotated = copy_of(t, x, N * WIDTH);
    const ota_array array = ota_array_of(rotated, OTA_F64, 1, 1, N, WIDTH);
    if (ota_rope(&array, 5, 0.0, NULL) < 0) return NAN;
    seen(t, rotated, N * WIDTH);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < WIDTH; k += 2) {
            const double angle = (i + 5) * pow(10000.0, -(double)k / (double)WIDTH);
            const double *u = x + i * WIDTH + k, *v = rotated + i * WIDTH + k;
            most = worse(most, fabs(v[0] - (u[0] * cos(angle) - u[1] * sin(angle))));
            most = worse(most, fabs(v[1] - (u[0] * sin(angle) + u[1] * cos(angle))));
            most = worse(most, fabs(hypot(v[0], v[1]) - hypot(u[0], u[1])));
        }
    }
    return most;
}

/* Scores of rotated queries and keys at positions + first. */
static double *rotated_scores(trial *t, const double *queries, const double *keys, int64_t width,
                              int64_t first) {
    double *q = copy_of(t, queries, N * width), *k = copy_of(t, keys, N * width);
    double *s = numbers(t, N * N);
    const ota_array arrays[2] = {ota_array_of(q, OTA_F64, 1, 1, N, width),
                                 ota_array_of(k, OTA_F64, 1, 1, N, width)};
    (void)ota_rope(&arrays[0], first, 0.0, NULL);
    (void)ota_rope(&arrays[1], first, 0.0, NULL);
    for (int at = 0; at < N * N; at++) {
        s[at] = dot(q + at / N * width, k + at % N * width, width);
    }
    return seen(t, s, N * N);
}

static double rotation_is_relative(trial *t) {
    enum { WIDTH = 8 };
    double *q = normals(t, N * WIDTH, 0.4), *k = normals(t, N * WIDTH, 0.4);
    return farthest(rotated_scores(t, q, k, WIDTH, 0), rotated_scores(t, q, k, WIDTH, 100), N * N);
}

static double alibi_slopes(trial *t) {
    double most = 0.0, slopes[32];
    for (int64_t heads = 1; heads <= 32; heads++) {
        ota_alibi_slopes(heads, slopes);
        seen(t, slopes, heads);
        for (int64_t h = 0; h < heads; h++) {
            const double formula = pow(2.0, -8.0 * (double)(h + 1) / (double)heads);
            most = worse(most, fabs(slopes[h] - formula));
        }
    }
    return most;
}

/* Causal: |i - j| = i - j, so the slope multiplies the distance to the past. */
static double alibi_causal(trial *t) {
    double *s = numbers(t, N * N);
    head *h = supported_head(t, OTA_SUPPORT_CAUSAL, 0, 0);
    statement_add_term(h, OTA_TERM_ALIBI, (ota_array){.data = NULL}, 0.25);
    for (int k = 0; k < N * N; k++) {
        s[k] = k % N <= k / N ? h->scores[k] - 0.25 * (k / N - k % N) : -HUGE_VAL;
    }
    statement_solve(t, h, "softmax", 1.0, 0.0);
    return score_distance(h, s);
}

static const statement_check table[] = {
    AT_MOST("CETA-24", "causal exact assignment of random scores is I", random_objective_identity,
            0.0),
    AT_MOST("CETA-24", "softmax/exact on it is refused, in words (0: yes)", causal_exact_refused,
            0.0),
    AT_MOST("CETA-24", "with the unusable pairs pruned it is I", pruned_identity, 1e-12),
    AT_MOST("CETA-24", "plain scaling crawls: rounds times error settles", crawl, 0.1),
    PRINTED_AT_MOST("CETA-24", "doubly stochastic causal attention is solved (0: yes) (E27)",
                    causal_exact_solved, 0.0),
    AT_MOST("CETA-25", "a strict triangle is refused (0: yes)", strict_triangle, 0.0),
    AT_MOST("DER-24", "usable pairs of a causal 12 x 12 mask: 12 of 78 (0: yes)",
            unusable_of_causal, 0.0),
    AT_MOST("DER-24", "window, strided, block: all usable, solved", total_support, 1e-10),
    AT_MOST("CETA-26", "rows 1 and caps kept by prefix, capped, relaxed, online", causal_variants,
            1e-9),
    AT_MOST("CETA-26", "leak of online caps", leak_of_online, 0.0),
    AT_MOST("CETA-26", "leak of block-wise windows into earlier blocks", leak_of_blocks, 1e-8),
    AT_MOST("DER-23", "leak of causal softmax", leak_of_softmax, 0.0),
    AT_MOST("DER-23", "leak of prefix transport", leak_of_prefix, 0.0),
    PRINTED_AT_MOST("DER-23", "leak of one elastic column update (E27)", leak_of_elastic, 1e-9),
    PRINTED_AT_MOST("DER-23", "leak of relaxed columns (E27)", leak_of_relaxed, 1e-9),
    AT_MOST("TOT-43", "boolean and -inf masks, renormalised inside", mask_algebra, 1e-14),
    AT_MOST("TOT-44", "causal pattern", causal, 1e-14),
    AT_MOST("TOT-45", "window pattern", window, 1e-14),
    AT_MOST("TOT-46", "strided pattern, both directions", strided, 1e-14),
    AT_MOST("TOT-47", "block pattern", block, 1e-14),
    AT_MOST("TOT-48", "causal and window and lengths", composed, 1e-14),
    AT_MOST("TOT-48", "padding behind plans of eleven methods: weights and metrics moved", padding,
            1e-11, 11),
    AT_MOST("TOT-49", "absolute positions are four score terms", absolute_positions, 1e-13),
    AT_MOST("TOT-50", "relative bias inside and outside the scale", relative_positions, 1e-14),
    AT_MOST("TOT-51", "rotations of pairs, norms kept", rotation, 4e-15),
    AT_MOST("TOT-52", "shifting all positions by 100 moves scores by", rotation_is_relative, 4e-14),
    AT_MOST("LIT-32", "slopes are 2^(-8h/H)", alibi_slopes, 4 * ROUNDOFF),
    AT_MOST("LIT-32", "causal form subtracts slope (i - j)", alibi_causal, 1e-14),
};
CHECK_GROUP(statement_checks_masks, table);
