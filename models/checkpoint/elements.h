/* The element types that weights are stored in. */
#ifndef OTATTN_MODELS_ELEMENTS_H
#define OTATTN_MODELS_ELEMENTS_H

#include <stdint.h>

/* A row a type: its word in both formats, ggml's number, elements and bytes of a block, the function that decodes it
 * (models/kernels/), and how many f16 factors of a block, at which bytes, are numbers if and only if all of its elements
 * are. Where there are 0 such factors, elements are decoded and looked at.
 *
 * models/kernels/ops_level.c makes its table of functions from the rows, elements.c the others. */
/* clang-format off */
#define OTA_ELEMENT_ROWS(ROW)                                                                      \
    ROW(F32,      0,   1,   4, decode_f32,     0,   0, 0)                                          \
    ROW(F64,     28,   1,   8, decode_f64,     0,   0, 0)                                          \
    ROW(F16,      1,   1,   2, decode_f16,     1,   0, 0)                                          \
    ROW(BF16,    30,   1,   2, decode_bf16,    0,   0, 0)                                          \
    ROW(Q4_0,     2,  32,  18, decode_q4_0,    1,   0, 0)                                          \
    ROW(Q4_1,     3,  32,  20, decode_q4_1,    2,   0, 2)                                          \
    ROW(Q5_0,     6,  32,  22, decode_q5_0,    1,   0, 0)                                          \
    ROW(Q5_1,     7,  32,  24, decode_q5_1,    2,   0, 2)                                          \
    ROW(Q8_0,     8,  32,  34, decode_q8_0,    1,   0, 0)                                          \
    ROW(Q2_K,    10, 256,  84, decode_q2_k,    2,  80, 82)                                         \
    ROW(Q3_K,    11, 256, 110, decode_q3_k,    1, 108, 0)                                          \
    ROW(Q4_K,    12, 256, 144, decode_q4_k,    2,   0, 2)                                          \
    ROW(Q5_K,    13, 256, 176, decode_q5_k,    2,   0, 2)                                          \
    ROW(Q6_K,    14, 256, 210, decode_q6_k,    1, 208, 0)                                          \
    ROW(Q8_K,    15, 256, 292, decode_q8_k,    0,   0, 0)                                          \
    ROW(TQ1_0,   34, 256,  54, decode_tq1_0,   1,  52, 0)                                          \
    ROW(TQ2_0,   35, 256,  66, decode_tq2_0,   1,  64, 0)                                          \
    ROW(MXFP4,   39,  32,  17, decode_mxfp4,   0,   0, 0)                                          \
    ROW(NVFP4,   40,  64,  36, decode_nvfp4,   0,   0, 0)                                          \
    ROW(IQ1_S,   19, 256,  50, decode_iq1_s,   1,   0, 0)                                          \
    ROW(IQ1_M,   29, 256,  56, decode_iq1_m,   0,   0, 0)                                          \
    ROW(IQ2_XXS, 16, 256,  66, decode_iq2_xxs, 1,   0, 0)                                          \
    ROW(IQ2_XS,  17, 256,  74, decode_iq2_xs,  1,   0, 0)                                          \
    ROW(IQ2_S,   22, 256,  82, decode_iq2_s,   1,   0, 0)                                          \
    ROW(IQ3_XXS, 18, 256,  98, decode_iq3_xxs, 1,   0, 0)                                          \
    ROW(IQ3_S,   21, 256, 110, decode_iq3_s,   1,   0, 0)                                          \
    ROW(IQ4_NL,  20,  32,  18, decode_iq4_nl,  1,   0, 0)                                          \
    ROW(IQ4_XS,  23, 256, 136, decode_iq4_xs,  1,   0, 0)
/* clang-format on */

#define OTA_STORED_NAME(word, ...) OTA_STORED_##word,
typedef enum ota_stored { OTA_ELEMENT_ROWS(OTA_STORED_NAME) OTA_STORED_TYPES } ota_stored;

/* Elements are stored in blocks of `block` elements and `bytes` bytes. */
typedef struct ota_element {
    const char *word; /* in both formats */
    int64_t gguf;     /* ggml's number of the type */
    int64_t block, bytes;
    int halves, half_at[2]; /* see the rows */
} ota_element;

/* NULL where the type is not read as a weight. */
const ota_element *ota_element_named(const char *word);
const ota_element *ota_element_of_gguf(int64_t number);
ota_stored ota_element_index(const ota_element *element);
/* ggml's word for a type that is not read; NULL where it has none. */
const char *ota_element_unread(int64_t number);
/* The words of all types, a blank between them. */
const char *ota_element_words(void);

#endif
