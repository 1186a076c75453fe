/* The element types of weights, decoded to f32.
 *
 *   bf16   the upper half of an f32                       f16    IEEE half
 *   Q8_0   32 x = d q        d f16, q int8                Q4_0   32 x = d (q - 8), q 4 bits
 *   Q4_1   32 x = d q + m    d, m f16                     Q5_0   32 x = d (q - 16), q 5 bits
 *   Q5_1   32 x = d q + m    q 5 bits                     Q6_K   256 x = d s (q - 32), s int8 for each 16
 *   Q4_K   256 x = d s q - e t, s and t 6 bits for each 32, d and e f16        Q5_K   the same, q 5 bits
 *
 * 4-bit values of a block: the low halves of 16 bytes are its first 16 elements, the high halves the
 * rest; fifth bits stand in one 32-bit word. Source: the block layouts of ggml. */
#include "weights.h"

#include <string.h>

static const ota_element elements[OTA_STORED_TYPES] = {
    [OTA_STORED_F32] = {"F32", 0, 1, 4},        [OTA_STORED_F16] = {"F16", 1, 1, 2},
    [OTA_STORED_BF16] = {"BF16", 30, 1, 2},     [OTA_STORED_Q4_0] = {"Q4_0", 2, 32, 18},
    [OTA_STORED_Q4_1] = {"Q4_1", 3, 32, 20},    [OTA_STORED_Q5_0] = {"Q5_0", 6, 32, 22},
    [OTA_STORED_Q5_1] = {"Q5_1", 7, 32, 24},    [OTA_STORED_Q8_0] = {"Q8_0", 8, 32, 34},
    [OTA_STORED_Q4_K] = {"Q4_K", 12, 256, 144}, [OTA_STORED_Q5_K] = {"Q5_K", 13, 256, 176},
    [OTA_STORED_Q6_K] = {"Q6_K", 14, 256, 210},
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
