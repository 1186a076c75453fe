/* Tokenizers that lie in plain lists: GPT-2's two files, a vocabulary {"piece": id} and merges with one
 * "left right" a line, best first; and BERT's one file with a piece a line, its id the line's number. */
#include <stdlib.h>
#include <string.h>

#include "token_json.h"

/* The next line without its end; false after the last. */
static bool next_line(const ota_token_file *file, size_t *at, ota_text *line) {
    if (*at >= file->size) return false;
    const char *begin = file->text + *at, *end = memchr(begin, '\n', file->size - *at);
    const size_t size = end == NULL ? file->size - *at : (size_t)(end - begin);
    *at += size + 1;
    *line = (ota_text){begin, size > 0 && begin[size - 1] == '\r' ? size - 1 : size};
    return true;
}

/* ---- vocab.json and merges.txt ---- */

ota_status ota_tokenizer_read_lists(ota_tokenizer *tokenizer, const ota_token_file *vocabulary,
                                    const ota_token_file *merges, ota_error *error) {
    ota_token_list list = {.path = vocabulary->path};
    ota_token_merge_list found = {0};
    tokenizer->model = OTA_TOKEN_BPE;
    ota_status status = ota_token_read_vocabulary(
        (ota_token_json){.file = vocabulary, .end = vocabulary->size, .error = error}, &list);
    if (status == OTA_OK) status = ota_vocabulary_build(&tokenizer->vocabulary, &list, error);
    ota_text line;
    for (size_t at = 0, begin = 0; status == OTA_OK && next_line(merges, &at, &line); begin = at) {
        /* The first line may name the version, the last may be empty. */
        const bool version = begin == 0 && line.size >= 9 && memcmp(line.data, "#version:", 9) == 0;
        if (line.size == 0 || version) continue;
        status = ota_bpe_merge_line(&tokenizer->vocabulary, &found, line, merges->path,
                                    (int64_t)begin, error);
    }
    if (status == OTA_OK)
        status = ota_bpe_build(&tokenizer->bpe, &tokenizer->vocabulary, &found, error);
    if (status == OTA_OK)
        status = ota_tokenizer_cut(tokenizer, OTA_CUT_ISOLATED, false, ota_cut_gpt2, error);
    static const char end[] = "<|endoftext|>";
    const int32_t id = status == OTA_OK ? ota_vocabulary_find(&tokenizer->vocabulary, end, 13) : -1;
    if (id >= 0)
        status = ota_tokenizer_add(tokenizer, (ota_added){.id = id, .special = true}, error);
    ota_token_list_free(&list);
    free(found.merges);
    return status;
}

/* ---- vocab.txt ---- */

ota_status ota_tokenizer_bert_frame(ota_tokenizer *tokenizer, ota_error *error) {
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    ota_status status = OTA_OK;
    for (size_t k = 0; k < sizeof special / sizeof *special && status == OTA_OK; k++) {
        const int32_t id =
            ota_vocabulary_find(&tokenizer->vocabulary, special[k], strlen(special[k]));
        if (id < 0) continue;
        status = ota_tokenizer_add(tokenizer, (ota_added){.id = id, .special = true}, error);
        if (k == 1) tokenizer->unknown = id;
        if (k == 2) tokenizer->before = (ota_token_frame){{id}, 1};
        if (k == 3) tokenizer->after = (ota_token_frame){{id}, 1};
    }
    return status;
}

ota_status ota_tokenizer_read_lines(ota_tokenizer *tokenizer, const ota_token_file *file,
                                    bool keep_case, ota_error *error) {
    ota_token_list list = {.path = file->path};
    ota_status status = OTA_OK;
    ota_text line;
    for (size_t at = 0, begin = 0; status == OTA_OK && next_line(file, &at, &line); begin = at) {
        const size_t place = list.text.used;
        if (!ota_token_append(&list.text, line.data, line.size))
            status = ota_token_no_memory(error);
        if (status == OTA_OK)
            status = ota_token_list_add(&list, place, (int64_t)list.count, (int64_t)begin, error);
    }
    tokenizer->model = OTA_TOKEN_WORDPIECE;
    tokenizer->clean_up = true;
    tokenizer->wordpiece = (ota_wordpiece){.prefix = "##", .prefix_size = 2, .longest_word = 100};
    if (status == OTA_OK) status = ota_vocabulary_build(&tokenizer->vocabulary, &list, error);
    if (status == OTA_OK) status = ota_tokenizer_bert(tokenizer, keep_case, error);
    if (status == OTA_OK) status = ota_tokenizer_bert_frame(tokenizer, error);
    if (status == OTA_OK && tokenizer->unknown < 0)
        status = ota_token_fail(error, OTA_EFORMAT, file->path, -1,
                                "a list of WordPiece's pieces, one a line, must hold [UNK]");
    ota_token_list_free(&list);
    return status;
}

ota_status ota_tokenizer_read_case(const char *path, bool *keep_case, ota_error *error) {
    ota_token_file file;
    ota_status status = ota_token_file_read(path, &file, error);
    if (status != OTA_OK) return status;
    ota_token_json json = {.file = &file, .end = file.size, .error = error};
    json_t *tree = NULL;
    ota_text span;
    status = ota_token_json_skip(&json, &span);
    if (status == OTA_OK) status = ota_token_json_finish(&json);
    if (status == OTA_OK) status = ota_token_json_tree(&json, span, &tree);
    *keep_case = json_is_false(json_object_get(tree, "do_lower_case"));
    json_decref(tree);
    ota_token_file_free(&file);
    return status;
}
