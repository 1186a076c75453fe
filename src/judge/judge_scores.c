/* Scores, supports and masses for the judge, one pair at a time (formulas in judge_scores.h).
 * Products of narrow inputs are exact in f64; f64 inputs are summed in long double. */
#include "judge_scores.h"

#include <float.h>
#include <string.h>

#include "base/half.h"

/* Of all queries; shares of rows come in one piece or in two. */
static int64_t number_of(const ota_resolved *r, int64_t query) {
    const int64_t second = query >= r->share.split ? r->share.jump : 0;
    return r->share.first + second + query;
}

static int64_t position_of(const ota_resolved *r, int64_t query) {
    const int64_t before = r->problem.corner == OTA_BOTTOM_RIGHT ? r->keys - r->share.rows : 0;
    return number_of(r, query) + before;
}

static bool same_block(const ota_support *s, int64_t at, int64_t key) {
    if (at < 0) return false;
    if (!ota_array_present(&s->array)) return at / s->left == key / s->left;
    int64_t first = 0;
    for (int64_t k = 0; k < s->array.size[3]; k++) {
        const int64_t next = first + ota_array_get_integer(&s->array, 0, 0, 0, k);
        if (at >= first && at < next) return key >= first && key < next;
        first = next;
    }
    return false;
}

/* An addend that stands for "forbidden": twice it is at or below the least finite number of its type. */
static bool forbids(const ota_array *a, int64_t b, int64_t h, int64_t i, int64_t j) {
    const double addend = ota_array_get(a, b, h, i, j);
    if (a->type == OTA_F64) return 2.0 * addend <= -DBL_MAX;
    const double most = a->type == OTA_F16    ? 0x1.ffcp15
                        : a->type == OTA_BF16 ? 0x1.fep127
                                              : 0x1.fffffep127;
    return 2.0 * addend <= -most;
}

static bool support_allows(const ota_resolved *r, const ota_support *s, int64_t b, int64_t h,
                           int64_t i, int64_t j) {
    const int64_t at = position_of(r, i);
    switch (s->kind) {
    case OTA_SUPPORT_CAUSAL: return j <= at;
    case OTA_SUPPORT_WINDOW:
        return (s->left < 0 || j >= at - s->left) && (s->right < 0 || j <= at + s->right);
    case OTA_SUPPORT_STRIDED: {
        const int64_t remainder = (at - j) % s->left;
        return remainder == 0;
    }
    case OTA_SUPPORT_BLOCK: return same_block(s, at, j);
    case OTA_SUPPORT_LENGTHS: return j < ota_array_get_integer(&s->array, 0, 0, 0, b);
    case OTA_SUPPORT_BOOLEAN: return ota_array_get(&s->array, b, h, i, j) > 0.0;
    case OTA_SUPPORT_ADDITIVE: return !forbids(&s->array, b, h, i, j);
    }
    return false;
}

bool ota_judge_allowed(const ota_resolved *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    for (int k = 0; k < r->support_count; k++) {
        if (!support_allows(r, &r->supports[k], b, h, i, j)) return false;
    }
    return true;
}

static bool is_minus_infinity(double x) { return isinf(x) && x < 0.0; }

/* fixed . row of `a`, one typed loop each. */
static double product(const ota_array *a, int64_t b, int64_t h, int64_t row, const double *fixed) {
    const int64_t at = b * a->stride[0] + h * a->stride[1] + row * a->stride[2],
                  step = a->stride[3];
    const int64_t width = a->size[3];
    if (a->type == OTA_F64) {
        const double *x = (const double *)a->data + (width > 0 ? at : 0);
        long double sum = 0.0L;
        for (int64_t k = 0; k < width; k++) sum += (long double)fixed[k] * (long double)x[k * step];
        return (double)sum;
    }
    double part[4] = {0.0, 0.0, 0.0, 0.0};
    for (int64_t k = 0; k < width; k++) {
        double x;
        if (a->type == OTA_F32) {
            x = (double)((const float *)a->data)[at + k * step];
        } else {
            const uint16_t half = ((const uint16_t *)a->data)[at + k * step];
            x = (double)(a->type == OTA_BF16 ? ota_f32_from_bf16(half) : ota_f32_from_f16(half));
        }
        part[k & 3] += fixed[k] * x;
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
}

/* b[i - j + keys - 1] of a relative bias. */
static double relative(const ota_resolved *r, const ota_term *term, int64_t h, int64_t i,
                       int64_t j) {
    return ota_array_get(&term->array, 0, h, 0, number_of(r, i) - j + r->keys - 1);
}

/* S_ij from q_i . k_j or the matrix entry; the pair is allowed. */
static double finish(const ota_resolved *r, int64_t b, int64_t h, int64_t i, int64_t j,
                     double raw) {
    double s = raw;
    for (int k = 0; k < r->term_count; k++) {
        if (r->terms[k].kind == OTA_TERM_RELATIVE_INSIDE) s += relative(r, &r->terms[k], h, i, j);
    }
    s *= r->scale;
    if (is_minus_infinity(s)) return s;
    for (int k = 0; k < r->term_count; k++) {
        if (r->terms[k].kind == OTA_TERM_SOFTCAP)
            s = r->terms[k].value * tanh(s / r->terms[k].value);
    }
    ota_judge_sum sum = {s, 0.0};
    for (int k = 0; k < r->term_count; k++) {
        const ota_term *term = &r->terms[k];
        double addend = 0.0;
        if (term->kind == OTA_TERM_ALIBI) {
            const double slope = ota_array_present(&term->array)
                                     ? ota_array_get(&term->array, 0, 0, 0, h)
                                     : term->value;
            const int64_t distance = position_of(r, i) - j;
            addend = -slope * (double)(distance < 0 ? -distance : distance);
        } else if (term->kind == OTA_TERM_RELATIVE) {
            addend = relative(r, term, h, i, j);
        } else if (term->kind == OTA_TERM_DENSE) {
            if (forbids(&term->array, b, h, i, j)) return -INFINITY;
            addend = ota_array_get(&term->array, b, h, i, j);
        }
        if (is_minus_infinity(addend)) return -INFINITY;
        ota_judge_add(&sum, addend);
    }
    for (int k = 0; k < r->support_count; k++) {
        if (r->supports[k].kind == OTA_SUPPORT_ADDITIVE) {
            ota_judge_add(&sum, ota_array_get(&r->supports[k].array, b, h, i, j));
        }
    }
    return ota_judge_total(sum);
}

/* What one step of an index adds: sizes of 1 are repeated. */
static int64_t step_of(const ota_array *a, int axis) {
    return a->size[axis] != 1 ? a->stride[axis] : 0;
}

void ota_judge_read_line(const ota_array *a, int64_t batch, int64_t head, bool transposed,
                         int64_t line, int64_t count, double *to) {
    const int64_t step = step_of(a, transposed ? 2 : 3);
    const int64_t at =
        batch * step_of(a, 0) + head * step_of(a, 1) + line * step_of(a, transposed ? 3 : 2);
    if (count > 0 && a->type == OTA_F64) {
        const double *x = (const double *)a->data + at;
        if (step == 1)
            memcpy(to, x, (size_t)count * sizeof *to);
        else
            for (int64_t k = 0; k < count; k++) to[k] = x[k * step];
    } else if (count > 0 && a->type == OTA_F32) {
        const float *x = (const float *)a->data + at;
        for (int64_t k = 0; k < count; k++) to[k] = (double)x[k * step];
    } else {
        for (int64_t k = 0; k < count; k++)
            to[k] = transposed ? ota_array_get(a, batch, head, k, line)
                               : ota_array_get(a, batch, head, line, k);
    }
}

void ota_judge_line(const ota_resolved *r, int64_t batch, int64_t head, bool transposed,
                    int64_t line, double *fixed, double *scores) {
    const int64_t count = transposed ? r->queries : r->keys;
    const int64_t key_head = r->from_matrix ? head : head / (r->heads / r->key_heads);
    const ota_array *queries = &r->problem.queries, *keys = &r->problem.keys;
    bool loaded = false;
    if (r->from_matrix && r->support_count == 0 && r->term_count == 0) {
        ota_judge_read_line(&r->problem.scores, batch, head, transposed, line, count, scores);
        for (int64_t k = 0; k < count; k++) scores[k] *= r->scale;
        return;
    }
    for (int64_t k = 0; k < count; k++) {
        const int64_t i = transposed ? k : line, j = transposed ? line : k;
        if (!ota_judge_allowed(r, batch, head, i, j)) {
            scores[k] = -INFINITY;
            continue;
        }
        double raw;
        if (r->from_matrix) {
            raw = ota_array_get(&r->problem.scores, batch, head, i, j);
        } else {
            if (!loaded) {
                for (int64_t w = 0; w < r->width; w++) {
                    fixed[w] = transposed ? ota_array_get(keys, batch, key_head, j, w)
                                          : ota_array_get(queries, batch, head, i, w);
                }
                loaded = true;
            }
            raw = transposed ? product(queries, batch, head, i, fixed)
                             : product(keys, batch, key_head, j, fixed);
        }
        scores[k] = finish(r, batch, head, i, j, raw);
    }
}

double ota_judge_row_mass(const ota_resolved *r, int64_t batch, int64_t head, int64_t row) {
    const bool swapped = r->problem.axis == OTA_AXIS_COLUMNS;
    const ota_array *mass = swapped ? &r->problem.column_mass : &r->problem.row_mass;
    return ota_array_present(mass) ? ota_array_get(mass, batch, head, 0, row) : 1.0;
}

bool ota_judge_has_column_mass(const ota_resolved *r) {
    const bool swapped = r->problem.axis == OTA_AXIS_COLUMNS;
    return ota_array_present(swapped ? &r->problem.row_mass : &r->problem.column_mass);
}

double ota_judge_column_mass(const ota_resolved *r, int64_t batch, int64_t head, int64_t column) {
    const bool swapped = r->problem.axis == OTA_AXIS_COLUMNS;
    return ota_array_get(swapped ? &r->problem.row_mass : &r->problem.column_mass, batch, head, 0,
                         column);
}

/* ---- dropout, from the sentence in otattn.h ---------------------------------------------------- */
static void philox_round(uint32_t x[4], uint64_t key) {
    const uint64_t first = UINT64_C(0xD2511F53) * x[0], third = UINT64_C(0xCD9E8D57) * x[2];
    const uint32_t mixed[4] = {(uint32_t)(third >> 32) ^ x[1] ^ (uint32_t)key, (uint32_t)third,
                               (uint32_t)(first >> 32) ^ x[3] ^ (uint32_t)(key >> 32),
                               (uint32_t)first};
    for (int k = 0; k < 4; k++) x[k] = mixed[k];
}

static void philox(uint32_t x[4], uint64_t key) {
    for (int round = 0; round < 10; round++) {
        philox_round(x, key);
        key = (uint64_t)((uint32_t)key + 0x9E3779B9u) |
              (uint64_t)((uint32_t)(key >> 32) + 0xBB67AE85u) << 32;
    }
}

double ota_judge_dropout(const ota_resolved *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    const double probability = r->problem.dropout;
    if (!(probability > 0.0)) return 1.0;
    const uint64_t offset = r->problem.dropout_offset, block = (uint64_t)j / 4;
    uint32_t head[4] = {(uint32_t)offset, (uint32_t)(offset >> 32), (uint32_t)b, (uint32_t)h};
    philox(head, r->problem.dropout_seed);
    uint32_t pair[4] = {(uint32_t)i, (uint32_t)((uint64_t)i >> 32), (uint32_t)block,
                        (uint32_t)(block >> 32)};
    philox(pair, (uint64_t)head[1] << 32 | head[0]);
    return (double)pair[j % 4] < floor(probability * 4294967296.0) ? 0.0
                                                                   : 1.0 / (1.0 - probability);
}
