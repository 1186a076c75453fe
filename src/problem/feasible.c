/* feasible.c: maximum flow and total support on a bipartite support [n][m].
 *
 *     (a) a plan exists         <=>  max flow of  source -mu-> rows -inf-> columns -nu-> sink  = sum mu
 *     (b) pair (i, j) is usable <=>  i and j lie in one strongly connected component of the residual
 *                                    graph  { i -> j on the support } + { j -> i where the flow > 0 }
 *
 * (a) by Dinic's level graphs, (b) by Tarjan's components, both with explicit stacks: O(n m) memory,
 * no recursion. A flow on (i, j) can be raised exactly when it can be sent back from j to i elsewhere,
 * which is a cycle through i -> j; a positive flow is itself such a cycle of length two. Under capped
 * columns one more row, joined to every column that has more than its least sum, ships what capacity is left. Least
 * sums are met first: a path that augments the flow never takes from the sum of a column. */
#include "problem/feasible.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/base.h"

enum { UNIT_BITS = 61, ROWS_PER_QUESTION = 256 };

/* Neumaier's sum: the comparison of totals must not depend on the number of rows. */
static double sum_of(int64_t count, const double *values) {
    double sum = 0.0;
    double lost = 0.0;
    for (int64_t k = 0; k < count; k++) {
        double next = sum + values[k];
        lost += fabs(sum) >= fabs(values[k]) ? (sum - next) + values[k] : (values[k] - next) + sum;
        sum = next;
    }
    return sum + lost;
}

static bool masses_valid(int64_t count, const double *mass, bool infinite_allowed) {
    for (int64_t k = 0; k < count; k++) {
        if (!(mass[k] >= 0.0) || (isinf(mass[k]) && !infinite_allowed)) return false;
    }
    return true;
}

static int64_t units_round(double mass, int exponent) {
    if (mass <= 0.0) return 0;
    double scaled = rint(ldexp(mass, exponent));
    return scaled < 1.0 ? 1 : (int64_t)scaled;
}

static int64_t units_sum(int64_t count, const int64_t *units) {
    int64_t sum = 0;
    for (int64_t k = 0; k < count; k++) sum += units[k];
    return sum;
}

ota_status ota_units_of(const ota_masses *masses, int64_t *supply, int64_t *demand,
                        ota_units *units) {
    const int64_t n = masses->n, m = masses->m;
    const double *mu = masses->mu, *nu = masses->nu, tolerance = masses->tolerance;
    const bool capped = masses->capped;
    *units = (ota_units){0};
    if (!masses_valid(n, mu, false) || !masses_valid(m, nu, capped)) return OTA_EINVAL;
    double supplied = sum_of(n, mu);
    if (!(supplied < DBL_MAX / 4.0)) return OTA_EINVAL;

    /* Twice the whole supply never binds, and leaves such a column slack in every plan. */
    double limit = capped ? 2.0 * supplied : INFINITY;
    double demanded = 0.0;
    for (int64_t j = 0; j < m; j++) demanded += nu[j] < limit ? nu[j] : limit;
    if (!capped) demanded = sum_of(m, nu);
    if (!(demanded < DBL_MAX / 4.0)) return OTA_EINVAL;
    double relative = 4.0 * (DBL_EPSILON / 2.0) * (double)ota_int_max(n, m);
    double accepted = tolerance > relative ? tolerance : relative;
    double short_by = supplied - demanded;
    double bigger = supplied > demanded ? supplied : demanded;
    if (short_by > accepted * bigger || (!capped && -short_by > accepted * bigger)) {
        return OTA_INFEASIBLE;
    }
    double factor = 1.0;
    if ((!capped || short_by > 0.0) && demanded > 0.0) factor = supplied / demanded;

    if (bigger > 0.0) {
        int bits;
        (void)frexp(bigger, &bits);
        units->exponent = UNIT_BITS - bits;
    }
    for (int64_t i = 0; i < n; i++) supply[i] = units_round(mu[i], units->exponent);
    int64_t widest = 0;
    for (int64_t j = 0; j < m; j++) {
        double mass = nu[j] < limit ? nu[j] : limit;
        demand[j] = units_round(mass * factor, units->exponent);
        if (demand[j] > demand[widest]) widest = j;
    }
    units->total = units_sum(n, supply);
    if (m > 0) {
        /* Whole units that rounding lost or won, at most n + m of 2^60, go to the widest column. */
        int64_t difference = units_sum(m, demand) - units->total;
        if (!capped || difference < 0) demand[widest] -= difference;
        units->spare = capped && difference > 0 ? difference : 0;
    }
    units->rounding = (int64_t)(relative * (double)units->total) + n + m;
    units->allowance = (int64_t)(accepted * (double)units->total) + n + m;
    return OTA_OK;
}

int64_t ota_units_least(const ota_units *units, int64_t demand, double nu, double floor) {
    const double least = ldexp(floor * nu, units->exponent);
    return floor < 1.0 && least < (double)demand ? (int64_t)least : demand;
}

/* Nodes: rows 0 ... n-1, columns n ... n+m-1, and n+m for the row of spare capacity. */
typedef struct flow_graph {
    int64_t n, m;
    const ota_feasible_problem *problem;
    ota_units units;
    const uint8_t *support;             /* [n][m] */
    int64_t *supply, *demand;           /* [n], [m]: given */
    int64_t *supply_left, *demand_left; /* [n], [m]: not shipped yet */
    int64_t *flow;                      /* [m][n]: columns look up their rows */
    int32_t *level, *low;               /* [n+m+1] */
    int32_t *component, *stack, *path;  /* [n+m+1] */
    int64_t *cursor;                    /* [n+m+1] */
} flow_graph;

static void graph_layout(flow_graph *graph, ota_arena *arena, int64_t n, int64_t m) {
    size_t rows = (size_t)n;
    size_t columns = (size_t)m;
    size_t nodes = rows + columns + 1;
    size_t pairs = 0;
    if (!ota_size_mul(rows, columns, &pairs)) arena->overflowed = true;
    graph->supply = ota_arena_take(arena, rows, sizeof(int64_t));
    graph->demand = ota_arena_take(arena, columns, sizeof(int64_t));
    graph->supply_left = ota_arena_take(arena, rows, sizeof(int64_t));
    graph->demand_left = ota_arena_take(arena, columns, sizeof(int64_t));
    graph->flow = ota_arena_take(arena, pairs, sizeof(int64_t));
    graph->level = ota_arena_take(arena, nodes, sizeof(int32_t));
    graph->low = ota_arena_take(arena, nodes, sizeof(int32_t));
    graph->component = ota_arena_take(arena, nodes, sizeof(int32_t));
    graph->stack = ota_arena_take(arena, nodes, sizeof(int32_t));
    graph->path = ota_arena_take(arena, nodes, sizeof(int32_t));
    graph->cursor = ota_arena_take(arena, nodes, sizeof(int64_t));
}

size_t ota_feasible_workspace(int64_t n, int64_t m) {
    if (n < 0 || m < 0 || n >= INT32_MAX || m >= INT32_MAX || n + m >= INT32_MAX - 1)
        return SIZE_MAX;
    ota_arena arena = {0};
    flow_graph graph;
    graph_layout(&graph, &arena, n, m);
    return ota_arena_overflowed(&arena) ? SIZE_MAX : arena.used;
}

/* Levels from the rows that still have supply; true when some column with demand left is reached. */
static bool find_levels(flow_graph *graph, ota_watch *watch) {
    int64_t n = graph->n;
    int64_t m = graph->m;
    int64_t head = 0;
    int64_t tail = 0;
    int32_t last = INT32_MAX;
    for (int64_t node = 0; node < n + m; node++) graph->level[node] = -1;
    for (int64_t i = 0; i < n; i++) {
        if (graph->supply_left[i] > 0) {
            graph->level[i] = 0;
            graph->stack[tail++] = (int32_t)i;
        }
    }
    while (head < tail && !ota_watch_ends(watch, n + m)) {
        int64_t node = graph->stack[head++];
        int32_t next = graph->level[node] + 1;
        if (next > last) break;
        if (node < n) {
            const uint8_t *row = graph->support + node * m;
            for (int64_t j = 0; j < m; j++) {
                if (row[j] == 0 || graph->level[n + j] >= 0) continue;
                graph->level[n + j] = next;
                graph->stack[tail++] = (int32_t)(n + j);
                if (graph->demand_left[j] > 0) last = next;
            }
        } else {
            const int64_t *column = graph->flow + (node - n) * n;
            for (int64_t i = 0; i < n; i++) {
                if (column[i] == 0 || graph->level[i] >= 0) continue;
                graph->level[i] = next;
                graph->stack[tail++] = (int32_t)i;
            }
        }
    }
    return last != INT32_MAX;
}

/* The next node below `node` in the level graph, or -1; the cursor stays on it for the next path. */
static int64_t descend(flow_graph *graph, int64_t node) {
    int64_t n = graph->n;
    int64_t m = graph->m;
    int32_t next = graph->level[node] + 1;
    int64_t *cursor = &graph->cursor[node];
    if (node < n) {
        const uint8_t *row = graph->support + node * m;
        for (; *cursor < m; ++*cursor) {
            if (row[*cursor] != 0 && graph->level[n + *cursor] == next) return n + *cursor;
        }
    } else {
        const int64_t *column = graph->flow + (node - n) * n;
        for (; *cursor < n; ++*cursor) {
            if (column[*cursor] > 0 && graph->level[*cursor] == next) return *cursor;
        }
    }
    return -1;
}

/* Ships along path[0 ... length-1] (row, column, row ... column) as much as it takes. */
static void ship(flow_graph *graph, int64_t length) {
    int64_t n = graph->n;
    const int32_t *path = graph->path;
    int64_t first = path[0];
    int64_t last = path[length - 1] - n;
    int64_t amount = graph->supply_left[first];
    if (graph->demand_left[last] < amount) amount = graph->demand_left[last];
    for (int64_t k = 1; k + 1 < length; k += 2) {
        int64_t back = graph->flow[(path[k] - n) * n + path[k + 1]];
        if (back < amount) amount = back;
    }
    graph->supply_left[first] -= amount;
    graph->demand_left[last] -= amount;
    for (int64_t k = 0; k + 1 < length; k++) {
        if (path[k] < n) {
            graph->flow[(path[k + 1] - n) * n + path[k]] += amount;
        } else {
            graph->flow[(path[k] - n) * n + path[k + 1]] -= amount;
        }
    }
}

/* Exhausts the level graph from one row. */
static void block_from(flow_graph *graph, int64_t row, ota_watch *watch) {
    int64_t length = 1;
    graph->path[0] = (int32_t)row;
    while (length > 0 && graph->supply_left[row] > 0 && !ota_watch_ends(watch, graph->m / 8)) {
        int64_t node = graph->path[length - 1];
        if (node >= graph->n && graph->demand_left[node - graph->n] > 0) {
            ship(graph, length);
            length = 1;
            continue;
        }
        int64_t next = descend(graph, node);
        if (next >= 0) {
            graph->path[length++] = (int32_t)next;
        } else {
            length--;
            if (length > 0) graph->cursor[graph->path[length - 1]]++;
        }
    }
}

static bool has_floors(const flow_graph *graph) {
    const ota_feasible_problem *problem = graph->problem;
    return problem->masses.capped && (problem->floors != NULL || problem->floor > 0.0);
}

static int64_t least_of(const flow_graph *graph, int64_t j) {
    const ota_feasible_problem *problem = graph->problem;
    if (!has_floors(graph) || j >= problem->floored) return 0;
    return ota_units_least(&graph->units, graph->demand[j], problem->masses.nu[j],
                           problem->floors != NULL ? problem->floors[j] : problem->floor);
}

/* Ships what it can of the demand that is left. */
static ota_status augment(flow_graph *graph, ota_watch *watch) {
    int64_t nodes = graph->n + graph->m;
    while (find_levels(graph, watch)) {
        for (int64_t node = 0; node < nodes; node++) graph->cursor[node] = 0;
        for (int64_t i = 0; i < graph->n; i++) {
            if (graph->supply_left[i] > 0) block_from(graph, i, watch);
            if (i % ROWS_PER_QUESTION == 0) {
                ota_status status = ota_watch_ask(watch);
                if (status != OTA_OK) return status;
            }
        }
    }
    return ota_watch_ask(watch);
}

/* The units that are missing in the least sums. */
static ota_status maximise_flow(flow_graph *graph, ota_watch *watch, int64_t *missing) {
    memcpy(graph->supply_left, graph->supply, (size_t)graph->n * sizeof(int64_t));
    memset(graph->flow, 0, (size_t)graph->n * (size_t)graph->m * sizeof(int64_t));
    *missing = 0;
    if (has_floors(graph)) {
        for (int64_t j = 0; j < graph->m; j++) graph->demand_left[j] = least_of(graph, j);
        const ota_status status = augment(graph, watch);
        if (status != OTA_OK) return status;
        *missing = units_sum(graph->m, graph->demand_left);
        for (int64_t j = 0; j < graph->m; j++)
            graph->demand_left[j] += graph->demand[j] - least_of(graph, j);
    } else {
        memcpy(graph->demand_left, graph->demand, (size_t)graph->m * sizeof(int64_t));
    }
    return augment(graph, watch);
}

/* May a column give up some of its sum? */
static bool above_floor(const flow_graph *graph, int64_t j, int64_t slack) {
    if (!has_floors(graph)) return true;
    const int64_t sum = graph->demand[j] - graph->demand_left[j];
    return sum - least_of(graph, j) > slack;
}

/* The residual graph's next edge out of `node` at or after its cursor, or -1. */
static int64_t residual_next(flow_graph *graph, int64_t node, int64_t slack) {
    int64_t n = graph->n;
    int64_t m = graph->m;
    int64_t *cursor = &graph->cursor[node];
    if (node < n || node == n + m) {
        const uint8_t *row = node < n ? graph->support + node * m : NULL;
        if (node < n && graph->supply[node] == 0) return -1;
        while (*cursor < m) {
            int64_t j = (*cursor)++;
            const bool joined = row == NULL ? above_floor(graph, j, slack) : row[j] != 0;
            if (joined && graph->demand[j] > 0) return n + j;
        }
        return -1;
    }
    int64_t j = node - n;
    const int64_t *column = graph->flow + j * n;
    while (*cursor < n) {
        int64_t i = (*cursor)++;
        if (column[i] > 0 &&
            ota_units_matter(column[i], graph->supply[i], graph->demand[j], slack)) {
            return i;
        }
    }
    if (*cursor == n) {
        ++*cursor;
        if (graph->demand_left[j] > slack) return n + m;
    }
    return -1;
}

/* Where Tarjan's walk stands. */
typedef struct census {
    int32_t numbered, finished;
    int64_t stacked;
} census;

/* From one root. Components are numbered as they are finished: no edge leads to a higher number. */
static void components_from(flow_graph *graph, int64_t root, int64_t slack, census *walk,
                            ota_watch *watch) {
    int64_t length = 0;
    graph->path[length++] = (int32_t)root;
    graph->level[root] = graph->low[root] = walk->numbered++;
    graph->stack[walk->stacked++] = (int32_t)root;
    while (length > 0 && !ota_watch_ends(watch, 8)) {
        int64_t node = graph->path[length - 1];
        int64_t next = residual_next(graph, node, slack);
        if (next >= 0) {
            if (graph->level[next] < 0) {
                graph->path[length++] = (int32_t)next;
                graph->level[next] = graph->low[next] = walk->numbered++;
                graph->stack[walk->stacked++] = (int32_t)next;
            } else if (graph->component[next] < 0 && graph->level[next] < graph->low[node]) {
                graph->low[node] = graph->level[next];
            }
            continue;
        }
        length--;
        if (length > 0) {
            int64_t above = graph->path[length - 1];
            if (graph->low[node] < graph->low[above]) graph->low[above] = graph->low[node];
        }
        if (graph->low[node] == graph->level[node]) {
            int64_t member;
            do {
                member = graph->stack[--walk->stacked];
                graph->component[member] = walk->finished;
            } while (member != node);
            walk->finished++;
        }
    }
}

static ota_status find_components(flow_graph *graph, int64_t slack, ota_watch *watch) {
    int64_t nodes = graph->n + graph->m + 1;
    census walk = {0};
    for (int64_t node = 0; node < nodes; node++) {
        graph->level[node] = -1;
        graph->component[node] = -1;
        graph->cursor[node] = 0;
    }
    for (int64_t node = 0; node < nodes; node++) {
        if (graph->level[node] < 0) components_from(graph, node, slack, &walk, watch);
        if (ota_watch_ends(watch, 1)) break;
    }
    return ota_watch_ask(watch);
}

/* A row or exact column with mass must touch the other side: no tolerance applies to that. */
static bool all_touched(flow_graph *graph, bool capped) {
    int64_t n = graph->n;
    int64_t m = graph->m;
    uint8_t *reached = (uint8_t *)graph->level;
    memset(reached, 0, (size_t)m);
    for (int64_t i = 0; i < n; i++) {
        if (graph->supply[i] == 0) continue;
        const uint8_t *row = graph->support + i * m;
        bool touched = false;
        for (int64_t j = 0; j < m; j++) {
            if (row[j] == 0 || graph->demand[j] == 0) continue;
            touched = true;
            reached[j] = 1;
        }
        if (!touched) return false;
    }
    for (int64_t j = 0; j < m; j++) {
        const int64_t least = capped ? least_of(graph, j) : graph->demand[j];
        if (least > 0 && reached[j] == 0) return false;
    }
    return true;
}

ota_status ota_feasible(const ota_feasible_problem *problem, uint8_t *usable, int32_t *order,
                        ota_feasible_counts *counts, void *workspace) {
    int64_t n = problem->masses.n;
    int64_t m = problem->masses.m;
    size_t bytes = ota_feasible_workspace(n, m);
    if (bytes == SIZE_MAX) return OTA_EOVERFLOW;
    ota_arena arena = {.base = workspace, .size = bytes};
    flow_graph graph = {.n = n, .m = m, .problem = problem, .support = problem->support};
    graph_layout(&graph, &arena, n, m);

    ota_status status = ota_units_of(&problem->masses, graph.supply, graph.demand, &graph.units);
    const ota_units units = graph.units;
    if (status != OTA_OK) return status;
    if (!all_touched(&graph, problem->masses.capped)) return OTA_INFEASIBLE;
    int64_t missing;
    ota_watch watch = problem->watch;
    status = maximise_flow(&graph, &watch, &missing);
    if (status != OTA_OK) return status;
    if (missing > units.allowance) return OTA_INFEASIBLE;
    if (units_sum(n, graph.supply_left) > units.allowance) return OTA_INFEASIBLE;

    /* Below the allowance a flow may come from masses that are equal but for rounding. */
    status = find_components(&graph, units.allowance, &watch);
    if (status != OTA_OK) return status;
    ota_feasible_counts found = {0};
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) {
            bool allowed =
                problem->support[i * m + j] != 0 && graph.supply[i] > 0 && graph.demand[j] > 0;
            bool carries = allowed && graph.component[i] == graph.component[n + j];
            found.allowed += allowed;
            found.usable += carries;
            if (usable != NULL) usable[i * m + j] = carries;
        }
    }
    found.unusable = found.allowed - found.usable;
    if (order != NULL) memcpy(order, graph.component, (size_t)(n + m + 1) * sizeof *order);
    *counts = found;
    return OTA_OK;
}
