/* route_kernels.h: the kernels of otattn_route.h, f32 or f64 alike, on a block of tokens or on one expert. T is the type of the logits. */
#ifndef OTA_ROUTE_H
#define OTA_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    OTA_ROUTE_EXPERTS = 1 << 20, /* most */
    OTA_ROUTE_GROUP = 16,        /* rows that are chosen for at once, at most */
    OTA_ROUTE_SORTED = 16        /* numbers of a row that `best` has room for at least */
};

typedef struct ota_route_block {
    int64_t rows, experts;
    const void *logits; /* T [rows], `logits_stride` elements apart */
    int64_t logits_stride;
    void *kernel; /* T [rows][stride] K, 64-byte aligned */
    int64_t stride;
    double *sums;         /* [rows] of K */
    const void *v;        /* T [stride] */
    const void *biases;   /* T [stride] */
    const double *mass;   /* [rows] 1 / tokens */
    const double *floors; /* [rows] eps */
    double *u;            /* [rows] scratch */
    double *columns;      /* [experts] += u K */
    void *lines;          /* T [OTA_ROUTE_GROUP][stride] scratch */
    void *best;           /* T [take + 1 or OTA_ROUTE_SORTED, if more][OTA_ROUTE_GROUP] scratch */
    uint64_t *taken;      /* [stride / 64 + 1] scratch */
    int64_t take;
    int64_t *chosen; /* [rows][take] */
    double *shares;  /* [rows][take], or NULL */
    void *
        weights; /* T [rows][take]: the same, or, with `logistic`, the sigmoid of one logit; or NULL */
    bool logistic;
    int64_t *loads;   /* [experts] += 1 for each choice */
    void *thresholds; /* T [rows] */
    void *across;     /* T [experts], `across_stride` elements apart: the logits of these rows */
    int64_t across_stride;
    double value; /* out: the sum of the chosen logits */
} ota_route_block;

/* One expert among all tokens, and two places (from 0) of the rising list of t_i - s_i. */
typedef struct ota_route_expert {
    int64_t tokens, low, high;
    const void *thresholds, *logits; /* T [tokens] */
    void *kept;                      /* T [tokens + OTA_ROUTE_GROUP] scratch */
    double centre, width;            /* where the number at `low` is looked for first */
    double least, most;              /* out: the numbers at the places */
} ota_route_expert;

typedef struct ota_route_passes {
    /* K and its sums; the first row with a logit that is not finite, or -1 */
    int64_t (*form)(const ota_route_block *block);
    void (*round)(const ota_route_block *block);         /* u and columns */
    void (*choose_scaled)(const ota_route_block *block); /* the largest K v */
    void (*choose_biased)(const ota_route_block *block); /* the largest logits + biases */
    void (*count)(ota_route_block *block); /* of the choices: loads, shares, weights, value */
    /* between the take-th and the next largest of logits + biases */
    void (*thresholds)(const ota_route_block *block);
    void (*transpose)(const ota_route_block *block); /* across */
    void (*places)(ota_route_expert *expert);
} ota_route_passes;

#endif
