/* The method grammar: REGULARISER[/COLUMNS][{option=value,...}] and its aliases, both ways.
 *
 *     regulariser  softmax | entmax[:ALPHA] | sparsemax | hard
 *     columns      free | exact | relaxed:RHO | capped:CAP | elastic[:LAMBDA,STEPS] | bounded:LO,HI | prefix | online:CAP */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/integers.h"
#include "base/sized.h"
#include "columns/columns.h"
#include "problem/check.h"
#include "problem/fields.h"

typedef struct word_row {
    const char *word;
    int regulariser, columns; /* -1: the word says nothing about it */
    double order;             /* of a regulariser; where it is not 0, it may follow the colon */
    bool numbered;
} word_row;

static const word_row words[] = {
    {"softmax", OTA_SOFTMAX, -1, 0.0, false},
    {"entmax", OTA_ENTMAX, -1, 1.5, true},
    {"sparsemax", OTA_ENTMAX, -1, 2.0, false},
    {"entmax15", OTA_ENTMAX, -1, 1.5, false},
    {"hard", OTA_HARD, -1, 0.0, false},
    {"free", -1, OTA_COLUMNS_FREE, 0.0, false},
    {"exact", -1, OTA_COLUMNS_EXACT, 0.0, false},
    {"relaxed", -1, OTA_COLUMNS_RELAXED, 0.0, false},
    {"capped", -1, OTA_COLUMNS_CAPPED, 0.0, false},
    {"elastic", -1, OTA_COLUMNS_ELASTIC, 0.0, false},
    {"prefix", -1, OTA_COLUMNS_PREFIX, 0.0, false},
    {"online", -1, OTA_COLUMNS_ONLINE, 0.0, false},
    {"bounded", -1, OTA_COLUMNS_BOUNDED, 0.0, false},
    {"sinkhorn", OTA_SOFTMAX, OTA_COLUMNS_EXACT, 0.0, false},
    {"ceta", OTA_SOFTMAX, OTA_COLUMNS_EXACT, 0.0, false},
    {"assignment", OTA_HARD, OTA_COLUMNS_EXACT, 0.0, false},
    {"argmax", OTA_HARD, OTA_COLUMNS_FREE, 0.0, false},
};
enum { WORDS = (int)(sizeof words / sizeof words[0]) };

static const char *const column_words[] = {"free",    "exact",  "relaxed", "capped",
                                           "elastic", "prefix", "online",  "bounded"};

/* Levenshtein distance of short words, for did-you-mean. */
static int distance(const char *a, size_t length_a, const char *b) {
    int row[32];
    const size_t length_b = strlen(b);
    if (length_a > 30 || length_b > 30) return 99;
    for (size_t j = 0; j <= length_b; j++) row[j] = (int)j;
    for (size_t i = 1; i <= length_a; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= length_b; j++) {
            const int change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            const int shift = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = change < shift ? change : shift;
        }
    }
    return row[length_b];
}

/* The word that a text may have meant: the nearest of `count` words, the first members of rows of `size` bytes, at most
 * three letters away; NULL where none is near. */
static const char *meant(const char *text, size_t length, const void *rows, size_t size,
                         size_t count) {
    int best = 4;
    const char *nearest = NULL;
    for (size_t k = 0; k < count; k++) {
        const char *word;
        memcpy(&word, (const char *)rows + k * size, sizeof word);
        const int away = distance(text, length, word);
        if (away < best) {
            best = away;
            nearest = word;
        }
    }
    return nearest;
}

static ota_status unknown_word(const char *text, size_t length, ota_error *error) {
    const char *nearest = meant(text, length, words, sizeof *words, WORDS);
    char hint[96] = "methods are REGULARISER[/COLUMNS], such as softmax, entmax:1.5/capped:2";
    if (nearest != NULL) (void)ota_snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
    return ota_fail(error, OTA_EINVAL, "method", hint, "method '%.*s' is unknown",
                    (int)ota_size_min(length, 60), text);
}

/* A decimal number at *at: ota_strtod is only handed digits, sign, point, exponent. */
static bool number(const char **at, const char *end, double *value) {
    char copy[48];
    size_t length = 0;
    while (*at + length < end && strchr("0123456789.eE+-", (*at)[length]) != NULL &&
           length < sizeof copy - 1)
        length++;
    /* A number that does not fit may go on. */
    if (length == 0 || length == sizeof copy - 1) return false;
    memcpy(copy, *at, length);
    copy[length] = '\0';
    char *rest;
    *value = ota_strtod(copy, &rest);
    if (*rest != '\0' || !isfinite(*value)) return false;
    *at += length;
    return true;
}

/* How many bytes a refusal quotes of a number at `at`: as far as it goes, at most 40. */
static int token(const char *at, const char *end) {
    int length = 0;
    while (at + length < end && length < 40 && strchr(":,/{}", at[length]) == NULL) length++;
    return length;
}

typedef struct parsed {
    ota_problem problem;
    ota_options options;
    bool touched_options;
} parsed;

static ota_status parse_word(const char **at, const char *end, bool second, parsed *out,
                             ota_error *error) {
    const char *start = *at;
    size_t length = 0;
    while (start + length < end && strchr(":/{", start[length]) == NULL) length++;
    const word_row *row = NULL;
    for (int k = 0; k < WORDS; k++) {
        if (strlen(words[k].word) == length && memcmp(words[k].word, start, length) == 0)
            row = &words[k];
    }
    if (row == NULL) return unknown_word(start, length, error);
    if (second && row->columns < 0) {
        return ota_fail(error, OTA_EINVAL, "method", "write REGULARISER/COLUMNS",
                        "'%s' is not a column rule", row->word);
    }
    if (!second && row->columns >= 0 && start + length < end) {
        /* Its own column rule would be lost. */
        const char *slash = memchr(start + length, '/', (size_t)(end - start) - length);
        const char *brace = memchr(start + length, '{', (size_t)(end - start) - length);
        if (slash != NULL && (brace == NULL || slash < brace)) {
            return ota_fail(error, OTA_EINVAL, "method",
                            "write REGULARISER/COLUMNS, such as softmax/exact, or the word alone",
                            "'%s' names a column rule already and takes no '%.*s'", row->word,
                            (int)ota_size_min((size_t)(end - slash), 40), slash);
        }
    }
    if (second && row->regulariser >= 0) {
        return ota_fail(error, OTA_EINVAL, "method",
                        "use one of free exact relaxed capped bounded elastic prefix online",
                        "'%s' is a whole method, not a column rule", row->word);
    }
    *at += length;
    const ota_rule_parameter *parameters =
        ota_rule_parameters(row->columns >= 0 ? (ota_column_rule)row->columns : OTA_COLUMNS_FREE);
    int most = row->numbered ? 1 : 0, least = 0;
    for (const ota_rule_parameter *p = parameters; p->name != NULL; p++) {
        most++;
        least += isnan(p->otherwise);
    }
    double values[OTA_RULE_PARAMETERS] = {0.0};
    int count = 0;
    if (*at < end && **at == ':') {
        do {
            (*at)++;
            const char *given = *at;
            if (count == most) {
                return ota_fail(error, OTA_EINVAL, "method", "see the method table",
                                "'%s' takes %d number%s after the colon", row->word, most,
                                most == 1 ? "" : "s");
            }
            if (!number(at, end, &values[count])) {
                return ota_fail(error, OTA_EINVAL, "method",
                                "write a finite number, or leave out a bound that should not hold",
                                "'%s' takes %d number%s after the colon, not '%.*s'", row->word,
                                most, most == 1 ? "" : "s", token(given, end), given);
            }
            count++;
        } while (*at < end && **at == ',');
    }
    if (count < least) {
        return ota_fail(error, OTA_EINVAL, "method",
                        least > 1 ? "write it as word:number,number" : "write it as word:number",
                        "'%s' needs %s after a colon", row->word,
                        least > 1 ? "two numbers" : "a number");
    }
    ota_problem *p = &out->problem;
    if (!second) p->columns = OTA_COLUMNS_FREE;
    if (row->regulariser >= 0) {
        p->regulariser = (ota_regulariser)row->regulariser;
        p->order = row->regulariser == OTA_ENTMAX ? (count > 0 ? values[0] : row->order) : 0.0;
        if (row->regulariser == OTA_ENTMAX &&
            !(p->order > 0.0 && (p->order < 1.0 || p->order > 1.0))) {
            return ota_fail(error, OTA_EINVAL, "order", "0 < ALPHA, but not 1, which is softmax",
                            "entmax order is %g", p->order);
        }
    } else if (!second) {
        p->regulariser = OTA_SOFTMAX;
        p->order = 0.0;
    }
    if (row->columns < 0) return OTA_OK;
    p->columns = (ota_column_rule)row->columns;
    for (int k = 0; parameters[k].name != NULL; k++) {
        const double value = k < count ? values[k] : parameters[k].otherwise;
        char *field = (char *)p + parameters[k].problem;
        if (!parameters[k].count) {
            memcpy(field, &value, sizeof value);
            continue;
        }
        const int64_t whole = (int64_t)fmin(fmax(value, -1.0), 1.0e15);
        memcpy(field, &whole, sizeof whole);
        if (value < 0.0 || value > floor(value)) {
            return ota_fail(error, OTA_EINVAL, parameters[k].name, "use a whole number, 0 or more",
                            "%s %s are %g", row->word, parameters[k].name, value);
        }
    }
    const char *wrong = ota_rule_values_wrong(p);
    if (wrong != NULL) {
        return ota_fail(error, OTA_EINVAL, "method", wrong, "'%s' is out of range at %g", row->word,
                        values[0]);
    }
    return OTA_OK;
}

/* ---- braces ----------------------------------------------------------------------------------- */

/* A row of fields.c by its word in braces. */
typedef struct brace {
    const char *word;
    const ota_field *field;
    bool in_problem, given;
} brace;

enum { BRACES = OTA_PROBLEM_FIELDS + OTA_OPTION_FIELDS };

static int list_braces(brace braces[BRACES]) {
    static const ota_field *const tables[] = {ota_option_fields, ota_problem_fields};
    int count = 0;
    for (int in_problem = 1; in_problem >= 0; in_problem--) {
        for (const ota_field *f = tables[in_problem]; f->name != NULL; f++) {
            if (f->brace == NULL) continue;
            braces[count++] = (brace){.word = f->brace, .field = f, .in_problem = in_problem == 1};
        }
    }
    return count;
}

static bool is_anneal(const ota_field *f) {
    return f->brace != NULL && strcmp(f->brace, "anneal") == 0;
}

static bool parse_anneal(const char **at, const char *end, ota_options *options) {
    double values[3] = {0.0, 0.0, 0.0};
    int count = 0;
    do {
        if (count > 0) (*at)++;
        if (count == 3 || !number(at, end, &values[count])) return false;
        count++;
    } while (*at < end && **at == ':');
    if (!(values[0] > 0.0) || values[2] < 0.0 || values[2] > 1.0e15) return false;
    options->anneal_start = values[0];
    options->anneal_factor = values[1];
    options->anneal_rounds = (int64_t)values[2];
    return true;
}

/* Puts the value of an option at *at into its field; false where it is none of the option's. */
static bool parse_brace(const brace *row, const char **at, const char *end, parsed *out) {
    const ota_field *f = row->field;
    char *field = (row->in_problem ? (char *)&out->problem : (char *)&out->options) + f->offset;
    double value = 1.0;
    const bool given = *at < end && **at == '=';
    if (given)
        (*at)++;
    else if (f->kind != OTA_FIELD_FLAG)
        return false;
    if (!row->in_problem) out->touched_options = true;
    if (is_anneal(f)) return parse_anneal(at, end, &out->options);
    if (given && !number(at, end, &value)) return false;
    if (f->kind == OTA_FIELD_REAL) {
        if (!(value > 0.0)) return false;
        memcpy(field, &value, sizeof value);
    } else if (f->kind == OTA_FIELD_FLAG) {
        const int flag = value > 0.0;
        if ((double)flag < value || (double)flag > value) return false;
        memcpy(field, &flag, sizeof flag);
    } else {
        if (!(value >= 0.0 && value <= 1.0e15) || value > floor(value)) return false;
        int64_t whole = (int64_t)value;
        if (whole == 0 && f->offset == offsetof(ota_options, rounds)) whole = OTA_NO_ROUNDS;
        memcpy(field, &whole, sizeof whole);
    }
    return true;
}

static const char *hint_of(const ota_field *f) {
    if (is_anneal(f)) return "write START:FACTOR[:ROUNDS] with START > 0 and a whole ROUNDS";
    if (f->kind == OTA_FIELD_REAL) return "give a number > 0";
    return f->kind == OTA_FIELD_FLAG ? "give 0 or 1, or the word alone"
                                     : "give a whole number, 0 or more, at most 1e15";
}

static ota_status bad_value(const brace *row, const char *value, const char *end,
                            ota_error *error) {
    int length = 0;
    while (value + length < end && length < 40 && strchr(",}", value[length]) == NULL) length++;
    if (length == 0 || *value != '=') {
        return ota_fail(error, OTA_EINVAL, row->word, hint_of(row->field),
                        "option '%s' has no value", row->word);
    }
    return ota_fail(error, OTA_EINVAL, row->word, hint_of(row->field), "option '%s' is '%.*s'",
                    row->word, length - 1, value + 1);
}

static ota_status parse_braces(const char **at, const char *end, parsed *out, ota_error *error) {
    brace braces[BRACES] = {{.word = NULL}};
    const int count = list_braces(braces);
    do {
        (*at)++;
        const char *start = *at;
        size_t length = 0;
        while (start + length < end && strchr("=,}", start[length]) == NULL) length++;
        brace *row = NULL;
        for (int k = 0; k < count; k++) {
            if (strlen(braces[k].word) == length && memcmp(braces[k].word, start, length) == 0)
                row = &braces[k];
        }
        if (row == NULL) {
            const char *nearest = meant(start, length, braces, sizeof *braces, (size_t)count);
            char hint[96] = "see the options of braces in 'help methods'";
            if (nearest != NULL && length > 0)
                (void)ota_snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
            return ota_fail(error, OTA_EINVAL, "method", hint,
                            "'%.*s' is not an option of a method", (int)ota_size_min(length, 40),
                            start);
        }
        if (row->given) {
            return ota_fail(error, OTA_EINVAL, row->word, "give it once",
                            "option '%s' is given twice", row->word);
        }
        row->given = true;
        *at += length;
        if (!parse_brace(row, at, end, out)) return bad_value(row, start + length, end, error);
    } while (*at < end && **at == ',');
    if (*at == end || **at != '}') {
        return ota_fail(error, OTA_EINVAL, "method", "close the braces",
                        "the braces of a method do not end at '%.40s'", *at);
    }
    (*at)++;
    return OTA_OK;
}

static ota_status too_small(const char *name, ota_error *error) {
    return ota_fail(error, OTA_EINVAL, "size", "set it to sizeof the struct of a header as new",
                    "size of %s is too small", name);
}

/* Is all that is set within the struct of the caller, whose header may be older? */
static bool has_room(const void *own, size_t ours, size_t theirs) {
    for (size_t k = theirs; k < ours; k++) {
        if (((const unsigned char *)own)[k] != 0) return false;
    }
    return true;
}

ota_status ota_method_parse(const char *text, ota_problem *problem, ota_options *options,
                            ota_error *error) {
    if (text == NULL || problem == NULL) {
        return ota_fail(error, OTA_EINVAL, text == NULL ? "method" : "problem", "give it",
                        "%s is NULL", text == NULL ? "method" : "problem");
    }
    if (problem->size < sizeof problem->size ||
        (options != NULL && options->size < sizeof options->size))
        return too_small(problem->size < sizeof problem->size ? "problem" : "options", error);
    parsed out = {.touched_options = false};
    TRY(ota_check_sized(&out.problem, sizeof out.problem, problem, problem->size, "problem.size",
                        error));
    if (options != NULL)
        TRY(ota_check_sized(&out.options, sizeof out.options, options, options->size,
                            "options.size", error));
    const char *at = text, *end = text + strlen(text);
    ota_status status = parse_word(&at, end, false, &out, error);
    if (status != OTA_OK) return status;
    if (at < end && *at == '/') {
        at++;
        status = parse_word(&at, end, true, &out, error);
        if (status != OTA_OK) return status;
    }
    if (at < end && *at == '{') {
        status = parse_braces(&at, end, &out, error);
        if (status != OTA_OK) return status;
    }
    if (at != end) {
        return ota_fail(error, OTA_EINVAL, "method", "write REGULARISER[/COLUMNS][{option=value}]",
                        "method '%.80s' has '%.40s' left over", text, at);
    }
    if (out.touched_options && options == NULL) {
        return ota_fail(error, OTA_EINVAL, "options", "give options",
                        "method '%.80s' sets options but options is NULL", text);
    }
    if (!has_room(&out.problem, sizeof out.problem, problem->size))
        return too_small("problem", error);
    if (options != NULL && !has_room(&out.options, sizeof out.options, options->size))
        return too_small("options", error);
    ota_sized_write(problem, problem->size, &out.problem, sizeof out.problem);
    if (options != NULL) ota_sized_write(options, options->size, &out.options, sizeof out.options);
    return OTA_OK;
}

/* Shortest decimal text that reads back as the same double. */
static void shortest(double value, char *text, size_t size) {
    for (int digits = 1; digits <= 17; digits++) {
        (void)ota_snprintf(text, size, "%.*g", digits, value);
        const double back = ota_strtod(text, NULL);
        if (!(back < value) && !(back > value)) return;
    }
}

size_t ota_method_name(const ota_problem *given, char *text, size_t text_size) {
    ota_problem own;
    /* Of an older caller, what its struct holds. */
    (void)ota_sized_read(&own, sizeof own, given, given->size > 0 ? given->size : sizeof own);
    const ota_problem *problem = &own;
    char name[160], a[40];
    size_t length = 0;
    const double order = problem->order > 0.0 ? problem->order : 1.5;
    if (problem->regulariser == OTA_ENTMAX) {
        shortest(order, a, sizeof a);
        if (order >= 2.0 && order <= 2.0)
            length += (size_t)ota_snprintf(name, sizeof name, "sparsemax");
        else
            length += (size_t)ota_snprintf(name, sizeof name, "entmax:%s", a);
    } else {
        length += (size_t)ota_snprintf(name, sizeof name, "%s",
                                       problem->regulariser == OTA_HARD     ? "hard"
                                       : problem->regulariser == OTA_CUSTOM ? "custom"
                                                                            : "softmax");
    }
    if (problem->columns != OTA_COLUMNS_FREE && problem->columns <= OTA_COLUMNS_BOUNDED) {
        length += (size_t)ota_snprintf(name + length, sizeof name - length, "/%s",
                                       column_words[problem->columns]);
        const ota_rule_parameter *parameters = ota_rule_parameters(problem->columns);
        for (int k = 0; parameters[k].name != NULL; k++) {
            const char *field = (const char *)problem + parameters[k].problem;
            double value;
            int64_t whole;
            if (parameters[k].count) {
                memcpy(&whole, field, sizeof whole);
                (void)ota_snprintf(a, sizeof a, "%" PRId64, whole);
            } else {
                memcpy(&value, field, sizeof value);
                shortest(value, a, sizeof a);
            }
            length += (size_t)ota_snprintf(name + length, sizeof name - length, "%c%s",
                                           k == 0 ? ':' : ',', a);
        }
    }
    if (problem->entry_cap > 0.0) {
        shortest(problem->entry_cap, a, sizeof a);
        length += (size_t)ota_snprintf(name + length, sizeof name - length, "{entry_cap=%s}", a);
    }
    if (text != NULL && text_size > 0) (void)ota_snprintf(text, text_size, "%s", name);
    return length;
}
