/* transport.c: the transportation problem: shortest augmenting paths find a plan (transport_paths.c), and the network simplex on a
 * strongly feasible tree proves it optimal, or makes it so where rounding has misled the paths [LIT-06, DER-24].
 *
 *     nodes   N rows with mass (one more ships spare capacity at score 0 when columns are capped),
 *             M columns with mass (one more for a sink), and a root r
 *     arcs    i -> j at cost c_ij = top_i - S_ij >= 0;  artificial i -> r, which carry nothing
 *     tree    x_i + x_j = c_ij on its arcs, x_r = 0;  an arc with c_ij - x_i - x_j < 0 may enter
 *
 * A column with a least sum is two nodes: one of that sum, which the spare row does not reach, and one of the rest. Where pairs have
 * caps it is one, and a cap of the spare row's pair leaves the least sum. Such plans are what the paths find: x_i + x_j >= c_ij where a pair is
 * full, and their potentials prove them (hard.c), up to rounding; the simplex knows no caps.
 *
 * Flows are integers (feasible.h), so "zero" is exact, and the paths ship all units or prove that no plan does. What they leave, freed of
 * cycles, is a forest whose pieces hang from r, each by a row at the price that the paths found for it. Cunningham's rule for ties (of the
 * arcs that block, the last one met when the cycle is walked from its apex along the entering arc) keeps every arc
 * that points away from r positive: no cycling. Potentials are recomputed along the tree, never updated, each with a
 * running bound of its rounding error; an arc enters only when its reduced cost is negative beyond both bounds,
 * hence negative in exact arithmetic. */
#include "transport_paths.h"

static void layout(ota_transport_tree *tree, ota_transport_paths *paths, ota_arena *arena,
                   ota_transport_kind kind) {
    const int64_t n = tree->n, m = tree->m;
    const bool floor = kind == OTA_TRANSPORT_FLOOR;
    size_t rows = (size_t)n + 1;
    size_t columns = (size_t)m + 1 + (floor ? (size_t)m : 0);
    size_t nodes = rows + columns + 1;
    size_t padded = (size_t)ota_padded((int64_t)columns);
    if (floor) tree->asked.least = ota_arena_take(arena, columns, 1);
    size_t pairs = 0;
    if (!ota_size_mul(rows, padded, &pairs)) arena->overflowed = true;
    tree->asked.touched = ota_arena_take(arena, columns, 1);
    tree->asked.mass = ota_arena_take(arena, rows, sizeof(double));
    tree->asked.capacity = ota_arena_take(arena, columns, sizeof(double));
    tree->asked.supply = ota_arena_take(arena, rows, sizeof(int64_t));
    tree->asked.demand = ota_arena_take(arena, columns, sizeof(int64_t));
    tree->asked.row_of = ota_arena_take(arena, rows, sizeof(int64_t));
    tree->asked.column_of = ota_arena_take(arena, columns, sizeof(int64_t));
    tree->load = ota_arena_take(arena, nodes, sizeof(int64_t));
    tree->top = ota_arena_take(arena, rows, sizeof(double));
    tree->cost = ota_arena_take(arena, pairs, sizeof(double));
    tree->price = ota_arena_take(arena, padded, sizeof(double));
    tree->x = ota_arena_take(arena, nodes, sizeof(double));
    tree->error = ota_arena_take(arena, nodes, sizeof(double));
    tree->arc = ota_arena_take(arena, nodes, sizeof(double));
    tree->flow = ota_arena_take(arena, nodes, sizeof(int64_t));
    tree->links.parent = ota_arena_take(arena, nodes, sizeof(int32_t));
    tree->links.child = ota_arena_take(arena, nodes, sizeof(int32_t));
    tree->links.next = ota_arena_take(arena, nodes, sizeof(int32_t));
    tree->links.previous = ota_arena_take(arena, nodes, sizeof(int32_t));
    tree->links.depth = ota_arena_take(arena, nodes, sizeof(int32_t));
    tree->exact = ota_arena_take(arena, nodes, sizeof(ota_exact));
    tree->plan.row_sum = ota_arena_take(arena, rows, sizeof(double));
    tree->plan.row_entries = ota_arena_take(arena, rows, sizeof(int32_t));
    ota_transport_paths_layout(paths, arena, (int64_t)rows, (int64_t)columns,
                               kind == OTA_TRANSPORT_CAPS);
}

size_t ota_transport_workspace(int64_t n, int64_t m, ota_transport_kind kind) {
    const int64_t most = INT32_MAX / 8;
    const bool floor = kind == OTA_TRANSPORT_FLOOR;
    if (n < 0 || m < 0 || n >= most || m >= most || n + (floor ? 2 * m : m) >= most)
        return SIZE_MAX;
    ota_arena arena = {0};
    ota_transport_tree tree = {.n = n, .m = m};
    ota_transport_paths paths = {0};
    layout(&tree, &paths, &arena, kind);
    return ota_arena_overflowed(&arena) ? SIZE_MAX : arena.used;
}

/* ---- from the problem to the tree's nodes --------------------------------------------------- */

static int64_t least_of(const ota_transport_tree *tree, const ota_transport *problem, int64_t j) {
    if (tree->asked.least == NULL) return 0;
    return ota_units_least(&tree->units, tree->asked.demand[j], problem->nu[j], problem->floor);
}

static bool is_floored_by_caps(const ota_transport *problem) {
    return problem->caps != NULL && problem->capped && problem->floor > 0.0;
}

/* Masses in units; rows and columns without mass stay out of the tree. */
static ota_status load_masses(ota_transport_tree *tree, const ota_transport *problem) {
    int64_t n = tree->n;
    int64_t m = tree->m;
    double balance = 0.0;
    for (int64_t i = 0; i < n; i++) {
        tree->asked.mass[i] = problem->mu[i];
        balance += problem->mu[i];
    }
    for (int64_t j = 0; j < m; j++) {
        tree->asked.capacity[j] = problem->nu[j];
        balance -= problem->nu[j];
    }
    tree->asked.capacity[m] = 0.0;
    if (problem->sink != -INFINITY) {
        tree->asked.capacity[m] = problem->capped ? INFINITY : balance > 0.0 ? balance : 0.0;
    }
    const ota_masses masses = {
        n, m + 1, tree->asked.mass, tree->asked.capacity, problem->capped, problem->tolerance};
    ota_status status = ota_units_of(&masses, tree->asked.supply, tree->asked.demand, &tree->units);
    if (status != OTA_OK) return status;
    /* Without rows a unit is nothing, and any least sum too much. */
    const bool floored = tree->asked.least != NULL || is_floored_by_caps(problem);
    for (int64_t j = 0; j < m && floored && tree->units.total == 0; j++) {
        if (problem->nu[j] > 0.0) return OTA_INFEASIBLE;
    }
    tree->rows = 0;
    tree->columns = 0;
    tree->spare_row = OTA_NO_NODE;
    for (int64_t i = 0; i < n; i++) {
        if (tree->asked.supply[i] > 0) tree->asked.row_of[tree->rows++] = i;
    }
    if (tree->units.spare > 0) {
        tree->spare_row = tree->rows;
        tree->asked.row_of[tree->rows++] = n;
    }
    for (int64_t j = 0; j <= m; j++) {
        const int64_t least = j < m ? least_of(tree, problem, j) : 0;
        if (least > 0) {
            tree->asked.least[tree->columns] = 1;
            tree->asked.column_of[tree->columns++] = j;
        }
        if (tree->asked.demand[j] <= least) continue;
        if (tree->asked.least != NULL) tree->asked.least[tree->columns] = 0;
        tree->asked.column_of[tree->columns++] = j;
    }
    tree->root = tree->rows + tree->columns;
    tree->padded = ota_padded(tree->columns);
    for (int32_t v = 0; v < tree->rows; v++) {
        tree->load[v] =
            v == tree->spare_row ? tree->units.spare : tree->asked.supply[tree->asked.row_of[v]];
    }
    for (int32_t w = 0; w < tree->columns; w++) {
        const int64_t j = tree->asked.column_of[w], least = j < m ? least_of(tree, problem, j) : 0;
        tree->load[tree->rows + w] =
            ota_tree_is_least(tree, w) ? least : tree->asked.demand[j] - least;
    }
    return OTA_OK;
}

/* Scores of row i, [m]: those of the problem, or the same numbers in `line`. */
static const double *scores_of_row(const ota_transport *problem, int64_t i, double *line) {
    if (!problem->narrow && !problem->flat)
        return (const double *)problem->scores + i * problem->stride;
    for (int64_t j = 0; j < problem->m; j++) line[j] = ota_transport_score(problem, i, j);
    return line;
}

/* Costs of one row of the tree, less the least of them, which is what it had most of. +inf: there is none. */
static void load_row(ota_transport_tree *tree, const ota_transport *problem, int32_t v) {
    const ota_costs *read = problem->costs;
    const int64_t columns = tree->columns, *column_of = tree->asked.column_of;
    double *cost = tree->cost + v * tree->padded;
    uint8_t *touched = tree->asked.touched;
    const bool spare = v == tree->spare_row;
    const double *scores =
        spare ? NULL : scores_of_row(problem, tree->asked.row_of[v], tree->price);
    const bool sink = columns > 0 && column_of[columns - 1] == tree->m;
    for (int64_t w = 0; w < columns - sink; w++) {
        const double score =
            spare ? ota_tree_score(tree, problem, v, (int32_t)w) : scores[column_of[w]];
        cost[w] = score * tree->factor;
    }
    if (sink)
        cost[columns - 1] = ota_tree_score(tree, problem, v, (int32_t)columns - 1) * tree->factor;
    const double most = read->score_range(cost, columns, 1.0).top;
    const double top = spare && !(most > 0.0) ? 0.0 : most;
    tree->top[v] = top;
    for (int64_t w = 0; w < columns; w++) {
        touched[w] |= cost[w] > -INFINITY;
        cost[w] = top - cost[w];
    }
    for (int64_t w = columns; w < tree->padded; w++) cost[w] = INFINITY;
}

/* Costs of the rows and columns with mass. A row or exact column that touches nothing is infeasible
 * whatever the tolerance. */
static ota_status load_costs(ota_transport_tree *tree, const ota_transport *problem) {
    double largest = 0.0;
    ota_watch watch = problem->watch;
    if (!(problem->sink < INFINITY)) return OTA_NONFINITE;
    for (int64_t i = 0; i < tree->n; i++) {
        const ota_status going = ota_watch_spend(&watch, tree->m);
        if (going != OTA_OK) return going;
        const double *scores = scores_of_row(problem, i, tree->price);
        const ota_cost_score_range range = problem->costs->score_range(scores, tree->m, 1.0);
        if (range.wrong) return OTA_NONFINITE;
        largest = fmax(largest, range.largest);
    }
    if (problem->sink != -INFINITY && fabs(problem->sink) > largest) largest = fabs(problem->sink);
    tree->factor = ota_safe_factor(largest);

    uint8_t *touched = tree->asked.touched;
    for (int32_t w = 0; w < tree->columns; w++)
        touched[w] = problem->capped && !ota_tree_is_least(tree, w);
    for (int32_t v = 0; v < tree->rows; v++) {
        const ota_status going = ota_watch_spend(&watch, tree->padded);
        if (going != OTA_OK) return going;
        load_row(tree, problem, v);
        if (tree->top[v] == -INFINITY) return OTA_INFEASIBLE;
    }
    for (int32_t w = 0; w < tree->columns; w++) {
        if (touched[w] == 0) return OTA_INFEASIBLE;
    }
    return OTA_OK;
}

/* What could not be shipped is taken off the masses if rounding explains it; false if not. */
static bool forgive(ota_transport_tree *tree, const ota_transport_paths *paths) {
    int64_t missing = 0;
    for (int32_t v = 0; v < tree->rows; v++) missing += paths->excess[v];
    if (missing > tree->units.allowance) return false;
    for (int32_t v = 0; v < tree->rows && missing > 0; v++) tree->load[v] -= paths->excess[v];
    for (int32_t w = 0; w < tree->columns && missing > 0; w++) {
        if (paths->room[w] == 0) continue;
        tree->load[tree->rows + w] -= paths->room[w];
        if (tree->load[tree->rows + w] > 0) continue;
        for (int32_t i = 0; i < tree->rows; i++) tree->cost[i * tree->padded + w] = INFINITY;
    }
    return true;
}

/* ---- from the tree to the outputs ----------------------------------------------------------- */

static double mass_of(const ota_transport_tree *tree, const ota_transport *problem, int32_t row,
                      int32_t column, int64_t flow) {
    double mu = tree->asked.mass[tree->asked.row_of[row]];
    double nu = tree->asked.capacity[tree->asked.column_of[column]];
    if (tree->asked.least != NULL && tree->asked.column_of[column] < tree->m)
        nu *= ota_tree_is_least(tree, column) ? problem->floor : 1.0 - problem->floor;
    bool all_row = flow == tree->load[row];
    const double shipped = ldexp((double)flow, -tree->units.exponent);
    /* Columns whose masses were scaled to those of the rows take that share, not the mass itself. */
    bool all_column =
        flow == tree->load[tree->rows + column] &&
        fabs(shipped - nu) <= ldexp((double)tree->units.rounding, -tree->units.exponent);
    if (all_row && all_column) return mu < nu ? mu : nu;
    if (all_row) return mu;
    if (all_column) return nu;
    return shipped;
}

/* Full pairs carry their caps. */
static void write_full(ota_transport_tree *tree, const ota_transport_paths *paths,
                       const ota_transport *problem) {
    for (int32_t v = 0; v < tree->rows; v++) {
        if (v == tree->spare_row) continue;
        for (int32_t w = 0; (w = ota_full_column(paths, v, w)) != OTA_NO_NODE; w++) {
            const int64_t i = tree->asked.row_of[v], j = tree->asked.column_of[w];
            const double cap = ota_entry_cap(problem->caps, i, j);
            tree->plan.row_sum[i] += cap;
            tree->plan.row_entries[i]++;
            problem->plan[i * problem->plan_stride + j] = cap;
        }
    }
}

/* Weights below their caps are scaled to what those at them leave. */
static void scale_capped(const ota_transport_tree *tree, const ota_transport *problem, int64_t i) {
    double *row = problem->plan + i * problem->plan_stride, full = 0.0;
    for (int64_t j = 0; j < tree->m; j++) {
        if (row[j] > 0.0 && !(row[j] < ota_entry_cap(problem->caps, i, j))) full += row[j];
    }
    const double rest = tree->plan.row_sum[i] - full, wanted = problem->mu[i] - full;
    for (int64_t j = 0; j < tree->m && rest > 0.0 && wanted > 0.0; j++) {
        if (!(row[j] > 0.0)) continue;
        const double cap = ota_entry_cap(problem->caps, i, j);
        row[j] = row[j] < cap ? fmin(row[j] / rest * wanted, cap) : cap;
    }
}

/* Tree flows become weights; rows are then scaled to their masses, so that units never show. */
static void write_plan(ota_transport_tree *tree, const ota_transport_paths *paths,
                       const ota_transport *problem) {
    ota_watch watch = problem->watch;
    for (int64_t i = 0; i < tree->n && !ota_watch_ends(&watch, tree->m); i++) {
        tree->plan.row_sum[i] = 0.0;
        tree->plan.row_entries[i] = 0;
        double *row = problem->plan + i * problem->plan_stride;
        for (int64_t j = 0; j < tree->m; j++) row[j] = 0.0;
    }
    for (int32_t v = 0; v < tree->root; v++) {
        int32_t parent = tree->links.parent[v];
        if (parent == tree->root || parent == OTA_NO_NODE) continue;
        int32_t row = ota_tree_is_row(tree, v) ? v : parent;
        int32_t node = ota_tree_is_row(tree, v) ? parent : v;
        if (row == tree->spare_row) continue;
        if (!ota_units_matter(tree->flow[v], tree->load[row], tree->load[node],
                              tree->units.rounding)) {
            continue;
        }
        double weight = mass_of(tree, problem, row, node - tree->rows, tree->flow[v]);
        int64_t i = tree->asked.row_of[row];
        int64_t j = tree->asked.column_of[node - tree->rows];
        tree->plan.row_sum[i] += weight;
        tree->plan.row_entries[i]++;
        if (j < tree->m) problem->plan[i * problem->plan_stride + j] += weight;
    }
    write_full(tree, paths, problem);
    for (int64_t i = 0; i < tree->n && !ota_watch_ends(&watch, tree->m); i++) {
        double *row = problem->plan + i * problem->plan_stride;
        double sum = tree->plan.row_sum[i];
        if (!(sum > 0.0) || sum == problem->mu[i]) continue;
        if (problem->caps != NULL) {
            scale_capped(tree, problem, i);
            continue;
        }
        for (int64_t j = 0; j < tree->m; j++) {
            if (row[j] > 0.0)
                row[j] =
                    tree->plan.row_entries[i] == 1 ? problem->mu[i] : row[j] / sum * problem->mu[i];
        }
    }
}

/* x holds up to one constant on all rows against all columns. A sink fixes it by its zero potential.
 * Under capped columns the highest potential of what the spare row reaches is 0: a column with capacity left shares a
 * tight arc with it, whose score is 0; without a spare row any constant keeps the dual value. Where caps of the spare row
 * stand for least sums, a column that it does not fill is at its own potential. */
static int32_t gauge_of(const ota_transport_tree *tree, const ota_transport *problem) {
    double highest = -INFINITY;
    int32_t found = OTA_NO_NODE;
    if (is_floored_by_caps(problem) && tree->spare_row != OTA_NO_NODE) return tree->spare_row;
    for (int32_t w = 0; w < tree->columns; w++) {
        const double x = tree->x[tree->rows + w];
        if (tree->load[tree->rows + w] == 0) continue;
        if (tree->asked.column_of[w] == tree->m) return tree->rows + w;
        if (ota_tree_is_least(tree, w) && tree->spare_row != OTA_NO_NODE) continue;
        if (!(x > highest)) continue;
        highest = x;
        found = tree->rows + w;
    }
    return problem->capped ? found : OTA_NO_NODE;
}

/* What potentials of rows lose. A sink that takes nothing, since the masses are equal, is dearer than what any row has. */
static double gauge_at(const ota_transport_tree *tree, const ota_transport *problem,
                       int32_t fixed) {
    if (fixed != OTA_NO_NODE)
        return ota_tree_is_row(tree, fixed) ? tree->x[fixed] : -tree->x[fixed];
    double gauge = 0.0;
    for (int32_t v = 0; v < tree->rows && problem->sink > -INFINITY; v++)
        gauge = fmax(gauge, problem->sink * tree->factor + (tree->x[v] - tree->top[v]));
    return gauge;
}

/* The most that row i has of S + g, but for pairs that are full; v: its node, or OTA_NO_NODE. */
static double best_of_row(const ota_transport_paths *paths, const ota_transport *problem, int64_t i,
                          int32_t v) {
    const int64_t *column_of = paths->tree->asked.column_of;
    double *g = problem->g, *hidden = paths->full.hidden, best = problem->sink;
    for (int32_t w = 0; v >= 0 && (w = ota_full_column(paths, v, w)) != OTA_NO_NODE; w++) {
        hidden[w] = g[column_of[w]];
        g[column_of[w]] = -INFINITY;
    }
    const double *scores = scores_of_row(problem, i, paths->tree->price);
    const double sum = problem->costs->best(scores, 1.0, g, problem->m);
    best = sum > best ? sum : best;
    for (int32_t w = 0; v >= 0 && (w = ota_full_column(paths, v, w)) != OTA_NO_NODE; w++)
        g[column_of[w]] = hidden[w];
    return best;
}

/* The highest potential of a column without mass, at most the ceiling, beside which no sum of a pair, as it is rounded, is above 0. */
static double free_potential(const ota_transport *problem, int64_t j, double ceiling) {
    double g = ceiling;
    for (int64_t i = 0; i < problem->n; i++) {
        const double score = ota_transport_score(problem, i, j), limit = -(score + problem->f[i]);
        if (limit < g) g = limit;
        for (double excess; (excess = (score + g) + problem->f[i]) > 0.0 && g > -INFINITY;)
            g = fmin(nextafter(g, -INFINITY), g - excess);
    }
    return g == INFINITY ? 0.0 : g;
}

static void write_potentials(ota_transport_tree *tree, const ota_transport_paths *paths,
                             const ota_transport *problem) {
    double *f = problem->f;
    double *g = problem->g;
    double ceiling = problem->capped && !is_floored_by_caps(problem) ? 0.0 : INFINITY;
    int32_t fixed = gauge_of(tree, problem);
    if (fixed != OTA_NO_NODE) {
        /* Doubles do not tell which of large potentials is the highest; once one of them is 0, they do. */
        ota_tree_shift(tree, fixed);
        fixed = gauge_of(tree, problem);
    }
    const double gauge = gauge_at(tree, problem, fixed);
    double *column = tree->price; /* [columns] no longer needed as prices */
    for (int32_t w = 0; w < tree->columns; w++) {
        bool planted = tree->load[tree->rows + w] > 0;
        column[w] = planted ? (tree->x[tree->rows + w] + gauge) / tree->factor : NAN;
    }
    for (int64_t j = 0; j < tree->m; j++) g[j] = NAN;
    for (int32_t w = 0; w < tree->columns; w++) {
        const int64_t j = tree->asked.column_of[w];
        if (j == tree->m) continue;
        /* Of the two nodes of a column the higher one binds: a least sum may have a price above 0, the rest may not. */
        const double found =
            ota_tree_is_least(tree, w) || !(column[w] > ceiling) ? column[w] : ceiling;
        if (!isnan(found) && !(g[j] >= found)) g[j] = found;
    }
    for (int64_t i = 0; i < tree->n; i++) f[i] = NAN;
    for (int32_t v = 0; v < tree->rows; v++) {
        if (v != tree->spare_row)
            f[tree->asked.row_of[v]] = (tree->x[v] - tree->top[v] - gauge) / tree->factor;
    }
    /* Rows with mass heed columns with mass alone: a potential that makes up for a cost of 1e20 has no digits for them. A column without
     * mass then takes the highest potential that keeps every pair's sum at or below 0, and so do rows without. */
    ota_watch watch = problem->watch;
    for (int32_t v = 0; v < tree->rows && !ota_watch_ends(&watch, tree->m); v++) {
        if (v == tree->spare_row) continue;
        const int64_t i = tree->asked.row_of[v];
        const double best = best_of_row(paths, problem, i, v);
        if (best > -INFINITY) f[i] = -best;
    }
    for (int64_t j = 0; j < tree->m && !ota_watch_ends(&watch, isnan(g[j]) ? tree->n : 1); j++) {
        if (isnan(g[j])) g[j] = free_potential(problem, j, ceiling);
    }
    for (int64_t i = 0; i < tree->n && !ota_watch_ends(&watch, isnan(f[i]) ? tree->m : 1); i++) {
        if (!isnan(f[i])) continue;
        const double best = best_of_row(paths, problem, i, OTA_NO_NODE);
        f[i] = best > -INFINITY ? -best : 0.0;
    }
}

/* A row whose whole (rounding-size) mass was forgiven still ships it: to its best column. */
static void place_forgiven(ota_transport_tree *tree, const ota_transport *problem) {
    ota_watch watch = problem->watch;
    for (int64_t i = 0; i < tree->n; i++) {
        if (problem->mu[i] == 0.0 || tree->plan.row_sum[i] > 0.0) continue;
        if (ota_watch_ends(&watch, tree->m)) return;
        double best = problem->sink;
        int64_t where = OTA_NO_NODE;
        for (int64_t j = 0; j < tree->m; j++) {
            const double sum = ota_transport_score(problem, i, j) + problem->g[j];
            if (problem->nu[j] > 0.0 && sum > best) {
                best = sum;
                where = j;
            }
        }
        if (where != OTA_NO_NODE) problem->plan[i * problem->plan_stride + where] = problem->mu[i];
    }
}

ota_status ota_transport_solve(ota_transport *problem, void *workspace) {
    const bool floor = problem->capped && problem->floor > 0.0;
    const ota_transport_kind kind = ota_transport_kind_of(problem->caps != NULL, floor);
    size_t bytes = ota_transport_workspace(problem->n, problem->m, kind);
    if (bytes == SIZE_MAX) return OTA_EOVERFLOW;
    ota_arena arena = {.base = workspace, .size = bytes};
    ota_transport_tree tree = {.n = problem->n, .m = problem->m};
    ota_transport_paths paths = {
        .tree = &tree, .problem = problem, .read = problem->costs, .watch = problem->watch};
    layout(&tree, &paths, &arena, kind);
    problem->paths = problem->pivots = 0;

    ota_status status = load_masses(&tree, problem);
    if (status == OTA_OK) status = load_costs(&tree, problem);
    if (status == OTA_OK) status = ota_transport_paths_solve(&paths);
    problem->paths = paths.shipped;
    if (status == OTA_OK && !forgive(&tree, &paths)) status = OTA_INFEASIBLE;
    if (status != OTA_OK) return status;
    ota_transport_paths_plant(&paths);
    if (problem->caps == NULL) status = ota_tree_optimise(&tree, problem);
    if (problem->caps == NULL && status == OTA_OK) status = ota_tree_make_exact(&tree, problem);
    if (status != OTA_OK) return status;
    if (problem->plan != NULL) write_plan(&tree, &paths, problem);
    write_potentials(&tree, &paths, problem);
    if (problem->plan != NULL) place_forgiven(&tree, problem);
    return ota_watch_ask(&problem->watch);
}
