/* Reading rows of scores for the search for a matching (costs.h). Plain loops: the compiler makes vectors of them. */

enum { COST_LANES = 8, PICK_BLOCK = 16, TRANSPOSE_BLOCK = 16 };

static ota_cost_score_range cost_score_range(const void *scores, int64_t count, double sign) {
    const real *restrict row = scores;
    const real unit = (real)sign;
    real high[COST_LANES], low[COST_LANES];
    int32_t wrong[COST_LANES] = {0};
    for (int l = 0; l < COST_LANES; l++) {
        high[l] = (real)-INFINITY;
        low[l] = (real)INFINITY;
    }
    for (int64_t j = 0; j < count; j += COST_LANES) {
        /* The last group reads some of the one before again. */
        const int64_t from = j + COST_LANES <= count ? j : count - COST_LANES;
        const int64_t first = ota_int_max(from, 0);
        const int lanes = count < COST_LANES ? (int)count : COST_LANES;
        for (int l = 0; l < lanes; l++) {
            const real score = unit * row[first + l];
            const real allowed = score > (real)-INFINITY ? score : (real)INFINITY;
            wrong[l] |= !(score < (real)INFINITY);
            high[l] = score > high[l] ? score : high[l];
            low[l] = allowed < low[l] ? allowed : low[l];
        }
    }
    ota_cost_score_range found = {.top = -INFINITY};
    for (int l = 0; l < COST_LANES; l++) {
        found.wrong |= wrong[l] != 0;
        if (!(high[l] > (real)-INFINITY)) continue;
        const double most = (double)high[l], above = fabs(most), below = fabs((double)low[l]);
        const double largest = above > below ? above : below;
        found.top = most > found.top ? most : found.top;
        found.largest = largest > found.largest ? largest : found.largest;
    }
    return found;
}

static ALWAYS_INLINE double cost_of(real score, double top, double factor, double limit) {
    const double cost = top - (double)score * factor;
    return cost < limit ? cost : limit;
}

static inline double cost_at(const ota_score_row *row, int64_t j) {
    return cost_of(((const real *)row->scores)[j], row->top, row->factor, row->limit);
}

static void cost_form(const ota_score_row *row, double *restrict cost) {
    const real *restrict scores = row->scores;
    const double top = row->top, factor = row->factor, limit = row->limit;
    for (int64_t j = 0; j < row->count; j++) cost[j] = cost_of(scores[j], top, factor, limit);
}

static void cost_lower(const ota_score_row *row, int64_t i, double *restrict price,
                       int64_t *restrict who) {
    const real *restrict scores = row->scores;
    const double top = row->top, factor = row->factor, limit = row->limit;
    for (int64_t j = 0; j < row->count; j++) {
        const double cost = cost_of(scores[j], top, factor, limit), now = price[j];
        who[j] = cost < now ? i : who[j];
        price[j] = cost < now ? cost : now;
    }
}

static int64_t cost_tight(const ota_score_row *row, const double *restrict price,
                          const int64_t *restrict row_of, int64_t begin) {
    const real *restrict scores = row->scores;
    const double top = row->top, factor = row->factor, limit = row->limit;
    const int64_t blocks = (row->count + PICK_BLOCK - 1) / PICK_BLOCK;
    for (int64_t step = 0, k = begin / PICK_BLOCK % blocks; step < blocks; step++) {
        const int64_t from = k * PICK_BLOCK, rest = row->count - from;
        int64_t any = rest < PICK_BLOCK;
        if (!any) {
            int64_t hit[COST_LANES] = {0};
            for (int j = 0; j < PICK_BLOCK; j += COST_LANES) {
                for (int l = 0; l < COST_LANES; l++) {
                    const double cost = cost_of(scores[from + j + l], top, factor, limit);
                    hit[l] |= (cost - price[from + j + l] <= 0.0) & (row_of[from + j + l] < 0);
                }
            }
            for (int l = 0; l < COST_LANES; l++) any |= hit[l];
        }
        for (int64_t j = from; any != 0 && j < from + PICK_BLOCK && j < row->count; j++) {
            if (row_of[j] < 0 && cost_at(row, j) - price[j] <= 0.0) return j;
        }
        k = k + 1 < blocks ? k + 1 : 0;
    }
    return -1;
}

static double cost_groups(const ota_score_row *row, const double *restrict price, int64_t groups,
                          double *restrict lowest) {
    const real *restrict scores = row->scores;
    const double top = row->top, factor = row->factor, limit = row->limit;
    for (int64_t k = 0; k < groups; k++)
        lowest[k] = cost_of(scores[k], top, factor, limit) - price[k];
    for (int64_t from = groups; from < row->count; from += groups) {
        const int64_t rest = row->count - from;
        const int64_t count = ota_int_min(groups, rest);
        for (int64_t k = 0; k < count; k++) {
            const double reduced = cost_of(scores[from + k], top, factor, limit) - price[from + k];
            lowest[k] = reduced < lowest[k] ? reduced : lowest[k];
        }
    }
    double lane[COST_LANES];
    for (int l = 0; l < COST_LANES; l++) lane[l] = INFINITY;
    int64_t k = 0;
    for (; k + COST_LANES <= groups; k += COST_LANES) {
        for (int l = 0; l < COST_LANES; l++)
            lane[l] = lowest[k + l] < lane[l] ? lowest[k + l] : lane[l];
    }
    for (; k < groups; k++) lane[0] = lowest[k] < lane[0] ? lowest[k] : lane[0];
    for (int l = 1; l < COST_LANES; l++) lane[0] = lane[l] < lane[0] ? lane[l] : lane[0];
    return lane[0];
}

static bool cost_pick(const ota_score_row *row, const ota_cost_groups *of, int64_t begin,
                      double threshold, ota_pair_list *list) {
    const double *price = of->price, *lowest = of->lowest;
    /* Forbidden pairs, whose cost is infinite, stay out. */
    const double reach = threshold < DBL_MAX ? threshold : DBL_MAX;
    double next = INFINITY;
    for (int64_t step = 0, k = begin % of->count; step < of->count; step++) {
        if (lowest[k] <= reach) {
            for (int64_t j = k; j < row->count; j += of->count) {
                const double cost = cost_at(row, j), reduced = cost - price[j];
                if (!(reduced <= reach)) {
                    next = reduced < next ? reduced : next;
                    continue;
                }
                if (list->count == list->room) return false;
                list->column[list->count] = (int32_t)j;
                list->cost[list->count++] = cost;
            }
        } else {
            next = lowest[k] < next ? lowest[k] : next;
        }
        k = k + 1 < of->count ? k + 1 : 0;
    }
    list->next = next;
    return true;
}

static void cost_nearer(const ota_score_row *row, const double *restrict price, double offset,
                        const double *restrict distance, double most, ota_pair_list *list) {
    const real *restrict scores = row->scores;
    const double top = row->top, factor = row->factor, limit = row->limit;
    for (int64_t from = 0; from < row->count; from += PICK_BLOCK) {
        const int64_t rest = row->count - from;
        int64_t any = rest < PICK_BLOCK;
        if (!any) {
            int64_t hit[COST_LANES] = {0};
            for (int j = 0; j < PICK_BLOCK; j += COST_LANES) {
                for (int l = 0; l < COST_LANES; l++) {
                    const double cost = cost_of(scores[from + j + l], top, factor, limit);
                    const double through = (cost - price[from + j + l]) - offset;
                    const double now = distance[from + j + l];
                    hit[l] |= through < (now < most ? now : most);
                }
            }
            for (int l = 0; l < COST_LANES; l++) any |= hit[l];
        }
        for (int64_t j = from; any != 0 && j < from + PICK_BLOCK && j < row->count; j++) {
            const double cost = cost_at(row, j), through = (cost - price[j]) - offset;
            list->column[list->count] = (int32_t)j;
            list->cost[list->count] = cost;
            list->count += through < distance[j] && through < most;
        }
    }
}

static double cost_best(const void *scores, double sign, const double *restrict g, int64_t count) {
    const real *restrict row = scores;
    double lane[COST_LANES];
    for (int l = 0; l < COST_LANES; l++) lane[l] = -INFINITY;
    int64_t j = 0;
    for (; j + COST_LANES <= count; j += COST_LANES) {
        for (int l = 0; l < COST_LANES; l++) {
            const double sum = sign * (double)row[j + l] + g[j + l];
            lane[l] = sum > lane[l] ? sum : lane[l];
        }
    }
    for (; j < count; j++) {
        const double sum = sign * (double)row[j] + g[j];
        lane[0] = sum > lane[0] ? sum : lane[0];
    }
    double best = lane[0];
    for (int l = 1; l < COST_LANES; l++) best = lane[l] > best ? lane[l] : best;
    return best;
}

static double cost_best_listed(const void *scores, double sign, const double *g,
                               const int32_t *column, int32_t listed) {
    const real *row = scores;
    double best = -INFINITY;
    for (int32_t k = 0; k < listed; k++) {
        const double sum = sign * (double)row[column[k]] + g[column[k]];
        best = sum > best ? sum : best;
    }
    return best;
}

static void cost_transpose(const void *from, int64_t rows, int64_t columns, int64_t from_stride,
                           void *to, int64_t stride) {
    const real *source = from;
    real *target = to;
    for (int64_t block = 0; block < rows; block += TRANSPOSE_BLOCK) {
        const int64_t end = ota_int_min(block + TRANSPOSE_BLOCK, rows);
        for (int64_t j = 0; j < columns; j++) {
            for (int64_t i = block; i < end; i++)
                target[j * stride + i] = source[i * from_stride + j];
        }
    }
}

static const ota_costs costs = {
    .score_range = cost_score_range,
    .form = cost_form,
    .lower = cost_lower,
    .tight = cost_tight,
    .groups = cost_groups,
    .pick = cost_pick,
    .nearer = cost_nearer,
    .best = cost_best,
    .best_listed = cost_best_listed,
    .transpose = cost_transpose,
};
