/* Bounds of one softmax row p = softmax(z / T) over m symbols, of its change to p' = softmax(z' / T), and
 * of the linear probe z = W^T h that makes the logits.
 *
 *     ||p' - p||_1 <= 2 tanh(osc(dz)/(4T)) <= ||dz||_inf / T,   <= 2 tanh(diam(W) ||dh||/(4T))
 *     TV <= max(eps, eps'),  eps = 1 - p_1,  eps' = 1 - p'_1 at the same index
 *     eps' <= e^delta eps / (1 - eps + e^delta eps) if no margin z_1 - z_j shrinks by more than delta T */
#include "analysis/numbers.h"

#include <stdlib.h>

ota_status ota_lipschitz_of(const void *before, const void *after, ota_type type, int64_t size,
                            double temperature, ota_lipschitz *lipschitz,
                            const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_divergence divergence;
    ota_logit_change change;
    ota_status status = ota_divergence_of_logits(before, after, type, size, temperature,
                                                 &divergence, options, error);
    if (status == OTA_OK)
        status = ota_logit_change_of(before, after, type, size, &change, options, error);
    if (status != OTA_OK) return status;
    lipschitz->l1 = 2.0 * divergence.tv;
    lipschitz->printed = change.max_change / temperature;
    lipschitz->sharp = 2.0 * tanh(change.range_half / (2.0 * temperature));
    return ota_analysis_end(OTA_OK, &call);
}

/* ---- the norm of the Jacobian ---------------------------------------------------------------- */

enum { SUBSETS_MOST = 20 };

/* The mass nearest to 1/2 that a subset has, by walking all of them along a Gray code; from time to time
 * the sum is recomputed, so that roundings do not pile up. */
static double best_subset(const double *p, double scale, int64_t size) {
    double best = 0.0, mass = 0.0;
    const uint64_t last = (UINT64_C(1) << (size - 1)) - 1; /* the last symbol may stay outside */
    for (uint64_t step = 1; step <= last; step++) {
        const uint64_t set = step ^ step >> 1, changed = set ^ (step - 1) ^ (step - 1) >> 1;
        if (step % 64 == 0) {
            mass = 0.0;
            for (int64_t i = 0; i < size; i++) mass += set >> i & 1 ? p[i] * scale : 0.0;
        } else {
            int bit = 0;
            while (changed >> bit != 1) bit++;
            mass += set & changed ? p[bit] * scale : -p[bit] * scale;
        }
        if (fabs(mass - 0.5) < fabs(best - 0.5)) best = mass;
    }
    return best;
}

ota_status ota_jacobian_norm(const double *p, int64_t size, double *lower, double *upper,
                             const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    double scale = 1.0;
    ota_status status = analysis_check_size(size, 1, "size", &call);
    if (status == OTA_OK) status = analysis_check_distribution(p, size, "p", &scale, &call);
    if (status != OTA_OK) return status;
    int64_t leader = 0;
    for (int64_t i = 1; i < size && analysis_goes_on(&call, i); i++) {
        if (p[i] > p[leader]) leader = i;
    }
    analysis_sum others = {0.0, 0.0};
    for (int64_t i = 0; i < size && analysis_goes_on(&call, i); i++) {
        if (i != leader) analysis_add(&others, p[i] * scale);
    }
    if (p[leader] * scale >= 0.5) {
        *lower = *upper = 4.0 * p[leader] * scale * analysis_total(&others);
    } else if (size <= SUBSETS_MOST) {
        const double mass = best_subset(p, scale, size);
        *lower = *upper = 4.0 * mass * (1.0 - mass);
    } else {
        double mass = 0.0;
        for (int64_t i = 0; i < size && analysis_goes_on(&call, i); i++) {
            if (mass + p[i] * scale <= 0.5) mass += p[i] * scale;
        }
        *lower = 4.0 * mass * (1.0 - mass);
        *upper = 1.0;
    }
    return ota_analysis_end(OTA_OK, &call);
}

/* ---- the probe ------------------------------------------------------------------------------ */

enum { DIAMETER_EXACT_MOST = 2048 };

/* ||W_j - W_k||_2; k < 0: ||W_j - center||_2. */
static double direction_distance(const analysis_numbers *w, int64_t j, int64_t k,
                                 const double *center, int64_t width, const analysis_call *call) {
    double squares = 0.0;
    for (int64_t t = 0; t < width && analysis_goes_on(call, t); t++) {
        const double from = k < 0 ? center[t] : analysis_at(w, k * width + t);
        const double d = analysis_at(w, j * width + t) - from;
        squares += d * d;
    }
    return sqrt(squares);
}

ota_status ota_probe_of(const void *directions, ota_type type, int64_t size, int64_t width,
                        ota_probe *probe, const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const analysis_numbers w = {directions, type};
    ota_status status = analysis_check_size(size, 1, "size", &call);
    if (status == OTA_OK) status = analysis_check_size(width, 1, "width", &call);
    if (status == OTA_OK && size > INT64_MAX / 8 / width) {
        status = ota_analysis_fail(&call, OTA_EOVERFLOW, "size", "use a smaller probe",
                                   "%" PRId64 " x %" PRId64 " entries are too many", size, width);
    }
    /* Squares of width such numbers do not overflow. */
    if (status == OTA_OK)
        status = analysis_check_numbers(&w, size * width, 1e-160, "directions", &call);
    if (status != OTA_OK) return status;
    double *const center = calloc((size_t)width, sizeof *center);
    if (center == NULL) {
        return ota_analysis_fail(&call, OTA_ENOMEM, "width", "use a smaller probe",
                                 "no memory for %" PRId64 " numbers", width);
    }
    *probe = (ota_probe){.diameter_exact = size <= DIAMETER_EXACT_MOST};
    for (int64_t j = 0; j < size && ota_analysis_goes_on(&call); j++) {
        probe->norm = fmax(probe->norm, direction_distance(&w, j, -1, center, width, &call));
    }
    if (probe->diameter_exact) {
        for (int64_t j = 0; j < size && ota_analysis_goes_on(&call); j++) {
            for (int64_t k = 0; k < j && ota_analysis_goes_on(&call); k++) {
                probe->diameter =
                    fmax(probe->diameter, direction_distance(&w, j, k, NULL, width, &call));
            }
        }
    } else {
        for (int64_t j = 0; j < size && ota_analysis_goes_on(&call); j++) {
            for (int64_t t = 0; t < width && analysis_goes_on(&call, t); t++) {
                center[t] += analysis_at(&w, j * width + t) / (double)size;
            }
        }
        double radius = 0.0;
        for (int64_t j = 0; j < size && ota_analysis_goes_on(&call); j++) {
            radius = fmax(radius, direction_distance(&w, j, -1, center, width, &call));
        }
        probe->diameter = 2.0 * fmin(radius, probe->norm);
    }
    free(center);
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_drift_bound(const ota_probe *probe, const double *steps, int64_t layers,
                           double *printed, double *sharp, const ota_analysis_options *options,
                           ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    analysis_sum sum = {0.0, 0.0};
    for (int64_t l = 0; l < layers && analysis_goes_on(&call, l); l++) {
        if (!(steps[l] >= 0.0) || isinf(steps[l])) {
            return ota_analysis_fail(&call, OTA_EINVAL, "steps", "norms are finite, 0 or more",
                                     "steps[%" PRId64 "] is %g", l, steps[l]);
        }
        analysis_add(&sum, steps[l]);
    }
    *printed = fmin(2.0, probe->norm * analysis_total(&sum));
    *sharp = 2.0 * tanh(0.25 * probe->diameter * analysis_total(&sum));
    return ota_analysis_end(OTA_OK, &call);
}

/* ---- saturation ----------------------------------------------------------------------------- */

/* 1 - p_index, summed over the others. */
static double tail_at(const analysis_softmax *s, int64_t index, int64_t size,
                      const analysis_call *call) {
    if (index == s->leader) return s->rest / (1.0 + s->rest);
    analysis_sum others = {0.0, 0.0};
    for (int64_t i = 0; i < size && analysis_goes_on(call, i); i++) {
        if (i != index) analysis_add(&others, exp(analysis_log_weight(s, i)));
    }
    return fmin(analysis_total(&others), 1.0);
}

ota_status ota_saturation_of(const void *before, const void *after, ota_type type, int64_t size,
                             double temperature, ota_saturation *saturation,
                             const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_divergence divergence;
    ota_tail tail;
    ota_status status = ota_divergence_of_logits(before, after, type, size, temperature,
                                                 &divergence, options, error);
    if (status == OTA_OK)
        status = ota_tail_of(before, type, size, temperature, &tail, options, error);
    if (status != OTA_OK) return status;
    const analysis_numbers z = {before, type}, w = {after, type};
    const analysis_softmax s = analysis_softmax_of(w, size, temperature, &call);
    const int64_t top = tail.index;
    double loss = 0.0;
    for (int64_t i = 0; i < size && analysis_goes_on(&call, i); i++) {
        loss = fmax(loss, (analysis_at(&w, i) - analysis_at(&z, i)) -
                              (analysis_at(&w, top) - analysis_at(&z, top)));
    }
    saturation->index = top;
    saturation->kept = analysis_at(&w, top) == s.top;
    saturation->tail_before = tail.mass;
    saturation->tail_after = tail_at(&s, top, size, &call);
    saturation->tv = divergence.tv;
    saturation->margin = tail.margin;
    saturation->margin_loss = loss;
    saturation->bound = fmax(saturation->tail_before, saturation->tail_after);
    /* log of e^delta eps / (1 - eps) */
    const double odds = loss / temperature + tail.log_mass - log1p(-tail.mass);
    saturation->tail_bound = odds > 0.0 ? 1.0 / (1.0 + exp(-odds)) : exp(odds) / (1.0 + exp(odds));
    saturation->printed = 2.0 * tail.mass;
    return ota_analysis_end(OTA_OK, &call);
}

int ota_saturation_event(const ota_saturation *saturation, double tail, double tv) {
    return saturation->tail_before < tail && saturation->tail_after < tail && saturation->tv < tv;
}

ota_status ota_saturated_fraction(const ota_matrix *scores, double temperature, double tail,
                                  double *fraction, const ota_analysis_options *options,
                                  ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const int64_t rows = scores->rows, columns = scores->columns;
    ota_status status = analysis_check_size(rows, 1, "rows", &call);
    if (status == OTA_OK) status = analysis_check_size(columns, 1, "columns", &call);
    int64_t count = 0;
    for (int64_t i = 0; i < rows && status == OTA_OK && ota_analysis_goes_on(&call); i++) {
        const char *const row =
            (const char *)scores->data + (size_t)(i * columns) * ota_type_bytes(scores->type);
        ota_tail here;
        status = ota_tail_of(row, scores->type, columns, temperature, &here, options, error);
        if (status == OTA_OK) count += here.mass < tail;
    }
    if (status == OTA_OK) *fraction = (double)count / (double)rows;
    return ota_analysis_end(status, &call);
}

/* ---- range and uniformity ------------------------------------------------------------------- */

ota_status ota_softmax_limits_of(int64_t size, double range, double temperature,
                                 ota_softmax_limits *limits, ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    ota_status status = analysis_check_size(size, 2, "size", &call);
    if (status == OTA_OK) status = analysis_check_temperature(temperature, &call);
    if (status != OTA_OK) return status;
    if (!(range >= 0.0) || isinf(range)) {
        return ota_analysis_fail(&call, OTA_EINVAL, "range", "give max z - min z", "range is %g",
                                 range);
    }
    const double others = (double)(size - 1), low = exp(-range / temperature);
    limits->max_least = 1.0 / (others + low);
    limits->max_most = 1.0 / (1.0 + others * low);
    limits->min_least = low / (low + others);
    limits->min_most = low / (others * low + 1.0);
    return ota_analysis_end(OTA_OK, &call);
}

double ota_two_level(int64_t size, int64_t high, double range, double temperature) {
    if (high < 1 || high > size || !(range >= 0.0) || !(temperature > 0.0)) return (double)NAN;
    return 1.0 / ((double)high + (double)(size - high) * exp(-range / temperature));
}

static double surprise(double p) { return p > 0.0 ? -p * log(p) : 0.0; }

ota_status ota_uniformity_of(const void *logits, ota_type type, int64_t size, double temperature,
                             ota_uniformity *uniformity, const ota_analysis_options *options,
                             ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const analysis_numbers z = {logits, type};
    ota_tail tail;
    const ota_status status = ota_tail_of(logits, type, size, temperature, &tail, options, error);
    if (status != OTA_OK) return status;
    const analysis_softmax s = analysis_softmax_of(z, size, temperature, &call);
    const double m = (double)size;
    analysis_sum entropy = {0.0, 0.0}, above = {0.0, 0.0};
    double least = s.top;
    for (int64_t i = 0; i < size && analysis_goes_on(&call, i); i++) {
        const double log_weight = analysis_log_weight(&s, i), p = exp(log_weight);
        least = fmin(least, analysis_at(&z, i));
        analysis_add(&entropy, p > 0.0 ? -p * log_weight : 0.0);
        analysis_add(&above, fmax(p - 1.0 / m, 0.0));
    }
    const double range = (s.top - least) / temperature, low = exp(-range);
    const double least_weight = exp(-range - s.log_total);
    uniformity->entropy = analysis_total(&entropy);
    /* The top's own term from its tail: -(1 - eps) log(1 - eps). */
    uniformity->entropy_bound = surprise(tail.mass) + (1.0 - tail.mass) * s.log_total +
                                (size > 1 ? tail.mass * log(m - 1.0) : 0.0);
    uniformity->tv = analysis_total(&above);
    uniformity->by_least = 1.0 - m * least_weight;
    uniformity->by_range = 1.0 - m * low / (low + (m - 1.0));
    uniformity->by_least_sharp = (1.0 - 1.0 / m) * uniformity->by_least;
    uniformity->by_range_sharp = tanh(0.25 * range);
    return ota_analysis_end(OTA_OK, &call);
}
