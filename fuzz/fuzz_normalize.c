/* libFuzzer on otattn_normalize.h: batches of small matrices from bytes, both orders, types and derivatives. A refusal has a
 * sentence; where the scores are numbers of ordinary size, plans are positive numbers, rows or columns sum to 1 as the
 * order's last half-step leaves them, the gradient is finite, and every instruction-set level gives a plan. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fuzz_bytes.h"
#include "otattn_normalize.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { SIDE = 20, COUNT = 5, MOST = COUNT * SIDE * SIDE };

static double at(const ota_normalization *n, const void *data, int64_t k) {
    return n->type == OTA_F64 ? ((const double *)data)[k] : (double)((const float *)data)[k];
}

static void put(const ota_normalization *n, void *data, int64_t k, double value) {
    if (n->type == OTA_F64)
        ((double *)data)[k] = value;
    else
        ((float *)data)[k] = (float)value;
}

/* What the last half-step normalised: the columns of deepseek's order; symmetric scaling keeps neither to the bit. */
static void check_sums(const ota_normalization *n, const double *plan) {
    const double slack = 64 * (n->type == OTA_F64 ? 0x1p-52 : 0x1p-23) * (double)n->side;
    if (n->order != OTA_NORMALIZE_DEEPSEEK || n->rounds == OTA_NO_ROUNDS) return;
    for (int64_t k = 0; k < n->count; k++)
        for (int64_t j = 0; j < n->side; j++) {
            double sum = 0;
            for (int64_t i = 0; i < n->side; i++)
                sum += at(n, plan, (k * n->side + i) * n->side + j);
            if (!(sum <= 1 + slack)) abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static double scores[MOST], plan[MOST], grad[MOST], back[MOST];
    static const double eps[] = {0, 1e-6, 1e-3, 1, -1, NAN};
    static const double tolerances[] = {1e-3, 1e-6, 0, -1, INFINITY, NAN};
    fuzz_bytes b = {bytes, size};
    ota_error error = {.message = ""};
    ota_normalization n = {.size = sizeof n, .threads = 1};
    n.type = fuzz_below(&b, 2) == 0 ? OTA_F32 : OTA_F64;
    n.order = (ota_normalize_order)fuzz_below(&b, 3);
    n.count = fuzz_below(&b, COUNT + 1);
    n.side = fuzz_below(&b, SIDE + 1);
    n.rounds = (int64_t)fuzz_below(&b, 40) - 1;
    n.eps = eps[fuzz_below(&b, 6)];
    n.tolerance = n.order == OTA_NORMALIZE_SYMMETRIC ? tolerances[fuzz_below(&b, 6)] : 0;
    n.implicit = (int)fuzz_below(&b, 2);
    n.cpu = ota_kernel_name((int)fuzz_below(&b, 4));
    bool ordinary = true;
    const int64_t elements = n.count * n.side * n.side;
    for (int64_t k = 0; k < elements; k++) {
        const double score = fuzz_number(&b);
        ordinary &= fabs(score) < 50;
        put(&n, scores, k, score);
        put(&n, grad, k, (double)(k % 7) - 3.0);
    }
    const ota_status status = ota_normalize(&n, scores, plan, &error);
    if (status < 0 && error.message[0] == '\0') abort();
    if (status < 0) return 0;
    for (int64_t k = 0; ordinary && k < elements; k++)
        if (!(at(&n, plan, k) >= 0) || !isfinite(at(&n, plan, k))) abort();
    if (ordinary) check_sums(&n, plan);
    const ota_status backward = ota_normalize_backward(&n, scores, plan, grad, back, &error);
    if (backward < 0 && error.message[0] == '\0') abort();
    for (int64_t k = 0; ordinary && backward == OTA_OK && k < elements; k++)
        if (!isfinite(at(&n, back, k))) abort();
    return 0;
}
