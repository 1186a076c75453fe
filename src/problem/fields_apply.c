/* What the tables of members say, done: defaults, ranges, copies, rebind and what ranks compare (fields.h). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "problem/check.h"
#include "problem/fields.h"

const ota_field *ota_field_named(const ota_field *table, const char *name) {
    for (const ota_field *f = table; f->name != NULL; f++) {
        if (strcmp(f->name, name) == 0) return f;
    }
    return NULL;
}

/* ---- values -------------------------------------------------------------------------------------- */

static double real_in(const ota_field *f, const void *record) {
    double value;
    memcpy(&value, ota_field_in(f, record), sizeof value);
    return value;
}

/* Of a member that holds a whole number; of uint64_t its bits. */
static int64_t whole_in(const ota_field *f, const void *record) {
    int64_t wide;
    int narrow;
    if (f->bytes == sizeof wide) {
        memcpy(&wide, ota_field_in(f, record), sizeof wide);
        return wide;
    }
    memcpy(&narrow, ota_field_in(f, record), sizeof narrow);
    return narrow;
}

static const char *text_in(const ota_field *f, const void *record) {
    const char *text;
    memcpy(&text, ota_field_in(f, record), sizeof text);
    return text == NULL ? "" : text;
}

/* ---- ranges -------------------------------------------------------------------------------------- */

static int count_words(const char *words) {
    int count = 1;
    for (const char *at = words; *at != '\0'; at++) count += *at == ' ';
    return count;
}

/* "none mean midrange" as "use none, mean or midrange". */
static void list_words(const char *words, char *hint, size_t size) {
    const int count = count_words(words);
    size_t length = (size_t)ota_snprintf(hint, size, "use ");
    for (int k = 0; k < count && length < size; k++) {
        const size_t word = strcspn(words, " ");
        const char *between = k + 2 < count ? ", " : k + 1 < count ? " or " : "";
        length +=
            (size_t)ota_snprintf(hint + length, size - length, "%.*s%s", (int)word, words, between);
        words += word + (words[word] == ' ');
    }
}

/* Is there a word of this number? The first one needs no search. */
static bool has_word(const char *words, int64_t value) {
    for (; value > 0; value--) {
        words = strchr(words, ' ');
        if (words == NULL) return false;
        words++;
    }
    return value == 0;
}

static ota_status check_words(const ota_field *f, int64_t value, ota_error *error) {
    char hint[128];
    if (has_word(f->words, value)) return OTA_OK;
    list_words(f->words, hint, sizeof hint);
    return ota_fail(error, OTA_EINVAL, f->name, f->remedy != NULL ? f->remedy : hint,
                    "%s is %" PRId64, f->name, value);
}

static ota_status check_range(const ota_field *f, const void *record, ota_error *error) {
    if (f->kind == OTA_FIELD_REAL && f->remedy == NULL)
        return ota_check_number(real_in(f, record), f->name, f->low, f->open_low, f->high,
                                f->open_high, error);
    if (f->kind == OTA_FIELD_REAL) {
        const double value = real_in(f, record);
        if (value >= f->low && value <= f->high) return OTA_OK;
        return ota_fail(error, OTA_EINVAL, f->name, f->remedy, "%s is %g", f->name, value);
    }
    const int64_t value = whole_in(f, record);
    if ((double)value >= f->low && (double)value <= f->high) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, f->name, f->remedy, "%s is %" PRId64, f->name, value);
}

static ota_status check_one(const ota_field *f, const void *record, ota_error *error) {
    if (f->words != NULL) return check_words(f, whole_in(f, record), error);
    if (f->low < 0.0 || f->high > 0.0) return check_range(f, record, error);
    if (f->kind != OTA_FIELD_TEXT || f->check != NULL) return OTA_OK;
    if (strlen(text_in(f, record)) < f->room) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, f->name, f->remedy, "%s is '%.40s', an unknown name",
                    f->name, text_in(f, record));
}

/* 0, or -0, as a caller leaves what it says nothing of; of arrays and lists nothing is in a range. */
static bool is_unset(const ota_field *f, const void *record) {
    const void *at = ota_field_in(f, record);
    uint64_t wide;
    uint32_t narrow;
    if (f->bytes == sizeof wide) {
        memcpy(&wide, at, sizeof wide);
        return (f->kind == OTA_FIELD_REAL ? wide << 1 : wide) == 0;
    }
    if (f->bytes != sizeof narrow) return true;
    memcpy(&narrow, at, sizeof narrow);
    return narrow == 0;
}

static void put_usual(const ota_field *f, const ota_resolved *r, void *record) {
    const double usual = f->usual_of != NULL ? f->usual_of(r) : f->usual;
    const int64_t whole = (int64_t)usual;
    char *at = (char *)record + f->offset;
    if (f->kind == OTA_FIELD_REAL)
        memcpy(at, &usual, sizeof usual);
    else
        memcpy(at, &whole, sizeof whole);
}

/* A row that is unset and may be, which most rows of most calls are, costs next to nothing here: small problems are solved in the
 * time of a hundred rows' checks. */
ota_status ota_fields_complete(const ota_field *table, const ota_resolved *r, void *record,
                               ota_error *error) {
    for (const ota_field *f = table; f->name != NULL; f++) {
        if (is_unset(f, record)) {
            const bool has_usual = f->usual > 0.0 || f->usual_of != NULL;
            if (has_usual) put_usual(f, r, record);
            if (has_usual || !f->open_low) continue;
        }
        if (f->applies != NULL && !f->applies(record)) continue;
        TRY(check_one(f, record, error));
        if (f->check != NULL) TRY(f->check(record, error));
    }
    return OTA_OK;
}

static void copy_text(char *to, size_t room, const char *text) {
    const size_t length = ota_size_min(strlen(text), room - 1);
    memcpy(to, text, length);
    to[length] = '\0';
}

void ota_fields_copy(const ota_options *options, ota_settings *settings) {
    for (const ota_field *f = ota_option_fields; f->name != NULL; f++) {
        char *to = (char *)settings + f->setting;
        if (f->setting == 0 || (f->applies != NULL && !f->applies(options))) continue;
        if (f->kind == OTA_FIELD_TEXT)
            copy_text(to, f->room, text_in(f, options));
        else if (f->kind == OTA_FIELD_FLAG)
            *(bool *)to = whole_in(f, options) != 0;
        else if (f->bytes == sizeof(int64_t))
            memcpy(to, ota_field_in(f, options), sizeof(int64_t));
        else
            memcpy(to, ota_field_in(f, options), sizeof(int));
    }
}

/* ---- describe ------------------------------------------------------------------------------------ */

bool ota_field_text(const ota_field *field, const void *record, char *text, size_t size) {
    const size_t offset = field->setting != 0 ? field->setting : field->offset;
    const ota_field f = {.name = field->name, .offset = offset, .bytes = field->bytes};
    if (field->kind == OTA_FIELD_ARRAY) {
        (void)ota_snprintf(text, size, "given");
        return ota_array_present(ota_field_in(&f, record));
    }
    if (field->kind == OTA_FIELD_REAL) {
        (void)ota_snprintf(text, size, "%g", real_in(&f, record));
        return real_in(&f, record) > 0.0;
    }
    const int64_t whole = whole_in(&f, record);
    if (field->words == NULL) {
        (void)ota_snprintf(text, size, "%" PRId64, whole);
        return whole != 0;
    }
    const char *word = field->words;
    for (int64_t k = 0; k < whole; k++) word += strcspn(word, " ") + 1;
    (void)ota_snprintf(text, size, "%.*s", (int)strcspn(word, " "), word);
    return whole != 0;
}

/* ---- rebind -------------------------------------------------------------------------------------- */

static bool same_shape(const ota_array *a, const ota_array *b) {
    return a->type == b->type && memcmp(a->size, b->size, sizeof a->size) == 0;
}

bool ota_field_rebinds(const ota_field *field, const ota_resolved *old, const ota_resolved *next) {
    const void *a = ota_field_in(field, &old->problem), *b = ota_field_in(field, &next->problem);
    switch (field->rebind) {
    case OTA_REBIND_SAME: return memcmp(a, b, field->bytes) == 0;
    case OTA_REBIND_SHAPE: return same_shape(a, b);
    case OTA_REBIND_ONSET:
        return (real_in(field, &old->problem) > 0.0) == (real_in(field, &next->problem) > 0.0);
    case OTA_REBIND_RULE: return field->same(old, next);
    case OTA_REBIND_FREE:
    case OTA_REBIND_CHOICE:
    case OTA_REBIND_NEVER:
    default: return true;
    }
}

/* ---- ranks --------------------------------------------------------------------------------------- */

static int64_t bits_of(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Which functions there are. */
static int64_t functions_of(const ota_custom *custom) {
    return (custom->weight != NULL) + 2 * (custom->slope != NULL) + 4 * (custom->value != NULL);
}

int64_t ota_field_fact(const ota_field *field, const void *record) {
    if (field->fact != NULL) return field->fact(record);
    switch (field->kind) {
    case OTA_FIELD_ARRAY: return ota_array_present(ota_field_in(field, record));
    case OTA_FIELD_REAL: return bits_of(real_in(field, record));
    case OTA_FIELD_FLAG: return whole_in(field, record) != 0;
    case OTA_FIELD_TEXT: return ota_fact_of_text(text_in(field, record));
    case OTA_FIELD_FUNCTIONS: return functions_of(ota_field_in(field, record));
    case OTA_FIELD_LIST:
    case OTA_FIELD_POINTER: return 0;
    case OTA_FIELD_WHOLE:
    case OTA_FIELD_BITS:
    case OTA_FIELD_SIZE:
    case OTA_FIELD_COUNT:
    case OTA_FIELD_ENUM:
    default: return whole_in(field, record);
    }
}
