/* libFuzzer on otattn_bounded.h: costs or points, loads and starting prices from bytes. An answer keeps every bound, costs
 * what it says, and its prices prove it; one that is called infeasible has a sentence. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fuzz_bytes.h"
#include "otattn_bounded.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { ROWS = 12, COLUMNS = 6, WIDTH = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static double costs[ROWS * COLUMNS], points[ROWS * WIDTH], centres[COLUMNS * WIDTH];
    int64_t lower[COLUMNS], upper[COLUMNS], chosen[ROWS * COLUMNS], loads[COLUMNS];
    double start[COLUMNS], prices[COLUMNS];
    fuzz_bytes b = {bytes, size};
    ota_error error = {.message = ""};
    const int64_t rows = fuzz_below(&b, ROWS + 1), columns = fuzz_below(&b, COLUMNS + 1);
    const unsigned kinds = fuzz_next(&b);
    ota_bounded problem = {.size = sizeof problem, .take = fuzz_below(&b, COLUMNS + 1)};
    bool finite = true;
    double largest = 1;
    if (kinds % 2 == 0) {
        for (int64_t k = 0; k < rows * columns; k++) {
            costs[k] = fuzz_number(&b);
            finite &= isfinite(costs[k]) || costs[k] > 0;
            if (isfinite(costs[k])) largest = fmax(largest, fabs(costs[k]));
        }
        problem.costs = ota_array_of(costs, OTA_F64, 1, 1, rows, columns);
    } else {
        for (int64_t k = 0; k < rows * WIDTH; k++) points[k] = fuzz_number(&b);
        for (int64_t k = 0; k < columns * WIDTH; k++) centres[k] = fuzz_number(&b);
        problem.points = ota_array_of(points, OTA_F64, 1, 1, rows, WIDTH);
        problem.centres = ota_array_of(centres, OTA_F64, 1, 1, columns, WIDTH);
    }
    for (int64_t j = 0; j < columns; j++) {
        lower[j] = (int64_t)fuzz_below(&b, 5) - (kinds >= 128);
        upper[j] = lower[j] + fuzz_below(&b, 9);
        start[j] = fuzz_number(&b);
    }
    if (kinds / 2 % 4 != 0) problem.lower = lower;
    if (kinds / 2 % 4 != 1) problem.upper = upper;
    if (kinds / 8 % 4 == 1) problem.start = start;
    const ota_options options = {.size = sizeof options, .threads = 1};
    ota_bounded_result result = {
        .size = sizeof result, .chosen = chosen, .prices = prices, .loads = loads};
    const ota_status status = ota_assign_bounded(&problem, &options, &result, &error);
    if (status < 0) {
        if (error.message[0] == '\0') abort();
        return 0;
    }
    int64_t counted[COLUMNS] = {0};
    double cost = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < problem.take; k++) {
            const int64_t j = chosen[i * problem.take + k];
            if (j < 0 || j >= columns) abort();
            if (k > 0 && j <= chosen[i * problem.take + k - 1]) abort();
            counted[j]++;
            if (kinds % 2 == 0) cost += costs[i * columns + j];
        }
    for (int64_t j = 0; j < columns; j++) {
        if (counted[j] != loads[j]) abort();
        if (problem.lower != NULL && loads[j] < lower[j]) abort();
        if (problem.upper != NULL && loads[j] > upper[j]) abort();
    }
    const double slack = 1e-12 * largest * (double)(ROWS * COLUMNS);
    if (kinds % 2 == 0 && isfinite(cost) && !(fabs(cost - result.cost) <= slack)) abort();
    /* Prices that a start of another scale left far away round what they prove. */
    if (kinds % 2 == 0 && problem.start == NULL && isfinite(result.dual) && finite &&
        !(fabs(result.cost - result.dual) <= 64 * slack))
        abort();
    return 0;
}
