/* libFuzzer on hostile tokenizer.json files, and behind a NUL each what lies beside them, as in
 * fuzz_tokenizer_lists.c: see fuzz_tokenizer.h for what must hold. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char *const names[] = {"tokenizer.json", FUZZ_BESIDE};
    char folder[128], path[192];
    fuzz_folder(folder);
    fuzz_put_parts(folder, names, 5, bytes, size);
    /* A file by itself, or with what lies beside it. */
    const int alone = size == 0 || memchr(bytes, 0, size) == NULL;
    snprintf(path, sizeof path, "%s%s", folder, alone ? "/tokenizer.json" : "");
    fuzz_open(path, bytes, size);
    fuzz_remove(folder, names, 5);
    return 0;
}
