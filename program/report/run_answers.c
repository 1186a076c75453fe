/* What a run says, in sentences at the top of its page.
 *
 *     facts      name -> text, from run_findings.c; a fact that the folder does not bear out has no name
 *     sentences  one row each: words with facts in braces, and the figure that shows it
 *
 * A row is said where all its facts are known, so a fact is also the condition: `sink_layers` is there with a sink and
 * `no_sink` without. A new sentence is a row, and a fact where it needs one. */
#include <stdio.h>
#include <string.h>

#include "run_parts.h"

enum { SENTENCES = 40, SHOWN = 8, NAME = 40 };

/* The first of these that hold stand at the top, those after them are unfolded. */
static const struct sentence {
    const char *words, *link, *figure;
} sentences[] = {
    {"{sink_layers} a sink, a head whose first key receives more than 0.3 of the mass in most "
     "windows: {sink_heads}, most of all layer {sink_layer}, head {sink_head} with {sink_mass} of "
     "the mass.",
     "mass on the first key", "first_key_mass"},
    {"No head has a sink (more than 0.3 of the mass on the first key in most windows){no_sink}; "
     "the largest "
     "share is "
     "{sink_mass}, in layer {sink_layer}, head {sink_head}.",
     "mass on the first key", "first_key_mass"},
    {"{named} a name by what they do: {named_list}.", "what heads do", "heads_named"},
    {"The strongest induction head is layer {induction_layer}, head {induction_head}: where the "
     "query's token has another copy, {induction} of the weight goes to what follows it, "
     "{induction_chance} by chance.",
     "induction", "induction"},
    {"From layer {settled_layer} on the likeliest token is that of the last layer at half of the "
     "positions or more: {settled_share} there, {unsettled_share} a layer before.",
     "agreement", "agreement_with_final"},
    {"Right before the last layer the likeliest token is still another one at more than half of "
     "the "
     "positions: {late_share} agree.",
     "agreement", "agreement_with_final"},
    {"Predictions move most in layer {moved_layer}, by a total variation of {moved}, and least in "
     "layer "
     "{still_layer}, by {still}.",
     "total variation", "tv"},
    {"The states of one window {alike}: the mean cosine of two of them is "
     "{cosine_first} at "
     "{first_state} and {cosine_last} at {last_state}.",
     "mean cosine", "mean_cosine"},
    {"A window's states span {rank_first} directions at {first_state} and {rank_last} at "
     "{last_state} "
     "(effective rank).",
     "effective rank", "effective_rank"},
    {"{events} of {transitions} transitions ({event_share}) {event_are} saturated{event_limits}, "
     "{peak_events} of them in layer {peak_layer}.",
     "events by layer", "saturation"},
    {"None of {transitions} transitions is saturated{event_limits}{no_events}.",
     "saturation in figures", RUN_SATURATION},
    {"Under {method} in place of {own_method} predictions change{method_least} by a total "
     "variation of "
     "{method_tv}; perplexity goes from {own_perplexity} to {method_perplexity}.",
     "methods", "methods_perplexity"},
    {"Layer {drift_layer} changes states most, by {drift} of their length; the median layer by "
     "{drift_middle}.",
     "relative change", "drift"},
    {"The fullest key of layer {full_layer}, head {full_head} receives {full} times an even share; "
     "that "
     "of the median head {full_middle} times.",
     "fullest key", "receiver_max"},
    {"The largest entry of a window's states is {massive} times the median size, at "
     "{massive_layer} in dimension {massive_dimension} of the token {massive_token}.",
     "largest entry", "massive_ratio"},
    {"What alignment leaves, R, {residual_goes} from {residual_first} logits in layer "
     "{residual_first_layer} to {residual_last} in layer {residual_last_layer}.",
     "alignment", "alignment"},
    {"All {bounds} comparisons keep the Lipschitz bound; the largest uses {bound_largest} of it.",
     "bounds", "bounds"},
    {"{bounds_some} the Lipschitz bound; the largest ratio is {bound_ratio}.", "bounds", "bounds"},
};

bool cli_run_fill(const char *words, const json_t *facts, char text[RUN_SENTENCE]) {
    size_t used = 0;
    while (*words != '\0' && used + 1 < RUN_SENTENCE) {
        const size_t plain = strcspn(words, "{");
        used += (size_t)snprintf(text + used, RUN_SENTENCE - used, "%.*s", (int)plain, words);
        words += plain;
        if (*words == '\0') break;
        char name[NAME];
        const size_t length = strcspn(words, "}");
        (void)snprintf(name, sizeof name, "%.*s", (int)length - 1, words + 1);
        const char *fact = json_string_value(json_object_get(facts, name));
        if (fact == NULL || used >= RUN_SENTENCE) return false;
        used += (size_t)snprintf(text + used, RUN_SENTENCE - used, "%s", fact);
        words += length + 1;
    }
    return used < RUN_SENTENCE;
}

/* A run's sentences; those of the second of two stand under the first's. */
static void say_run(run_page *page, int run, const char *heading) {
    const run_folder *folder = &page->runs[run];
    char texts[SENTENCES][RUN_SENTENCE], title[RUN_TITLE];
    run_part part;
    cli_answer answers[SENTENCES];
    size_t count = 0;
    json_t *facts = json_object();
    cli_run_findings(folder, facts);
    for (size_t row = 0; row < sizeof sentences / sizeof sentences[0]; row++)
        if (cli_run_fill(sentences[row].words, facts, texts[count])) {
            answers[count] = (cli_answer){texts[count], sentences[row].link,
                                          cli_run_place(page, sentences[row].figure)};
            count++;
        }
    (void)snprintf(title, sizeof title, "%.100s", heading);
    if (cli_run_part_of(folder, &part))
        (void)snprintf(title, sizeof title, "%.100s of layers %d to %d alone", heading, part.first,
                       part.last);
    cli_report_answers(page->report, title, answers, count, page->count == 1 ? SHOWN : 0);
    json_decref(facts);
}

void cli_run_answers(run_page *page) {
    cli_run_compare_answers(page);
    for (int run = 0; run < page->count; run++)
        say_run(page, run, page->count == 1 ? "What this run says" : cli_run_name(page, run));
}
