/* plain.h: the plain backend, the whole operator as double loops over stored numbers.
 *
 *     S_ij [rows][stride] -> row solve -> P_ij -> out_i = sum_j D_ij P_ij V_j
 *
 * Every number is f64, whatever the types of the arrays. Heads run side by side; one head is one thread's.
 *
 * This folder shares nothing with backend/cpu, and is the start for whoever writes a third backend: device and
 * memory (plain_backend.c), scores and weights of one row (plain_rows.c), heads and their outputs (plain_heads.c),
 * passes of the solvers (plain_passes.c), backward (plain_gradient.c), linear algebra and costs for solvers
 * (algebra.c). It has no small heads. */
#ifndef OTA_PLAIN_H
#define OTA_PLAIN_H

#include "backend/backend.h"

typedef struct ota_device ota_plain_device;

enum { OTA_PLAIN_LANE = 16 }; /* backend.h: strides are multiples of 16 */

/* Where one head at a time is worked on. Lengths: queries and keys are the caller's, rows and columns the solver's. */
typedef struct plain_place {
    ota_run *run;
    ota_head *head;        /* coupled */
    int64_t batch, number; /* of the head */
    ota_head_status *status;
    double *row, *open; /* [longer side] scores; scores of keys with room */
    double *weights;    /* [longer side] */
    double *room;       /* [keys] capacity left, online */
    double *receiver;   /* [keys] sum_i P_ij */
    /* coupled and transposed heads */
    double *scores;    /* [rows][stride] */
    double *plan;      /* [rows][stride] where the solver leaves the plan itself */
    double *queries_p; /* [queries][keys] P of the transposed problem, as the caller sees it */
    double *f, *g, *mu, *nu, *lambdas;
    ota_far far;     /* its vectors: [longer side] */
    void *workspace; /* the solver's */
} plain_place;

struct ota_device {
    ota_layout layout;
    const ota_resolved *resolved;
    bool stored;     /* scores of a head are stored: coupled or transposed */
    bool transposed; /* rows are keys */
    int64_t rows, columns, stride;
    int64_t key_count; /* keys that exist: all, or those of a decode step */
    int64_t place_count;
    plain_place *places;
};

extern const ota_backend ota_plain_backend;
extern const ota_host_algebra ota_plain_algebra;
extern const struct ota_gradient_passes ota_plain_gradient;

/* A sum and what its additions have rounded away: 1 and a hundred thousand numbers below its last bit make more. */
typedef struct plain_sum {
    double total, lost;
} plain_sum;

static inline void ota_plain_add(plain_sum *sum, double x) {
    const double next = sum->total + x;
    sum->lost += sum->total >= x ? (sum->total - next) + x : (x - next) + sum->total;
    sum->total = next;
}

/* ---- rows.c: one row ---------------------------------------------------------------------------- */

/* Scores of one query to every key, -inf where the pair is forbidden. */
void ota_plain_scores(const ota_plain_device *device, int64_t batch, int64_t head, int64_t query,
                      double *to);
/* The same from raw products; row[0] belongs to key `begin`. */
void ota_plain_row_scores(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                          int64_t begin, int64_t end, double *row);
/* Weights p of mass mu from scores s and column potentials h (NULL: 0); p may be s. */
void ota_plain_row_solve(const ota_row_parameters *row, const double *s, const double *h,
                         int64_t count, double mu, double *p, ota_row_found *found);
/* Weights from both potentials as they are; p may be s. */
void ota_plain_row_weights(const ota_row_parameters *row, const double *s, const double *h,
                           int64_t count, double f, double *p, ota_row_found *found);
/* Weights of at most room[j], which they lower; `open` [count] is scratch. */
void ota_plain_row_online(const ota_row_parameters *row, const double *s, int64_t count, double mu,
                          double *room, double *p, double *open, ota_row_found *found);

/* ---- plain_heads.c, plain_passes.c: the functions of backend.h ------------------------------------------------ */

void ota_plain_run_rows(ota_run *run);
void ota_plain_begin_head(ota_run *run, int64_t index, int64_t place, bool narrow, bool keep_g,
                          ota_head *head);
bool ota_plain_load(ota_head *head);
void ota_plain_emit(ota_head *head);
void ota_plain_gather(ota_head *head);
/* LSE_i((s_i + f_i) / t) of a column of scores, a row every `stride`. */
double ota_plain_column_lse(const double *s, int64_t stride, int64_t rows, const double *f,
                            double t);
void ota_plain_lay_out_passes(ota_passes *passes, ota_arena *arena, bool kernel);
void ota_plain_row_pass(ota_passes *passes, double t, double omega);
void ota_plain_column_pass(ota_passes *passes, double t);
void ota_plain_final_pass(ota_passes *passes);

#endif
