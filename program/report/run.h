/* A run folder as pictures: what `otattn report` does, and `otattn analyze` at its end.
 *
 * Everything is read from the folder, and only metrics.json must be there; a part whose data is missing
 * is left out of the page.
 *
 *   metrics.json    as the program's contract says: model, text_sha256, probe, windows, tokens,
 *                   transitions[l], layers[l], attention[l][h], events; a figure is an object of mean, sd,
 *                   median, p5, p95, ci95, n, or null. Beside these, if there, bounds {checked,
 *                   violations, largest}: transitions held against the Lipschitz bound
 *   manifest.json   one object; its members, objects of settings included, are the rows of the page's
 *                   first table
 *   tables/NAME.csv RFC 4180, the first line names the columns. All are shown; some are drawn as well:
 *                     events.csv        columns layer, token: one line an event
 *                     methods.csv       column method, the others numbers: one line a method
 *                     temperatures.csv  column temperature, the others numbers: one line a temperature
 *   example.safetensors   one window of n tokens, for pictures only
 *                     metadata tokens   JSON array of the n tokens' texts
 *                     metadata lens     JSON array [layers + 1][n]: the likeliest token's text
 *                     max_probability   [layers + 1, n]
 *                     tv                [layers, n]
 *                     patterns          [layers, heads, cells, cells], each cli_pool_pattern of one head
 *
 * Written are figures/NAME.vl.json (data inside), tables/NAME.tex, and the page. Texts of a model or a
 * file are foreign: nothing of them can become markup, script or a LaTeX command. */
#ifndef OTATTN_PROGRAM_REPORT_RUN_H
#define OTATTN_PROGRAM_REPORT_RUN_H

#include <stddef.h>

#include "program/files/files.h"

/* Of a side of a pooled pattern. */
enum { CLI_PATTERN_CELLS = 96 };

/* The page goes to `page`, NULL: report.html of `folder`; what is there is written over. With `other`,
 * the folder of a second run (or NULL), every figure shows both runs, differences come with intervals,
 * and of `folder` only the page, figures/compare.vl.json and tables/compare.csv are written.
 * Returns 0 or the exit code with *error filled. */
int cli_run_report(const char *folder, const char *other, const char *page, cli_error *error);

/* cells = min(n, CLI_PATTERN_CELLS); pooled[a][b] is the largest weight pattern[i][j] with
 * i cells / n = a and j cells / n = b (whole parts). pattern [n, n], pooled [cells, cells]. */
size_t cli_pool_cells(size_t n);
void cli_pool_pattern(const float *pattern, size_t n, float *pooled);

#endif
