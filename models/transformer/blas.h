/* The one call of a BLAS that linear layers use, from a library opened at run time. */
#ifndef OTATTN_MODELS_BLAS_H
#define OTATTN_MODELS_BLAS_H

#include <stdbool.h>

/* The values of CBLAS's enumerations. */
enum { OTA_BLAS_ROW_MAJOR = 101, OTA_BLAS_AS_IT_IS = 111, OTA_BLAS_TRANSPOSED = 112 };

/* y[m][n] = alpha a[m][k] b[k][n] + beta y, each possibly stored transposed. */
typedef void (*ota_blas_sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                               float alpha, const float *a, int lda, const float *b, int ldb,
                               float beta, float *y, int ldy);

typedef struct ota_blas {
    void *library;        /* NULL: none was found */
    ota_blas_sgemm sgemm; /* NULL: use plain loops */
} ota_blas;

/* Opens OpenBLAS and has it work on the calling thread; all NULL where there is none. */
ota_blas ota_blas_open(void);
void ota_blas_close(ota_blas *blas);

#endif
