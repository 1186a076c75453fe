/* Which method each head of each layer uses: texts METHOD[@PLACE,...], PLACE = L, A-B, L.H, A-B.H, and
 * @FILE, a file of them (methods_file.c). Equal texts share one method, so that heads of a layer that
 * have the same method are solved together. */
#define _POSIX_C_SOURCE 200809L
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {
    int64_t first, last, head; /* head -1: all */
} place;

static bool read_whole(const char **at, int64_t *value) {
    char *end;
    if (**at < '0' || **at > '9') return false;
    errno = 0;
    *value = strtoll(*at, &end, 10);
    *at = end;
    return errno == 0;
}

static bool read_place(const char **at, place *out) {
    out->head = -1;
    if (!read_whole(at, &out->first)) return false;
    out->last = out->first;
    if (**at == '-') {
        ++*at;
        if (!read_whole(at, &out->last)) return false;
    }
    if (**at == '.') {
        ++*at;
        if (!read_whole(at, &out->head)) return false;
    }
    if (**at == ',') {
        ++*at;
        return **at != '\0';
    }
    return **at == '\0';
}

static ota_status assign(ota_session *session, const char *places, int method, ota_error *error) {
    const ota_config *config = &session->model->config;
    const char *at = places;
    if (at == NULL) {
        for (int64_t k = 0; k < config->layers * config->heads; k++)
            session->methods.assigned[k] = (uint16_t)method;
        return OTA_OK;
    }
    do {
        place one;
        if (!read_place(&at, &one)) {
            (void)ota_refuse(error, OTA_EINVAL, "\"%.80s\" is no list of places", places);
            return ota_advise(error, OTA_EINVAL, "write LAYER, FIRST-LAST or LAYER.HEAD");
        }
        if (one.first > one.last || one.last >= config->layers || one.head >= config->heads) {
            (void)ota_refuse(error, OTA_EINVAL, "\"%.80s\" names a layer or head that is not there",
                             places);
            return ota_advise(error, OTA_EINVAL,
                              "the model has layers 0 to %lld of heads 0 to %lld",
                              (long long)config->layers - 1, (long long)config->heads - 1);
        }
        for (int64_t layer = one.first; layer <= one.last; layer++)
            for (int64_t head = 0; head < config->heads; head++)
                if (one.head < 0 || one.head == head)
                    session->methods.assigned[layer * config->heads + head] = (uint16_t)method;
    } while (*at != '\0');
    return OTA_OK;
}

static void start_method(const ota_session_options *options, ota_method *method) {
    *method = (ota_method){.problem = {.size = sizeof(ota_problem)},
                           .options = {.size = sizeof(ota_options)}};
    method->problem.temperature = options->temperature;
    method->options.tolerance = options->tolerance;
    method->options.rounds = options->rounds;
    method->options.max_rounds = options->max_rounds;
}

static ota_status grow_methods(ota_session *session, ota_error *error) {
    if (session->methods.count < session->methods.room) return OTA_OK;
    if (session->methods.count == OTA_METHODS_MOST)
        return ota_refuse(error, OTA_ELIMIT, "more than %d methods at once", OTA_METHODS_MOST - 1);
    const int room = session->methods.room == 0 ? 16 : 2 * session->methods.room;
    ota_method *grown = realloc(session->methods.items, (size_t)room * sizeof *grown);
    if (grown == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for methods");
    session->methods.items = grown;
    session->methods.room = room;
    return OTA_OK;
}

/* The index of the method that `text` spells, parsed when it is new. */
static ota_status find_method(ota_session *session, const ota_session_options *options,
                              const char *text, int *index, ota_error *error) {
    for (*index = 1; *index < session->methods.count; ++*index)
        if (strcmp(session->methods.items[*index].text, text) == 0) return OTA_OK;
    ota_status status = grow_methods(session, error);
    if (status != OTA_OK) return status;
    ota_method *method = &session->methods.items[*index];
    start_method(options, method);
    status = ota_method_parse(text, &method->problem, &method->options, error);
    if (status != OTA_OK) return status;
    method->text = strdup(text);
    if (method->text == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for methods");
    session->methods.count++;
    return OTA_OK;
}

ota_status ota_session_set_method(ota_session *session, const ota_session_options *options,
                                  const char *method, const char *places, ota_error *error) {
    int index;
    const ota_status status = find_method(session, options, method, &index, error);
    return status == OTA_OK ? assign(session, places, index, error) : status;
}

static ota_status add_method(ota_session *session, const ota_session_options *options,
                             const char *text, ota_error *error) {
    if (text[0] == '@') return ota_session_methods_file(session, options, text + 1, error);
    const char *mark = strrchr(text, '@');
    if (mark == NULL) return ota_session_set_method(session, options, text, NULL, error);
    const size_t size = (size_t)(mark - text);
    char *name = malloc(size + 1);
    if (name == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for a method");
    memcpy(name, text, size);
    name[size] = '\0';
    const ota_status status = ota_session_set_method(session, options, name, mark + 1, error);
    free(name);
    return status;
}

/* With later queries able to change earlier rows, a causal model is causal no more. */
static void note_leak(ota_session *session) {
    char name[64];
    for (int k = 0; k < session->methods.count; k++) {
        const ota_problem *problem = &session->methods.items[k].problem;
        const bool leaks =
            problem->columns == OTA_COLUMNS_EXACT || problem->columns == OTA_COLUMNS_RELAXED ||
            problem->columns == OTA_COLUMNS_CAPPED || problem->columns == OTA_COLUMNS_ELASTIC ||
            problem->columns == OTA_COLUMNS_BOUNDED;
        if (!leaks || !session->model->config.scores.causal) continue;
        (void)ota_method_name(problem, name, sizeof name);
        (void)ota_snprintf(
            session->warning, sizeof session->warning,
            "%s couples all rows, so later tokens change the attention of earlier ones; "
            "online and prefix columns do not",
            name);
        return;
    }
}

static ota_status check_cache(const ota_session *session, const ota_session_options *options,
                              ota_error *error) {
    char name[64];
    for (int k = 0; k < session->methods.count && options->cache > 0; k++) {
        const ota_problem *problem = &session->methods.items[k].problem;
        if (problem->columns == OTA_COLUMNS_FREE || problem->columns == OTA_COLUMNS_ONLINE)
            continue;
        (void)ota_method_name(problem, name, sizeof name);
        (void)ota_refuse(error, OTA_UNSUPPORTED,
                         "%s couples all queries, so it cannot run token by token on a cache",
                         name);
        return ota_advise(error, OTA_UNSUPPORTED, "use free or online columns");
    }
    return OTA_OK;
}

ota_status ota_session_methods(ota_session *session, const ota_session_options *options,
                               ota_error *error) {
    const ota_config *config = &session->model->config;
    session->methods.assigned =
        calloc((size_t)(config->layers * config->heads), sizeof *session->methods.assigned);
    if (session->methods.assigned == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a session");
    if (grow_methods(session, error) != OTA_OK) return OTA_ENOMEM;
    start_method(options, &session->methods.items[0]);
    session->methods.count = 1;
    for (int64_t k = 0; k < options->method_count; k++) {
        const ota_status status = add_method(session, options, options->methods[k], error);
        if (status != OTA_OK) return status;
    }
    if (options->window != NULL) {
        session->methods.windowed = true;
        memcpy(session->methods.window, options->window, sizeof session->methods.window);
    }
    if (options->sink != NULL) {
        session->methods.sinking = true;
        session->methods.sink = *options->sink;
    }
    note_leak(session);
    return check_cache(session, options, error);
}

void ota_session_free_methods(ota_session *session) {
    for (int k = 1; k < session->methods.count; k++) free(session->methods.items[k].text);
    free(session->methods.items);
    free(session->methods.assigned);
}
