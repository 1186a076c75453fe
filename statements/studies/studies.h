/* statements/studies/: Studies: what some of the checks measure, as points of a figure. A study is a function and a
 * row of studies.c; its figure lies in program/report/figures/. They may call the public headers and
 * statements/check.h.
 *
 * Studies: what some of the checks measure, as points that can be drawn. */
#ifndef OTATTN_STATEMENTS_STUDIES_STUDIES_H
#define OTATTN_STATEMENTS_STUDIES_STUDIES_H

#include "statements/check.h"

enum { STUDY_POINTS = 512 };

/* What --size, --samples and --rounds say, or the usual. */
typedef struct study_sizes {
    int64_t size, samples, rounds;
} study_sizes;

/* usual 0: the study has no such number. */
typedef struct study_range {
    int64_t least, usual, most;
} study_range;

typedef struct study_points {
    char caption[256]; /* with the numbers in it */
    int count;
    const char *series[STUDY_POINTS];
    const char *label[STUDY_POINTS]; /* x where it is a name, else NULL */
    double x[STUDY_POINTS], y[STUDY_POINTS];
} study_points;

typedef void study_function(trial *t, const study_sizes *sizes, study_points *points);

/* The parts of the page. */
typedef enum study_part {
    STUDY_ROUNDS,
    STUDY_ELASTIC,
    STUDY_CERTIFICATES,
    STUDY_ROWS,
    STUDY_EXAMPLES,
    STUDY_PARTS
} study_part;

typedef struct statement_study {
    const char *id;   /* the requirement that it belongs to */
    const char *name; /* of its files: NAME.csv, NAME.vl.json */
    study_function *run;
    const char *dataset;   /* of its figure */
    const char *fields[3]; /* names of series, x and y in it */
    const char *title, *text;
    const char *caption; /* {size}, {samples} and {rounds} stand for the numbers */
    const char *figure;  /* report/figures/FIGURE.vl.json; NULL: that of its name */
    /* What its numbers say, with {SERIES|WHAT} for a number of a series: y of its `first` or `last` point, or x there, `from`
     * and `to`. A study with an answer is drawn before anything is unfolded. */
    const char *answer;
    study_part part;
    study_range size, samples, rounds;
} statement_study;

extern const statement_study statement_studies[];
extern const int statement_study_count;

/* What has no value, such as the logarithm of 0, is no point. */
static inline void add_point(study_points *points, const char *series, double x, double y) {
    if (points->count == STUDY_POINTS || !isfinite(x) || !isfinite(y)) return;
    points->series[points->count] = series;
    points->label[points->count] = NULL;
    points->x[points->count] = x;
    points->y[points->count++] = y;
}

static inline void add_bar(study_points *points, const char *series, const char *label, double y) {
    const int count = points->count;
    add_point(points, series, 0.0, y);
    if (points->count > count) points->label[count] = label;
}

/* The k-th of `count` numbers from `first` to `last`, each the same factor above the one before. */
static inline double geometric(int64_t k, int64_t count, double first, double last) {
    return first * pow(last / first, (double)k / (double)(count - 1));
}

study_function study_contraction, study_iterations, study_tolerances, study_elastic, study_sink,
    study_tightness;
study_function study_stability, study_annealing, study_relaxed, study_annealed_path, study_time;
study_function study_variance, study_reinforce, study_complexity, study_saturated, study_probe,
    study_lipschitz, study_counterexample;
study_function study_example, study_shifted, study_balanced, study_product, study_gallery,
    study_post, study_collapse, study_cycle, study_cold;

#endif
