/* libFuzzer on a hostile config.json and, by the first byte, a hostile index of shards: see fuzz_model.h
 * for what must hold. Start it with a folder of a few small true files, each behind a 0 (config) or a 1
 * (index). */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char config[] =
    "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 2,"
    "\"vocab_size\": 2, \"n_positions\": 2}";
static const char shard[] =
    "\x40\0\0\0\0\0\0\0"
    "{\"wte.weight\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}"
    "\0\0\0\0";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char folder[96], path[160];
    if (size == 0) return 0;
    snprintf(folder, sizeof folder, "/dev/shm/otattn-fuzz-%ld", (long)getpid());
    mkdir(folder, 0700);
    const int index = bytes[0] & 1;
    snprintf(path, sizeof path, "%s/config.json", folder);
    fuzz_write(path, index ? (const void *)config : bytes + 1,
               index ? sizeof config - 1 : size - 1);
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    fuzz_write(path, shard, sizeof shard - 1);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    if (index)
        fuzz_write(path, bytes + 1, size - 1);
    else
        unlink(path);
    fuzz_open(folder);
    return 0;
}
