/* Which method each head of each layer uses: texts METHOD[@PLACE,...], PLACE = L, A-B, L.H, A-B.H. */
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

static ota_status assign(ota_session *session, const char *text, const char *places, int method,
                         ota_error *error) {
    const ota_config *config = &session->model->config;
    const char *at = places;
    if (at == NULL) {
        memset(session->assigned, method, (size_t)(config->layers * config->heads));
        return OTA_OK;
    }
    do {
        place one;
        if (!read_place(&at, &one)) {
            (void)ota_refuse(error, OTA_EINVAL, "\"%.80s\": what follows @ is no list of places",
                             text);
            return ota_advise(error, OTA_EINVAL,
                              "write METHOD@LAYER, METHOD@FIRST-LAST or METHOD@LAYER.HEAD");
        }
        if (one.first > one.last || one.last >= config->layers || one.head >= config->heads) {
            (void)ota_refuse(error, OTA_EINVAL, "\"%.80s\" names a layer or head that is not there",
                             text);
            return ota_advise(error, OTA_EINVAL,
                              "the model has layers 0 to %lld of heads 0 to %lld",
                              (long long)config->layers - 1, (long long)config->heads - 1);
        }
        for (int64_t layer = one.first; layer <= one.last; layer++)
            for (int64_t head = 0; head < config->heads; head++)
                if (one.head < 0 || one.head == head)
                    session->assigned[layer * config->heads + head] = (unsigned char)method;
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

static ota_status add_method(ota_session *session, const ota_session_options *options,
                             const char *text, ota_error *error) {
    if (session->method_count == OTA_METHODS_MOST)
        return ota_refuse(error, OTA_ELIMIT, "more than %d methods at once", OTA_METHODS_MOST - 1);
    ota_method *method = &session->methods[session->method_count];
    const char *mark = strrchr(text, '@');
    char *name = mark != NULL ? strndup(text, (size_t)(mark - text)) : strdup(text);
    if (name == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for a method");
    start_method(options, method);
    ota_status status = ota_method_parse(name, &method->problem, &method->options, error);
    free(name);
    if (status == OTA_OK)
        status =
            assign(session, text, mark != NULL ? mark + 1 : NULL, session->method_count, error);
    session->method_count++;
    return status;
}

/* With later queries able to change earlier rows, a causal model is causal no more. */
static void note_leak(ota_session *session) {
    char name[64];
    for (int k = 0; k < session->method_count; k++) {
        const ota_problem *problem = &session->methods[k].problem;
        const bool leaks =
            problem->columns == OTA_COLUMNS_EXACT || problem->columns == OTA_COLUMNS_RELAXED ||
            problem->columns == OTA_COLUMNS_CAPPED || problem->columns == OTA_COLUMNS_ELASTIC;
        if (!leaks || !session->model->architecture->causal) continue;
        (void)ota_method_name(problem, name, sizeof name);
        (void)snprintf(session->warning, sizeof session->warning,
                       "%s couples all rows, so later tokens change the attention of earlier ones; "
                       "online and prefix columns do not",
                       name);
        return;
    }
}

static ota_status check_cache(const ota_session *session, const ota_session_options *options,
                              ota_error *error) {
    char name[64];
    for (int k = 0; k < session->method_count && options->cache > 0; k++) {
        const ota_problem *problem = &session->methods[k].problem;
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
    session->assigned = calloc((size_t)(config->layers * config->heads), 1);
    if (session->assigned == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a session");
    start_method(options, &session->methods[0]);
    session->method_count = 1;
    for (int64_t k = 0; k < options->method_count; k++) {
        const ota_status status = add_method(session, options, options->methods[k], error);
        if (status != OTA_OK) return status;
    }
    if (options->window != NULL) {
        session->windowed = true;
        memcpy(session->window, options->window, sizeof session->window);
    }
    if (options->sink != NULL) {
        session->sinking = true;
        session->sink = *options->sink;
    }
    note_leak(session);
    return check_cache(session, options, error);
}
