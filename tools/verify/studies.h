/* Studies: what some of the checks measure, as points that can be drawn. */
#ifndef OTATTN_TOOLS_VERIFY_STUDIES_H
#define OTATTN_TOOLS_VERIFY_STUDIES_H

#include "check.h"

enum { STUDY_POINTS = 512 };

typedef struct study_points {
    int count;
    const char *series[STUDY_POINTS];
    double x[STUDY_POINTS], y[STUDY_POINTS];
} study_points;

typedef struct tool_study {
    const char *id;               /* the requirement that it belongs to */
    const char *figure, *dataset; /* report/figures/FIGURE.vl.json, and the data set it names */
    const char *fields[3];        /* names of series, x and y in it */
    const char *title, *text, *caption;
    void (*run)(trial *t, study_points *points);
} tool_study;

extern const tool_study tool_studies[];
extern const int tool_study_count;

#endif
