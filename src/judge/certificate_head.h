/* One head under judgement, shared by certificate.c (what is measured) and certificate_dual.c
 * (rows, weights and the lower bound). n rows, m columns of the problem that is really solved:
 * with axis columns, rows are keys. certificate.c takes the memory of all lines and gives it back. */
#ifndef OTA_CERTIFICATE_HEAD_H
#define OTA_CERTIFICATE_HEAD_H

#include "judge_scores.h"

/* Which power alpha - 1 and 1 / (alpha - 1) are, where no logarithm is needed for it. */
typedef enum ota_judge_power {
    OTA_JUDGE_ANY_POWER,
    OTA_JUDGE_SQUARE_ROOT, /* alpha = 1.5: p^(1/2), its inverse a square */
    OTA_JUDGE_IDENTITY,    /* alpha = 2 */
    OTA_JUDGE_SQUARE       /* alpha = 3 */
} ota_judge_power;

typedef struct ota_judge_head {
    const ota_resolved *r;
    const ota_arrays *a;
    bool swapped; /* axis columns: rows are keys */
    int64_t n, m; /* rows and columns of the problem that is solved */
    int64_t batch, head;
    ota_watch watch; /* a certificate of a call that is to end is nobody's */
    double mass;
    /* of the problem */
    struct {
        double tau, order, sink;  /* order: 1 entropy, 0 hard, else alpha */
        ota_judge_power power;    /* alpha - 1 as an exponent */
        const ota_custom *custom; /* NULL: a regulariser of ours */
        bool capped;              /* entries have caps */
        double row_strength;
        ota_column_rule rule;
    } method;
    /* which of the outputs are there to be judged */
    struct {
        bool coupling, g, f;
    } given;
    /* the row at hand, written by the loads below */
    struct {
        int64_t row, pairs; /* pairs: what a row of scores takes */
        double *s, *p;      /* [m] */
    } at;
    double *f;      /* [n] given potentials; Tsallis: less tau / (alpha - 1) */
    double *g;      /* [m] given or recovered */
    double *target; /* [m] nu, or capacities */
    double *nu;     /* [m] the masses delta is measured from */
    double *left;   /* [m] online: capacity left so far */
    double *gather; /* [m + 1] */
    double *fixed;
    ota_judge_sum *column; /* [m] */
    bool *used;            /* [m] some row with mass may use the column */
    int64_t *component;    /* prune: [n + m + 1], then room to find them (certificate_prune.c) */
} ota_judge_head;

typedef enum ota_judge_row_kind {
    OTA_JUDGE_NORMAL,
    OTA_JUDGE_EMPTY,    /* no allowed key and no sink */
    OTA_JUDGE_NONFINITE /* met NaN or +inf */
} ota_judge_row_kind;

double ota_judge_mass_of(const ota_judge_head *k, int64_t i);

/* Scores of row i into k->at.s. */
ota_judge_row_kind ota_judge_load_scores(ota_judge_head *k, int64_t i);
/* Weights of the row whose scores are loaded into k->at.p; returns their sum with the sink's, *rest.
 * From potentials of online columns, k->left is lowered: ask once per row. */
double ota_judge_load_weights(ota_judge_head *k, int64_t i, double mu, double *rest);

/* The cap of pair (k->at.row, j) by the definition; INFINITY without one. */
double ota_judge_cap(const ota_judge_head *k, int64_t j);

/* tau R(p) of one weight whose logarithm is given, and c log(c / nu) - c + nu with its limits. */
double ota_judge_regulariser(const ota_judge_head *k, double p, double log_p);
double ota_judge_divergence(double c, double nu);

/* The row's share of the dual at the best f for k->g; *distance is the l1 distance of the loaded
 * weights from the row that this f and g define. */
double ota_judge_row_dual(ota_judge_head *k, double mu, double rest, double *distance);
/* The columns' share. */
double ota_judge_column_dual(const ota_judge_head *k);

/* Makes k->g from the coupling and its column sums; false where nothing can be said. */
bool ota_judge_recover_potentials(ota_judge_head *k);

/* What k->component takes, 2 (m + 1) n bits for the search among them; SIZE_MAX where that overflows. */
size_t ota_judge_components_bytes(int64_t n, int64_t m);
/* Fills k->component from the coupling and k->column. */
void ota_judge_find_components(ota_judge_head *k);
/* Takes pairs that no feasible plan can use out of the scores of row i, which are loaded. */
void ota_judge_leave_out(ota_judge_head *k, int64_t i);

#endif
