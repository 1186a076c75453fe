/* The rules of the alignment but for policy iteration, the judging of shifts, and the entry. */
#include <float.h>
#include <stdlib.h>

#include "gauge_state.h"

enum { MANY_COLUMNS = 8192 };

/* ---- the other rules ---- */

static ota_status midrange(gauge_state *s) {
    const double tolerance = s->options->tolerance > 0.0 ? s->options->tolerance : 1e-6;
    const int64_t most = s->options->max_passes > 0 ? s->options->max_passes : 100;
    for (s->passes = 1;; s->passes++) {
        ota_gauge_best_cycle(s);
        const double open = ota_gauge_largest_rest(s) - s->lower;
        tell(s->call, ++s->told, s->scale > 0.0 ? open / s->scale : 0.0);
        if (open <= tolerance * s->lower + s->slack) return OTA_OK;
        if (s->passes == most) return OTA_NOT_CONVERGED;
        bool changed;
        const ota_status status =
            ota_gauge_scan(s, ota_gauge_centre_columns, s->policy.row_at, &changed);
        if (status != OTA_OK) return status;
        ota_gauge_centre_rows(s);
    }
}

/* The policy at the shifts there are: a lower bound for any of them. */
static bool keep_columns(gauge_state *s, gauge_strip *strip, int64_t first, int64_t count) {
    memcpy(s->policy.column_at + first, strip->low_at, (size_t)count * sizeof *strip->low_at);
    return false;
}

static ota_status least_squares(gauge_state *s) {
    const int64_t n = s->d.rows, m = s->d.columns;
    double entries[STRIP], grand = 0.0;
    bool changed;
    memset(s->k, 0, (size_t)n * sizeof *s->k);
    memset(s->v, 0, (size_t)m * sizeof *s->v);
    for (int64_t first = 0; first < m; first += STRIP) {
        const int64_t count = strip_size(&s->d, first);
        const ota_status interrupted = ota_analysis_interrupted(s->call);
        if (interrupted != OTA_OK) return interrupted;
        for (int64_t i = 0; i < n && analysis_goes_on(s->call, i); i++) {
            double part = 0.0;
            load(&s->d, i, first, count, entries);
            for (int64_t j = 0; j < count; j++) {
                part += entries[j];
                s->v[first + j] += entries[j];
            }
            s->k[i] += part / (double)m;
        }
    }
    for (int64_t j = 0; j < m; j++) s->v[j] /= (double)n;
    for (int64_t i = 0; i < n; i++) grand += s->k[i] / (double)n;
    for (int64_t i = 0; i < n; i++) s->k[i] -= grand;
    s->passes = 1;
    const ota_status status = ota_gauge_scan(s, keep_columns, s->policy.row_at, &changed);
    if (status == OTA_OK) ota_gauge_best_cycle(s);
    return status;
}

static ota_status fast(gauge_state *s) {
    bool changed;
    load(&s->d, 0, 0, s->d.columns, s->v);
    const ota_status status = ota_gauge_scan(s, NULL, NULL, &changed);
    if (status != OTA_OK) return status;
    ota_gauge_centre_rows(s);
    for (int64_t i = 0; i < s->d.rows; i++) {
        s->lower = fmax(s->lower, 0.25 * (s->row_high[i] - s->row_low[i]));
    }
    s->passes = 1;
    return OTA_OK;
}

static ota_status solve(gauge_state *s) {
    switch (s->options->rule) {
    case OTA_GAUGE_LEAST_SQUARES: return least_squares(s);
    case OTA_GAUGE_FAST: return fast(s);
    default: break;
    }
    if (s->options->rule == OTA_GAUGE_HOWARD && s->d.columns >= MANY_COLUMNS)
        return ota_gauge_active(s);
    ota_status status = ota_gauge_start(s);
    if (status != OTA_OK) return status;
    if (s->options->rule == OTA_GAUGE_MIDRANGE) return midrange(s);
    status = ota_gauge_howard(s);
    return status == OTA_OK ? ota_gauge_centre(s) : status;
}

/* ---- judging, memory, checks ---- */

typedef struct entries_check {
    const matrix *d;
    const analysis_call *call;
    int64_t since;
    struct {
        double scale, bad;   /* the entry that is refused */
        int64_t row, column; /* of it; row -1: there is none */
        bool left;           /* for lack of time */
    } share[SHARES];
} entries_check;

static void check_share(void *context, int64_t share, int worker) {
    entries_check *const x = context;
    const int64_t end = gauge_share_begin(x->d, share + 1);
    double strip[STRIP], scale = 0.0;
    (void)worker;
    x->share[share].row = -1;
    for (int64_t i = gauge_share_begin(x->d, share); i < end; i++) {
        for (int64_t first = 0; first < x->d->columns; first += STRIP) {
            x->share[share].left = !has_time(x->since, x->call);
            if (x->share[share].left) return;
            const int64_t count = strip_size(x->d, first);
            load(x->d, i, first, count, strip);
            if (ota_logit_kernels_newest()->largest(strip, count, LARGEST, &scale) == 0) continue;
            int64_t j = 0;
            while (fabs(strip[j]) <= LARGEST) j++;
            x->share[share].row = i;
            x->share[share].column = first + j;
            x->share[share].bad = strip[j];
            return;
        }
    }
    x->share[share].scale = scale;
}

ota_status ota_gauge_check_entries(const matrix *d, const ota_gauge_options *options, double *scale,
                                   const analysis_call *call) {
    entries_check x = {.d = d, .call = call, .since = ota_now_ns()};
    const int64_t shares = gauge_shares(d);
    *scale = 0.0;
    gauge_run(options, shares, check_share, &x);
    for (int64_t t = 0; t < shares; t++) {
        if (x.share[t].left) return ota_analysis_end(OTA_OK, call);
        *scale = fmax(*scale, x.share[t].scale);
        if (x.share[t].row < 0) continue;
        return ota_analysis_fail(call, OTA_EINVAL, d->b == NULL ? "a" : "a - b",
                                 "give finite numbers of at most 1e300",
                                 "entry (%" PRId64 ", %" PRId64 ") of %s is %g", x.share[t].row,
                                 x.share[t].column, d->b == NULL ? "a" : "a - b", x.share[t].bad);
    }
    return OTA_OK;
}

typedef struct judged {
    const gauge_state *s;
    int64_t since;
    double inverse;        /* of the scale */
    double *rest, *square; /* [rows]: max_j |r_ij|, sum_j (r_ij / scale)^2 */
} judged;

static void judge_row(const judged *x, int64_t i) {
    const gauge_state *const s = x->s;
    double strip[STRIP], row = 0.0, square = 0.0;
    for (int64_t first = 0; first < s->d.columns && row < HUGE_VAL; first += STRIP) {
        if (!has_time(x->since, s->call)) {
            /* No bound but this is known of what was not read. */
            row = square = HUGE_VAL;
            break;
        }
        const int64_t count = strip_size(&s->d, first);
        load(&s->d, i, first, count, strip);
        square +=
            ota_logit_kernels_newest()->rest(strip, s->k[i], s->v + first, count, x->inverse, &row);
    }
    x->rest[i] = row;
    x->square[i] = square;
}

static void judge_share(void *context, int64_t share, int worker) {
    const judged *x = context;
    const int64_t end = gauge_share_begin(&x->s->d, share + 1);
    (void)worker;
    for (int64_t i = gauge_share_begin(&x->s->d, share); i < end; i++) judge_row(x, i);
}

/* The figures of the shifts, from the matrix alone; what scans left of the rows is written over. */
static void judge(const gauge_state *s, const ota_gauge_arrays *arrays, ota_gauge_result *result) {
    const int64_t n = s->d.rows, m = s->d.columns;
    /* The inverse of a tiny scale would overflow. */
    const double unit = fmax(s->scale, DBL_MIN);
    judged x = {.s = s,
                .since = ota_now_ns(),
                .inverse = 1.0 / unit,
                .rest = s->row_high,
                .square = s->row_low};
    double square = 0.0, worst = 0.0;
    gauge_run(s->options, gauge_shares(&s->d), judge_share, &x);
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, x.rest[i]);
        square += x.square[i];
    }
    if (arrays->row_residual != NULL)
        memcpy(arrays->row_residual, x.rest, (size_t)n * sizeof *x.rest);
    const double size = (double)n * (double)m;
    result->residual = worst;
    /* Above it by rounding alone. */
    result->residual_lower = fmin(s->lower, worst);
    result->rms = unit * sqrt(square / size);
    result->per_sqrt_columns = worst / sqrt((double)m);
    result->per_normal_maximum = size > 1.0 ? worst / sqrt(2.0 * log(size)) : (double)NAN;
    result->passes = s->passes;
    result->cycle_length = s->cycle.length;
}

/* mean(k) = 0. */
static void normalise(gauge_state *s) {
    double mean = 0.0;
    for (int64_t i = 0; i < s->d.rows; i++) mean += s->k[i] / (double)s->d.rows;
    for (int64_t i = 0; i < s->d.rows; i++) s->k[i] -= mean;
    for (int64_t j = 0; j < s->d.columns; j++) s->v[j] += mean;
}

bool ota_gauge_allocate(gauge_state *s) {
    const size_t n = (size_t)s->d.rows, m = (size_t)s->d.columns;
    /* check_matrix keeps 64 rows and 64 columns within the range of sizes. */
    s->numbers = calloc(4 * n + 2 * m, sizeof *s->numbers);
    s->places = calloc(6 * n + m, sizeof *s->places);
    s->pieces = calloc(m / PIECE + 1, sizeof *s->pieces);
    if (s->numbers == NULL || s->places == NULL || s->pieces == NULL) return false;
    double **const rows[] = {&s->k, &s->other_k, &s->row_low, &s->row_high};
    for (size_t l = 0; l < 4; l++) *rows[l] = s->numbers + l * n;
    s->v = s->numbers + 4 * n;
    s->other_v = s->v + m;
    int64_t **const places[] = {&s->policy.row_at, &s->policy.head, &s->policy.next,
                                &s->policy.stack,  &s->cycle.rows,  &s->cycle.columns};
    for (size_t l = 0; l < 6; l++) *places[l] = s->places + l * n;
    s->policy.column_at = s->places + 6 * n;
    return true;
}

void ota_gauge_release(gauge_state *s) {
    free(s->numbers);
    free(s->places);
    free(s->pieces);
    s->numbers = NULL;
    s->places = NULL;
    s->pieces = NULL;
}

static void copy_out(const gauge_state *s, const ota_gauge_arrays *arrays) {
    const size_t n = (size_t)s->d.rows, m = (size_t)s->d.columns, l = (size_t)s->cycle.length;
    if (arrays->row_shift != NULL) memcpy(arrays->row_shift, s->k, n * sizeof *s->k);
    if (arrays->column_shift != NULL) memcpy(arrays->column_shift, s->v, m * sizeof *s->v);
    if (arrays->cycle_rows != NULL) {
        memcpy(arrays->cycle_rows, s->cycle.rows, l * sizeof *s->cycle.rows);
    }
    if (arrays->cycle_columns != NULL) {
        memcpy(arrays->cycle_columns, s->cycle.columns, l * sizeof *s->cycle.columns);
    }
}

static ota_status align(const ota_gauge_matrix *matrix, const ota_gauge_options *options,
                        const ota_gauge_arrays *arrays, ota_gauge_result *result,
                        const analysis_call *call) {
    static const ota_gauge_arrays none;
    gauge_state s = {.call = call, .d = *matrix, .options = options};
    ota_status status = check_matrix(&s.d, call);
    if (status == OTA_OK) status = check_options(s.options, call);
    if (status != OTA_OK) return status;
    status = ota_gauge_check_entries(&s.d, s.options, &s.scale, call);
    if (status == OTA_CANCELLED || status == OTA_TIMEOUT)
        *result = (ota_gauge_result){.status = status, .residual = HUGE_VAL};
    if (status != OTA_OK) return status;
    s.slack = 16.0 * DBL_EPSILON * s.scale;
    if (!ota_gauge_allocate(&s)) {
        ota_gauge_release(&s);
        return no_memory(call);
    }
    result->status = ota_analysis_end(solve(&s), call);
    normalise(&s);
    if (arrays == NULL) arrays = &none;
    judge(&s, arrays, result);
    copy_out(&s, arrays);
    ota_gauge_release(&s);
    if (result->status == OTA_NOT_CONVERGED) {
        result->status = ota_analysis_fail(
            call, OTA_NOT_CONVERGED, "max_passes", "raise max_passes, or take the Howard rule",
            "R lies between %.12g and %.12g; more is not known after pass %" PRId64,
            result->residual_lower, result->residual, result->passes);
    }
    return result->status;
}

ota_status ota_gauge(const ota_gauge_matrix *matrix, const ota_gauge_options *how,
                     const ota_gauge_arrays *arrays, ota_gauge_result *result,
                     const ota_analysis_options *options, ota_error *error) {
    static const ota_gauge_options standard = {.size = sizeof standard};
    const analysis_call call = ota_analysis_begin(options, error);
    return align(matrix, how != NULL ? how : &standard, arrays, result, &call);
}
