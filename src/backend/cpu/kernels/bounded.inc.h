/* Rows of costs where columns have bounds (backend/bounded_kernels.h), in f64 alone. Plain loops over OTA_BOUNDED_LANES: the
 * compiler makes vectors of them. */

/* `rows` is a constant where this is called, so that sums stay in registers. */
static ALWAYS_INLINE void bounded_panel(const double *restrict points, int rows,
                                        const double *restrict panel, int64_t width, int64_t stride,
                                        double *restrict out) {
    double sum[4][OTA_BOUNDED_PANEL] = {{0}};
    for (int64_t t = 0; t < width; t++) {
        const double *restrict centre = panel + t * OTA_BOUNDED_PANEL;
        for (int i = 0; i < rows; i++) {
            const double x = points[i * width + t];
            for (int l = 0; l < OTA_BOUNDED_PANEL; l++) {
                const double apart = x - centre[l];
                sum[i][l] += apart * apart;
            }
        }
    }
    for (int i = 0; i < rows; i++) {
        for (int l = 0; l < OTA_BOUNDED_PANEL; l++) out[i * stride + l] = sum[i][l];
    }
}

static void bounded_distances(const double *points, int64_t rows, const double *centres,
                              int64_t width, int64_t stride, double *out) {
    for (int64_t first = 0; first < stride; first += OTA_BOUNDED_PANEL) {
        const double *panel = centres + first * width;
        int64_t i = 0;
        for (; i + 4 <= rows; i += 4)
            bounded_panel(points + i * width, 4, panel, width, stride, out + i * stride + first);
        for (; i < rows; i++)
            bounded_panel(points + i * width, 1, panel, width, stride, out + i * stride + first);
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
