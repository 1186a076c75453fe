/* test_model.c: otattn_model.h on a GPT-2 of two layers that the test writes itself: the forward pass
 * against plain double loops, captures, the cache, methods by place, validation, and files with changed
 * or missing bytes, which must be refused or read, never crash. */
#define _GNU_SOURCE
#include "tiny_gpt2.h"

#include "groups.h"

/* ---- the reference: GPT-2 from its definition, one token after the other ---- */

static void norm(const double *x, const float *weight, const float *bias, double *out) {
    double mean = 0, variance = 0;
    for (int k = 0; k < WIDTH; k++) mean += x[k] / (double)WIDTH;
    for (int k = 0; k < WIDTH; k++) variance += (x[k] - mean) * (x[k] - mean) / (double)WIDTH;
    for (int k = 0; k < WIDTH; k++)
        out[k] = (x[k] - mean) / sqrt(variance + 1e-5) * (double)weight[k] + (double)bias[k];
}

static void linear(const double *x, const float *weight, const float *bias, int in, int out,
                   double *y) {
    for (int o = 0; o < out; o++) {
        y[o] = (double)bias[o];
        for (int i = 0; i < in; i++) y[o] += x[i] * (double)weight[i * out + o];
    }
}

static void attend(const double merged[][3 * WIDTH], int t, double *mixed) {
    for (int h = 0; h < HEADS; h++) {
        double weights[COUNT], total = 0;
        for (int j = 0; j <= t; j++) {
            double score = 0;
            for (int k = 0; k < HEAD; k++)
                score += merged[t][h * HEAD + k] * merged[j][WIDTH + h * HEAD + k];
            total += weights[j] = exp(score / 2); /* sqrt(HEAD) = 2 */
        }
        for (int k = 0; k < HEAD; k++) {
            mixed[h * HEAD + k] = 0;
            for (int j = 0; j <= t; j++)
                mixed[h * HEAD + k] += weights[j] / total * merged[j][2 * WIDTH + h * HEAD + k];
        }
    }
}

static double gelu(double x) {
    return x / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static void reference(const checkpoint *c, const int64_t *ids, double states[][WIDTH]) {
    static double merged[COUNT][3 * WIDTH];
    double x[COUNT][WIDTH], h[WIDTH], mixed[WIDTH], inner[INNER];
    for (int t = 0; t < COUNT; t++)
        for (int k = 0; k < WIDTH; k++)
            x[t][k] = (double)get_piece(c, "wte.weight", 0)[ids[t] * WIDTH + k] +
                      (double)get_piece(c, "wpe.weight", 0)[t * WIDTH + k];
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int t = 0; t < COUNT; t++) {
            norm(x[t], get_piece(c, "h.%d.ln_1.weight", layer),
                 get_piece(c, "h.%d.ln_1.bias", layer), h);
            linear(h, get_piece(c, "h.%d.attn.c_attn.weight", layer),
                   get_piece(c, "h.%d.attn.c_attn.bias", layer), WIDTH, 3 * WIDTH, merged[t]);
        }
        for (int t = 0; t < COUNT; t++) {
            attend((const double(*)[3 * WIDTH]) merged, t, mixed);
            linear(mixed, get_piece(c, "h.%d.attn.c_proj.weight", layer),
                   get_piece(c, "h.%d.attn.c_proj.bias", layer), WIDTH, WIDTH, h);
            for (int k = 0; k < WIDTH; k++) x[t][k] += h[k];
            norm(x[t], get_piece(c, "h.%d.ln_2.weight", layer),
                 get_piece(c, "h.%d.ln_2.bias", layer), h);
            linear(h, get_piece(c, "h.%d.mlp.c_fc.weight", layer),
                   get_piece(c, "h.%d.mlp.c_fc.bias", layer), WIDTH, INNER, inner);
            for (int k = 0; k < INNER; k++) inner[k] = gelu(inner[k]);
            linear(inner, get_piece(c, "h.%d.mlp.c_proj.weight", layer),
                   get_piece(c, "h.%d.mlp.c_proj.bias", layer), INNER, WIDTH, h);
            for (int k = 0; k < WIDTH; k++) x[t][k] += h[k];
        }
    }
    for (int t = 0; t < COUNT; t++)
        norm(x[t], get_piece(c, "ln_f.weight", 0), get_piece(c, "ln_f.bias", 0), states[t]);
}

/* ---- tests ---- */

static void test_forward(void **state) {
    (void)state;
    checkpoint c;
    double wanted[COUNT][WIDTH];
    float states[COUNT * WIDTH], logits[COUNT * WORDS];
    draw_checkpoint(&c);
    write_model(&c);
    reference(&c, tokens, wanted);
    ota_model *model = open_model();
    for (int threads = 1; threads <= 3; threads += 2) {
        ota_session *session = open_session(model, (ota_session_options){.threads = threads});
        run_tokens(session, 0, COUNT, states);
        assert_true(distance(states, wanted[0], COUNT * WIDTH) <= slack);
        assert_int_equal(ota_session_logits(session, states, COUNT, 0, logits, NULL), OTA_OK);
        double product = 0;
        for (int k = 0; k < WIDTH; k++) product += wanted[4][k] * (double)c.data[7 * WIDTH + k];
        assert_true(fabs((double)logits[4 * WORDS + 7] - product) <= 4 * slack);
        ota_session_free(session);
    }
    ota_model_free(model);
}

/* Weights in bf16 give what the same numbers in f32 give, where a matrix has more columns than are decoded at
 * a time; also to so few tokens that rows are decoded for them alone. */
static void test_wide_weights_in_bf16(void **state) {
    (void)state;
    enum { INNER_HERE = 150, FEW = 2 };
    checkpoint c = {.state = 7, .narrow = true};
    float states[2][COUNT * WIDTH], few[FEW * WIDTH];
    double wanted[COUNT * WIDTH];
    char config[sizeof config_text + 16];
    const char *const inner = strstr(config_text, "12,");
    const int length = snprintf(config, sizeof config, "%.*s%d%s", (int)(inner - config_text),
                                config_text, INNER_HERE, inner + 2);
    draw_tensors(&c, INNER_HERE);
    for (int k = 0; k < 2; k++) {
        c.narrow = k == 1;
        write_model(&c);
        put("config.json", config, (size_t)length);
        ota_model *model = open_model();
        ota_session *session = open_session(model, (ota_session_options){.threads = 1});
        run_tokens(session, 0, COUNT, states[k]);
        run_tokens(session, 0, FEW, few);
        for (int i = 0; i < FEW * WIDTH; i++) wanted[i] = (double)states[k][i];
        assert_true(distance(few, wanted, FEW * WIDTH) <= slack);
        ota_session_free(session);
        ota_model_free(model);
    }
    for (int k = 0; k < COUNT * WIDTH; k++) wanted[k] = (double)states[0][k];
    assert_true(distance(states[1], wanted, COUNT * WIDTH) <= slack);
}

/* A session that ran whole sequences runs padded ones, and whole ones after that. */
static void test_padded_after_whole(void **state) {
    (void)state;
    checkpoint c;
    const int64_t lengths[] = {COUNT - 2};
    float whole[COUNT * WIDTH], padded[COUNT * WIDTH], again[COUNT * WIDTH];
    draw_checkpoint(&c);
    write_model(&c);
    ota_model *model = open_model();
    ota_session *session = open_session(model, (ota_session_options){.threads = 1});
    run_tokens(session, 0, COUNT, whole);
    run_padded(session, 0, COUNT, lengths, padded);
    run_tokens(session, 0, COUNT, again);
    assert_memory_equal(whole, again, sizeof whole);
    assert_memory_equal(whole, padded, (COUNT - 2) * WIDTH * sizeof *whole);
    ota_session_free(session);
    ota_model_free(model);
}

/* Prompt and single tokens on a cache give what the whole sequence gives. */
static void test_cache(void **state) {
    (void)state;
    checkpoint c;
    double wanted[COUNT][WIDTH];
    float states[COUNT * WIDTH];
    draw_checkpoint(&c);
    write_model(&c);
    reference(&c, tokens, wanted);
    ota_model *model = open_model();
    ota_session *session = open_session(model, (ota_session_options){.cache = POSITIONS});
    for (int repeat = 0; repeat < 2; repeat++) {
        run_tokens(session, 0, 4, states);
        run_tokens(session, 4, 1, states + 4 * WIDTH);
        run_tokens(session, 5, 3, states + 5 * WIDTH);
        run_tokens(session, 8, 1, states + 8 * WIDTH);
        assert_true(distance(states, wanted[0], COUNT * WIDTH) <= slack);
    }
    ota_error error = {0};
    const ota_model_run late = {
        .size = sizeof late, .ids = tokens, .batch = 1, .count = 1, .first = 3};
    assert_int_equal(ota_session_run(session, &late, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "the cache holds 9"));
    /* Keys and values of every position in every layer, and some rows more. */
    const size_t cached = (size_t)2 * LAYERS * POSITIONS * WIDTH * sizeof(float);
    assert_in_range(ota_session_bytes(session), cached, (size_t)1 << 20);
    ota_session_free(session);
    ota_model_free(model);
}

/* On a cache keys keep what is left of their capacity: token by token gives what the whole sequence gives. */
static void test_online_columns_on_a_cache(void **state) {
    (void)state;
    checkpoint c;
    static const char *const methods[] = {"softmax/online:1.2"};
    float whole[COUNT * WIDTH], steps[COUNT * WIDTH];
    double wanted[COUNT * WIDTH];
    draw_checkpoint(&c);
    write_model(&c);
    ota_model *model = open_model();
    ota_session *session =
        open_session(model, (ota_session_options){.methods = methods, .method_count = 1});
    run_tokens(session, 0, COUNT, whole);
    ota_session_free(session);
    for (int k = 0; k < COUNT * WIDTH; k++) wanted[k] = (double)whole[k];
    session = open_session(
        model, (ota_session_options){.cache = POSITIONS, .methods = methods, .method_count = 1});
    run_tokens(session, 0, 4, steps);
    run_tokens(session, 4, 1, steps + 4 * WIDTH);
    run_tokens(session, 5, 3, steps + 5 * WIDTH);
    run_tokens(session, 8, 1, steps + 8 * WIDTH);
    assert_true(distance(steps, wanted, COUNT * WIDTH) <= slack);
    ota_session_free(session);
    ota_model_free(model);
}

typedef struct seen {
    ota_model *model;
    int64_t next;
    double row_sums;
} seen;

static int want_all(void *user, const char *name) {
    (void)user;
    return name[0] != '\0';
}

static ota_status look(void *user, const ota_capture *capture, ota_error *error) {
    seen *s = user;
    ota_capture_point point;
    (void)error;
    assert_true(ota_model_point(s->model, s->next++, 1, COUNT, &point));
    assert_string_equal(point.name, capture->name);
    assert_int_equal(point.rank, capture->rank);
    for (int k = 0; k < point.rank; k++) assert_int_equal(point.shape[k], capture->shape[k]);
    if (strstr(capture->name, "hook_pattern") != NULL)
        for (int k = 0; k < HEADS * COUNT * COUNT; k++) s->row_sums += (double)capture->data[k];
    return OTA_OK;
}

static ota_status stop(void *user, const ota_capture *capture, ota_error *error) {
    (void)user;
    (void)capture;
    (void)error;
    return OTA_CANCELLED;
}

static void refuse_start(ota_session *session, ota_model_run run, ota_status wanted,
                         const char *part) {
    ota_error error = {0};
    assert_int_equal(ota_session_run(session, &run, &error), wanted);
    if (strstr(error.message, part) == NULL) fail_msg("%s", error.message);
}

/* Tokens that stop early do so on a cache as in a whole run; the threshold 1 stops none. */
static void test_exits(void **state) {
    (void)state;
    checkpoint c;
    float whole[COUNT * WIDTH], states[COUNT * WIDTH], plain[COUNT * WIDTH];
    int64_t layers[COUNT], used[COUNT], stopped = 0;
    draw_checkpoint(&c);
    write_model(&c);
    ota_model *model = open_model();
    ota_session *session = open_session(model, (ota_session_options){.cache = POSITIONS});
    ota_model_run run = {.size = sizeof run,
                         .ids = tokens,
                         .batch = 1,
                         .count = COUNT,
                         .states = plain,
                         .layers = layers};
    assert_int_equal(ota_session_run(session, &run, NULL), OTA_OK);
    run.states = whole;
    run.exit_threshold = 1;
    assert_int_equal(ota_session_run(session, &run, NULL), OTA_OK);
    assert_memory_equal(whole, plain, sizeof whole);
    for (int k = 0; k < COUNT; k++) assert_int_equal(layers[k], LAYERS);
    /* The first threshold at which some tokens stop early and some do not. */
    for (double threshold = 1e-3; threshold < 1.0; threshold *= 1.1) {
        int64_t early = 0;
        run.exit_threshold = threshold;
        assert_int_equal(ota_session_run(session, &run, NULL), OTA_OK);
        for (int k = 0; k < COUNT; k++) early += layers[k] < LAYERS;
        if (early > 0 && early < COUNT) break;
    }
    for (int64_t t = 0; t < COUNT; t++) {
        const ota_model_run one = {.size = sizeof one,
                                   .ids = tokens + t,
                                   .batch = 1,
                                   .count = 1,
                                   .first = t,
                                   .states = states + t * WIDTH,
                                   .exit_threshold = run.exit_threshold,
                                   .layers = used + t};
        assert_int_equal(ota_session_run(session, &one, NULL), OTA_OK);
        assert_int_equal(used[t], layers[t]);
        stopped += used[t] < LAYERS;
        for (int k = 0; k < WIDTH; k++)
            assert_true(fabs((double)(states[t * WIDTH + k] - whole[t * WIDTH + k])) <= slack);
    }
    assert_in_range(stopped, 1, COUNT - 1);
    /* As many blocks in a row as there are; those of one run do not count in the next. */
    run.exit_transitions = LAYERS;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(ota_session_run(session, &run, NULL), OTA_OK);
        for (int k = 0; k < COUNT; k++) assert_int_equal(layers[k], LAYERS);
    }
    run.exit_targets = tokens;
    refuse_start(session, run, OTA_EINVAL, "leave one out");
    run.exit_targets = NULL;
    run.wanted = want_all;
    run.capture = stop;
    assert_int_equal(ota_session_run(session, &run, NULL), OTA_UNSUPPORTED);
    ota_session_free(session);
    ota_model_free(model);
}

static void test_captures(void **state) {
    (void)state;
    checkpoint c;
    ota_capture_point point;
    draw_checkpoint(&c);
    write_model(&c);
    seen s = {.model = open_model()};
    ota_session *session = open_session(s.model, (ota_session_options){0});
    ota_model_run run = {.size = sizeof run,
                         .ids = tokens,
                         .batch = 1,
                         .count = COUNT,
                         .wanted = want_all,
                         .capture = look,
                         .user = &s};
    assert_int_equal(ota_session_run(session, &run, NULL), OTA_OK);
    assert_false(ota_model_point(s.model, s.next, 1, 1, &point));
    assert_true(fabs(s.row_sums - LAYERS * HEADS * COUNT) <= slack);
    run.capture = stop;
    assert_int_equal(ota_session_run(session, &run, NULL), OTA_CANCELLED);
    ota_session_free(session);
    ota_model_free(s.model);
}

/* How many more captures there are before the run is stopped. */
static ota_status stop_there(void *user, const ota_capture *capture, ota_error *error) {
    int *const left = user;
    (void)capture;
    (void)error;
    return (*left)-- > 0 ? OTA_OK : OTA_CANCELLED;
}

/* A step on a cache that was stopped anywhere is made again, with the bits of one that was not. */
static void test_stopped_steps_are_made_again(void **state) {
    (void)state;
    checkpoint c;
    static const char *const methods[] = {"softmax", "softmax/online:1.2"};
    draw_checkpoint(&c);
    write_model(&c);
    ota_model *model = open_model();
    for (int online = 0; online < 2; online++) {
        const ota_session_options options = {
            .cache = POSITIONS, .methods = &methods[online], .method_count = 1};
        float wanted[COUNT * WIDTH], states[COUNT * WIDTH];
        ota_session *session = open_session(model, options);
        run_tokens(session, 0, 4, wanted);
        for (int64_t t = 4; t < COUNT; t++) run_tokens(session, t, 1, wanted + t * WIDTH);
        ota_session_free(session);
        session = open_session(model, options);
        run_tokens(session, 0, 4, states);
        int stopped = 0;
        for (int64_t t = 4; t < COUNT; t++) {
            for (int at = 0;; at += 3) {
                int left = at;
                const ota_model_run step = {.size = sizeof step,
                                            .ids = tokens + t,
                                            .batch = 1,
                                            .count = 1,
                                            .first = t,
                                            .states = states + t * WIDTH,
                                            .wanted = want_all,
                                            .capture = stop_there,
                                            .user = &left};
                const ota_status status = ota_session_run(session, &step, NULL);
                if (status == OTA_OK) break;
                assert_int_equal(status, OTA_CANCELLED);
                stopped++;
            }
        }
        assert_true(stopped > COUNT);
        assert_memory_equal(states, wanted, sizeof states);
        ota_session_free(session);
    }
    ota_model_free(model);
}

/* What goes into layer 1. */
typedef struct middle {
    float stream[COUNT * WIDTH];
    int met; /* points before it that were asked for */
} middle;

static int want_stream(void *user, const char *name) {
    middle *m = user;
    m->met += strncmp(name, "blocks.0.", 9) == 0 || strcmp(name, "hook_embed") == 0;
    return strcmp(name, "blocks.1.hook_resid_pre") == 0;
}

static ota_status keep_stream(void *user, const ota_capture *capture, ota_error *error) {
    (void)error;
    memcpy(((middle *)user)->stream, capture->data, COUNT * WIDTH * sizeof(float));
    return OTA_OK;
}

static void test_start_at_layer(void **state) {
    (void)state;
    checkpoint c;
    float whole[COUNT * WIDTH], later[COUNT * WIDTH];
    middle m = {.met = 0}, again = m;
    draw_checkpoint(&c);
    write_model(&c);
    ota_model *model = open_model();
    ota_session *session = open_session(model, (ota_session_options){0});
    ota_model_run run = {.size = sizeof run,
                         .ids = tokens,
                         .batch = 1,
                         .count = COUNT,
                         .states = whole,
                         .wanted = want_stream,
                         .capture = keep_stream,
                         .user = &m};
    assert_int_equal(ota_session_run(session, &run, NULL), OTA_OK);
    assert_true(m.met > 1);
    run.states = later;
    run.residual = m.stream;
    run.start_layer = 1;
    run.user = &again;
    assert_int_equal(ota_session_run(session, &run, NULL), OTA_OK);
    assert_memory_equal(later, whole, sizeof whole);
    assert_memory_equal(again.stream, m.stream, sizeof m.stream);
    assert_int_equal(again.met, 0);
    m.stream[0] += 1.0F;
    assert_int_equal(ota_session_run(session, &run, NULL), OTA_OK);
    assert_memory_not_equal(later, whole, sizeof whole);
    run.start_layer = LAYERS;
    refuse_start(session, run, OTA_EINVAL, "start_layer");
    run.start_layer = -1;
    refuse_start(session, run, OTA_EINVAL, "start_layer");
    run.start_layer = 1;
    run.residual = NULL;
    refuse_start(session, run, OTA_EINVAL, "residual is NULL");
    ota_session_free(session);
    session = open_session(model, (ota_session_options){.cache = COUNT});
    run.residual = m.stream;
    refuse_start(session, run, OTA_UNSUPPORTED, "neither a cache nor exits");
    ota_session_free(session);
    ota_model_free(model);
}

/* Merged and input-major as GPT-2 has them; other forms are seen through `analyze --bounds`. */
static void test_attention_of_a_block(void **state) {
    (void)state;
    checkpoint c;
    float query[WIDTH * WIDTH], key[WIDTH * WIDTH], value[WIDTH * WIDTH], output[WIDTH * WIDTH];
    float bias[WIDTH], gamma[WIDTH], beta[WIDTH], behind[WIDTH];
    draw_checkpoint(&c);
    write_model(&c);
    ota_model *model = open_model();
    ota_model_attention a = {.size = sizeof a,
                             .query = query,
                             .key = key,
                             .value = value,
                             .output = output,
                             .output_bias = bias,
                             .norm_weight = gamma,
                             .norm_bias = beta,
                             .output_norm_weight = behind};
    assert_int_equal(ota_model_attention_of(model, 1, &a, NULL), OTA_OK);
    const float *const merged = get_piece(&c, "h.%d.attn.c_attn.weight", 1);
    for (int i = 0; i < WIDTH; i++)
        for (int k = 0; k < WIDTH; k++) {
            assert_true(query[i * WIDTH + k] == merged[i * 3 * WIDTH + k]);
            assert_true(key[i * WIDTH + k] == merged[i * 3 * WIDTH + WIDTH + k]);
            assert_true(value[i * WIDTH + k] == merged[i * 3 * WIDTH + 2 * WIDTH + k]);
        }
    assert_memory_equal(output, get_piece(&c, "h.%d.attn.c_proj.weight", 1), sizeof output);
    assert_memory_equal(bias, get_piece(&c, "h.%d.attn.c_proj.bias", 1), sizeof bias);
    assert_memory_equal(gamma, get_piece(&c, "h.%d.ln_1.weight", 1), sizeof gamma);
    assert_memory_equal(beta, get_piece(&c, "h.%d.ln_1.bias", 1), sizeof beta);
    assert_true(a.rms == 0 && a.post_norm == 0 && a.scale == 0.5);
    assert_true(a.head_norms == 0 && a.output_norm == 0 && a.window == 0);
    for (int i = 0; i < WIDTH; i++) assert_true(behind[i] == 1.0F);
    ota_error error = {0};
    assert_int_equal(ota_model_attention_of(model, LAYERS, &a, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "layer is 2"));
    a.size = 0;
    assert_int_equal(ota_model_attention_of(model, 0, &a, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "sizeof(ota_model_attention)"));
    ota_model_free(model);
}

static void refuse_options(const ota_model *model, ota_session_options options, ota_status wanted,
                           const char *part) {
    ota_session *session;
    ota_error error = {0};
    options.size = sizeof options;
    if (options.batch == 0) options.batch = 1;
    if (options.tokens == 0) options.tokens = COUNT;
    assert_int_equal(ota_session_create(&session, model, &options, &error), wanted);
    assert_null(session);
    if (strstr(error.message, part) == NULL) fail_msg("%s", error.message);
}

/* Callers built with an older header give shorter structs, with a newer one longer ones. */
static void test_structs_of_other_sizes(void **state) {
    (void)state;
    checkpoint c;
    float states[COUNT * WIDTH], found[COUNT * WIDTH];
    ota_error error = {0};
    draw_checkpoint(&c);
    write_model(&c);
    ota_model *model = open_model();
    struct {
        ota_session_options known;
        int64_t later;
    } options = {{.size = sizeof options, .batch = 1, .tokens = COUNT, .threads = 1}, 0};
    struct {
        ota_model_run known;
        int64_t later;
    } run = {{.size = sizeof run, .ids = tokens, .batch = 1, .count = COUNT, .states = found}, 0};
    ota_session *session;
    assert_int_equal(ota_session_create(&session, model, &options.known, &error), OTA_OK);
    run_tokens(session, 0, COUNT, states);
    const size_t sizes[] = {sizeof run, offsetof(ota_model_run, exit_targets)};
    for (int k = 0; k < 2; k++) {
        memset(found, 0, sizeof found);
        run.known.size = sizes[k];
        assert_int_equal(ota_session_run(session, &run.known, &error), OTA_OK);
        assert_memory_equal(states, found, sizeof found);
    }
    run.known.size = sizeof run;
    run.later = 1;
    assert_int_equal(ota_session_run(session, &run.known, &error), OTA_EINVAL);
    ota_session_free(session);
    options.later = 1;
    assert_int_equal(ota_session_create(&session, model, &options.known, &error), OTA_EINVAL);
    ota_model_facts facts = {.size = offsetof(ota_model_facts, rope_base), .rope_base = -3.0};
    assert_int_equal(ota_model_describe(model, &facts, &error), OTA_OK);
    assert_true(facts.layers == LAYERS && facts.rope_base == -3.0);
    assert_int_equal(facts.size, offsetof(ota_model_facts, rope_base));
    facts.size = 0;
    assert_int_equal(ota_model_describe(model, &facts, &error), OTA_EINVAL);
    ota_model_free(model);
}

static void test_door(void **state) {
    (void)state;
    checkpoint c;
    draw_checkpoint(&c);
    write_model(&c);
    ota_model *model = open_model();
    refuse_options(model, (ota_session_options){.tokens = 17}, OTA_EINVAL, "16 positions");
    refuse_options(model, (ota_session_options){.batch = -1}, OTA_EINVAL, "batch");
    refuse_options(model, (ota_session_options){.cache = 3}, OTA_EINVAL, "cache");
    static const char *const wrong[] = {"softmax@2",  "softmax@0.2", "softmax@1-0", "softmax@",
                                        "softmax@0,", "softmax@x",   "softmax@0.",  "soft@0"};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
        refuse_options(model, (ota_session_options){.methods = &wrong[k], .method_count = 1},
                       OTA_EINVAL, "");
    const char *capped = "capped:2";
    refuse_options(model,
                   (ota_session_options){.methods = &capped, .method_count = 1, .cache = COUNT},
                   OTA_UNSUPPORTED, "token by token");
    ota_session *session =
        open_session(model, (ota_session_options){.methods = &capped, .method_count = 1});
    assert_non_null(strstr(ota_session_warning(session), "later tokens"));
    static const int64_t far[COUNT] = {0, WORDS};
    ota_error error = {0};
    ota_model_run run = {.size = sizeof run, .ids = far, .batch = 1, .count = COUNT};
    assert_int_equal(ota_session_run(session, &run, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "token 1 is 11"));
    run.count = COUNT + 1;
    assert_int_equal(ota_session_run(session, &run, &error), OTA_EINVAL);
    ota_session_free(session);
    /* Plans know the levels of kernels. */
    session = open_session(model, (ota_session_options){.cpu = "none"});
    run.ids = tokens;
    run.count = COUNT;
    refuse_start(session, run, OTA_EINVAL, "none");
    ota_session_free(session);
    int64_t tensors_found = 0;
    while (ota_model_tensor(model, tensors_found) != NULL) tensors_found++;
    assert_true(tensors_found > LAYERS);
    assert_null(ota_model_tensor(model, -1));
    ota_model_free(model);
}

static void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

/* A file of methods does what the same methods on their own do, and says where it is wrong. */
static void test_methods_file(void **state) {
    (void)state;
    checkpoint c;
    float by_file[COUNT * WIDTH], by_text[COUNT * WIDTH], plain[COUNT * WIDTH];
    draw_checkpoint(&c);
    write_model(&c);
    ota_model *model = open_model();
    put_text("methods.json",
             "{\"format\": \"otattn methods\", \"version\": 1, \"layers\": 2, \"heads\": 2, "
             "\"note\": \"by hand\", \"methods\": [{\"method\": \"sparsemax\", \"measured\": 7}, "
             "{\"place\": \"1\", \"method\": \"softmax{temperature=0.5}\"}, "
             "{\"place\": \"0.1,1.0\", \"method\": \"softmax/online:1.5\"}]}");
    static const char *const texts[] = {"sparsemax", "softmax{temperature=0.5}@1",
                                        "softmax/online:1.5@0.1,1.0"};
    static const char *const file = "@methods.json";
    ota_session *session =
        open_session(model, (ota_session_options){.methods = &file, .method_count = 1});
    run_tokens(session, 0, COUNT, by_file);
    ota_session_free(session);
    session = open_session(model, (ota_session_options){.methods = texts, .method_count = 3});
    run_tokens(session, 0, COUNT, by_text);
    ota_session_free(session);
    session = open_session(model, (ota_session_options){0});
    run_tokens(session, 0, COUNT, plain);
    ota_session_free(session);
    assert_memory_equal(by_file, by_text, sizeof by_file);
    assert_memory_not_equal(by_file, plain, sizeof by_file);
    static const struct {
        const char *text;
        ota_status status;
        const char *part;
    } wrong[] = {
        {"[]", OTA_EFORMAT, "a JSON object"},
        {"{}", OTA_EFORMAT, "\"format\""},
        {"{\"format\": \"otattn methods\", \"version\": 2}", OTA_EFORMAT, "\"version\""},
        {"{\"format\": \"otattn methods\", \"version\": 1}", OTA_EFORMAT, "\"methods\""},
        {"{\"format\": \"otattn methods\", \"version\": 1, \"heads\": 12}", OTA_EINVAL,
         "\"heads\" is 12, and the model has 2"},
        {"{\"format\": \"otattn methods\", \"version\": 1, \"method\": []}", OTA_EFORMAT,
         "\"method\" is no key"},
        {"{\"format\": \"otattn methods\", \"version\": 1, \"methods\": [{\"method\": \"hard\"}, "
         "3]}",
         OTA_EFORMAT, "methods[1]: must be an object"},
        {"{\"format\": \"otattn methods\", \"version\": 1, \"methods\": [{\"place\": \"1\"}]}",
         OTA_EFORMAT, "methods[0]: \"method\" must be a text"},
        {"{\"format\": \"otattn methods\", \"version\": 1, \"methods\": [{\"layer\": 1}]}",
         OTA_EFORMAT, "methods[0]: \"layer\" is no key"},
        {"{\"format\": \"otattn methods\", \"version\": 1, \"methods\": [{\"method\": \"soft\"}]}",
         OTA_EINVAL, "methods.json: methods[0]: "},
        {"{\"format\": \"otattn methods\", \"version\": 1, \"methods\": [{\"method\": \"hard\", "
         "\"place\": \"0.2\"}]}",
         OTA_EINVAL, "methods[0]: \"0.2\" names a layer or head"},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        put_text("methods.json", wrong[k].text);
        refuse_options(model, (ota_session_options){.methods = &file, .method_count = 1},
                       wrong[k].status, wrong[k].part);
    }
    static const char *const missing = "@nothing.json";
    refuse_options(model, (ota_session_options){.methods = &missing, .method_count = 1}, OTA_EIO,
                   "nothing.json");
    ota_model_free(model);
}

/* A file that opens must also run. */
static void open_and_run(void) {
    ota_model *model;
    ota_session *session;
    ota_error error = {0};
    const ota_status status = ota_model_open(&model, ".", NULL, &error);
    if (status != OTA_OK) {
        assert_true(error.message[0] != '\0');
        for (const char *at = error.message; *at != '\0'; at++)
            assert_true((unsigned char)*at >= 0x20);
        return;
    }
    const ota_session_options options = {
        .size = sizeof options, .batch = 1, .tokens = 2, .threads = 1};
    const int64_t ids[] = {0, 0};
    const ota_model_run run = {.size = sizeof run, .ids = ids, .batch = 1, .count = 2};
    if (ota_session_create(&session, model, &options, &error) == OTA_OK) {
        (void)ota_session_run(session, &run, &error);
        ota_session_free(session);
    }
    ota_model_free(model);
}

static void test_damaged_files(void **state) {
    (void)state;
    checkpoint c;
    size_t size;
    draw_checkpoint(&c);
    char *bytes = safetensors_bytes(&c, &size);
    char config[sizeof config_text];
    for (int round = 0; round < 300; round++) {
        const size_t place = (size_t)((double)(draw(&c) + 0.5F) * 2000.0);
        const char old = bytes[place];
        bytes[place] = (char)(old ^ (1 << (round % 8)));
        put("config.json", config_text, sizeof config_text - 1);
        put("model.safetensors", bytes, round % 5 == 0 ? place : size);
        bytes[place] = old;
        open_and_run();
        memcpy(config, config_text, sizeof config);
        config[place % (sizeof config - 1)] ^= (char)(1 << (round % 8));
        put("config.json", config, sizeof config - 1);
        put("model.safetensors", bytes, size);
        open_and_run();
    }
    free(bytes);
}

TEST_FILE(test_model) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_forward),
        IN_FOLDER(test_wide_weights_in_bf16),
        IN_FOLDER(test_padded_after_whole),
        IN_FOLDER(test_cache),
        IN_FOLDER(test_online_columns_on_a_cache),
        IN_FOLDER(test_stopped_steps_are_made_again),
        IN_FOLDER(test_captures),
        IN_FOLDER(test_start_at_layer),
        IN_FOLDER(test_attention_of_a_block),
        IN_FOLDER(test_exits),
        IN_FOLDER(test_structs_of_other_sizes),
        IN_FOLDER(test_door),
        IN_FOLDER(test_methods_file),
        IN_FOLDER(test_damaged_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
