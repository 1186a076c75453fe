/* The door: turns the caller's problem and options into an ota_resolved, or refuses in one sentence that
 * names the field, its value and the remedy. Here: scores, rules and masses; terms and supports are
 * terms/ and masks/, options check_options.c. Below the door ranges are only asserted. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "problem/check.h"

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
        TRY(ota_check_array(&p->scores, "scores", error));
        if (!ota_is_float(p->scores.type))
            return ota_wrong_type("scores", p->scores.type, "f64, f32, bf16 or f16", error);
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
        TRY(ota_check_array(&p->queries, "queries", error));
        TRY(ota_check_array(&p->keys, "keys", error));
        if (!ota_is_float(p->queries.type))
            return ota_wrong_type("queries", p->queries.type, "f64, f32, bf16 or f16", error);
        if (p->keys.type != p->queries.type)
            return ota_wrong_type("keys", p->keys.type, "the type of queries", error);
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
        return ota_check_vector(&p->temperatures, "temperatures", want, false, DBL_MIN, false,
                                DBL_MAX, error);
    }
    if (p->temperature > 0.0 && p->temperature < DBL_MIN) {
        return ota_fail(error, OTA_EINVAL, "temperature", "rescale the scores",
                        "temperature is %g, a subnormal number", p->temperature);
    }
    return ota_check_number(p->temperature, "temperature", 0.0, true, DBL_MAX, false, error);
}

/* ---- rules and masses ------------------------------------------------------------------------- */

ota_status ota_refuse_cell(const char *cell, const char *why, const char *hint, ota_error *error) {
    return ota_fail(error, OTA_UNSUPPORTED, "method", hint, "%s is refused: %s", cell, why);
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
    TRY(ota_resolve_regulariser(r, error));
    if (p->columns == OTA_COLUMNS_RELAXED) {
        TRY(ota_check_number(p->strength, "strength", 0.0, true, DBL_MAX, false, error));
    }
    if (p->columns == OTA_COLUMNS_CAPPED || p->columns == OTA_COLUMNS_ONLINE) {
        TRY(ota_check_number(p->cap, "cap", 0.0, true, DBL_MAX, false, error));
    }
    if (p->columns == OTA_COLUMNS_ELASTIC) {
        TRY(ota_check_number(p->lambda, "lambda", 0.0, false, 2.0, true, error));
        TRY(ota_check_number((double)p->steps, "steps", 0.0, false, 1.0e15, false, error));
        if (ota_array_present(&p->lambdas)) {
            if (p->axis == OTA_AXIS_COLUMNS) {
                return ota_fail(error, OTA_UNSUPPORTED, "lambdas",
                                "use the rows axis or one lambda",
                                "a lambda per key has no meaning on the columns axis");
            }
            const int64_t want[4] = {1, 1, 1, r->keys};
            TRY(ota_check_vector(&p->lambdas, "lambdas", want, false, 0.0, false,
                                 1.9999999999999998, error));
        }
    }
    if (p->regulariser == OTA_ENTMAX && p->columns == OTA_COLUMNS_ELASTIC) {
        return ota_refuse_cell(
            "entmax/elastic",
            "the elastic update multiplies scalings, which only entropy plans have",
            "use entmax/relaxed or softmax/elastic", error);
    }
    if (p->regulariser == OTA_HARD && p->columns == OTA_COLUMNS_ELASTIC) {
        return ota_refuse_cell(
            "hard/elastic", "the elastic update multiplies scalings, which only entropy plans have",
            "use softmax/elastic with a small temperature", error);
    }
    if (p->regulariser == OTA_HARD && p->columns == OTA_COLUMNS_RELAXED) {
        return ota_refuse_cell(
            "hard/relaxed",
            "without smoothing a KL penalty on the columns leaves the plan neither "
            "unique nor a matching",
            "use hard/capped or softmax/relaxed with a small temperature", error);
    }
    if (p->rows == OTA_ROWS_RELAXED) {
        TRY(ota_check_number(p->row_strength, "row_strength", 0.0, true, DBL_MAX, false, error));
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
        TRY(ota_check_vector(&p->row_mass, "row_mass", want, true, 0.0, false, DBL_MAX, error));
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
        TRY(ota_check_vector(&p->column_mass, "column_mass", want, true, 0.0, false, DBL_MAX,
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

/* ---- all of it --------------------------------------------------------------------------------- */

ota_status ota_resolve(const ota_problem *problem, const ota_options *options, ota_resolved *r,
                       ota_error *error) {
    memset(r, 0, sizeof *r);
    if (problem == NULL)
        return ota_fail(error, OTA_EINVAL, "problem", "give a problem", "problem is NULL");
    TRY(ota_check_sized(&r->problem, sizeof r->problem, problem, problem->size, "problem.size",
                        error));
    TRY(resolve_scores(r, error));
    TRY(resolve_temperature(r, error));
    TRY(ota_resolve_terms(r, error));
    TRY(ota_resolve_supports(r, error));
    TRY(resolve_rules(r, error));
    TRY(resolve_masses(r, error));
    TRY(ota_check_number(r->problem.dropout, "dropout", 0.0, false, 1.0, true, error));
    TRY(ota_resolve_options(r, options, error));
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
        {"dropout", (a->dropout > 0.0) == (b->dropout > 0.0)},
    };
    for (size_t k = 0; k < sizeof facts / sizeof facts[0]; k++) {
        if (!facts[k].same) {
            return ota_fail(error, OTA_EINVAL, facts[k].field, "create a new plan",
                            "%s differ from the plan's", facts[k].field);
        }
    }
    return OTA_OK;
}
