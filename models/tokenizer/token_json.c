/* Reading JSON text piece by piece: see token_json.h. Grammar: RFC 8259. */
#include "token_json.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

#include "base/base.h"
#include "models/checkpoint/json_text.h"

ota_token_json ota_token_json_within(const ota_token_json *json, ota_text span) {
    ota_token_json inner = *json;
    inner.at = (size_t)(span.data - json->file->text);
    inner.end = inner.at + span.size;
    return inner;
}

ota_status ota_token_json_refuse(const ota_token_json *json, size_t at, const char *rule) {
    return ota_token_fail(json->error, OTA_EFORMAT, json->file->path, (int64_t)at, "%s", rule);
}

static char peek(const ota_token_json *json) {
    return json->at < json->end ? json->file->text[json->at] : '\0';
}

static void skip_blanks(ota_token_json *json) {
    while (json->at < json->end && strchr(" \t\r\n", json->file->text[json->at]) != NULL &&
           json->file->text[json->at] != '\0')
        json->at++;
}

static ota_status expect(ota_token_json *json, char letter, const char *rule) {
    skip_blanks(json);
    if (json->at == json->end || json->file->text[json->at] != letter)
        return ota_token_json_refuse(json, json->at, rule);
    json->at++;
    return OTA_OK;
}

ota_status ota_token_json_open(ota_token_json *json, char bracket) {
    return expect(json, bracket,
                  bracket == '{' ? "a JSON object must begin here" : "a JSON list must begin here");
}

ota_status ota_token_json_next(ota_token_json *json, char bracket, bool *first, bool *more) {
    skip_blanks(json);
    *more = peek(json) != (bracket == '{' ? '}' : ']');
    if (!*more) {
        json->at++;
        return OTA_OK;
    }
    if (!*first) {
        const ota_status status =
            expect(json, ',', "a comma or the closing bracket must stand here");
        if (status != OTA_OK) return status;
        skip_blanks(json);
    }
    *first = false;
    return OTA_OK;
}

ota_status ota_token_json_finish(ota_token_json *json) {
    skip_blanks(json);
    return json->at == json->end
               ? OTA_OK
               : ota_token_json_refuse(json, json->at, "only blanks may follow the JSON value");
}

/* ---- strings ---- */

static bool four_digits(const ota_token_json *json, size_t at, int32_t *value) {
    *value = 0;
    if (json->end - at < 4) return false;
    for (size_t k = at; k < at + 4; k++) {
        const char letter = json->file->text[k];
        const char *digits = "0123456789abcdef",
                   *digit = strchr(digits, letter >= 'A' && letter <= 'F' ? letter + 32 : letter);
        if (letter == '\0' || digit == NULL) return false;
        *value = *value * 16 + (int32_t)(digit - digits);
    }
    return true;
}

/* A \uXXXX escape, with its second half where it is a surrogate; json->at is behind the u. */
static ota_status escaped_character(ota_token_json *json, int32_t *character) {
    int32_t low = 0;
    if (!four_digits(json, json->at, character))
        return ota_token_json_refuse(json, json->at, "\\u needs four hexadecimal digits");
    json->at += 4;
    if (*character == 0)
        return ota_token_json_refuse(json, json->at - 6, "a string must not hold U+0000");
    if (*character < 0xD800 || *character > 0xDFFF) return OTA_OK;
    if (*character > 0xDBFF || json->end - json->at < 6 ||
        memcmp(json->file->text + json->at, "\\u", 2) != 0 ||
        !four_digits(json, json->at + 2, &low) || low < 0xDC00 || low > 0xDFFF)
        return ota_token_json_refuse(json, json->at - 6, "a surrogate stands alone");
    json->at += 6;
    *character = 0x10000 + ((*character - 0xD800) << 10) + (low - 0xDC00);
    return OTA_OK;
}

static ota_status escape(ota_token_json *json, ota_token_buffer *out) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char letter = peek(json);
    const char *name = letter == '\0' ? NULL : strchr(names, letter);
    json->at++;
    if (letter == 'u') {
        int32_t character;
        const ota_status status = escaped_character(json, &character);
        if (status != OTA_OK) return status;
        if (!ota_token_reserve(out, 4)) return ota_token_no_memory(json->error);
        out->used +=
            (size_t)utf8proc_encode_char(character, (utf8proc_uint8_t *)out->bytes + out->used);
        return OTA_OK;
    }
    if (name == NULL) return ota_token_json_refuse(json, json->at - 1, "JSON has no such escape");
    return ota_token_append(out, &meanings[name - names], 1) ? OTA_OK
                                                             : ota_token_no_memory(json->error);
}

ota_status ota_token_json_string(ota_token_json *json, ota_token_buffer *out) {
    ota_status status = expect(json, '"', "a string must stand here");
    const char *text = json->file->text;
    while (status == OTA_OK) {
        const size_t begin = json->at;
        while (json->at < json->end && text[json->at] != '"' && text[json->at] != '\\' &&
               (unsigned char)text[json->at] >= 0x20)
            json->at++;
        if (!ota_token_append(out, text + begin, json->at - begin))
            return ota_token_no_memory(json->error);
        if (json->at == json->end)
            return ota_token_json_refuse(json, json->at, "a string is not closed");
        const char letter = text[json->at++];
        if (letter == '"') return OTA_OK;
        if (letter != '\\')
            return ota_token_json_refuse(json, json->at - 1, "a string holds a control character");
        status = escape(json, out);
    }
    return status;
}

ota_status ota_token_json_key(ota_token_json *json, ota_token_buffer *out) {
    const ota_status status = ota_token_json_string(json, out);
    return status != OTA_OK ? status : expect(json, ':', "a colon must follow the key");
}

/* ---- numbers and spans ---- */

ota_status ota_token_json_integer(ota_token_json *json, int64_t *value) {
    static const char rule[] = "an integer from 0 to 2^53 must stand here, without sign, "
                               "leading 0, point or exponent";
    skip_blanks(json);
    const size_t begin = json->at;
    *value = 0;
    while (json->at < json->end && peek(json) >= '0' && peek(json) <= '9' && json->at - begin < 17)
        *value = *value * 10 + (json->file->text[json->at++] - '0');
    const bool leading = json->at - begin > 1 && json->file->text[begin] == '0';
    const char after = peek(json);
    if (json->at == begin || leading || *value > (int64_t)1 << 53 ||
        (after != '\0' && strchr(".eE0123456789", after) != NULL))
        return ota_token_json_refuse(json, begin, rule);
    return OTA_OK;
}

ota_status ota_token_json_number(ota_token_json *json, double *value) {
    skip_blanks(json);
    const size_t begin = json->at;
    char text[64], *end = text;
    size_t size = 0;
    while (json->at < json->end && size + 1 < sizeof text &&
           memchr("0123456789+-.eE", peek(json), 15) != NULL)
        text[size++] = json->file->text[json->at++];
    text[size] = '\0';
    *value = size == 0 ? 0 : ota_strtod(text, &end);
    const char first = text[text[0] == '-'];
    if (first < '0' || first > '9' || end != text + size || !isfinite(*value))
        return ota_token_json_refuse(json, begin, "a finite number must stand here");
    return OTA_OK;
}

/* Letters between two looks, and how many times as fast as the slowest steps they are. */
enum { LETTERS = 1 << 16, LETTERS_SPEED = 64 };

ota_status ota_token_json_skip(ota_token_json *json, ota_text *span) {
    skip_blanks(json);
    const char *text = json->file->text;
    const size_t begin = json->at;
    int depth = 1; /* the object or list around it */
    size_t looked = begin;
    for (; json->at < json->end; json->at++) {
        const char letter = text[json->at];
        if (json->at - looked >= LETTERS) {
            const ota_status status =
                ota_look(json->file->ending, (json->at - looked) / LETTERS_SPEED, json->error);
            if (status != OTA_OK) return status;
            looked = json->at;
        }
        if (letter == '"') {
            for (json->at++; json->at < json->end && text[json->at] != '"'; json->at++)
                if (text[json->at] == '\\') json->at++;
            if (json->at >= json->end) {
                json->at = json->end;
                return ota_token_json_refuse(json, json->at, "a string is not closed");
            }
        } else if (letter == '{' || letter == '[') {
            if (++depth > OTA_TOKEN_JSON_DEPTH)
                return ota_token_json_refuse(json, json->at,
                                             "the JSON is nested more than 64 deep");
        } else if (letter == '}' || letter == ']') {
            if (--depth == 0) break;
        } else if (letter == ',' && depth == 1) {
            break;
        } else if (letter == '-' && json->end - json->at > 2 && text[json->at + 1] == '0' &&
                   strchr(".eE", text[json->at + 2]) == NULL) {
            return ota_token_json_refuse(json, json->at, "-0 is no exact integer");
        }
    }
    *span = (ota_text){text + begin, json->at - begin};
    return span->size > 0 ? OTA_OK : ota_token_json_refuse(json, begin, "a value is missing");
}

ota_status ota_token_json_tree(ota_token_json *json, ota_text span, json_t **tree) {
    const size_t place = (size_t)ota_token_json_place(json, span);
    *tree = NULL;
    json->trees += span.size;
    if (json->trees > OTA_TOKEN_JSON_TREES)
        return ota_token_fail(json->error, OTA_ELIMIT, json->file->path, (int64_t)place,
                              "members other than vocab, merges and added_tokens hold more than "
                              "%d bytes",
                              OTA_TOKEN_JSON_TREES);
    json_error_t cause;
    bool no_memory;
    /* A tree takes longer than its letters. */
    ota_status status = ota_look(json->file->ending, OTA_TOKEN_JSON_TREE, json->error);
    if (status != OTA_OK) return status;
    *tree = ota_json_text(span.data, span.size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY,
                          json->file->ending, &cause, &no_memory);
    if (no_memory) return ota_token_no_memory(json->error);
    if (*tree == NULL && (status = ota_look(json->file->ending, 0, json->error)) != OTA_OK)
        return status;
    if (*tree == NULL)
        return ota_token_fail(json->error, OTA_EFORMAT, json->file->path,
                              (int64_t)place + (cause.position > 0 ? cause.position - 1 : 0),
                              "not valid JSON: %.120s", cause.text);
    return OTA_OK;
}

ota_status ota_token_json_members(ota_token_json *json, ota_token_json *trees,
                                  const char *const *names, int count, ota_text *spans,
                                  json_t *small) {
    ota_token_buffer key = {0};
    bool first = true, more = true;
    ota_status status = ota_token_json_open(json, '{');
    while (status == OTA_OK) {
        status = ota_token_json_next(json, '{', &first, &more);
        if (status != OTA_OK || !more) break;
        const size_t place = json->at;
        ota_text span = {NULL, 0};
        key.used = 0;
        status = ota_token_json_key(json, &key);
        if (status == OTA_OK && !ota_token_append(&key, "", 1))
            status = ota_token_no_memory(json->error);
        if (status == OTA_OK) status = ota_token_json_skip(json, &span);
        if (status != OTA_OK) break;
        int k = 0;
        while (k < count && strcmp(names[k], key.bytes) != 0) k++;
        if ((k < count && spans[k].data != NULL) || json_object_get(small, key.bytes) != NULL) {
            status = ota_token_json_refuse(json, place, "a key is there twice");
        } else if (k < count) {
            spans[k] = span;
        } else {
            json_t *tree;
            status = ota_token_json_tree(trees, span, &tree);
            if (status == OTA_OK && json_object_set_new(small, key.bytes, tree) != 0)
                status = ota_token_no_memory(json->error);
        }
    }
    free(key.bytes);
    return status;
}

/* ---- bytes ---- */

bool ota_token_base64(const char *text, size_t size, ota_token_buffer *blob, bool *no_memory) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    *no_memory = !ota_token_reserve(blob, size / 4 * 3 + 3);
    if (*no_memory || size % 4 != 0) return false;
    while (size > 0 && text[size - 1] == '=') size--;
    uint32_t bits = 0;
    int held = 0;
    for (size_t k = 0; k < size; k++) {
        const char *letter = memchr(letters, text[k], 64);
        if (letter == NULL) return false;
        bits = bits << 6 | (uint32_t)(letter - letters);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        blob->bytes[blob->used++] = (char)(unsigned char)(bits >> held & 0xFF);
    }
    return true;
}
