/* spectra.h: what the files of the spectra library share. Arrays are row-major f64. */
#ifndef OTATTN_ANALYSIS_SPECTRA_H
#define OTATTN_ANALYSIS_SPECTRA_H

#include "otattn_spectra.h"

/* Sizes that LAPACK can count, finite entries. */
ota_status ota_spectra_check(const double *matrix, int64_t rows, int64_t columns, const char *field,
                             const analysis_call *call);
/* rows * columns numbers after such a check, or NULL with `error` filled. */
double *ota_spectra_memory(int64_t rows, int64_t columns, const analysis_call *call);
/* left [rows, smaller], values [smaller], right [smaller, columns]; left, right or both NULL. */
ota_status ota_spectra_decompose(const double *matrix, int64_t rows, int64_t columns, double *left,
                                 double *values, double *right, const analysis_call *call);

#endif
