/* ranked_assignment.c: the cheapest matchings of a matrix one after another (otattn_assignment.h), by Murty's partition with the
 * prices of the one before.
 *
 * Parts of all matchings are open, each with its best one and prices that prove it. The best of all is taken out, and its
 * part without it falls into one part a row r: rows before r keep their columns, and r may not have its own. Nothing but r's
 * pair is forbidden, so the prices stand, and one shortest path from r to the column that it left gives the best of the
 * new part. A part that is worse than as many others as are still wanted is let go; its bound stays for the proof. With rows <
 * columns the free columns belong to rows that cost nothing, all alike: one stands for them, here called the rest.
 *
 * With a limit a row that is left out has a column of its own instead, at the limit (cost_matrix.h): so matchings that leave out
 * different rows are different ones, and those that leave out the same are one. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost_matrix.h"
#include "problem/check.h"

enum { FREE = -1, REST = -1 };

typedef struct part {
    double value, bound;
    int64_t first;      /* rows before it keep their columns, */
    uint64_t *barred;   /* [columns] bits: and it has none of these */
    int32_t *column_of; /* [rows] */
    double *price;      /* [columns] at most 0, and 0 where free, with rows < columns */
} part;

typedef struct ranking {
    const ota_cost_matrix *matrix;
    const double *cost; /* [rows][columns] */
    int64_t rows, columns, words;
    int64_t wanted;
    part **open; /* by rising value */
    int64_t count, room;
    double let_go; /* the least bound of parts that were */
    bool proved;
    ota_watch watch;
    ota_arena arena;
    double *distance;
    int32_t *before, *reached, *row_of; /* row_of: or FREE; before: or REST */
    uint8_t *done, *taken;
} ranking;

static void layout(ranking *k) {
    const size_t columns = (size_t)k->columns;
    k->distance = ota_arena_take(&k->arena, columns, sizeof(double));
    k->before = ota_arena_take(&k->arena, columns, sizeof(int32_t));
    k->reached = ota_arena_take(&k->arena, columns, sizeof(int32_t));
    k->row_of = ota_arena_take(&k->arena, columns, sizeof(int32_t));
    k->done = ota_arena_take(&k->arena, columns, 1);
    k->taken = ota_arena_take(&k->arena, columns, 1);
}

static part *new_part(const ranking *k) {
    const size_t rows = (size_t)k->rows, columns = (size_t)k->columns, words = (size_t)k->words;
    part *made = malloc(sizeof *made + columns * sizeof(double) + words * sizeof(uint64_t) +
                        rows * sizeof(int32_t));
    if (made == NULL) return NULL;
    made->price = (double *)(made + 1);
    made->barred = (uint64_t *)(made->price + columns);
    made->column_of = (int32_t *)(made->barred + words);
    return made;
}

static bool is_barred(const part *p, int64_t j) { return (p->barred[j / 64] >> j % 64 & 1u) != 0; }

static void measure(const ranking *k, part *p) {
    p->value = 0.0;
    for (int64_t i = 0; i < k->rows; i++) p->value += k->cost[i * k->columns + p->column_of[i]];
}

static void judge(const ranking *k, part *p) {
    p->bound = -INFINITY;
    if (!k->proved) return;
    memset(k->taken, 0, (size_t)k->columns);
    for (int64_t i = 0; i < p->first; i++) k->taken[p->column_of[i]] = 1;
    const ota_assign_part seen = {p->first, p->column_of, k->taken, p->barred, p->price};
    p->bound = ota_assignment_part_bound(&k->matrix->view, &seen);
}

/* Puts a part among the open ones, of which there are `most` at most. */
static ota_status open_part(ranking *k, part *p, int64_t most) {
    if (k->count == k->room) {
        const int64_t room = k->room > 0 ? 2 * k->room : 64;
        part **moved = realloc(k->open, (size_t)room * sizeof *moved);
        if (moved == NULL) {
            free(p);
            return OTA_ENOMEM;
        }
        k->open = moved;
        k->room = room;
    }
    int64_t place = k->count++;
    for (; place > 0 && k->open[place - 1]->value > p->value; place--)
        k->open[place] = k->open[place - 1];
    k->open[place] = p;
    if (k->count <= most) return OTA_OK;
    part *last = k->open[--k->count];
    k->let_go = fmin(k->let_go, last->bound);
    free(last);
    return OTA_OK;
}

/* ---- the path from a row to the column that it left -------------------------------------------------- */

/* Through row i, whose own u makes the offset. */
static void relax(ranking *k, const part *p, int64_t i, double offset) {
    const double *cost = k->cost + i * k->columns;
    for (int64_t j = 0; j < k->columns; j++) {
        const double through = (cost[j] - p->price[j]) - offset;
        const bool nearer = through < k->distance[j] && k->done[j] == 0;
        k->distance[j] = nearer ? through : k->distance[j];
        k->before[j] = nearer ? (int32_t)i : k->before[j];
    }
}

/* Through the rest, which any column costs nothing. */
static void relax_rest(ranking *k, const part *p, double distance) {
    for (int64_t j = 0; j < k->columns; j++) {
        const double through = distance - p->price[j];
        if (!(through < k->distance[j]) || k->done[j] != 0) continue;
        k->distance[j] = through;
        k->before[j] = REST;
    }
}

typedef struct path {
    int64_t start, end;
    int64_t count; /* columns reached */
    int64_t rest;  /* the free column by which the rest was reached, -1: it was not */
    double length; /* to the end, or how far the search came */
    bool found;
} path;

static void begin(ranking *k, const part *p, path *search) {
    for (int64_t j = 0; j < k->columns; j++) {
        k->row_of[j] = FREE;
        k->distance[j] = INFINITY;
        k->done[j] = 0;
    }
    for (int64_t i = 0; i < k->rows; i++) k->row_of[p->column_of[i]] = (int32_t)i;
    /* Columns of rows that keep them are never reached. */
    for (int64_t i = 0; i < search->start; i++) k->done[p->column_of[i]] = 1;
    relax(k, p, search->start, 0.0);
    for (int64_t j = 0; j < k->columns; j++) {
        if (is_barred(p, j)) k->distance[j] = INFINITY;
    }
}

static int64_t nearest(const ranking *k) {
    int64_t found = -1;
    double least = INFINITY;
    for (int64_t j = 0; j < k->columns; j++) {
        if (k->done[j] != 0 || !(k->distance[j] < least)) continue;
        least = k->distance[j];
        found = j;
    }
    return found;
}

/* Ends where a length of `most` or more is certain, too. */
static ota_status find_path(ranking *k, const part *p, double most, path *search) {
    begin(k, p, search);
    for (;;) {
        TRY(ota_watch_spend(&k->watch, 3 * k->columns));
        const int64_t j = nearest(k);
        search->length = j < 0 ? INFINITY : k->distance[j];
        search->found = j == search->end && search->length < most;
        if (!(search->length < most) || j == search->end) return OTA_OK;
        k->done[j] = 1;
        k->reached[search->count++] = (int32_t)j;
        const int32_t i = k->row_of[j];
        if (i >= 0) {
            const double own = k->cost[i * k->columns + j] - p->price[j];
            relax(k, p, i, own - k->distance[j]);
        } else if (search->rest < 0) {
            search->rest = j;
            relax_rest(k, p, k->distance[j]);
        }
    }
}

/* Prices after the search; those of free columns are 0 again. */
static void lower_prices(const ranking *k, part *p, const path *search) {
    for (int64_t c = 0; c < search->count; c++) {
        const int64_t j = k->reached[c];
        p->price[j] += k->distance[j] - search->length;
    }
    if (search->rest < 0) return;
    const double shift = k->distance[search->rest] - search->length;
    for (int64_t j = 0; j < k->columns; j++) p->price[j] -= shift;
    for (int64_t j = 0; j < k->columns; j++) {
        if (k->row_of[j] == FREE) p->price[j] = 0.0;
    }
}

static void turn_path(ranking *k, part *p, const path *search) {
    for (int64_t j = search->end;;) {
        const int64_t i = k->before[j];
        if (i == REST) {
            p->price[j] = 0.0;
            j = search->rest;
            continue;
        }
        const int64_t given_up = p->column_of[i];
        p->column_of[i] = (int32_t)j;
        if (i == search->start) return;
        j = given_up;
    }
}

/* ---- parts ----------------------------------------------------------------------------------------- */

/* The part of `from` without its best in which rows before r keep their columns and r may not; `most` parts are wanted. */
static ota_status split(ranking *k, const part *from, int64_t r, int64_t most) {
    part *p = new_part(k);
    if (p == NULL) return OTA_ENOMEM;
    const int64_t left = from->column_of[r];
    memcpy(p->price, from->price, (size_t)k->columns * sizeof *p->price);
    memcpy(p->column_of, from->column_of, (size_t)k->rows * sizeof *p->column_of);
    if (r == from->first)
        memcpy(p->barred, from->barred, (size_t)k->words * sizeof *p->barred);
    else
        memset(p->barred, 0, (size_t)k->words * sizeof *p->barred);
    p->barred[left / 64] |= (uint64_t)1 << left % 64;
    p->first = r;
    /* What the row's own pair was above its length 0. */
    const double own = k->cost[r * k->columns + left] - p->price[left];
    const bool full = k->count == most;
    const double worst = full ? k->open[most - 1]->value - from->value + own : (double)INFINITY;
    path search = {.start = r, .end = left, .rest = -1};
    const ota_status status = find_path(k, p, worst, &search);
    if (status != OTA_OK || !(search.length < INFINITY)) {
        free(p);
        return status;
    }
    lower_prices(k, p, &search);
    if (search.found) {
        turn_path(k, p, &search);
        measure(k, p);
        judge(k, p);
        return open_part(k, p, most);
    }
    judge(k, p);
    k->let_go = fmin(k->let_go, p->bound);
    free(p);
    return OTA_OK;
}

/* Outputs of one problem. */
typedef struct ranks {
    int64_t *pair_row, *pair_column, *pairs, *found;
    double *value, *bound;
} ranks;

/* Without what the limit adds. */
static double sum_of_pairs(const ranking *k, const part *p) {
    const int64_t columns = k->matrix->view.columns;
    double sum = 0.0;
    for (int64_t i = 0; i < k->rows; i++)
        sum += p->column_of[i] < columns ? k->cost[i * k->columns + p->column_of[i]] : 0.0;
    return sum;
}

static void give(const ranking *k, const ranks *out, const part *p, int64_t at) {
    const double sign = k->matrix->view.sign;
    int64_t *row = out->pair_row == NULL ? NULL : out->pair_row + at * k->rows;
    int64_t *column = out->pair_column == NULL ? NULL : out->pair_column + at * k->rows;
    const int64_t pairs =
        ota_cost_matrix_pairs(k->matrix, k->columns, p->column_of, k->row_of, row, column);
    if (out->pairs != NULL) out->pairs[at] = pairs;
    if (out->value != NULL) out->value[at] = sign * sum_of_pairs(k, p);
    double bound = fmin(k->let_go, p->bound);
    for (int64_t c = 0; c < k->count; c++) bound = fmin(bound, k->open[c]->bound);
    if (out->bound != NULL) out->bound[at] = sign * bound;
}

/* Behind the last matching there is. */
static void give_nothing(const ranks *out, int64_t rows, int64_t from, int64_t wanted) {
    for (int64_t at = from * rows; at < wanted * rows; at++) {
        if (out->pair_row != NULL) out->pair_row[at] = -1;
        if (out->pair_column != NULL) out->pair_column[at] = -1;
    }
    for (int64_t at = from; at < wanted; at++) {
        if (out->value != NULL) out->value[at] = NAN;
        if (out->bound != NULL) out->bound[at] = NAN;
        if (out->pairs != NULL) out->pairs[at] = 0;
    }
    if (out->found != NULL) *out->found = from;
}

static ota_status rank(ranking *k, const ranks *out, int64_t *given) {
    int64_t found = 0;
    ota_status status = OTA_OK;
    while (status == OTA_OK && found < k->wanted && k->count > 0) {
        part *best = k->open[0];
        k->count--;
        memmove(k->open, k->open + 1, (size_t)k->count * sizeof(part *));
        give(k, out, best, found++);
        const int64_t most = k->wanted - found;
        for (int64_t r = best->first; most > 0 && r < k->rows && status == OTA_OK; r++)
            status = split(k, best, r, most);
        free(best);
    }
    *given = found;
    return status;
}

/* The part of all matchings, whose best and prices the assigner finds. */
static ota_status first_part(ranking *k, ota_assigner *assigner, ota_error *error) {
    part *p = new_part(k);
    int64_t *column_of = malloc(((size_t)k->rows + 1) * sizeof *column_of);
    if (p == NULL || column_of == NULL) {
        free(p);
        free(column_of);
        return ota_fail(error, OTA_ENOMEM, "rows", "", "no memory for the first matching");
    }
    const ota_assignments batch = {.size = sizeof batch,
                                   .count = 1,
                                   .rows = k->rows,
                                   .columns = k->columns,
                                   .costs = k->cost,
                                   .type = OTA_F64,
                                   .row_stride = k->columns,
                                   .column_stride = 1,
                                   .cancel = k->matrix->settings.calls.cancel,
                                   .deadline_ns = k->matrix->settings.limits.deadline_ns,
                                   .column_of = column_of,
                                   .column_potential = p->price};
    ota_status status = ota_assign(assigner, &batch, NULL);
    for (int64_t i = 0; status == OTA_OK && i < k->rows; i++)
        p->column_of[i] = (int32_t)column_of[i];
    free(column_of);
    if (status != OTA_OK) {
        free(p);
        if (status != OTA_INFEASIBLE)
            return ota_fail(error, status, "", "", "%s", ota_status_text(status));
        return ota_fail(error, status, "costs", "allow more pairs, or give cost_limit",
                        "there are no %" PRId64 " allowed pairs that fit together", k->rows);
    }
    p->first = 0;
    memset(p->barred, 0, (size_t)k->words * sizeof *p->barred);
    measure(k, p);
    judge(k, p);
    status = open_part(k, p, 1);
    return status == OTA_OK ? OTA_OK
                            : ota_fail(error, status, "wanted", "", "no memory for the parts");
}

static ota_status run(ranking *k, const ranks *out, int64_t *found, ota_error *error) {
    layout(k);
    ota_status status = ota_arena_allocate(&k->arena);
    if (status != OTA_OK) return ota_fail(error, status, "rows", "", "no memory for the search");
    layout(k);
    ota_assigner *assigner;
    const ota_options one = {.size = sizeof one, .threads = 1};
    TRY(ota_assigner_create(&assigner, &one, error));
    status = first_part(k, assigner, error);
    ota_assigner_free(assigner);
    if (status != OTA_OK) return status;
    status = rank(k, out, found);
    return status == OTA_OK
               ? OTA_OK
               : ota_fail(error, status, "wanted", "ask for fewer", "%s", ota_status_text(status));
}

typedef struct job {
    const ota_ranked_assignments *out;
    const ota_assignments *batch;
} job;

static void *behind(void *first, int64_t count, size_t each) {
    return first == NULL ? NULL : (char *)first + (size_t)count * each;
}

static ota_status solve(const void *context, int64_t p, const ota_assignments_place *at,
                        ota_error *error) {
    const job *work = context;
    const ota_ranked_assignments *all = work->out;
    const int64_t wanted = all->wanted, first = p * wanted;
    const ranks out = {.pair_row = behind(all->pair_row, at->pair * wanted, sizeof *all->pair_row),
                       .pair_column =
                           behind(all->pair_column, at->pair * wanted, sizeof *all->pair_column),
                       .pairs = behind(all->pairs, first, sizeof *all->pairs),
                       .found = behind(all->found, p, sizeof *all->found),
                       .value = behind(all->value, first, sizeof *all->value),
                       .bound = behind(all->bound, first, sizeof *all->bound)};
    ota_cost_matrix matrix;
    ota_status status = ota_cost_matrix_take(&matrix, work->batch, p, true, error);
    ranking k = {.matrix = &matrix,
                 .cost = matrix.cost,
                 .rows = matrix.view.rows,
                 .columns = matrix.columns,
                 .words = matrix.columns / 64 + 1,
                 .wanted = wanted,
                 .let_go = INFINITY,
                 .proved = out.bound != NULL,
                 .watch = ota_watch_of(&matrix.settings)};
    int64_t found = 0;
    if (status == OTA_OK) status = run(&k, &out, &found, error);
    /* To fill large outputs may take longer than the caller waits. */
    const bool ended = status == OTA_CANCELLED || status == OTA_TIMEOUT;
    give_nothing(&out, ended ? 0 : k.rows, found, wanted);
    for (int64_t c = 0; c < k.count; c++) free(k.open[c]);
    free(k.open);
    ota_arena_release(&k.arena);
    free(matrix.cost);
    return status;
}

ota_status ota_assign_ranked(const ota_ranked_assignments *problem, ota_error *error) {
    ota_ranked_assignments own;
    TRY(ota_check_given(&own, sizeof own, problem, "problem.size", error));
    if (own.wanted < 1) {
        return ota_fail(error, OTA_EINVAL, "wanted", "ask for one at least", "wanted is %" PRId64,
                        own.wanted);
    }
    const ota_assignments batch = OTA_PROBLEMS_OF(own);
    const job work = {.out = &own, .batch = &batch};
    const ota_assignments_job all = {.batch = &batch,
                                     .work = (double)own.wanted,
                                     .threads = own.threads,
                                     .executor = own.executor,
                                     .solve = solve,
                                     .context = &work};
    return ota_assignments_each(&all, error);
}
