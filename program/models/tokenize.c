/* `otattn tokenize MODEL [TEXT]`: ids of a text, or the text of ids. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_tokenizer.h"
#include "program/program.h"

typedef struct tokens {
    int32_t *ids;
    int64_t count;
    double seconds; /* of encoding */
} tokens;

static int no_memory(cli_context *context) {
    return cli_fail(&context->error, CLI_EXIT_LIMIT, "no memory is left for the ids");
}

/* ---- text to ids ---- */

static void print_piece(int32_t id, ota_text piece) {
    (void)printf("%" PRId32 "\t", id);
    cli_put_visible(stdout, piece.data, piece.size);
    (void)putchar('\n');
}

static int print_ids(const cli_context *context, const ota_tokenizer *tokenizer,
                     const tokens *found) {
    if (context->settings.output.json) {
        json_t *object = cli_json_result(context, ota_status_word(OTA_OK)), *ids = json_array(),
               *pieces = json_array();
        for (int64_t k = 0; k < found->count; k++) {
            const ota_text piece = ota_tokenizer_piece(tokenizer, found->ids[k]);
            (void)json_array_append_new(ids, json_integer(found->ids[k]));
            (void)json_array_append_new(pieces, json_stringn(piece.data, piece.size));
        }
        (void)cli_json_put(object, "model:s vocabulary:I count:I seconds:r",
                           ota_tokenizer_model(tokenizer), ota_tokenizer_count(tokenizer),
                           found->count, found->seconds);
        if (context->settings.tokenize.count) {
            json_decref(ids);
            json_decref(pieces);
        } else {
            (void)cli_json_put(object, "ids:o pieces:o", ids, pieces);
        }
        (void)json_object_set(object, "warnings", context->warnings);
        return cli_print_json(stdout, object);
    }
    if (context->settings.tokenize.count) {
        (void)printf("%" PRId64 "\n", found->count);
        return 0;
    }
    for (int64_t k = 0; k < found->count; k++) {
        const ota_text piece = ota_tokenizer_piece(tokenizer, found->ids[k]);
        if (context->settings.tokenize.pieces)
            print_piece(found->ids[k], piece);
        else
            (void)printf("%s%" PRId32, k > 0 ? " " : "", found->ids[k]);
    }
    if (!context->settings.tokenize.pieces) (void)putchar('\n');
    return 0;
}

/* ---- ids to text ---- */

static int parse_ids(cli_context *context, const char *text, size_t size, tokens *out) {
    static const char blanks[] = " \t\r\n\v\f";
    size_t room = size / 2 + 1;
    out->ids = malloc(room * sizeof *out->ids);
    if (out->ids == NULL) return no_memory(context);
    for (size_t at = 0; at < size;) {
        at += strspn(text + at, blanks);
        const size_t length = strcspn(text + at, blanks);
        /* A NUL inside ends the span, too. */
        if (length == 0 && at == size) break;
        char word[24];
        int64_t id = -1;
        (void)snprintf(word, sizeof word, "%.*s", (int)(length < 23 ? length : 23), text + at);
        if (length == 0 || length > 20 || !cli_integer(word, &id) || id < 0 || id > INT32_MAX)
            return cli_refuse_flag(context, "text", "write ids such as 15496 995",
                                   "at byte %zu of the ids: '%s' is no id", at, word);
        out->ids[out->count++] = (int32_t)id;
        at += length;
    }
    return 0;
}

static int print_text(const cli_context *context, char *text, size_t size) {
    if (!context->settings.output.json) {
        (void)fwrite(text, 1, size, stdout);
        return 0;
    }
    /* JSON is UTF-8: what is not becomes U+FFFD. */
    json_t *object = cli_json_result(context, ota_status_word(OTA_OK)),
           *whole = json_stringn(text, size);
    if (whole == NULL) {
        char *repaired = malloc(3 * size + 1);
        size_t used = 0;
        for (size_t at = 0; at < size && repaired != NULL;) {
            size_t length = 1;
            json_t *one = NULL;
            for (; length <= 4 && length <= size - at && one == NULL; length++)
                one = json_stringn(text + at, length);
            if (one != NULL) {
                memcpy(repaired + used, text + at, --length);
                used += length;
                at += length;
            } else {
                memcpy(repaired + used, "\xEF\xBF\xBD", 3);
                used += 3;
                at++;
            }
            json_decref(one);
        }
        whole = repaired == NULL ? json_null() : json_stringn(repaired, used);
        free(repaired);
    }
    (void)cli_json_put(object, "text:o warnings:o", whole, json_incref(context->warnings));
    return cli_print_json(stdout, object);
}

static int decode(cli_context *context, const ota_tokenizer *tokenizer, const tokens *given) {
    const unsigned flags = context->settings.text.no_special ? OTA_DECODE_NO_SPECIAL : 0U;
    ota_error error = {.message = ""};
    int64_t size = 0;
    ota_status status =
        ota_tokenizer_decode(tokenizer, given->ids, given->count, flags, NULL, 0, &size, &error);
    if (status != OTA_OK) return cli_fail_status(context, status, &error);
    char *text = malloc((size_t)size + 1);
    if (text == NULL) return no_memory(context);
    status =
        ota_tokenizer_decode(tokenizer, given->ids, given->count, flags, text, size, &size, &error);
    const int code = status == OTA_OK ? print_text(context, text, (size_t)size)
                                      : cli_fail_status(context, status, &error);
    free(text);
    return code;
}

int cli_tokenize(cli_context *context) {
    ota_tokenizer *tokenizer = NULL;
    const cli_settings *settings = &context->settings;
    if (settings->tokenize.decode &&
        (settings->tokenize.count || settings->tokenize.pieces || settings->text.plain))
        return cli_refuse_flag(
            context, "decode", "leave one of them out",
            "--decode makes a text, --count, --pieces and --plain are about ids");
    int code = cli_tokenizer_open(context, &tokenizer);
    if (code != 0) return code;
    char *text = NULL;
    size_t size = 0;
    tokens found = {.ids = NULL};
    code = cli_read_text(context, 1, &text, &size);
    const int64_t begun = cli_now_ns();
    if (code == 0)
        code = settings->tokenize.decode
                   ? parse_ids(context, text, size, &found)
                   : cli_encode(context, tokenizer, text, size, &found.ids, &found.count);
    found.seconds = (double)(cli_now_ns() - begun) / 1e9;
    if (code == 0)
        code = settings->tokenize.decode ? decode(context, tokenizer, &found)
                                         : print_ids(context, tokenizer, &found);
    free(found.ids);
    free(text);
    ota_tokenizer_free(tokenizer);
    return code;
}
