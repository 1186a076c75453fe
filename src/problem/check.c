/* The door: turns the caller's problem and options into an ota_resolved, or refuses in one sentence that
 * names the field, its value and the remedy. Below this file ranges are only asserted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "problem/problem.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const ota_status try_status = (call);                                                      \
        if (try_status != OTA_OK) return try_status;                                               \
    } while (0)

static bool is_float(ota_type type) { return type >= OTA_F64 && type <= OTA_F16; }
static bool is_wide(ota_type type) { return type == OTA_F64 || type == OTA_F32; }

/* Copies the caller's struct over a zeroed one of ours; bytes past ours must be zero. */
static ota_status copy_sized(void *to, size_t ours, const void *from, size_t theirs,
                             const char *field, ota_error *error) {
    memset(to, 0, ours);
    if (theirs == 0) {
        return ota_fail(error, OTA_EINVAL, field, "set it to sizeof the struct", "%s is 0", field);
    }
    memcpy(to, from, theirs < ours ? theirs : ours);
    for (size_t k = ours; k < theirs; k++) {
        if (((const unsigned char *)from)[k] != 0) {
            return ota_fail(
                error, OTA_UNSUPPORTED, field, "use a library as new as the header",
                "%s is %zu but this library knows only %zu bytes and a later one is set", field,
                theirs, ours);
        }
    }
    return OTA_OK;
}

/* Sizes, strides and alignment of one array of any allowed type. */
static ota_status check_array(const ota_array *a, const char *field, ota_error *error) {
    const size_t bytes = ota_type_bytes(a->type);
    if (bytes == 0) {
        return ota_fail(error, OTA_EINVAL, field, "use one of the OTA_ types",
                        "%s has the unknown type %d", field, (int)a->type);
    }
    bool empty = false;
    for (int k = 0; k < 4; k++) {
        if (a->size[k] < 0) {
            return ota_fail(error, OTA_EINVAL, field, "sizes are 0 or more",
                            "%s has size %" PRId64 " in dimension %d", field, a->size[k], k);
        }
        if (a->size[k] == 0) empty = true;
    }
    if (empty) return OTA_OK;
    if (a->data == NULL) {
        return ota_fail(error, OTA_EINVAL, field, "point it at the elements", "%s has no data",
                        field);
    }
    int64_t reach = 0, count = 1;
    for (int k = 0; k < 4; k++) {
        const int64_t stride = a->stride[k];
        int64_t span;
        if (stride == INT64_MIN ||
            __builtin_mul_overflow(a->size[k] - 1, stride < 0 ? -stride : stride, &span) ||
            __builtin_add_overflow(reach, span, &reach) ||
            __builtin_mul_overflow(count, a->size[k], &count)) {
            return ota_fail(error, OTA_EOVERFLOW, field, "use smaller sizes or strides",
                            "%s spans more than 2^63 elements", field);
        }
    }
    if (reach > INT64_MAX / 16 || count > INT64_MAX / 16) {
        return ota_fail(error, OTA_EOVERFLOW, field, "use smaller sizes or strides",
                        "%s spans more than 2^59 elements", field);
    }
    if ((uintptr_t)a->data % bytes != 0) {
        return ota_fail(error, OTA_EALIGN, field, "copy it to aligned memory",
                        "%s is not aligned to %zu bytes", field, bytes);
    }
    return OTA_OK;
}

static ota_status wrong_type(const char *field, ota_type type, const char *wanted,
                             ota_error *error) {
    return ota_fail(error, OTA_EINVAL, field, "convert it", "%s has type %d, wanted %s", field,
                    (int)type, wanted);
}

/* Sizes must be `want`; with `broadcasts`, 1 will do in every dimension. */
static ota_status check_shape(const ota_array *a, const char *field, const int64_t want[4],
                              bool broadcasts, ota_error *error) {
    for (int k = 0; k < 4; k++) {
        if (a->size[k] == want[k] || (broadcasts && a->size[k] == 1)) continue;
        return ota_fail(error, OTA_EINVAL, field, "make the shapes agree",
                        "%s has shape [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                        "] where [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] is needed",
                        field, a->size[0], a->size[1], a->size[2], a->size[3], want[0], want[1],
                        want[2], want[3]);
    }
    return OTA_OK;
}

/* A vector of finite numbers in [low, high]; `positive` excludes low itself. */
static ota_status check_vector(const ota_array *a, const char *field, const int64_t want[4],
                               bool broadcasts, double low, bool positive, double high,
                               ota_error *error) {
    TRY(check_array(a, field, error));
    if (!is_wide(a->type)) return wrong_type(field, a->type, "f64 or f32", error);
    TRY(check_shape(a, field, want, broadcasts, error));
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            for (int64_t k = 0; k < a->size[3] && a->size[2] > 0; k++) {
                const double value = ota_array_get(a, b, h, 0, k);
                if (value >= low && value <= high && !(positive && value <= low)) continue;
                return ota_fail(error, OTA_EINVAL, field, "correct the entry",
                                "%s[%" PRId64 "] is %g, wanted %s %g and at most %g", field, k,
                                value, positive ? "more than" : "at least", low, high);
            }
        }
    }
    return OTA_OK;
}

static ota_status check_number(double value, const char *field, double low, bool open_low,
                               double high, bool open_high, ota_error *error) {
    const bool inside =
        (open_low ? value > low : value >= low) && (open_high ? value < high : value <= high);
    if (inside) return OTA_OK;
    char bound[64];
    if (high >= 1.0e308)
        (void)snprintf(bound, sizeof bound, "a finite number %s %g", open_low ? ">" : ">=", low);
    else
        (void)snprintf(bound, sizeof bound, "%g %s it %s %g", low,
                       open_low ? "<" : "<=", open_high ? "<" : "<=", high);
    return ota_fail(error, OTA_EINVAL, field, "choose a value in range", "%s is %g, wanted %s",
                    field, value, bound);
}

static const double largest_double = 1.7976931348623157e308;
static const double smallest_normal = 2.2250738585072014e-308;

/* ---- scores ----------------------------------------------------------------------------------- */

static ota_status resolve_scores(ota_resolved *r, ota_error *error) {
    ota_problem *p = &r->problem;
    const bool queries = ota_array_present(&p->queries), keys = ota_array_present(&p->keys);
    r->from_matrix = ota_array_present(&p->scores);
    if (r->from_matrix && (queries || keys)) {
        return ota_fail(error, OTA_EINVAL, "scores", "give either scores or queries and keys",
                        "scores and %s are both given", queries ? "queries" : "keys");
    }
    if (r->from_matrix) {
        TRY(check_array(&p->scores, "scores", error));
        if (!is_float(p->scores.type))
            return wrong_type("scores", p->scores.type, "f64, f32, bf16 or f16", error);
        r->type = p->scores.type;
        r->batch = p->scores.size[0];
        r->heads = r->key_heads = p->scores.size[1];
        r->queries = p->scores.size[2];
        r->keys = p->scores.size[3];
    } else {
        if (!queries)
            return ota_fail(error, OTA_EINVAL, "queries", "give queries and keys, or scores",
                            "queries are absent");
        if (!keys)
            return ota_fail(error, OTA_EINVAL, "keys", "give queries and keys, or scores",
                            "keys are absent");
        TRY(check_array(&p->queries, "queries", error));
        TRY(check_array(&p->keys, "keys", error));
        if (!is_float(p->queries.type))
            return wrong_type("queries", p->queries.type, "f64, f32, bf16 or f16", error);
        if (p->keys.type != p->queries.type)
            return wrong_type("keys", p->keys.type, "the type of queries", error);
        r->type = p->queries.type;
        r->batch = p->queries.size[0];
        r->heads = p->queries.size[1];
        r->key_heads = p->keys.size[1];
        r->queries = p->queries.size[2];
        r->keys = p->keys.size[2];
        r->width = p->queries.size[3];
        if (p->keys.size[0] != r->batch) {
            return ota_fail(error, OTA_EINVAL, "keys", "use the same batch",
                            "keys have batch %" PRId64 " but queries %" PRId64, p->keys.size[0],
                            r->batch);
        }
        if (p->keys.size[3] != r->width) {
            return ota_fail(error, OTA_EINVAL, "keys", "use the same width",
                            "keys have width %" PRId64 " but queries %" PRId64, p->keys.size[3],
                            r->width);
        }
        if (r->heads != r->key_heads && (r->key_heads == 0 || r->heads % r->key_heads != 0)) {
            return ota_fail(error, OTA_EINVAL, "keys", "let the key heads divide the query heads",
                            "keys have %" PRId64 " heads, which do not divide the %" PRId64
                            " heads of queries",
                            r->key_heads, r->heads);
        }
    }
    int64_t pairs, all;
    if (__builtin_mul_overflow(r->queries, r->keys, &pairs) ||
        __builtin_mul_overflow(r->batch, r->heads, &all) || r->queries > INT64_MAX / 64 ||
        r->keys > INT64_MAX / 64) {
        return ota_fail(error, OTA_EOVERFLOW, "queries", "use smaller sizes",
                        "%" PRId64 " queries times %" PRId64 " keys overflow", r->queries, r->keys);
    }
    if (isnan(p->scale) || isinf(p->scale)) {
        return ota_fail(error, OTA_EINVAL, "scale", "choose a finite number (0 = default)",
                        "scale is %g", p->scale);
    }
    r->scale = p->scale < 0.0 || p->scale > 0.0  ? p->scale
               : r->from_matrix || r->width == 0 ? 1.0
                                                 : 1.0 / sqrt((double)r->width);
    if (p->cost) r->scale = -r->scale;
    return OTA_OK;
}

static ota_status resolve_temperature(ota_resolved *r, ota_error *error) {
    ota_problem *p = &r->problem;
    if (!(p->temperature < 0.0) && !(p->temperature > 0.0) && !isnan(p->temperature))
        p->temperature = 1.0;
    if (ota_array_present(&p->temperatures)) {
        const int64_t want[4] = {1, 1, 1, r->heads};
        return check_vector(&p->temperatures, "temperatures", want, false, smallest_normal, false,
                            largest_double, error);
    }
    if (p->temperature > 0.0 && p->temperature < smallest_normal) {
        return ota_fail(error, OTA_EINVAL, "temperature", "rescale the scores",
                        "temperature is %g, a subnormal number", p->temperature);
    }
    return check_number(p->temperature, "temperature", 0.0, true, largest_double, false, error);
}

/* ---- terms and supports ----------------------------------------------------------------------- */

static ota_status resolve_term(ota_resolved *r, const ota_term *term, ota_error *error) {
    const int64_t heads[4] = {1, 1, 1, r->heads};
    const int64_t full[4] = {r->batch, r->heads, r->queries, r->keys};
    const int64_t line[4] = {1, r->heads, 1, r->queries + r->keys - 1};
    const int64_t shared_line[4] = {1, 1, 1, r->queries + r->keys - 1};
    switch (term->kind) {
    case OTA_TERM_DENSE:
        TRY(check_array(&term->array, "bias", error));
        if (!is_float(term->array.type))
            return wrong_type("bias", term->array.type, "f64, f32, bf16 or f16", error);
        return check_shape(&term->array, "bias", full, true, error);
    case OTA_TERM_ALIBI:
        if (ota_array_present(&term->array)) {
            return check_vector(&term->array, "alibi", heads, false, -largest_double, false,
                                largest_double, error);
        }
        return check_number(term->value, "alibi", -largest_double, false, largest_double, false,
                            error);
    case OTA_TERM_RELATIVE:
    case OTA_TERM_RELATIVE_INSIDE:
        TRY(check_array(&term->array, "relative_bias", error));
        if (!is_float(term->array.type)) {
            return wrong_type("relative_bias", term->array.type, "f64, f32, bf16 or f16", error);
        }
        if (r->queries == 0 || r->keys == 0) return OTA_OK;
        if (term->array.size[3] != line[3]) {
            return ota_fail(error, OTA_EINVAL, "relative_bias",
                            "give one entry per difference i - j",
                            "relative_bias has %" PRId64
                            " entries where queries + keys - 1 = %" PRId64 " are needed",
                            term->array.size[3], line[3]);
        }
        return check_shape(&term->array, "relative_bias",
                           term->array.size[1] == 1 ? shared_line : line, false, error);
    case OTA_TERM_SOFTCAP:
        return check_number(term->value, "softcap", 0.0, true, largest_double, false, error);
    case OTA_TERM_SINK:
        if (ota_array_present(&term->array)) {
            return check_vector(&term->array, "sink", heads, false, -largest_double, false,
                                largest_double, error);
        }
        return check_number(term->value, "sink", -largest_double, false, largest_double, false,
                            error);
    default:
        return ota_fail(error, OTA_EINVAL, "terms", "use one of the OTA_TERM_ kinds",
                        "a term has the unknown kind %d", (int)term->kind);
    }
}

/* Place in the order of application; also which kinds may come once only. */
static int term_rank(ota_term_kind kind) {
    static const int rank[] = {
        [OTA_TERM_RELATIVE_INSIDE] = 0, [OTA_TERM_SOFTCAP] = 1, [OTA_TERM_ALIBI] = 2,
        [OTA_TERM_RELATIVE] = 3,        [OTA_TERM_DENSE] = 4,   [OTA_TERM_SINK] = 5};
    return rank[kind];
}

static ota_status resolve_terms(ota_resolved *r, ota_error *error) {
    const ota_problem *p = &r->problem;
    if (p->term_count < 0 || p->term_count > OTA_MAX_TERMS ||
        (p->term_count > 0 && p->terms == NULL)) {
        return ota_fail(error, OTA_EINVAL, "term_count", "give 0 to 16 terms",
                        "term_count is %" PRId64 "%s", p->term_count,
                        p->terms == NULL ? " and terms is NULL" : "");
    }
    for (int64_t k = 0; k < p->term_count; k++) {
        const ota_term *term = &p->terms[k];
        TRY(resolve_term(r, term, error));
        for (int64_t other = 0; other < k; other++) {
            if (p->terms[other].kind == term->kind && term->kind != OTA_TERM_DENSE) {
                return ota_fail(error, OTA_EINVAL, "terms", "merge them",
                                "two terms have the kind %d", (int)term->kind);
            }
        }
        if (term->kind == OTA_TERM_SINK) {
            r->has_sink = true;
            r->sink = *term;
            r->sink_place = (int)k;
            continue;
        }
        int at = r->term_count++;
        for (; at > 0 && term_rank(r->terms[at - 1].kind) > term_rank(term->kind); at--) {
            r->terms[at] = r->terms[at - 1];
            r->term_places[at] = r->term_places[at - 1];
        }
        r->terms[at] = *term;
        r->term_places[at] = (int)k;
        r->row_terms = true;
    }
    return OTA_OK;
}

static ota_status resolve_blocks(ota_resolved *r, const ota_support *s, ota_error *error) {
    if (!ota_array_present(&s->array)) {
        if (s->left >= 1) return OTA_OK;
        return ota_fail(error, OTA_EINVAL, "block", "use blocks of 1 position or more",
                        "block is %" PRId64, s->left);
    }
    TRY(check_array(&s->array, "block", error));
    if (s->array.type != OTA_I64) return wrong_type("block", s->array.type, "int64", error);
    int64_t covered = 0;
    const int64_t last_query = r->queries + r->offset;
    const int64_t needed = last_query > r->keys ? last_query : r->keys;
    for (int64_t k = 0; k < s->array.size[3]; k++) {
        const int64_t size = ota_array_get_integer(&s->array, 0, 0, 0, k);
        if (size < 0 || __builtin_add_overflow(covered, size, &covered)) {
            return ota_fail(error, OTA_EINVAL, "block", "block sizes are 0 or more",
                            "block[%" PRId64 "] is %" PRId64, k, size);
        }
    }
    if (covered >= needed) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, "block", "let the sizes add up to the number of positions",
                    "block sizes add up to %" PRId64 " but there are %" PRId64 " positions",
                    covered, needed);
}

static ota_status resolve_support(ota_resolved *r, ota_support *s, ota_error *error) {
    const int64_t full[4] = {r->batch, r->heads, r->queries, r->keys};
    const int64_t reach = r->queries + r->keys; /* a window this wide is no limit */
    switch (s->kind) {
    case OTA_SUPPORT_CAUSAL:
        if (r->queries == r->keys || r->problem.corner != OTA_CORNER_UNSET) return OTA_OK;
        return ota_fail(error, OTA_EINVAL, "corner", "choose top-left or bottom-right",
                        "causal with %" PRId64 " queries and %" PRId64 " keys needs a corner",
                        r->queries, r->keys);
    case OTA_SUPPORT_WINDOW:
        if (s->left < -1 || s->right < -1) {
            return ota_fail(error, OTA_EINVAL, "window", "use -1 for no limit",
                            "window is %" PRId64 ",%" PRId64, s->left, s->right);
        }
        if (s->left > reach) s->left = -1;
        if (s->right > reach) s->right = -1;
        return OTA_OK;
    case OTA_SUPPORT_STRIDED:
        if (s->left >= 1) return OTA_OK;
        return ota_fail(error, OTA_EINVAL, "strided", "use a stride of 1 or more",
                        "strided is %" PRId64, s->left);
    case OTA_SUPPORT_BLOCK: return resolve_blocks(r, s, error);
    case OTA_SUPPORT_LENGTHS: {
        const int64_t want[4] = {1, 1, 1, r->batch};
        TRY(check_array(&s->array, "lengths", error));
        if (s->array.type != OTA_I64) return wrong_type("lengths", s->array.type, "int64", error);
        TRY(check_shape(&s->array, "lengths", want, false, error));
        for (int64_t b = 0; b < r->batch; b++) {
            const int64_t length = ota_array_get_integer(&s->array, 0, 0, 0, b);
            if (length >= 0 && length <= r->keys) continue;
            return ota_fail(
                error, OTA_EINVAL, "lengths", "lengths lie between 0 and the number of keys",
                "lengths[%" PRId64 "] is %" PRId64 " with %" PRId64 " keys", b, length, r->keys);
        }
        return OTA_OK;
    }
    case OTA_SUPPORT_BOOLEAN:
        TRY(check_array(&s->array, "mask", error));
        if (s->array.type != OTA_BOOL) return wrong_type("mask", s->array.type, "bool", error);
        return check_shape(&s->array, "mask", full, true, error);
    case OTA_SUPPORT_ADDITIVE:
        TRY(check_array(&s->array, "mask", error));
        if (!is_float(s->array.type))
            return wrong_type("mask", s->array.type, "f64, f32, bf16 or f16", error);
        return check_shape(&s->array, "mask", full, true, error);
    default:
        return ota_fail(error, OTA_EINVAL, "supports", "use one of the OTA_SUPPORT_ kinds",
                        "a support has the unknown kind %d", (int)s->kind);
    }
}

static ota_status resolve_supports(ota_resolved *r, ota_error *error) {
    const ota_problem *p = &r->problem;
    if (p->support_count < 0 || p->support_count > OTA_MAX_SUPPORTS ||
        (p->support_count > 0 && p->supports == NULL)) {
        return ota_fail(error, OTA_EINVAL, "support_count", "give 0 to 16 supports",
                        "support_count is %" PRId64 "%s", p->support_count,
                        p->supports == NULL ? " and supports is NULL" : "");
    }
    if ((int)p->corner < OTA_CORNER_UNSET || p->corner > OTA_BOTTOM_RIGHT) {
        return ota_fail(error, OTA_EINVAL, "corner", "choose top-left or bottom-right",
                        "corner is %d", (int)p->corner);
    }
    r->offset = p->corner == OTA_BOTTOM_RIGHT ? r->keys - r->queries : 0;
    for (int64_t k = 0; k < p->support_count; k++) {
        ota_support support = p->supports[k];
        TRY(resolve_support(r, &support, error));
        r->supports[r->support_count++] = support;
        if (support.kind == OTA_SUPPORT_BOOLEAN || support.kind == OTA_SUPPORT_ADDITIVE ||
            support.kind == OTA_SUPPORT_STRIDED) {
            r->row_terms = true;
        }
    }
    return OTA_OK;
}

/* ---- rules and masses ------------------------------------------------------------------------- */

static ota_status refuse_cell(const char *cell, const char *why, const char *hint,
                              ota_error *error) {
    return ota_fail(error, OTA_UNSUPPORTED, "method", hint, "%s is refused: %s", cell, why);
}

/* Neither a proof nor needed for one: what falls or is negative here was given by mistake. */
static ota_status check_custom(const ota_problem *p, ota_error *error) {
    const ota_custom *custom = &p->custom;
    if (p->columns != OTA_COLUMNS_FREE || p->axis != OTA_AXIS_ROWS) {
        return refuse_cell(p->axis != OTA_AXIS_ROWS ? "custom on the columns axis"
                                                    : "custom with coupled columns",
                           "a regulariser of the caller's is solved for rows alone",
                           "use free columns on the rows axis", error);
    }
    if (custom->weight == NULL || custom->slope == NULL) {
        return ota_fail(error, OTA_EINVAL,
                        custom->weight == NULL ? "custom.weight" : "custom.slope",
                        "give both functions", "a custom regulariser lacks its %s",
                        custom->weight == NULL ? "weight" : "slope");
    }
    double before = 0.0, at = -INFINITY;
    for (int k = -400; k <= 400; k++) {
        const double x = 0.001 * k * fabs((double)k);
        const double weight = custom->weight(custom->user, x);
        const double slope = custom->slope(custom->user, x);
        if (!(weight >= before)) {
            return ota_fail(
                error, OTA_EINVAL, "custom.weight",
                "give the inverse of Omega', clipped at 0; Omega must be convex",
                "custom.weight is %g at %g and %g at %g, but it may not fall below 0 or "
                "below itself",
                before, at, weight, x);
        }
        if (!(slope >= 0.0)) {
            return ota_fail(error, OTA_EINVAL, "custom.slope",
                            "give the derivative of custom.weight",
                            "custom.slope is %g at %g, but weights never fall", slope, x);
        }
        before = weight;
        at = x;
    }
    return OTA_OK;
}

static ota_status resolve_rules(ota_resolved *r, ota_error *error) {
    ota_problem *p = &r->problem;
    if ((int)p->regulariser < 0 || p->regulariser > OTA_CUSTOM) {
        return ota_fail(error, OTA_EINVAL, "regulariser", "use softmax, entmax, hard or custom",
                        "regulariser is %d", (int)p->regulariser);
    }
    if ((int)p->columns < 0 || p->columns > OTA_COLUMNS_ONLINE) {
        return ota_fail(error, OTA_EINVAL, "columns", "use one of the OTA_COLUMNS_ rules",
                        "columns is %d", (int)p->columns);
    }
    if ((int)p->rows < 0 || p->rows > OTA_ROWS_RELAXED) {
        return ota_fail(error, OTA_EINVAL, "rows", "use hard or relaxed", "rows is %d",
                        (int)p->rows);
    }
    if (!(p->order < 0.0) && !(p->order > 0.0) && !isnan(p->order)) p->order = 1.5;
    if (p->regulariser == OTA_ENTMAX)
        TRY(check_number(p->order, "order", 1.0, true, largest_double, false, error));
    r->order = p->regulariser == OTA_SOFTMAX ? 1.0 : p->regulariser == OTA_HARD ? 0.0 : p->order;
    if (p->regulariser == OTA_CUSTOM) {
        /* Like entmax in what matters outside the row: no lse, and weights may be 0. */
        r->order = 2.0;
        TRY(check_custom(p, error));
    }
    if (p->columns == OTA_COLUMNS_RELAXED) {
        TRY(check_number(p->strength, "strength", 0.0, true, largest_double, false, error));
    }
    if (p->columns == OTA_COLUMNS_CAPPED || p->columns == OTA_COLUMNS_ONLINE) {
        TRY(check_number(p->cap, "cap", 0.0, true, largest_double, false, error));
    }
    if (p->columns == OTA_COLUMNS_ELASTIC) {
        TRY(check_number(p->lambda, "lambda", 0.0, false, 2.0, true, error));
        TRY(check_number((double)p->steps, "steps", 0.0, false, 1.0e15, false, error));
        if (ota_array_present(&p->lambdas)) {
            if (p->axis == OTA_AXIS_COLUMNS) {
                return ota_fail(error, OTA_UNSUPPORTED, "lambdas",
                                "use the rows axis or one lambda",
                                "a lambda per key has no meaning on the columns axis");
            }
            const int64_t want[4] = {1, 1, 1, r->keys};
            TRY(check_vector(&p->lambdas, "lambdas", want, false, 0.0, false, 1.9999999999999998,
                             error));
        }
    }
    if (p->regulariser == OTA_ENTMAX && p->columns == OTA_COLUMNS_ELASTIC) {
        return refuse_cell("entmax/elastic",
                           "the elastic update multiplies scalings, which only entropy plans have",
                           "use entmax/relaxed or softmax/elastic", error);
    }
    if (p->regulariser == OTA_HARD && p->columns == OTA_COLUMNS_ELASTIC) {
        return refuse_cell("hard/elastic",
                           "the elastic update multiplies scalings, which only entropy plans have",
                           "use softmax/elastic with a small temperature", error);
    }
    if (p->regulariser == OTA_HARD && p->columns == OTA_COLUMNS_RELAXED) {
        return refuse_cell("hard/relaxed",
                           "without smoothing a KL penalty on the columns leaves the plan neither "
                           "unique nor a matching",
                           "use hard/capped or softmax/relaxed with a small temperature", error);
    }
    if (p->rows == OTA_ROWS_RELAXED) {
        TRY(check_number(p->row_strength, "row_strength", 0.0, true, largest_double, false, error));
        if (p->columns != OTA_COLUMNS_RELAXED || p->regulariser != OTA_SOFTMAX) {
            return ota_fail(error, OTA_UNSUPPORTED, "rows", "use softmax/relaxed, or hard rows",
                            "relaxed rows need softmax with relaxed columns");
        }
    }
    if ((int)p->axis < 0 || p->axis > OTA_AXIS_COLUMNS) {
        return ota_fail(error, OTA_EINVAL, "axis", "use rows or columns", "axis is %d",
                        (int)p->axis);
    }
    const bool printed = p->start != OTA_SIDE_ROWS || p->end != OTA_SIDE_ROWS;
    const bool scaling = p->regulariser == OTA_SOFTMAX &&
                         (p->columns == OTA_COLUMNS_EXACT || p->columns == OTA_COLUMNS_ELASTIC ||
                          p->columns == OTA_COLUMNS_RELAXED || p->columns == OTA_COLUMNS_CAPPED);
    if (printed && !scaling) {
        return ota_fail(error, OTA_UNSUPPORTED, p->start != OTA_SIDE_ROWS ? "start" : "end",
                        "leave start and end at rows",
                        "the printed start and end orders exist for softmax with exact, relaxed, "
                        "capped or elastic columns only");
    }
    if (p->axis == OTA_AXIS_COLUMNS &&
        (p->columns == OTA_COLUMNS_PREFIX || p->columns == OTA_COLUMNS_ONLINE)) {
        return ota_fail(
            error, OTA_UNSUPPORTED, "axis", "use the rows axis",
            "%s columns process queries in order, which the transposed problem does not have",
            p->columns == OTA_COLUMNS_PREFIX ? "prefix" : "online");
    }
    if (p->axis == OTA_AXIS_COLUMNS && ota_array_present(&p->lambdas)) {
        return ota_fail(error, OTA_UNSUPPORTED, "lambdas", "use one lambda, or the rows axis",
                        "lambdas name keys, but the columns axis updates queries");
    }
    if (p->axis == OTA_AXIS_COLUMNS && r->has_sink) {
        return ota_fail(error, OTA_UNSUPPORTED, "sink", "use the rows axis",
                        "a sink is one more key and has no place on the columns axis");
    }
    if (p->columns == OTA_COLUMNS_PREFIX && r->has_sink) {
        return ota_fail(error, OTA_UNSUPPORTED, "sink", "use online or capped columns",
                        "prefix columns share all mass among the keys and leave the sink nothing");
    }
    if (p->columns == OTA_COLUMNS_PREFIX && r->queries > r->keys) {
        return ota_fail(error, OTA_EINVAL, "queries", "give at least as many keys as queries",
                        "prefix needs queries <= keys, got %" PRId64 " queries and %" PRId64
                        " keys",
                        r->queries, r->keys);
    }
    return OTA_OK;
}

static ota_status resolve_masses(ota_resolved *r, ota_error *error) {
    const ota_problem *p = &r->problem;
    if (ota_array_present(&p->row_mass)) {
        const int64_t want[4] = {r->batch, r->heads, 1, r->queries};
        TRY(check_vector(&p->row_mass, "row_mass", want, true, 0.0, false, largest_double, error));
        if (p->row_mass.size[3] != r->queries) {
            return ota_fail(error, OTA_EINVAL, "row_mass", "give one mass per query",
                            "row_mass has %" PRId64 " entries for %" PRId64 " queries",
                            p->row_mass.size[3], r->queries);
        }
    }
    const bool transposed = p->axis == OTA_AXIS_COLUMNS;
    if (!ota_array_present(&p->column_mass) && r->has_sink && p->columns == OTA_COLUMNS_EXACT) {
        return ota_fail(
            error, OTA_EINVAL, "column_mass", "give column masses that leave the sink a share",
            "exact columns with a sink need a column_mass with a total below the rows' mass");
    }
    if (ota_array_present(&p->column_mass)) {
        const int64_t want[4] = {r->batch, r->heads, 1, r->keys};
        TRY(check_vector(&p->column_mass, "column_mass", want, true, 0.0, false, largest_double,
                         error));
        if (p->column_mass.size[3] != r->keys) {
            return ota_fail(error, OTA_EINVAL, "column_mass", "give one mass per key",
                            "column_mass has %" PRId64 " entries for %" PRId64 " keys",
                            p->column_mass.size[3], r->keys);
        }
    }
    /* The side the column rule governs: keys, or queries of the transposed problem. */
    const ota_array *governed = transposed ? &p->row_mass : &p->column_mass;
    const char *field = transposed ? "row_mass" : "column_mass";
    if (ota_array_present(governed) &&
        (p->columns == OTA_COLUMNS_FREE || p->columns == OTA_COLUMNS_PREFIX)) {
        return ota_fail(error, OTA_EINVAL, field,
                        "leave it out or use exact, relaxed, capped, elastic or online",
                        "%s has no meaning for %s columns%s", field,
                        p->columns == OTA_COLUMNS_FREE ? "free" : "prefix",
                        transposed ? " on the columns axis" : "");
    }
    return OTA_OK;
}

/* ---- options ---------------------------------------------------------------------------------- */

static ota_status resolve_options(ota_resolved *r, const ota_options *given, ota_error *error) {
    ota_options o;
    if (given != NULL)
        TRY(copy_sized(&o, sizeof o, given, given->size, "options.size", error));
    else
        memset(&o, 0, sizeof o);
    ota_settings *s = &r->settings;
    const bool narrow = r->type != OTA_F64;
    s->tolerance = o.tolerance < 0.0 || o.tolerance > 0.0 || isnan(o.tolerance) ? o.tolerance
                   : narrow                                                     ? 1e-5
                                                                                : 1e-9;
    TRY(check_number(s->tolerance, "tolerance", 0.0, true, largest_double, false, error));
    if (o.max_rounds < 0) {
        return ota_fail(error, OTA_EINVAL, "max_rounds", "use 1 or more", "max_rounds is %" PRId64,
                        o.max_rounds);
    }
    s->max_rounds = o.max_rounds == 0 ? 1000 : o.max_rounds;
    if (o.rounds < OTA_NO_ROUNDS) {
        return ota_fail(error, OTA_EINVAL, "rounds", "use 0 or more", "rounds is %" PRId64,
                        o.rounds);
    }
    s->fixed = o.rounds != 0;
    s->rounds = o.rounds == OTA_NO_ROUNDS ? 0 : o.rounds;
    if (r->problem.columns == OTA_COLUMNS_ELASTIC) {
        s->fixed = true;
        s->rounds = r->problem.steps;
    }
    if (o.anneal_start < 0.0 || o.anneal_start > 0.0 || isnan(o.anneal_start)) {
        TRY(check_number(o.anneal_start, "anneal_start", 0.0, true, largest_double, false, error));
        s->anneal_start = o.anneal_start;
        s->anneal_factor = o.anneal_factor < 0.0 || o.anneal_factor > 0.0 || isnan(o.anneal_factor)
                               ? o.anneal_factor
                               : 0.5;
        TRY(check_number(s->anneal_factor, "anneal_factor", 0.0, true, 1.0, true, error));
        if (o.anneal_rounds < 0) {
            return ota_fail(error, OTA_EINVAL, "anneal_rounds", "use 1 or more",
                            "anneal_rounds is %" PRId64, o.anneal_rounds);
        }
        s->anneal_rounds = o.anneal_rounds > 0                         ? o.anneal_rounds
                           : r->problem.columns == OTA_COLUMNS_ELASTIC ? 1
                                                                       : 5;
        s->anneal_keep_scaling = o.anneal_keep_scaling != 0;
    }
    s->relaxation =
        o.relaxation < 0.0 || o.relaxation > 0.0 || isnan(o.relaxation) ? o.relaxation : 1.0;
    TRY(check_number(s->relaxation, "relaxation", 0.0, true, 2.0, true, error));
    s->relaxation_auto = o.relaxation_auto != 0;
    if ((int)o.center < 0 || o.center > OTA_CENTER_MIDRANGE) {
        return ota_fail(error, OTA_EINVAL, "center", "use none, mean or midrange", "center is %d",
                        (int)o.center);
    }
    s->center = o.center;
    if ((int)o.precision < 0 || o.precision > OTA_PRECISION_F64) {
        return ota_fail(error, OTA_EINVAL, "precision", "use auto, f32 or f64", "precision is %d",
                        (int)o.precision);
    }
    s->precision = o.precision;
    if (o.tolerance_scaling < 0.0 || isnan(o.tolerance_scaling)) {
        return ota_fail(error, OTA_EINVAL, "tolerance_scaling", "use 0 (off) or more",
                        "tolerance_scaling is %g", o.tolerance_scaling);
    }
    s->tolerance_scaling = o.tolerance_scaling;
    s->prune = o.prune != 0;
    s->allow_partial = o.allow_partial != 0;
    s->strict = o.strict != 0;
    if (o.threads < 0 || o.threads > OTA_THREADS_MAX) {
        return ota_fail(error, OTA_EINVAL, "threads", "use 0 (all) to 4096", "threads is %d",
                        o.threads);
    }
    s->threads = o.threads;
    s->executor = o.executor;
    if (o.executor != NULL && (o.executor->run == NULL || o.executor->threads < 1)) {
        return ota_fail(error, OTA_EINVAL, "executor", "give run and at least 1 thread",
                        "executor has %s and %d threads",
                        o.executor->run == NULL ? "no run" : "run", o.executor->threads);
    }
    const char *cpu = o.cpu == NULL ? "" : o.cpu;
    if (strlen(cpu) >= sizeof s->cpu || (cpu[0] != '\0' && ota_cpu_level(cpu) < 0)) {
        return ota_fail(error, OTA_EINVAL, "cpu", "doctor lists the levels of this machine",
                        "cpu is '%.32s', an unknown level", cpu);
    }
    (void)snprintf(s->cpu, sizeof s->cpu, "%s", cpu);
    const char *solver = o.solver == NULL ? "auto" : o.solver;
    if (strlen(solver) >= sizeof s->solver) {
        return ota_fail(error, OTA_EINVAL, "solver", "doctor lists the solvers",
                        "solver is '%.40s', an unknown name", solver);
    }
    (void)snprintf(s->solver, sizeof s->solver, "%s", solver);
    s->gradients = o.gradients != 0;
    if (o.backward < 0 || o.backward > 2) {
        return ota_fail(error, OTA_EINVAL, "backward", "use 0 (auto), 1 (implicit) or 2 (unrolled)",
                        "backward is %d", o.backward);
    }
    s->backward = o.backward;
    s->workspace_limit = o.workspace_limit;
    s->cancel = o.cancel;
    s->deadline_ns = o.deadline_ns;
    s->progress = o.progress;
    s->progress_user = o.progress_user;
    return OTA_OK;
}

ota_status ota_resolve(const ota_problem *problem, const ota_options *options, ota_resolved *r,
                       ota_error *error) {
    memset(r, 0, sizeof *r);
    if (problem == NULL)
        return ota_fail(error, OTA_EINVAL, "problem", "give a problem", "problem is NULL");
    TRY(copy_sized(&r->problem, sizeof r->problem, problem, problem->size, "problem.size", error));
    TRY(resolve_scores(r, error));
    TRY(resolve_temperature(r, error));
    TRY(resolve_terms(r, error));
    TRY(resolve_supports(r, error));
    TRY(resolve_rules(r, error));
    TRY(resolve_masses(r, error));
    TRY(resolve_options(r, options, error));
    r->problem.terms = r->terms;
    r->problem.supports = r->supports;
    return OTA_OK;
}

ota_status ota_check(const ota_problem *problem, const ota_options *options, ota_error *error) {
    ota_resolved resolved;
    return ota_resolve(problem, options, &resolved, error);
}

/* ---- rebind ----------------------------------------------------------------------------------- */

static bool same_shape(const ota_array *a, const ota_array *b) {
    return a->type == b->type && memcmp(a->size, b->size, sizeof a->size) == 0;
}

ota_status ota_resolved_same(const ota_resolved *old, const ota_resolved *next, ota_error *error) {
    const ota_problem *a = &old->problem, *b = &next->problem;
    const struct {
        const char *field;
        bool same;
    } facts[] = {
        {"queries", same_shape(&a->queries, &b->queries)},
        {"keys", same_shape(&a->keys, &b->keys)},
        {"scores", same_shape(&a->scores, &b->scores)},
        {"regulariser", a->regulariser == b->regulariser},
        {"columns", a->columns == b->columns},
        {"rows", a->rows == b->rows},
        {"axis", a->axis == b->axis},
        {"start", a->start == b->start},
        {"end", a->end == b->end},
        {"steps", a->steps == b->steps},
        {"lambda", (a->lambda > 0.0) == (b->lambda > 0.0)},
        {"lambdas", same_shape(&a->lambdas, &b->lambdas)},
        {"corner", old->offset == next->offset},
        {"terms", old->row_terms == next->row_terms && old->has_sink == next->has_sink},
    };
    for (size_t k = 0; k < sizeof facts / sizeof facts[0]; k++) {
        if (!facts[k].same) {
            return ota_fail(error, OTA_EINVAL, facts[k].field, "create a new plan",
                            "%s differ from the plan's", facts[k].field);
        }
    }
    return OTA_OK;
}
