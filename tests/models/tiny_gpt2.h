/* tiny_gpt2.h: a GPT-2 of two layers that a test writes itself, and runs of it. */
#ifndef OTATTN_TESTS_TINY_GPT2_H
#define OTATTN_TESTS_TINY_GPT2_H

#include "draw/random.h"
#include "files_support.h"

#include <math.h>

#include "otattn_model.h"

enum { LAYERS = 2, HEADS = 2, WIDTH = 8, INNER = 12, WORDS = 11, POSITIONS = 16, HEAD = 4 };
enum { COUNT = 9, MOST = 64 };

/* ---- a checkpoint ---- */

typedef struct piece {
    char name[64];
    int64_t rows, columns; /* columns 0: a vector */
    const float *data;
} piece;

typedef struct checkpoint {
    piece pieces[MOST];
    int count;
    float data[8192];
    size_t used;
    uint64_t state;
    bool narrow; /* written as bf16, which holds what is drawn then */
} checkpoint;

static inline float draw(checkpoint *c) { return (float)(uniform(&c->state) - 0.5); }

static inline void add(checkpoint *c, const char *name, int64_t rows, int64_t columns) {
    piece *one = &c->pieces[c->count++];
    snprintf(one->name, sizeof one->name, "%s", name);
    one->rows = rows;
    one->columns = columns;
    one->data = c->data + c->used;
    const size_t size = (size_t)(rows * (columns > 0 ? columns : 1));
    for (size_t k = 0; k < size; k++) {
        float *const number = &c->data[c->used + k];
        *number = draw(c);
        if (c->narrow) memset(number, 0, 2);
    }
    c->used += size;
}

static inline void add_layer(checkpoint *c, int layer, const char *part, int64_t in, int64_t out) {
    char name[64];
    snprintf(name, sizeof name, "h.%d.%s.weight", layer, part);
    add(c, name, in > 0 ? in : out, in > 0 ? out : 0);
    snprintf(name, sizeof name, "h.%d.%s.bias", layer, part);
    add(c, name, out, 0);
}

static inline const float *get_piece(const checkpoint *c, const char *form, int layer) {
    char name[64];
    snprintf(name, sizeof name, form, layer);
    for (int k = 0; k < c->count; k++)
        if (strcmp(c->pieces[k].name, name) == 0) return c->pieces[k].data;
    fail_msg("no piece %s", name);
    return NULL;
}

static inline void draw_tensors(checkpoint *c, int64_t inner) {
    add(c, "wte.weight", WORDS, WIDTH);
    add(c, "wpe.weight", POSITIONS, WIDTH);
    for (int layer = 0; layer < LAYERS; layer++) {
        add_layer(c, layer, "ln_1", 0, WIDTH);
        add_layer(c, layer, "attn.c_attn", WIDTH, 3 * WIDTH);
        add_layer(c, layer, "attn.c_proj", WIDTH, WIDTH);
        add_layer(c, layer, "ln_2", 0, WIDTH);
        add_layer(c, layer, "mlp.c_fc", WIDTH, inner);
        add_layer(c, layer, "mlp.c_proj", inner, WIDTH);
    }
    add(c, "ln_f.weight", WIDTH, 0);
    add(c, "ln_f.bias", WIDTH, 0);
}

static inline void draw_checkpoint(checkpoint *c) {
    *c = (checkpoint){.state = 7};
    draw_tensors(c, INNER);
}

static const char config_text[] =
    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 8, \"n_inner\": 12,"
    " \"vocab_size\": 11, \"n_positions\": 16, \"layer_norm_epsilon\": 1e-5}";

/* Bytes of the whole file; *size set. */
static inline char *safetensors_bytes(const checkpoint *c, size_t *size) {
    char header[8192];
    const size_t element = c->narrow ? 2 : 4;
    size_t used = (size_t)snprintf(header, sizeof header, "{\"__metadata__\":{\"a\":\"b\"}");
    for (int k = 0; k < c->count; k++) {
        const piece *one = &c->pieces[k];
        const size_t begin = (size_t)(one->data - c->data) * element;
        const size_t count = (size_t)(one->rows * (one->columns > 0 ? one->columns : 1));
        char shape[32];
        if (one->columns > 0)
            snprintf(shape, sizeof shape, "%d,%d", (int)one->rows, (int)one->columns);
        else
            snprintf(shape, sizeof shape, "%d", (int)one->rows);
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],"
                                 "\"data_offsets\":[%zu,%zu]}",
                                 one->name, c->narrow ? "BF16" : "F32", shape, begin,
                                 begin + element * count);
    }
    used += (size_t)snprintf(header + used, sizeof header - used, "}");
    while (used % 8 != 0) header[used++] = ' ';
    *size = 8 + used + element * c->used;
    char *bytes = calloc(*size, 1);
    for (int k = 0; k < 8; k++) bytes[k] = (char)((uint64_t)used >> (8 * k));
    memcpy(bytes + 8, header, used);
    for (size_t k = 0; k < c->used; k++)
        memcpy(bytes + 8 + used + element * k, (const char *)&c->data[k] + 4 - element, element);
    return bytes;
}

static inline void write_model(const checkpoint *c) {
    size_t size;
    char *bytes = safetensors_bytes(c, &size);
    put("config.json", config_text, sizeof config_text - 1);
    put("model.safetensors", bytes, size);
    free(bytes);
}

static inline ota_model *open_model(void) {
    ota_model *model;
    ota_error error = {0};
    if (ota_model_open(&model, ".", NULL, &error) != OTA_OK) fail_msg("%s", error.message);
    return model;
}

static const int64_t tokens[COUNT] = {3, 1, 4, 1, 5, 9, 2, 6, 10};

static inline ota_session *open_session(const ota_model *model, ota_session_options options) {
    ota_session *session;
    ota_error error = {0};
    options.size = sizeof options;
    if (options.batch == 0) options.batch = 1;
    if (options.tokens == 0) options.tokens = COUNT;
    if (ota_session_create(&session, model, &options, &error) != OTA_OK)
        fail_msg("%s", error.message);
    return session;
}

static inline void run_padded(ota_session *session, int64_t first, int64_t count,
                              const int64_t *lengths, float *states) {
    ota_error error = {0};
    const ota_model_run run = {.size = sizeof run,
                               .ids = tokens + first,
                               .batch = 1,
                               .count = count,
                               .first = first,
                               .lengths = lengths,
                               .states = states};
    if (ota_session_run(session, &run, &error) != OTA_OK) fail_msg("%s", error.message);
}

static inline void run_tokens(ota_session *session, int64_t first, int64_t count, float *states) {
    run_padded(session, first, count, NULL, states);
}

/* States are of order 1; products of 8 to 12 terms in two layers. */
static const double slack = 64 * 0x1p-24;

static inline double distance(const float *ours, const double *wanted, size_t count) {
    double most = 0;
    for (size_t k = 0; k < count; k++) {
        const double difference = fabs((double)ours[k] - wanted[k]);
        if (!(difference <= most)) most = difference;
    }
    return most;
}

#endif
