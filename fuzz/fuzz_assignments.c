/* libFuzzer on assignment problems drawn from bytes: shapes, layout, limits, costs from small numbers to any bits. The bound
 * on the value must be met, pairs must be a matching, and what is called infeasible must have no matching of that size. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_assignment.h"
#include "fuzz_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { MOST = 12, COUNT = 3 };

/* A small number, a forbidden pair, or eight bytes as they are. */
static double draw(fuzz_bytes *r, bool narrow) {
    const unsigned kind = fuzz_next(r);
    double cost = (double)(kind % 16) - 5.0;
    if (kind == 255) cost = INFINITY;
    if (kind == 254) {
        uint64_t bits = 0;
        for (int k = 0; k < 8; k++) bits = bits << 8 | fuzz_next(r);
        memcpy(&cost, &bits, sizeof cost);
    }
    if (kind > 200 && kind < 254) cost = (double)fuzz_next(r) / 7.0;
    return narrow ? (double)(float)cost : cost;
}

/* Can row i get a column that no row before it needs? */
static bool reach(const bool *allowed, int64_t columns, int64_t i, bool *seen, int64_t *row_of) {
    for (int64_t j = 0; j < columns; j++) {
        if (!allowed[i * columns + j] || seen[j]) continue;
        seen[j] = true;
        if (row_of[j] < 0 || reach(allowed, columns, row_of[j], seen, row_of)) {
            row_of[j] = i;
            return true;
        }
    }
    return false;
}

static int64_t largest_matching(const bool *allowed, int64_t rows, int64_t columns) {
    int64_t row_of[MOST], found = 0;
    for (int64_t j = 0; j < columns; j++) row_of[j] = -1;
    for (int64_t i = 0; i < rows; i++) {
        bool seen[MOST] = {false};
        found += reach(allowed, columns, i, seen, row_of);
    }
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    fuzz_bytes r = {bytes, size};
    const unsigned flags = fuzz_next(&r);
    const bool narrow = flags & 1u, maximize = flags & 2u, transposed = flags & 8u;
    const bool limited = !maximize && (flags & 4u) != 0;
    const int64_t rows = fuzz_next(&r) % (MOST + 1), columns = fuzz_next(&r) % (MOST + 1);
    const int64_t count = 1 + fuzz_next(&r) % COUNT, least = rows < columns ? rows : columns;
    const double limit = (double)(fuzz_next(&r) % 16) - 4.0;
    double wide[COUNT * MOST * MOST];
    float half[COUNT * MOST * MOST];
    for (int64_t k = 0; k < count * rows * columns; k++) {
        wide[k] = draw(&r, narrow);
        half[k] = (float)wide[k];
    }
    int64_t column_of[COUNT * MOST], pairs[COUNT];
    double value[COUNT], bound[COUNT], u[COUNT * MOST], v[COUNT * MOST];
    ota_status status[COUNT];
    const ota_assignments batch = {.size = sizeof batch,
                                   .count = count,
                                   .rows = rows,
                                   .columns = columns,
                                   .costs = narrow ? (const void *)half : wide,
                                   .type = narrow ? OTA_F32 : OTA_F64,
                                   .problem_stride = rows * columns,
                                   .row_stride = transposed ? 1 : columns,
                                   .column_stride = transposed ? rows : 1,
                                   .maximize = maximize,
                                   .limited = limited,
                                   .cost_limit = limited ? limit : 0.0,
                                   .column_of = column_of,
                                   .pairs = pairs,
                                   .value = value,
                                   .row_potential = u,
                                   .column_potential = v,
                                   .bound = bound,
                                   .status = status};
    const ota_options options = {.size = sizeof options, .threads = 1};
    ota_assigner *assigner = NULL;
    ota_error error = {.message = ""};
    if (ota_assigner_create(&assigner, &options, &error) < 0) abort();
    const ota_status all = ota_assign(assigner, &batch, &error);
    if (all < 0 && all != OTA_INFEASIBLE && all != OTA_NONFINITE) abort();
    for (int64_t p = 0; p < count; p++) {
        bool allowed[MOST * MOST], wrong = false, taken[MOST] = {false};
        double largest = 1.0;
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < columns; j++) {
                const int64_t at =
                    p * rows * columns + (transposed ? j * rows + i : i * columns + j);
                const double cost = maximize ? -wide[at] : wide[at];
                wrong |= !(cost > -INFINITY);
                allowed[i * columns + j] = cost < INFINITY;
                if (cost < INFINITY) largest = fmax(largest, fabs(cost));
            }
        }
        if ((status[p] == OTA_NONFINITE) != wrong) abort();
        if (wrong) continue;
        if (status[p] == OTA_INFEASIBLE) {
            if (limited || largest_matching(allowed, rows, columns) == least) abort();
            continue;
        }
        if (status[p] != OTA_OK) abort();
        int64_t found = 0;
        for (int64_t i = 0; i < rows; i++) {
            const int64_t j = column_of[p * rows + i];
            if (j < 0) continue;
            if (j >= columns || taken[j] || !allowed[i * columns + j]) abort();
            taken[j] = true;
            found++;
        }
        if (found != pairs[p] || (!limited && found != least)) abort();
        const double left_out = limited ? limit * (double)(least - found) : 0.0;
        /* Sums of huge costs may leave the range; what is in it agrees. */
        const double gap = fabs(value[p] + left_out - bound[p]);
        if (isfinite(value[p]) && isfinite(bound[p]) && gap > 1e-12 * (double)MOST * largest)
            abort();
    }
    ota_assigner_free(assigner);
    return 0;
}
