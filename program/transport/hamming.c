/* `otattn hamming P Q --epsilon E`: transport between two distributions at Hamming cost. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_analysis.h"
#include "program/program.h"

/* How far the sum of rounded probabilities may be from 1, by the type they were stored in. */
static double slack_of(ota_type type) {
    switch (type) {
    case OTA_F64: return 1e-9;
    case OTA_F32: return 1e-5;
    default: return 1e-2;
    }
}

/* A distribution in f64, divided by its sum. The caller frees *out. */
static int load_distribution(cli_context *context, const char *field, const char *spec,
                             double **out, int64_t *size) {
    const cli_array *array;
    int code = cli_load(context, field, spec, OTA_NO_TYPE, &array);
    if (code != 0) return code;
    if (array->rank != 1 || array->count == 0) {
        return cli_refuse_flag(context, field, "give one distribution, a 1-d array",
                               "%s '%.200s' has %d dimensions and %zu entries", field, spec,
                               array->rank, array->count);
    }
    double total = 0.0;
    for (size_t k = 0; k < array->count; k++) {
        const double value = cli_element(array->data, array->type, k);
        if (!(value >= 0.0) || isinf(value)) {
            return cli_refuse_flag(context, field, "probabilities are finite, 0 or more",
                                   "%s[%zu] is %g", field, k, value);
        }
        total += value;
    }
    if (!(fabs(total - 1.0) <= slack_of(array->type))) {
        return cli_refuse_flag(context, field, "divide the array by its sum",
                               "the entries of %s sum to %.9g, not to 1", field, total);
    }
    code = cli_memory(context, array->count * sizeof(double), field, out);
    if (code != 0) return code;
    *size = (int64_t)array->count;
    for (size_t k = 0; k < array->count; k++) {
        (*out)[k] = cli_element(array->data, array->type, k) / total;
    }
    return 0;
}

typedef struct distributions {
    double *p, *q, *u, *v;
    int64_t size;
} distributions;

static int find_solver(cli_context *context, ota_hamming_solver *solver) {
    static const char *const names[] = {"newton", "sinkhorn"};
    const char *name = context->settings.solver.name;
    *solver = OTA_HAMMING_NEWTON;
    if (name == NULL || strcmp(name, "auto") == 0 || strcmp(name, names[0]) == 0) return 0;
    *solver = OTA_HAMMING_SINKHORN;
    if (strcmp(name, names[1]) == 0) return 0;
    const char *nearest = cli_nearest(name, strlen(name), names, 2);
    char hint[64] = "write newton or sinkhorn";
    if (nearest != NULL) (void)snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
    return cli_refuse_flag(context, "solver", hint, "--solver '%.40s' does not solve this", name);
}

static int report(cli_context *context, const ota_hamming_result *result, double seconds,
                  ota_hamming_solver solver, int64_t size) {
    const char *word = solver == OTA_HAMMING_NEWTON ? "newton" : "sinkhorn";
    const double epsilon = context->settings.solver.epsilon.value;
    if (context->settings.output.json) {
        json_t *object = cli_json_put(cli_json_result(context, ota_status_word(result->status)),
                                      "solver:s rounds:I seconds:r symbols:I epsilon:r cost:r "
                                      "objective:r divergence:r marginal_error:r tv:r theta:r",
                                      word, result->rounds, seconds, size, epsilon, result->cost,
                                      result->objective, result->divergence, result->marginal_error,
                                      result->tv, result->theta);
        return cli_print_json(stdout, object);
    }
    (void)printf("symbols        %" PRId64 "\nepsilon        %g\n", size, epsilon);
    (void)printf("cost           %.12g   mass that changes its symbol\n", result->cost);
    (void)printf("objective      %.12g   cost - epsilon * entropy\n", result->objective);
    (void)printf("divergence     %.12g   debiased\n", result->divergence);
    (void)printf("tv             %.12g   total variation\n", result->tv);
    (void)printf("marginal error %.2g\n", result->marginal_error);
    (void)printf("rounds         %" PRId64 " by %s in %.3g ms\n", result->rounds, word,
                 seconds * 1e3);
    return 0;
}

static int solve(cli_context *context, distributions *d) {
    const cli_settings *settings = &context->settings;
    ota_hamming_solver solver;
    int code = find_solver(context, &solver);
    if (code != 0) return code;
    code = cli_memory(context, (size_t)d->size * sizeof(double), "the scalings", &d->u);
    if (code == 0)
        code = cli_memory(context, (size_t)d->size * sizeof(double), "the scalings", &d->v);
    if (code != 0) return code;
    ota_error error = {.message = ""};
    ota_hamming_result result;
    const int64_t begun = cli_now_ns();
    const ota_status status = ota_hamming_divergence(
        d->p, d->q, d->size, settings->solver.epsilon.value,
        &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                               .solver = solver,
                               .tolerance = settings->solver.tolerance.value,
                               .max_rounds = settings->solver.max_rounds.value,
                               .u = d->u,
                               .v = d->v},
        &result, &context->analysis, &error);

    const double seconds = (double)(cli_now_ns() - begun) / 1e9;
    if (status == OTA_NOT_CONVERGED)
        (void)snprintf(error.hint, sizeof error.hint,
                       "raise --max-rounds, or take --solver newton");
    if (status < 0) return cli_fail_status(context, status, &error);
    return report(context, &result, seconds, solver, d->size);
}

int cli_hamming(cli_context *context) {
    if (!context->settings.solver.epsilon.given) {
        return cli_refuse_flag(context, "epsilon", "write --epsilon E with E > 0",
                               "hamming needs the weight of the entropy");
    }
    distributions d = {.size = 0};
    int64_t q_size = 0;
    int code = load_distribution(context, "p", context->operands[0], &d.p, &d.size);
    if (code == 0) code = load_distribution(context, "q", context->operands[1], &d.q, &q_size);
    if (code == 0 && d.size != q_size) {
        code = cli_refuse_flag(context, "q", "both are distributions over the same symbols",
                               "p has %" PRId64 " entries but q has %" PRId64, d.size, q_size);
    }
    if (code == 0) code = solve(context, &d);
    free(d.p);
    free(d.q);
    free(d.u);
    free(d.v);
    return code;
}
