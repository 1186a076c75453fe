/* `otattn bench --random N`: N random problems in f64 over every method, mask and mass, temperature
 * from 1e-6 to 1e6 of the score range, sizes 1 to 64 and once in 50,000 problems 512; every answer
 * judged in double precision. Problem number k is a function of (seed, k) alone, so one that went
 * wrong is repeated by --random 1 --first k with the same seed.
 *
 * A wrong ok is a status ok whose judged plan is not finite, not positive, not on its support, has a
 * residual above the tolerance (plus the rounding of the judge), or, where the problem is convex, a
 * duality gap that the residual cannot explain. A wrong infeasible is a refusal of a problem that was
 * built to have a plan. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { SMALL = 64, LARGE = 512, LARGE_EVERY = 50000, MOST_SHOWN = 20, DECADES = 13, STATUSES = 32 };

static const double default_tolerance = 1e-9;

/* ---- what is drawn ---- */

typedef struct cell_row {
    const char *method;
    int parameters;     /* numbers drawn after the colon: 0, 1 (a strength), 2 (a cap), 3 (elastic) */
    bool relaxed_rows;
    bool promises;      /* can answer ok */
    bool masses;        /* takes column masses */
} cell_row;

static const cell_row cells[] = {
    {"softmax", 0, false, true, false},
    {"softmax/exact", 0, false, true, true},
    {"softmax/relaxed", 1, false, true, true},
    {"softmax/relaxed", 1, true, true, true},
    {"softmax/capped", 2, false, true, true},
    {"softmax/elastic", 3, false, false, true},
    {"softmax/prefix", 0, false, true, false},
    {"softmax/online", 2, false, true, true},
    {"entmax", 0, false, true, false},
    {"entmax/exact", 0, false, true, true},
    {"entmax/relaxed", 1, false, true, true},
    {"entmax/capped", 2, false, true, true},
    {"entmax/prefix", 0, false, true, false},
    {"entmax/online", 2, false, true, true},
    {"hard", 0, false, true, false},
    {"hard/exact", 0, false, true, true},
    {"hard/capped", 2, false, true, true},
    {"hard/prefix", 0, false, true, false},
    {"hard/online", 2, false, true, true},
};
enum { CELLS = (int)(sizeof cells / sizeof cells[0]) };

/* How a mask is known to be. */
typedef enum mask_kind {
    MASK_NONE, /* every pair: total support */
    MASK_TOTAL, /* a union of permutations (n = m): total support for unit masses */
    MASK_CAUSAL,
    MASK_WINDOW,
    MASK_STRIDED,
    MASK_BLOCK,
    MASK_RANDOM,
    MASK_ADDITIVE,
    MASKS
} mask_kind;

static const char *const mask_names[MASKS] = {"none",    "permutations", "causal", "window",
                                              "strided", "block",        "random", "additive"};

typedef struct draw {
    int64_t index, n, m;
    int cell;
    int decade;               /* floor(log10(temperature / range)) + 6, in [0, DECADES) */
    double ratio, range, tau; /* ratio = tau / range */
    bool counted;             /* a plan exists by construction and is a limit of positive weights */
    bool feasible;            /* a plan exists by construction */
    ota_problem problem;
    ota_options options;
    ota_term terms[2];
    ota_support supports[2];
    double *scores, *bias, *row_mass, *column_mass, *additive;
    unsigned char *mask;
    mask_kind mask_drawn;
    char method[96];
} draw;

/* Memory of one worker, for the largest problem. */
typedef struct scratch {
    double scores[LARGE * LARGE], coupling[LARGE * LARGE], additive[LARGE * LARGE];
    double row_mass[LARGE], column_mass[LARGE], bias[LARGE];
    double row_potential[LARGE], column_potential[LARGE];
    unsigned char mask[LARGE * LARGE];
} scratch;

static void draw_scores(draw *d, uint64_t *state) {
    const int64_t kind = tool_random_below(state, 6);
    double left[SMALL + LARGE], right[SMALL + LARGE];
    for (int64_t i = 0; i < d->n; i++) left[i] = tool_random_normal(state);
    for (int64_t j = 0; j < d->m; j++) right[j] = tool_random_normal(state);
    double least = HUGE_VAL, most = -HUGE_VAL;
    for (int64_t i = 0; i < d->n; i++) {
        for (int64_t j = 0; j < d->m; j++) {
            double s;
            switch (kind) {
            case 0: s = tool_random_normal(state); break;
            case 1: s = tool_random_uniform(state); break;
            case 2: s = left[i] * right[j]; break;                            /* rank 1 */
            case 3: s = (double)tool_random_below(state, 4); break;           /* many ties */
            case 4: s = -fabs(left[i] - right[j]); break;                     /* a distance */
            default: s = right[j] + 0.1 * tool_random_normal(state); break;   /* one key wanted by all */
            }
            d->scores[i * d->m + j] = s;
            least = fmin(least, s);
            most = fmax(most, s);
        }
    }
    d->range = most - least > 0.0 ? most - least : 1.0;
    /* Scores of any magnitude: only range / tau may matter. */
    const double unit = pow(10.0, 6.0 * tool_random_uniform(state) - 3.0) / d->range;
    for (int64_t k = 0; k < d->n * d->m; k++) d->scores[k] *= unit;
    d->range *= unit;
}

static void set_permutations(draw *d, uint64_t *state) {
    int64_t order[LARGE];
    memset(d->mask, 0, (size_t)(d->n * d->m));
    const int64_t count = 1 + tool_random_below(state, 4);
    for (int64_t p = 0; p < count; p++) {
        for (int64_t i = 0; i < d->n; i++) order[i] = i;
        for (int64_t i = d->n - 1; i > 0; i--) {
            const int64_t other = tool_random_below(state, i + 1), held = order[i];
            order[i] = order[other];
            order[other] = held;
        }
        for (int64_t i = 0; i < d->n; i++) d->mask[i * d->m + order[i]] = 1;
    }
}

static ota_support *add_support(draw *d, ota_support_kind kind) {
    ota_support *support = &d->supports[d->problem.support_count++];
    *support = (ota_support){.kind = kind};
    return support;
}

static mask_kind draw_support(draw *d, uint64_t *state) {
    mask_kind kind = tool_random_below(state, 2) == 0 ? MASK_NONE : (mask_kind)tool_random_below(state, MASKS);
    if (kind == MASK_TOTAL && d->n != d->m) kind = MASK_RANDOM;
    if (d->problem.columns == OTA_COLUMNS_PREFIX && kind == MASK_CAUSAL) kind = MASK_NONE;
    d->problem.corner = tool_random_below(state, 2) == 0 ? OTA_TOP_LEFT : OTA_BOTTOM_RIGHT;
    const ota_array bytes = ota_array_of(d->mask, OTA_BOOL, 1, 1, d->n, d->m);
    switch (kind) {
    case MASK_TOTAL:
        set_permutations(d, state);
        add_support(d, OTA_SUPPORT_BOOLEAN)->array = bytes;
        break;
    case MASK_CAUSAL: (void)add_support(d, OTA_SUPPORT_CAUSAL); break;
    case MASK_WINDOW: {
        ota_support *support = add_support(d, OTA_SUPPORT_WINDOW);
        support->left = tool_random_below(state, 9) - 1;
        support->right = tool_random_below(state, 9) - 1;
        break;
    }
    case MASK_STRIDED: add_support(d, OTA_SUPPORT_STRIDED)->left = 1 + tool_random_below(state, 4); break;
    case MASK_BLOCK: add_support(d, OTA_SUPPORT_BLOCK)->left = 1 + tool_random_below(state, 16); break;
    case MASK_RANDOM: {
        const double density = 0.2 + 0.8 * tool_random_uniform(state);
        for (int64_t k = 0; k < d->n * d->m; k++) d->mask[k] = tool_random_uniform(state) < density;
        add_support(d, OTA_SUPPORT_BOOLEAN)->array = bytes;
        break;
    }
    case MASK_ADDITIVE:
        for (int64_t k = 0; k < d->n * d->m; k++) {
            d->additive[k] = tool_random_uniform(state) < 0.3 ? -HUGE_VAL : 0.0;
        }
        add_support(d, OTA_SUPPORT_ADDITIVE)->array = ota_array_of(d->additive, OTA_F64, 1, 1, d->n, d->m);
        break;
    default: break;
    }
    return kind;
}

static double draw_masses(uint64_t *state, double *mass, int64_t count, bool zeros) {
    double total = 0.0;
    for (int64_t k = 0; k < count; k++) {
        mass[k] = exp(tool_random_normal(state));
        if (zeros && k > 0 && tool_random_below(state, 8) == 0) mass[k] = 0.0;
        total += mass[k];
    }
    return total;
}

/* Returns the total row mass; sets *unit when all masses are the default ones. */
static double draw_problem_masses(draw *d, const cell_row *cell, uint64_t *state, bool *unit) {
    ota_problem *p = &d->problem;
    double total = (double)d->n;
    *unit = true;
    if (tool_random_below(state, 4) == 0 && p->columns != OTA_COLUMNS_PREFIX) {
        total = draw_masses(state, d->row_mass, d->n, tool_random_below(state, 4) == 0);
        p->row_mass = ota_array_of(d->row_mass, OTA_F64, 1, 1, 1, d->n);
        *unit = false;
    }
    if (cell->masses && tool_random_below(state, 4) == 0) {
        const double columns = draw_masses(state, d->column_mass, d->m, tool_random_below(state, 4) == 0);
        /* Equal totals for exact and its kin; factors near 1 for caps. */
        const double goal = cell->parameters == 2 ? (double)d->m : total;
        for (int64_t j = 0; j < d->m; j++) d->column_mass[j] *= goal / columns;
        p->column_mass = ota_array_of(d->column_mass, OTA_F64, 1, 1, 1, d->m);
        *unit = false;
    }
    return total;
}

static void draw_method(draw *d, const cell_row *cell, double total, uint64_t *state) {
    ota_problem *p = &d->problem;
    const double spread = pow(10.0, 4.0 * tool_random_uniform(state) - 2.0);
    char order[40] = "";
    if (strncmp(cell->method, "entmax", 6) == 0) {
        static const double orders[] = {1.5, 2.0, 1.25, 3.0};
        (void)snprintf(order, sizeof order, ":%g", orders[tool_random_below(state, 4)]);
    }
    const size_t regulariser = strcspn(cell->method, "/");
    char tail[64] = "";
    /* At least 5 % more capacity than mass, so that a full support has a plan. */
    const double cap = total / (double)d->m * (1.05 + 3.0 * tool_random_uniform(state));
    if (cell->parameters == 1) (void)snprintf(tail, sizeof tail, ":%.17g", spread * d->range);
    if (cell->parameters == 2) (void)snprintf(tail, sizeof tail, ":%.17g", cap);
    if (cell->parameters == 3) {
        (void)snprintf(tail, sizeof tail, ":%.3f,%d", 1.9 * tool_random_uniform(state),
                       (int)tool_random_below(state, 12));
    }
    (void)snprintf(d->method, sizeof d->method, "%.*s%s%s%s", (int)regulariser, cell->method, order,
                   cell->method + regulariser, tail);
    (void)ota_method_parse(d->method, p, NULL, NULL);
    if (cell->relaxed_rows) {
        p->rows = OTA_ROWS_RELAXED;
        p->row_strength = pow(10.0, 4.0 * tool_random_uniform(state) - 2.0) * d->range;
    }
}

static void draw_problem(draw *d, scratch *s, uint64_t seed, int64_t index, const int *cancel) {
    memset(d, 0, sizeof *d);
    uint64_t state = seed * UINT64_C(0x2545f4914f6cdd1d) + (uint64_t)index * UINT64_C(0x9e3779b97f4a7c15);
    (void)tool_random_bits(&state);
    d->index = index;
    d->scores = s->scores;
    d->bias = s->bias;
    d->row_mass = s->row_mass;
    d->column_mass = s->column_mass;
    d->additive = s->additive;
    d->mask = s->mask;
    d->cell = (int)tool_random_below(&state, CELLS);
    const cell_row *cell = &cells[d->cell];
    const bool large = index % LARGE_EVERY == LARGE_EVERY - 1;
    const bool square = tool_random_below(&state, 2) == 0;
    d->n = large ? LARGE : 1 + tool_random_below(&state, SMALL);
    d->m = large || square ? d->n : 1 + tool_random_below(&state, SMALL);
    if (strstr(cell->method, "prefix") != NULL && d->n > d->m) d->n = d->m;
    ota_problem *p = &d->problem;
    p->size = sizeof *p;
    p->scores = ota_array_of(d->scores, OTA_F64, 1, 1, d->n, d->m);
    p->supports = d->supports;
    p->terms = d->terms;
    d->options = (ota_options){.size = sizeof d->options, .threads = 1, .cancel = cancel};
    draw_scores(d, &state);
    (void)ota_method_parse(strstr(cell->method, "prefix") != NULL ? "prefix" : "softmax", p, NULL, NULL);
    bool unit;
    const double total = draw_problem_masses(d, cell, &state, &unit);
    draw_method(d, cell, total, &state);
    const mask_kind mask = d->mask_drawn = draw_support(d, &state);
    bool plain = true;
    /* Exact columns take a sink only with masses that leave it a share. */
    const bool sinks = p->columns != OTA_COLUMNS_EXACT && p->columns != OTA_COLUMNS_PREFIX;
    if (tool_random_below(&state, 8) == 0 && sinks) {
        d->terms[p->term_count++] = (ota_term){.kind = OTA_TERM_SINK, .value = tool_random_normal(&state) * d->range};
        plain = false;
    }
    if (tool_random_below(&state, 8) == 0) {
        for (int64_t j = 0; j < d->m; j++) d->bias[j] = 0.1 * d->range * tool_random_normal(&state);
        d->terms[p->term_count++] =
            (ota_term){.kind = OTA_TERM_DENSE, .array = ota_array_of(d->bias, OTA_F64, 1, 1, 1, d->m)};
    }
    d->ratio = pow(10.0, 12.0 * tool_random_uniform(&state) - 6.0);
    d->tau = d->ratio * d->range;
    p->temperature = d->tau;
    d->decade = (int)floor(log10(d->ratio)) + 6;
    if (d->decade < 0) d->decade = 0;
    if (d->decade >= DECADES) d->decade = DECADES - 1;
    const bool free_columns = p->columns == OTA_COLUMNS_FREE || p->columns == OTA_COLUMNS_RELAXED;
    d->feasible = mask == MASK_NONE || (mask == MASK_TOTAL && unit && p->columns == OTA_COLUMNS_EXACT) ||
                  p->columns == OTA_COLUMNS_FREE;
    /* A full column of capacity may be used up before its last row: not a plan for every order. */
    if (p->columns == OTA_COLUMNS_ONLINE || p->columns == OTA_COLUMNS_PREFIX) d->feasible = mask == MASK_NONE;
    d->counted = d->feasible && cell->promises && d->ratio >= 1e-3 && (plain || free_columns);
}

/* ---- judging ---- */

typedef enum verdict { RIGHT, WRONG_OK, WRONG_INFEASIBLE, NUMBER_OF_VERDICTS } verdict;

typedef struct answer {
    ota_status status;
    ota_certificate certificate;
    double seconds;
    verdict verdict;
    char reason[160];
} answer;

static double largest(const double *numbers, int64_t count) {
    double most = 0.0;
    for (int64_t k = 0; k < count; k++) {
        if (isfinite(numbers[k])) most = fmax(most, fabs(numbers[k]));
    }
    return most;
}

/* Why an ok is wrong, or NULL. */
static const char *why_wrong(const draw *d, const scratch *s, const ota_certificate *c) {
    const double u = 0x1p-53;
    /* The judge forms exp((S + f + g) / tau) anew: its own rounding (numeric policy 3.5). */
    const double rounding = 8.0 * u + u * d->range / (4.0 * d->tau);
    const double allowed = default_tolerance + 4.0 * rounding;
    const ota_column_rule columns = d->problem.columns;
    if (c->nonfinite_rows > 0) return "nonfinite rows";
    if (!(c->row_error <= allowed)) return "row error";
    const bool bound = columns == OTA_COLUMNS_EXACT || columns == OTA_COLUMNS_CAPPED ||
                       columns == OTA_COLUMNS_ONLINE || columns == OTA_COLUMNS_RELAXED;
    if (bound && !(c->column_error <= allowed)) return "column error";
    if (!(c->minimum >= 0.0)) return "negative weight";
    if (!(c->outside <= 0.0)) return "weight outside the support";
    if (!isfinite(c->gap) || columns == OTA_COLUMNS_PREFIX || columns == OTA_COLUMNS_ONLINE) return NULL;
    /* A residual r moves primal - dual by at most r times the largest potential. */
    const double levels = largest(s->row_potential, d->n) + largest(s->column_potential, d->m) + d->range +
                          (d->problem.regulariser == OTA_HARD ? 0.0 : d->tau);
    double mass = 0.0;
    for (int64_t i = 0; i < d->n; i++) mass += d->problem.row_mass.type != OTA_NO_TYPE ? d->row_mass[i] : 1.0;
    if (!(fabs(c->gap) <= 4.0 * allowed * mass * levels)) return "duality gap";
    return NULL;
}

static void solve_and_judge(const draw *d, scratch *s, answer *a) {
    const ota_problem *p = &d->problem;
    ota_arrays arrays = {.size = sizeof arrays,
                         .row_potential = ota_array_of(s->row_potential, OTA_F64, 1, 1, 1, d->n),
                         .column_potential = ota_array_of(s->column_potential, OTA_F64, 1, 1, 1, d->m)};
    if (!tool_potentials_tell(p)) {
        arrays.coupling = ota_array_of(s->coupling, OTA_F64, 1, 1, d->n, d->m);
    }
    ota_result result = {.size = sizeof result};
    ota_error error = {.message = ""};
    memset(a, 0, sizeof *a);
    const int64_t begun = tool_now_ns();
    a->status = ota_attend(p, &d->options, &arrays, &result, &error);
    a->seconds = (double)(tool_now_ns() - begun) / 1e9;
    if (a->status == OTA_INFEASIBLE && d->feasible) {
        a->verdict = WRONG_INFEASIBLE;
        (void)snprintf(a->reason, sizeof a->reason, "%.150s", error.message);
    }
    if (a->status < OTA_OK) return;
    a->certificate.size = sizeof a->certificate;
    if (ota_certify(p, &d->options, &arrays, &a->certificate, NULL, &error) < OTA_OK) {
        a->verdict = WRONG_OK;
        (void)snprintf(a->reason, sizeof a->reason, "the judge refuses: %.120s", error.message);
        return;
    }
    const char *why = a->status == OTA_OK ? why_wrong(d, s, &a->certificate) : NULL;
    if (why == NULL) return;
    a->verdict = WRONG_OK;
    (void)snprintf(a->reason, sizeof a->reason, "%s", why);
}

/* ---- counting ---- */

typedef struct tally {
    int64_t problems, counted, counted_ok;
    double seconds;
    int64_t statuses[STATUSES]; /* row of status_list */
} tally;

/* Every status that can come back, in the order of the report. */
static const ota_status status_list[] = {
    OTA_OK,         OTA_FIXED_ITERS,     OTA_NOT_CONVERGED, OTA_INFEASIBLE, OTA_TOL_UNREACHABLE,
    OTA_NONFINITE,  OTA_NONFINITE_ROWS,  OTA_PARTIAL,       OTA_EINVAL,     OTA_UNSUPPORTED,
    OTA_EOVERFLOW,  OTA_ENOMEM,          OTA_EINTERNAL,     OTA_CANCELLED,
};
enum { LISTED = (int)(sizeof status_list / sizeof status_list[0]) };

typedef struct campaign {
    uint64_t seed;
    int64_t first, count;
    const int *cancel;
    tool_progress progress;
    int64_t next, finished; /* under the lock, like everything below */
    pthread_mutex_t lock;
    tally all, decades[DECADES], by_cell[CELLS];
    int64_t verdicts[NUMBER_OF_VERDICTS];
    json_t *shown;
    bool memory;            /* a worker had none */
} campaign;

static void count_one(tally *t, const draw *d, double seconds, int row) {
    t->problems++;
    t->seconds += seconds;
    t->statuses[row]++;
    if (!d->counted) return;
    t->counted++;
    if (row == 0) t->counted_ok++;
}

static bool has_sink(const ota_problem *problem) {
    return problem->term_count > 0 && problem->terms[0].kind == OTA_TERM_SINK;
}

static void record(campaign *c, const draw *d, const answer *a) {
    int row = LISTED;
    for (int k = 0; k < LISTED; k++) {
        if (status_list[k] == a->status) row = k;
    }
    count_one(&c->all, d, a->seconds, row);
    count_one(&c->decades[d->decade], d, a->seconds, row);
    count_one(&c->by_cell[d->cell], d, a->seconds, row);
    c->verdicts[a->verdict]++;
    if (a->verdict == RIGHT || json_array_size(c->shown) >= MOST_SHOWN) return;
    json_t *object = json_object();
    (void)json_object_set_new(object, "index", json_integer(d->index));
    (void)json_object_set_new(object, "verdict",
                              json_string(a->verdict == WRONG_OK ? "wrong_ok" : "wrong_infeasible"));
    (void)json_object_set_new(object, "reason", json_string(a->reason));
    (void)json_object_set_new(object, "method", json_string(d->method));
    (void)json_object_set_new(object, "queries", json_integer(d->n));
    (void)json_object_set_new(object, "keys", json_integer(d->m));
    (void)json_object_set_new(object, "temperature_over_range", tool_json_real(d->ratio));
    (void)json_object_set_new(object, "mask", json_string(mask_names[d->mask_drawn]));
    (void)json_object_set_new(object, "sink", json_boolean(has_sink(&d->problem)));
    (void)json_object_set_new(object, "row_mass", json_boolean(d->problem.row_mass.type != OTA_NO_TYPE));
    (void)json_object_set_new(object, "column_mass", json_boolean(d->problem.column_mass.type != OTA_NO_TYPE));
    (void)json_object_set_new(object, "certificate", tool_certificate_json(&a->certificate));
    (void)json_array_append_new(c->shown, object);
}

static void *work(void *user) {
    campaign *c = user;
    scratch *s = malloc(sizeof *s);
    for (;;) {
        (void)pthread_mutex_lock(&c->lock);
        if (s == NULL) c->memory = true;
        const int64_t index = c->next;
        const bool stop = s == NULL || index >= c->first + c->count || *c->cancel != 0;
        if (!stop) c->next++;
        (void)pthread_mutex_unlock(&c->lock);
        if (stop) break;
        draw d;
        answer a;
        draw_problem(&d, s, c->seed, index, c->cancel);
        solve_and_judge(&d, s, &a);
        (void)pthread_mutex_lock(&c->lock);
        if (a.status != OTA_CANCELLED) {
            record(c, &d, &a);
            c->finished++;
        }
        tool_progress_update(&c->progress, (double)c->finished, (double)c->count, "problems");
        (void)pthread_mutex_unlock(&c->lock);
    }
    free(s);
    return NULL;
}

/* ---- report ---- */

static json_t *tally_json(const tally *t) {
    json_t *object = json_object(), *statuses = json_object();
    (void)json_object_set_new(object, "problems", json_integer(t->problems));
    for (int k = 0; k <= LISTED; k++) {
        if (t->statuses[k] == 0) continue;
        const char *word = k < LISTED ? ota_status_word(status_list[k]) : "other";
        (void)json_object_set_new(statuses, word, json_integer(t->statuses[k]));
    }
    (void)json_object_set_new(object, "statuses", statuses);
    (void)json_object_set_new(object, "seconds", tool_json_real(t->seconds));
    (void)json_object_set_new(object, "counted", json_integer(t->counted));
    (void)json_object_set_new(object, "counted_ok", json_integer(t->counted_ok));
    (void)json_object_set_new(object, "share_ok",
                              tool_json_real((double)t->counted_ok / (double)t->counted));
    return object;
}

static json_t *campaign_json(const campaign *c, double seconds, bool interrupted) {
    json_t *object = json_object(), *decades = json_array(), *by_cell = json_array();
    const bool wrong = c->verdicts[WRONG_OK] + c->verdicts[WRONG_INFEASIBLE] > 0;
    const char *word = wrong ? "wrong" : ota_status_word(interrupted ? OTA_CANCELLED : OTA_OK);
    (void)json_object_set_new(object, "command", json_string("bench"));
    (void)json_object_set_new(object, "version", json_string(ota_version()));
    (void)json_object_set_new(object, "status", json_string(word));
    (void)json_object_set_new(object, "random", json_integer(c->count));
    (void)json_object_set_new(object, "first", json_integer(c->first));
    (void)json_object_set_new(object, "seed", json_integer((json_int_t)c->seed));
    (void)json_object_set_new(object, "seconds", tool_json_real(seconds));
    (void)json_object_set_new(object, "wrong_ok", json_integer(c->verdicts[WRONG_OK]));
    (void)json_object_set_new(object, "wrong_infeasible", json_integer(c->verdicts[WRONG_INFEASIBLE]));
    (void)json_object_set(object, "wrong", c->shown);
    (void)json_object_set_new(object, "all", tally_json(&c->all));
    for (int k = 0; k < DECADES; k++) {
        if (c->decades[k].problems == 0) continue;
        json_t *row = tally_json(&c->decades[k]);
        (void)json_object_set_new(row, "decade", json_integer(k - 6));
        (void)json_array_append_new(decades, row);
    }
    for (int k = 0; k < CELLS; k++) {
        if (c->by_cell[k].problems == 0) continue;
        json_t *row = tally_json(&c->by_cell[k]);
        char name[80];
        (void)snprintf(name, sizeof name, "%s%s", cells[k].method,
                       cells[k].relaxed_rows ? ", relaxed rows" : "");
        (void)json_object_set_new(row, "method", json_string(name));
        (void)json_array_append_new(by_cell, row);
    }
    (void)json_object_set_new(object, "decades", decades);
    (void)json_object_set_new(object, "methods", by_cell);
    return object;
}

static void print_tally(const char *name, const json_t *row) {
    static const char *const columns[] = {"ok", "fixed_iters", "not_converged", "infeasible",
                                          "tolerance_unreachable"};
    const json_t *statuses = json_object_get(row, "statuses");
    json_int_t rest = json_integer_value(json_object_get(row, "problems"));
    (void)printf("%-30s %9lld", name, (long long)rest);
    for (int k = 0; k < 5; k++) {
        const json_int_t count = json_integer_value(json_object_get(statuses, columns[k]));
        rest -= count;
        (void)printf(" %9lld", (long long)count);
    }
    (void)printf(" %9lld %9.4g", (long long)rest, json_number_value(json_object_get(row, "seconds")));
    const json_t *share = json_object_get(row, "share_ok");
    if (json_is_real(share)) {
        (void)printf("  %8.4f%% of %lld\n", 100.0 * json_real_value(share),
                     (long long)json_integer_value(json_object_get(row, "counted")));
    } else {
        (void)putchar('\n');
    }
}

static void print_campaign(const json_t *object) {
    (void)printf("%-30s %9s %9s %9s %9s %9s %9s %9s %9s  %s\n", "temperature / range", "problems", "ok", "fixed",
                 "not conv.", "infeas.", "unreach.", "other", "seconds", "ok where a plan exists and T/range >= 1e-3");
    for (int part = 0; part < 2; part++) {
        const json_t *rows = json_object_get(object, part == 0 ? "decades" : "methods");
        for (size_t k = 0; k < json_array_size(rows); k++) {
            const json_t *row = json_array_get(rows, k);
            char name[80];
            const int decade = (int)json_integer_value(json_object_get(row, "decade"));
            if (part == 0) (void)snprintf(name, sizeof name, "1e%d to 1e%d", decade, decade + 1);
            else (void)snprintf(name, sizeof name, "%s", json_string_value(json_object_get(row, "method")));
            print_tally(name, row);
        }
        (void)putchar('\n');
    }
    print_tally("all", json_object_get(object, "all"));
    const json_t *wrong = json_object_get(object, "wrong");
    for (size_t k = 0; k < json_array_size(wrong); k++) {
        const json_t *row = json_array_get(wrong, k);
        (void)printf("%s: problem %lld, %s, %lld x %lld, T/range %.3g: %s\n",
                     json_string_value(json_object_get(row, "verdict")),
                     (long long)json_integer_value(json_object_get(row, "index")),
                     json_string_value(json_object_get(row, "method")),
                     (long long)json_integer_value(json_object_get(row, "queries")),
                     (long long)json_integer_value(json_object_get(row, "keys")),
                     json_number_value(json_object_get(row, "temperature_over_range")),
                     json_string_value(json_object_get(row, "reason")));
    }
    (void)printf("\nwrong ok: %lld    wrong infeasible: %lld    %.3g s\n",
                 (long long)json_integer_value(json_object_get(object, "wrong_ok")),
                 (long long)json_integer_value(json_object_get(object, "wrong_infeasible")),
                 json_number_value(json_object_get(object, "seconds")));
}

int tool_bench_random(tool_context *context) {
    const tool_settings *settings = &context->settings;
    enum { MOST_WORKERS = 256 };
    campaign *c = calloc(1, sizeof *c);
    if (c == NULL) return tool_fail(&context->error, TOOL_EXIT_LIMIT, "there is no memory left");
    c->seed = settings->seed.given ? (uint64_t)settings->seed.value : 1;
    c->first = c->next = settings->first.value;
    c->count = settings->random.value;
    c->cancel = context->cancel;
    c->shown = json_array();
    (void)pthread_mutex_init(&c->lock, NULL);
    tool_progress_begin(&c->progress, "bench");
    pthread_t workers[MOST_WORKERS];
    int running = 0;
    const int64_t wanted = settings->threads.given ? settings->threads.value : 2;
    const int64_t begun = tool_now_ns();
    for (int64_t k = 1; k < wanted && k < MOST_WORKERS; k++) {
        if (pthread_create(&workers[running], NULL, work, c) == 0) running++;
    }
    (void)work(c);
    for (int k = 0; k < running; k++) (void)pthread_join(workers[k], NULL);
    tool_progress_end(&c->progress);
    const double seconds = (double)(tool_now_ns() - begun) / 1e9;
    int code = c->memory ? tool_fail(&context->error, TOOL_EXIT_LIMIT, "there is no memory left") : 0;
    if (code == 0) {
        context->interrupted = c->finished < c->count;
        json_t *object = campaign_json(c, seconds, context->interrupted);
        const int64_t wrong = c->verdicts[WRONG_OK] + c->verdicts[WRONG_INFEASIBLE];
        if (wrong > 0) {
            context->status = "wrong";
            (void)snprintf(context->error.field, sizeof context->error.field, "random");
            code = tool_fail(&context->error, TOOL_EXIT_NUMERIC,
                             "%" PRId64 " of %" PRId64 " answers are wrong", wrong, c->finished);
        }
        if (!settings->json) print_campaign(object);
        if (settings->json && code == 0) code = tool_print_json(stdout, json_incref(object));
        else if (settings->json) context->failure = json_incref(object);
        json_decref(object);
    }
    json_decref(c->shown);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
    return code;
}
