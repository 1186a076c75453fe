/* Strict reading of JSON files, and of single keys of an object by the table of architectures. */
#include "config_reader.h"

#include "base/base.h"
#include "json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MOST = 64 };

/* ---- JSON ---- */

static bool too_deep(const json_t *tree, int depth) {
    const char *key;
    json_t *value;
    size_t index;
    if (depth > DEPTH_MOST) return true;
    if (json_is_object(tree)) {
        json_object_foreach((json_t *)(uintptr_t)tree, key, value) {
            if (too_deep(value, depth + 1)) return true;
        }
    } else if (json_is_array(tree)) {
        json_array_foreach(tree, index, value) {
            if (too_deep(value, depth + 1)) return true;
        }
    }
    return false;
}

ota_status ota_json_file(const char *path, bool trusted, int64_t most, ota_ending *ending,
                         json_t **tree, ota_error *error) {
    char *text;
    size_t size;
    *tree = NULL;
    ota_status status = ota_file_text(path, trusted, most, ending, &text, &size, error);
    if (status != OTA_OK) return status;
    json_error_t cause;
    bool no_memory;
    *tree = ota_json_text(text, size, JSON_REJECT_DUPLICATES, ending, &cause, &no_memory);
    free(text);
    if (no_memory)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for %s", ota_path_end(path));
    if (*tree == NULL && (status = ota_look(ending, 0, error)) != OTA_OK) return status;
    if (*tree == NULL)
        return ota_refuse_at(error, path, cause.position > 0 ? cause.position : 0,
                             "not valid JSON: %.120s", cause.text);
    if (!json_is_object(*tree))
        status = ota_refuse_at(error, path, 0, "the file must hold a JSON object");
    else if (too_deep(*tree, 1))
        status = ota_refuse_at(error, path, 0, "the JSON is nested more than 64 deep");
    if (status != OTA_OK) {
        json_decref(*tree);
        *tree = NULL;
    }
    return status;
}

/* ---- single keys ---- */

ota_status ota_reader_refuse(const ota_reader *r, const char *key, const char *rule) {
    return ota_refuse_at(r->error, r->path, 0, "\"%s\": %s", key, rule);
}

static bool was_read(const ota_reader *r, const char *key) {
    for (int k = 0; k < r->count; k++)
        if (strcmp(r->read[k], key) == 0) return true;
    return false;
}

const json_t *ota_reader_value(ota_reader *r, const char *key) {
    const json_t *value = json_object_get(r->tree, key);
    if (!was_read(r, key) && r->count < OTA_READER_KEYS) r->read[r->count++] = key;
    return value == NULL || json_is_null(value) ? NULL : value;
}

static ota_status read_integer(const ota_reader *r, const char *name, const json_t *value,
                               const ota_config_key *key, int64_t *field) {
    if (!json_is_integer(value)) return ota_reader_refuse(r, name, "must be an exact integer");
    *field = json_integer_value(value);
    if (*field < (int64_t)key->least || *field > (int64_t)key->most)
        return ota_refuse_at(r->error, r->path, 0, "\"%s\" is %lld, outside %lld to %lld", name,
                             (long long)*field, (long long)key->least, (long long)key->most);
    return OTA_OK;
}

ota_status ota_reader_truth(ota_reader *r, const char *key, const json_t *value, bool *out) {
    if (value == NULL) return OTA_OK;
    if (!json_is_boolean(value)) return ota_reader_refuse(r, key, "must be true or false");
    *out = json_is_true(value);
    return OTA_OK;
}

ota_status ota_reader_number(ota_reader *r, const char *key, const json_t *value, double *out) {
    if (value == NULL) return OTA_OK;
    if (!json_is_number(value)) return ota_reader_refuse(r, key, "must be a number");
    *out = json_number_value(value);
    return OTA_OK;
}

ota_status ota_reader_real(ota_reader *r, const char *key, double *out) {
    return ota_reader_number(r, key, ota_reader_value(r, key), out);
}

/* Factors, caps, bases and the like: 0 stands for none, which null says. */
static ota_status read_positive(ota_reader *r, const char *key, const json_t *value, double *out) {
    const ota_status status = ota_reader_number(r, key, value, out);
    if (status != OTA_OK || value == NULL || *out > 0) return status;
    return ota_reader_refuse(r, key, "must be above 0");
}

ota_status ota_reader_key(ota_reader *r, const ota_config_key *key, ota_config *config) {
    const char *name = key->hub;
    const json_t *value = name != NULL ? ota_reader_value(r, name) : NULL;
    const json_t *other = key->other != NULL ? ota_reader_value(r, key->other) : NULL;
    if (other != NULL) {
        name = key->other;
        value = other;
    }
    if (name != NULL && value == NULL && key->standard == (double)OTA_REQUIRED)
        return ota_reader_refuse(r, name, "is missing");
    ota_config_set(config, key, key->standard);
    void *field = (char *)config + key->offset;
    const bool null = name != NULL && value == NULL && json_object_get(r->tree, name) != NULL;
    switch (key->kind) {
    case OTA_KEY_TRUTH_OR_NULL:
        if (null) *(bool *)field = false;
        return ota_reader_truth(r, name, value, field);
    case OTA_KEY_TRUTH:
        if (null && key->standard != 0) return ota_reader_refuse(r, name, "must be true or false");
        return ota_reader_truth(r, name, value, field);
    case OTA_KEY_NOT: {
        if (null && key->standard != 0) return ota_reader_refuse(r, name, "must be true or false");
        bool contrary = !*(const bool *)field;
        const ota_status status = ota_reader_truth(r, name, value, &contrary);
        *(bool *)field = !contrary;
        return status;
    }
    case OTA_KEY_REAL_OR_NULL:
        if (null) *(double *)field = 0;
        return read_positive(r, name, value, field);
    case OTA_KEY_REAL: return read_positive(r, name, value, field);
    case OTA_KEY_INTEGER_OR_NULL:
        if (null) *(int64_t *)field = 0;
        return value == NULL ? OTA_OK : read_integer(r, name, value, key, field);
    case OTA_KEY_INTEGER: break;
    }
    if (null && key->standard > 0) return ota_reader_refuse(r, name, "must be an exact integer");
    return value == NULL ? OTA_OK : read_integer(r, name, value, key, field);
}

/* ---- what nothing read ---- */

/* A number to 15 digits, whatever way it is written, and anything else as compact JSON, cut to what a sentence takes. */
static void show_value(const json_t *value, char *text, size_t size) {
    if (json_is_number(value)) {
        (void)ota_snprintf(text, size, "%.15g", json_number_value(value));
        return;
    }
    char *whole = ota_json_line(value);
    (void)ota_snprintf(text, size, "%s", whole != NULL ? whole : "?");
    free(whole);
}

ota_status ota_reader_refuse_rest(const ota_reader *r, const ota_architecture *architecture,
                                  const char *inside) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)r->tree, key, value) {
        if (was_read(r, key) || json_is_null(value)) continue;
        const ota_ignored *row = ota_ignored_find(
            inside != NULL ? OTA_IGNORED_ROPE : OTA_IGNORED_CONFIG, architecture, key);
        char text[64];
        show_value(value, text, sizeof text);
        if (row != NULL && ota_ignored_takes(row, text)) continue;
        if (row != NULL) {
            (void)ota_refuse_at(r->error, r->path, 0,
                                "\"%.80s\" is %s, and such models are not run", key, text);
            return ota_advise(r->error, OTA_UNSUPPORTED, "%s is the value that is; " OTA_ELSEWHERE,
                              row->values);
        }
        (void)ota_refuse_at(
            r->error, r->path, 0, "\"%.80s\"%s%s is no key that %s checkpoints have", key,
            inside != NULL ? " in " : "", inside != NULL ? inside : "", architecture->name);
        return ota_advise(
            r->error, OTA_UNSUPPORTED,
            "take it out of the file if the model does not depend on it; " OTA_ELSEWHERE);
    }
    return OTA_OK;
}
