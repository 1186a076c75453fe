/* The method grammar: REGULARISER[/COLUMNS][{option=value,...}] and its aliases, both ways.
 *
 *     regulariser  softmax | entmax[:ALPHA] | sparsemax | hard
 *     columns      free | exact | relaxed:RHO | capped:CAP | elastic[:LAMBDA,STEPS] | prefix | online:CAP */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "problem/problem.h"

typedef struct word_row {
    const char *word;
    int regulariser, columns; /* -1: the word says nothing about it */
    double order;
    int parameters; /* how many numbers may follow the colon */
    int required;   /* how many must */
} word_row;

static const word_row words[] = {
    {"softmax", OTA_SOFTMAX, -1, 0.0, 0, 0},
    {"entmax", OTA_ENTMAX, -1, 1.5, 1, 0},
    {"sparsemax", OTA_ENTMAX, -1, 2.0, 0, 0},
    {"entmax15", OTA_ENTMAX, -1, 1.5, 0, 0},
    {"hard", OTA_HARD, -1, 0.0, 0, 0},
    {"free", -1, OTA_COLUMNS_FREE, 0.0, 0, 0},
    {"exact", -1, OTA_COLUMNS_EXACT, 0.0, 0, 0},
    {"relaxed", -1, OTA_COLUMNS_RELAXED, 0.0, 1, 1},
    {"capped", -1, OTA_COLUMNS_CAPPED, 0.0, 1, 1},
    {"elastic", -1, OTA_COLUMNS_ELASTIC, 0.0, 2, 0},
    {"prefix", -1, OTA_COLUMNS_PREFIX, 0.0, 0, 0},
    {"online", -1, OTA_COLUMNS_ONLINE, 0.0, 1, 1},
    {"sinkhorn", OTA_SOFTMAX, OTA_COLUMNS_EXACT, 0.0, 0, 0},
    {"ceta", OTA_SOFTMAX, OTA_COLUMNS_EXACT, 0.0, 0, 0},
    {"assignment", OTA_HARD, OTA_COLUMNS_EXACT, 0.0, 0, 0},
    {"argmax", OTA_HARD, OTA_COLUMNS_FREE, 0.0, 0, 0},
};
enum { WORDS = (int)(sizeof words / sizeof words[0]) };

static const char *const column_words[] = {"free",    "exact",  "relaxed", "capped",
                                           "elastic", "prefix", "online"};

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

static ota_status unknown_word(const char *text, size_t length, ota_error *error) {
    int best = 99;
    const char *nearest = NULL;
    for (int k = 0; k < WORDS; k++) {
        const int away = distance(text, length, words[k].word);
        if (away < best) {
            best = away;
            nearest = words[k].word;
        }
    }
    char hint[96] = "methods are REGULARISER[/COLUMNS], such as softmax, entmax:1.5/capped:2";
    if (nearest != NULL && best <= 3)
        (void)snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
    return ota_fail(error, OTA_EINVAL, "method", hint, "method '%.*s' is unknown",
                    (int)ota_size_min(length, 60), text);
}

/* A decimal number at *at, locale-free enough: strtod is only handed digits, sign, point, exponent. */
static bool number(const char **at, const char *end, double *value) {
    char copy[48];
    size_t length = 0;
    while (*at + length < end && strchr("0123456789.eE+-", (*at)[length]) != NULL &&
           length < sizeof copy - 1)
        length++;
    if (length == 0) return false;
    memcpy(copy, *at, length);
    copy[length] = '\0';
    char *rest;
    *value = strtod(copy, &rest);
    if (*rest != '\0' || !isfinite(*value)) return false;
    *at += length;
    return true;
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
    if (second && row->regulariser >= 0) {
        return ota_fail(error, OTA_EINVAL, "method",
                        "use one of free exact relaxed capped elastic prefix online",
                        "'%s' is a whole method, not a column rule", row->word);
    }
    *at += length;
    double values[2] = {0.0, 0.0};
    int count = 0;
    if (*at < end && **at == ':') {
        do {
            (*at)++;
            if (count == row->parameters || !number(at, end, &values[count])) {
                return ota_fail(error, OTA_EINVAL, "method", "see the method table",
                                "'%s' takes %d number%s after the colon", row->word,
                                row->parameters, row->parameters == 1 ? "" : "s");
            }
            count++;
        } while (*at < end && **at == ',');
    }
    if (count < row->required) {
        return ota_fail(error, OTA_EINVAL, "method", "write it as word:number",
                        "'%s' needs a number after a colon", row->word);
    }
    ota_problem *p = &out->problem;
    if (!second) p->columns = OTA_COLUMNS_FREE;
    if (row->regulariser >= 0) {
        p->regulariser = (ota_regulariser)row->regulariser;
        p->order = row->regulariser == OTA_ENTMAX ? (count > 0 ? values[0] : row->order) : 0.0;
        if (row->regulariser == OTA_ENTMAX && !(p->order > 1.0)) {
            return ota_fail(error, OTA_EINVAL, "order", "1 < ALPHA; ALPHA = 1 is softmax",
                            "entmax order is %g", p->order);
        }
    } else if (!second) {
        p->regulariser = OTA_SOFTMAX;
        p->order = 0.0;
    }
    if (row->columns < 0) return OTA_OK;
    p->columns = (ota_column_rule)row->columns;
    switch (p->columns) {
    case OTA_COLUMNS_RELAXED: p->strength = values[0]; break;
    case OTA_COLUMNS_CAPPED:
    case OTA_COLUMNS_ONLINE: p->cap = values[0]; break;
    case OTA_COLUMNS_ELASTIC:
        p->lambda = count > 0 ? values[0] : 0.5;
        p->steps = count > 1 ? (int64_t)fmin(fmax(values[1], -1.0), 1.0e15) : 4;
        if (count > 1 && (values[1] < 0.0 || values[1] > floor(values[1]))) {
            return ota_fail(error, OTA_EINVAL, "steps", "use a whole number, 0 or more",
                            "elastic steps are %g", values[1]);
        }
        break;
    default: break;
    }
    if ((p->columns == OTA_COLUMNS_RELAXED && !(p->strength > 0.0)) ||
        ((p->columns == OTA_COLUMNS_CAPPED || p->columns == OTA_COLUMNS_ONLINE) &&
         !(p->cap > 0.0)) ||
        (p->columns == OTA_COLUMNS_ELASTIC && !(p->lambda >= 0.0 && p->lambda < 2.0))) {
        return ota_fail(error, OTA_EINVAL, "method",
                        p->columns == OTA_COLUMNS_ELASTIC ? "0 <= LAMBDA < 2" : "use a number > 0",
                        "'%s' is out of range at %g", row->word, values[0]);
    }
    return OTA_OK;
}

/* ---- braces ----------------------------------------------------------------------------------- */

typedef enum brace_kind { BRACE_REAL, BRACE_COUNT, BRACE_FLAG, BRACE_ANNEAL } brace_kind;

typedef struct brace_row {
    const char *word;
    brace_kind kind;
    bool in_problem;
    size_t offset; /* of the field */
} brace_row;

static const brace_row braces[] = {
    {"temperature", BRACE_REAL, true, offsetof(ota_problem, temperature)},
    {"scale", BRACE_REAL, true, offsetof(ota_problem, scale)},
    {"tolerance", BRACE_REAL, false, offsetof(ota_options, tolerance)},
    {"rounds", BRACE_COUNT, false, offsetof(ota_options, rounds)},
    {"max_rounds", BRACE_COUNT, false, offsetof(ota_options, max_rounds)},
    {"relaxation", BRACE_REAL, false, offsetof(ota_options, relaxation)},
    {"tolerance_scaling", BRACE_REAL, false, offsetof(ota_options, tolerance_scaling)},
    {"prune", BRACE_FLAG, false, offsetof(ota_options, prune)},
    {"anneal", BRACE_ANNEAL, false, offsetof(ota_options, anneal_start)},
};

static ota_status parse_anneal(const char **at, const char *end, ota_options *options) {
    double values[3] = {0.0, 0.0, 0.0};
    int count = 0;
    do {
        if (count > 0) (*at)++;
        if (count == 3 || !number(at, end, &values[count])) return OTA_EINVAL;
        count++;
    } while (*at < end && **at == ':');
    if (!(values[0] > 0.0) || values[2] < 0.0 || values[2] > 1.0e15) return OTA_EINVAL;
    options->anneal_start = values[0];
    options->anneal_factor = values[1];
    options->anneal_rounds = (int64_t)values[2];
    return OTA_OK;
}

static ota_status parse_brace(const brace_row *row, const char **at, const char *end, parsed *out) {
    char *base = row->in_problem ? (char *)&out->problem : (char *)&out->options;
    double value = 1.0;
    const bool given = *at < end && **at == '=';
    if (given)
        (*at)++;
    else if (row->kind != BRACE_FLAG)
        return OTA_EINVAL;
    if (!row->in_problem) out->touched_options = true;
    if (row->kind == BRACE_ANNEAL) return parse_anneal(at, end, &out->options);
    if (given && !number(at, end, &value)) return OTA_EINVAL;
    if (row->kind == BRACE_REAL) {
        if (!(value > 0.0)) return OTA_EINVAL;
        memcpy(base + row->offset, &value, sizeof value);
    } else if (row->kind == BRACE_FLAG) {
        const int flag = value > 0.0;
        memcpy(base + row->offset, &flag, sizeof flag);
    } else {
        if (!(value >= 0.0 && value <= 1.0e15) || value > floor(value)) return OTA_EINVAL;
        int64_t whole = (int64_t)value;
        if (whole == 0 && row->offset == offsetof(ota_options, rounds)) whole = OTA_NO_ROUNDS;
        memcpy(base + row->offset, &whole, sizeof whole);
    }
    return OTA_OK;
}

static ota_status parse_braces(const char **at, const char *end, parsed *out, ota_error *error) {
    do {
        (*at)++;
        const char *start = *at;
        size_t length = 0;
        while (start + length < end && strchr("=,}", start[length]) == NULL) length++;
        const brace_row *row = NULL;
        for (size_t k = 0; k < sizeof braces / sizeof braces[0]; k++) {
            if (strlen(braces[k].word) == length && memcmp(braces[k].word, start, length) == 0)
                row = &braces[k];
        }
        if (row == NULL) {
            return ota_fail(
                error, OTA_EINVAL, "method", "see the list of braces options in 'help methods'",
                "'%.*s' is not an option of a method", (int)ota_size_min(length, 40), start);
        }
        *at += length;
        if (parse_brace(row, at, end, out) != OTA_OK) {
            return ota_fail(error, OTA_EINVAL, row->word, "write it as option=value",
                            "option '%s' has a bad value in '%.60s'", row->word, start);
        }
    } while (*at < end && **at == ',');
    if (*at == end || **at != '}') {
        return ota_fail(error, OTA_EINVAL, "method", "close the braces",
                        "the braces of a method do not end at '%.40s'", *at);
    }
    (*at)++;
    return OTA_OK;
}

ota_status ota_method_parse(const char *text, ota_problem *problem, ota_options *options,
                            ota_error *error) {
    if (text == NULL || problem == NULL) {
        return ota_fail(error, OTA_EINVAL, text == NULL ? "method" : "problem", "give it",
                        "%s is NULL", text == NULL ? "method" : "problem");
    }
    if (problem->size < sizeof *problem || (options != NULL && options->size < sizeof *options)) {
        return ota_fail(error, OTA_EINVAL, "size", "set it to sizeof the struct",
                        "size of %s is too small",
                        problem->size < sizeof *problem ? "problem" : "options");
    }
    parsed out = {.problem = *problem};
    if (options != NULL) out.options = *options;
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
    *problem = out.problem;
    if (options != NULL) *options = out.options;
    return OTA_OK;
}

/* Shortest decimal text that reads back as the same double. */
static void shortest(double value, char *text, size_t size) {
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, size, "%.*g", digits, value);
        const double back = strtod(text, NULL);
        if (!(back < value) && !(back > value)) return;
    }
}

size_t ota_method_name(const ota_problem *problem, char *text, size_t text_size) {
    char name[160], a[40], b[40];
    size_t length = 0;
    const double order = problem->order > 1.0 ? problem->order : 1.5;
    if (problem->regulariser == OTA_ENTMAX) {
        shortest(order, a, sizeof a);
        if (order >= 2.0 && order <= 2.0)
            length += (size_t)snprintf(name, sizeof name, "sparsemax");
        else
            length += (size_t)snprintf(name, sizeof name, "entmax:%s", a);
    } else {
        length += (size_t)snprintf(name, sizeof name, "%s",
                                   problem->regulariser == OTA_HARD     ? "hard"
                                   : problem->regulariser == OTA_CUSTOM ? "custom"
                                                                        : "softmax");
    }
    if (problem->columns != OTA_COLUMNS_FREE && problem->columns <= OTA_COLUMNS_ONLINE) {
        length += (size_t)snprintf(name + length, sizeof name - length, "/%s",
                                   column_words[problem->columns]);
        if (problem->columns == OTA_COLUMNS_ELASTIC) {
            shortest(problem->lambda, a, sizeof a);
            (void)snprintf(b, sizeof b, "%" PRId64, problem->steps);
            length += (size_t)snprintf(name + length, sizeof name - length, ":%s,%s", a, b);
        } else if (problem->columns == OTA_COLUMNS_RELAXED ||
                   problem->columns == OTA_COLUMNS_CAPPED ||
                   problem->columns == OTA_COLUMNS_ONLINE) {
            shortest(problem->columns == OTA_COLUMNS_RELAXED ? problem->strength : problem->cap, a,
                     sizeof a);
            length += (size_t)snprintf(name + length, sizeof name - length, ":%s", a);
        }
    }
    if (text != NULL && text_size > 0) (void)snprintf(text, text_size, "%s", name);
    return length;
}
