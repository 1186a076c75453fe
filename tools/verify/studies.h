/* Studies: what some of the checks measure, as points that can be drawn. */
#ifndef OTATTN_TOOLS_VERIFY_STUDIES_H
#define OTATTN_TOOLS_VERIFY_STUDIES_H

#include "check.h"
#include "tool.h"

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
    double x[STUDY_POINTS], y[STUDY_POINTS];
} study_points;

typedef struct tool_study {
    const char *id;               /* the requirement that it belongs to */
    const char *figure, *dataset; /* report/figures/FIGURE.vl.json, and the data set it names */
    const char *fields[3];        /* names of series, x and y in it */
    const char *title, *text;
    const char *caption; /* {size}, {samples} and {rounds} stand for the numbers */
    study_range size, samples, rounds;
    void (*run)(trial *t, const study_sizes *sizes, study_points *points);
} tool_study;

extern const tool_study tool_studies[];
extern const int tool_study_count;

/* sizes.c: what a study is run with. */
study_sizes tool_study_sizes(const tool_context *context, const tool_study *study);

#endif
