/* assignment_dense.c: maximum-score matching over all pairs of a dense matrix, in the manner of [jonker1987] [ELA-14,
 * LIT-06]: (1) column reduction (square matrices only: a long-side column that stays unmatched must keep v = 0), (2) two
 * sweeps in which an unmatched row bids for its cheapest column, lowering v by the margin to its second cheapest, (3)
 * for each row left, Dijkstra on the reduced costs to the nearest unmatched column. The passes are the backend's.
 *
 * Where some costs are 1e16 times others, as those of pairs that should not be, prices that take a large one in no longer tell
 * the small ones apart. Then the least of each row is taken off, so that costs r >= 0 are left, and no pair with r
 * above the sum V that a matching comes to is in a better one. So it may count as 2 V, and prices stay within the range of V. */
#include "assignment_dense.h"

#include <float.h>
#include <math.h>

#include "exact_sums.h"

enum { BIDDING_SWEEPS = 2, BIDS_PER_ROW = 3, REFINEMENTS = 64 };

/* A relative error of costs that shows nowhere, and a factor between costs that do not show beside each other. */
static const double FINE = 0x1p-33, FAR = 0x1p30;

void ota_match_layout(ota_match *match, ota_arena *arena, int64_t rows, int64_t columns,
                      int64_t pairs) {
    const int64_t padded = ota_int_round_up(columns, OTA_MATCH_LANES);
    match->own = ota_arena_take(arena, (size_t)pairs, sizeof(double));
    match->price = ota_arena_take(arena, (size_t)padded, sizeof(double));
    match->distance = ota_arena_take(arena, (size_t)padded, sizeof(double));
    match->row_of = ota_arena_take(arena, (size_t)padded, sizeof(int32_t));
    match->kept = ota_arena_take(arena, (size_t)rows, sizeof(double));
    match->final = ota_arena_take(arena, (size_t)rows, sizeof(double));
    match->offset = ota_arena_take(arena, (size_t)rows, sizeof(double));
    match->base = ota_arena_take(arena, (size_t)padded, sizeof(double));
    match->taken = ota_arena_take(arena, (size_t)padded / 64 + 1, sizeof(uint64_t));
    match->column_of = ota_arena_take(arena, (size_t)rows, sizeof(int32_t));
    match->waiting = ota_arena_take(arena, (size_t)rows, sizeof(int32_t));
    match->next = ota_arena_take(arena, (size_t)rows, sizeof(int32_t));
    match->reached = ota_arena_take(arena, (size_t)rows, sizeof(int32_t));
}

void ota_match_resize(ota_match *match, int64_t rows, int64_t columns, int64_t lanes) {
    match->rows = rows;
    match->columns = columns;
    match->padded = ota_int_round_up_to_lanes(columns, lanes);
    ota_match_own(match);
}

void ota_match_own(ota_match *match) {
    match->costs = (ota_match_costs){.numbers = match->own,
                                     .width = match->padded,
                                     .stride = match->padded,
                                     .form = OTA_MATCH_PLAIN};
    match->unread = match->odd = false;
}

bool ota_match_borrows(const ota_match *match) {
    /* Passes over short rows do not look whether costs are plain. */
    enum { MANY = 1024 };
    return match->rows * match->columns > MANY;
}

/* Does every row cost the same in all columns? Never of what is not plain. */
static bool costs_nothing(const ota_match *match) {
    for (int64_t i = 0; i < match->rows; i++) {
        const double first = ota_match_cost(&match->costs, i, 0);
        if (!(fabs(first) < 0x1p900)) return false;
        for (int64_t j = 1; j < match->columns; j++) {
            const double cost = ota_match_cost(&match->costs, i, j);
            if (!(cost <= first && cost >= first)) return false;
        }
    }
    return true;
}

/* Rows of which many wait are read again and again, faster where they are f64; of wide problems nearly every row gets its first
 * choice. */
static bool is_worth_a_copy(const ota_match *match, int64_t left) {
    enum { SHARE = 8 };
    return match->costs.form != OTA_MATCH_PLAIN && left * SHARE > match->rows &&
           2 * match->rows > match->columns;
}

static ota_status search(ota_match *match, const ota_match_passes *passes, const ota_watch *watch,
                         const ota_match_source *source) {
    for (int64_t j = 0; j < match->padded; j++) {
        match->price[j] = 0.0;
        match->row_of[j] = -1;
    }
    match->marked = false;
    for (int64_t i = 0; i < match->rows; i++) {
        match->column_of[i] = -1;
        match->next[i] = (int32_t)i;
    }
    int64_t left = match->rows;
    if (costs_nothing(match)) {
        for (int64_t i = 0; i < match->rows; i++)
            match->column_of[i] = match->row_of[i] = (int32_t)i;
        return OTA_OK;
    }
    if (match->rows == match->columns) {
        left = passes->reduce(match);
        if (left < 0) return OTA_INFEASIBLE;
        if (match->odd) return OTA_NONFINITE;
    }
    if (!match->unread && is_worth_a_copy(match, left)) source->fill(source->context, match);
    for (int sweep = 0; sweep < BIDDING_SWEEPS && left > 0; sweep++) {
        int32_t *swap = match->waiting;
        match->waiting = match->next;
        match->next = swap;
        left = passes->bid(match, left, left * BIDS_PER_ROW);
        if (match->odd) return OTA_NONFINITE;
    }
    for (int64_t k = 0; k < left; k++) {
        const ota_status status = ota_watch_ask(watch);
        if (status != OTA_OK) return status;
        if (!passes->augment(match, match->next[k])) return OTA_INFEASIBLE;
    }
    return OTA_OK;
}

/* ---- costs that dwarf others ------------------------------------------------------------------ */

ota_matched ota_matched_of(const double *cost, int64_t count, double least) {
    ota_matched found = {.least = least};
    for (int64_t i = 0; i < count; i++) {
        found.sum += cost[i];
        if (cost[i] > 0.0) found.least = fmin(found.least, cost[i]);
        found.most = fmax(found.most, cost[i]);
    }
    double whole = 0.0;
    int64_t among = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!(cost[i] < FAR * found.least)) continue;
        whole += cost[i];
        among++;
    }
    found.mean = among > 0 ? whole / (double)among : 0.0;
    return found;
}

bool ota_matched_is_coarse(const ota_matched *matched, double price) {
    const double largest = fmax(price, matched->most);
    if (matched->mean > 0.0) return 4.0 * DBL_EPSILON * largest > FINE * matched->mean;
    return largest >= FAR * matched->least;
}

bool ota_matched_is_apart(const ota_matched *matched) {
    return matched->most >= FAR * matched->least;
}

double ota_matched_slack(const ota_matched *matched) {
    return FINE * (matched->mean > 0.0 ? matched->mean : matched->least);
}

static double larger(double a, double b) { return a > b ? a : b; }

/* In chains of comparisons of which none waits for another. */
static double largest_price(const ota_match *match) {
    const int64_t count = match->columns;
    const double *price = match->price;
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
        a = larger(fabs(price[j]), a);
        b = larger(fabs(price[j + 1]), b);
        c = larger(fabs(price[j + 2]), c);
        d = larger(fabs(price[j + 3]), d);
    }
    for (; j < count; j++) a = larger(fabs(price[j]), a);
    return larger(larger(a, b), larger(c, d));
}

/* The costs of the matched pairs, in `offset`. */
static const double *matched_costs(const ota_match *match) {
    for (int64_t i = 0; i < match->rows; i++)
        match->offset[i] = fabs(ota_match_cost(&match->costs, i, match->column_of[i]));
    return match->offset;
}

static double least_cost(const ota_match *match) {
    double least = INFINITY;
    for (int64_t i = 0; i < match->rows; i++) {
        for (int64_t j = 0; j < match->columns; j++) {
            const double cost = fabs(ota_match_cost(&match->costs, i, j));
            least = cost > 0.0 && cost < least ? cost : least;
        }
    }
    return least;
}

/* Nearly always, and at once: costs and prices of one range. */
static bool looks_plain(const ota_match *match, double least) {
    double most = 0.0;
    for (int64_t i = 0; i < match->rows; i++) {
        const double cost = fabs(ota_match_cost(&match->costs, i, match->column_of[i]));
        most = larger(cost, most);
        least = cost > 0.0 && cost < least ? cost : least;
    }
    /* The mean is at least that share of the most. */
    return most < FAR * least && most > 0.0 &&
           4.0 * DBL_EPSILON * larger(largest_price(match), most) * (double)match->rows <=
               FINE * most;
}

/* Of the costs as they are. */
static bool looks_coarse(const ota_match *match, const ota_match_passes *passes, double least) {
    const ota_matched found = ota_matched_of(matched_costs(match), match->rows, least);
    const double price = largest_price(match);
    /* Nothing costs more than 0 of what is matched: then all that prices may hide are the other costs. */
    if (!(found.least < INFINITY)) return price > 0.0 && passes->has_small(match, price / FAR);
    return ota_matched_is_coarse(&found, price) || ota_matched_is_apart(&found);
}

/* Takes the least of every row off; `from`: of rows alone whose least is not below it. */
static void take_rows_off(ota_match *match, double from) {
    for (int64_t i = 0; i < match->rows; i++) {
        double *cost = match->own + i * match->padded, lowest = INFINITY;
        for (int64_t j = 0; j < match->columns; j++) lowest = fmin(lowest, cost[j]);
        if (!(lowest >= from)) continue;
        for (int64_t j = 0; j < match->columns; j++) cost[j] -= lowest;
    }
}

/* The same of the columns of a square matrix, whose least are kept in `base`. */
static void take_columns_off(ota_match *match, double from) {
    const int64_t rows = match->rows, padded = match->padded;
    double *base = match->base;
    for (int64_t j = 0; j < padded; j++) base[j] = rows == match->columns ? INFINITY : 0.0;
    for (int64_t i = 0; i < rows && rows == match->columns; i++) {
        for (int64_t j = 0; j < rows; j++) base[j] = fmin(base[j], match->own[i * padded + j]);
    }
    for (int64_t j = 0; j < match->columns; j++) base[j] = base[j] >= from ? base[j] : 0.0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < match->columns; j++) match->own[i * padded + j] -= base[j];
    }
}

/* Leaves costs r >= 0 with one 0 a row at least; the least cost there was. Rows and columns all of whose costs are large come
 * first: what others take off would be lost on them. */
static double take_off(ota_match *match) {
    const double least = least_cost(match), large = FAR * least;
    take_rows_off(match, large);
    take_columns_off(match, large);
    take_rows_off(match, -INFINITY);
    return least;
}

static void cap(ota_match *match, double limit) {
    for (int64_t i = 0; i < match->rows; i++) {
        double *cost = match->own + i * match->padded;
        for (int64_t j = 0; j < match->columns; j++) cost[j] = cost[j] < limit ? cost[j] : limit;
    }
}

/* `matched`: what the pairs cost in the end. */
static ota_status refine(ota_match *match, const ota_match_passes *passes, const ota_watch *watch,
                         const ota_match_source *source, ota_matched *matched) {
    const double least = fmin(source->least, take_off(match));
    double limit = INFINITY;
    for (int k = 0; k < REFINEMENTS; k++) {
        const ota_matched found = ota_matched_of(matched_costs(match), match->rows, least);
        *matched = found;
        if (!(found.sum > 0.0)) {
            for (int64_t j = 0; j < match->padded; j++) match->price[j] = 0.0;
            return OTA_OK;
        }
        const bool coarse = ota_matched_is_coarse(&found, k > 0 ? largest_price(match) : INFINITY);
        if (!coarse || !(4.0 * found.sum < limit)) return OTA_OK;
        limit = 2.0 * found.sum;
        cap(match, limit);
        const ota_status status = search(match, passes, watch, source);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

/* Is no pair cheaper than its row's own at the prices, in exact arithmetic but for `slack`? Of the costs as they came. */
static bool is_optimal(const ota_match *match, double slack) {
    for (int64_t i = 0; i < match->rows; i++) {
        const double *cost = match->own + i * match->padded;
        const int32_t own = match->column_of[i];
        ota_exact at = {0};
        ota_exact_add(&at, -cost[own]);
        ota_exact_add(&at, match->price[own]);
        ota_exact_add(&at, match->base[own]);
        for (int64_t j = 0; j < match->columns; j++) {
            if (!(cost[j] < INFINITY)) continue;
            ota_exact apart = at;
            ota_exact_add(&apart, cost[j]);
            ota_exact_add(&apart, -match->price[j]);
            ota_exact_add(&apart, -match->base[j]);
            if (ota_exact_value(&apart) < -slack) return false;
        }
    }
    return true;
}

ota_status ota_match_solve(ota_match *match, const ota_match_passes *passes, const ota_watch *watch,
                           const ota_match_source *source, bool *apart) {
    *apart = false;
    match->slack = 0.0;
    ota_status status = search(match, passes, watch, source);
    if (status != OTA_OK || looks_plain(match, source->least) ||
        !looks_coarse(match, passes, source->least))
        return status;
    ota_matched found = {0};
    if (match->costs.numbers != match->own) source->fill(source->context, match);
    status = refine(match, passes, watch, source, &found);
    source->fill(source->context, match);
    match->slack = ota_matched_slack(&found);
    *apart = status == OTA_OK && (ota_matched_is_apart(&found) || !is_optimal(match, match->slack));
    for (int64_t j = 0; j < match->columns; j++) match->price[j] += match->base[j];
    return status;
}
