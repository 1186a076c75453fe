/* Tokenizers that lie in plain lists: GPT-2's two files, a vocabulary {"piece": id} and merges with one
 * "left right" a line, best first; and BERT's one file with a piece a line, its id the line's number. The
 * rest is what the settings beside them say. */
#include <stdlib.h>
#include <string.h>

#include "token_json.h"
#include "token_settings.h"

/* The next line without its end; false after the last. */
static bool next_line(const ota_token_file *file, size_t *at, ota_text *line) {
    if (*at >= file->size) return false;
    const char *begin = file->text + *at, *end = memchr(begin, '\n', file->size - *at);
    const size_t size = end == NULL ? file->size - *at : (size_t)(end - begin);
    *at += size + 1;
    *line = (ota_text){begin, size > 0 && begin[size - 1] == '\r' ? size - 1 : size};
    return true;
}

/* The tokens that the settings add, after the pieces of the list. */
static ota_status add_settled(ota_tokenizer *tokenizer, const ota_token_settings *settings,
                              ota_added_list *added, ota_error *error) {
    ota_status status = OTA_OK;
    for (size_t k = 0; k < added->count && status == OTA_OK; k++)
        status = ota_tokenizer_add(tokenizer, added->tokens[k], error);
    tokenizer->raw_added.splits_special = tokenizer->normal_added.splits_special =
        ota_token_switch_on(settings, OTA_SWITCH_SPLIT, false);
    free(added->tokens);
    return status;
}

static void put_frame(ota_token_frame *frame, int32_t id, bool wanted) {
    if (wanted && id >= 0) *frame = (ota_token_frame){{id}, 1};
}

/* ---- vocab.json and merges.txt ---- */

static ota_status read_merges(const ota_tokenizer *tokenizer, const ota_token_file *merges,
                              ota_token_merge_list *found, ota_error *error) {
    ota_status status = OTA_OK;
    ota_text line;
    for (size_t at = 0, begin = 0; status == OTA_OK && next_line(merges, &at, &line); begin = at) {
        /* The first line may name the version, the last may be empty. */
        const bool version = begin == 0 && line.size >= 9 && memcmp(line.data, "#version:", 9) == 0;
        if (line.size == 0 || version) continue;
        status = ota_bpe_merge_line(&tokenizer->vocabulary, found, line, merges->path,
                                    (int64_t)begin, error);
    }
    return status;
}

ota_status ota_tokenizer_read_lists(ota_tokenizer *tokenizer, const ota_token_file *vocabulary,
                                    const ota_token_file *merges, ota_token_settings *settings,
                                    ota_error *error) {
    ota_token_list list = {.path = vocabulary->path, .ending = vocabulary->ending};
    ota_token_merge_list found = {.ending = vocabulary->ending};
    ota_added_list added = {0};
    tokenizer->model = OTA_TOKEN_BPE;
    ota_status status = ota_token_settings_expect(settings, OTA_CLASS_GPT2, "vocab.json");
    if (status == OTA_OK) status = ota_token_plan(settings);
    if (status == OTA_OK)
        status = ota_token_read_vocabulary(
            (ota_token_json){.file = vocabulary, .end = vocabulary->size, .error = error}, &list);
    if (status == OTA_OK) status = ota_vocabulary_build(&tokenizer->vocabulary, &list, error);
    if (status == OTA_OK) status = read_merges(tokenizer, merges, &found, error);
    if (status == OTA_OK) status = ota_token_settle(settings, tokenizer, &added);
    if (status == OTA_OK) status = ota_bpe_build(tokenizer, &found, error);
    if (status == OTA_OK) (void)ota_tokenizer_undo(tokenizer, OTA_UNDO_BYTES, NULL);
    if (status == OTA_OK && ota_token_switch_on(settings, OTA_SWITCH_PREFIX, false))
        status = ota_tokenizer_cut(tokenizer, OTA_CUT_PREFIX_SPACE, false, NULL, error);
    if (status == OTA_OK)
        status = ota_tokenizer_cut(tokenizer, OTA_CUT_ISOLATED, false, ota_cut_gpt2, error);
    if (status == OTA_OK) {
        put_frame(&tokenizer->before, ota_token_role_id(settings, tokenizer, OTA_TOKEN_ROLE_BEGIN),
                  ota_token_switch_on(settings, OTA_SWITCH_BEGIN, false));
        put_frame(&tokenizer->after, ota_token_role_id(settings, tokenizer, OTA_TOKEN_ROLE_END),
                  ota_token_switch_on(settings, OTA_SWITCH_END, false));
        status = add_settled(tokenizer, settings, &added, error);
    } else {
        free(added.tokens);
    }
    ota_token_list_free(&list);
    free(found.merges);
    return status;
}

/* ---- vocab.txt ---- */

/* The unknown piece and the frame of BERT's class. */
ota_status ota_tokenizer_bert_roles(ota_tokenizer *tokenizer, const ota_token_settings *settings,
                                    const char *path, ota_error *error) {
    const char *unknown = settings->roles[OTA_TOKEN_ROLE_UNKNOWN].text;
    for (int k = 0; k < 2; k++) {
        const ota_token_role role = k == 0 ? OTA_TOKEN_ROLE_CLASS : OTA_TOKEN_ROLE_SEPARATOR;
        if (settings->roles[role].text == NULL)
            return ota_token_settings_fail(settings, settings->roles[role].file, OTA_EFORMAT,
                                           "%s must be a token, which is set around every text",
                                           ota_token_role_keys[role]);
    }
    tokenizer->unknown = unknown == NULL ? -1
                                         : ota_vocabulary_find_model(&tokenizer->vocabulary,
                                                                     unknown, strlen(unknown));
    put_frame(&tokenizer->before, ota_token_role_id(settings, tokenizer, OTA_TOKEN_ROLE_CLASS),
              true);
    put_frame(&tokenizer->after, ota_token_role_id(settings, tokenizer, OTA_TOKEN_ROLE_SEPARATOR),
              true);
    if (tokenizer->unknown >= 0) return OTA_OK;
    return ota_token_fail(error, OTA_EFORMAT, path, -1, "WordPiece's pieces must hold %.80s",
                          unknown == NULL ? "one for what is unknown: unk_token" : unknown);
}

bool ota_tokenizer_bert_switches(ota_tokenizer *tokenizer, const ota_token_settings *settings) {
    const bool lower = ota_token_switch_on(settings, OTA_SWITCH_LOWER, true);
    return ota_tokenizer_bert_normal(
        tokenizer, true, ota_token_switch_on(settings, OTA_SWITCH_CHINESE, true),
        ota_token_switch_on(settings, OTA_SWITCH_ACCENTS, lower), lower);
}

static ota_status read_lines(const ota_token_file *file, ota_token_list *list, ota_error *error) {
    ota_status status = OTA_OK;
    ota_text line;
    for (size_t at = 0, begin = 0; status == OTA_OK && next_line(file, &at, &line); begin = at) {
        const size_t place = list->text.used;
        if (!ota_token_append(&list->text, line.data, ota_token_trimmed(line.data, line.size)))
            status = ota_token_no_memory(error);
        if (status == OTA_OK)
            status = ota_token_list_add(list, place, (int64_t)list->count, (int64_t)begin, error);
    }
    return status;
}

ota_status ota_tokenizer_read_lines(ota_tokenizer *tokenizer, const ota_token_file *file,
                                    ota_token_settings *settings, ota_error *error) {
    ota_token_list list = {.path = file->path, .ending = file->ending};
    ota_added_list added = {0};
    tokenizer->model = OTA_TOKEN_WORDPIECE;
    tokenizer->wordpiece = (ota_wordpiece){.prefix = "##", .prefix_size = 2, .longest_word = 100};
    ota_status status = ota_tokenizer_undo_wordpiece(tokenizer, "##", true, error);
    if (status == OTA_OK) status = ota_token_settings_expect(settings, OTA_CLASS_BERT, "vocab.txt");
    if (status == OTA_OK) status = ota_token_plan(settings);
    if (status == OTA_OK) status = read_lines(file, &list, error);
    if (status == OTA_OK) status = ota_vocabulary_build(&tokenizer->vocabulary, &list, error);
    if (status == OTA_OK) status = ota_token_settle(settings, tokenizer, &added);
    /* The first steps, for which there is room. */
    if (status == OTA_OK) (void)ota_tokenizer_bert_switches(tokenizer, settings);
    if (status == OTA_OK) status = ota_tokenizer_bert_words(tokenizer, error);
    if (status == OTA_OK) status = ota_tokenizer_bert_roles(tokenizer, settings, file->path, error);
    if (status == OTA_OK)
        status = add_settled(tokenizer, settings, &added, error);
    else
        free(added.tokens);
    ota_token_list_free(&list);
    return status;
}
