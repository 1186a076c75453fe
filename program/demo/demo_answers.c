/* The top of the demo's page: what was read, and what the run says in sentences made from its numbers. */
#include "demo.h"

#include <stdio.h>

enum { ANSWERS = 6, ANSWER = 400 };

static double fullest(const demo_run *run, const demo_result *result, int head) {
    return result->received[head * run->data.count + result->top[head]];
}

void demo_write_facts(cli_report *report, const demo_run *run) {
    char tokens[160], heads[120];
    const demo_data *data = &run->data;
    (void)snprintf(tokens, sizeof tokens,
                   "%lld tokens, each with one unit of attention to hand out",
                   (long long)data->count);
    (void)snprintf(heads, sizeof heads,
                   "layer %lld, head %lld and layer %lld, head %lld, counted from 0",
                   (long long)data->layers[0], (long long)data->heads[0],
                   (long long)data->layers[1], (long long)data->heads[1]);
    const cli_fact facts[] = {{"Model", data->model}, {"Text", tokens}, {"Heads", heads}};
    cli_report_facts(report, facts, sizeof facts / sizeof facts[0]);
}

void demo_write_answers(cli_report *report, const demo_run *run) {
    const demo_result *rules = run->rules, *exact = rules + 1, *elastic = rules + DEMO_CASES;
    const demo_result *others = elastic + DEMO_ELASTIC, *capped = others + 2;
    char texts[ANSWERS][ANSWER];
    double row = 0, gap = 0;
    for (int index = 0; index < DEMO_RULES; index++)
        for (int head = 0; head < DEMO_HEADS; head++) {
            const ota_certificate *certificate = &rules[index].certificates[head];
            if (certificate->row_error > row) row = certificate->row_error;
            if (certificate->gap > gap) gap = certificate->gap;
        }
    (void)snprintf(
        texts[0], ANSWER,
        "Under softmax `%s` receives %.2f of the %lld units in the first head, and `%s` %.2f in "
        "the second.",
        run->data.tokens[rules->top[0]], fullest(run, rules, 0), (long long)run->data.count,
        run->data.tokens[rules->top[1]], fullest(run, rules, 1));
    (void)snprintf(
        texts[1], ANSWER,
        "The doubly stochastic rule leaves %.2f units to the fullest key and moves the first "
        "head's output by %.2f of its length; a cap of 2 leaves %.2f and moves it by %.2f.",
        fullest(run, exact, 0), exact->output_change[0], fullest(run, capped, 0),
        capped->output_change[0]);
    (void)snprintf(
        texts[2], ANSWER,
        "With sparser rows and free columns the fullest key receives %.2f (%s) and %.2f (%s).",
        fullest(run, others, 0), others[0].rule->title, fullest(run, others + 1, 0),
        others[1].rule->title);
    (void)snprintf(
        texts[3], ANSWER,
        "Four rounds at half the strength bring the fullest key to %.2f; after %d rounds the worst "
        "key is off by %.1e at half and by %.1e at full strength.",
        fullest(run, elastic + 2, 0), DEMO_ROUNDS, run->deltas[2][DEMO_ROUNDS],
        run->deltas[3][DEMO_ROUNDS]);
    (void)snprintf(
        texts[4], ANSWER,
        "Cooled to a temperature of %g, %.0f %% of the mass lies on the best assignment by one "
        "round a stage, %.0f %% solved to the end.",
        run->temperatures[DEMO_STAGES], 100 * run->shares[1][DEMO_STAGES],
        100 * run->shares[2][DEMO_STAGES]);
    (void)snprintf(
        texts[5], ANSWER,
        "The judge finds rows wrong by %.0e at most, and no plan farther than %.0e from its "
        "optimum where the rule has one.",
        row, gap);
    const cli_answer answers[ANSWERS] = {{texts[0], "the fullest key under each rule", "maxima"},
                                         {texts[1], "what every token receives", "receivers"},
                                         {texts[2], "its map", others[1].rule->method},
                                         {texts[3], "round by round", "rounds"},
                                         {texts[4], "cooling", "cooling"},
                                         {texts[5], NULL, NULL}};
    cli_report_answers(report, "What this run says", answers, ANSWERS, ANSWERS);
}
