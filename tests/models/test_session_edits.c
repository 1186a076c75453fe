/* test_session_edits.c: weights and scores that come in blocks are those that come whole, for every kind of method; edits do at
 * their place what is written by hand elsewhere, and are refused where they would do nothing. */
#define _GNU_SOURCE
#include "tiny_gpt2.h"

#include "groups.h"

enum { BATCH = 2, POINTS = 2 * 22 + 8 };

static const int64_t pairs[BATCH * COUNT] = {3, 1, 4, 1, 5, 9, 2, 6, 10, 2, 7, 1, 8, 2, 8, 1, 8, 2};

/* One array that a run hands over, and all of them. */
typedef struct page {
    char name[96];
    float *data;
    int64_t count, rows, columns; /* rows so far */
} page;

typedef struct album {
    page pages[POINTS];
    int used;
    int64_t most; /* rows of one block */
} album;

static int want_all(void *user, const char *name) {
    (void)user;
    return name[0] != '\0';
}

/* Blocks come in order and cover the array once. */
static ota_status keep(void *user, const ota_capture *block, ota_error *error) {
    album *a = user;
    (void)error;
    int64_t count = 1;
    for (int k = 0; k < block->rank; k++) count *= block->shape[k];
    if (a->used == 0 || strcmp(a->pages[a->used - 1].name, block->name) != 0) {
        assert_true(a->used < POINTS);
        page *fresh = &a->pages[a->used++];
        *fresh = (page){.data = malloc((size_t)count * sizeof(float)),
                        .count = count,
                        .columns = block->columns};
        snprintf(fresh->name, sizeof fresh->name, "%s", block->name);
    }
    page *last = &a->pages[a->used - 1];
    assert_int_equal(block->first_row, last->rows);
    assert_int_equal(block->columns, last->columns);
    if (a->most > 0 && strstr(block->name, "receiver") == NULL) assert_true(block->rows <= a->most);
    last->rows += block->rows;
    assert_true(last->rows * block->columns <= count);
    memcpy(last->data + block->first_row * block->columns, block->data,
           (size_t)(block->rows * block->columns) * sizeof(float));
    return OTA_OK;
}

static void empty(album *a) {
    for (int k = 0; k < a->used; k++) {
        assert_int_equal(a->pages[k].rows * a->pages[k].columns, a->pages[k].count);
        free(a->pages[k].data);
    }
    *a = (album){.used = 0};
}

static const float *find(const album *a, const char *name) {
    for (int k = 0; k < a->used; k++)
        if (strcmp(a->pages[k].name, name) == 0) return a->pages[k].data;
    fail_msg("no %s", name);
    return NULL;
}

typedef struct trial {
    const char *method;
    const int64_t *lengths;
    const ota_edit *edits;
    int64_t edit_count, block_rows;
} trial;

/* states [BATCH, COUNT, WIDTH] or NULL */
static void run_trial(const ota_model *model, trial t, album *a, float *states) {
    ota_error error = {0};
    ota_session *session = open_session(
        model, (ota_session_options){
                   .batch = BATCH, .methods = &t.method, .method_count = t.method != NULL ? 1 : 0});
    const ota_model_run run = {.size = sizeof run,
                               .ids = pairs,
                               .batch = BATCH,
                               .count = COUNT,
                               .lengths = t.lengths,
                               .states = states,
                               .wanted = a != NULL ? want_all : NULL,
                               .capture = a != NULL ? keep : NULL,
                               .user = a,
                               .block_rows = t.block_rows,
                               .edits = t.edits,
                               .edit_count = t.edit_count};
    if (a != NULL) a->most = t.block_rows;
    if (ota_session_run(session, &run, &error) != OTA_OK)
        fail_msg("%s: %s", t.method != NULL ? t.method : "softmax", error.message);
    ota_session_free(session);
}

static double apart(const float *a, const float *b, size_t count) {
    double most = 0;
    for (size_t k = 0; k < count; k++) {
        if (a[k] == b[k]) continue;
        const double difference = fabs((double)a[k] - (double)b[k]);
        if (!(difference <= most)) most = difference;
    }
    return most;
}

/* Column sums of every head's weights. */
static void check_received(const album *a, const char *pattern, const char *receiver) {
    const float *p = find(a, pattern), *c = find(a, receiver);
    for (int head = 0; head < BATCH * HEADS; head++)
        for (int j = 0; j < COUNT; j++) {
            double sum = 0;
            for (int i = 0; i < COUNT; i++) sum += (double)p[(head * COUNT + i) * COUNT + j];
            assert_true(fabs(sum - (double)c[head * COUNT + j]) <= slack);
        }
}

static ota_model *tiny_model(void) {
    checkpoint c;
    draw_checkpoint(&c);
    write_model(&c);
    return open_model();
}

static void test_blocks_are_parts_of_the_whole(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax",
                                          "sparsemax",
                                          "softmax/online:2",
                                          "softmax/capped:2",
                                          "softmax/relaxed:1",
                                          "softmax/elastic:0.5,4",
                                          "entmax:1.5/capped:2",
                                          "entmax:1.5/exact",
                                          "sparsemax/relaxed:1",
                                          "softmax/prefix",
                                          "hard",
                                          "softmax/online:1.5@1.0",
                                          "softmax/relaxed:1@0.1"};
    static const int64_t lengths[BATCH] = {COUNT, 5};
    ota_model *model = tiny_model();
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        album whole = {.used = 0}, parts = whole;
        /* Padding of sequences that a prefix would have to end before. */
        const bool padded = k % 2 == 0 && strstr(methods[k], "prefix") == NULL;
        trial t = {.method = methods[k], .lengths = padded ? lengths : NULL};
        run_trial(model, t, &whole, NULL);
        check_received(&whole, "blocks.0.attn.hook_pattern", "blocks.0.attn.hook_receiver");
        check_received(&whole, "blocks.1.attn.hook_pattern", "blocks.1.attn.hook_receiver");
        for (t.block_rows = 1; t.block_rows <= 2 * COUNT; t.block_rows *= 3) {
            run_trial(model, t, &parts, NULL);
            assert_int_equal(parts.used, whole.used);
            for (int p = 0; p < whole.used; p++) {
                assert_string_equal(parts.pages[p].name, whole.pages[p].name);
                assert_int_equal(parts.pages[p].count, whole.pages[p].count);
                const char *name = whole.pages[p].name;
                const double limit = strstr(name, "hook_pattern") != NULL  ? 1e-5
                                     : strstr(name, "hook_result") != NULL ? slack
                                                                           : 0;
                const double far =
                    apart(whole.pages[p].data, parts.pages[p].data, (size_t)whole.pages[p].count);
                if (!(far <= limit))
                    fail_msg("%s, %s in blocks of %d: %g", methods[k], whole.pages[p].name,
                             (int)t.block_rows, far);
            }
            empty(&parts);
        }
        empty(&whole);
    }
    ota_model_free(model);
}

/* exp(scores), normalised, are softmax's weights, and no later key has a score. */
static void test_scores(void **state) {
    (void)state;
    ota_model *model = tiny_model();
    album a = {.used = 0};
    run_trial(model, (trial){.method = NULL}, &a, NULL);
    const float *s = find(&a, "blocks.1.attn.hook_attn_scores");
    const float *p = find(&a, "blocks.1.attn.hook_pattern");
    for (int row = 0; row < BATCH * HEADS * COUNT; row++) {
        double sum = 0;
        const int i = row % COUNT;
        for (int j = 0; j < COUNT; j++) {
            assert_int_equal(isinf(s[row * COUNT + j]) != 0, j > i);
            sum += exp((double)s[row * COUNT + j]);
        }
        for (int j = 0; j < COUNT; j++)
            assert_true(fabs(exp((double)s[row * COUNT + j]) / sum - (double)p[row * COUNT + j]) <=
                        slack);
    }
    /* What all heads add, and the bias, is attention's. */
    const float *added = find(&a, "blocks.1.attn.hook_result"),
                *out = find(&a, "blocks.1.hook_attn_out");
    ota_model_attention attention = {.size = sizeof attention};
    float bias[WIDTH];
    attention.output_bias = bias;
    assert_int_equal(ota_model_attention_of(model, 1, &attention, NULL), OTA_OK);
    for (int row = 0; row < BATCH * COUNT; row++)
        for (int k = 0; k < WIDTH; k++) {
            double sum = (double)bias[k];
            for (int h = 0; h < HEADS; h++) sum += (double)added[(row * HEADS + h) * WIDTH + k];
            assert_true(fabs(sum - (double)out[row * WIDTH + k]) <= slack);
        }
    const float *scale = find(&a, "blocks.1.ln2.hook_scale"),
                *x = find(&a, "blocks.1.hook_resid_mid");
    for (int row = 0; row < BATCH * COUNT; row++) {
        double mean = 0, variance = 0;
        for (int k = 0; k < WIDTH; k++) mean += (double)x[row * WIDTH + k] / WIDTH;
        for (int k = 0; k < WIDTH; k++)
            variance +=
                ((double)x[row * WIDTH + k] - mean) * ((double)x[row * WIDTH + k] - mean) / WIDTH;
        assert_true(fabs(sqrt(variance + 1e-5) - (double)scale[row]) <= slack);
    }
    empty(&a);
    ota_model_free(model);
}

static int want_patterns(void *user, const char *name) {
    (void)user;
    return strcmp(name, "blocks.1.attn.hook_pattern") == 0 ||
           strcmp(name, "blocks.1.attn.hook_attn_scores") == 0;
}

static int want_second(void *user, const char *name, int64_t head) {
    (void)user;
    return name[0] != '\0' && head == 1;
}

static void test_chosen_heads(void **state) {
    (void)state;
    ota_model *model = tiny_model();
    album whole = {.used = 0}, some = whole;
    run_trial(model, (trial){.method = NULL}, &whole, NULL);
    ota_session *session = open_session(model, (ota_session_options){.batch = BATCH});
    ota_model_run run = {.size = sizeof run,
                         .ids = pairs,
                         .batch = BATCH,
                         .count = COUNT,
                         .wanted = want_patterns,
                         .wanted_head = want_second,
                         .capture = keep,
                         .user = &some};
    for (run.block_rows = 0; run.block_rows <= 4; run.block_rows += 4) {
        assert_int_equal(ota_session_run(session, &run, NULL), OTA_OK);
        assert_int_equal(some.used, 2);
        for (int k = 0; k < 2; k++) {
            const float *all = find(&whole, some.pages[k].name);
            assert_int_equal(some.pages[k].count, BATCH * COUNT * COUNT);
            for (int b = 0; b < BATCH; b++)
                assert_true(apart(some.pages[k].data + b * COUNT * COUNT,
                                  all + (b * HEADS + 1) * COUNT * COUNT, COUNT * COUNT) <= slack);
        }
        empty(&some);
    }
    empty(&whole);
    ota_session_free(session);
    ota_model_free(model);
}

/* ---- edits ---- */

static ota_array values_of(float *data, int64_t a, int64_t b, int64_t c, int64_t d) {
    return ota_array_of(data, OTA_F32, a, b, c, d);
}

/* What an edit writes is what a capture shows, there and nowhere else. */
static void test_edits_at_their_place(void **state) {
    (void)state;
    ota_model *model = tiny_model();
    album plain = {.used = 0}, edited = plain;
    float filling[WIDTH];
    for (int k = 0; k < WIDTH; k++) filling[k] = 0.25F * (float)k;
    run_trial(model, (trial){.method = NULL}, &plain, NULL);
    const ota_edit edits[] = {
        {.size = sizeof(ota_edit),
         .point = "blocks.0.attn.hook_z",
         .sequences = {1, 1},
         .tokens = {2, 3},
         .heads = {1, 1},
         .columns = {1, 2},
         .kind = OTA_EDIT_REPLACE,
         .values = values_of(filling, 1, 1, 1, 2)},
        {.size = sizeof(ota_edit),
         .point = "blocks.0.attn.hook_z",
         .heads = {0, 1},
         .kind = OTA_EDIT_MEAN},
        {.size = sizeof(ota_edit), .point = "blocks.0.attn.hook_q", .factor = 2},
        {.size = sizeof(ota_edit),
         .point = "hook_embed",
         .tokens = {3, 0},
         .kind = OTA_EDIT_ADD,
         .factor = -1,
         .values = values_of(filling, 1, 1, 1, WIDTH)},
        {.size = sizeof(ota_edit), .point = "hook_mlp_out"}};
    run_trial(model, (trial){.edits = edits, .edit_count = 1}, &edited, NULL);
    const float *z = find(&plain, "blocks.0.attn.hook_z"),
                *w = find(&edited, "blocks.0.attn.hook_z");
    for (int row = 0; row < BATCH * COUNT; row++)
        for (int h = 0; h < HEADS; h++)
            for (int c = 0; c < HEAD; c++) {
                const int at = (row * HEADS + h) * HEAD + c, t = row % COUNT;
                const bool inside = row >= COUNT && t >= 2 && t < 5 && h == 1 && c >= 1 && c < 3;
                assert_true(w[at] == (inside ? filling[c - 1] : z[at]));
            }
    assert_memory_not_equal(find(&plain, "ln_final.hook_normalized"),
                            find(&edited, "ln_final.hook_normalized"),
                            BATCH * COUNT * WIDTH * sizeof(float));
    empty(&edited);
    run_trial(model, (trial){.edits = edits + 1, .edit_count = 1}, &edited, NULL);
    w = find(&edited, "blocks.0.attn.hook_z");
    for (int b = 0; b < BATCH; b++)
        for (int c = 0; c < HEAD; c++) {
            double mean = 0;
            for (int t = 0; t < COUNT; t++)
                mean += (double)z[((b * COUNT + t) * HEADS) * HEAD + c] / COUNT;
            for (int t = 0; t < COUNT; t++)
                assert_true(fabs((double)w[((b * COUNT + t) * HEADS) * HEAD + c] - mean) <= slack);
        }
    empty(&edited);
    run_trial(model, (trial){.edits = edits + 2, .edit_count = 3}, &edited, NULL);
    const float *e = find(&plain, "hook_embed"), *f = find(&edited, "hook_embed");
    for (int row = 0; row < BATCH * COUNT; row++)
        for (int k = 0; k < WIDTH; k++)
            assert_true(f[row * WIDTH + k] ==
                        e[row * WIDTH + k] - (row % COUNT >= 3 ? filling[k] : 0));
    /* Without MLPs the stream behind a block is that in its middle; an edit without a layer is of all. */
    for (int layer = 0; layer < LAYERS; layer++) {
        char mid[64], post[64];
        snprintf(mid, sizeof mid, "blocks.%d.hook_resid_mid", layer);
        snprintf(post, sizeof post, "blocks.%d.hook_resid_post", layer);
        assert_memory_equal(find(&edited, mid), find(&edited, post),
                            BATCH * COUNT * WIDTH * sizeof(float));
    }
    empty(&edited);
    empty(&plain);
    ota_model_free(model);
}

/* Weights and scores that are edited change what is mixed: to themselves nothing, to one key its value. */
static void test_edits_of_weights(void **state) {
    (void)state;
    static const char *const methods[] = {
        "softmax",           "sparsemax",           "softmax/online:1.5",
        "softmax/relaxed:1", "entmax:1.5/capped:2", "softmax/prefix"};
    ota_model *model = tiny_model();
    float whole[BATCH * COUNT * WIDTH], states[BATCH * COUNT * WIDTH];
    float one = 1;
    const ota_edit same[] = {
        {.size = sizeof(ota_edit), .point = "attn.hook_attn_scores", .factor = 1},
        {.size = sizeof(ota_edit), .point = "attn.hook_pattern", .factor = 1}};
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        const bool prefix = strstr(methods[k], "prefix") != NULL;
        run_trial(model, (trial){.method = methods[k]}, NULL, whole);
        for (int rows = 0; rows <= 4; rows += 2)
            for (int e = prefix ? 1 : 0; e < 2; e++) {
                run_trial(model,
                          (trial){.method = methods[k],
                                  .edits = same + e,
                                  .edit_count = 1,
                                  .block_rows = rows},
                          NULL, states);
                if (!(apart(states, whole, BATCH * COUNT * WIDTH) <= 1e-5))
                    fail_msg("%s, %s: %g", methods[k], same[e].point,
                             apart(states, whole, BATCH * COUNT * WIDTH));
            }
    }
    album a = {.used = 0};
    const ota_edit first[] = {
        {.size = sizeof(ota_edit), .point = "blocks.1.attn.hook_pattern", .heads = {1, 1}},
        {.size = sizeof(ota_edit),
         .point = "blocks.1.attn.hook_pattern",
         .heads = {1, 1},
         .columns = {2, 1},
         .kind = OTA_EDIT_REPLACE,
         .values = values_of(&one, 1, 1, 1, 1)}};
    run_trial(model, (trial){.edits = first, .edit_count = 2, .block_rows = 3}, &a, states);
    const float *z = find(&a, "blocks.1.attn.hook_z"), *v = find(&a, "blocks.1.attn.hook_v");
    const float *received = find(&a, "blocks.1.attn.hook_receiver");
    for (int row = 0; row < BATCH * COUNT; row++)
        assert_memory_equal(z + (row * HEADS + 1) * HEAD,
                            v + ((row / COUNT * COUNT + 2) * HEADS + 1) * HEAD,
                            HEAD * sizeof(float));
    for (int j = 0; j < COUNT; j++)
        assert_true(received[COUNT + j] == (j == 2 ? (float)COUNT : 0.0F));
    empty(&a);
    /* A score far above the others takes all weight. */
    float far = 1000;
    const ota_edit push = {.size = sizeof push,
                           .point = "blocks.0.attn.hook_attn_scores",
                           .tokens = {4, 0},
                           .columns = {3, 1},
                           .kind = OTA_EDIT_REPLACE,
                           .values = values_of(&far, 1, 1, 1, 1)};
    run_trial(model, (trial){.edits = &push, .edit_count = 1}, &a, states);
    const float *p = find(&a, "blocks.0.attn.hook_pattern");
    for (int row = 0; row < BATCH * HEADS * COUNT; row++)
        if (row % COUNT >= 4) assert_true(p[row * COUNT + 3] == 1.0F);
    assert_true(find(&a, "blocks.0.attn.hook_attn_scores")[4 * COUNT + 3] == far);
    empty(&a);
    ota_model_free(model);
}

/* States of runs with either edit differ by rounding alone. */
static void expect_alike(const ota_model *model, ota_edit a, ota_edit b) {
    static float one[BATCH * COUNT * WIDTH], other[BATCH * COUNT * WIDTH],
        plain[BATCH * COUNT * WIDTH];
    a.size = b.size = sizeof(ota_edit);
    run_trial(model, (trial){.method = NULL}, NULL, plain);
    run_trial(model, (trial){.edits = &a, .edit_count = 1}, NULL, one);
    run_trial(model, (trial){.edits = &b, .edit_count = 1}, NULL, other);
    if (!(apart(one, other, BATCH * COUNT * WIDTH) <= 1e-5))
        fail_msg("%s: %g", a.point, apart(one, other, BATCH * COUNT * WIDTH));
    assert_true(apart(one, plain, BATCH * COUNT * WIDTH) > 1e-3);
}

/* What a head adds is changed where z is, and what a norm divides by where what it gives less its bias is. */
static void test_edits_of_results_and_scales(void **state) {
    (void)state;
    ota_model *model = tiny_model();
    const ota_range head = {1, 1}, late = {4, 0};
    expect_alike(model,
                 (ota_edit){.point = "blocks.0.attn.hook_result", .heads = head, .tokens = late},
                 (ota_edit){.point = "blocks.0.attn.hook_z", .heads = head, .tokens = late});
    expect_alike(model,
                 (ota_edit){.point = "attn.hook_result", .heads = head, .kind = OTA_EDIT_MEAN},
                 (ota_edit){.point = "attn.hook_z", .heads = head, .kind = OTA_EDIT_MEAN});
    ota_edit same = {.size = sizeof same, .point = "hook_scale", .factor = 1};
    static float plain[BATCH * COUNT * WIDTH], edited[BATCH * COUNT * WIDTH];
    run_trial(model, (trial){.method = NULL}, NULL, plain);
    static const char *const scales[] = {"ln1.hook_scale", "ln2.hook_scale", "ln_final.hook_scale"};
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
        same.point = scales[k];
        run_trial(model, (trial){.edits = &same, .edit_count = 1}, NULL, edited);
        assert_true(apart(plain, edited, BATCH * COUNT * WIDTH) <= 1e-5);
    }
    /* y = w (x - mean) / s + b, so twice s leaves b and half of the rest. */
    album a = {.used = 0}, b = a;
    const ota_edit twice = {.size = sizeof twice, .point = "ln_final.hook_scale", .factor = 2};
    const ota_edit quarter = {.size = sizeof quarter, .point = "ln_final.hook_scale", .factor = 4};
    run_trial(model, (trial){.edits = &twice, .edit_count = 1}, &a, NULL);
    run_trial(model, (trial){.edits = &quarter, .edit_count = 1, .block_rows = 2}, &b, NULL);
    const float *half = find(&a, "ln_final.hook_normalized"),
                *fourth = find(&b, "ln_final.hook_normalized");
    for (int k = 0; k < BATCH * COUNT * WIDTH; k++)
        assert_true(fabs((double)plain[k] - (double)half[k] -
                         2 * ((double)half[k] - (double)fourth[k])) <= 1e-5);
    empty(&a);
    empty(&b);
    ota_model_free(model);
}

/* Token by token on a cache as at once: tokens are positions. */
static void test_edits_on_a_cache(void **state) {
    (void)state;
    ota_model *model = tiny_model();
    float whole[COUNT * WIDTH], steps[COUNT * WIDTH];
    const ota_edit edits[] = {
        {.size = sizeof(ota_edit), .point = "blocks.0.attn.hook_v", .tokens = {5, 2}, .factor = 3},
        {.size = sizeof(ota_edit),
         .point = "blocks.1.attn.hook_pattern",
         .heads = {1, 1},
         .tokens = {6, 0},
         .columns = {0, 1},
         .factor = 0.5},
        {.size = sizeof(ota_edit),
         .point = "blocks.1.attn.hook_attn_scores",
         .heads = {0, 1},
         .columns = {1, 1},
         .factor = 2}};
    ota_session *at_once = open_session(model, (ota_session_options){0});
    ota_session *cached = open_session(model, (ota_session_options){.cache = POSITIONS});
    ota_model_run run = {.size = sizeof run,
                         .ids = tokens,
                         .batch = 1,
                         .count = COUNT,
                         .states = whole,
                         .edits = edits,
                         .edit_count = 3};
    assert_int_equal(ota_session_run(at_once, &run, NULL), OTA_OK);
    static const int64_t cuts[] = {0, 4, 5, 8, COUNT};
    for (int k = 0; k < 4; k++) {
        ota_error error = {0};
        run.ids = tokens + cuts[k];
        run.first = cuts[k];
        run.count = cuts[k + 1] - cuts[k];
        run.states = steps + cuts[k] * WIDTH;
        if (ota_session_run(cached, &run, &error) != OTA_OK) fail_msg("%s", error.message);
    }
    assert_true(apart(whole, steps, COUNT * WIDTH) <= slack);
    ota_session_free(at_once);
    ota_session_free(cached);
    ota_model_free(model);
}

static void refuse_edit(ota_session *session, ota_edit edit, ota_status wanted, const char *part) {
    float states[COUNT * WIDTH];
    ota_error error = {0};
    if (edit.size == 0) edit.size = sizeof edit;
    const ota_model_run run = {.size = sizeof run,
                               .ids = tokens,
                               .batch = 1,
                               .count = COUNT,
                               .states = states,
                               .edits = &edit,
                               .edit_count = 1};
    assert_int_equal(ota_session_run(session, &run, &error), wanted);
    if (strstr(error.message, part) == NULL) fail_msg("%s", error.message);
}

static void test_refusals(void **state) {
    (void)state;
    ota_model *model = tiny_model();
    float number[4] = {1, 2, 3, 4};
    ota_session *session = open_session(model, (ota_session_options){0});
    refuse_edit(session, (ota_edit){.point = "blocks.2.hook_resid_pre"}, OTA_EINVAL, "no point");
    refuse_edit(session, (ota_edit){.point = NULL}, OTA_EINVAL, "names no point");
    refuse_edit(session, (ota_edit){.point = "attn.hook_receiver"}, OTA_UNSUPPORTED,
                "hook_pattern");
    refuse_edit(session, (ota_edit){.point = "hook_embed", .tokens = {COUNT, 1}}, OTA_EINVAL,
                "tokens 9 to 9, and there are 9");
    refuse_edit(session, (ota_edit){.point = "hook_embed", .heads = {1, 1}}, OTA_EINVAL,
                "heads 1 to 1");
    refuse_edit(session, (ota_edit){.point = "attn.hook_z", .columns = {0, HEAD + 1}}, OTA_EINVAL,
                "columns");
    refuse_edit(session, (ota_edit){.point = "attn.hook_z", .sequences = {-1, 1}}, OTA_EINVAL,
                "sequences");
    refuse_edit(session, (ota_edit){.point = "attn.hook_z", .kind = OTA_EDIT_REPLACE}, OTA_EINVAL,
                "needs values");
    refuse_edit(session,
                (ota_edit){.point = "attn.hook_z",
                           .kind = OTA_EDIT_REPLACE,
                           .values = values_of(number, 1, 1, 1, 3)},
                OTA_EINVAL, "[1, 1, 1, 3]");
    refuse_edit(session,
                (ota_edit){.point = "attn.hook_z", .values = values_of(number, 1, 1, 1, 4)},
                OTA_EINVAL, "no use for them");
    refuse_edit(session, (ota_edit){.point = "attn.hook_z", .factor = NAN}, OTA_EINVAL, "factor");
    refuse_edit(session, (ota_edit){.point = "attn.hook_pattern", .kind = OTA_EDIT_MEAN},
                OTA_UNSUPPORTED, "no mean");
    refuse_edit(session, (ota_edit){.point = "attn.hook_z", .kind = (ota_edit_kind)9}, OTA_EINVAL,
                "kind");
    refuse_edit(session, (ota_edit){.size = 4, .point = "attn.hook_z"}, OTA_EINVAL, "size");
    ota_session_free(session);
    session = open_session(model, (ota_session_options){.cache = COUNT});
    refuse_edit(session, (ota_edit){.point = "attn.hook_z", .kind = OTA_EDIT_MEAN}, OTA_UNSUPPORTED,
                "one after another");
    ota_session_free(session);
    static const char *const online = "softmax/online:2";
    session = open_session(
        model, (ota_session_options){.cache = COUNT, .methods = &online, .method_count = 1});
    refuse_edit(session, (ota_edit){.point = "attn.hook_pattern"}, OTA_UNSUPPORTED,
                "online columns");
    ota_session_free(session);
    session = open_session(model, (ota_session_options){0});
    const ota_edit edit = {.size = sizeof edit, .point = "hook_embed"};
    ota_error error = {0};
    float stream[COUNT * WIDTH] = {0};
    ota_model_run run = {.size = sizeof run,
                         .ids = tokens,
                         .batch = 1,
                         .count = COUNT,
                         .residual = stream,
                         .start_layer = 1,
                         .edits = &edit,
                         .edit_count = 1};
    assert_int_equal(ota_session_run(session, &run, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "begins behind"));
    run.residual = NULL;
    run.start_layer = 0;
    run.exit_threshold = 0.5;
    assert_int_equal(ota_session_run(session, &run, &error), OTA_UNSUPPORTED);
    run.exit_threshold = 0;
    run.edits = NULL;
    assert_int_equal(ota_session_run(session, &run, &error), OTA_EINVAL);
    run.edit_count = 0;
    run.block_rows = -1;
    assert_int_equal(ota_session_run(session, &run, &error), OTA_EINVAL);
    ota_session_free(session);
    ota_model_free(model);
}

TEST_FILE(test_session_edits) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_blocks_are_parts_of_the_whole),
        IN_FOLDER(test_scores),
        IN_FOLDER(test_chosen_heads),
        IN_FOLDER(test_edits_at_their_place),
        IN_FOLDER(test_edits_of_weights),
        IN_FOLDER(test_edits_of_results_and_scales),
        IN_FOLDER(test_edits_on_a_cache),
        IN_FOLDER(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
