/* tokenizer.model of SentencePiece: a message of protocol buffers, of which are read
 *
 *   1 pieces: 1 text, 2 score, 3 kind        2 trainer_spec: 3 model_type, 24 whitespace as suffix, 35 byte_fallback
 *   3 normalizer_spec: 1 name, 2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
 *     5 escape_whitespaces, 6 the rules from which the second was made
 *
 * The other fields of trainer_spec say how the pieces were found, 4 holds texts to try the model on, and 5 how texts that
 * were decoded are changed, which is refused. The ids are those of the package `sentencepiece`, with what tokenizer_config.json
 * sets around a text and adds. */
#include <stdlib.h>
#include <string.h>

#include "token_settings.h"

/* ---- messages ---- */

typedef struct message {
    const ota_token_file *file;
    size_t at, end;
    ota_error *error;
} message;

typedef struct field {
    uint64_t number, value;
    ota_text bytes; /* of a field with a length, or of four bytes */
    size_t place;
} field;

static ota_status broken(const message *m, size_t at, const char *rule) {
    return ota_token_fail(m->error, OTA_EFORMAT, m->file->path, (int64_t)at, "%s", rule);
}

static bool read_varint(message *m, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const unsigned char byte = (unsigned char)m->file->text[m->at++];
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* The next field; m->at < m->end before. */
static ota_status read_field(message *m, field *f) {
    static const char rule[] =
        "not a tokenizer.model of SentencePiece: no field of a message lies here";
    uint64_t tag, size = 0;
    f->place = m->at;
    f->value = 0;
    f->bytes = (ota_text){NULL, 0};
    if (!read_varint(m, &tag)) return broken(m, f->place, rule);
    f->number = tag >> 3;
    switch (tag & 7) {
    case 0: return read_varint(m, &f->value) ? OTA_OK : broken(m, f->place, rule);
    case 1: size = 8; break;
    case 2:
        if (!read_varint(m, &size)) return broken(m, f->place, rule);
        break;
    case 5: size = 4; break;
    default: return broken(m, f->place, rule);
    }
    if (size > m->end - m->at) return broken(m, f->place, rule);
    f->bytes = (ota_text){m->file->text + m->at, (size_t)size};
    m->at += (size_t)size;
    return OTA_OK;
}

static message inside(const message *m, const field *f) {
    const size_t begin = f->bytes.data == NULL ? 0 : (size_t)(f->bytes.data - m->file->text);
    return (message){m->file, begin, begin + f->bytes.size, m->error};
}

/* ---- the model ---- */

/* model_type of trainer_spec. */
enum { UNIGRAM = 1, BPE = 2, WORDS = 3, CHARACTERS = 4 };

typedef struct model {
    ota_text *pieces;
    int32_t *kinds;
    float *scores;
    size_t count, piece_room, kind_room, score_room;
    uint64_t type;
    bool byte_fallback, has_bytes;
    ota_tokenizer_parts parts;
} model;

static bool make_room(model *all) {
    void *pieces = all->pieces, *kinds = all->kinds, *scores = all->scores;
    const size_t count = all->count + 1;
    const bool fine = ota_token_grow(&pieces, &all->piece_room, count, sizeof *all->pieces) &&
                      ota_token_grow(&kinds, &all->kind_room, count, sizeof *all->kinds) &&
                      ota_token_grow(&scores, &all->score_room, count, sizeof *all->scores);
    all->pieces = pieces;
    all->kinds = kinds;
    all->scores = scores;
    return fine;
}

static ota_status read_piece(message m, model *all) {
    field f;
    ota_status status = ota_look(m.file->ending, 1, m.error);
    if (status != OTA_OK) return status;
    if (all->count == OTA_TOKEN_PIECES_MOST)
        return ota_token_fail(m.error, OTA_ELIMIT, m.file->path, (int64_t)m.at,
                              "a vocabulary has at most %d pieces", OTA_TOKEN_PIECES_MOST);
    if (!make_room(all)) return ota_token_no_memory(m.error);
    ota_text *piece = &all->pieces[all->count];
    int32_t *kind = &all->kinds[all->count];
    float *score = &all->scores[all->count++];
    *piece = (ota_text){"", 0};
    *kind = OTA_PIECE_NORMAL;
    *score = 0;
    while (m.at < m.end && status == OTA_OK) {
        status = read_field(&m, &f);
        if (status != OTA_OK) break;
        if (f.number == 1 && f.bytes.data != NULL) {
            *piece = f.bytes;
        } else if (f.number == 2 && f.bytes.size == 4) {
            memcpy(score, f.bytes.data, 4);
        } else if (f.number == 3 && f.value >= OTA_PIECE_NORMAL && f.value <= OTA_PIECE_BYTE) {
            *kind = (int32_t)f.value;
        } else {
            status = broken(&m, f.place, "a piece is a text, a score and a kind from 1 to 6");
        }
    }
    if (*kind == OTA_PIECE_UNKNOWN) all->parts.unknown = *piece;
    all->has_bytes = all->has_bytes || *kind == OTA_PIECE_BYTE;
    return status;
}

static ota_status unsupported(const message *m, const field *f, const char *rule) {
    return ota_token_fail(m->error, OTA_UNSUPPORTED, m->file->path, (int64_t)f->place, "%s", rule);
}

static ota_status read_trainer(message m, model *all) {
    field f;
    ota_status status = OTA_OK;
    while (m.at < m.end && status == OTA_OK) {
        status = read_field(&m, &f);
        if (status != OTA_OK) break;
        if (f.number == 3) all->type = f.value;
        if (f.number == 35) all->byte_fallback = f.value != 0;
        if (f.number == 24) all->parts.space_behind = f.value != 0;
        if (f.number == 3 && (f.value < UNIGRAM || f.value > CHARACTERS))
            status = unsupported(&m, &f,
                                 "model_type of trainer_spec is none of 1, Unigram, 2, BPE, 3, "
                                 "words, and 4, characters");
    }
    return status;
}

static ota_status read_normalizer(message m, model *all) {
    field f;
    ota_status status = OTA_OK;
    while (m.at < m.end && status == OTA_OK) {
        status = read_field(&m, &f);
        if (status != OTA_OK) break;
        switch (f.number) {
        case 2: all->parts.charsmap = f.bytes; break;
        case 3: all->parts.space_in_front = f.value != 0; break;
        case 4: all->parts.space_once = f.value != 0; break;
        case 5:
            if (f.value == 0) status = unsupported(&m, &f, "escape_whitespaces: false is not run");
            break;
        case 1:
        case 6: break;
        default: status = unsupported(&m, &f, "a field of normalizer_spec is not known here");
        }
    }
    return status;
}

static ota_status read_denormalizer(message m) {
    field f;
    ota_status status = OTA_OK;
    while (m.at < m.end && status == OTA_OK) {
        status = read_field(&m, &f);
        if (status == OTA_OK && f.number == 2 && f.bytes.size > 0)
            status = unsupported(&m, &f, "a denormalizer_spec with replacements is not run");
    }
    return status;
}

static ota_status read_all(message m, model *all) {
    field f;
    ota_status status = OTA_OK;
    all->type = UNIGRAM;
    while (m.at < m.end && status == OTA_OK) {
        status = read_field(&m, &f);
        if (status != OTA_OK) break;
        const message inner = inside(&m, &f);
        switch (f.number) {
        case 1: status = read_piece(inner, all); break;
        case 2: status = read_trainer(inner, all); break;
        case 3: status = read_normalizer(inner, all); break;
        case 4: break;
        case 5: status = read_denormalizer(inner); break;
        default: status = unsupported(&m, &f, "a field of the model is not known here");
        }
    }
    if (status == OTA_OK && all->count == 0)
        status = broken(&m, 0, "not a tokenizer.model of SentencePiece: there are no pieces");
    if (status == OTA_OK && all->byte_fallback != all->has_bytes)
        status = broken(
            &m, 0, "byte_fallback must be true where there are pieces of bytes, and only there");
    if (status == OTA_OK && all->parts.unknown.data == NULL)
        status = broken(&m, 0, "one piece must be of kind 2, unknown");
    return status;
}

/* ---- the settings beside it ---- */

/* Llama's class begins a text with a piece, unless it is told otherwise; another class has rules of its own. */
static ota_status set_frame(ota_tokenizer *tokenizer, const ota_token_settings *settings) {
    static const char llama[] = "LlamaTokenizer";
    const char *name = settings->class_name;
    const bool is_llama =
        name != NULL && strncmp(name, llama, sizeof llama - 1) == 0 &&
        (name[sizeof llama - 1] == '\0' || strcmp(name + sizeof llama - 1, "Fast") == 0);
    if (name != NULL && !is_llama)
        return ota_token_settings_fail(
            settings, settings->class_file, OTA_UNSUPPORTED,
            "%s \"%.60s\" is not run on tokenizer.model, only LlamaTokenizer "
            "and files that name none; write a tokenizer.json",
            settings->class_key, name);
    static const struct {
        ota_token_role role;
        ota_token_switch which;
        const char *piece;
    } ends[] = {{OTA_TOKEN_ROLE_BEGIN, OTA_SWITCH_BEGIN, "<s>"},
                {OTA_TOKEN_ROLE_END, OTA_SWITCH_END, "</s>"}};
    for (int k = 0; k < 2; k++) {
        ota_token_frame *frame = k == 0 ? &tokenizer->before : &tokenizer->after;
        const char *text = settings->roles[ends[k].role].text;
        int32_t id = ota_token_role_id(settings, tokenizer, ends[k].role);
        if (text == NULL)
            id = ota_vocabulary_find(&tokenizer->vocabulary, ends[k].piece, strlen(ends[k].piece));
        if (id >= 0 && ota_token_switch_on(settings, ends[k].which, is_llama && k == 0))
            *frame = (ota_token_frame){{id}, 1};
    }
    return OTA_OK;
}

ota_status ota_tokenizer_read_model(ota_tokenizer *tokenizer, const ota_token_file *file,
                                    ota_token_settings *settings, ota_error *error) {
    model all = {.parts = {.size = sizeof all.parts, .source = file->path}};
    ota_added_list added = {0};
    all.parts.space_in_front = all.parts.space_once = 1;
    ota_status status = read_all((message){file, 0, file->size, error}, &all);
    if (status == OTA_OK) status = ota_token_plan(settings);
    /* Pieces of one character are never what two others make. */
    all.parts.model = all.type == UNIGRAM ? "unigram"
                      : all.type == WORDS ? "words"
                                          : "sentencepiece";
    all.parts.pieces = all.pieces;
    all.parts.piece_count = (int64_t)all.count;
    all.parts.kinds = all.kinds;
    all.parts.scores = all.scores;
    tokenizer->literal_users = true;
    if (status == OTA_OK) status = ota_tokenizer_fill(tokenizer, &all.parts, error);
    if (status == OTA_OK) status = ota_token_settle(settings, tokenizer, &added);
    for (size_t k = 0; k < added.count && status == OTA_OK; k++)
        if ((size_t)added.tokens[k].id >= all.count)
            status = ota_tokenizer_add(tokenizer, added.tokens[k], error);
    if (status == OTA_OK) status = set_frame(tokenizer, settings);
    tokenizer->raw_added.splits_special = ota_token_switch_on(settings, OTA_SWITCH_SPLIT, false);
    free(added.tokens);
    free(all.pieces);
    free(all.kinds);
    free(all.scores);
    return status;
}
