/* Text to a JSON tree by jansson, which calls a text broken, or reads another one, where memory is short. */
#ifndef OTATTN_MODELS_JSON_TEXT_H
#define OTATTN_MODELS_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* NULL where the text is not valid JSON, by *cause, or there was no memory for its tree (*no_memory true). */
json_t *ota_json_text(const char *text, size_t size, size_t flags, json_error_t *cause,
                      bool *no_memory);

#endif
