/* Training for TOT-120: the gradient of a GPT-2's mean negative log-likelihood, backwards through formula.c by plain
 * loops in f64. L the loss; an array `slope` of x holds dL/dx. Rows [count][width]; W [in][out]. */
#include "models.h"

enum part {
    NORM_1,
    SHIFT_1,
    MERGE,
    MERGE_BIAS,
    MIX,
    MIX_BIAS,
    NORM_2,
    SHIFT_2,
    UP,
    UP_BIAS,
    DOWN,
    DOWN_BIAS,
    PARTS
};
static const char *const parts[PARTS] = {
    "ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
    "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
    "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};

/* ---- backwards through the pieces ---- */

/* y = x W + b. */
static void linear_back(const double *x, int64_t count, const weight *w, const double *y_slope,
                        double *w_slope, double *b_slope, double *x_slope) {
    const int64_t in = w->rows, out = w->columns;
    for (int64_t i = 0; i < count; i++, x += in, x_slope += in, y_slope += out) {
        for (int64_t o = 0; o < out; o++) b_slope[o] += y_slope[o];
        for (int64_t k = 0; k < in; k++) {
            double sum = 0.0;
            for (int64_t o = 0; o < out; o++) {
                w_slope[k * out + o] += x[k] * y_slope[o];
                sum += y_slope[o] * (double)w->data[k * out + o];
            }
            x_slope[k] = sum;
        }
    }
}

/* y = gain (x - mean) / deviation + shift; adds to x_slope. */
static void norm_back(const checkpoint *c, const double *x, int64_t count, const weight *gain,
                      const double *y_slope, double *gain_slope, double *shift_slope,
                      double *x_slope) {
    const int64_t d = c->facts.width;
    for (int64_t i = 0; i < count; i++, x += d, x_slope += d, y_slope += d) {
        const double mean = sum_of(x, d) / (double)d;
        double variance = 0.0, along_one = 0.0, along_x = 0.0;
        for (int64_t k = 0; k < d; k++) variance += (x[k] - mean) * (x[k] - mean) / (double)d;
        const double scale = 1.0 / sqrt(variance + c->facts.norm_epsilon);
        for (int64_t k = 0; k < d; k++) {
            const double unit = (x[k] - mean) * scale, slope = y_slope[k] * (double)gain->data[k];
            gain_slope[k] += y_slope[k] * unit;
            shift_slope[k] += y_slope[k];
            along_one += slope / (double)d;
            along_x += slope * unit / (double)d;
        }
        for (int64_t k = 0; k < d; k++) {
            const double unit = (x[k] - mean) * scale, slope = y_slope[k] * (double)gain->data[k];
            x_slope[k] += scale * (slope - along_one - unit * along_x);
        }
    }
}

/* P v of all heads; merged_slope [count][3 width] is set. */
static void attend_back(trial *t, const checkpoint *c, const double *merged, int64_t count,
                        const double *mixed_slope, double *merged_slope) {
    const int64_t d = c->facts.width, width = d / c->facts.heads;
    const double scale = sqrt((double)width) * c->temperature;
    double *p = numbers(t, count), *utility = numbers(t, count);
    memset(merged_slope, 0, (size_t)(3 * count * d) * sizeof *merged_slope);
    for (int64_t head = 0; head < c->facts.heads; head++) {
        const int64_t q = head * width, k = q + d, v = k + d;
        for (int64_t i = 0; i < count; i++) {
            const double *above = mixed_slope + i * d + q, *row = merged + i * 3 * d;
            double mean = 0.0;
            statement_pattern_formula(c, merged, head, i, p);
            for (int64_t j = 0; j <= i; j++) {
                utility[j] = dot(above, merged + j * 3 * d + v, width);
                mean += p[j] * utility[j];
            }
            for (int64_t j = 0; j <= i; j++) {
                const double slope = p[j] * (utility[j] - mean) / scale;
                const double *other = merged + j * 3 * d;
                double *mine = merged_slope + i * 3 * d, *its = merged_slope + j * 3 * d;
                for (int64_t e = 0; e < width; e++) {
                    mine[q + e] += slope * other[k + e];
                    its[k + e] += slope * row[q + e];
                    its[v + e] += p[j] * above[e];
                }
            }
        }
    }
}

static double gelu_slope(double x) {
    const double root = sqrt(2.0 / 3.14159265358979324);
    const double bend = tanh(root * (x + 0.044715 * x * x * x));
    return 0.5 * (1.0 + bend) +
           0.5 * x * (1.0 - bend * bend) * root * (1.0 + 3.0 * 0.044715 * x * x);
}

/* `state` [count][width]: dL/d(after) on the way in, dL/d(before) on the way out. */
static void block_back(trial *t, const checkpoint *c, int64_t layer, const double *before,
                       int64_t count, double *const weight_slopes[PARTS], double *state) {
    const int64_t size = count * c->facts.width;
    const size_t used = t->used;
    const weight *w[PARTS];
    const block_parts r = statement_block_parts(t, c, count);
    double *wide = numbers(t, 4 * size), *narrow = numbers(t, size), *after = numbers(t, size);
    double *const *g = weight_slopes;
    for (int k = 0; k < PARTS; k++) w[k] = statement_weight(c, layer, parts[k]);
    statement_block_formula(t, c, layer, before, count, &r, after);
    linear_back(r.active, count, w[DOWN], state, g[DOWN], g[DOWN_BIAS], wide);
    for (int64_t k = 0; k < 4 * size; k++) wide[k] *= gelu_slope(r.inner[k]);
    linear_back(r.normed[1], count, w[UP], wide, g[UP], g[UP_BIAS], narrow);
    norm_back(c, r.middle, count, w[NORM_2], narrow, g[NORM_2], g[SHIFT_2], state);
    linear_back(r.mixed, count, w[MIX], state, g[MIX], g[MIX_BIAS], narrow);
    attend_back(t, c, r.merged, count, narrow, wide);
    linear_back(r.normed[0], count, w[MERGE], wide, g[MERGE], g[MERGE_BIAS], narrow);
    norm_back(c, before, count, w[NORM_1], narrow, g[NORM_1], g[SHIFT_1], state);
    t->used = used;
}

/* ---- the loss, and the step ---- */

/* dL/dz of the tokens that predict one, through the tied table: to its rows and to the final states. */
static void head_back(trial *t, const checkpoint *c, const int64_t *ids, const double *final,
                      double share, double *words_slope, double *final_slope) {
    const int64_t d = c->facts.width, V = c->facts.vocabulary;
    const float *words = statement_weight(c, -1, "wte.weight")->data;
    const size_t used = t->used;
    double *z = numbers(t, V), *p = numbers(t, V);
    memset(final_slope, 0, (size_t)(c->count * d) * sizeof *final_slope);
    for (int64_t i = 0; i + 1 < c->count; i++) {
        statement_logits_formula(c, final + i * d, 1, z);
        softmax_formula(z, V, 1.0, p);
        p[ids[i + 1]] -= 1.0;
        for (int64_t v = 0; v < V; v++) {
            for (int64_t k = 0; k < d; k++) {
                words_slope[v * d + k] += share * p[v] * final[i * d + k];
                final_slope[i * d + k] += share * p[v] * (double)words[v * d + k];
            }
        }
    }
    t->used = used;
}

/* Down the slope by a share of the tensor's size, whatever the slope's; a tensor of zeros stays. */
static void descend_along(weight *w, const double *slope, double rate) {
    double size = 0.0, steepness = 0.0;
    for (int64_t k = 0; k < w->count; k++) {
        size += (double)w->data[k] * (double)w->data[k];
        steepness += slope[k] * slope[k];
    }
    const double step = steepness > 0.0 ? rate * sqrt(size / steepness) : 0.0;
    for (int64_t k = 0; k < w->count; k++) w->data[k] -= (float)(step * slope[k]);
}

/* Of all blocks, last one first; `states` [windows][layers + 1][count][width], `slopes` [windows][count][width] of the
 * last states on the way in, of the first on the way out. */
static void descend_blocks(trial *t, checkpoint *c, int64_t windows, const double *states,
                           double rate, double *memory, double *slopes) {
    const int64_t size = c->count * c->facts.width, layers = c->facts.layers;
    for (int64_t layer = layers - 1; layer >= 0; layer--) {
        double *g[PARTS], *next = memory;
        for (int k = 0; k < PARTS; k++) {
            g[k] = next;
            next += statement_weight(c, layer, parts[k])->count;
        }
        memset(memory, 0, (size_t)(next - memory) * sizeof *memory);
        for (int64_t w = 0; w < windows; w++)
            block_back(t, c, layer, states + (w * (layers + 1) + layer) * size, c->count, g,
                       slopes + w * size);
        for (int k = 0; k < PARTS; k++)
            descend_along(statement_weight(c, layer, parts[k]), g[k], rate);
    }
}

bool statement_descend(trial *t, checkpoint *c, const int64_t *ids, int64_t windows, double rate) {
    const int64_t d = c->facts.width, n = c->count, size = n * d, layers = c->facts.layers;
    weight *words = statement_weight(c, -1, "wte.weight"),
           *places = statement_weight(c, -1, "wpe.weight"),
           *gain = statement_weight(c, -1, "ln_f.weight"),
           *shift = statement_weight(c, -1, "ln_f.bias");
    /* Not the trial's memory, which a large model would use up. */
    double *states = calloc((size_t)(windows * (layers + 1) * size), sizeof *states),
           *slopes = calloc((size_t)(windows * size), sizeof *slopes),
           *words_slope = calloc((size_t)words->count, sizeof *words_slope),
           *places_slope = calloc((size_t)places->count, sizeof *places_slope),
           *memory = calloc((size_t)(d * (12 * d + 13)), sizeof *memory);
    const bool ready = states != NULL && slopes != NULL && words_slope != NULL &&
                       places_slope != NULL && memory != NULL;
    const size_t used = t->used;
    for (int64_t w = 0; ready && w < windows; w++) {
        double *h = states + w * (layers + 1) * size, *final = numbers(t, size);
        double *final_slope = numbers(t, size);
        statement_gpt2_formula(t, c, ids + w * n, n, NULL, h, final);
        head_back(t, c, ids + w * n, final, 1.0 / (double)(windows * (n - 1)), words_slope,
                  final_slope);
        norm_back(c, h + layers * size, n, gain, final_slope, memory, memory + d,
                  slopes + w * size);
        t->used = used;
    }
    if (ready) {
        descend_along(gain, memory, rate);
        descend_along(shift, memory + d, rate);
        descend_blocks(t, c, windows, states, rate, memory, slopes);
        for (int64_t k = 0; k < windows * size; k++) {
            words_slope[ids[k / d] * d + k % d] += slopes[k];
            places_slope[k % size] += slopes[k];
        }
        descend_along(words, words_slope, rate);
        descend_along(places, places_slope, rate);
    }
    free(states);
    free(slopes);
    free(words_slope);
    free(places_slope);
    free(memory);
    return ready;
}
