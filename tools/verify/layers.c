/* Group F: blocks, several heads, LayerNorm, and how layers compose [CETA-27..30, TOT-53..62]. X [tokens][width],
 * weights of head h side by side in W_Q, W_K, W_V [width][heads * head width]. */
#include "check.h"

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
    x->workspace = numbers(t, space > more ? space : more);
    return x;
}

/* c = a b, a [rows][inner], b [inner][columns] of row stride `stride`. */
static void multiply(const double *a, const double *b, int64_t rows, int64_t inner, int64_t columns,
                     int64_t stride, double *c) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            long double sum = 0.0L;
            for (int64_t k = 0; k < inner; k++)
                sum += (long double)a[i * inner + k] * b[k * stride + j];
            c[i * columns + j] = (double)sum;
        }
    }
}

/* The whole layer by loops: plans by the check's softmax or scaling. Also P_h and P_h V_h W_O,h. */
static void layer_by_loops(const layer *x, const double *input, bool exact, double *y, double *p,
                           double *parts) {
    double q[TOKENS * HEAD], k[TOKENS * HEAD], v[TOKENS * HEAD], s[CELLS], mixed[TOKENS * HEAD];
    memset(y, 0, TOKENS * WIDTH * sizeof *y);
    for (int h = 0; h < HEADS; h++) {
        double *weights = p + h * CELLS, *part = parts + h * TOKENS * WIDTH;
        multiply(input, x->q + h * HEAD, TOKENS, WIDTH, HEAD, WIDTH, q);
        multiply(input, x->k + h * HEAD, TOKENS, WIDTH, HEAD, WIDTH, k);
        multiply(input, x->v + h * HEAD, TOKENS, WIDTH, HEAD, WIDTH, v);
        for (int at = 0; at < CELLS; at++) {
            s[at] = dot(q + at / TOKENS * HEAD, k + at % TOKENS * HEAD, HEAD) / sqrt(HEAD);
        }
        if (exact) {
            tool_sinkhorn_formula(s, TOKENS, TOKENS, x->temperatures[h], NULL, NULL, 20000,
                                  weights);
        } else {
            for (int i = 0; i < TOKENS; i++) {
                softmax_formula(s + i * TOKENS, TOKENS, x->temperatures[h], weights + i * TOKENS);
            }
        }
        multiply(weights, v, TOKENS, TOKENS, HEAD, HEAD, mixed);
        multiply(mixed, x->o + h * HEAD * WIDTH, TOKENS, HEAD, WIDTH, WIDTH, part);
        for (int at = 0; at < TOKENS * WIDTH; at++) y[at] += part[at];
    }
}

/* Y = X + alpha sum_h P_h V_h W_O,h with doubly stochastic P. */
static double block(trial *t) {
    double most = 0.0, y[TOKENS * WIDTH], loops[TOKENS * WIDTH], p[HEADS * CELLS],
           parts[HEADS * TOKENS * WIDTH];
    for (int trials = 0; trials < 5; trials++) {
        layer *x = layer_of(t, "softmax/exact", 0.4, false);
        double *input = normals(t, TOKENS * WIDTH, 1.0);
        const double alpha = between(t, 0.2, 1.5);
        if (ota_attention_block(&x->layer, NULL, alpha, input, TOKENS, y, x->workspace, NULL,
                                NULL) < 0) {
            return NAN;
        }
        seen(t, y, TOKENS * WIDTH);
        layer_by_loops(x, input, true, loops, p, parts);
        for (int k = 0; k < TOKENS * WIDTH; k++) loops[k] = input[k] + alpha * loops[k];
        most = worse(most, farthest(y, loops, TOKENS * WIDTH));
    }
    return most;
}

static double core(trial *t, bool mean) {
    double most = 0.0, y[TOKENS * WIDTH];
    for (int trials = 0; trials < 10; trials++) {
        head *h = tool_plan_of(t, TOKENS, TOKENS, normals(t, CELLS, 1.5), "ceta", 0.7, 1e-14);
        double *x = normals(t, TOKENS * WIDTH, 1.0);
        const double alpha = uniform(t);
        if (ota_identity_core(h->p, x, TOKENS, WIDTH, alpha, y, NULL) < 0) {
            return t->fault != 0.0 ? HUGE_VAL : NAN;
        }
        t->planted = false;
        seen(t, y, TOKENS * WIDTH);
        for (int k = 0; k < WIDTH; k++) {
            double change = 0.0, low = HUGE_VAL, high = -HUGE_VAL;
            for (int i = 0; i < TOKENS; i++) {
                change += (y[i * WIDTH + k] - x[i * WIDTH + k]) / TOKENS;
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
    r->failed = ota_attention_forward(&x->layer, input, TOKENS, NULL, TOKENS, &outputs,
                                      x->workspace, NULL, NULL) < 0;
    seen(t, r->y, TOKENS * WIDTH);
    if (t->fault != 0.0) r->p[0] += t->fault;
    return r;
}

/* Each head doubly stochastic at its own temperature; plans and output against loops. */
static double many_heads(trial *t) {
    double most = 0.0, y[TOKENS * WIDTH], p[HEADS * CELLS], parts[HEADS * TOKENS * WIDTH];
    for (int trials = 0; trials < 5; trials++) {
        layer *x = layer_of(t, "softmax/exact", 0.4, true);
        double *input = normals(t, TOKENS * WIDTH, 1.0);
        const layer_run *r = run_layer(t, x, input);
        if (r->failed) return NAN;
        layer_by_loops(x, input, true, y, p, parts);
        most = worse(most, farthest(r->y, y, TOKENS * WIDTH));
        most = worse(most, farthest(r->p, p, HEADS * CELLS));
        for (int j = 0; j < HEADS * TOKENS; j++) most = worse(most, fabs(r->receiver[j] - 1.0));
    }
    return most;
}

/* The sum over heads is the concatenation; both against loops. */
static double sum_of_heads(trial *t) {
    double most = 0.0, y[TOKENS * WIDTH], p[HEADS * CELLS], parts[HEADS * TOKENS * WIDTH];
    for (int trials = 0; trials < 5; trials++) {
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
        multiply(input, x->v, TOKENS, WIDTH, WIDTH, WIDTH, v);
        for (int k = 0; k < TOKENS * WIDTH; k++) mean[k % WIDTH] += v[k] / TOKENS;
        multiply(mean, x->o, 1, WIDTH, WIDTH, WIDTH, out);
        double moved = 0.0;
        for (int k = 0; k < WIDTH; k++) {
            double y = 0.0, from = 0.0;
            for (int i = 0; i < TOKENS; i++) {
                y += r->y[i * WIDTH + k] / TOKENS;
                from += input[i * WIDTH + k] / TOKENS;
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

/* ||A||_2 of [rows][columns] and a unit vector x with ||A x|| equal to it: the largest column of
 * (A^T A)^(2^24), by squaring. columns <= 20. */
static double leading(const double *a, int64_t rows, int64_t columns, double *x) {
    double b[20 * 20], square[20 * 20], most = 0.0, length = 0.0;
    for (int64_t k = 0; k < columns * columns; k++) {
        b[k] = 0.0;
        for (int64_t i = 0; i < rows; i++)
            b[k] += a[i * columns + k / columns] * a[i * columns + k % columns];
    }
    for (int step = 0; step < 24; step++) {
        double trace = 0.0;
        for (int64_t k = 0; k < columns; k++) trace += b[k * columns + k];
        for (int64_t k = 0; k < columns * columns; k++) b[k] /= trace;
        multiply(b, b, columns, columns, columns, columns, square);
        memcpy(b, square, (size_t)(columns * columns) * sizeof *b);
    }
    for (int64_t k = 0; k < columns; k++) {
        const double norm = sqrt(dot(b + k * columns, b + k * columns, columns));
        if (norm > most) memcpy(x, b + k * columns, (size_t)columns * sizeof *x);
        most = fmax(most, norm);
    }
    for (int64_t k = 0; k < columns; k++) x[k] /= most;
    for (int64_t i = 0; i < rows; i++) length = hypot(length, dot(a + i * columns, x, columns));
    return length;
}

static double row_change(const double *a, const double *b, int64_t rows, int64_t width) {
    double most = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        double square = 0.0;
        for (int64_t k = 0; k < width; k++)
            square += (a[i * width + k] - b[i * width + k]) * (a[i * width + k] - b[i * width + k]);
        most = fmax(most, sqrt(square));
    }
    return most;
}

typedef enum of_change { OUTPUT, WEIGHTS, WHOLE_BLOCK } of_change;

/* Two inputs: the measured change against loops, and its ratios to both bounds, minus 1. */
static double change(trial *t, of_change what) {
    double most = 0.0;
    for (int trials = 0; trials < 12; trials++) {
        layer *x = layer_of(t, "softmax", 0.4, false);
        double *a = normals(t, TOKENS * WIDTH, 1.0), *b = copy_of(t, a, TOKENS * WIDTH);
        const double size = pow(10.0, between(t, -3.0, 0.0)), alpha = 0.7;
        for (int k = 0; k < TOKENS * WIDTH; k++) b[k] += size * normal(t);
        ota_change output, weights, whole;
        if (ota_attention_change(&x->layer, a, NULL, b, NULL, TOKENS, TOKENS, x->workspace, &output,
                                 &weights, NULL) < 0 ||
            ota_block_change(&x->layer, NULL, alpha, a, b, TOKENS, x->workspace, &whole, NULL) <
                0) {
            return NAN;
        }
        double y[2][TOKENS * WIDTH], p[2][HEADS * CELLS], parts[HEADS * TOKENS * WIDTH];
        layer_by_loops(x, a, false, y[0], p[0], parts);
        layer_by_loops(x, b, false, y[1], p[1], parts);
        double loops = row_change(y[0], y[1], TOKENS, WIDTH);
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
            loops = row_change(y[0], y[1], TOKENS, WIDTH);
        }
        most = worse(most, fabs(seen_number(t, of->measured) - loops));
        most = worse(most, fmax(of->printed_ratio, of->sharp_ratio) - 1.0);
        most = worse(most, of->measured / of->printed - 1.0);
    }
    return most;
}

static double output_change(trial *t) { return change(t, OUTPUT); }
static double weights_change(trial *t) { return change(t, WEIGHTS); }
static double block_change(trial *t) { return change(t, WHOLE_BLOCK); }

/* The printed weight bound (|dK| |Q_i| + |K'| |dQ_i|)/sqrt(head width) by loops, one head, one query row. */
static double weights_bound_formula(trial *t) {
    double most = 0.0;
    for (int trials = 0; trials < 12; trials++) {
        layer *x = layer_of(t, "softmax", 0.4, false);
        double *a = normals(t, TOKENS * WIDTH, 1.0), *b = copy_of(t, a, TOKENS * WIDTH);
        for (int k = 0; k < TOKENS * WIDTH; k++) b[k] += 0.1 * normal(t);
        ota_change weights;
        if (ota_attention_change(&x->layer, a, NULL, b, NULL, TOKENS, TOKENS, x->workspace, NULL,
                                 &weights, NULL) < 0) {
            return NAN;
        }
        double bound = 0.0, zeros[HEAD] = {0.0};
        for (int h = 0; h < HEADS; h++) {
            double q[2][TOKENS * HEAD], k[2][TOKENS * HEAD], norm = 0.0;
            for (int side = 0; side < 2; side++) {
                const double *input = side == 0 ? a : b;
                multiply(input, x->q + h * HEAD, TOKENS, WIDTH, HEAD, WIDTH, q[side]);
                multiply(input, x->k + h * HEAD, TOKENS, WIDTH, HEAD, WIDTH, k[side]);
            }
            for (int j = 0; j < TOKENS; j++)
                norm = fmax(norm, row_change(k[1] + j * HEAD, zeros, 1, HEAD));
            const double moved = row_change(k[0], k[1], TOKENS, HEAD);
            for (int i = 0; i < TOKENS; i++) {
                const double query = row_change(q[0] + i * HEAD, zeros, 1, HEAD);
                const double dq = row_change(q[0] + i * HEAD, q[1] + i * HEAD, 1, HEAD);
                bound = fmax(bound, (moved * query + norm * dq) / sqrt(HEAD));
            }
        }
        most = worse(most, fabs(seen_number(t, weights.printed) / bound - 1.0));
    }
    return most;
}

/* ---- LayerNorm ---- */

static double layernorm_golden(trial *t) {
    static const double golden[4] = {-1.341635419968927, -0.447211806656309, 0.447211806656309,
                                     1.341635419968927};
    const double u[4] = {1, 2, 3, 4};
    double y[4];
    if (ota_layernorm(u, 1, 4, NULL, NULL, 1e-5, y, NULL, NULL) < 0) return NAN;
    return farthest(seen(t, y, 4), golden, 4);
}

static void layernorm_formula(const double *u, const double *gamma, const double *beta, double *y) {
    const double mean = sum_of(u, WIDTH) / WIDTH;
    double square = 0.0;
    for (int k = 0; k < WIDTH; k++) square += (u[k] - mean) * (u[k] - mean);
    const double sigma = sqrt(square / WIDTH + 1e-3);
    for (int k = 0; k < WIDTH; k++)
        y[k] = (gamma != NULL ? gamma[k] : 1.0) * (u[k] - mean) / sigma +
               (beta != NULL ? beta[k] : 0.0);
}

static double layernorm(trial *t) {
    double *u = normals(t, TOKENS * WIDTH, 2.0), *gamma = normals(t, WIDTH, 1.0),
           *beta = normals(t, WIDTH, 1.0), y[TOKENS * WIDTH], formula[WIDTH], most = 0.0;
    if (ota_layernorm(u, TOKENS, WIDTH, gamma, beta, 1e-3, y, NULL, NULL) < 0) return NAN;
    seen(t, y, TOKENS * WIDTH);
    for (int i = 0; i < TOKENS; i++) {
        layernorm_formula(u + i * WIDTH, gamma, beta, formula);
        most = worse(most, farthest(y + i * WIDTH, formula, WIDTH));
    }
    return most;
}

/* Jacobian and backward against differences of the formula. */
static double layernorm_jacobian(trial *t) {
    double *u = normals(t, WIDTH, 1.0), *dy = normals(t, WIDTH, 1.0),
           *gamma = normals(t, WIDTH, 1.0);
    double jacobian[WIDTH * WIDTH], du[WIDTH], most = 0.0;
    if (ota_layernorm_jacobian(u, WIDTH, 1e-3, jacobian, NULL) < 0 ||
        ota_layernorm_backward(u, 1, WIDTH, gamma, 1e-3, dy, du, NULL, NULL, NULL) < 0) {
        return NAN;
    }
    seen(t, jacobian, WIDTH * WIDTH);
    for (int k = 0; k < WIDTH; k++) {
        const double step = 1e-3, at[4] = {1.0, -1.0, 2.0, -2.0};
        double *moved = copy_of(t, u, WIDTH), y[4][WIDTH], back = 0.0;
        for (int side = 0; side < 4; side++) {
            moved[k] = u[k] + at[side] * step;
            layernorm_formula(moved, NULL, NULL, y[side]);
        }
        for (int j = 0; j < WIDTH; j++) {
            const double slope = (8.0 * (y[0][j] - y[1][j]) - (y[2][j] - y[3][j])) / (12.0 * step);
            most = worse(most, fabs(slope - jacobian[j * WIDTH + k]));
            back += dy[j] * gamma[j] * slope;
        }
        most = worse(most, fabs(back - du[k]));
    }
    return most;
}

static ota_layernorm_spectrum geometry(trial *t, const double *u, int64_t width,
                                       const double *gamma, double epsilon) {
    ota_layernorm_spectrum spectrum;
    memset(&spectrum, 0, sizeof spectrum);
    spectrum.parallel = spectrum.perpendicular = spectrum.exact = spectrum.printed = NAN;
    (void)ota_layernorm_geometry(u, width, gamma, epsilon, numbers(t, width), &spectrum, NULL);
    return spectrum;
}

/* J c = eps/sigma^3 c, J x = x/sigma for x orthogonal to 1 and c, J 1 = 0. */
static double layernorm_spectrum(trial *t) {
    double most = 0.0, jacobian[WIDTH * WIDTH];
    for (int trials = 0; trials < 20; trials++) {
        double *u = normals(t, WIDTH, 1.0), *x = normals(t, WIDTH, 1.0), c[WIDTH];
        const double mean = sum_of(u, WIDTH) / WIDTH;
        for (int k = 0; k < WIDTH; k++) c[k] = u[k] - mean;
        const double sigma = sqrt(dot(c, c, WIDTH) / WIDTH + 1e-3),
                     level = sum_of(x, WIDTH) / WIDTH;
        for (int k = 0; k < WIDTH; k++) x[k] -= level;
        const double along = dot(x, c, WIDTH) / dot(c, c, WIDTH);
        for (int k = 0; k < WIDTH; k++) x[k] -= along * c[k];
        if (ota_layernorm_jacobian(u, WIDTH, 1e-3, jacobian, NULL) < 0) return NAN;
        const ota_layernorm_spectrum s = geometry(t, u, WIDTH, NULL, 1e-3);
        const double parallel = seen_number(t, s.parallel);
        most = worse(most, fabs(parallel - 1e-3 / (sigma * sigma * sigma)));
        most = worse(most, fabs(s.perpendicular - 1.0 / sigma));
        most = worse(most, fabs((double)s.perpendicular_count - (WIDTH - 2)));
        for (int k = 0; k < WIDTH; k++) {
            const double *row = jacobian + k * WIDTH;
            most = worse(most, fabs(dot(row, c, WIDTH) - parallel * c[k]));
            most = worse(most, fabs(dot(row, x, WIDTH) - s.perpendicular * x[k]));
            most = worse(most, fabs(sum_of(row, WIDTH)));
        }
    }
    /* Where c = 0 the 1/sigma space has one dimension more. */
    double *even = numbers(t, WIDTH);
    const ota_layernorm_spectrum s = geometry(t, even, WIDTH, NULL, 1e-3);
    return worse(most, fabs((double)s.perpendicular_count - (WIDTH - 1)));
}

/* ||diag(gamma) J||_2 by squaring: equal to `exact`, at most `printed`. */
static double layernorm_lipschitz(trial *t) {
    double most = 0.0, jacobian[WIDTH * WIDTH];
    for (int trials = 0; trials < 10; trials++) {
        double *u = normals(t, WIDTH, 1.0), *gamma = normals(t, WIDTH, 1.0);
        if (ota_layernorm_jacobian(u, WIDTH, 1e-3, jacobian, NULL) < 0) return NAN;
        for (int k = 0; k < WIDTH * WIDTH; k++) jacobian[k] *= gamma[k / WIDTH];
        double x[WIDTH];
        const double norm = leading(jacobian, WIDTH, WIDTH, x);
        const ota_layernorm_spectrum s = geometry(t, u, WIDTH, gamma, 1e-3);
        most = worse(most, fabs(seen_number(t, s.exact) / norm - 1.0));
        most = worse(most, norm / s.printed - 1.0);
        most = worse(most, s.printed / s.global_printed - 1.0);
    }
    return most;
}

static const double first_axis[4] = {1, 0, 0, 0}, ramp[4] = {1, 2, 3, 4};

static double layernorm_golden_norm(trial *t) {
    const ota_layernorm_spectrum s = geometry(t, ramp, 4, first_axis, 1e-5);
    const double two[2] = {1.0, 3.0}, sigma = sqrt(1.0 + 1e-5);
    const ota_layernorm_spectrum pair = geometry(t, two, 2, NULL, 1e-5);
    return worse(fabs(seen_number(t, s.exact) - 0.4899),
                 fabs(pair.exact / (1e-5 / (sigma * sigma * sigma)) - 1.0));
}

/* (A.26) as an equality: ||gamma||_inf / sigma less the norm, at gamma = e_1, u = (1, 2, 3, 4). */
static double layernorm_equality(trial *t) {
    const ota_layernorm_spectrum s = geometry(t, ramp, 4, first_axis, 1e-5);
    return s.printed - s.exact;
}

static double layernorm_changes(trial *t) {
    double most = 0.0, y[2][WIDTH], space[2 * WIDTH];
    for (int trials = 0; trials < 100; trials++) {
        double *u = normals(t, WIDTH, 1.0), *v = copy_of(t, u, WIDTH),
               *gamma = normals(t, WIDTH, 1.0);
        const double size = pow(10.0, between(t, -3.0, 1.0));
        for (int k = 0; k < WIDTH; k++) v[k] += size * normal(t);
        ota_change change;
        if (ota_layernorm_change(u, v, WIDTH, gamma, 1e-3, space, &change, NULL) < 0) return NAN;
        layernorm_formula(u, gamma, NULL, y[0]);
        layernorm_formula(v, gamma, NULL, y[1]);
        most =
            worse(most, fabs(seen_number(t, change.measured) - row_change(y[0], y[1], 1, WIDTH)));
        most = worse(most,
                     fmax(change.measured / change.printed, change.measured / change.sharp) - 1.0);
    }
    return most;
}

/* ---- composition ---- */

enum { SIZE = 20 };

static double *low_rank_layer(trial *t, int64_t width) {
    head *h = tool_attention_head(t, SIZE, SIZE, width, normals(t, SIZE * width, 1.0),
                                  normals(t, SIZE * width, 1.0));
    tool_solve_head(t, h, "softmax", 0.0, 0.0);
    return h->p;
}

static double rank_of(trial *t, const double *coupling) {
    double *ratio = numbers(t, SIZE * SIZE), *pivots = numbers(t, SIZE);
    int64_t rank = -1;
    if (ota_log_ratios(coupling, SIZE, SIZE, ratio, NULL) < 0 ||
        ota_rank(ratio, SIZE, SIZE - 1, 1e-9, pivots, &rank, NULL) < 0) {
        return NAN;
    }
    return (double)rank;
}

/* One layer of 4 dimensions has rank 4, two have more: distance from (4, SIZE - 1). */
static double ranks(trial *t) {
    double *first = low_rank_layer(t, 4), *second = low_rank_layer(t, 4);
    double *both = numbers(t, SIZE * SIZE);
    t->planted = false;
    if (ota_compose(second, first, SIZE, SIZE, SIZE, both, NULL) < 0) {
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
    if (ota_log_ratios(s, SIZE, M, ratio, NULL) < 0) return NAN;
    for (int j = 1; j < M; j++) keys[j * (M - 1) + j - 1] = 1.0;
    head *h = tool_attention_head(t, SIZE, M, M - 1, ratio, keys);
    h->problem.scale = 1.0;
    tool_solve_head(t, h, "softmax", 0.0, 0.0);
    for (int k = 0; k < SIZE * M; k++) most = worse(most, fabs(h->p[k] - s[k]));
    return most;
}

static double composition(trial *t) {
    double *first = low_rank_layer(t, 5), *second = low_rank_layer(t, 3), most = 0.0;
    double *both = numbers(t, SIZE * SIZE), *loops = numbers(t, SIZE * SIZE);
    if (ota_compose(second, first, SIZE, SIZE, SIZE, both, NULL) < 0) {
        return t->fault != 0.0 ? HUGE_VAL : NAN;
    }
    multiply(second, first, SIZE, SIZE, SIZE, SIZE, loops);
    most = farthest(both, loops, SIZE * SIZE);
    for (int i = 0; i < SIZE; i++) most = worse(most, fabs(sum_of(both + i * SIZE, SIZE) - 1.0));
    return most;
}

/* sigma_1 of the row-centred log S by the library against squaring: the error of the best rank-0
 * approximation (Eckart-Young); after the first direction is taken off, that of rank 1. */
static double eckart_young(trial *t) {
    double *s = low_rank_layer(t, 4), *centred = numbers(t, SIZE * SIZE), most = 0.0;
    double *space = numbers(t, 2 * SIZE * SIZE), x[SIZE], y[SIZE];
    for (int i = 0; i < SIZE; i++) {
        double mean = 0.0;
        for (int j = 0; j < SIZE; j++) mean += log(s[i * SIZE + j]) / SIZE;
        for (int j = 0; j < SIZE; j++) centred[i * SIZE + j] = log(s[i * SIZE + j]) - mean;
    }
    t->planted = false;
    for (int rank = 0; rank < 4; rank++) {
        const double norm = ota_spectral_norm(centred, SIZE, SIZE, SIZE, space);
        const double sigma = leading(centred, SIZE, SIZE, x);
        most = worse(most, fabs(seen_number(t, norm / sigma) - 1.0));
        multiply(centred, x, SIZE, SIZE, 1, 1, y);
        for (int k = 0; k < SIZE * SIZE; k++) centred[k] -= y[k / SIZE] * x[k % SIZE];
    }
    /* Rank 4 is all there is. */
    return worse(most, ota_spectral_norm(centred, SIZE, SIZE, SIZE, space));
}

static const tool_check rows[] = {
    {"CETA-27", CORRECTED, "X + alpha P V W_O with exact plans, by loops", block, AT_MOST, 1e-11,
     true},
    {"CETA-28", CORRECTED, "(1-a) X + a P X: change of the mean", core_mean, AT_MOST, 1e-13, true},
    {"CETA-28", CORRECTED, "... by loops, and inside the box of X", core_hull, AT_MOST, 4e-15,
     true},
    {"CETA-29", CORRECTED, "two heads at two temperatures: plans and output by loops", many_heads,
     AT_MOST, 1e-11, true},
    {"CETA-30", CORRECTED, "mean(Y) - mean(concat V) W_O, receivers, by loops", means_kept, AT_MOST,
     1e-12, true},
    {"CETA-30", CORRECTED, "... while the mean of the input moves, at least", input_mean_moves,
     AT_LEAST, 0.01, true},
    {"TOT-53", CORRECTED, "sum over heads = concatenation, by loops", sum_of_heads, AT_MOST, 1e-13,
     true},
    {"TOT-54", CORRECTED, "output change by loops; over both bounds, minus 1", output_change,
     AT_MOST, 1e-12, true},
    {"TOT-55", CORRECTED, "weight change by loops; over both bounds, minus 1", weights_change,
     AT_MOST, 1e-12, true},
    {"TOT-55", CORRECTED, "the printed bound by loops, relative", weights_bound_formula, AT_MOST,
     1e-12, true},
    {"TOT-56", CORRECTED, "golden LayerNorm of (1, 2, 3, 4)", layernorm_golden, AT_MOST, 1e-14,
     true},
    {"TOT-56", CORRECTED, "gamma, beta, several rows, by loops", layernorm, AT_MOST, 1e-14, true},
    {"TOT-57", CORRECTED, "Jacobian and backward against differences", layernorm_jacobian, AT_MOST,
     1e-9, true},
    {"TOT-58", CORRECTED, "eigenvalues eps/sigma^3, 1/sigma, 0 on their vectors",
     layernorm_spectrum, AT_MOST, 1e-14, true},
    {"TOT-59", CORRECTED, "norm by squaring; over the bounds, minus 1", layernorm_lipschitz,
     AT_MOST, 1e-6, true},
    {"TOT-59", CORRECTED, "golden norm .4899; eps/sigma^3 at width 2", layernorm_golden_norm,
     AT_MOST, 1e-4, true},
    {"TOT-59", PRINTED, "||gamma||_inf/sigma is the norm: difference at (1, 2, 3, 4) (E14)",
     layernorm_equality, AT_MOST, 1e-6, false},
    {"TOT-60", CORRECTED, "block change by loops; over both bounds, minus 1", block_change, AT_MOST,
     1e-12, true},
    {"TOT-60", CORRECTED, "LayerNorm change by loops; over both bounds, minus 1", layernorm_changes,
     AT_MOST, 1e-12, true},
    {"TOT-61", CORRECTED, "one layer of 4 dimensions has rank 4, two have all", ranks, AT_MOST, 0.0,
     true},
    {"TOT-61", CORRECTED, "m - 1 dimensions give any S back", no_obstruction, AT_MOST, 1e-15, true},
    {"TOT-62", CORRECTED, "S2 S1 by loops, rows 1", composition, AT_MOST, 4e-15, true},
    {"TOT-62", CORRECTED, "tail singular values of the centred log S by deflation", eckart_young,
     AT_MOST, 1e-6, true},
};
CHECK_GROUP(tool_checks_layers, rows);
