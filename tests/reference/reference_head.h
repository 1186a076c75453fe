/* One head of the reference as plain double matrices, and the three plain ways of solving it. n
 * rows, m columns; with axis columns the head is already transposed. */
#ifndef OTA_REFERENCE_HEAD_H
#define OTA_REFERENCE_HEAD_H

#include "judge/judge_scores.h"

typedef struct ota_reference_head {
    int64_t n, m;
    /* given */
    double *s;         /* [n][m], -inf = forbidden */
    double *mu;        /* [n], 0 for empty rows */
    double *nu;        /* [m] targets; capacities for capped and online, upper bounds for bounded */
    double capacity;   /* online: the largest of a key, before any row took of it */
    double floor;      /* bounded: least sums in units of nu */
    double *lambda;    /* [m] elastic */
    double *cap;       /* [n][m] entry caps; NULL: none */
    double *cap_line;  /* [largest of n, m, + 1] those of one row or column */
    double tau, order; /* order: 1 entropy, 0 hard, else Tsallis alpha */
    double sink;       /* -inf: none */
    double mass;       /* sum of mu */
    double row_strength; /* +inf: rows exact */
    double strength;
    const ota_custom *custom; /* NULL: a regulariser of ours */
    double imbalance;         /* how far sum mu and sum nu may differ, relative */
    ota_column_rule rule;
    ota_side start, end;
    const ota_settings *settings;
    /* found */
    double *p;    /* [n][m] */
    double *f;    /* [n] */
    double *g;    /* [m] in: starting point */
    double *rest; /* [n] weight on the sink */
    int64_t rounds;
    double row_error, column_error;
    int64_t unusable, pruned, first_bad_row;
    char sentence[256];
} ota_reference_head;

static inline double *ota_reference_row(const ota_reference_head *head, double *matrix,
                                        int64_t row) {
    return matrix + row * head->m;
}

static inline bool ota_reference_is_entropy(const ota_reference_head *h) {
    return h->order >= 1.0 && h->order <= 1.0;
}

static inline bool ota_reference_is_tsallis(const ota_reference_head *h) {
    return h->custom == NULL && h->order > 0.0 && !ota_reference_is_entropy(h);
}

/* Of Tsallis rows f and every x = S + f + g lack this: next to order 1 it grows beyond all other numbers. */
static inline double ota_reference_offset(const ota_reference_head *h) {
    return ota_reference_is_tsallis(h) ? h->tau / (h->order - 1.0) : 0.0;
}

/* x of the weight p > 0 of a Tsallis or entropy row. */
static inline double ota_reference_level(const ota_reference_head *h, double tau, double p) {
    const double b = h->order - 1.0;
    return ota_reference_is_entropy(h) ? tau * log(p) : tau * expm1(b * log(p)) / b;
}

/* w(x), the weight at x; of orders below 1 it has no bound as x rises to its limit. */
static inline double ota_reference_weight(const ota_reference_head *h, double tau, double x) {
    if (!(x > -INFINITY)) return 0.0;
    if (h->custom != NULL) return h->custom->weight(h->custom->user, fmax(x / tau, -1e308));
    if (ota_reference_is_entropy(h)) return exp(x / tau);
    const double b = h->order - 1.0, z = b * x / tau;
    return z > -1.0 ? exp(log1p(z) / b) : b < 0.0 ? INFINITY : 0.0;
}

/* Regularised plans: the defining updates, a fixed number of rounds or to the limit of f64. Ends
 * with P, f, g and rest. OTA_OK, OTA_FIXED_ITERS, OTA_PARTIAL, OTA_NOT_CONVERGED, OTA_INFEASIBLE,
 * OTA_ENOMEM. */
ota_status ota_reference_scale(ota_reference_head *head);

/* Rows in order, each with p_j <= nu_j, which is lowered. */
ota_status ota_reference_online(ota_reference_head *head);

/* Hard plans: transport by successive shortest paths; free columns take the first largest score. */
ota_status ota_reference_hard(ota_reference_head *head);

/* May the masses be carried by the support at all, and by which pairs (usable [n][m], may be
 * NULL)? Sets head->unusable. OTA_OK, OTA_INFEASIBLE or OTA_ENOMEM. */
ota_status ota_reference_feasible(ota_reference_head *head, bool *usable);

/* row_error and column_error of head->p as the certificate defines them; returns the larger one. */
double ota_reference_residual(ota_reference_head *head);

#endif
