/* Regular expressions of tokenizers: PCRE2 matches, compiled to machine code. Its classes are not quite those of the
 * engines that the `tokenizers` package uses: \s, \S, \w, \W, \b and \B are rewritten to the same sets of characters. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "patterns.h"

/* Steps of one match before it is given up: an honest pattern takes a few for each byte. */
enum { STEPS_AT_LEAST = 1 << 16, STEPS_PER_BYTE = 16 };

/* ---- classes ---- */

typedef struct rewriting {
    ota_token_buffer out;
    bool in_class, fine;
} rewriting;

static void put(rewriting *r, const char *text) {
    r->fine = r->fine && ota_token_append(&r->out, text, strlen(text));
}

/* One escape; false when it cannot be said in PCRE2's classes. */
static bool rewrite_escape(rewriting *r, char letter) {
    switch (letter) {
    case 's': put(r, r->in_class ? SPACES : "[" SPACES "]"); return true;
    case 'S': put(r, "[^" SPACES "]"); return !r->in_class;
    case 'w': put(r, r->in_class ? WORDS : "[" WORDS "]"); return true;
    case 'W': put(r, "[^" WORDS "]"); return !r->in_class;
    case 'b':
        put(r, r->in_class ? "\\b"
                           : "(?:(?<=[" WORDS "])(?![" WORDS "])|(?<![" WORDS "])(?=[" WORDS "]))");
        return true;
    case 'B':
        put(r, "(?:(?<=[" WORDS "])(?=[" WORDS "])|(?<![" WORDS "])(?![" WORDS "]))");
        return !r->in_class;
    case 'h':
    case 'H':
        /* Hexadecimal digits there, horizontal space here. */
        return false;
    default: put(r, (const char[]){'\\', letter, '\0'}); return true;
    }
}

/* NULL in *reason: rewritten into r->out. */
static void rewrite(rewriting *r, ota_text pattern, const char **reason) {
    static const char edge[] = "has a dash at the edge of a class inside a class";
    size_t class_began = 0;
    int inner = 0;
    *reason = NULL;
    for (size_t at = 0; at < pattern.size && *reason == NULL; at++) {
        const char letter = pattern.data[at];
        if (letter == '\\' && at + 1 < pattern.size) {
            if (!rewrite_escape(r, pattern.data[++at]))
                *reason = "uses a class that has another meaning here";
            continue;
        }
        if (!r->in_class && letter == '[') {
            r->in_class = true;
            class_began = at + 1;
            if (class_began < pattern.size && pattern.data[class_began] == '^') class_began++;
        } else if (r->in_class && letter == ']' && at > class_began && inner > 0) {
            /* What a class inside a class adds are characters like others. */
            inner--;
            if (pattern.data[at - 1] == '-') *reason = edge;
            continue;
        } else if (r->in_class && letter == ']' && at > class_began) {
            r->in_class = false;
        } else if (r->in_class && letter == '[') {
            const char next = at + 1 < pattern.size ? pattern.data[at + 1] : '\0';
            if (next == '^' || next == ':' || next == ']')
                *reason = "has a class inside a class that is more than a list";
            if (next == '-' || pattern.data[at - 1] == '-') *reason = edge;
            inner++;
            continue;
        } else if (r->in_class && letter == '&' && pattern.data[at - 1] == '&') {
            *reason = "intersects classes";
        }
        put(r, (const char[]){letter, '\0'});
    }
}

/* `shown` names the pattern in errors. */
static ota_status compile(void **pattern, ota_text text, uint32_t options, const char *shown,
                          const char *path, int64_t offset, ota_error *error) {
    int code = 0;
    PCRE2_SIZE place = 0;
    *pattern = pcre2_compile((PCRE2_SPTR)text.data, text.size,
                             PCRE2_UTF | PCRE2_NO_UTF_CHECK | options, &code, &place, NULL);
    if (*pattern == NULL && code == PCRE2_ERROR_HEAP_FAILED) return ota_token_no_memory(error);
    if (*pattern == NULL) {
        char rule[128] = "";
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)rule, sizeof rule);
        return ota_token_fail(error, OTA_EFORMAT, path, offset, "the pattern \"%.100s\": %s", shown,
                              rule);
    }
    /* Where machine code may not be made, PCRE2 interprets. */
    (void)pcre2_jit_compile(*pattern, PCRE2_JIT_COMPLETE);
    return OTA_OK;
}

ota_status ota_pattern_compile(void **pattern, ota_text text, bool literal, const char *path,
                               int64_t offset, ota_error *error) {
    if (text.size == 0 || text.size > OTA_TOKEN_PIECE_MOST ||
        memchr(text.data, '\0', text.size) != NULL)
        return ota_token_fail(error, OTA_EFORMAT, path, offset,
                              "a pattern must have 1 to %d bytes and no NUL", OTA_TOKEN_PIECE_MOST);
    rewriting r = {.fine = true};
    const char *reason = NULL;
    if (literal)
        r.fine = ota_token_append(&r.out, text.data, text.size);
    else
        rewrite(&r, text, &reason);
    char shown[101];
    (void)ota_snprintf(shown, sizeof shown, "%.*s", (int)(text.size < 100 ? text.size : 100),
                       text.data);
    /* \C would match half a character. */
    const uint32_t options = literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    const ota_status status = !r.fine ? ota_token_no_memory(error)
                              : reason != NULL
                                  ? ota_token_fail(error, OTA_UNSUPPORTED, path, offset,
                                                   "the pattern \"%s\" %s", shown, reason)
                                  : compile(pattern, (ota_text){r.out.bytes, r.out.used}, options,
                                            shown, path, offset, error);
    free(r.out.bytes);
    return status;
}

/* The scripts of Unicode 9 but those of Japan, in the order in which they are tried. */
static const char script_names[] =
    "Latin Common Inherited Cyrillic Greek Arabic Hebrew Devanagari Thai Hangul Adlam Ahom "
    "Anatolian_Hieroglyphs Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki "
    "Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian "
    "Chakma Cham Cherokee Coptic Cuneiform Cypriot Deseret Duployan Egyptian_Hieroglyphs "
    "Elbasan Ethiopic Georgian Glagolitic Gothic Grantha Gujarati Gurmukhi Hanunoo Hatran "
    "Imperial_Aramaic Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada "
    "Kayah_Li Kharoshthi Khmer Khojki Khudawadi Lao Lepcha Limbu Linear_A Linear_B Lisu "
    "Lycian Lydian Mahajani Malayalam Mandaic Manichaean Marchen Meetei_Mayek Mende_Kikakui "
    "Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean "
    "New_Tai_Lue Newa Nko Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian "
    "Old_Permic Old_Persian Old_South_Arabian Old_Turkic Oriya Osage Osmanya Pahawh_Hmong "
    "Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan "
    "Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sora_Sompeng Sundanese "
    "Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangut Telugu "
    "Thaana Tibetan Tifinagh Tirhuta Ugaritic Vai Warang_Citi Yi ";

/* What has no script. */
#define NO_SCRIPT "\\x20\\p{Cn}\\p{Co}\\p{Cs}"
#define HAN_SCRIPTS "\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}\\x{30fc}"

ota_status ota_pattern_scripts(void **pattern, const char *path, int64_t offset, ota_error *error) {
    static const char before[] = "|[^\\P{sc:", between[] = "}\\x20\\x{30fc}](?:[^\\P{sc:",
                      behind[] = "}\\x20\\x{30fc}]|[" NO_SCRIPT "])*";
    rewriting r = {.fine = true};
    put(&r, "[" HAN_SCRIPTS "][" HAN_SCRIPTS NO_SCRIPT "]*");
    for (const char *name = script_names; *name != '\0'; name += strcspn(name, " ") + 1)
        for (int k = 0; k < 2; k++) {
            put(&r, k == 0 ? before : between);
            r.fine = r.fine && ota_token_append(&r.out, name, strcspn(name, " "));
            if (k == 1) put(&r, behind);
        }
    const ota_status status = r.fine ? compile(pattern, (ota_text){r.out.bytes, r.out.used},
                                               PCRE2_UCP, "scripts", path, offset, error)
                                     : ota_token_no_memory(error);
    free(r.out.bytes);
    return status;
}

void ota_pattern_free(void *pattern) { pcre2_code_free(pattern); }

/* ---- matching ---- */

bool ota_matching_start(ota_matching *matching, size_t size) {
    matching->data = pcre2_match_data_create(1, NULL);
    matching->context = pcre2_match_context_create(NULL);
    if (matching->data == NULL || matching->context == NULL) return false;
    (void)pcre2_set_match_limit(matching->context,
                                (uint32_t)(STEPS_AT_LEAST + STEPS_PER_BYTE * size));
    return true;
}

void ota_matching_end(ota_matching *matching) {
    pcre2_match_data_free(matching->data);
    pcre2_match_context_free(matching->context);
}

ota_status ota_pattern_find(const void *pattern, const ota_matching *matching, ota_text text,
                            size_t from, size_t *begin, size_t *end) {
    int found = pcre2_match(pattern, (PCRE2_SPTR)text.data, text.size, from, PCRE2_NO_UTF_CHECK,
                            matching->data, matching->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(pattern, (PCRE2_SPTR)text.data, text.size, from,
                            PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, matching->data, matching->context);
    *begin = *end = text.size;
    if (found == PCRE2_ERROR_NOMATCH) return OTA_OK;
    if (found < 0) return OTA_ELIMIT;
    const PCRE2_SIZE *places = pcre2_get_ovector_pointer(matching->data);
    *begin = places[0];
    /* \K in a lookahead can put the beginning behind the end. */
    *end = places[1] < places[0] ? places[0] : places[1];
    if (*begin < from) *begin = from;
    if (*end < *begin) *end = *begin;
    return OTA_OK;
}

size_t ota_pattern_after(ota_text text, size_t begin, size_t end) {
    size_t after = end;
    if (begin < end || end >= text.size) return after;
    /* An empty match: the next one begins after the next character. */
    do after++;
    while (after < text.size && ((unsigned char)text.data[after] & 0xC0) == 0x80);
    return after;
}

ota_status ota_pattern_replace(const void *pattern, ota_text text, ota_text by,
                               ota_token_buffer *out, ota_ending *ending, ota_error *error) {
    ota_matching matching;
    const bool started = ota_matching_start(&matching, text.size);
    ota_status status = started ? OTA_OK : ota_token_no_memory(error);
    for (size_t at = 0, from = 0; status == OTA_OK && at < text.size;) {
        size_t begin, end;
        status = ota_pattern_find(pattern, &matching, text, from, &begin, &end);
        if (status != OTA_OK) {
            status = ota_token_fail(error, status, "", -1,
                                    "replacing takes too many steps of the pattern");
        } else if (!ota_token_append(out, text.data + at, begin - at) ||
                   (begin < text.size && !ota_token_append(out, by.data, by.size))) {
            status = ota_token_no_memory(error);
        }
        if (status == OTA_OK) status = ota_look(ending, end - at, error);
        at = end;
        from = ota_pattern_after(text, begin, end);
    }
    ota_matching_end(&matching);
    return status;
}
