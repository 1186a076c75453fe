/* --edit: what a run changes at a point before it goes on, by the grammar
 *
 *     POINT[RANGE,...]OP        several between semicolons
 *     RANGE   sequence=, token=, head=, column= (or key=) with N or N-M, counted from 0; token=-1 is the last one
 *     OP      *=NUMBER    =NUMBER    +=NUMBER    =mean    =@FILE    +=@FILE
 *
 * An array of a file that has all of a point, as `capture` writes it, gives its part of the ranges. */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "edits.h"

static const char grammar[] =
    "write POINT[head=2,token=0-4]*=0, or =NUMBER, +=NUMBER, =mean, =@FILE, +=@FILE";

static int refuse(cli_context *context, const char *text, const char *why) {
    return cli_refuse_flag(context, "edit", grammar, "--edit '%.100s' %s", text, why);
}

/* ---- one edit ---- */

static bool read_whole(const char **at, int64_t *value) {
    char *end;
    const bool negative = **at == '-';
    if (!isdigit((unsigned char)(*at)[negative ? 1 : 0])) return false;
    *value = strtoll(*at, &end, 10);
    *at = end;
    return *value < INT64_C(1) << 40 && *value > -(INT64_C(1) << 40);
}

/* "head=2" or "token=3-7" at *at, up to a comma or the bracket. */
static bool read_range(const char **at, int64_t count, ota_edit *edit) {
    const struct {
        const char *word;
        ota_range *range;
    } words[] = {{"sequence=", &edit->sequences},
                 {"token=", &edit->tokens},
                 {"head=", &edit->heads},
                 {"column=", &edit->columns},
                 {"key=", &edit->columns}};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        const size_t size = strlen(words[k].word);
        if (strncmp(*at, words[k].word, size) != 0) continue;
        int64_t first, last;
        *at += size;
        if (!read_whole(at, &first)) return false;
        last = first;
        if (**at == '-') {
            ++*at;
            if (!read_whole(at, &last)) return false;
        }
        if (words[k].range == &edit->tokens) {
            first += first < 0 ? count : 0;
            last += last < 0 ? count : 0;
        }
        *words[k].range = (ota_range){first, last - first + 1};
        return first >= 0 && last >= first;
    }
    return false;
}

static bool read_ranges(const char **at, int64_t count, ota_edit *edit) {
    if (**at != '[') return true;
    do {
        ++*at;
        if (!read_range(at, count, edit)) return false;
    } while (**at == ',');
    return *(*at)++ == ']';
}

/* Full sizes of the point in the order of the file's dimensions, aligned from the right; false: not known here. */
static bool find_shape(const ota_model *model, const char *name, const cli_run_size *size,
                       ota_capture_point *point) {
    for (int64_t k = 0; ota_model_point(model, k, size->batch, size->count, point); k++) {
        const char *tail =
            strncmp(point->name, "blocks.", 7) == 0 ? strchr(point->name + 7, '.') : NULL;
        if (strcmp(point->name, name) == 0 || (tail != NULL && strcmp(tail + 1, name) == 0))
            return true;
    }
    return false;
}

/* An array of the whole point gives what lies in the ranges. */
static void cut(const ota_capture_point *point, ota_edit *edit) {
    const bool pairs = strstr(point->name, "hook_pattern") != NULL ||
                       strstr(point->name, "hook_attn_scores") != NULL;
    const ota_range *ranges[4] = {&edit->sequences, &edit->tokens, NULL, &edit->columns};
    if (point->rank == 4) {
        ranges[1] = pairs ? &edit->heads : &edit->tokens;
        ranges[2] = pairs ? &edit->tokens : &edit->heads;
    } else {
        ranges[2] = NULL;
    }
    int used = 0;
    for (int k = 0; k < 4; k++) {
        if (point->rank == 3 && k == 2) continue;
        const int axis = 4 - point->rank + used;
        const int64_t full = point->shape[used++];
        ota_array *values = &edit->values;
        if (values->size[axis] != full || full == 1 || ranges[k]->first >= full) continue;
        const int64_t count = ranges[k]->count > 0 ? ranges[k]->count : full - ranges[k]->first;
        if (count > full - ranges[k]->first) continue;
        values->data = (float *)values->data + ranges[k]->first * values->stride[axis];
        values->size[axis] = count;
    }
}

static int read_values(cli_context *context, const ota_model *model, const cli_run_size *size,
                       const char *spec, ota_edit *edit) {
    const cli_array *array;
    ota_capture_point point;
    const int code = cli_load(context, "edit", spec, OTA_F32, &array);
    if (code != 0) return code;
    if (array->rank > 4)
        return cli_refuse_flag(context, "edit", "give at most four", "'%.100s' has %d dimensions",
                               spec, array->rank);
    edit->values = cli_aligned(array);
    if (find_shape(model, edit->point, size, &point)) cut(&point, edit);
    return 0;
}

/* What is behind the ranges. */
static int read_operation(cli_context *context, const ota_model *model, const cli_run_size *size,
                          const char *text, cli_one_edit *one) {
    ota_edit *edit = &one->edit;
    double number;
    const char *value = strchr(text, '=') != NULL ? strchr(text, '=') + 1 : text;
    if (value != text + (text[0] == '=' ? 1 : 2) || strchr("=*+", text[0]) == NULL)
        return refuse(context, one->text, "does not say what becomes of the point");
    const bool file = value[0] == '@', add = text[0] == '+';
    if (text[0] == '=' && strcmp(value, "mean") == 0) {
        edit->kind = OTA_EDIT_MEAN;
        return 0;
    }
    if (file && text[0] != '*') {
        edit->kind = add ? OTA_EDIT_ADD : OTA_EDIT_REPLACE;
        edit->factor = 1;
        return read_values(context, model, size, value + 1, edit);
    }
    if (file || !cli_number(value, &number) || number > 3e38 || number < -3e38)
        return refuse(context, one->text, "has no number where one is due");
    edit->kind = text[0] == '*' ? OTA_EDIT_SCALE : add ? OTA_EDIT_ADD : OTA_EDIT_REPLACE;
    edit->factor = text[0] == '*' ? number : 1;
    one->number = (float)number;
    if (text[0] != '*') edit->values = ota_array_of(&one->number, OTA_F32, 1, 1, 1, 1);
    return 0;
}

static int read_edit(cli_context *context, const ota_model *model, const cli_run_size *size,
                     cli_one_edit *one) {
    const size_t length = strcspn(one->text, "[=*+");
    const char *at = one->text + length;
    if (length == 0) return refuse(context, one->text, "names no point");
    one->edit = (ota_edit){.size = sizeof one->edit};
    one->name = cli_copy(one->text, length);
    if (one->name == NULL)
        return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    one->edit.point = one->name;
    if (!read_ranges(&at, size->count, &one->edit))
        return refuse(context, one->text, "has no list of ranges in its brackets");
    return read_operation(context, model, size, at, one);
}

/* ---- all ---- */

static int split(cli_context *context, cli_edits *edits) {
    const cli_list *given = &context->settings.model.edits;
    for (int k = 0; k < given->count; k++) {
        const char *at = given->items[k];
        for (;;) {
            const size_t size = strcspn(at, ";");
            cli_one_edit *grown = realloc(edits->items, (size_t)(edits->count + 1) * sizeof *grown);
            if (grown == NULL)
                return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
            edits->items = grown;
            cli_one_edit *one = &edits->items[edits->count];
            *one = (cli_one_edit){.text = cli_copy(at, size)};
            if (one->text == NULL)
                return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
            edits->count++;
            if (at[size] == '\0') break;
            at += size + 1;
        }
    }
    return 0;
}

int cli_edits_read(cli_context *context, const ota_model *model, const cli_run_size *size,
                   cli_edits *edits) {
    *edits = (cli_edits){0};
    int code = split(context, edits);
    for (int64_t k = 0; code == 0 && k < edits->count; k++)
        code = read_edit(context, model, size, &edits->items[k]);
    if (code == 0 && edits->count > 0) {
        edits->list = calloc((size_t)edits->count, sizeof *edits->list);
        if (edits->list == NULL)
            code = cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    }
    for (int64_t k = 0; code == 0 && k < edits->count; k++) edits->list[k] = edits->items[k].edit;
    if (code != 0) cli_edits_free(edits);
    return code;
}

void cli_edits_free(cli_edits *edits) {
    for (int64_t k = 0; k < edits->count; k++) {
        free(edits->items[k].text);
        free(edits->items[k].name);
    }
    free(edits->items);
    free(edits->list);
    *edits = (cli_edits){0};
}
