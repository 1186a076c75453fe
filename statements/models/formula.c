/* GPT-2 from its definition, in f64 by plain loops, on the weights of a checkpoint [TOT-68, 119]:
 *
 *     h^0 = E[id] + P[t]
 *     h' = h + O attention(LN_1 h),   h^(l+1) = h' + D gelu(U LN_2 h')           z = E LN_f(h)
 *
 * Rows x [count][width]; a linear layer y = x W + b with W [in][out]. */
#include <inttypes.h>

#include "models.h"

static const float *weight_of(const checkpoint *c, const char *name) {
    for (int k = 0; k < c->weight_count; k++)
        if (strcmp(c->weights[k].name, name) == 0) return c->weights[k].data;
    return NULL;
}

static const float *layer_weight(const checkpoint *c, int64_t layer, const char *part) {
    char name[64];
    (void)snprintf(name, sizeof name, "h.%" PRId64 ".%s", layer, part);
    return weight_of(c, name);
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

/* One row of queries, keys, values a token, [count][3 width], to mixed [count][width]. */
static void attend(trial *t, const checkpoint *c, const double *merged, int64_t count,
                   double *mixed) {
    const int64_t d = c->facts.width, head = d / c->facts.heads;
    double *s = numbers(t, count), *p = numbers(t, count);
    memset(mixed, 0, (size_t)(count * d) * sizeof *mixed);
    for (int64_t at = 0; at < d; at += head) {
        for (int64_t i = 0; i < count; i++) {
            for (int64_t j = 0; j <= i; j++)
                s[j] = dot(merged + i * 3 * d + at, merged + j * 3 * d + d + at, head) /
                       sqrt((double)head);
            softmax_formula(s, i + 1, 1.0, p);
            for (int64_t j = 0; j <= i; j++)
                for (int64_t k = 0; k < head; k++)
                    mixed[i * d + at + k] += p[j] * merged[j * 3 * d + 2 * d + at + k];
        }
    }
}

static double gelu(double x) {
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / 3.14159265358979324) * (x + 0.044715 * x * x * x)));
}

typedef struct rows_of {
    double *wide, *normed, *part; /* [count][4 width], [count][width] */
} rows_of;

/* after = block(before). */
static void block(trial *t, const checkpoint *c, int64_t layer, const double *before, int64_t count,
                  const rows_of *r, double *after) {
    const int64_t d = c->facts.width, size = count * d;
    norm(c, before, count, layer_weight(c, layer, "ln_1.weight"),
         layer_weight(c, layer, "ln_1.bias"), r->normed);
    linear(r->normed, count, layer_weight(c, layer, "attn.c_attn.weight"),
           layer_weight(c, layer, "attn.c_attn.bias"), d, 3 * d, r->wide);
    attend(t, c, r->wide, count, r->normed);
    linear(r->normed, count, layer_weight(c, layer, "attn.c_proj.weight"),
           layer_weight(c, layer, "attn.c_proj.bias"), d, d, r->part);
    for (int64_t k = 0; k < size; k++) after[k] = before[k] + r->part[k];
    norm(c, after, count, layer_weight(c, layer, "ln_2.weight"),
         layer_weight(c, layer, "ln_2.bias"), r->normed);
    linear(r->normed, count, layer_weight(c, layer, "mlp.c_fc.weight"),
           layer_weight(c, layer, "mlp.c_fc.bias"), d, 4 * d, r->wide);
    for (int64_t k = 0; k < 4 * size; k++) r->wide[k] = gelu(r->wide[k]);
    linear(r->wide, count, layer_weight(c, layer, "mlp.c_proj.weight"),
           layer_weight(c, layer, "mlp.c_proj.bias"), 4 * d, d, r->part);
    for (int64_t k = 0; k < size; k++) after[k] += r->part[k];
}

void statement_final_norm_formula(const checkpoint *c, const double *x, int64_t count, double *y) {
    norm(c, x, count, weight_of(c, "ln_f.weight"), weight_of(c, "ln_f.bias"), y);
}

void statement_logits_formula(const checkpoint *c, const double *x, int64_t count, double *z) {
    const int64_t d = c->facts.width, vocabulary = c->facts.vocabulary;
    const float *words = weight_of(c, "wte.weight");
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

/* Stopped tokens get their state back, and others may stop. */
static void leave(trial *t, const checkpoint *c, int64_t layer, int64_t count, formula_exit *exit,
                  int64_t *streak, const double *before, double *after, const rows_of *r) {
    const int64_t d = c->facts.width, last = c->facts.layers;
    double *z = numbers(t, c->facts.vocabulary);
    for (int64_t i = 0; i < count; i++) {
        if (exit->layers[i] < last) {
            memcpy(after + i * d, before + i * d, (size_t)d * sizeof *after);
        } else if (layer + 1 < last) {
            statement_final_norm_formula(c, after + i * d, 1, r->normed);
            statement_logits_formula(c, r->normed, 1, z);
            const double most = statement_most_probable(z, c->facts.vocabulary);
            streak[i] = most > exit->threshold ? streak[i] + 1 : 0;
            if (streak[i] >= exit->transitions) exit->layers[i] = layer + 1;
        }
    }
}

void statement_gpt2_formula(trial *t, const checkpoint *c, const int64_t *ids, int64_t count,
                            formula_exit *exit, double *h, double *final) {
    const int64_t d = c->facts.width, size = count * d, layers = c->facts.layers;
    const float *words = weight_of(c, "wte.weight"), *places = weight_of(c, "wpe.weight");
    const rows_of r = {numbers(t, 4 * size), numbers(t, size), numbers(t, size)};
    int64_t *streak = take(t, (size_t)count * sizeof *streak);
    const size_t used = t->used;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < d; k++)
            h[i * d + k] = (double)words[ids[i] * d + k] + (double)places[i * d + k];
    for (int64_t i = 0; exit != NULL && i < count; i++) exit->layers[i] = layers;
    for (int64_t layer = 0; layer < layers; layer++) {
        double *before = h + layer * size, *after = before + size;
        block(t, c, layer, before, count, &r, after);
        if (exit != NULL) leave(t, c, layer, count, exit, streak, before, after, &r);
        t->used = used;
    }
    statement_final_norm_formula(c, h + layers * size, count, final);
}

double statement_relative(const double *a, const double *b, int64_t count) {
    double size = 0.0;
    for (int64_t k = 0; k < count; k++) size = worse(size, fabs(b[k]));
    return farthest(a, b, count) / size;
}
