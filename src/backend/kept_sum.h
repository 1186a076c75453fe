/* kept_sum.h: a sum that keeps what each addition rounds away (Neumaier), so that rows sum to mu whatever their length. */
#ifndef OTATTN_KEPT_SUM_H
#define OTATTN_KEPT_SUM_H

typedef struct ota_kept_sum {
    double total, lost;
} ota_kept_sum;

static inline void ota_kept_add(ota_kept_sum *sum, double x) {
    const double next = sum->total + x;
    sum->lost += sum->total >= x ? (sum->total - next) + x : (x - next) + sum->total;
    sum->total = next;
}

static inline double ota_kept_value(const ota_kept_sum *sum) { return sum->total + sum->lost; }

#endif
