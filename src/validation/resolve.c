/* The checks of a problem: turns the caller's problem and options into an ota_resolved, or refuses in one sentence that
 * names the field, its value and the remedy. Ranges of numbers are rows of fields.c. Here: scores; what terms, supports, regularisers and
 * columns ask for is checked in their folders, options in check_options.c. Below the checks ranges are only asserted. */
#include <float.h>
#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "columns/columns.h"
#include "masks/masks.h"
#include "problem/check.h"
#include "problem/fields.h"
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
    return OTA_OK;
}

/* One per head, where they are given. */
static ota_status resolve_temperatures(ota_resolved *r, ota_error *error) {
    const int64_t want[4] = {1, 1, 1, r->heads};
    if (!ota_array_present(&r->problem.temperatures)) return OTA_OK;
    return ota_check_vector(&r->problem.temperatures, "temperatures", want, false, DBL_MIN, false,
                            DBL_MAX, error);
}

/* ---- all of it --------------------------------------------------------------------------------- */

ota_status ota_resolve(const ota_problem *problem, const ota_options *options, ota_resolved *r,
                       ota_error *error) {
    return ota_resolve_share(problem, options, NULL, r, error);
}

/* Everything but options and what depends on them. */
static ota_status resolve_problem(const ota_problem *problem, const ota_share *share,
                                  ota_resolved *r, ota_error *error) {
    memset(r, 0, sizeof *r);
    if (problem == NULL)
        return ota_fail(error, OTA_EINVAL, "problem", "give a problem", "problem is NULL");
    TRY(ota_check_sized(&r->problem, sizeof r->problem, problem, problem->size, "problem.size",
                        error));
    TRY(resolve_scores(r, error));
    r->share = share != NULL ? *share : (ota_share){.rows = r->queries};
    TRY(ota_fields_complete(ota_problem_fields, r, &r->problem, error));
    r->scale = r->problem.cost ? -r->problem.scale : r->problem.scale;
    TRY(resolve_temperatures(r, error));
    TRY(ota_resolve_terms(r, error));
    TRY(ota_resolve_supports(r, error));
    TRY(ota_resolve_regulariser(r, error));
    TRY(ota_resolve_columns(r, error));
    return ota_resolve_masses(r, error);
}

/* What comes behind the options. */
static ota_status resolve_rest(ota_resolved *r, ota_error *error) {
    TRY(ota_resolve_entry_caps(r, error));
    r->problem.terms = r->terms;
    r->problem.supports = r->supports;
    return OTA_OK;
}

ota_status ota_resolve_share(const ota_problem *problem, const ota_options *options,
                             const ota_share *share, ota_resolved *r, ota_error *error) {
    TRY(resolve_problem(problem, share, r, error));
    TRY(ota_resolve_options(r, options, error));
    return resolve_rest(r, error);
}

ota_status ota_resolve_next(const ota_problem *problem, const ota_settings *settings,
                            const ota_share *share, ota_resolved *r, ota_error *error) {
    TRY(resolve_problem(problem, share, r, error));
    r->settings = *settings;
    return resolve_rest(r, error);
}

/* ---- rebind ------------------------------------------------------------------------------------ */

ota_status ota_resolved_same(const ota_resolved *old, const ota_resolved *next, ota_error *error) {
    for (const ota_field *f = ota_problem_fields; f->name != NULL; f++) {
        if (ota_field_rebinds(f, old, next)) continue;
        return ota_fail(error, OTA_EINVAL, f->name, "create a new plan",
                        "%s differ from the plan's", f->name);
    }
    return OTA_OK;
}
