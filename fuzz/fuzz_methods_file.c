/* libFuzzer on the methods of a model: the input is a file of methods (see models/transformer/methods_file.c) or, where its
 * first byte is odd, the text METHOD@PLACE of a session. A session is made on a small GPT-2 or refused with a sentence; one
 * that is made must run, or end when it is cancelled: rounds may be as many as the method says. */
#define _XOPEN_SOURCE 700
#include <signal.h>
#include <sys/time.h>

#include "fuzz_bytes.h"
#include "fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char config[] =
    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 4,"
    "\"vocab_size\": 3, \"n_positions\": 4}";

static void add(char *header, size_t room, const char *name, int64_t rows, int64_t columns,
                int64_t *at) {
    const size_t used = strlen(header);
    const int64_t count = rows * (columns > 0 ? columns : 1);
    char shape[64];
    (void)snprintf(shape, sizeof shape, columns > 0 ? "%lld,%lld" : "%lld", (long long)rows,
                   (long long)columns);
    (void)snprintf(header + used, room - used,
                   "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
                   used > 1 ? "," : "", name, shape, (long long)*at, (long long)(*at + 4 * count));
    *at += 4 * count;
}

/* A GPT-2 of two layers whose weights count up and down. */
static const ota_model *small_model(void) {
    static ota_model *model;
    static const struct {
        const char *name;
        int64_t rows, columns;
    } parts[] = {
        {"attn.c_attn.weight", 4, 12}, {"attn.c_attn.bias", 12, 0},  {"attn.c_proj.weight", 4, 4},
        {"attn.c_proj.bias", 4, 0},    {"ln_1.weight", 4, 0},        {"ln_1.bias", 4, 0},
        {"ln_2.weight", 4, 0},         {"ln_2.bias", 4, 0},          {"mlp.c_fc.weight", 4, 16},
        {"mlp.c_fc.bias", 16, 0},      {"mlp.c_proj.weight", 16, 4}, {"mlp.c_proj.bias", 4, 0}};
    if (model != NULL) return model;
    static char header[8192] = "{";
    char folder[96], path[160], name[64];
    int64_t at = 0;
    for (int layer = 0; layer < 2; layer++)
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            (void)snprintf(name, sizeof name, "h.%d.%s", layer, parts[k].name);
            add(header, sizeof header, name, parts[k].rows, parts[k].columns, &at);
        }
    add(header, sizeof header, "ln_f.weight", 4, 0, &at);
    add(header, sizeof header, "ln_f.bias", 4, 0, &at);
    add(header, sizeof header, "wpe.weight", 4, 4, &at);
    add(header, sizeof header, "wte.weight", 3, 4, &at);
    strcat(header, "}");
    while (strlen(header) % 8 != 0) strcat(header, " ");
    const size_t length = strlen(header);
    unsigned char *file = calloc(8 + length + (size_t)at, 1);
    if (file == NULL) abort();
    for (int k = 0; k < 8; k++) file[k] = (unsigned char)((uint64_t)length >> (8 * k));
    memcpy(file + 8, header, length);
    for (int64_t k = 0; k < at / 4; k++) {
        const float value = (float)(k % 13) / 16.0F - 0.4F;
        memcpy(file + 8 + length + 4 * k, &value, sizeof value);
    }
    (void)snprintf(folder, sizeof folder, "/dev/shm/otattn-fuzz-methods-%ld", (long)getpid());
    (void)mkdir(folder, 0700);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
    fuzz_write(path, file, 8 + length + (size_t)at);
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    fuzz_write(path, config, sizeof config - 1);
    free(file);
    ota_error error;
    if (ota_model_open(&model, folder, NULL, &error) != OTA_OK) {
        (void)fprintf(stderr, "%s\n", error.message);
        abort();
    }
    return model;
}

static int cancel;

static void cancel_now(int number) {
    (void)number;
    cancel = 1;
}

/* `cancel` becomes 1 after so much time of this process; 0: never. */
static void cancel_after(int milliseconds) {
    const struct itimerval timer = {.it_value = {.tv_usec = 1000 * milliseconds}};
    cancel = 0;
    (void)signal(SIGVTALRM, cancel_now);
    (void)setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char path[96], text[512];
    if (size == 0 || size > 4096) return 0;
    const ota_model *model = small_model();
    (void)snprintf(path, sizeof path, "/dev/shm/otattn-fuzz-methods-%ld.json", (long)getpid());
    const int whole = bytes[0] % 2 == 0;
    if (whole) {
        fuzz_write(path, bytes + 1, size - 1);
        (void)snprintf(text, sizeof text, "@%s", path);
    } else {
        if (size >= sizeof text) return 0;
        memcpy(text, bytes + 1, size - 1);
        text[size - 1] = '\0';
        if (text[0] == '@') return 0; /* another file of this machine */
    }
    const char *const methods[] = {text};
    const ota_session_options options = {.size = sizeof options,
                                         .batch = 1,
                                         .tokens = 3,
                                         .threads = 1,
                                         .max_rounds = 20,
                                         .cancel = &cancel,
                                         .methods = methods,
                                         .method_count = 1};
    ota_session *session = NULL;
    ota_error error = {.message = ""};
    if (ota_session_create(&session, model, &options, &error) == OTA_OK) {
        const int64_t ids[] = {0, 2, 1};
        const ota_model_run run = {.size = sizeof run, .ids = ids, .batch = 1, .count = 3};
        cancel_after(200);
        (void)ota_session_run(session, &run, &error);
        cancel_after(0);
        ota_session_free(session);
    } else if (error.message[0] == '\0' || session != NULL) {
        abort();
    }
    if (whole) (void)unlink(path);
    return 0;
}
