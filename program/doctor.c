/* `otattn doctor`: what this build and this machine can do, and whether every kernel agrees with plain
 * double loops on a small problem. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_model.h"
#include "program/ranks/ranks.h"
#include "program.h"
#include "src/base/system.h"

enum { QUERIES = 37, KEYS = 53, WIDTH = 24, VALUES = 19 };

/* Instruction sets that matter to attention, as the kernel of the operating system names them. */
static const char *const features[] = {
    "sse4_2",   "avx",      "avx2",        "fma",         "f16c",     "avx512f",  "avx512bw",
    "avx512dq", "avx512vl", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8",
    "asimd",    "asimdhp",  "asimddp",     "bf16",        "sve",
};

/* The words of the first processor in /proc/cpuinfo that are in the list above. */
static json_t *cpu_features(void) {
    json_t *found = json_array();
    FILE *file = ota_file_reader("/proc/cpuinfo");
    if (file == NULL) return found;
    static const char blanks[] = " \t\n:";
    char line[16384];
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0) continue;
        for (const char *at = line; *at != '\0';) {
            at += strspn(at, blanks);
            const size_t length = strcspn(at, blanks);
            for (size_t k = 0; k < sizeof features / sizeof features[0]; k++) {
                if (strlen(features[k]) == length && memcmp(features[k], at, length) == 0) {
                    (void)json_array_append_new(found, json_string(features[k]));
                }
            }
            at += length;
        }
        break;
    }
    (void)fclose(file);
    return found;
}

static json_t *names(const char *(*name)(int)) {
    json_t *list = json_array();
    for (int k = 0; name(k) != NULL; k++) (void)json_array_append_new(list, json_string(name(k)));
    return list;
}

/* Every cell of the grid that the library accepts, spelled with some number where one is needed. */
static json_t *methods(void) {
    static const char *const regularisers[] = {"softmax", "entmax:1.5", "sparsemax", "hard"};
    static const char *const columns[] = {"free",     "exact",          "relaxed:1",
                                          "capped:2", "elastic:0.5,4",  "prefix",
                                          "online:2", "bounded:0.5,1.5"};
    json_t *list = json_array();
    double scores[4] = {0.0, 1.0, 2.0, 0.0};
    for (size_t r = 0; r < sizeof regularisers / sizeof regularisers[0]; r++) {
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
            char text[64];
            (void)snprintf(text, sizeof text, "%s/%s", regularisers[r], columns[c]);
            ota_problem problem = {.size = sizeof problem,
                                   .scores = ota_array_of(scores, OTA_F64, 1, 1, 2, 2)};
            if (ota_method_parse(text, &problem, NULL, NULL) < 0) continue;
            if (ota_check(&problem, NULL, NULL) < 0) continue;
            (void)ota_method_name(&problem, text, sizeof text);
            (void)json_array_append_new(list, json_string(text));
        }
    }
    return list;
}

typedef struct probe {
    float query[QUERIES * WIDTH], key[KEYS * WIDTH], value[KEYS * VALUES], out[QUERIES * VALUES];
} probe;

/* A fixed pattern without structure; no random numbers are needed to see a kernel go wrong. */
static void fill(float *numbers, size_t count, double pace) {
    for (size_t k = 0; k < count; k++)
        numbers[k] = (float)(2.0 * sin(pace * (double)(k + 1) * (double)(k + 3)));
}

/* Softmax attention by double loops: the largest difference from p->out. */
static double error_of(const probe *p) {
    double worst = 0.0;
    for (size_t i = 0; i < QUERIES; i++) {
        double weight[KEYS], top = -HUGE_VAL, total = 0.0;
        for (size_t j = 0; j < KEYS; j++) {
            weight[j] = 0.0;
            for (size_t d = 0; d < WIDTH; d++) {
                weight[j] += (double)p->query[i * WIDTH + d] * (double)p->key[j * WIDTH + d];
            }
            weight[j] /= sqrt(WIDTH);
            top = fmax(top, weight[j]);
        }
        for (size_t j = 0; j < KEYS; j++) total += weight[j] = exp(weight[j] - top);
        for (size_t w = 0; w < VALUES; w++) {
            double sum = 0.0;
            for (size_t j = 0; j < KEYS; j++)
                sum += weight[j] / total * (double)p->value[j * VALUES + w];
            worst = fmax(worst, fabs(sum - (double)p->out[i * VALUES + w]));
        }
    }
    return worst;
}

static ota_status run_kernel(const char *kernel, probe *p, int *threads, double *error) {
    const ota_problem problem = {.size = sizeof problem,
                                 .queries = ota_array_of(p->query, OTA_F32, 1, 1, QUERIES, WIDTH),
                                 .keys = ota_array_of(p->key, OTA_F32, 1, 1, KEYS, WIDTH)};
    const ota_arrays arrays = {.size = sizeof arrays,
                               .values = ota_array_of(p->value, OTA_F32, 1, 1, KEYS, VALUES),
                               .out = ota_array_of(p->out, OTA_F32, 1, 1, QUERIES, VALUES)};
    const ota_options options = {.size = sizeof options, .cpu = kernel, .threads = *threads};
    ota_plan *plan;
    ota_status status = ota_plan_create(&plan, &problem, VALUES, &options, NULL);
    if (status < 0) return status;
    *threads = ota_plan_threads(plan);
    for (size_t k = 0; k < QUERIES * VALUES; k++) p->out[k] = (float)NAN;
    status = ota_forward(plan, &arrays, NULL, NULL);
    ota_plan_free(plan);
    *error = error_of(p);
    return status;
}

static void print_list(const char *heading, const json_t *list) {
    (void)printf("%-10s", heading);
    int column = 10;
    for (size_t k = 0; k < json_array_size(list); k++) {
        const char *word = json_string_value(json_array_get(list, k));
        if (column + 1 + (int)strlen(word) > 88) column = printf("\n%10s", "") - 1;
        column += printf(" %s", word);
    }
    (void)putchar('\n');
}

static void print_text(const json_t *object, const json_t *checks) {
    static const char *const lists[] = {"cpu", "backends", "kernels", "solvers", "methods"};
    enum { LISTS = (int)(sizeof lists / sizeof lists[0]) };
    (void)printf("%-10s %s\n", "version", ota_version());
    for (int k = 0; k < LISTS; k++) print_list(lists[k], json_object_get(object, lists[k]));
    (void)printf("%-10s %lld\n", "threads",
                 (long long)json_integer_value(json_object_get(object, "threads")));
    const char *mpi = json_string_value(json_object_get(object, "mpi"));
    (void)printf("%-10s %s\n", "mpi", mpi != NULL ? mpi : "not in this build");
    for (size_t k = 0; k < json_array_size(checks); k++) {
        const json_t *check = json_array_get(checks, k);
        (void)printf("%-10s %s: %s, largest error %.2g\n", k == 0 ? "checks" : "",
                     json_string_value(json_object_get(check, "kernel")),
                     json_is_true(json_object_get(check, "ok")) ? "right" : "WRONG",
                     json_number_value(json_object_get(check, "max_error")));
    }
}

int cli_doctor(cli_context *context) {
    probe *p = malloc(sizeof *p);
    if (p == NULL) return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    fill(p->query, QUERIES * WIDTH, 0.7390851);
    fill(p->key, KEYS * WIDTH, 0.3141593);
    fill(p->value, KEYS * VALUES, 0.5671433);
    json_t *checks = json_array();
    /* As other commands take them; 0 becomes what a plan takes then. */
    int threads = (int)context->settings.machine.threads.value;
    char wrong[64] = "";
    for (int k = 0; ota_kernel_name(k) != NULL; k++) {
        double error = (double)NAN;
        const ota_status status = run_kernel(ota_kernel_name(k), p, &threads, &error);
        if (status == OTA_ENOMEM) {
            static const ota_error none;
            free(p);
            json_decref(checks);
            return cli_fail_status(context, status, &none);
        }
        /* Far above the rounding of 24-term products in f32, far below any real mistake. */
        const bool ok = status == OTA_OK && error <= 1e-4;
        if (!ok) (void)snprintf(wrong, sizeof wrong, "%s", ota_kernel_name(k));
        json_t *check =
            cli_json_put(json_object(), "kernel:s ok:b max_error:r", ota_kernel_name(k), ok, error);
        (void)json_array_append_new(checks, check);
    }
    free(p);
    if (wrong[0] != '\0') {
        json_decref(checks);
        return cli_fail(&context->error, CLI_EXIT_INTERNAL,
                        "the %s kernel gives a wrong answer on this machine", wrong);
    }
    char library[64];
    const char *mpi = cli_ranks_library(library, sizeof library);
    json_t *object = json_object();
    json_t *blas = ota_model_blas() != NULL ? json_string(ota_model_blas()) : json_false();
    (void)cli_json_put(object,
                       "command:s status:s version:s cpu:o backends:o kernels:o solvers:o "
                       "methods:o threads:i blas:o cuda:o mpi:o model:o checks:o",
                       "doctor", ota_status_word(OTA_OK), ota_version(), cpu_features(),
                       names(ota_backend_name), names(ota_kernel_name), names(ota_solver_name),
                       methods(), threads, blas, json_false(),
                       mpi != NULL ? json_string(mpi) : json_false(), json_true(), checks);
    if (context->settings.output.json) return cli_print_json(stdout, object);
    print_text(object, checks);
    json_decref(object);
    return 0;
}
