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

static const ota_regulariser_row capped[] = {
    [OTA_SOFTMAX] =
        {.name = "softmax", .kind = OTA_SOFTMAX, .smooth = true, .capped = true, .order = 1.0},
    [OTA_ENTMAX] =
        {.name = "entmax", .kind = OTA_ENTMAX, .smooth = true, .thresholded = true, .capped = true},
    [OTA_HARD] = {.name = "hard", .kind = OTA_HARD, .capped = true}};

const ota_regulariser_row *ota_regulariser_of(const ota_problem *problem) {
    const size_t kind = (size_t)problem->regulariser;
    assert(kind < sizeof rows / sizeof rows[0]);
    /* Caps of a custom regulariser are refused. */
    return ota_has_entry_caps(problem) && kind < sizeof capped / sizeof capped[0] ? &capped[kind]
                                                                                  : &rows[kind];
}
