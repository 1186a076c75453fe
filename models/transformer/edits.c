/* Edits of a run: checked and bound to points when it begins, carried out where arrays pass through the table of points
 * (capture.c). Dimensions are sequences, tokens, heads, columns, in this order. */
#include "session.h"

#include "base/sized.h"

#include <stdlib.h>
#include <string.h>

/* ---- checks ---- */

static const char *const dimensions[4] = {"sequences", "tokens", "heads", "columns"};

static const ota_range *range_of(const ota_edit *edit, int k) {
    const ota_range *const ranges[4] = {&edit->sequences, &edit->tokens, &edit->heads,
                                        &edit->columns};
    return ranges[k];
}

/* Indices that a range means of `size` ones. */
static int64_t count_of(const ota_range *range, int64_t size) {
    return range->count > 0 ? range->count : size - range->first;
}

/* Tokens are counted by positions, which a run on a cache may not have reached yet. */
static int64_t positions_of(const ota_session *s, int k, int64_t size) {
    if (k != 1) return size;
    return s->options.cache > 0 ? s->options.cache : s->run.now->first + size;
}

static ota_status check_ranges(const ota_session *s, const ota_bound_edit *bound) {
    int64_t size[4];
    ota_session_sizes(s, bound->point, size);
    for (int k = 0; k < 4; k++) {
        const ota_range *range = range_of(&bound->edit, k);
        const int64_t most = positions_of(s, k, size[k]);
        if (range->first >= 0 && range->count >= 0 && range->first < most &&
            range->count <= most - range->first)
            continue;
        return ota_refuse(
            s->run.error, OTA_EINVAL, "an edit of %.90s has %s %lld to %lld, and there are %lld",
            bound->edit.point, dimensions[k], (long long)range->first,
            (long long)(range->first + (range->count > 0 ? range->count : 1) - 1), (long long)most);
    }
    return OTA_OK;
}

static ota_status check_values(const ota_session *s, const ota_bound_edit *bound) {
    const ota_edit *edit = &bound->edit;
    const ota_array *values = &edit->values;
    const bool given = values->type != OTA_NO_TYPE;
    const bool wanted = edit->kind == OTA_EDIT_REPLACE || edit->kind == OTA_EDIT_ADD;
    int64_t size[4], sizes[4] = {1, 1, 1, 1};
    if (given != wanted || (given && (values->type != OTA_F32 || values->data == NULL)))
        return ota_refuse(s->run.error, OTA_EINVAL, "an edit of %.90s %s", edit->point,
                          wanted ? "needs values in f32" : "has values and no use for them");
    if (!given) return OTA_OK;
    ota_session_sizes(s, bound->point, size);
    for (int k = 0; k < 4; k++) {
        const int axis = ota_session_axis(bound->point, k);
        if (axis >= 0)
            sizes[axis] =
                count_of(range_of(edit, k), k == 1 ? s->run.now->first + size[1] : size[k]);
    }
    for (int axis = 0; axis < 4; axis++) {
        if (values->size[axis] == 1 || values->size[axis] == sizes[axis]) continue;
        return ota_refuse(s->run.error, OTA_EINVAL,
                          "values of an edit of %.90s are [%lld, %lld, %lld, %lld], and its ranges "
                          "[%lld, %lld, %lld, %lld]",
                          edit->point, (long long)values->size[0], (long long)values->size[1],
                          (long long)values->size[2], (long long)values->size[3],
                          (long long)sizes[0], (long long)sizes[1], (long long)sizes[2],
                          (long long)sizes[3]);
    }
    return OTA_OK;
}

static ota_status check_kind(const ota_session *s, const ota_bound_edit *bound) {
    const ota_edit *edit = &bound->edit;
    const bool pairs = bound->point == OTA_POINT_SCORES || bound->point == OTA_POINT_PATTERN;
    if (edit->kind < OTA_EDIT_SCALE || edit->kind > OTA_EDIT_MEAN)
        return ota_refuse(s->run.error, OTA_EINVAL,
                          "the kind of an edit of %.90s is %d, no ota_edit_kind", edit->point,
                          (int)edit->kind);
    if (!__builtin_isfinite(edit->factor))
        return ota_refuse(s->run.error, OTA_EINVAL, "the factor of an edit of %.90s is not finite",
                          edit->point);
    if (edit->kind != OTA_EDIT_MEAN) return OTA_OK;
    if (pairs)
        return ota_refuse(s->run.error, OTA_UNSUPPORTED,
                          "rows of %.90s see different keys, so they have no mean", edit->point);
    if (s->options.cache > 0)
        return ota_refuse(
            s->run.error, OTA_UNSUPPORTED,
            "a run on a cache sees its tokens one after another, so %.90s has no mean "
            "over them",
            edit->point);
    return OTA_OK;
}

static ota_status bind_edit(ota_session *s, const ota_edit *given, size_t size,
                            ota_bound_edit *bound) {
    *bound = (ota_bound_edit){.layer = -1};
    if (!ota_sized_read(&bound->edit, sizeof bound->edit, given, size) || given->size != size)
        return ota_refuse(s->run.error, OTA_EINVAL, "the size of an edit is not that of ota_edit");
    if (bound->edit.point == NULL)
        return ota_refuse(s->run.error, OTA_EINVAL, "an edit names no point");
    if (!ota_session_find_point(s, bound->edit.point, &bound->point, &bound->layer)) {
        (void)ota_refuse(s->run.error, OTA_EINVAL, "the model has no point '%.90s'",
                         bound->edit.point);
        return ota_advise(
            s->run.error, OTA_EINVAL,
            "write blocks.L.NAME, or NAME for every layer; ota_model_point lists them");
    }
    const char *fixed = ota_session_fixed(bound->point);
    if (fixed != NULL)
        return ota_refuse(s->run.error, OTA_UNSUPPORTED, "%.90s cannot be edited: %s",
                          bound->edit.point, fixed);
    ota_status status = check_kind(s, bound);
    if (status == OTA_OK) status = check_ranges(s, bound);
    return status == OTA_OK ? check_values(s, bound) : status;
}

ota_status ota_session_edits_begin(ota_session *s) {
    ota_edit_set *set = &s->run.edits;
    const ota_model_run *run = s->run.now;
    set->count = 0;
    if (run->edit_count == 0) return OTA_OK;
    if (run->edit_count < 0 || run->edits == NULL)
        return ota_refuse(s->run.error, OTA_EINVAL, "edits is NULL and edit_count is not 0");
    if (run->edit_count > set->room) {
        ota_bound_edit *grown = realloc(set->items, (size_t)run->edit_count * sizeof *grown);
        if (grown == NULL)
            return ota_refuse(s->run.error, OTA_ENOMEM, "no memory is left for edits");
        set->items = grown;
        set->room = run->edit_count;
    }
    /* Of an older or newer header's size, all alike. */
    const size_t stride = run->edits[0].size;
    for (int64_t k = 0; k < run->edit_count; k++) {
        const void *at = (const char *)run->edits + (size_t)k * stride;
        const ota_status status = bind_edit(s, at, stride, &set->items[k]);
        if (status != OTA_OK) return status;
        set->count = k + 1;
    }
    return OTA_OK;
}

void ota_session_free_edits(ota_session *s) {
    free(s->run.edits.items);
    s->run.edits = (ota_edit_set){0};
}

/* ---- carrying them out ---- */

/* Where an edit and a part meet: indices [from, to) of every dimension. */
typedef struct meeting {
    const ota_session *session;
    const ota_bound_edit *bound;
    const ota_part *part;
    int64_t from[4], to[4];
} meeting;

static bool meet(meeting *m) {
    for (int k = 0; k < 4; k++) {
        const ota_range *range = range_of(&m->bound->edit, k);
        const int64_t end = m->part->first[k] + m->part->size[k];
        m->from[k] = ota_int_max(range->first, m->part->first[k]);
        m->to[k] = range->count > 0 ? ota_int_min(range->first + range->count, end) : end;
        if (m->from[k] >= m->to[k]) return false;
    }
    return true;
}

static float *place(const ota_part *part, const int64_t at[4]) {
    float *data = part->data;
    for (int k = 0; k < 4; k++) data += (at[k] - part->first[k]) * part->stride[k];
    return data;
}

static float value_at(const meeting *m, const int64_t at[4]) {
    const ota_array *values = &m->bound->edit.values;
    const float *data = values->data;
    for (int k = 0; k < 4; k++) {
        const int axis = ota_session_axis(m->bound->point, k);
        if (axis >= 0 && values->size[axis] > 1)
            data += (at[k] - range_of(&m->bound->edit, k)->first) * values->stride[axis];
    }
    return *data;
}

/* The columns of one row. */
static void edit_row(const meeting *m, int64_t at[4]) {
    const ota_edit *edit = &m->bound->edit;
    const float factor = (float)edit->factor;
    for (at[3] = m->from[3]; at[3] < m->to[3]; at[3]++) {
        float *x = place(m->part, at);
        switch (edit->kind) {
        case OTA_EDIT_SCALE:
            /* A masked score stays one, and what is ablated is 0 whatever it was. */
            if (*x > -__builtin_inff()) *x = factor == 0.0F ? 0.0F : factor * *x;
            break;
        case OTA_EDIT_REPLACE: *x = value_at(m, at); break;
        case OTA_EDIT_ADD: *x += factor * value_at(m, at); break;
        case OTA_EDIT_MEAN:
        default: break;
        }
    }
}

/* The mean over the tokens of a sequence, padding left out, in the place of those that are chosen. */
static void edit_mean(const meeting *m, int64_t at[4]) {
    const ota_session *s = m->session;
    const int64_t sequence = at[0];
    const int64_t tokens =
        s->run.now->lengths != NULL ? s->run.lengths[sequence] : s->run.now->count;
    for (at[3] = m->from[3]; at[3] < m->to[3]; at[3]++) {
        double sum = 0;
        for (at[1] = 0; at[1] < tokens; at[1]++) sum += (double)*place(m->part, at);
        for (at[1] = m->from[1]; at[1] < m->to[1]; at[1]++)
            *place(m->part, at) = (float)(sum / (double)tokens);
    }
}

static void carry_out(const meeting *m) {
    const bool mean = m->bound->edit.kind == OTA_EDIT_MEAN;
    int64_t at[4];
    for (at[0] = m->from[0]; at[0] < m->to[0]; at[0]++) {
        for (at[2] = m->from[2]; at[2] < m->to[2]; at[2]++) {
            if (mean) edit_mean(m, at);
            for (at[1] = m->from[1]; !mean && at[1] < m->to[1]; at[1]++) edit_row(m, at);
        }
    }
}

void ota_session_edit(ota_session *s, ota_point point, int64_t layer, const ota_part *part) {
    for (int64_t k = 0; k < s->run.edits.count; k++) {
        const ota_bound_edit *bound = &s->run.edits.items[k];
        meeting m = {.session = s, .bound = bound, .part = part};
        if (bound->point != point || (bound->layer >= 0 && bound->layer != layer)) continue;
        if (meet(&m)) carry_out(&m);
    }
}
