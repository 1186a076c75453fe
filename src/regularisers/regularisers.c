/* The table of regularisers (regularisers.h). */
#include "regularisers.h"

#include <assert.h>

/* The place of entmax with an order below 1, after those of ota_regulariser. */
enum { HEAVY_TAILED = OTA_CUSTOM + 1, ROWS };

static const ota_regulariser_row table[ROWS] = {
    [OTA_SOFTMAX] = {.name = "softmax", .kind = OTA_SOFTMAX, .exponential = true, .order = 1.0},
    [OTA_ENTMAX] = {.name = "entmax", .kind = OTA_ENTMAX, .tsallis = true, .thresholded = true},
    [OTA_HARD] = {.name = "hard", .kind = OTA_HARD},
    /* Like entmax in what matters outside the row: no lse, and weights may be 0. */
    [OTA_CUSTOM] = {.name = "custom", .kind = OTA_CUSTOM, .thresholded = true, .order = 2.0},
    [HEAVY_TAILED] = {.name = "entmax", .kind = OTA_ENTMAX, .tsallis = true}};

/* Caps of a custom regulariser are refused. */
static const ota_regulariser_row capped[ROWS] = {
    [OTA_SOFTMAX] = {.name = "softmax", .kind = OTA_SOFTMAX, .capped = true, .order = 1.0},
    [OTA_ENTMAX] = {.name = "entmax",
                    .kind = OTA_ENTMAX,
                    .tsallis = true,
                    .thresholded = true,
                    .capped = true},
    [OTA_HARD] = {.name = "hard", .kind = OTA_HARD, .capped = true},
    [OTA_CUSTOM] = {.name = "custom", .kind = OTA_CUSTOM, .thresholded = true, .order = 2.0},
    [HEAVY_TAILED] = {.name = "entmax", .kind = OTA_ENTMAX, .tsallis = true, .capped = true}};

const ota_regulariser_row *ota_regulariser_of(const ota_problem *problem) {
    size_t kind = (size_t)problem->regulariser;
    assert(kind < HEAVY_TAILED);
    if (kind == OTA_ENTMAX && problem->order > 0.0 && problem->order < 1.0) kind = HEAVY_TAILED;
    return ota_has_entry_caps(problem) ? &capped[kind] : &table[kind];
}
