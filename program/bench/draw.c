/* Random problems: every cell of the method grid, scores of six kinds and any magnitude, masks, masses,
 * sinks and biases, temperature / range log-uniform in [1e-6, 1e6]. What the drawing knows about the
 * problem (a plan exists, it is a limit of positive weights) is noted for the judge's statistics. */
#include "draw.h"

#include <string.h>

enum { SMALL = 64, LARGE_EVERY = 50000 };

const cli_draw_cell cli_draw_cells[CLI_DRAW_CELLS] = {
    {"softmax", 0, false, true, false},        {"softmax/exact", 0, false, true, true},
    {"softmax/relaxed", 1, false, true, true}, {"softmax/relaxed", 1, true, true, true},
    {"softmax/capped", 2, false, true, true},  {"softmax/elastic", 3, false, false, true},
    {"softmax/prefix", 0, false, true, false}, {"softmax/online", 2, false, true, true},
    {"entmax", 0, false, true, false},         {"entmax/exact", 0, false, true, true},
    {"entmax/relaxed", 1, false, true, true},  {"entmax/capped", 2, false, true, true},
    {"entmax/prefix", 0, false, true, false},  {"entmax/online", 2, false, true, true},
    {"hard", 0, false, true, false},           {"hard/exact", 0, false, true, true},
    {"hard/capped", 2, false, true, true},     {"hard/prefix", 0, false, true, false},
    {"hard/online", 2, false, true, true},     {"softmax/bounded", 4, false, true, true},
    {"entmax/bounded", 4, false, true, true},  {"hard/bounded", 4, false, true, true},
};

const char *const cli_draw_masks[MASKS] = {"none",    "permutations", "causal", "window",
                                           "strided", "block",        "random", "additive"};

static void draw_scores(cli_draw *d, uint64_t *state) {
    const int64_t kind = cli_random_below(state, 6);
    double left[SMALL + CLI_DRAW_LARGE], right[SMALL + CLI_DRAW_LARGE];
    for (int64_t i = 0; i < d->n; i++) left[i] = cli_random_normal(state);
    for (int64_t j = 0; j < d->m; j++) right[j] = cli_random_normal(state);
    double least = HUGE_VAL, most = -HUGE_VAL;
    for (int64_t i = 0; i < d->n; i++) {
        for (int64_t j = 0; j < d->m; j++) {
            double s;
            switch (kind) {
            case 0: s = cli_random_normal(state); break;
            case 1: s = cli_random_uniform(state); break;
            case 2: s = left[i] * right[j]; break;                 /* rank 1 */
            case 3: s = (double)cli_random_below(state, 4); break; /* many ties */
            case 4: s = -fabs(left[i] - right[j]); break;          /* a distance */
            default:
                s = right[j] + 0.1 * cli_random_normal(state);
                break; /* one key wanted by all */
            }
            d->scores[i * d->m + j] = s;
            least = fmin(least, s);
            most = fmax(most, s);
        }
    }
    d->range = most - least > 0.0 ? most - least : 1.0;
    /* Scores of any magnitude: only range / tau may matter. */
    const double unit = pow(10.0, 6.0 * cli_random_uniform(state) - 3.0) / d->range;
    for (int64_t k = 0; k < d->n * d->m; k++) d->scores[k] *= unit;
    d->range *= unit;
}

static void set_permutations(cli_draw *d, uint64_t *state) {
    int64_t order[CLI_DRAW_LARGE];
    memset(d->mask, 0, (size_t)(d->n * d->m));
    const int64_t count = 1 + cli_random_below(state, 4);
    for (int64_t p = 0; p < count; p++) {
        for (int64_t i = 0; i < d->n; i++) order[i] = i;
        for (int64_t i = d->n - 1; i > 0; i--) {
            const int64_t other = cli_random_below(state, i + 1), held = order[i];
            order[i] = order[other];
            order[other] = held;
        }
        for (int64_t i = 0; i < d->n; i++) d->mask[i * d->m + order[i]] = 1;
    }
}

static ota_support *add_support(cli_draw *d, ota_support_kind kind) {
    ota_support *support = &d->supports[d->problem.support_count++];
    *support = (ota_support){.kind = kind};
    return support;
}

static cli_draw_mask draw_support(cli_draw *d, uint64_t *state) {
    cli_draw_mask kind =
        cli_random_below(state, 2) == 0 ? MASK_NONE : (cli_draw_mask)cli_random_below(state, MASKS);
    if (kind == MASK_TOTAL && d->n != d->m) kind = MASK_RANDOM;
    if (d->problem.columns == OTA_COLUMNS_PREFIX && kind == MASK_CAUSAL) kind = MASK_NONE;
    d->problem.corner = cli_random_below(state, 2) == 0 ? OTA_TOP_LEFT : OTA_BOTTOM_RIGHT;
    const ota_array bytes = ota_array_of(d->mask, OTA_BOOL, 1, 1, d->n, d->m);
    switch (kind) {
    case MASK_TOTAL:
        set_permutations(d, state);
        add_support(d, OTA_SUPPORT_BOOLEAN)->array = bytes;
        break;
    case MASK_CAUSAL: (void)add_support(d, OTA_SUPPORT_CAUSAL); break;
    case MASK_WINDOW: {
        ota_support *support = add_support(d, OTA_SUPPORT_WINDOW);
        support->left = cli_random_below(state, 9) - 1;
        support->right = cli_random_below(state, 9) - 1;
        break;
    }
    case MASK_STRIDED:
        add_support(d, OTA_SUPPORT_STRIDED)->left = 1 + cli_random_below(state, 4);
        break;
    case MASK_BLOCK:
        add_support(d, OTA_SUPPORT_BLOCK)->left = 1 + cli_random_below(state, 16);
        break;
    case MASK_RANDOM: {
        const double density = 0.2 + 0.8 * cli_random_uniform(state);
        for (int64_t k = 0; k < d->n * d->m; k++) d->mask[k] = cli_random_uniform(state) < density;
        add_support(d, OTA_SUPPORT_BOOLEAN)->array = bytes;
        break;
    }
    case MASK_ADDITIVE:
        for (int64_t k = 0; k < d->n * d->m; k++) {
            d->additive[k] = cli_random_uniform(state) < 0.3 ? -HUGE_VAL : 0.0;
        }
        add_support(d, OTA_SUPPORT_ADDITIVE)->array =
            ota_array_of(d->additive, OTA_F64, 1, 1, d->n, d->m);
        break;
    default: break;
    }
    return kind;
}

static double draw_masses(uint64_t *state, double *mass, int64_t count, bool zeros) {
    double total = 0.0;
    for (int64_t k = 0; k < count; k++) {
        mass[k] = exp(cli_random_normal(state));
        if (zeros && k > 0 && cli_random_below(state, 8) == 0) mass[k] = 0.0;
        total += mass[k];
    }
    return total;
}

/* Returns the total row mass; sets *unit when all masses are the default ones. */
static double draw_problem_masses(cli_draw *d, const cli_draw_cell *cell, uint64_t *state,
                                  bool *unit) {
    ota_problem *p = &d->problem;
    double total = (double)d->n;
    *unit = true;
    if (cli_random_below(state, 4) == 0 && p->columns != OTA_COLUMNS_PREFIX) {
        total = draw_masses(state, d->row_mass, d->n, cli_random_below(state, 4) == 0);
        p->row_mass = ota_array_of(d->row_mass, OTA_F64, 1, 1, 1, d->n);
        *unit = false;
    }
    if (cell->masses && cli_random_below(state, 4) == 0) {
        const double columns =
            draw_masses(state, d->column_mass, d->m, cli_random_below(state, 4) == 0);
        /* Equal totals for exact and its kin; factors near 1 for caps. */
        const double goal = cell->parameters == 2 ? (double)d->m : total;
        for (int64_t j = 0; j < d->m; j++) d->column_mass[j] *= goal / columns;
        p->column_mass = ota_array_of(d->column_mass, OTA_F64, 1, 1, 1, d->m);
        *unit = false;
    }
    return total;
}

static void draw_method(cli_draw *d, const cli_draw_cell *cell, double total, uint64_t *state) {
    ota_problem *p = &d->problem;
    const double spread = pow(10.0, 4.0 * cli_random_uniform(state) - 2.0);
    char order[40] = "";
    if (strncmp(cell->method, "entmax", 6) == 0) {
        static const double orders[] = {1.5, 2.0, 1.25, 3.0, 0.5, 0.8};
        enum { ORDERS = (int)(sizeof orders / sizeof orders[0]) };
        (void)snprintf(order, sizeof order, ":%g", orders[cli_random_below(state, ORDERS)]);
    }
    const size_t regulariser = strcspn(cell->method, "/");
    char tail[64] = "";
    /* At least 5 % more capacity than mass, so that a full support has a plan. */
    const double cap = total / (double)d->m * (1.05 + 3.0 * cli_random_uniform(state));
    if (cell->parameters == 1) (void)snprintf(tail, sizeof tail, ":%.17g", spread * d->range);
    if (cell->parameters == 2) (void)snprintf(tail, sizeof tail, ":%.17g", cap);
    if (cell->parameters == 3) {
        (void)snprintf(tail, sizeof tail, ":%.3f,%d", 1.9 * cli_random_uniform(state),
                       (int)cli_random_below(state, 12));
    }
    /* A least sum of at most 0.95 of a share, or of all of it: then the columns are exact. */
    if (cell->parameters == 4) {
        const bool equal = cli_random_below(state, 8) == 0;
        const double lower = equal ? 1.0 : 0.95 * cli_random_uniform(state);
        const double upper = equal ? 1.0 : 1.05 + 3.0 * cli_random_uniform(state);
        (void)snprintf(tail, sizeof tail, ":%.3f,%.3f", lower, upper);
    }
    (void)snprintf(d->method, sizeof d->method, "%.*s%s%s%s", (int)regulariser, cell->method, order,
                   cell->method + regulariser, tail);
    (void)ota_method_parse(d->method, p, NULL, NULL);
    if (cell->relaxed_rows) {
        p->rows = OTA_ROWS_RELAXED;
        p->row_strength = pow(10.0, 4.0 * cli_random_uniform(state) - 2.0) * d->range;
    }
}

void cli_draw_problem(cli_draw *d, cli_draw_memory *s, uint64_t seed, int64_t index,
                      const int *cancel) {
    memset(d, 0, sizeof *d);
    uint64_t state =
        seed * UINT64_C(0x2545f4914f6cdd1d) + (uint64_t)index * UINT64_C(0x9e3779b97f4a7c15);
    (void)cli_random_bits(&state);
    d->index = index;
    d->scores = s->scores;
    d->bias = s->bias;
    d->row_mass = s->row_mass;
    d->column_mass = s->column_mass;
    d->additive = s->additive;
    d->mask = s->mask;
    d->cell = (int)cli_random_below(&state, CLI_DRAW_CELLS);
    const cli_draw_cell *cell = &cli_draw_cells[d->cell];
    const bool large = index % LARGE_EVERY == LARGE_EVERY - 1;
    const bool square = cli_random_below(&state, 2) == 0;
    d->n = large ? CLI_DRAW_LARGE : 1 + cli_random_below(&state, SMALL);
    d->m = large || square ? d->n : 1 + cli_random_below(&state, SMALL);
    if (strstr(cell->method, "prefix") != NULL && d->n > d->m) d->n = d->m;
    ota_problem *p = &d->problem;
    p->size = sizeof *p;
    p->scores = ota_array_of(d->scores, OTA_F64, 1, 1, d->n, d->m);
    p->supports = d->supports;
    p->terms = d->terms;
    d->options = (ota_options){.size = sizeof d->options, .threads = 1, .cancel = cancel};
    draw_scores(d, &state);
    (void)ota_method_parse(strstr(cell->method, "prefix") != NULL ? "prefix" : "softmax", p, NULL,
                           NULL);
    bool unit;
    const double total = draw_problem_masses(d, cell, &state, &unit);
    draw_method(d, cell, total, &state);
    const cli_draw_mask mask = d->mask_drawn = draw_support(d, &state);
    bool plain = true;
    /* Exact columns take a sink only with masses that leave it a share. */
    const bool sinks = p->columns != OTA_COLUMNS_EXACT && p->columns != OTA_COLUMNS_PREFIX;
    if (cli_random_below(&state, 8) == 0 && sinks) {
        d->terms[p->term_count++] =
            (ota_term){.kind = OTA_TERM_SINK, .value = cli_random_normal(&state) * d->range};
        plain = false;
    }
    if (cli_random_below(&state, 8) == 0) {
        for (int64_t j = 0; j < d->m; j++) d->bias[j] = 0.1 * d->range * cli_random_normal(&state);
        d->terms[p->term_count++] = (ota_term){
            .kind = OTA_TERM_DENSE, .array = ota_array_of(d->bias, OTA_F64, 1, 1, 1, d->m)};
    }
    d->ratio = pow(10.0, 12.0 * cli_random_uniform(&state) - 6.0);
    d->tau = d->ratio * d->range;
    p->temperature = d->tau;
    d->decade = (int)floor(log10(d->ratio)) + 6;
    if (d->decade < 0) d->decade = 0;
    if (d->decade >= CLI_DRAW_DECADES) d->decade = CLI_DRAW_DECADES - 1;
    const bool free_columns = p->columns == OTA_COLUMNS_FREE || p->columns == OTA_COLUMNS_RELAXED;
    d->feasible = mask == MASK_NONE ||
                  (mask == MASK_TOTAL && unit && p->columns == OTA_COLUMNS_EXACT) ||
                  p->columns == OTA_COLUMNS_FREE;
    /* A full column of capacity may be used up before its last row: not a plan for every order. */
    if (p->columns == OTA_COLUMNS_ONLINE || p->columns == OTA_COLUMNS_PREFIX)
        d->feasible = mask == MASK_NONE;
    d->counted = d->feasible && cell->promises && d->ratio >= 1e-3 && (plain || free_columns);
}
