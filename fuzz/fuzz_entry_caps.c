/* libFuzzer on problems with entry caps drawn from bytes: method, masks, masses, a sink, caps as a number or an array. A
 * call that is refused leaves its outputs alone, a plan that fails is NaN as a whole, and one that is OK lies between 0
 * and its caps, obeys the mask, and is called good by the certificate. What is called infeasible has no flow. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "otattn.h"
#include "fuzz_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { MOST = 6, PAIRS = MOST * MOST, NODES = 2 * MOST + 2 };

static const char *const methods[] = {"softmax",
                                      "entmax:1.5",
                                      "sparsemax",
                                      "hard",
                                      "softmax/exact",
                                      "entmax:1.5/exact",
                                      "hard/exact",
                                      "softmax/capped:1",
                                      "sparsemax/capped:0.75",
                                      "hard/capped:1",
                                      "softmax/bounded:0.5,1.5",
                                      "entmax:3/bounded:0,1.25",
                                      "hard/bounded:0.5,1.5",
                                      "softmax/relaxed:0.5",
                                      "entmax:1.5/relaxed:2",
                                      "softmax/elastic:0.5,4",
                                      "softmax/prefix",
                                      "entmax:1.5/prefix",
                                      "hard/prefix",
                                      "softmax/online:1",
                                      "entmax:1.5/online:1",
                                      "hard/online:0.75"};
enum { METHODS = (int)(sizeof methods / sizeof methods[0]) };

/* One head and all that a call reads and writes. */
typedef struct scene {
    int64_t n, m;
    bool narrow;
    double scores[PAIRS], caps[PAIRS], mass[MOST], p[PAIRS], f[MOST], g[MOST];
    float narrow_scores[PAIRS], narrow_p[PAIRS];
    unsigned char allowed[PAIRS];
    ota_support supports[2];
    ota_term sink;
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
} scene;

/* Multiples of 1/8 in [-4, 4). */
static double draw_score(fuzz_bytes *r) { return (double)(int)(fuzz_next(r) % 64) / 8.0 - 4.0; }

/* Multiples of 1/16 up to 1, no cap, and now and then bits as they come. */
static double draw_cap(fuzz_bytes *r) {
    const unsigned kind = fuzz_next(r);
    if (kind == 255) return INFINITY;
    if (kind < 254) return (double)(kind % 16 + 1) / 16.0;
    uint64_t bits = 0;
    double cap;
    for (int k = 0; k < 8; k++) bits = bits << 8 | fuzz_next(r);
    memcpy(&cap, &bits, sizeof cap);
    return cap;
}

static ota_array pairs_of(scene *s, void *wide, void *narrow) {
    return ota_array_of(s->narrow ? narrow : wide, s->narrow ? OTA_F32 : OTA_F64, 1, 1, s->n, s->m);
}

static void add_sink(scene *s, double value) {
    s->sink = (ota_term){.kind = OTA_TERM_SINK, .value = value};
    s->problem.terms = &s->sink;
    s->problem.term_count = 1;
}

static void add_support(scene *s, ota_support_kind kind, ota_array array) {
    s->supports[s->problem.support_count++] =
        (ota_support){.kind = kind, .array = array, .left = -1, .right = 0};
    s->problem.supports = s->supports;
}

static void draw(scene *s, fuzz_bytes *r) {
    const unsigned flags = fuzz_next(r);
    s->narrow = (flags & 1U) != 0;
    s->problem.size = sizeof s->problem;
    s->options.size = sizeof s->options;
    s->arrays.size = sizeof s->arrays;
    s->options.threads = 1;
    if (ota_method_parse(methods[fuzz_next(r) % METHODS], &s->problem, &s->options, NULL) < 0)
        abort();
    s->n = 1 + fuzz_next(r) % MOST;
    s->m = 1 + fuzz_next(r) % MOST;
    for (int64_t k = 0; k < s->n * s->m; k++) {
        s->scores[k] = s->narrow_scores[k] = (float)draw_score(r);
        s->allowed[k] = (flags & 2U) == 0 || fuzz_next(r) % 8 > 0;
        s->p[k] = s->narrow_p[k] = 7.0F;
    }
    if ((flags & 2U) != 0)
        add_support(s, OTA_SUPPORT_BOOLEAN, ota_array_of(s->allowed, OTA_BOOL, 1, 1, s->n, s->m));
    if ((flags & 4U) != 0) {
        for (int64_t i = 0; i < s->n; i++) s->mass[i] = (double)(fuzz_next(r) % 9) / 4.0;
        s->problem.row_mass = ota_array_of(s->mass, OTA_F64, 1, 1, 1, s->n);
    } else {
        for (int64_t i = 0; i < s->n; i++) s->mass[i] = 1.0;
    }
    if ((flags & 8U) != 0) add_sink(s, draw_score(r));
    if ((flags & 16U) != 0) s->problem.temperature = (double)(1 + fuzz_next(r) % 8) / 4.0;
    if ((flags & 32U) != 0) {
        for (int64_t k = 0; k < s->n * s->m; k++) s->caps[k] = draw_cap(r);
        s->problem.entry_caps = ota_array_of(s->caps, OTA_F64, 1, 1, s->n, s->m);
    } else {
        s->problem.entry_cap = draw_cap(r);
        /* 0, and -0 too, is no cap. */
        const bool given = s->problem.entry_cap < 0.0 || s->problem.entry_cap > 0.0;
        for (int64_t k = 0; k < s->n * s->m; k++)
            s->caps[k] = given ? s->problem.entry_cap : INFINITY;
    }
    s->problem.scores = pairs_of(s, s->scores, s->narrow_scores);
    s->arrays.coupling = pairs_of(s, s->p, s->narrow_p);
    s->arrays.row_potential = ota_array_of(s->f, OTA_F64, 1, 1, 1, s->n);
    s->arrays.column_potential = ota_array_of(s->g, OTA_F64, 1, 1, 1, s->m);
}

/* ---- is there a plan ---------------------------------------------------------------------------- */

static double advance(double room[NODES][NODES], int at, double most, bool *seen) {
    if (at == NODES - 1) return most;
    seen[at] = true;
    for (int to = 0; to < NODES; to++) {
        if (seen[to] || !(room[at][to] > 1e-9)) continue;
        const double sent = advance(room, to, fmin(most, room[at][to]), seen);
        if (!(sent > 0.0)) continue;
        room[at][to] -= sent;
        room[to][at] += sent;
        return sent;
    }
    return 0.0;
}

/* The mass that rows can send where caps are a little less and every key takes at most `room` [m]. */
static double flow_of(const scene *s, const double *key_room) {
    static double room[NODES][NODES];
    double flow = 0.0, sent;
    memset(room, 0, sizeof room);
    for (int64_t i = 0; i < s->n; i++) {
        room[0][1 + i] = s->mass[i];
        for (int64_t j = 0; j < s->m; j++) {
            if (s->allowed[i * s->m + j])
                room[1 + i][1 + MOST + j] = fmin(100.0, s->caps[i * s->m + j] * (1.0 - 1e-5));
        }
    }
    for (int64_t j = 0; j < s->m; j++) room[1 + MOST + j][NODES - 1] = key_room[j];
    do {
        bool seen[NODES] = {false};
        sent = advance(room, 0, 100.0, seen);
        flow += sent;
    } while (sent > 0.0);
    return flow;
}

/* Rules whose rooms are known without the library: all rows count, and a key takes any amount or at most the cap. */
static bool surely_feasible(const scene *s) {
    const ota_column_rule rule = s->problem.columns;
    double total = 0.0, key_room[MOST];
    for (int64_t i = 0; i < s->n; i++) total += s->mass[i];
    for (int64_t j = 0; j < s->m; j++)
        key_room[j] = rule == OTA_COLUMNS_CAPPED ? s->problem.cap * (1.0 - 1e-5) : 100.0;
    if (rule != OTA_COLUMNS_FREE && rule != OTA_COLUMNS_CAPPED && rule != OTA_COLUMNS_RELAXED)
        return false;
    return s->problem.term_count > 0 || flow_of(s, key_room) >= total - 1e-7;
}

/* ---- what must hold ----------------------------------------------------------------------------- */

static bool untouched(const scene *s) {
    for (int64_t k = 0; k < s->n * s->m; k++) {
        if (s->p[k] < 7.0 || s->p[k] > 7.0) return false;
    }
    return true;
}

static bool poisoned(const scene *s) {
    for (int64_t k = 0; k < s->n * s->m; k++) {
        if (!isnan(s->p[k])) return false;
    }
    return true;
}

static double largest(const double *x, int64_t count) {
    double most = 0.0;
    for (int64_t k = 0; k < count; k++)
        if (isfinite(x[k])) most = fmax(most, fabs(x[k]));
    return most;
}

static void judge(const scene *s) {
    ota_certificate found = {.size = sizeof found};
    const double small = s->narrow ? 2e-5 : 1e-7;
    for (int64_t k = 0; k < s->n * s->m; k++) {
        const double p = s->p[k];
        if (!(p >= 0.0 && p <= s->caps[k] * (1.0 + small)) || (!s->allowed[k] && p > 0.0)) abort();
    }
    if (ota_certify(&s->problem, &s->options, &s->arrays, &found, NULL, NULL) < 0) abort();
    if (found.row_error > small || found.cap_error > small || found.outside > 0.0) abort();
    const ota_column_rule rule = s->problem.columns;
    const bool promised = rule == OTA_COLUMNS_EXACT || rule == OTA_COLUMNS_CAPPED ||
                          rule == OTA_COLUMNS_BOUNDED || rule == OTA_COLUMNS_ONLINE;
    if (promised && found.column_error > small) abort();
    /* A residual moves the gap by itself times the potentials. */
    const double levels = fmax(largest(s->f, s->n), largest(s->g, s->m));
    if (fabs(found.gap) > 10.0 * small * (1.0 + fabs(found.primal) + levels)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static scene s;
    fuzz_bytes r = {bytes, size};
    ota_error error = {.message = ""};
    memset(&s, 0, sizeof s);
    draw(&s, &r);
    const ota_status status = ota_attend(&s.problem, &s.options, &s.arrays, NULL, &error);
    for (int64_t k = 0; k < s.n * s.m && s.narrow; k++) s.p[k] = (double)s.narrow_p[k];
    if (status < 0 && error.message[0] == '\0') abort();
    if (status == OTA_EINVAL || status == OTA_UNSUPPORTED) {
        if (!untouched(&s)) abort();
        return 0;
    }
    if (status < 0 && !untouched(&s) && !poisoned(&s)) abort();
    if (status == OTA_INFEASIBLE && surely_feasible(&s)) abort();
    if (status == OTA_OK || status == OTA_FIXED_ITERS) judge(&s);
    if (status == OTA_EINTERNAL) abort();
    return 0;
}
