/* program/models/: The subcommands on checkpoints: info, tokenize, capture, generate, perplexity; model.c has what
 * they share (opening, sessions by flags, tokens). They may call the public headers and the rest of the program.
 *
 * `otattn info MODEL`: what a checkpoint is, by its headers alone. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_model.h"
#include "program/program.h"
#include "src/base/system.h"

static json_t *tensor_json(const ota_tensor *tensor) {
    json_t *shape = json_array();
    for (int k = 0; k < tensor->rank; k++)
        (void)json_array_append_new(shape, json_integer(tensor->shape[k]));
    return json_pack("{s:s, s:o, s:s}", "name", tensor->name, "shape", shape, "dtype",
                     tensor->stored);
}

enum { TYPES_MOST = 64 };

/* How many elements a checkpoint has of each type. */
typedef struct type_count {
    const char *word;
    int64_t elements;
} type_count;

static int by_elements(const void *left, const void *right) {
    const type_count *a = left, *b = right;
    if (a->elements != b->elements) return a->elements < b->elements ? 1 : -1;
    return strcmp(a->word, b->word);
}

/* The most frequent first; returns how many there are. */
static size_t count_types(const ota_model *model, type_count types[TYPES_MOST]) {
    size_t count = 0;
    for (int64_t k = 0; ota_model_tensor(model, k) != NULL; k++) {
        const ota_tensor *tensor = ota_model_tensor(model, k);
        size_t i = 0;
        while (i < count && strcmp(types[i].word, tensor->stored) != 0) i++;
        if (i == count && count == TYPES_MOST) continue;
        if (i == count) types[count++] = (type_count){tensor->stored, 0};
        types[i].elements += tensor->count;
    }
    if (count > 1) qsort(types, count, sizeof *types, by_elements);
    return count;
}

/* What the tokenizer is read from, or NULL. */
static const char *tokenizer_source(const ota_model_facts *facts) {
    static const char *const names[] = {"tokenizer.json", "vocab.json", "encoder.json",
                                        "vocab.txt"};
    char path[4096];
    if (strcmp(facts->format, "gguf") == 0) return "gguf";
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const int used = snprintf(path, sizeof path, "%s/%s", facts->path, names[k]);
        if (used > 0 && (size_t)used < sizeof path && ota_path_kind_of(path) != OTA_PATH_NONE)
            return names[k];
    }
    return NULL;
}

static int print_json(const ota_model *model, const ota_model_facts *facts) {
    json_t *tensors = json_array();
    for (int64_t k = 0; ota_model_tensor(model, k) != NULL; k++)
        (void)json_array_append_new(tensors, tensor_json(ota_model_tensor(model, k)));
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "command", "info",
        "status", "ok", "architecture", facts->architecture, "format", facts->format, "path",
        facts->path, "layers", (json_int_t)facts->layers, "heads", (json_int_t)facts->heads,
        "kv_heads", (json_int_t)facts->kv_heads, "width", (json_int_t)facts->width, "head_width",
        (json_int_t)facts->head_width, "inner", (json_int_t)facts->inner, "vocabulary",
        (json_int_t)facts->vocabulary, "positions", (json_int_t)facts->positions, "parameters",
        (json_int_t)facts->parameters);
    (void)cli_json_put(object, "dtype:s head:s causal:b tokenizer:s", facts->dtype, facts->head,
                       facts->causal, tokenizer_source(facts));
    if (tokenizer_source(facts) == NULL)
        (void)json_object_set_new(object, "tokenizer", json_null());
    type_count types[TYPES_MOST];
    const size_t count = count_types(model, types);
    json_t *elements = json_object();
    for (size_t k = 0; k < count; k++)
        (void)json_object_set_new(elements, types[k].word,
                                  json_integer((json_int_t)types[k].elements));
    (void)json_object_set_new(object, "types", elements);
    json_t *files = json_array();
    for (int64_t k = 0; ota_model_file(model, k) != NULL; k++)
        (void)json_array_append_new(files, json_string(ota_model_file(model, k)));
    (void)json_object_set_new(object, "files", files);
    (void)json_object_set_new(object, "tensors", tensors);
    return cli_print_json(stdout, object);
}

static void print_text(const ota_model *model, const ota_model_facts *facts) {
    int64_t tensors = 0;
    while (ota_model_tensor(model, tensors) != NULL) tensors++;
    (void)printf("%-12s %s, %s, ", "model", facts->architecture, facts->format);
    int64_t files = 0;
    while (ota_model_file(model, files) != NULL) files++;
    cli_put_named(stdout, "", facts->path, "");
    if (files > 1) (void)printf(", %" PRId64 " files", files);
    (void)printf("\n");
    (void)printf("%-12s %" PRId64 " of %" PRId64 " heads", "layers", facts->layers, facts->heads);
    if (facts->kv_heads != facts->heads) (void)printf(" on %" PRId64 " key heads", facts->kv_heads);
    (void)printf(", %s\n", facts->causal ? "causal" : "both ways");
    (void)printf("%-12s %" PRId64 ", heads %" PRId64 ", inner %" PRId64 "\n", "width", facts->width,
                 facts->head_width, facts->inner);
    (void)printf("%-12s %" PRId64 " words, %" PRId64 " positions%s\n", "vocabulary",
                 facts->vocabulary, facts->positions, facts->rope_base > 0 ? ", rotary" : "");
    (void)printf("%-12s ", "parameters");
    if (facts->parameters < 1000000)
        (void)printf("%" PRId64, facts->parameters);
    else
        (void)printf("%.1f million", (double)facts->parameters / 1e6);
    (void)printf(", %s, head %s, %" PRId64 " tensor%s\n", facts->dtype, facts->head, tensors,
                 cli_s(tensors));
    type_count types[TYPES_MOST];
    const size_t count = count_types(model, types);
    int64_t all = 0;
    for (size_t k = 0; k < count; k++) all += types[k].elements;
    for (size_t k = 0; count > 1 && k < count; k++)
        (void)printf(k == 0 ? "%-12s %s %.1f %%" : "%s %s %.1f %%", k == 0 ? "types" : ",",
                     types[k].word,
                     100.0 * (double)types[k].elements / (double)(all > 0 ? all : 1));
    if (count > 1) (void)printf("\n");
}

int cli_info(cli_context *context) {
    ota_model *model;
    ota_model_facts facts = {.size = sizeof facts};
    ota_error error = {0};
    int code = cli_model_open(context, &model);
    if (code != 0) return code;
    const ota_status status = ota_model_describe(model, &facts, &error);
    if (status < 0)
        code = cli_fail_status(context, status, &error);
    else if (context->settings.output.json)
        code = print_json(model, &facts);
    else
        print_text(model, &facts);
    ota_model_free(model);
    return code;
}
