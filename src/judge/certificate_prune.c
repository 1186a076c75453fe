/* Which allowed pairs no feasible plan with exact columns can use, found from one feasible plan P [n, m]
 * alone [DER-24]. Weight can be moved along a cycle of the graph
 *
 *     row i -> column j      the pair is allowed
 *     column j -> row i      P_ij > 0
 *     row i -> sink          there is one; it is the last column, m
 *     sink -> row i          the sink took something from row i
 *
 * so pair (i, j) is on some feasible plan exactly if i and j are in one strongly connected component.
 * Every feasible plan is 0 on the other pairs: leaving them out changes no primal value, and the dual
 * of what remains is attained. A pair that was pruned by mistake stays in and widens the gap. */
#include <string.h>

#include "certificate_head.h"

/* Of the graph below: numbers a node. */
enum { LINES = 6 };

typedef struct graph {
    ota_watch *watch;
    int64_t n, m;            /* nodes: rows, then columns, then the sink */
    size_t stride;           /* bytes a row of bits, m + 1 of them */
    unsigned char *allowed;  /* [n][m + 1] bits; the last one is the sink */
    unsigned char *carries;  /* the same, of P_ij > 0 */
    int64_t *cursor;         /* [nodes] the next neighbour to look at */
    int64_t *index, *low;    /* [nodes] order of discovery, 0 = not yet; least index reached */
    int64_t *path, *waiting; /* [nodes] stacks: the walk, and nodes without a component */
    int64_t *component;      /* [nodes] -1 = none yet */
} graph;

static bool bit(const unsigned char *bits, size_t stride, int64_t i, int64_t j) {
    return (bits[(size_t)i * stride + (size_t)j / 8] >> (j % 8) & 1) != 0;
}

static void set_bit(unsigned char *bits, size_t stride, int64_t i, int64_t j) {
    unsigned char *byte = bits + (size_t)i * stride + (size_t)j / 8;
    *byte = (unsigned char)(*byte | 1u << (j % 8));
}

/* The next neighbour of `node`, -1 when all were seen. */
static int64_t next_neighbour(graph *x, int64_t node) {
    int64_t *at = x->cursor + node;
    if (node < x->n) {
        while (*at <= x->m) {
            const int64_t j = (*at)++;
            if (bit(x->allowed, x->stride, node, j)) return x->n + j;
        }
        return -1;
    }
    const int64_t j = node - x->n;
    while (*at < x->n) {
        const int64_t i = (*at)++;
        if (bit(x->carries, x->stride, i, j)) return i;
    }
    return -1;
}

/* Tarjan's walk from one node, without recursion. */
static void walk(graph *x, int64_t start, int64_t *found, int64_t *waiting, int64_t *components) {
    int64_t depth = 0;
    x->path[depth++] = start;
    while (depth > 0 && !ota_watch_ends(x->watch, 8)) {
        const int64_t node = x->path[depth - 1];
        if (x->index[node] == 0) {
            x->index[node] = x->low[node] = ++*found;
            x->waiting[(*waiting)++] = node;
        }
        const int64_t next = next_neighbour(x, node);
        if (next >= 0) {
            if (x->index[next] == 0)
                x->path[depth++] = next;
            else if (x->component[next] < 0 && x->index[next] < x->low[node])
                x->low[node] = x->index[next];
            continue;
        }
        depth--;
        if (depth > 0 && x->low[node] < x->low[x->path[depth - 1]])
            x->low[x->path[depth - 1]] = x->low[node];
        if (x->low[node] < x->index[node]) continue;
        int64_t member;
        do {
            member = x->waiting[--*waiting];
            x->component[member] = *components;
        } while (member != node);
        ++*components;
    }
}

static void load_bits(ota_judge_head *k, graph *x) {
    memset(x->allowed, 0, (size_t)k->n * x->stride);
    memset(x->carries, 0, (size_t)k->n * x->stride);
    for (int64_t i = 0; i < k->n && !ota_watch_ends(&k->watch, k->at.pairs); i++) {
        double rest;
        if (ota_judge_load_scores(k, i) != OTA_JUDGE_NORMAL) continue;
        const double mu = ota_judge_mass_of(k, i);
        if (!(mu > 0.0)) continue;
        (void)ota_judge_load_weights(k, i, mu, &rest);
        for (int64_t j = 0; j < k->m; j++) {
            if (!(k->at.s[j] > -INFINITY) || !(k->target[j] > 0.0)) continue;
            set_bit(x->allowed, x->stride, i, j);
            if (k->at.p[j] > 0.0) set_bit(x->carries, x->stride, i, j);
        }
        if (!(k->method.sink > -INFINITY)) continue;
        set_bit(x->allowed, x->stride, i, k->m);
        if (rest > 0.0) set_bit(x->carries, x->stride, i, k->m);
    }
}

size_t ota_judge_components_bytes(int64_t n, int64_t m) {
    const size_t nodes = (size_t)(n + m) + 1, stride = (size_t)m / 8 + 1;
    size_t bits, lines, bytes;
    if (__builtin_mul_overflow((size_t)n, 2 * stride, &bits) ||
        __builtin_mul_overflow(nodes, LINES * sizeof(int64_t), &lines) ||
        __builtin_add_overflow(bits, lines, &bytes))
        return SIZE_MAX;
    return bytes;
}

void ota_judge_find_components(ota_judge_head *k) {
    const int64_t nodes = k->n + k->m + 1;
    graph x = {.watch = &k->watch,
               .n = k->n,
               .m = k->m,
               .stride = (size_t)k->m / 8 + 1,
               .component = k->component};
    int64_t *const block = k->component + nodes;
    x.cursor = block;
    x.index = block + nodes;
    x.low = block + 2 * nodes;
    x.path = block + 3 * nodes;
    x.waiting = block + 4 * nodes;
    x.allowed = (unsigned char *)(block + 5 * nodes);
    x.carries = x.allowed + (size_t)k->n * x.stride;
    for (int64_t node = 0; node < nodes; node++) x.component[node] = -1;
    memset(block, 0, (size_t)nodes * (LINES - 1) * sizeof *block);
    load_bits(k, &x);
    int64_t found = 0, waiting = 0, components = 0;
    for (int64_t node = 0; node < nodes; node++) {
        if (x.index[node] == 0) walk(&x, node, &found, &waiting, &components);
        if (ota_watch_ends(&k->watch, 1)) return;
    }
}

void ota_judge_leave_out(ota_judge_head *k, int64_t i) {
    for (int64_t j = 0; j < k->m; j++) {
        if (k->component[k->n + j] != k->component[i]) k->at.s[j] = -INFINITY;
    }
}
