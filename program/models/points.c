/* Which arrays a run hands over to `otattn capture`: --points by names, --weights and --scores by layers and heads, --receiver. */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "points.h"

static const char pattern_tail[] = "attn.hook_pattern", scores_tail[] = "attn.hook_attn_scores",
                  receiver_tail[] = "attn.hook_receiver", result_tail[] = "attn.hook_result";

static bool has_tail(const char *name, const char *tail) {
    const size_t length = strlen(name), size = strlen(tail);
    return length >= size && strcmp(name + length - size, tail) == 0;
}

/* Embedding, the stream before every layer and after the last, patterns, the last norm. */
static bool is_standard(const char *name, const char *last) {
    return strcmp(name, "hook_embed") == 0 || strcmp(name, "ln_final.hook_normalized") == 0 ||
           has_tail(name, ".hook_resid_pre") || has_tail(name, ".attn.hook_pattern") ||
           strcmp(name, last) == 0;
}

/* Is `name`, or its part behind "blocks.L.", a word of the list? */
static bool is_listed(const char *list, const char *name) {
    const char *tail = name;
    if (strncmp(name, "blocks.", 7) == 0 && strchr(name + 7, '.') != NULL)
        tail = strchr(name + 7, '.') + 1;
    for (const char *at = list; at != NULL && *at != '\0';) {
        const char *comma = strchr(at, ',');
        const size_t size = comma != NULL ? (size_t)(comma - at) : strlen(at);
        if ((strlen(name) == size && strncmp(name, at, size) == 0) ||
            (strlen(tail) == size && strncmp(tail, at, size) == 0))
            return true;
        at = comma != NULL ? comma + 1 : NULL;
    }
    return false;
}

static int refuse_points(cli_context *context, const ota_model *model, const cli_points *points) {
    for (const char *at = context->settings.model.points; at != NULL && *at != '\0';) {
        const char *comma = strchr(at, ',');
        char word[128];
        (void)snprintf(word, sizeof word, "%.*s",
                       (int)(comma != NULL ? comma - at : (ptrdiff_t)strlen(at)), at);
        ota_capture_point point;
        bool found = strcmp(word, "all") == 0 || (points->logits && strcmp(word, "logits") == 0);
        for (int64_t k = 0; !found && ota_model_point(model, k, 1, 1, &point); k++)
            found = is_listed(word, point.name);
        if (!found)
            return cli_refuse_flag(context, "points",
                                   "--points all with --json lists the names of this model",
                                   "the model has no point '%.100s'", word);
        at = comma != NULL ? comma + 1 : NULL;
    }
    return 0;
}

/* ---- heads ---- */

static bool read_span(const char **at, int64_t most, int64_t *first, int64_t *last) {
    char *end;
    if (!isdigit((unsigned char)**at)) return false;
    *first = *last = strtoll(*at, &end, 10);
    if (*end == '-') {
        if (!isdigit((unsigned char)end[1])) return false;
        *last = strtoll(end + 1, &end, 10);
    }
    *at = end;
    return *first <= *last && *last < most;
}

/* L, A-B, L:H, A-B:C-D or all, between commas, into marks [layers, heads]. */
static int read_heads(cli_context *context, const char *field, const char *text,
                      const ota_model_facts *facts, bool **marks) {
    if (text == NULL) return 0;
    *marks = calloc((size_t)(facts->layers * facts->heads), sizeof **marks);
    if (*marks == NULL) return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    for (const char *at = text;; at++) {
        int64_t layer[2] = {0, facts->layers - 1}, head[2] = {0, facts->heads - 1};
        bool good = strncmp(at, "all", 3) == 0;
        if (good)
            at += 3;
        else
            good = read_span(&at, facts->layers, &layer[0], &layer[1]);
        if (good && *at == ':') {
            at++;
            good = read_span(&at, facts->heads, &head[0], &head[1]);
        }
        if (!good || (*at != ',' && *at != '\0')) {
            char hint[128];
            (void)snprintf(hint, sizeof hint,
                           "write LAYER:HEAD, LAYER or FIRST-LAST:HEAD; layers 0 to %" PRId64
                           ", heads 0 to %" PRId64,
                           facts->layers - 1, facts->heads - 1);
            return cli_refuse_flag(context, field, hint, "--%s '%.80s' names no heads of the model",
                                   field, text);
        }
        for (int64_t l = layer[0]; l <= layer[1]; l++)
            for (int64_t h = head[0]; h <= head[1]; h++) (*marks)[l * facts->heads + h] = true;
        if (*at == '\0') return 0;
    }
}

/* The heads of a point that flags choose, NULL for none. */
static const bool *marked(const cli_points *points, const ota_capture_point *point) {
    const bool *all = has_tail(point->name, pattern_tail)  ? points->weights
                      : has_tail(point->name, scores_tail) ? points->scores
                                                           : NULL;
    if (all == NULL || strncmp(point->name, "blocks.", 7) != 0) return NULL;
    const bool *heads = all + point->layer * points->heads;
    for (int64_t h = 0; h < points->heads; h++)
        if (heads[h]) return heads;
    return NULL;
}

/* ---- choice ---- */

static void add_array(cli_points *points, const ota_capture_point *point, ota_type type,
                      const bool *heads) {
    cli_captured *one = &points->items[points->count++];
    *one = (cli_captured){.array = {.type = type, .rank = point->rank, .count = 1}, .heads = heads};
    (void)snprintf(one->array.name, sizeof one->array.name, "%s", point->name);
    for (int d = 0; d < point->rank; d++) {
        one->array.shape[d] = point->shape[d];
        if (heads != NULL && d == 1) {
            one->array.shape[d] = 0;
            for (int64_t h = 0; h < points->heads; h++) one->array.shape[d] += heads[h];
        }
        one->array.count *= (size_t)one->array.shape[d];
    }
}

static void find_last(const ota_model *model, const ota_model_facts *facts, char *last,
                      size_t size) {
    ota_capture_point point;
    (void)snprintf(last, size, "blocks.%" PRId64 ".hook_resid_post", facts->layers - 1);
    for (int64_t k = 0; ota_model_point(model, k, 1, 1, &point); k++)
        if (has_tail(point.name, ".hook_normalized_resid_post"))
            (void)snprintf(last, size, "%s", point.name);
}

int cli_points_choose(cli_context *context, const ota_model *model, const int64_t size[2],
                      int64_t first_layer, ota_type type, cli_points *points) {
    const cli_model_settings *given = &context->settings.model;
    const char *list = given->points;
    const int64_t batch = size[0], count = size[1];
    ota_model_facts facts = {.size = sizeof facts};
    char last[96];
    ota_capture_point point;
    (void)ota_model_describe(model, &facts, NULL);
    points->heads = facts.heads;
    int code = read_heads(context, "weights", given->weights, &facts, &points->weights);
    if (code == 0) code = read_heads(context, "scores", given->scores, &facts, &points->scores);
    if (code != 0) return code;
    find_last(model, &facts, last, sizeof last);
    size_t most = 1;
    for (int64_t k = 0; ota_model_point(model, k, batch, count, &point); k++) most++;
    points->items = calloc(most, sizeof *points->items);
    if (points->items == NULL)
        return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    const bool all = is_listed(list, "all");
    const bool standard =
        list == NULL && given->weights == NULL && given->scores == NULL && !given->receiver;
    points->logits = is_listed(list, "logits") && strcmp(facts.head, "none") != 0;
    if (list != NULL && refuse_points(context, model, points) != 0) return context->error.exit_code;
    for (int64_t k = 0; ota_model_point(model, k, batch, count, &point); k++) {
        const bool *heads = marked(points, &point);
        const bool named =
            (all && !has_tail(point.name, result_tail)) ||
            (standard ? is_standard(point.name, last) : is_listed(list, point.name)) ||
            (given->receiver && has_tail(point.name, receiver_tail));
        if ((named || heads != NULL) && point.layer >= first_layer)
            add_array(points, &point, type, named ? NULL : heads);
    }
    if (points->logits) {
        point = (ota_capture_point){
            .name = "logits", .rank = 3, .shape = {batch, count, facts.vocabulary}};
        add_array(points, &point, type, NULL);
    }
    return 0;
}

void cli_points_free(cli_points *points) {
    free(points->items);
    free(points->weights);
    free(points->scores);
    *points = (cli_points){0};
}
