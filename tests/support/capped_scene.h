/* capped_scene.h: one head with entry caps, drawn, solved and judged. Include after cmocka.h. */
#ifndef TESTS_CAPPED_SCENE_H
#define TESTS_CAPPED_SCENE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "draw/elements.h"
#include "otattn.h"

static dice dice_state;

enum { N = 9, M = 70, WIDTH = 3 };

/* One head, scores given as a matrix; everything that a call reads or writes, in f64 and f32. */
typedef struct scene {
    int64_t n, m;
    double scores[N * M], caps[N * M], mass[N], column[M], values[M * WIDTH], upstream[N * WIDTH];
    double p[N * M], out[N * WIDTH], f[N], g[M], left[N]; /* left: the sink's */
    float narrow_scores[N * M], narrow_values[M * WIDTH], narrow_p[N * M];
    unsigned char allowed[N * M];
    ota_support support;
    ota_term sink;
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
} scene;

/* The kernels of all scenes; NULL: the best ones. */
static const char *level;

static inline ota_array rows_of(void *data, ota_type type, const scene *s, int64_t columns) {
    return ota_array_of(data, type, 1, 1, s->n, columns);
}

static inline void set_up(scene *s, const char *method, int64_t n, int64_t m, uint64_t seed,
                          bool narrow) {
    dice_state = seed;
    memset(s, 0, sizeof *s);
    s->n = n;
    s->m = m;
    memset(s->allowed, 1, (size_t)(n * m));
    fill_both(s->scores, s->narrow_scores, n * m, &dice_state, EVEN, 2.0);
    fill_both(s->values, s->narrow_values, m * WIDTH, &dice_state, EVEN, 1.0);
    fill_numbers(s->upstream, n * WIDTH, &dice_state, EVEN, 1.0);
    s->problem.size = sizeof s->problem;
    s->options.size = sizeof s->options;
    s->arrays.size = sizeof s->arrays;
    s->options.cpu = level;
    ota_error error;
    if (ota_method_parse(method, &s->problem, &s->options, &error) < 0)
        fail_msg("%s", error.message);
    s->problem.scores =
        narrow ? rows_of(s->narrow_scores, OTA_F32, s, m) : rows_of(s->scores, OTA_F64, s, m);
    s->arrays.values = narrow ? ota_array_of(s->narrow_values, OTA_F32, 1, 1, m, WIDTH)
                              : ota_array_of(s->values, OTA_F64, 1, 1, m, WIDTH);
    s->arrays.coupling =
        narrow ? rows_of(s->narrow_p, OTA_F32, s, m) : rows_of(s->p, OTA_F64, s, m);
    s->arrays.out = rows_of(s->out, OTA_F64, s, WIDTH);
    s->arrays.row_potential = ota_array_of(s->f, OTA_F64, 1, 1, 1, n);
    s->arrays.column_potential = ota_array_of(s->g, OTA_F64, 1, 1, 1, m);
    s->arrays.sink = ota_array_of(s->left, OTA_F64, 1, 1, 1, n);
}

/* Caps between `low` and `high`, one a pair. */
static inline void draw_caps(scene *s, double low, double high, uint64_t seed) {
    dice_state = seed;
    for (int64_t k = 0; k < s->n * s->m; k++)
        s->caps[k] = low + draw_number(&dice_state, OTA_F64, SHARE, high - low);
    s->problem.entry_cap = 0.0;
    s->problem.entry_caps = rows_of(s->caps, OTA_F64, s, s->m);
}

static inline double cap_of(const scene *s, int64_t i, int64_t j) {
    return s->problem.entry_cap > 0.0 ? s->problem.entry_cap : s->caps[i * s->m + j];
}

static inline void forbid(scene *s, int64_t every) {
    for (int64_t k = 0; k < s->n * s->m; k += every) s->allowed[k] = 0;
    s->support =
        (ota_support){.kind = OTA_SUPPORT_BOOLEAN, .array = rows_of(s->allowed, OTA_BOOL, s, s->m)};
    s->problem.supports = &s->support;
    s->problem.support_count = 1;
}

static inline ota_status solve(scene *s, ota_error *error) {
    ota_error mine;
    const ota_status status = ota_attend(&s->problem, &s->options, &s->arrays, NULL, &mine);
    if (error != NULL) *error = mine;
    if (error == NULL && status < 0) fail_msg("%s", mine.message);
    for (int64_t k = 0; k < s->n * s->m && s->problem.scores.type == OTA_F32; k++)
        s->p[k] = (double)s->narrow_p[k];
    return status;
}

static inline ota_certificate judge(const scene *s) {
    ota_certificate found = {.size = sizeof found};
    ota_error error;
    if (ota_certify(&s->problem, &s->options, &s->arrays, &found, NULL, &error) < 0)
        fail_msg("%s", error.message);
    return found;
}

static inline void give_masses(scene *s, double least, double most) {
    for (int64_t i = 0; i < s->n; i++)
        s->mass[i] = least + draw_number(&dice_state, OTA_F64, SHARE, most - least);
    s->problem.row_mass = ota_array_of(s->mass, OTA_F64, 1, 1, 1, s->n);
}

#endif
