/* Processor time of what `analyze` measures between two layers, beside the products of logits that it measures: one thread, a
 * token, both probes (the head as it is, and its last product alone).
 *
 *     transition_calls MODEL [TOKENS [TURNS]]
 *
 * prints as JSON, in ms, the least of the turns of
 *
 *     products    z = W x, all tokens at once
 *     rows        ota_evolve_step: ranks, sums, the transition, the prediction
 *     alignment   ota_gauge of z' - z over all tokens
 *     shortest    of the alignment on an executor: what it computes outside tasks, and the longest task of each run, which no
 *                 number of threads makes shorter
 *
 * and the sums of all figures, which two builds must share to the last bit. The states are drawn: the first N(0, 1), each next one
 * a third of that away. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "otattn_analysis.h"
#include "otattn_model.h"

enum { BEFORE, NOW, FINAL, STATES };
enum { PRODUCTS, ROWS, ALIGNMENT, SHORTEST, PARTS };
enum { PROBES = 2 };

typedef struct bench {
    ota_session *session;
    int64_t tokens, width, vocabulary;
    float *states[STATES], *inputs, *probed[STATES];
    ota_evolve_row *rows[STATES];
    unsigned char *memory[STATES], *scratch;
    size_t row_bytes;
    double least[PARTS], sum;
} bench;

static double now_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void stop(ota_status status, const ota_error *error) {
    if (status >= 0) return;
    (void)fprintf(stderr, "transition_calls: %s\n", error->message);
    exit(1);
}

static void *take(size_t bytes) {
    void *memory = malloc(bytes);
    if (memory == NULL) abort();
    return memory;
}

/* Sums of twelve uniforms: near enough to N(0, 1). */
static double draw_normal(uint64_t *state) {
    double sum = -6.0;
    for (int k = 0; k < 12; k++) {
        *state = *state * 6364136223846793005U + 1442695040888963407U;
        sum += (double)(*state >> 40) * 0x1p-24;
    }
    return sum;
}

static void open_bench(bench *b, const ota_model *model) {
    ota_model_facts facts = {.size = sizeof facts};
    ota_error error;
    uint64_t state = 1;
    stop(ota_model_describe(model, &facts, &error), &error);
    const ota_session_options options = {
        .size = sizeof options, .batch = 1, .tokens = b->tokens, .threads = 1};
    stop(ota_session_create(&b->session, model, &options, &error), &error);
    b->width = facts.width;
    b->vocabulary = facts.vocabulary;
    const size_t n = (size_t)b->tokens, d = (size_t)b->width, words = (size_t)b->vocabulary;
    b->row_bytes = (ota_evolve_row_bytes(b->vocabulary) + 63) / 64 * 64;
    b->scratch = take(ota_evolve_scratch_bytes(b->vocabulary));
    b->inputs = take(n * d * sizeof(float));
    for (int k = 0; k < STATES; k++) {
        b->states[k] = take(n * d * sizeof(float));
        b->probed[k] = take(n * words * sizeof(float));
        b->rows[k] = take(n * sizeof(ota_evolve_row));
        b->memory[k] = take(n * b->row_bytes);
        for (size_t i = 0; i < n * d; i++)
            b->states[k][i] = (float)((k > 0 ? (double)b->states[k - 1][i] : 0.0) +
                                      draw_normal(&state) / (k > 0 ? 3.0 : 1.0));
    }
}

static void multiply(bench *b, int probe, int state) {
    const float *inputs = b->states[state];
    if (probe == 0 && ota_session_probe_inputs(b->session, inputs, b->tokens, b->inputs) != 0)
        inputs = b->inputs;
    ota_session_probe(b->session, inputs, b->tokens, b->probed[state]);
}

static void make_rows(bench *b, int state) {
    ota_error error;
    for (int64_t i = 0; i < b->tokens; i++)
        stop(ota_evolve_row_of(b->probed[state] + i * b->vocabulary, b->vocabulary,
                               b->memory[state] + (size_t)i * b->row_bytes, b->scratch,
                               &b->rows[state][i], &error),
             &error);
}

static void step_rows(bench *b) {
    ota_error error;
    for (int64_t i = 0; i < b->tokens; i++) {
        const ota_evolve_others others = {&b->rows[BEFORE][i], &b->rows[BEFORE][i],
                                          &b->rows[FINAL][i]};
        ota_transition t;
        ota_prediction p;
        stop(ota_evolve_step(b->probed[NOW] + i * b->vocabulary, &others,
                             b->memory[NOW] + (size_t)i * b->row_bytes, b->scratch,
                             &b->rows[NOW][i], &t, &p, &error),
             &error);
        b->sum += t.tv + t.kl + t.js + t.spearman + t.logit_correlation + t.top100 + p.drift +
                  p.kl_to_final + p.entropy;
    }
}

/* Sums over the runs of an executor: its tasks, the longest task of each. */
typedef struct tasks {
    double all_ms, longest_ms;
} tasks;

static void run_tasks(void *user, int64_t count,
                      void (*body)(void *context, int64_t index, int worker), void *context) {
    tasks *t = user;
    double longest = 0.0;
    for (int64_t k = 0; k < count; k++) {
        const double begun = now_ms();
        body(context, k, 0);
        const double took = now_ms() - begun;
        t->all_ms += took;
        longest = fmax(longest, took);
    }
    t->longest_ms += longest;
}

static void align(bench *b, const ota_executor *executor) {
    const ota_gauge_options how = {.size = sizeof how, .executor = executor};
    ota_error error;
    ota_gauge_result result;
    const ota_gauge_matrix matrix = {b->probed[NOW], b->probed[BEFORE], OTA_F32, b->tokens,
                                     b->vocabulary};
    stop(ota_gauge(&matrix, &how, NULL, &result, NULL, &error), &error);
    if (executor == NULL) b->sum += result.residual + result.residual_lower + result.rms;
}

static void take_turn(bench *b) {
    double spent[PARTS] = {0.0};
    b->sum = 0.0;
    for (int probe = 0; probe < PROBES; probe++) {
        multiply(b, probe, BEFORE);
        multiply(b, probe, FINAL);
        make_rows(b, BEFORE);
        make_rows(b, FINAL);
        const double begun = now_ms();
        multiply(b, probe, NOW);
        const double multiplied = now_ms();
        step_rows(b);
        const double stepped = now_ms();
        align(b, NULL);
        const double aligned = now_ms();
        tasks t = {0.0, 0.0};
        align(b, &(ota_executor){run_tasks, &t, 1});
        spent[SHORTEST] += now_ms() - aligned - t.all_ms + t.longest_ms;
        spent[PRODUCTS] += multiplied - begun;
        spent[ROWS] += stepped - multiplied;
        spent[ALIGNMENT] += aligned - stepped;
    }
    for (int k = 0; k < PARTS; k++) b->least[k] = fmin(b->least[k], spent[k] / (double)b->tokens);
}

int main(int count, char **words) {
    ota_model *model = NULL;
    ota_error error;
    bench b = {.tokens = count > 2 ? atoll(words[2]) : 128,
               .least = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL}};
    const int turns = count > 3 ? atoi(words[3]) : 5;
    if (count < 2 || b.tokens < 2 || turns < 1) {
        (void)fputs("usage: transition_calls MODEL [TOKENS [TURNS]]\n", stderr);
        return 2;
    }
    stop(ota_model_open(&model, words[1], NULL, &error), &error);
    open_bench(&b, model);
    for (int k = 0; k < turns; k++) take_turn(&b);
    (void)printf("{\"products\": %.4f, \"rows\": %.4f, \"alignment\": %.4f, "
                 "\"shortest\": %.4f, \"sum\": \"%a\"}\n",
                 b.least[PRODUCTS], b.least[ROWS], b.least[ALIGNMENT], b.least[SHORTEST], b.sum);
    ota_session_free(b.session);
    ota_model_free(model);
    return 0;
}
