/* test_session_limits.c: sessions of models end soon after their deadline and their flag, in a layer of a long prompt, in its
 * logits, and while they are made.
 *
 * The clock counts computation of the one thread that there is (work_clock.h). */
#define _GNU_SOURCE
#include "files_support.h"

#include "groups.h"
#include "otattn_model.h"
#include "work_clock.h"

/* One layer, whose products, attention and logits take about half a second each. All weights are 0, and so is the file. */
enum { WIDTH = 1024, WORDS = 8192, TOKENS = 2048, INNER = 4 * WIDTH };
/* A tenth of a second at most; memory that is new takes some of it. */
enum { ALLOWED = 100000000 };

typedef struct header {
    char text[4096];
    size_t used;
    int64_t floats;
} header;

static void add(header *h, const char *name, int64_t rows, int64_t columns) {
    char shape[48];
    const int64_t count = rows * (columns > 0 ? columns : 1);
    if (columns > 0)
        snprintf(shape, sizeof shape, "%d,%d", (int)rows, (int)columns);
    else
        snprintf(shape, sizeof shape, "%d", (int)rows);
    h->used +=
        (size_t)snprintf(h->text + h->used, sizeof h->text - h->used,
                         "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
                         h->used > 1 ? "," : "", name, shape, 4 * (long long)h->floats,
                         4 * (long long)(h->floats + count));
    h->floats += count;
}

static void add_linear(header *h, const char *part, int64_t in, int64_t out) {
    char name[64];
    snprintf(name, sizeof name, "h.0.%s.weight", part);
    add(h, name, in > 0 ? in : out, in > 0 ? out : 0);
    snprintf(name, sizeof name, "h.0.%s.bias", part);
    add(h, name, out, 0);
}

static ota_model *make_model(void) {
    header h = {.text = "{", .used = 1};
    add(&h, "wte.weight", WORDS, WIDTH);
    add(&h, "wpe.weight", TOKENS, WIDTH);
    add_linear(&h, "ln_1", 0, WIDTH);
    add_linear(&h, "attn.c_attn", WIDTH, 3 * WIDTH);
    add_linear(&h, "attn.c_proj", WIDTH, WIDTH);
    add_linear(&h, "ln_2", 0, WIDTH);
    add_linear(&h, "mlp.c_fc", WIDTH, INNER);
    add_linear(&h, "mlp.c_proj", INNER, WIDTH);
    add(&h, "ln_f.weight", WIDTH, 0);
    add(&h, "ln_f.bias", WIDTH, 0);
    h.used += (size_t)snprintf(h.text + h.used, sizeof h.text - h.used, "}");
    while (h.used % 8 != 0) h.text[h.used++] = ' ';
    char bytes[8 + sizeof h.text] = {0};
    for (int k = 0; k < 8; k++) bytes[k] = (char)((uint64_t)h.used >> (8 * k));
    memcpy(bytes + 8, h.text, h.used);
    put("model.safetensors", bytes, 8 + h.used);
    assert_int_equal(truncate("model.safetensors", (off_t)(8 + h.used) + 4 * (off_t)h.floats), 0);
    char config[512];
    const int length =
        snprintf(config, sizeof config,
                 "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 16, \"n_embd\": %d, "
                 "\"n_inner\": %d,"
                 " \"vocab_size\": %d, \"n_positions\": %d, \"layer_norm_epsilon\": 1e-5}",
                 WIDTH, INNER, WORDS, TOKENS);
    put("config.json", config, (size_t)length);
    ota_model *model;
    ota_error error = {0};
    if (ota_model_open(&model, ".", NULL, &error) != OTA_OK) fail_msg("%s", error.message);
    return model;
}

static float states[TOKENS * WIDTH], logits[(size_t)TOKENS * WORDS];
static int64_t ids[TOKENS];

static ota_status run(ota_session *session, ota_error *error) {
    const ota_model_run of = {
        .size = sizeof of, .ids = ids, .batch = 1, .count = TOKENS, .states = states};
    return ota_session_run(session, &of, error);
}

static ota_status give_logits(ota_session *session, ota_error *error) {
    return ota_session_logits(session, states, TOKENS, 1, logits, error);
}

typedef ota_status call(ota_session *session, ota_error *error);

static void expect_soon(const char *what, int64_t deadline, ota_status status) {
    const int64_t late = __wrap_ota_now_ns() - deadline;
    if (status != OTA_TIMEOUT) fail_msg("%s: status %d", what, (int)status);
    if (late > work_allowed(ALLOWED)) fail_msg("%s: %.1f ms late", what, (double)late / 1e6);
}

static void deadlines(void **unused) {
    (void)unused;
    ota_model *const model = make_model();
    const int64_t befores[] = {1000000, 100000000, 250000000};
    call *const calls[] = {run, give_logits};
    static const char *const names[] = {"a run", "logits"};
    static const char *const methods[] = {"softmax/exact{rounds=50}"};
    ota_error error = {0};
    int up = 0;
    ota_session_options options = {.size = sizeof options,
                                   .batch = 1,
                                   .tokens = TOKENS,
                                   .threads = 1,
                                   .methods = methods,
                                   .method_count = 1,
                                   .cancel = &up};
    ota_session *session;
    options.deadline_ns = __wrap_ota_now_ns() + 1000000;
    expect_soon("a session", options.deadline_ns,
                ota_session_create(&session, model, &options, &error));
    assert_null(session);
    options.deadline_ns = 0;
    assert_int_equal(ota_session_create(&session, model, &options, &error), OTA_OK);
    for (int k = 0; k < 2; k++) {
        for (int b = 0; b < 3; b++) {
            const int64_t deadline = __wrap_ota_now_ns() + befores[b];
            ota_session_set_deadline(session, deadline);
            const ota_status status = calls[k](session, &error);
            /* A fast machine may be done before a late one. */
            if (b > 0 && status == OTA_OK && __wrap_ota_now_ns() < deadline) continue;
            expect_soon(names[k], deadline, status);
            assert_non_null(strstr(error.message, "deadline"));
        }
    }
    ota_session_set_deadline(session, 0);
    up = 1;
    for (int k = 0; k < 2; k++) {
        assert_int_equal(calls[k](session, &error), OTA_CANCELLED);
        assert_non_null(strstr(error.message, "cancelled"));
    }
    ota_session_free(session);
    ota_model_free(model);
}

TEST_FILE(test_session_limits) {
    const struct CMUnitTest tests[] = {IN_FOLDER(deadlines)};
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
