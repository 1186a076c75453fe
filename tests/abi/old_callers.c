/* old_callers.c: a program built with the header of a release runs on today's library, and so does one whose structs end earlier
 * still, or later. tests/CMakeLists.txt compiles it with every header of this folder.
 *
 * Every call is first held to plain loops or known answers. Then each of its structs with a size is given again, cut behind every
 * member from its end back to the last that is not zero, with memory behind the cut that may neither be read nor written:
 * status, outputs and what the shorter struct has of a result must be those of the whole one. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include OTA_OLD_HEADER

enum { N = 3, PARTS = 4, LARGEST = 4096 };

static int checks, failed;

static void expect(bool held, const char *call, const char *what) {
    checks++;
    if (held) return;
    failed++;
    printf("%s: %s\n", call, what);
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-8; }

/* ---- cutting ------------------------------------------------------------------------------- */

/* Every output of every call. */
static struct {
    double out[N * N], coupling[N * N], row_potential[N], column_potential[N], grad[N * N],
        jvp[N * N];
    double value[N], prices[N];
    int64_t chosen[N * N], column_of[N], pair_row[2 * N], pair_column[2 * N], found[1], loads[N];
    float scores[N], normal[4];
} at;

typedef struct part {
    const char *name;
    const void *given;
    size_t bytes;
    bool is_result;
} part;

typedef struct call {
    const char *name;
    ota_status (*run)(void *const *parts);
    part parts[PARTS];
} call;

#define PART(x)                                                                                    \
    { #x, &x, sizeof x, false }
#define RESULT(x)                                                                                  \
    { #x, &x, sizeof x, true }

/* A copy of the first `bytes` bytes, its size in front, that ends where memory does. */
static void *fence(void **base, const void *given, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    char *memory =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + room, page, PROT_NONE) != 0) return NULL;
    *base = memory;
    memcpy(memory + room - bytes, given, bytes);
    memcpy(memory + room - bytes, &bytes, sizeof bytes);
    return memory + room - bytes;
}

static void unfence(void *base, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    munmap(base, (bytes + page - 1) / page * page + page);
}

/* The copies that a call gets, but for the part `which`. */
static void copy_parts(const call *c, char (*copies)[LARGEST], void **parts) {
    for (int k = 0; k < PARTS; k++) {
        const part *p = &c->parts[k];
        parts[k] = p->given == NULL ? NULL : memcpy(copies[k], p->given, p->bytes);
    }
}

/* Bytes up to the last that is not zero, at least the size. */
static size_t least_bytes(const part *p) {
    const unsigned char *bytes = p->given;
    size_t end = p->bytes;
    while (end > sizeof(size_t) && bytes[end - 1] == 0) end--;
    return (end + 7) / 8 * 8;
}

static void cut_part(const call *c, int which, ota_status status, const void *outputs,
                     const void *whole) {
    const part *p = &c->parts[which];
    _Alignas(max_align_t) char copies[PARTS][LARGEST], grown[LARGEST] = {0};
    memcpy(grown, p->given, p->bytes);
    for (size_t bytes = p->bytes + 16; bytes >= least_bytes(p); bytes -= 8) {
        void *parts[PARTS], *base = NULL;
        copy_parts(c, copies, parts);
        parts[which] = fence(&base, grown, bytes);
        if (parts[which] == NULL) {
            expect(false, c->name, "no memory");
            return;
        }
        memset(&at, 0, sizeof at);
        expect(c->run(parts) == status, c->name, p->name);
        expect(memcmp(&at, outputs, sizeof at) == 0, c->name, p->name);
        const size_t known = (bytes < p->bytes ? bytes : p->bytes) - sizeof bytes;
        if (p->is_result)
            expect(memcmp((char *)parts[which] + sizeof bytes, (const char *)whole + sizeof bytes,
                          known) == 0,
                   c->name, p->name);
        unfence(base, bytes);
    }
    if (p->is_result) return;
    /* A member of a newer header that says something is refused, and so is a struct without a size. */
    void *parts[PARTS];
    copy_parts(c, copies, parts);
    const size_t sizes[2] = {LARGEST, 0};
    grown[LARGEST - 1] = 1;
    for (int k = 0; k < 2; k++) {
        memcpy(grown, &sizes[k], sizeof sizes[k]);
        parts[which] = grown;
        expect(c->run(parts) < 0, c->name, k == 0 ? "took what it does not know" : "took no size");
    }
}

/* Runs the call, leaves its outputs in `at` and its results in the structs given, then cuts. */
static void try_call(const call *c) {
    static char outputs[sizeof at];
    _Alignas(max_align_t) char given[PARTS][LARGEST], whole[PARTS][LARGEST];
    void *parts[PARTS];
    call kept = *c;
    for (int k = 0; k < PARTS; k++) {
        parts[k] = NULL;
        if (c->parts[k].given == NULL) continue;
        memcpy(given[k], c->parts[k].given, c->parts[k].bytes);
        parts[k] = memcpy(whole[k], given[k], c->parts[k].bytes);
        kept.parts[k].given = given[k];
    }
    memset(&at, 0, sizeof at);
    const ota_status status = c->run(parts);
    memcpy(outputs, &at, sizeof at);
    expect(status >= 0, c->name, "failed");
    for (int k = 0; k < PARTS; k++)
        if (c->parts[k].given != NULL) cut_part(&kept, k, status, outputs, whole[k]);
    memcpy(&at, outputs, sizeof at);
    for (int k = 0; k < PARTS; k++)
        if (c->parts[k].is_result)
            memcpy((void *)(size_t)c->parts[k].given, whole[k], c->parts[k].bytes);
}

/* ---- plans --------------------------------------------------------------------------------- */

static double scores[N * N] = {0.3, -1.1, 0.8, 1.4, 0.2, -0.6, -0.9, 0.5, 0.1};
static double upstream[N * N] = {1.0, -0.5, 0.25, 0.75, 2.0, -1.0, 0.1, -0.2, 0.3};
static double values[N * N] = {1, 0, 0, 0, 1, 0, 0, 0, 1};

static ota_array square(double *data) { return ota_array_of(data, OTA_F64, 1, 1, N, N); }

static ota_arrays usual_arrays(void) {
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = square(values);
    arrays.out = square(at.out);
    arrays.coupling = square(at.coupling);
    arrays.row_potential = ota_array_of(at.row_potential, OTA_F64, 1, 1, 1, N);
    arrays.column_potential = ota_array_of(at.column_potential, OTA_F64, 1, 1, 1, N);
    return arrays;
}

static ota_status run_attend(void *const *p) { return ota_attend(p[0], p[1], p[2], p[3], NULL); }

static void attend(void) {
    ota_problem problem = {
        .size = sizeof problem, .scores = square(scores), .columns = OTA_COLUMNS_EXACT};
    ota_options options = {.size = sizeof options, .tolerance = 1e-12, .threads = 1};
    ota_arrays arrays = usual_arrays();
    ota_result result = {.size = sizeof result};
    try_call(&(call){
        "attend", run_attend, {PART(problem), PART(options), PART(arrays), RESULT(result)}});
    const double *p = at.coupling;
    for (int i = 0; i < N; i++) {
        expect(near(p[N * i] + p[N * i + 1] + p[N * i + 2], 1), "attend", "row");
        expect(near(p[i] + p[N + i] + p[2 * N + i], 1), "attend", "column");
    }
    for (int i = 0; i + 1 < N; i++)
        for (int j = 0; j + 1 < N; j++) {
            const int k = N * i + j;
            expect(near(log(p[k] * p[k + N + 1] / (p[k + 1] * p[k + N])),
                        scores[k] + scores[k + N + 1] - scores[k + 1] - scores[k + N]),
                   "attend", "cross ratio");
        }
    for (int k = 0; k < N * N; k++) expect(at.out[k] == p[k], "attend", "out");
    expect(result.status == OTA_OK && result.rounds > 0 && result.solver != NULL, "attend",
           "result");
}

static ota_status run_certify(void *const *p) {
    const ota_status status = ota_attend(p[0], p[1], p[2], NULL, NULL);
    return status < 0 ? status : ota_certify(p[0], p[1], p[2], p[3], NULL, NULL);
}

static void certify(void) {
    ota_problem problem = {.size = sizeof problem,
                           .scores = square(scores),
                           .columns = OTA_COLUMNS_CAPPED,
                           .cap = 1.05};
    ota_options options = {.size = sizeof options, .tolerance = 1e-12};
    ota_arrays arrays = usual_arrays();
    ota_certificate certificate = {.size = sizeof certificate};
    try_call(&(call){
        "certify", run_certify, {PART(problem), PART(options), PART(arrays), RESULT(certificate)}});
    expect(certificate.row_error < 1e-9 && certificate.column_error < 1e-9, "certify", "errors");
    expect(fabs(certificate.gap) < 1e-8 && certificate.support == N, "certify", "gap");
}

/* Records of heads are as long as the certificate, one behind the other, and end where the caller's memory does. */
enum { HEADS = 2, MARK = 0x5A };

static void certify_records(void) {
    static double two[HEADS * N * N];
    for (int k = 0; k < HEADS * N * N; k++) two[k] = scores[k % (N * N)] * (k < N * N ? 1 : -2);
    static double plans[HEADS * N * N], rows[HEADS * N], columns[HEADS * N];
    const ota_problem problem = {.size = sizeof problem,
                                 .scores = ota_array_of(two, OTA_F64, 1, HEADS, N, N),
                                 .columns = OTA_COLUMNS_EXACT};
    const ota_options options = {.size = sizeof options, .tolerance = 1e-10};
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = ota_array_of(plans, OTA_F64, 1, HEADS, N, N);
    arrays.row_potential = ota_array_of(rows, OTA_F64, 1, HEADS, 1, N);
    arrays.column_potential = ota_array_of(columns, OTA_F64, 1, HEADS, 1, N);
    expect(ota_attend(&problem, &options, &arrays, NULL, NULL) == OTA_OK, "records", "the plan");
    ota_certificate whole[HEADS] = {{.size = 0}}, certificate = {.size = sizeof certificate};
    expect(ota_certify(&problem, &options, &arrays, &certificate, whole, NULL) == OTA_OK, "records",
           "the whole ones");
    expect(whole[0].primal != whole[1].primal &&
               near(whole[0].primal + whole[1].primal, certificate.primal),
           "records", "the sum of heads");
    for (size_t bytes = 2 * sizeof(size_t); bytes <= sizeof certificate + 16; bytes += 8) {
        const size_t known = bytes < sizeof *whole ? bytes : sizeof *whole;
        char given[LARGEST], asked[LARGEST] = {0};
        memset(given, MARK, sizeof given);
        void *base = NULL, *front = NULL;
        char *records = fence(&base, given, HEADS * bytes), *answer = fence(&front, asked, bytes);
        if (records == NULL || answer == NULL) {
            expect(false, "records", "no memory");
            return;
        }
        const ota_status status =
            ota_certify(&problem, &options, &arrays, (ota_certificate *)(void *)answer,
                        (ota_certificate *)(void *)records, NULL);
        expect(status == OTA_OK, "records", "cut");
        for (int h = 0; h < HEADS; h++) {
            const char *record = records + (size_t)h * bytes;
            expect(memcmp(record, &bytes, sizeof bytes) == 0, "records", "size");
            expect(memcmp(record + sizeof bytes, (char *)&whole[h] + sizeof bytes,
                          known - sizeof bytes) == 0,
                   "records", "members");
            expect(memcmp(record + known, given, bytes - known) == 0, "records", "beyond its end");
        }
        unfence(base, HEADS * bytes);
        unfence(front, bytes);
    }
}

/* Of softmax rows: P_ij (X_ij - sum_k P_ik X_ik), which is gradient and derivative alike. */
static void expect_softmax_slope(const double *found, const char *name) {
    for (int i = 0; i < N; i++) {
        double p[N], sum = 0, mean = 0;
        for (int j = 0; j < N; j++) sum += p[j] = exp(scores[N * i + j]);
        for (int j = 0; j < N; j++) mean += (p[j] /= sum) * upstream[N * i + j];
        for (int j = 0; j < N; j++) {
            expect(near(at.coupling[N * i + j], p[j]), name, "weights");
            expect(near(found[N * i + j], p[j] * (upstream[N * i + j] - mean)), name, "slopes");
        }
    }
}

static ota_plan *softmax_plan(const ota_arrays *arrays) {
    const ota_problem problem = {.size = sizeof problem, .scores = square(scores)};
    const ota_options options = {.size = sizeof options, .gradients = 1, .threads = 1};
    ota_plan *plan = NULL;
    if (ota_plan_create(&plan, &problem, N, &options, NULL) != OTA_OK) return NULL;
    if (ota_forward(plan, arrays, NULL, NULL) != OTA_OK) {
        ota_plan_free(plan);
        return NULL;
    }
    return plan;
}

static ota_status run_backward(void *const *p) {
    ota_plan *plan = softmax_plan(p[0]);
    if (plan == NULL) return OTA_EINTERNAL;
    const ota_status status = ota_backward(plan, p[0], p[1], p[2], NULL);
    ota_plan_free(plan);
    return status;
}

static void backward(void) {
    ota_arrays arrays = usual_arrays();
    ota_gradients gradients = {
        .size = sizeof gradients, .coupling_grad = square(upstream), .scores = square(at.grad)};
    ota_result result = {.size = sizeof result};
    try_call(&(call){"backward", run_backward, {PART(arrays), PART(gradients), RESULT(result)}});
    expect_softmax_slope(at.grad, "backward");
}

static ota_status run_jvp(void *const *p) {
    ota_plan *plan = softmax_plan(p[0]);
    if (plan == NULL) return OTA_EINTERNAL;
    const ota_status status = ota_jvp(plan, p[0], p[1], p[2], NULL);
    ota_plan_free(plan);
    return status;
}

static void jvp(void) {
    ota_arrays arrays = usual_arrays();
    ota_tangents tangents = {
        .size = sizeof tangents, .scores = square(upstream), .coupling = square(at.jvp)};
    ota_result result = {.size = sizeof result};
    try_call(&(call){"jvp", run_jvp, {PART(arrays), PART(tangents), RESULT(result)}});
    expect_softmax_slope(at.jvp, "jvp");
}

/* ---- one process as a group ---------------------------------------------------------------- */

static int reduce(void *user, void *data, int64_t count, ota_type type, ota_reduction reduction) {
    (void)user, (void)data, (void)count, (void)type, (void)reduction;
    return 0;
}

static int gather(void *user, const void *mine, void *all, const int64_t *counts,
                  const int64_t *offsets) {
    (void)user;
    memmove((char *)all + offsets[0], mine, (size_t)counts[0]);
    return 0;
}

static ota_status run_group(void *const *p) {
    const ota_problem problem = {.size = sizeof problem, .scores = square(scores)};
    const ota_options options = {.size = sizeof options, .communicator = p[0]};
    const ota_arrays arrays = usual_arrays();
    return ota_attend(&problem, &options, &arrays, NULL, NULL);
}

static void group(void) {
    ota_communicator alone = {
        .size = sizeof alone, .ranks = 1, .all_reduce = reduce, .all_gather = gather};
    try_call(&(call){"group", run_group, {PART(alone)}});
    for (int i = 0; i < N; i++)
        expect(near(at.coupling[N * i] + at.coupling[N * i + 1] + at.coupling[N * i + 2], 1),
               "group", "row");
}

/* ---- calls without a plan ------------------------------------------------------------------- */

/* The cheapest matching costs 5 (1, 0, 2), the next 6; at best the dearest pair costs 2. */
static double costs[N * N] = {4, 1, 3, 2, 0, 5, 3, 2, 2};

static ota_status run_assign(void *const *p) {
    ota_assigner *assigner = NULL;
    ota_status status = ota_assigner_create(&assigner, p[1], NULL);
    if (status == OTA_OK) status = ota_assign(assigner, p[0], NULL);
    ota_assigner_free(assigner);
    return status;
}

static void assign(void) {
    ota_assignments batch = {
        .size = sizeof batch, .count = 1, .rows = N, .columns = N, .costs = costs, .type = OTA_F64};
    batch.row_stride = N;
    batch.column_stride = 1;
    batch.column_of = at.column_of;
    batch.value = at.value;
    ota_options options = {.size = sizeof options, .threads = 1};
    try_call(&(call){"assign", run_assign, {PART(batch), PART(options)}});
    expect(at.column_of[0] == 1 && at.column_of[1] == 0 && at.column_of[2] == 2 && at.value[0] == 5,
           "assign", "pairs");
}

static ota_status run_ranked(void *const *p) { return ota_assign_ranked(p[0], NULL); }

static void ranked(void) {
    ota_ranked_assignments problem = {
        .size = sizeof problem, .rows = N, .columns = N, .costs = costs, .type = OTA_F64};
    problem.row_stride = N;
    problem.column_stride = 1;
    problem.wanted = 2;
    problem.pair_row = at.pair_row;
    problem.pair_column = at.pair_column;
    problem.value = at.value;
    try_call(&(call){"ranked", run_ranked, {PART(problem)}});
    expect(at.value[0] == 5 && at.value[1] == 6 && at.pair_column[0] == 1, "ranked", "values");
}

static ota_status run_bottleneck(void *const *p) { return ota_assign_bottleneck(p[0], NULL); }

static void bottleneck(void) {
    ota_bottleneck problem = {
        .size = sizeof problem, .rows = N, .columns = N, .costs = costs, .type = OTA_F64};
    problem.row_stride = N;
    problem.column_stride = 1;
    problem.pair_row = at.pair_row;
    problem.pair_column = at.pair_column;
    problem.value = at.value;
    try_call(&(call){"bottleneck", run_bottleneck, {PART(problem)}});
    expect(at.value[0] == 2, "bottleneck", "value");
}

static ota_status run_bounded(void *const *p) { return ota_assign_bounded(p[0], p[1], p[2], NULL); }

static void bounded(void) {
    static const int64_t upper[N] = {1, 1, 1};
    ota_bounded problem = {
        .size = sizeof problem, .costs = square(costs), .take = 1, .upper = upper};
    ota_options options = {.size = sizeof options, .threads = 1};
    ota_bounded_result result = {.size = sizeof result, .chosen = at.chosen, .loads = at.loads};
    try_call(&(call){"bounded", run_bounded, {PART(problem), PART(options), RESULT(result)}});
    expect(at.chosen[0] == 1 && at.chosen[1] == 0 && at.chosen[2] == 2 && result.cost == 5,
           "bounded", "choice");
}

static ota_status run_route(void *const *p) { return ota_route(p[0], p[1], p[2], NULL); }

static void route(void) {
    ota_routing problem = {
        .size = sizeof problem, .logits = square(scores), .take = 1, .method = OTA_ROUTE_TOPK};
    ota_options options = {.size = sizeof options, .threads = 1};
    ota_routing_result result = {.size = sizeof result, .chosen = at.chosen, .loads = at.loads};
    try_call(&(call){"route", run_route, {PART(problem), PART(options), RESULT(result)}});
    expect(at.chosen[0] == 2 && at.chosen[1] == 0 && at.chosen[2] == 1, "route", "choice");
    expect(near(result.value, 0.8 + 1.4 + 0.5), "route", "value");
}

static ota_status run_maxsim(void *const *p) { return ota_maxsim(p[0], at.scores, NULL, NULL); }

static void maxsim(void) {
    static float query[4] = {1, 0, 0, 1}, documents[6] = {2, 0, 0, 3, 1, 1};
    static const int64_t offsets[3] = {0, 2, 3};
    ota_late_interaction problem = {
        .size = sizeof problem, .offsets = offsets, .document_count = 2};
    problem.queries = ota_array_of(query, OTA_F32, 1, 1, 2, 2);
    problem.documents = ota_array_of(documents, OTA_F32, 1, 1, 3, 2);
    try_call(&(call){"maxsim", run_maxsim, {PART(problem)}});
    expect(near(at.scores[0], 5) && near(at.scores[1], 2), "maxsim", "scores");
}

static ota_status run_normalize(void *const *p) {
    static const float logits[4] = {0.5F, -0.25F, 1.0F, 0.0F};
    return ota_normalize(p[0], logits, at.normal, NULL);
}

static void normalize(void) {
    ota_normalization problem = {.size = sizeof problem, .type = OTA_F32, .count = 1, .side = 2};
    try_call(&(call){"normalize", run_normalize, {PART(problem)}});
    const float *p = at.normal;
    for (int k = 0; k < 2; k++)
        expect(fabsf(p[k] + p[2 + k] - 1) < 1e-6F && fabsf(p[2 * k] + p[2 * k + 1] - 1) < 1e-6F,
               "normalize", "sums");
}

int main(void) {
    attend();
    certify();
    certify_records();
    backward();
    jvp();
    group();
    assign();
    ranked();
    bottleneck();
    bounded();
    route();
    maxsim();
    normalize();
    printf("%d checks, %d failed\n", checks, failed);
    return failed != 0 || checks == 0;
}
