/* quickstart.c: one attention head under three methods, with the certificate of each.
 *
 *     cc quickstart.c $(pkg-config --cflags --libs otattn) -lm && ./a.out */
#include <otattn.h>
#include <stdio.h>

enum { QUERIES = 4, KEYS = 4, WIDTH = 2, VALUES = 2 };

/* Runs one method and prints what every key receives; 0 on success. */
static int show(const char *method, float *queries, float *keys, float *values) {
    float out[QUERIES * VALUES];
    double f[QUERIES], g[KEYS], receiver[KEYS], coupling[QUERIES * KEYS];

    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options};
    ota_error error;
    problem.queries = ota_array_of(queries, OTA_F32, 1, 1, QUERIES, WIDTH);
    problem.keys = ota_array_of(keys, OTA_F32, 1, 1, KEYS, WIDTH);
    if (ota_method_parse(method, &problem, &options, &error) != OTA_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }

    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = ota_array_of(values, OTA_F32, 1, 1, KEYS, VALUES);
    arrays.out = ota_array_of(out, OTA_F32, 1, 1, QUERIES, VALUES);
    arrays.row_potential = ota_array_of(f, OTA_F64, 1, 1, 1, QUERIES);
    arrays.column_potential = ota_array_of(g, OTA_F64, 1, 1, 1, KEYS);
    arrays.receiver = ota_array_of(receiver, OTA_F64, 1, 1, 1, KEYS);
    arrays.coupling = ota_array_of(coupling, OTA_F64, 1, 1, QUERIES, KEYS);

    ota_result result = {.size = sizeof result};
    if (ota_attend(&problem, &options, &arrays, &result, &error) < 0) {
        fprintf(stderr, "%s: %s (%s)\n", method, error.message, error.hint);
        return 1;
    }
    ota_certificate certificate = {.size = sizeof certificate};
    if (ota_certify(&problem, &options, &arrays, &certificate, NULL, &error) < 0) {
        fprintf(stderr, "%s: %s\n", method, error.message);
        return 1;
    }
    printf("%-22s %-11s received", method, ota_status_word(result.status));
    for (int j = 0; j < KEYS; j++) printf(" %.3f", receiver[j]);
    printf("   row error %.0e, gap %.0e\n", certificate.row_error, certificate.gap);
    return 0;
}

int main(void) {
    float queries[] = {1, 0, 0, 1, 1, 1, 2, 0};
    float keys[] = {3, 1, 0, 1, 1, 0, -1, 1};
    float values[] = {1, 0, 0, 1, 1, 1, 0, 0};
    const char *methods[] = {"softmax",   "entmax:1.5", "capped:1.25",
                             "relaxed:1", "sinkhorn",   "assignment"};
    int failed = 0;
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++)
        failed |= show(methods[k], queries, keys, values);
    return failed;
}
