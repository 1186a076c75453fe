/* One head for a check: arrays, the call, and what the check looks at afterwards; and the two slow, plain
 * solvers that checks compare with. S, P [n][m], f [n], g [m], O = P V [n][values width]. */
#include "check.h"

head *statement_head(trial *t, int64_t n, int64_t m, double *scores) {
    head *h = take(t, sizeof *h);
    h->n = n;
    h->m = m;
    h->scores = scores;
    h->problem.size = sizeof h->problem;
    h->options.size = sizeof h->options;
    h->options.threads = 1;
    /* Some draws are slow, and no check is about the limit. */
    h->options.max_rounds = 20000;
    h->p = numbers(t, n * m);
    h->f = numbers(t, n);
    h->g = numbers(t, m);
    h->lse = numbers(t, n);
    h->entropy = numbers(t, n);
    h->support = numbers(t, n);
    h->rows = numbers(t, n);
    h->columns = numbers(t, m);
    return h;
}

head *statement_attention_head(trial *t, int64_t n, int64_t m, int64_t width, double *queries,
                               double *keys) {
    head *h = statement_head(t, n, m, NULL);
    h->width = width;
    h->queries = queries;
    h->keys = keys;
    return h;
}

ota_term *statement_add_term(head *h, ota_term_kind kind, ota_array array, double value) {
    h->problem.terms = h->terms;
    ota_term *term = &h->terms[h->problem.term_count++];
    *term = (ota_term){.kind = kind, .array = array, .value = value};
    return term;
}

ota_support *statement_add_support(head *h, ota_support_kind kind, int64_t left, int64_t right) {
    h->problem.supports = h->supports;
    ota_support *support = &h->supports[h->problem.support_count++];
    *support = (ota_support){.kind = kind, .left = left, .right = right};
    return support;
}

static ota_array vector(double *x, int64_t count) {
    return x == NULL ? (ota_array){.data = NULL} : ota_array_of(x, OTA_F64, 1, 1, 1, count);
}

static ota_array matrix(double *x, int64_t rows, int64_t columns) {
    return x == NULL ? (ota_array){.data = NULL} : ota_array_of(x, OTA_F64, 1, 1, rows, columns);
}

static void bind(head *h) {
    ota_problem *problem = &h->problem;
    if (h->scores != NULL) {
        problem->scores = ota_array_of(h->scores, OTA_F64, 1, 1, h->n, h->m);
    } else {
        problem->queries = ota_array_of(h->queries, OTA_F64, 1, 1, h->n, h->width);
        problem->keys = ota_array_of(h->keys, OTA_F64, 1, 1, h->m, h->width);
    }
    problem->row_mass = vector(h->row_mass, h->n);
    problem->column_mass = vector(h->column_mass, h->m);
}

static void prepare(head *h, const char *method, double tau, double tolerance) {
    ota_problem *problem = &h->problem;
    h->status = OTA_EINVAL;
    if (method != NULL) h->status = ota_method_parse(method, problem, &h->options, &h->error);
    if (tau > 0.0) problem->temperature = tau;
    if (tolerance > 0.0) h->options.tolerance = tolerance;
    bind(h);
}

static ota_arrays outputs_of(trial *t, head *h) {
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = ota_array_of(h->p, OTA_F64, 1, 1, h->n, h->m);
    arrays.row_potential = vector(h->f, h->n);
    arrays.column_potential = vector(h->g, h->m);
    if (h->problem.regulariser == OTA_SOFTMAX) arrays.lse = vector(h->lse, h->n);
    arrays.row_entropy = vector(h->entropy, h->n);
    arrays.row_support = vector(h->support, h->n);
    arrays.start_potential = vector(h->start, h->m);
    if (h->values != NULL) {
        if (h->out == NULL) h->out = numbers(t, h->n * h->values_width);
        arrays.values = ota_array_of(h->values, OTA_F64, 1, 1, h->m, h->values_width);
        arrays.out = ota_array_of(h->out, OTA_F64, 1, 1, h->n, h->values_width);
    }
    return arrays;
}

/* One fault, seen by whichever output of a call the check looks at. */
static void put_off(trial *t, double *data, int64_t count) {
    if (data == NULL) return;
    t->planted = false;
    (void)seen(t, data, count);
}

double *statement_solve(trial *t, head *h, const char *method, double tau, double tolerance) {
    ota_problem *problem = &h->problem;
    prepare(h, method, tau, tolerance);
    const ota_arrays arrays = outputs_of(t, h);
    h->result = (ota_result){.size = sizeof h->result};
    h->certificate = (ota_certificate){.size = sizeof h->certificate};
    h->status = told(t, ota_attend(problem, &h->options, &arrays, &h->result, &h->error));
    ota_arrays judged = {.size = sizeof judged, .coupling = arrays.coupling};
    judged.row_potential = arrays.row_potential;
    judged.column_potential = arrays.column_potential;
    if (h->status < 0 ||
        told(t, ota_certify(problem, &h->options, &judged, &h->certificate, NULL, &h->error)) < 0) {
        for (int64_t k = 0; k < h->n * h->m; k++) h->p[k] = NAN;
    }
    if (t->fault != 0.0 && !t->planted) {
        put_off(t, h->f, h->n);
        put_off(t, h->g, h->m);
        put_off(t, h->lse, h->n);
        put_off(t, h->entropy, h->n);
        put_off(t, h->support, h->n);
        put_off(t, h->out, h->n * h->values_width);
        put_off(t, &h->certificate.gap, 1);
        put_off(t, &h->certificate.delta, 1);
        put_off(t, &h->certificate.row_error, 1);
        put_off(t, &h->certificate.column_error, 1);
        put_off(t, &h->certificate.value, 1);
        h->certificate.primal -= t->fault;
        put_off(t, h->p, h->n * h->m);
    }
    memset(h->rows, 0, (size_t)h->n * sizeof *h->rows);
    memset(h->columns, 0, (size_t)h->m * sizeof *h->columns);
    for (int64_t i = 0; i < h->n; i++) {
        for (int64_t j = 0; j < h->m; j++) {
            h->rows[i] += h->p[i * h->m + j];
            h->columns[j] += h->p[i * h->m + j];
        }
    }
    return h->p;
}

head *statement_plan(trial *t, int64_t n, int64_t m, double *scores, const char *method, double tau,
                     double tolerance) {
    head *h = statement_head(t, n, m, scores);
    (void)statement_solve(t, h, method, tau, tolerance);
    return h;
}

void statement_pull_back(trial *t, head *h, const char *method, double tau, double tolerance) {
    prepare(h, method, tau, tolerance);
    h->options.gradients = 1;
    const ota_arrays arrays = outputs_of(t, h);
    ota_gradients gradients = {.size = sizeof gradients};
    gradients.coupling_grad = matrix(h->gradients.coupling, h->n, h->m);
    gradients.out_grad = matrix(h->gradients.out, h->n, h->values_width);
    gradients.scores = matrix(h->gradients.scores = numbers(t, h->n * h->m), h->n, h->m);
    if (h->queries != NULL) {
        h->gradients.queries = numbers(t, h->n * h->width);
        h->gradients.keys = numbers(t, h->m * h->width);
        gradients.queries = matrix(h->gradients.queries, h->n, h->width);
        gradients.keys = matrix(h->gradients.keys, h->m, h->width);
    }
    if (h->values != NULL) {
        h->gradients.values = numbers(t, h->m * h->values_width);
        gradients.values = matrix(h->gradients.values, h->m, h->values_width);
    }
    ota_plan *plan = NULL;
    h->result = (ota_result){.size = sizeof h->result};
    h->status = ota_plan_create(&plan, &h->problem, h->values_width, &h->options, &h->error);
    if (h->status >= 0) h->status = ota_forward(plan, &arrays, &h->result, &h->error);
    if (h->status >= 0) h->status = ota_backward(plan, &arrays, &gradients, &h->result, &h->error);
    ota_plan_free(plan);
    if (told(t, h->status) < 0) h->gradients.scores[0] = NAN;
    if (t->fault != 0.0 && !t->planted) {
        put_off(t, h->gradients.queries, h->n * h->width);
        put_off(t, h->gradients.keys, h->m * h->width);
        put_off(t, h->gradients.values, h->m * h->values_width);
        put_off(t, h->gradients.scores, h->n * h->m);
    }
}

void statement_sinkhorn_formula(const double *s, int64_t n, int64_t m, double tau, const double *a,
                                const double *b, int64_t most, double *p) {
    double high = -HUGE_VAL;
    for (int64_t k = 0; k < n * m; k++) high = fmax(high, s[k]);
    for (int64_t k = 0; k < n * m; k++) p[k] = exp((s[k] - high) / tau);
    double error = HUGE_VAL;
    for (int64_t round = 0; round < most && error > 1e-15; round++) {
        error = 0.0;
        for (int64_t j = 0; j < m; j++) {
            double sum = 0.0;
            for (int64_t i = 0; i < n; i++) sum += p[i * m + j];
            const double want = b != NULL ? b[j] : (double)n / (double)m;
            if (round > 0) error = fmax(error, fabs(sum - want));
            for (int64_t i = 0; i < n; i++) p[i * m + j] *= want / sum;
        }
        if (round == 0) error = HUGE_VAL;
        for (int64_t i = 0; i < n; i++) {
            const double sum = sum_of(p + i * m, m);
            for (int64_t j = 0; j < m; j++) p[i * m + j] *= (a != NULL ? a[i] : 1.0) / sum;
        }
    }
}

int64_t statement_lengthened_rounds(trial *t, double *s, int64_t n, double lambda, double tolerance,
                                    int64_t most, double *g, double *errors) {
    enum { MOST = 512 };
    double moved[MOST];
    ota_problem problem = {.size = sizeof problem, .columns = OTA_COLUMNS_EXACT};
    problem.scores = ota_array_of(s, OTA_F64, 1, 1, n, n);
    const ota_options options = {.size = sizeof options,
                                 .threads = 1,
                                 .solver = "log",
                                 .rounds = 1,
                                 .relaxation = 0.5 * lambda};
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.start_potential = vector(g, n);
    arrays.column_potential = vector(moved, n);
    ota_plan *plan = NULL;
    int64_t count = 0;
    errors[0] = NAN;
    if (n <= MOST) (void)told(t, ota_plan_create(&plan, &problem, 0, &options, NULL));
    while (plan != NULL && count < most && ota_forward(plan, &arrays, NULL, NULL) >= 0) {
        errors[count] = 0.0;
        for (int64_t j = 0; j < n; j++) {
            /* c = exp(-(change of g) / (lambda / 2)) */
            const double change = moved[j] - g[j];
            errors[count] = worse(errors[count], fabs(expm1(-2.0 * change / lambda)));
        }
        if (errors[count++] <= tolerance || count == most) break;
        for (int64_t j = 0; j < n; j++) g[j] += 2.0 * (moved[j] - g[j]);
    }
    ota_plan_free(plan);
    return count > 0 ? count : 1;
}

double statement_softmax_distance(const double *z, const double *w, int64_t m, double temperature) {
    long double sum = 0.0L;
    double p[64], q[64];
    softmax_formula(z, m, temperature, p);
    softmax_formula(w, m, temperature, q);
    for (int64_t j = 0; j < m; j++) sum += fabsl((long double)p[j] - q[j]);
    return (double)sum;
}

void statement_multiply(const double *a, const double *b, int64_t rows, int64_t inner,
                        int64_t columns, int64_t stride, double *c) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            long double sum = 0.0L;
            for (int64_t k = 0; k < inner; k++)
                sum += (long double)a[i * inner + k] * b[k * stride + j];
            c[i * columns + j] = (double)sum;
        }
    }
}

double statement_row_change(const double *a, const double *b, int64_t rows, int64_t width) {
    double most = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        double square = 0.0;
        for (int64_t k = 0; k < width; k++)
            square += (a[i * width + k] - b[i * width + k]) * (a[i * width + k] - b[i * width + k]);
        most = fmax(most, sqrt(square));
    }
    return most;
}

/* x is the largest column of (A^T A)^(2^24). */
double statement_leading(const double *a, int64_t rows, int64_t columns, double *x) {
    double b[20 * 20], square[20 * 20], most = 0.0, length = 0.0;
    for (int64_t k = 0; k < columns * columns; k++) {
        b[k] = 0.0;
        for (int64_t i = 0; i < rows; i++)
            b[k] += a[i * columns + k / columns] * a[i * columns + k % columns];
    }
    for (int step = 0; step < 24; step++) {
        double trace = 0.0;
        for (int64_t k = 0; k < columns; k++) trace += b[k * columns + k];
        for (int64_t k = 0; k < columns * columns; k++) b[k] /= trace;
        statement_multiply(b, b, columns, columns, columns, columns, square);
        memcpy(b, square, (size_t)(columns * columns) * sizeof *b);
    }
    for (int64_t k = 0; k < columns; k++) {
        const double norm = sqrt(dot(b + k * columns, b + k * columns, columns));
        if (norm > most) memcpy(x, b + k * columns, (size_t)columns * sizeof *x);
        most = fmax(most, norm);
    }
    for (int64_t k = 0; k < columns; k++) x[k] /= most;
    for (int64_t i = 0; i < rows; i++) length = hypot(length, dot(a + i * columns, x, columns));
    return length;
}

static double try_rows(const double *cost, int64_t n, int64_t row, unsigned taken, int64_t *order,
                       int64_t *best, double sum, double least) {
    if (row == n) {
        if (sum < least) memcpy(best, order, (size_t)n * sizeof *best);
        return fmin(sum, least);
    }
    for (int64_t j = 0; j < n; j++) {
        if ((taken >> j & 1U) != 0) continue;
        order[row] = j;
        least = try_rows(cost, n, row + 1, taken | 1U << j, order, best, sum + cost[row * n + j],
                         least);
    }
    return least;
}

double statement_best_permutation(const double *cost, int64_t n, int64_t *order) {
    int64_t trying[8], best[8];
    const double least = try_rows(cost, n, 0, 0U, trying, best, 0.0, HUGE_VAL);
    if (order != NULL) memcpy(order, best, (size_t)n * sizeof *order);
    return least;
}
