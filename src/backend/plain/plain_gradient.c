/* Gradients: every pass visits the rows of a head, forms scores S, U = dL/dP and weights P of a row anew as a block of one row
 * (backend/blocks), and takes from them what it is for. One thread.
 *
 *     w_ij = tau dP_ij/dS_ij     dL/dS_ij = w_ij (U_ij - a_i - b_j) / tau     free: a_i = sum_j w_ij U_ij / sum_j w_ij
 *
 * The sink is one more key with U = b = 0. */
#include <math.h>
#include <string.h>

#include "backend/blocks/blocks.h"
#include "plain.h"

typedef struct ota_gradient_scratch {
    double *s, *u, *p, *raw;  /* [keys] S, U, P and Q K^T of the row at work */
    double *line;             /* [keys] its slopes, and means of keys */
    double sink;              /* weight of its sink */
    double *query, *upstream; /* [width], [values width] */
    double *open, *room; /* [keys] online: scores of the keys that are not full, capacities left */
    /* of the key head */
    double *keys,
        *values;   /* [width][keys], [values width][keys]: transposed; values 0 where not finite */
    double *lines; /* [keys][width], 0 where not finite */
    bool *nonfinite;               /* [keys] some value is not finite */
    double *key_sums, *value_sums; /* [keys][width] */
} plain_row;

static void lay_out(ota_plain_device *device, ota_arena *arena, int head_workers, plain_row **own) {
    const ota_resolved *r = device->resolved;
    const int64_t width = r->width, values = device->layout.values_width;
    plain_row at = {0}, *home = ota_arena_take(arena, (size_t)head_workers, sizeof *home);
    const struct {
        double **to;
        int64_t width;
    } of_keys[] = {{&at.s, 1},
                   {&at.u, 1},
                   {&at.p, 1},
                   {&at.raw, 1},
                   {&at.line, 1},
                   {&at.open, 1},
                   {&at.room, 1},
                   {&at.keys, width},
                   {&at.lines, width},
                   {&at.values, values},
                   {&at.key_sums, width},
                   {&at.value_sums, values}};
    for (size_t k = 0; k < sizeof of_keys / sizeof of_keys[0]; k++)
        *of_keys[k].to = ota_arena_take_rows(arena, r->keys, of_keys[k].width, sizeof(double));
    at.query = ota_arena_take_rows(arena, 1, width, sizeof(double));
    at.upstream = ota_arena_take_rows(arena, 1, values, sizeof(double));
    at.nonfinite = ota_arena_take(arena, (size_t)r->keys, sizeof(bool));
    if (home == NULL) return;
    *home = at;
    own[0] = home;
}

static ota_place_memory memory(const ota_plain_device *device, int64_t index) {
    const plain_place *place = &device->places[index];
    return (ota_place_memory){place->scores, place->plan, place->workspace, place->far};
}

static double finite_or_0(double x) { return isfinite(x) ? x : 0.0; }

/* Of numbers of pairs in the solver's orientation. */
static ota_block_matrix matrix_of(const ota_backward_job *job, double *data) {
    return ota_block_matrix_of(data, job->device->stride, job->device->transposed);
}

static bool has_outputs(const ota_backward_job *job) {
    return ota_array_present(&job->want->out_grad) && job->values_width > 0;
}

static void pack_head(ota_backward_job *job) {
    const ota_resolved *r = job->resolved;
    const int64_t keys = r->keys, width = r->from_matrix ? 0 : r->width;
    plain_row *at = job->space->own;
    memset(at->key_sums, 0, (size_t)(keys * r->width) * sizeof(double));
    memset(at->value_sums, 0, (size_t)(keys * job->values_width) * sizeof(double));
    memset(at->nonfinite, 0, (size_t)keys * sizeof(bool));
    const ota_block_keys to_keys = {at->keys, NULL, at->lines, keys},
                         to_values = {at->values, at->upstream, NULL, keys};
    if (width > 0)
        ota_block_read_keys(&ota_plain_algebra, &r->problem.keys, job->batch, job->key_head, keys,
                            &to_keys);
    for (int64_t k = 0; k < keys * width; k++) at->lines[k] = finite_or_0(at->lines[k]);
    if (!has_outputs(job)) return;
    ota_block_read_keys(&ota_plain_algebra, &job->arrays->values, job->batch, job->key_head, keys,
                        &to_values);
    for (int64_t k = 0; k < keys * job->values_width; k++) {
        at->nonfinite[k % keys] |= !isfinite(at->values[k]);
        at->values[k] = finite_or_0(at->values[k]);
    }
}

/* ---- one row -------------------------------------------------------------------------------------- */

/* Row i with S and U. */
static ota_block load_row(ota_backward_job *job, int64_t i) {
    const ota_resolved *r = job->resolved;
    const ota_gradients *want = job->want;
    const ota_backward_space *space = job->space;
    const plain_row *at = space->own;
    ota_block b = {.problem = r,
                   .algebra = &ota_plain_algebra,
                   .rule = job->parameters,
                   .batch = job->batch,
                   .head = job->head,
                   .first = i,
                   .rows = 1,
                   .keys = r->keys,
                   .stride = r->keys,
                   .scores = at->s,
                   .weights = at->p,
                   .slopes = at->u,
                   .raw = at->raw,
                   .f = space->f + i,
                   .key_edges = job->device->transposed ? space->edges : NULL,
                   .g = job->state.biased ? space->g : NULL};
    memcpy(b.dropout_key, job->dropout_key, sizeof b.dropout_key);
    ota_block_form_scores(&b, at->query, at->keys, r->keys);
    memset(at->u, 0, (size_t)r->keys * sizeof(double));
    if (has_outputs(job)) {
        b.algebra->read_rows(&want->out_grad, b.batch, b.head, i, 1, at->upstream,
                             job->values_width);
        for (int64_t w = 0; w < job->values_width; w++) {
            space->bad[i] |= !isfinite(at->upstream[w]);
            at->upstream[w] = finite_or_0(at->upstream[w]);
        }
        ota_block_form_upstream(&b, at->upstream, job->values_width, at->values, r->keys);
    }
    for (int64_t j = 0; j < r->keys && ota_array_present(&want->coupling_grad); j++)
        at->u[j] += ota_array_get(&want->coupling_grad, job->batch, job->head, i, j);
    return b;
}

/* The row is bad where it could not be computed, or a key with weight has a value that is not finite. */
static void mark(ota_backward_job *job, int64_t i, const ota_row_found *found) {
    const plain_row *at = job->space->own;
    job->space->bad[i] |= found->nonfinite;
    for (int64_t j = 0; j < job->resolved->keys; j++)
        job->space->bad[i] |= at->nonfinite[j] && at->p[j] > 0.0;
}

/* The keys that are not full before row i, and what mass is left for them. */
static double open_keys(const ota_backward_job *job, int64_t i, double mu) {
    const ota_backward_space *space = job->space;
    for (int64_t j = 0; j < job->resolved->keys; j++) {
        space->own->open[j] = i < space->shut[j] ? space->own->s[j] : -INFINITY;
        if (space->shut[j] == i) mu -= space->fill[j];
    }
    return fmax(mu, 0.0);
}

/* P as the mode finds it: the row is solved, or weighed with both potentials, or was kept. */
static ota_block_row weigh(ota_backward_job *job, const ota_block *b) {
    const ota_backward_mode mode = job->mode;
    const ota_backward_space *space = job->space;
    const int64_t i = b->first;
    plain_row *at = space->own;
    ota_block of = *b;
    double mu = ota_row_mass(job->resolved, job->batch, job->head, i);
    ota_row_found found = {0};
    if (mode == OTA_BACKWARD_ONLINE) {
        mu = open_keys(job, i, mu);
        of.scores = at->open;
    }
    if (mode == OTA_BACKWARD_PREFIX) {
        const ota_block_matrix plan = matrix_of(job, job->device->places[job->place].plan);
        ota_block_take(b, &plan, at->p);
    } else if (mode == OTA_BACKWARD_UNROLLED ||
               (mode == OTA_BACKWARD_IMPLICIT && job->device->transposed)) {
        ota_block_weigh_row(b, 0, &found);
    } else {
        ota_block_solve(&of, 0, mu, &found);
        space->f[i] = mu > 0.0 ? found.potential : -INFINITY;
    }
    mark(job, i, &found);
    at->sink = found.sink > 0.0 ? found.sink : 0.0;
    ota_block_row row = {
        .sum = at->sink,
        .sink_slope = ota_pair_slope(&b->rule, b->rule.sink, space->f[i], found.sink, INFINITY)};
    for (int64_t j = 0; j < b->keys; j++) {
        if (!(at->p[j] > 0.0)) at->p[j] = 0.0;
        row.sum += at->p[j];
    }
    return row;
}

/* a of a row alone or in order, whose U becomes U - b of the keys that are open, from where it is measured. */
static void answer(ota_backward_job *job, const ota_block *b, ota_block_row *row) {
    const ota_backward_space *space = job->space;
    const int64_t i = b->first, index = job->batch * job->resolved->heads + job->head;
    for (int64_t j = 0; j < b->keys && job->mode == OTA_BACKWARD_ONLINE; j++) {
        if (i < space->shut[j]) b->slopes[j] -= space->b[j];
    }
    const double a = ota_block_multiplier(b, 0, row, 0.0, NULL);
    space->a[i] = space->bad[i] ? (double)NAN : a;
    space->sums.row_mass[index * job->resolved->queries + i] = space->a[i] + row->middle;
}

typedef void row_body(ota_backward_job *job, const ota_block *b);

static void each_row(ota_backward_job *job, row_body *body) {
    for (int64_t i = 0; i < job->resolved->queries; i++) {
        if (ota_interrupted(&job->resolved->settings) != OTA_OK) return;
        const ota_block b = load_row(job, i);
        body(job, &b);
    }
}

/* ---- multipliers ------------------------------------------------------------------------------------ */

/* Rows in order: where each key's capacity ran out, and what that row took. */
static void replay_row(ota_backward_job *job, const ota_block *b) {
    ota_backward_space *space = job->space;
    const plain_row *at = space->own;
    const int64_t i = b->first;
    const double mu = ota_row_mass(job->resolved, job->batch, job->head, i);
    ota_row_parameters rule = b->rule;
    ota_row_found found;
    rule.line = i;
    ota_plain_row_online(&rule, at->s, b->keys, mu, at->room, at->p, at->open, &found);
    mark(job, i, &found);
    for (int64_t j = 0; j < b->keys; j++) {
        if (space->shut[j] != INT64_MAX) continue;
        if (at->room[j] > 0.0)
            space->fill[j] = at->room[j];
        else
            space->shut[j] = i;
    }
}

/* Rows in reverse: b_j = dL / d(what was left of key j before the row that took the rest). A key without capacity would
 * give what it gained to the first row that may use it. */
static void reverse_online(ota_backward_job *job) {
    const ota_resolved *r = job->resolved;
    ota_backward_space *space = job->space;
    plain_row *at = space->own;
    const int64_t index = job->batch * r->heads + job->head;
    for (int64_t j = 0; j < r->keys; j++) {
        at->room[j] = r->problem.cap * ota_column_mass(r, job->batch, job->head, j, 1.0);
        space->shut[j] = at->room[j] > 0.0 ? INT64_MAX : -1;
        space->fill[j] = fmax(at->room[j], 0.0);
    }
    each_row(job, replay_row);
    for (int64_t i = r->queries - 1; i >= 0 && ota_interrupted(&r->settings) == OTA_OK; i--) {
        const ota_block b = load_row(job, i);
        ota_block_row row = weigh(job, &b);
        answer(job, &b, &row);
        for (int64_t j = 0; j < r->keys; j++) {
            const bool first =
                space->shut[j] < 0 && at->s[j] > -INFINITY &&
                (!job->parameters.regulariser->thresholded || at->s[j] + space->f[i] > 0.0);
            if (space->shut[j] == i || first) space->b[j] = at->u[j] - space->a[i];
        }
    }
    for (int64_t j = 0; j < r->keys; j++) {
        space->sums.parameters[0] +=
            space->b[j] * ota_column_mass(r, job->batch, job->head, j, 1.0);
        space->sums.column_mass[index * r->keys + j] = space->b[j] * r->problem.cap;
    }
}

/* What a relaxed row that carries `mass` yields. */
static double softness(const ota_backward_job *job, double mass) {
    return job->resolved->problem.rows == OTA_ROWS_RELAXED
               ? job->parameters.tau * mass / job->parameters.row_strength
               : 0.0;
}

static void slopes_row(ota_backward_job *job, const ota_block *b) {
    ota_backward_space *space = job->space;
    const plain_row *at = space->own;
    const int64_t i = b->first;
    const bool transposed = job->device->transposed;
    const ota_block_matrix slopes = matrix_of(job, space->matrix);
    const ota_chunk_sums sums = ota_backward_chunk(space, 0);
    const ota_system_row of = {.slopes = at->line, .weights = at->p, .u = at->u, .count = b->keys};
    ota_block_row row = weigh(job, b);
    ota_block_find_slopes(b, 0, 0, b->keys, at->line);
    ota_block_put(b, at->line, &slopes);
    if (transposed)
        ota_system_measure_by_keys(b, 0, job);
    else
        row.soft = softness(job, row.sum);
    if (!transposed && ota_backward_is_steep(job)) ota_system_measure(&of, &row, i, &space->steep);
    const ota_system_totals found = ota_system_add(&of, &row, 0.0, !transposed, &sums);
    space->adjoint.den[i] = found.den;
    space->adjoint.row_right[i] = found.right;
    space->adjoint.row_sums[i] = row.sum;
}

static void slopes(ota_backward_job *job) {
    ota_backward_clear_chunks(job->space, 0, OTA_ADJOINT_CHUNKS);
    each_row(job, slopes_row);
}

static void transposed_row(ota_backward_job *job, const ota_block *b) {
    const ota_backward_space *space = job->space;
    const ota_block_matrix slopes = matrix_of(job, space->matrix);
    ota_system_measure_by_keys(b, 0, job);
    ota_block_take(b, &slopes, space->own->p);
    ota_system_add_query(space->own->p, b->slopes, b->keys, space->own->line,
                         &space->adjoint.right[b->first], &space->adjoint.right_terms[b->first]);
}

static void transposed_right(ota_backward_job *job) {
    const ota_backward_space *space = job->space;
    for (int64_t j = 0; j < job->resolved->keys; j++) {
        const double soft =
            ota_backward_is_steep(job) ? 0.0 : softness(job, space->adjoint.row_sums[j]);
        const double den = space->adjoint.den[j];
        space->own->line[j] = den > 0.0 ? space->adjoint.row_right[j] / (den + soft) : 0.0;
    }
    each_row(job, transposed_row);
}

static void widen_row(ota_backward_job *job, const ota_block *b) {
    const ota_block_matrix scores = matrix_of(job, job->space->matrix),
                           upstream = matrix_of(job, job->space->gradient);
    ota_block_put_scores(b, &scores, &upstream);
}

static void load_pairs(ota_backward_job *job, const ota_pair_lines *to) {
    const size_t bytes = (size_t)job->resolved->keys * sizeof(double);
    for (int64_t k = 0; k < to->count && bytes > 0; k++) {
        (void)load_row(job, to->queries[k]);
        memcpy(to->scores + k * to->lane, job->space->own->s, bytes);
        memcpy(to->upstream + k * to->lane, job->space->own->u, bytes);
    }
}

static void widen(ota_backward_job *job) { each_row(job, widen_row); }

static void load_bias(ota_backward_job *job) { job->state.biased = true; }

/* ---- outputs ---------------------------------------------------------------------------------------- */

/* What term t gets of g, the derivative by what it was added to. */
static void add_to_term(const ota_backward_job *job, const ota_block *b, int t) {
    const ota_resolved *r = job->resolved;
    const ota_array *a = &r->terms[t].array;
    const ota_term_sum *sums = &job->space->sums.terms[t];
    const ota_term_form form = ota_term_form_of(&r->terms[t]);
    const int64_t i = b->first, by_key = a->size[3] != 1 ? 1 : 0;
    const double *g = b->slopes;
    double *row_sums = job->space->row_sums + i * OTA_ROW_SUMS, *to = sums->partial;
    int64_t step = by_key;
    if (form == OTA_FORM_LINEAR_DISTANCE) {
        row_sums[OTA_SUM_ALIBI] += ota_block_sum_distance(b, 0, ota_row_position(r, i));
        return;
    }
    if (form == OTA_FORM_SOFTCAP) {
        row_sums[OTA_SUM_SOFTCAP] += ota_block_sum_softcap(b, 0);
        return;
    }
    if (sums->direct) {
        b->algebra->write_rows(ota_gradient_of_term(r, job->want, t), b->batch, b->head, i, 1, g,
                               b->keys);
        return;
    }
    if (form == OTA_FORM_ADDS_DIFFERENCES) {
        to += ota_row_number(r, i) + r->keys - 1;
        step = -1;
    } else if (a->size[2] != 1) {
        to = ota_term_slice(job, t) + i * a->size[3];
    }
    for (int64_t j = 0; j < b->keys; j++) to[j * step] += g[j];
}

static void add_to_terms(const ota_backward_job *job, const ota_block *b, bool inside) {
    const ota_resolved *r = job->resolved;
    for (int t = 0; t < r->term_count; t++) {
        if (ota_term_is_inside(&r->terms[t]) == inside &&
            ota_gradient_of_term(r, job->want, t) != NULL)
            add_to_term(job, b, t);
    }
}

/* dL/dS in the place of U, and what temperature, order and sink get of it; P of a bad row is NaN. */
static void row_gradient(ota_backward_job *job, const ota_block *b, const ota_block_row *row) {
    const ota_backward_space *space = job->space;
    const plain_row *at = space->own;
    const int64_t i = b->first;
    const bool by_order = ota_array_present(&job->want->order);
    double *sums = space->row_sums + i * OTA_ROW_SUMS;
    if (!job->state.stored || space->bad[i]) {
        ota_block_apply_multipliers(b, 0, job, job->device->transposed, at->u);
    } else {
        const ota_block_matrix stored = matrix_of(job, space->gradient);
        ota_block_take(b, &stored, at->u);
    }
    if (!job->choice.sums || job->state.stored) return;
    ota_block_add_pair_sums(b, 0, by_order, sums);
    if (at->sink > 0.0)
        ota_add_sink_sums(&b->rule, at->sink, space->f[i], space->a[i] + row->middle, by_order,
                          sums);
    if (space->bad[i]) sums[OTA_SUM_SINK] = sums[OTA_SUM_TEMPERATURE] = sums[OTA_SUM_ORDER] = NAN;
}

static void put_row(const ota_backward_job *job, const ota_array *to, int64_t i, const double *row,
                    int64_t width) {
    if (ota_array_present(to))
        ota_plain_algebra.write_rows(to, job->batch, job->head, i, 1, row, width);
}

static void write_row(ota_backward_job *job, const ota_block *b) {
    const ota_resolved *r = job->resolved;
    const ota_backward_space *space = job->space;
    const int64_t i = b->first, keys = b->keys, width = r->from_matrix ? 0 : r->width,
                  values = job->values_width;
    const plain_row *at = space->own;
    ota_block_row row = weigh(job, b);
    if (job->mode == OTA_BACKWARD_FREE || job->mode == OTA_BACKWARD_ONLINE) answer(job, b, &row);
    row_gradient(job, b, &row);
    for (int64_t j = 0; j < keys && job->mode == OTA_BACKWARD_ONLINE; j++) {
        if (space->shut[j] == i && !space->bad[i]) at->p[j] = space->fill[j];
    }
    put_row(job, &job->want->scores, i, at->u, keys);
    add_to_terms(job, b, false);
    ota_block_go_through(b);
    add_to_terms(job, b, true);
    put_row(job, &job->want->matrix, i, at->u, keys);
    const ota_product by_query = {1, keys, width, keys, width, width},
                      by_key = {keys, 1, width, 1, width, width},
                      by_value = {keys, 1, values, 1, values, values};
    for (int64_t w = 0; w < width; w++) at->query[w] = finite_or_0(at->query[w]);
    b->algebra->apply(at->u, at->query, &by_key, at->key_sums);
    memset(at->query, 0, (size_t)width * sizeof(double));
    b->algebra->apply(at->u, at->lines, &by_query, at->query);
    if (width > 0) put_row(job, &job->want->queries, i, at->query, width);
    if (!has_outputs(job)) return;
    ota_block_drop(b, 0, at->p);
    b->algebra->apply(at->p, at->upstream, &by_value, at->value_sums);
}

static void write_head(ota_backward_job *job) {
    for (int t = 0; t < job->resolved->term_count; t++) {
        const ota_term_sum *sums = &job->space->sums.terms[t];
        if (sums->length > 0)
            memset(sums->partial, 0, (size_t)(OTA_ADJOINT_CHUNKS * sums->length) * sizeof(double));
    }
    each_row(job, write_row);
}

static void put(const ota_backward_job *job, const ota_array *to, const double *sum) {
    for (int64_t j = 0; j < job->resolved->keys && ota_array_present(to); j++) {
        for (int64_t w = 0; w < to->size[3]; w++)
            ota_array_set(to, job->batch, job->key_head, j, w, sum[j * to->size[3] + w]);
    }
}

static void put_keys(ota_backward_job *job) {
    put(job, &job->want->keys, job->space->own->key_sums);
    put(job, &job->want->values, job->space->own->value_sums);
}

const ota_gradient_passes ota_plain_gradient = {.lay_out = lay_out,
                                                .memory = memory,
                                                .pack_head = pack_head,
                                                .load_bias = load_bias,
                                                .write = write_head,
                                                .put_keys = put_keys,
                                                .reverse_online = reverse_online,
                                                .slopes = slopes,
                                                .transposed_right = transposed_right,
                                                .load_pairs = load_pairs,
                                                .widen = widen};
