/* Added tokens: texts such as <|endoftext|> or [MASK] that stand for one id wherever they are met.
 *
 * They are sorted by text. At a place of the input, the tokens that begin like it are a range of that
 * order, narrowed byte by byte with two binary searches; the longest token met on the way counts. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/integers.h"
#include "tokenizer_parts.h"

const ota_added_key ota_added_keys[OTA_ADDED_KEYS] = {{"normalized", OTA_ADDED_NORMALIZED},
                                                      {"special", OTA_ADDED_SPECIAL},
                                                      {"lstrip", OTA_ADDED_STRIP_LEFT},
                                                      {"rstrip", OTA_ADDED_STRIP_RIGHT},
                                                      {"single_word", OTA_ADDED_SINGLE_WORD}};

bool ota_added_put(ota_added_set *set, ota_text text, ota_added token) {
    void *tokens = set->tokens;
    const bool grown = ota_token_grow(&tokens, &set->room, set->count + 1, sizeof *set->tokens);
    set->tokens = tokens;
    token.text.begin = set->text.used;
    token.text.size = text.size;
    if (!grown || !ota_token_append(&set->text, text.data, text.size)) return false;
    set->tokens[set->count++] = token;
    return true;
}

static int compare(const char *a, size_t a_size, const char *b, size_t b_size) {
    const int order = memcmp(a, b, ota_size_min(a_size, b_size));
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

static bool is_before(const ota_added_set *set, const ota_added *a, const ota_added *b) {
    const char *text = set->text.bytes;
    const int order =
        compare(text + a->text.begin, a->text.size, text + b->text.begin, b->text.size);
    return order < 0 || (order == 0 && a->id < b->id);
}

/* What a step of it counts for in looks; it compares up to forty texts. */
enum { SINK_WORK = 8 };

/* Heap sort: qsort cannot be told where the texts lie. */
static void sink(const ota_added_set *set, size_t count, size_t at) {
    const ota_added token = set->tokens[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_before(set, &set->tokens[child], &set->tokens[child + 1]))
            child++;
        if (!is_before(set, &token, &set->tokens[child])) break;
        set->tokens[at] = set->tokens[child];
    }
    set->tokens[at] = token;
}

ota_status ota_added_sort(ota_added_set *set, ota_ending *ending, ota_error *error) {
    ota_status status = OTA_OK;
    for (size_t at = set->count / 2; at-- > 0 && status == OTA_OK;) {
        sink(set, set->count, at);
        status = ota_look(ending, SINK_WORK, error);
    }
    for (size_t count = set->count; count-- > 1 && status == OTA_OK;) {
        const ota_added last = set->tokens[count];
        set->tokens[count] = set->tokens[0];
        set->tokens[0] = last;
        sink(set, count, 0);
        status = ota_look(ending, SINK_WORK, error);
    }
    if (status != OTA_OK) return status;
    for (size_t k = 0; k < set->count; k++)
        set->begins[(unsigned char)set->text.bytes[set->tokens[k].text.begin]] = true;
    return OTA_OK;
}

void ota_added_free(ota_added_set *set) {
    free(set->text.bytes);
    free(set->tokens);
}

/* The first token of [low, high) whose byte at `depth` is at least `byte`; tokens that end before come
 * first. */
static size_t first_with(const ota_added_set *set, size_t low, size_t high, size_t depth,
                         int byte) {
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const ota_token_entry *text = &set->tokens[middle].text;
        const int there =
            text->size > depth ? (unsigned char)set->text.bytes[text->begin + depth] : -1;
        if (there < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const ota_added *longest_at(const ota_added_set *set, const char *text, size_t size) {
    const ota_added *best = NULL;
    size_t low = 0, high = set->count;
    for (size_t depth = 0; depth < size && low < high; depth++) {
        const int byte = (unsigned char)text[depth];
        low = first_with(set, low, high, depth, byte);
        high = first_with(set, low, high, depth, byte + 1);
        if (low < high && set->tokens[low].text.size == depth + 1) best = &set->tokens[low];
    }
    return best;
}

size_t ota_added_begins(const ota_added_set *set, const char *text, size_t size) {
    if (size == 0 || set->count == 0 || !set->begins[(unsigned char)*text]) return 0;
    const ota_added *token = longest_at(set, text, size);
    return token == NULL ? 0 : token->text.size;
}

static int32_t character_before(const char *text, size_t end, size_t *begin) {
    *begin = end - 1;
    while (*begin > 0 && end - *begin < 4 && ((unsigned char)text[*begin] & 0xC0) == 0x80) --*begin;
    utf8proc_int32_t character;
    const utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)text + *begin,
                                                    (utf8proc_ssize_t)(end - *begin), &character);
    return bytes == (utf8proc_ssize_t)(end - *begin) ? character : -1;
}

static int32_t character_after(const char *text, size_t begin, size_t size, size_t *end) {
    utf8proc_int32_t character;
    const utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)text + begin,
                                                    (utf8proc_ssize_t)(size - begin), &character);
    *end = begin + (bytes > 0 ? (size_t)bytes : 1);
    return bytes > 0 ? character : -1;
}

static bool stands_alone(const char *text, size_t size, size_t begin, size_t end) {
    size_t unused;
    return (begin == 0 || !ota_token_is_word(character_before(text, begin, &unused))) &&
           (end == size || !ota_token_is_word(character_after(text, end, size, &unused)));
}

bool ota_added_next(const ota_added_set *set, const char *text, size_t size,
                    ota_added_match *match) {
    const size_t from = match->end;
    if (set->count == 0) return false;
    for (size_t at = match->after; at < size; at++) {
        if (!set->begins[(unsigned char)text[at]]) continue;
        const ota_added *token = longest_at(set, text + at, size - at);
        if (token == NULL) continue;
        const bool strips_right = (token->flags & OTA_ADDED_STRIP_RIGHT) != 0;
        size_t begin = at, end = at + token->text.size, next;
        if (((token->flags & OTA_ADDED_SPECIAL) != 0 && set->splits_special) ||
            ((token->flags & OTA_ADDED_SINGLE_WORD) != 0 &&
             !stands_alone(text, size, begin, end))) {
            at = end - 1;
            continue;
        }
        if ((token->flags & OTA_ADDED_STRIP_LEFT) != 0)
            while (begin > from && ota_token_is_space(character_before(text, begin, &next)) &&
                   next >= from)
                begin = next;
        if (strips_right && end < match->blanks) end = match->blanks;
        if (strips_right)
            while (end < size && ota_token_is_space(character_after(text, end, size, &next)))
                end = next;
        *match = (ota_added_match){.begin = begin,
                                   .end = end,
                                   .after = at + token->text.size,
                                   .blanks = strips_right ? end : match->blanks,
                                   .id = token->id};
        return true;
    }
    return false;
}
