/* The table of regularisers (regularisers.h). */
#include "regularisers.h"

#include <assert.h>

static const ota_regulariser_row rows[] = {
    [OTA_SOFTMAX] =
        {.name = "softmax", .kind = OTA_SOFTMAX, .smooth = true, .exponential = true, .order = 1.0},
    [OTA_ENTMAX] = {.name = "entmax", .kind = OTA_ENTMAX, .smooth = true, .thresholded = true},
    [OTA_HARD] = {.name = "hard", .kind = OTA_HARD},
    /* Like entmax in what matters outside the row: no lse, and weights may be 0. */
    [OTA_CUSTOM] = {
        .name = "custom", .kind = OTA_CUSTOM, .smooth = true, .thresholded = true, .order = 2.0}};

const ota_regulariser_row *ota_regulariser_of(ota_regulariser kind) {
    assert((size_t)kind < sizeof rows / sizeof rows[0]);
    return &rows[kind];
}
