/* libFuzzer on hostile tokenizer.json files: see fuzz_tokenizer.h for what must hold. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char folder[128], path[192];
    fuzz_put(fuzz_folder(folder), "tokenizer.json", bytes, size);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    fuzz_open(path, bytes, size);
    (void)unlink(path);
    (void)rmdir(folder);
    return 0;
}
