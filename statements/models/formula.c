/* GPT-2 from its definition, in f64 by plain loops, on the weights of a checkpoint [TOT-35, 68, 119, 120]:
 *
 *     h^0 = E[id] + P[t]
 *     h' = h + O attention(LN_1 h),   h^(l+1) = h' + D gelu(U LN_2 h')           z = E LN_f(h)
 *
 * Rows x [count][width]; a linear layer y = x W + b with W [in][out]. */
#include <inttypes.h>

#include "models.h"

weight *statement_weight(const checkpoint *c, int64_t layer, const char *part) {
    char name[64];
    if (layer < 0)
        (void)snprintf(name, sizeof name, "%s", part);
    else
        (void)snprintf(name, sizeof name, "h.%" PRId64 ".%s", layer, part);
    for (int k = 0; k < c->weight_count; k++)
        if (strcmp(c->weights[k].name, name) == 0) return &c->weights[k];
    return NULL;
}

static const float *data_of(const checkpoint *c, int64_t layer, const char *part) {
    return statement_weight(c, layer, part)->data;
}

static void norm(const checkpoint *c, const double *x, int64_t count, const float *gain,
                 const float *shift, double *y) {
    const int64_t d = c->facts.width;
    for (int64_t i = 0; i < count; i++, x += d, y += d) {
        const double mean = sum_of(x, d) / (double)d;
        double variance = 0.0;
        for (int64_t k = 0; k < d; k++) variance += (x[k] - mean) * (x[k] - mean) / (double)d;
        const double scale = 1.0 / sqrt(variance + c->facts.norm_epsilon);
        for (int64_t k = 0; k < d; k++)
            y[k] = (x[k] - mean) * scale * (double)gain[k] + (double)shift[k];
    }
}

static void linear(const double *x, int64_t count, const float *matrix, const float *bias,
                   int64_t in, int64_t out, double *y) {
    for (int64_t i = 0; i < count; i++, x += in, y += out) {
        for (int64_t o = 0; o < out; o++) y[o] = (double)bias[o];
        for (int64_t k = 0; k < in; k++)
            for (int64_t o = 0; o < out; o++) y[o] += x[k] * (double)matrix[k * out + o];
    }
}

void statement_pattern_formula(const checkpoint *c, const double *merged, int64_t head, int64_t i,
                               double *p) {
    const int64_t d = c->facts.width, width = d / c->facts.heads, at = head * width;
    for (int64_t j = 0; j <= i; j++)
        p[j] =
            dot(merged + i * 3 * d + at, merged + j * 3 * d + d + at, width) / sqrt((double)width);
    softmax_formula(p, i + 1, c->temperature, p);
}

/* One row of queries, keys, values a token, [count][3 width], to mixed [count][width]. */
static void attend(trial *t, const checkpoint *c, const double *merged, int64_t count,
                   double *mixed) {
    const int64_t d = c->facts.width, width = d / c->facts.heads;
    double *p = numbers(t, count);
    memset(mixed, 0, (size_t)(count * d) * sizeof *mixed);
    for (int64_t head = 0; head < c->facts.heads; head++) {
        const int64_t at = head * width;
        for (int64_t i = 0; i < count; i++) {
            statement_pattern_formula(c, merged, head, i, p);
            for (int64_t j = 0; j <= i; j++)
                for (int64_t k = 0; k < width; k++)
                    mixed[i * d + at + k] += p[j] * merged[j * 3 * d + 2 * d + at + k];
        }
    }
}

static double gelu(double x) {
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / 3.14159265358979324) * (x + 0.044715 * x * x * x)));
}

block_parts statement_block_parts(trial *t, const checkpoint *c, int64_t count) {
    const int64_t size = count * c->facts.width;
    return (block_parts){.normed = {numbers(t, size), numbers(t, size)},
                         .merged = numbers(t, 3 * size),
                         .mixed = numbers(t, size),
                         .middle = numbers(t, size),
                         .inner = numbers(t, 4 * size),
                         .active = numbers(t, 4 * size),
                         .part = numbers(t, size)};
}

void statement_block_formula(trial *t, const checkpoint *c, int64_t layer, const double *before,
                             int64_t count, const block_parts *r, double *after) {
    const int64_t d = c->facts.width, size = count * d;
    norm(c, before, count, data_of(c, layer, "ln_1.weight"), data_of(c, layer, "ln_1.bias"),
         r->normed[0]);
    linear(r->normed[0], count, data_of(c, layer, "attn.c_attn.weight"),
           data_of(c, layer, "attn.c_attn.bias"), d, 3 * d, r->merged);
    attend(t, c, r->merged, count, r->mixed);
    linear(r->mixed, count, data_of(c, layer, "attn.c_proj.weight"),
           data_of(c, layer, "attn.c_proj.bias"), d, d, r->part);
    for (int64_t k = 0; k < size; k++) r->middle[k] = before[k] + r->part[k];
    norm(c, r->middle, count, data_of(c, layer, "ln_2.weight"), data_of(c, layer, "ln_2.bias"),
         r->normed[1]);
    linear(r->normed[1], count, data_of(c, layer, "mlp.c_fc.weight"),
           data_of(c, layer, "mlp.c_fc.bias"), d, 4 * d, r->inner);
    for (int64_t k = 0; k < 4 * size; k++) r->active[k] = gelu(r->inner[k]);
    linear(r->active, count, data_of(c, layer, "mlp.c_proj.weight"),
           data_of(c, layer, "mlp.c_proj.bias"), 4 * d, d, r->part);
    for (int64_t k = 0; k < size; k++) after[k] = r->middle[k] + r->part[k];
}

void statement_final_norm_formula(const checkpoint *c, const double *x, int64_t count, double *y) {
    norm(c, x, count, data_of(c, -1, "ln_f.weight"), data_of(c, -1, "ln_f.bias"), y);
}

void statement_logits_formula(const checkpoint *c, const double *x, int64_t count, double *z) {
    const int64_t d = c->facts.width, vocabulary = c->facts.vocabulary;
    const float *words = data_of(c, -1, "wte.weight");
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < vocabulary; j++) {
            double sum = 0.0;
            for (int64_t k = 0; k < d; k++) sum += x[i * d + k] * (double)words[j * d + k];
            z[i * vocabulary + j] = sum;
        }
    }
}

double statement_most_probable(const double *z, int64_t vocabulary) {
    return exp(largest_of(z, vocabulary) - log_sum_exp(z, vocabulary, 1.0));
}

/* Of h, the states of all layers: tokens that stopped get their state behind `layer` back, and others may stop. */
static void leave(trial *t, const checkpoint *c, int64_t layer, int64_t count, formula_exit *exit,
                  int64_t *streak, double *h, const block_parts *r) {
    const double *before = h + layer * count * c->facts.width;
    double *after = h + (layer + 1) * count * c->facts.width;
    const int64_t d = c->facts.width, last = c->facts.layers;
    double *z = numbers(t, c->facts.vocabulary);
    for (int64_t i = 0; i < count; i++) {
        if (exit->layers[i] < last) {
            memcpy(after + i * d, before + i * d, (size_t)d * sizeof *after);
        } else if (layer + 1 < last) {
            statement_final_norm_formula(c, after + i * d, 1, r->normed[0]);
            statement_logits_formula(c, r->normed[0], 1, z);
            const double most = statement_most_probable(z, c->facts.vocabulary);
            streak[i] = most > exit->threshold ? streak[i] + 1 : 0;
            if (streak[i] >= exit->transitions) exit->layers[i] = layer + 1;
        }
    }
}

void statement_gpt2_formula(trial *t, const checkpoint *c, const int64_t *ids, int64_t count,
                            formula_exit *exit, double *h, double *final) {
    const int64_t d = c->facts.width, size = count * d, layers = c->facts.layers;
    const float *words = data_of(c, -1, "wte.weight"), *places = data_of(c, -1, "wpe.weight");
    const block_parts r = statement_block_parts(t, c, count);
    int64_t *streak = take(t, (size_t)count * sizeof *streak);
    const size_t used = t->used;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < d; k++)
            h[i * d + k] = (double)words[ids[i] * d + k] + (double)places[i * d + k];
    for (int64_t i = 0; exit != NULL && i < count; i++) exit->layers[i] = layers;
    for (int64_t layer = 0; layer < layers; layer++) {
        double *before = h + layer * size, *after = before + size;
        statement_block_formula(t, c, layer, before, count, &r, after);
        if (exit != NULL) leave(t, c, layer, count, exit, streak, h, &r);
        t->used = used;
    }
    statement_final_norm_formula(c, h + layers * size, count, final);
}

double statement_relative(const double *a, const double *b, int64_t count) {
    double size = 0.0;
    for (int64_t k = 0; k < count; k++) size = worse(size, fabs(b[k]));
    return farthest(a, b, count) / size;
}
