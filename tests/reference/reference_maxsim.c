#include "reference_maxsim.h"

#include <math.h>

static double product(const double *a, const double *b, int64_t width) {
    double sum = 0.0;
    for (int64_t w = 0; w < width; w++) sum += a[w] * b[w];
    return sum;
}

typedef struct choice {
    const double *query, *document;
    int64_t n, m, width, capacity, served;
    int64_t used[16];
} choice;

/* The best sum of query tokens from i on, of which `left` are still to be served. */
static double best_from(choice *c, int64_t i, int64_t left) {
    if (left == 0) return 0.0;
    if (i == c->n) return -INFINITY;
    double best = best_from(c, i + 1, left);
    for (int64_t j = 0; j < c->m; j++) {
        if (c->used[j] == c->capacity) continue;
        c->used[j]++;
        const double here = product(c->query + i * c->width, c->document + j * c->width, c->width) +
                            best_from(c, i + 1, left - 1);
        c->used[j]--;
        best = fmax(best, here);
    }
    return best;
}

double reference_maxsim(const double *query, int64_t n, const double *document, int64_t m,
                        int64_t width, int64_t capacity) {
    double sum = 0.0;
    if (n == 0) return 0.0;
    if (m == 0) return -INFINITY;
    if (capacity > 0) {
        choice c = {.query = query,
                    .document = document,
                    .n = n,
                    .m = m,
                    .width = width,
                    .capacity = capacity};
        return best_from(&c, 0, capacity >= n || capacity * m >= n ? n : capacity * m);
    }
    for (int64_t i = 0; i < n; i++) {
        double best = -INFINITY;
        for (int64_t j = 0; j < m; j++) {
            const double here = product(query + i * width, document + j * width, width);
            if (isnan(here) || isinf(here)) return NAN;
            best = fmax(best, here);
        }
        sum += best;
    }
    return sum;
}

double reference_maxsim_size(const double *query, int64_t n, const double *document, int64_t m,
                             int64_t width) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double most = 0.0;
        for (int64_t j = 0; j < m; j++) {
            double here = 0.0;
            for (int64_t w = 0; w < width; w++)
                here += fabs(query[i * width + w] * document[j * width + w]);
            most = fmax(most, here);
        }
        sum += most;
    }
    return sum;
}
