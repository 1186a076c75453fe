/* Rows of costs where columns have bounds (backend/bounded.h), in f64 alone. Plain loops over OTA_BOUNDED_LANES: the
 * compiler makes vectors of them. */

static void bounded_distances(const double *point, const double *centres, int64_t width,
                              int64_t stride, double *out) {
    for (int64_t first = 0; first < stride; first += OTA_BOUNDED_LANES) {
        double sum[OTA_BOUNDED_LANES] = {0};
        for (int64_t t = 0; t < width; t++) {
            const double *restrict centre = centres + t * stride + first;
            const double x = point[t];
            for (int l = 0; l < OTA_BOUNDED_LANES; l++) {
                const double apart = x - centre[l];
                sum[l] += apart * apart;
            }
        }
        for (int l = 0; l < OTA_BOUNDED_LANES; l++) out[first + l] = sum[l];
    }
}

static int64_t bounded_cheapest(const double *restrict x, const double *restrict y, int64_t stride,
                                double *restrict sum) {
    double lane[OTA_BOUNDED_LANES];
    for (int l = 0; l < OTA_BOUNDED_LANES; l++) lane[l] = INFINITY;
    for (int64_t j = 0; j < stride; j += OTA_BOUNDED_LANES) {
        for (int l = 0; l < OTA_BOUNDED_LANES; l++) {
            const double found = x[j + l] + y[j + l];
            sum[j + l] = found;
            lane[l] = found < lane[l] ? found : lane[l];
        }
    }
    double least = INFINITY;
    for (int l = 0; l < OTA_BOUNDED_LANES; l++) least = lane[l] < least ? lane[l] : least;
    for (int64_t j = 0; j < stride; j += OTA_BOUNDED_LANES) {
        int64_t hit[OTA_BOUNDED_LANES], any = 0;
        for (int l = 0; l < OTA_BOUNDED_LANES; l++) hit[l] = sum[j + l] <= least;
        for (int l = 0; l < OTA_BOUNDED_LANES; l++) any |= hit[l];
        for (int l = 0; any != 0 && l < OTA_BOUNDED_LANES; l++) {
            if (hit[l] != 0) return j + l;
        }
    }
    return 0;
}

static void bounded_within(const double *restrict costs, double own, double ceiling,
                           const double *restrict base, int64_t stride, uint64_t *bits) {
    for (int64_t word = 0; word * 64 < stride; word++) {
        uint64_t found = 0;
        const int64_t end = ota_int_min(stride, word * 64 + 64);
        for (int64_t j = word * 64; j < end; j += OTA_BOUNDED_LANES) {
            int64_t hit[OTA_BOUNDED_LANES], any = 0;
            for (int l = 0; l < OTA_BOUNDED_LANES; l++)
                hit[l] = costs[j + l] - own <= ceiling - base[j + l];
            for (int l = 0; l < OTA_BOUNDED_LANES; l++) any |= hit[l];
            for (int l = 0; any != 0 && l < OTA_BOUNDED_LANES; l++)
                found |= (uint64_t)hit[l] << (j % 64 + l);
        }
        bits[word] = found;
    }
}

static void bounded_relax(const ota_bounded_node *node, const double *restrict best,
                          const double *restrict price, int64_t stride, double *restrict length,
                          int64_t *restrict before) {
    const double from = node->from, own = node->own;
    const int64_t v = node->node;
    for (int64_t j = 0; j < stride; j += OTA_BOUNDED_LANES) {
        for (int l = 0; l < OTA_BOUNDED_LANES; l++) {
            const double reduced = best[j + l] + (price[j + l] - own);
            const double found = from + (reduced > 0.0 ? reduced : 0.0);
            before[j + l] = found < length[j + l] ? v : before[j + l];
            length[j + l] = found < length[j + l] ? found : length[j + l];
        }
    }
}

static const ota_bounded_passes bounded_passes = {.distances = bounded_distances,
                                                  .cheapest = bounded_cheapest,
                                                  .within = bounded_within,
                                                  .relax = bounded_relax};
