/* playground.c: the library and the models' library behind a page, as functions of numbers and addresses.
 *
 *     play_text()                     the buffer that texts come and go through, ended by NUL
 *     play_scores()                   S [queries, keys], what both sides solve
 *     play_row_masses(), play_column_masses(), play_sink()   what a side has where it says so
 *     play_solve(side, ...)           text = a method; P, its column sums, facts, the error after every round
 *     play_read(limit)                text = a sentence: its tokens, queries, keys and weights of every head
 *     play_head(layer, head)          the scores of one head of that sentence
 *
 * A side keeps its plan for as long as the method's numbers alone change (ota_plan_rebind). Everything lies in static
 * memory, of at most PLAY_SIDE queries and keys. Calls return an ota_status; below 0 the text is a sentence.
 *
 * web/: the page of ./dev playground. May call the public headers, and src/base/system.h for the model's file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "otattn.h"
#include "otattn_model.h"
#include "otattn_tokenizer.h"

/* What the page calls: these functions alone are kept, and what they reach. */
#define EXPORT(name) __attribute__((export_name(#name)))

enum { PLAY_SIDE = 64, PLAY_SIDES = 2, PLAY_CURVE = 96, PLAY_TEXT = 1 << 16, PLAY_FACTS = 20 };

/* What play_facts holds, in this order. */
enum {
    FACT_STATUS,
    FACT_ROUNDS,
    FACT_ROW_ERROR,
    FACT_COLUMN_ERROR,
    FACT_PRIMAL,
    FACT_DUAL,
    FACT_GAP,
    FACT_COST, /* sum of P C */
    FACT_ENTROPY,
    FACT_SUPPORT,
    FACT_RECEIVER_MAX,
    FACT_RECEIVER_MIN,
    FACT_DELTA,
    FACT_CURVE, /* numbers in play_curve */
    FACT_COUNT
};

/* What play_solve is asked for beside the method. */
enum { PLAY_CAUSAL = 1, PLAY_ROW_MASSES = 2, PLAY_COLUMN_MASSES = 4, PLAY_SINK = 8 };

/* One rule beside another: its plans and what they answered. */
typedef struct play_side {
    ota_plan *plan, *round_plan; /* round_plan: one round from the potentials of the last */
    ota_options options;         /* of plan */
    double coupling[PLAY_SIDE * PLAY_SIDE];
    double row_potential[PLAY_SIDE], column_potential[PLAY_SIDE], received[PLAY_SIDE];
    double curve[PLAY_CURVE];
    double facts[PLAY_FACTS];
    char name[96];
} play_side;

/* The sentence that was read. */
typedef struct play_sentence {
    int64_t count, layers, heads, width;
    float *queries, *keys; /* [layers, count, heads, width] */
    float *weights;        /* [layers, heads, count, count] */
    double scale;
} play_sentence;

static const char *const MODEL = "model.gguf";
static play_side sides[PLAY_SIDES];
static double scores[PLAY_SIDE * PLAY_SIDE];
static double row_masses[PLAY_SIDE], column_masses[PLAY_SIDE], sink_logit[1];
static char text[PLAY_TEXT];
static ota_error error;
static ota_model *model;
static ota_tokenizer *tokenizer;
static ota_session *session;
static play_sentence sentence;

EXPORT(play_text) char *play_text(void) { return text; }
EXPORT(play_text_size) int play_text_size(void) { return PLAY_TEXT; }
EXPORT(play_limit) int play_limit(void) { return PLAY_SIDE; }
EXPORT(play_scores) double *play_scores(void) { return scores; }
EXPORT(play_row_masses) double *play_row_masses(void) { return row_masses; }
EXPORT(play_column_masses) double *play_column_masses(void) { return column_masses; }
EXPORT(play_sink) double *play_sink(void) { return sink_logit; }
EXPORT(play_coupling) double *play_coupling(int side) { return sides[side].coupling; }
EXPORT(play_received) double *play_received(int side) { return sides[side].received; }
EXPORT(play_column_potential) double *play_column_potential(int side) {
    return sides[side].column_potential;
}
EXPORT(play_curve) double *play_curve(int side) { return sides[side].curve; }
EXPORT(play_facts) double *play_facts(int side) { return sides[side].facts; }
EXPORT(play_name) const char *play_name(int side) { return sides[side].name; }
EXPORT(play_version) const char *play_version(void) { return ota_version(); }

static int fail(ota_status status) {
    (void)snprintf(text, sizeof text, "%s%s%s", error.message, error.hint[0] == '\0' ? "" : "; ",
                   error.hint);
    return (int)status;
}

/* ---- one rule ------------------------------------------------------------------------------- */

/* The plan that `kept` holds, pointed at this problem, or a new one in its place. */
static ota_status plan_for(ota_plan **kept, bool same_options, const ota_problem *problem,
                           const ota_options *options) {
    if (*kept != NULL && same_options && ota_plan_rebind(*kept, problem, NULL) >= 0) return OTA_OK;
    ota_plan_free(*kept);
    *kept = NULL;
    return ota_plan_create(kept, problem, 0, options, &error);
}

static bool same_options(const ota_options *a, const ota_options *b) {
    return a->rounds == b->rounds && a->max_rounds == b->max_rounds &&
           !(a->tolerance < b->tolerance) && !(a->tolerance > b->tolerance);
}

/* Rules whose columns are met round by round. */
static bool has_rounds(const ota_problem *problem) {
    return problem->columns == OTA_COLUMNS_EXACT || problem->columns == OTA_COLUMNS_RELAXED ||
           problem->columns == OTA_COLUMNS_CAPPED || problem->columns == OTA_COLUMNS_BOUNDED ||
           problem->columns == OTA_COLUMNS_ELASTIC;
}

/* Errors of the columns after 0, 1, 2 ... rounds of the plain update, each begun at the potentials of the one before,
 * until they are as small as rounding or `rounds` were run. A rule without such rounds has none. */
static int64_t follow(play_side *side, const ota_problem *problem, const ota_options *options,
                      int64_t rounds) {
    if (!has_rounds(problem)) return 0;
    const int64_t keys = problem->scores.size[3];
    ota_problem step = *problem;
    step.steps = 1;
    ota_options once = *options;
    once.rounds = problem->columns == OTA_COLUMNS_ELASTIC ? 0 : 1;
    double potential[2][PLAY_SIDE] = {{0}, {0}};
    ota_arrays arrays = {.size = sizeof arrays};
    double received[PLAY_SIDE];
    arrays.receiver = ota_array_of(received, OTA_F64, 1, 1, 1, keys);
    ota_plan *plan = NULL;
    if (ota_plan_create(&plan, &step, 0, &once, NULL) < 0) return 0;
    int64_t count = 0;
    for (; count < rounds && count < PLAY_CURVE; count++) {
        ota_result result = {.size = sizeof result};
        arrays.start_potential = ota_array_of(potential[count % 2], OTA_F64, 1, 1, 1, keys);
        arrays.column_potential = ota_array_of(potential[1 - count % 2], OTA_F64, 1, 1, 1, keys);
        if (ota_forward(plan, &arrays, &result, NULL) < 0) break;
        side->curve[count] = result.column_error;
        if (!(result.column_error > 1e-12)) {
            count++;
            break;
        }
    }
    ota_plan_free(plan);
    return count;
}

static double cost_of(const play_side *side, int64_t pairs) {
    double cost = 0;
    for (int64_t pair = 0; pair < pairs; pair++) {
        if (side->coupling[pair] > 0) cost -= side->coupling[pair] * scores[pair];
    }
    return cost;
}

static ota_status judge(play_side *side, const ota_problem *problem, const ota_options *options,
                        const ota_arrays *arrays) {
    ota_certificate found = {.size = sizeof found};
    const ota_status status = ota_certify(problem, options, arrays, &found, NULL, &error);
    if (status < 0) return status;
    double *facts = side->facts;
    facts[FACT_ROW_ERROR] = found.row_error;
    facts[FACT_COLUMN_ERROR] = found.column_error;
    facts[FACT_PRIMAL] = found.primal;
    facts[FACT_DUAL] = found.dual;
    facts[FACT_GAP] = found.gap;
    facts[FACT_ENTROPY] = found.entropy;
    facts[FACT_SUPPORT] = found.support;
    facts[FACT_RECEIVER_MAX] = found.receiver_max;
    facts[FACT_RECEIVER_MIN] = found.receiver_min;
    facts[FACT_DELTA] = found.delta;
    return OTA_OK;
}

/* Solves the scores [queries, keys] by the method in the text. `asked`: PLAY_CAUSAL is keys up to the query's place alone, the
 * others take the masses and the sink's logit as they lie. `rounds`: how far play_curve follows the plain update. */
EXPORT(play_solve) int play_solve(int index, int queries, int keys, int asked, int rounds) {
    if (index < 0 || index >= PLAY_SIDES || queries < 1 || keys < 1 || queries > PLAY_SIDE ||
        keys > PLAY_SIDE) {
        (void)snprintf(text, sizeof text, "a side has 1 to %d queries and keys, not %d and %d",
                       (int)PLAY_SIDE, queries, keys);
        return OTA_EINVAL;
    }
    play_side *side = &sides[index];
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options, .allow_partial = 1, .threads = 1};
    ota_status status = ota_method_parse(text, &problem, &options, &error);
    if (status < 0) return fail(status);
    const ota_support support = {.kind = OTA_SUPPORT_CAUSAL};
    problem.scores = ota_array_of(scores, OTA_F64, 1, 1, queries, keys);
    const ota_term sink = {.kind = OTA_TERM_SINK, .value = sink_logit[0]};
    if (asked & PLAY_SINK) {
        problem.terms = &sink;
        problem.term_count = 1;
    }
    if (asked & PLAY_ROW_MASSES)
        problem.row_mass = ota_array_of(row_masses, OTA_F64, 1, 1, 1, queries);
    if (asked & PLAY_COLUMN_MASSES)
        problem.column_mass = ota_array_of(column_masses, OTA_F64, 1, 1, 1, keys);
    if (asked & PLAY_CAUSAL) {
        problem.supports = &support;
        problem.support_count = 1;
        problem.corner = OTA_TOP_LEFT;
    }
    status = plan_for(&side->plan, same_options(&side->options, &options), &problem, &options);
    if (status < 0) return fail(status);
    side->options = options;

    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = ota_array_of(side->coupling, OTA_F64, 1, 1, queries, keys);
    arrays.row_potential = ota_array_of(side->row_potential, OTA_F64, 1, 1, 1, queries);
    arrays.column_potential = ota_array_of(side->column_potential, OTA_F64, 1, 1, 1, keys);
    arrays.receiver = ota_array_of(side->received, OTA_F64, 1, 1, 1, keys);
    ota_result result = {.size = sizeof result};
    status = ota_forward(side->plan, &arrays, &result, &error);
    if (status < 0) return fail(status);
    memset(side->facts, 0, sizeof side->facts);
    const ota_status judged = judge(side, &problem, &options, &arrays);
    if (judged < 0) return fail(judged);
    side->facts[FACT_STATUS] = (double)status;
    side->facts[FACT_ROUNDS] = (double)result.rounds;
    side->facts[FACT_COST] = cost_of(side, (int64_t)queries * keys);
    side->facts[FACT_CURVE] = (double)follow(side, &problem, &options, rounds);
    (void)ota_method_name(&problem, side->name, sizeof side->name);
    (void)snprintf(text, sizeof text, "%s", result.sentence);
    return (int)status;
}

EXPORT(play_status) const char *play_status(int side) {
    return ota_status_word((ota_status)sides[side].facts[FACT_STATUS]);
}

/* ---- the model ------------------------------------------------------------------------------ */

/* Room for the bytes of the model's file, to be filled before play_open; NULL without memory. */
EXPORT(play_file) unsigned char *play_file(int size) {
    unsigned char *bytes = malloc((size_t)size);
    return bytes != NULL && ota_system_hand_file(MODEL, bytes, (size_t)size) ? bytes : NULL;
}

EXPORT(play_open) int play_open(void) {
    ota_status status = ota_model_open(&model, MODEL, NULL, &error);
    if (status >= 0) status = ota_model_tokenizer(model, &tokenizer, &error);
    if (status < 0) return fail(status);
    const ota_session_options options = {
        .size = sizeof options, .batch = 1, .tokens = PLAY_SIDE, .threads = 1};
    status = ota_session_create(&session, model, &options, &error);
    if (status < 0) return fail(status);
    ota_model_facts facts = {.size = sizeof facts};
    status = ota_model_describe(model, &facts, &error);
    if (status < 0) return fail(status);
    const size_t states = (size_t)(facts.layers * PLAY_SIDE * facts.heads * facts.head_width);
    sentence = (play_sentence){
        .layers = facts.layers,
        .heads = facts.heads,
        .width = facts.head_width,
        .queries = calloc(states, sizeof(float)),
        .keys = calloc(states, sizeof(float)),
        .weights =
            calloc((size_t)(facts.layers * facts.heads) * PLAY_SIDE * PLAY_SIDE, sizeof(float))};
    sentence.scale = 1 / sqrt((double)facts.head_width);
    if (sentence.queries == NULL || sentence.keys == NULL || sentence.weights == NULL) {
        (void)snprintf(text, sizeof text, "no memory is left for the model's heads");
        return OTA_ENOMEM;
    }
    return OTA_OK;
}

EXPORT(play_layers) int play_layers(void) { return (int)sentence.layers; }
EXPORT(play_heads) int play_heads(void) { return (int)sentence.heads; }
EXPORT(play_weights) float *play_weights(void) { return sentence.weights; }

static const char *point_of(const char *name) {
    const char *end = strstr(name, ".attn.");
    return end == NULL ? "" : end + strlen(".attn.");
}

static int wanted(void *user, const char *name) {
    (void)user;
    const char *point = point_of(name);
    return strcmp(point, "hook_q") == 0 || strcmp(point, "hook_k") == 0 ||
           strcmp(point, "hook_pattern") == 0;
}

static ota_status take(void *user, const ota_capture *capture, ota_error *unused) {
    (void)user, (void)unused;
    const char *point = point_of(capture->name);
    float *to = strcmp(point, "hook_q") == 0   ? sentence.queries
                : strcmp(point, "hook_k") == 0 ? sentence.keys
                                               : sentence.weights;
    int64_t size = 1;
    for (int axis = 0; axis < capture->rank; axis++) size *= capture->shape[axis];
    memcpy(to + capture->layer * size, capture->data, (size_t)size * sizeof *to);
    return OTA_OK;
}

/* Reads the sentence in the text, of which the first `limit` tokens count. The text becomes the tokens' bytes, each
 * ended by a byte of 0. Returns how many there are, or a status. */
EXPORT(play_read) int play_read(int limit) {
    static int32_t ids[PLAY_TEXT];
    int64_t wide[PLAY_SIDE], count = 0, used = 0;
    if (limit > PLAY_SIDE) limit = PLAY_SIDE;
    ota_status status = ota_tokenizer_encode(tokenizer, text, (int64_t)strlen(text),
                                             OTA_ENCODE_NO_SPECIAL, ids, PLAY_TEXT, &count, &error);
    if (status < 0) return fail(status);
    if (count > limit) count = limit;
    if (count < 1) {
        (void)snprintf(text, sizeof text, "a sentence has one token at least");
        return OTA_EINVAL;
    }
    for (int64_t token = 0; token < count; token++) {
        int64_t size = 0;
        wide[token] = ids[token];
        status = ota_tokenizer_decode(tokenizer, &ids[token], 1, OTA_DECODE_INNER, text + used,
                                      PLAY_TEXT - used - 1, &size, &error);
        if (status < 0) return fail(status);
        used += size;
        text[used++] = '\0';
    }
    sentence.count = count;
    const ota_model_run run = {.size = sizeof run,
                               .ids = wide,
                               .batch = 1,
                               .count = count,
                               .wanted = wanted,
                               .capture = take};
    status = ota_session_run(session, &run, &error);
    return status < 0 ? fail(status) : (int)count;
}

/* Scores of one head of the sentence, each query with each key, whatever the model's mask allows. */
EXPORT(play_head) void play_head(int layer, int head) {
    const int64_t n = sentence.count, width = sentence.width, row = sentence.heads * width;
    const float *queries = sentence.queries + layer * n * row + head * width;
    const float *keys = sentence.keys + layer * n * row + head * width;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < width; k++)
                sum += (double)queries[i * row + k] * (double)keys[j * row + k];
            scores[i * n + j] = sum * sentence.scale;
        }
    }
}
