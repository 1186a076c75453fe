/* Rows in order under capacities of keys, in f64 from weights e in T. Part of level.c. A key is open where e_j > 0 and
 * remaining_j > 0; e_j < 0 marks one that this row has filled. Eight keys at once, whatever the level. */

enum { ONLINE_KEYS = 8 };

typedef double online_wide __attribute__((vector_size(ONLINE_KEYS * sizeof(double))));
typedef int64_t online_mask __attribute__((vector_size(ONLINE_KEYS * sizeof(int64_t))));
typedef real online_real __attribute__((vector_size(ONLINE_KEYS * sizeof(real))));

/* What is open of eight keys, and what is left of them. */
static ALWAYS_INLINE void online_load(const real *e, const double *remaining, online_wide *x,
                                      online_wide *left, online_mask *open) {
    online_real narrow;
    memcpy(&narrow, e, sizeof narrow);
    memcpy(left, remaining, sizeof *left);
    *x = __builtin_convertvector(narrow, online_wide);
    *open = (online_mask)(*x > 0.0) & (online_mask)(*left > 0.0);
}

/* Carries what every addition rounds off, as `total` does. */
static double online_sum(const real *e, const double *remaining, int64_t count) {
    online_wide sum = {0}, rest = {0}, x, left;
    online_mask open;
    int64_t j = 0;
    total all = {0, 0};
    for (; j + ONLINE_KEYS <= count; j += ONLINE_KEYS) {
        online_load(e + j, remaining + j, &x, &left, &open);
        x = (online_wide)((online_mask)x & open);
        const online_wide next = sum + x, part = next - sum;
        rest += (sum - (next - part)) + (x - part);
        sum = next;
    }
    for (int l = 0; l < ONLINE_KEYS; l++) {
        total_add(&all, sum[l]);
        all.rest += rest[l];
    }
    for (; j < count; j++) total_add(&all, e[j] > 0 && remaining[j] > 0.0 ? (double)e[j] : 0.0);
    return total_of(&all);
}

static int64_t online_fill(real *e, const double *remaining, int64_t count, double factor,
                           double *taken) {
    int64_t filled = 0;
    total sum = {0, 0};
    for (int64_t j = 0, end; j < count; j = end) {
        end = ota_int_min(j + ONLINE_KEYS, count);
        if (end - j == ONLINE_KEYS) {
            online_wide x, left;
            online_mask open;
            online_load(e + j, remaining + j, &x, &left, &open);
            open &= (online_mask)(x * factor >= left);
            int64_t any = 0;
            for (int l = 0; l < ONLINE_KEYS; l++) any |= open[l];
            if (any == 0) continue;
        }
        for (int64_t k = j; k < end; k++) {
            if (!(e[k] > 0 && remaining[k] > 0.0 && (double)e[k] * factor >= remaining[k]))
                continue;
            total_add(&sum, remaining[k]);
            e[k] = -1;
            filled++;
        }
    }
    *taken = total_of(&sum);
    return filled;
}

static void online_give(const real *e, double factor, int64_t count, double *remaining, real *p) {
    int64_t j = 0;
    for (; j + ONLINE_KEYS <= count; j += ONLINE_KEYS) {
        online_wide x, left;
        online_mask open;
        online_load(e + j, remaining + j, &x, &left, &open);
        const online_mask filled = (online_mask)(x < 0.0) & (online_mask)(left > 0.0);
        const online_wide share =
            (online_wide)(((online_mask)(x * factor) & open) | ((online_mask)left & filled));
        left -= share;
        const online_real weights = __builtin_convertvector(share, online_real);
        memcpy(remaining + j, &left, sizeof left);
        memcpy(p + j, &weights, sizeof weights);
    }
    for (; j < count; j++) {
        const bool open = remaining[j] > 0.0;
        const double share = open && e[j] > 0   ? (double)e[j] * factor
                             : open && e[j] < 0 ? remaining[j]
                                                : 0.0;
        remaining[j] -= share;
        p[j] = (real)share;
    }
}

static const OF_TYPE(online) online_passes = {
    .sum = online_sum, .fill = online_fill, .give = online_give};
