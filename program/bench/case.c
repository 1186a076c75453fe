/* Random inputs of `otattn bench`, and what plain loops in double make of them. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

void cli_bench_case_free(cli_bench_case *c) {
    for (int k = 0; k < c->block_count; k++) free(c->blocks[k]);
    c->block_count = 0;
}

void *cli_bench_take(cli_context *context, cli_bench_case *c, int64_t count, size_t bytes,
                     int *code) {
    void *memory = NULL;
    if (*code != 0 || count == 0) return NULL;
    *code = cli_memory(context, (size_t)count * bytes, "an array", &memory);
    if (memory != NULL) c->blocks[c->block_count++] = memory;
    return memory;
}

static void put(void *data, ota_type type, int64_t index, double value) {
    cli_convert(&value, OTA_F64, (char *)data + (size_t)index * ota_type_bytes(type), type, 1);
}

static void square_distances(cli_bench_case *c, uint64_t *state, double *x) {
    const double *y = x + 2 * c->queries;
    for (int64_t k = 0; k < 2 * (c->queries + c->keys); k++) x[k] = cli_random_uniform(state);
    for (int64_t i = 0; i < c->queries; i++) {
        for (int64_t j = 0; j < c->keys; j++) {
            const double right = x[2 * i] - y[2 * j], up = x[2 * i + 1] - y[2 * j + 1];
            put(c->scores, c->type, i * c->keys + j, -(right * right + up * up));
        }
    }
}

static int make_scores(cli_context *context, cli_bench_case *c, uint64_t *state) {
    int code = 0;
    void *points = NULL;
    c->scores = cli_bench_take(context, c, c->queries * c->keys, ota_type_bytes(c->type), &code);
    if (code == 0)
        code = cli_memory(context, (size_t)(2 * (c->queries + c->keys)) * sizeof(double),
                          "the points", &points);
    if (code == 0) square_distances(c, state, points);
    free(points);
    return code;
}

/* Keys that a mask of lengths or of padding leaves. */
static int64_t kept_keys(const cli_bench_case *c) { return c->keys - c->keys / 5; }

static bool is_masked(const cli_bench_case *c, const char *word) {
    return c->masked != NULL && strcmp(c->masked, word) == 0;
}

/* As transformers writes masks; of all but an eighth of the pairs. */
static double far_number(uint64_t *state) { return cli_random_uniform(state) < 0.125 ? 0.0 : -1e9; }

/* Flags [1, keys], a length or numbers [queries, keys], whose data the case owns. */
static int make_mask(cli_context *context, cli_bench_case *c, uint64_t *state) {
    int code = 0;
    if (is_masked(c, "causal")) {
        c->mask.kind = OTA_SUPPORT_CAUSAL;
    } else if (is_masked(c, "padding")) {
        unsigned char *flags = cli_bench_take(context, c, c->keys, 1, &code);
        for (int64_t j = 0; j < c->keys && code == 0; j++) flags[j] = j < kept_keys(c);
        c->mask.kind = OTA_SUPPORT_BOOLEAN;
        c->mask.array = ota_array_of(flags, OTA_BOOL, 1, 1, 1, c->keys);
    } else if (is_masked(c, "lengths")) {
        int64_t *length = cli_bench_take(context, c, 1, sizeof *length, &code);
        if (code == 0) *length = kept_keys(c);
        c->mask.kind = OTA_SUPPORT_LENGTHS;
        c->mask.array = ota_array_of(length, OTA_I64, 1, 1, 1, 1);
    } else {
        const int64_t count = c->queries * c->keys;
        void *numbers = cli_bench_take(context, c, count, ota_type_bytes(c->type), &code);
        const bool far = is_masked(c, "far");
        for (int64_t e = 0; e < count && code == 0; e++)
            put(numbers, c->type, e, far ? far_number(state) : cli_random_normal(state));
        c->mask.kind = OTA_SUPPORT_ADDITIVE;
        c->mask.array = ota_array_of(numbers, c->type, 1, 1, c->queries, c->keys);
    }
    return code;
}

/* What the mask makes of a score. */
static double masked_score(const cli_bench_case *c, int64_t i, int64_t j, double score) {
    switch (c->mask.kind) {
    case OTA_SUPPORT_CAUSAL: return j <= i ? score : -HUGE_VAL;
    case OTA_SUPPORT_BOOLEAN:
    case OTA_SUPPORT_LENGTHS: return j < kept_keys(c) ? score : -HUGE_VAL;
    default: return score + cli_element(c->mask.array.data, c->type, (size_t)(i * c->keys + j));
    }
}

static ota_array over(const cli_bench_case *c, void *data, int64_t rows, int64_t columns) {
    return ota_array_of(data, c->type, 1, c->heads, rows, columns);
}

int cli_bench_case_make(cli_context *context, cli_bench_case *c) {
    const int64_t n = c->queries, m = c->keys, columns = c->width > 0 ? c->width : m;
    const struct {
        void **array;
        int64_t rows;
        bool gradient;
    } inputs[] = {{&c->in.queries, n, false},
                  {&c->in.keys, m, false},
                  {&c->in.values, m, false},
                  {&c->in.out_grad, n, true}},
      outputs[] = {{&c->made.out, n, false},
                   {&c->made.queries, n, true},
                   {&c->made.keys, m, true},
                   {&c->made.values, m, true}};
    const size_t bytes = ota_type_bytes(c->type);
    const cli_whole seed = context->settings.machine.seed;
    uint64_t state = seed.given ? (uint64_t)seed.value : 1U;
    int code = c->width == 0 ? make_scores(context, c, &state) : 0;
    for (int k = 0; k < 4 && code == 0; k++) {
        const int64_t count = c->heads * inputs[k].rows * c->width;
        if (inputs[k].gradient && !c->gradients) continue;
        void *array = *inputs[k].array = cli_bench_take(context, c, count, bytes, &code);
        for (int64_t e = 0; e < count && code == 0; e++)
            put(array, c->type, e, cli_random_normal(&state));
    }
    for (int k = 0; k < 4; k++) {
        if (outputs[k].gradient && !c->gradients) continue;
        *outputs[k].array =
            cli_bench_take(context, c, c->heads * outputs[k].rows * columns, bytes, &code);
    }
    if (c->masked != NULL && code == 0) code = make_mask(context, c, &state);
    c->row_potential = cli_bench_take(context, c, c->heads * n, sizeof(double), &code);
    c->column_potential = cli_bench_take(context, c, c->heads * m, sizeof(double), &code);
    c->lse = cli_bench_take(context, c, c->heads * n, sizeof(double), &code);
    c->row = cli_bench_take(context, c, m, sizeof(double), &code);
    c->arrays = (ota_arrays){.size = sizeof c->arrays};
    if (c->width == 0) {
        c->arrays.coupling = over(c, c->made.out, n, m);
    } else {
        c->arrays.values = over(c, c->in.values, m, c->width);
        c->arrays.out = over(c, c->made.out, n, c->width);
    }
    return code;
}

ota_status cli_bench_method(cli_context *context, cli_bench_case *c, const char *method,
                            int threads, ota_error *error) {
    c->problem = (ota_problem){.size = sizeof c->problem};
    if (c->width == 0) {
        c->problem.scores = over(c, c->scores, c->queries, c->keys);
    } else {
        c->problem.queries = over(c, c->in.queries, c->queries, c->width);
        c->problem.keys = over(c, c->in.keys, c->keys, c->width);
    }
    if (c->masked != NULL) {
        c->problem.supports = &c->mask;
        c->problem.support_count = 1;
        c->problem.corner = OTA_TOP_LEFT;
    }
    c->options = (ota_options){.size = sizeof c->options,
                               .threads = threads,
                               .gradients = c->gradients,
                               .cpu = context->settings.machine.cpu,
                               .cancel = context->cancel};
    return ota_method_parse(method, &c->problem, &c->options, error);
}

void cli_bench_scores(const cli_bench_case *c, int64_t i, double *scores) {
    const double scale = c->width > 0 ? 1.0 / sqrt((double)c->width) : 1.0;
    for (int64_t j = 0; j < c->keys; j++) {
        scores[j] =
            c->scores == NULL ? 0.0 : cli_element(c->scores, c->type, (size_t)(i * c->keys + j));
        for (int64_t d = 0; d < c->width; d++)
            scores[j] += cli_element(c->in.queries, c->type, (size_t)(i * c->width + d)) *
                         cli_element(c->in.keys, c->type, (size_t)(j * c->width + d));
        scores[j] *= scale;
        if (c->masked != NULL) scores[j] = masked_score(c, i, j, scores[j]);
    }
}

double cli_bench_row_error(const cli_bench_case *c, int64_t i, const double *weights,
                           double worst) {
    const int64_t columns = c->width > 0 ? c->width : c->keys;
    for (int64_t w = 0; w < columns; w++) {
        double sum = c->width == 0 ? weights[w] : 0.0;
        for (int64_t j = 0; j < c->keys && c->width > 0; j++)
            sum += weights[j] * cli_element(c->in.values, c->type, (size_t)(j * c->width + w));
        const double away =
            fabs(sum - cli_element(c->made.out, c->type, (size_t)(i * columns + w)));
        if (!(away <= worst)) worst = away;
    }
    return worst;
}
