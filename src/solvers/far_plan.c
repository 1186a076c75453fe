/* Plans without entropy of scores that lie far apart, whose potentials say which pairs carry mass that has no other place
 * (far_scores.c): by shortest augmenting paths and, without entry caps, the transportation simplex.
 *
 * Rows on many processes: every process gathers the scores of all rows, solves the same problem and keeps its own rows'
 * potentials. */
#include "coupled.h"

#include "matching/combinatorial.h"

/* The rows of all processes. */
typedef struct whole {
    int64_t rows, columns;
    bool capped, floor;
    int ranks;         /* 1: this one alone, whose own arrays do */
    bool caps_of_rows; /* caps are an array */
} whole;

typedef struct memory {
    double *scores, *caps; /* [rows][columns] of all processes */
    double *mu, *f;        /* [rows] of all processes */
    double *counts;        /* [ranks] rows of each */
    void *search;
} memory;

static void lay_out(memory *m, ota_arena *arena, const whole *of) {
    size_t pairs = 0;
    const size_t rows = (size_t)of->rows, number = sizeof(double);
    if (!ota_size_mul(rows, (size_t)of->columns, &pairs)) arena->overflowed = true;
    if (of->ranks > 1) {
        m->scores = ota_arena_take(arena, pairs, number);
        if (of->caps_of_rows) m->caps = ota_arena_take(arena, pairs, number);
        m->mu = ota_arena_take(arena, rows, number);
        m->f = ota_arena_take(arena, rows, number);
        m->counts = ota_arena_take(arena, (size_t)of->ranks, number);
    }
    const size_t search = ota_transport_workspace(of->rows, of->columns,
                                                  ota_transport_kind_of(of->capped, of->floor));
    if (search == SIZE_MAX)
        arena->overflowed = true;
    else
        m->search = ota_arena_take(arena, search, 1);
}

static const char *cannot(const ota_settings *s, const ota_column_rule_row *rule,
                          const ota_regulariser_row *regulariser) {
    if (s->stop.fixed || !ota_is_smooth(regulariser)) return "rounds are counted";
    return ota_rule_is(rule, OTA_RULE_CONSTRAINED) ? NULL : "these columns force no mass anywhere";
}

static bool fits(int64_t rows, int64_t columns, bool numbers_added) {
    size_t pairs = 0;
    return ota_size_mul((size_t)rows, (size_t)columns, &pairs) &&
           (numbers_added || pairs <= OTA_PAIRS_LIMIT);
}

/* Leading blocks of prefix columns are fewer than all. */
static int64_t rows_of(const ota_head *head) {
    return head->settings->ranks != NULL ? head->all_rows : head->rows;
}

const char *ota_far_plan_cannot(const ota_head *head) {
    if (head->scores.far.scores == NULL) return "the scores are stored nowhere";
    if (head->row.strength < INFINITY) return "relaxed rows force no mass anywhere";
    const char *why = cannot(head->settings, ota_head_rule(head), head->row.regulariser);
    if (why != NULL) return why;
    const bool shared = head->settings->ranks != NULL;
    if (fits(rows_of(head), head->columns, head->scores.numbers_added && !shared)) return NULL;
    return shared ? "above 2^22 pairs the scores of all processes are not gathered for it"
                  : "above 2^22 pairs such numbers have to come as an additive mask or a bias of "
                    "pairs";
}

static int ranks_of(const ota_settings *s) { return s->ranks != NULL ? s->ranks->to.ranks : 1; }

size_t ota_far_scores_bytes(const ota_head_shape *shape, ota_column_rule columns) {
    const ota_resolved *r = shape->resolved;
    const ota_column_rule_row *rule = ota_column_rule_of(columns);
    const ota_regulariser_row *regulariser = ota_regulariser_of(&r->problem);
    const whole of = {.rows = r->settings.ranks != NULL ? r->share.rows : shape->rows,
                      .columns = shape->columns,
                      .capped = regulariser->capped,
                      .floor = ota_column_parameters_of(&r->problem).floor > 0.0,
                      .ranks = ranks_of(&r->settings),
                      .caps_of_rows = ota_array_present(&r->problem.entry_caps)};
    memory m = {0};
    ota_arena arena = {0};
    if (cannot(&r->settings, rule, regulariser) != NULL || r->problem.rows == OTA_ROWS_RELAXED ||
        shape->backend->semidual != NULL ||
        !fits(of.rows, of.columns, r->adds_pairs && of.ranks == 1))
        return 0;
    lay_out(&m, &arena, &of);
    return ota_arena_overflowed(&arena) ? SIZE_MAX : arena.used;
}

/* What this process has, among that of all; *first: its first row. */
static bool gather(const ota_head *head, const memory *m, const whole *of, int64_t *first) {
    const ota_settings *s = head->settings;
    const int64_t columns = of->columns;
    for (int k = 0; k < of->ranks; k++)
        m->counts[k] = k == s->ranks->to.rank ? (double)head->rows : 0.0;
    if (!ota_ranks_sum(s, m->counts, of->ranks, NULL, 0, "the rows of each")) return false;
    *first = 0;
    for (int k = 0; k < s->ranks->to.rank; k++) *first += (int64_t)m->counts[k];
    for (int64_t i = 0; i < of->rows; i++) {
        const bool mine = i >= *first && i < *first + head->rows;
        m->mu[i] = mine ? head->mu[i - *first] : 0.0;
        for (int64_t j = 0; j < columns; j++) {
            const int64_t at = (i - *first) * head->scores.stride + j;
            m->scores[i * columns + j] = !mine ? 0.0
                                         : head->scores.narrow
                                             ? (double)((const float *)head->scores.data)[at]
                                             : ((const double *)head->scores.data)[at];
            if (of->caps_of_rows)
                m->caps[i * columns + j] =
                    mine ? ota_entry_cap(&head->row.caps, i - *first, j) : 0.0;
        }
    }
    return ota_ranks_sum(s, m->mu, of->rows, NULL, 0, "the masses of all rows") &&
           ota_ranks_sum(s, m->scores, of->rows * columns, NULL, 0, "the scores of all rows") &&
           (!of->caps_of_rows ||
            ota_ranks_sum(s, m->caps, of->rows * columns, NULL, 0, "the caps of all rows"));
}

/* The rows that are solved: those of all processes, or the head's own. */
typedef struct solved_rows {
    const void *scores;
    int64_t stride;
    bool narrow;
    const double *mu;
    double *f;
} solved_rows;

static ota_status solve(ota_head *head, const memory *m, const whole *of) {
    const bool shared = of->ranks > 1;
    const solved_rows rows = {.scores = shared ? m->scores : head->scores.data,
                              .stride = shared ? of->columns : head->scores.stride,
                              .narrow = !shared && head->scores.narrow,
                              .mu = shared ? m->mu : head->mu,
                              .f = shared ? m->f : head->f};
    const ota_array array = ota_array_of(m->caps, OTA_F64, 1, 1, of->rows, of->columns);
    const ota_entry_caps gathered = {.cap = INFINITY, .array = &array};
    const ota_entry_caps *caps = m->caps != NULL ? &gathered : &head->row.caps;
    ota_transport problem = {.n = of->rows,
                             .m = of->columns,
                             .scores = rows.scores,
                             .stride = rows.stride,
                             .narrow = rows.narrow,
                             .mu = rows.mu,
                             .nu = head->nu,
                             .capped = ota_rule_is(ota_head_rule(head), OTA_RULE_CAPACITY),
                             .floor = head->column.floor,
                             .caps = of->capped ? caps : NULL,
                             .sink = head->row.sink,
                             .tolerance = head->row.mass_tolerance,
                             .costs = head->host.algebra->costs[0],
                             .watch = ota_watch_of(head->settings),
                             .f = rows.f,
                             .g = head->g};
    return ota_transport_solve(&problem, m->search);
}

ota_status ota_far_plan_find(ota_head *head) {
    const whole of = {.rows = rows_of(head),
                      .columns = head->columns,
                      .capped = head->row.regulariser->capped,
                      .floor = head->column.floor > 0.0,
                      .ranks = ranks_of(head->settings),
                      .caps_of_rows = head->row.caps.array != NULL};
    memory m = {0};
    ota_arena arena = {.base = head->host.workspace, .size = SIZE_MAX};
    int64_t first = 0;
    lay_out(&m, &arena, &of);
    if (of.ranks > 1 && !gather(head, &m, &of, &first)) return OTA_ECOMM;
    const ota_status found = solve(head, &m, &of);
    if (of.ranks <= 1) return found;
    /* Each has its own clock. */
    double flags[] = {found != OTA_OK ? 1.0 : 0.0};
    if (!ota_ranks_sum(head->settings, NULL, 0, flags, 1, "a plan of far scores")) return OTA_ECOMM;
    const ota_status together = ota_interrupted_together(head->settings);
    if (together != OTA_OK) return together;
    for (int64_t i = 0; i < head->rows; i++) head->f[i] = m.f[first + i];
    return flags[0] > 0.0 ? (found != OTA_OK ? found : OTA_TOL_UNREACHABLE) : OTA_OK;
}
