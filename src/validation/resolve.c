/* The checks of a problem: turns the caller's problem and options into an ota_resolved, or refuses in one sentence that
 * names the field, its value and the remedy. Here: scores and temperatures; what terms, supports, regularisers and
 * columns ask for is checked in their folders, options in check_options.c. Below the checks ranges are only asserted. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "columns/columns.h"
#include "masks/masks.h"
#include "problem/check.h"
#include "regularisers/regularisers.h"
#include "terms/terms.h"
#include "validation/validation.h"

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

/* ---- rules ------------------------------------------------------------------------------------- */

static ota_status resolve_rules(ota_resolved *r, ota_error *error) {
    const ota_problem *p = &r->problem;
    if ((int)p->regulariser < 0 || p->regulariser > OTA_CUSTOM) {
        return ota_fail(error, OTA_EINVAL, "regulariser", "use softmax, entmax, hard or custom",
                        "regulariser is %d", (int)p->regulariser);
    }
    if ((int)p->columns < 0 || p->columns > OTA_COLUMNS_BOUNDED) {
        return ota_fail(error, OTA_EINVAL, "columns", "use one of the OTA_COLUMNS_ rules",
                        "columns is %d", (int)p->columns);
    }
    if ((int)p->rows < 0 || p->rows > OTA_ROWS_RELAXED) {
        return ota_fail(error, OTA_EINVAL, "rows", "use hard or relaxed", "rows is %d",
                        (int)p->rows);
    }
    TRY(ota_resolve_regulariser(r, error));
    return ota_resolve_columns(r, error);
}

/* ---- all of it --------------------------------------------------------------------------------- */

ota_status ota_resolve(const ota_problem *problem, const ota_options *options, ota_resolved *r,
                       ota_error *error) {
    return ota_resolve_share(problem, options, NULL, r, error);
}

ota_status ota_resolve_share(const ota_problem *problem, const ota_options *options,
                             const ota_share *share, ota_resolved *r, ota_error *error) {
    memset(r, 0, sizeof *r);
    if (problem == NULL)
        return ota_fail(error, OTA_EINVAL, "problem", "give a problem", "problem is NULL");
    TRY(ota_check_sized(&r->problem, sizeof r->problem, problem, problem->size, "problem.size",
                        error));
    TRY(resolve_scores(r, error));
    r->share = share != NULL ? *share : (ota_share){.rows = r->queries};
    TRY(resolve_temperature(r, error));
    TRY(ota_resolve_terms(r, error));
    TRY(ota_resolve_supports(r, error));
    TRY(resolve_rules(r, error));
    TRY(ota_resolve_masses(r, error));
    TRY(ota_check_number(r->problem.dropout, "dropout", 0.0, false, 1.0, false, error));
    TRY(ota_resolve_options(r, options, error));
    TRY(ota_resolve_entry_caps(r, error));
    r->problem.terms = r->terms;
    r->problem.supports = r->supports;
    return OTA_OK;
}

/* ---- rebind ----------------------------------------------------------------------------------- */

static bool same_shape(const ota_array *a, const ota_array *b) {
    return a->type == b->type && memcmp(a->size, b->size, sizeof a->size) == 0;
}

/* What a term or support is decides which memory its pairs want. */
static bool same_terms(const ota_resolved *a, const ota_resolved *b) {
    bool same = a->term_count == b->term_count && a->has_sink == b->has_sink;
    for (int t = 0; same && t < a->term_count; t++) same = a->terms[t].kind == b->terms[t].kind;
    return same && a->row_terms == b->row_terms;
}

static bool same_supports(const ota_resolved *a, const ota_resolved *b) {
    bool same = a->support_count == b->support_count;
    for (int k = 0; same && k < a->support_count; k++)
        same = a->supports[k].kind == b->supports[k].kind;
    return same;
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
        {"lambdas", same_shape(&a->lambdas, &b->lambdas)},
        {"terms", same_terms(old, next)},
        {"supports", same_supports(old, next)},
        {"corner", old->offset == next->offset},
        {"dropout", (a->dropout > 0.0) == (b->dropout > 0.0)},
        {"entry_cap", (a->entry_cap > 0.0) == (b->entry_cap > 0.0)},
        {"entry_caps", same_shape(&a->entry_caps, &b->entry_caps)},
    };
    for (size_t k = 0; k < sizeof facts / sizeof facts[0]; k++) {
        if (!facts[k].same) {
            return ota_fail(error, OTA_EINVAL, facts[k].field, "create a new plan",
                            "%s differ from the plan's", facts[k].field);
        }
    }
    return OTA_OK;
}
