/* Flags whose value goes into members of ota_options or ota_problem: the flag names them (cli_flag.sets), and kind, words and range
 * are those of their rows (src/problem/fields.h). One name alone takes the value as it was read; a form says how a text is cut:
 *
 *     form   = reading | reading ...    the first that the text reads as
 *     reading = part [: or , part] ...  a part and the mark before it in [ ] may be left out
 *     part   = MEMBER                   a number in the range of its row; of an array, numbers a head to the end of the text
 *            | WORD=MEMBER              that word, one of the member's words or what switches it on
 *            | @MEMBER                  an array in a file, a number for each query or key */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "program/program.h"
#include "src/problem/fields.h"

/* A flag at work. */
typedef struct member_flag {
    cli_context *context;
    const cli_flag *flag;
    cli_problem *problem;
    const char *text;
} member_flag;

typedef struct place {
    const ota_field *field; /* NULL: no member has the name */
    char *member;
} place;

static place place_of(const char *name, size_t length, cli_problem *problem) {
    char copy[64];
    (void)snprintf(copy, sizeof copy, "%.*s", (int)length, name);
    const ota_field *option = ota_field_named(ota_option_fields, copy),
                    *field = option != NULL ? option : ota_field_named(ota_problem_fields, copy);
    if (problem == NULL || field == NULL) return (place){.field = field};
    return (place){field, (option != NULL ? (char *)&problem->options : (char *)&problem->problem) +
                              field->offset};
}

static bool is_form(const cli_flag *flag) { return strpbrk(flag->sets, "|:=@") != NULL; }

static int refuse_range(const member_flag *now, const ota_field *f, double value) {
    char hint[64];
    if (f->kind == OTA_FIELD_REAL && f->open_high)
        (void)snprintf(hint, sizeof hint, "choose a number between %g and %g", f->low, f->high);
    else if (f->kind == OTA_FIELD_REAL && f->high < 1.0e300)
        (void)snprintf(hint, sizeof hint, "use at most %g", f->high);
    else if (f->kind == OTA_FIELD_REAL)
        (void)snprintf(hint, sizeof hint, "choose a number above 0");
    else if (f->high < 1.0e300)
        (void)snprintf(hint, sizeof hint, "use 1 to %g", f->high);
    else
        (void)snprintf(hint, sizeof hint, "use 1 or more");
    const char *name = now->flag->name;
    const bool whole = strchr(now->flag->sets, ':') == NULL;
    return whole ? cli_refuse_flag(now->context, name, hint, "--%s is %g", name, value)
                 : cli_refuse_flag(now->context, name, hint, "%s of --%s is %g", f->name, name,
                                   value);
}

static int index_of(const char *word, size_t length, const char *words) {
    int index = 0;
    for (;; index++) {
        const size_t next = strcspn(words, " ");
        if (next == length && memcmp(words, word, length) == 0) return index;
        if (words[next] == '\0') return 0;
        words += next + 1;
    }
}

/* A number that was given, into a member of its row's kind. */
static void put_whole(const ota_field *f, int64_t value, char *member) {
    const int narrow = (int)value;
    if (f->bytes == sizeof value)
        memcpy(member, &value, sizeof value);
    else
        memcpy(member, &narrow, sizeof narrow);
}

/* ---- values that were read ----------------------------------------------------------------------- */

static int set_member(const member_flag *now, const place *to, const void *given) {
    const ota_field *f = to->field;
    if (f->kind == OTA_FIELD_FLAG) {
        if (*(const bool *)given) put_whole(f, 1, to->member);
    } else if (f->kind == OTA_FIELD_TEXT || f->kind == OTA_FIELD_ENUM) {
        const char *text = *(const char *const *)given;
        if (text == NULL) return 0;
        if (f->kind == OTA_FIELD_TEXT)
            memcpy(to->member, &text, sizeof text);
        else
            put_whole(f, index_of(text, strlen(text), f->words), to->member);
    } else if (f->kind == OTA_FIELD_REAL) {
        const cli_real *real = given;
        if (!real->given) return 0;
        if (f->high > 0.0 && real->value > f->high) return refuse_range(now, f, real->value);
        memcpy(to->member, &real->value, sizeof real->value);
    } else {
        const cli_whole *whole = given;
        if (!whole->given) return 0;
        if (f->high > 0.0 && (double)whole->value > f->high)
            return refuse_range(now, f, (double)whole->value);
        put_whole(f, whole->value, to->member);
    }
    return 0;
}

/* ---- forms --------------------------------------------------------------------------------------- */

/* A part of a form and the piece of the text that it reads. */
typedef struct part {
    const char *word; /* before its =, or NULL */
    size_t word_length;
    bool of_file, may_lack;
    char mark; /* before it, or 0 */
    place to;
    const char *piece;
    size_t length;
} part;

/* The part at `at` of a form; returns what follows. */
static const char *read_part(const char *at, cli_problem *problem, part *found) {
    *found = (part){.may_lack = *at == '['};
    if (found->may_lack) at++;
    if (*at == ':' || *at == ',') found->mark = *at++;
    size_t length = strcspn(at, "=:,|[]");
    if (at[length] == '=') {
        found->word = at;
        found->word_length = length;
        at += length + 1;
        length = strcspn(at, ":,|[]");
    }
    found->of_file = *at == '@';
    if (found->of_file) at++, length--;
    found->to = place_of(at, length, problem);
    at += length;
    return found->may_lack ? at + 1 : at;
}

static bool number_in(const part *p, double *value) {
    char copy[64];
    if (p->length >= sizeof copy) return false;
    (void)snprintf(copy, sizeof copy, "%.*s", (int)p->length, p->piece);
    return cli_number(copy, value) && (p->to.field->kind == OTA_FIELD_REAL ||
                                       (!(*value > floor(*value)) && fabs(*value) <= 0x1p53));
}

/* Does the piece read as the part? */
static bool fits(const part *p) {
    double value;
    if (p->word != NULL)
        return p->length == p->word_length && memcmp(p->piece, p->word, p->length) == 0;
    return p->to.field->kind == OTA_FIELD_ARRAY || number_in(p, &value);
}

static int set_part(const member_flag *now, const part *p) {
    const ota_field *f = p->to.field;
    double value = 0.0;
    if (p->word != NULL) {
        put_whole(f, f->kind == OTA_FIELD_ENUM ? index_of(p->word, p->word_length, f->words) : 1,
                  p->to.member);
        return 0;
    }
    if (f->kind == OTA_FIELD_ARRAY) {
        ota_array *array = (ota_array *)(void *)p->to.member;
        return p->of_file
                   ? cli_load_vector(now->context, now->flag->name, p->piece, array)
                   : cli_head_numbers(now->context, now->flag->name, p->piece, now->problem, array);
    }
    (void)number_in(p, &value);
    /* A 0 of the caller's is no wish for the default. */
    if (f->high > f->low &&
        (!(value > f->low) || value > f->high || (f->open_high && !(value < f->high))))
        return refuse_range(now, f, value);
    if (f->kind == OTA_FIELD_REAL)
        memcpy(p->to.member, &value, sizeof value);
    else
        put_whole(f, (int64_t)value, p->to.member);
    return 0;
}

/* Reads the text by one reading of the form, and where `sets` says so sets its members. *end: where it ends. */
static bool read_as(const member_flag *now, const char *form, const char **end, bool sets,
                    int *code) {
    const char *at = now->text;
    bool reads = true;
    while (*form != '\0' && *form != '|') {
        part next;
        form = read_part(form, now->problem, &next);
        if (!reads || (next.mark != 0 && *at != next.mark && next.may_lack)) continue;
        reads = next.mark == 0 || *at == next.mark;
        if (!reads) continue;
        next.piece = at + (next.mark != 0 ? 1 : 0);
        next.length =
            next.to.field->kind == OTA_FIELD_ARRAY ? strlen(next.piece) : strcspn(next.piece, ":,");
        at = next.piece + next.length;
        reads = fits(&next);
        if (reads && sets && *code == 0) *code = set_part(now, &next);
    }
    *end = form;
    return reads && *at == '\0';
}

static int set_by_form(const member_flag *now) {
    const cli_flag *flag = now->flag;
    int code = 0;
    for (const char *form = flag->sets, *end;; form = end + 1) {
        if (read_as(now, form, &end, false, &code)) {
            (void)read_as(now, form, &end, true, &code);
            return code;
        }
        if (*end == '\0') break;
    }
    char hint[96];
    (void)snprintf(hint, sizeof hint, "write --%s %s", flag->name, flag->form);
    return cli_refuse_flag(now->context, flag->name, hint, "--%s '%.80s' is not %s", flag->name,
                           now->text, flag->form);
}

int cli_set_members(cli_context *context, cli_problem *problem) {
    for (int k = 0; k < cli_flag_count; k++) {
        const cli_flag *flag = &cli_flags[k];
        if (flag->sets == NULL || (flag->commands & context->command->bit) == 0) continue;
        const char *given = (const char *)&problem->settings + flag->offset;
        member_flag now = {context, flag, problem, NULL};
        int code = 0;
        if (is_form(flag)) {
            memcpy(&now.text, given, sizeof now.text);
            if (now.text != NULL) code = set_by_form(&now);
        } else {
            const place to = place_of(flag->sets, strlen(flag->sets), problem);
            code = set_member(&now, &to, given);
        }
        if (code != 0) return code;
    }
    return 0;
}

bool cli_sets_members(const cli_flag *flag) {
    bool all = true;
    for (const char *at = flag->sets; *at != '\0' && all; at += *at == '|') {
        part next;
        at = read_part(at, NULL, &next);
        all = next.to.field != NULL;
    }
    return all;
}

const char *cli_flag_words(const cli_flag *flag) {
    if (flag->choices != NULL || flag->sets == NULL || is_form(flag)) return flag->choices;
    return place_of(flag->sets, strlen(flag->sets), NULL).field->words;
}
