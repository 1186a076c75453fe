/* models/kernels/: Arithmetic on rows of f32 and decoding of stored elements, written once and compiled per
 * instruction-set level (ops_level.c). It may call src/base/ and headers of models/checkpoint/.
 *
 * Arithmetic on rows of f32, one table per instruction-set level; bodies in ops_level.c. */
#ifndef OTATTN_MODELS_OPS_H
#define OTATTN_MODELS_OPS_H

#include "models/checkpoint/config.h"
#include "models/checkpoint/weights.h"

/* Rows of weights that `combine` takes at a time. */
enum { OTA_TERMS = 4 };

typedef struct ota_ops {
    const char *name; /* of ota_kernel_name */
    void (*decode[OTA_STORED_TYPES])(const unsigned char *data, float *out, int64_t count);
    float (*dot)(const float *a, const float *b, int64_t count);
    /* y += sum over k < OTA_TERMS of x[k] rows[k], k after k */
    void (*combine)(float *y, const float *const rows[OTA_TERMS], const float x[OTA_TERMS],
                    int64_t count);
    /* out = (x - mean) / sqrt(variance + epsilon) * weight + bias */
    void (*layer_norm)(const float *x, const float *weight, const float *bias, double epsilon,
                       float *out, int64_t count);
    /* out = x / sqrt(mean of squares + epsilon) * weight */
    void (*rms_norm)(const float *x, const float *weight, double epsilon, float *out,
                     int64_t count);
    /* x = activation(x) */
    void (*activate)(ota_activation activation, float *x, int64_t count);
    void (*add)(float *x, const float *y, int64_t count);      /* x += y */
    void (*multiply)(float *x, const float *y, int64_t count); /* x *= y */
} ota_ops;

/* Rows of a matrix that is stored row by row as outputs, to f32; of MXFP4 also where codes and scales lie apart. */
void ota_decode_rows(const ota_ops *ops, const ota_weight *weight, int64_t row, int64_t count,
                     float *out);

/* One table per level (ops_level.c). */
extern const ota_ops ota_ops_portable, ota_ops_avx2, ota_ops_avx512;
/* The newest level this processor has that is not newer than `cpu` (NULL: any). */
const ota_ops *ota_ops_named(const char *cpu);

#endif
