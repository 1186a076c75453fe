/* The element types of weights, decoded to f32.
 *
 *   f64, f32     as they are, f64 rounded       bf16   the upper half of an f32       f16    IEEE half
 *   Q8_0     32 x = d q         d f16, q int8                  Q4_0    32 x = d (q - 8), q 4 bits
 *   Q4_1     32 x = d q + m     d, m f16                       Q5_0    32 x = d (q - 16), q 5 bits
 *   Q5_1     32 x = d q + m     q 5 bits                       Q8_K   256 x = d q, d f32, q int8
 *   Q2_K    256 x = d s q - e t, q 2 bits, s and t 4 bits for each 16, d and e f16
 *   Q3_K    256 x = d (s - 32) (q - 4), q 3 bits, s 6 bits for each 16
 *   Q4_K    256 x = d s q - e t, s and t 6 bits for each 32    Q5_K    the same, q 5 bits
 *   Q6_K    256 x = d s (q - 32), s int8 for each 16
 *   TQ1_0   256 x = d (q - 1), five q of 3 values in a byte    TQ2_0   the same, q 2 bits
 *   MXFP4    32 x = 2^(e - 128) v, v the doubled value of a 4-bit float
 *   NVFP4    64 x = s v, s half a float of 4 bits of exponent and 3 of fraction for each 16
 *   IQ4_NL   32 x = d v, v one of 16 numbers                   IQ4_XS  256 x = d (s - 32) v, s 6 bits for each 32
 *   IQ2_XXS 256 x = d (1/2 + s) / 4 (+-v), v [8] a point of a lattice, s 4 bits for each 32, the last of 8 signs such
 *           that their product is +                            IQ2_XS  the same, s for each 16, more points
 *   IQ2_S   256 x = the same with 8 free signs, more points
 *   IQ3_XXS 256 x = d (1/2 + s) / 2 (+-v), v [4]               IQ3_S   256 x = d (1 + 2 s) (+-v), 8 free signs
 *   IQ1_S   256 x = d (1 + 2 s) (v +- 1/8), v [8] of -1, 0, 1, s 3 bits and one sign for each 32
 *   IQ1_M   256 x = the same, s for each 16, a sign for each 8
 *
 * 4-bit values of a block of 32: the low halves of 16 bytes are its first 16 elements, the high halves the rest; fifth
 * bits stand in one 32-bit word. Source: the block layouts of ggml. */
#include "elements.h"

#include <stddef.h>
#include <string.h>

#define OTA_ELEMENT(word, number, block, bytes, decode, halves, first, second)                     \
    [OTA_STORED_##word] = {#word, number, block, bytes, halves, {first, second}},
static const ota_element elements[OTA_STORED_TYPES] = {OTA_ELEMENT_ROWS(OTA_ELEMENT)};

/* What ggml has or had a number for and no weight is read from: integers, sums of products, blocks woven for one
 * processor. */
static const struct {
    const char *word;
    int64_t gguf;
} unread[] = {
    {"Q4_2", 4},        {"Q4_3", 5},        {"Q8_1", 9},        {"I8", 24},       {"I16", 25},
    {"I32", 26},        {"I64", 27},        {"Q4_0_4_4", 31},   {"Q4_0_4_8", 32}, {"Q4_0_8_8", 33},
    {"IQ4_NL_4_4", 36}, {"IQ4_NL_4_8", 37}, {"IQ4_NL_8_8", 38}, {"Q1_0", 41},
};

const ota_element *ota_element_named(const char *word) {
    for (int i = 0; i < OTA_STORED_TYPES; i++)
        if (strcmp(elements[i].word, word) == 0) return &elements[i];
    return NULL;
}

const ota_element *ota_element_of_gguf(int64_t number) {
    for (int i = 0; i < OTA_STORED_TYPES; i++)
        if (elements[i].gguf == number) return &elements[i];
    return NULL;
}

ota_stored ota_element_index(const ota_element *element) {
    return (ota_stored)(element - elements);
}

const char *ota_element_unread(int64_t number) {
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        if (unread[i].gguf == number) return unread[i].word;
    return NULL;
}

const char *ota_element_words(void) {
#define OTA_WORD(word, ...) " " #word
    static const char words[] = OTA_ELEMENT_ROWS(OTA_WORD);
    return words + 1;
}
