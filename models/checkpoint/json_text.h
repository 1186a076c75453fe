/* Text to a JSON tree by jansson, which calls a text broken, or reads another one, where memory is short. */
#ifndef OTATTN_MODELS_JSON_TEXT_H
#define OTATTN_MODELS_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "files.h"

/* NULL where the text is not valid JSON, by *cause, there was no memory for its tree (*no_memory true), or the ending has
 * ended it, which its next look says. */
json_t *ota_json_text(const char *text, size_t size, size_t flags, ota_ending *ending,
                      json_error_t *cause, bool *no_memory);

/* One line, which the caller frees; NULL: no memory. */
char *ota_json_line(const json_t *value);

#endif
