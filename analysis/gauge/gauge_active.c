/* Minimax alignment where columns are many: D [rows, columns], shifts k [rows].
 *
 * Given k, column j is best served by its midrange and leaves (high_j - low_j) / 2, with low_j, high_j the
 * extremes over i of D_ij - k_i. So the columns only bound k, and as at any vertex of such a problem a few of
 * them, at most about as many as there are rows, do. Those are gathered and solved by policy iteration; one
 * pass over the whole matrix then finds the columns that the shifts found leave more than R, which join. R of
 * a part is a lower bound of R, and with no such column left it is R. The same holds for the greatest and the
 * least shifts, shortest paths at residual R, of the tie rule. Passes over the whole matrix only ask for low
 * and high; there are some eight of them, instead of one for every policy. */
#include <float.h>
#include <stdlib.h>

#include "base/integers.h"
#include "gauge_state.h"
#include "analysis/kernels/logit_kernels.h"

/* Columns that join at a time: so many a row, but never fewer than LEAST. */
enum { A_ROW = 2, LEAST = 512 };

typedef struct excess {
    double size; /* high - low of a column */
    int64_t column;
} excess;

typedef struct active {
    gauge_state *all;
    gauge_state part;           /* of the chosen columns */
    double *gathered;           /* [rows, count]: their entries */
    int64_t *columns;           /* [count]: their numbers */
    bool *chosen;               /* [all columns] */
    double *low, *high, *upper; /* [all columns]; upper: v of the greatest shifts */
    excess *found;              /* [all columns]: columns that shifts leave too much */
    int64_t count, most;
    int64_t held; /* of them are gathered */
    int64_t some; /* join at a time */
} active;

/* ---- the whole matrix ---- */

static void widen_strip(const gauge_state *s, int64_t row, int64_t first, int64_t count, double k,
                        double *low, double *high) {
    double entries[STRIP];
    if (s->d.type == OTA_F32) {
        const int64_t offset = row * s->d.columns + first;
        const float *const b = s->d.b == NULL ? NULL : (const float *)s->d.b + offset;
        ota_logit_kernels_newest()->widen((const float *)s->d.a + offset, b, k, count, low, high);
        return;
    }
    load(&s->d, row, first, count, entries);
    for (int64_t j = 0; j < count; j++) {
        const double t = entries[j] - k;
        low[j] = t < low[j] ? t : low[j];
        high[j] = t > high[j] ? t : high[j];
    }
}

static void spread_strip(void *context, int64_t index, int worker) {
    const active *x = context;
    const gauge_state *const s = x->all;
    const int64_t first = index * STRIP, count = strip_size(&s->d, first);
    (void)worker;
    if (!ota_analysis_goes_on(s->call)) return;
    for (int64_t j = first; j < first + count; j++) {
        x->low[j] = HUGE_VAL;
        x->high[j] = -HUGE_VAL;
    }
    for (int64_t i = 0; i < s->d.rows && analysis_goes_on(s->call, i); i++)
        widen_strip(s, i, first, count, x->part.k[i], x->low + first, x->high + first);
}

/* low and high of every column at the part's shifts. */
static ota_status spread(active *x) {
    gauge_run(x->all->options, ota_int_ceil_div(x->all->d.columns, STRIP), spread_strip, x);
    return ota_analysis_interrupted(x->all->call);
}

static double half_range(const active *x) {
    double most = 0.0;
    for (int64_t j = 0; j < x->all->d.columns; j++)
        most = fmax(most, 0.5 * (x->high[j] - x->low[j]));
    return most;
}

/* ---- choosing ---- */

static int larger_first(const void *a, const void *b) {
    const excess *const x = a, *const y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->column < y->column ? -1 : x->column > y->column ? 1 : 0;
}

static int lower_column_first(const void *a, const void *b) {
    const excess *const x = a, *const y = b;
    return x->column < y->column ? -1 : x->column > y->column ? 1 : 0;
}

static void choose(active *x, int64_t column) {
    if (x->count == x->most || x->chosen[column]) return;
    x->chosen[column] = true;
    x->columns[x->count++] = column;
}

/* The worst of the columns that are left more than eta, so many a round; how many were too much. */
static int64_t choose_worst(active *x, double eta, double slack) {
    int64_t found = 0;
    for (int64_t j = 0; j < x->all->d.columns; j++) {
        const double size = x->high[j] - x->low[j];
        if (!x->chosen[j] && 0.5 * size > eta + slack) x->found[found++] = (excess){size, j};
    }
    qsort(x->found, (size_t)found, sizeof *x->found, larger_first);
    const int64_t some = ota_int_min(found, x->some);
    /* In the order of memory. */
    qsort(x->found, (size_t)some, sizeof *x->found, lower_column_first);
    for (int64_t t = 0; t < some; t++) choose(x, x->found[t].column);
    return found;
}

static double slack_of(const gauge_state *s, const double *k) {
    double most = s->scale;
    for (int64_t i = 0; i < s->d.rows; i++) most = fmax(most, fabs(k[i]));
    return 32.0 * DBL_EPSILON * (s->scale + most);
}

/* Entries of the columns that joined. */
static void gather_share(void *context, int64_t share, int worker) {
    const active *x = context;
    const matrix *const d = &x->all->d;
    const int64_t end = gauge_share_begin(d, share + 1);
    (void)worker;
    for (int64_t i = gauge_share_begin(d, share); i < end; i++)
        for (int64_t t = x->held; t < x->count; t++)
            x->gathered[i * x->count + t] = entry(d, i, x->columns[t]);
}

/* The part's matrix and an empty state on it. */
static bool gather(active *x) {
    const gauge_state *const s = x->all;
    const int64_t passes = x->part.passes, told = x->part.told;
    ota_gauge_release(&x->part);
    /* Rows grow from the last on, so that none is written over before it has moved. */
    for (int64_t i = s->d.rows - 1; i >= 0; i--)
        memmove(x->gathered + i * x->count, x->gathered + i * x->held,
                (size_t)x->held * sizeof *x->gathered);
    gauge_run(s->options, gauge_shares(&s->d), gather_share, x);
    x->held = x->count;
    x->part.d = (matrix){x->gathered, NULL, OTA_F64, s->d.rows, x->count};
    x->part.call = s->call;
    x->part.options = s->options;
    x->part.scale = s->scale;
    x->part.slack = s->slack;
    x->part.passes = passes;
    x->part.told = told;
    x->part.cycle.length = 0;
    x->part.lower = 0.0;
    x->part.moved = NULL;
    return ota_gauge_allocate(&x->part);
}

/* ---- solving ---- */

static void keep_certificate(active *x) {
    gauge_state *const s = x->all;
    const gauge_state *const p = &x->part;
    s->passes = p->passes;
    s->told = p->told;
    /* A part that ran out of passes may know less than the one before, or nothing. */
    if (p->cycle.length == 0 || (s->cycle.length > 0 && !(p->lower > s->lower))) return;
    s->lower = p->lower;
    s->cycle.length = p->cycle.length;
    for (int64_t t = 0; t < p->cycle.length; t++) {
        s->cycle.rows[t] = p->cycle.rows[t];
        s->cycle.columns[t] = x->columns[p->cycle.columns[t]];
    }
}

/* Shifts of all from those of the part and low and high. */
static void keep_shifts(active *x) {
    gauge_state *const s = x->all;
    memcpy(s->k, x->part.k, (size_t)s->d.rows * sizeof *s->k);
    for (int64_t j = 0; j < s->d.columns; j++) s->v[j] = 0.5 * (x->low[j] + x->high[j]);
}

/* Policies of the new part that begin at the shifts of the old one. */
static ota_status start_at(gauge_state *s, const double *k) {
    bool changed;
    memcpy(s->k, k, (size_t)s->d.rows * sizeof *k);
    const ota_status status =
        ota_gauge_scan(s, ota_gauge_centre_columns, s->policy.row_at, &changed);
    if (status == OTA_OK) ota_gauge_centre_rows(s);
    return status;
}

/* Until no column is left more than the part's residual, which is then eta. OTA_ELIMIT: too many joined. */
static ota_status minimise(active *x) {
    for (bool first = true;; first = false) {
        if (!gather(x)) return OTA_ENOMEM;
        ota_status status = first ? ota_gauge_start(&x->part) : start_at(&x->part, x->all->k);
        if (status == OTA_OK) status = ota_gauge_howard(&x->part);
        keep_certificate(x);
        if (status < 0 && status != OTA_NOT_CONVERGED) return status;
        const ota_status passed = spread(x);
        if (passed != OTA_OK) return passed;
        keep_shifts(x);
        if (status != OTA_OK) return status;
        const double eta = half_range(x);
        tell(x->all->call, ++x->part.told,
             x->all->scale > 0.0 ? (eta - x->part.lower) / x->all->scale : 0.0);
        const double slack = slack_of(x->all, x->part.k);
        x->all->eta = eta;
        if (choose_worst(x, x->part.lower, slack) == 0) return OTA_OK;
        if (x->count == x->most) return OTA_ELIMIT;
    }
}

/* The greatest (sign 1) or least shifts at residual eta, with low and high at them. */
static ota_status extreme(active *x, double sign) {
    for (;;) {
        x->part.eta = x->all->eta;
        x->part.slack = 0.25 * slack_of(x->all, x->all->k);
        ota_status status = ota_gauge_extreme(&x->part, sign);
        if (status == OTA_OK) status = spread(x);
        if (status != OTA_OK) return status;
        tell(x->all->call, ++x->part.told, 0.0);
        const double slack = slack_of(x->all, x->part.k);
        if (choose_worst(x, x->all->eta, slack) == 0) return OTA_OK;
        if (x->count == x->most) return OTA_ELIMIT;
        if (!gather(x)) return OTA_ENOMEM;
    }
}

static ota_status centre(active *x) {
    gauge_state *const s = x->all;
    const double eta = s->eta;
    ota_status status = extreme(x, 1.0);
    if (status != OTA_OK) return status;
    memcpy(s->other_k, x->part.k, (size_t)s->d.rows * sizeof *s->k);
    for (int64_t j = 0; j < s->d.columns; j++) x->upper[j] = x->high[j] - eta;
    status = extreme(x, -1.0);
    if (status != OTA_OK) return status;
    for (int64_t i = 0; i < s->d.rows; i++) s->k[i] = 0.5 * (s->other_k[i] + x->part.k[i]);
    for (int64_t j = 0; j < s->d.columns; j++) s->v[j] = 0.5 * (x->upper[j] + (x->low[j] + eta));
    return OTA_OK;
}

static bool allocate(active *x) {
    const size_t m = (size_t)x->all->d.columns, n = (size_t)x->all->d.rows;
    x->most = (int64_t)(m / 8);
    x->some = A_ROW * x->all->d.rows < LEAST ? LEAST : A_ROW * x->all->d.rows;
    x->gathered = malloc(n * (m / 8) * sizeof *x->gathered);
    x->columns = malloc(m / 8 * sizeof *x->columns);
    x->chosen = calloc(m, sizeof *x->chosen);
    x->low = malloc(3 * m * sizeof *x->low);
    x->found = malloc(m * sizeof *x->found);
    if (x->gathered == NULL || x->columns == NULL || x->chosen == NULL || x->low == NULL ||
        x->found == NULL)
        return false;
    x->high = x->low + m;
    x->upper = x->high + m;
    return true;
}

static void release(active *x) {
    ota_gauge_release(&x->part);
    free(x->gathered);
    free(x->columns);
    free(x->chosen);
    free(x->low);
    free(x->found);
}

static ota_status solve_whole(gauge_state *s) {
    s->passes = 0;
    ota_status status = ota_gauge_start(s);
    if (status == OTA_OK) status = ota_gauge_howard(s);
    return status == OTA_OK ? ota_gauge_centre(s) : status;
}

ota_status ota_gauge_active(gauge_state *s) {
    active x = {.all = s};
    ota_status status = OTA_ENOMEM;
    if (allocate(&x)) {
        /* Any columns will do for a beginning. */
        for (int64_t t = 0; t < x.some && t < x.most; t++) choose(&x, t * (s->d.columns / x.some));
        status = minimise(&x);
        if (status == OTA_OK) status = centre(&x);
    }
    release(&x);
    return status == OTA_ELIMIT || status == OTA_ENOMEM ? solve_whole(s) : status;
}
