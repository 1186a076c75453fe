/* The tokenizer of an open model: of a folder its files, of a gguf file the lists in its metadata
 *
 *   tokenizer.ggml.model "gpt2"   .pre how text is cut   .tokens   .token_type   .merges
 *   .bos_token_id .eos_token_id, set around a text where .add_bos_token .add_eos_token say so
 *
 *   tokenizer.ggml.model "llama" (BPE by scores) or "t5" (Unigram)   .tokens   .scores   .token_type
 *   .unknown_token_id   .bos_token_id .eos_token_id as above, and the normalisation: .add_space_prefix
 *   .remove_extra_whitespaces .precompiled_charsmap
 *
 *   tokenizer.ggml.model "rwkv" (the longest piece)   .tokens   .token_type   .unknown_token_id
 *   tokenizer.ggml.model "plamo2"   .tokens   .scores   .token_type; both with .bos_token_id .eos_token_id as above
 *
 *   tokenizer.ggml.model "bert"   .tokens   .token_type   .unknown_token_id   .cls_token_id, else
 *   .bos_token_id, and .seperator_token_id (so spelled), else .eos_token_id, set around every text
 *
 * Numbers that a file does not say, or says beyond its list, are those that llama.cpp has in their place: of "llama" 1, 2 and
 * 0 (begin, end, unknown), of "t5" 1 and 2 (end, unknown), of "plamo2" 1 and 2, of "bert" 101 and 102.
 *
 * There pieces that begin a word are spelled with U+2581 in front and those that continue one without the
 * ## of vocab.txt; control pieces and [...] stand as they are. Where .normalizer.lowercase does not tell whether
 * case is kept, it is where a piece has an upper-case letter; .normalizer.strip_accents is as that.
 *
 * Every other key of tokenizer.* is in the table below, or refused. */
#include <stdlib.h>
#include <string.h>

#include "models/checkpoint/model.h"
#include "otattn_tokenizer.h"

typedef struct lists {
    const ota_model *model;
    const unsigned char *map;
    ota_text *pieces, *merges;
    char *spelled; /* WordPiece: what `pieces` point into */
    int32_t *kinds;
    float *scores;
    int64_t piece_count, merge_count, kind_count;
    const ota_token_options *options;
    ota_error *error;
} lists;

/* ---- keys ---- */

/* What a key must hold: any value, a truth, a whole number, a text, a list, false where it is there, or nothing. */
typedef enum holding { ANY, TRUTH, WHOLE, TEXT, LIST, NO_TRUTH, ABSENT } holding;

static const struct {
    const char *
        models; /* of tokenizer.ggml.model, NULL: all; names that are read by it are rows of it, too */
    holding holds;
    const char *names; /* behind "tokenizer.", with a blank around each; the end of one may be .* */
} key_rows[] = {
    {NULL, TEXT, " ggml.model ggml.pre "},
    {NULL, LIST, " ggml.tokens ggml.token_type "},
    {"gpt2", LIST, " ggml.merges "},
    {"llama", LIST, " ggml.scores "},
    {"t5", LIST, " ggml.scores "},
    {"plamo2", LIST, " ggml.scores "},
    /* One of the two lists is what merges follow from. */
    {NULL, ANY, " ggml.merges ggml.scores "},
    {NULL, WHOLE,
     " ggml.bos_token_id ggml.eos_token_id ggml.unknown_token_id ggml.seperator_token_id "
     "ggml.cls_token_id "},
    /* Nothing is padded, masked or filled in, and no conversation led. */
    {NULL, ANY,
     " ggml.padding_token_id ggml.mask_token_id ggml.eot_token_id ggml.eom_token_id "
     "ggml.fim_pre_token_id ggml.fim_suf_token_id ggml.fim_mid_token_id ggml.fim_pad_token_id "
     "ggml.fim_rep_token_id ggml.fim_sep_token_id ggml.prefix_token_id ggml.suffix_token_id "
     "ggml.middle_token_id ggml.suppress_tokens chat_template chat_template.* chat_templates "},
    /* The number of kinds of parts of BERT's input; the same tokenizer in another form. */
    {NULL, ANY, " ggml.token_type_count huggingface.json "},
    /* Both ends are set around every text of BERT. */
    {"bert", TRUTH, " ggml.add_bos_token ggml.add_eos_token ggml.add_sep_token "},
    {NULL, TRUTH, " ggml.add_bos_token ggml.add_eos_token "},
    {"llama", TRUTH, " ggml.add_space_prefix ggml.remove_extra_whitespaces "},
    {"t5", TRUTH, " ggml.add_space_prefix ggml.remove_extra_whitespaces "},
    {"llama", LIST, " ggml.precompiled_charsmap "},
    {"t5", LIST, " ggml.precompiled_charsmap "},
    {"bert", TRUTH, " ggml.normalizer.lowercase ggml.normalizer.strip_accents "},
    {NULL, NO_TRUTH,
     " ggml.add_sep_token ggml.add_space_prefix ggml.remove_extra_whitespaces "
     "ggml.normalizer.lowercase ggml.normalizer.strip_accents "},
    {NULL, ABSENT, " ggml.precompiled_charsmap "},
};

static uint64_t whole_at(const unsigned char *bytes, int size) {
    uint64_t value = 0;
    for (int k = size - 1; k >= 0; k--) value = value << 8 | bytes[k];
    return value;
}

static const ota_gguf_pair *find(const lists *l, const char *key, ota_gguf_type type) {
    const ota_gguf_pair *pair = ota_gguf_find(l->model->pairs, l->model->pair_count, key);
    return pair != NULL && pair->type == (uint32_t)type ? pair : NULL;
}

static bool is_whole(uint32_t type) {
    return type <= OTA_GGUF_INT32 || type == OTA_GGUF_UINT64 || type == OTA_GGUF_INT64;
}

/* The number of a pair that is_whole, one below 0 as the largest there is. */
static uint64_t number_of(const lists *l, const ota_gguf_pair *pair) {
    static const int sizes[OTA_GGUF_TYPES] = {
        [OTA_GGUF_UINT8] = 1,  [OTA_GGUF_INT8] = 1,  [OTA_GGUF_UINT16] = 2, [OTA_GGUF_INT16] = 2,
        [OTA_GGUF_UINT32] = 4, [OTA_GGUF_INT32] = 4, [OTA_GGUF_UINT64] = 8, [OTA_GGUF_INT64] = 8};
    const int size = sizes[pair->type];
    const uint64_t value = whole_at(l->map + pair->offset, size);
    const bool is_signed = pair->type == OTA_GGUF_INT8 || pair->type == OTA_GGUF_INT16 ||
                           pair->type == OTA_GGUF_INT32 || pair->type == OTA_GGUF_INT64;
    return is_signed && value >> (8 * size - 1) != 0 ? UINT64_MAX : value;
}

static ota_text text_at(const unsigned char *at) {
    return (ota_text){.data = (const char *)at + 8, .size = (size_t)whole_at(at, 8)};
}

static bool is_text(ota_text text, const char *word) {
    return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

/* The array under `key`; its values have been found inside the file when it was opened. */
static const unsigned char *find_array(const lists *l, const char *key, ota_gguf_type inner,
                                       int64_t *count) {
    const ota_gguf_pair *pair = find(l, key, OTA_GGUF_ARRAY);
    *count = 0;
    if (pair == NULL || whole_at(l->map + pair->offset, 4) != (uint64_t)inner) return NULL;
    *count = (int64_t)whole_at(l->map + pair->offset + 4, 8);
    return l->map + pair->offset + 12;
}

static ota_status read_texts(const lists *l, const char *key, int64_t most, ota_text **out,
                             int64_t *count) {
    const unsigned char *at = find_array(l, key, OTA_GGUF_STRING, count);
    if (at == NULL)
        return ota_refuse(l->error, OTA_EFORMAT, "%s: %s must be a list of texts",
                          ota_path_end(l->model->path), key);
    if (*count > most)
        return ota_refuse(l->error, OTA_ELIMIT, "%s: %s holds more than %lld texts",
                          ota_path_end(l->model->path), key, (long long)most);
    *out = calloc((size_t)*count + 1, sizeof **out);
    if (*out == NULL) return ota_refuse(l->error, OTA_ENOMEM, "no memory is left for a tokenizer");
    for (int64_t k = 0; k < *count; k++) {
        (*out)[k] = text_at(at);
        at += 8 + (*out)[k].size;
    }
    return OTA_OK;
}

static ota_status read_kinds(lists *l) {
    static const char key[] = "tokenizer.ggml.token_type";
    const unsigned char *at = find_array(l, key, OTA_GGUF_INT32, &l->kind_count);
    if (at == NULL) at = find_array(l, key, OTA_GGUF_UINT32, &l->kind_count);
    if (at == NULL && find(l, key, OTA_GGUF_ARRAY) == NULL) return OTA_OK;
    if (at == NULL || l->kind_count != l->piece_count)
        return ota_refuse(l->error, OTA_EMISMATCH, "%s: %s must hold one i32 for each piece",
                          ota_path_end(l->model->path), key);
    l->kinds = calloc((size_t)l->kind_count + 1, sizeof *l->kinds);
    if (l->kinds == NULL)
        return ota_refuse(l->error, OTA_ENOMEM, "no memory is left for a tokenizer");
    for (int64_t k = 0; k < l->kind_count; k++) {
        /* 0: nobody said what it is. */
        const uint64_t kind = whole_at(at + 4 * k, 4);
        if (kind > OTA_PIECE_BYTE)
            return ota_refuse(l->error, OTA_UNSUPPORTED,
                              "%s: %s: piece %lld is of no kind from 0 to %d",
                              ota_path_end(l->model->path), key, (long long)k, (int)OTA_PIECE_BYTE);
        l->kinds[k] = kind == 0 ? OTA_PIECE_NORMAL : (int32_t)kind;
    }
    return OTA_OK;
}

/* The value of a truth that may be missing. */
static bool truth(const lists *l, const char *key, bool standard) {
    const ota_gguf_pair *pair = find(l, key, OTA_GGUF_TRUTH);
    return pair != NULL ? l->map[pair->offset] != 0 : standard;
}

/* The piece that a key names; where it names none, the one of that number, or none if that is below 0. */
static ota_text piece_of(const lists *l, const char *id_key, int64_t standard) {
    const ota_gguf_pair *id = ota_gguf_find(l->model->pairs, l->model->pair_count, id_key);
    uint64_t index = id != NULL ? number_of(l, id) : UINT64_MAX;
    if (index >= (uint64_t)l->piece_count) index = (uint64_t)standard;
    return index < (uint64_t)l->piece_count ? l->pieces[index] : (ota_text){0};
}

/* What a kind of tokenizers has where the file does not say it, as programs of the format. */
typedef struct ends {
    bool begins, stops;  /* are there pieces before and after a text */
    int64_t begin, stop; /* which; -1: none */
} ends;

/* The piece that `id_key` names where `add_key` is true, or missing and `added`. */
static ota_status frame(const lists *l, const char *add_key, const char *id_key, bool added,
                        int64_t standard, ota_text *piece) {
    const bool wanted = truth(l, add_key, added);
    *piece = wanted ? piece_of(l, id_key, standard) : (ota_text){0};
    if (piece->data != NULL || !wanted) return OTA_OK;
    return ota_refuse(l->error, OTA_EFORMAT, "%s: %s is true%s, and %s names no piece",
                      ota_path_end(l->model->path), add_key,
                      truth(l, add_key, false) ? "" : " where it is not said", id_key);
}

static ota_status frames(const lists *l, ends standard, ota_tokenizer_parts *parts) {
    const ota_status status =
        frame(l, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", standard.begins,
              standard.begin, &parts->begin);
    if (status != OTA_OK) return status;
    return frame(l, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", standard.stops,
                 standard.stop, &parts->end);
}

/* ---- which keys there are ---- */

/* Whether one of the names is the key; one that ends in .* is the beginning of it. */
static bool is_named(const char *names, const char *key, size_t size) {
    for (const char *at = names + 1; *at != '\0';) {
        const size_t length = strcspn(at, " ");
        const bool open = length > 2 && at[length - 1] == '*';
        if (open ? size >= length && memcmp(at, key, length - 1) == 0
                 : size == length && memcmp(at, key, length) == 0)
            return true;
        at += length + 1;
    }
    return false;
}

static bool fits(const lists *l, const ota_gguf_pair *pair, holding holds) {
    switch (holds) {
    case TRUTH: return pair->type == OTA_GGUF_TRUTH;
    case WHOLE: return is_whole(pair->type);
    case TEXT: return pair->type == OTA_GGUF_STRING;
    case LIST: return pair->type == OTA_GGUF_ARRAY;
    case NO_TRUTH: return pair->type == OTA_GGUF_TRUTH && l->map[pair->offset] == 0;
    case ABSENT: return false;
    default: return true;
    }
}

static ota_status check_key(const lists *l, const ota_gguf_pair *pair, const char *model) {
    static const char *const wanted[] = {[TRUTH] = "must be true or false",
                                         [WHOLE] = "must be a whole number",
                                         [TEXT] = "must be a text",
                                         [LIST] = "must be a list",
                                         [NO_TRUTH] = "must be false: nothing else is run",
                                         [ABSENT] = "is not run"};
    static const char begin[] = "tokenizer.";
    const size_t before = sizeof begin - 1;
    const char *key = (const char *)pair->key;
    if (pair->key_size < before || memcmp(key, begin, before) != 0) return OTA_OK;
    const int shown = (int)(pair->key_size < 100 ? pair->key_size : 100);
    for (size_t k = 0; k < sizeof key_rows / sizeof *key_rows; k++) {
        if (key_rows[k].models != NULL && strcmp(key_rows[k].models, model) != 0) continue;
        if (!is_named(key_rows[k].names, key + before, pair->key_size - before)) continue;
        if (fits(l, pair, key_rows[k].holds)) return OTA_OK;
        return ota_refuse(l->error, key_rows[k].holds >= NO_TRUTH ? OTA_UNSUPPORTED : OTA_EFORMAT,
                          "%s: %.*s %s", ota_path_end(l->model->path), shown, key,
                          wanted[key_rows[k].holds]);
    }
    return ota_refuse(l->error, OTA_UNSUPPORTED,
                      "%s: the key \"%.*s\" is not known here; take it out where it has no effect "
                      "on ids",
                      ota_path_end(l->model->path), shown, key);
}

static ota_status check_keys(const lists *l, const char *model) {
    ota_status status = OTA_OK;
    for (int64_t k = 0; k < l->model->pair_count && status == OTA_OK; k++)
        status = check_key(l, &l->model->pairs[k], model);
    return status;
}

/* What tokenizer.ggml.pre names, with a blank around each. Llama 3 and its like take a word that is a piece as it is, and
 * begin texts with a piece where the file does not say. */
static const struct {
    const char *cut;
    int keep_whole_word;
    bool begins;
    const char *words;
} pre_rows[] = {
    {"gpt-2", 0, false,
     " gpt-2 phi-2 mpt olmo jais trillion granite-docling jina-es jina-de jina-v2-es "
     "jina-v2-de gigachat "
     "a.x-4.0 mellum modern-bert exaone4 "},
    {"ggml", 0, false, " default "},
    {"smollm", 0, false, " smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 "},
    {"llama-3", 1, true,
     " llama-bpe llama-v3 llama3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano "},
    {"llama-3", 0, false, " dbrx smaug-bpe glm4 chatglm-bpe "},
    {"qwen-2", 0, false,
     " qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan solar-open grok-2 "},
    {"qwen-3.5", 0, false, " qwen35 "},
    {"gpt-4o", 0, false, " gpt-4o llama4 kanana2 talkie minimax-m2 "},
    {"gpt-4o", 1, false, " granite-embed-multi-97m "},
    {"tekken", 1, true, " tekken "},
    {"deepseek-llm", 0, false, " deepseek-llm "},
    {"deepseek-coder", 0, false, " deepseek-coder "},
    {"deepseek-3", 0, false, " deepseek-v3 hunyuan-dense joyai-llm hy_v4 "},
    {"falcon", 0, false, " falcon "},
    {"bloom", 0, false, " bloom poro-chat gpt3-finnish "},
    {"viking", 0, false, " viking "},
    {"seed-coder", 0, false, " seed-coder "},
    {"superbpe", 0, false, " superbpe "},
    {"bailing", 0, false, " bailingmoe bailingmoe2 llada-moe "},
};

static ota_status choose_cut(const lists *l, ota_tokenizer_parts *parts, bool *begins) {
    const ota_gguf_pair *pre = find(l, "tokenizer.ggml.pre", OTA_GGUF_STRING);
    const ota_text word = pre != NULL ? text_at(l->map + pre->offset) : (ota_text){"default", 7};
    for (size_t k = 0; k < sizeof pre_rows / sizeof *pre_rows; k++) {
        if (!is_named(pre_rows[k].words, word.data, word.size)) continue;
        parts->cut = pre_rows[k].cut;
        parts->keep_whole_word = pre_rows[k].keep_whole_word;
        *begins = pre_rows[k].begins;
        return OTA_OK;
    }
    return ota_refuse(l->error, OTA_UNSUPPORTED, "%s: the pre-tokenizer \"%.*s\" is not known",
                      ota_path_end(l->model->path), (int)(word.size < 40 ? word.size : 40),
                      word.data);
}

static ota_status make_bpe(lists *l, ota_tokenizer_parts *parts) {
    parts->model = "bpe";
    bool begins = false;
    ota_status status = choose_cut(l, parts, &begins);
    if (status == OTA_OK)
        status = read_texts(l, "tokenizer.ggml.merges", 1 << 21, &l->merges, &l->merge_count);
    if (status != OTA_OK) return status;
    parts->merges = l->merges;
    parts->merge_count = l->merge_count;
    return frames(l, (ends){begins, false, -1, -1}, parts);
}

/* ---- SentencePiece ---- */

static ota_status read_scores(lists *l) {
    int64_t count;
    const unsigned char *at = find_array(l, "tokenizer.ggml.scores", OTA_GGUF_FLOAT32, &count);
    if (at == NULL || count != l->piece_count)
        return ota_refuse(l->error, OTA_EMISMATCH,
                          "%s: tokenizer.ggml.scores must hold one f32 for each piece",
                          ota_path_end(l->model->path));
    l->scores = calloc((size_t)count + 1, sizeof *l->scores);
    if (l->scores == NULL)
        return ota_refuse(l->error, OTA_ENOMEM, "no memory is left for a tokenizer");
    for (int64_t k = 0; k < count; k++) {
        const uint32_t word = (uint32_t)whole_at(at + 4 * k, 4);
        memcpy(&l->scores[k], &word, sizeof word);
    }
    return OTA_OK;
}

static ota_status read_charsmap(const lists *l, ota_tokenizer_parts *parts) {
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    int64_t count;
    const unsigned char *at = find_array(l, key, OTA_GGUF_UINT8, &count);
    if (at == NULL) at = find_array(l, key, OTA_GGUF_INT8, &count);
    if (at == NULL && find(l, key, OTA_GGUF_ARRAY) != NULL)
        return ota_refuse(l->error, OTA_EFORMAT, "%s: %s must be a list of bytes",
                          ota_path_end(l->model->path), key);
    if (at != NULL) parts->charsmap = (ota_text){(const char *)at, (size_t)count};
    return OTA_OK;
}

/* BPE by scores puts a blank in front of a text where the file does not say, Unigram does not; that one ends a text. */
static ota_status make_pieces(lists *l, ota_tokenizer_parts *parts, const char *model) {
    const bool unigram = strcmp(model, "unigram") == 0;
    parts->model = model;
    if (l->kinds == NULL)
        return ota_refuse(l->error, OTA_EMISMATCH,
                          "%s: tokenizer.ggml.token_type must hold one i32 for each piece",
                          ota_path_end(l->model->path));
    ota_status status = read_scores(l);
    if (status == OTA_OK) status = read_charsmap(l, parts);
    parts->scores = l->scores;
    parts->unknown = piece_of(l, "tokenizer.ggml.unknown_token_id", unigram ? 2 : 0);
    parts->space_in_front = truth(l, "tokenizer.ggml.add_space_prefix", !unigram);
    parts->space_once = truth(l, "tokenizer.ggml.remove_extra_whitespaces", false);
    const ends standard = unigram ? (ends){false, true, -1, 1} : (ends){true, false, 1, 2};
    return status == OTA_OK ? frames(l, standard, parts) : status;
}

static ota_status make_sentencepiece(lists *l, ota_tokenizer_parts *parts) {
    return make_pieces(l, parts, "sentencepiece");
}

static ota_status make_unigram(lists *l, ota_tokenizer_parts *parts) {
    return make_pieces(l, parts, "unigram");
}

/* ---- the longest piece, PLaMo's rule ---- */

static ota_status make_longest(lists *l, ota_tokenizer_parts *parts) {
    parts->model = "rwkv";
    parts->unknown = piece_of(l, "tokenizer.ggml.unknown_token_id", -1);
    return frames(l, (ends){false, false, -1, -1}, parts);
}

static ota_status make_plamo(lists *l, ota_tokenizer_parts *parts) {
    parts->model = "plamo2";
    const ota_status status = read_scores(l);
    parts->scores = l->scores;
    return status == OTA_OK ? frames(l, (ends){false, false, 1, 2}, parts) : status;
}

/* ---- WordPiece ---- */

static bool begins_word(ota_text piece) {
    return piece.size >= 3 && memcmp(piece.data, "\xE2\x96\x81", 3) == 0;
}

static bool stands_alone(const lists *l, int64_t k) {
    const ota_text piece = l->pieces[k];
    return (l->kinds != NULL && l->kinds[k] != OTA_PIECE_NORMAL) ||
           (piece.size >= 2 && piece.data[0] == '[' && piece.data[piece.size - 1] == ']');
}

static bool has_upper_case(ota_text piece) {
    for (size_t i = 0; i < piece.size; i++)
        if (piece.data[i] >= 'A' && piece.data[i] <= 'Z') return true;
    return false;
}

/* Pieces as vocab.txt spells them. */
static ota_status spell_pieces(lists *l, ota_tokenizer_parts *parts) {
    size_t bytes = 1;
    for (int64_t k = 0; k < l->piece_count; k++) bytes += l->pieces[k].size + 2;
    l->spelled = malloc(bytes);
    if (l->spelled == NULL)
        return ota_refuse(l->error, OTA_ENOMEM, "no memory is left for a tokenizer");
    char *at = l->spelled;
    for (int64_t k = 0; k < l->piece_count; k++) {
        ota_text piece = l->pieces[k];
        char *const begin = at;
        const bool begins = begins_word(piece);
        if (begins) piece = (ota_text){piece.data + 3, piece.size - 3};
        if (!begins && !stands_alone(l, k)) {
            memcpy(at, "##", 2);
            at += 2;
        }
        if (begins && piece.data[0] != '[') parts->keep_case |= has_upper_case(piece);
        memcpy(at, piece.data, piece.size);
        at += piece.size;
        l->pieces[k] = (ota_text){begin, (size_t)(at - begin)};
    }
    return OTA_OK;
}

/* The first of two keys that names a piece, else the one of the number that BERT's own vocabulary has it at. */
static ota_text named_piece(const lists *l, const char *first, const char *second,
                            int64_t standard) {
    const ota_text piece = piece_of(l, first, -1);
    return piece.data != NULL ? piece : piece_of(l, second, standard);
}

static ota_status make_wordpiece(lists *l, ota_tokenizer_parts *parts) {
    parts->model = "wordpiece";
    const ota_status status = spell_pieces(l, parts);
    const ota_text class = piece_of(l, "tokenizer.ggml.cls_token_id", -1),
                   begin = piece_of(l, "tokenizer.ggml.bos_token_id", -1);
    if (status == OTA_OK && class.data != NULL && begin.data != NULL && class.data != begin.data)
        return ota_refuse(
            l->error, OTA_EFORMAT,
            "%s: tokenizer.ggml.cls_token_id and tokenizer.ggml.bos_token_id name two "
            "pieces",
            ota_path_end(l->model->path));
    parts->begin =
        named_piece(l, "tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id", 101);
    parts->end =
        named_piece(l, "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.eos_token_id", 102);
    parts->unknown = piece_of(l, "tokenizer.ggml.unknown_token_id", -1);
    parts->keep_case = !truth(l, "tokenizer.ggml.normalizer.lowercase", parts->keep_case == 0);
    parts->accents = truth(l, "tokenizer.ggml.normalizer.strip_accents", parts->keep_case == 0)
                         ? OTA_ACCENTS_STRIPPED
                         : OTA_ACCENTS_KEPT;
    return status;
}

/* ---- the whole ---- */

static ota_status make(lists *l, ota_tokenizer **tokenizer) {
    ota_tokenizer_parts parts = {.size = sizeof parts, .source = l->model->path};
    const ota_gguf_pair *model = find(l, "tokenizer.ggml.model", OTA_GGUF_STRING);
    const ota_text word = model != NULL ? text_at(l->map + model->offset) : (ota_text){"", 0};
    static const struct {
        const char *word;
        ota_status (*make)(lists *, ota_tokenizer_parts *);
    } rows[] = {{"gpt2", make_bpe},     {"llama", make_sentencepiece}, {"t5", make_unigram},
                {"rwkv", make_longest}, {"plamo2", make_plamo},        {"bert", make_wordpiece}};
    const size_t count = sizeof rows / sizeof *rows;
    size_t row = 0;
    while (row < count && !is_text(word, rows[row].word)) row++;
    if (row == count)
        return ota_refuse(l->error, OTA_UNSUPPORTED,
                          "%s: tokenizer.ggml.model \"%.*s\" is not one of gpt2, llama, t5, rwkv, "
                          "plamo2 and bert, "
                          "which are read out of gguf files",
                          ota_path_end(l->model->path), (int)(word.size < 40 ? word.size : 40),
                          word.data);
    ota_status status = check_keys(l, rows[row].word);
    if (status == OTA_OK)
        status = read_texts(l, "tokenizer.ggml.tokens", 1 << 20, &l->pieces, &l->piece_count);
    if (status == OTA_OK) status = read_kinds(l);
    if (status == OTA_OK) status = rows[row].make(l, &parts);
    if (status != OTA_OK) return status;
    parts.pieces = l->pieces;
    parts.piece_count = l->piece_count;
    parts.kinds = l->kinds;
    return ota_tokenizer_create_with(tokenizer, &parts, l->options, l->error);
}

ota_status ota_model_tokenizer(const ota_model *model, ota_tokenizer **tokenizer,
                               ota_error *error) {
    return ota_model_tokenizer_with(model, tokenizer, NULL, error);
}

ota_status ota_model_tokenizer_with(const ota_model *model, ota_tokenizer **tokenizer,
                                    const ota_token_options *options, ota_error *error) {
    *tokenizer = NULL;
    if (model->pairs == NULL)
        return ota_tokenizer_open_with(tokenizer, model->path, options, error);
    lists l = {
        .model = model, .map = model->checkpoint.shards[0].map, .options = options, .error = error};
    const ota_status status = make(&l, tokenizer);
    free(l.pieces);
    free(l.spelled);
    free(l.merges);
    free(l.kinds);
    free(l.scores);
    return status;
}
