/* route.h: what the parts of otattn_route.h share: one call, its memory and its tasks on blocks of tokens. */
#ifndef OTA_BATCHES_ROUTE_H
#define OTA_BATCHES_ROUTE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend/batch_kernels.h"
#include "base/base.h"
#include "otattn_route.h"
#include "problem/problem.h"

enum { OTA_ROUTE_TOKENS = 256 /* of a block */ };

typedef struct ota_route_call {
    ota_routing problem;
    ota_settings settings;
    const ota_route_passes *passes, *wide; /* of the logits' type, and of f64 */
    bool narrow;
    int64_t tokens, experts, stride, blocks;
    size_t element;
    ota_pool *pool;      /* borrowed; NULL: this thread alone */
    int64_t least, most; /* loads where the caller gave none */
    unsigned char
        *kernel; /* T [tokens][stride] of Sinkhorn's rounds, [threads][TOKENS][stride] of others */
    void *v;     /* T [stride]: Sinkhorn's scaling, or the biases of a choice */
    double *biases; /* [stride] the potentials */
    double *next;   /* [experts] */
    /* T [experts][tokens]: of quantiles; [tokens][experts]: costs of the exact optimum */
    unsigned char *across;
    /* of passes, a share a thread */
    struct {
        unsigned char *lines, *best; /* f64 */
        double *raised;              /* [TOKENS][stride] logits in f64, of f32 ones */
        uint64_t *taken;             /* [words] */
    } scratch;
    /* Sinkhorn's */
    struct {
        double *sums;          /* [tokens] */
        double *columns;       /* [blocks][experts] */
        double *mass, *floors; /* [TOKENS] */
        double *u;             /* [threads][TOKENS] */
    } rounds;
    /* quantiles' */
    struct {
        unsigned char *thresholds; /* T [tokens] */
        unsigned char *kept;       /* T [threads][tokens + OTA_ROUTE_GROUP] */
        double *found, *widths;    /* [experts] */
    } quantile;
    /* what is answered */
    struct {
        int64_t *chosen;        /* [tokens][take] */
        double *shares;         /* [tokens][take], or NULL */
        unsigned char *weights; /* T [tokens][take], or NULL */
        int64_t *loads;         /* [blocks][experts] */
        int64_t *most_of;       /* [experts]: largest loads, of the exact optimum */
        double *values;         /* [blocks] */
        int64_t *proof;         /* [threads][TOKENS][take] choices that prove the bound */
    } choice;
    struct ota_route_order *order; /* [the larger of experts and tokens] */
    _Atomic int64_t nonfinite;     /* the first row that is not finite, or tokens */
} ota_route_call;

/* A number with its place, to be sorted. */
typedef struct ota_route_order {
    double number;
    int64_t place;
} ota_route_order;

/* Loads of expert j that are wanted. */
int64_t ota_route_lower(const ota_route_call *r, int64_t j);
int64_t ota_route_upper(const ota_route_call *r, int64_t j);

/* The arrays of block `index` as passes take them, with Sinkhorn's kernel or that of the worker. */
ota_route_block ota_route_block_of(const ota_route_call *r, int64_t index, int worker);

/* A block with its logits and biases in f64, for the passes `wide`. */
ota_route_block ota_route_wide_block(const ota_route_call *r, int64_t index, int worker);

/* Kernel and sums of a block whose first token is `first`; rows that are not finite are told in `nonfinite`. True: all are
 * finite. */
bool ota_route_form(ota_route_call *r, const ota_route_block *block, int64_t first);

/* The methods: potentials and, of Sinkhorn's and the exact one, choices. A status of the call. */
ota_status ota_route_sinkhorn(ota_route_call *r, ota_routing_result *found, ota_error *error);
ota_status ota_route_quantile(ota_route_call *r, ota_routing_result *found, ota_error *error);
ota_status ota_route_base(ota_route_call *r, ota_routing_result *found, ota_error *error);
ota_status ota_route_topk(ota_route_call *r, ota_routing_result *found, ota_error *error);

/* Is the call to end? Asked before each block; and with a sentence. */
bool ota_route_ends(const ota_route_call *r);
ota_status ota_route_interrupted(const ota_route_call *r, ota_error *error);

/* The first logit that is not finite. */
ota_status ota_route_report_nonfinite(const ota_route_call *r, ota_error *error);

/* Loads, value, potentials, bound, excess and what is kept, into the memory of `found`. */
void ota_route_answer(ota_route_call *r, ota_routing_result *found);

#endif
