/* capped_transport.c: the transportation problem whose arcs have capacities P_ij <= c_ij, by shortest augmenting paths.
 *
 *     maximise sum S_ij P_ij,   sum_j P_ij = mu_i,   floor nu_j <= sum_i P_ij <= nu_j  (or = nu_j),   0 <= P_ij <= c_ij
 *
 * Rows ship one after another. f, g keep  S_ij + f_i + g_j <= 0 where P_ij < c_ij  and  >= 0 where P_ij > 0, g_j = 0
 * where the key has room and g_j <= 0 where it has none. A path goes from the row at hand along pairs with room and back
 * along pairs with weight to a key with room; the shortest one, by what the pairs lack of equality, keeps all of that
 * [LIT-06]. The sink is one more key. What is left below rounding of the total mass counts as nothing.
 *
 * With a floor one more row fills the keys to nu_j at no cost: it ships what they may lack, at most (1 - floor) nu_j to a
 * key and the rest to the sink, so a key is left with its least sum at least. Its f says where g is 0. */
#include "capped_transport.h"

#include <float.h>
#include <math.h>

typedef struct paths {
    ota_capped_transport *problem;
    int64_t n, m;       /* n with the row that fills, m with the sink */
    double tiny;        /* masses below this are rounding */
    double filled;      /* mass of the row that fills */
    double balance;     /* of nu, where totals agree up to rounding */
    double *room;       /* [m] what a key can still take */
    double *sink;       /* [n] P of the sink */
    double *filling;    /* [m] P of the row that fills */
    double *f, *g;      /* [n], [m] */
    double *distance;   /* [n + m] rows, then keys */
    int64_t *before;    /* [n + m] the node before on the shortest path */
    unsigned char *met; /* [n + m] its distance is final */
} paths;

static void lay_out(paths *s, ota_arena *arena, int64_t n, int64_t m) {
    const size_t rows = (size_t)n + 1, keys = (size_t)m + 1;
    s->room = ota_arena_take(arena, keys, sizeof(double));
    s->sink = ota_arena_take(arena, rows, sizeof(double));
    s->filling = ota_arena_take(arena, keys, sizeof(double));
    s->f = ota_arena_take(arena, rows, sizeof(double));
    s->g = ota_arena_take(arena, keys, sizeof(double));
    s->distance = ota_arena_take(arena, rows + keys, sizeof(double));
    s->before = ota_arena_take(arena, rows + keys, sizeof(int64_t));
    s->met = ota_arena_take(arena, rows + keys, 1);
}

size_t ota_capped_transport_workspace(int64_t n, int64_t m) {
    ota_arena arena = {0};
    paths s = {0};
    lay_out(&s, &arena, n, m);
    return ota_arena_overflowed(&arena) ? SIZE_MAX : arena.used;
}

static double score_at(const paths *s, int64_t i, int64_t j) {
    const ota_capped_transport *p = s->problem;
    if (i == p->n) return 0.0;
    if (j == p->m) return p->sink;
    const int64_t at = i * p->stride + j;
    const double score =
        p->narrow ? (double)((const float *)p->scores)[at] : ((const double *)p->scores)[at];
    return p->flat && score > -INFINITY ? 0.0 : score;
}

static double cap_at(const paths *s, int64_t i, int64_t j) {
    const ota_capped_transport *p = s->problem;
    if (j == p->m) return INFINITY;
    return i == p->n ? (1.0 - p->floor) * s->balance * p->nu[j] : ota_entry_cap(p->caps, i, j);
}

static double *weight_at(const paths *s, int64_t i, int64_t j) {
    const ota_capped_transport *p = s->problem;
    if (j == p->m) return &s->sink[i];
    return i == p->n ? &s->filling[j] : &p->plan[i * p->plan_stride + j];
}

/* Shorter ways from row i along pairs with room, from key j back along pairs with weight. */
static void leave_row(const paths *s, int64_t i) {
    for (int64_t j = 0; j < s->m; j++) {
        const double score = score_at(s, i, j);
        if (s->met[s->n + j] || !(score > -INFINITY)) continue;
        if (!(cap_at(s, i, j) - *weight_at(s, i, j) > s->tiny)) continue;
        const double slack = fmax(0.0, -(score + s->f[i] + s->g[j])), way = s->distance[i] + slack;
        if (!(way < s->distance[s->n + j])) continue;
        s->distance[s->n + j] = way;
        s->before[s->n + j] = i;
    }
}

static void leave_key(const paths *s, int64_t j) {
    for (int64_t i = 0; i < s->n; i++) {
        if (s->met[i] || !(*weight_at(s, i, j) > s->tiny)) continue;
        const double slack = fmax(0.0, score_at(s, i, j) + s->f[i] + s->g[j]);
        const double way = s->distance[s->n + j] + slack;
        if (!(way < s->distance[i])) continue;
        s->distance[i] = way;
        s->before[i] = s->n + j;
    }
}

/* The nearest key with room from row `from`, or -1. */
static int64_t search(const paths *s, int64_t from) {
    for (int64_t k = 0; k < s->n + s->m; k++) {
        s->distance[k] = INFINITY;
        s->met[k] = 0;
    }
    s->distance[from] = 0.0;
    for (;;) {
        int64_t next = -1;
        /* Nodes are looked through twice, and row by row pairs are read that lie apart. */
        if (ota_watch_ends(&s->problem->watch, 3 * (s->n + s->m))) return -1;
        for (int64_t k = 0; k < s->n + s->m; k++) {
            if (!s->met[k] && s->distance[k] < INFINITY &&
                (next < 0 || s->distance[k] < s->distance[next]))
                next = k;
        }
        if (next < 0) return -1;
        if (next >= s->n && s->room[next - s->n] > s->tiny) return next - s->n;
        s->met[next] = 1;
        if (next < s->n)
            leave_row(s, next);
        else
            leave_key(s, next - s->n);
    }
}

static void move_potentials(const paths *s, double length) {
    for (int64_t i = 0; i < s->n; i++) {
        if (s->distance[i] < length) s->f[i] += length - s->distance[i];
    }
    for (int64_t j = 0; j < s->m; j++) {
        if (s->distance[s->n + j] < length) s->g[j] -= length - s->distance[s->n + j];
    }
}

/* Ships what the path to `key` can take of `left`; returns how much. */
static double ship(const paths *s, int64_t from, int64_t key, double left) {
    double amount = fmin(left, s->room[key]);
    for (int64_t at = s->n + key; at != from; at = s->before[at]) {
        const int64_t other = s->before[at];
        amount = at >= s->n
                     ? fmin(amount, cap_at(s, other, at - s->n) - *weight_at(s, other, at - s->n))
                     : fmin(amount, *weight_at(s, at, other - s->n));
    }
    for (int64_t at = s->n + key; at != from; at = s->before[at]) {
        const int64_t other = s->before[at];
        double *weight =
            at >= s->n ? weight_at(s, other, at - s->n) : weight_at(s, at, other - s->n);
        const double cap = at >= s->n ? cap_at(s, other, at - s->n) : INFINITY;
        *weight = at >= s->n ? *weight + amount : *weight - amount;
        if (!(*weight > s->tiny)) *weight = 0.0;
        if (cap - *weight <= s->tiny) *weight = cap;
    }
    s->room[key] -= amount;
    return amount;
}

/* The room of the keys and the sink, and the mass that fills them where there is a floor. Totals that agree up to rounding
 * fill every key. */
static ota_status share_out(paths *s) {
    const ota_capped_transport *p = s->problem;
    const bool sink = p->sink > -INFINITY, floor = p->floor > 0.0 && !p->exact;
    double mass = 0.0, room = 0.0;
    for (int64_t i = 0; i < p->n; i++) mass += p->mu[i];
    for (int64_t j = 0; j < p->m; j++) room += p->nu[j];
    if (p->exact && (sink ? room > mass : fabs(room - mass) > p->tolerance * mass))
        return OTA_INFEASIBLE;
    const bool bare = floor && p->floor * room > mass, full = floor && !sink && room < mass;
    if ((bare && p->floor * room > mass * (1.0 + p->tolerance)) ||
        (full && room < mass * (1.0 - p->tolerance)))
        return OTA_INFEASIBLE;
    s->balance = 1.0;
    if (((p->exact && !sink) || full) && room > 0.0) s->balance = mass / room;
    if (bare) s->balance = mass / (p->floor * room);
    room *= s->balance;
    for (int64_t j = 0; j < p->m; j++) s->room[j] = s->balance * p->nu[j];
    s->filled = !floor ? 0.0 : fmax(0.0, sink ? (1.0 - p->floor) * room : room - mass);
    s->room[p->m] = p->exact ? mass - room : floor ? fmax(0.0, mass - p->floor * room) : INFINITY;
    s->tiny = 8.0 * DBL_EPSILON * (mass + s->filled);
    s->n = p->n + (floor ? 1 : 0);
    s->m = p->m + (sink ? 1 : 0);
    return OTA_OK;
}

static void clear(const paths *s) {
    const ota_capped_transport *p = s->problem;
    for (int64_t j = 0; j <= p->m; j++) s->g[j] = s->filling[j] = 0.0;
    for (int64_t i = 0; i <= p->n; i++) {
        s->sink[i] = 0.0;
        s->f[i] = -INFINITY;
    }
    for (int64_t i = 0; i < p->n && !ota_watch_ends(&s->problem->watch, p->m); i++) {
        for (int64_t j = 0; j < p->m; j++) p->plan[i * p->plan_stride + j] = 0.0;
    }
}

static ota_status ship_row(const paths *s, int64_t i) {
    ota_capped_transport *p = s->problem;
    double left = i == p->n ? s->filled : p->mu[i], best = -INFINITY;
    const ota_status going = ota_watch_spend(&p->watch, s->m);
    if (going != OTA_OK) return going;
    for (int64_t j = 0; j < s->m; j++) best = fmax(best, score_at(s, i, j) + s->g[j]);
    if (!(left > 0.0)) return OTA_OK;
    if (!(best < INFINITY)) return OTA_NONFINITE;
    s->f[i] = -best;
    while (left > s->tiny) {
        const int64_t key = search(s, i);
        const ota_status status = ota_watch_ask(&p->watch);
        if (status != OTA_OK) return status;
        if (key < 0) return OTA_INFEASIBLE;
        move_potentials(s, s->distance[s->n + key]);
        left -= ship(s, i, key, left);
        p->paths++;
    }
    return OTA_OK;
}

/* How much too low g is: 0 is the price of the sink, else of a key between its bounds, else no full key has more. */
static double shift_of(const paths *s) {
    const ota_capped_transport *p = s->problem;
    if (s->m > p->m) return -s->g[p->m];
    if (s->n == p->n) return 0.0;
    if (s->f[p->n] > -INFINITY) return s->f[p->n];
    double highest = -INFINITY;
    for (int64_t j = 0; j < p->m; j++) {
        if (cap_at(s, p->n, j) > s->tiny) highest = fmax(highest, s->g[j]);
    }
    return highest > -INFINITY ? -highest : 0.0;
}

ota_status ota_capped_transport_solve(ota_capped_transport *problem, void *workspace) {
    paths s = {.problem = problem};
    ota_arena arena = {.base = workspace, .size = SIZE_MAX};
    lay_out(&s, &arena, problem->n, problem->m);
    clear(&s);
    ota_status status = share_out(&s);
    for (int64_t i = 0; i < s.n && status == OTA_OK; i++) status = ship_row(&s, i);
    const double shift = status == OTA_OK ? shift_of(&s) : 0.0;
    for (int64_t i = 0; i < problem->n; i++) problem->f[i] = s.f[i] - shift;
    for (int64_t j = 0; j < problem->m; j++) problem->g[j] = s.g[j] + shift;
    return status;
}
