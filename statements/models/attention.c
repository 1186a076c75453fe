/* Group G on a model of any architecture: what a run captures, layer by layer, against f64 loops on what it captured
 * before [TOT-68], and both probes against the rows of their matrix [TOT-64].
 *
 *     P_h = softmax(q_h k_h^T / sqrt(d_h)),  z_h = P_h v_h           q, k as they meet, rotated or not
 *     middle = before + attention,  after = middle + mlp             middle after its norm where there is one
 *
 * A few GPT-2 leave sqrt(d_h) out or divide by the layer's number as well. q, z [count][heads][d_h], k, v [count]
 * [key heads][d_h], P [heads][count][count]. */
#include "models.h"

typedef enum point {
    QUERIES,
    KEYS,
    VALUES,
    PATTERN,
    MIXED,
    BEFORE,
    ATTENTION,
    MIDDLE,
    MIDDLE_SUM,
    MLP,
    AFTER,
    POINTS
} point;

/* Later rows of one layer replace earlier ones. */
static const struct {
    const char *tail;
    point point;
} tails[] = {{".attn.hook_q", QUERIES},     {".attn.hook_rot_q", QUERIES},
             {".attn.hook_k", KEYS},        {".attn.hook_rot_k", KEYS},
             {".attn.hook_v", VALUES},      {".attn.hook_pattern", PATTERN},
             {".attn.hook_z", MIXED},       {".hook_resid_pre", BEFORE},
             {".hook_attn_out", ATTENTION}, {".hook_resid_mid", MIDDLE_SUM},
             {".hook_mlp_out", MLP},        {".hook_normalized_resid_mid", MIDDLE},
             {".hook_resid_post", AFTER}};
enum { TAILS = sizeof tails / sizeof *tails };

typedef struct layer {
    trial *t;
    const checkpoint *c;
    double *held[POINTS]; /* of the layer at hand */
    double most;
    int64_t layers; /* checked to the end */
} layer;

static int point_of(const char *name) {
    const size_t length = strlen(name);
    for (int k = 0; k < TAILS; k++) {
        const size_t tail = strlen(tails[k].tail);
        if (length > tail && strcmp(name + length - tail, tails[k].tail) == 0)
            return (int)tails[k].point;
    }
    return -1;
}

static int is_point(void *user, const char *name) {
    (void)user;
    return point_of(name) >= 0;
}

/* ---- formulas ---- */

static void check_attention(layer *l) {
    const ota_model_facts *f = &l->c->facts;
    const int64_t n = l->c->count, d = f->head_width, group = f->heads / f->kv_heads;
    double *pattern = numbers(l->t, f->heads * n * n), *mixed = numbers(l->t, n * f->heads * d),
           *s = numbers(l->t, n);
    const double scale = (l->c->unscaled ? 1.0 : 1.0 / sqrt((double)d)) /
                         (l->c->scaled_by_layer ? (double)(l->layers + 1) : 1.0);
    for (int64_t h = 0; h < f->heads; h++) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t keys = f->causal ? i + 1 : n;
            double *p = pattern + (h * n + i) * n;
            for (int64_t j = 0; j < keys; j++)
                s[j] = dot(l->held[QUERIES] + (i * f->heads + h) * d,
                           l->held[KEYS] + (j * f->kv_heads + h / group) * d, d) *
                       scale;
            softmax_formula(s, keys, 1.0, p);
            for (int64_t j = 0; j < keys; j++)
                for (int64_t k = 0; k < d; k++)
                    mixed[(i * f->heads + h) * d + k] +=
                        p[j] * l->held[VALUES][(j * f->kv_heads + h / group) * d + k];
        }
    }
    l->most = worse(l->most, statement_relative(l->held[PATTERN], pattern, f->heads * n * n));
    l->most = worse(l->most, statement_relative(l->held[MIXED], mixed, n * f->heads * d));
}

static void check_sum(layer *l, point a, point b, point sum) {
    const int64_t size = l->c->count * l->c->facts.width;
    double *wanted = numbers(l->t, size);
    for (int64_t k = 0; k < size; k++) wanted[k] = l->held[a][k] + l->held[b][k];
    l->most = worse(l->most, statement_relative(l->held[sum], wanted, size));
}

static ota_status check_point(void *user, const ota_capture *capture, ota_error *error) {
    (void)error;
    layer *l = user;
    const point at = (point)point_of(capture->name);
    const size_t used = l->t->used;
    int64_t count = 1;
    for (int k = 0; k < capture->rank; k++) count *= capture->shape[k];
    for (int64_t k = 0; k < count; k++) l->held[at][k] = (double)capture->data[k];
    (void)seen(l->t, l->held[at], at == MIXED ? count : 0);
    if (at == MIXED) check_attention(l);
    if (at == MIDDLE_SUM) {
        check_sum(l, BEFORE, ATTENTION, MIDDLE_SUM);
        memcpy(l->held[MIDDLE], l->held[MIDDLE_SUM], (size_t)count * sizeof(double));
    }
    if (at == AFTER) {
        check_sum(l, MIDDLE, MLP, AFTER);
        l->layers++;
    }
    l->t->used = used;
    return OTA_OK;
}

/* Patterns, mixed values and sums of the stream at every layer. */
static double layers_by_parts(trial *t) {
    checkpoint *c = statement_checkpoint(t);
    if (c == NULL) return NAN;
    layer l = {.t = t, .c = c};
    const int64_t wide = c->count * c->facts.heads * (c->facts.head_width + c->count);
    for (int k = 0; k < POINTS; k++) l.held[k] = numbers(t, wide + c->count * c->facts.width);
    const ota_model_run run = {.size = sizeof run,
                               .ids = c->ids,
                               .batch = 1,
                               .count = c->count,
                               .wanted = is_point,
                               .capture = check_point,
                               .user = &l};
    if (ota_session_run(c->session, &run, NULL) != OTA_OK || l.layers != c->facts.layers)
        l.most = NAN;
    return l.most;
}

/* ---- probes ---- */

/* z of the last token at every state less z at the first one, against W (x - x_0): a bias falls out. `inputs`
 * [layers + 1][width] is what the probe was given. */
static double probe_error(trial *t, const checkpoint *c, const float *words, const float *inputs) {
    const int64_t d = c->facts.width, V = c->facts.vocabulary, states = c->facts.layers + 1;
    float *z32 = take(t, (size_t)(states * V) * sizeof *z32);
    double *wanted = numbers(t, V), *ours = numbers(t, V), most = 0.0;
    ota_session_probe(c->session, inputs, states, z32);
    for (int64_t l = 1; l < states; l++) {
        for (int64_t j = 0; j < V; j++) {
            wanted[j] = 0.0;
            for (int64_t k = 0; k < d; k++)
                wanted[j] +=
                    (double)words[j * d + k] * ((double)inputs[l * d + k] - (double)inputs[k]);
            ours[j] = (double)z32[l * V + j] - (double)z32[j];
        }
        most = worse(most, statement_relative(seen(t, ours, V), wanted, V));
    }
    return most;
}

static double probe_rows(trial *t) {
    checkpoint *c = statement_checkpoint(t);
    if (c == NULL) return NAN;
    const int64_t d = c->facts.width, V = c->facts.vocabulary, states = c->facts.layers + 1;
    float *words = take(t, (size_t)(V * d) * sizeof *words),
          *raw = take(t, (size_t)(states * d) * sizeof *raw),
          *lens = take(t, (size_t)(states * d) * sizeof *lens);
    double most = NAN;
    if (statement_run_checkpoint(t, c) &&
        ota_model_probe_rows(c->model, 0, V, words, NULL) == OTA_OK) {
        for (int64_t l = 0; l < states; l++)
            memcpy(raw + l * d, c->states + (l * c->count + c->count - 1) * d,
                   (size_t)d * sizeof *raw);
        most = probe_error(t, c, words, raw);
        if (ota_session_probe_inputs(c->session, raw, states, lens))
            most = worse(most, probe_error(t, c, words, lens));
    }
    return most;
}

static const statement_check table[] = {
    AT_MOST("TOT-64", "raw probe and lens against the rows of W, the last token, relative",
            probe_rows, 1e-5),
    AT_MOST("TOT-68", "patterns, P v and the stream's sums at every layer by loops, relative",
            layers_by_parts, 1e-5),
};
MODEL_CHECK_GROUP(statement_checks_model_attention, table, ANY_MODEL);
