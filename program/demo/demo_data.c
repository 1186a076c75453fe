/* The demo's data, from the bytes that the build put into the program.
 *
 *     safetensors = 8 bytes length, JSON header, arrays;  query key value [DEMO_HEADS, count, width] f32
 *
 * The bytes are our own (data/demo), so what is checked here is that they are what this program was
 * written for; files of others go through safetensors.c. */
#include "demo.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/little_endian.h"
#include "program/report/embedded.h"

static double *widen(const unsigned char *bytes, size_t count) {
    double *wide = cli_noted(malloc(count * sizeof *wide));
    for (size_t index = 0; wide != NULL && index < count; index++) {
        uint32_t word;
        float narrow;
        memcpy(&word, bytes + index * sizeof word, sizeof word);
        word = ota_little_32(word);
        memcpy(&narrow, &word, sizeof narrow);
        wide[index] = (double)narrow;
    }
    return wide;
}

/* The array `name`, whose shape must be `count` x `width` per head; NULL when it is not. */
static double *read_tensor(const json_t *header, const char *name, const unsigned char *arrays,
                           size_t size, int64_t *count, int64_t *width) {
    json_int_t heads = 0, rows = 0, columns = 0, begin = 0, end = 0;
    const char *type = NULL;
    json_t *entry = json_object_get(header, name);
    if (json_unpack(entry, "{s:s, s:[I,I,I!], s:[I,I!]}", "dtype", &type, "shape", &heads, &rows,
                    &columns, "data_offsets", &begin, &end) != 0)
        return NULL;
    if (strcmp(type, "F32") != 0 || heads != DEMO_HEADS || rows < 1 || rows > 512 || columns < 1 ||
        columns > 512 || begin < 0 || end < begin || (size_t)end > size ||
        end - begin != heads * rows * columns * 4)
        return NULL;
    if ((*count != 0 && *count != rows) || (*width != 0 && *width != columns)) return NULL;
    *count = rows;
    *width = columns;
    return widen(arrays + begin, (size_t)(heads * rows * columns));
}

static bool read_texts(demo_data *data) {
    const char *tokens = NULL, *layers = NULL, *heads = NULL;
    if (json_unpack(data->metadata, "{s:s, s:s, s:s, s:s, s:s}", "sentence", &data->sentence,
                    "model", &data->model, "tokens", &tokens, "layers", &layers, "heads",
                    &heads) != 0)
        return false;
    data->token_array = json_loads(tokens, 0, NULL);
    const char *const lists[2] = {layers, heads};
    int64_t *const places[2] = {data->layers, data->heads};
    for (int list = 0; list < 2; list++) {
        json_int_t first, second;
        json_t *numbers = json_loads(lists[list], 0, NULL);
        const int failed = json_unpack(numbers, "[I,I!]", &first, &second);
        json_decref(numbers);
        if (failed) return false;
        places[list][0] = first;
        places[list][1] = second;
    }
    if (json_array_size(data->token_array) != (size_t)data->count) return false;
    data->tokens = cli_noted(calloc((size_t)data->count, sizeof *data->tokens));
    if (data->tokens == NULL) return false;
    for (int64_t index = 0; index < data->count; index++) {
        const char *token = json_string_value(json_array_get(data->token_array, (size_t)index));
        if (token == NULL) return false;
        data->tokens[index] = token;
    }
    return true;
}

bool demo_data_load(demo_data *data) {
    memset(data, 0, sizeof *data);
    const cli_embedded *file = cli_embedded_find("demo.safetensors");
    uint64_t length;
    if (file == NULL || file->size < sizeof length) return false;
    memcpy(&length, file->bytes, sizeof length);
    length = ota_little_64(length);
    if (length > file->size - sizeof length) return false;
    json_t *header = json_loadb((const char *)file->bytes + sizeof length, (size_t)length, 0, NULL);
    const unsigned char *arrays = file->bytes + sizeof length + length;
    const size_t size = file->size - sizeof length - (size_t)length;
    data->query = read_tensor(header, "query", arrays, size, &data->count, &data->width);
    data->key = read_tensor(header, "key", arrays, size, &data->count, &data->width);
    data->value = read_tensor(header, "value", arrays, size, &data->count, &data->width);
    data->metadata = json_incref(json_object_get(header, "__metadata__"));
    json_decref(header);
    if (data->query != NULL && data->key != NULL && data->value != NULL && read_texts(data))
        return true;
    demo_data_free(data);
    return false;
}

void demo_data_free(demo_data *data) {
    free(data->tokens);
    free(data->query);
    free(data->key);
    free(data->value);
    json_decref(data->token_array);
    json_decref(data->metadata);
    memset(data, 0, sizeof *data);
}
