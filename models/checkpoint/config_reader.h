/* config_reader.h: Keys of a JSON object, one after the other; what was not asked for is refused in the end. */
#ifndef OTATTN_MODELS_CONFIG_READER_H
#define OTATTN_MODELS_CONFIG_READER_H

#include "config.h"

enum { OTA_READER_KEYS = 96 };

/* An object of the file, and which of its keys were asked for. */
typedef struct ota_reader {
    const char *path;
    const json_t *tree;
    const char *read[OTA_READER_KEYS];
    int count;
    ota_error *error;
} ota_reader;

/* "key": rule */
ota_status ota_reader_refuse(const ota_reader *reader, const char *key, const char *rule);
/* NULL where the key is missing or null. */
const json_t *ota_reader_value(ota_reader *reader, const char *key);
/* `out` stays as it is where the value is NULL. */
ota_status ota_reader_truth(ota_reader *reader, const char *key, const json_t *value, bool *out);
ota_status ota_reader_number(ota_reader *reader, const char *key, const json_t *value, double *out);
ota_status ota_reader_real(ota_reader *reader, const char *key, double *out);
/* null holds as a missing key only where transformers takes it: there is no number to stand for it. */
ota_status ota_reader_key(ota_reader *reader, const ota_config_key *key, ota_config *config);
/* Every key of the object was read, is null, or is a row of ignored.c; `inside` names the rotary object, or is NULL. */
ota_status ota_reader_refuse_rest(const ota_reader *reader, const ota_architecture *architecture,
                                  const char *inside);
/* config_rope.c: rotary settings stand at the top in older files and in an object of their own in newer ones */
ota_status ota_reader_rope(ota_reader *reader, const ota_architecture *architecture,
                           ota_config *config);

#endif
