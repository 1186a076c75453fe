/* Gradients: every pass walks the rows of a head, forms scores s, U = dL/dP, weights p and their slopes w anew, and takes
 * from them what it is for. One thread.
 *
 *     w_ij = tau dP_ij/dS_ij     dL/dS_ij = w_ij (U_ij - a_i - b_j) / tau     free: a_i = sum_j w_ij U_ij / sum_j w_ij
 *
 * The sink is one more key with U = b = 0. */
#include "backend/gradient.h"

#include <math.h>
#include <string.h>

#include "backend/blocks/blocks.h"
#include "backend/edge.h"
#include "plain.h"

typedef struct ota_gradient_scratch {
    double *s, *u, *p, *w; /* [keys] of the row at work */
    double sink, slope;    /* weight of its sink, and the slope of that */
    double total, sum;     /* sum_j w_j with the sink's, sum_j w_j (U_j - b_j) */
    double *open, *room; /* [keys] online: scores of the keys that are not full, capacities left */
    bool *nonfinite;     /* [keys] some value is not finite */
    double *keys, *values; /* [keys][width] sums of the key head */
} plain_row;

static void lay_out(ota_plain_device *device, ota_arena *arena, int head_workers, plain_row **own) {
    const ota_resolved *r = device->resolved;
    const size_t number = sizeof(double);
    plain_row at = {0}, *home = ota_arena_take(arena, (size_t)head_workers, sizeof *home);
    double **of_keys[] = {&at.s, &at.u, &at.p, &at.w, &at.open, &at.room};
    for (size_t k = 0; k < sizeof of_keys / sizeof of_keys[0]; k++)
        *of_keys[k] = ota_arena_take(arena, (size_t)r->keys, number);
    at.nonfinite = ota_arena_take(arena, (size_t)r->keys, sizeof(bool));
    at.keys = ota_arena_take_rows(arena, r->keys, r->width, number);
    at.values = ota_arena_take_rows(arena, r->keys, device->layout.values_width, number);
    if (home == NULL) return;
    *home = at;
    own[0] = home;
}

static ota_place_memory memory(const ota_plain_device *device, int64_t index) {
    const plain_place *place = &device->places[index];
    return (ota_place_memory){place->scores, place->plan, place->workspace, place->far};
}

static double finite_or_0(double x) { return isfinite(x) ? x : 0.0; }

/* Where a pair lies in the solver's matrices. */
static int64_t place_of(const ota_backward_job *job, int64_t i, int64_t j) {
    const ota_plain_device *device = job->device;
    return device->transposed ? j * device->stride + i : i * device->stride + j;
}

static double value_at(const ota_backward_job *job, int64_t j, int64_t w) {
    return ota_array_get(&job->arrays->values, job->batch, job->key_head, j, w);
}

static double out_grad_at(const ota_backward_job *job, int64_t i, int64_t w) {
    return ota_array_get(&job->want->out_grad, job->batch, job->head, i, w);
}

static void clear(double *x, int64_t count) {
    for (int64_t k = 0; k < count; k++) x[k] = 0.0;
}

static void pack_head(ota_backward_job *job) {
    const int64_t keys = job->resolved->keys, width = job->values_width;
    plain_row *at = job->space->own;
    clear(at->keys, keys * job->resolved->width);
    clear(at->values, keys * width);
    for (int64_t j = 0; j < keys; j++) {
        at->nonfinite[j] = false;
        for (int64_t w = 0; ota_array_present(&job->want->out_grad) && w < width; w++)
            at->nonfinite[j] |= !isfinite(value_at(job, j, w));
    }
}

/* ---- one row -------------------------------------------------------------------------------------- */

/* s and U. */
static void load_row(ota_backward_job *job, int64_t i) {
    const ota_resolved *r = job->resolved;
    const ota_gradients *want = job->want;
    const int64_t width = ota_array_present(&want->out_grad) ? job->values_width : 0;
    plain_row *at = job->space->own;
    ota_plain_scores(job->device, job->batch, job->head, i, at->s);
    clear(at->u, r->keys);
    for (int64_t w = 0; w < width; w++) {
        const double g = out_grad_at(job, i, w);
        job->space->bad[i] |= !isfinite(g);
        for (int64_t j = 0; j < r->keys; j++)
            at->u[j] += finite_or_0(g) * finite_or_0(value_at(job, j, w));
    }
    if (r->problem.dropout > 0.0)
        ota_dropout_row_f64(r, job->dropout_key, i, 0, NULL, r->keys, at->u);
    for (int64_t j = 0; j < r->keys && ota_array_present(&want->coupling_grad); j++)
        at->u[j] += ota_array_get(&want->coupling_grad, job->batch, job->head, i, j);
}

static double cap_at(const ota_row_parameters *rule, int64_t j) {
    return rule->regulariser->capped ? ota_entry_cap(&rule->caps, rule->line, j) : INFINITY;
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

/* p, w and their mean as the mode finds them: the row is solved, or weighed with both potentials, or was kept. */
static void weigh(ota_backward_job *job, int64_t i) {
    ota_row_parameters own = job->parameters;
    const ota_row_parameters *rule = &own;
    own.line = i;
    const ota_backward_mode mode = job->mode;
    const bool online = mode == OTA_BACKWARD_ONLINE, free = mode == OTA_BACKWARD_FREE;
    const int64_t keys = job->resolved->keys;
    ota_backward_space *space = job->space;
    plain_row *at = space->own;
    const double *s = online ? at->open : at->s, *h = job->state.biased ? space->g : NULL;
    double mu = ota_row_mass(job->resolved, job->batch, job->head, i);
    ota_row_found found = {0};
    if (online) mu = open_keys(job, i, mu);
    if (mode == OTA_BACKWARD_PREFIX) {
        for (int64_t j = 0; j < keys; j++)
            at->p[j] = job->device->places[job->place].plan[place_of(job, i, j)];
    } else if (free || online || (mode == OTA_BACKWARD_IMPLICIT && !job->device->transposed)) {
        ota_plain_row_solve(rule, s, h, keys, mu, at->p, &found);
        space->f[i] = mu > 0.0 ? found.potential : -INFINITY;
    } else {
        ota_plain_row_weights(rule, s, h, keys, space->f[i], at->p, &found);
        if (space->edges != NULL && job->device->transposed)
            ota_weigh_beside_keys(rule, space->edges, s, space->f[i], keys, at->p);
    }
    mark(job, i, &found);
    at->sink = found.sink > 0.0 ? found.sink : 0.0;
    at->total = at->slope = ota_pair_slope(rule, rule->sink, space->f[i], found.sink, INFINITY);
    at->sum = 0.0;
    for (int64_t j = 0; j < keys; j++) {
        if (!(at->p[j] > 0.0)) at->p[j] = 0.0;
        at->w[j] = ota_pair_slope(rule, s[j], space->f[i], at->p[j], cap_at(rule, j));
        at->total += at->w[j];
        if (at->p[j] > 0.0) at->sum += at->w[j] * (at->u[j] - space->b[j]);
        if (online && space->shut[j] == i) at->p[j] = space->fill[j];
    }
}

/* The mean of U - b under w; relaxed rows that carry `mass` yield, which counts as one more slope. */
static double mean_of(const ota_backward_job *job, double total, double sum, double mass) {
    return total > 0.0 ? sum / (total + job->parameters.tau * mass / job->parameters.row_strength)
                       : 0.0;
}

/* The key of the steepest weight; -1: the sink's, or none. */
static int64_t steepest(const plain_row *at, int64_t keys) {
    int64_t least = -1;
    for (int64_t j = 0; j < keys; j++) {
        if (at->w[j] > 0.0 && (least < 0 || at->p[j] < at->p[least])) least = j;
    }
    return least < 0 || (at->sink > 0.0 && at->sink < at->p[least]) ? -1 : least;
}

/* Where ota_backward_is_centred: U becomes U - b where w is not 0, and of all is taken that of the steepest weight, 0
 * of a sink's. */
static double centre(const ota_backward_job *job) {
    plain_row *at = job->space->own;
    const int64_t keys = job->resolved->keys, least = steepest(at, keys);
    if (!ota_backward_is_centred(job)) return 0.0;
    for (int64_t j = 0; j < keys; j++) {
        if (at->w[j] > 0.0) at->u[j] -= job->space->b[j];
    }
    const double middle = least < 0 ? 0.0 : at->u[least];
    at->sum = -at->slope * middle;
    for (int64_t j = 0; j < keys; j++) {
        at->u[j] -= middle;
        if (at->w[j] > 0.0) at->sum += at->w[j] * at->u[j];
    }
    return middle;
}

typedef void row_body(ota_backward_job *job, int64_t i);

static void each_row(ota_backward_job *job, row_body *body) {
    for (int64_t i = 0; i < job->resolved->queries; i++) {
        if (ota_interrupted(&job->resolved->settings) != OTA_OK) return;
        load_row(job, i);
        body(job, i);
    }
}

/* ---- multipliers ------------------------------------------------------------------------------------ */

/* Rows in order: where each key's capacity ran out, and what that row took. */
static void replay_row(ota_backward_job *job, int64_t i) {
    ota_backward_space *space = job->space;
    plain_row *at = space->own;
    const double mu = ota_row_mass(job->resolved, job->batch, job->head, i);
    ota_row_parameters rule = job->parameters;
    ota_row_found found;
    rule.line = i;
    ota_plain_row_online(&rule, at->s, job->resolved->keys, mu, at->room, at->p, at->open, &found);
    mark(job, i, &found);
    for (int64_t j = 0; j < job->resolved->keys; j++) {
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
        load_row(job, i);
        weigh(job, i);
        const double middle = centre(job);
        space->a[i] = space->bad[i] ? NAN : mean_of(job, at->total, at->sum, 0.0);
        space->sums.row_mass[index * r->queries + i] = space->a[i] + middle;
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

static void add_centred(double w, double u, double mean, double *right, double *scale) {
    if (!(w > 0.0)) return;
    *right += w * (u - mean);
    *scale += w * (fabs(u - mean) + OTA_OFFSET_SHARE * fabs(u));
}

/* U becomes what the rows of the solver measure; a query that is such a row finds from where, with what it carries. */
static void measure(ota_backward_job *job, int64_t i, double mass) {
    const ota_steep_rows *steep = &job->space->steep;
    const bool transposed = job->device->transposed;
    plain_row *at = job->space->own;
    if (!ota_backward_is_steep(job)) return;
    if (!transposed) {
        const int64_t key = steepest(at, job->resolved->keys);
        steep->column[i] = key;
        steep->middle[i] = key < 0 ? 0.0 : at->u[key];
        steep->rest[i] = at->slope;
        if (job->resolved->problem.rows == OTA_ROWS_RELAXED)
            steep->rest[i] += job->parameters.tau * mass / job->parameters.row_strength;
        at->sum = -steep->rest[i] * steep->middle[i];
    }
    for (int64_t j = 0; j < job->resolved->keys; j++) {
        at->u[j] = ota_steep_upstream(job->space, transposed, i, j, at->u[j]);
        if (!transposed && at->w[j] > 0.0) at->sum += at->w[j] * at->u[j];
    }
}

static void slopes_row(ota_backward_job *job, int64_t i) {
    ota_backward_space *space = job->space;
    const plain_row *at = space->own;
    weigh(job, i);
    double mass = at->sink;
    for (int64_t j = 0; j < job->resolved->keys; j++) {
        mass += at->p[j];
        space->matrix[place_of(job, i, j)] = at->w[j];
        space->chunks.plan[j] += at->p[j];
        space->chunks.slopes[j] += at->w[j];
    }
    measure(job, i, mass);
    space->adjoint.den[i] = at->total;
    space->adjoint.row_right[i] = at->sum;
    space->adjoint.row_sums[i] = mass;
    const double mean = job->device->transposed ? 0.0 : mean_of(job, at->total, at->sum, mass);
    for (int64_t j = 0; j < job->resolved->keys; j++)
        add_centred(at->w[j], at->u[j], mean, space->chunks.right + j,
                    space->chunks.right_terms + j);
}

static void slopes(ota_backward_job *job) {
    ota_backward_space *space = job->space;
    ota_backward_clear_chunks(space, 0, OTA_ADJOINT_CHUNKS);
    each_row(job, slopes_row);
}

static void transposed_row(ota_backward_job *job, int64_t i) {
    const ota_backward_space *space = job->space;
    space->adjoint.right[i] = space->adjoint.right_terms[i] = 0.0;
    measure(job, i, 0.0);
    for (int64_t j = 0; j < job->resolved->keys; j++) {
        const double mean = mean_of(job, space->adjoint.den[j], space->adjoint.row_right[j],
                                    ota_backward_is_steep(job) ? 0.0 : space->adjoint.row_sums[j]);
        add_centred(space->matrix[place_of(job, i, j)], space->own->u[j], mean,
                    space->adjoint.right + i, space->adjoint.right_terms + i);
    }
}

static void transposed_right(ota_backward_job *job) { each_row(job, transposed_row); }

static void widen_row(ota_backward_job *job, int64_t i) {
    ota_backward_space *space = job->space;
    const plain_row *at = space->own;
    for (int64_t j = 0; j < job->resolved->keys; j++) {
        space->matrix[place_of(job, i, j)] = at->s[j];
        if (space->gradient != NULL)
            space->gradient[place_of(job, i, j)] = at->s[j] > -INFINITY ? at->u[j] : 0.0;
    }
}

static void load_pairs(ota_backward_job *job, const ota_pair_lines *to) {
    const size_t bytes = (size_t)job->resolved->keys * sizeof(double);
    for (int64_t k = 0; k < to->count && bytes > 0; k++) {
        load_row(job, to->queries[k]);
        memcpy(to->scores + k * to->lane, job->space->own->s, bytes);
        memcpy(to->upstream + k * to->lane, job->space->own->u, bytes);
    }
}

static void widen(ota_backward_job *job) { each_row(job, widen_row); }

static void load_bias(ota_backward_job *job) { job->state.biased = true; }

/* ---- outputs ---------------------------------------------------------------------------------------- */

/* What term t gets of dL/d(what it was added to) = g. */
static void add_to_term(const ota_backward_job *job, int t, int64_t i, int64_t j, double g) {
    const ota_resolved *r = job->resolved;
    const ota_array *to = ota_gradient_of_term(r, job->want, t), *a = &r->terms[t].array;
    const ota_term_sum *sums = &job->space->sums.terms[t];
    const ota_term_form form = ota_term_form_of(&r->terms[t]);
    if (to == NULL || form == OTA_FORM_SOFTCAP) return;
    if (form == OTA_FORM_LINEAR_DISTANCE)
        job->space->row_sums[i * OTA_ROW_SUMS + OTA_SUM_ALIBI] -=
            g * fabs((double)(ota_row_position(r, i) - j));
    else if (form == OTA_FORM_ADDS_DIFFERENCES)
        sums->partial[ota_row_number(r, i) - j + r->keys - 1] += g;
    else if (sums->direct)
        ota_array_set(to, job->batch, job->head, i, j, g);
    else if (a->size[2] != 1)
        ota_term_slice(job, t)[i * a->size[3] + (a->size[3] != 1 ? j : 0)] += g;
    else
        sums->partial[a->size[3] != 1 ? j : 0] += g;
}

/* dL/dS -> dL/d(raw product), through the terms from the last to the first. */
static double through_terms(const ota_backward_job *job, int64_t i, int64_t j, double g) {
    const ota_resolved *r = job->resolved;
    for (int t = r->term_count - 1; t >= 0; t--) {
        const ota_term *term = &r->terms[t];
        add_to_term(job, t, i, j, ota_term_is_inside(term) ? g * r->scale : g);
        if (ota_term_form_of(term) != OTA_FORM_SOFTCAP || !(g < 0.0 || g > 0.0)) continue;
        const double z = ota_plain_product(r, job->batch, job->head, i, j) / term->value;
        const double value = tanh(z), left = (1.0 - value) * (1.0 + value);
        job->space->row_sums[i * OTA_ROW_SUMS + OTA_SUM_SOFTCAP] += g * (value - z * left);
        g *= left;
    }
    return g * r->scale;
}

/* Derivatives by temperature and order of row i, whose dL/dS stands in the place of U. */
static void add_parameters(const ota_backward_job *job, int64_t i) {
    const plain_row *at = job->space->own;
    const ota_block row = {.rule = job->parameters,
                           .keys = job->resolved->keys,
                           .scores = at->s,
                           .weights = at->p,
                           .slopes = at->u,
                           .f = job->space->f + i,
                           .g = job->state.biased ? job->space->g : NULL};
    ota_block_add_pair_sums(&row, 0, ota_array_present(&job->want->order),
                            job->space->row_sums + i * OTA_ROW_SUMS);
}

/* dL/dS of a row in the place of U, of which `middle` was taken off; P of a bad row is NaN. */
static void row_gradient(ota_backward_job *job, int64_t i, double a, double middle) {
    const ota_backward_space *space = job->space;
    const plain_row *at = space->own;
    const double tau = job->parameters.tau;
    const bool online = job->mode == OTA_BACKWARD_ONLINE, centred = ota_backward_is_centred(job),
               steep = ota_backward_is_steep(job);
    for (int64_t j = 0; j < job->resolved->keys; j++) {
        const double b = centred ? 0.0 : space->b[j],
                     apart =
                         steep ? ota_steep_advantage(space, job->device->transposed, i, j, at->u[j])
                               : at->u[j] - a - b;
        double g = at->p[j] > 0.0 ? at->w[j] * apart / tau : 0.0;
        if (job->state.stored) g = space->gradient[place_of(job, i, j)];
        if (online && i >= space->shut[j]) g = 0.0;
        if (space->bad[i]) g = at->p[j] = at->s[j] <= -INFINITY ? 0.0 : NAN;
        at->u[j] = g;
    }
    if (!job->choice.sums || job->state.stored) return;
    add_parameters(job, i);
    double *sums = space->row_sums + i * OTA_ROW_SUMS;
    sums[OTA_SUM_SINK] = 0.0;
    if (at->sink > 0.0)
        ota_add_sink_sums(&job->parameters, at->sink, space->f[i], a + middle,
                          ota_array_present(&job->want->order), sums);
    if (space->bad[i]) sums[OTA_SUM_SINK] = sums[OTA_SUM_TEMPERATURE] = sums[OTA_SUM_ORDER] = NAN;
}

static void write_row(ota_backward_job *job, int64_t i) {
    const ota_resolved *r = job->resolved;
    const ota_gradients *want = job->want;
    const int64_t b = job->batch, h = job->head, key_head = job->key_head;
    ota_backward_space *space = job->space;
    plain_row *at = space->own;
    weigh(job, i);
    const double middle = centre(job);
    if (job->mode == OTA_BACKWARD_FREE) {
        space->a[i] = mean_of(job, at->total, at->sum, 0.0);
        space->sums.row_mass[(b * r->heads + h) * r->queries + i] = space->a[i] + middle;
    }
    row_gradient(job, i, space->a[i], middle);
    for (int64_t j = 0; j < r->keys; j++) {
        if (ota_array_present(&want->scores)) ota_array_set(&want->scores, b, h, i, j, at->u[j]);
        at->u[j] = through_terms(job, i, j, at->u[j]);
        if (ota_array_present(&want->matrix)) ota_array_set(&want->matrix, b, h, i, j, at->u[j]);
    }
    for (int64_t w = 0; w < r->width && !r->from_matrix; w++) {
        const double q = finite_or_0(ota_array_get(&r->problem.queries, b, h, i, w));
        double sum = 0.0;
        for (int64_t j = 0; j < r->keys; j++) {
            sum += at->u[j] * finite_or_0(ota_array_get(&r->problem.keys, b, key_head, j, w));
            at->keys[j * r->width + w] += at->u[j] * q;
        }
        if (ota_array_present(&want->queries)) ota_array_set(&want->queries, b, h, i, w, sum);
    }
    if (r->problem.dropout > 0.0)
        ota_dropout_row_f64(r, job->dropout_key, i, 0, NULL, r->keys, at->p);
    for (int64_t w = 0; w < job->values_width && ota_array_present(&want->out_grad); w++) {
        const double g = finite_or_0(out_grad_at(job, i, w));
        for (int64_t j = 0; j < r->keys; j++) at->values[j * job->values_width + w] += at->p[j] * g;
    }
}

static void write_head(ota_backward_job *job) {
    for (int t = 0; t < job->resolved->term_count; t++)
        clear(job->space->sums.terms[t].partial,
              OTA_ADJOINT_CHUNKS * job->space->sums.terms[t].length);
    each_row(job, write_row);
}

static void put(const ota_backward_job *job, const ota_array *to, const double *sum) {
    for (int64_t j = 0; j < job->resolved->keys && ota_array_present(to); j++) {
        for (int64_t w = 0; w < to->size[3]; w++)
            ota_array_set(to, job->batch, job->key_head, j, w, sum[j * to->size[3] + w]);
    }
}

static void put_keys(ota_backward_job *job) {
    put(job, &job->want->keys, job->space->own->keys);
    put(job, &job->want->values, job->space->own->values);
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
