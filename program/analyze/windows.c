/* Text -> ids -> windows: runs of L tokens that do not overlap, from the beginning or drawn. [TOT-65]
 *
 *   window w of n = L tokens   before | ids[w (L - frame) ...] | after       frame = before + after
 *
 * What is left behind the last whole window is not used, unless it is all there is. No window is padded, so
 * no position is left out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "window_tables.h"
#include "src/base/integers.h"

static int encode(cli_context *context, const char *bytes, size_t size, run_text *text) {
    int32_t *ids = NULL;
    /* The frame of special tokens is put around every window instead. */
    const bool bare = context->settings.text.no_special;
    context->settings.text.no_special = true;
    int code = cli_encode(context, text->tokenizer, bytes, size, &ids, &text->count);
    context->settings.text.no_special = bare;
    if (code == 0 && text->count == 0)
        code = cli_refuse_flag(context, "text", "give a text that is not empty, or --ids F",
                               "the text has no token");
    if (code == 0) {
        text->ids = malloc((size_t)text->count * sizeof *text->ids);
        if (text->ids == NULL)
            code = cli_fail(&context->error, CLI_EXIT_LIMIT, "no memory is left for the ids");
    }
    for (int64_t k = 0; code == 0 && k < text->count; k++) text->ids[k] = ids[k];
    free(ids);
    if (code == 0 && !bare) {
        text->before_count = ota_tokenizer_frame(text->tokenizer, 0, text->before, 16);
        text->after_count = ota_tokenizer_frame(text->tokenizer, 1, text->after, 16);
    }
    return code;
}

static int load_text(cli_context *context, const ota_model *model, run_text *text) {
    char *bytes = NULL;
    size_t size = 0;
    int code = cli_model_tokenizer(context, model, &text->tokenizer);
    if (code != 0) return code;
    code = cli_read_text(context, 1, &bytes, &size);
    if (code == 0) {
        (void)SHA256Data((const uint8_t *)bytes, size, text->sha256);
        text->bytes = (int64_t)size;
        const char *name = context->settings.text.words != NULL ? "--text"
                           : context->operand_count > 1         ? context->operands[1]
                                                                : "-";
        (void)snprintf(text->name, sizeof text->name, "%s", name);
        code = encode(context, bytes, size, text);
    }
    free(bytes);
    return code;
}

static int load_ids(cli_context *context, const ota_model *model, run_text *text) {
    cli_tokens tokens;
    int code = cli_tokens_load(context, model, false, &tokens);
    if (code != 0) return code;
    text->count = tokens.batch * tokens.count;
    text->bytes = text->count * (int64_t)sizeof *text->ids;
    text->ids = malloc((size_t)text->bytes);
    if (text->ids == NULL)
        code = cli_fail(&context->error, CLI_EXIT_LIMIT, "no memory is left for the ids");
    else
        memcpy(text->ids, tokens.ids, (size_t)text->bytes);
    if (code == 0) (void)SHA256Data((const uint8_t *)text->ids, (size_t)text->bytes, text->sha256);
    (void)snprintf(text->name, sizeof text->name, "%s", context->settings.text.ids);
    cli_tokens_free(&tokens);
    return code;
}

int run_load_text(cli_context *context, const ota_model *model, run_text *text) {
    const int sees = cli_refuse_images(context, model);
    if (sees != 0) return sees;
    if (context->settings.text.ids != NULL) return load_ids(context, model, text);
    return load_text(context, model, text);
}

/* ---- which windows ---- */

static uint64_t next_random(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15U;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

static int compare_numbers(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The first `count` of a shuffle of 0 ... places - 1, in order. */
static void draw_places(int64_t *slots, int64_t places, int64_t count, int64_t seed) {
    uint64_t state = (uint64_t)seed;
    for (int64_t k = 0; k < count; k++) {
        const int64_t other = k + (int64_t)(next_random(&state) % (uint64_t)(places - k));
        const int64_t kept = slots[k];
        slots[k] = slots[other];
        slots[other] = kept;
    }
    qsort(slots, (size_t)count, sizeof *slots, compare_numbers);
}

int run_choose_windows(cli_context *context, run_text *text, const run_settings *settings) {
    const int64_t frame = text->before_count + text->after_count;
    const int64_t whole = settings->tokens - frame;
    if (whole < 2)
        return cli_refuse_flag(context, "windows", NULL,
                               "windows of %" PRId64 " tokens hold fewer than two of the text",
                               settings->tokens);
    const int64_t content = ota_int_min(text->count, whole);
    const int64_t places = text->count / content;
    const int64_t count = ota_int_min(settings->windows, places);
    if (content < 2)
        return cli_refuse_flag(context, "text", "give at least two",
                               "the text has one token, and a window takes two");
    int64_t *slots = malloc((size_t)places * sizeof *slots);
    text->windows = malloc((size_t)count * sizeof *text->windows);
    if (slots == NULL || text->windows == NULL) {
        free(slots);
        return cli_fail(&context->error, CLI_EXIT_LIMIT, "no memory is left for the windows");
    }
    for (int64_t k = 0; k < places; k++) slots[k] = k;
    if (settings->random) draw_places(slots, places, count, settings->seed);
    for (int64_t k = 0; k < count; k++)
        text->windows[k] = (run_window){.first = slots[k] * content, .count = content + frame};
    text->window_count = count;
    free(slots);
    return 0;
}

void run_window_ids(const run_text *text, const run_window *window, int64_t *ids) {
    const int64_t content = window->count - text->before_count - text->after_count;
    for (int64_t k = 0; k < text->before_count; k++) *ids++ = text->before[k];
    memcpy(ids, text->ids + window->first, (size_t)content * sizeof *ids);
    ids += content;
    for (int64_t k = 0; k < text->after_count; k++) *ids++ = text->after[k];
}

void run_spell(const run *r, int64_t id, char *text, size_t size) {
    static const char line_end[] = "\xe2\x86\xb5";
    const int32_t one = (int32_t)id;
    char bytes[128];
    int64_t length = 0;
    size_t used = 0;
    (void)snprintf(text, size, "%" PRId64, id);
    if (r->text.tokenizer == NULL) return;
    const ota_status status = ota_tokenizer_decode(r->text.tokenizer, &one, 1, OTA_DECODE_INNER,
                                                   bytes, sizeof bytes, &length, NULL);
    /* A number in the place of a word would look like a token that has none. */
    if (status == OTA_ENOMEM) cli_memory_note();
    if (status < 0) return;
    if (length > (int64_t)sizeof bytes) length = sizeof bytes;
    for (int64_t k = 0; k < length && used + sizeof line_end < size; k++) {
        const char *from = bytes[k] == '\n' ? line_end : &bytes[k];
        const size_t part = bytes[k] == '\n' ? sizeof line_end - 1 : 1;
        memcpy(text + used, from, part);
        used += part;
    }
    text[used] = '\0';
    ota_text_clean(text);
}

void run_text_free(run_text *text) {
    ota_tokenizer_free(text->tokenizer);
    free(text->ids);
    free(text->windows);
    *text = (run_text){.ids = NULL};
}
