/* Small heads one in a lane of the vectors, part of forward.inc.h: the rounds of forward_rounds.inc.h for as many
 * heads at once as the level has lanes. A group of heads is read across (element e of head l at [e * lanes + l]), the
 * kernel turns all of them, and each head leaves through the same door as any other. A head whose masses, scores or
 * scalings the lanes cannot carry is left to the rounds of its own, so a head's answer depends on nothing but itself. */

typedef struct WORD(lane_head) {
    int64_t batch, head;
    double tau, mass;
    double reach; /* of rounding in the products, in units of u tau */
    bool fit;     /* masses and temperature are such that a lane may carry it */
} WORD(lane_head);

/* One group at work. */
typedef struct WORD(lane_group) {
    walk *w;
    const ota_lanes *seat;
    ota_slot *slot;
    ota_worker *worker;
    double *receiver;
    int64_t lanes, stride; /* of seat->heads */
    bool weighed;          /* masses were given */
    bool terms;            /* or supports: rows are not just scaled */
    /* Wanted: logarithms of rows, any fact of a row, column potentials, what finish_rows makes besides weights. */
    bool logs, facts, columns, more;
    WORD(lane_head) heads[OTA_LANES_MOST];
} WORD(lane_group);

/* Masses that leave room for the scalings in the range of the type. */
static const double WORD(lane_mass) = sizeof(REAL) == sizeof(double) ? 0x1p128 : 0x1p16;

static bool WORD(lane_carries)(double mass) {
    return !(mass > 0.0) ? mass >= 0.0 : mass <= WORD(lane_mass) && mass * WORD(lane_mass) >= 1.0;
}

/* Largest |x|^2 of some rows. */
static double WORD(lane_norm)(const REAL *rows, int64_t count, int64_t width) {
    double largest = 0.0;
    for (int64_t i = 0; i < count; i++) {
        REAL norm = 0;
        for (int64_t q = 0; q < width; q++) norm += rows[i * width + q] * rows[i * width + q];
        largest = fmax(largest, (double)norm);
    }
    return largest;
}

/* Products of the head's queries and keys; what they add to the floor of the arithmetic, in units of tau, is
 * for tolerances only (rounds_floor of forward_rounds.inc.h). */
static void WORD(lane_products)(const WORD(lane_group) * g, WORD(lane_head) * at, REAL *to) {
    const ota_plan *plan = g->w->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t n = r->queries, m = r->keys, width = r->width;
    REAL *queries = g->worker->queries, *keys = queries + n * width;
    pack_rows(&r->problem.queries, at->batch, at->head, 0, n, queries, width);
    pack_rows(&r->problem.keys, at->batch, at->head / (r->heads / r->key_heads), 0, m, keys, width);
    for (int64_t i = 0; i < n; i++)
        KERNELS(plan)->dots(queries + i * width, keys, width, m, width, to + i * m);
    if (r->settings.fixed) return;
    at->reach = fabs(r->scale) / at->tau *
                sqrt(WORD(lane_norm)(queries, n, width) * WORD(lane_norm)(keys, m, width));
}

/* S of a head, row after row; a scale alone is left to lanes_in. */
static void WORD(lane_scores)(const WORD(lane_group) * g, WORD(lane_head) * at, REAL *to) {
    const ota_resolved *r = &g->w->plan->resolved;
    const int64_t n = r->queries, m = r->keys;
    if (r->from_matrix)
        pack_rows(&r->problem.scores, at->batch, at->head, 0, n, to, m);
    else
        WORD(lane_products)(g, at, to);
    for (int64_t i = 0; i < n && g->terms; i++) {
        int64_t begin, end;
        ota_row_range(r, at->batch, i, m, &begin, &end);
        row_scores(r, at->batch, at->head, i, begin, end, to + i * m + begin);
        WORD(shut_outside)(to + i * m, begin, end, m);
    }
}

/* Everybody's masses where none were given, and those of lanes without a head. */
static void WORD(lane_uniform)(const WORD(lane_group) * g) {
    const ota_resolved *r = &g->w->plan->resolved;
    REAL *mu = g->seat->mass, *target = g->seat->target;
    const double share = (double)r->queries / (double)r->keys;
    for (int64_t e = 0; e < r->queries * g->lanes; e++) mu[e] = (REAL)1;
    for (int64_t e = 0; e < r->keys * g->lanes; e++) {
        target[e] = (REAL)share;
        g->seat->wanted[e] = share;
    }
}

/* Masses of one head into its lane; exact targets are balanced to the mass of the rows. */
static void WORD(lane_masses)(const WORD(lane_group) * g, WORD(lane_head) * at, int64_t lane) {
    const ota_resolved *r = &g->w->plan->resolved;
    const int64_t n = r->queries, m = r->keys, lanes = g->lanes;
    REAL *mu = g->seat->mass, *target = g->seat->target;
    double *wanted = g->seat->wanted, rows = 0.0, columns = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double mass = ota_row_mass(r, at->batch, at->head, i);
        mu[i * lanes + lane] = (REAL)mass;
        at->fit &= WORD(lane_carries)(mass);
        rows += mass;
    }
    for (int64_t j = 0; j < m; j++) {
        const double mass = ota_column_mass(r, at->batch, at->head, j, rows / (double)m);
        wanted[j * lanes + lane] = mass;
        at->fit &= WORD(lane_carries)(mass);
        columns += mass;
    }
    const double tolerated = r->type == OTA_F64 ? 1e-12 : 1e-6;
    at->fit &= rows > 0.0 && fabs(columns - rows) <= tolerated * rows;
    const double balance = r->problem.columns == OTA_COLUMNS_EXACT ? rows / columns : 1.0;
    for (int64_t j = 0; j < m; j++) {
        wanted[j * lanes + lane] *= balance;
        target[j * lanes + lane] = (REAL)wanted[j * lanes + lane];
    }
    at->mass = rows;
}

/* What the rows of one lane are known by. Returns sum_i |row sum - mu_i|. */
static double WORD(lane_facts)(const WORD(lane_group) * g, const WORD(lane_head) * at, int64_t lane,
                               double *mu, ota_row_found *found) {
    const ota_resolved *r = &g->w->plan->resolved;
    double error = 0.0;
    for (int64_t i = 0; i < r->queries; i++) {
        const int64_t e = i * g->lanes + lane;
        mu[i] = g->weighed ? ota_row_mass(r, at->batch, at->head, i) : 1.0;
        found[i] =
            (ota_row_found){.mass = g->seat->row_sums[e], .potential = -INFINITY, .lse = -INFINITY};
        error += fabs(found[i].mass - mu[i]);
        if (!g->logs) continue;
        const double shift = (double)((const REAL *)g->seat->shift)[e];
        const double sum = ldexp((double)((const REAL *)g->seat->sum)[e], -REAL_LIFT);
        const double level = log(sum), weight = g->weighed ? log(mu[i]) : 0.0;
        found[i].lse = level + shift / at->tau;
        if (mu[i] > 0.0) found[i].potential = at->tau * (weight - level) - shift;
    }
    return error;
}

/* P as it lies in seat->heads, and what else finish_rows makes of it. */
static void WORD(lane_finish)(const WORD(lane_group) * g, const WORD(lane_head) * at, REAL *p,
                              const double *mu, const ota_row_found *found, ota_tally *tally) {
    const ota_plan *plan = g->w->plan;
    const ota_arrays *a = g->w->arrays;
    const ota_resolved *r = &plan->resolved;
    const int64_t n = r->queries, m = r->keys;
    if (g->more) {
        if (g->receiver != NULL) memset(g->receiver, 0, (size_t)m * sizeof *g->receiver);
        WORD(pack_values)(g->w, g->slot, at->batch, at->head / (r->heads / r->key_heads));
        finish_rows(g->w, g->slot, g->worker, at->batch, at->head, 0, n, p, m, found, mu, true,
                    tally, g->receiver);
        for (int64_t j = 0; j < m && g->receiver != NULL; j++)
            put(&a->receiver, at->batch, at->head, j, g->receiver[j]);
        return;
    }
    for (int64_t i = 0; i < n && g->facts; i++)
        WORD(put_row)(g->w, at->batch, at->head, i, &found[i]);
    if (!ota_array_present(&a->coupling)) return;
    ota_array to = a->coupling;
    const bool dense = to.stride[3] == 1 && to.stride[2] == m;
    if (dense) to.size[3] = n * m;
    WORD(ota_unpack_rows)(&to, at->batch, at->head, 0, dense ? 1 : n, p, m);
}

/* What the caller wants of the head in one lane. False: its plan is not as good as it has to be. */
static bool WORD(lane_leave)(const WORD(lane_group) * g, int64_t lane) {
    const WORD(lane_head) *at = &g->heads[lane];
    ota_plan *plan = g->w->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_settings *s = &r->settings;
    const ota_lanes *seat = g->seat;
    double mu[OTA_LANES_SIDE], error = 0.0;
    ota_row_found found[OTA_LANES_SIDE];
    for (int64_t j = 0; j < r->keys; j++)
        error += fabs(seat->column_sums[j * g->lanes + lane] - seat->wanted[j * g->lanes + lane]);
    const double row_error = WORD(lane_facts)(g, at, lane, mu, found);
    if (!s->fixed && !(fmax(error, row_error) <= s->tolerance * at->mass)) return false;
    ota_tally *tally = &plan->tallies[at->batch * r->heads + at->head];
    tally->result = (ota_head_result){
        .status = s->fixed ? OTA_FIXED_ITERS : OTA_OK,
        .rounds = s->fixed ? s->rounds : (int64_t)((const REAL *)seat->taken)[lane],
        .row_error = g->more ? 0.0 : row_error, /* finish_rows adds it up */
        .column_error = error / at->mass};
    tally->temperature_reached = at->tau;
    tally->solver = ota_solver_sinkhorn.name;
    tally->promoted = plan->promoted;
    tally->in_lane = true;
    WORD(lane_finish)(g, at, (REAL *)seat->heads + lane * g->stride, mu, found, tally);
    for (int64_t j = 0; j < r->keys && g->columns; j++) {
        const double v = (double)((const REAL *)seat->scaling)[j * g->lanes + lane];
        put(&g->w->arrays->column_potential, at->batch, at->head, j, at->tau * log(v));
    }
    settle_head(g->w, at->batch, at->head, at->mass);
    return true;
}

/* Reads `count` heads from `first` on into their lanes; a lane without a head meets everything at once. */
static void WORD(lane_enter)(WORD(lane_group) * g, int64_t first, int64_t count) {
    const ota_resolved *r = &g->w->plan->resolved;
    REAL *c = g->seat->c, *total = g->seat->total, *slack = g->seat->slack;
    REAL *rows = g->seat->heads;
    if (!g->weighed || count < g->lanes) WORD(lane_uniform)(g);
    for (int64_t l = 0; l < g->lanes; l++) {
        WORD(lane_head) *at = &g->heads[l];
        *at = (WORD(lane_head)){
            .batch = (first + l) / r->heads, .head = (first + l) % r->heads, .tau = 1.0};
        at->mass = (double)r->queries;
        if (l < count) {
            at->tau = ota_head_temperature(r, at->head);
            at->fit = at->tau >= RAW_LEAST && at->tau <= 1.0 / RAW_LEAST;
            WORD(lane_scores)(g, at, rows + l * g->stride);
            if (g->weighed) WORD(lane_masses)(g, at, l);
        } else {
            memset(rows + l * g->stride, 0, (size_t)g->stride * sizeof *rows);
        }
        c[l] = (REAL)(log2_e / at->tau);
        total[l] = (REAL)at->mass;
        slack[l] = (REAL)at->reach;
    }
}

/* Group `index` of the heads; `left` says which of them the lanes did not carry. */
static void WORD(run_group)(walk *w, int64_t index, int64_t seat_index, bool *left) {
    ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_arrays *a = w->arrays;
    const ota_settings *s = &r->settings;
    const int64_t lanes = KERNELS(plan)->lanes, first = index * lanes, pairs = r->queries * r->keys;
    const int64_t rest = r->batch * r->heads - first, count = rest < lanes ? rest : lanes;
    const ota_lanes *seat = &plan->seats[seat_index].lanes;
    REAL tolerance[OTA_LANES_MOST];
    WORD(lane_group)
    g = {.w = w,
         .seat = seat,
         .slot = &plan->slots[seat_index],
         .worker = &plan->workers[seat_index],
         .lanes = lanes,
         .stride = (pairs + 15) / 16 * 16,
         .weighed =
             ota_array_present(&r->problem.row_mass) || ota_array_present(&r->problem.column_mass),
         .terms = r->row_terms || r->support_count > 0,
         .logs = ota_array_present(&a->lse) || ota_array_present(&a->row_potential),
         .columns = ota_array_present(&a->column_potential)};
    g.facts = g.logs || ota_array_present(&a->sink);
    g.more = ota_array_present(&a->out) || ota_array_present(&a->receiver) ||
             ota_array_present(&a->row_entropy) || ota_array_present(&a->row_support) ||
             ota_array_present(&a->row_max);
    if (ota_array_present(&a->receiver))
        g.receiver = plan->receivers + seat_index * OTA_CHUNKS * plan->stride;
    WORD(lane_enter)(&g, first, count);
    KERNELS(plan)->lanes_in(seat->heads, g.stride, pairs, g.terms ? (REAL)1 : (REAL)r->scale,
                            seat->matrix);
    for (int64_t l = 0; l < lanes; l++) tolerance[l] = (REAL)s->tolerance;
    KERNELS(plan)->lane_rounds(&(LANES_BLOCK){.rows = r->queries,
                                              .columns = r->keys,
                                              .rounds = s->fixed || s->max_rounds < LANES_PATIENCE
                                                            ? (s->fixed ? s->rounds : s->max_rounds)
                                                            : LANES_PATIENCE,
                                              .c = seat->c,
                                              .mass = seat->mass,
                                              .target = seat->target,
                                              .tolerance = s->fixed ? NULL : tolerance,
                                              .total = seat->total,
                                              .slack = seat->slack,
                                              .matrix = seat->matrix,
                                              .shift = seat->shift,
                                              .sum = seat->sum,
                                              .scaling = seat->scaling,
                                              .next = seat->next,
                                              .row_sums = seat->row_sums,
                                              .column_sums = seat->column_sums,
                                              .taken = seat->taken});
    KERNELS(plan)->lanes_out(seat->matrix, pairs, seat->heads, g.stride);
    for (int64_t l = 0; l < count; l++) {
        const bool carried = g.heads[l].fit && ((const REAL *)seat->taken)[l] >= (REAL)0;
        left[l] = !carried || !WORD(lane_leave)(&g, l);
    }
}
