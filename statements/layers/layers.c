/* statements/layers/: Statements about layers: attention blocks and how they compose, LayerNorm, and what an analysis
 * makes of states and logits. They may call the public headers and statements/check.h.
 *
 * Group F: blocks, several heads, and how layers compose [CETA-27..30, TOT-53..55, TOT-60..62]. X [tokens][width],
 * weights of head h side by side in W_Q, W_K, W_V [width][heads * head width]. */
#include "src/base/integers.h"
#include "statements/check.h"

enum { TOKENS = 6, WIDTH = 8, HEADS = 2, HEAD = 4, CELLS = TOKENS * TOKENS };

typedef struct layer {
    ota_attention_layer layer;
    ota_problem method;
    ota_options options;
    double *q, *k, *v, *o; /* W_Q, W_K, W_V [WIDTH][HEADS * HEAD], W_O [HEADS * HEAD][WIDTH] */
    double temperatures[HEADS];
    double *workspace;
} layer;

static layer *layer_of(trial *t, const char *method, double size, bool per_head) {
    layer *x = take(t, sizeof *x);
    x->q = normals(t, WIDTH * WIDTH, size);
    x->k = normals(t, WIDTH * WIDTH, size);
    x->v = normals(t, WIDTH * WIDTH, size);
    x->o = normals(t, WIDTH * WIDTH, size);
    x->method.size = sizeof x->method;
    x->options = (ota_options){.size = sizeof x->options, .threads = 1, .tolerance = 1e-13};
    (void)ota_method_parse(method, &x->method, NULL, NULL);
    for (int h = 0; h < HEADS; h++) x->temperatures[h] = per_head ? 0.6 + 0.9 * h : 1.0;
    if (per_head) {
        x->method.temperatures = ota_array_of(x->temperatures, OTA_F64, 1, 1, 1, HEADS);
    }
    x->layer = (ota_attention_layer){.size = sizeof x->layer,
                                     .width = WIDTH,
                                     .heads = HEADS,
                                     .query_weights = x->q,
                                     .key_weights = x->k,
                                     .value_weights = x->v,
                                     .output_weights = x->o,
                                     .method = &x->method,
                                     .options = &x->options};
    const int64_t space = ota_attention_workspace(&x->layer, TOKENS, TOKENS);
    const int64_t more = ota_attention_change_workspace(&x->layer, TOKENS, TOKENS);
    x->workspace = numbers(t, ota_int_max(space, more));
    return x;
}

/* The whole layer by loops: plans by the check's softmax or scaling. Also P_h and P_h V_h W_O,h. */
static void layer_by_loops(const layer *x, const double *input, bool exact, double *y, double *p,
                           double *parts) {
    double q[TOKENS * HEAD], k[TOKENS * HEAD], v[TOKENS * HEAD], s[CELLS], mixed[TOKENS * HEAD];
    memset(y, 0, TOKENS * WIDTH * sizeof *y);
    for (int h = 0; h < HEADS; h++) {
        double *weights = p + h * CELLS, *part = parts + h * TOKENS * WIDTH;
        statement_multiply(input, x->q + h * HEAD, TOKENS, WIDTH, HEAD, WIDTH, q);
        statement_multiply(input, x->k + h * HEAD, TOKENS, WIDTH, HEAD, WIDTH, k);
        statement_multiply(input, x->v + h * HEAD, TOKENS, WIDTH, HEAD, WIDTH, v);
        for (int at = 0; at < CELLS; at++) {
            s[at] = dot(q + at / TOKENS * HEAD, k + at % TOKENS * HEAD, HEAD) / sqrt(HEAD);
        }
        if (exact) {
            statement_sinkhorn_formula(s, TOKENS, TOKENS, x->temperatures[h], NULL, NULL, 20000,
                                       weights);
        } else {
            for (int i = 0; i < TOKENS; i++) {
                softmax_formula(s + i * TOKENS, TOKENS, x->temperatures[h], weights + i * TOKENS);
            }
        }
        statement_multiply(weights, v, TOKENS, TOKENS, HEAD, HEAD, mixed);
        statement_multiply(mixed, x->o + h * HEAD * WIDTH, TOKENS, HEAD, WIDTH, WIDTH, part);
        for (int at = 0; at < TOKENS * WIDTH; at++) y[at] += part[at];
    }
}

/* Y = X + alpha sum_h P_h V_h W_O,h with doubly stochastic P. */
static double block(trial *t) {
    double y[TOKENS * WIDTH], loops[TOKENS * WIDTH], p[HEADS * CELLS],
        parts[HEADS * TOKENS * WIDTH];
    layer *x = layer_of(t, "softmax/exact", 0.4, false);
    double *input = normals(t, TOKENS * WIDTH, 1.0);
    const double alpha = between(t, 0.2, 1.5);
    if (ota_attention_block(&(ota_residual_block){.layer = &x->layer, .alpha = alpha}, input,
                            TOKENS, y, x->workspace, NULL, NULL) < 0) {
        return NAN;
    }
    seen(t, y, TOKENS * WIDTH);
    layer_by_loops(x, input, true, loops, p, parts);
    for (int k = 0; k < TOKENS * WIDTH; k++) loops[k] = input[k] + alpha * loops[k];
    return farthest(y, loops, TOKENS * WIDTH);
}

static double core(trial *t, bool mean) {
    double most = 0.0, y[TOKENS * WIDTH];
    head *h = statement_plan(t, TOKENS, TOKENS, normals(t, CELLS, 1.5), "ceta", 0.7, 1e-14);
    double *x = normals(t, TOKENS * WIDTH, 1.0);
    const double alpha = uniform(t);
    if (ota_identity_core(h->p, x, TOKENS, WIDTH, alpha, y, NULL, NULL) < 0) {
        return t->fault != 0.0 ? HUGE_VAL : NAN;
    }
    t->planted = false;
    seen(t, y, TOKENS * WIDTH);
    for (int k = 0; k < WIDTH; k++) {
        double change = 0.0, low = HUGE_VAL, high = -HUGE_VAL;
        for (int i = 0; i < TOKENS; i++) {
            change += (y[i * WIDTH + k] - x[i * WIDTH + k]) / (double)TOKENS;
            low = fmin(low, x[i * WIDTH + k]);
            high = fmax(high, x[i * WIDTH + k]);
        }
        for (int i = 0; !mean && i < TOKENS; i++) {
            double formula = (1.0 - alpha) * x[i * WIDTH + k];
            for (int j = 0; j < TOKENS; j++)
                formula += alpha * h->p[i * TOKENS + j] * x[j * WIDTH + k];
            const double value = y[i * WIDTH + k];
            most = worse(most, fabs(value - formula));
            most = worse(most, fmax(low - value, value - high));
        }
        if (mean) most = worse(most, fabs(change));
    }
    return most;
}

static double core_mean(trial *t) { return core(t, true); }
static double core_hull(trial *t) { return core(t, false); }

typedef struct layer_run {
    double y[TOKENS * WIDTH], parts[HEADS * TOKENS * WIDTH], p[HEADS * CELLS],
        receiver[HEADS * TOKENS];
    bool failed;
} layer_run;

static layer_run *run_layer(trial *t, const layer *x, const double *input) {
    layer_run *r = take(t, sizeof *r);
    const ota_attention_outputs outputs = {.size = sizeof outputs,
                                           .out = r->y,
                                           .parts = r->parts,
                                           .coupling = r->p,
                                           .receiver = r->receiver};
    r->failed =
        ota_attention_forward(&x->layer,
                              &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = input},
                              &outputs, x->workspace, NULL, NULL) < 0;
    seen(t, r->y, TOKENS * WIDTH);
    if (t->fault != 0.0) r->p[0] += t->fault;
    return r;
}

/* Each head doubly stochastic at its own temperature; plans and output against loops. */
static double many_heads(trial *t) {
    double most = 0.0, y[TOKENS * WIDTH], p[HEADS * CELLS], parts[HEADS * TOKENS * WIDTH];
    layer *x = layer_of(t, "softmax/exact", 0.4, true);
    double *input = normals(t, TOKENS * WIDTH, 1.0);
    const layer_run *r = run_layer(t, x, input);
    if (r->failed) return NAN;
    layer_by_loops(x, input, true, y, p, parts);
    most = worse(most, farthest(r->y, y, TOKENS * WIDTH));
    most = worse(most, farthest(r->p, p, HEADS * CELLS));
    for (int j = 0; j < HEADS * TOKENS; j++) most = worse(most, fabs(r->receiver[j] - 1.0));
    return most;
}

/* The sum over heads is the concatenation; both against loops. */
static double sum_of_heads(trial *t) {
    double most = 0.0, y[TOKENS * WIDTH], p[HEADS * CELLS], parts[HEADS * TOKENS * WIDTH];
    layer *x = layer_of(t, "softmax", 0.5, true);
    double *input = normals(t, TOKENS * WIDTH, 1.0);
    const layer_run *r = run_layer(t, x, input);
    if (r->failed) return NAN;
    layer_by_loops(x, input, false, y, p, parts);
    most = worse(most, farthest(r->y, y, TOKENS * WIDTH));
    most = worse(most, farthest(r->parts, parts, HEADS * TOKENS * WIDTH));
    for (int k = 0; k < TOKENS * WIDTH; k++) {
        most = worse(most, fabs(r->parts[k] + r->parts[TOKENS * WIDTH + k] - r->y[k]));
    }
    return most;
}

/* mean(Y) = mean(concat V) W_O by loops, against the call. `kept`: what must be 0 for exact plans. */
static double means(trial *t, bool kept) {
    double most = 0.0, least = HUGE_VAL, v[TOKENS * WIDTH];
    for (int trials = 0; trials < 5; trials++) {
        layer *x = layer_of(t, "softmax/exact", 0.5, true);
        double *input = normals(t, TOKENS * WIDTH, 1.0), mean[WIDTH] = {0.0}, out[WIDTH];
        ota_attention_means means;
        if (ota_attention_mean_change(&x->layer, input, TOKENS, x->workspace, &means, NULL) < 0) {
            return NAN;
        }
        const layer_run *r = run_layer(t, x, input);
        statement_multiply(input, x->v, TOKENS, WIDTH, WIDTH, WIDTH, v);
        for (int k = 0; k < TOKENS * WIDTH; k++) mean[k % WIDTH] += v[k] / (double)TOKENS;
        statement_multiply(mean, x->o, 1, WIDTH, WIDTH, WIDTH, out);
        double moved = 0.0;
        for (int k = 0; k < WIDTH; k++) {
            double y = 0.0, from = 0.0;
            for (int i = 0; i < TOKENS; i++) {
                y += r->y[i * WIDTH + k] / (double)TOKENS;
                from += input[i * WIDTH + k] / (double)TOKENS;
            }
            most = worse(most, fabs(y - out[k]));
            moved = fmax(moved, fabs(y - from));
        }
        most = worse(most, means.value_change);
        most = worse(most, means.receiver_error);
        least = fmin(least, means.input_change);
        most = worse(most, fabs(means.input_change - moved));
    }
    return kept ? most : seen_too(t, least);
}

static double means_kept(trial *t) { return means(t, true); }
static double input_mean_moves(trial *t) { return means(t, false); }

/* ---- changes of a layer ---- */

typedef enum of_change { OUTPUT, WEIGHTS, WHOLE_BLOCK } of_change;

/* Two inputs: the measured change against loops, and its ratios to both bounds, minus 1. */
static double change(trial *t, of_change what) {
    double most = 0.0;
    layer *x = layer_of(t, "softmax", 0.4, false);
    double *a = normals(t, TOKENS * WIDTH, 1.0), *b = copy_of(t, a, TOKENS * WIDTH);
    const double size = pow(10.0, between(t, -3.0, 0.0)), alpha = 0.7;
    for (int k = 0; k < TOKENS * WIDTH; k++) b[k] += size * normal(t);
    ota_change output, weights, whole;
    if (ota_attention_change(&x->layer,
                             &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = a},
                             &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = b},
                             x->workspace, &output, &weights, NULL) < 0 ||
        ota_block_change(&(ota_residual_block){.layer = &x->layer, .alpha = alpha}, a, b, TOKENS,
                         x->workspace, &whole, NULL) < 0) {
        return NAN;
    }
    double y[2][TOKENS * WIDTH], p[2][HEADS * CELLS], parts[HEADS * TOKENS * WIDTH];
    layer_by_loops(x, a, false, y[0], p[0], parts);
    layer_by_loops(x, b, false, y[1], p[1], parts);
    double loops = statement_row_change(y[0], y[1], TOKENS, WIDTH);
    const ota_change *of = what == OUTPUT ? &output : what == WEIGHTS ? &weights : &whole;
    if (what == WEIGHTS) {
        loops = 0.0;
        for (int i = 0; i < HEADS * TOKENS; i++) {
            double l1 = 0.0;
            for (int j = 0; j < TOKENS; j++)
                l1 += fabs(p[0][i * TOKENS + j] - p[1][i * TOKENS + j]);
            loops = fmax(loops, l1);
        }
    }
    if (what == WHOLE_BLOCK) {
        for (int k = 0; k < TOKENS * WIDTH; k++) {
            y[0][k] = a[k] + alpha * y[0][k];
            y[1][k] = b[k] + alpha * y[1][k];
        }
        loops = statement_row_change(y[0], y[1], TOKENS, WIDTH);
    }
    most = worse(most, fabs(seen_number(t, of->measured) - loops));
    most = worse(most, fmax(of->printed_ratio, of->sharp_ratio) - 1.0);
    most = worse(most, of->measured / of->printed - 1.0);
    return most;
}

static double output_change(trial *t) { return change(t, OUTPUT); }
static double weights_change(trial *t) { return change(t, WEIGHTS); }
static double block_change(trial *t) { return change(t, WHOLE_BLOCK); }

/* The printed weight bound (|dK| |Q_i| + |K'| |dQ_i|)/sqrt(head width) by loops, one head, one query row. */
static double weights_bound_formula(trial *t) {
    layer *x = layer_of(t, "softmax", 0.4, false);
    double *a = normals(t, TOKENS * WIDTH, 1.0), *b = copy_of(t, a, TOKENS * WIDTH);
    for (int k = 0; k < TOKENS * WIDTH; k++) b[k] += 0.1 * normal(t);
    ota_change weights;
    if (ota_attention_change(&x->layer,
                             &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = a},
                             &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = b},
                             x->workspace, NULL, &weights, NULL) < 0) {
        return NAN;
    }
    double bound = 0.0, zeros[HEAD] = {0.0};
    for (int h = 0; h < HEADS; h++) {
        double q[2][TOKENS * HEAD], k[2][TOKENS * HEAD], norm = 0.0;
        for (int side = 0; side < 2; side++) {
            const double *input = side == 0 ? a : b;
            statement_multiply(input, x->q + h * HEAD, TOKENS, WIDTH, HEAD, WIDTH, q[side]);
            statement_multiply(input, x->k + h * HEAD, TOKENS, WIDTH, HEAD, WIDTH, k[side]);
        }
        for (int j = 0; j < TOKENS; j++)
            norm = fmax(norm, statement_row_change(k[1] + j * HEAD, zeros, 1, HEAD));
        const double moved = statement_row_change(k[0], k[1], TOKENS, HEAD);
        for (int i = 0; i < TOKENS; i++) {
            const double query = statement_row_change(q[0] + i * HEAD, zeros, 1, HEAD);
            const double dq = statement_row_change(q[0] + i * HEAD, q[1] + i * HEAD, 1, HEAD);
            bound = fmax(bound, (moved * query + norm * dq) / sqrt(HEAD));
        }
    }
    return fabs(seen_number(t, weights.printed) / bound - 1.0);
}

/* ---- composition ---- */

enum { SIZE = 20 };

static double *low_rank_layer(trial *t, int64_t width) {
    head *h = statement_attention_head(t, SIZE, SIZE, width, normals(t, SIZE * width, 1.0),
                                       normals(t, SIZE * width, 1.0));
    statement_solve(t, h, "softmax", 0.0, 0.0);
    return h->p;
}

static double rank_of(trial *t, const double *coupling) {
    double *ratio = numbers(t, SIZE * SIZE), *pivots = numbers(t, SIZE);
    int64_t rank = -1;
    if (ota_log_ratios(coupling, SIZE, SIZE, ratio, NULL, NULL) < 0 ||
        ota_rank(ratio, SIZE, SIZE - 1, 1e-9, pivots, &rank, NULL, NULL) < 0) {
        return NAN;
    }
    return (double)rank;
}

/* One layer of 4 dimensions has rank 4, two have more: distance from (4, SIZE - 1). */
static double ranks(trial *t) {
    double *first = low_rank_layer(t, 4), *second = low_rank_layer(t, 4);
    double *both = numbers(t, SIZE * SIZE);
    t->planted = false;
    if (ota_compose(second, first, SIZE, SIZE, SIZE, both, NULL, NULL) < 0) {
        return t->fault != 0.0 ? HUGE_VAL : NAN;
    }
    const double one = seen_number(t, rank_of(t, first));
    return worse(fabs(one - 4.0), fabs(rank_of(t, both) - (SIZE - 1)));
}

/* dk >= min(n, m - 1) obstructs nothing: log ratios give keys whose softmax is S itself. */
static double no_obstruction(trial *t) {
    enum { M = 4 };
    double most = 0.0, keys[M * (M - 1)] = {0.0}, ratio[SIZE * (M - 1)];
    double *s = numbers(t, SIZE * M);
    for (int i = 0; i < SIZE; i++) memcpy(s + i * M, distribution(t, M, 1.0), M * sizeof *s);
    if (ota_log_ratios(s, SIZE, M, ratio, NULL, NULL) < 0) return NAN;
    for (int j = 1; j < M; j++) keys[j * (M - 1) + j - 1] = 1.0;
    head *h = statement_attention_head(t, SIZE, M, M - 1, ratio, keys);
    h->problem.scale = 1.0;
    statement_solve(t, h, "softmax", 0.0, 0.0);
    for (int k = 0; k < SIZE * M; k++) most = worse(most, fabs(h->p[k] - s[k]));
    return most;
}

static double composition(trial *t) {
    double *first = low_rank_layer(t, 5), *second = low_rank_layer(t, 3), most = 0.0;
    double *both = numbers(t, SIZE * SIZE), *loops = numbers(t, SIZE * SIZE);
    if (ota_compose(second, first, SIZE, SIZE, SIZE, both, NULL, NULL) < 0) {
        return t->fault != 0.0 ? HUGE_VAL : NAN;
    }
    statement_multiply(second, first, SIZE, SIZE, SIZE, SIZE, loops);
    most = farthest(both, loops, SIZE * SIZE);
    for (int i = 0; i < SIZE; i++) most = worse(most, fabs(sum_of(both + i * SIZE, SIZE) - 1.0));
    return most;
}

/* sigma_1 of the row-centred log S by the library against squaring: the error of the best rank-0
 * approximation (Eckart-Young); after the first direction is taken off, that of rank 1. */
static double eckart_young(trial *t) {
    double *s = low_rank_layer(t, 4), *centred = numbers(t, SIZE * SIZE), most = 0.0;
    double *space = numbers(t, 2 * SIZE * SIZE), x[SIZE] = {0.0}, y[SIZE];
    for (int i = 0; i < SIZE; i++) {
        double mean = 0.0;
        for (int j = 0; j < SIZE; j++) mean += log(s[i * SIZE + j]) / (double)SIZE;
        for (int j = 0; j < SIZE; j++) centred[i * SIZE + j] = log(s[i * SIZE + j]) - mean;
    }
    t->planted = false;
    for (int rank = 0; rank < 4; rank++) {
        const double norm = ota_spectral_norm(centred, SIZE, SIZE, SIZE, space, NULL);
        const double sigma = statement_leading(centred, SIZE, SIZE, x);
        most = worse(most, fabs(seen_number(t, norm / sigma) - 1.0));
        statement_multiply(centred, x, SIZE, SIZE, 1, 1, y);
        for (int k = 0; k < SIZE * SIZE; k++) centred[k] -= y[k / SIZE] * x[k % SIZE];
    }
    /* Rank 4 is all there is. */
    return worse(most, ota_spectral_norm(centred, SIZE, SIZE, SIZE, space, NULL));
}

static const statement_check table[] = {
    AT_MOST("CETA-27", "X + alpha P V W_O with exact plans, by loops", block, 1e-11, 5),
    AT_MOST("CETA-28", "(1-a) X + a P X: change of the mean", core_mean, 1e-13, 10),
    AT_MOST("CETA-28", "... by loops, and inside the box of X", core_hull, 4e-15, 10),
    AT_MOST("CETA-29", "two heads at two temperatures: plans and output by loops", many_heads,
            1e-11, 5),
    AT_MOST("CETA-30", "mean(Y) - mean(concat V) W_O, receivers, by loops", means_kept, 1e-12),
    AT_LEAST("CETA-30", "... while the mean of the input moves, at least", input_mean_moves, 0.01),
    AT_MOST("TOT-53", "sum over heads = concatenation, by loops", sum_of_heads, 1e-13, 5),
    AT_MOST("TOT-54", "output change by loops; over both bounds, minus 1", output_change, 1e-12,
            12),
    AT_MOST("TOT-55", "weight change by loops; over both bounds, minus 1", weights_change, 1e-12,
            12),
    AT_MOST("TOT-55", "the printed bound by loops, relative", weights_bound_formula, 1e-12, 12),
    AT_MOST("TOT-60", "block change by loops; over both bounds, minus 1", block_change, 1e-12, 12),
    AT_MOST("TOT-61", "one layer of 4 dimensions has rank 4, two have all", ranks, 0.0),
    AT_MOST("TOT-61", "m - 1 dimensions give any S back", no_obstruction, 1e-15),
    AT_MOST("TOT-62", "S2 S1 by loops, rows 1", composition, 4e-15),
    AT_MOST("TOT-62", "tail singular values of the centred log S by deflation", eckart_young, 1e-6),
};
CHECK_GROUP(statement_checks_layers, table);
