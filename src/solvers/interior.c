/* Primal-dual interior point for Tsallis plans whose semi-dual Newton steps lead nowhere: each piece
 * of the semi-dual reaches only as far as the support it was made from. Unknowns are P
 * [rows][columns] and the slacks Z of P >= 0 beside f [rows] and g [columns]:
 *
 *     phi'(P_ij) - S_ij - f_i - g_j - Z_ij = 0      P_ij Z_ij = beta -> 0
 *     phi'(p) = t p^(alpha - 1) / (alpha - 1)
 *     rows      sum_j P_ij = mu_i, the sink being one more key with g = 0
 *     columns   sum_i P_ij = nu_j,  or c_j with g_j = -rho log(c_j / nu_j),
 *               or capacity_j - s_j with s_j (-g_j) = beta, or between two bounds (columns/)
 *
 * Within entry caps P_ij + Q_ij = cap_ij with Q_ij Y_ij = beta, too, and + Y_ij in the first line. There Z / P grows by Y / Q and
 * beta / P becomes less by beta / Q in what follows. Where some pair is at its cap in every plan no point lies inside.
 *
 * One step with d = 1 / (phi'' + Z / P) is
 *
 *     dP = d (df + dg + h),   h = beta / P + S + f + g - phi'
 *     (diag(e) + diag(sum_i d) - d^T diag(1 / D) d) dg = right,   D_i = sum_j d_ij + the sink's
 *
 * a Laplacian plus a non-negative diagonal again (newton_system.c). Beta follows Mehrotra's
 * predictor and corrector, both from one factor. The iterates stay inside P, Z > 0, so the number
 * of steps hardly depends on the temperature, and no row is ever solved for its threshold. The
 * exact support is left to the semi-dual steps that follow.
 *
 * A pair that no feasible plan uses has no P > 0: its slack would grow without end and take the
 * digits of f and g along. Such pairs stay outside, and where they cut the others into blocks, f and
 * g are moved apart at the end, block by block, until their slack is positive (feasible.h). */
#include "coupled.h"

#include <string.h>

enum { STEPS = 80, POOR_STEPS = 6 };

/* Part of the way to the boundary that a step may go. */
static const double boundary = 0.995, nearest = 1.0e-6;
/* Rounding may take the slack of a weight, or its room, further down than the step did, but not below this part. */
static const double least_left = 1.0e-8;
/* First slack, in units of what the potentials range over. */
static const double first_slack = 0.1;
/* The mean of P Z, relative to its unit, that ends the steps. */
static const double least_gap = 1.0e-18, small_gap = 1.0e-12;
/* Steps shorter than this gain nothing. */
static const double poor_length = 1.0e-3;

typedef struct interior {
    ota_coupled *state;
    const double *scores;
    double t, beta;
    double taken;                /* length of the step */
    bool corrected;              /* the second-order term of the predictor belongs to h */
    double *plan, *slack, *move; /* [rows][stride] P, Z, dP */
    struct {
        double *room, *price; /* [rows][stride] Q and Y, or NULL */
    } caps;
    /* [rows] df, right side, D; weight on the sink, its slack and move */
    double *row_step, *row_right, *row_sum, *sink, *sink_slack, *sink_move;
    /* [chunks] longest step, sums of dP dZ and of P Z */
    double *length, *product, *complement;
    /* [columns] dg, right side, diagonal e, pivots; the keys' own unknowns, their moves, second-order terms */
    double *step, *right, *excess, *pivots, *own, *own_step, *second[2];
    double *rest, *price, *price_step, *reward;
} interior;

/* p^(alpha - 2) without pow for the common orders. */
static double power_of(double p, double order) {
    const double twice = 2.0 * order;
    if (!(order > 2.0) && !(order < 2.0)) return 1.0;
    if (!(order > 3.0) && !(order < 3.0)) return p;
    if (!(twice > 3.0) && !(twice < 3.0)) return 1.0 / sqrt(p);
    return pow(p, order - 2.0);
}

/* phi' and phi'' */
static double price_of(const interior *n, double p, double *curvature) {
    const double order = n->state->head->row.order, power = power_of(p, order);
    *curvature = n->t * power;
    return n->t / (order - 1.0) * power * p;
}

/* One weight. */
typedef struct weight_of_pair {
    double p, z, moved; /* moved: dP of the predictor */
    double q, y;        /* q: INFINITY where no cap is below the row's mass */
} weight_of_pair;

/* Key j, or the sink at `columns`. */
static inline weight_of_pair weight_at(const interior *n, int64_t i, int64_t j) {
    const int64_t at = i * n->state->pass.stride + j;
    const bool key = j < n->state->pass.columns, capped = key && n->caps.room != NULL;
    return (weight_of_pair){key ? n->plan[at] : n->sink[i], key ? n->slack[at] : n->sink_slack[i],
                            key ? n->move[at] : n->sink_move[i],
                            capped ? n->caps.room[at] : INFINITY, capped ? n->caps.price[at] : 0.0};
}

/* The second-order terms of P Z and Q Y. */
static inline double second_of_slack(const interior *n, const weight_of_pair *at) {
    return n->corrected ? -at->moved * at->z * (1.0 + at->moved / at->p) : 0.0;
}

static inline double second_of_excess(const interior *n, const weight_of_pair *at) {
    return n->corrected ? at->moved * at->y * (1.0 - at->moved / at->q) : 0.0;
}

/* d and h of one weight; `lift` = S + f + g. */
static inline double stiffness(const interior *n, const weight_of_pair *at, double lift,
                               double *h) {
    double curvature;
    const double price = price_of(n, at->p, &curvature);
    const double stiff = curvature + at->z / at->p;
    *h = (n->beta - second_of_slack(n, at)) / at->p + lift - price;
    if (!(at->q < INFINITY)) return 1.0 / stiff;
    *h -= (n->beta - second_of_excess(n, at)) / at->q;
    return 1.0 / (stiff + at->y / at->q);
}

/* dZ and dY where P moves by dp. */
static inline double move_of_slack(const interior *n, const weight_of_pair *at, double dp) {
    return (n->beta - second_of_slack(n, at)) / at->p - at->z - at->z / at->p * dp;
}

static inline double move_of_excess(const interior *n, const weight_of_pair *at, double dp) {
    return (n->beta - second_of_excess(n, at)) / at->q - at->y + at->y / at->q * dp;
}

/* Key j, or the sink at `columns`. */
static bool is_allowed(const interior *n, int64_t i, int64_t j) {
    const ota_coupled *state = n->state;
    if (j == state->pass.columns) return state->head->row.sink > -INFINITY;
    return n->scores[i * state->pass.stride + j] > -INFINITY && state->pass.target[j] > 0.0;
}

static bool may_use(const interior *n, int64_t i, int64_t j) {
    const ota_coupled *state = n->state;
    return is_allowed(n, i, j) &&
           (!state->split || state->usable[i * (state->pass.columns + 1) + j] != 0);
}

/* ---- start ----------------------------------------------------------------------------------- */

/* A weight of about p within its cap, and the room that is left of it. */
static double start_at(interior *n, int64_t i, int64_t j, double p) {
    const ota_coupled *state = n->state;
    const int64_t at = i * state->pass.stride + j;
    if (n->caps.room == NULL) return p;
    const double cap = ota_entry_cap(&state->head->row.caps, i, j);
    n->caps.room[at] = INFINITY;
    n->caps.price[at] = 0.0;
    if (!(cap < state->head->mu[i])) return p;
    const double within = fmin(p, 0.5 * cap);
    n->caps.room[at] = cap - within;
    return within;
}

static void start_row(interior *n, int64_t i, double delta) {
    ota_coupled *state = n->state;
    ota_head *head = state->head;
    double *p = n->plan + i * state->pass.stride, *z = n->slack + i * state->pass.stride;
    const double *s = n->scores + i * state->pass.stride, mu = head->mu[i];
    const bool has_sink = may_use(n, i, state->pass.columns);
    double total = 0.0, curvature, least = INFINITY, keys = 0.0;
    memset(p, 0, (size_t)state->pass.stride * sizeof *p);
    memset(z, 0, (size_t)state->pass.stride * sizeof *z);
    n->sink[i] = n->sink_slack[i] = 0.0;
    head->f[i] = -INFINITY;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (!may_use(n, i, j)) continue;
        total += state->pass.target[j];
        keys += 1.0;
    }
    if (!(mu > 0.0) || !(total > 0.0 || has_sink)) return;
    const double share = has_sink ? mu / (keys + 1.0) : 0.0;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (!may_use(n, i, j)) continue;
        p[j] = start_at(n, i, j, (mu - share) * (state->pass.target[j] / total));
        if (!(p[j] > 0.0)) continue;
        const double room = price_of(n, p[j], &curvature) - s[j] - head->g[j];
        if (room < least) least = room;
    }
    if (has_sink) {
        n->sink[i] = share;
        const double room = price_of(n, share, &curvature) - head->row.sink;
        if (room < least) least = room;
        n->sink_slack[i] = room;
    }
    head->f[i] = delta - least > -INFINITY ? least - delta : 0.0;
    n->sink_slack[i] -= has_sink ? head->f[i] : 0.0;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (p[j] > 0.0) z[j] = price_of(n, p[j], &curvature) - s[j] - head->g[j] - head->f[i];
        const int64_t at = i * state->pass.stride + j;
        if (!(p[j] > 0.0) || n->caps.room == NULL || !(n->caps.room[at] < INFINITY)) continue;
        n->caps.price[at] = delta;
        z[j] += delta;
    }
}

static ota_interior_key key_of(const interior *n, int64_t j) {
    const ota_coupled *state = n->state;
    return (ota_interior_key){.parameters = ota_head_parameters(state->head, j),
                              .target = state->pass.target[j],
                              .g = state->head->g[j],
                              .own = n->own[j],
                              .rest = n->rest[j],
                              .price = n->price[j],
                              .reward = n->reward[j],
                              .step = n->step[j],
                              .own_step = n->own_step[j],
                              .price_step = n->price_step[j],
                              .beta = n->beta,
                              .second = {n->second[0][j], n->second[1][j]}};
}

static void put_key(interior *n, int64_t j, const ota_interior_key *key) {
    n->own[j] = key->own;
    n->rest[j] = key->rest;
    n->price[j] = key->price;
    n->reward[j] = key->reward;
    n->own_step[j] = key->own_step;
    n->price_step[j] = key->price_step;
    for (int k = 0; k < 2; k++) n->second[k][j] = key->second[k];
}

/* The first slack. */
static double start(interior *n) {
    ota_coupled *state = n->state;
    ota_head *head = state->head;
    double curvature;
    const double typical = head->mass / ((double)state->pass.rows * (double)state->pass.columns);
    const double delta = first_slack * (head->scores.range + price_of(n, typical, &curvature));
    const ota_interior_rule *own = ota_head_rule(head)->interior;
    const double price =
        own != NULL && (own->start < 0.0 || own->start > 0.0) ? own->start * delta : 0.0;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        n->own[j] = 0.0;
        if (!(head->g[j] > -INFINITY)) continue;
        head->g[j] = price;
    }
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = 0; i < state->pass.rows && !ota_watch_ends(&watch, state->pass.columns); i++) {
        start_row(n, i, delta);
        const double *p = n->plan + i * state->pass.stride;
        for (int64_t j = 0; j < state->pass.columns; j++) n->own[j] += p[j];
    }
    for (int64_t j = 0; j < state->pass.columns && own != NULL && own->begin != NULL; j++) {
        ota_interior_key key = key_of(n, j);
        own->begin(&key, n->own[j], delta);
        put_key(n, j, &key);
    }
    return delta;
}

/* ---- one step -------------------------------------------------------------------------------- */

/* Weights d / sqrt(D), right sides of the rows, and the columns' sums of d leak / D and of
 * p + d h + d right / D. */
static void assemble_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const interior own = *(const interior *)context, *n = &own;
    ota_coupled *state = n->state;
    const ota_head *head = state->head;
    double *leaked = state->pass.chunk.sums + chunk * state->pass.padded_columns,
           *reached = state->pass.chunk.relaxed + chunk * state->pass.padded_columns;
    int64_t first, last;
    ota_chunk_rows(&state->pass, chunk, &first, &last);
    memset(leaked, 0, (size_t)state->pass.padded_columns * sizeof *leaked);
    memset(reached, 0, (size_t)state->pass.padded_columns * sizeof *reached);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, state->pass.columns); i++) {
        double *w = state->weights + i * state->pass.stride;
        const double *p = n->plan + i * state->pass.stride, *s = n->scores + i * state->pass.stride;
        double sum = 0.0, mass = 0.0, leak = 0.0, h;
        n->row_sum[i] = 0.0;
        if (!(head->f[i] > -INFINITY)) {
            memset(w, 0, (size_t)state->pass.stride * sizeof *w);
            continue;
        }
        for (int64_t j = 0; j < state->pass.columns; j++) {
            w[j] = 0.0;
            if (!(p[j] > 0.0)) continue;
            const weight_of_pair at = weight_at(n, i, j);
            w[j] = stiffness(n, &at, s[j] + head->f[i] + head->g[j], &h);
            sum += w[j];
            mass += p[j] + w[j] * h;
            reached[j] += p[j] + w[j] * h;
        }
        if (n->sink[i] > 0.0) {
            const weight_of_pair at = weight_at(n, i, state->pass.columns);
            leak = stiffness(n, &at, head->row.sink + head->f[i], &h);
            mass += n->sink[i] + leak * h;
        }
        n->row_right[i] = head->mu[i] - mass;
        n->row_sum[i] = sum + leak;
        const double part = n->row_right[i] / n->row_sum[i], root = sqrt(1.0 / n->row_sum[i]);
        for (int64_t j = 0; j < state->pass.columns; j++) {
            reached[j] += w[j] * part;
            leaked[j] += w[j] * (leak / n->row_sum[i]);
            w[j] *= root;
        }
    }
}

/* What the sum of column j would be after a step without dg, and its share of the diagonal. */
static double own_part(interior *n, int64_t j, double *diagonal) {
    const ota_interior_rule *own = ota_head_rule(n->state->head)->interior;
    *diagonal = 0.0;
    if (own == NULL) return n->state->pass.target[j];
    ota_interior_key key = key_of(n, j);
    const double sum = own->part(&key, n->corrected, diagonal);
    put_key(n, j, &key);
    return sum;
}

static void assemble(interior *n) {
    ota_coupled *state = n->state;
    ota_each_chunk(&state->pass, assemble_chunk, n);
    ota_add_chunks(&state->pass, state->pass.chunk.sums, n->excess);
    ota_add_chunks(&state->pass, state->pass.chunk.relaxed, n->right);
    for (int64_t j = 0; j < state->pass.columns; j++) {
        double diagonal = 0.0;
        const bool open = state->head->g[j] > -INFINITY && state->pass.target[j] > 0.0;
        n->right[j] = open ? own_part(n, j, &diagonal) - n->right[j] : 0.0;
        n->excess[j] += diagonal;
    }
}

/* df, dP, and how far the step may go; sums of P Z and of dP dZ. */
static void move_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const interior own = *(const interior *)context, *n = &own;
    const ota_coupled *state = n->state;
    const ota_head *head = state->head;
    double limit = 1.0, product = 0.0, complement = 0.0;
    int64_t first, last;
    ota_chunk_rows(&state->pass, chunk, &first, &last);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, state->pass.columns); i++) {
        const double *w = state->weights + i * state->pass.stride,
                     *s = n->scores + i * state->pass.stride;
        double *moved = n->move + i * state->pass.stride;
        double sum = 0.0;
        n->row_step[i] = 0.0;
        if (!(n->row_sum[i] > 0.0)) continue;
        for (int64_t j = 0; j < state->pass.columns; j++) sum += w[j] * n->step[j];
        const double df = n->row_step[i] =
            n->row_right[i] / n->row_sum[i] - sum / sqrt(n->row_sum[i]);
        for (int64_t j = 0; j <= state->pass.columns; j++) {
            const bool key = j < state->pass.columns;
            const weight_of_pair at = weight_at(n, i, j);
            double h;
            if (!(at.p > 0.0)) continue;
            const double lift = head->f[i] + (key ? s[j] + head->g[j] : head->row.sink);
            const double d = stiffness(n, &at, lift, &h);
            const double dp = d * (df + (key ? n->step[j] : 0.0) + h);
            const double dz = move_of_slack(n, &at, dp);
            if (-dp * limit > at.p) limit = at.p / -dp;
            if (-dz * limit > at.z) limit = at.z / -dz;
            product += dp * dz;
            complement += at.p * at.z;
            *(key ? &moved[j] : &n->sink_move[i]) = dp;
            if (!(at.q < INFINITY)) continue;
            const double dy = move_of_excess(n, &at, dp);
            if (dp * limit > at.q) limit = at.q / dp;
            if (-dy * limit > at.y) limit = at.y / -dy;
            product -= dp * dy;
            complement += at.q * at.y;
        }
    }
    n->length[chunk] = limit;
    n->product[chunk] = product;
    n->complement[chunk] = complement;
}

/* Steps of the columns' own unknowns; the limit of all. */
static double move(interior *n, double *product, double *complement) {
    ota_coupled *state = n->state;
    const ota_interior_rule *own = ota_head_rule(state->head)->interior;
    double limit = 1.0;
    *product = *complement = 0.0;
    ota_each_chunk(&state->pass, move_chunk, n);
    for (int64_t chunk = 0; chunk < state->pass.chunks; chunk++) {
        limit = fmin(limit, n->length[chunk]);
        *product += n->product[chunk];
        *complement += n->complement[chunk];
    }
    for (int64_t j = 0; j < state->pass.columns; j++) {
        n->own_step[j] = n->price_step[j] = 0.0;
        if (!(n->own[j] > 0.0) || own == NULL) continue;
        ota_interior_key key = key_of(n, j);
        own->move(&key, &limit, product, complement);
        put_key(n, j, &key);
    }
    return limit;
}

static void advance_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const interior own = *(const interior *)context, *n = &own;
    const ota_coupled *state = n->state;
    const ota_head *head = state->head;
    const double length = n->taken;
    int64_t first, last;
    ota_chunk_rows(&state->pass, chunk, &first, &last);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, state->pass.columns); i++) {
        if (!(n->row_sum[i] > 0.0)) continue;
        const double df = n->row_step[i];
        for (int64_t j = 0; j <= state->pass.columns; j++) {
            const bool key = j < state->pass.columns;
            const int64_t at = i * state->pass.stride + j;
            double *p = key ? &n->plan[at] : &n->sink[i],
                   *z = key ? &n->slack[at] : &n->sink_slack[i];
            if (!(*p > 0.0)) continue;
            const weight_of_pair before = weight_at(n, i, j);
            const double dp = before.moved;
            const double lift =
                df + head->f[i] + (key ? n->scores[at] + head->g[j] + n->step[j] : head->row.sink);
            double curvature;
            const double price = price_of(n, *p, &curvature);
            /* Of Z and Y the larger one follows from the other. */
            const double left = price + curvature * dp - lift;
            double next = *z + length * (left - *z);
            if (before.q < INFINITY) {
                const bool low = before.p < before.q;
                double dy = move_of_excess(n, &before, dp), dz = move_of_slack(n, &before, dp);
                if (low)
                    dz = left + before.y + dy - *z;
                else
                    dy = *z + dz - left - before.y;
                next = *z + length * dz;
                n->caps.price[at] = fmax(before.y + length * dy, least_left * before.y);
                n->caps.room[at] = fmax(before.q - length * dp, least_left * before.q);
            }
            *z = next > least_left * *z ? next : least_left * *z;
            *p += length * dp;
        }
        head->f[i] += length * df;
    }
}

static void advance(interior *n, double length) {
    ota_coupled *state = n->state;
    const ota_interior_rule *own = ota_head_rule(state->head)->interior;
    n->taken = length;
    ota_each_chunk(&state->pass, advance_chunk, n);
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (!(state->head->g[j] > -INFINITY)) continue;
        if (own != NULL && own->advance != NULL) {
            ota_interior_key key = key_of(n, j);
            own->advance(&key, length);
            put_key(n, j, &key);
        } else {
            n->own[j] += length * n->own_step[j];
        }
        state->head->g[j] += length * n->step[j];
    }
}

static ota_laplacian system_of(const interior *n) {
    const ota_coupled *state = n->state;
    return (ota_laplacian){.algebra = state->head->host.algebra,
                           .watch = ota_watch_of(state->head->settings),
                           .links = state->factor,
                           .stride = state->pass.padded_columns,
                           .count = state->pass.columns,
                           .excess = n->pivots};
}

static void solve(interior *n) {
    const ota_laplacian system = system_of(n);
    ota_laplacian_substitute(&system, n->right, n->step);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static interior place(ota_coupled *state, const double *scores, double t) {
    interior n = {.state = state, .scores = scores, .t = t};
    double *at = state->interior.matrix;
    double **matrices[] = {&n.plan, &n.slack, &n.move};
    for (size_t k = 0; k < sizeof matrices / sizeof matrices[0];
         k++, at += state->pass.rows * state->pass.stride)
        *matrices[k] = at;
    if (state->head->row.regulariser->capped) {
        n.caps.room = at;
        n.caps.price = at + state->pass.rows * state->pass.stride;
    }
    at = state->interior.rows;
    double **rows[] = {&n.row_step, &n.row_right, &n.row_sum, &n.sink, &n.sink_slack, &n.sink_move};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++, at += state->pass.rows) *rows[k] = at;
    n.length = at;
    n.product = n.length + state->pass.chunks;
    n.complement = n.product + state->pass.chunks;
    at = state->vectors;
    double **columns[] = {&n.step, &n.right,    &n.excess,     &n.pivots,
                          &n.own,  &n.own_step, &n.second[0],  &n.second[1],
                          &n.rest, &n.price,    &n.price_step, &n.reward};
    for (size_t k = 0; k < sizeof columns / sizeof columns[0];
         k++, at += state->pass.padded_columns)
        *columns[k] = at;
    return n;
}

static void factor(interior *n) {
    ota_coupled *state = n->state;
    ota_newton_links(state);
    for (int64_t j = 0; j < state->pass.columns; j++)
        memcpy(state->factor + j * state->pass.padded_columns,
               state->hessian + j * state->pass.padded_columns, (size_t)j * sizeof(double));
    memcpy(n->pivots, n->excess, (size_t)state->pass.columns * sizeof *n->pivots);
    ota_laplacian system = system_of(n);
    ota_laplacian_factor(&system);
}

/* Keys whose bounds do not bind have no price. */
static void settle_prices(interior *n) {
    ota_head *head = n->state->head;
    const ota_interior_rule *own = ota_head_rule(head)->interior;
    for (int64_t j = 0; j < n->state->pass.columns && own != NULL && own->finish != NULL; j++) {
        const ota_interior_key key = key_of(n, j);
        head->g[j] = own->finish(&key, head->scores.range);
    }
}

/* Gives every pair that was left outside a slack of at least `slack`. */
static void part_blocks(interior *n, double slack) {
    const ota_coupled *state = n->state;
    ota_head *head = state->head;
    if (!state->split) return;
    const int32_t *of_rows = state->order, *of_columns = of_rows + state->pass.rows;
    /* The block whose potential is 0: the sink's, or that of capacity left over. */
    const int32_t base = of_columns[state->pass.columns];
    double apart = 0.0;
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = 0; i < state->pass.rows && !ota_watch_ends(&watch, state->pass.columns); i++) {
        if (!(head->f[i] > -INFINITY)) continue;
        for (int64_t j = 0; j <= state->pass.columns; j++) {
            if (!(of_rows[i] > of_columns[j]) || !is_allowed(n, i, j)) continue;
            const double lift = j == state->pass.columns
                                    ? head->row.sink
                                    : n->scores[i * state->pass.stride + j] + head->g[j];
            apart = fmax(apart, (head->f[i] + lift + slack) / (double)(of_rows[i] - of_columns[j]));
        }
    }
    for (int64_t j = 0; j < state->pass.columns && apart > 0.0; j++) {
        if (head->g[j] > -INFINITY) head->g[j] += apart * (double)(of_columns[j] - base);
    }
}

/* How many products the mean is taken over. */
static int64_t count_pairs(const interior *n) {
    const ota_coupled *state = n->state;
    const ota_interior_rule *own = ota_head_rule(state->head)->interior;
    int64_t count = own != NULL ? own->products * state->pass.columns : 0;
    ota_watch watch = ota_watch_of(state->head->settings);
    for (int64_t i = 0; i < state->pass.rows && !ota_watch_ends(&watch, state->pass.columns); i++) {
        for (int64_t j = 0; j < state->pass.columns; j++) {
            const weight_of_pair at = weight_at(n, i, j);
            count += !(at.p > 0.0) ? 0 : at.q < INFINITY ? 2 : 1;
        }
        count += n->sink[i] > 0.0;
    }
    return count;
}

bool ota_interior_run(ota_coupled *state, const double *scores, double t, ota_status *stopped) {
    ota_head *head = state->head;
    interior n = place(state, scores, t);
    memset(state->vectors, 0,
           (size_t)(OTA_NEWTON_VECTORS * state->pass.padded_columns) * sizeof *state->vectors);
    double product, complement, last = INFINITY;
    int poor = 0;
    const double slack = start(&n);
    const double count = (double)count_pairs(&n);
    const double unit = head->mass / count * (head->scores.range + t);
    const int64_t most = head->settings->stop.max_rounds;
    for (int taken = 0; taken < STEPS && poor < POOR_STEPS && head->found.rounds < most; taken++) {
        *stopped = ota_coupled_tick(state, head->found.rounds, INFINITY);
        if (*stopped != OTA_OK) return false;
        head->found.rounds++;
        n.corrected = false;
        n.beta = 0.0;
        assemble(&n);
        factor(&n);
        solve(&n);
        const double reach = move(&n, &product, &complement);
        const double after = (1.0 - reach) * complement + reach * reach * product;
        const double ratio = after / complement;
        n.beta = fmax(0.0, ratio * ratio * ratio * complement / count);
        n.corrected = true;
        assemble(&n);
        solve(&n);
        const double length = move(&n, &product, &complement);
        const double margin = fmax(nearest, fmin(1.0 - boundary, ratio));
        advance(&n, length < 1.0 ? (1.0 - margin) * length : 1.0);
        poor = length < poor_length ? poor + 1 : 0;
        const double gap = complement / (count * unit);
        if (gap < least_gap || (gap < small_gap && gap > 0.5 * last)) break;
        last = gap;
    }
    settle_prices(&n);
    part_blocks(&n, slack);
    return true;
}
