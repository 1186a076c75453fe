/* identify.h: what the files of ota_identify share. A coupling P [heads, rows, columns] is held against
 *
 *     y(P_ij) = S_ij / tau + a_i + b_j   wherever P_ij > 0,   y = log P (order 1), P^(order-1) / (order-1)
 *
 * S being the scores with every term applied and -inf outside the support. */
#ifndef OTATTN_ANALYSIS_IDENTIFY_H
#define OTATTN_ANALYSIS_IDENTIFY_H

#include "analysis/analysis.h"

enum { IDENTIFY_ROWS = 1, IDENTIFY_COLUMNS = 2 };

typedef struct identify_data {
    const analysis_call *call;
    int64_t batch, heads, rows, columns, cells; /* heads: of all sequences; cells: all pairs */
    const double *coupling;                     /* P [cells] */
    double *scores;                             /* S [cells], -inf outside the support */
    double mass;                                /* sum of P */
    double *row_sum, *column_sum;               /* [heads * rows], [heads * columns] */
    double *row_mass, *column_mass;             /* what the problem asks for, the same sizes */
    /* filled by a regression */
    double *transformed, *weights;      /* y, w = P^(2 - order) [cells], w = 0 where P = 0 */
    double *row_effect, *column_effect; /* a, b */
    double *score_row, *score_column;   /* effects of S alone */
    double *work;                       /* [3 heads * rows + 4 heads * columns] */
    unsigned char *left_out; /* [heads * columns]: columns without a say in a regression */
    /* connected part of the support each row and column lies in, a label below heads * (rows +
       columns): effects are known up to one constant for each part */
    int64_t *row_part, *column_part;
    double *memory;
} identify_data;

typedef struct identify_line {
    double slope;    /* 1 / tau; NaN where S is itself of the form row + column */
    double residual; /* sum w |y - S / tau - a - b| / sum P, which is sum |dP| / sum P */
} identify_line;

/* Reads shapes and masses of `problem`, its scores, and allocates everything; `coupling` is borrowed. */
ota_status ota_identify_open(const ota_problem *problem, const ota_options *options,
                             const double *coupling, identify_data *data,
                             const analysis_call *call);
void ota_identify_close(identify_data *data);
/* The masses of `problem` anew; `own`: of IDENTIFY_ROWS and IDENTIFY_COLUMNS those that are the coupling's own sums. */
void ota_identify_masses(const ota_problem *problem, unsigned own, identify_data *data);

/* The best line at `order` with the effects of `sides`; fills a and b. */
identify_line ota_identify_regress(identify_data *data, double order, unsigned sides);
/* Where `height` is smallest in [least, most]: the best of 17 points, then `steps` of a golden section. */
double ota_identify_minimum(double (*height)(void *context, double at), void *context, double least,
                            double most, int steps);
/* The order in [least, most] whose line leaves the smallest residual. */
double ota_identify_order(identify_data *data, unsigned sides, double least, double most);

/* scores [heads, rows, columns] of `problem`: what softmax at several temperatures says they are. */
ota_status ota_identify_scores(const ota_problem *problem, const ota_options *options,
                               int64_t batch, int64_t heads, int64_t rows, int64_t columns,
                               double *scores, const analysis_call *call);

#endif
