/* gauge_state.h: what the minimax alignment works on, and the passes its files share. */
#ifndef OTATTN_ANALYSIS_GAUGE_STATE_H
#define OTATTN_ANALYSIS_GAUGE_STATE_H

#include "gauge.h"

typedef struct gauge_state gauge_state;

/* Some columns at a time: entries of a row; of each column min_i D_ij - k_i, where, and max_i. */
typedef struct gauge_strip {
    double entries[STRIP];
    double low[STRIP];
    double high[STRIP];
    int64_t low_at[STRIP];
    double widest; /* largest change of a step on it */
} gauge_strip;

/* Changes v on a strip from low and high of its columns, and nothing else of the state; returns whether anything changed. */
typedef bool gauge_column_step(gauge_state *s, gauge_strip *strip, int64_t first, int64_t count);

/* What a step made of some columns. */
typedef struct gauge_piece {
    bool changed;
    double widest;
} gauge_piece;

/* The policy: for every row a column, for every column a row. */
typedef struct gauge_policy {
    int64_t *row_at, *column_at; /* column of row i, row of column j */
    int64_t *head, *next;        /* [rows]: its tree, and marks */
    int64_t *stack;              /* [rows] */
    int64_t root;
} gauge_policy;

/* The certificate: the cycle behind `lower`. */
typedef struct gauge_cycle {
    int64_t *rows; /* [rows] */
    int64_t *columns;
    int64_t length;
} gauge_cycle;

struct gauge_state {
    const analysis_call *call;
    matrix d;
    const ota_gauge_options *options;
    double *k, *v;              /* [rows], [columns] */
    double *other_k, *other_v;  /* another pair of shifts */
    double *row_low, *row_high; /* [rows]: min_j, max_j D_ij - v_j of the last scan */
    int64_t *moved;             /* [rows] or NULL: only these rows changed since the last scan */
    gauge_policy policy;
    gauge_cycle cycle;
    gauge_piece *pieces;         /* of the columns, of the scan at hand */
    double eta;                  /* what the column step works with */
    double scale, slack, widest; /* max |D_ij|; rounding of D - k - v; largest change of a pass */
    double lower;
    int64_t passes;
    int64_t told;    /* calls of the progress callback */
    double *numbers; /* what all of these lie in */
    int64_t *places;
};

/* `step`, when there is one, on all columns, a task a piece of them; then the rows' extremes with the shifts it left, a
 * task some rows. high_at [rows] or NULL receives where the row maxima are. With `moved`, the
 * extremes are those over rows and strips that changed. */
ota_status ota_gauge_scan(gauge_state *s, gauge_column_step *step, int64_t *high_at, bool *changed);
/* The best cycle of the policy: its mean becomes eta, a row of it the root, and it becomes the
 * certificate when it is the best so far. */
void ota_gauge_best_cycle(gauge_state *s);
/* A column step: v_j = midrange of D_ij - k_i. */
bool ota_gauge_centre_columns(gauge_state *s, gauge_strip *strip, int64_t first, int64_t count);
/* k_i = midrange of D_ij - v_j of the last scan. */
void ota_gauge_centre_rows(gauge_state *s);
/* Row midranges at v = 0, column midranges, row midranges: a start, with its policy. */
ota_status ota_gauge_start(gauge_state *s);
/* Policy iteration from there. */
ota_status ota_gauge_howard(gauge_state *s);
/* k the greatest (sign 1, v the least) or the least (sign -1) with k_0 = 0 and residual eta. */
ota_status ota_gauge_extreme(gauge_state *s, double sign);
/* The tie rule: the centre between the two, at the eta that Howard's shifts have. */
ota_status ota_gauge_centre(gauge_state *s);
/* max |D_ij - k_i - v_j| of the last scan. */
double ota_gauge_largest_rest(const gauge_state *s);

/* Memory of a state but for its matrix and options; false without. */
bool ota_gauge_allocate(gauge_state *s);
void ota_gauge_release(gauge_state *s);

/* Howard's answer and the tie rule where columns are many: see gauge_active.c. */
ota_status ota_gauge_active(gauge_state *s);

#endif
