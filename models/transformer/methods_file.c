/* A file of methods, METHOD@PLACE for as many layers and heads as a model has:
 *
 *   {"format": "otattn methods", "version": 1, "layers": 30, "heads": 9,
 *    "methods": [{"place": "0-3,7.2", "method": "softmax/capped:4{temperature=0.9}"}, ...]}
 *
 * Entries are applied in order, the last one wins; without a place an entry means every head. "layers" and
 * "heads" may be left out; where they stand they must be the model's. "note" (a text, anywhere) and
 * "measured" (anything, at the top or in an entry) are for the reader. Another key is refused. */
#include <stdio.h>
#include <string.h>

#include "session.h"

enum { FILE_BYTES = 1 << 22 };

typedef struct reader {
    ota_session *session;
    const ota_session_options *options;
    const char *path;
    ota_error *error;
} reader;

static bool known(const char *key, const char *const *words, size_t count) {
    for (size_t k = 0; k < count; k++)
        if (strcmp(key, words[k]) == 0) return true;
    return strcmp(key, "note") == 0 || strcmp(key, "measured") == 0;
}

static ota_status check_keys(const reader *r, json_t *object, const char *where,
                             const char *const *words, size_t count) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (!known(key, words, count))
            return ota_refuse_at(r->error, r->path, 0, "%s\"%.40s\" is no key of a file of methods",
                                 where, key);
        if (strcmp(key, "note") == 0 && !json_is_string(value))
            return ota_refuse_at(r->error, r->path, 0, "%s\"note\" must be a text", where);
    }
    return OTA_OK;
}

static ota_status check_size(const reader *r, const json_t *tree, const char *key, int64_t wanted) {
    const json_t *value = json_object_get(tree, key);
    if (value == NULL) return OTA_OK;
    if (!json_is_integer(value))
        return ota_refuse_at(r->error, r->path, 0, "\"%s\" must be an exact integer", key);
    if (json_integer_value(value) == wanted) return OTA_OK;
    (void)ota_refuse(r->error, OTA_EINVAL, "%s: \"%s\" is %lld, and the model has %lld",
                     ota_path_end(r->path), key, (long long)json_integer_value(value),
                     (long long)wanted);
    return ota_advise(r->error, OTA_EINVAL, "the file was made for another model");
}

/* The sentence of a refused method or place, with the file and the entry in front of it. */
static ota_status say_where(const reader *r, size_t entry, ota_status status) {
    ota_error inner;
    if (r->error == NULL) return status;
    inner = *r->error;
    (void)ota_refuse(r->error, status, "%s: methods[%zu]: %.300s", ota_path_end(r->path), entry,
                     inner.message);
    return inner.hint[0] != '\0' ? ota_advise(r->error, status, "%s", inner.hint) : status;
}

static ota_status read_entry(const reader *r, json_t *entry, size_t index) {
    static const char *const words[] = {"place", "method"};
    char where[48];
    (void)ota_snprintf(where, sizeof where, "methods[%zu]: ", index);
    if (!json_is_object(entry))
        return ota_refuse_at(r->error, r->path, 0, "%smust be an object", where);
    ota_status status = check_keys(r, entry, where, words, 2);
    if (status != OTA_OK) return status;
    const json_t *method = json_object_get(entry, "method"),
                 *place = json_object_get(entry, "place");
    if (!json_is_string(method) || (place != NULL && !json_is_string(place)))
        return ota_refuse_at(r->error, r->path, 0, "%s\"%s\" must be a text", where,
                             json_is_string(method) ? "place" : "method");
    status = ota_session_set_method(r->session, r->options, json_string_value(method),
                                    json_string_value(place), r->error);
    return status == OTA_OK ? OTA_OK : say_where(r, index, status);
}

static ota_status read_tree(const reader *r, json_t *tree) {
    static const char *const words[] = {"format", "version", "layers", "heads", "methods"};
    const ota_config *config = &r->session->model->config;
    ota_status status = check_keys(r, tree, "", words, sizeof words / sizeof *words);
    if (status != OTA_OK) return status;
    const char *format = json_string_value(json_object_get(tree, "format"));
    if (format == NULL || strcmp(format, "otattn methods") != 0)
        return ota_refuse_at(r->error, r->path, 0, "\"format\" must be \"otattn methods\"");
    const json_t *version = json_object_get(tree, "version");
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        return ota_refuse_at(r->error, r->path, 0, "\"version\" must be 1");
    if ((status = check_size(r, tree, "layers", config->layers)) != OTA_OK) return status;
    if ((status = check_size(r, tree, "heads", config->heads)) != OTA_OK) return status;
    const json_t *methods = json_object_get(tree, "methods");
    if (!json_is_array(methods))
        return ota_refuse_at(r->error, r->path, 0, "\"methods\" must be an array");
    for (size_t k = 0; status == OTA_OK && k < json_array_size(methods); k++)
        status = read_entry(r, json_array_get(methods, k), k);
    return status;
}

ota_status ota_session_methods_file(ota_session *session, const ota_session_options *options,
                                    const char *path, ota_error *error) {
    json_t *tree;
    ota_status status = ota_json_file(path, true, FILE_BYTES, NULL, &tree, error);
    if (status != OTA_OK) return status;
    const reader r = {.session = session, .options = options, .path = path, .error = error};
    status = read_tree(&r, tree);
    json_decref(tree);
    return status;
}
