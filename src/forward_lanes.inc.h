/* Small heads one in a lane of the vectors, part of forward.inc.h: the rounds of forward_rounds.inc.h for as many
 * heads at once as the level has lanes. A group of heads is read across (element e of head l at [e * lanes + l]), the
 * kernel turns all of them, and each head leaves through the same door as any other. A head whose masses, scores or
 * scalings the lanes cannot carry is left to the rounds of its own, so a head's answer depends on nothing but itself. */

/* What one lane holds, in f64. */
typedef struct WORD(lane_head) {
    int64_t batch, head;
    double tau, mass;
    bool fit;
} WORD(lane_head);

static const double WORD(lane_mass) = sizeof(REAL) == sizeof(double) ? 0x1p128 : 0x1p16;

static bool WORD(lane_carries)(double mass) {
    return !(mass > 0.0) ? mass >= 0.0 : mass <= WORD(lane_mass) && mass * WORD(lane_mass) >= 1.0;
}

/* S of one head into lane `lane`. */
static void WORD(lane_scores)(walk *w, ota_slot *slot, ota_worker *worker, int64_t batch,
                              int64_t head, REAL *matrix, int64_t lane) {
    const ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t n = r->queries, m = r->keys, lanes = KERNELS(plan)->lanes;
    REAL *block = worker->scores;
    int64_t stride = m;
    REAL scale = (REAL)1;
    if (r->row_terms || r->support_count > 0) {
        stride = plan->stride;
        form_rows(w, slot, worker, batch, head, 0, n, block, stride);
    } else {
        pack_rows(&r->problem.scores, batch, head, 0, n, block, stride);
        scale = (REAL)r->scale;
    }
    for (int64_t i = 0; i < n; i++) {
        REAL *to = matrix + i * m * lanes + lane;
        for (int64_t j = 0; j < m; j++) to[j * lanes] = block[i * stride + j] * scale;
    }
}

/* Masses of one head into lane `lane`; exact targets are balanced to the mass of the rows. */
static void WORD(lane_masses)(const walk *w, WORD(lane_head) * at, const ota_lanes *seat,
                              int64_t lane) {
    const ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t n = r->queries, m = r->keys, lanes = KERNELS(plan)->lanes;
    REAL *mu = seat->mass, *target = seat->target;
    double rows = 0.0, columns = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double mass = ota_row_mass(r, at->batch, at->head, i);
        mu[i * lanes + lane] = (REAL)mass;
        at->fit &= WORD(lane_carries)(mass);
        rows += mass;
    }
    for (int64_t j = 0; j < m; j++) {
        const double mass = ota_column_mass(r, at->batch, at->head, j, rows / (double)m);
        seat->wanted[j * lanes + lane] = mass;
        at->fit &= WORD(lane_carries)(mass);
        columns += mass;
    }
    const double tolerated = r->type == OTA_F64 ? 1e-12 : 1e-6;
    at->fit &= rows > 0.0 && fabs(columns - rows) <= tolerated * rows;
    const double balance = r->problem.columns == OTA_COLUMNS_EXACT ? rows / columns : 1.0;
    for (int64_t j = 0; j < m; j++) {
        seat->wanted[j * lanes + lane] *= balance;
        target[j * lanes + lane] = (REAL)seat->wanted[j * lanes + lane];
    }
    at->mass = rows;
}

/* A lane without a head: one that meets everything at once. */
static void WORD(lane_rest)(const ota_plan *plan, const ota_lanes *seat, int64_t lane) {
    const int64_t n = plan->resolved.queries, m = plan->resolved.keys;
    const int64_t lanes = KERNELS(plan)->lanes;
    for (int64_t e = 0; e < n * m; e++) ((REAL *)seat->matrix)[e * lanes + lane] = (REAL)0;
    for (int64_t i = 0; i < n; i++) ((REAL *)seat->mass)[i * lanes + lane] = (REAL)1;
    for (int64_t j = 0; j < m; j++) ((REAL *)seat->target)[j * lanes + lane] = (REAL)n / (REAL)m;
    ((REAL *)seat->c)[lane] = (REAL)1;
    ((REAL *)seat->total)[lane] = (REAL)n;
}

/* What the caller wants from the plan in one lane. False: it is not as good as it has to be. */
static bool WORD(lane_leave)(walk *w, const WORD(lane_head) * at, const ota_lanes *seat,
                             int64_t seat_index, int64_t lane) {
    ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_arrays *a = w->arrays;
    const ota_settings *s = &r->settings;
    const int64_t n = r->queries, m = r->keys, lanes = KERNELS(plan)->lanes;
    const double t = at->tau;
    const REAL *p = (const REAL *)seat->matrix + lane;
    double error = 0.0, row_error = 0.0;
    for (int64_t j = 0; j < m; j++)
        error += fabs(seat->column_sums[j * lanes + lane] - seat->wanted[j * lanes + lane]);
    ota_row_found found[OTA_LANES_SIDE];
    double mu[OTA_LANES_SIDE];
    const bool logs = ota_array_present(&a->lse) || ota_array_present(&a->row_potential);
    for (int64_t i = 0; i < n; i++) {
        mu[i] = ota_row_mass(r, at->batch, at->head, i);
        found[i] = (ota_row_found){
            .mass = seat->row_sums[i * lanes + lane], .potential = -INFINITY, .lse = -INFINITY};
        row_error += fabs(found[i].mass - mu[i]);
        if (!logs) continue;
        const double shift = (double)((const REAL *)seat->shift)[i * lanes + lane];
        const double sum = ldexp((double)((const REAL *)seat->sum)[i * lanes + lane], -REAL_LIFT);
        found[i].lse = log(sum) + shift / t;
        if (mu[i] > 0.0) found[i].potential = t * log(mu[i] / sum) - shift;
    }
    if (!s->fixed && !(fmax(error, row_error) <= s->tolerance * at->mass)) return false;

    const int64_t index = at->batch * r->heads + at->head;
    ota_tally *tally = &plan->tallies[index];
    ota_worker *worker = &plan->workers[seat_index];
    ota_slot *slot = &plan->slots[seat_index];
    tally->result.rounds = s->fixed ? s->rounds : (int64_t)((const REAL *)seat->taken)[lane];
    tally->result.column_error = error / at->mass;
    tally->result.status = s->fixed ? OTA_FIXED_ITERS : OTA_OK;
    tally->temperature_reached = t;
    tally->solver = ota_solver_sinkhorn.name;
    tally->promoted = plan->promoted;
    REAL *block = worker->scores;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) block[i * m + j] = p[(i * m + j) * lanes];
    }
    double *receiver = NULL;
    if (ota_array_present(&a->receiver)) {
        receiver = plan->receivers + seat_index * OTA_CHUNKS * plan->stride;
        memset(receiver, 0, (size_t)m * sizeof *receiver);
    }
    WORD(pack_slot)(w, slot, at->batch, at->head / (r->heads / r->key_heads));
    finish_rows(w, slot, worker, at->batch, at->head, 0, n, block, m, found, mu, true, tally,
                receiver);
    for (int64_t j = 0; j < m && receiver != NULL; j++)
        put(&a->receiver, at->batch, at->head, j, receiver[j]);
    for (int64_t j = 0; j < m && ota_array_present(&a->column_potential); j++) {
        const double v = (double)((const REAL *)seat->scaling)[j * lanes + lane];
        put(&a->column_potential, at->batch, at->head, j, t * log(v));
    }
    settle_head(w, at->batch, at->head, at->mass);
    return true;
}

/* Group `group` of the heads; `left` says which of them the lanes did not carry. */
static void WORD(lane_group)(walk *w, int64_t group, int64_t seat_index, bool *left) {
    const ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_settings *s = &r->settings;
    const ota_lanes *seat = &plan->seats[seat_index].lanes;
    const int64_t lanes = KERNELS(plan)->lanes, first = group * lanes;
    const int64_t rest = r->batch * r->heads - first, count = rest < lanes ? rest : lanes;
    REAL tolerance[OTA_LANES_MOST];
    WORD(lane_head) heads[OTA_LANES_MOST];
    for (int64_t l = 0; l < lanes; l++) {
        tolerance[l] = (REAL)s->tolerance;
        if (l >= count) {
            WORD(lane_rest)(plan, seat, l);
            continue;
        }
        WORD(lane_head) *at = &heads[l];
        *at = (WORD(lane_head)){.batch = (first + l) / r->heads, .head = (first + l) % r->heads};
        at->tau = ota_head_temperature(r, at->head);
        at->fit = at->tau >= RAW_LEAST && at->tau <= 1.0 / RAW_LEAST;
        WORD(lane_scores)
        (w, &plan->slots[seat_index], &plan->workers[seat_index], at->batch, at->head, seat->matrix,
         l);
        WORD(lane_masses)(w, at, seat, l);
        ((REAL *)seat->c)[l] = (REAL)(log2_e / at->tau);
        ((REAL *)seat->total)[l] = (REAL)at->mass;
    }
    KERNELS(plan)->lane_rounds(&(LANES_BLOCK){.rows = r->queries,
                                              .columns = r->keys,
                                              .rounds = s->fixed ? s->rounds
                                                        : s->max_rounds < LANES_PATIENCE
                                                            ? s->max_rounds
                                                            : LANES_PATIENCE,
                                              .c = seat->c,
                                              .mass = seat->mass,
                                              .target = seat->target,
                                              .tolerance = s->fixed ? NULL : tolerance,
                                              .total = seat->total,
                                              .matrix = seat->matrix,
                                              .shift = seat->shift,
                                              .sum = seat->sum,
                                              .scaling = seat->scaling,
                                              .next = seat->next,
                                              .row_sums = seat->row_sums,
                                              .column_sums = seat->column_sums,
                                              .taken = seat->taken});
    for (int64_t l = 0; l < count; l++) {
        left[l] = !heads[l].fit || ((const REAL *)seat->taken)[l] < (REAL)0 ||
                  !WORD(lane_leave)(w, &heads[l], seat, seat_index, l);
    }
}
